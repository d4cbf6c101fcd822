"""Footprint: an access composed with a layout, as a handful of strides.

The idea.  Where layout o tv is itself a layout (under the layout's swizzles), the whole access is three
lists of (extent, stride in elements): threads, registers, iterations.  Everything that closed forms need is
in them, whatever the size of the tile:

    layout  Sw<3,3,3> o 0 o (64,64):(64,1)      access  ldmatrix.x4 over the tile, f16

    threads     16:64  2:8          lanes 0-15 walk down rows, lane 16 starts the next 16 bytes
    registers   none
    iterations  4:16  4:1024
    swizzles    Sw<3,3,3>

Alignment and contiguity are decided here too, for all instructions at once: the vector must be the stride-1
head of the values, and every other stride a multiple of it.

A layout over a layout (a rotation, say) is three such lists too, of indices of the outer layout: outer(x + P)
= outer(x) + C for P the product of its extents but the last, so that costs repeat with P as they do with the
period of a swizzle.

Straddling.  Thread counts and loops may run over the ends of modes.  256 threads read a tile of 48 rows
element by element, and go on where they stopped:

    layout (48,100):(101,1)      tv (256,1,17):(1,0,256)

Neither 256 threads nor the step of 256 fits rows of 48, so layout and access do not compose to strides.  Two
exact rewritings make them:

    go on       iteration i, thread t reads element 256 i + t: as if 4352 threads read one element each
    round up    48 does not divide 4352; 4368 threads are composed, and the 16 past the end are left out

Every instruction costs what it did; only its name changes, from (warp, iteration) to a later warp, and back.
Where threads are not whole warps, every round of them starts a warp of its own (`every`).  Iterations go on
in registers likewise, and every mode is rounded up.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import TypeAlias

from layoutalg.analysis.access import Access, Guard, vector_elems
from layoutalg.analysis.enumerated import Extent, access_extent
from layoutalg.analysis.lanes import misaligned, scattered
from layoutalg.analysis.report import CostClass, Place
from layoutalg.arch import Arch, Instruction
from layoutalg.compose import NormalForm, compose_layouts, find_normal_form
from layoutalg.errors import AlignmentError, DivisibilityError, NotLinearError, ShapeError, UndecidedError
from layoutalg.f2 import affine_f2
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    flatten_tree,
    leaf_lists,
    merge,
    merge_open,
    modes,
    plain,
    size,
    span,
)
from layoutalg.limits import Most

LeafPairs: TypeAlias = "tuple[tuple[int, int], ...]"
"""(extent, stride in elements), extents at least 2, leftmost fastest."""


@dataclass(frozen=True, slots=True)
class AccessStrides:
    """layout o tv as strides; element offset = outer(swizzles(offset + threads + registers + iterations)).

    `whole` is the same as one layout of (thread, value[, iteration]), without swizzles and offset.  Lists
    hold (extent, stride) with strides in elements, or in indices of `outer` where there is such a layout.
    """

    rule: Instruction
    machine: Arch
    extent: Extent
    bits: int
    base_bytes: int
    swizzles: Swizzles
    offset: int
    whole: Layout
    threads: LeafPairs
    registers: LeafPairs
    iterations: LeafPairs
    outer: Layout | None = None

    @property
    def adds(self) -> bool:
        """Whether strides add up to offsets: there is neither a swizzle nor an outer layout."""
        return not self.swizzles and self.outer is None

    def period(self, elems: int) -> int:
        """P such that P more in a sum of strides adds a multiple of `elems` elements, and changes no more."""
        period = max(elems, self.swizzles.period)
        if self.outer is None:
            return period
        extents, weights = merge_open(self.outer)
        return math.lcm(math.prod(extents) * (elems // math.gcd(weights[-1], elems)), self.swizzles.period)

    def byte(self, offset: int) -> int:
        """Byte address of an element offset before the swizzles and the outer layout."""
        if self.swizzles.factors:
            offset = self.swizzles(offset)
        if self.outer is not None:
            offset = self.outer(offset)
        return self.base_bytes + self.bits * offset // 8

    def lane_offsets(self, place: Place) -> list[int | None]:
        """Byte offsets of the lanes of one instruction; equal to `instruction_offsets`, from strides."""
        start = self.offset + value_at(self.registers, place.register)
        start += value_at(self.iterations, place.iteration)
        first = place.warp * self.machine.lanes
        used = min(self.rule.lanes, self.extent.threads - first)
        out: list[int | None] = [None] * self.machine.lanes
        out[:used] = [self.byte(start + value_at(self.threads, n)) for n in range(first, first + used)]
        return out


def value_at(leaves: LeafPairs, index: int) -> int:
    """The offset of a flat index; the last digit is not reduced.

    >>> value_at(((4, 1), (8, 16)), 6)
    18
    """
    total = 0
    for extent, stride in leaves[:-1]:
        index, digit = divmod(index, extent)
        total += digit * stride
    return total + index * leaves[-1][1] if leaves else 0


def find_footprint(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch
) -> AccessStrides | None:
    """The strides of `access` on `layout`, or None when they do not compose to a layout.

    None as well when a swizzle reaches inside a vector and the whole is not linear over F2, and when vectors
    are not whole numbers of an outer layout's first extent: then more than strides decides whether they stay
    contiguous.  Raises AlignmentError when a vector is not contiguous
    or not aligned, ShapeError when the access does not fit the layout.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> access = Access.default("ldmatrix.x4", Layout((64, 64), (64, 1)), "f16")
    >>> found = find_footprint(Layout((64, 64), (64, 1)), access, INSTRUCTIONS["ldmatrix.x4"], ARCHS["sm_90"])
    >>> found.threads, found.iterations
    (((16, 64), (2, 8)), ((4, 16), (4, 1024)))
    """
    extent = access_extent(layout, access, rule, machine)
    form = find_normal_form(layout)
    outer: Layout | None = None
    if form is None:
        outer, form = _parts(layout)
        if form is None:
            return None
    swizzles, offset, inner = form
    try:
        composed = compose_layouts(inner, access.tv)
    except (DivisibilityError, UndecidedError):
        return None
    low, high = span(composed)
    if offset + low < 0:
        if outer is not None:
            return None
        first_byte = access.base_bytes + access.element.bits * (offset + low) // 8
        if swizzles:
            return None
        if first_byte < 0:
            raise ShapeError(f"{access.op} on {layout} reaches the negative byte offset {first_byte}")
    reach, acting = offset + high, list[Swizzle]()
    for swizzle in reversed(swizzles):
        # Bits that no offset has are not read; what is left has its bits, and its period, within the memory.
        first = swizzle.base + max(0, swizzle.shift)
        bits = min(swizzle.bits, reach.bit_length() - first)
        if bits > 0:
            acting.insert(0, Swizzle(bits, swizzle.base, swizzle.shift))
            reach = acting[0].most_offset(reach)
    swizzles = Swizzles(*acting)
    if outer is not None:
        reach = outer.most_offset(reach)
    if max(256 * (reach + 1) + access.base_bytes, extent.instructions) > Most.MAGNITUDE.number:
        raise ShapeError(f"{access.op} on {layout} does not fit the 2^62 bytes that are counted exactly")
    parts = [tuple(zip(*merge(*leaf_lists(mode)), strict=True)) for mode in modes(composed)]
    reaches_in = swizzles and (offset % extent.elems or any(_lowest_bit(s) < extent.elems for s in swizzles))
    if reaches_in and not _vectors_survive(rule, extent, swizzles, offset, composed, parts[1]):
        return None
    strides = AccessStrides(
        rule, machine, extent, access.element.bits, access.base_bytes, swizzles, offset, composed,
        parts[0], _registers(rule, extent.elems, parts[1]), parts[2] if len(parts) > 2 else (), outer,
    )  # fmt: skip
    if outer is not None:
        return strides if _whole_vectors(strides, outer, extent.elems) else None
    _check_alignment(strides)
    return strides


def _parts(layout: AnyLayout) -> tuple[Layout, NormalForm] | tuple[None, None]:
    """A layout over what has a normal form, strides of both at least 0."""
    if not isinstance(layout, ComposedLayout) or not isinstance(layout.outer, Layout):
        return None, None
    form = find_normal_form(layout.inner)
    if form is None or (form.swizzles and layout.offset) or span(layout.outer)[0] < 0:
        return None, None
    return layout.outer, form._replace(offset=layout.offset + form.offset)


def _whole_vectors(strides: AccessStrides, outer: Layout, elems: int) -> bool:
    """Whether an outer layout leaves vectors of `elems` elements whole and aligned: its first extent and all
    its other strides are multiples of them, and so is every sum of strides."""
    extents, weights = merge_open(outer)
    inside = [strides.offset] + [d for _, d in (*strides.threads, *strides.registers, *strides.iterations)]
    if elems > 1:
        first = extents[0] if extents else 0
        if weights[0] != 1 or first % elems or any(d % elems for d in (*weights[1:], *inside)):
            return False
    width_bits = 8 * strides.rule.width_bytes
    return 8 * strides.base_bytes % width_bits == 0 and strides.bits * elems % width_bits == 0


def _vectors_survive(
    rule: Instruction,
    extent: Extent,
    swizzles: Swizzles,
    offset: int,
    composed: Layout,
    values: LeafPairs,
) -> bool:
    """True when vectors are contiguous and aligned under swizzles that reach inside them.

    Raises AlignmentError when they are not; False when the columns of a matrix do not decide it.
    """
    try:
        start, columns = affine_f2(ComposedLayout(swizzles, offset, composed))
    except NotLinearError:
        return False
    if values[:1] and (values[0][1] != 1 or values[0][0] % extent.elems):
        return False
    first = extent.threads.bit_length() - 1
    last = first + extent.elems.bit_length() - 1
    for j, column in enumerate(columns[first:last]):
        if start ^ column != start + (1 << j):
            raise scattered(rule, 1 << j, start ^ column, start + (1 << j))
    return all(column % extent.elems == 0 for column in columns[:first] + columns[last:])


def _lowest_bit(swizzle: Swizzle) -> int:
    """The lowest bit that a swizzle reads or writes, as a number."""
    mask = swizzle.yyy_mask | swizzle.zzz_mask
    return mask & -mask


def _registers(rule: Instruction, elems: int, values: LeafPairs) -> LeafPairs:
    """The rest of the value mode after its vector, which must be its stride-1 head."""
    if elems == 1:
        return values
    extent, stride = values[0]
    if stride != 1:
        raise scattered(rule, 1, stride, 1)
    if extent % elems:
        raise scattered(rule, extent, values[1][1], extent)
    rest = ((extent // elems, elems),) if extent > elems else ()
    return rest + values[1:]


def _check_alignment(strides: AccessStrides) -> None:
    """Every address is a multiple of the width iff the first is and every stride in use is."""
    width_bits = 8 * strides.rule.width_bytes
    first = 8 * strides.base_bytes + strides.bits * strides.swizzles(strides.offset)
    if first % width_bits:
        raise misaligned(strides.rule, 0, first // 8)
    step = 1
    for extent, stride in strides.threads:
        if strides.bits * stride % width_bits and step < strides.machine.lanes:
            raise misaligned(strides.rule, step, (first + strides.bits * stride) // 8)
        step *= extent
    for _, stride in (*strides.threads, *strides.registers, *strides.iterations):
        if strides.bits * stride % width_bits:
            raise misaligned(strides.rule, 0, (first + strides.bits * stride) // 8)


_THREAD, _REGISTER, _ITERATION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Straddling:
    """A rewritten access, of which the first `counts` threads, registers and iterations are instructions.

    `warps` and `registers` are the numbers of the access that was asked about; `as_threads` and
    `as_registers` are (position, extent) of the digits that went on in those.  Warps start at multiples of
    `every` threads, and of the lanes of a warp between two of them.
    """

    access: Access
    strides: AccessStrides
    counts: tuple[int, ...]
    warps: int
    registers: int
    as_threads: tuple[tuple[int, int], ...]
    as_registers: tuple[tuple[int, int], ...]
    every: int

    def renamed(self, kind: CostClass) -> CostClass:
        """The kind with the place of its instruction in the original access."""
        later, warp = divmod(kind.place.warp, self.warps)
        left = math.prod(extent for position, extent in self.as_threads if position == _REGISTER)
        again, register = divmod(kind.place.register, self.registers // left)
        places, worth = [0, 0, 0], [1, 1, 1]
        for rest, digits in ((later, self.as_threads), (again, self.as_registers)):
            for position, extent in digits:
                rest, digit = divmod(rest, extent)
                places[position] += digit * worth[position]
                worth[position] *= extent
        register = places[_REGISTER] + worth[_REGISTER] * register
        iteration = places[_ITERATION] + worth[_ITERATION] * kind.place.iteration
        return kind._replace(place=Place(warp, register, iteration))


def find_straddling(layout: AnyLayout, access: Access, rule: Instruction, machine: Arch) -> Straddling | None:
    """The rewriting of an access that runs over the ends of modes; None when strides do not say where.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> loop = Access("ld.shared.b32", Layout((256, 1, 17), (1, 0, 256)), "f32")
    >>> rule = INSTRUCTIONS[loop.op]
    >>> found = find_straddling(Layout((48, 100), (101, 1)), loop, rule, ARCHS["sm_90"])
    >>> found.as_threads, found.counts, found.strides.threads
    (((2, 17),), (4352, 1, 1), ((48, 101), (91, 1)))
    """
    guard = access.active if access.active is not None else Guard()
    low, high = span(access.tv)
    if not isinstance(guard, Guard) or low < 0 or high >= size(layout):
        return None
    form = find_normal_form(layout)
    if form is None:
        return None
    elems = vector_elems(rule, access.element)
    digits = [list(zip(*merge(*leaf_lists(mode)), strict=True)) for mode in modes(access.tv)]
    vector = _vector(digits[_REGISTER], elems)
    threads, registers = size(modes(access.tv)[0]), size(modes(access.tv)[1]) // elems
    as_threads = tuple(_go_on(digits, _THREAD)) if guard.threads is None else ()
    every = threads if as_threads and threads % machine.lanes else machine.lanes
    as_registers = tuple(_go_on(digits, _REGISTER))
    counts = tuple(math.prod(extent for extent, _ in part) for part in digits)
    # Coordinates that a guard bounds have to be told apart, so modes that continue each other stay two.
    inner = form.layout
    ends = list(flatten_tree(inner.shape)[:-1]) if guard.bounds(layout.shape) else merge_open(inner)[0]
    for part in filter(None, digits):
        extent, step = part[-1]
        part[-1] = _rounded(ends, extent, step), step
    digits[_REGISTER][:0] = vector
    parts = [plain([n for n, _ in part], [d for _, d in part]) for part in digits]
    tv = Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))
    wide = replace(access, tv=tv, active=guard)
    try:
        strides = find_footprint(layout, wide, rule, machine)
    except (AlignmentError, ShapeError):
        return None  # the definition says which lane it is, if it is one that takes part
    if strides is None:
        return None
    return Straddling(
        wide, strides, counts, -(-threads // machine.lanes), registers, as_threads, as_registers, every
    )


def _vector(values: list[tuple[int, int]], elems: int) -> list[tuple[int, int]]:
    """Take the vector of an instruction off the digits of the values."""
    if elems == 1 or not values or values[0][0] % elems:
        return []
    extent, step = values.pop(0)
    if extent > elems:
        values.insert(0, (extent // elems, elems * step))
    return [(elems, step)]


def _go_on(digits: list[list[tuple[int, int]]], target: int) -> Iterator[tuple[int, int]]:
    """Turn later positions into the target's, in place, as long as one starts where the target ends."""
    moving = bool(digits[target])
    while moving:
        moving = False
        for position in range(target + 1, len(digits)):
            count, step = digits[target][-1]
            if digits[position] and digits[position][0][1] == count * step:
                extent, _ = digits[position].pop(0)
                digits[target][-1] = count * extent, step
                yield position, extent
                moving = True


def _rounded(extents: list[int], count: int, step: int) -> int:
    """The least number from `count` on of places `step` apart that ends where modes end."""
    weight = 1
    for k, extent in enumerate(extents):
        if step % (weight * extent) == 0:
            weight *= extent
            continue
        inside = step // weight
        if step % weight or inside == 0 or extent % inside:
            return count
        multiple = extent // inside
        for following in (*extents[k + 1 :], 1):
            if count <= multiple:
                return count
            count += -count % multiple
            multiple *= following
        return count
    return count
