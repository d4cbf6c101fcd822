"""Packed kernels: tiles of runs that hold whole groups of what is reduced together, and who takes which.

A tile.  Groups that lie close together, one behind the other, are not loaded by a thread each: a block copies
runs of many groups as one stream of 16-byte units, and its threads find their elements in shared memory.

    softmax (9000,10) f32 over 1          a slab is a row of 10; 256 of them are a run of 640 units
    max (500,3,4) bf16 over 1             a slab is 3 x 4 elements, 4 groups side by side
    sum (75,900,4) f32 over 0,2           a slab is 4 elements, and a group has one in each of 75 runs

A slab is a dense tensor of the first modes, some of them reduced; a run is `slabs` of them, along the mode
that follows.  Of what is reduced beyond that mode a tile has all, as many runs.  A walk inside of a tile is a
walk over a tensor of its own, so that all coordinates are those of `Walk`; only where a tile starts is a
matter of the block.

    tile (R 10:1, K 256:10)               element = 10 row + e, in shared memory
    tile 3                                starts at element 3 * 2560 in memory

Notes.  Where a run does not start at a unit, it has the same place in its first unit of shared memory.  Runs
of a tile may start at different places of a unit: then they lie so far apart in shared memory as in memory,
modulo a unit, and one inner product still says where an element is.

    layer norm (1710,2,454,19,3) f32 over 1,3     runs 25878 elements apart, which is 2 past a unit of 4:
                                                  in shared memory 2396 + 2 for runs of 42 x 57

The choice.  Memory is read and written in whole lines whatever the rows are, so what is left to choose is how
little the rest costs: instructions, most of them for what is done once per group and thread, and wavefronts
of shared memory.  Few lanes per group make both rare; many make enough threads.  Candidates are few:

    vec        elements of an access to shared memory, where rows start and end at so many
    lanes      threads that share a group, a power of two
    rows       groups of a block at once
    turns      groups of a thread, one after the other

    time = launch + |(memory, issue, shared, waiting)|_3, see `model`

    memory     bytes by the memory's bandwidth; of several runs, one of n bytes counts as n + run_bytes
    issue      instructions of all warps, four per cycle on every multiprocessor
    shared     wavefronts of all accesses to shared memory, one per cycle
    waiting    waves of blocks x the latency of a block, which grows with its turns, and with what a thread
               reads again and again as its registers do not hold it

Notes.  The numbers of `PackedRates` were fitted to 700 kernels timed on an H200: half of them are within 4 %,
nine in ten within 14 %.  They choose among candidates; they are not a bound from below.  `read_us` is of one
kernel alone: layer norm of 22x8x491x243 f32 over modes 0 and 3, 168 accesses per thread, took 95 us where 43
were expected without it (tests/gpu/ragged_rows, seed 20261131).
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from math import gcd, log2, prod
from typing import NamedTuple

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.expr import as_expr
from layoutalg.dtype import DType
from layoutalg.errors import LayoutAlgError, ResourceError, UnsupportedError
from layoutalg.kernels.model import Machine, Work, time_us
from layoutalg.kernels.rowwise.tensors import Form, Mode
from layoutalg.kernels.rowwise.unaligned import HeadTail
from layoutalg.kernels.rowwise.walk import (
    VECTOR_BYTES,
    WARP,
    WORD_BYTES,
    Crd,
    Index,
    Tiling,
    coordinate,
    one_phase,
)

RUN_BYTES = 100 << 10
"""The most shared memory of a block that copies runs: two blocks fit on a multiprocessor."""


class Slabs(NamedTuple):
    """The slabs of a form: the modes inside a slab, the mode that counts slabs, and the modes beyond it.

    Modes of `outer` are kept, and count tiles; those of `beyond` are reduced, and count the runs of a tile.
    """

    inside: tuple[Mode, ...]
    along: Mode
    outer: tuple[Mode, ...]
    beyond: tuple[Mode, ...]

    @property
    def elems(self) -> int:
        """Elements of a slab."""
        return prod(m.extent for m in self.inside)

    @property
    def groups(self) -> int:
        """Groups of a slab: what is kept inside of it."""
        return prod(m.extent for m in self.inside if not m.reduced)

    @property
    def runs(self) -> int:
        """Runs of a tile."""
        return prod(m.extent for m in self.beyond)


def slabs_of(form: Form, elems: int, groups: int, *, both: bool) -> Slabs | None:
    """The slabs of a form: the largest with at most `groups` groups, and `elems` elements in a tile.

    None where there are none.  `both`: they lie in the destination as in the source.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> found = slabs_of(normalise(axes_problem((500, 3, 4), 1, "bf16")), 1024, 64, both=False)
    >>> found.elems, found.groups, found.along.extent
    (12, 4, 500)
    """
    for found in reversed(list(_in_slabs(form, both=both))):
        if found.elems * found.runs <= elems and found.groups <= groups:
            return found
    return None


def _in_slabs(form: Form, *, both: bool) -> Iterator[Slabs]:
    """All ways in which a form lies in slabs, the smallest slabs first."""
    step = 1
    for n, m in enumerate(form.modes):
        if m.src != step or (both and m.dst != step):
            return
        inside, rest = form.modes[:n], form.modes[n + 1 :]
        if not m.reduced and any(x.reduced for x in inside):
            kept = tuple(x for x in rest if not x.reduced)
            yield Slabs(inside, m, kept, tuple(x for x in rest if x.reduced))
        step *= m.extent


def unit_of(form: Form, element: DType, *, both: bool) -> int:
    """Elements of the widest unit that copies of runs can have: 16 bytes, or 8 or 4; 0 where there is none.

    `both`: a place in a unit of the source is that in one of the destination.
    """
    unit = VECTOR_BYTES // element.nbytes
    while unit and both and not one_phase(form, unit):
        unit //= 2
    return unit if unit * element.nbytes >= WORD_BYTES else 0


class Start(NamedTuple):
    """The start of the first run of a tile in source and destination.

    `slab` is the number of its first slab along the mode that counts them, `outer` the coordinate of the kept
    modes beyond.
    """

    source: Index
    target: Index
    slab: Index
    outer: Crd


class Unit(NamedTuple):
    """A unit of a run: its number there, and its first element in shared memory, source and destination.

    `low` is the place of the run's first element in the first unit of the run.
    """

    number: Index
    low: Index
    copied: Index
    source: Index
    target: Index


@dataclass(frozen=True)
class PackedWalk(HeadTail):
    """The walk of a block over the groups of its tile; `form` is that of a tile, `whole` that of the tensor.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> x = normalise(axes_problem((9000, 10), 1, "f32", keeps=True))
    >>> w = packed_walk(x, Tiling(dtype("f32"), 1, 128, 2, 1, 2), both=True)
    >>> w.slabs, w.tiles, w.run_elems, w.start(3).source, w.chunk(w.bases(5), 3).source
    (256, 36, 2560, 7680, 53)
    """

    whole: Form
    parts: Slabs
    unit: int

    @property
    def slabs(self) -> int:
        """Slabs of a run."""
        return self.form.modes[len(self.parts.inside)].extent

    @property
    def run_elems(self) -> int:
        """Elements of a run."""
        return self.slabs * self.parts.elems

    @property
    def tiles_along(self) -> int:
        """Tiles along the mode that counts slabs."""
        return (self.parts.along.extent + (self.slabs - 1)) // self.slabs

    @cached_property
    def tiles(self) -> int:
        """Tiles of the tensor."""
        return self.tiles_along * prod(m.extent for m in self.parts.outer)

    @property
    def ends_short(self) -> bool:
        """True when the last run along the mode that counts slabs has fewer."""
        return not as_expr(self.parts.along.extent).facts.divisible_by(self.slabs)

    @property
    def filled(self) -> bool:
        """True when the slabs that a last run is short of are zeros: their number is not known before."""
        return not isinstance(self.parts.along.extent, int)

    @cached_property
    def starts_at_units(self) -> bool:
        """True when every run starts at a unit."""
        return _starts_at_units(self.whole, self.parts, self.slabs, self.unit)

    @property
    def source_end(self) -> int:
        """The end of the source: the place behind its last element."""
        along, others = self.parts.along, (m for m in self.whole.modes if m is not self.parts.along)
        end = self.whole.src_offset + 1 + sum((m.extent - 1) * m.src for m in others)
        return along.extent * along.src + (end - along.src)

    @cached_property
    def shifted(self) -> bool:
        """True when the runs of a tile start at different places of a unit."""
        return any(m.src % self.unit for m in self.parts.beyond)

    @property
    def held(self) -> tuple[Mode, ...]:
        """The modes that count runs, as runs lie in shared memory."""
        return self.form.modes[len(self.parts.inside) + 1 :]

    @property
    def units(self) -> int:
        """Units that a run touches, at most: at least so many lie between two runs in shared memory."""
        return _units(self.run_elems, self.unit, starts=self.starts_at_units)

    @property
    def all_units(self) -> int:
        """Units of all runs."""
        return self.units * self.parts.runs

    @property
    def shared_bytes(self) -> int:
        """Bytes of shared memory that hold a tile."""
        before = sum((m.extent - 1) * m.src for m in self.held) + (self.unit - 1 if self.shifted else 0)
        return (before // self.unit + self.units) * self.unit * self.tiling.element.nbytes

    def place(self, tile: Index, row: Index, n: Index = 0) -> Index:
        """Group n of a thread's, among those of the tile."""
        return super().place(0, row, n)

    def start(self, tile: Index) -> Start:
        """The start of a tile."""
        parts, whole = self.parts, self.whole
        number, *crd = coordinate((self.tiles_along, *(m.extent for m in parts.outer)), tile)
        slab = number * self.slabs
        source, target = slab * parts.elems + whole.src_offset, slab * parts.elems + whole.dst_offset
        for i, m in zip(crd, parts.outer, strict=True):
            source, target = source + i * m.src, target + i * m.dst
        return Start(source, target, slab, tuple(crd))

    def unit_at(self, start: Start, low: Index, unit: Index) -> Unit:
        """A unit of those of all runs: the first one has its first element at `low`.

        Where tiles do not start at units, `start` is that of the first unit instead.
        """
        n, source, target, size = unit, start.source, start.target, self.unit
        if not self.parts.beyond:
            return Unit(n, low, n * size, source + n * size, target + n * size)
        crd, n = coordinate(tuple(m.extent for m in self.parts.beyond), unit // self.units), unit % self.units
        steps = [(m.src, m.dst, at.src) for m, at in zip(self.parts.beyond, self.held, strict=True)]
        further = [sum((i * d[k] for i, d in zip(crd, steps, strict=True)), start=0) for k in range(3)]
        if not self.shifted:
            return Unit(
                n, low, unit * size, source + further[0] + n * size, target + further[1] + n * size
            )  # fmt: skip
        source, target, copied = (
            (at + more + low) // size * size + n * size
            for at, more in zip((source, target, 0), further, strict=True)
        )
        return Unit(n, (further[2] + low) % size, copied, source, target)

    def group(self, start: Start, place: Index) -> Crd:
        """The coordinate of a group of the tile among the kept modes of the tensor."""
        *inside, slab = coordinate(self.row_extents, place)
        return (*inside, start.slab + slab, *start.outer)

    # --- what there is ---------------------------------------------------------------------------------

    def present(self, start: Start, place: Index, *, exact: bool = True) -> tuple[Index, ...]:
        """The predicates that a thread's group is one of the tile, which may have fewer than threads take, or
        unless `exact` one of the zeros that fill it."""
        groups, t = self.parts.groups, self.tiling
        found = [place < self.places] if self.places < t.rows_per_block * t.rows_per_thread else []
        if self.ends_short and (exact or not self.filled):
            found.append(start.slab + place // groups < self.parts.along.extent)
        return tuple(found)

    def touched(self, start: Start, low: Index, unit: Index) -> tuple[Index, ...]:
        """The predicates that a unit holds an element of its run, which starts at `low` in its first unit."""
        at, elems = unit * self.unit, self.parts.elems
        found = [] if self.starts_at_units else [at < low + self.run_elems]
        if self.ends_short and not self.filled:
            found.append(start.slab * elems + at < low + self.parts.along.extent * elems)
        return tuple(found)

    def in_run(self, start: Start, low: Index, at: Index, count: int = 1) -> tuple[Index, ...]:
        """The predicates that the `count` elements from `at` on in shared memory are all of their run."""
        elems = self.parts.elems
        found = [at >= low, at + count <= low + self.run_elems]
        if self.starts_at_units:
            found = found[1:] if self.run_elems % self.unit else []
        if self.ends_short:
            found.append(start.slab * elems + at + count <= low + self.parts.along.extent * elems)
        return tuple(found)


def _starts_at_units(form: Form, parts: Slabs, slabs: int, unit: int) -> bool:
    steps = [form.src_offset, *(m.src for m in (*parts.outer, *parts.beyond))]
    steps += [slabs * parts.elems] if slabs < as_expr(parts.along.extent).facts.hi else []
    return not any(step % unit for step in steps)


def _units(elems: int, unit: int, *, starts: bool) -> int:
    return -(-(elems + (0 if starts else unit - 1)) // unit)


def packed_walk(form: Form, tiling: Tiling, *, both: bool) -> PackedWalk:
    """The walk of a tiling over the slabs of a form; runs start at units where they have slabs enough.

    Raises UnsupportedError where groups do not lie in slabs, rows do not start at so many elements, or source
    and destination lie in different units, and ResourceError for more than RUN_BYTES of shared memory.
    """
    element, most = tiling.element, RUN_BYTES // tiling.element.nbytes
    form = replace(form, modes=tuple(sorted(form.modes, key=lambda m: m.src)))
    groups = tiling.rows_per_block * tiling.rows_per_thread
    parts = slabs_of(form, most, groups, both=both)
    if parts is None:
        raise UnsupportedError(
            f"runs of {form}: groups do not lie in slabs of at most {most} elements and {groups} groups"
        )
    ends = [form.lead.extent, form.src_offset, *(m.src for m in (*parts.outer, *parts.beyond))]
    if tiling.vec > 1 and (not form.lead.reduced or any(end % tiling.vec for end in ends)):
        raise UnsupportedError(f"runs of {form}: not all rows start and end at {tiling.vec} elements")
    unit = unit_of(form, element, both=both)
    if not unit or unit % tiling.vec:
        raise UnsupportedError(f"runs of {form}: they start at different places of a unit")
    slabs = min(as_expr(parts.along.extent).facts.hi, groups // parts.groups)
    grain = unit // gcd(unit, parts.elems)
    slabs = slabs // grain * grain or slabs
    starts = _starts_at_units(form, parts, slabs, unit)
    pitch = _units(slabs * parts.elems, unit, starts=starts) * unit
    modes = [*parts.inside, replace(parts.along, extent=slabs)]
    for m in parts.beyond:
        pitch += (m.src - pitch) % unit
        modes.append(replace(m, src=pitch, dst=pitch))
        pitch *= m.extent
    walk = PackedWalk(Form(tuple(modes), 0, 0), tiling, form, parts, unit)
    if walk.shared_bytes > RUN_BYTES:
        raise ResourceError(f"bytes of shared memory, runs of {slabs} slabs", walk.shared_bytes, RUN_BYTES)
    return walk


SHORT_ROW_BYTES, LONG_ROW_BYTES = 256, 1 << 10
"""The bytes below which rows of whole vectors, and up to which others, may be copied by runs."""

TILES = (
    (64, 4 << 10), (64, 8 << 10), (128, 8 << 10), (128, 16 << 10), (256, 16 << 10), (256, 32 << 10),
    (256, 64 << 10),
)  # fmt: skip
"""The threads of a block and the approximate bytes of its tile, for each tile that is tried."""

MOST_WORDS = 32
"""The most registers of a thread that hold elements of a group."""


@dataclass(frozen=True, slots=True)
class PackedRates:
    """The rates of a GPU in the model, and the instruction counts of a packed kernel.

    A warp's turn takes `turn` instructions, `lane` more for every halving of an exchange, `access` for each
    access and `element` for each element of it, `narrow` more for an element that has to be widened.
    """

    turn: float
    lane: float
    access: float
    element: float
    narrow: float
    turn_us: float
    passes: float
    """The accesses to shared memory per element, beside those of the copies."""
    copies: float
    read_us: float = 0.0
    """The wait for an access, in all passes, of a thread that does not hold its elements in registers."""


BLOCK_US, RUN_BYTES_BESIDE = 0.9, 60.0
"""Microseconds of a block beside its turns, and bytes that a run costs the memory beside its own."""

NORM, REDUCTION = (
    PackedRates(
        turn=11, lane=10, access=2.8, element=14.5, narrow=1.6, turn_us=0.28, passes=2, copies=2, read_us=0.14
    ),
    PackedRates(turn=4, lane=5, access=4.4, element=0, narrow=0.85, turn_us=0.09, passes=1, copies=1),
)
"""Instructions, microseconds and passes of norms, and of reductions."""


def walks(form: Form, element: DType, *, both: bool) -> Iterator[PackedWalk]:
    """Yield the walks of the divisions that are tried for a form, and fit.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> x = normalise(axes_problem((9000, 10), 1, "f32"))
    >>> sorted({walk.tiling.lanes for walk in walks(x, dtype("f32"), both=False)})
    [1, 2, 4]
    """
    lead = min(form.modes, key=lambda m: m.src, default=None)
    if lead is None:
        return
    widest = VECTOR_BYTES // element.nbytes if lead.reduced else 1
    for vec in (v for v in (1, 2, 4, 8) if v <= widest and lead.extent % v == 0):
        steps = form.count // vec
        for lanes in (n for n in (1, 2, 4, 8, 16, 32) if n == 1 or 2 * n <= steps):
            if lanes < WARP and lanes * 4 * MOST_WORDS < steps * max(1, vec * element.nbytes // WORD_BYTES):
                continue
            tried = {(t // lanes, max(1, n // (t // lanes * form.count * element.nbytes))) for t, n in TILES}
            for rows, turns in sorted(tried):
                if turns > 1 and rows * (turns // 2) >= form.outputs:
                    continue
                with suppress(LayoutAlgError):
                    yield packed_walk(form, Tiling(element, vec, rows, lanes, 1, turns), both=both)


class Ranked(NamedTuple):
    """A walk that fits, its time by the model, and whether its threads hold their elements in registers."""

    us: float
    held: bool
    walk: PackedWalk


def ranked(
    form: Form, element: DType, rates: PackedRates, m: Machine, moved_bytes: int, room: int
) -> list[Ranked]:
    """The ways that fit into at most `room` bytes of shared memory per block, the fastest first.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.model import machine_of
    >>> from layoutalg.kernels.rowwise.tensors import axes_problem, normalise
    >>> x = normalise(axes_problem((1 << 20, 10), 1, "f32", keeps=True))
    >>> best = ranked(x, dtype("f32"), NORM, machine_of("sm_90"), 80 << 20, 100 << 10)[0]
    >>> best.walk.tiling.lanes, best.held
    (1, True)
    """
    found = []
    for walk in walks(form, element, both=rates.copies > 1):
        if walk.shared_bytes <= room:
            held = -(-walk.steps // walk.tiling.lanes) * walk.tiling.words <= MOST_WORDS
            found.append(Ranked(packed_us(walk, rates, m, moved_bytes, held=held), held, walk))
    return sorted(found, key=lambda one: one.us)


def packed_us(
    walk: PackedWalk, rates: PackedRates, m: Machine, moved_bytes: int, *, held: bool = True
) -> float:
    """The time that the model gives a packed kernel, in microseconds.

    `held`: a thread holds its part of a group in registers; else it reads shared memory at each step.
    """
    t, size = walk.tiling, walk.tiling.element.nbytes
    accesses = -(-walk.steps // t.lanes)
    once = rates.turn + rates.lane * log2(t.lanes)
    each = rates.access + t.vec * (rates.element + (rates.narrow if size < WORD_BYTES else 0))
    turns = walk.tiles * t.rows_per_thread * t.threads / WARP
    instructions = turns * (once + accesses * each * (1 if held else 1.5))
    waves = _waves(walk.form, t.lanes, t.vec, t.element)
    copied = walk.tiles * walk.all_units * walk.unit * size / 128
    shared = turns * accesses * waves * rates.passes * (1 if held else 2) + copied * rates.copies
    run = walk.run_elems * size
    alone = RUN_BYTES_BESIDE / run if walk.parts.runs > 1 else 0.0
    blocks = _resident(walk, find_arch(m.arch), accesses * max(1, t.nbytes // WORD_BYTES) if held else 8)
    turn_us = rates.turn_us + (0 if held else rates.read_us * accesses)
    idle = m.sms / min(m.sms, walk.tiles)  # multiprocessors without a block issue nothing
    work = Work(
        moved_bytes * (1 + alone), instructions * idle, shared * idle,
        walk.tiles, m.sms * blocks, BLOCK_US + turn_us * t.rows_per_thread,
    )  # fmt: skip
    return time_us(work, m)


def _resident(walk: PackedWalk, chip: Arch, words: float) -> int:
    """Blocks that run on a multiprocessor at once, by threads, shared memory and about how many registers."""
    t = walk.tiling
    by_threads = min(chip.max_blocks_per_sm, chip.max_warps_per_sm * WARP // t.threads)
    by_registers = int(chip.registers_per_sm // ((24 + 1.5 * words) * t.threads))
    nbytes = walk.shared_bytes + chip.reserved_shared_bytes_per_block
    return max(1, min(by_threads, by_registers, chip.shared_bytes_per_sm // nbytes))


@lru_cache(256)
def _waves(run: Form, lanes: int, vec: int, element: DType) -> int:
    """Wavefronts of a warp's first access to the elements of its groups, in a tile of a form."""
    kept, reduced = run.kept, run.reduced
    size, per = element.nbytes, vec if run.lead.reduced else 1
    return wavefronts(
        [
            (along(kept, lane // lanes) + along(reduced, lane % lanes * per)) * size
            for lane in range(min(WARP, lanes * run.outputs))
        ],
        vec * size,
    )


def along(modes: tuple[Mode, ...], index: int) -> int:
    """The distance in elements from the first coordinate of modes to number `index`."""
    found = 0
    for m in modes:
        index, at = divmod(index, m.extent)
        found += at * m.src
    return found


def wavefronts(offsets: list[int], nbytes: int) -> int:
    """Wavefronts of a warp's access to shared memory of `nbytes` per lane: what `analysis.wavefronts` counts.

    >>> wavefronts([40 * lane for lane in range(32)], 4)
    2
    """
    together, most = WARP // max(1, nbytes // WORD_BYTES), 0
    for first in range(0, len(offsets), together):
        banks: dict[int, set[int]] = {}
        for offset in offsets[first : first + together]:
            for word in range(offset // WORD_BYTES, (offset + nbytes - 1) // WORD_BYTES + 1):
                banks.setdefault(word % WARP, set()).add(word)
        most += max(map(len, banks.values()), default=0)
    return most
