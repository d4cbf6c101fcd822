"""Conversions as steps of a tile program: right for random layouts, and as dear as the plan says."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from layoutalg.codegen.gpu import compile_cubin, to_cuda
from layoutalg.codegen.instr import BAR, CLEAR, LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, lower
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.relayout import relayout
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.errors import ShapeError, SimulationError, UnknownNameError
from layoutalg.f2 import LinearLayout
from layoutalg.registers import Conversion, Load, Plan, Store, convert_layout
from tests.draws import relayouts
from tests.draws.fragments import conversions
from tests.hostshim import run_cuda_text
from tests.sweeps import each

ELEMENTS = st.sampled_from(("u8", "f16", "f32", "f64", "c128"))


def ran(found: Conversion, plan: Plan, groups: int = 1, seed: int = 0, *, printed: bool = False) -> None:
    """A plan is the definition, and costs what it says; or its text, as C++ on the host, is."""
    kernel = relayouts.relayout_kernel(found, plan.kind, groups)
    bits = found.element.bits
    tile = relayouts.random_tile(found.src, bits, seed, groups)
    src = np.ascontiguousarray(relayouts.as_words(tile, bits)).ravel()
    expected = relayouts.expected_words(found.src, found.dst, tile, bits)
    dst = np.zeros(expected.size, np.uint32)
    if printed:
        run_cuda_text(to_cuda(kernel), kernel.name, (1,), (kernel.threads,), (src, dst))
    else:
        check(kernel)
        group: Literal["warp", "block"] = "warp" if seed % 2 else "block"
        done = simulate(lower(kernel), {"src": src, "dst": dst}, group=group, seed=seed)
        costs_what_it_says(found, plan, done, groups)
    mask = relayouts.known_bits(1 << found.places.in_bits["register"], bits)
    assert np.array_equal(dst.reshape(expected.shape) & mask, expected & mask)


def costs_what_it_says(found: Conversion, plan: Plan, done: Simulation, groups: int) -> None:
    """Instructions of the first warp, and wavefronts of all."""

    def executed(*names: str) -> int:
        return sum(done.executed[name][0] for name in names if name in done.executed)

    assert executed("select32") == plan.cost.selects
    assert executed("byte_permute") == plan.cost.permutes
    assert executed("shuffle_xor", "shuffle_lane") == plan.cost.shuffles
    assert executed("block_sync", "warp_sync") == plan.cost.barriers
    wavefronts = 0
    for step in plan.steps:
        if isinstance(step, (Store, Load)):
            warps = list(range(1 << found.places.in_bits["warp"]))
            if isinstance(step, Store):
                warps = [w for w in warps if not w & step.silent_warps]
            _, total, _ = done.trace.total(step.transfer.op)
            assert total == step.transfer.wavefronts * len(warps) * groups
            wavefronts += step.transfer.wavefronts
    assert wavefronts == plan.cost.wavefronts


@pytest.mark.deep
@settings(deadline=None)
@given(conversions(min_lanes=5, max_lanes=5), ELEMENTS, st.integers(1, 2), st.integers(0, 99))
def test_every_plan_of_random_layouts_is_the_definition_and_costs_what_it_says(
    pair: tuple[LinearLayout, LinearLayout], element: str, groups: int, seed: int
) -> None:
    found = convert_layout(*pair, element)
    for plan in (found.plan, *found.alternatives):
        ran(found, plan, groups, seed)


@pytest.mark.deep
@settings(deadline=None)
@given(conversions(min_lanes=5, max_lanes=5, in_warp=True), st.sampled_from(("u8", "f16", "f32")))
def test_inside_a_warp(pair: tuple[LinearLayout, LinearLayout], element: str) -> None:
    found = convert_layout(*pair, element)
    for plan in (found.plan, *found.alternatives):
        ran(found, plan)


@pytest.mark.deep(only=("0", "2", "3"))
@pytest.mark.parametrize("seed", range(5))
def test_the_printed_text_does_the_same(seed: int) -> None:
    """So that operands and index code are what was simulated."""
    found = convert_layout(*relayouts.random_pair(seed), ("f64", "u8", "f16", "f32", "u8")[seed])
    for plan in (found.plan, *found.alternatives):
        ran(found, plan, 1, seed, printed=True)


@each("arch", ["sm_80", "sm_90a"])
@each("seed", range(4), sample=1)
def test_every_plan_compiles_without_spills(seed: int, arch: str) -> None:
    found = convert_layout(*relayouts.random_pair(seed), ("u8", "f16", "f32")[seed % 3], arch)
    for plan in (found.plan, *found.alternatives):
        kernel = relayouts.relayout_kernel(found, plan.kind)
        assert compile_cubin(to_cuda(kernel, arch), kernel.name, arch).spill_bytes == 0


def test_elements_of_4_bits_move_by_whole_bytes() -> None:
    """Pairs of nibbles stay together; bytes of two lanes change places."""
    src = LinearLayout({"register": [1, 2, 4], "lane": [8, 16, 32, 64, 128]}, {"n": 256})
    dst = LinearLayout({"register": [1, 8, 2], "lane": [4, 16, 32, 64, 128]}, {"n": 256})
    found = convert_layout(src, dst, "u4")
    for plan in (found.plan, *found.alternatives):
        ran(found, plan)


EXCHANGE = (
    LinearLayout({"register": [32], "lane": [1, 2, 4, 8, 16], "warp": [64]}, {"n": 128}),
    LinearLayout({"register": [64], "lane": [1, 2, 4, 8, 16], "warp": [32]}, {"n": 128}),
)
"""Two warps exchange a register."""


def _in_a_loop(*, barrier: bool) -> Kernel:
    """Twice the same exchange through the same shared memory."""
    k = KernelBuilder("twice", 64)
    src, dst = k.pointer("src", 4, (128, 1)), k.pointer("dst", 4, (128, 1), writable=True)
    held = k.reg("held", 2)
    with k.For("i", 2) as i:
        k.do(LDG[8], held, k.at(src, i, k.tid * 2))
        if barrier:
            k.do(BAR)
        out = relayout(k, convert_layout(*EXCHANGE, "f32"), held, "out")
        k.do(STG[8], k.at(dst, i, k.tid * 2), out)
    return k.build()


def test_a_loop_needs_a_barrier_in_front_and_the_simulator_misses_it() -> None:
    src, dst = np.arange(256, dtype=np.uint32), np.zeros(256, np.uint32)
    simulate(_in_a_loop(barrier=True), {"src": src, "dst": dst})
    tile = src.reshape(2, 2, 32, 2)
    assert np.array_equal(dst.reshape(2, 2, 32, 2)[:, 0, :, 1], tile[:, 1, :, 0])
    with pytest.raises(SimulationError, match="no block barrier in between"):
        simulate(_in_a_loop(barrier=False), {"src": src, "dst": dst})


def test_a_shuffle_of_half_a_warp_is_an_error() -> None:
    k = KernelBuilder("part", 32)
    dst, held = k.pointer("dst", 4, writable=True), k.reg("held", 1)
    turned = LinearLayout({"lane": [16, 1, 2, 4, 8]}, {"n": 32})
    straight = LinearLayout({"lane": [1, 2, 4, 8, 16]}, {"n": 32})
    k.do(CLEAR[4], held)
    with k.If(k.tid < 16):
        out = relayout(k, convert_layout(straight, turned, "f32"), held, "out", "shuffle")
        k.do(STG[4], k.at(dst, k.tid), out)
    with pytest.raises(SimulationError, match="thread 16 does not reach"):
        simulate(k.build(), {"dst": np.zeros(32, np.uint32)})


FEW = LinearLayout({"lane": [1, 2]}, {"n": 4})


@each(
    ("pair", "threads", "words", "plan", "error", "part"),
    [
        (EXCHANGE, 64, 3, None, ShapeError, "held has 3 words"),
        (EXCHANGE, 64, 2, "shuffle", UnknownNameError, "shuffle"),
        (EXCHANGE, 96, 2, None, ShapeError, "a block of 96 threads"),
        ((FEW, FEW), 64, 1, None, ShapeError, "4 lanes"),
    ],
)
def test_what_does_not_fit_is_refused(
    pair: Any, threads: int, words: int, plan: Any, error: type[Exception], part: str
) -> None:
    k = KernelBuilder("k", threads)
    with pytest.raises(error, match=part):
        relayout(k, convert_layout(*pair), k.reg("held", words), "out", plan)


def test_a_part_of_a_register_array_is_relaid() -> None:
    k = KernelBuilder("parts", 64)
    many = k.reg("many", 3, 2)
    first = relayout(k, convert_layout(*EXCHANGE, "f32"), many[1], "first")
    second = relayout(k, convert_layout(*EXCHANGE, "f32"), many.slice(2, 0, count=2), "second", overlay=True)
    assert first.shape == second.shape == (2,)
    one, two = k.build().shared
    assert one.offset_bytes == two.offset_bytes == 0
