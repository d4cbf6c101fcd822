"""`layoutalg draw`: every picture from the command line, in every format."""

from __future__ import annotations

import shutil
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

from layoutalg.analysis import wavefronts
from tests.command import answer, refusal, run
from tests.sweeps import each

SWIZZLED = "Sw<3,3,3> o 0 o (8,64):(64,1)"
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


def test_the_graph_as_a_picture_needs_a_renderer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "graph.png"
    monkeypatch.setenv("PATH", "")
    error, message = refusal("draw", SWIZZLED, "-o", str(path))
    assert error == "UnsupportedError" and "apt-get install graphviz" in message
    assert not path.exists()


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's program dot is not installed")
def test_the_graph_as_a_picture(tmp_path: Path) -> None:
    path = tmp_path / "graph.png"
    payload = answer("draw", SWIZZLED, "-o", str(path))
    assert (payload["kind"], payload["format"], payload["content"]) == ("graph", "png", None)
    assert payload["output"] == str(path) and path.read_bytes().startswith(b"\x89PNG\r\n")


BAD = [
    (("4:1", "-o", "picture.gif"), "UnknownNameError", "accepted are .svg, .dot, .gv, .png, .txt"),
    (("4:1", "--tile", "4", "--access", "ld.shared.b32"), "ArgumentTypeError", "give one of them"),
    (("4:1", "--format", "dot", "--access", "ld.shared.b32"), "ArgumentTypeError", "as text or svg"),
    (("(64,64):(64,1)", "--access", "ld.shared.b33"), "UnknownNameError", "unknown instruction"),
    (("(64,60):(60,1)", "--access", "ldmatrix.x4", "--dtype", "f32"), "ShapeError", "ldmatrix.x4"),
    (("(64,64):(64,1)", "--access", "ld.shared.b32", "--arch", "sm_0"), "UnknownNameError", "architecture"),
    (("(65536,65536):(65536,1)", "--tile", "(4,4)"), "ResourceError", "cells of the picture"),
    (("(32,2):(2,1)", "--tile", "(4,4)"), "ShapeError", "outside the 16 cells"),
]


@each(("words", "error", "part"), BAD, ids=lambda v: " ".join(v)[:60])
def test_bad_input(words: tuple[str, ...], error: str, part: str) -> None:
    got, message = refusal("draw", *words)
    assert (got, part in message) == (error, True), f"{got}: {message}"


def test_an_instruction_takes_no_other_options() -> None:
    for words in (("--format", "dot"), ("--tile", "(16,8)"), ("--access", "ldmatrix.x4")):
        error = refusal("draw", "SM80_16x8x16_F32F16F16F32_TN", *words)
        assert "is an instruction: it is drawn as text or svg, without other options" in str(error)
    assert "did you mean 'SM75_U32x4_LDSM_N'" in str(refusal("draw", "SM75_U32x4_LDSM"))
    assert "did you mean 'SM61_DP4A'" in str(refusal("draw", "SM61_DP4"))
