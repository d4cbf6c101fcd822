"""Random products of tiles in the kernel language: of every type, way of storing, number of warps and stages.

    case = draw(seed)
    kernel = case.kernel()              or what refuses it
    case = case.nearest(refusal)        the case as a refusal suggests it

Half of the cases ask for what does not divide or does not fit.
"""

from __future__ import annotations

import ast
import random
import re
from dataclasses import dataclass, replace
from typing import Any

from layoutalg import codegen as cg
from layoutalg import make_tiled_mma
from layoutalg.atoms import TiledMMA
from layoutalg.codegen.instr import MMAS

ATOMS = [m.atom for m in MMAS if m.atom.dtype("A").bits >= 8]
RESULTS = {
    "f16": ("f16", "f32", "bf16"), "f32": ("f32", "f16", "bf16"), "f64": ("f64", "f32"), "s32": ("s32", "s8")
}  # fmt: skip
WARPS = ((1, 1), (2, 1), (1, 2), (2, 2), (4, 1), (1, 4), (3, 1), (2, 3), (2, 4))
ARCHS = ("sm_75", "sm_80", "sm_86", "sm_90", "sm_90", "sm_120")


@dataclass(frozen=True)
class TileCase:
    """A product D = A B, B given as (n, k), and the extents of a launch.

    `along` says of A, B and D whether they are stored along their second mode; extents are multiples of `by`.
    """

    mma: TiledMMA
    tile: tuple[int, int, int]
    stages: int
    sets: int
    arch: str
    result: str
    along: tuple[bool, bool, bool]
    by: tuple[int, ...]
    extents: tuple[int, ...]

    def kernel(self) -> cg.Program:
        """The kernel.  Raises what refuses it."""
        k = cg.Kernel("product", threads=self.mma.threads)
        m, n, depth = (k.extent(x, 1 << 12, by) for x, by in zip("mnk", self.by, strict=True))
        operand = self.mma.atom.dtype("A").name.replace("tf32", "f32")
        a, b, d = (
            k.tensor(name, kind, (rows, row), (row, 1) if near else (1, rows), writable=name == "d")
            for name, kind, rows, row, near in zip(
                "abd", (operand, operand, self.result), (m, n, m), (depth, depth, n), self.along, strict=True
            )
        )
        block = k.grid((m, n), self.tile[:2])
        acc = cg.tile_product(
            k, self.mma, a, b, block, self.tile, stages=self.stages, sets=self.sets, arch=self.arch
        )
        cg.tile_epilogue(k, self.mma, acc, cg.local_tile(d, self.tile[:2], block))
        return k.build()

    @property
    def sizes(self) -> dict[str, int]:
        """The extents by name, each a multiple of what it has to be."""
        return {x: -(-n // by) * by for x, n, by in zip("mnk", self.extents, self.by, strict=True)}

    def product(self, a: Any, b: Any) -> Any:
        """The product by definition; of integers modulo 2^n."""
        wide = "f8" if a.dtype.kind == "f" else "i8"
        exact = a.astype(wide) @ b.astype(wide).T
        return exact if wide == "f8" else exact.astype({"s32": "i4", "s8": "i1"}[self.result])

    def nearest(self, refusal: str) -> TileCase:
        """The case as a refusal suggests it: another tile, GPU, way of storing or granularity of extents."""
        if found := re.findall(
            r"(tile|stages|sets) = (\([^)]*\)|\d+)", refusal.partition("the nearest is ")[2]
        ):
            return replace(self, **{name: ast.literal_eval(value) for name, value in found})
        if arch := re.search(r"needs (sm_\d+)", refusal):
            return replace(self, arch=arch[1])
        if "store it along k" in refusal:
            return replace(self, along=(True, True, self.along[2]))
        (by,) = map(int, re.findall(r"multiples of (\d+) are needed", refusal))
        return replace(self, by=tuple(-(-x // by) * by for x in self.by))


def draw(seed: int) -> TileCase:
    """A case of its own for every seed."""
    rng = random.Random(f"tile product {seed}")
    atom, warps = rng.choice(ATOMS), rng.choice(WARPS)
    parts = [n * w * rng.choice((1, 1, 2)) for n, w in zip(atom.shape_mnk, (*warps, 1), strict=True)]
    most = 96, 96, 1024 // atom.dtype("A").bits
    m, n, k = (part * rng.randint(1, max(1, x // part)) for part, x in zip(parts, most, strict=True))
    stages, sets = rng.randint(2, 5), rng.choice((1, 1, 2, 3))
    if rng.random() < 0.25:
        m, n, k = (x * rng.choice((1, 1, 4)) + rng.choice((0, 0, 1, 8)) for x in (m, n, k))
    if rng.random() < 0.25:
        stages, sets = rng.choice((1, 9, 40)), rng.choice((0, 2, 5))
    tile = m, n, k
    by = tuple(rng.choice((x, x, 1, 2, 8, 16)) for x in tile)
    extents = tuple(rng.randint(1, min(x, bound) * 3 // 2) for x, bound in zip(tile, most, strict=True))
    return TileCase(
        make_tiled_mma(atom, (*warps, 1), tuple(parts)), tile, stages, sets, rng.choice(ARCHS),
        rng.choice(RESULTS[atom.dtype("C").name]),
        (rng.random() < 0.6, rng.random() < 0.6, rng.random() < 0.7), by, extents,
    )  # fmt: skip
