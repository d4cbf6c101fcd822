"""`layoutalg legal`: verdicts, exit codes, and that the command it prints is legal when it is run."""

from __future__ import annotations

import shlex
from typing import Any

from tests.command import answer, run
from tests.sweeps import each

LEGAL = [
    ("tma", "(4096,1024):(1024,1)", "--box", "64x64", "--mode", "128B"),
    (
        "tma",
        "(4096,1024):(1024,1)",
        "--box",
        "1x64",
        "--mode",
        "128B",
        "--load-mode",
        "tile::gather4",
        "--arch",
        "sm_100a",
        "--ctas",
        "2",
        "--shared",
        "Sw<3,3,3> o 0 o (4,64):(64,1)",
    ),
    ("wgmma", "Sw<3,3,3> o 0 o (128,64):(64,1)"),
    ("wgmma", "K_SW128", "--tile", "128x64", "--operand", "B", "--descriptor", "0x4000004000010000"),
    ("wgmma", "f16,f16,f32", "--n", "128", "--major", "K,MN"),
    ("tcgen05", "e2m1,e2m1,f32", "--m", "256", "--n", "192", "--ctas", "2", "--scale", "ue4m3,16"),
    ("tcgen05", "MN_SW128_32B", "--tile", "128x64", "--dtype", "tf32", "--operand", "B", "--n", "64"),
    ("tcgen05.ld.16x256b.x4", "((16,4),96):((1,32),128)", "--warp", "1"),
    ("ldmatrix.x4", "(64,64):(72,1)"),
    ("cp.async.cg.16", "Sw<3,3,3> o 0 o (64,64):(64,1)", "--source", "(64,64):(1024,1)"),
]

ILLEGAL: list[tuple[tuple[str, ...], str, dict[str, str]]] = [
    (("tma", "(4096,1024):(1024,1)", "--box", "64x128", "--mode", "128B"), "tma.box_inner",
        {"box": "(64,64)"}),
    (("tma", "(64,64):(64,1)", "--box", "64x64", "--mode", "128B", "--shared", "(64,64):(64,1)"),
        "tma.layout",
        {"shared": "Sw<3,3,3> o 0 o (64,64):(64,1)"}),
    (("tma", "(64,64):(64,1)", "--box", "4x64", "--load-mode", "tile::gather4", "--arch", "sm_100"),
        "tma.gather", {"box": "(1,64)"}),
    (("wgmma", "(64,64):(64,1)"), "wgmma.swizzle", {"layout": "Sw<3,3,3> o 0 o (64,64):(64,1)"}),
    (("wgmma", "K_SW128", "--tile", "64x64", "--descriptor", "0x4000004000010042"), "wgmma.descriptor",
        {"descriptor": "0x4000004000010000"}),
    (("tcgen05", "e4m3,e4m3,f32", "--m", "64", "--n", "256", "--scale", "ue8m0,32"), "tcgen05.m",
        {"m": "128"}),
    (("tcgen05", "f16,f16,f32", "--m", "128", "--n", "64", "--descriptor", "0x8100411"),
        "tcgen05.instruction", {"descriptor": "0x8100010"}),
    (("tcgen05", "(128,64):(64,1)"), "tcgen05.swizzle", {"layout": "Sw<3,3,3> o 0 o (128,64):(64,1)"}),
    (("tcgen05.ld.32x32b.x64", "(128,64):(1,128)", "--warp", "2", "--column", "480"), "tcgen05.columns",
        {"column": "448"}),
    (("ldmatrix.x4", "(64,64):(68,1)"), "matrix.aligned", {"layout": "(64,64):(72,1)"}),
    (("cp.async.cg.8", "(64,64):(64,1)"), "copy.cache", {"op": "cp.async.ca.8"}),
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
