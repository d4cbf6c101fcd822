"""Accesses of a product as counters show them, where that differs from what single accesses cost.

The idea.  The traffic of a program adds up what each instruction costs by itself, and so does the simulator's
trace.  Three things differ on the hardware, and the accesses that the compiler joins (see codegen.costs):

    cp.async of 16 bytes    written line by line of global memory              `copied_lines`
    cp.async of 4 and 8     read from banks and written to banks, both sides   `copied_words`
    cp.async of 16 bytes    sectors are counted where they are written         `tag_sectors` of the model

A launch of gemm-sm90 is known in closed form.  Blocks bring whole tiles of A and B step by step, even where
they stick out, so that everything follows from the numbers of tiles and steps.  An operand is lines that its
boxes cut into chunks of 128 bytes:

    stored along k     lines are rows, chunks are steps of k
    stored along m, n  lines are k, chunks are 64 rows

    TMA in    for each line and chunk the sectors of 32 bytes that it touches, and whole sectors of zeros
              for what is out of bounds; every block of a cluster counts what it gets, of a chunk that
              several get two sectors at least of each 128 bytes of memory, and three of zeros beside
              what is in bounds
    TMA out   the sectors of D that boxes touch, in bounds
    wgmma     4 warps * tile_m / 64 * 4 for each tile and step; each reads its 64 rows of A and all of B
              of 16 k in shared memory, 128 bytes per wavefront
    L2        what is in bounds, of chunks that a cluster shares all that one block counts, once, and the
              accesses of threads: the requested sectors

Wavefronts and sectors of threads are read off the program (see codegen.costs).  Lines that start at odd
multiples of 16 bytes touch one sector more per chunk.  A shared chunk that starts 16, 32, 96 or 112 bytes
behind a multiple of 128 has one sector alone at one of its ends, which counts as two.

Notes.  Arrays are assumed to start at multiples of 128 bytes.  The number of repeated waits is not known,
so the total of instructions is not known either.

Requests of neighbouring multiprocessors are joined on their way, so that the L2 reads down to half of the
requested sectors, and boxes that stick out may request more than is in bounds, at most "TMA in".

Source: what TMA and wgmma count was measured on an H200, see docs/hopper.md and tests/gpu/multicast_counters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from types import MappingProxyType
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, MULTICAST_LEAST, MULTICAST_ZEROS, Arch, find_arch
from layoutalg.codegen.costs import Prediction, copied, traffic
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, Sm90Config
from layoutalg.kernels.ladder.machines import ARCH
from layoutalg.model import copied_wavefronts, tag_sectors

LANE_BYTES = 16
"""The most that a lane copies."""


def counted(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH) -> Prediction:
    """The traffic of a launch, with sectors of copies as the L1 counts them, and the most that they take of
    shared memory.

    Raises as `codegen.costs.traffic` does.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> sm80, steps = find_family("gemm-sm80"), find_steps("gemm-sm80")
    >>> one = sm80.launches(sm80.problem(256), steps["7 cp.async ring, mma k16"], "sm_90")
    >>> params = {**dict(one.scalars), "alpha": 1}
    >>> traffic(*one.kernels, params)["cp.async.16"].total, counted(*one.kernels, params)["cp.async.16"].total
    (3072, 6144)
    """
    found = traffic(kernel, params, arch)
    totals = {op: most for op, (_, most) in copied_words(kernel, params, arch).items()}
    if "cp.async.16" in found:
        totals["cp.async.16"] = copied_lines(kernel, params, arch)
        totals["cp.async.16:global"] = copied(kernel, params, LANE_BYTES, tag_sectors, arch)
    changed = {op: replace(found[op], total=total) for op, total in totals.items()}
    return MappingProxyType({**found, **changed})


def copied_words(
    kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH
) -> Mapping[str, tuple[int, int]]:
    """The least and the most wavefronts that copies of 4 and 8 bytes take of shared memory, by instruction.

    Only what is executed is listed.  Raises as `codegen.costs.traffic` does.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> simt = find_family("gemm-simt")
    >>> one = simt.launches(simt.problem(256), find_steps("gemm-simt")["wide"], "sm_90")
    >>> copied_words(*one.kernels, {**dict(one.scalars), "alpha": 1})
    {'cp.async.4': (8192, 8192)}
    """

    def total(nbytes: int, which: int) -> int:
        def wavefronts(source: Any, target: Any, active: Any) -> Any:
            return copied_wavefronts(source, target, active, nbytes)[which]

        return copied(kernel, params, nbytes, wavefronts, arch)

    found = {f"cp.async.{nbytes}": (total(nbytes, 0), total(nbytes, 1)) for nbytes in (4, 8)}
    return {op: bounds for op, bounds in found.items() if bounds[1]}


def copied_lines(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH) -> int:
    """Wavefronts that copies of 16 bytes past the L1 take of shared memory: they are written line by line.

    Groups of 8 lanes write 128 bytes at once if these come from one line of global memory, and one wavefront
    a line otherwise: rows of 64 bytes cost twice what rows of 128 do.  Counted on an H200 for rows that start
    at sectors, whose neighbouring lanes copy the halves of a sector.  Raises as `codegen.costs.traffic` does.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> sm80, steps = find_family("gemm-sm80"), find_steps("gemm-sm80")
    >>> for step in ("7 cp.async ring, mma k16", "8 two fragments, tile 128x256x64"):
    ...     one = sm80.launches(sm80.problem(256), steps[step], "sm_90")
    ...     print(copied_lines(*one.kernels, {**dict(one.scalars), "alpha": 1}))
    6144
    3072
    """
    line, group = find_arch(arch).line_bytes, find_arch(arch).line_bytes // LANE_BYTES

    def lines(source: Any, target: Any, active: Any) -> Any:
        import numpy as np

        nowhere = np.iinfo(np.int64).max
        at = np.where(active, source // line, nowhere).reshape(len(source), -1, group)
        at.sort(axis=2)
        first = np.ones_like(at, dtype=bool)
        first[:, :, 1:] = at[:, :, 1:] != at[:, :, :-1]
        return (first & (at != nowhere)).sum(axis=(1, 2))

    return copied(kernel, params, LANE_BYTES, lines, arch)


SECTOR_BYTES, LINE_BYTES, CHUNK_BYTES, WAVEFRONT_BYTES = 32, 128, 128, 128
"""The units of global memory, its requests, boxes along a line, and wgmma's reads of shared memory."""

ROWS, DEEP, WARPS = 64, 16, 4
"""Rows and k of a wgmma, and the warps that execute it."""


@dataclass(frozen=True, slots=True)
class Lines:
    """A matrix as boxes walk it: `lines` of `nbytes` bytes, whose starts are `pitch_bytes` apart, cut into
    chunks of `chunk_bytes`; boxes cover `covered` lines and `chunks` chunks of each.  Several blocks get each
    of them where it is `shared`: chunks are then CHUNK_BYTES.

    >>> rows = Lines(100, 2 * 72, 2 * 72, 128, 2)  # 100 rows of 72 elements of 16 bits, in tiles of 64 rows
    >>> rows.sectors, rows.zeros
    (550, 624)
    >>> Lines(100, 2 * 72, 2 * 72, 128, 2, shared=True).sectors
    700
    """

    lines: int
    nbytes: int
    pitch_bytes: int
    covered: int
    chunks: int
    chunk_bytes: int = CHUNK_BYTES
    shared: bool = False

    @property
    def sectors(self) -> int:
        """Sectors in bounds that all chunks touch, each chunk by itself."""
        whole, rest = divmod(self.nbytes, self.chunk_bytes)
        starts = LINE_BYTES // gcd(self.pitch_bytes, LINE_BYTES)  # that there are, behind a line's first byte
        found, least = 0, MULTICAST_LEAST if self.shared else 1
        for number in range(min(starts, self.lines)):
            start, count = number * self.pitch_bytes % LINE_BYTES, -(-(self.lines - number) // starts)
            per_line = whole * _touched(start, self.chunk_bytes, least) + _touched(start, rest, least)
            found += count * per_line
        return found

    @property
    def zeros(self) -> int:
        """Sectors of zeros, for what boxes cover out of bounds."""
        whole, rest = divmod(self.nbytes, self.chunk_bytes)
        empty, part = self.chunks - whole - bool(rest), self.chunk_bytes - rest if rest else 0
        per_chunk = self.chunk_bytes // SECTOR_BYTES
        beside = max(MULTICAST_ZEROS if self.shared and part else 0, -(-part // SECTOR_BYTES))
        return (
            self.lines * (empty * per_chunk + beside) + (self.covered - self.lines) * self.chunks * per_chunk
        )


def _touched(start: int, nbytes: int, least: int) -> int:
    """Sectors of a part of a chunk, `least` or more of each line: it starts within the first of two."""
    first = min(nbytes, LINE_BYTES - start)
    parts = (start, first), (LINE_BYTES, nbytes - first)
    return sum(max(least, (at + n - 1) // SECTOR_BYTES - at // SECTOR_BYTES + 1) for at, n in parts if n > 0)


@dataclass(frozen=True, slots=True)
class Work:
    """The work of a launch; instructions are those of warps, `accesses` those of threads by instruction.

    `tiles` are all that blocks compute, those out of bounds at the edge of a cluster included; `steps` are
    the steps of k of each.  `copied_wavefronts` are those of tiles that threads copy to shared memory, of the
    ladder's first step alone.
    """

    tiles: int
    steps: int
    wgmma: int
    tma_loads: int
    tma_stores: int
    read_bytes: int
    written_bytes: int
    operand_wavefronts: int
    copied_wavefronts: int
    l2_read_sectors: int
    l2_written_sectors: int
    accesses: Prediction

    @property
    def thread_wavefronts(self) -> int:
        """Wavefronts of shared memory of threads: results on their way, and tiles that they copy."""
        return sum(cost.total for op, cost in self.accesses.items() if "global" not in op)

    @property
    def result_wavefronts(self) -> int:
        """The wavefronts of results."""
        return self.thread_wavefronts - self.copied_wavefronts

    @property
    def counts(self) -> Mapping[str, int]:
        """The values of counters, under the names of the tables, without those that are 0.

        "TMA in" and "TMA out" are bytes, "L2 in" and "L2 out" requested sectors.
        """
        found = {
            "wgmma": self.wgmma, "TMA loads": self.tma_loads, "TMA stores": self.tma_stores,
            "TMA in": self.read_bytes, "TMA out": self.written_bytes,
            "shared wavefronts": self.operand_wavefronts + self.thread_wavefronts,
            "L2 in": self.l2_read_sectors, "L2 out": self.l2_written_sectors,
            "sectors stored": _sectors(self.accesses, "st.global"),
        }  # fmt: skip
        return MappingProxyType({what: n for what, n in found.items() if n})


def _sectors(accesses: Prediction, op: str) -> int:
    return sum(cost.total for name, cost in accesses.items() if name.startswith(op))


def operand_lines(p: GemmProblem, c: Sm90Config, name: str, tiles: int, steps: int) -> Lines:
    """A or B as the boxes of all tiles along it and all steps of k cover it, once.

    >>> from layoutalg.kernels.gemm import gemm_problem
    >>> operand_lines(gemm_problem(100, 88, 72), Sm90Config(64, 64, 3, 1), "a", 2, 2).covered
    128
    """
    size = p.operand.nbytes
    major, rows, lead, tile, sharing = (
        (p.a_major, p.m, p.lda, c.tile_m, c.cluster_n)
        if name == "a"
        else (p.b_major, p.n, p.ldb, c.tile_n, c.cluster_m)
    )
    lines, nbytes, covered, chunks = rows, p.k * size, tiles * tile, steps
    if major == "mn":
        lines, nbytes = p.k, rows * size
        covered, chunks = steps * c.tile_k, tiles * tile * size // CHUNK_BYTES
    return Lines(lines, nbytes, lead * size, covered, chunks, shared=sharing > 1)


def _stored_sectors(p: GemmProblem, boxes: Sequence[int]) -> int:
    """Sectors of D that boxes of so many columns, side by side, touch in bounds."""
    size, odd = p.result.nbytes, p.m // 2 if p.ldd * p.result.nbytes % SECTOR_BYTES else 0
    found = first = 0
    for columns in boxes:
        inside = max(0, min(columns, p.n - first)) * size
        for rows, start in ((p.m - odd, first * size), (odd, first * size + p.ldd * size)):
            found += rows * _touched(start % SECTOR_BYTES, inside, 1)
        first += columns
    return found


def work(p: GemmProblem, c: Sm90Config, kernel: Kernel, params: Mapping[str, int]) -> Work:
    """Return the work of a launch of a configuration's first kernel, for any size.

    Raises as `traffic` does, UnsupportedError for batches and for crossed tiles.

    >>> from layoutalg.kernels.registry import find_family
    >>> family = find_family("gemm-sm90")
    >>> p = family.problem(4096)
    >>> one = family.launches(p, family.choose(p, "sm_90"), "sm_90")
    >>> found = work(p, family.choose(p, "sm_90"), *one.kernels, {**dict(one.scalars), "alpha": 1})
    >>> found.wgmma, found.read_bytes
    (1572864, 1358954496)
    """
    if c.crossed:
        raise UnsupportedError("what crossed tiles store is not predicted: take crossed = False")
    if p.batch:
        raise UnsupportedError("what a batch makes of boxes is not predicted: take one product of it")
    clusters = -(-p.m // (c.tile_m * c.cluster_m)), -(-p.n // (c.tile_n * c.cluster_n))
    down, across = clusters[0] * c.cluster_m, clusters[1] * c.cluster_n
    tiles, steps = down * across, -(-p.k // c.tile_k)
    a, b = (operand_lines(p, c, x, n, steps) for x, n in (("a", down), ("b", across)))
    boxes = sum(
        rows // (rows // shared if major == "k" else ROWS) // shared
        for rows, major, shared in ((c.tile_m, p.a_major, c.cluster_n), (c.tile_n, p.b_major, c.cluster_m))
    )
    accesses = traffic(kernel, params, ARCH)
    groups = tiles * steps * c.tile_m // ROWS * (c.tile_k // DEEP)
    size, out, stores, copied = p.result.nbytes, 0, 0, 0
    if c.through == "tma":
        widths = c.boxes(size) * c.cluster_k
        stores = tiles * (c.tile_m // ROWS) * len(widths)
        out = _stored_sectors(p, widths * across)
    loads = tiles * steps * boxes
    received = (a.sectors + a.zeros) * across + (b.sectors + b.zeros) * down
    asked = [x.sectors + x.zeros * x.shared for x in (a, b)]
    read = asked[0] * across // c.cluster_n + asked[1] * down // c.cluster_m
    if not kernel.maps:  # threads copy
        copied = sum(cost.total for op, cost in accesses.items() if "shared" in op)
        loads = received = read = 0
    return Work(
        tiles, steps, WARPS * groups, loads, stores, SECTOR_BYTES * received, SECTOR_BYTES * out,
        groups * (ROWS + c.tile_n) * DEEP * p.operand.nbytes // WAVEFRONT_BYTES, copied,
        read + _sectors(accesses, "ld.global"), out + _sectors(accesses, "st.global"), accesses,
    )  # fmt: skip
