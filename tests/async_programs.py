"""Right programs of asynchronous copies, barriers and roles of one block, each another way of doing it.

Every program computes y from x, f32 in small integers; `RIGHT` has it with the arrays and what y becomes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutalg import codegen as cg
from layoutalg.codegen.expr import as_expr
from layoutalg.codegen.instr import (
    ARRIVE,
    BAR,
    LDG,
    LDS,
    NAMED_ARRIVE,
    NAMED_BARRIER,
    STG,
    STS,
    TMA_LOAD,
    TMA_STORE,
    TRY_WAIT,
    WARP_SYNC,
)
from layoutalg.layout import Layout

BOX, BYTES, TILES = (16, 32), 16 * 32 * 4, 6


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel, its arrays without y, and y."""

    kernel: Any
    given: Mapping[str, Any]
    y: Any


RIGHT: dict[str, Callable[[], Program]] = {}
"""By name."""


def right(build: Callable[..., Program]) -> Callable[..., Program]:
    RIGHT[build.__name__] = build
    return build


def integers(*shape: int) -> Any:
    """Small numbers, whose sums are exact."""
    return np.random.default_rng(5).integers(-9, 10, shape).astype("f4")


def summed(x: Any) -> Any:
    """The sum of the tiles of a row of tiles."""
    return x.reshape(16, -1, 32).sum(1)


class Frame:
    """x in a row of tiles, y of one tile, and what a program of both has at hand."""

    def __init__(self, name: str, threads: int, tiles: int = TILES, *, pieces: int = 0) -> None:
        self.k = k = cg.Kernel(name, threads=threads)
        self.tiles, shape = tiles, (16, 32 * tiles)
        self.x = k.tensor("x", "f32", shape, (shape[1], 1))
        out = (16, 32 * pieces) if pieces else BOX
        self.y = k.tensor("y", "f32", out, (out[1], 1), writable=True)
        self.load = k.tensor_map("load", self.x, BOX)
        self.registers()

    def registers(self) -> None:
        self.total, self.v = (self.k.fragment(name, "f32", (4, 2)) for name in ("total", "v"))

    def stages(self, count: int, name: str = "tiles") -> Any:
        return self.k.shared(name, "f32", Layout(BOX, (32, 1)), align_bytes=128, stages=count)

    def fetch(self, t: Any, into: Any, bar: Any) -> None:
        """Start the load of tile t."""
        self.k.tma_load(self.load, cg.local_tile(self.x, BOX, (0, t)), into, bar)

    def place(self, i: Any, thread: Any) -> tuple[Any, Any]:
        return thread // 8 + i * 8, thread % 8 * 4

    def add(self, tile: Any, *stage: Any, thread: Any = None) -> None:
        """Add a tile in shared memory to the sums of 64 threads."""
        k = self.k
        me = k.thread if thread is None else thread
        with k.Unroll(k.fresh("i"), 2) as i:
            k.do(LDS[16], self.v[None, i], k.at(tile.buffer, *self.place(i, me), *stage))
        k.map(self.total + self.v, into=self.total)

    def put(self, thread: Any = None) -> None:
        """Store the sums to y."""
        k = self.k
        me = k.thread if thread is None else thread
        with k.Unroll(k.fresh("j"), 2) as j:
            k.do(STG[16], self.y.at(*self.place(j, me)), self.total[None, j])

    def program(self, y: Any = None, x: Any = None) -> Program:
        x = integers(16, 32 * self.tiles) if x is None else x
        return Program(self.k.build(), {"x": x}, summed(x) if y is None else y)


# --- one block, no roles -----------------------------------------------------------------------------------


@right
def one_buffer_that_is_filled_again() -> Program:
    """Phases 0, 1, 0, ... of one barrier; the block's barrier says that all have read."""
    f = Frame("again", 64)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    k.init(full)
    k.clear(f.total)
    with k.For("t", TILES) as t:
        with k.If(k.thread.eq(0)):
            k.expect(full[0], BYTES)
            f.fetch(t, tile, full[0])
        k.wait(full[0], t % 2)
        f.add(tile)
        k.do(BAR)
    f.put()
    return f.program()


@right
def one_thread_waits_for_all() -> Program:
    """What thread 0 has seen, the block's barrier shows the others."""
    f = Frame("relayed", 64)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    k.init(full)
    k.clear(f.total)
    with k.For("t", TILES) as t:
        with k.If(k.thread.eq(0)):
            k.expect(full[0], BYTES)
            f.fetch(t, tile, full[0])
            k.wait(full[0], t % 2)
        k.do(BAR)
        f.add(tile)
        k.do(BAR)
    f.put()
    return f.program()


@right
def one_lane_of_a_warp_waits_for_it() -> Program:
    """A warp's barrier shows the other lanes what one has waited for."""
    f = Frame("lane_waits", 64)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    k.init(full)
    k.clear(f.total)
    with k.For("t", TILES) as t:
        with k.If(k.thread.eq(0)):
            k.expect(full[0], BYTES)
            f.fetch(t, tile, full[0])
        with k.If((k.thread % 32).eq(0)):
            k.wait(full[0], t % 2)
        k.do(WARP_SYNC)
        f.add(tile)
        k.do(BAR)
    f.put()
    return f.program()


@right
def the_next_tile_is_fetched_ahead() -> Program:
    """Two stages, no barrier for empty ones: the block's barrier is behind the reads of a stage."""
    f = Frame("ahead", 64)
    k, tile, full = f.k, f.stages(2), f.k.mbarrier("full", 1, 2)
    k.init(full)
    k.clear(f.total)

    def fill(t: Any) -> None:
        with k.If(k.thread.eq(0)):
            k.expect(full[t % 2], BYTES)
            f.fetch(t, tile[None, None, t % 2], full[t % 2])

    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        f.fetch(0, tile[None, None, 0], full[0])
    with k.For("t", TILES) as t:
        with k.If(t + 1 < TILES):
            fill(t + 1)
        k.wait(full[t % 2], t // 2 % 2)
        f.add(tile, t % 2)
        k.do(BAR)
    f.put()
    return f.program()


@right
def every_stage_is_used_once() -> Program:
    """All loads are started at once; no stage is filled twice and only phase 0 is waited for."""
    f = Frame("at_once", 64, 4)
    k, tile, full = f.k, f.stages(4), f.k.mbarrier("full", 1, 4)
    k.init(full)
    k.clear(f.total)
    with k.If(k.thread.eq(0)), k.For("u", 4) as u:
        k.expect(full[u], BYTES)
        f.fetch(u, tile[None, None, u], full[u])
    with k.For("t", 4) as t:
        k.wait(full[t], 0)
        f.add(tile, t)
    f.put()
    return f.program()


@right
def several_boxes_for_one_phase() -> Program:
    """The bytes of four loads are announced by one arrival."""
    f = Frame("four_boxes", 64, 4)
    k, tile, full = f.k, f.stages(4), f.k.mbarrier("full")
    k.init(full)
    k.clear(f.total)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], 4 * BYTES)
        with k.For("u", 4) as u:
            f.fetch(u, tile[None, None, u], full[0])
    k.wait(full[0], 0)
    with k.For("t", 4) as t:
        f.add(tile, t)
    f.put()
    return f.program()


@right
def each_thread_announces_its_own_box() -> Program:
    """A phase of four arrivals, by one lane of each of two warps, twice."""
    f = Frame("four_arrivals", 64, 4)
    k, tile, full = f.k, f.stages(4), f.k.mbarrier("full", 4)
    k.init(full)
    k.clear(f.total)
    with k.If((k.thread % 32).eq(0)), k.For("u", 2) as u:
        mine = k.thread // 32 * 2 + u
        k.expect(full[0], BYTES)
        k.do(TMA_LOAD[2], k.at(tile.buffer, 0, 0, mine), f.load, full[0], mine * 32, as_expr(0))
    k.wait(full[0], 0)
    with k.For("t", 4) as t:
        f.add(tile, t)
    f.put()
    return f.program()


@right
def bytes_come_before_they_are_announced() -> Program:
    """The load is started first; the phase cannot end before the one arrival, which announces its bytes."""
    f = Frame("announced_later", 64, 1)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    k.init(full)
    k.clear(f.total)
    with k.If(k.thread.eq(0)):
        f.fetch(0, tile, full[0])
        k.expect(full[0], BYTES)
    k.wait(full[0], 0)
    f.add(tile)
    f.put()
    return f.program()


@right
def a_box_past_the_end_is_announced_whole() -> Program:
    """Two tiles of a tensor of 48 columns: the second box has 16 columns of zeros."""
    k = cg.Kernel("past_the_end", threads=64)
    x, y = k.tensor("x", "f32", (16, 48), (48, 1)), k.tensor("y", "f32", BOX, (32, 1), writable=True)
    load, full = k.tensor_map("load", x, BOX), k.mbarrier("full")
    tile = k.shared("tiles", "f32", Layout(BOX, (32, 1)), align_bytes=128)
    v = k.fragment("v", "f32", (4, 2))
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        k.do(TMA_LOAD[2], k.at(tile.buffer, 0, 0), load, full[0], as_expr(32), as_expr(0))
    k.wait(full[0], 0)
    with k.Unroll("i", 2) as i:
        row, column = k.thread // 8 + i * 8, k.thread % 8 * 4
        k.do(LDS[16], v[None, i], k.at(tile.buffer, row, column))
        k.do(STG[16], y.at(row, column), v[None, i])
    given = integers(16, 48)
    return Program(k.build(), {"x": given}, np.pad(given[:, 32:], ((0, 0), (0, 16))))


@right
def threads_hand_over_by_an_mbarrier() -> Program:
    """No copy at all: one warp writes, arrives lane by lane, and the other warp waits and reads."""
    k = cg.Kernel("by_hand", threads=64)
    x, y = k.tensor("x", "f32", (128,), (1,)), k.tensor("y", "f32", (128,), (1,), writable=True)
    box, v = k.shared("box", "f32", Layout(32), stages=2), k.fragment("v", "f32", 1)
    full, empty = k.mbarrier("full", 32, 2), k.mbarrier("empty", 32, 2)
    k.init(full, empty)
    with k.roles() as roles:
        with roles.role("writer", 1), k.For("t", 4) as t:
            k.wait(empty[t % 2], (t // 2 + 1) % 2)
            k.do(LDG[4], v, x.at(t * 32 + k.thread))
            k.do(STS[4], k.at(box.buffer, k.thread, t % 2), v)
            k.do(ARRIVE, full[t % 2])
        with roles.role("reader", 1), k.For("t", 4) as t:
            k.wait(full[t % 2], t // 2 % 2)
            k.do(LDS[4], v, k.at(box.buffer, 31 - k.thread, t % 2))
            k.do(ARRIVE, empty[t % 2])
            k.do(STG[4], y.at(t * 32 + k.thread), v)
    given = integers(128)
    return Program(k.build(), {"x": given}, given.reshape(4, 32)[:, ::-1].reshape(-1))


# --- roles -------------------------------------------------------------------------------------------------


def ring(
    f: Frame, stages: int, *, first: bool = True, elected: bool = True, by_if: bool = False,
    registers: tuple[int, int] = (0, 0), warps: int = 2, producers: int = 1, spare: int = 0,
) -> None:  # fmt: skip
    """A producer and 64 consumers over a ring; the producer's role comes first or last."""
    k, tile = f.k, f.stages(stages)
    full = k.mbarrier("full", 1, stages)
    empty = k.mbarrier("empty", warps if elected else 32 * warps, stages)
    k.init(full, empty)
    slot = (lambda s: (s,)) if stages > 1 else (lambda s: ())

    def produce(roles: Any) -> None:
        with (
            roles.role("producer", producers, registers=registers[0]),
            k.If(k.thread.eq(0)),
            k.For("t", f.tiles) as t,
        ):
            s, turn = t % stages, t // stages
            if by_if:
                with k.If(t >= stages):
                    k.wait(empty[s], (turn + 1) % 2)
            else:
                k.wait(empty[s], (turn + 1) % 2)
            k.expect(full[s], BYTES)
            f.fetch(t, tile[None, None, s] if stages > 1 else tile, full[s])

    def consume(roles: Any) -> None:
        with roles.role("consumer", warps, registers=registers[1]):
            k.clear(f.total)
            with k.For("t", f.tiles) as t:
                s, turn = t % stages, t // stages
                k.wait(full[s], turn % 2)
                with k.If(k.thread < 64):
                    f.add(tile, *slot(s))
                if elected:
                    k.do(WARP_SYNC)
                    with k.If((k.thread % 32).eq(0)):
                        k.arrive(empty[s])
                else:
                    k.arrive(empty[s])
            with k.If(k.thread < 64):
                f.put()

    with k.roles() as roles:
        for part in (produce, consume) if first else (consume, produce):
            part(roles)
        if spare:
            with roles.role("spare", spare):
                k.clear(f.v)


def _ring(name: str, threads: int, stages: int, tiles: int = TILES, **options: Any) -> None:
    def build() -> Program:
        f = Frame(name, threads, tiles)
        ring(f, stages, **options)
        return f.program()

    RIGHT[name] = build


_ring("a_ring_of_one_stage", 96, 1)
_ring("a_ring_of_two_stages", 96, 2)
_ring("a_ring_of_more_stages_than_tiles", 96, 7, 3)
_ring("a_ring_whose_turns_are_odd", 96, 3, 11)
_ring("every_consumer_arrives", 96, 2, elected=False)
_ring("the_producer_is_the_last_warp", 96, 3, first=False)
_ring("the_first_round_does_not_wait", 96, 2, by_if=True)
_ring("registers_change_hands", 256, 3, registers=(40, 232), warps=4, producers=4)
_ring("a_role_that_ends_at_once", 128, 2, spare=1)


@right
def two_producers_of_one_phase() -> Program:
    """Each brings a half of the tile and announces its own bytes."""
    f = Frame("two_producers", 128)
    k, stages = f.k, 3
    part_of = k.tensor_map("part_of", f.x, (8, 32))
    tile, full, empty = f.stages(stages), k.mbarrier("full", 2, stages), k.mbarrier("empty", 2, stages)
    k.init(full, empty)
    with k.roles() as roles:
        for part in range(2):
            with roles.role(f"producer{part}", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
                s, turn = t % stages, t // stages
                k.wait(empty[s], (turn + 1) % 2)
                k.expect(full[s], BYTES // 2)
                crd = t * 32, as_expr(8 * part)
                k.do(TMA_LOAD[2], k.at(tile.buffer, 8 * part, 0, s), part_of, full[s], *crd)
        with roles.role("consumer", 2):
            k.clear(f.total)
            with k.For("t", TILES) as t:
                s, turn = t % stages, t // stages
                k.wait(full[s], turn % 2)
                f.add(tile, s)
                k.do(WARP_SYNC)
                with k.If((k.thread % 32).eq(0)):
                    k.arrive(empty[s])
            f.put()
    return f.program()


@right
def two_consumers_take_turns() -> Program:
    """Ping-pong: each takes every other tile, in an order that named barriers keep."""
    f = Frame("ping_pong", 160)
    k, stages = f.k, 2
    w = k.tensor("w", "f32", (2, *BOX), (512, 32, 1), writable=True)
    tile, full, empty = f.stages(stages), k.mbarrier("full", 1, stages), k.mbarrier("empty", 2, stages)
    k.init(full, empty)
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
            s, turn = t % stages, t // stages
            k.wait(empty[s], (turn + 1) % 2)
            k.expect(full[s], BYTES)
            f.fetch(t, tile[None, None, s], full[s])
        for me in range(2):
            with roles.role(f"consumer{me}", 2):
                k.clear(f.total)
                if me:
                    k.do(NAMED_ARRIVE, 1, 128)
                with k.For("u", TILES // 2) as u:
                    k.do(NAMED_BARRIER, 1 + me, 128)
                    number = u * 2 + me
                    s, turn = number % stages, number // stages
                    k.wait(full[s], turn % 2)
                    f.add(tile, s)
                    k.do(WARP_SYNC)
                    with k.If((k.thread % 32).eq(0)):
                        k.arrive(empty[s])
                    if me:
                        with k.If(u < TILES // 2 - 1):
                            k.do(NAMED_ARRIVE, 1, 128)
                    else:
                        k.do(NAMED_ARRIVE, 2, 128)
                with k.Unroll("j", 2) as j:
                    k.do(STG[16], w.at(me, *f.place(j, k.thread)), f.total[None, j])
    x = integers(16, 32 * TILES)
    parts = x.reshape(16, -1, 2, 32).sum(1).swapaxes(0, 1)
    return Program(k.build(), {"x": x, "y": np.zeros(BOX, "f4")}, parts)


@right
def a_persistent_block_walks_over_many_tiles() -> Program:
    """The stage and the phase go on from one piece of work to the next."""
    k, stages, depth = cg.Kernel("persistent", threads=96), 3, 2
    works = 7
    x = k.tensor("x", "f32", (16, 32 * works * depth), (32 * works * depth, 1))
    y = k.tensor("y", "f32", (works, *BOX), (512, 32, 1), writable=True)
    block = k.block(0, 2)
    load, tile = (
        k.tensor_map("load", x, BOX),
        k.shared("tiles", "f32", Layout(BOX, (32, 1)), stages=stages, align_bytes=128),
    )
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 2, stages)
    total, v = (k.fragment(name, "f32", (4, 2)) for name in ("total", "v"))
    k.init(full, empty)
    mine = (works + 1 - block) // 2
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("w", mine) as w, k.For("d", depth) as d:
            n = w * depth + d
            s, turn = n % stages, n // stages
            k.wait(empty[s], (turn + 1) % 2)
            k.expect(full[s], BYTES)
            column = ((w * 2 + block) * depth + d) * 32
            k.do(TMA_LOAD[2], k.at(tile.buffer, 0, 0, s), load, full[s], column, as_expr(0))
        with roles.role("consumer", 2), k.For("w", mine) as w:
            k.clear(total)
            with k.For("d", depth) as d:
                n = w * depth + d
                s, turn = n % stages, n // stages
                k.wait(full[s], turn % 2)
                with k.Unroll("i", 2) as i:
                    k.do(LDS[16], v[None, i], k.at(tile.buffer, k.thread // 8 + i * 8, k.thread % 8 * 4, s))
                k.map(total + v, into=total)
                k.do(WARP_SYNC)
                with k.If((k.thread % 32).eq(0)):
                    k.arrive(empty[s])
            with k.If(w * 2 + block < works), k.Unroll("j", 2) as j:
                at = y.at(w * 2 + block, k.thread // 8 + j * 8, k.thread % 8 * 4)
                k.do(STG[16], at, total[None, j])
    given = integers(16, 32 * works * depth)
    wanted = given.reshape(16, works, depth, 32).sum(2).swapaxes(0, 1)
    return Program(k.build(), {"x": given}, wanted)


@right
def a_named_barrier_hands_over_what_stores_wrote() -> Program:
    """bar.arrive of the writers, bar.sync of the readers; a second one says that it is read."""
    k = cg.Kernel("named", threads=128)
    x, y = k.tensor("x", "f32", (256,), (1,)), k.tensor("y", "f32", (256,), (1,), writable=True)
    box, v = k.shared("box", "f32", Layout(64)), k.fragment("v", "f32", 1)
    with k.roles() as roles:
        with roles.role("writer", 2), k.For("t", 4) as t:
            k.do(LDG[4], v, x.at(t * 64 + k.thread))
            with k.If(t > 0):
                k.do(NAMED_BARRIER, 2, 128)
            k.do(STS[4], k.at(box.buffer, k.thread), v)
            k.do(NAMED_ARRIVE, 1, 128)
        with roles.role("reader", 2), k.For("t", 4) as t:
            k.do(NAMED_BARRIER, 1, 128)
            k.do(LDS[4], v, k.at(box.buffer, 63 - k.thread))
            with k.If(t < 3):
                k.do(NAMED_ARRIVE, 2, 128)
            k.do(STG[4], y.at(t * 64 + k.thread), v)
    given = integers(256)
    return Program(k.build(), {"x": given}, given.reshape(4, 64)[:, ::-1].reshape(-1))


# --- stores ------------------------------------------------------------------------------------------------


def doubling(f: Frame, k: Any, source: Any, out: Any) -> None:
    """out = 2 source, by 64 threads."""
    with k.Unroll(k.fresh("i"), 2) as i:
        k.do(LDS[16], f.v[None, i], k.at(source.buffer, *f.place(i, k.thread)))
    k.map(f.v + f.v, into=f.total)
    with k.Unroll(k.fresh("j"), 2) as j:
        k.do(STS[16], k.at(out.buffer, *f.place(j, k.thread)), f.total[None, j])


@right
def a_store_is_read_before_its_buffer_is_written_again() -> Program:
    """One buffer for loads, two for stores, of which one may still be read."""
    f = Frame("stores", 64, pieces=TILES)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    outs = [f.stages(1, name) for name in ("even", "odd")]
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.For("u", TILES // 2) as u:
        for n, out in enumerate(outs):
            t = u * 2 + n
            with k.If(k.thread.eq(0)):
                k.expect(full[0], BYTES)
                f.fetch(t, tile, full[0])
                k.bulk_wait(1, read=True)
            k.do(BAR)
            k.wait(full[0], t % 2)
            doubling(f, k, tile, out)
            k.fence_async()
            k.do(BAR)
            with k.If(k.thread.eq(0)):
                k.tma_store(save, out, cg.local_tile(f.y, BOX, (0, t)))
                k.bulk_commit()
    with k.If(k.thread.eq(0)):
        k.bulk_wait(0, read=True)
    x = integers(16, 32 * TILES)
    return f.program(2 * x, x)


@right
def a_box_goes_out_as_it_came() -> Program:
    """Loaded and stored by one thread from one buffer, which the next load fills when it has been read."""
    f = Frame("in_and_out", 32, pieces=TILES)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.If(k.thread.eq(0)):
        with k.For("t", TILES) as t:
            k.bulk_wait(0, read=True)
            k.expect(full[0], BYTES)
            f.fetch(t, tile, full[0])
            k.wait(full[0], t % 2)
            k.tma_store(save, tile, cg.local_tile(f.y, BOX, (0, t)))
            k.bulk_commit()
        k.bulk_wait(0)
    x = integers(16, 32 * TILES)
    return f.program(x, x)


@right
def warps_store_their_own_boxes() -> Program:
    """Two threads of different warps, each with bulk groups of its own."""
    f = Frame("two_stores", 64, 2, pieces=2)
    k, tile, full = f.k, f.stages(2), f.k.mbarrier("full", 1, 2)
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.If((k.thread % 32).eq(0)):
        mine = k.thread // 32
        k.expect(full[mine], BYTES)
        k.do(TMA_LOAD[2], k.at(tile.buffer, 0, 0, mine), f.load, full[mine], mine * 32, as_expr(0))
        k.do(TRY_WAIT, full[mine], as_expr(0))
        k.do(TMA_STORE[2], save, k.at(tile.buffer, 0, 0, mine), mine * 32, as_expr(0))
        k.bulk_commit()
        k.bulk_wait(read=True)
    x = integers(16, 64)
    return f.program(x, x)
