"""Right programs of clusters: shared memory of peers, barriers that count for them, multicast.

`RIGHT` has all right programs, those of one block too.
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
from tests.tiles.frame import BOX, BYTES, Program, integers
from tests.tiles.one_block import RIGHT, right

__all__ = ["RIGHT", "neighbours", "reduction", "shared_tile"]


def neighbours(build: Callable[..., None], blocks: int = 2) -> Program:
    """y of each block = x of the next one in its cluster, moved by `build`; two clusters."""
    k = cg.Kernel("neighbours", threads=32)
    x = k.tensor("x", "f32", (2 * blocks, 32), (32, 1))
    y = k.tensor("y", "f32", (2 * blocks, 32), (32, 1), writable=True)
    block = k.block(0, 2 * blocks)
    k.cluster(blocks)
    box, v = k.shared("box", "f32", Layout(32)), k.fragment("v", "f32", 1)
    k.do(cg.LDG[4], v, x.at(block, k.thread))
    build(k, box, v, blocks)
    k.do(cg.STG[4], y.at(block, k.thread), v)
    given = integers(2 * blocks, 32)
    return Program(k.build(), {"x": given}, np.roll(given.reshape(2, blocks, 32), -1, 1).reshape(-1, 32))


def _pull(k: Any, box: Any, v: Any, blocks: int) -> None:
    k.do(cg.STS[4], box.at(k.thread), v)
    k.cluster_sync()
    k.do(cg.LDS_REMOTE[4], v, box.at(k.thread), (k.rank + 1) % blocks)
    k.cluster_sync()


def _push(k: Any, box: Any, v: Any, blocks: int) -> None:
    k.cluster_sync()
    k.do(cg.STS_REMOTE[4], box.at(k.thread), (k.rank + blocks - 1) % blocks, v)
    k.cluster_sync()
    k.do(cg.LDS[4], v, box.at(k.thread))


def _send(k: Any, box: Any, v: Any, blocks: int) -> None:
    """Bytes that a barrier of the receiver counts; who has received may leave."""
    came = k.mbarrier("came")
    k.init(came)
    with k.If(k.thread.eq(0)):
        k.expect(came[0], 128)
    k.do(cg.ST_ASYNC[4], box.at(k.thread), came[0], (k.rank + blocks - 1) % blocks, v)
    k.wait(came[0], 0, cluster=True)
    k.do(cg.LDS[4], v, box.at(k.thread))


def _split(k: Any, box: Any, v: Any, blocks: int) -> None:
    """Work that needs nobody stands between the arrival and the wait."""
    k.do(cg.STS[4], box.at(k.thread), v)
    k.do(isa.CLUSTER_ARRIVE)
    k.clear(v)
    k.do(isa.CLUSTER_WAIT)
    k.do(cg.LDS_REMOTE[4], v, box.at(k.thread), (k.rank + 1) % blocks)
    k.cluster_sync()


def _signalled(k: Any, box: Any, v: Any, blocks: int) -> None:
    """A remote store, and a remote arrival that says so, lane by lane."""
    came = k.mbarrier("came", 32)
    k.init(came)
    to = (k.rank + blocks - 1) % blocks
    k.do(cg.STS_REMOTE[4], box.at(k.thread), to, v)
    k.arrive(came[0], rank=to, release=True)
    k.wait(came[0], 0, cluster=True)
    k.do(cg.LDS[4], v, box.at(k.thread))


WAYS: dict[str, tuple[Callable[..., None], int]] = {
    **{f"a cluster of {n} pulls": (_pull, n) for n in (2, 4, 8, 16)},
    "a cluster pushes": (_push, 4),
    "a cluster sends": (_send, 4),
    "a cluster arrives early and waits late": (_split, 2),
    "a cluster signals what it stored": (_signalled, 4),
}
RIGHT |= {name: partial(neighbours, *way) for name, way in WAYS.items()}


@right
def initialisations_are_shown_by_a_relaxed_arrival() -> Program:
    """fence.mbarrier_init, then barrier.cluster.arrive.relaxed: enough for what comes over the barriers."""
    blocks, k = 2, cg.Kernel("relaxed", threads=32)
    x = k.tensor("x", "f32", (16, 64), (64, 1))
    y = k.tensor("y", "f32", (blocks, 16, 64), (1024, 64, 1), writable=True)
    block = k.block(0, blocks)
    k.cluster(blocks)
    load = k.tensor_map("load", x, BOX)
    tile = k.shared("tiles", "f32", Layout(BOX, (32, 1)), stages=2, align_bytes=128)
    full, v = k.mbarrier("full"), k.fragment("v", "f32", 4)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], 2 * BYTES)
        crd = k.rank * 32, as_expr(0)
        k.do(isa.TMA_LOAD_MULTICAST[2], k.at(tile.buffer, 0, 0, k.rank), load, full[0], as_expr(3), *crd)
    k.wait(full[0], 0)
    with k.For("i", 8) as i:
        row, column = (i * 32 + k.thread) // 16, (i * 32 + k.thread) % 16 * 4
        k.do(cg.LDS[16], v, k.at(tile.buffer, row, column % 32, column // 32))
        k.do(cg.STG[16], y.at(block, row, column), v)
    k.cluster_sync()
    given = integers(16, 64)
    return Program(k.build(), {"x": given}, np.broadcast_to(given, (2, 16, 64)))


@right
def a_peer_wrote_what_is_stored() -> Program:
    """What TMA stores, with fences of all memory on both sides of the barrier."""
    k = cg.Kernel("peers", threads=32)
    y = k.tensor("y", "f32", (2, 32), (32, 1), writable=True)
    b = k.block(0, 2)
    k.cluster(2)
    save = k.tensor_map("save", y, (1, 32))
    box, v = k.shared("box", "f32", Layout((1, 32), (32, 1)), align_bytes=128), k.fragment("v", "f32", 1)
    k.clear(v)
    k.cluster_sync()
    k.do(cg.STS_REMOTE[4], k.at(box.buffer, 0, k.thread), (k.rank + 1) % 2, v)
    k.do(cg.FENCE_PROXY_ASYNC)
    k.cluster_sync()
    k.do(cg.FENCE_PROXY_ASYNC)
    with k.If(k.thread.eq(0)):
        k.tma_store(save, box, cg.local_tile(y, (1, 32), (b, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
    return Program(k.build(), {}, np.zeros((2, 32), "f4"))


def reduction(size: int = 4, peers: int = 4, *, away: bool = False) -> Program:
    """y = the sum of the rows of x; every block of a cluster sums some, and rank 0 the blocks.

    One block is `away` for ever, on purpose.
    """
    blocks, k = 4, cg.Kernel("reduction", threads=64)
    m, n = k.extent("m", multiple=blocks), k.extent("n", multiple=64)
    x, y = k.tensor("x", "f32", (m, n), (n, 1)), k.tensor("y", "f32", (n,), (1,), writable=True)
    share, part = k.block(0, blocks), k.block(1, n // 64)
    k.cluster(size)
    sums, column = k.shared("sums", "f32", Layout(64)), part * 64 + k.thread
    total, v = k.fragment("total", "f32", 1), k.fragment("v", "f32", 1)
    k.clear(total)
    with k.For("row", m // blocks) as row:
        k.do(cg.LDG[4], v, x.at(share + row * blocks, column))
        k.map(total + v, into=total)
    k.do(cg.STS[4], sums.at(k.thread), total)
    if away:
        never = k.mbarrier("never")
        k.init(never)
        with k.If(k.rank.eq(1)):
            k.wait(never[0], 0)
    k.cluster_sync()
    with k.If(k.rank.eq(0)):
        k.clear(total)
        with k.For("peer", peers) as peer:
            k.do(cg.LDS_REMOTE[4], v, sums.at(k.thread), peer)
            k.map(total + v, into=total)
        k.do(cg.STG[4], y.at(column), total)
    k.cluster_sync()
    given = integers(16, 128)
    return Program(k.build(), {"x": given, "m": 16, "n": 128}, given.sum(0))


RIGHT["a cluster sums"] = reduction


def shared_tile() -> Program:
    """y of every block = the sum of the tiles of x; each block loads its rows of a tile for the cluster."""
    blocks, stages, tiles, rows = 2, 2, 5, 8
    k = cg.Kernel("shared_tile", threads=64)
    x = k.tensor("x", "f32", (16, 32 * tiles), (32 * tiles, 1))
    y = k.tensor("y", "f32", (2 * blocks, 16, 32), (512, 32, 1), writable=True)
    block = k.block(0, 2 * blocks)
    k.cluster(blocks)
    load = k.tensor_map("load", x, (rows, 32))
    tile = k.shared("tiles", "f32", Layout(BOX, (32, 1)), stages=stages, align_bytes=128)
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", blocks, stages)
    k.init(full, empty)
    total, v = k.fragment("total", "f32", (4, 4)), k.fragment("v", "f32", (4, 4))
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", tiles) as t:
            s, turn = t % stages, t // stages
            k.wait(empty[s], (turn + 1) % 2, cluster=True)
            k.expect(full[s], BYTES)
            into, crd = k.at(tile.buffer, k.rank * rows, 0, s), (t * 32, k.rank * rows)
            k.do(isa.TMA_LOAD_MULTICAST[2], into, load, full[s], (1 << blocks) - 1, *crd)
        with roles.role("consumer", 1):
            k.clear(total)
            with k.For("t", tiles) as t:
                s, turn = t % stages, t // stages
                k.wait(full[s], turn % 2)
                with k.Unroll("i", 4) as i:
                    k.do(
                        cg.LDS[16], v[None, i], k.at(tile.buffer, k.thread // 8 + i * 4, k.thread % 8 * 4, s)
                    )
                k.map(total + v, into=total)
                k.do(cg.WARP_SYNC)
                with k.If(k.thread.eq(0)):
                    for peer in range(blocks):
                        k.arrive(empty[s], rank=peer)
            with k.Unroll("j", 4) as j:
                k.do(cg.STG[16], y.at(block, k.thread // 8 + j * 4, k.thread % 8 * 4), total[None, j])
    k.cluster_sync()
    given = integers(16, 32 * tiles)
    wanted = np.broadcast_to(given.reshape(16, -1, 32).sum(1), (2 * blocks, 16, 32))
    return Program(k.build(), {"x": given}, wanted)


RIGHT["blocks of a cluster load for each other"] = shared_tile
