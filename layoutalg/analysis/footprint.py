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
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.analysis.access import Access
from layoutalg.analysis.enumerated import Extent, access_extent
from layoutalg.analysis.lanes import misaligned, scattered
from layoutalg.analysis.report import Place
from layoutalg.arch import Arch, Instruction
from layoutalg.compose import NormalForm, compose_layouts, find_normal_form
from layoutalg.errors import DivisibilityError, NotLinearError, ShapeError, UndecidedError
from layoutalg.f2 import affine_f2
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    leaves,
    merge,
    merge_open,
    modes,
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

    def moved(self, offset: Any) -> Any:
        """The element offset of a sum of strides, or of an array of them."""
        if self.swizzles.factors:
            offset = self.swizzles(offset)
        return offset if self.outer is None else self.outer(offset)

    def period(self, elems: int) -> int:
        """P such that P more in a sum of strides adds a multiple of `elems` elements, and changes no more."""
        period = max(elems, self.swizzles.period)
        if self.outer is None:
            return period
        extents, weights = merge_open(self.outer)
        return math.lcm(math.prod(extents) * (elems // math.gcd(weights[-1], elems)), self.swizzles.period)

    def byte(self, offset: int) -> int:
        """Byte address of an element offset before the swizzles and the outer layout."""
        return self.base_bytes + self.bits * int(self.moved(offset)) // 8

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
    parts = [tuple(zip(*merge(*_unzip(mode)), strict=True)) for mode in modes(composed)]
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


def _unzip(mode: Layout) -> tuple[list[int], list[int]]:
    pairs = leaves(mode)
    return [extent for extent, _ in pairs], [stride for _, stride in pairs]


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
