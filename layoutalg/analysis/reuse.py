"""The sectors of several requests together: a sector that is read again is served by the L1, not by memory.

The idea.  An access is counted request by request, and each request alone may look wasteful.  A warp that
reads an RGB picture in NHWC order, one byte per lane and channel, asks three times for 96 bytes:

    requests     R: 0 3 6 .. 93     G: 1 4 7 .. 94     B: 2 5 8 .. 95      bytes
    sectors      3                  3                  3                   9 asked
                 0 1 2              0 1 2              0 1 2               3 different: memory sees 3

`reuse_of` counts the sectors that a list of accesses asks for, a loop body or an unrolled loop, and how many
of them differ.  The latter is what memory must deliver; the rest hits the L1 as far as it still holds them.

>>> from layoutalg.dtype import dtype
>>> from layoutalg.layout import Layout
>>> pixels = Layout((32, 3), (3, 1))
>>> channels = Access("ld.global.b8", Layout((32, 3), (1, 32)), dtype("u8"))
>>> print(reuse_of(pixels, [channels]))
3 requests ask for 9 sectors, 3 of them different: 6 can be served by the L1.

Notes.  The different ones are counted in closed form where strides nest, and listed otherwise, under
predicates and under swizzles (layoutalg.analysis.memory.units).  That the L1 keeps what it holds until it is
asked again is assumed: a bound from below for memory, as the sectors asked are one from above.

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; Nsight Compute, sectors of L1 and
of L2.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from layoutalg.analysis.access import Access
from layoutalg.analysis.analyzer import Wanted, analyze_access
from layoutalg.analysis.memory.units import touched_by
from layoutalg.analysis.report import GlobalReport, Method
from layoutalg.arch import Arch, find_arch
from layoutalg.errors import ArgumentTypeError, UnsupportedError, listed, shown
from layoutalg.layout import AnyLayout


@dataclass(frozen=True, slots=True)
class Reuse:
    """The sectors that `requests` ask for, each counted alone, and the `different` ones among them."""

    requests: int
    asked: int
    different: int
    sector_bytes: int
    method: Method

    @property
    def again(self) -> int:
        """Sectors that are read again, which the L1 can serve."""
        return self.asked - self.different

    def __str__(self) -> str:
        served = f"{self.again:,} can be served by the L1" if self.again else "none is asked for twice"
        return (
            f"{self.requests:,} requests ask for {self.asked:,} sectors, {self.different:,} of them "
            f"different: {served}."
        )


def reuse_of(
    layout: AnyLayout,
    accesses: Iterable[Access],
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
) -> Reuse:
    """The sectors that accesses of global memory ask for together, all warps, registers and iterations.

    `method` is "auto" or "enumerated".  Raises ArgumentTypeError where there is no access or one of shared
    memory, UnsupportedError for another method, and what `analyze_access` raises.

    >>> from layoutalg.layout import Layout
    >>> rows = Layout((64, 64), (64, 1))
    >>> twice = [Access.of(f"ld.global.b32@{way}", rows, "f32") for way in ("row", "col")]
    >>> found = reuse_of(rows, twice)
    >>> found.asked, found.different, found.method
    (4608, 512, 'digit-classes')
    """
    machine, all_accesses = find_arch(arch), listed("reuse_of", accesses, "a list of accesses")
    if not isinstance(method, str) or method not in ("auto", "enumerated"):
        raise UnsupportedError(f"sectors asked twice are counted by 'auto' or 'enumerated': {shown(method)}")
    reports = [analyze_access(layout, access, machine) for access in all_accesses]
    moved = [report for report in reports if isinstance(report, GlobalReport)]
    if not all_accesses or len(moved) < len(all_accesses):
        raise ArgumentTypeError(
            "sectors are asked for again by accesses of global memory; one or more are needed"
        )
    requests, total = sum(r.instructions for r in moved), sum(r.sectors for r in moved)
    touched = touched_by(layout, all_accesses, machine, listed=method == "enumerated")
    different = touched.units(machine.sector_bytes).touched
    return Reuse(requests, total, different, machine.sector_bytes, touched.method)
