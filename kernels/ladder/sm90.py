"""The work of a launch of gemm-sm90 for the hardware: copies by TMA, products, wavefronts, sectors of the L2.

The idea.  Blocks bring whole tiles of A and B step by step, even where they stick out, so that everything
follows from the numbers of tiles and steps.  An operand is lines that its boxes cut into chunks of 128 bytes:

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
from dataclasses import dataclass
from math import gcd
from types import MappingProxyType

from layoutalg.arch import MULTICAST_LEAST, MULTICAST_ZEROS
from layoutalg.codegen.costs import Prediction, traffic
from layoutalg.codegen.program import Kernel
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.gemm import GemmProblem, Sm90Config
from layoutalg.kernels.ladder.machines import ARCH

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
    (2097152, 1610612736)
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
