"""Which wgmma exist: the table against ptxas, and every rule."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.arch import WGMMA_TYPES
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.dtype import dtype
from layoutalg.errors import CompileError, UnknownNameError, UnsupportedError
from layoutalg.legality import check_wgmma_instruction
from tests.gpu.hopper import wgmma_source
from tests.sweeps import each


@each(
    ("a", "b", "accumulator", "n", "asked"),
    [
        ("f16", "f16", "f32", 8, {}), ("f16", "f16", "f32", 248, {"a_major": "MN", "b_major": "MN"}),
        ("bf16", "bf16", "f32", 256, {"b_major": "MN"}), ("bf16", "bf16", "f32", 12, {}),
        ("tf32", "tf32", "f32", 40, {}), ("tf32", "f16", "f32", 40, {}), ("e4m3", "e5m2", "f32", 24, {}),
        ("e4m3", "e4m3", "f32", 264, {}), ("s8", "u8", "s32", 24, {}), ("s8", "s8", "s32", 40, {}),
        ("u8", "s8", "s32", 48, {}), ("s8", "s8", "s32", 240, {}), ("u8", "u8", "s32", 256, {}),
        ("s8", "s8", "f32", 64, {}), ("f16", "bf16", "f32", 64, {}), ("bf16", "bf16", "s32", 64, {}),
        ("u8", "e4m3", "s32", 64, {}),
    ],
    sample=4,
)  # fmt: skip
def test_ptxas_agrees(a: str, b: str, accumulator: str, n: int, asked: dict[str, Any]) -> None:
    """The assembler takes exactly the instructions that are legal."""
    legal = check_wgmma_instruction(a, b, accumulator, n, **asked).legal
    source = wgmma_source(n, a, b, accumulator, asked.get("a_major") == "MN", asked.get("b_major") == "MN")
    try:
        compile_cubin(source, "wgmma_probe", "sm_90a")
    except CompileError as error:
        assert not legal, error.log
    else:
        assert legal


def test_the_table() -> None:
    for kind in WGMMA_TYPES.values():
        assert kind.k * dtype(kind.name).bits == 256
        assert set(kind.b_types) <= set(WGMMA_TYPES) and kind.n_sizes[0] == 8 and kind.n_sizes[-1] == 256
        assert kind.transposable == (dtype(kind.name).bits == 16)
        for b in kind.b_types:
            for accumulator in kind.accumulators:
                for n in kind.n_sizes:
                    found = check_wgmma_instruction(kind.name, b, accumulator, n).require()
                    assert (found.n, found.k) == (n, kind.k)
                    assert found.ptx.startswith(
                        f"wgmma.mma_async.sync.aligned.m64n{n}k{kind.k}.{accumulator}."
                    )


@each(
    ("arguments", "rule", "accepted", "fix"),
    [
        (("f32", "f32", "f32", 64), "wgmma.type", "f16, bf16, tf32, e4m3, e5m2, s8, u8, b1", {"a": "tf32"}),
        (("f16", "bf16", "f32", 64), "wgmma.type", "f16", {"b": "f16"}),
        (("bf16", "bf16", "f16", 64), "wgmma.accumulator", "f32", {"accumulator": "f32"}),
        (("s8", "s8", "s32", 41), "wgmma.n", "8, 16, 24, 32, 48, 64, ..., 256", {"n": 48}),
        (("f16", "f16", "f32", 300), "wgmma.n", "8, 16, 24, 32, 40, 48, ..., 256", {"n": 256}),
        (("f16", "f16", "f32", 0), "wgmma.n", "8, 16, 24, 32, 40, 48, ..., 256", {"n": 8}),
    ],
)
def test_rules(arguments: tuple[Any, ...], rule: str, accepted: str, fix: dict[str, Any]) -> None:
    report = check_wgmma_instruction(*arguments)
    assert report.broken == (rule,)
    assert (report.violations[0].accepted, dict(report.violations[0].fix)) == (accepted, fix)
    named = dict(zip(("a", "b", "accumulator", "n"), arguments, strict=True))
    repaired = {**named, **fix}
    if rule != "wgmma.type" or "b" in fix:
        assert check_wgmma_instruction(**repaired).legal
    with pytest.raises(report.violations[0].rule.error, match=rule.replace(".", r"\.")):
        report.require()


def test_majors_and_sources() -> None:
    ok = check_wgmma_instruction("f16", "f16", "f16", 64, a_source="registers", b_major="MN")
    assert str(ok.require()) == "wgmma.mma_async.sync.aligned.m64n64k16.f16.f16.f16"
    registers = check_wgmma_instruction("f16", "f16", "f16", 64, a_source="registers", a_major="MN")
    assert registers.broken == ("wgmma.source",) and dict(registers.violations[0].fix) == {"a_major": "K"}
    both = check_wgmma_instruction("e4m3", "e4m3", "f32", 64, a_major="MN", b_major="MN")
    assert both.broken == ("wgmma.transpose",) and len(both.violations) == 2
    assert (
        check_wgmma_instruction("b1", "b1", "s32", 8).require().ptx.endswith("m64n8k256.s32.b1.b1.and.popc")
    )


def test_bad_input() -> None:
    with pytest.raises(UnsupportedError, match="sm_100 has no wgmma"):
        check_wgmma_instruction("f16", "f16", "f32", 64, arch="sm_100")
    with pytest.raises(UnknownNameError, match="major-ness"):
        check_wgmma_instruction("f16", "f16", "f32", 64, a_major="M")  # type: ignore[arg-type]
    with pytest.raises(UnknownNameError, match="source of A"):
        check_wgmma_instruction("f16", "f16", "f32", 64, a_source="global")  # type: ignore[arg-type]
