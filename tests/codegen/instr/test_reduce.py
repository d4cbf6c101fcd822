"""Folds and butterflies: each effect is its definition, and each text computes the same bits."""

from __future__ import annotations

import functools

import numpy as np
import pytest

from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.instr import LDG, NEUTRAL, STG, butterfly, count_within, fill, fold, window, within
from layoutalg.codegen.instr.lanewise import tree
from layoutalg.codegen.instr.reduce import joined
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError, UnknownNameError, UnsupportedError
from tests.codegen.instr.probe import Case, floats, ran, word
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
        return np.asarray(a + b if op == "sum" else np.maximum(a, b))


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


@each(("n", "size"), [(8, 2), (4, 2), (2, 2), (4, 4), (2, 4), (1, 4)])
def test_a_window_of_two_vectors(n: int, size: int) -> None:
    a, b = (drawn(n * size // 4, special=False) for _ in range(2))
    for start in range(n + 1):
        at = np.full((32, 1), start, np.uint32)
        got = window(n, size).effect(None, None, a, b, at).view(f"u{size}")
        wanted = np.concatenate([a.view(f"u{size}"), b.view(f"u{size}")], axis=1)[:, start : start + n]
        np.testing.assert_array_equal(got, wanted)


def test_the_texts_of_windows_and_of_what_is_inside_are_their_effects() -> None:
    cases: list[Case] = [
        (window(n, size), [drawn(n * size // 4, special=False) for _ in range(3)], [start])
        for n, size in ((8, 2), (2, 2), (4, 4), (1, 4)) for start in (1, n)
    ]  # fmt: skip
    for n in (2, 16):
        for ends in ((4, 5, 9), (5, 12, 21), (9, 0, 11)):
            cases += [(within(n), [drawn(n), word(2.0)], ends), (count_within(n), [drawn(1)], ends)]
    for first in range(0, len(cases), 8):  # a kernel of the shim has few parameters
        for instr, got, (wanted, *_) in ran(cases[first : first + 8]):
            np.testing.assert_array_equal(floats(got[0]), floats(wanted), err_msg=instr.name)


def test_what_is_not_offered_is_refused() -> None:
    for make, kind in ((fold, "product"), (butterfly, "xor")):
        with pytest.raises(UnknownNameError):
            make(kind, *([4] if make is fold else []), 1)
    for make, *sizes in ((fold, "sum", 4, 2), (window, 1, 2), (window, 6, 2), (window, 4, 1)):
        with pytest.raises(UnsupportedError):
            make(*sizes)


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


@OPS
def test_a_divided_warp_cannot_exchange_and_the_text_compiles(op: str) -> None:
    x = drawn(8).reshape(-1)
    with pytest.raises(SimulationError, match="thread 40"):
        simulate(warp_reduction(op, divided=True), {"x": x, "y": np.zeros_like(x)})
    assert compile_cubin(to_cuda(warp_reduction(op)), f"warp_{op}", "sm_90a").spill_bytes == 0
