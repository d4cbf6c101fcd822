"""Right programs of clusters: shared memory of peers, barriers that count for them, multicast.

`RIGHT` has all right programs, those of one block too (see async_programs).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from layoutalg import codegen as cg
from layoutalg.codegen.expr import as_expr
from layoutalg.codegen.instr import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    FENCE_BARRIER_INIT,
    LDG,
    LDS,
    LDS_REMOTE,
    MBARRIER_INIT,
    ST_ASYNC,
    STG,
    STS,
    STS_REMOTE,
    TMA_LOAD_MULTICAST,
    WARP_SYNC,
)
from layoutalg.layout import Layout
from tests.async_programs import BOX, BYTES, RIGHT, Program, integers, right

__all__ = ["RIGHT", "neighbours"]


def neighbours(name: str, blocks: int, build: Callable[..., None], passes: int = 1) -> Program:
    """y of each block = x of the next one in its cluster, moved by `build`; two clusters."""
    k = cg.Kernel(name, threads=32)
    x = k.tensor("x", "f32", (2 * blocks, 32), (32, 1))
    y = k.tensor("y", "f32", (2 * blocks, 32), (32, 1), writable=True)
    block = k.block(0, 2 * blocks)
    k.cluster(blocks)
    box, v = k.shared("box", "f32", Layout(32)), k.fragment("v", "f32", 1)
    k.do(LDG[4], v, x.at(block, k.thread))
    build(k, box, v, blocks)
    k.do(STG[4], y.at(block, k.thread), v)
    given = integers(2 * blocks, 32)
    wanted = np.roll(given.reshape(2, blocks, 32), -passes, 1).reshape(-1, 32)
    return Program(k.build(), {"x": given}, wanted)


def _pull(k: Any, box: Any, v: Any, blocks: int) -> None:
    k.do(STS[4], box.at(k.thread), v)
    k.cluster_sync()
    k.do(LDS_REMOTE[4], v, box.at(k.thread), (k.rank + 1) % blocks)
    k.cluster_sync()


def _push(k: Any, box: Any, v: Any, blocks: int) -> None:
    k.cluster_sync()
    k.do(STS_REMOTE[4], box.at(k.thread), (k.rank + blocks - 1) % blocks, v)
    k.cluster_sync()
    k.do(LDS[4], v, box.at(k.thread))


def _send(k: Any, box: Any, v: Any, blocks: int) -> None:
    """Bytes that a barrier of the receiver counts; who has received may leave."""
    came = k.mbarrier("came")
    k.init(came)
    with k.If(k.thread.eq(0)):
        k.expect(came[0], 128)
    k.do(ST_ASYNC[4], box.at(k.thread), came[0], (k.rank + blocks - 1) % blocks, v)
    k.wait(came[0], 0, cluster=True)
    k.do(LDS[4], v, box.at(k.thread))


def _split(k: Any, box: Any, v: Any, blocks: int) -> None:
    """Work that needs nobody stands between the arrival and the wait."""
    k.do(STS[4], box.at(k.thread), v)
    k.do(CLUSTER_ARRIVE)
    k.clear(v)
    k.do(CLUSTER_WAIT)
    k.do(LDS_REMOTE[4], v, box.at(k.thread), (k.rank + 1) % blocks)
    k.do(CLUSTER_ARRIVE)
    k.do(CLUSTER_WAIT)


def _signalled(k: Any, box: Any, v: Any, blocks: int) -> None:
    """A remote store, and a remote arrival that says so, lane by lane."""
    came = k.mbarrier("came", 32)
    k.init(came)
    to = (k.rank + blocks - 1) % blocks
    k.do(STS_REMOTE[4], box.at(k.thread), to, v)
    k.arrive(came[0], rank=to, release=True)
    k.wait(came[0], 0, cluster=True)
    k.do(LDS[4], v, box.at(k.thread))


def _cluster(name: str, blocks: int, build: Callable[..., None]) -> None:
    RIGHT[name] = lambda: neighbours(name, blocks, build)


for _blocks in (2, 4, 8, 16):
    _cluster(f"a_cluster_of_{_blocks}_pulls", _blocks, _pull)
_cluster("a_cluster_pushes", 4, _push)
_cluster("a_cluster_sends", 4, _send)
_cluster("a_cluster_arrives_early_and_waits_late", 2, _split)
_cluster("a_cluster_signals_what_it_stored", 4, _signalled)


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
    with k.If(k.thread.eq(0)):
        k.do(MBARRIER_INIT, full[0], 1)
        k.do(FENCE_BARRIER_INIT)
    k.do(WARP_SYNC)
    k.do(CLUSTER_ARRIVE_RELAXED)
    k.do(CLUSTER_WAIT)
    with k.If(k.thread.eq(0)):
        k.expect(full[0], 2 * BYTES)
        crd = k.rank * 32, as_expr(0)
        k.do(TMA_LOAD_MULTICAST[2], k.at(tile.buffer, 0, 0, k.rank), load, full[0], as_expr(3), *crd)
    k.wait(full[0], 0)
    with k.For("i", 8) as i:
        row, column = (i * 32 + k.thread) // 16, (i * 32 + k.thread) % 16 * 4
        k.do(LDS[16], v, k.at(tile.buffer, row, column % 32, column // 32))
        k.do(STG[16], y.at(block, row, column), v)
    k.cluster_sync()
    given = integers(16, 64)
    return Program(k.build(), {"x": given}, np.broadcast_to(given, (2, 16, 64)))
