"""Tiles that come by TMA in the frame of many programs: declarations, the steps of roles, and results."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import numpy as np

from layoutalg import Layout
from layoutalg import codegen as cg
from layoutalg.codegen.program import printed

BOX, BYTES, TILES = (16, 32), 16 * 32 * 4, 6
SCHEDULES: tuple[tuple[Any, int], ...] = (("block", 0), ("warp", 0), ("warp", 1), ("warp", 2))


@dataclass(frozen=True, slots=True)
class Program:
    """A kernel, its arrays and integers without the result, and the result."""

    kernel: Any
    given: Mapping[str, Any]
    y: Any

    @property
    def out(self) -> str:
        """The array of the result."""
        return "w" if any(p.name == "w" for p in self.kernel.params) else "y"

    def simulated(self, group: Any = "block", seed: int = 0, **options: Any) -> Any:
        """A run of fresh arrays, whose result is right."""
        arrays = {key: x.copy() if isinstance(x, np.ndarray) else x for key, x in self.given.items()}
        arrays[self.out] = np.full(self.y.shape, np.nan, "f4")
        run = cg.simulate(printed(self.kernel), arrays, group=group, seed=seed, **options)
        np.testing.assert_array_equal(arrays[self.out], self.y)
        return run


def integers(*shape: int) -> Any:
    """Small numbers, whose sums are exact."""
    return np.random.default_rng(5).integers(-9, 10, shape).astype("f4")


class Frame:
    """x in a row of tiles, y of one tile or of `pieces`, stages with barriers, and the steps of programs."""

    def __init__(
        self, threads: int, tiles: int = TILES, stages: int = 1, *, pieces: int = 0, full: int = 1,
        bars: int = 0, empty: int = 0,
    ) -> None:  # fmt: skip
        self.k = k = cg.Kernel("frame", threads=threads)
        self.tiles, self.stages, columns, self.first = tiles, stages, 32 * tiles, k.thread.eq(0)
        out = 32 * (pieces or 1)
        self.x = k.tensor("x", "f32", (16, columns), (columns, 1))
        self.y = k.tensor("y", "f32", (16, out), (out, 1), writable=True)
        self.load = k.tensor_map("load", self.x, BOX)
        self.save: Any = k.tensor_map("save", self.y, BOX) if pieces else None
        self.total, self.v = (k.fragment(name, "f32", (4, 2)) for name in ("total", "v"))
        self.tile = self.room("tiles", stages)
        self.full = k.mbarrier("full", full, bars or stages)
        self.empty: Any = k.mbarrier("empty", empty, stages) if empty else None
        k.init(*filter(None, (self.full, self.empty)))

    def room(self, name: str, stages: int = 1) -> Any:
        """Shared memory of one box, or of several."""
        return self.k.shared(name, "f32", Layout(BOX, (32, 1)), align_bytes=128, stages=stages)

    def at(self, stage: Any) -> Any:
        """A stage of the tiles."""
        return self.tile if self.stages == 1 else self.tile[None, None, stage]

    def fetch(self, t: Any, stage: Any = 0, bar: Any = None) -> None:
        """Start the load of tile t."""
        source = cg.local_tile(self.x, BOX, (0, t))
        self.k.tma_load(self.load, source, self.at(stage), self.full[stage] if bar is None else bar)

    def bring(self, t: Any, stage: Any = 0) -> None:
        """Announce tile t and start its load."""
        self.k.expect(self.full[stage], BYTES)
        self.fetch(t, stage)

    def place(self, i: Any, thread: Any = None) -> tuple[Any, Any]:
        thread = self.k.thread if thread is None else thread
        return thread // 8 + i * 8, thread % 8 * 4

    def add(self, *stage: Any) -> None:
        """Add a tile in shared memory to the sums of 64 threads."""
        k = self.k
        stage = stage if self.stages > 1 else ()
        with k.Unroll(k.fresh("i"), 2) as i:
            k.do(cg.LDS[16], self.v[None, i], k.at(self.tile.buffer, *self.place(i), *stage))
        k.map(self.total + self.v, into=self.total)

    def put(self, target: Any = None) -> None:
        """Store the sums to y, or to w for one of several."""
        k = self.k
        with k.Unroll(k.fresh("j"), 2) as j:
            at = self.y.at(*self.place(j)) if target is None else target(*self.place(j))
            k.do(cg.STG[16], at, self.total[None, j])

    def write(self, out: Any) -> None:
        """Store the sums to shared memory."""
        k = self.k
        with k.Unroll(k.fresh("j"), 2) as j:
            k.do(cg.STS[16], k.at(out.buffer, *self.place(j)), self.total[None, j])

    def store(self, out: Any, t: Any = 0) -> None:
        """Start the store of a box to tile t of y."""
        self.k.tma_store(self.save, out, cg.local_tile(self.y, BOX, (0, t)))
        self.k.bulk_commit()

    def double(self, out: Any) -> None:
        """out = twice the tile, by 64 threads."""
        k = self.k
        with k.Unroll(k.fresh("i"), 2) as i:
            k.do(cg.LDS[16], self.v[None, i], k.at(self.tile.buffer, *self.place(i)))
        k.map(self.v + self.v, into=self.total)
        self.write(out)

    @contextmanager
    def producing(
        self, roles: Any, name: str = "producer", warps: int = 1, registers: int = 0
    ) -> Iterator[Any]:
        """A role of one thread that has waited for the stage of each tile to be empty: (t, stage)."""
        k = self.k
        with roles.role(name, warps, registers=registers), k.If(k.thread.eq(0)), k.For("t", self.tiles) as t:
            k.wait(self.empty[t % self.stages], (t // self.stages + 1) % 2)
            yield t, t % self.stages

    @contextmanager
    def consuming(
        self, roles: Any, warps: int = 2, registers: int = 0, name: str = "consumer"
    ) -> Iterator[Any]:
        """A role that has waited for each tile, and stores the sums at its end: (t, stage)."""
        k = self.k
        with roles.role(name, warps, registers=registers):
            k.clear(self.total)
            with k.For("t", self.tiles) as t:
                k.wait(self.full[t % self.stages], t // self.stages % 2)
                yield t, t % self.stages
            with k.If(k.thread < 64):
                self.put()

    def release(self, stage: Any) -> None:
        """A lane of each warp says that the stage is read."""
        self.k.do(cg.WARP_SYNC)
        with self.k.If((self.k.thread % 32).eq(0)):
            self.k.arrive(self.empty[stage])

    def program(self, wanted: Callable[[Any], Any] | None = None, **more: Any) -> Program:
        """Of the sum of the tiles, unless another function of x is wanted."""
        x = integers(16, 32 * self.tiles)
        y = wanted(x) if wanted else x.reshape(16, -1, 32).sum(1)
        return Program(self.k.build(), {"x": x, **more}, y)


def scaled(mistake: str = "") -> Program:
    """y = 2 x in tiles of 16 x 32 f32, by 64 threads: as it comes by TMA and goes by TMA.

    The mistakes are those that are not an edit: of declarations, and of what is refused when it is written.
    """
    k = cg.Kernel("scaled", threads=64)
    m, n = k.extent("m", multiple=16), k.extent("n", multiple=2 if mistake == "odd stride" else 32)
    x = k.tensor("x", "f32", (m, n), (n, 1))
    y = k.tensor("y", "f32", (m, n), (n, 1), writable=True)
    place = k.grid((m, n), BOX)
    box = (512, 32) if mistake == "large box" else BOX
    mode = {"wide box": "64B", "swizzle": "128B"}.get(mistake, "none")
    load, save = k.tensor_map("load", x, box, mode=mode), k.tensor_map("save", y, BOX)
    tile = k.shared("tile", "f32", Layout(BOX, (32, 1)), align_bytes=128)
    out = k.shared("out", "f32", Layout(BOX, (32, 1)), align_bytes=128)
    full, first = k.mbarrier("full"), k.thread.eq(0)
    v, doubled = k.fragment("v", "f32", 4), k.fragment("doubled", "f32", 4)
    k.init(full)
    if mistake == "stores before the load":
        k.clear(v)
        with k.If(k.thread < 8):
            k.do(cg.STS[16], k.at(tile.buffer, 0, k.thread * 4), v)
        k.do(cg.BAR)
    with k.If(first):
        k.expect(full[0], BYTES)
        k.tma_load(load, cg.local_tile(x, box, place), tile, full[0])
    k.wait(full[0], 0, rank=1 if mistake == "remote wait" else None)
    with k.Unroll("i", 2) as i:
        row, column = k.thread // 8 + i * 8, k.thread % 8 * 4
        k.do(cg.LDS[16], v, k.at(tile.buffer, row, column))
        k.map(v + v, into=doubled)
        k.do(cg.STS[16], k.at(out.buffer, row, column), doubled)
    k.fence_async()
    k.do(cg.BAR)
    with k.If(first):
        k.tma_store(save, out, cg.local_tile(y, BOX, place))
        k.bulk_commit()
        if mistake != "reuse before read":
            k.bulk_wait(read=True)
    if mistake == "reuse before read":
        k.do(cg.BAR)
        with k.If(k.thread.eq(33)):
            k.do(cg.STS[16], k.at(out.buffer, 0, 0), v)
    given = integers(32, 64)
    return Program(k.build(), {"x": given, "m": 32, "n": 64}, 2 * given)
