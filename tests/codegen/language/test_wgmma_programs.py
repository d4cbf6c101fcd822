"""Products of one warpgroup, in every swizzle mode, major and type, run by the simulator."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg import Layout, make_tiled_copy_C, make_tiled_mma
from layoutalg import codegen as cg
from layoutalg.arch import Major
from layoutalg.errors import AlignmentError, UnsupportedError
from tests.tiles import warpgroups as wg

SOME = [
    case if n % 3 == 0 else pytest.param(case, marks=pytest.mark.deep) for n, case in enumerate(wg.cases())
]
"""Every case, of which every third is in the first tier."""


@pytest.mark.parametrize("case", SOME, ids=str)
def test_a_product_is_right(case: wg.Case) -> None:
    kernel, (a, b), d = wg.one_block(case), wg.operands(case), wg.result(case)
    cg.simulate(kernel, {"a": a.stored, "b": b.stored, "d": d}, trace=False)
    assert (d == wg.expected(a, b)).all()


@pytest.mark.deep(only=("block-K", "block-MN"))
@pytest.mark.parametrize("major", ["K", "MN"])
@pytest.mark.parametrize("group", ["block", "warp"])
def test_several_instructions_along_every_mode_are_right(major: Major, group: str) -> None:
    a, b = (wg.numbers("f16", (128, 128), 1, turned=major == "MN"), wg.numbers("f16", (128, 128), 2))
    d = np.zeros((128, 128), np.float32)
    cg.simulate(wg.wide(major), {"a": a.stored, "b": b.stored, "d": d}, group=group, trace=False)
    assert (d == wg.expected(a, b)).all()
    assert cg.compile(wg.wide(major)).spill_bytes == 0


@pytest.mark.deep
@pytest.mark.parametrize("case", wg.all_pairs(), ids=str)
def test_every_pair_of_layouts_is_right_in_any_order(case: wg.Case) -> None:
    kernel, (a, b) = wg.one_block(case), wg.operands(case, 5)
    for group in ("block", "warp"):
        d = wg.result(case)
        cg.simulate(kernel, {"a": a.stored, "b": b.stored, "d": d}, group=group, trace=False)
        assert (d == wg.expected(a, b)).all()
    assert cg.compile(kernel).spill_bytes == 0


@pytest.mark.parametrize("name", wg.RINGS)
@pytest.mark.parametrize("group", ["block", "warp"])
def test_a_ring_of_boxes_is_right(name: str, group: str) -> None:
    kernel, (m, n, depth) = wg.RINGS[name](), (256, 128, 320)
    a, b = wg.ring_operands(m, n, depth)
    d = np.zeros((m, n), np.float32)
    run = cg.simulate(
        kernel, {"a": a.stored, "b": b.stored, "d": d, "m": m, "n": n, "k": depth}, group=group, trace=False
    )
    assert (d == wg.expected(a, b)).all()
    products = {x: counts for x, counts in run.executed.items() if x.startswith("wgmma_m64n128k16")}
    assert [sum(counts) for counts in products.values()] == [run.blocks * 8 * 5 * 4]


@pytest.mark.parametrize("name", wg.RINGS)
def test_a_ring_of_boxes_compiles_as_it_is_written(name: str) -> None:
    assert cg.compile(wg.RINGS[name]()).spill_bytes == 0


@pytest.mark.parametrize("group", ["block", "warp"])
@pytest.mark.parametrize("columns", [64, 128])
def test_an_epilogue_by_stmatrix_and_tma_is_right(group: str, columns: int) -> None:
    kernel, (a, b) = (wg.epilogue(columns), wg.operands(wg.Case("f16", "f16", "f32", n=columns)))
    d = np.zeros((64, columns), np.float16)
    run = cg.simulate(kernel, {"a": a.stored, "b": b.stored, "d": d}, group=group)
    assert (d == wg.expected(a, b)).all()
    stores = columns // 16 * 4
    assert run.trace.total("stmatrix.x4") == (stores, 4 * stores, 4 * stores)
    assert run.moved["store"] == 64 * columns * 2


def test_an_epilogue_compiles_as_it_is_written() -> None:
    assert cg.compile(wg.epilogue()).spill_bytes == 0


def test_stmatrix_of_other_elements_is_refused() -> None:
    k = cg.Kernel("refused", threads=128)
    mma = make_tiled_mma(wg.Case("f16", "f16", "f32").atom)
    tile = k.shared("tile", "f32", Layout((64, 64), (64, 1)))
    matrices = k.get_slice(make_tiled_copy_C("SM90_U32x4_STSM_N", mma))
    acc = k.get_slice(mma).fragment_C("acc", (64, 64))
    with pytest.raises(UnsupportedError, match="stmatrix moves elements of 16 bits"):
        k.store(matrices.retile(acc), matrices.partition_D(tile))
    columns = k.shared("columns", "f16", Layout((64, 64)))
    rounded = k.get_slice(make_tiled_copy_C("SM90_U32x4_STSM_N", mma, "f16"))
    with pytest.raises(AlignmentError, match="rows of 8 elements, of which 1 lie next to each other"):
        k.store(rounded.retile(k.map(acc.to("f16"))), rounded.partition_D(columns))
