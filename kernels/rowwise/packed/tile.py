"""The tile of a packed kernel: a run of memory that holds whole groups of what is reduced together.

The idea.  Groups whose elements lie close together, and one behind the other, are no business of a thread's
loads: a block copies a run of many groups as one stream of 16-byte units, and its threads find their elements
in shared memory.

    softmax (9000,10) f32 over 1          a slab is a row of 10; 256 of them are a run of 640 units
    max (500,3,4) bf16 over 1             a slab is 3 x 4 elements, 4 groups side by side

A slab is what lies between the first and the last element of a group: the modes up to the last reduced one,
without gaps.  A run is `slabs` of them, less at the end of the mode that counts them, or of what is one such
mode of several.  A walk inside of a run is a walk over a tensor of its own, the slabs of one run, so that all
coordinates are those of `Walk`; only where the run starts is a matter of the block.

    run (R 10:1, K 256:10)                element = 10 row + e, in shared memory
    tile 3                                the run starts at element 3 * 2560 in memory

Notes.  Where a run does not start at a unit, it has the same place in its first unit of shared memory.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from math import gcd, prod
from typing import NamedTuple

from layoutalg.dtype import DType
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise.problems import Form, Mode
from layoutalg.kernels.rowwise.unaligned import HeadTail, one_phase
from layoutalg.kernels.rowwise.walk import VECTOR_BYTES, WORD_BYTES, Crd, Index, Tiling, coordinate


class Slabs(NamedTuple):
    """How a form lies in slabs: the modes of one, the mode that counts them, and those that count runs."""

    inside: tuple[Mode, ...]
    count: Mode
    outer: tuple[Mode, ...]

    @property
    def elems(self) -> int:
        """Elements of a slab."""
        return prod(m.extent for m in self.inside)

    @property
    def groups(self) -> int:
        """Groups of a slab: what is kept inside of it."""
        return prod(m.extent for m in self.inside if not m.reduced)


def slabs_of(form: Form, *, both: bool) -> Slabs | None:
    """The slabs of a form, None where its groups do not lie so; `both`: in the destination as well.

    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> found = slabs_of(normalise(axes_problem((500, 3, 4), 1, "bf16")), both=False)
    >>> found.elems, found.groups, found.count.extent
    (12, 4, 500)
    """
    last = max((n for n, m in enumerate(form.modes) if m.reduced), default=len(form.modes))
    inside, rest = form.modes[: last + 1], form.modes[last + 1 :]
    step = 1
    for m in (*inside, *rest[:1]):
        if m.src != step or (both and m.dst != step):
            return None
        step *= m.extent
    return Slabs(inside, rest[0], rest[1:]) if rest else None


def unit_of(form: Form, element: DType, *, both: bool) -> int:
    """Elements of the widest unit that copies of runs can have: 16 bytes, or 8 or 4; 0 where there is none.

    `both`: a run lies in the destination as it does in the source, so its place in a unit has to be one.
    """
    unit = VECTOR_BYTES // element.nbytes
    while both and unit * element.nbytes >= WORD_BYTES and not one_phase(form, unit):
        unit //= 2
    return unit if unit * element.nbytes >= WORD_BYTES else 0


class Start(NamedTuple):
    """Where the run of a tile starts in source and destination, and which group of the tensor is its first.

    `slab` is the number of its first slab among those of its run's mode.
    """

    source: Index
    target: Index
    group: Index
    slab: Index


@dataclass(frozen=True)
class PackedWalk(HeadTail):
    """The walk of a block over the groups of its run; `form` is that of a run, `whole` that of the tensor.

    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.kernels.rowwise.problems import axes_problem, normalise
    >>> x = normalise(axes_problem((9000, 10), 1, "f32", keeps=True))
    >>> w = packed_walk(x, Tiling(dtype("f32"), 1, 128, 2, 1, 2), both=True)
    >>> w.slabs, w.tiles, w.run_elems, w.begin(3).source, w.chunk(w.bases(5), 3).source
    (256, 36, 2560, 7680, 53)
    """

    whole: Form
    parts: Slabs
    unit: int

    @property
    def slabs(self) -> int:
        """Slabs of a run."""
        return self.form.modes[-1].extent

    @property
    def run_elems(self) -> int:
        """Elements of a run."""
        return self.slabs * self.parts.elems

    @property
    def runs_along(self) -> int:
        """Runs along the mode that counts slabs."""
        return -(-self.parts.count.extent // self.slabs)

    @cached_property
    def tiles(self) -> int:
        """Runs of the tensor."""
        return self.runs_along * prod(m.extent for m in self.parts.outer)

    @property
    def ends_short(self) -> bool:
        """True when the last run along the mode that counts slabs has fewer."""
        return self.parts.count.extent % self.slabs != 0

    @cached_property
    def starts_at_units(self) -> bool:
        """True when every run starts at a unit."""
        steps = [self.whole.src_offset, *(m.src for m in self.parts.outer)]
        steps += [self.run_elems] if self.runs_along > 1 else []
        return not any(step % self.unit for step in steps)

    @property
    def source_end(self) -> int:
        """Where the source ends: behind its last element."""
        return self.whole.src_offset + 1 + sum((m.extent - 1) * m.src for m in self.whole.modes)

    @property
    def units(self) -> int:
        """Units that a run touches, at most."""
        before = 0 if self.starts_at_units else self.unit - 1
        return -(-(before + self.run_elems) // self.unit)

    def place(self, tile: Index, row: Index, n: Index = 0) -> Index:
        """Group n of a thread's, among those of the run."""
        return super().place(0, row, n)

    def start(self, tile: Index) -> Start:
        """Where the run of a tile starts."""
        parts, whole = self.parts, self.whole
        along, *crd = coordinate((self.runs_along, *(m.extent for m in parts.outer)), tile)
        slab = along * self.slabs
        source, target, group = slab * parts.elems, slab * parts.elems, slab * parts.groups
        step = parts.count.extent * parts.groups
        for i, m in zip(crd, parts.outer, strict=True):
            source, target, group = source + i * m.src, target + i * m.dst, group + i * step
            step *= m.extent
        return Start(source + whole.src_offset, target + whole.dst_offset, group, slab)

    def target(self, place: Index, e: int = 0) -> Crd:
        """The coordinate of a group of the tensor, by its number, among the kept modes of its form."""
        return coordinate(tuple(m.extent for m in self.whole.kept), place)

    def present(self, start: Start, place: Index) -> tuple[Index, ...]:
        """The predicates that a thread's group is one of the run, which may have fewer than threads take."""
        groups, t = self.parts.groups, self.tiling
        found = [place < self.places] if self.places < t.rows_per_block * t.rows_per_thread else []
        if self.ends_short:
            found.append(start.slab + place // groups < self.parts.count.extent)
        return tuple(found)

    def touched(self, start: Start, low: Index, unit: Index) -> tuple[Index, ...]:
        """The predicates that a unit holds an element of a run whose first is at `low` in its first unit."""
        at, elems = unit * self.unit, self.parts.elems
        found = [at < low + self.run_elems] if not self.starts_at_units or self.run_elems % self.unit else []
        if self.ends_short:
            found.append(start.slab * elems + at < low + self.parts.count.extent * elems)
        return tuple(found)

    def inside_run(self, start: Start, low: Index, at: Index, count: int = 1) -> tuple[Index, ...]:
        """The predicates that `count` elements of shared memory, from `at` on, are all of the run."""
        elems = self.parts.elems
        found = [at >= low, at + count <= low + self.run_elems]
        if self.starts_at_units:
            found = found[1:] if self.run_elems % self.unit else []
        if self.ends_short:
            found.append(start.slab * elems + at + count <= low + self.parts.count.extent * elems)
        return tuple(found)


def packed_walk(form: Form, tiling: Tiling, *, both: bool) -> PackedWalk:
    """The walk of a tiling over the slabs of a form; runs start at units where they have slabs enough.

    Raises UnsupportedError where groups do not lie in slabs, or source and destination in different units.
    """
    parts, unit = slabs_of(form, both=both), unit_of(form, tiling.element, both=both)
    if parts is None:
        raise UnsupportedError(f"runs of {form}: what is reduced together does not lie in slabs without gaps")
    if not unit:
        raise UnsupportedError(f"runs of {form}: no unit has the same place in source and destination")
    slabs = min(parts.count.extent, tiling.rows_per_block * tiling.rows_per_thread // parts.groups)
    if not slabs:
        raise UnsupportedError(f"runs of {form}: a slab has {parts.groups} groups, more than a block takes")
    grain = unit // gcd(unit, parts.elems)
    slabs = slabs // grain * grain or slabs
    run = Form((*parts.inside, replace(parts.count, extent=slabs)), 0, 0)
    return PackedWalk(run, tiling, form, parts, unit)
