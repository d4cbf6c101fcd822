"""report.html in a browser: it counts what the library counts, and can be used by pointer, keys and phone."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import LayoutAlgError
from layoutalg.layout import modes, size
from layoutalg.page import Engine, PageRequest, model_of, parse_layout, report_html
from tests.browser.conftest import Opened

pytestmark = pytest.mark.deep

TILES = (
    ("(64,64):(64,1)", "f16"),
    ("(64,96):(96,1)", "f16"),
    ("(32,48):(48,1)", "f32"),
    ("Sw<3,4,3> o 0 o (8,64):(64,1)", "u8"),
    ("(64,(8,12)):(8,(1,512))", "f16"),
    ("(16,24):(1,16)", "f64"),
    ("(33,20):(20,1)", "f32"),
    ("Sw<2,3,3> o 16 o (32,64):(72,1)", "f16"),
    ("Sw<1,2,-2> o 0 o (16,32):(32,1)", "f32"),
    ("100:1", "f32"),
    ("(8,8,8):(64,8,1)", "c64"),
    ("(32,32):(32,1)", "s4"),
)
OPS = (
    "ld.shared.b8@col", "ld.shared.b16@col", "ld.shared.b32@row", "ld.shared.b32@col", "st.shared.b64@row",
    "ld.shared.b64@col", "ld.shared.b128@row", "ld.shared.b128@col", "ldmatrix.x1", "ldmatrix.x2",
    "ldmatrix.x4", "red.shared.u32@col", "cp.async.4", "cp.async.16", "ld.global.b16@col",
    "ld.global.b32@row", "st.global.b64@row", "ld.global.b128@col",
)  # fmt: skip
SETTINGS = 2400

COUNTED = """
([models, asked]) => {
  const engines = models.map((model) => new Model(model));
  return asked.map(([tile, access, swizzle, pad]) => {
    try {
      const found = engines[tile].numbers({ swizzle, pad }, models[tile].accesses[access]);
      delete found.place;
      if (found.space === "global") { delete found.worst; delete found.worstIdeal; }
      return found;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      return null;
    }
  });
}
"""
SERVED = """
([models, asked]) => asked.map(([tile, access, swizzle, pad, place]) => new Model(models[tile]).services(
  { swizzle, pad }, models[tile].accesses[access], place))
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


def settings(rng: random.Random) -> tuple[list[Any], list[Any], list[Any]]:
    """Models, questions, and what the library answers: numbers, or None where it refuses."""
    models: list[Any] = []
    asked: list[Any] = []
    expected: list[Any] = []
    engines = []
    for text, element in TILES:
        engine = Engine(parse_layout(text), element, "sm_90", rng.choice((0, 0, 16, 128)))
        specs = []
        for spec in OPS:
            try:
                engine.access(spec)
            except LayoutAlgError:
                continue
            specs.append(spec)
        models.append(model_of(engine, specs))
        engines.append((engine, specs))
    while len(asked) < SETTINGS:
        tile = rng.randrange(len(TILES))
        engine, specs = engines[tile]
        bits = (rng.randint(0, 5), rng.randint(0, 6), rng.randint(-5, 5))
        swizzle = rng.choice((None, (0, 0, 0), bits, bits))
        access, pad = rng.randrange(len(specs)), rng.choice((0, 0, 8, rng.randint(0, 40)))
        try:
            found: dict[str, Any] | None = engine.numbers(swizzle, pad, specs[access])
        except LayoutAlgError:
            found = None
        asked.append([tile, access, swizzle, pad])
        expected.append(None if found is None else {k: v for k, v in found.items() if k != "method"})
    return models, asked, expected


def test_the_page_counts_what_the_library_counts(report: Opened) -> None:
    models, asked, expected = settings(random.Random(22))
    counted = report.page.evaluate(COUNTED, [models, asked])
    wrong = [(q, a, b) for q, a, b in zip(asked, counted, expected, strict=True) if a != b]
    assert wrong == []
    answered = [found for found in expected if found is not None]
    assert len(expected) >= 2000 and len(answered) > 1500
    assert any(found["total"] > found["ideal"] for found in answered)


def test_the_page_serves_lanes_as_the_library_does(report: Opened) -> None:
    models, asked, expected = settings(random.Random(7))
    rng = random.Random(8)
    asks: list[Any] = []
    answers: list[Any] = []
    for (tile, access, swizzle, pad), found in zip(asked[:300], expected, strict=False):
        if found is None:
            continue
        text, element = TILES[tile]
        engine = Engine(parse_layout(text), element, "sm_90", models[tile]["base"])
        spec = models[tile]["accesses"][access]["spec"]
        warps = -(-size(modes(engine.access(spec).tv)[0]) // engine.machine.lanes)
        place = [rng.randrange(warps), 0, 0]
        asks.append([tile, access, swizzle, pad, place])
        answers.append(engine.services(swizzle, pad, spec, place))
    assert report.page.evaluate(SERVED, [models, asks]) == answers


def test_sliders_count_again(report: Opened) -> None:
    engine = Engine(parse_layout("(64,96):(96,1)"), "f16")
    assert report.score() == engine.numbers(None, 0, "ldmatrix.x4")["total"] == 384
    for name, value in (("bits-b", 2), ("bits-m", 3), ("bits-s", 3)):
        report.slide(name, value)
    assert report.score() == engine.numbers((2, 3, 3), 0, "ldmatrix.x4")["total"] == 96
    assert "conflict-free" in report.text("#score") and "Sw<2,3,3> o 0 o (64,96):(96,1)" in report.text(
        "#score"
    )
    report.slide("bits-b", 0)
    report.slide("pad", 8)
    assert report.score() == engine.numbers((0, 3, 3), 8, "ldmatrix.x4")["total"] == 96
    report.slide("pad", 1)
    assert "multiples of 16 bytes" in report.text("#refused")
    report.page.locator("#access").select_option("1")
    assert report.page.locator("#refused").is_hidden()
    assert report.score() == engine.numbers((0, 3, 3), 1, "ld.shared.b16@col")["total"]
    report.page.locator("#own").check()
    assert report.score() == engine.numbers(None, 1, "ld.shared.b16@col")["total"]


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
    report.page.locator("#bits-b").focus()
    report.page.keyboard.press("ArrowRight")
    assert (
        report.page.locator("#bits-b").input_value() == "1" and not report.page.locator("#own").is_checked()
    )
    reached = set()
    report.page.locator("#layout").focus()
    for _ in range(12):
        reached.add(report.page.evaluate("document.activeElement.id"))
        report.page.keyboard.press("Tab")
    assert {"layout", "access", "label", "own", "bits-b", "pad", "tile", "waves", "memory"} <= reached


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


def test_a_large_tile_is_counted_and_drawn(browser: Any, report: Opened, tmp_path: Path) -> None:
    path = tmp_path / "large.html"
    path.write_text(
        report_html(PageRequest(["(1000,1000):(1000,1)"], ["ld.global.b32@col", "ld.global.b32@row"]))
    )
    large = Opened(browser, path.as_uri())
    engine = Engine(parse_layout("(1000,1000):(1000,1)"), "f32")
    assert large.score() == engine.numbers(None, 0, "ld.global.b32@col")["total"] == 1_000_000
    large.slide("pad", 8)
    assert large.score() == engine.numbers(None, 8, "ld.global.b32@col")["total"]
    large.page.locator("#tile").focus()
    large.page.keyboard.press("Control+End")
    assert large.fact("element").startswith("(999, 999)")
    assert large.said == [] and len(large.asked) == 1
    large.page.close()


def test_nothing_is_loaded(report: Opened) -> None:
    assert [address.partition(":")[0] for address in report.asked] == ["file"]
