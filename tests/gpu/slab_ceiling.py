"""How fast slabs of columns can be copied by clusters that hold them: the ceiling of norms over columns.

python -m tests.gpu.slab_ceiling out.json        all ways
python -m tests.gpu.slab_ceiling out.json 8      clusters of 8 only

A norm over an axis that is not the last has to see a column before it writes one element of it.  Its blocks
take slabs of a few columns; a cluster keeps one in the shared memory of its blocks.  What that costs without
any arithmetic is the time of this copy: load the slab, a barrier of the cluster, store it.  Slabs are 64
to 512 bytes wide, clusters 1 to 16 blocks, 1 to 3 blocks share a multiprocessor, and each slab just fits.

    once          a cluster per slab; lanes copy 16 bytes by cp.async, read them back and store them
    refilled      as many clusters as the GPU runs; a place is refilled from the next slab once stored
    tma           a cluster per slab; boxes of 8 KB by TMA both ways
    tma refilled  both

Times: in turn, in an order drawn per round, the L2 flushed by reading 256 MB of clean data, the host ahead of
the GPU.  The driver's copy of as many bytes runs twice, which says what repeats.  Elements do not matter: a
slab of f32 and one of bf16 of as many bytes are one case.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import product
from typing import Any

from layoutalg import Layout
from layoutalg import codegen as cg
from layoutalg.codegen import STG_WHOLE, gpu
from layoutalg.codegen.expr import Expr
from layoutalg.errors import ResourceError
from tests.gpu.timing import Turns, one_stream, study

BOX_BYTES, VECTOR_BYTES = 8 << 10, 16
BOXES = {1: 28, 2: 14, 3: 9}
"""Boxes of shared memory that a block has where so many share a multiprocessor."""

MOST_ELEMS, MOST_TURNS = 1 << 29, 1 << 12
MODES = ("once", "refilled", "tma", "tma refilled")
ROUNDS, NBYTES = 9, 512 << 20


@dataclass(frozen=True)
class Way:
    """A copy through slabs of `width` bytes; `blocks` of a multiprocessor."""

    mode: str
    width: int
    cluster: int
    blocks: int
    threads: int

    @property
    def share(self) -> int:
        """Rows of a slab that a block keeps."""
        return BOXES[self.blocks] * BOX_BYTES // self.width

    @property
    def rows(self) -> int:
        """Rows of a slab."""
        return self.share * self.cluster


class SlabCopy:
    """A copy that is being written: `slab` is the cluster's first one, and `step` what it goes on by."""

    def __init__(self, way: Way) -> None:
        self.way, self.lanes = way, way.width // VECTOR_BYTES
        name = f"{way.mode.replace(' ', '_')}_{way.width}_{way.cluster}_{way.blocks}_{way.threads}"
        self.k = k = cg.Kernel(name, threads=way.threads, min_blocks=way.blocks)
        columns = k.extent("columns", MOST_ELEMS // way.rows, way.width // 4)
        self.slabs = k.let("slabs", columns // (way.width // 4))
        self.x = k.tensor("x", "f32", (way.rows, columns), (columns, 1))
        self.y = k.tensor("y", "f32", (way.rows, columns), (columns, 1), writable=True)
        self.again = way.mode.endswith("refilled")
        self.clusters = k.extent("clusters", MOST_TURNS) if self.again else columns // (way.width // 4)
        self.turns = k.extent("turns", MOST_TURNS) if self.again else 1
        self.slab = k.block(0, self.clusters * way.cluster) // way.cluster
        k.cluster(way.cluster)

    def place(self, slab: Expr, step: Expr) -> tuple[Expr, Expr]:
        """Row and column of this thread's vector of a step."""
        down, across = self.k.tid // self.lanes, self.k.tid % self.lanes
        row = self.k.rank * self.way.share + step * (self.way.threads // self.lanes) + down
        return row, (slab * self.lanes + across) * 4

    def meet(self) -> None:
        """All threads of all blocks that keep a slab meet."""
        if self.way.cluster > 1:
            self.k.cluster_sync()
        else:
            self.k.do(cg.BAR)

    def each_slab(self) -> Iterator[tuple[Expr, Expr]]:
        """The cluster's slabs, each with the turn that it has."""
        k = self.k
        with k.For("turn", self.turns) as turn:
            slab = k.let("slab", self.slab + turn * self.clusters)
            with k.If(slab < self.slabs):
                yield slab, turn

    def by_lanes(self) -> cg.Program:
        """Loads by cp.async, stores from registers."""
        k, vectors = self.k, BOXES[self.way.blocks] * BOX_BYTES // VECTOR_BYTES
        rounds, depth = vectors // self.way.threads, 7 if self.way.blocks < 3 else 3
        kept, v = k.shared("kept", "f32", Layout(4 * vectors)), k.reg("v", depth, 4)

        def slot(step: Expr) -> Any:
            return kept.at((step * self.way.threads + k.tid) * 4)

        with k.For("first", rounds, unroll=depth) as i, k.If(self.slab < self.slabs):
            k.do(cg.CP_ASYNC[16], slot(i), self.x.at(*self.place(self.slab, i)))
        k.do(cg.CP_COMMIT)
        for slab, _ in self.each_slab():
            k.do(cg.CP_WAIT, 0)
            self.meet()
            with k.For("group", rounds // depth) as g:
                with k.Unroll("u", depth) as u:
                    k.do(cg.LDS[16], v[u], slot(g * depth + u))
                with k.Unroll("u", depth) as u:
                    k.do(STG_WHOLE[16], self.y.at(*self.place(slab, g * depth + u)), v[u])
                if self.again:
                    following = k.let("following", slab + self.clusters)
                    with k.If(following < self.slabs), k.Unroll("u", depth) as u:
                        step = g * depth + u
                        k.do(cg.CP_ASYNC[16], slot(step), self.x.at(*self.place(following, step)))
            if self.again:
                k.do(cg.CP_COMMIT)
        return k.build()

    def by_tma(self) -> cg.Program:
        """Both ways by TMA, started by one thread."""
        k, boxes, width = self.k, BOXES[self.way.blocks], self.way.width // 4
        tile = (BOX_BYTES // self.way.width, width)
        load, save = k.tensor_map("load", self.x, tile), k.tensor_map("save", self.y, tile)
        kept = k.shared("kept", "f32", Layout(tile, (width, 1)), stages=boxes, align_bytes=128)
        full = k.mbarrier("full")
        k.init(full)

        def box(of: Any, slab: Expr, n: int) -> Any:
            return cg.local_tile(of, tile, (k.rank * boxes + n, slab))

        def fill(slab: Expr, n: int) -> None:
            k.tma_load(load, box(self.x, slab, n), kept[None, None, n], full[0])

        with k.If(k.tid.eq(0) & (self.slab < self.slabs)):
            k.expect(full[0], boxes * BOX_BYTES)
            for n in range(boxes):
                fill(self.slab, n)
        for slab, turn in self.each_slab():
            k.wait(full[0], turn % 2)
            self.meet()
            with k.If(k.tid.eq(0)):
                for n in range(boxes):
                    k.tma_store(save, kept[None, None, n], box(self.y, slab, n))
                    k.bulk_commit()
                if self.again:
                    following = k.let("following", slab + self.clusters)
                    with k.If(following < self.slabs):
                        k.expect(full[0], boxes * BOX_BYTES)
                        for n in range(boxes):
                            k.bulk_wait(boxes - 1 - n, read=True)
                            fill(following, n)
        with k.If(k.tid.eq(0)):
            k.bulk_wait(0)
        return k.build()


def ready(way: Way) -> gpu.Prepared:
    """The program of a way, compiled."""
    made = SlabCopy(way)
    return gpu.prepare(made.by_tma() if way.mode.startswith("tma") else made.by_lanes(), "sm_90a")


def ways(clusters: tuple[int, ...]) -> Iterator[Way]:
    """All ways that are measured."""
    for width, cluster, blocks, mode in product((512, 256, 128, 64), clusters, BOXES, MODES):
        threads = 32 if mode.startswith("tma") else 512 if blocks == 1 else 256
        yield Way(mode, width, cluster, blocks, threads)


def measured(way: Way, loaded: gpu.Loaded, arrays: tuple[Any, Any], turns: Turns) -> dict[str, Any]:
    """The share of a plain copy that a way has, of slabs that fill the GPU a whole number of times."""
    resident = loaded.active_clusters
    slabs = resident * max(1, round(NBYTES / (way.rows * way.width * resident)))
    columns = slabs * way.width // 4
    elems = way.rows * columns
    x, y = arrays[0][:elems], arrays[1][:elems]
    given = {"columns": columns, "x": x, "y": y}
    if "clusters" in [p.name for p in loaded.ready.kernel.params]:
        given |= {"clusters": resident, "turns": slabs // resident}
    y.fill(0)
    run = loaded.launcher(**given)
    run()
    if not bool((x == y).all()):
        raise SystemExit(f"{way}: wrong copy")
    copy = gpu.device_copy(y, x)
    us = turns.medians({"ours": run, "copy": copy, "again": copy})
    return asdict(way) | {
        "rows": way.rows, "columns": columns, "resident": resident, "us": us["ours"],
        "gbps": 8 * elems / us["ours"] / 1e3, "copy_gbps": 8 * elems / us["copy"] / 1e3,
        "share": us["copy"] / us["ours"], "aa": us["again"] / us["copy"],
    }  # fmt: skip


def main(args: list[str]) -> None:
    """See the module's text."""
    every = list(ways(tuple(map(int, args[1:])) or (1, 2, 4, 8, 16)))
    made = gpu.in_processes(ready, every)
    print("compiled", len(made), flush=True)
    with one_stream():
        turns, elems = Turns(ROUNDS), NBYTES * 5 // 16
        arrays = gpu.random_normal(elems, 1, "f32"), gpu.device_empty((elems,), "f4")

        def row(asked: tuple[Way, gpu.Prepared]) -> dict[str, Any] | None:
            try:
                return measured(asked[0], gpu.load_prepared(asked[1]), arrays, turns)
            except ResourceError as error:
                print(asked[0], error, flush=True)
                return None

        study(args[0], zip(every, made, strict=True), row)


if __name__ == "__main__":
    main(sys.argv[1:])
