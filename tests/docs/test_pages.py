"""What the library writes of its documents is what it says, and every page of the site has its place."""

from __future__ import annotations

from pathlib import Path

import pytest

from layoutalg.arch import ARCHS
from tests.docs.build_site import DOCS, NAVIGATION, TOP, pages, relinked
from tests.docs.charts import DRAWN, charts
from tests.docs.docstrings import as_rst
from tests.docs.links import dead_links
from tests.docs.pages import NEEDS, TILES, cookbook, hardware, needs

ROOT = Path(__file__).parents[2]


def lines(name: str) -> list[str]:
    return (DOCS / name).read_text(encoding="utf-8").splitlines()


def test_the_facts_are_those_of_the_records() -> None:
    assert hardware().splitlines() == lines("hardware.md")
    assert all(f"| {name} |" in "\n".join(lines("hardware.md")) for name in ARCHS)


def test_the_cookbook_says_what_is_found() -> None:
    """The first tile of every table here, all of them in the deep run."""
    shown = needs(1).splitlines()
    assert [line for line in shown if line not in lines("cookbook.md")] == []
    assert sum(line.startswith("| 16 x 16 |") for line in shown) == sum(len(types) for *_, types in NEEDS)


@pytest.mark.deep
def test_all_of_the_cookbook_says_what_is_found() -> None:
    assert cookbook().splitlines() == lines("cookbook.md")
    assert len(TILES) >= 8


def test_the_navigation_leads_to_every_page_once() -> None:
    listed = [name for names in pages().values() for name in names]
    assert len(listed) == len(set(listed))
    there = {path.relative_to(DOCS).with_suffix("").as_posix() for path in DOCS.rglob("*.md")}
    assert there - {"index"} <= set(listed)
    assert not [name for names in NAVIGATION.values() for name in names if name != name.lower()]


def test_links_of_a_staged_page_lead_where_they_led() -> None:
    readme, guide = ROOT / "README.md", DOCS / "analysis.md"
    assert relinked("[a](docs/jobs.md#x) [b](https://c.d)", readme, Path("project/readme.md")) == (
        "[a](../jobs.md#x) [b](https://c.d)"
    )
    assert relinked("[a](../README.md)", guide, Path("analysis.md")) == "[a](project/readme.md)"
    assert relinked("[a](docs/figures.json) ![b](docs/swizzle.svg)", readme, Path("project/readme.md")) == (
        "[a](<path:../files/docs/figures.json>) ![b](../swizzle.svg)"
    )
    kept = "```\n[a](../README.md)\n```"
    assert relinked(kept, guide, Path("analysis.md")) == kept
    assert all((ROOT / name).exists() for name in TOP)


def test_dead_links_are_found(tmp_path: Path) -> None:
    (tmp_path / "a.html").write_text('<a href="b.html#there">x</a><a id="here" href="https://c.d">y</a>')
    (tmp_path / "b.html").write_text('<p id="there"><a href="a.html#here">x</a><img src="c.png">')
    assert dead_links(tmp_path) == ["b.html: c.png"]
    (tmp_path / "c.png").touch()
    (tmp_path / "b.html").write_text('<a href="a.html#nowhere">')
    assert sorted(dead_links(tmp_path)) == ["a.html: b.html#there", "b.html: a.html#nowhere"]


def test_docstrings_are_text_and_no_markup() -> None:
    text = ["A *star*, a `name`s and a_ | b.", "", "    a table  *x*", "", "- one `x`", "", ">>> 1 * 2", "2"]
    assert as_rst(text) == [
        r"A \*star\*, a ``name``\ s and a\_ \| b.", "", "::", "", "    a table  *x*", "", "- one ``x``", "",
        ">>> 1 * 2", "2", "",
    ]  # fmt: skip


def test_charts_draw_the_measured_tables() -> None:
    files = charts()
    assert set(files) == {"charts.md", *(f"charts/{name}.svg" for name in DRAWN)}
    assert all(text.startswith("<svg") for name, text in files.items() if name.endswith(".svg"))
