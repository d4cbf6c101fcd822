"""What a compiler leaves of shared accesses: by hand, and in programs that still compute the same."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from types import MappingProxyType

import numpy as np
import pytest
from hypothesis import given, settings

from layoutalg.codegen.costs import compiled, traffic, traffic_enumerated
from layoutalg.codegen.instr import BAR, LDS, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.sim import simulate
from layoutalg.layout import Layout
from tests.draws.random_programs import RandomProgram, programs

Body = Callable[[KernelBuilder, Callable[..., None], Callable[..., None]], None]


def wavefronts(body: Body, branched: Mapping[tuple[int, int], bool] = MappingProxyType({})) -> dict[str, int]:
    """Wavefronts that are left of a body of two warps, by instruction.

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
    return {
        op: cost.total for op, cost in traffic(compiled(k.build(), branched), {}).items() if "shared" in op
    }


def into_branches(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
    """Two loads, each used in a branch of its own that one warp takes."""
    load(0)
    load(1)
    for n in range(2):
        with k.If(k.tid < 32):
            store(n)


def test_a_load_goes_to_the_next_branch_and_by_machine_code_to_others() -> None:
    assert wavefronts(into_branches) == {"ld.shared.b32": 1 + 2}
    assert wavefronts(into_branches, {(4, 256): True}) == {"ld.shared.b32": 1 + 1}
    assert wavefronts(into_branches, {(4, 0): False}) == {"ld.shared.b32": 2 + 2}


def test_what_orders_memory_keeps_a_load_in_front_of_a_branch() -> None:
    def body(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
        load(0)
        k.do(BAR)
        with k.If(k.tid < 32):
            store(0)

    assert wavefronts(body) == {"ld.shared.b32": 2}


def test_a_load_that_nothing_uses_is_none() -> None:
    def body(k: KernelBuilder, load: Callable[..., None], store: Callable[..., None]) -> None:
        load(0)
        load(1)
        load(0)
        store(0)

    assert wavefronts(body) == {"ld.shared.b32": 2}


@pytest.mark.deep
@settings(deadline=None, max_examples=100)
@given(programs(guards=False))
def test_programs_with_sunk_loads_compute_the_same(p: RandomProgram) -> None:
    left = compiled(p.kernel)
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
