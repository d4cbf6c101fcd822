"""Accesses that run over the ends of modes: thread counts and loops that the shape of a tile does not divide.

The idea.  256 threads read a tile of 48 rows element by element, and go on where they stopped:

    layout (48,100):(101,1)      tv (256,1,17):(1,0,256)

Neither 256 threads nor the step of 256 fits rows of 48, so layout and access do not compose to strides.  Two
exact rewritings make them:

    go on       iteration i, thread t reads element 256 i + t: as if 4352 threads read one element each
    round up    48 does not divide 4352; 4368 threads are composed, and the 16 past the end are left out

Warps stay warps if they are whole, so every instruction costs what it did; only its name changes, from (warp,
iteration) to a later warp, and back.  Iterations go on in registers likewise, and every mode is rounded up.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod

from layoutalg.analysis.access import Access, Guard, vector_elems
from layoutalg.analysis.classes import ClassTable, guarded_table
from layoutalg.analysis.footprint import find_footprint
from layoutalg.analysis.report import CostClass, Place
from layoutalg.arch import Arch, Instruction
from layoutalg.compose import find_normal_form
from layoutalg.errors import AlignmentError, ShapeError
from layoutalg.layout import (
    AnyLayout,
    Layout,
    flatten_tree,
    leaf_lists,
    merge,
    merge_open,
    modes,
    plain,
    size,
    span,
)

_THREAD, _REGISTER, _ITERATION = 0, 1, 2


@dataclass(frozen=True, slots=True)
class Straddling:
    """The classes of a rewritten access, and how to name its instructions as before.

    `warps` and `registers` are the numbers of the access that was asked about; `as_threads` and
    `as_registers` are (position, extent) of the digits that went on in those.
    """

    table: ClassTable
    warps: int
    registers: int
    as_threads: tuple[tuple[int, int], ...]
    as_registers: tuple[tuple[int, int], ...]

    def renamed(self, kind: CostClass) -> CostClass:
        """The kind with the place of its instruction in the original access."""
        later, warp = divmod(kind.place.warp, self.warps)
        left = prod(extent for position, extent in self.as_threads if position == _REGISTER)
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
    """The classes of an access that runs over the ends of modes; None when strides do not say where.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> loop = Access("ld.shared.b32", Layout((256, 1, 17), (1, 0, 256)), "f32")
    >>> rule = INSTRUCTIONS[loop.op]
    >>> found = find_straddling(Layout((48, 100), (101, 1)), loop, rule, ARCHS["sm_90"])
    >>> found.as_threads, len(found.table.classes)
    (((2, 17),), 2)
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
    as_threads: tuple[tuple[int, int], ...] = ()
    if threads % machine.lanes == 0 and guard.threads is None:
        as_threads = tuple(_go_on(digits, _THREAD))
    as_registers = tuple(_go_on(digits, _REGISTER))
    counts = tuple(prod(extent for extent, _ in part) for part in digits)
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
    table = None if strides is None else guarded_table(layout, wide, strides, counts)
    if table is None:
        return None
    return Straddling(table, -(-threads // machine.lanes), registers, as_threads, as_registers)


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
