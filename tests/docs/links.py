"""Links of a built site that lead nowhere: files and anchors, inside of the folder alone.

python -m tests.docs.links site       prints each dead link, and exits 1 where there is one
"""

from __future__ import annotations

import sys
from html.parser import HTMLParser
from pathlib import Path
from urllib.parse import unquote, urlsplit


class _Page(HTMLParser):
    """What a page links to, and the names by which its parts can be linked to."""

    def __init__(self) -> None:
        super().__init__()
        self.links: list[str] = []
        self.names: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        for name, value in attrs:
            if value and name in ("href", "src") and tag != "base":
                self.links.append(value)
            elif value and name in ("id", "name"):
                self.names.add(value)


def dead_links(site: Path) -> list[str]:
    """Each link of a page of the site whose file or anchor is not there, as `page: link`."""
    pages: dict[Path, _Page] = {}
    for path in site.rglob("*.html"):
        pages[path.resolve()] = page = _Page()
        page.feed(path.read_text(encoding="utf-8"))
    wrong = []
    for path, page in pages.items():
        for link in page.links:
            parts = urlsplit(link)
            if parts.scheme or parts.netloc:
                continue
            to = (path.parent / unquote(parts.path)).resolve() if parts.path else path
            to = to / "index.html" if to.is_dir() else to
            lost = parts.fragment and to in pages and unquote(parts.fragment) not in pages[to].names
            if not to.exists() or lost:
                wrong.append(f"{path.relative_to(site.resolve())}: {link}")
    return wrong


if __name__ == "__main__":
    found = dead_links(Path(sys.argv[1]))
    print("\n".join(found) or "every link leads somewhere")
    sys.exit(bool(found))
