"""Folds and butterflies: each effect is its definition, and each text computes the same bits."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.instr import LDG, NEUTRAL, STG, butterfly, count_within, fill, fold, window, within
from layoutalg.codegen.instr.reduce import joined, tree
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError, UnknownNameError, UnsupportedError
from tests.codegen.instr.probe import floats
from tests.hostshim import run_cuda_text
from tests.sweeps import each

RANDOM = np.random.default_rng(3)
SPECIAL = np.array([np.nan, np.inf, -np.inf, 0.0, 1e-42, 3e38], dtype=np.float32)
OPS = pytest.mark.parametrize("op", ["sum", "max"])


def drawn(n: int, *, special: bool = True) -> np.ndarray:
    """Words of random floats of 32 lanes."""
    values = (RANDOM.standard_normal((32, n)) * 10.0 ** RANDOM.integers(-3, 3, (32, n))).astype(np.float32)
    if special:
        at = RANDOM.random((32, n)) < 0.1
        values[at] = RANDOM.choice(SPECIAL, int(at.sum()))
    return values.view(np.uint32)


def joins(op: str, a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The definition, on floats."""
    with np.errstate(all="ignore"):
        return (
            a + b if op == "sum" else np.where(np.isnan(a) | np.isnan(b), np.float32(np.nan), np.fmax(a, b))
        )


def test_a_tree_joins_neighbours_and_keeps_the_order() -> None:
    for n in range(1, 20):
        assert tree([str(i) + " " for i in range(n)], lambda a, b: a + b).split() == [
            str(i) for i in range(n)
        ]
    depth = tree([0] * 64, lambda a, b: max(a, b) + 1)
    assert depth == 6


@OPS
def test_the_neutral_word_changes_nothing(op: str) -> None:
    v = drawn(4)
    np.testing.assert_array_equal(floats(joined(op, np.full_like(v, NEUTRAL[op]), v)), floats(v))


@OPS
@pytest.mark.parametrize(("n", "into"), [(1, 1), (2, 1), (5, 1), (8, 1), (4, 4)])
def test_a_fold_joins_its_values_to_the_accumulators(op: str, n: int, into: int) -> None:
    d, v = drawn(into), drawn(n)
    got = floats(fold(op, n, into).effect(None, None, d, v))
    parts = [floats(v)[:, i : i + 1] for i in range(n)]
    wanted = joins(op, floats(d), tree(parts, functools.partial(joins, op)) if into == 1 else floats(v))
    np.testing.assert_array_equal(got, wanted)


def test_a_maximum_of_anything_with_nan_is_nan() -> None:
    v = np.array([[np.nan, 1.0], [2.0, np.nan], [-np.inf, np.inf]], dtype=np.float32).view(np.uint32)
    d = np.full((3, 1), NEUTRAL["max"], dtype=np.uint32)
    np.testing.assert_array_equal(
        floats(fold("max", 2, 1).effect(None, None, d, v)), [[np.nan], [np.nan], [np.inf]]
    )


def inside(n: int) -> tuple[list[np.ndarray], np.ndarray]:
    """Some (base, low, high) per lane, and which of n numbers from base on are inside, by definition."""
    base, low, more = (RANDOM.integers(0, most, (32, 1)) for most in (24, 16, 12))
    ends = [base, low, low + more]
    asked = [
        [low[lane, 0] <= base[lane, 0] + i < ends[2][lane, 0] for i in range(n)] for lane in range(len(base))
    ]
    return [x.astype(np.uint32) for x in ends], np.array(asked)


@pytest.mark.parametrize("n", [1, 2, 4, 8, 16])
def test_a_value_outside_is_replaced_and_not_counted(n: int) -> None:
    for _ in range(8):
        v, d, (ends, asked) = drawn(n), drawn(1), inside(n)
        other = np.full((32, 1), NEUTRAL["max"], np.uint32)
        got = within(n).effect(None, None, v, *ends, other)
        np.testing.assert_array_equal(got, np.where(asked, v, other))
        count = count_within(n).effect(None, None, d, *ends)
        np.testing.assert_array_equal(
            floats(count), joins("sum", floats(d), asked.sum(axis=1, keepdims=True).astype(np.float32))
        )


def insides(n: int) -> Kernel:
    """y = x where it is inside, and 2.0 elsewhere; z = how many are."""
    k = KernelBuilder("insides", 32)
    x, y = k.pointer("x", 4, (n, 1)), k.pointer("y", 4, (n, 1), writable=True)
    z = k.pointer("z", 4, (1,), writable=True)
    v, d, other = k.reg("v", n), k.reg("d", 1), k.reg("other", 1)
    base, low = k.let("base", k.tid % 7 * 4), k.let("low", k.tid % 5 * 3)
    ends = base, low, low + k.tid % 11 * 2
    k.do(fill(1), d, NEUTRAL["sum"] + k.tid * 0)
    k.do(fill(1), other, 0x40000000 + k.tid * 0)
    for i in range(n):
        k.do(LDG[4], v[i], k.at(x, k.tid, i))
    k.do(within(n), v, *ends, other)
    k.do(count_within(n), d, *ends)
    for i in range(n):
        k.do(STG[4], k.at(y, k.tid, i), v[i])
    k.do(STG[4], k.at(z, k.tid), d)
    return k.build()


@pytest.mark.parametrize("n", [2, 4, 8, 16])
def test_the_text_of_what_is_inside_is_its_effect(n: int) -> None:
    x = drawn(n)
    mine = {"y": np.zeros_like(x), "z": np.zeros((32, 1), np.uint32)}
    theirs = {name: np.zeros_like(of) for name, of in mine.items()}
    simulate(insides(n), {"x": x.reshape(-1), **{name: of.reshape(-1) for name, of in mine.items()}})
    run_cuda_text(to_cuda(insides(n)), "insides", (1,), (32,), [x, *theirs.values()])
    for name, of in mine.items():
        np.testing.assert_array_equal(of, theirs[name])
    assert 0 < floats(mine["z"]).sum() < 32 * n


@each(("n", "size"), [(8, 2), (4, 2), (2, 2), (4, 4), (2, 4), (1, 4)])
def test_a_window_of_two_vectors(n: int, size: int) -> None:
    a, b = (drawn(n * size // 4, special=False) for _ in range(2))
    for start in range(n + 1):
        at = np.full((32, 1), start, np.uint32)
        got = window(n, size).effect(None, None, a, b, at).view(f"u{size}")
        wanted = np.concatenate([a.view(f"u{size}"), b.view(f"u{size}")], axis=1)[:, start : start + n]
        np.testing.assert_array_equal(got, wanted)


def windows(n: int, size: int) -> Kernel:
    """y = the window of a and b that starts at tid % (n + 1)."""
    words = n * size // 4
    k = KernelBuilder("windows", 32)
    a, b = (k.pointer(name, 4, (words, 1)) for name in "ab")
    y = k.pointer("y", 4, (words, 1), writable=True)
    held = [k.reg(name, words) for name in ("d", "v", "w")]
    for w in range(words):
        k.do(LDG[4], held[1][w], k.at(a, k.tid, w))
        k.do(LDG[4], held[2][w], k.at(b, k.tid, w))
    k.do(window(n, size), *held, k.tid % (n + 1))
    for w in range(words):
        k.do(STG[4], k.at(y, k.tid, w), held[0][w])
    return k.build()


@pytest.mark.parametrize(("n", "size"), [(8, 2), (2, 2), (4, 4), (1, 4)])
def test_the_text_of_a_window_is_its_effect(n: int, size: int) -> None:
    a, b = (drawn(n * size // 4, special=False) for _ in range(2))
    y = np.zeros_like(a)
    run_cuda_text(to_cuda(windows(n, size)), "windows", (1,), (32,), [a, b, y])
    start = (np.arange(32, dtype=np.uint32) % (n + 1))[:, None]
    np.testing.assert_array_equal(y, window(n, size).effect(None, None, a, b, start))


@each(
    ("make", "error"),
    [
        (lambda: fold("product", 4, 1), UnknownNameError),
        (lambda: butterfly("xor", 1), UnknownNameError),
        (lambda: fold("sum", 4, 2), UnsupportedError),
        (lambda: window(1, 2), UnsupportedError),
        (lambda: window(6, 2), UnsupportedError),
        (lambda: window(4, 1), UnsupportedError),
    ],
)
def test_what_is_not_offered_is_refused(make: object, error: type[Exception]) -> None:
    with pytest.raises(error):
        make()  # type: ignore[operator]


# --- whole warps ---------------------------------------------------------------------------------------


def warp_reduction(op: str, *, divided: bool = False) -> Kernel:
    """y[tid] = the reduction of x[4 * lane + i] over the lanes of a warp, for each i; two warps."""
    k = KernelBuilder(f"warp_{op}", 64)
    x, y = k.pointer("x", 4, (4, 1)), k.pointer("y", 4, (4, 1), writable=True)
    v, d = k.reg("v", 4), k.reg("d", 4)
    k.do(fill(4), d, NEUTRAL[op] + k.tid * 0)
    k.do(LDG[16], v, k.at(x, k.tid, 0))
    k.do(fold(op, 4, 4), d, v)
    for mask in (1, 2, 4, 8, 16):
        if divided and mask == 4:
            with k.If(k.tid < 40):
                k.do(butterfly(op, 4), mask, d)
        else:
            k.do(butterfly(op, 4), mask, d)
    k.do(STG[16], k.at(y, k.tid, 0), d)
    return k.build()


@OPS
@pytest.mark.parametrize("special", [False, True])
def test_a_warp_reduces_in_the_simulator_and_on_the_host_alike(op: str, special: bool) -> None:
    x = np.concatenate([drawn(4, special=special) for _ in range(2)])
    y, z = np.zeros_like(x), np.zeros_like(x)
    simulate(warp_reduction(op), {"x": x.reshape(-1), "y": y.reshape(-1)})
    run_cuda_text(to_cuda(warp_reduction(op)), f"warp_{op}", (1,), (64,), [x, z])
    np.testing.assert_array_equal(floats(y), floats(z))
    for half in (y[:32], y[32:]):
        assert (floats(half) == floats(half)[:1]).all() or special
    wanted = [tree(list(floats(w)), functools.partial(joins, op)) for w in (x[:32], x[32:])]
    np.testing.assert_array_equal(floats(y), np.repeat(wanted, 32, axis=0))


def test_a_divided_warp_cannot_exchange() -> None:
    x = drawn(8).reshape(-1)
    with pytest.raises(SimulationError, match="thread 40"):
        simulate(warp_reduction("sum", divided=True), {"x": x, "y": np.zeros_like(x)})


@OPS
def test_the_texts_compile(op: str) -> None:
    assert compile_cubin(to_cuda(warp_reduction(op)), f"warp_{op}", "sm_90a").spill_bytes == 0
