"""The CUDA sources of tests/data/sources and what each of their accesses costs, counted lane by lane.

    python -m tests.corpus            compare tests/data/sources/expected.json with the enumeration
    python -m tests.corpus --write    make it anew

    accesses.txt  every access as a function of the thread and the loop counters
    measure       Access, Source: how that is read, and what it costs
    launches      programs that launch the sources for a profiler; counted compares what it counted

The idea.  Every address is written down a second time, by hand, as an expression of the linear thread
index and the loop counters; nothing of it is read from the source but the line of a piece of its text.
Counts are of block 0 and of all turns of the loops; an instruction counts where it has an active lane.  Where
a helper is called for several arrays, each has an entry of the helper's line.  `array` is the declared
object: a shared array, or a parameter of the kernel.
"""

from __future__ import annotations

from pathlib import Path

from tests.corpus.measure import Access, Source, expected, read

SOURCES = tuple(read((Path(__file__).parent / "accesses.txt").read_text(encoding="utf-8")))
"""All of them."""

__all__ = ["SOURCES", "Access", "Source", "expected"]
