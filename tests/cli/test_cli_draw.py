"""`layoutalg draw`: every picture from the command line, in every format."""

from __future__ import annotations

import re
import shlex
import sys
import xml.etree.ElementTree as ElementTree
from pathlib import Path

import pytest

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


@each(("words", "kind"), KINDS, ids=lambda v: str(v)[:50], sample=2)
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


SHOWN = (
    # what is drawn, and parts of the text in one line
    ("(2,2):(2,1)", ("│",)),
    ("(4,24):(32,1) --access ld.shared.b32@row", ("2 wavefronts",)),
    ("Sw<3,3,3>o0o(64,64):(64,1) --dtype f16 --access ldmatrix.x4",
     ("before Sw<3,3,3>: 32 wavefronts by bank", "after Sw<3,3,3>: 4 wavefronts")),
    ("(256,256):(1,256) --access ld.shared.b32@(32,1):(2057,0)", ("wavefronts by bank", "!the tile by bank")),
    ("(64,64):(64,1) --rows 2:4 --cols 3 --index",
     ("2 │ 2 66 130 3 │ 3 67 131", "rows 2 to 3 of 64 and columns 0 to 2 of 64")),
    ("(1,4):(1,1) --dtype f16 --banks", ("0 │ 0 0 1 1",)),
    ("(4096,4096):(4096,1)", ("drawn are rows 0 to 63 of 4096 and columns 0 to 63 of 4096",)),
    ("Sw<3,4,3>o0o(4096,4096):(4096,1)", ("drawn are rows 0 to 63 of 4096 and columns 0 to 63 of 4096",)),
    ("(4,4):(0,1)", ("not injective: 4 cells share the offset 0, others too",)),
    ("(4,4):(4,1)", ("!not injective",)),
    ("(4,4):(4,1) --beside (4,4):(1,4)",
     ("(4,4):(4,1): offsets (4,4):(1,4): offsets", "1 │ 4 5 6 7 1 │ 1 5 9 13")),
    ("(64,64):(64,1) --dtype f16 --access ldmatrix.x4 --iteration 0 --register 0",
     ("ldmatrix.x4 on (64,64):(64,1), f16, sm_90",)),
    ("(64,64):(64,1) --dtype f16 --access ldmatrix.x4 --offsets",
     ("its offset where a lane takes it", "960")),
    ("Layout_K_SW128_Atom --dtype f16 --chunks", ("1 │ 0 1 2 3 4 5 6 7 1 │ 1 0 3 2 5 4 7 6",)),
    ("CU_TENSOR_MAP_SWIZZLE_128B --dtype f16 --chunks", ("1 │ 0 1 2 3 4 5 6 7 1 │ 1 0 3 2 5 4 7 6",)),
    ("Sw<3,3,3>o0o(8,64):(64,1) --walk (3,0),(0,16) --steps 4", ("no step shares a bit with a",)),
    ("(8,64):(64,1) --dtype f16 --copy cp.async.16", ("T63",)),
    ("Sw<3,3,3>o0o(8,64):(64,1) --format dot", ("digraph layout {",)),
    ("Sw<3,3,3>o0o(8,64):(64,1) --graph --format svg", ("x ^ ((x &amp; 0x1c0) &gt;&gt; 3)",)),
)  # fmt: skip


@each(("words", "parts"), SHOWN)
def test_what_a_drawing_says(words: str, parts: tuple[str, ...], monkeypatch: pytest.MonkeyPatch) -> None:
    """None of them needs graphviz."""
    monkeypatch.setenv("PATH", "")
    content = " ".join(
        answer("draw", *(w.replace("o0o", " o 0 o ") for w in words.split()))["content"].split()
    )
    for part in parts:
        assert (part.removeprefix("!") in content) != part.startswith("!"), content[:400]


def test_colour_when_asked_for() -> None:
    assert run("draw", "(2,2):(2,1)", "--ascii").stdout.isascii()
    assert "\x1b[30;48;2;" in run("draw", "(2,2):(2,1)", "--color").stdout
    assert "\x1b" not in run("draw", "(2,2):(2,1)", "--no-color").stdout
    assert "\x1b" not in run("draw", "(2,2):(2,1)").stdout, "no terminal, no colour"


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


def test_an_instruction_takes_no_other_options() -> None:
    for words in (("--format", "dot"), ("--tile", "(16,8)"), ("--access", "ldmatrix.x4")):
        error = refusal("draw", "SM80_16x8x16_F32F16F16F32_TN", *words)
        assert "options" in str(error) or "cannot read" in str(error)
    assert "did you mean 'SM75_U32x4_LDSM_N'" in str(refusal("draw", "SM75_U32x4_LDSM"))
    assert "did you mean 'SM61_DP4A'" in str(refusal("draw", "SM61_DP4"))


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
