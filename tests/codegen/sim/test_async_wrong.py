"""Wrong programs of asynchronous copies, barriers and clusters: refused in every schedule, by name."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.expr import as_expr
from layoutalg.codegen.instr import (
    BAR,
    CLUSTER_ARRIVE,
    CLUSTER_WAIT,
    CP_ASYNC,
    CP_COMMIT,
    CP_WAIT,
    LDG,
    LDS,
    LDS_REMOTE,
    NAMED_BARRIER,
    ST_ASYNC,
    STG,
    STS,
    STS_REMOTE,
    TMA_STORE,
    WARP_SYNC,
)
from layoutalg.codegen.program import printed
from layoutalg.errors import SimulationError
from layoutalg.layout import Layout
from tests.async_clusters import neighbours
from tests.async_programs import BOX, BYTES, TILES, Frame, Program, doubling, integers

WRONG: dict[str, tuple[Callable[[], Program], str]] = {}
"""By name, with what is said."""


def wrong(said: str) -> Callable[[Callable[[], Program]], Callable[[], Program]]:
    def note(build: Callable[[], Program]) -> Callable[[], Program]:
        WRONG[build.__name__] = build, said
        return build

    return note


@wrong("no fence.proxy.async behind the write")
def fence_before_the_writes() -> Program:
    f = Frame("wrong", 64, 1, pieces=1)
    k = f.k
    out = f.stages(1, "out")
    save = k.tensor_map("save", f.y, BOX)
    k.clear(f.total)
    k.fence_async()
    with k.Unroll("j", 2) as j:
        k.do(STS[16], k.at(out.buffer, *f.place(j, k.thread)), f.total[None, j])
    k.do(BAR)
    with k.If(k.thread.eq(0)):
        k.tma_store(save, out, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
    return f.program(np.zeros(BOX, "f4"))


@wrong("with no barrier in between")
def one_named_barrier_for_both_turns() -> Program:
    f = Frame("wrong", 160)
    k, _stages = f.k, 2
    w = k.tensor("w", "f32", (2, *BOX), (512, 32, 1), writable=True)
    box = k.shared("box", "f32", Layout(64))
    v1 = k.fragment("v1", "f32", 1)
    with k.roles() as roles:
        for me in range(2):
            with roles.role(f"c{me}", 2):
                k.clear(f.total)
                with k.For("u", 3):
                    k.do(NAMED_BARRIER, 1, 128)
                    k.clear(v1)
                    if me == 0:
                        k.do(STS[4], box.at(k.thread), v1)
                    else:
                        k.do(LDS[4], v1, box.at(63 - k.thread))
                with k.Unroll("j", 2) as j:
                    k.do(STG[16], w.at(me, *f.place(j, k.thread)), f.total[None, j])
        with roles.role("p", 1):
            k.clear(f.v)
    x = integers(16, 32 * 6)
    return Program(k.build(), {"x": x, "y": np.zeros(BOX, "f4")}, np.zeros((2, *BOX), "f4"))


@wrong("a TMA store of warp 0 read it, with no wait for it")
def another_thread_waits_for_the_group() -> Program:
    f = Frame("wrong", 64, 1, pieces=1)
    k = f.k
    out = f.stages(1, "out")
    save = k.tensor_map("save", f.y, BOX)
    k.clear(f.total)
    with k.Unroll("j", 2) as j:
        k.do(STS[16], k.at(out.buffer, *f.place(j, k.thread)), f.total[None, j])
    k.fence_async()
    k.do(BAR)
    with k.If(k.thread.eq(0)):
        k.tma_store(save, out, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
    with k.If(k.thread.eq(1)):
        k.bulk_wait(read=True)
    k.do(BAR)
    with k.If(k.thread.eq(1)):
        k.do(STS[16], k.at(out.buffer, 0, 0), f.total[None, 0])
    with k.If(k.thread.eq(0)):
        k.bulk_wait(read=True)
    return f.program(np.zeros(BOX, "f4"))


@wrong("reads byte 0 of y: a TMA store of warp 0 wrote it, with no wait")
def reads_what_a_store_has_yet_to_write() -> Program:
    f = Frame("wrong", 32, 1, pieces=1)
    k = f.k
    out = f.stages(1, "out")
    save = k.tensor_map("save", f.y, BOX)
    z = k.tensor("w", "f32", (4,), (1,), writable=True)
    a = k.fragment("a", "f32", 4)
    k.clear(a)
    with k.For("i", 4) as i:
        k.do(STS[16], k.at(out.buffer, i * 4 + k.thread // 8, k.thread % 8 * 4), a)
    k.fence_async()
    k.do(BAR)
    with k.If(k.thread.eq(0)):
        k.tma_store(save, out, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
        k.do(LDG[16], a, f.y.at(0, 0))
        k.do(STG[16], z.at(0), a)
    x = integers(16, 32)
    return Program(k.build(), {"x": x, "y": np.ones(BOX, "f4")}, np.ones(4, "f4"))


@wrong("is in flight, and nobody has waited for it")
def two_loads_into_one_stage() -> Program:
    f = Frame("wrong", 64, 2)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full", 1, 2)
    k.init(full)
    k.clear(f.total)
    with k.If(k.thread.eq(0)):
        for u in range(2):
            k.expect(full[u], BYTES)
            f.fetch(u, tile, full[u])
    k.wait(full[0], 0)
    k.wait(full[1], 0)
    f.add(tile)
    f.put()
    x = integers(16, 64)
    return f.program(x[:, 32:], x)


@wrong("a TMA store of warp 0 read it, with no wait")
def loads_over_what_a_store_reads() -> Program:
    f = Frame("wrong", 32, 2, pieces=2)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.If(k.thread.eq(0)):
        with k.For("t", 2) as t:
            k.expect(full[0], BYTES)
            f.fetch(t, tile, full[0])
            k.wait(full[0], t % 2)
            k.tma_store(save, tile, cg.local_tile(f.y, BOX, (0, t)))
            k.bulk_commit()
        k.bulk_wait(0, read=True)
    x = integers(16, 64)
    return f.program(x, x)


@wrong("then has 128 of 64 threads|uninitialised shared memory|with no barrier in between")
def four_warps_at_a_barrier_of_two() -> Program:
    k = cg.Kernel("wrong", threads=128)
    x = k.tensor("x", "f32", (128,), (1,))
    y = k.tensor("y", "f32", (128,), (1,), writable=True)
    box = k.shared("box", "f32", Layout(128))
    v = k.fragment("v", "f32", 1)
    k.do(LDG[4], v, x.at(k.thread))
    k.do(STS[4], box.at(k.thread), v)
    k.do(NAMED_BARRIER, 1, 64)
    k.do(LDS[4], v, box.at(127 - k.thread))
    k.do(STG[4], y.at(k.thread), v)
    X = integers(128)
    return Program(k.build(), {"x": X}, X[::-1])


@wrong("thread 64 read it, with no barrier in between")
def one_warp_releases_for_two() -> Program:
    f = Frame("wrong", 96)
    k = f.k
    stages = 2
    tile = f.stages(stages)
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 1, stages)
    k.init(full, empty)
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
            s, turn = t % stages, t // stages
            k.wait(empty[s], (turn + 1) % 2)
            k.expect(full[s], BYTES)
            f.fetch(t, tile[None, None, s], full[s])
        with roles.role("consumer", 2):
            k.clear(f.total)
            with k.For("t", TILES) as t:
                s, turn = t % stages, t // stages
                k.wait(full[s], turn % 2)
                f.add(tile, s)
                k.do(WARP_SYNC)
                with k.If(k.thread.eq(0)):
                    k.arrive(empty[s])
            f.put()
    return f.program()


@wrong("is in flight, and nobody has waited for it")
def stores_a_box_that_is_in_flight() -> Program:
    f = Frame("wrong", 32, 1, pieces=1)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        f.fetch(0, tile, full[0])
        k.tma_store(save, tile, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
        k.wait(full[0], 0)
        k.bulk_wait(0, read=True)
    x = integers(16, 32)
    return f.program(x, x)


@wrong("block 0 wrote it, and blocks are not ordered")
def two_blocks_store_one_box() -> Program:
    f = Frame("wrong", 32, 1, pieces=1)
    k = f.k
    k.block(0, 2)
    tile, full = f.stages(1), k.mbarrier("full")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        f.fetch(0, tile, full[0])
        k.wait(full[0], 0)
        k.tma_store(save, tile, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(0, read=True)
    x = integers(16, 32)
    return f.program(x, x)


@wrong("writes byte 0 of y: a TMA store of warp 0 wrote it, with no wait")
def stores_to_what_tma_has_yet_to_write() -> Program:
    f = Frame("wrong", 32, 1, pieces=1)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    a = k.fragment("a", "f32", 4)
    k.clear(a)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        f.fetch(0, tile, full[0])
        k.wait(full[0], 0)
        k.tma_store(save, tile, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(0, read=True)
        k.do(STG[16], f.y.at(0, 0), a)
    x = integers(16, 32)
    return f.program(x, x)


@wrong("with no barrier in between")
def a_peer_reads_while_its_owner_writes() -> Program:
    def b(k: Any, box: Any, v: Any, blocks: int) -> None:
        k.do(STS[4], box.at(k.thread), v)
        k.cluster_sync()
        k.do(LDS_REMOTE[4], v, box.at(k.thread), (k.rank + 1) % blocks)
        a = k.fragment("a", "f32", 1)
        k.clear(a)
        k.do(STS[4], box.at(k.thread), a)
        k.cluster_sync()

    return neighbours("wrong", 2, b)


@wrong("with no barrier in between")
def two_peers_write_one_word() -> Program:
    def b(k: Any, box: Any, v: Any, blocks: int) -> None:
        k.cluster_sync()
        k.do(STS_REMOTE[4], box.at(k.thread), as_expr(0), v)
        k.cluster_sync()
        with k.If(k.rank.eq(0)):
            k.do(LDS[4], v, box.at(k.thread))

    return neighbours("wrong", 2, b)


@wrong("with no wait for it in between|uninitialised shared memory|is in flight")
def another_role_waits() -> Program:
    f = Frame("wrong", 96, 1)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full")
    k.init(full)
    with k.roles() as roles:
        with roles.role("p", 1), k.If(k.thread.eq(0)):
            k.expect(full[0], BYTES)
            f.fetch(0, tile, full[0])
            k.wait(full[0], 0)
        with roles.role("c", 2):
            k.clear(f.total)
            f.add(tile)
            f.put()
    return f.program()


@wrong("may not have started|deadlock")
def one_block_alone_arrives() -> Program:
    def b(k: Any, box: Any, v: Any, blocks: int) -> None:
        k.do(STS[4], box.at(k.thread), v)
        with k.If(k.rank.eq(0)):
            k.do(CLUSTER_ARRIVE)
        with k.If(k.rank.eq(0)):
            k.do(CLUSTER_WAIT)
        k.do(LDS_REMOTE[4], v, box.at(k.thread), (k.rank + 1) % blocks)
        k.cluster_sync()

    return neighbours("wrong", 2, b)


@wrong("wrote it, with no barrier in between")
def a_wait_of_the_block_for_what_peers_stored() -> Program:
    """mbarrier.try_wait acquires at the scope of the block unless it says .cluster."""

    def b(k: Any, box: Any, v: Any, blocks: int) -> None:
        came = k.mbarrier("came", 32)
        k.init(came)
        to = (k.rank + blocks - 1) % blocks
        k.do(STS_REMOTE[4], box.at(k.thread), to, v)
        k.arrive(came[0], rank=to)
        k.wait(came[0], 0)
        k.do(LDS[4], v, box.at(k.thread))

    return neighbours("wrong", 4, b)


@wrong("is in flight, and nobody has waited for it")
def waits_for_every_other_tile() -> Program:
    f = Frame("wrong", 96)
    k = f.k
    stages = 2
    tile = f.stages(stages)
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 2, stages)
    k.init(full, empty)
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
            s, turn = t % stages, t // stages
            k.wait(empty[s], (turn + 1) % 2)
            k.expect(full[s], BYTES)
            f.fetch(t, tile[None, None, s], full[s])
        with roles.role("consumer", 2):
            k.clear(f.total)
            with k.For("t", TILES) as t:
                s, turn = t % stages, t // stages
                with k.If((t % 2).eq(0)):
                    k.wait(full[s], turn % 2)
                f.add(tile, s)
                k.do(WARP_SYNC)
                with k.If((k.thread % 32).eq(0)):
                    k.arrive(empty[s])
            f.put()
    return f.program()


@wrong("to 128 bytes, 64 were announced")
def sends_more_than_is_expected() -> Program:
    def b(k: Any, box: Any, v: Any, blocks: int) -> None:
        came = k.mbarrier("came")
        k.init(came)
        with k.If(k.thread.eq(0)):
            k.expect(came[0], 64)
        k.do(ST_ASYNC[4], box.at(k.thread), came[0], (k.rank + 1) % blocks, v)
        k.wait(came[0], 0, cluster=True)
        k.do(LDS[4], v, box.at(k.thread))

    return neighbours("wrong", 2, b)


@wrong("a TMA store of warp 0 read it, with no wait")
def one_group_may_still_read() -> Program:
    f = Frame("wrong", 64, pieces=TILES)
    k, tile, full = f.k, f.stages(1), f.k.mbarrier("full")
    out = f.stages(1, "out")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.For("t", TILES) as t:
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


@wrong("with no wait for it in between|thread 33 wrote it, with no barrier")
def writes_over_what_another_thread_waited_for() -> Program:
    f = Frame("wrong", 64, 1)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full")
    k.init(full)
    k.clear(f.total)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        f.fetch(0, tile, full[0])
        k.wait(full[0], 0)
    with k.If(k.thread.eq(33)):
        k.do(STS[16], k.at(tile.buffer, 0, 0), f.total[None, 0])
    k.do(BAR)
    f.put()
    return f.program(np.zeros(BOX, "f4"))


@wrong("no fence.proxy.async behind the write")
def cp_async_and_no_fence() -> Program:
    f = Frame("wrong", 64, 1, pieces=1)
    k = f.k
    out = f.stages(1, "out")
    save = k.tensor_map("save", f.y, BOX)
    with k.Unroll("j", 2) as j:
        k.do(CP_ASYNC[16], k.at(out.buffer, *f.place(j, k.thread)), f.x.at(*f.place(j, k.thread)))
    k.do(CP_COMMIT)
    k.do(CP_WAIT, 0)
    k.do(BAR)
    with k.If(k.thread.eq(0)):
        k.tma_store(save, out, cg.local_tile(f.y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
    x = integers(16, 32)
    return f.program(x, x)


@wrong("may leave while|which has left")
def stores_to_a_peer_that_may_leave() -> Program:
    def b(k: Any, box: Any, v: Any, blocks: int) -> None:
        k.do(STS[4], box.at(k.thread), v)
        k.cluster_sync()
        with k.If(k.rank.eq(0)):
            k.do(STS_REMOTE[4], box.at(k.thread), as_expr(1), v)

    return neighbours("wrong", 2, b)


@wrong(r"arrives at named barrier 1 of \d+ threads; others of")
def named_barriers_of_two_counts() -> Program:
    k = cg.Kernel("wrong", threads=96)
    k.tensor("x", "f32", (96,), (1,))
    y = k.tensor("y", "f32", (96,), (1,), writable=True)
    v = k.fragment("v", "f32", 1)
    with k.roles() as roles:
        with roles.role("a", 1):
            k.do(NAMED_BARRIER, 1, 64)
        with roles.role("b", 2):
            k.do(NAMED_BARRIER, 1, 96)
    k.clear(v)
    k.do(STG[4], y.at(k.tid), v)
    return Program(k.build(), {"x": integers(96)}, np.zeros(96, "f4"))


@wrong("a TMA store of warp 0 wrote it, with no wait")
def two_stores_of_one_place() -> Program:
    f = Frame("wrong", 32, 2, pieces=2)
    k = f.k
    tile, full = f.stages(1), k.mbarrier("full")
    save = k.tensor_map("save", f.y, BOX)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], BYTES)
        f.fetch(0, tile, full[0])
        k.wait(full[0], 0)
        for t in range(2):
            k.do(TMA_STORE[2], save, k.at(tile.buffer, 0, 0), as_expr(16 * t), as_expr(0))
            k.bulk_commit()
        k.bulk_wait(0)
    x = integers(16, 64)
    return f.program(np.pad(x[:, :16], ((0, 0), (0, 48))), x)


@wrong("with no wait for it in between")
def one_lane_waits_and_all_read() -> Program:
    f = Frame("wrong", 64)
    k = f.k
    stages = 2
    tile = f.stages(stages)
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 32, stages)
    k.init(full, empty)
    v = k.fragment("vv", "f32", 4)
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", TILES) as t:
            s, turn = t % stages, t // stages
            k.wait(empty[s], (turn + 1) % 2)
            k.expect(full[s], BYTES)
            f.fetch(t, tile[None, None, s], full[s])
        with roles.role("consumer", 1), k.For("t", TILES) as t:
            s, turn = t % stages, t // stages
            with k.If(k.thread.eq(0)):
                k.wait(full[s], turn % 2)
            k.do(LDS[16], v, k.at(tile.buffer, k.thread // 8, k.thread % 8 * 4, s))
            k.arrive(empty[s])
    return f.program()


@pytest.mark.parametrize("name", list(WRONG))
def test_a_wrong_program_is_refused_in_every_schedule(name: str) -> None:
    build, said = WRONG[name]
    program = build()
    kernel = printed(program.kernel)
    out = "w" if "w" in {p.name for p in kernel.params} else "y"
    for group, seed in (("block", 0), ("warp", 0), ("warp", 1), ("warp", 2)):
        arrays = {key: value.copy() for key, value in program.given.items()}
        arrays[out] = np.full(program.y.shape, np.nan, "f4")
        with pytest.raises(SimulationError, match=said):
            cg.simulate(kernel, arrays, group=group, seed=seed)
