"""report.html in a browser: it shows what the library counts, and can be used by pointer, keys and phone."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from layoutalg.page import Engine, PageRequest, parse_layout, report_html
from tests.browser.conftest import Opened

pytestmark = pytest.mark.deep

TILES = (
    "(64,64):(64,1)", "(33,20):(20,1)", "Sw<2,3,3> o 16 o (32,64):(72,1)", "Sw<1,2,-2> o 0 o (16,32):(32,1)",
    "(64,(8,12)):(8,(1,512))", "(8,8,8):(64,8,1)",
)  # fmt: skip
OPS = (
    "ld.shared.b16@col", "ld.shared.b32@row", "ldmatrix.x2", "st.shared.b64@row", "ld.global.b32@row",
)  # fmt: skip

SERVED = """
() => pageData.models.map((model) => {
  const stored = new Stored(model);
  return [[...stored.offsets()], model.accesses.map((access) => {
    const { warps, registers, tables } = new Threads(access, model);
    const out = [];
    for (let iteration = 0; iteration < tables[2].length; iteration++)
      for (let register = 0; register < registers; register++)
        for (let warp = 0; warp < warps; warp++)
          out.push([[warp, register, iteration], stored.services(null, access, [warp, register, iteration])]);
    return [access.spec, stored.numbers(null, access), out];
  })];
})
"""


@pytest.fixture(scope="module")
def report(browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Opened:
    path = tmp_path_factory.mktemp("report") / "report.html"
    accesses = ["ldmatrix.x4", "ld.shared.b16@col", "ld.global.b32@row"]
    path.write_text(
        report_html(PageRequest(["(64,96):(96,1)", "Sw<3,3,3> o 0 o (64,64):(64,1)"], accesses, dtype="f16"))
    )
    return Opened(browser, path.as_uri())


@pytest.fixture(autouse=True)
def quiet(report: Opened) -> Any:
    """Every test starts with the first layout, and none leaves a word on the console."""
    report.page.locator("#layout").select_option("0")
    report.page.locator("#access").select_option("0")
    report.page.mouse.move(0, 0)
    yield
    assert report.said == []


@pytest.mark.parametrize("text", TILES)
def test_the_page_shows_what_the_library_counts(browser: Any, tmp_path: Path, text: str) -> None:
    path = tmp_path / "report.html"
    path.write_text(report_html(PageRequest([text], OPS, dtype="f16")))
    opened = Opened(browser, path.as_uri())
    shown = opened.page.evaluate(SERVED)
    models = [model["text"] for model in opened.page.evaluate("pageData.models")]
    for model, (offsets, accesses) in zip(models, shown, strict=True):
        engine = Engine(parse_layout(model), "f16")
        assert offsets == engine.offsets(None, 0)
        for spec, numbers, services in accesses:
            assert numbers == engine.numbers(None, 0, spec)
            assert all(found == engine.services(None, 0, spec, place) for place, found in services)
            assert len(services) == numbers["instructions"]
    assert sum(len(accesses) for _, accesses in shown) >= 2 and opened.said == []
    opened.page.close()


def test_another_layout_has_other_numbers(report: Opened) -> None:
    engine = Engine(parse_layout("(64,96):(96,1)"), "f16")
    assert report.score() == engine.numbers(None, 0, "ldmatrix.x4")["total"] == 384
    report.page.locator("#layout").select_option("1")
    assert report.score() == 64 and "conflict-free" in report.text("#score")
    report.page.locator("#access").select_option("1")
    tile = Engine(parse_layout("Sw<3,3,3> o 0 o (64,64):(64,1)"), "f16")
    assert report.score() == tile.numbers(None, 0, "ld.shared.b16@col")["total"]
    assert report.page.locator("#pad").is_hidden() and report.page.locator("#covers").is_visible()


def test_pointing_at_an_element_shows_it_everywhere(report: Opened) -> None:
    report.page.locator("#tile").scroll_into_view_if_needed()
    box = report.page.locator("#tile").bounding_box()
    report.page.mouse.move(box["x"] + 46 + 3.5 * 46, box["y"] + 22 + 2.5 * 24)
    assert report.fact("element") == "(2, 3), flat index 194" and report.fact("offset") == "195 elements"
    assert report.fact("bank") == "1" and report.fact("lane").startswith("2 of warp 0")
    assert report.fact("wavefront") == "a1" and report.fact("same bank").startswith("3 other lanes")
    places = report.page.evaluate("[view.tile.at, view.memory.at, view.waves.at]")
    assert places == [[2, 3], [3, 1], [1, 0]]
    report.page.locator("#waves").scroll_into_view_if_needed()
    box = report.page.locator("#waves").bounding_box()
    width = report.page.evaluate("view.waves.parts.width")
    report.page.mouse.move(box["x"] + 46 + 0.5 * width, box["y"] + 22 + 0.5 * 24)
    assert report.fact("element") == "(0, 0), flat index 0"
    report.page.locator("#memory").scroll_into_view_if_needed()
    box = report.page.locator("#memory").bounding_box()
    report.page.mouse.move(box["x"] + 46 + 4.5 * 46, box["y"] + 22 + 0.5 * 24)
    assert report.fact("element").startswith("(0, 8)") and report.fact("lane").startswith("16 of warp 0")
    report.page.mouse.move(0, 0)
    assert report.fact("element") == "(0, 0), flat index 0"


def test_keys_are_enough(report: Opened) -> None:
    report.page.locator("#tile").focus()
    for key in ("ArrowRight", "ArrowRight", "ArrowDown"):
        report.page.keyboard.press(key)
    assert report.fact("element") == "(1, 2), flat index 129"
    report.page.keyboard.press("End")
    assert report.fact("element").startswith("(1, 95)")
    assert report.page.evaluate("document.getElementById('tile').scrollLeft") > 0
    report.page.keyboard.press("Control+Home")
    assert report.fact("element").startswith("(0, 0)")
    reached = set()
    report.page.locator("#layout").focus()
    for _ in range(12):
        reached.add(report.page.evaluate("document.activeElement.id"))
        report.page.keyboard.press("Tab")
    assert {"layout", "access", "label", "tile", "waves", "memory"} <= reached


@pytest.mark.parametrize("width", [360, 820])
def test_a_narrow_window_has_no_overhang(browser: Any, report: Opened, tmp_path: Path, width: int) -> None:
    path = tmp_path / "report.html"
    path.write_text(
        report_html(PageRequest(["Sw<3,3,3> o 0 o (64,64):(64,1)"], ["ldmatrix.x4"], dtype="f16"))
    )
    phone = Opened(browser, path.as_uri(), width=width, height=780)
    assert phone.overhang <= 0 and phone.said == []
    small = phone.page.evaluate(
        "[...document.querySelectorAll('button, select, input:not([type=checkbox])')].filter((e) => "
        "e.offsetHeight && e.offsetHeight < 24).map((e) => e.outerHTML)"
    )
    assert small == []
    phone.page.close()


def test_a_large_tile_is_counted_and_not_drawn(browser: Any, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(report_html(PageRequest(["(1000,1000):(1000,1)"], ["ld.global.b32@col"])))
    large = Opened(browser, path.as_uri())
    assert "1,000,000 elements; 65,536 are drawn" in large.text("#refused")
    assert "1,000,000" in large.text("#costs")
    assert large.said == [] and len(large.asked) == 1
    large.page.close()


def test_nothing_is_loaded(report: Opened) -> None:
    assert [address.partition(":")[0] for address in report.asked] == ["file"]
