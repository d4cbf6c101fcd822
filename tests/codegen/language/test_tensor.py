"""Tensors by coordinates: tiles, slices, partitions, fragments and copies of them, checked by enumeration."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg.atoms import (
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_mma,
)
from layoutalg.codegen.expr import Const, Expr, Var, evaluate, minus, simplify
from layoutalg.codegen.instr import BAR, LDG, STG
from layoutalg.codegen.language import Fragment, KernelBuilder, Tensor, local_tile, partition
from layoutalg.codegen.language.tensor import whole
from layoutalg.codegen.language.verification import verify
from layoutalg.codegen.program import Do, Global, Kernel, Let, MemRef, walk
from layoutalg.codegen.sim import simulate
from layoutalg.dtype import dtype
from layoutalg.errors import IRError, NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle, product
from tests.sweeps import each

TID = Var("tid", 128)
LOAD = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((16, 8), (8, 1)), Layout((1, 4)))
SWIZZLED = ComposedLayout(Swizzle(3, 2, 3), 0, Layout((64, 32), (32, 1)))


def numbers(crd: tuple[Expr, ...], env: dict[Var, int]) -> tuple[int, ...]:
    return tuple(evaluate(c, env) for c in crd)


def matrix(k: KernelBuilder, **options: Any) -> tuple[Tensor, Var, Var, Var]:
    m, n, ld = k.extent("m", 256, 4), k.extent("n", 256, 4), k.extent("ld", 512, 4)
    return k.tensor("g", "f32", (m, n), (ld, 1), **options), m, n, ld


def test_tiles_slices_turned_views_and_stages_are_where_their_coordinates_say() -> None:
    k = KernelBuilder("k", 128)
    g, m, n, ld = matrix(k)
    x, y, kt = k.block(0, 4), k.block(1, 8), Var("kt", 8, "loop")
    tile, tiles = local_tile(g, (64, 32), (x, y)), local_tile(g, (64, 32), (1, None))
    env = {x: 3, y: 5, m: 256, n: 256, ld: 300, k.tid: 0}
    for i, j in itertools.product((0, 17, 63), (0, 31)):
        assert numbers(tile.coordinate(i, j), env) == (3 * 64 + i, 5 * 32 + j)
        assert evaluate(tile.at(i, j).index, env) == (3 * 64 + i) * 300 + 5 * 32 + j
    assert tile.at(1, 2).tensor == tile and tile.at(1, 2).coordinate == tile.coordinate(1, 2)
    for extent in (192, 200, 256):
        assert evaluate(tile.inside(10, 0), {**env, m: extent}) == (extent > 192 + 10)
    assert tiles.shape == (64, 32, 8) and tiles[2, None, 3].coordinate(5) == (Const(66), Const(101))
    assert tiles[None, None, kt] == local_tile(g, (64, 32), (1, kt))
    ring, turned = k.shared("t", "f32", SWIZZLED, stages=3), k.shared("u", "f32", SWIZZLED).transposed
    assert turned.shape == (32, 64) and turned.at(3, 9).index == Const(4 * SWIZZLED(9, 3))
    assert turned.transposed.at(9, 3).index == turned.at(3, 9).index
    assert ring.shape == (64, 32, 3) and k.build().shared_bytes == 4 * 64 * 32 * 4
    for s in range(3):  # a stage is added outside of the swizzle
        found = evaluate(ring[None, None, kt].at(13, 7).index, {kt: s})
        assert found == 4 * SWIZZLED(13, 7) + s * 64 * 32 * 4


@each("shape", [(64, 32), (16, 64), (32, 96)])
def test_a_partition_is_tidfrg_of_the_coordinates(shape: tuple[int, int]) -> None:
    layout = Layout(shape, (shape[1], 1))
    part = partition(KernelBuilder("k", 128).tensor("g", "f32", shape, (shape[1], 1)), LOAD, "src", TID)
    wanted = LOAD.tidfrg("src", layout)
    for t, v in itertools.product((0, 1, 37, 127), range(product(wanted[1].shape))):
        row, column = numbers(part.coordinate(v), {TID: t})
        assert row * shape[1] + column == wanted(t, v)


@each("operand", ["A", "B", "C"])
def test_a_partition_by_a_tiled_mma(operand: Any) -> None:
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1))
    shape = {"A": (64, 32), "B": (32, 32), "C": (64, 32)}[operand]
    k = KernelBuilder("k", 128)
    tensor = k.shared("t", mma.atom.dtype(operand), Layout(shape))
    part = k.get_slice(mma).partition(operand, tensor)
    wanted = mma.tidfrg(operand, Layout(shape))
    for t, v in itertools.product((0, 5, 64, 127), range(product(wanted[1].shape))):
        row, column = numbers(part.coordinate(v), {k.tid: t})
        assert row + shape[0] * column == wanted(t, v)
    held = getattr(k.get_slice(mma), f"fragment_{operand}")("f", shape)
    assert product(held.shape) == part.size


def test_the_thread_part_is_named_once_where_it_is_known() -> None:
    k = KernelBuilder("k", 128)
    g, _, n, _ = matrix(k)
    me, x = k.get_slice(LOAD), k.block(0, 4)
    with k.For("kt", n // 32) as kt:
        first, second, moving = (me.partition_S(local_tile(g, (64, 32), (x, y))) for y in (0, 0, kt))
    outside = [s.var for s in k.build().body if isinstance(s, Let)]
    assert [var.name for var in outside] == ["g_0", "g_1"]
    assert first == second and first.origin == tuple(outside)
    assert moving.origin[0] == first.origin[0]
    assert sum(isinstance(s, Let) for s in walk(k.build().body)) == 3
    k = KernelBuilder("k", 128)
    g, m, _, _ = matrix(k)
    with k.If(m < 8):
        pass
    with k.Else():
        k.get_slice(LOAD).partition_S(local_tile(g, (64, 32), (0, 0)))
    assert [str(s).split(" ")[0] for s in k.build().body] == ["g_0", "g_1", "if"]  # before both branches


def transposing_copy(T: int = 64) -> Kernel:
    k = KernelBuilder("transpose", 512)
    m, n, lds, ldd = (k.extent(x, 8192, 4) for x in ("m", "n", "lds", "ldd"))
    src = k.tensor("src", "f32", (m, n), (lds, 1))
    dst = k.tensor("dst", "f32", (n, m), (ldd, 1), writable=True)
    tile = k.shared("tile", "f32", ComposedLayout(Swizzle(3, 2, 6), 0, Layout((T, T))))
    threads = Layout(((4, 8), (8, 2)), ((8, 64), (1, 32)))
    load = k.get_slice(make_tiled_copy("UniversalCopy<uint128_t>", "f32", threads, Layout((1, 4))))
    store = k.get_slice(
        make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((16, 32), (1, 16)), Layout((4, 1)))
    )
    tiles = (m + (T - 1)) // T
    b = k.block(0, tiles * ((n + (T - 1)) // T))
    x, y = k.let("x", b % tiles), k.let("y", b // tiles)
    s = load.partition_S(local_tile(src, (T, T), (x, y)))
    d = store.partition_D(local_tile(dst, (T, T), (y, x)).transposed)
    full = (x * T + T <= m) & (y * T + T <= n)
    with k.If(full):
        v = k.load(s)
    with k.Else():
        k.load(s, where=s.inside, into=v)
    k.store(v, load.partition_D(tile))
    k.do(BAR)
    u = k.load(store.partition_S(tile))
    with k.If(full):
        k.store(u, d)
    with k.Else():
        k.store(u, d, where=d.inside)
    return k.build()


@each("m, n", [(64, 64), (100, 72), (4, 4), (132, 200)])
def test_a_transposing_copy(m: int, n: int) -> None:
    x = np.random.default_rng(0).standard_normal((m, n + 4)).astype("f4")
    y = np.full((n, m + 8), -1, "f4")
    simulate(transposing_copy(), {"m": m, "n": n, "lds": n + 4, "ldd": m + 8, "src": x, "dst": y})
    assert (y[:, :m] == x[:, :n].T).all() and (y[:, m:] == -1).all()


def test_a_program_says_what_its_layouts_are() -> None:
    refs = [
        a for s in walk(transposing_copy().body) if isinstance(s, Do) for a in s.args if isinstance(a, MemRef)
    ]
    assert len(refs) == 6
    for ref in refs:
        assert ref.tensor is not None and ref.tensor.part is not None
        assert ref.index == simplify(ref.tensor.buffer.index(ref.coordinate))
        assert product(ref.tensor.part.layout[0].shape) == 512
        assert product(ref.tensor.part.layout[1].shape) == ref.tensor.size == 8


def product_of_one(columns: int, loads: tuple[str, str], store: str = "") -> Kernel:
    """A warp multiplies 16 x 16 by 16 x `columns` with fragments by these matrix loads; f32 results, or f16
    ones by a matrix store."""
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (1, 1, 1), (16, columns))
    k = KernelBuilder("one", 32)
    me, acc = k.get_slice(mma), k.get_slice(mma).fragment_C("acc", (16, columns))
    k.clear(acc)
    fill = k.get_slice(
        make_tiled_copy("UniversalCopy<uint32_t>", "f16", Layout((8, 4), (4, 1)), Layout((1, 2)))
    )
    held = me.fragment_A("fa", (16, 16)), me.fragment_B("fb", (columns, 16))
    for name, rows, make, atom, into in (
        ("a", 16, make_tiled_copy_A, loads[0], held[0]), ("b", columns, make_tiled_copy_B, loads[1], held[1])
    ):  # fmt: skip
        tile = k.shared(f"tile_{name}", "f16", Layout((rows, 16), (16, 1)))
        k.copy(fill.partition_S(k.tensor(name, "f16", (rows, 16), (16, 1))), fill.partition_D(tile))
        k.do(BAR)
        lds = k.get_slice(make(atom, mma))
        k.load(lds.partition_S(tile), into=lds.retile(into))
    k.mma(mma, acc, held[0][None, None, 0], held[1][None, None, 0])
    if not store:
        k.store(acc, me.partition_C(k.tensor("d", "f32", (16, columns), (columns, 1), writable=True)))
        return k.build()
    tile = k.shared("tile_d", "f16", Layout((16, columns), (columns, 1)))
    sts = k.get_slice(make_tiled_copy_C(store, mma, "f16"))
    k.store(sts.retile(k.map(acc.to("f16"))), sts.partition_D(tile))
    k.do(BAR)
    out = k.get_slice(
        make_tiled_copy("UniversalCopy<uint32_t>", "f16", Layout((8, 4), (4, 1)), Layout((1, 2)))
    )
    d = k.tensor("d", "f16", (16, columns), (columns, 1), writable=True)
    k.copy(out.partition_S(tile), out.partition_D(d))
    return k.build()


@pytest.mark.parametrize(
    ("columns", "loads", "store"),
    [
        (8, ("SM75_U32x4_LDSM_N", "SM75_U32x2_LDSM_N"), "SM90_U32x2_STSM_N"),
        (8, ("SM75_U32x2_LDSM_N", "SM75_U32x1_LDSM_N"), "SM90_U32x1_STSM_N"),
        (16, ("SM75_U32x1_LDSM_N", "SM75_U32x4_LDSM_N"), ""),
    ],
)
def test_matrices_by_ones_and_twos(columns: int, loads: tuple[str, str], store: str) -> None:
    rng = np.random.default_rng(1)
    a, b = (rng.integers(-4, 5, (rows, 16)).astype("f2") for rows in (16, columns))
    d = np.zeros((16, columns), "f2" if store else "f4")
    run = simulate(product_of_one(columns, loads, store), {"a": a, "b": b, "d": d})
    assert (d == (a.astype("f4") @ b.T.astype("f4"))).all()
    for name, rows in zip(loads, (16, columns), strict=True):
        count = int(name[9])
        assert run.trace.total(f"ldmatrix.x{count}")[0] >= rows * 2 // 8 // count
    if store:
        assert run.trace.total(f"stmatrix.x{store[9]}")[0] == 2 // int(store[9])


def test_fragments() -> None:
    k = KernelBuilder("k", 128)
    held = k.fragment("f", "f16", ((2, 2), 4, 2), values=8)
    assert held.reg.shape == (4, 4) and held.per_word == 2
    assert str(held[None, 3, 1].words) == "f[3][2]..+2"
    assert held[None, None, 1].at(8, values=4) == held[None, 2, 1].words
    wide = k.fragment("w", "f64", (2, 3))
    assert wide.reg.shape == (3, 4) and str(wide.at(1, 2)) == "w[2][2]..+2"
    byte = k.fragment("b", "u8", (1, 3))
    assert byte.reg.shape == (3, 1) and byte.per_word == 1
    with pytest.raises(NotInjectiveError, match="two places of"):
        Fragment(wide.reg, dtype("f64"), Layout((2, 3), (1, 0)))
    with pytest.raises(ShapeError, match="takes 16 words, and 12 are there"):
        Fragment(wide.reg, dtype("f64"), Layout((2, 4)))
    with pytest.raises(ShapeError, match="do not lie side by side"):
        held.view(Layout((4, 4, 2), (8, 1, 4))).at(0, values=2)


def refused(k: KernelBuilder, g: Tensor) -> dict[str, tuple[Callable[[], object], type[Exception], str]]:
    me, small = k.get_slice(LOAD), k.fragment("f", "f32", (4, 1))
    return {
        "rank": (lambda: k.tensor("x", "f32", (4, 4), (1,)), ShapeError, "has 2 extents and 1 strides"),
        "tile": (
            lambda: me.partition_S(local_tile(g, (24, 32), (0, 0))), ShapeError,
            "24 elements and the tile 16"
        ),
        "overlap": (
            lambda: k.shared("x", "f32", Layout((8, 8), (0, 1))), NotInjectiveError, "are one element"
        ),
        "modes": (lambda: local_tile(g, (4, 4, 4), (0, 0, 0)), ShapeError, "it has 2 modes"),
        "order": (lambda: g.select(0, 0), ShapeError, "each of its 2 modes once"),
        "elements": (
            lambda: k.load(me.partition_S(local_tile(g, (64, 32), (0, 0))), into=small),
            ShapeError, "4 elements are needed|16 elements are needed",
        ),
        "mma": (lambda: me.fragment_C("f", (16, 8)), UnsupportedError, "a tiled MMA is needed"),
    }  # fmt: skip


def test_refused() -> None:
    k = KernelBuilder("k", 128)
    for build, kind, said in refused(k, matrix(k)[0]).values():
        with pytest.raises(kind, match=said):
            build()
    k = KernelBuilder("k", 256)
    with pytest.raises(IRError, match="has 128 threads, and tid counts up to 255"):
        k.get_slice(LOAD).partition_S(local_tile(matrix(k)[0], (16, 32), (0, 0)))


def shifted(by: int, how: str) -> Kernel:
    """y[i] = x[i + by] where that exists, and 0."""
    k = KernelBuilder("shifted", 32)
    n = k.extent("n", 1 << 12)
    x, y = k.tensor("x", "f32", (n,), (1,)), k.tensor("y", "f32", (n,), (1,), writable=True)
    i = k.block(0, (n + 31) // 32) * 32 + k.tid
    at = minus(i, -by) if by < 0 else i + by
    place = k.let("place", at) if how == "named" else at
    view, crd = (x.moved(place), 0) if how == "moved" else (x, place)
    v = k.fragment("v", "f32", (1,))
    k.clear(v)
    with k.If(i < n):
        with k.If(view.inside(crd)):
            k.do(LDG[4], v, view.at(crd))
        k.do(STG[4], y.at(i), v)
    return k.build()


@each(("by", "how"), [(by, how) for by in (-33, -1, 2) for how in ("written", "named", "moved")])
def test_a_neighbour_exists_on_neither_side_of_the_tensor(by: int, how: str) -> None:
    def reference(x: Any) -> Any:
        return np.array([x[j + by] if 0 <= j + by < len(x) else 0 for j in range(len(x))], np.float32)

    verify(shifted(by, how), reference, cases=1)


def test_inside_is_the_exact_coordinate_below_the_extent_and_not_below_zero() -> None:
    """A seeded law: shifts to both sides, in sums and multiples, tiles, slices and views of views."""
    rng = random.Random(20261129)
    m, n = Var("m", 41, "param"), 40
    g = whole(Global("g", 4, (Const(64), Const(1)), False), extents=(m, Const(n)))
    i = Var("i", 64)
    for _ in range(60):
        back, on, by = rng.randrange(1, 20), rng.randrange(4), rng.randrange(1, 3)
        place = minus(i * by, back)
        ways = [
            (g.inside(place, on), 1, 0),
            (g.inside(place + on, 3), 1, on),
            (g.moved(place, 0).inside(on, 0), 1, on),
            (g.transposed.moved(place, 0).inside(2, on), 1, on),
            (local_tile(g, (4, 8), (place, 0)).inside(on, 1), 4, on),
            (g[place, None].inside(on), 1, 0),
            (g.moved(on, 0)[None, 2].inside(place), 1, on),
        ]
        for predicate, times, more in ways:
            for x in (0, back - 1, back, (back + by - 1) // by, 63):
                meant = by * x - back  # where this is below 0, the place that is written is another one
                there = meant >= 0 and times * meant + more < 30
                assert evaluate(predicate, {i: x, m: 30}) == there, (str(predicate), x)
    assert str(whole(g.buffer, extents=(None, None)).inside(0, minus(i, 1))) == "0 < i"
