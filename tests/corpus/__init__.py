"""The CUDA sources of tests/data/sources and what each of their accesses costs, counted lane by lane.

    python -m tests.corpus            compare tests/data/sources/expected.json with the enumeration
    python -m tests.corpus --write    make it anew

    launches  programs that launch the sources for a profiler; counted compares what it counted
    measure   Access, Source: an access as a plain function of the thread, and its counts
    sgemm     eight versions of a column-major f32 product
    hgemm     six kernels of an f16 product on tensor cores
    sharing   samples that exchange data through shared memory: transposes, scans, reductions, sorts, ...
    tiles     samples of tiles: products, stencils, convolutions, attention, fragments, pipelines
    streams   samples that read and write global memory: copies, rows, gathers, records

The idea.  Every address is written down a second time, by hand, as a Python function of the linear thread
index and the loop counters; nothing of it is read from the source but the line of a piece of its text.
Counts are of block 0 and of all turns of the loops; an instruction counts where it has an active lane.  Where
a helper is called for several arrays, each has an entry of the helper's line.  `array` is the declared
object: a shared array, or a parameter of the kernel.
"""

from __future__ import annotations

from tests.corpus import hgemm, sgemm, sharing, streams, tiles
from tests.corpus.measure import Access, Source, expected, table

SOURCES: tuple[Source, ...] = (
    *sgemm.SOURCES, *hgemm.SOURCES, *sharing.SOURCES, *tiles.SOURCES, *streams.SOURCES,
)  # fmt: skip
"""All of them."""

__all__ = ["SOURCES", "Access", "Source", "expected", "table"]
