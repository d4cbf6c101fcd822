"""What wgmma there is: a request that breaks a rule gets the rule and a change, and the change works."""

from __future__ import annotations

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


BROKEN: dict[str, tuple[Request, str]] = {
    "wgmma.type": (ask("f32", "tf32", "f32"), "operands of f32; accepted are f16, bf16"),
    "wgmma.type of b": (ask("f16", "bf16", "f32"), "A of f16 and B of bf16; accepted are f16"),
    "wgmma.accumulator": (ask("bf16", "bf16", "f16"), "sums of f16 for bf16; accepted are f32"),
    "wgmma.accumulator of integers": (ask("s8", "s8", "f32"), "sums of f32 for s8; accepted are s32"),
    "wgmma.n": (ask("f16", "f16", "f32", 60), "N is 60 for f16; accepted are 8"),
    "wgmma.n of integers": (ask("s8", "u8", "s32", 40), "N is 40 for s8; accepted are 8, 16, 24, 32"),
    "wgmma.n past the end": (ask("tf32", "tf32", "f32", 264), "N is 264 for tf32"),
    "wgmma.source": (
        ask("f16", "f16", "f32", a_source="registers", a_major="MN"),
        "A is MN-major in registers; accepted are K-major registers",
    ),
    "wgmma.transpose": (ask("tf32", "tf32", "f32", b_major="MN"), "B of tf32 is MN-major"),
    "wgmma.transpose of a": (ask("e4m3", "e4m3", "f32", a_major="MN"), "A of e4m3 is MN-major"),
}


@pytest.mark.parametrize("name", BROKEN)
def test_a_broken_rule_has_a_change_that_works(name: str) -> None:
    request, said = BROKEN[name]
    verdict = check_wgmma_instruction(**request)
    assert verdict.broken[0] == name.partition(" ")[0]
    assert said in str(verdict.violations[0])
    while not verdict.legal:
        request = {**request, **dict(verdict.violations[0].fix)}
        verdict = check_wgmma_instruction(**request)
    case = Case(
        request["a"], request["b"], request["accumulator"], n=request["n"],
        a_major=request.get("a_major", "K"), b_major=request.get("b_major", "K"),
        rs=request.get("a_source") == "registers",
    )  # fmt: skip
    assert cg.find_wgmma(case.atom).name.startswith(f"wgmma_m64n{case.n}k")
    assert cg.compile(one_block(case)).spill_bytes == 0


def test_the_sizes_are_those_of_the_manual() -> None:
    every_8 = tuple(range(8, 257, 8))
    integers = (8, 16, 24, 32, 48, 64, 80, 96, 112, 128, 144, 160, 176, 192, 208, 224, 240, 256)
    assert {name: kind.n_sizes for name, kind in WGMMA_TYPES.items()} == {
        **dict.fromkeys(("f16", "bf16", "tf32", "e4m3", "e5m2"), every_8),
        **dict.fromkeys(("s8", "u8", "b1"), integers),
    }


SOURCES: tuple[Literal["shared", "registers"], ...] = ("shared", "registers")


def test_every_wgmma_that_is_legal_is_an_instruction_and_no_other() -> None:
    legal = set()
    for kind in WGMMA_TYPES.values():
        for b in kind.b_types if kind.name != "b1" else ():
            for d in ("f16", "f32", "s32"):
                for n in range(4, 265, 4):
                    for source in SOURCES:
                        verdict = check_wgmma_instruction(kind.name, b, d, n, a_source=source)
                        if verdict.legal:
                            legal.add((verdict.require().ptx, source))
    dense = [
        atom
        for name, atom in MMA_ATOMS.items()
        if name.startswith("SM90_64x") and atom.sparsity == 1 and atom.arithmetic == "multiply"
    ]
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
    me = k.get_slice(rs)
    left, acc = me.fragment_A("left", (64, 16)), me.fragment_C("acc", (64, 8))
    tile = me.partition_B(k.shared("tile", "f16", shared_layout("32B", "K", "f16", (8, 16))))
    source = me.partition_B(k.tensor("b", "f16", (8, 16), (16, 1)))
    with pytest.raises(UnsupportedError, match="takes A as a tensor in shared memory"):
        k.mma(ss, acc, left, tile)
    with pytest.raises(UnsupportedError, match="takes A as a fragment"):
        k.mma(rs, acc, tile, tile)
    with pytest.raises(UnsupportedError, match="operand B of wgmma in b: shared memory is needed"):
        k.mma(rs, acc, left, source)
    sm80 = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
    with pytest.raises(UnsupportedError, match="tensors and sums from zero need wgmma"):
        k.mma(sm80, acc, left, left, accumulate=0)
    with pytest.raises(UnknownNameError):
        make_tiled_mma("SM90_64x12x16_F32F16F16_SS")
