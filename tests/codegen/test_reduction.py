"""Maxima and sums of the rows and columns of accumulators, by every plan, in the simulator."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg import make_tiled_mma
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.relayout import linear
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import Layout
from layoutalg.registers import Fragment as Held
from layoutalg.registers import ReductionKind, fragment, linear_fragment, reduction_plans
from tests.sweeps import each

WARPS_2X2 = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
INTEGERS = make_tiled_mma("SM80_16x8x32_S32S8S8S32_TN", (1, 4, 1))
WARPGROUP = make_tiled_mma("SM90_64x32x16_F32F16F16_SS<K,K>")
WIDE = make_tiled_mma("SM90_64x96x16_F32F16F16_SS<K,K>")


def numbers(element: str, shape: tuple[int, ...], seed: int = 0) -> np.ndarray:
    draw = np.random.default_rng(seed)
    whole = draw.integers(-99, 99, shape)
    return whole.astype("i4") if element == "s32" else whole.astype("f4")


def run(tiled: Any, shape: tuple[int, int], element: str, op: Any, along: Any, kind: Any) -> Any:
    """The results of a kernel of one block, and what NumPy gives."""
    k = cg.Kernel("rows", threads=tiled.threads)
    x = k.tensor("x", element, shape, (shape[1], 1))
    thread = k.get_slice(tiled)
    acc = thread.fragment_C("acc", shape)
    k.load(thread.partition_C(x), into=acc)
    found, given = cg.reduce_along(thread, op, acc, shape, along, kind=kind), numbers(element, shape)
    function = {"sum": np.add, "max": np.maximum, "min": np.minimum}[op]
    return (
        stored(k, found, element, given, along),
        function.reduce(given, axis=1 if along == "n" else 0),
        found,
    )


def stored(k: Any, found: Any, element: str, given: np.ndarray, along: str) -> np.ndarray:
    """The results that the first of each group of threads stores, by their numbers."""
    count = given.shape[0] if along == "n" else given.shape[1]
    y = k.tensor("y", element, (count,), (1,), writable=True)
    with k.If(found.first):
        for g, number in enumerate(found.numbers):
            k.do(cg.STG[4], y.at(number), found.results.at(0, g))
    out = np.full(count, -7777, given.dtype)
    cg.simulate(k.build(), {"x": given, "y": out})
    return out


@pytest.mark.deep
@each(
    ("tiled", "shape", "element"),
    [(WARPS_2X2, (64, 32), "f32"), (INTEGERS, (16, 64), "s32"), (WARPGROUP, (64, 32), "f32"),
     (WIDE, (64, 96), "f32")],
    ids=str,
)  # fmt: skip
@each("along", ["m", "n"])
def test_every_plan_of_an_accumulator_is_right(tiled: Any, shape: Any, element: str, along: str) -> None:
    mine = fragment(tiled.get_layoutC_TV(), tiled.tile_shape[:2])
    kinds = [plan.kind for plan in reduction_plans(mine, along=along, element=element)]
    for kind in (None, *kinds):
        op = "sum" if kind else "min"
        got, expected, found = run(tiled, shape, element, op, along, kind)
        assert (got == expected).all(), (kind, op, got, expected)
        assert kind is None or found.plan.kind == kind


def drawn(rng: random.Random) -> tuple[LinearLayout, tuple[int, int]]:
    """A random linear map from register, lane and warp onto a tile: a bijection, or one that repeats."""
    registers, warps = rng.randint(0, 3), rng.randint(0, 2)
    bits = registers + 5 + warps
    columns = [1 << j for j in range(bits)]
    rng.shuffle(columns)
    for _ in range(rng.choice((0, 0, 6, 30))):
        i, j = rng.sample(range(bits), 2)
        columns[i] ^= columns[j]
    first = rng.randint(0, bits)
    if rng.random() < 0.3:
        columns[rng.randrange(bits)] = 0
    bases = [(c & (1 << first) - 1, c >> first) for c in columns]
    ins = {
        "register": bases[:registers],
        "lane": bases[registers : registers + 5],
        "warp": bases[registers + 5 :],
    }
    shape = (1 << first, 1 << bits - first)
    return LinearLayout(ins, {"m": shape[0], "n": shape[1]}), shape


@pytest.mark.deep(only=("0",))
@pytest.mark.parametrize("seed", range(6))
def test_every_plan_of_a_random_layout_is_right(seed: int) -> None:
    rng = random.Random(seed)
    for _ in range(4):
        layout, shape = drawn(rng)
        tile = linear_fragment(layout)
        along, element = rng.choice("mn"), rng.choice(("f32", "s32"))
        given, reached = numbers(element, shape, seed), np.zeros(shape, bool)
        for w, n, r in np.ndindex(tile.warps, tile.lanes, tile.registers):
            reached[tile.element(r, n, w)] = True
        for plan in reduction_plans(tile, along=along, element=element):
            out = by_plan(tile, given, along, element, plan.kind)
            neutral = np.where(reached, given, -10_000)
            expected = neutral.max(axis=1 if along == "n" else 0)
            held = reached.any(axis=1 if along == "n" else 0)
            assert (out[held] == expected[held]).all(), (layout, along, plan)


def by_plan(tile: Held, given: np.ndarray, along: str, element: str, kind: ReductionKind) -> np.ndarray:
    """Maxima of a tile whose elements are loaded one by one where the layout says."""
    k = KernelBuilder("rows", threads=WARP * tile.warps)
    x = k.tensor("x", element, given.shape, (given.shape[1], 1))
    held = k.fragment("held", element, (1, tile.registers))
    for r in range(tile.registers):
        at = [
            linear(tile.layout.sublayout(["lane"], [d]).columns, k.tid % WARP)
            ^ linear(tile.layout.sublayout(["warp"], [d]).columns, k.tid // WARP)
            ^ tile.element(r, 0, 0)[i]
            for i, d in enumerate("mn")
        ]
        k.do(cg.LDG[4], held.at(0, r), x.at(*at))
    return stored(k, cg.reduce_tile(k, tile, "max", held, along, kind=kind), element, given, along)


def test_a_row_of_a_warp_is_one_redux() -> None:
    row = fragment(Layout((32, 4), (1, 32)), (1, 128))
    chosen = {e: reduction_plans(row, along="n", element=e)[0].kind for e in ("s32", "f32")}
    assert chosen == {"s32": "redux", "f32": "shuffle"}
    assert reduction_plans(row, along="n", element="s32", arch="sm_75")[0].kind == "shuffle"
    k = KernelBuilder("rows", threads=32)
    cg.reduce_tile(k, row, "sum", k.fragment("v", "s32", (4,)), "n")
    text = cg.to_cuda(k.build())
    assert "__reduce_add_sync(0xFFFFFFFFu" in text and "shfl" not in text


@each(
    ("op", "element", "count", "kind", "error", "part"),
    [
        ("sum", "f16", 4, None, UnsupportedError, "f32, s32"),
        ("sum", "f32", 2, None, ShapeError, "as 4 registers of 32 lanes"),
        ("sum", "f32", 4, "redux", UnknownNameError, "redux"),
        ("product", "f32", 4, None, UnknownNameError, "reduction"),
    ],
)
def test_what_cannot_be_reduced_is_refused(
    op: Any, element: str, count: int, kind: Any, error: type[Exception], part: str
) -> None:
    k, row = KernelBuilder("rows", threads=64), fragment(Layout((32, 4), (1, 32)), (1, 128))
    with pytest.raises(error, match=part):
        cg.reduce_tile(k, row, op, k.fragment("held", element, (count,)), "n", kind=kind)
