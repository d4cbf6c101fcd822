"""Sectors, half lines and lines that all requests touch together, and the bytes that memory moves for them.

The definition.  Every byte that an active lane of any request asks for is listed; a unit of 32, 64 or 128
bytes is touched if one of its bytes is, and whole if all of them are.

    32 lanes of 4 bytes, 12 apart, u = 32 bytes       0 12 24 36 48 ..      12 touched, 0 whole

The closed form.  Strides add up to runs of bytes at nested distances, a set that is written like a layout:

    first + [0, run) + digits (extent, step), each step at least the reach of what is inside it

    64 bytes of each of 1000 rows 400 bytes apart     first 0, run 64, digits (1000, 400)

A row at b and one at b + 400 differ by a shift of 400 mod u in their units.  So rows repeat after
u / gcd(400, u) of them, moved by whole units, and neighbours share at most the last unit of one and the first
of the next: a row is (units, whole ones inside, first unit and its bytes, last unit and its bytes), rows are
joined at their ends, which is associative, and n periods are joined by doubling.  Digits are joined from the
inside out, so that the work is a number of digits times u, and does not depend on extents.

>>> rows = Runs(0, 64, ((1000, 400),))
>>> [count_units(rows, unit) for unit in (32, 64, 128)]
[Units(touched=2500, whole=1500), Units(touched=1750, whole=250), Units(touched=1375, whole=0)]

Digits become nested by sorting.  Steps that fall onto others are one digit of more extent, (4, 128) and
(3, 384) are (10, 128), and steps within a run lengthen it.  What interleaves otherwise is listed, and so is
what has predicates or swizzles.

DRAM.  A sector that a warp asks for twice, or another warp beside it, comes from memory once; and memory
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

from collections import Counter
from collections.abc import Iterable, Sequence
from math import gcd, prod
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

from layoutalg.analysis.access import Access, TmaAccess, addressing
from layoutalg.analysis.enumerated import (
    access_extent,
    check_layout,
    instruction_offsets,
    lane_addresses,
    place_of,
)
from layoutalg.analysis.footprint import AccessStrides, find_footprint
from layoutalg.analysis.lanes import active_lanes
from layoutalg.analysis.report import DramReport, Method, Wanted, access_notes
from layoutalg.arch import DEFAULT_ARCH, DRAM_RULES, Arch, find_arch, find_instruction
from layoutalg.budget import Budget
from layoutalg.errors import ArgumentTypeError, UnsupportedError, listed, shown
from layoutalg.layout import AnyLayout
from layoutalg.optional import has_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

_BLOCK = 1 << 12


class Units(NamedTuple):
    """Units with a byte that is touched, and the `whole` ones, all of whose bytes are touched."""

    touched: int
    whole: int

    @property
    def partial(self) -> int:
        """Units that are touched and not whole."""
        return self.touched - self.whole


class Runs(NamedTuple):
    """The bytes first + [0, run) + sums of digits (extent, step), each step past the reach of those before.

    >>> Runs(0, 4, ((8, 12),)).reach
    88
    """

    first: int
    run: int
    digits: tuple[tuple[int, int], ...]

    @property
    def method(self) -> Method:
        """The name of the closed form."""
        return "digit-classes"

    @property
    def reach(self) -> int:
        """Bytes from the first to the last."""
        return self.run + sum((extent - 1) * step for extent, step in self.digits)

    @property
    def useful_bytes(self) -> int:
        """All bytes."""
        return self.run * prod(extent for extent, _ in self.digits)

    def units(self, unit_bytes: int) -> Units:
        """See `count_units`."""
        return count_units(self, unit_bytes)


class Touched(Protocol):
    """The bytes that all requests ask for, each once."""

    @property
    def method(self) -> Method:
        """The method that counted the bytes."""

    @property
    def useful_bytes(self) -> int:
        """The number of distinct bytes."""

    def units(self, unit_bytes: int) -> Units:
        """The units of `unit_bytes` bytes, 32 or a larger power of two, that the bytes touch and fill."""


def touched_by(
    layout: AnyLayout, accesses: Iterable[Access], machine: Arch, *, listed: bool = False
) -> Touched:
    """The bytes of all accesses together; with `listed`, the definition counts them in any case.

    Raises UndecidedError where they have to be listed and are more than the budget has, and as
    `instruction_offsets` does.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.layout import Layout
    >>> tile = Layout((1 << 20, 16), (100, 1))
    >>> found = touched_by(tile, [Access.of("ld.global.b128@row", tile, "f32")], ARCHS["sm_90"])
    >>> found.units(64), found.useful_bytes == 64 << 20, found.method
    (Units(touched=1835008, whole=262144), True, 'digit-classes')
    """
    all_accesses = list(accesses)
    runs = None if listed else runs_of(layout, all_accesses, machine)
    return listed_bytes(layout, all_accesses, machine) if runs is None else runs


# --- the definition ------------------------------------------------------------------------------------


class Listed(NamedTuple):
    """Bytes as the numbers of aligned groups of `grain` of them, in order."""

    grain: int
    numbers: NDArray[Any] | list[int]

    @property
    def method(self) -> Method:
        """By the definition."""
        return "enumerated"

    @property
    def useful_bytes(self) -> int:
        """All bytes."""
        return self.grain * len(self.numbers)

    def units(self, unit_bytes: int) -> Units:
        """Counted one by one."""
        per = unit_bytes // self.grain
        if isinstance(self.numbers, list):
            full = Counter(number // per for number in self.numbers)
            return Units(len(full), sum(n == per for n in full.values()))
        import numpy as np

        _, count = np.unique(self.numbers // per, return_counts=True)
        return Units(len(count), int((count == per).sum()))


def listed_bytes(layout: AnyLayout, accesses: Iterable[Access], machine: Arch) -> Listed:
    """The bytes of all addresses, one by one.  Raises as `touched_by` does.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.layout import Layout
    >>> tile = Layout((32, 3), (3, 1))
    >>> listed_bytes(tile, [Access.of("ld.global.b32@col", tile, "f32")], ARCHS["sm_90"]).units(64)
    Units(touched=6, whole=6)
    """
    all_accesses = list(accesses)
    rules = [find_instruction(access.op, machine) for access in all_accesses]
    grain = min([machine.sector_bytes, *(rule.width_bytes for rule in rules)])
    if not has_numpy():
        return Listed(grain, _one_by_one(layout, all_accesses, machine, grain))
    import numpy as np

    seen = [np.zeros(0, dtype=np.int64)]
    for access, rule in zip(all_accesses, rules, strict=True):
        counted = addressing(access, rule, machine)
        extent = access_extent(layout, counted, rule, machine)
        text = f"{access.op} on {layout}: listing the bytes of {extent.instructions} requests"
        budget = Budget(text.__str__)
        inside = np.arange(rule.width_bytes // grain)
        for start in range(0, extent.instructions, _BLOCK):
            numbers = np.arange(start, min(start + _BLOCK, extent.instructions))
            budget.spend(len(numbers) * machine.lanes * len(inside))
            addresses, mask = lane_addresses(layout, counted, rule, machine, extent, numbers)
            seen.append(np.unique((addresses[mask] // grain)[:, None] + inside))
    return Listed(grain, np.unique(np.concatenate(seen)))


def _one_by_one(layout: AnyLayout, accesses: list[Access], machine: Arch, grain: int) -> list[int]:
    """The same of every instruction in turn."""
    seen: set[int] = set()
    for access in accesses:
        rule = find_instruction(access.op, machine)
        counted = addressing(access, rule, machine)
        extent = access_extent(layout, counted, rule, machine)
        budget = Budget(f"{access.op} on {layout}: listing the bytes of its requests".__str__)
        for number in range(extent.instructions):
            budget.spend(machine.lanes)
            lanes = instruction_offsets(layout, counted, place_of(extent, number), machine)
            for _, address in active_lanes(rule, machine, lanes):
                seen.update(range(address // grain, (address + rule.width_bytes) // grain))
    return sorted(seen)


# --- the closed form -----------------------------------------------------------------------------------


def runs_of(layout: AnyLayout, accesses: Iterable[Access], machine: Arch) -> Runs | None:
    """The bytes that all requests ask for as nested runs; None where they are not, or not known to be.

    Raises as `find_footprint` does.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.layout import Layout
    >>> tile = Layout((8, 64), (100, 1))
    >>> runs_of(tile, [Access.of("ld.global.b128@row", tile, "f32")], ARCHS["sm_90"])
    Runs(first=0, run=256, digits=((8, 400),))
    """
    distinct_runs: set[Runs] = set()
    for access in accesses:
        rule = find_instruction(access.op, machine)
        counted = addressing(access, rule, machine)
        strides = None if access.active else find_footprint(layout, counted, rule, machine)
        runs = None if strides is None else _runs_of_strides(strides)
        if runs is None:
            return None
        distinct_runs.add(runs)
    return _together(distinct_runs)


def _runs_of_strides(strides: AccessStrides) -> Runs | None:
    """The bytes of one access."""
    if not strides.adds:
        return None
    first, digits = strides.byte(strides.offset), list[tuple[int, int]]()
    for extent, stride in (*strides.threads, *strides.registers, *strides.iterations):
        step, rest = divmod(stride * strides.bits, 8)
        if rest:
            return None
        first += min(0, (extent - 1) * step)
        digits.append((extent, abs(step)))
    return nested(first, strides.rule.width_bytes, digits)


def _together(distinct_runs: set[Runs]) -> Runs | None:
    """The union of runs that differ in where they begin, by equal steps."""
    if len({(runs.run, runs.digits) for runs in distinct_runs}) != 1:
        return None
    first, *others = sorted(distinct_runs)
    if not others:
        return first
    step = others[0].first - first.first
    if any(runs.first != first.first + (n + 1) * step for n, runs in enumerate(others)):
        return None
    return nested(first.first, first.run, (*first.digits, (len(distinct_runs), step)))


def nested(first: int, run: int, digits: Iterable[tuple[int, int]]) -> Runs | None:
    """Runs from digits (extent, step >= 0) in any order; None where they interleave.

    >>> nested(0, 16, [(4, 32), (2, 16), (16, 128)]), nested(0, 16, [(2, 56), (3, 64)])
    (Runs(first=0, run=2048, digits=()), None)
    """
    out: list[tuple[int, int]] = []
    reach = run
    for extent, step in sorted(digits, key=lambda digit: digit[1]):
        if extent == 1 or step == 0:
            continue
        if not out and step <= run:
            run += (extent - 1) * step
        elif out and step % out[-1][1] == 0 and step // out[-1][1] <= out[-1][0]:
            before, inner = out[-1]
            out[-1] = (before + (extent - 1) * (step // inner), inner)
        elif step >= reach:
            out.append((extent, step))
        else:
            return None
        reach = Runs(first, run, tuple(out)).reach
    return Runs(first, run, tuple(out))


class _Part(NamedTuple):
    """Units from the first to the last: their number, the whole ones between, and the bytes of both ends."""

    touched: int
    whole: int
    first: int
    first_bytes: int
    last: int
    last_bytes: int

    def moved(self, units: int) -> _Part:
        """The same part `units` units further."""
        return self._replace(first=self.first + units, last=self.last + units)


class _Joined:
    """The rule that joins parts, for one size of units; bytes of a unit are bits of a number."""

    def __init__(self, unit_bytes: int) -> None:
        self.unit = unit_bytes
        self.full = (1 << unit_bytes) - 1

    def run(self, start: int, length: int) -> _Part:
        """The part of bytes start .. start + length - 1, with start in the first unit."""
        last = (start + length - 1) // self.unit
        head = self.full & (self.full << start % self.unit)
        tail = self.full >> (self.unit - 1 - (start + length - 1) % self.unit)
        if last == start // self.unit:
            return _Part(1, 0, last, head & tail, last, head & tail)
        count = last - start // self.unit + 1
        return _Part(count, count - 2, start // self.unit, head, last, tail)

    def join(self, a: _Part, b: _Part) -> _Part:
        """Both parts; the second begins in the last unit of the first or behind it."""
        single_a, single_b = a.first == a.last, b.first == b.last
        if a.last < b.first:
            ends = (not single_a and a.last_bytes == self.full) + (
                not single_b and b.first_bytes == self.full
            )
            between = a.whole + b.whole + ends
            return _Part(a.touched + b.touched, between, a.first, a.first_bytes, b.last, b.last_bytes)
        both = a.last_bytes | b.first_bytes
        inner = not single_a and not single_b and both == self.full
        return _Part(
            a.touched + b.touched - 1,
            a.whole + b.whole + inner,
            a.first,
            both if single_a else a.first_bytes,
            b.last,
            both if single_b else b.last_bytes,
        )

    def repeat(self, part: _Part, times: int, step_units: int) -> _Part:
        """`times` copies, each `step_units` units behind the one before, joined by doubling."""
        if times == 1:
            return part
        half = self.repeat(part, times // 2, step_units)
        out = self.join(half, half.moved(times // 2 * step_units))
        return self.join(out, part.moved((times - 1) * step_units)) if times % 2 else out

    def whole(self, part: _Part) -> int:
        """All whole units, the ends among them."""
        ends = [part.first_bytes] if part.first == part.last else [part.first_bytes, part.last_bytes]
        return part.whole + ends.count(self.full)


def count_units(runs: Runs, unit_bytes: int) -> Units:
    """The units of `unit_bytes`, a power of two, that runs touch and fill.

    Equal to the definition: tests/analysis/test_memory.py.

    >>> count_units(Runs(16, 96, ()), 32)
    Units(touched=4, whole=2)
    """
    joined = _Joined(unit_bytes)
    known: dict[tuple[int, int], _Part] = {}

    def part(start: int, digits: Sequence[tuple[int, int]]) -> _Part:
        """The part of the runs with these digits, at a start inside the unit 0."""
        if (start, len(digits)) in known:
            return known[start, len(digits)]
        if not digits:
            out = joined.run(start, runs.run)
        else:
            *inner, (extent, step) = digits
            period = unit_bytes // gcd(step, unit_bytes)

            def row(n: int) -> _Part:
                units, rest = divmod(start + n * step, unit_bytes)
                return part(rest, inner).moved(units)

            def rows(first: int, count: int) -> _Part:
                out = row(first)
                for n in range(first + 1, first + count):
                    out = joined.join(out, row(n))
                return out

            periods, rest = divmod(extent, period)
            if periods:
                out = joined.repeat(rows(0, period), periods, period * step // unit_bytes)
                out = joined.join(out, rows(periods * period, rest)) if rest else out
            else:
                out = rows(0, extent)
        known[start, len(digits)] = out
        return out

    total = part(runs.first % unit_bytes, runs.digits)
    return Units(total.touched, joined.whole(total))


FILLS = (32, 64, 128, 256)
"""The bytes that loads may bring at once."""


def dram_of(
    layout: AnyLayout,
    accesses: Access | TmaAccess | Iterable[Access],
    arch: str | Arch = DEFAULT_ARCH,
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
