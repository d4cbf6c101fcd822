"""`layoutalg draw`: every picture from the command line, in every format."""

from __future__ import annotations

import re
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from layoutalg.analysis import wavefronts
from tests.command import answer, refusal, run
from tests.sweeps import each

SWIZZLED = "Sw<3,3,3> o 0 o (8,64):(64,1)"
ROOT = Path(__file__).parents[2]
KINDS = [
    (("(4,8):(8,1)",), "layout"),
    ((SWIZZLED, "--dtype", "f16"), "swizzle"),
    (("((4,8),(2,2)):((32,1),(16,8))", "--tile", "(16,8)"), "tv"),
    (("(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4"), "access"),
    (("(63,65):(65,1)", "--access", "ld.global.b32@col"), "access"),
    (("SM80_16x8x16_F32F16F16F32_TN",), "atom"),
    (("SM89_16x8x32_F32E4M3E5M2F32_TN",), "atom"),
    (("SM90::GMMA::MMA_64x16x16_F32F16F16_RS<GMMA::Major::K,GMMA::Major::K>",), "atom"),
    (("SM90_U16x8_STSM_T",), "atom"),
    (("UniversalCopy<cute::uint128_t>",), "atom"),
]


@each(("words", "kind"), KINDS, ids=lambda v: str(v)[:50])
@each("form", ["text", "svg"])
def test_every_picture_in_both_formats(words: tuple[str, ...], kind: str, form: str) -> None:
    payload = answer("draw", *words, "--format", form)
    assert (payload["kind"], payload["format"], payload["output"]) == (kind, form, None)
    printed = run("draw", *words, "--format", form)
    assert printed.exit_code == 0 and printed.stdout == payload["content"]
    if form == "svg":
        ElementTree.fromstring(payload["content"])
    else:
        assert max(map(len, payload["content"].splitlines())) <= 100


def test_an_access_shows_its_worst_instruction() -> None:
    # 24 lanes a row: the first warp reads row 0 and 8 lanes of row 1, and only then rows collide
    words = ("(4,24):(32,1)", "--access", "ld.shared.b32@row")
    content = answer("draw", *words)["content"]
    rows = [line for line in content.partition("wavefronts by bank")[2].splitlines()[3:] if "│" in line]
    (access,) = answer("analyze", *words)["accesses"]
    assert len(rows) == access["worst"] == 2
    offsets = [4 * (32 * (lane // 24) + lane % 24) for lane in range(32)]
    assert wavefronts("ld.shared.b32", offsets) == 2


def test_the_swizzled_access_is_flat() -> None:
    flat = answer("draw", "Sw<3,3,3> o 0 o (64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4")[
        "content"
    ]
    assert "before Sw<3,3,3>: 32 wavefronts by bank" in flat and "after Sw<3,3,3>: 4 wavefronts" in flat


def test_a_scattered_access_leaves_the_tile_out() -> None:
    words = ("(256,256):(1,256)", "--access", "ld.shared.b32@(32,1):(2057,0)")
    content = answer("draw", *words)["content"]
    assert "wavefronts by bank" in content and "the tile by bank" not in content


def test_text_without_box_characters() -> None:
    assert not run("draw", "(2,2):(2,1)").stdout.isascii()
    assert run("draw", "(2,2):(2,1)", "--ascii").stdout.isascii()


def test_colour_when_asked_for() -> None:
    assert "\x1b[30;48;2;" in run("draw", "(2,2):(2,1)", "--color").stdout
    assert "\x1b" not in run("draw", "(2,2):(2,1)", "--no-color").stdout
    assert "\x1b" not in run("draw", "(2,2):(2,1)").stdout, "no terminal, no colour"


def test_the_graph_as_text_is_always_there(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    payload = answer("draw", SWIZZLED, "--format", "dot")
    assert payload["kind"] == "graph" and payload["content"].startswith("digraph layout {")


def test_the_composition_is_drawn_without_graphviz(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    payload = answer("draw", SWIZZLED, "--graph", "--format", "svg")
    assert payload["kind"] == "graph" and "x ^ ((x &amp; 0x1c0) &gt;&gt; 3)" in payload["content"]


IMAGES = [
    (SWIZZLED,), (SWIZZLED, "--bits", "--dtype", "f16"), (SWIZZLED, "--graph"), (SWIZZLED, "--table"),
    ("SM80_16x8x16_F32F16F16F32_TN",),
]  # fmt: skip


@pytest.mark.deep
@each("words", IMAGES, ids=" ".join)
@each(("form", "begins"), [("png", b"\x89PNG\r\n"), ("pdf", b"%PDF-")])
def test_every_picture_as_an_image(tmp_path: Path, words: tuple[str, ...], form: str, begins: bytes) -> None:
    pytest.importorskip("matplotlib")
    path = tmp_path / f"picture.{form}"
    payload = answer("draw", *words, "-o", str(path))
    assert (payload["format"], payload["content"], payload["output"]) == (form, None, str(path))
    assert path.read_bytes().startswith(begins)


def test_an_image_without_its_library_names_the_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    for form in ("png", "pdf"):
        path = tmp_path / f"picture.{form}"
        error, message = refusal("draw", "4:1", "-o", str(path))
        assert error == "UnsupportedError" and "pip install 'layoutalg[draw]'" in message
        assert not path.exists()
    assert "name a file with -o FILE.png" in refusal("draw", "4:1", "--format", "png")[1]


BAD = [
    (("4:1", "-o", "picture.gif"), "UnknownNameError", "accepted are .svg, .png, .pdf, .dot, .gv, .txt"),
    (("4:1", "--tile", "4", "--access", "ld.shared.b32"), "ArgumentTypeError", "give one of them"),
    (
        ("4:1", "--format", "dot", "--access", "ld.shared.b32"),
        "ArgumentTypeError",
        "dot draws the composition",
    ),
    (("(64,64):(64,1)", "--access", "ld.shared.b33"), "UnknownNameError", "unknown instruction"),
    (("(64,60):(60,1)", "--access", "ldmatrix.x4", "--dtype", "f32"), "ShapeError", "ldmatrix.x4"),
    (("(64,64):(64,1)", "--access", "ld.shared.b32", "--arch", "sm_0"), "UnknownNameError", "architecture"),
    (("(65536,65536):(65536,1)", "--tile", "(4,4)"), "ResourceError", "cells of the picture"),
    (("(32,2):(2,1)", "--tile", "(4,4)"), "ShapeError", "outside the 16 cells"),
    (("(8,8):(8,1)", "--bits", "--rows", "4"), "ArgumentTypeError", "--rows is for a layout or --chunks"),
    (("(8,8):(8,1)", "--warp", "1"), "ArgumentTypeError", "--warp is for --access, not for a layout"),
    (("(8,8):(8,1)", "--rows", "8:9"), "ShapeError", "rows 8:9 of a picture: a part of the 8 rows, 0:8"),
    (("(8,8):(8,1)", "--rows", "-1"), "ParseError", "such as 8:16"),
    (("(8,8):(8,1)", "--index", "--banks"), "ArgumentTypeError", "give one of them"),
    (("(8,8):(8,1)", "--walk", "(0,0),(0,1)"), "ArgumentTypeError", "has no swizzle to walk through"),
    ((SWIZZLED, "--walk", "(0,0)"), "ParseError", "a start and a step are needed"),
    (
        (SWIZZLED, "--walk", "(0,0),(0,16)"),
        "ShapeError",
        "step 4 of the walk is at 0,64, outside of the 8 x 64",
    ),
    ((SWIZZLED, "--walk", "(0,0),(0,1)", "--steps", "65"), "ResourceError", "the limit is 64"),
    (("(3,5):(5,1)", "--bits"), "NotLinearError", "bits_diagram of (3,5):(5,1)"),
    (("64:1", "--table"), "ShapeError", "two modes"),
    (("(64,64):(64,1)", "--access", "ld.shared.b32", "--warp", "999"), "ShapeError", "warp 999"),
    (("(64,6):(6,1)", "--chunks"), "ShapeError", "by 16 bytes"),
    (("Layout_K_SW128_Atm",), "ParseError", "cannot read"),
]


@each(("words", "error", "part"), BAD, ids=lambda v: " ".join(v)[:60])
def test_bad_input(words: tuple[str, ...], error: str, part: str) -> None:
    got, message = refusal("draw", *words)
    assert (got, part in message) == (error, True), f"{got}: {message}"


def test_an_instruction_takes_no_other_options() -> None:
    for words in (("--format", "dot"), ("--tile", "(16,8)"), ("--access", "ldmatrix.x4")):
        error = refusal("draw", "SM80_16x8x16_F32F16F16F32_TN", *words)
        assert "options" in str(error) or "cannot read" in str(error)
    assert "did you mean 'SM75_U32x4_LDSM_N'" in str(refusal("draw", "SM75_U32x4_LDSM"))
    assert "did you mean 'SM61_DP4A'" in str(refusal("draw", "SM61_DP4"))


def test_parts_and_what_cells_say() -> None:
    text = answer("draw", "(64,64):(64,1)", "--rows", "2:4", "--cols", "3", "--index")["content"]
    assert "2 │   2  66 130\n3 │   3  67 131" in text
    assert "drawn are rows 2 to 3 of 64 and columns 0 to 2 of 64" in text
    assert "0 │ 0 0 1 1" in answer("draw", "(1,4):(1,1)", "--dtype", "f16", "--banks")["content"]


def test_what_is_too_large_is_cropped_with_a_note() -> None:
    for layout in ("(4096,4096):(4096,1)", "Sw<3,4,3> o 0 o (4096,4096):(4096,1)"):
        content = " ".join(answer("draw", layout)["content"].split())
        assert "drawn are rows 0 to 63 of 4096 and columns 0 to 63 of 4096" in content


def test_a_layout_that_is_not_injective_says_so() -> None:
    content = answer("draw", "(4,4):(0,1)")["content"]
    assert "not injective: 4 cells share the offset 0, others too" in content
    assert "not injective" not in answer("draw", "(4,4):(4,1)")["content"]


def test_two_layouts_beside_each_other() -> None:
    content = answer("draw", "(4,4):(4,1)", "--beside", "(4,4):(1,4)")["content"]
    assert "(4,4):(4,1): offsets    (4,4):(1,4): offsets" in content
    assert "1 │  4  5  6  7         1 │  1  5  9 13" in content


def test_one_instruction_of_an_access() -> None:
    words = ("(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x4")
    picked = answer("draw", *words, "--iteration", "0", "--register", "0")["content"]
    assert picked.splitlines()[0] == "ldmatrix.x4 on (64,64):(64,1), f16, sm_90"
    offsets = answer("draw", *words, "--offsets")["content"]
    assert "its offset where a lane takes it" in " ".join(offsets.split()) and "960" in offsets


def test_chunks_walks_and_plans() -> None:
    chunks = answer("draw", SWIZZLED, "--dtype", "f16", "--chunks")["content"]
    assert "1 │ 0 1 2 3 4 5 6 7    1 │ 1 0 3 2 5 4 7 6" in chunks
    atom = answer("draw", "Layout_K_SW128_Atom", "--dtype", "f16", "--chunks")["content"]
    assert atom.splitlines()[1:] == chunks.splitlines()[1:]
    tma = answer("draw", "CU_TENSOR_MAP_SWIZZLE_128B", "--dtype", "f16", "--chunks")["content"]
    assert tma == atom
    walk = answer("draw", SWIZZLED, "--walk", "(3,0),(0,16)", "--steps", "4")["content"]
    assert "no step shares a bit with a" in walk
    plan = answer("draw", "(8,64):(64,1)", "--dtype", "f16", "--copy", "cp.async.16")
    assert plan["kind"] == "plan" and "T63" in plan["content"]


COMMITTED = re.findall(
    r"^\$ layoutalg (draw .* -o (\w+)\.svg)$",
    (ROOT / "docs" / "pictures.md").read_text(encoding="utf-8"),
    re.M,
)


@each(
    ("command", "name"), [one for one in COMMITTED if (ROOT / "docs" / "pictures" / f"{one[1]}.svg").exists()]
)
def test_the_pictures_of_the_document_are_those_of_its_commands(
    tmp_path: Path, command: str, name: str
) -> None:
    path = tmp_path / f"{name}.svg"
    words = shlex.split(command)
    assert run(*words[:-1], str(path)).exit_code == 0
    assert path.read_bytes() == (ROOT / "docs" / "pictures" / f"{name}.svg").read_bytes()
    assert len([name for _, name in COMMITTED if (ROOT / "docs" / "pictures" / f"{name}.svg").exists()]) == 4
