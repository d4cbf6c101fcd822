"""Programs for Hopper that are right, and the same with one mistake each, by name.

`scaled`: a tile comes by TMA, is scaled by all threads, and goes by TMA.  `ring`: a ring of tiles by roles.
`reduction`: a sum over the blocks of a cluster.  A mistake is a word; where it stands, the program differs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from layoutalg import codegen as cg
from layoutalg.codegen.instr import (
    ARRIVE,
    BAR,
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    FENCE_BARRIER_INIT,
    LDS,
    LDS_REMOTE,
    MBARRIER_INIT,
    ST_ASYNC,
    STG,
    STS,
    TMA_LOAD_MULTICAST,
    WARP_SYNC,
)
from layoutalg.layout import Layout

BOX = (16, 32)
BYTES = 16 * 32 * 4

NAMED = {
    "named barrier of too many": (1, 96),
    "named barrier 0": (0, 64),
    "three quarters of a warp": (1, 24),
}
"""Named barriers of a ring's consumers, by mistake."""


def scaled(mistake: str = "") -> Any:
    """y = 2 x in tiles of 16 x 32 f32, by 64 threads."""

    def wrong(*names: str) -> bool:
        return mistake in names

    k = cg.Kernel("scaled", threads=64)
    m, n = k.extent("m", multiple=16), k.extent("n", multiple=2 if wrong("odd stride") else 32)
    x = k.tensor("x", "f32", (m, n), (n, 1))
    y = k.tensor("y", "f32", (m, n), (n, 1), writable=not wrong("read only"))
    place = k.grid((m, n), BOX)
    box = (512, 32) if wrong("large box") else BOX
    mode = {"wide box": "64B", "swizzle": "128B"}.get(mistake, "none")
    load, save = k.tensor_map("load", x, box, mode=mode), k.tensor_map("save", y, BOX)
    align = 16 if wrong("misaligned") else 128
    shape = (8, 32) if wrong("small tile") else BOX
    if wrong("misaligned"):
        k.shared("before", "f32", Layout(4))
    tile = k.shared("tile", "f32", Layout(shape, (32, 1)), align_bytes=align)
    out = k.shared("out", "f32", Layout(BOX, (32, 1)), align_bytes=128)
    full = k.mbarrier("full", 2 if wrong("high count") else 1)
    first, v, doubled = k.thread.eq(0), k.fragment("v", "f32", 4), k.fragment("doubled", "f32", 4)
    if wrong("buffer over the barrier"):
        k.shared("over", "f32", Layout(2048), over=True)
    _initialise(k, full, mistake)
    if wrong("stores before the load"):
        k.clear(v)
        with k.If(k.thread < 8):
            k.do(STS[16], k.at(tile.buffer, 0, k.thread * 4), v)
        k.do(BAR)
    everyone = wrong("every lane copies", "every lane expects")
    with k.If(k.thread < 32 if everyone else first):
        if wrong("every lane copies"):
            with k.If(first):
                k.expect(full[0], BYTES)
        elif wrong("no announcement"):
            k.do(ARRIVE, full[0])
        else:
            k.expect(full[0], {"few bytes": BYTES // 2, "many bytes": BYTES * 2}.get(mistake, BYTES))
        if not wrong("no copy"):
            k.tma_load(load, cg.local_tile(x, box, place), tile, full[1 if wrong("no such stage") else 0])
        if wrong("late bytes"):
            k.tma_load(load, cg.local_tile(x, box, place), out, full[0])
    if not wrong("no wait", "nobody waits"):
        with k.If(first if wrong("one lane waits") else k.thread < 64):
            if wrong("remote wait"):
                k.wait(full[0], 0, rank=1)
            k.wait(full[0], {"wrong parity": 1, "no such parity": 2}.get(mistake, 0))
    if wrong("nobody waits"):
        return k.build()
    with k.Unroll("i", 2) as i:
        row, column = k.thread // 8 + i * 8, k.thread % 8 * 4
        k.do(LDS[16], v, k.at(tile.buffer, row, column))
        if not wrong("nothing is written"):
            k.map(v + v, into=doubled)
            k.do(STS[16], k.at(out.buffer, row, column), doubled)
    if wrong("one lane fences"):
        with k.If(first):
            k.fence_async()
    elif not wrong("no proxy fence"):
        k.fence_async()
    if not wrong("no barrier"):
        k.do(BAR)
    with k.If(first):
        k.tma_store(save, out, cg.local_tile(y, BOX, place))
        if not wrong("no commit"):
            k.bulk_commit()
        if not wrong("no read wait", "no commit", "reuse before read"):
            k.bulk_wait(read=True)
    if wrong("reuse before read"):
        k.do(BAR)
        with k.If(k.thread.eq(33)):
            k.do(STS[16], k.at(out.buffer, 0, 0), v)
    return k.build()


def _initialise(k: Any, full: Any, mistake: str) -> None:
    match mistake:
        case "never initialised":
            return
        case "initialised by all":
            with k.If(k.thread < 32):
                k.do(MBARRIER_INIT, full[0], 1)
            k.do(FENCE_BARRIER_INIT)
            k.do(BAR)
        case "initialised twice":
            k.init(full)
            k.init(full)
        case "no barrier behind init":
            with k.If(k.thread.eq(0)):
                k.do(MBARRIER_INIT, full[0], 1)
                k.do(FENCE_BARRIER_INIT)
        case "no fence behind init":
            with k.If(k.thread.eq(0)):
                k.do(MBARRIER_INIT, full[0], 1)
            k.do(BAR)
        case "other count":
            with k.If(k.thread.eq(0)):
                k.do(MBARRIER_INIT, full[0], 3)
        case _:
            k.init(full)


def ring(mistake: str = "", stages: int = 3, tiles: int = 7) -> Any:
    """y = the sum of the tiles of a row of tiles; one producer warp, two consumer warps."""

    def wrong(*names: str) -> bool:
        return mistake in names

    k = cg.Kernel("ring", threads=96)
    x = k.tensor("x", "f32", (16, 32 * tiles), (32 * tiles, 1))
    y = k.tensor("y", "f32", (16, 32), (32, 1), writable=True)
    load = k.tensor_map("load", x, BOX)
    tile = k.shared("tiles", "f32", Layout(BOX, (32, 1)), stages=stages, align_bytes=128)
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 1 if wrong("low count") else 2, stages)
    k.init(full, empty)
    total, v = k.fragment("total", "f32", (4, 2)), k.fragment("v", "f32", (4, 2))
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", tiles) as t:
            s, turn = t % stages, t // stages
            if not wrong("no empty wait"):
                k.wait(empty[s], turn % 2 if wrong("producer's parity") else (turn + 1) % 2)
            k.expect(full[s], BYTES)
            into = tile[None, None, (t + 1) % stages if wrong("wrong stage") else s]
            k.tma_load(load, cg.local_tile(x, BOX, (0, t)), into, full[s])
        with roles.role("consumer", 3 if wrong("too many warps") else 2, registers=40 * wrong("registers")):
            k.clear(total)
            with k.For("t", tiles) as t:
                s, turn = t % stages, t // stages
                if not wrong("no full wait"):
                    k.wait(full[s], (turn + 1) % 2 if wrong("consumer's parity") else turn % 2)
                if wrong("early release"):
                    _release(k, empty, s, mistake)
                with k.Unroll("i", 2) as i:
                    me = k.tid % 64 if wrong("thread of the block") else k.thread
                    at = k.at(tile.buffer, me // 8 + i * 8, me % 8 * 4, s)
                    k.do(LDS[16], v[None, i], at)
                k.map(total + v, into=total)
                if wrong("block barrier"):
                    k.do(BAR)
                if not wrong("early release", "no release"):
                    _release(k, empty, s, mistake)
            if mistake in NAMED:
                k.named_barrier(*NAMED[mistake])
            with k.Unroll("j", 2) as j:
                k.do(STG[16], y.at(k.thread // 8 + j * 8, k.thread % 8 * 4), total[None, j])
    return k.build()


def _release(k: Any, empty: Any, s: Any, mistake: str) -> None:
    if mistake != "no warp sync":
        k.do(WARP_SYNC)
    alone = k.thread.eq(0) if mistake == "few arrivals" else (k.thread % 32).eq(0)
    if mistake == "many arrivals":
        alone = k.thread < 64
    with k.If(alone):
        k.arrive(empty[s])


def reduction(mistake: str = "", blocks: int = 4) -> Any:
    """y = the sum of the rows of x; every block of a cluster sums some, and rank 0 the blocks."""

    def wrong(*names: str) -> bool:
        return mistake in names

    k = cg.Kernel("reduction", threads=64)
    m, n = k.extent("m", multiple=blocks), k.extent("n", multiple=64)
    x, y = k.tensor("x", "f32", (m, n), (n, 1)), k.tensor("y", "f32", (n,), (1,), writable=True)
    share, part = k.block(0, blocks), k.block(1, n // 64)
    k.cluster({"large cluster": 32, "grid": 3}.get(mistake, blocks))
    sums, column = k.shared("sums", "f32", Layout(64)), part * 64 + k.thread
    total, v = k.fragment("total", "f32", 1), k.fragment("v", "f32", 1)
    k.clear(total)
    with k.For("row", m // blocks) as row:
        k.do(cg.LDG[4], v, x.at(share + row * blocks, column))
        k.map(total + v, into=total)
    if not wrong("nothing to read"):
        k.do(STS[4], sums.at(k.thread), total)
    if wrong("relaxed"):
        k.do(CLUSTER_ARRIVE_RELAXED)
        k.do(CLUSTER_WAIT)
    elif wrong("wait alone"):
        k.do(CLUSTER_WAIT)
    elif wrong("two arrivals"):
        k.do(CLUSTER_ARRIVE)
        k.cluster_sync()
    elif wrong("block barrier alone"):
        k.do(BAR)
    elif wrong("a block stays away"):
        bar = k.mbarrier("bar")
        k.init(bar)
        with k.If(k.rank.eq(1)):
            k.wait(bar[0], 0)
        k.cluster_sync()
    else:
        k.cluster_sync()
    with k.If(k.rank.eq(0)):
        k.clear(total)
        with k.For("peer", blocks + 1 if wrong("no such rank") else blocks) as peer:
            k.do(LDS_REMOTE[4], v, sums.at(k.thread), peer)
            k.map(total + v, into=total)
        k.do(STG[4], y.at(column), total)
    if not wrong("no closing barrier"):
        k.cluster_sync()
    return k.build()


def shared_tile(mistake: str = "", blocks: int = 2, stages: int = 2, tiles: int = 5) -> Any:
    """y of every block = the sum of the tiles of x; each block loads its rows of a tile for the whole
    cluster.
    """

    def wrong(*names: str) -> bool:
        return mistake in names

    rows, every = 16 // blocks, (1 << blocks) - 1
    k = cg.Kernel("shared_tile", threads=64)
    x = k.tensor("x", "f32", (16, 32 * tiles), (32 * tiles, 1))
    y = k.tensor("y", "f32", (2 * blocks, 16, 32), (512, 32, 1), writable=True)
    block = k.block(0, 2 * blocks)
    k.cluster(blocks)
    load = k.tensor_map("load", x, (rows, 32))
    tile = k.shared("tiles", "f32", Layout(BOX, (32, 1)), stages=stages, align_bytes=128)
    own = wrong("empty of own consumers")
    full, empty = k.mbarrier("full", 1, stages), k.mbarrier("empty", 1 if own else blocks, stages)
    if wrong("peer may still initialise"):
        with k.If(k.thread.eq(0)):
            for one in range(stages):
                k.do(MBARRIER_INIT, full[one], 1)
                k.do(MBARRIER_INIT, empty[one], blocks)
            k.do(FENCE_BARRIER_INIT)
        k.do(BAR)
    else:
        k.init(full, empty)
    total, v = k.fragment("total", "f32", (4, 4)), k.fragment("v", "f32", (4, 4))
    with k.roles() as roles:
        with roles.role("producer", 1), k.If(k.thread.eq(0)), k.For("t", tiles) as t:
            s, turn = t % stages, t // stages
            k.wait(empty[s], (turn + 1) % 2, cluster=True)
            with k.If(k.rank.eq(0) if wrong("peer expects nothing") else k.rank < blocks):
                k.expect(full[s], BYTES)
            crd = t * 32, k.rank * rows
            mask = 1 << blocks if wrong("no such block") else every
            k.do(TMA_LOAD_MULTICAST[2], k.at(tile.buffer, k.rank * rows, 0, s), load, full[s], mask, *crd)
        with roles.role("consumer", 1):
            k.clear(total)
            with k.For("t", tiles) as t:
                s, turn = t % stages, t // stages
                k.wait(full[s], turn % 2)
                with k.Unroll("i", 4) as i:
                    k.do(LDS[16], v[None, i], k.at(tile.buffer, k.thread // 8 + i * 4, k.thread % 8 * 4, s))
                k.map(total + v, into=total)
                k.do(WARP_SYNC)
                with k.If(k.thread.eq(0)):
                    peers = [k.rank] if own or wrong("few arrivals of peers") else range(blocks)
                    for peer in peers:
                        k.arrive(empty[s], rank=peer)
            with k.Unroll("j", 4) as j:
                at = y.at(block, k.thread // 8 + j * 4, k.thread % 8 * 4)
                k.do(STG[16], at, total[None, j])
    if not wrong("leaves early"):
        k.cluster_sync()
    return k.build()


def exchange(mistake: str = "", blocks: int = 4) -> Any:
    """y of a block = x of the block before it in the cluster, which sends it by st.async, and what it adds.

    Nobody waits for a peer at the end: a block leaves when what is sent to it has arrived.
    """

    def wrong(*names: str) -> bool:
        return mistake in names

    k = cg.Kernel("exchange", threads=64)
    x = k.tensor("x", "f32", (8, 64), (64, 1))
    y = k.tensor("y", "f32", (8, 64), (64, 1), writable=True)
    block = k.block(0, 8)
    k.cluster(blocks)
    inbox, came = k.shared("inbox", "f32", Layout(64)), k.mbarrier("came")
    v = k.fragment("v", "f32", 1)
    with k.If(k.thread.eq(0)):
        k.do(MBARRIER_INIT, came[0], 1)
        if not wrong("no fence behind init"):
            k.do(FENCE_BARRIER_INIT)
        k.expect(came[0], 128 if wrong("few bytes") else 256)
    k.do(CLUSTER_ARRIVE_RELAXED)
    k.do(cg.LDG[4], v, x.at(block, k.thread))
    if not wrong("no wait for the cluster"):
        k.do(CLUSTER_WAIT)
    with k.If(k.thread < (32 if wrong("half is sent") else 64)):
        k.do(ST_ASYNC[4], inbox.at(k.thread), came[0], (k.rank + 1) % blocks, v)
    if not wrong("no wait"):
        k.wait(came[0], 0, cluster=True)
    k.do(LDS[4], v, inbox.at(k.thread))
    k.do(STG[4], y.at(block, k.thread), v)
    if wrong("no wait for the cluster"):
        k.do(CLUSTER_WAIT)
    return k.build()


def persistent(mistake: str = "") -> Any:
    """y = x, tile by tile: three blocks share the tiles, and each uses one buffer and one barrier for all."""

    def wrong(*names: str) -> bool:
        return mistake in names

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
        k.wait(full[0], 0 if wrong("one parity") else turn % 2)
        k.tma_store(save, tile, cg.local_tile(y, BOX, place))
        k.bulk_commit()
        if not wrong("no read wait"):
            k.bulk_wait(1 if wrong("one in flight") else 0, read=True)
    return k.build()


def pushed(mistake: str = "", blocks: int = 2) -> Any:
    """y of a block = x of its peer, which writes it there and arrives at the barrier there."""

    def wrong(*names: str) -> bool:
        return mistake in names

    k = cg.Kernel("pushed", threads=64)
    x, y = k.tensor("x", "f32", (8, 64), (64, 1)), k.tensor("y", "f32", (8, 64), (64, 1), writable=True)
    block = k.block(0, 8)
    k.cluster(blocks)
    inbox, came = k.shared("inbox", "f32", Layout(64)), k.mbarrier("came", 64)
    v, other = k.fragment("v", "f32", 1), k.rank ^ 1
    k.init(came)
    k.do(cg.LDG[4], v, x.at(block, k.thread))
    k.do(cg.STS_REMOTE[4], inbox.at(k.thread), other, v)
    k.arrive(came[0], rank=other, release=not wrong("no release"))
    k.wait(came[0], 0, cluster=not wrong("wait of the block"))
    k.do(LDS[4], v, inbox.at(k.thread))
    k.do(STG[4], y.at(block, k.thread), v)
    return k.build()


def handed(mistake: str = "") -> Any:
    """y = x backwards: one role writes halves of it to shared memory, the other reads them, by named
    barriers.
    """

    def wrong(*names: str) -> bool:
        return mistake in names

    k = cg.Kernel("handed", threads=128)
    x, y = k.tensor("x", "f32", (4, 64), (64, 1)), k.tensor("y", "f32", (4, 64), (64, 1), writable=True)
    held, v, w = k.shared("held", "f32", Layout(64)), k.reg("v", 1), k.reg("w", 1)
    with k.roles() as roles:
        with roles.role("writer", 2), k.For("row", 4) as row:
            k.do(cg.LDG[4], v, x.at(row, k.thread))
            if not wrong("overwrites"):
                k.named_barrier(1, 128)
            k.do(STS[4], held.at(k.thread), v)
            k.do(cg.NAMED_ARRIVE, 2, 128)
        with roles.role("reader", 2):
            k.do(cg.NAMED_ARRIVE, 1, 128)
            with k.For("line", 4) as line:
                if not wrong("reads early"):
                    k.named_barrier(2, 96 if wrong("other threads") else 128)
                k.do(LDS[4], w, held.at(k.thread ^ 63))
                k.do(STG[4], y.at(line, k.thread), w)
                with k.If(line < 3):
                    k.do(cg.NAMED_ARRIVE, 1, 128)
    return k.build()


def uneven(mistake: str = "") -> Any:
    """The sum of tiles of `ring`, with registers that move from the producer to the consumers."""
    given = {"many registers": (40, 256), "odd registers": (41, 200), "no warpgroup": (24, 200)}
    producer = 2 if mistake == "no warpgroup" else 4
    k = cg.Kernel("uneven", threads=32 * (producer + 8))
    x, y = k.tensor("x", "f32", (64, 96), (96, 1)), k.tensor("y", "f32", (64, 32), (32, 1), writable=True)
    load = k.tensor_map("load", x, (64, 32))
    tile = k.shared("tiles", "f32", Layout((64, 32), (32, 1)), stages=2, align_bytes=128)
    total, v = k.fragment("total", "f32", (4, 2)), k.fragment("v", "f32", (4, 2))

    def produce(t: Any, s: Any, full: Any) -> None:
        k.tma_load(load, cg.local_tile(x, (64, 32), (0, t)), tile[None, None, s], full)

    def consume(t: Any, s: Any) -> None:
        with k.Unroll("i", 2) as i:
            k.do(LDS[16], v[None, i], k.at(tile.buffer, k.thread // 8 + i * 32, k.thread % 8 * 4, s))
        k.map(total + v, into=total)

    def store() -> None:
        with k.Unroll("j", 2) as j:
            k.do(STG[16], y.at(k.thread // 8 + j * 32, k.thread % 8 * 4), total[None, j])

    tma = cg.TmaRing(
        load.box_bytes, consumer=8, producer=producer, registers=given.get(mistake, (40, 232)), lag=1
    )
    cg.pipeline(k, 3, 2, produce, consume, tma=tma, begin=lambda: k.clear(total), end=store)
    return k.build()


def arguments(program: str) -> dict[str, Any]:
    """Small integers for a program, and an array for its result."""
    rng = np.random.default_rng(7)
    shape, out, numbers = {
        "scaled": ((32, 64), (32, 64), {"m": 32, "n": 64}),
        "ring": ((16, 7 * 32), (16, 32), {}),
        "reduction": ((16, 128), (128,), {"m": 16, "n": 128}),
        "shared_tile": ((16, 5 * 32), (4, 16, 32), {}),
        "exchange": ((8, 64), (8, 64), {}),
        "handed": ((4, 64), (4, 64), {}),
        "persistent": ((160, 32), (160, 32), {"m": 160}),
        "pushed": ((8, 64), (8, 64), {}),
        "uneven": ((64, 96), (64, 32), {}),
    }[program]
    return {**numbers, "x": rng.integers(-9, 9, shape).astype("f4"), "y": np.zeros(out, "f4")}


def expected(program: str, given: dict[str, Any]) -> Any:
    """What a right program leaves in y."""
    x = given["x"]
    match program:
        case "scaled":
            return 2 * x
        case "reduction":
            return x.sum(0)
        case "exchange":
            return np.roll(x.reshape(2, 4, 64), 1, axis=1).reshape(8, 64)
        case "persistent":
            return x
        case "pushed":
            return x.reshape(4, 2, 64)[:, ::-1].reshape(8, 64)
        case "handed":
            return x[:, ::-1]
        case "uneven":
            return x.reshape(64, 3, 32).sum(1)
        case _:
            return np.broadcast_to(x.reshape(16, -1, 32).sum(1), given["y"].shape)
