"""What a compiler leaves of shared accesses: by hand, and in programs that still compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from layoutalg.codegen.costs import compiled, traffic, traffic_enumerated
from layoutalg.codegen.costs.compiling import MOST_STATEMENTS, UNREAD
from layoutalg.codegen.instr import BAR, LDS, STG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.sim import simulate
from layoutalg.layout import Layout
from tests.draws.random_programs import RandomProgram, programs

Body = Callable[[KernelBuilder, Callable[..., None], Callable[..., None]], None]


class Alone(dict[tuple[str, int, int], int]):
    """Machine code that makes every load by some lanes alone."""

    def get(self, key: object, default: object = None) -> Any:
        return MOST_STATEMENTS  # behind more conditions than a program has


def wavefronts(body: Body, code: Mapping[tuple[str, int, int], int] = UNREAD) -> dict[str, int]:
    """Wavefronts that machine code leaves of a body of two warps, by instruction.

    The body gets a load of 4 bytes per lane, 256 bytes apart by number, and a store of what was loaded.
    """
    k = KernelBuilder("k", threads=64)
    tile, v = k.shared_buffer("tile", 4, Layout(256), 256, 16), k.reg("v", 4, 1)
    dst = k.pointer("dst", 4, writable=True)

    def load(n: int) -> None:
        k.do(LDS[4], v[n], k.at(tile, k.tid + 64 * n))

    def store(n: int) -> None:
        k.do(STG[4], k.at(dst, k.tid), v[n])

    body(k, load, store)
    found = traffic(compiled(k.build(), code), {})
    return {op: cost.total for op, cost in found.items() if "shared" in op}


def into_branches(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
    """Two loads, each used in a branch of its own that one warp takes."""
    load(0)
    load(1)
    for n in range(2):
        with k.If(k.tid < 32):
            store(n)


def test_a_load_goes_to_its_branch_where_machine_code_makes_it_there() -> None:
    assert wavefronts(into_branches) == {"ld.shared.b32": 2 + 2}
    assert wavefronts(into_branches, {("ld", 4, 0): 1, ("ld", 4, 256): 0}) == {"ld.shared.b32": 1 + 2}
    assert wavefronts(into_branches, {("ld", 4, 0): 1, ("ld", 4, 256): 1}) == {"ld.shared.b32": 1 + 1}


def test_a_load_stays_before_a_branch_that_machine_code_is_not_behind() -> None:
    def nested(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
        with k.If(k.tid < 63):
            load(0)
            with k.If(k.tid < 32):
                store(0)

    assert wavefronts(nested, {("ld", 4, 0): 1}) == {"ld.shared.b32": 2}
    assert wavefronts(nested, {("ld", 4, 0): 2}) == {"ld.shared.b32": 1}


def test_a_load_has_the_words_that_machine_code_loads() -> None:
    """4 of 16 bytes per lane, 8 of 16 bytes behind them, and none of others."""
    k = KernelBuilder("k", threads=32)
    tile, v = k.shared_buffer("tile", 4, Layout(512), 512, 16), k.reg("v", 12, 1)
    dst = k.pointer("dst", 4, writable=True)
    for n in range(3):
        k.do(LDS[16], v.slice(4 * n, 0, count=4), k.at(tile, k.tid * 4 + 128 * n))
    for n in range(12):
        k.do(STG[4], k.at(dst, k.tid), v[n])

    def left(code: Mapping[tuple[str, int, int], int]) -> dict[str, int]:
        found = traffic(compiled(k.build(), code), {})
        return {op: cost.instructions for op, cost in found.items() if "shared" in op}

    assert left({("ld", 4, 8): 0, ("ld", 8, 512): 0}) == {"ld.shared.b32": 1, "ld.shared.b64": 1}
    assert left({("ld", 16, 0): 0, ("ld", 16, 512): 0, ("ld", 16, 1024): 0}) == {"ld.shared.b128": 3}
    assert left({("ld", 16, 64): 0}) == left(UNREAD) == {"ld.shared.b128": 3}


def test_what_orders_memory_keeps_a_load_in_front_of_a_branch() -> None:
    def body(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
        load(0)
        k.do(BAR)
        with k.If(k.tid < 32):
            store(0)

    assert wavefronts(body, Alone()) == {"ld.shared.b32": 2}


def test_a_load_that_nothing_uses_is_none() -> None:
    def body(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
        load(0)
        load(1)
        load(0)
        store(0)

    assert wavefronts(body) == {"ld.shared.b32": 2}


def test_neighbours_are_joined_where_machine_code_joins_them() -> None:
    k = KernelBuilder("k", threads=32)
    tile, v = k.shared_buffer("tile", 4, Layout(256), 256, 16), k.reg("v", 4, 1)
    for n in range(4):
        k.do(STS[4], k.at(tile, k.tid * 4 + n), v[n])
    for code, left in (
        ({("st", 16, 0): 0}, {"st.shared.b128": 1}),
        (
            {("st", 8, 0): 0, ("st", 4, 8): 1, ("st", 4, 12): 0},
            {"st.shared.b64": 1, "st.shared.b32": 2},
        ),
        ({("ld", 16, 0): 0}, {"st.shared.b32": 4}),
    ):
        found = traffic(compiled(k.build(), code), {})
        assert {op: cost.instructions for op, cost in found.items()} == left


@pytest.mark.deep
@settings(deadline=None, max_examples=100)
@given(programs(guards=False))
def test_programs_with_sunk_loads_compute_the_same(p: RandomProgram) -> None:
    left = compiled(p.kernel, Alone())
    before, after = p.arguments(), p.arguments()
    simulate(p.kernel, before)
    simulate(left, after)
    for name, array in before.items():
        assert not isinstance(array, np.ndarray) or np.array_equal(array, after[name], equal_nan=True)
    found = traffic(left, p.params)
    assert found == traffic_enumerated(left, p.params)
    written = traffic(p.kernel, p.params)
    for way in ("ld.shared", "st.shared"):
        counts = [sum(c.instructions for op, c in t.items() if way in op) for t in (found, written)]
        assert counts[0] <= counts[1]
