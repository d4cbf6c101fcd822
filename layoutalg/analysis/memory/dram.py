"""Bytes that memory moves for all requests: half lines that loads fill, sectors that stores write.

The idea.  A sector that a warp asks for twice, or another warp beside it, comes from memory once; and memory
does not move sectors alone.  On an H200 a load that misses the L2 brings the half line of 64 bytes that holds
its sector, so that what counts is not sectors but half lines, over all requests together:

    16 bytes per lane                   sectors    half lines    bytes read for 512 useful ones
    contiguous                               16             8     512
    one sector in each half of 8 lines       16            16    1024
    one sector in each of 16 lines           16            16    1024
    half a sector in each of 32 lines        32            32    2048

What is stored is written back by sectors, and a sector that stores do not fill is read first:

    contiguous                               16                   512 written
    one sector in each of 16 lines           16                   512
    half a sector in each of 32 lines        32                  1024, and 1024 read

>>> from layoutalg.layout import Layout
>>> slab = Layout((1 << 16, 8), (1024, 1))
>>> print(dram_of(slab, [Access.of("ld.global.b128@row", slab, "f32")]))
DRAM
access          sectors  partial  halves   lines       read  written         method
───────────────────────────────────────────────────────────────────────────────────
ld.global.b128   65,536        0  65,536  65,536  4,194,304        0  digit-classes
<BLANKLINE>
ld.global.b128: 4,194,304 bytes read and 0 written for 2,097,152 useful ones, 50.0%.

Notes.  Counted on an H200 (tests/data/h200_dram.jsonl): patterns that touch a gigabyte move what is said to
0.2 %, lines aside that were dirty before.  The half line is the L2's fetch granularity, which a program may
set (cudaLimitMaxL2FetchGranularity, 64 by itself): at 32 memory delivers sectors, at 128 lines, and so do
loads with .L2::128B.  What fills a sector later comes in time if it comes from neighbouring warps, but for
one or two in a hundred; of sectors that the same threads fill in eight steps, one in four was written back
before (st_sectors_by_steps).  Nothing is said of time: docs/measured.md has what the patterns took.

Source: CUDA C++ Programming Guide, cudaLimitMaxL2FetchGranularity; PTX ISA, ld, .level::prefetch_size.
"""

from __future__ import annotations

from collections.abc import Iterable

from layoutalg.analysis.access import Access, TmaAccess
from layoutalg.analysis.analyzer import Wanted, check_layout
from layoutalg.analysis.enumerated import access_extent
from layoutalg.analysis.memory.units import touched_by
from layoutalg.analysis.report import DramReport, access_notes
from layoutalg.arch import DRAM_RULES, Arch, find_arch, find_instruction
from layoutalg.errors import ArgumentTypeError, UnsupportedError, listed, shown
from layoutalg.layout import AnyLayout

FILLS = (32, 64, 128, 256)
"""The bytes that loads may bring at once."""


def dram_of(
    layout: AnyLayout,
    accesses: Access | TmaAccess | Iterable[Access],
    arch: str | Arch = "sm_90",
    method: Wanted = "auto",
    *,
    fill_bytes: int | None = None,
) -> DramReport:
    """The traffic of memory for an access, or several of one kind together, where the L2 holds none of it.

    All load, or all store.  `method` is "auto", "digit-classes" (the closed form) or "enumerated".
    `fill_bytes` is the bytes that a load brings where a program overrides the default of the device:
    32, 64 or 128 by cudaLimitMaxL2FetchGranularity, 128 by .L2::128B, 256, nearly always, by .L2::256B.

    Raises ArgumentTypeError for no access, for one of shared memory, and for loads with stores;
    UnsupportedError for an architecture where this was not counted (`layoutalg.arch.DRAM_RULES`), other
    `fill_bytes` and a method that does not apply; UndecidedError where bytes must be listed and are too many;
    and as `analyze_access` does.

    >>> from layoutalg.layout import Layout
    >>> rows = Layout((4096, 24), (100, 1))
    >>> found = dram_of(rows, Access.of("st.global.b32@row", rows, "f32"))
    >>> found.sectors, found.partial, found.written_bytes
    (14336, 4096, 458752)
    """
    machine = find_arch(arch)
    items = [accesses] if isinstance(accesses, Access) else listed("dram_of", accesses, "a list of accesses")
    chosen = [access for access in items if isinstance(access, Access)]
    if machine.name not in DRAM_RULES:
        raise UnsupportedError(
            f"what the memory of {machine.name} moves at once was not counted; {', '.join(DRAM_RULES)} was"
        )
    if not isinstance(method, str) or method not in ("auto", "digit-classes", "enumerated"):
        raise UnsupportedError(
            f"bytes of memory are counted by 'auto', 'digit-classes' or 'enumerated', not {shown(method)}"
        )
    if not chosen or len(chosen) < len(items):
        raise ArgumentTypeError("memory moves bytes for accesses of lanes; one or more are needed")
    check_layout(layout)
    if fill_bytes not in (None, *FILLS):
        raise UnsupportedError(
            f"loads that bring {shown(fill_bytes)} bytes: {', '.join(map(str, FILLS))} are accepted"
        )
    rules, touching = DRAM_RULES[machine.name], [find_instruction(access.op, machine) for access in chosen]
    stores = {rule.name.startswith("st.") for rule in touching}
    if any(rule.space != "global" for rule in touching) or len(stores) > 1:
        raise ArgumentTypeError(
            f"memory moves bytes for accesses of global memory that all load, or all store; given are "
            f"{', '.join(access.op for access in chosen)}"
        )
    requests = sum(
        access_extent(layout, access, rule, machine).instructions
        for access, rule in zip(chosen, touching, strict=True)
    )
    touched = touched_by(layout, chosen, machine, listed=method == "enumerated")
    if method == "digit-classes" and touched.method != method:
        raise UnsupportedError(
            f"method 'digit-classes' does not apply to {chosen[0].op} with tv {chosen[0].tv} on {layout}; "
            f"'auto' lists its bytes"
        )
    sectors, halves, lines = (touched.units(n) for n in (machine.sector_bytes, 64, machine.line_bytes))
    fill = rules.fill_bytes if fill_bytes is None else fill_bytes
    read = fill * touched.units(fill).touched
    written = partial = 0
    if True in stores:
        partial = sectors.partial
        read = rules.merge_bytes * partial
        written = rules.written_bytes * touched.units(rules.written_bytes).touched
    notes = dict.fromkeys(
        note
        for access, rule in zip(chosen, touching, strict=True)
        for note in access_notes(rule, machine, access.element, layout)
    )
    ops = ", ".join(dict.fromkeys(access.op for access in chosen))
    return DramReport(
        ops, requests, sectors.touched, halves.touched, lines.touched, partial, touched.useful_bytes, read,
        written, touched.method, rules.provenance, tuple(notes),
    )  # fmt: skip
