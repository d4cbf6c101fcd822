"""Seeded mistakes: each is caught in every way of running, and its correct twin passes in every way."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy
import pytest

from layoutalg.codegen.instr import BAR, CP_ASYNC, CP_COMMIT, CP_WAIT, LDG, LDS, STG, STS, WARP_SYNC
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel
from layoutalg.codegen.sim import simulate
from layoutalg.errors import SimulationError
from layoutalg.layout import Layout
from tests.sweeps import each
from tests.tiles.edits import Edit, drop, edited, moved, operand, other
from tests.tiles.simt import WAYS, accesses, corner, filled_below, if_below, steps, two_blocks

BOTH = each("way", WAYS, ids=str)

CASES: dict[str, tuple[str, Kernel, Kernel]] = {}
"""By name: what is said, the mistake, and its correct twin."""


def note(name: str, said: str, wrong: Kernel | Edit | tuple[Edit, ...], right: Kernel) -> None:
    edits = wrong if isinstance(wrong, tuple) else (wrong,)
    CASES[name] = said, wrong if isinstance(wrong, Kernel) else edited(right, *edits), right


BLOCK, WARP = "with no block barrier", "with no warp or block barrier"
UNFILLED = "stores uninitialised"
INSTANT = "writes it in the same instruction"
COPIED = "byte .* of tile: thread .* has started a copy into it"

for _name, _said, _wrong, _right in (
    ("no barrier", f"reads byte .* of tile: thread .* wrote it, {BLOCK}|{UNFILLED}", drop("block_sync"),
     steps("load write^0 bar read^63 store")),
    ("write after read", f"byte .* of tile: thread .* (read|wrote) it, {BLOCK}", drop("block_sync", 1),
     steps("load write^0 bar read^63 bar write^0 store")),
    ("write after write", f"writes byte .* of tile: thread .* wrote it, {BLOCK}", drop("block_sync"),
     steps("load write^0 bar write^63")),
    ("no warp barrier", f"reads byte (4|132) of tile: thread (1|33) wrote it, {WARP}", drop("warp_sync"),
     steps("load write^0 warp read^1 store")),
    ("no warp barrier before a write", f"writes byte .* of tile: thread .* it, {WARP}", drop("warp_sync"),
     steps("load write^0 read^0 warp write^1 store")),
    ("warp barrier for a block barrier", f"reads byte .* wrote it, {BLOCK}|{UNFILLED}",
     other("block_sync", WARP_SYNC), steps("load write^0 bar read^32 store")),
    ("no wait", f"reads {COPIED} and not waited for it", drop("cp_async_wait"),
     steps("copy commit wait bar read^0 store")),
    ("no barrier after the wait", "reads byte .* of tile: thread .* (wrote it|has started a copy into it)",
     moved("cp_async_wait", "block_sync"), steps("copy commit wait bar read^33 store")),
    ("waits for too few", r"reads byte .* of tile: .* not waited for it, at 'lds32\(v, tile",
     operand("cp_async_wait", 0, 1), steps("copy commit copy+64 commit wait read+64 store", 128)),
    ("never committed", "has started a copy that it never commits, at the end", drop("cp_async_commit"),
     steps("copy commit wait")),
    ("copy over what is read", "copies into byte .* of tile: thread .* read it|reads byte .* not waited",
     drop("block_sync", 1), steps("load write^0 bar read^63 bar copy commit store")),
    ("two copies to one place", f"copies into {COPIED}", drop("cp_async_wait"),
     steps("copy commit wait copy commit wait")),
    ("store under a copy", f"writes {COPIED}", drop("cp_async_wait"), steps("load copy commit wait write^0")),
    ("double store to shared", f"writes byte (0|64) of tile: thread (1|33) {INSTANT}",
     operand("sts32", 0, lambda e: e // 8 * 4), steps("load write^0")),
    ("double store to global", f"writes byte (0|64) of y: thread (1|33) {INSTANT}",
     operand("stg32", 0, lambda e: e // 2), steps("load store")),
    ("global memory without barrier", f"byte .* of y: thread .* (read|wrote) it, {BLOCK}", drop("block_sync"),
     steps("load store bar load^63")),
    ("two blocks store one place", "writes byte 124 of y: block 0 wrote it, and blocks are not ordered",
     two_blocks(None, 31), two_blocks(None, 32)),
    ("read what another block wrote", "reads byte 0 of y: block 0 wrote it, and blocks are not ordered",
     two_blocks(0, 32), two_blocks(1, 32)),
    ("write what another block read", "writes byte 128 of y: several blocks read it, and blocks are not",
     two_blocks(32, 32), two_blocks(1, 32)),
    ("barrier of half a warp", "thread 0 .* meets a block barrier that thread 16 does not reach",
     if_below(16, BAR), if_below(64, BAR)),
    ("barrier of one warp", r"thread 32 does not reach|warp 0 waits at 'block_sync\(\)', warp 1 has",
     if_below(32, BAR), if_below(64, BAR)),
    ("barriers of two branches", "thread 32 does not reach|while warp [01] waits at another, 'block_sync",
     if_below(32, BAR, orelse=BAR), if_below(64, BAR, orelse=BAR)),
    ("warp barrier of half a warp", "thread 0 .* warp_sync of a whole warp, which thread 16 does not",
     if_below(16, WARP_SYNC), if_below(32, WARP_SYNC)),
    ("past the end of global", r"thread 63 \(warp 1, lane 31\) .* reads bytes 512 to 515 of x, which has 512",
     accesses(4, 1, 65), accesses(4, 1, 64)),
    ("past the end of shared", "thread 63 .* writes bytes 256 to 259 of tile, which has 256",
     accesses(4, 1, 1, shared=True), accesses(4, 1, 0, shared=True)),
    ("misaligned global", "thread .* reads 16 bytes at byte 8 of x, which is no multiple of 16",
     accesses(16, 4, 2), accesses(16, 4, 0)),
    ("misaligned shared", "thread 0 .* writes 8 bytes at byte 4 of tile, which is no multiple of 8",
     accesses(8, 8, 1, shared=True), accesses(8, 8, 0, shared=True)),
    ("unwritten register", r"thread 40 \(warp 1, lane 8\) .* reads register v, which nothing has written",
     filled_below(40, shared=False), filled_below(64, shared=False)),
    ("uninitialised shared memory", "thread 50 .* stores uninitialised shared memory to y",
     filled_below(50, shared=True), filled_below(64, shared=True)),
    ("one poisoned byte", "thread 0 .* stores uninitialised shared memory to y", corner(3), corner(2)),
):  # fmt: skip
    note(_name, _said, _wrong, _right)


def _args(kernel: Kernel) -> dict[str, Any]:
    words = {"x": numpy.arange(128, dtype=numpy.uint32), "y": numpy.zeros(128, dtype=numpy.uint32)}
    return {p.name: words[p.name].view(numpy.uint8) for p in kernel.params}


@BOTH
@each("name", CASES)
def test_the_mistake_is_caught_and_its_correct_twin_passes(name: str, way: dict[str, Any]) -> None:
    said, wrong, right = CASES[name]
    with pytest.raises(SimulationError, match=said) as caught:
        simulate(wrong, _args(wrong), **way)
    assert caught.value.statement
    simulate(right, _args(right), **way)


def test_an_error_knows_lane_address_statement_and_iteration() -> None:
    kernel = CASES["past the end of shared"][1]
    with pytest.raises(SimulationError) as caught:
        simulate(kernel, _args(kernel))
    found = caught.value
    assert (found.lane, found.address, found.statement) == (31, 256, "'sts32(tile[tid * 4 + 4], v)'")
    k = KernelBuilder("loop", 64)
    x, v = k.pointer("x", 4), k.reg("v", 1)
    with k.For("kt", 4) as kt, k.Unroll("i", 2) as i:
        k.do(LDG[4], v, k.at(x, kt * 64 + i * 32 + k.tid % 32))
    with pytest.raises(SimulationError, match=r"reads bytes 512 to 515 of x.* with kt = 2, i = 0$"):
        simulate(k.build(), _args(k.build()))


def test_poison_may_be_loaded_and_overwritten() -> None:
    """A ragged tile: what was never stored is loaded, turned and dropped."""
    kernel = steps("read^0 write^0 load write^0 read^0 store")
    for way in WAYS:
        args = _args(kernel)
        simulate(kernel, args, **way)
        assert (args["y"].view(numpy.uint32)[:64] == numpy.arange(64)).all()


@pytest.mark.parametrize("what", ["shared memory", "a copy in flight", "a register"])
def test_what_a_block_leaves_is_not_the_next_ones(what: str) -> None:
    """The first block fills it, or leaves it in flight, and the second one only reads it."""
    k = KernelBuilder("left_over", 32)
    x, y, block = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.block(0, 2)
    tile, v = k.shared_buffer("tile", 4, Layout((32,)), 32, 16), k.reg("v", 1)
    with k.If(block < 1):
        if what == "a copy in flight":
            k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
            k.do(CP_COMMIT)
        else:
            k.do(LDG[4], v, k.at(x, k.tid))
            k.do(STS[4], k.at(tile, k.tid), v)
    with k.If(block > 0):
        k.do(CP_WAIT, 0)
        if what != "a register":
            k.do(LDS[4], v, k.at(tile, k.tid))
        k.do(STG[4], k.at(y, k.tid), v)
    kernel = k.build()
    said = "reads register v, which nothing has" if what == "a register" else "stores uninitialised shared"
    with pytest.raises(SimulationError, match=rf"block \(1, 0, 0\) {said}"):
        simulate(kernel, _args(kernel))


@BOTH
@each("barrier", [False, True])
def test_buffers_that_share_bytes_share_their_hazards(barrier: bool, way: dict[str, Any]) -> None:
    """Words are written through one buffer and bytes are read through another that lies on it."""
    k = KernelBuilder("bytes", 64)
    x, y, v = k.pointer("x", 4), k.pointer("y", 4, writable=True), k.reg("v", 1)
    tile, over = (
        k.shared_buffer(name, n, Layout((256 // n,)), 256 // n, 16) for name, n in (("tile", 4), ("over", 1))
    )
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    if barrier:
        k.do(BAR)
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
