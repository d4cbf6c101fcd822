"""Tile programs with one mistake each, and their correct twins.

`build(right=False)` leaves out one barrier, wait or guard; CASES says what the simulator calls the mistake.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutalg.codegen.instr import (
    BAR,
    CP_ASYNC,
    CP_COMMIT,
    CP_WAIT,
    LDG,
    LDS,
    STG,
    STS,
    TRANSPOSE_8,
    WARP_SYNC,
    Instr,
)
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Global, Kernel, Reg, Shared
from layoutalg.layout import Layout
from tests.tileprograms import copy_through_shared

THREADS = 64
Parts = tuple[KernelBuilder, Global, Global, Shared, Reg]


def parts(words: int = 1) -> Parts:
    """A kernel of two warps with source x, target y, a shared tile of 64 words and a register."""
    k = KernelBuilder("seeded", THREADS)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    return k, x, y, k.shared_buffer("tile", 4, Layout((THREADS,)), THREADS, 16), k.reg("v", words)


def do_if(k: KernelBuilder, right: bool, instr: Instr, *args: Any) -> None:
    """Write an instruction, or leave it out."""
    if right:
        k.do(instr, *args)


def no_barrier(right: bool) -> Kernel:
    return copy_through_shared(THREADS, barrier=right, mirror=63)


def write_after_read(right: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    k.do(BAR)
    k.do(LDS[4], v, k.at(tile, k.tid ^ 63))
    do_if(k, right, BAR)
    k.do(STS[4], k.at(tile, k.tid), v)
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def write_after_write(right: bool) -> Kernel:
    k, x, _, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    do_if(k, right, BAR)
    k.do(STS[4], k.at(tile, k.tid ^ 63), v)
    return k.build()


def _within_a_warp(right: bool, *, reads: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    if reads:
        do_if(k, right, WARP_SYNC)
        k.do(LDS[4], v, k.at(tile, k.tid ^ 1))
    else:
        k.do(LDS[4], v, k.at(tile, k.tid))
        do_if(k, right, WARP_SYNC)
        k.do(STS[4], k.at(tile, k.tid ^ 1), v)
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def no_warp_barrier(right: bool) -> Kernel:
    return _within_a_warp(right, reads=True)


def no_warp_barrier_before_a_write(right: bool) -> Kernel:
    return _within_a_warp(right, reads=False)


def warp_barrier_for_a_block_barrier(right: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    k.do(BAR if right else WARP_SYNC)
    k.do(LDS[4], v, k.at(tile, k.tid ^ 32))
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def no_wait(right: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
    k.do(CP_COMMIT)
    do_if(k, right, CP_WAIT, 0)
    k.do(BAR)
    k.do(LDS[4], v, k.at(tile, k.tid))
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def no_barrier_after_the_wait(right: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
    k.do(CP_COMMIT)
    if not right:
        k.do(BAR)
    k.do(CP_WAIT, 0)
    if right:
        k.do(BAR)
    k.do(LDS[4], v, k.at(tile, k.tid ^ 33))
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def waits_for_too_few(right: bool) -> Kernel:
    k = KernelBuilder("two_groups", THREADS)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    tile, v = k.shared_buffer("tile", 4, Layout((THREADS, 2)), 2 * THREADS, 16), k.reg("v", 1)
    for stage in range(2):
        k.do(CP_ASYNC[4], k.at(tile, k.tid, stage), k.at(x, k.tid))
        k.do(CP_COMMIT)
    k.do(CP_WAIT, 0 if right else 1)
    k.do(LDS[4], v, k.at(tile, k.tid, 1))
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def never_committed(right: bool) -> Kernel:
    k, x, _, tile, _ = parts()
    k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
    do_if(k, right, CP_COMMIT)
    k.do(CP_WAIT, 0)
    return k.build()


def copy_over_what_is_read(right: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid), v)
    k.do(BAR)
    k.do(LDS[4], v, k.at(tile, k.tid ^ 63))
    do_if(k, right, BAR)
    k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
    k.do(CP_COMMIT)
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def two_copies_to_one_place(right: bool) -> Kernel:
    k, x, _, tile, _ = parts()
    for _ in range(2):
        k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
        k.do(CP_COMMIT)
        do_if(k, right, CP_WAIT, 0)
    return k.build()


def store_under_a_copy(right: bool) -> Kernel:
    k, x, _, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(CP_ASYNC[4], k.at(tile, k.tid), k.at(x, k.tid))
    k.do(CP_COMMIT)
    do_if(k, right, CP_WAIT, 0)
    k.do(STS[4], k.at(tile, k.tid), v)
    return k.build()


def double_store_to_shared(right: bool) -> Kernel:
    k, x, _, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid if right else k.tid // 2), v)
    return k.build()


def double_store_to_global(right: bool) -> Kernel:
    k, x, y, _, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STG[4], k.at(y, k.tid if right else k.tid // 2), v)
    return k.build()


def _two_blocks() -> tuple[KernelBuilder, Global, Global, Any, Reg]:
    k = KernelBuilder("two_blocks", 32)
    x, y = k.pointer("x", 4), k.pointer("y", 4, writable=True)
    return k, x, y, k.block(0, 2), k.reg("v", 1)


def two_blocks_store_one_place(right: bool) -> Kernel:
    k, x, y, block, v = _two_blocks()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STG[4], k.at(y, k.tid + block * (32 if right else 31)), v)
    return k.build()


def read_what_another_block_wrote(right: bool) -> Kernel:
    k, _, y, block, v = _two_blocks()
    k.do(LDG[4], v, k.at(y, k.tid + (block * 32 if right else 0)))
    k.do(STG[4], k.at(y, k.tid + block * 32), v)
    return k.build()


def write_what_another_block_read(right: bool) -> Kernel:
    k, _, y, block, v = _two_blocks()
    k.do(LDG[4], v, k.at(y, k.tid + (block * 32 if right else 32)))
    k.do(STG[4], k.at(y, k.tid + block * 32), v)
    return k.build()


def global_memory_without_barrier(right: bool) -> Kernel:
    k, x, y, _, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STG[4], k.at(y, k.tid), v)
    do_if(k, right, BAR)
    k.do(LDG[4], v, k.at(y, k.tid ^ 63))
    return k.build()


def barrier_of_half_a_warp(right: bool) -> Kernel:
    k = parts()[0]
    with k.If(k.tid < (64 if right else 16)):
        k.do(BAR)
    return k.build()


def barrier_of_one_warp(right: bool) -> Kernel:
    k = parts()[0]
    with k.If(k.tid < (64 if right else 32)):
        k.do(BAR)
    return k.build()


def barriers_of_two_branches(right: bool) -> Kernel:
    k = parts()[0]
    with k.If(k.tid < (64 if right else 32)):
        k.do(BAR)
    with k.Else():
        k.do(BAR)
    return k.build()


def warp_barrier_of_half_a_warp(right: bool) -> Kernel:
    k = parts()[0]
    with k.If(k.tid < (32 if right else 16)):
        k.do(WARP_SYNC)
    return k.build()


def past_the_end_of_global(right: bool) -> Kernel:
    k, x, _, _, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid + (64 if right else 65)))
    return k.build()


def past_the_end_of_a_shared_buffer(right: bool) -> Kernel:
    k, x, _, tile, v = parts()
    k.shared_buffer("next", 4, Layout((THREADS,)), THREADS, 16)
    k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STS[4], k.at(tile, k.tid + (0 if right else 1)), v)
    return k.build()


def misaligned_global(right: bool) -> Kernel:
    k, x, _, _, v = parts(4)
    k.do(LDG[16], v, k.at(x, k.tid % 16 * 4 + (0 if right else 2)))
    return k.build()


def misaligned_shared(right: bool) -> Kernel:
    k, x, _, tile, v = parts(2)
    with k.If(k.tid < 8):
        k.do(LDG[8], v, k.at(x, k.tid * 2))
        k.do(STS[8], k.at(tile, k.tid * 2 + (0 if right else 1)), v)
    return k.build()


def unwritten_register(right: bool) -> Kernel:
    k, x, y, _, v = parts()
    with k.If(k.tid < (64 if right else 40)):
        k.do(LDG[4], v, k.at(x, k.tid))
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def uninitialised_shared_memory(right: bool) -> Kernel:
    k, x, y, tile, v = parts()
    k.do(LDG[4], v, k.at(x, k.tid))
    with k.If(k.tid < (64 if right else 50)):
        k.do(STS[4], k.at(tile, k.tid), v)
    k.do(BAR)
    k.do(LDS[4], v, k.at(tile, k.tid))
    k.do(STG[4], k.at(y, k.tid), v)
    return k.build()


def one_poisoned_byte(right: bool) -> Kernel:
    """Three rows of bytes are written, a corner of four rows is turned, bytes of three or four are stored."""
    k = KernelBuilder("corner", 32)
    x, y = k.pointer("x", 1), k.pointer("y", 1, writable=True)
    tile = k.shared_buffer("tile", 1, Layout((4, 32), (32, 1)), 128, 16)
    v, w, t = k.reg("v", 1), k.reg("w", 4, 1), k.reg("t", 4)
    k.do(LDG[1], v, k.at(x, k.tid))
    for row in range(3):
        k.do(STS[1], k.at(tile, row, k.tid), v)
    k.do(BAR)
    with k.If(k.tid < 8):
        with k.Unroll("r", 4) as r:
            k.do(LDS[4], w[r], k.at(tile, r, k.tid * 4))
        k.do(TRANSPOSE_8, t, *(w[n] for n in range(4)))
        k.do(STS[4], k.at(tile, 3, k.tid * 4), t[0])
        k.do(LDS[1], v, k.at(tile, 3, k.tid * 4 + (2 if right else 3)))
        k.do(STG[1], k.at(y, k.tid), v)
    return k.build()


CASES: dict[Callable[[bool], Kernel], str] = {
    no_barrier: "reads byte .* of tile: thread .* wrote it, with no block barrier|stores uninitialised",
    write_after_read: "byte .* of tile: thread .* (read|wrote) it, with no block barrier",
    write_after_write: "writes byte .* of tile: thread .* wrote it, with no block barrier",
    no_warp_barrier: "thread 0 .* reads byte 4 of tile: thread 1 wrote it, with no warp or block barrier|"
    "thread 32 .* reads byte 132 of tile: thread 33 wrote it, with no warp or block barrier",
    no_warp_barrier_before_a_write: "writes byte .* of tile: thread .* it, with no warp or block barrier",
    warp_barrier_for_a_block_barrier: "reads byte .* wrote it, with no block barrier|stores uninitialised",
    no_wait: "reads byte .* of tile: thread .* has started a copy into it and not waited for it",
    no_barrier_after_the_wait: "reads byte .* of tile: thread .* (wrote it|has started a copy into it)",
    waits_for_too_few: r"reads byte .* of tile: .* not waited for it, at 'lds32\(v, tile",
    never_committed: "has started a copy that it never commits, at the end of the kernel",
    copy_over_what_is_read: "copies into byte .* of tile: thread .* read it|reads byte .* not waited",
    two_copies_to_one_place: "copies into byte .* of tile: thread .* has started a copy into it",
    store_under_a_copy: "writes byte .* of tile: thread .* has started a copy into it",
    double_store_to_shared: "writes byte 0 of tile: thread 1 writes it in the same instruction|"
    "writes byte 64 of tile: thread 33 writes it in the same instruction",
    double_store_to_global: "writes byte (0|64) of y: thread (1|33) writes it in the same instruction",
    two_blocks_store_one_place: "writes byte 124 of y: block 0 wrote it, and blocks are not ordered",
    read_what_another_block_wrote: "reads byte 0 of y: block 0 wrote it, and blocks are not ordered",
    write_what_another_block_read: "writes byte 128 of y: several blocks read it, and blocks are not",
    global_memory_without_barrier: "byte .* of y: thread .* (read|wrote) it, with no block barrier",
    barrier_of_half_a_warp: "thread 0 .* meets a block barrier that thread 16 does not reach",
    barrier_of_one_warp: r"thread 32 does not reach|warp 0 waits at 'block_sync\(\)', warp 1 has",
    barriers_of_two_branches: "thread 32 does not reach|while warp [01] waits at another, 'block_sync",
    warp_barrier_of_half_a_warp: "thread 0 .* warp_sync of a whole warp, which thread 16 does not",
    past_the_end_of_global: r"thread 63 \(warp 1, lane 31\) .* reads bytes 512 to 515 of x, which has 512",
    past_the_end_of_a_shared_buffer: "thread 63 .* writes bytes 256 to 259 of tile, which has 256",
    misaligned_global: "thread .* reads 16 bytes at byte 8 of x, which is no multiple of 16",
    misaligned_shared: "thread 0 .* writes 8 bytes at byte 4 of tile, which is no multiple of 8",
    unwritten_register: r"thread 40 \(warp 1, lane 8\) .* reads register v, which nothing has written",
    uninitialised_shared_memory: "thread 50 .* stores uninitialised shared memory to y",
    one_poisoned_byte: "thread 0 .* stores uninitialised shared memory to y",
}
"""What is built, and what its mistake is called."""
