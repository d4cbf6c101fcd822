"""Pages are whole, escaped and small, and their settings are layouts of the library."""

from __future__ import annotations

import functools
import json
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import analyze_access
from layoutalg.errors import LayoutAlgError, ParseError, ResourceError, ShapeError, UnsupportedError
from layoutalg.layout import Layout, size
from layoutalg.limits import Most
from layoutalg.page import Engine, PageRequest, answer, model_of, parse_layout, report_html, write_explorer
from layoutalg.page.data import page_data
from layoutalg.page.document import explore_html, inline_json
from layoutalg.page.engine import Room, padded, pitch_of
from layoutalg.page.explorer import CORE, library_archive
from layoutalg.page.sections import escaped
from tests.sweeps import each

TILE, SMALL = "(64,64):(64,1)", "(4,8):(8,1)"


class Tags(HTMLParser):
    """The tags of a page, in order, and what its links point to."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.links: list[str] = []
        self.handlers: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attrs if name in ("src", "href", "action", "srcset")]
        self.handlers += [name for name, _ in attrs if name.startswith("on")]


@each(
    "layouts",
    [(TILE,), ("(1000,1000):(1000,1)",), ("Sw<3,4,3> o 0 o (8,64):(64,1)", "(63,65):(65,1)")],
    sample=1,
)
def test_a_report_is_one_small_file_that_loads_nothing(layouts: tuple[str, ...]) -> None:
    page = report_html(PageRequest(layouts, ["ld.shared.b32@col", "ld.global.b32@row"]))
    seen = Tags(page)
    assert len(page.encode()) <= Most.PAGE.number
    assert all(link.startswith(("#", "data:,")) for link in seen.links) and not seen.handlers
    assert not re.search(
        r"\bimport\b[^;]*from|\bfetch\(|XMLHttpRequest|https?://(?!www\.w3\.org/2000/svg)", page
    )
    assert "default-src 'none'" in page and 'type="module"' not in page


def test_a_page_names_what_is_past_its_limits() -> None:
    with pytest.raises(ResourceError, match="layouts of a page"):
        report_html(PageRequest([TILE] * (Most.PARTS.number + 1)))
    most = Most.ONE_BY_ONE.number
    large = Engine(parse_layout(f"({most},2):(2,1)"), "f32")
    assert "elements; 65,536 are drawn" in large.refusal()
    with pytest.raises(UnsupportedError):
        large.offsets(None, 0)
    assert large.numbers(None, 0, "ld.shared.b32@row")["total"] == most // 16
    with pytest.raises(ShapeError, match="base is -1"):
        Engine(parse_layout(TILE), "f32", "sm_90", -1)
    assert "Offsets of" in Engine(parse_layout("(4,8):(-8,1)"), "f32").refusal()


def test_reports_of_a_page_are_those_of_accesses_that_fit() -> None:
    reports = PageRequest([TILE, "(60,60):(60,1)"], ["ldmatrix.x4", "ld.shared.b32@row"], "f16").reports
    assert [report.op for report in reports] == ["ldmatrix.x4", "ld.shared.b32", "ld.shared.b32"]
    assert reports[0] == analyze_access(
        Layout((64, 64), (64, 1)), Engine(parse_layout(TILE), "f16").access("ldmatrix.x4")
    )
    with pytest.raises(ShapeError, match="base is -1"):
        _ = PageRequest([TILE], base_bytes=-1).reports


@functools.cache
def plain_costs() -> str:
    return str(page_data(PageRequest([SMALL], ["ld.shared.b32", "nothing"], "f32"))["html"]["costs"])


@given(st.text(max_size=60))
def test_text_of_a_user_adds_no_tag(text: str) -> None:
    plain = plain_costs()
    fuzzed = page_data(PageRequest([SMALL], ["ld.shared.b32", f"nothing{text}"], "f32"))["html"]["costs"]
    assert Tags(fuzzed).tags == Tags(plain).tags
    assert not set(escaped(text)) & set("<>\"'") and "<" not in inline_json({"text": text})
    assert json.loads(inline_json(text)) == text


@given(st.integers(1, 6), st.integers(1, 9), st.integers(0, 5), st.booleans())
def test_padding_moves_rows_apart(rows: int, columns: int, pad: int, turned: bool) -> None:
    tile = Layout((columns, rows), (1, columns)) if turned else Layout((rows, columns), (columns, 1))
    pitch = pitch_of(tile)
    if pitch is None:
        with pytest.raises(UnsupportedError):
            padded(tile, 1)
        return
    wider = padded(tile, pad)
    assert wider.shape == tile.shape
    assert [wider(n) for n in range(size(tile))] == [
        tile(n) + pad * (tile(n) // pitch) for n in range(size(tile))
    ]


def test_a_swizzle_of_the_sliders_takes_the_place_of_the_layouts_own() -> None:
    engine = Engine(parse_layout("Sw<2,4,3> o 0 o (64,96):(96,1)"), "f16")
    assert str(engine.tile(None, 8)) == "Sw<2,4,3> o 0 o (64,96):(104,1)"
    assert str(engine.tile((3, 3, 3), 0)) == "Sw<3,3,3> o 0 o (64,96):(96,1)"
    assert engine.offsets((0, 0, 0), 0)[:3] == [0, 96, 192]
    with pytest.raises(LayoutAlgError):
        engine.tile((1, 0, 0), 0)


def test_a_report_holds_what_the_library_counts() -> None:
    engine = Engine(parse_layout("Sw<1,3,3> o 16 o (16,32):(40,1)"), "f16", "sm_90", 16)
    model = Room().held(engine, ["ldmatrix.x4", "ld.shared.b16@col", "ld.global.b32@row"])
    assert model["offsets"] == engine.offsets(None, 0)
    for access in model["accesses"]:
        spec = access["spec"]
        assert access["numbers"] == engine.numbers(None, 0, spec)
        lanes = engine.addresses(None, 0, spec, (0, 0, 0))
        words = [
            [lane, (word := (lanes[lane] or 0) // 4 + n) % 32, word, group, turn]
            for lane, n, group, turn in access["patterns"][access["instructions"][0]]
        ]
        assert words == engine.services(None, 0, spec, (0, 0, 0))
        assert len(access["instructions"]) == access["numbers"]["instructions"]
    full = Room()
    full.instructions = 1
    assert "no room for the wavefronts" in full.held(engine, ["ldmatrix.x4"])["accesses"][0]["refusal"]
    full.numbers = 0
    assert "no room for the elements" in full.held(engine, [])["refusal"]


def test_rotations_have_no_sliders() -> None:
    turned = "(6,2,4):(4,0,1) o 0 o (4,6):(13,1)"
    model = model_of(Engine(parse_layout(turned), "f32"), [])
    assert "no chain of swizzles" in model["refusal"] and "swizzles" not in model
    assert turned in report_html(PageRequest([turned], ["ld.shared.b32@((4,6),1):((1,4),0)"]))


def test_questions_of_a_page() -> None:
    asked = {"ask": "services", "layout": TILE, "dtype": "f16", "arch": "sm_90", "swizzle": None, "pad": 0}
    found = json.loads(answer(json.dumps(asked | {"access": "ldmatrix.x4", "place": [0, 0, 0]})))["answer"]
    assert len(found) == 128 and found[4] == [1, 0, 32, 0, 1]
    missing = json.loads(answer(json.dumps(asked)))
    assert missing == {"refused": "this question of a page has no 'access'"}
    refused = json.loads(answer(json.dumps({"ask": "page", "layouts": ["(4,"], "accesses": [], "dtype": "f32",
                                            "arch": "sm_90"})))  # fmt: skip
    assert refused["refused"].startswith("cannot read")
    for wrong in ("", "[]", '{"ask": "all"}', "null"):
        with pytest.raises(ParseError):
            answer(wrong)


@pytest.mark.deep
def test_the_explorer_is_written_whole(tmp_path: Path) -> None:
    package = tmp_path / "package"
    package.mkdir()
    with pytest.raises(UnsupportedError, match=r"it lacks pyodide\.mjs"):
        write_explorer(tmp_path / "site", package)
    for name in CORE:
        (package / name).write_bytes(b"core")
    page, *others = write_explorer(tmp_path / "site", package)
    assert page.read_text() == explore_html("explore")
    assert sorted(path.name for path in others) == sorted([*CORE, "layoutalg.zip"])
    (tmp_path / "wrong.tgz").write_bytes(b"no archive")
    with pytest.raises(UnsupportedError, match="no archive of the npm package"):
        write_explorer(tmp_path / "site", tmp_path / "wrong.tgz")
    ran = subprocess.run(
        [sys.executable, "-m", "layoutalg.page", str(tmp_path / "site"), "--pyodide", str(tmp_path)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert ran.returncode == 2 and "it lacks pyodide.mjs" in ran.stderr


@pytest.mark.deep
def test_the_archive_is_the_library(tmp_path: Path) -> None:
    assert library_archive() == library_archive()
    archive = tmp_path / "layoutalg.zip"
    archive.write_bytes(library_archive())
    program = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "from layoutalg.page import PageRequest, report_html\n"
        "import layoutalg\n"
        "page = report_html(PageRequest(['(8,8):(8,1)']))\n"
        "print(layoutalg.__file__.startswith(sys.argv[1]), len(page) > 10000)"
    )
    ran = subprocess.run(
        [sys.executable, "-c", program, str(archive)],
        capture_output=True,
        text=True,
        check=True,
        cwd=tmp_path,
    )
    assert ran.stdout.split() == ["True", "True"]
