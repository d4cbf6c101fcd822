"""Right programs of asynchronous copies, barriers and roles of one block, each another way of doing it.

Every program computes y from x, f32 in small integers; `RIGHT` has it with the arrays and what y becomes.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np

from layoutalg import Layout
from layoutalg import codegen as cg
from layoutalg.codegen import instr as isa
from layoutalg.codegen.expr import as_expr
from tests.tiles.frame import BOX, BYTES, TILES, Frame, Program, integers, scaled
from tests.tiles.simt import copy_through_shared, floats

RIGHT: dict[str, Callable[[], Program]] = {}
"""By name."""


def right(build: Callable[..., Program]) -> Callable[..., Program]:
    RIGHT[build.__name__] = build
    return build


@right
def through() -> Program:
    """x backwards through shared memory, by four warps."""
    x = floats(128)
    return Program(copy_through_shared(128, mirror=127), {"x": x}, x[::-1])


# --- one block, no roles -----------------------------------------------------------------------------------


def refilled(who: str) -> Program:
    """Phases 0, 1, 0, ... of one barrier; the block's barrier says that all have read."""
    f = Frame(64)
    k = f.k
    k.clear(f.total)
    with k.For("t", TILES) as t:
        with k.If(f.first):
            f.bring(t)
            if who == "a thread":
                k.wait(f.full[0], t % 2)
        match who:
            case "all":
                k.wait(f.full[0], t % 2)
            case "a thread":
                k.do(cg.BAR)
            case "a lane of each warp":
                with k.If((k.thread % 32).eq(0)):
                    k.wait(f.full[0], t % 2)
                k.do(cg.WARP_SYNC)
        f.add()
        k.do(cg.BAR)
    f.put()
    return f.program()


for _who in ("all", "a thread", "a lane of each warp"):
    RIGHT[f"{_who} waits for a buffer that is filled again"] = partial(refilled, _who)


@right
def the_next_tile_is_fetched_ahead() -> Program:
    """Two stages, no barrier for empty ones: the block's barrier is behind the reads of a stage."""
    f = Frame(64, stages=2)
    k = f.k
    k.clear(f.total)
    with k.If(f.first):
        f.bring(0)
    with k.For("t", TILES) as t:
        with k.If(t + 1 < TILES), k.If(f.first):
            f.bring(t + 1, (t + 1) % 2)
        k.wait(f.full[t % 2], t // 2 % 2)
        f.add(t % 2)
        k.do(cg.BAR)
    f.put()
    return f.program()


def at_once(announced: str) -> Program:
    """All loads are started at once, each with its barrier, all for one, or by several threads for one."""
    f = Frame(64, 4, 4, bars=4 if announced == "each" else 1, full=4 if announced == "by its thread" else 1)
    k = f.k
    k.clear(f.total)
    if announced == "by its thread":
        with k.If((k.thread % 32).eq(0)), k.For("u", 2) as u:
            mine = k.thread // 32 * 2 + u
            k.expect(f.full[0], BYTES)
            f.fetch(mine, mine, f.full[0])
    else:
        with k.If(f.first):
            if announced == "together":
                k.expect(f.full[0], 4 * BYTES)
            with k.For("u", 4) as u:
                if announced == "each":
                    k.expect(f.full[u], BYTES)
                f.fetch(u, u, f.full[u if announced == "each" else 0])
    if announced != "each":
        k.wait(f.full[0], 0)
    with k.For("t", 4) as t:
        if announced == "each":
            k.wait(f.full[t], 0)
        f.add(t)
    f.put()
    return f.program()


for _how in ("each", "together", "by its thread"):
    RIGHT[f"all boxes are fetched at once, announced {_how}"] = partial(at_once, _how)


@right
def bytes_come_before_they_are_announced() -> Program:
    """The load is started first; the phase cannot end before the one arrival, which announces its bytes."""
    f = Frame(64, 1)
    f.k.clear(f.total)
    with f.k.If(f.first):
        f.fetch(0)
        f.k.expect(f.full[0], BYTES)
    f.k.wait(f.full[0], 0)
    f.add()
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
        k.do(isa.TMA_LOAD[2], k.at(tile.buffer, 0, 0), load, full[0], as_expr(32), as_expr(0))
    k.wait(full[0], 0)
    with k.Unroll("i", 2) as i:
        row, column = k.thread // 8 + i * 8, k.thread % 8 * 4
        k.do(cg.LDS[16], v[None, i], k.at(tile.buffer, row, column))
        k.do(cg.STG[16], y.at(row, column), v[None, i])
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
            k.do(cg.LDG[4], v, x.at(t * 32 + k.thread))
            k.do(cg.STS[4], k.at(box.buffer, k.thread, t % 2), v)
            k.arrive(full[t % 2])
        with roles.role("reader", 1), k.For("t", 4) as t:
            k.wait(full[t % 2], t // 2 % 2)
            k.do(cg.LDS[4], v, k.at(box.buffer, 31 - k.thread, t % 2))
            k.arrive(empty[t % 2])
            k.do(cg.STG[4], y.at(t * 32 + k.thread), v)
    given = integers(128)
    return Program(k.build(), {"x": given}, given.reshape(4, 32)[:, ::-1].reshape(-1))


# --- roles -------------------------------------------------------------------------------------------------


def ring(
    threads: int = 96, stages: int = 2, tiles: int = TILES, *, first: bool = True, elected: bool = True,
    registers: tuple[int, int] = (0, 0), warps: int = 2, producers: int = 1, spare: int = 0,
    named: tuple[int, int] | None = None, watch: Any = None, arrivals: int = 0,
) -> Program:  # fmt: skip
    """A producer and 64 consumers over a ring; the producer's role comes first or last.

    Each consumer arrives unless one lane of its warp is elected; `named`: a barrier they meet at in the end;
    `watch`: what a warp more does with each tile and the barriers.
    """
    f = Frame(threads, tiles, stages, empty=arrivals or (warps if elected else 32 * warps))
    k = f.k

    def produce(roles: Any) -> None:
        with f.producing(roles, "producer", producers, registers[0]) as (t, stage):
            f.bring(t, stage)

    def consume(roles: Any) -> None:
        with f.consuming(roles, warps, registers[1]) as (_, stage):
            with k.If(k.thread < 64):
                f.add(stage)
            if elected:
                f.release(stage)
            else:
                k.arrive(f.empty[stage])
            if named:
                k.named_barrier(*named)

    with k.roles() as roles:
        for part in (produce, consume) if first else (consume, produce):
            part(roles)
        if spare:
            with roles.role("spare", spare):
                k.clear(f.v)
        if watch:
            with roles.role("watcher", 1), k.For("t", tiles) as t:
                watch(k, t, f.full, f.empty)
    return f.program()


RINGS: dict[str, dict[str, Any]] = {
    "a ring of one stage": {"stages": 1},
    "a ring of two stages": {},
    "a ring of more stages than tiles": {"stages": 7, "tiles": 3},
    "a ring whose turns are odd": {"stages": 3, "tiles": 11},
    "every consumer arrives": {"elected": False},
    "the producer is the last warp": {"stages": 3, "first": False},
    "registers change hands": {
        "threads": 256, "stages": 3, "registers": (40, 232), "warps": 4, "producers": 4
    },
    "a role that ends at once": {"threads": 128, "spare": 1},
    "the consumers meet": {"named": (1, 64)},
}  # fmt: skip
RIGHT |= {name: partial(ring, **options) for name, options in RINGS.items()}


@right
def the_first_round_does_not_wait() -> Program:
    f = Frame(96, stages=2, empty=2)
    k = f.k
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
            with k.If(t >= 2):
                k.wait(f.empty[t % 2], (t // 2 + 1) % 2)
            f.bring(t, t % 2)
        with f.consuming(roles) as (t, stage):
            f.add(stage)
            f.release(stage)
    return f.program()


@right
def two_producers_of_one_phase() -> Program:
    """Each brings a half of the tile and announces its own bytes."""
    f = Frame(128, stages=3, full=2, empty=2)
    k, half = f.k, f.k.tensor_map("part", f.x, (8, 32))
    with k.roles() as roles:
        for part in range(2):
            with f.producing(roles, f"producer{part}") as (t, s):
                k.expect(f.full[s], BYTES // 2)
                crd = t * 32, as_expr(8 * part)
                k.do(isa.TMA_LOAD[2], k.at(f.tile.buffer, 8 * part, 0, s), half, f.full[s], *crd)
        with f.consuming(roles) as (t, s):
            f.add(s)
            f.release(s)
    return f.program()


@right
def two_consumers_take_turns() -> Program:
    """Ping-pong: each takes every other tile, in an order that named barriers keep."""
    f = Frame(160, stages=2, empty=2)
    k, w = f.k, f.k.tensor("w", "f32", (2, *BOX), (512, 32, 1), writable=True)
    with k.roles() as roles:
        with f.producing(roles) as (t, s):
            f.bring(t, s)
        for me in range(2):
            with roles.role(f"consumer{me}", 2):
                k.clear(f.total)
                if me:
                    k.do(cg.NAMED_ARRIVE, 1, 128)
                with k.For("u", TILES // 2) as u:
                    k.do(isa.NAMED_BARRIER, 1 + me, 128)
                    stage, turn = (u * 2 + me) % 2, (u * 2 + me) // 2
                    k.wait(f.full[stage], turn % 2)
                    f.add(stage)
                    f.release(stage)
                    with k.If(u < TILES // 2 - me):
                        k.do(cg.NAMED_ARRIVE, 2 - me, 128)
                f.put(lambda row, column, me=me: w.at(me, row, column))
    return f.program(lambda x: x.reshape(16, -1, 2, 32).sum(1).swapaxes(0, 1), y=np.zeros(BOX, "f4"))


@right
def a_persistent_block_walks_over_many_tiles() -> Program:
    """The stage and the phase go on from one piece of work to the next."""
    works, depth, stages = 7, 2, 3
    f = Frame(96, works * depth, stages, empty=2)
    k, w = f.k, f.k.tensor("w", "f32", (works, *BOX), (512, 32, 1), writable=True)
    block = k.block(0, 2)
    mine = (works + 1 - block) // 2
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("u", mine) as u, k.For("d", depth) as d:
            s, turn = (u * depth + d) % stages, (u * depth + d) // stages
            k.wait(f.empty[s], (turn + 1) % 2)
            k.expect(f.full[s], BYTES)
            column = ((u * 2 + block) * depth + d) * 32
            k.do(isa.TMA_LOAD[2], k.at(f.tile.buffer, 0, 0, s), f.load, f.full[s], column, as_expr(0))
        with roles.role("consumer", 2), k.For("u", mine) as u:
            k.clear(f.total)
            with k.For("d", depth) as d:
                s, turn = (u * depth + d) % stages, (u * depth + d) // stages
                k.wait(f.full[s], turn % 2)
                f.add(s)
                f.release(s)
            with k.If(u * 2 + block < works):
                f.put(lambda row, column: w.at(u * 2 + block, row, column))
    return f.program(lambda x: x.reshape(16, works, depth, 32).sum(2).swapaxes(0, 1), y=np.zeros(BOX, "f4"))


def takes_part(k: Any, t: Any, full: Any, empty: Any) -> None:
    """A watcher of a ring, one of those who hand a stage back."""
    with k.If(k.thread.eq(0)):
        k.wait(full[t % 2], t // 2 % 2)
        k.arrive(empty[t % 2])


RIGHT["a warp more waits and hands back"] = partial(ring, 128, watch=takes_part, arrivals=3)


@right
def one_warp_announces_and_another_loads() -> Program:
    """The load waits until a stage is empty, and orders the phase that its bytes complete."""
    f = Frame(128, 4, empty=2)
    k = f.k
    with k.roles() as roles:
        with roles.role("announcer", 1), k.If(k.thread.eq(0)), k.For("t", 4) as t:
            k.expect(f.full[0], BYTES)
            k.wait(f.full[0], t % 2)
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", 4) as t:
            k.wait(f.empty[0], (t + 1) % 2)
            f.fetch(t)
            k.wait(f.full[0], t % 2)
        with f.consuming(roles):
            f.add()
            f.release(0)
    return f.program()


def meetings(second: int, *, in_turn: bool) -> Program:
    """Two pairs of warps meet, each pair by itself: at barrier 1, and at the one of the `second` pair."""
    k = cg.Kernel("meetings", threads=128)
    y, v = k.tensor("y", "f32", (128,), (1,), writable=True), k.fragment("v", "f32", 1)
    with k.roles() as roles:
        with roles.role("first", 2), k.For("t", 2):
            k.do(isa.NAMED_BARRIER, 1, 64)
            if in_turn:
                k.do(cg.NAMED_ARRIVE, 2, 128)
                k.do(isa.NAMED_BARRIER, 3, 128)
        with roles.role("second", 2), k.For("t", 2):
            if in_turn:
                k.do(isa.NAMED_BARRIER, 2, 128)
            k.do(isa.NAMED_BARRIER, second, 64)
            if in_turn:
                k.do(cg.NAMED_ARRIVE, 3, 128)
    k.clear(v)
    k.do(cg.STG[4], y.at(k.tid), v)
    return Program(k.build(), {}, np.zeros(128, "f4"))


RIGHT["pairs of warps meet at barriers of their own"] = partial(meetings, 4, in_turn=False)
RIGHT["pairs of warps meet at one barrier in turn"] = partial(meetings, 1, in_turn=True)


def handed(turns: int = 4) -> Program:
    """bar.arrive of the writers, bar.sync of the readers; a second one says that it is read."""
    k = cg.Kernel("handed", threads=128)
    x, y = (k.tensor(name, "f32", (64 * turns,), (1,), writable=name == "y") for name in "xy")
    box, v = k.shared("box", "f32", Layout(64)), k.fragment("v", "f32", 1)
    with k.roles() as roles:
        with roles.role("writer", 2), k.For("t", turns) as t:
            k.do(cg.LDG[4], v, x.at(t * 64 + k.thread))
            with k.If(t > 0):
                k.do(isa.NAMED_BARRIER, 2, 128)
            k.do(cg.STS[4], k.at(box.buffer, k.thread), v)
            k.do(cg.NAMED_ARRIVE, 1, 128)
        with roles.role("reader", 2), k.For("t", turns) as t:
            k.do(isa.NAMED_BARRIER, 1, 128)
            k.do(cg.LDS[4], v, k.at(box.buffer, 63 - k.thread))
            with k.If(t < turns - 1):
                k.do(cg.NAMED_ARRIVE, 2, 128)
            k.do(cg.STG[4], y.at(t * 64 + k.thread), v)
    given = integers(64 * turns)
    return Program(k.build(), {"x": given}, given.reshape(-1, 64)[:, ::-1].reshape(-1))


RIGHT["a named barrier hands over what stores wrote"] = handed


def uneven(registers: tuple[int, int] = (40, 232), producer: int = 4) -> Program:
    """The pipeline of the language, whose registers move from the producer to the consumers."""
    k = cg.Kernel("uneven", threads=32 * (producer + 8))
    x, y = k.tensor("x", "f32", (64, 96), (96, 1)), k.tensor("y", "f32", (64, 32), (32, 1), writable=True)
    load = k.tensor_map("load", x, (64, 32))
    tile = k.shared("tiles", "f32", Layout((64, 32), (32, 1)), stages=2, align_bytes=128)
    total, v = k.fragment("total", "f32", (4, 2)), k.fragment("v", "f32", (4, 2))

    def produce(t: Any, s: Any, full: Any) -> None:
        k.tma_load(load, cg.local_tile(x, (64, 32), (0, t)), tile[None, None, s], full)

    def consume(t: Any, s: Any) -> None:
        with k.Unroll("i", 2) as i:
            k.do(cg.LDS[16], v[None, i], k.at(tile.buffer, k.thread // 8 + i * 32, k.thread % 8 * 4, s))
        k.map(total + v, into=total)

    def store() -> None:
        with k.Unroll("j", 2) as j:
            k.do(cg.STG[16], y.at(k.thread // 8 + j * 32, k.thread % 8 * 4), total[None, j])

    tma = cg.TmaRing(load.box_bytes, consumer=8, producer=producer, registers=registers, lag=1)
    cg.pipeline(k, 3, 2, produce, consume, tma=tma, begin=lambda: k.clear(total), end=store)
    given = integers(64, 96)
    return Program(k.build(), {"x": given}, given.reshape(64, 3, 32).sum(1))


RIGHT["registers change hands in a pipeline"] = uneven

# --- stores ------------------------------------------------------------------------------------------------


@right
def a_store_is_read_before_its_buffer_is_written_again() -> Program:
    """One buffer for loads, two for stores, of which one may still be read."""
    f = Frame(64, pieces=TILES)
    k, outs = f.k, [f.room(name) for name in ("even", "odd")]
    with k.For("u", TILES // 2) as u:
        for n, out in enumerate(outs):
            t = u * 2 + n
            with k.If(f.first):
                f.bring(t)
                k.bulk_wait(1, read=True)
            k.do(cg.BAR)
            k.wait(f.full[0], t % 2)
            f.double(out)
            k.fence_async()
            k.do(cg.BAR)
            with k.If(f.first):
                f.store(out, t)
    with k.If(f.first):
        k.bulk_wait(0, read=True)
    return f.program(lambda x: 2 * x)


@right
def a_box_goes_out_as_it_came() -> Program:
    """Loaded and stored by one thread from one buffer, which the next load fills when it has been read."""
    f = Frame(32, pieces=TILES)
    with f.k.If(f.first):
        with f.k.For("t", TILES) as t:
            f.k.bulk_wait(0, read=True)
            f.bring(t)
            f.k.wait(f.full[0], t % 2)
            f.store(f.tile, t)
        f.k.bulk_wait(0)
    return f.program(lambda x: x)


def three_blocks(rows: int = 160) -> Program:
    """Each takes every third box, by one buffer and one barrier for all of them."""
    k = cg.Kernel("persistent", threads=64)
    m = k.extent("m", 1 << 20, multiple=16)
    x, y = k.tensor("x", "f32", (m, 32), (32, 1)), k.tensor("y", "f32", (m, 32), (32, 1), writable=True)
    load, save, block = k.tensor_map("load", x, BOX), k.tensor_map("save", y, BOX), k.block(0, 3)
    tile, full = k.shared("tile", "f32", Layout(BOX, (32, 1)), align_bytes=128), k.mbarrier("full")
    k.init(full)
    with k.If(k.thread.eq(0)), k.For("turn", cg.minus(m // 16 + 2, block) // 3) as turn:
        place = (turn * 3 + block, 0)
        k.expect(full[0], BYTES)
        k.tma_load(load, cg.local_tile(x, BOX, place), tile, full[0])
        k.wait(full[0], turn % 2)
        k.tma_store(save, tile, cg.local_tile(y, BOX, place))
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    given = integers(rows, 32)
    return Program(k.build(), {"x": given, "m": rows}, given)


RIGHT["three blocks share boxes of any number"] = three_blocks
RIGHT["three blocks share three boxes"] = lambda: three_blocks(48)


@right
def warps_store_their_own_boxes() -> Program:
    """Two threads of different warps, each with bulk groups of its own."""
    f = Frame(64, 2, 2, pieces=2)
    k, mine = f.k, f.k.thread // 32
    with k.If((k.thread % 32).eq(0)):
        f.bring(mine, mine)
        k.wait(f.full[mine], 0)
        k.do(isa.TMA_STORE[2], f.save, k.at(f.tile.buffer, 0, 0, mine), mine * 32, as_expr(0))
        k.bulk_commit()
        k.bulk_wait(read=True)
    return f.program(lambda x: x)


def written(*, copies: bool = False, then: Callable[[Frame], None] | None = None) -> Program:
    """Threads, or cp.async, write a box of zeros, or of x, and TMA stores it; `then`: what comes next."""
    f = Frame(64, 1, pieces=1)
    k, out = f.k, f.room("out")
    k.clear(f.total)
    if copies:
        with k.Unroll("j", 2) as j:
            k.do(cg.CP_ASYNC[16], k.at(out.buffer, *f.place(j)), f.x.at(*f.place(j)))
        k.do(cg.CP_COMMIT)
        k.do(cg.CP_WAIT, 0)
    else:
        f.write(out)
    k.fence_async()
    k.do(cg.BAR)
    with k.If(f.first):
        f.store(out)
        k.bulk_wait(read=True)
        if then:
            then(f)
    return f.program(lambda x: x if copies else np.zeros(BOX, "f4"))


@right
def loads_what_stores_wrote() -> Program:
    """To global memory, with a fence of all memory behind it."""
    k = cg.Kernel("stored", threads=32)
    x, y = (k.tensor(name, "f32", BOX, (32, 1), writable=True) for name in "xy")
    load, save = k.tensor_map("load", x, BOX), k.tensor_map("save", y, BOX)
    tile = k.shared("t", "f32", Layout(BOX, (32, 1)), align_bytes=128)
    full, a = k.mbarrier("full"), k.fragment("a", "f32", 4)
    k.clear(a)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.do(cg.STG[16], x.at(0, 0), a)
        k.do(cg.FENCE_PROXY_ASYNC)
        k.expect(full[0], BYTES)
        k.tma_load(load, cg.local_tile(x, BOX, (0, 0)), tile, full[0])
        k.wait(full[0], 0)
        k.tma_store(save, tile, cg.local_tile(y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
    given = integers(*BOX)
    wanted = given.copy()
    wanted[0, :4] = 0
    return Program(k.build(), {"x": given}, wanted)


RIGHT["threads write a box that TMA stores"] = written
RIGHT["cp.async writes a box that TMA stores"] = lambda: written(copies=True)


RIGHT["a tile is scaled"] = scaled
