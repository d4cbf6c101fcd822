"""What wgmma there is: a request that breaks a rule gets the rule and a change, and the change works."""

from __future__ import annotations

from itertools import product
from typing import Any, Literal

import pytest

from layoutalg import codegen as cg
from layoutalg import make_tiled_mma
from layoutalg.arch import WGMMA_TYPES, find_arch
from layoutalg.atoms import MMA_ATOMS
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.legality import check_wgmma_instruction
from tests.tiles.warpgroups import Case, one_block, shared_layout

Request = dict[str, Any]


def ask(a: str, b: str, accumulator: str, n: int = 64, **more: str) -> Request:
    return {"a": a, "b": b, "accumulator": accumulator, "n": n, **more}


BROKEN: list[tuple[str, Request, str]] = [
    ("wgmma.type", ask("f32", "tf32", "f32"), "operands of f32; accepted are f16, bf16"),
    ("wgmma.type", ask("f16", "bf16", "f32"), "A of f16 and B of bf16; accepted are f16"),
    ("wgmma.accumulator", ask("bf16", "bf16", "f16"), "sums of f16 for bf16; accepted are f32"),
    ("wgmma.accumulator", ask("s8", "s8", "f32"), "sums of f32 for s8; accepted are s32"),
    ("wgmma.n", ask("f16", "f16", "f32", 60), "N is 60 for f16; accepted are 8"),
    ("wgmma.n", ask("s8", "u8", "s32", 40), "N is 40 for s8; accepted are 8, 16, 24, 32"),
    ("wgmma.n", ask("tf32", "tf32", "f32", 264), "N is 264 for tf32"),
    (
        "wgmma.source",
        ask("f16", "f16", "f32", a_source="registers", a_major="MN"),
        "A is MN-major in registers",
    ),
    ("wgmma.transpose", ask("tf32", "tf32", "f32", b_major="MN"), "B of tf32 is MN-major"),
    ("wgmma.transpose", ask("e4m3", "e4m3", "f32", a_major="MN"), "A of e4m3 is MN-major"),
]


@pytest.mark.parametrize(("rule", "request_", "said"), BROKEN)
def test_a_broken_rule_has_a_change_that_works(rule: str, request_: Request, said: str) -> None:
    changed = request_
    verdict = check_wgmma_instruction(**changed)
    assert verdict.broken[0] == rule and said in str(verdict.violations[0])
    while not verdict.legal:
        changed = {**changed, **dict(verdict.violations[0].fix)}
        verdict = check_wgmma_instruction(**changed)
    more: dict[str, Any] = {name: changed[name] for name in ("a_major", "b_major") if name in changed}
    rs = changed.get("a_source") == "registers"
    case = Case(changed["a"], changed["b"], changed["accumulator"], changed["n"], rs=rs, **more)
    assert cg.find_wgmma(case.atom).name.startswith(f"wgmma_m64n{case.n}k")
    assert cg.compile(one_block(case)).spill_bytes == 0


def test_the_sizes_are_those_of_the_manual() -> None:
    every_8 = tuple(range(8, 257, 8))
    integers = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
    assert {name: kind.n_sizes for name, kind in WGMMA_TYPES.items()} == {
        **dict.fromkeys(("f16", "bf16", "tf32", "e4m3", "e5m2"), every_8),
        **dict.fromkeys(("s8", "u8", "b1"), integers),
    }


def test_every_wgmma_that_is_legal_is_an_instruction_and_no_other() -> None:
    kinds = [(kind.name, b) for kind in WGMMA_TYPES.values() if kind.name != "b1" for b in kind.b_types]
    sources: tuple[Literal["shared", "registers"], ...] = ("shared", "registers")
    legal = set()
    for (a, b), d, n, source in product(kinds, ("f16", "f32", "s32"), range(4, 265, 4), sources):
        verdict = check_wgmma_instruction(a, b, d, n, a_source=source)
        if verdict.legal:
            legal.add((verdict.require().ptx, source))
    dense = [
        atom for name, atom in MMA_ATOMS.items()
        if name.startswith("SM90_64x") and atom.sparsity == 1 and atom.arithmetic == "multiply"
    ]  # fmt: skip
    assert {(atom.ptx, atom.a_in) for atom in dense} == legal
    assert len({cg.find_wgmma(atom).name for atom in dense}) == len(dense)


def test_other_architectures_have_none() -> None:
    k = cg.Kernel("fenced", threads=128)
    k.do(cg.WGMMA_FENCE)
    kernel = k.build()
    for arch in ("sm_80", "sm_100", "sm_120"):
        with pytest.raises(UnsupportedError, match=f"exists on sm_90a alone; {find_arch(arch).name}"):
            cg.to_cuda(kernel, arch)
        with pytest.raises(UnsupportedError, match="has no wgmma; sm_90a has"):
            check_wgmma_instruction("f16", "f16", "f32", 64, arch=arch)


def test_operands_in_the_wrong_place_are_refused() -> None:
    k = cg.Kernel("places", threads=128)
    ss, rs = (make_tiled_mma(f"SM90_64x8x16_F32F16F16_{x}") for x in ("SS", "RS"))
    sm80 = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    me = k.get_slice(rs)
    left, acc = me.fragment_A("left", (64, 16)), me.fragment_C("acc", (64, 8))
    tile = me.partition_B(k.shared("tile", "f16", shared_layout("32B", "K", "f16", (8, 16))))
    source = me.partition_B(k.tensor("b", "f16", (8, 16), (16, 1)))
    for mma, a, b, options, said in (
        (ss, left, tile, {}, "takes A as a tensor in shared memory"),
        (rs, tile, tile, {}, "takes A as a fragment"),
        (rs, left, source, {}, "operand B of wgmma in b: shared memory is needed"),
        (sm80, left, left, {"accumulate": 0}, "tensors and sums from zero need wgmma"),
    ):
        with pytest.raises(UnsupportedError, match=said):
            k.mma(mma, acc, a, b, **options)
    with pytest.raises(UnknownNameError):
        make_tiled_mma("SM90_64x12x16_F32F16F16_SS")
