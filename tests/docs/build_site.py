"""The site: pages of docs/ staged, with notebooks, charts and the reference of the faces, built by Sphinx.

    python -m tests.docs.build_site SITE            what `make docs` runs: SITE/index.html, every link checked
    python -m tests.docs.build_site SITE linkcheck  asks for the links to other sites, which needs a network

Sphinx reads build/docs-pages, which is written anew: docs/, the documents of the top, and what the library
makes here.  Links to files that are no pages lead to copies of the files.
"""

from __future__ import annotations

import importlib
import importlib.util
import re
import shutil
import sys
from collections.abc import Mapping, Sequence
from os.path import relpath
from pathlib import Path

import layoutalg
from tests.docs.charts import charts
from tests.docs.links import dead_links
from tests.docs.notebooks import SCRIPTS, as_ipynb, as_markdown, cells, ran, title

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
STAGE = ROOT / "build" / "docs-pages"
BLOCK = re.compile(r"^```.*?^```$", re.M | re.S)
PICTURES = (".svg", ".png")
"""Files of docs/ that stand in the site where they stand here."""

TOP = ("README.md", "CHANGELOG.md", "CONTRIBUTING.md", "DESIGN.md", "SECURITY.md")
"""Documents of the top that are pages, under project/."""

NAVIGATION: Mapping[str, Sequence[str]] = {
    "Learn": ("learn", "first_session", "coming_from", "jobs", "faq"),
    "Layouts": (
        "analysis", "synthesis", "algebra", "index_code", "cookbook", "pictures", "kernel_reading", "ci",
    ),
    "Kernels": ("kernel_language", "hopper", "kernels", "ops", "tuning", "published", "timing"),
    "Theory and facts": ("theory", "hardware", "robustness", "comparison", "measured", "charts"),
    "Reference": ("api/index", "project/index"),
}  # fmt: skip
"""The pages by part, in order; what docs/ holds besides is listed at the end of the layouts."""

ROOMS = [name for name in re.findall(r"^    (\w+)  +\w", layoutalg.__doc__ or "", re.M) if name != "cli"]
FACES = (
    "layoutalg",
    *(f"layoutalg.{n}" for n in (*ROOMS, "ops", "widgets", "dtype", "budget", "errors", "limits")),
)
"""The modules of the reference: the rooms that the text of the library names, and what stands beside."""


def pages() -> dict[str, Sequence[str]]:
    """NAVIGATION with the pages that docs/ has and it does not name, and without those that are not there."""
    there = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")} - {"index"}
    made = {"charts", "api/index", "project/index"}
    named = {name for names in NAVIGATION.values() for name in names}
    parts = {part: [n for n in names if n in there | made] for part, names in NAVIGATION.items()}
    parts["Layouts"] += sorted(there - named)
    return dict(parts)


def _place(source: Path) -> Path | None:
    """Where a document of the repository stands among the staged pages; None for what is no page."""
    if source.suffix == ".md" and source.is_relative_to(DOCS):
        return source.relative_to(DOCS)
    if source.parent == ROOT and source.name in TOP:
        return Path("project") / source.name.lower()
    if source == ROOT / "examples":
        return Path("project/examples.md")
    return None


def relinked(text: str, source: Path, place: Path) -> str:
    """A document's text as it stands at `place`: its links lead to pages, or to copies of files."""

    def link(found: re.Match[str]) -> str:
        name, sharp, anchor = found[1].partition("#")
        to = (source.parent / name).resolve()
        if "://" in name or not name or not to.exists():
            return found[0]
        page = _place(to)
        if page is not None:
            return f"]({relpath(page, place.parent)}{sharp}{anchor})"
        if to.is_relative_to(DOCS) and to.suffix in PICTURES:
            return f"]({relpath(to.relative_to(DOCS), place.parent)})"
        copy = Path("files") / to.relative_to(ROOT)
        (STAGE / copy).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(to, STAGE / copy)
        return f"](<path:{relpath(copy, place.parent)}>)"

    parts, last = [], 0
    for block in BLOCK.finditer(text):
        parts += [re.sub(r"\]\(([^)\s]+)\)", link, text[last : block.start()]), block[0]]
        last = block.end()
    return "".join([*parts, re.sub(r"\]\(([^)\s]+)\)", link, text[last:])])


def _write(place: str | Path, text: str) -> None:
    path = STAGE / place
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(text, encoding="utf-8")


def _toctree(caption: str, names: Sequence[str]) -> str:
    listed = "\n".join(names)
    return f"\n:::{{toctree}}\n:hidden:\n:caption: {caption}\n\n{listed}\n:::\n"


def _stage_documents() -> None:
    for source in [*DOCS.rglob("*.md"), *(ROOT / name for name in TOP)]:
        if source.exists():
            place = _place(source)
            assert place is not None
            _write(place, relinked(source.read_text(encoding="utf-8"), source, place))
    index = STAGE / "index.md"
    trees = "".join(_toctree(part, names) for part, names in pages().items())
    index.write_text(index.read_text(encoding="utf-8") + trees, encoding="utf-8")
    here = [name.removesuffix(".md").lower() for name in TOP if (ROOT / name).exists()] + ["examples"]
    _write(
        "project/index.md", "# The project\n\n:::{toctree}\n:maxdepth: 1\n\n" + "\n".join(here) + "\n:::\n"
    )


def _stage_examples() -> None:
    parts = ["# Examples\n\nScripts that run top to bottom.\n"]
    for script in sorted((ROOT / "examples").glob("*.py")):
        parts.append(f"## {script.stem}\n\n```python\n{script.read_text(encoding='utf-8')}```\n")
    _write("project/examples.md", "\n".join(parts))


def _stage_notebooks() -> None:
    names = []
    for script in SCRIPTS:
        found = ran(cells(script.read_text(encoding="utf-8")))
        page = f"notebooks/{script.stem}"
        note = f"[This page as a notebook](<path:{script.stem}.ipynb>)"
        head, _, rest = as_markdown(found).partition("\n")
        _write(f"{page}.md", f"{head}\n\n{note}\n{rest}")
        _write(f"{page}.ipynb", as_ipynb(found))
        names.append(f"{title(found)} <{page}>")
    index = STAGE / "pictures.md"
    tree = "\n:::{toctree}\n:maxdepth: 1\n\n" + "\n".join(names) + "\n:::\n"
    index.write_text(index.read_text(encoding="utf-8") + tree, encoding="utf-8")


def _stage_reference() -> None:
    """A page per module: its text and its members; of the root the text alone, whose names are its rooms'."""
    rows = []
    for name in FACES:
        module = importlib.import_module(name)
        options = ["members", "imported-members"] if hasattr(module, "__all__") else ["members"]
        directive = [
            f".. automodule:: {name}",
            *(f"   :{option}:" for option in options if name != "layoutalg"),
        ]
        _write(f"api/{name}.rst", "\n".join([name, "=" * len(name), "", *directive, ""]))
        first = (module.__doc__ or "").partition("\n")[0].removeprefix("layoutalg: ")
        rows.append(f"| [{name}]({name}.rst) | {first} |")
    head = "# Reference\n\nWhat each room offers, from its docstrings.\n\n| module | holds |\n|---|---|\n"
    tree = "\n\n:::{toctree}\n:hidden:\n\n" + "\n".join(FACES) + "\n:::\n"
    _write("api/index.md", head + "\n".join(rows) + tree)


EXPLORE = """
<p><a href="explore.html">Explore a tile in the browser</a>: sliders and pictures, and the library itself
behind them.</p>
"""


def _stage_explorer() -> bool:
    """explore.html beside the pages, where this tree has the module that writes it and Pyodide can be had."""
    extra = STAGE / "_extra"
    extra.mkdir()
    if importlib.util.find_spec("layoutalg.page") is None:
        return False
    try:
        importlib.import_module("layoutalg.page").write_explorer(extra)
    except layoutalg.LayoutAlgError as error:
        print(f"without explore.html: {error}", file=sys.stderr)
        return False
    index = STAGE / "index.md"
    index.write_text(index.read_text(encoding="utf-8") + EXPLORE, encoding="utf-8")
    return True


def stage() -> bool:
    """Write build/docs-pages anew; whether explore.html is there."""
    shutil.rmtree(STAGE, ignore_errors=True)
    STAGE.mkdir(parents=True)
    shutil.copytree(DOCS / "_static", STAGE / "_static")
    shutil.copyfile(DOCS / "conf.py", STAGE / "conf.py")
    for picture in (path for path in DOCS.rglob("*") if path.suffix in PICTURES):
        (STAGE / picture.relative_to(DOCS)).parent.mkdir(parents=True, exist_ok=True)
        shutil.copyfile(picture, STAGE / picture.relative_to(DOCS))
    _stage_documents()
    _stage_examples()
    _stage_notebooks()
    _stage_reference()
    for name, text in charts().items():
        _write(name, text)
    return _stage_explorer()


def main(words: Sequence[str]) -> int:
    """Stage, build, check; the exit code."""
    site, builder = Path(words[0]).resolve(), words[1] if words[1:] else "html"
    with_explorer = stage()
    sphinx = importlib.import_module("sphinx.cmd.build").main
    out = site if builder == "html" else ROOT / "build" / builder
    status: int = sphinx(
        ["-b", builder, "-W", "--keep-going", "-q", "-j", "2", "-d", str(ROOT / "build" / "doctrees"),
         str(STAGE), str(out)]
    )  # fmt: skip
    if status or builder != "html":
        return status
    dead = dead_links(site)
    print("\n".join(dead), file=sys.stderr)
    print(
        f"wrote {site / 'index.html'}: {len(list(site.rglob('*.html')))} pages"
        f"{'' if with_explorer else ', without explore.html'}, {len(dead)} dead links"
    )
    return 1 if dead else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
