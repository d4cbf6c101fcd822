"""Moves as data: what is refused, the shortest form, common modes of layouts, the least that memory moves."""

from __future__ import annotations

import random
from math import prod
from typing import Any, cast

import numpy as np
import pytest

import layoutalg as la
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    NotInjectiveError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move import least_bytes
from layoutalg.kernels.move.problem import (
    Moves,
    common_modes,
    move_problem,
    normalise,
    permute_problem,
    reference,
    relayout_problem,
    strided,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle, Swizzles
from layoutalg.notation import parse
from tests.draws.permutations import random_buffers, random_conversion, random_problem
from tests.sweeps import each


def move(x: Moves, src: Any, old: Any) -> Any:
    """What a shortest form says, by the definition, on bytes."""
    wide = CARRIER[x.element_bytes]
    padded = [np.concatenate([a.view("u1"), np.zeros(-a.nbytes % 16, "u1")]).view(wide) for a in (src, old)]
    shape = tuple(m.extent for m in x.modes)
    low = x.src_offset + sum((m.extent - 1) * max(-m.src, 0) for m in x.modes)
    of = strided(padded[0], shape, tuple(m.src for m in x.modes), low)
    strided(padded[1], shape, tuple(m.dst for m in x.modes), x.dst_offset)[...] = of
    return padded[1].view("u1")[: old.nbytes]


@each("seed", range(80))
def test_the_shortest_form_moves_the_same_bytes(seed: int) -> None:
    p = random_problem(random.Random(seed), 3000)
    src, old = random_buffers(p, seed)
    x = normalise(p)
    assert move(x, src, old).tobytes() == reference(p, src, old).tobytes()
    assert all(m.extent > 1 for m in x.modes) or x.rank == 1
    assert x.rank <= len([n for n in p.shape if n > 1]) + 1


@each(
    ("shape", "axes", "dtype", "expected"),
    [
        ((64, 128), (0, 1), "f32", "16-byte elements, 2048:1->1"),
        ((8, 4, 6), (1, 0, 2), "u8", "2-byte elements, 3:1->1, 8:12->3, 4:3->24"),
        ((1, 1), (1, 0), "c128", "16-byte elements, 1:1->1"),
    ],
)
def test_known_shortest_forms(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, expected: str
) -> None:
    assert str(normalise(permute_problem(shape, axes, dtype))) == expected


X, COMPOSED = np.zeros((4, 6), "f4"), cast(ComposedLayout, parse("(2,2):(2,1) o 1 o 3:1"))
CUT = np.zeros(100, "u1")[2:98].view("f4").reshape(4, 6)


@each(
    ("call", "error", "text"),
    [
        (lambda: permute_problem((2, 3), (0, 0), "f32"), ShapeError, "not a permutation"),
        (lambda: permute_problem((2, 3), (1, 0), "f32", src=(1,)), ShapeError, "every mode"),
        (lambda: move_problem((2, 3), "f32", (1, 2), (1,)), ShapeError, "every mode"),
        (lambda: permute_problem((2, 0), (1, 0), "f32"), ShapeError, "positive"),
        (lambda: permute_problem((2, 3), (1, 0), "u4"), UnsupportedError, "4 bits"),
        (lambda: permute_problem((2, 3), (1, 0), "c64", result="f32"), UnsupportedError, "of c64"),
        *((lambda dst=dst: move_problem((4, 4), "f32", (4, 1), dst), NotInjectiveError, "one place")
          for dst in ((1, 1), (1, 0))),
        (lambda: move_problem((4,), "f32", (-1,), (1,), src_offset=2), ShapeError, "source of offset 2"),
        (lambda: common_modes(Layout((2, 3), (3, 1)), Layout((3, 2), (2, 1))), UnsupportedError, "2, "),
        (lambda: relayout_problem(Layout(4, -1), Layout(4), "u8"), UnsupportedError, "negative stride"),
        (lambda: relayout_problem(COMPOSED, Layout(3), "u8"), UnsupportedError, "composed of layouts"),
        (lambda: relayout_problem(Layout(8), Layout(6), "u8"), ShapeError, "8 and 6 coordinates"),
        (lambda: relayout_problem(Layout(8), Layout(8), "u8", (7, 8)), ShapeError, "buffer has 7"),
        (lambda: relayout_problem(Layout(16), Layout((4, 4), (1, 1)), "f32"), NotInjectiveError, "one place"),
        *((lambda kind=kind: la.ops.permute(X, (1, 0), dtype=kind), UnsupportedError, word)
          for kind, word in (("bfloat16", "numpy has no"), (">f4", "to >f4"), ("complex64", "to complex64"))),
        (lambda: la.ops.permute(X, (1, 0), np.zeros((6, 4), "f4"), "f2"), ArgumentTypeError, "float16"),
        (lambda: la.ops.permute(X, (1, 0), dtype=3), ArgumentTypeError, "a type such"),
        (lambda: la.ops.permute(CUT, (1, 0), dtype="float16"), AlignmentError, "multiples of 4"),
    ],
)  # fmt: skip
def test_what_is_no_move_is_refused(call: Any, error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


def test_what_is_near_a_refusal_is_accepted() -> None:
    assert move_problem((4,), "f32", (-1,), (1,), src_offset=3).source_elems == 4
    assert move_problem((4, 8), "u8", (0, 1), (8, 1)).moved_bytes == 8 + 32  # broadcasts are read once
    turned = X.astype(">f4")
    assert la.ops.permute(turned, (1, 0), dtype=">f4").dtype == turned.dtype
    assert la.ops.permute(np.ones((2, 3), "c8"), (1, 0), dtype="complex64").dtype == np.complex64
    assert la.ops.permute(np.zeros((3, 0, 2)), (2, 0, 1)).shape == (2, 3, 0)
    src, dst, x = Layout((4, 6), (6, 1)), Layout((4, 6), (1, 5)), np.arange(24, dtype="f4") + 0.5
    y = la.ops.relayout(x, src, dst, dtype="s16", simulate=True)
    assert y.dtype == np.int16 and [y[dst(i)] for i in range(24)] == [int(x[src(i)]) for i in range(24)]
    for source, result in (("f32", "f32"), ("u8", "s8")):  # no conversion: bits are moved
        p = permute_problem((64, 128), (0, 1), source, result=result)
        assert normalise(p).cast is None and normalise(p).element_bytes == 16
        assert (p.result is None) == (source == result)


# --- layouts -------------------------------------------------------------------------------------------


@each("seed", range(40))
def test_common_modes_are_both_layouts(seed: int) -> None:
    rng = random.Random(seed)

    def cut() -> tuple[int, ...]:
        shape = [1]
        for factor in (2, 2, 2, 3, 3, 5):
            shape += [1] * (rng.random() < 0.5)
            shape[-1] *= factor
        return tuple(shape)

    a, b = (Layout(shape, tuple(rng.randrange(50) for _ in shape)) for shape in (cut(), cut()))
    shape, *both = common_modes(a, b)
    for found, wanted in zip(both, (a, b), strict=True):
        assert all(Layout(shape, found)(i) == wanted(i) for i in range(360))


def test_a_layout_of_layouts_moves_where_it_has_a_normal_form_and_a_source_may_broadcast() -> None:
    source = parse("(4,4):(4,1) o 0 o (2,8):(1,2)")
    assert isinstance(source, ComposedLayout)
    p = relayout_problem(source, Layout((2, 8)), "u8")
    moved = reference(p, np.arange(16, dtype="u1"), np.zeros(16, "u1"))
    assert moved.tolist() == [source(i) for i in range(16)]
    p = relayout_problem(Layout((4, 4), (0, 1)), Layout((4, 4)), "f32")
    of, old = random_buffers(p, 2)
    assert np.array_equal(reference(p, of, old).reshape(4, 4), np.repeat(of, 4).reshape(4, 4))


# --- conversions ---------------------------------------------------------------------------------------

NUMPY = {
    "f64": "float64", "f32": "float32", "f16": "float16", "u8": "uint8", "s8": "int8", "s16": "int16",
    "s32": "int32", "s64": "int64",
}  # fmt: skip


@each("source", NUMPY, sample=3)
@each("result", NUMPY, sample=1)
def test_calls_are_numpys_of_numbers_that_fit(source: str, result: str) -> None:
    rng = np.random.default_rng(0)
    x = rng.integers(0, 128, (7, 5, 9)).astype(NUMPY[source])
    if source.startswith("f"):
        x += rng.choice([0, 0.25, 0.5], x.shape).astype(x.dtype)
    expected = x.transpose(2, 0, 1).astype(NUMPY[result])
    for options in ({}, {"simulate": True}):
        found = la.ops.permute(x, (2, 0, 1), dtype=NUMPY[result], **options)
        assert found.dtype == expected.dtype and np.array_equal(found, expected)
    out = np.zeros((9, 14, 5), NUMPY[result])[:, ::2]
    assert la.ops.permute(x, (2, 0, 1), out, NUMPY[result]) is out and np.array_equal(out, expected)
    p = permute_problem((64, 32, 96), (2, 1, 0), source, result=result)
    n, read, written = prod(p.shape), p.element_bytes, p.result_bytes
    assert p.moved_bytes == n * (read + written)
    assert least_bytes(normalise(p)) == (-(-n * read // 64) * 64, -(-n * written // 32) * 32)


# --- bytes ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("batch", range(3))
def test_the_least_that_memory_moves_is_its_definition(batch: int) -> None:
    for seed in range(100 * batch, 100 * batch + 100):
        x = normalise((random_conversion if seed % 2 else random_problem)(random.Random(seed), 3000))
        found = least_bytes(x)
        assert found == least_bytes(x, listed=True), x
        assert found.read % 32 == found.written % 32 == 0


def test_gaps_and_sectors_in_part_count_and_swizzles_are_listed() -> None:
    """24 floats of each 100 bytes: the half lines that hold them, and sectors in part are read first."""
    found = least_bytes(normalise(move_problem((100, 24), "f32", (25, 1), (25, 1))))
    assert found.written > 100 * 96 and found.read > found.written
    still, swizzles = ((64, 8), "u16", (8, 1), (8, 1)), Swizzles(Swizzle(3, 3, 3))
    moved = move_problem(*still, src_swizzle=swizzles, elems=(512, 512))
    assert least_bytes(normalise(moved)) == least_bytes(normalise(move_problem(*still)))
    with pytest.raises(UndecidedError, match="bytes are listed"):
        least_bytes(normalise(move_problem((1 << 13, 1 << 12), "u8", (96, 64), (1 << 12, 1))))
    with pytest.raises(UnsupportedError, match="was not counted"):
        least_bytes(normalise(permute_problem((4, 4), (1, 0), "f32")), "sm_80")
