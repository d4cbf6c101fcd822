"""Seeded mistakes: each is caught in every way of running, and its correct twin passes in every way."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy
import pytest

from layoutalg.codegen.instr import BAR, CP_ASYNC, CP_COMMIT, CP_WAIT, LDG, LDS, STG, STS
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError
from layoutalg.layout import Layout
from tests.seeded import CASES, do_if, parts, past_the_end_of_a_shared_buffer
from tests.sweeps import each
from tests.tileprograms import WAYS

BOTH = each("way", WAYS, ids=str)


def _args(kernel: Kernel) -> dict[str, Any]:
    words = {"x": numpy.arange(128, dtype=numpy.uint32), "y": numpy.zeros(128, dtype=numpy.uint32)}
    return {p.name: words[p.name].view(numpy.uint8) for p in kernel.params}


@BOTH
@each("build", CASES, ids=lambda build: build.__name__)
def test_the_mistake_is_caught(build: Callable[[bool], Kernel], way: dict[str, Any]) -> None:
    kernel = build(False)
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, _args(kernel), **way)
    assert re.search(CASES[build], str(caught.value)), caught.value
    assert caught.value.statement


@BOTH
@each("build", CASES, ids=lambda build: build.__name__)
def test_its_correct_twin_passes(build: Callable[[bool], Kernel], way: dict[str, Any]) -> None:
    kernel = build(True)
    simulate(kernel, _args(kernel), **way)


def test_an_error_knows_lane_address_and_statement() -> None:
    kernel = past_the_end_of_a_shared_buffer(False)
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, _args(kernel))
    assert (caught.value.lane, caught.value.address) == (31, 256)
    assert caught.value.statement == "'sts32(tile[tid * 4 + 4], v)'"


def test_a_statement_in_a_loop_says_which_iteration() -> None:
    k, x, _, _, v = parts()
    with k.For("kt", 4) as kt, k.Unroll("i", 2) as i:
        k.do(LDG[4], v, k.at(x, kt * 64 + i * 32 + k.tid % 32))
    kernel = k.build()
    with pytest.raises(SimulationError, match=r"reads bytes 512 to 515 of x.* with kt = 2, i = 0$"):
        simulate(kernel, _args(kernel))


def test_poison_may_be_loaded_and_overwritten() -> None:
    """A ragged tile: what was never stored is loaded, turned and dropped."""
    k, x, y, tile, v = parts()
    w = k.reg("w", 1)
    k.do(LDS[4], w, k.at(tile, k.tid))
    k.do(STS[4], k.at(tile, k.tid), w)
    k.do(LDG[4], w, k.at(x, k.tid))
    k.do(STG[4], k.at(y, k.tid), w)
    k.do(STS[4], k.at(tile, k.tid), w)
    k.do(LDS[4], v, k.at(tile, k.tid))
    k.do(STG[4], k.at(y, k.tid), v)
    kernel = k.build()
    for way in WAYS:
        args = _args(kernel)
        simulate(kernel, args, **way)
        assert (args["y"].view(numpy.uint32)[:64] == numpy.arange(64)).all()


def test_shared_memory_of_a_block_is_not_the_next_ones() -> None:
    """The first block writes the tile, the second only reads it."""
    k = KernelBuilder("leak", 32)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile, v = k.shared_buffer("tile", 4, Layout((32,)), 32, 16), k.reg("v", 1)
    block = k.block(0, 2)
    with k.If(block < 1):
        k.do(LDG[4], v, k.at(x, k.tid))
        k.do(STS[4], k.at(tile, k.tid), v)
    k.do(LDS[4], v, k.at(tile, k.tid))
    k.do(STG[4], k.at(y, block * 32 + k.tid), v)
    kernel = k.build()
    with pytest.raises(SimulationError, match=r"block \(1, 0, 0\) stores uninitialised shared memory"):
        simulate(kernel, _args(kernel))


def test_copies_of_a_block_end_with_it() -> None:
    """Both blocks leave a copy in flight; the second one must neither see the first one's nor land it."""
    k = KernelBuilder("left_over", 32)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile, v = k.shared_buffer("tile", 4, Layout((32,)), 32, 16), k.reg("v", 1)
    block = k.block(0, 2)
    with k.If(block.eq(0)):
        k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
        k.do(CP_COMMIT)
    with k.Else():
        k.do(CP_WAIT, 0)
        k.do(LDS[4], v, k.at(tile, k.tid))
        k.do(STG[4], k.at(y, k.tid), v)
    kernel = k.build()
    with pytest.raises(SimulationError, match=r"block \(1, 0, 0\) stores uninitialised shared memory"):
        simulate(kernel, _args(kernel))


def test_registers_of_a_block_are_not_the_next_ones() -> None:
    k = KernelBuilder("leak", 32)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("v", 1)
    block = k.block(0, 2)
    with k.If(block.eq(0)):
        k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STG[4], k.at(y, block * 32 + k.tid), v)
    kernel = k.build()
    with pytest.raises(SimulationError, match=r"block \(1, 0, 0\) reads register v, which nothing has"):
        simulate(kernel, _args(kernel))


@BOTH
@each("barrier", [False, True])
def test_buffers_that_share_bytes_share_their_hazards(barrier: bool, way: dict[str, Any]) -> None:
    """Words are written through one buffer and bytes are read through another that lies on it."""
    k, x, y, tile, v = parts()
    over = k.shared_buffer("over", 1, Layout((256,)), 256, 16)
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    do_if(k, barrier, BAR)
    k.do(LDS[1], v, k.at(over, k.tid * 4 ^ 252))
    k.do(STG[4], k.at(y, k.tid), v)
    kernel = replace(k.build(), shared=(tile, replace(over, offset_bytes=0)))
    args = _args(kernel)
    if barrier:
        simulate(kernel, args, **way)
        assert args["y"][:256:4].tolist() == [t ^ 63 for t in range(64)]
    else:
        with pytest.raises(SimulationError, match=r"thread .* wrote it|stores uninitialised"):
            simulate(kernel, args, **way)
