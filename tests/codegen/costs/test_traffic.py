"""Traffic read off a program is its definition, the simulator's trace and what can be computed."""

from __future__ import annotations

from unittest import mock

import numpy as np
import pytest
from hypothesis import given, settings

from layoutalg.codegen.costs import (
    MAX_EXECUTIONS,
    Cost,
    Costs,
    describe,
    traffic,
    traffic_by_access,
    traffic_enumerated,
)
from layoutalg.codegen.costs.accesses import divisors
from layoutalg.codegen.expr import Operand
from layoutalg.codegen.instr import CP_ASYNC_ZFILL, LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, lower
from layoutalg.codegen.sim import simulate
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnsupportedError
from layoutalg.layout import Layout
from layoutalg.limits import Most
from tests.draws.random_programs import RandomProgram, programs
from tests.sweeps import each


def load(k: KernelBuilder, index: Operand) -> None:
    """A load of 4 bytes at an index of a new source."""
    k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("src", 4), index))


@pytest.mark.deep
@settings(deadline=None, max_examples=500)
@given(programs())
def test_traffic_is_its_definition_before_and_after_lowering(p: RandomProgram) -> None:
    expected = traffic_enumerated(p.kernel, p.params)
    assert traffic(p.kernel, p.params) == expected
    lowered = lower(p.kernel)
    assert traffic_enumerated(lowered, p.params) == traffic(lowered, p.params) == expected


@pytest.mark.deep
@settings(deadline=None)
@given(programs(guards=False))
def test_traffic_is_what_the_simulator_traces(p: RandomProgram) -> None:
    found = traffic(p.kernel, p.params)
    trace = simulate(p.kernel, p.arguments()).trace
    assert {op: (c.instructions, c.total, c.ideal) for op, c in found.items()} == {
        op: trace.total(op) for op in {t.site.op for t in trace.totals() if t.instructions}
    }


@settings(deadline=None, max_examples=settings().max_examples // 2)
@given(programs())
def test_short_variables_may_be_taken_apart_too(p: RandomProgram) -> None:
    with mock.patch("layoutalg.codegen.costs.accesses._LONG", 2):
        assert traffic(p.kernel, p.params) == traffic_enumerated(p.kernel, p.params)


# --- what can be computed by hand ----------------------------------------------------------------------


def rows(threads: int = 256) -> Kernel:
    """Copies n elements of 4 bytes."""
    k = KernelBuilder("rows", threads)
    n = k.param("n", 1 << 38)
    i = k.let("i", k.block(0, (n + (threads - 1)) // threads) * threads + k.tid)
    v = k.reg("v", 1)
    src, dst = k.pointer("src", 4), k.pointer("dst", 4, writable=True)
    with k.If(i < n):
        k.do(LDG[4], v, k.at(src, i))
        k.do(STG[4], k.at(dst, i), v)
    return k.build()


@each("n", [1, 31, 32, 33, 256, 1000, 10**6 + 7, 10**9 + 7, (1 << 38) - 1])
def test_a_copy_of_any_length_costs_its_length(n: int) -> None:
    words = Cost(-(-n // 32), -(-n // 8), -(-n // 8))
    assert traffic(rows(), {"n": n}) == {"ld.global.b32": words, "st.global.b32": words}


def test_points_looked_at_do_not_grow_with_the_grid() -> None:
    small, large = (traffic_by_access(rows(), {"n": n}) for n in (256 * 1000 + 5, 256 * 10**9 + 5))
    assert [a.executions for a in large] == [8 * (10**9 + 1)] * 2
    assert [a.classes for a in large] == [a.classes for a in small]
    assert max(a.classes for a in large) <= 3


@pytest.mark.deep
def test_a_block_counted_backwards_is_taken_apart_as_it_is_divided() -> None:
    k = KernelBuilder("backwards", 32)
    n = k.param("n", 1 << 20)
    block = k.let("block", ((k.block(0, 528) ^ 1023) + 528) % 1024)
    row = k.let("row", block // 16 * 2000 + k.tid)
    with k.If(row < n):
        load(k, row * 64 + block % 16)
    kernel = k.build()
    assert 16 in divisors(kernel, {})[kernel.block_vars[0]]
    for size in (1, 40_000, 65_536, 1 << 20):
        (access,) = traffic_by_access(kernel, {"n": size})
        assert {access.op: access.cost} == traffic_enumerated(kernel, {"n": size})
        assert access.classes <= 48


def test_a_guard_masks_what_is_read_and_not_what_is_written() -> None:
    k = KernelBuilder("guarded", 64)
    tile, src = k.shared_buffer("tile", 4, Layout((64,)), 64, 16), k.pointer("src", 4)
    k.do(CP_ASYNC_ZFILL[4], k.at(tile, k.tid), k.at(src, k.tid), k.tid < 40)
    found = traffic(k.build(), {})
    assert found["cp.async.4:global"] == Cost(2, 5, 5) and found["cp.async.4"].instructions == 2
    with pytest.raises(UnsupportedError):
        traffic(k.build(), {}, "sm_75")


def test_a_branch_that_nobody_takes_costs_nothing() -> None:
    k = KernelBuilder("never", 64)
    n = k.param("n", 100)
    v, src = k.reg("v", 1), k.pointer("src", 4)
    with k.If(n < 10):
        k.do(LDG[4], v, k.at(src, k.tid))
    with k.Else(), k.For("i", n % 2):
        k.do(LDG[4], v, k.at(src, k.tid))
    kernel = k.build()
    assert traffic(kernel, {"n": 20}) == {}
    assert traffic(kernel, {"n": 21}) == traffic(kernel, {"n": 5}) == {"ld.global.b32": Cost(2, 8, 8)}


def test_a_loop_may_turn_another_number_of_times_in_every_thread() -> None:
    k = KernelBuilder("triangle", 32)
    with k.For("i", k.tid) as i:
        load(k, k.tid + i * 32)
    sectors = sum(-(-(32 - t) // 8) for t in range(1, 32))
    assert traffic(k.build(), {})["ld.global.b32"] == Cost(31, sectors, sectors)


# --- limits --------------------------------------------------------------------------------------------


def test_more_points_or_executions_than_anyone_waits_for_are_refused() -> None:
    k = KernelBuilder("scattered", 32)
    block = k.block(0, 1 << 22)
    with k.If(block * 7919 % 1000003 * 7919 % 65521 < k.tid * 2048):
        k.do(LDG[4], k.reg("v", 1), k.at(k.pointer("src", 4), k.tid))
    with pytest.raises(ResourceError, match="told apart") as error:
        traffic(k.build(), {})
    assert error.value.asked > error.value.limit == Most.BLOCKS.number
    k = KernelBuilder("endless", 32)
    with k.For("i", 1 << 30), k.For("j", 1 << 30):
        load(k, k.tid)
    with pytest.raises(ResourceError, match="executions of 'ldg32") as error:
        traffic(k.build(), {})
    assert (error.value.asked, error.value.limit) == (1 << 60, MAX_EXECUTIONS)


def test_parameters_are_checked_as_a_launch_checks_them() -> None:
    for count in (traffic, traffic_enumerated):
        with pytest.raises(ArgumentTypeError, match="rows needs a value for n"):
            count(rows(), {})
        with pytest.raises(ShapeError, match="n = 0"):
            count(rows(), {"n": 0})


# --- costs of accesses --------------------------------------------------------------------------------


def test_lanes_are_counted_by_the_definition() -> None:
    """Costs add field by field, and drop out where nothing is counted."""
    costs, lane, everyone = Costs(), np.arange(32)[None, :], np.ones((1, 32), dtype=bool)
    costs.lanes("ld.shared.b32", "shared", lane * 128, everyone)
    costs.lanes("ld.global.b32", "global", lane * 4 + 4, everyone)
    costs.lanes("ld.global.b32", "global", lane * 4, ~everyone)
    costs.add("ld.shared.b32", Cost(1, 3, 1))
    costs.times(3)
    assert costs.prediction() == {"ld.global.b32": Cost(3, 15, 12), "ld.shared.b32": Cost(6, 105, 6)}
    unit = dict(zip(costs.prediction(), describe(costs.prediction()), strict=True))
    assert "sectors" in unit["ld.global.b32"] and "wavefronts" in unit["ld.shared.b32"]
    costs.times(0)
    assert costs.prediction() == {}
