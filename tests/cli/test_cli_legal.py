"""`layoutalg legal`: verdicts, exit codes, and that the command it prints is legal when it is run."""

from __future__ import annotations

import shlex
from typing import Any

from tests.command import answer, refusal, run
from tests.sweeps import each

LEGAL = [
    ("tma", "(4096,1024):(1024,1)", "--box", "64x64", "--mode", "128B"),
    ("tma", "(8,(4,64)):(64,(512,1))", "--box", "(8,(2,64))", "--dtype", "u8"),
    ("tma", "(8,8,64):(512,64,1)", "--box", "2x8x16", "--interleave", "32", "--mode", "32B"),
    ("wgmma", "Sw<3,3,3> o 0 o (128,64):(64,1)"),
    ("wgmma", "K_SW128", "--tile", "128x64", "--operand", "B", "--descriptor", "0x4000004000010000"),
    ("wgmma", "Layout_MN_SW64_Atom", "--tile", "64x64", "--major", "MN"),
    ("wgmma", "GMMA::Layout_K_SW32_Atom<half_t>", "--tile", "64x64"),
    ("wgmma", "f16,f16,f32", "--n", "128", "--major", "K,MN"),
    ("ldmatrix.x4", "(64,64):(72,1)"),
    ("ldmatrix.x4", "(64,64):(72,1)", "--tv", "((16,2),8):((1,512),64)"),
    ("cp.async.cg.16", "Sw<3,3,3> o 0 o (64,64):(64,1)", "--source", "(64,64):(1024,1)"),
    ("LDS.128", "(32,32):(36,1)", "--dtype", "f32"),
]

ILLEGAL: list[tuple[tuple[str, ...], str, dict[str, str]]] = [
    (("tma", "(4096,1024):(1024,1)", "--box", "64x128", "--mode", "128B"), "tma.box_inner",
        {"box": "(64,64)"}),
    (("tma", "(64,100):(100,1)", "--box", "64x64"), "tma.stride", {"tensor": "(64,100):(104,1)"}),
    (("tma", "(64,64):(64,1)", "--box", "64x64", "--dtype", "s16", "--nan-fill"), "tma.nan_fill",
        {"nan_fill": "False"}),
    (("tma", "(64,64):(64,1)", "--box", "64x64", "--mode", "128B", "--shared", "(64,64):(64,1)"),
        "tma.layout",
        {"shared": "Sw<3,3,3> o 0 o (64,64):(64,1)"}),
    (("wgmma", "(64,64):(64,1)"), "wgmma.swizzle", {"layout": "Sw<3,3,3> o 0 o (64,64):(64,1)"}),
    (("wgmma", "K_SW128", "--tile", "64x64", "--descriptor", "0x4000004000010042"), "wgmma.descriptor",
        {"descriptor": "0x4000004000010000"}),
    (("wgmma", "s8,s8,s32", "--n", "40", "--major", "MN,K"), "wgmma.n", {"n": "32", "a_major": "K"}),
    (("ldmatrix.x4.trans", "(64,64):(64,1)", "--dtype", "f32"), "matrix.trans", {"op": "ldmatrix.x4"}),
    (("ldmatrix.x4", "(64,64):(68,1)"), "matrix.aligned", {"layout": "(64,64):(72,1)"}),
    (("stmatrix.x4", "(64,64):(64,1)", "--arch", "sm_80"), "matrix.exists", {"arch": "sm_90"}),
    (("cp.async.cg.8", "(64,64):(64,1)"), "copy.cache", {"op": "cp.async.ca.8"}),
    (("cp.async.16", "(64,64):(64,1)", "--source", "(64,64):(100,1)", "--source-alignment", "8"),
        "copy.source_aligned", {"op": "cp.async.8"}),
    (("ld.shared.v4.f32", "(32,32):(33,1)", "--dtype", "f32", "--alignment", "4"), "vector.aligned",
        {"op": "ld.shared.b32"}),
]  # fmt: skip


@each("words", LEGAL)
def test_what_is_legal(words: tuple[str, ...]) -> None:
    said = answer("legal", *words)
    assert said["legal"] and said["result"] and said["broken"] == [] and said["repair"] is None
    assert all(rule["holds"] and rule["source"] for rule in said["rules"])
    text = run("legal", *words)
    assert text.exit_code == 0 and ": legal." in text.stdout and "Rules that hold: " in text.stdout


@each(("words", "rule", "changes"), ILLEGAL)
def test_what_is_not_and_the_nearest_that_is(
    words: tuple[str, ...], rule: str, changes: dict[str, str]
) -> None:
    said = answer("legal", *words, exit_code=1)
    assert not said["legal"] and said["result"] is None and said["broken"][0]["rule"] == rule
    assert {r["rule"] for r in said["rules"] if not r["holds"]} == {b["rule"] for b in said["broken"]}
    repair: dict[str, Any] = said["repair"]
    assert repair["changes"] == changes
    again = shlex.split(repair["command"])
    assert again[:2] == ["layoutalg", "legal"] and answer(*again[1:])["legal"]
    text = run("legal", *words)
    assert text.exit_code == 1 and ": not legal." in text.stdout and f"{rule}: " in text.stdout
    assert text.stdout.endswith(f"asked again:\n{repair['command']}\n")


def test_a_witness_is_named() -> None:
    (broken,) = answer("legal", "ldmatrix.x4", "(64,64):(68,1)", exit_code=1)["broken"]
    assert broken["witness"] == "(1,0)" and "byte 136" in broken["asked"]


def test_a_rule_without_a_fix_says_so() -> None:
    words = ("legal", "tma", "(64,64):(64,1)", "--box", "64x64", "--dtype", "s4")
    assert answer(*words, exit_code=1)["repair"] is None
    assert "No change of the arguments is known that makes it legal." in run(*words).stdout


BAD = [
    (("tma", "(64,64):(64,1)"), "ArgumentTypeError", "tma needs --box"),
    (("tma", "Sw<3,3,3> o 0 o (64,64):(64,1)", "--box", "64x64"), "ShapeError", "is swizzled"),
    (("tma", "(64,64):(64,1)", "--box", "64"), "ShapeError", "one is needed for each of the 2 leaves"),
    (("tma", "(64,64):(64,1)", "--box", "64xx64"), "ParseError", "position"),
    (("tma", "(64,64):(64,1)", "--box", "64x64", "--mode", "256B"), "UnknownNameError", "256B"),
    (("tma", "(64,64):(64,1)", "--box", "64x64", "--operand", "A"), "ArgumentTypeError", "has no --operand"),
    (("wgmma", "SW128"), "UnknownNameError", "unknown shared-memory atom 'SW128'"),
    (("wgmma", "K_SW128"), "ArgumentTypeError", "needs --tile"),
    (("wgmma", "(64,64):(64,1)", "--tile", "64x64"), "ArgumentTypeError", "a layout has its own shape"),
    (("wgmma", "(64,64):(64,1)", "--descriptor", "5f"), "ShapeError", "64 bits are needed"),
    (("wgmma", "f16,f16,f32"), "ArgumentTypeError", "takes --n"),
    (("wgmma", "f16,f16,f32", "--n", "64", "--base", "0"), "ArgumentTypeError", "not --base"),
    (("mov", "(64,64):(64,1)"), "UnknownNameError", "unknown instruction 'mov'"),
    (("ldmatrix.x4", "(64,64"), "ParseError", "position"),
    (("ldmatrix.x4", "(64,64):(64,1)", "--alignment", "3"), "ShapeError", "a power of two is needed"),
    (("ldmatrix.x4", "(64,64):(64,1)", "--arch", "sm_1"), "UnknownNameError", "sm_1"),
]


@each(("words", "error", "part"), BAD)
def test_what_is_not_understood(words: tuple[str, ...], error: str, part: str) -> None:
    got, message = refusal("legal", *words)
    assert (got, part in message) == (error, True), f"{got}: {message}"
