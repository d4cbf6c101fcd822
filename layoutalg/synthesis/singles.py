"""Single swizzles of a tile of any extents: all of them, each tried on every class of instructions.

The idea.  Storage order is x -> x, whatever the extents, and Sw<B,M,S> of it costs what the definition counts
on the swizzled addresses.  Two facts make that short:

    period    S(x + P) = S(x) + P with P = 2^(M + B + |S|): an instruction is known by its lanes relative to
              the first, and by the first modulo P.  f16 (64,96), ldmatrix.x4, Sw<2,3,3>: 6 classes
    rows      8 rows of W chunks of 16 bytes at one column fill a coset of 2^t modulo 2^(t+3), t the exponent
              of 2 in W, so Sw<min(t,3),3,max(t,3)> of f16 gives them 8 groups of banks, whatever W is

The first is how a swizzle is tried; the second is why there mostly is one.  Every B, M and S that can do
anything is tried: bits past the memory are never set.  Most swizzles fail on the first instruction, which all
of them are asked at once.

>>> from layoutalg.arch import ARCHS
>>> from layoutalg.algebra import storage_layout
>>> base, machine = storage_layout((64, 96), "row"), ARCHS["sm_90"]
>>> rows = Access.default("ldmatrix.x4", base, "f16")
>>> str(next(free_singles([visits_of(base, rows, machine)], 64 * 96, 64 * 96, machine)).swizzle)
'Sw<2,3,3>'

Notes.  A vector is whole under a swizzle that reaches inside it exactly if the swizzle reads no bit of the
place within the vector and moves the vector by a multiple of its length.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from layoutalg.analysis import Access, Guard, access_extent, instruction_costs
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.errors import UndecidedError
from layoutalg.f2 import basis
from layoutalg.layout import Layout, Swizzle, leaves, modes, plain, size

ADDRESSES = 1 << 21
"""Lanes of all instructions of an access that are spelled out, at most, before an UndecidedError."""

WORK = 1 << 25
"""Addresses that are swizzled and counted, at most, in one search."""

AT_ONCE = 128
"""Instructions of a swizzle that are counted before the next ones are."""


Lanes: TypeAlias = "tuple[int | None, ...]"
"""The offsets of the lanes of one instruction, in elements; None where a lane supplies none."""


class Visits(NamedTuple):
    """The different instructions of one access on a storage order, a row of lanes each.

    `shapes` are the rows' lanes relative to the first of them.
    """

    rule: Instruction
    bits: int
    elems: int
    offsets: tuple[Lanes, ...]
    shapes: tuple[Lanes, ...]


class Single(NamedTuple):
    """A swizzle of the storage order that is free of conflicts; `extra` elements lie past the tile.

    `period_bits` and `reached` are those of a certificate.
    """

    swizzle: Swizzle
    extra: int
    period_bits: int
    reached: tuple[int, ...]


def visits_of(base: Layout, access: Access, machine: Arch) -> Visits:
    """All instructions of an access whose vectors are whole on `base`, each once.

    Raises UndecidedError for more than ADDRESSES lanes, and as `access_extent` does.

    >>> from layoutalg.arch import ARCHS
    >>> column = Access("ld.shared.b32", Layout((48, 1, 3), (1, 0, 48)), "f32")
    >>> [row[:3] for row in visits_of(Layout((48, 20), (20, 1)), column, ARCHS["sm_90"]).offsets]
    [(0, 20, 40), (640, 660, 680), (1, 21, 41), (641, 661, 681), (2, 22, 42), (642, 662, 682)]
    """
    rule = find_instruction(access.op, machine)
    extent = access_extent(base, access, rule, machine)
    threads, values, *rest = modes(access.tv)
    _check_count(access, max(extent.warps, extent.registers), machine)
    # Where a mode repeats itself the same instructions come again.
    iterations = _without_repeats(access, rest[0], machine) if rest else [0]
    registers = sorted(set(_images(values)[:: extent.elems]))
    _check_count(access, extent.warps * len(registers) * len(iterations), machine)
    index: list[int | None] = [*_images(threads), *[None] * (extent.warps * machine.lanes - extent.threads)]
    guard = access.active if isinstance(access.active, Guard) else None
    for thread in range(len(index)):
        supplies = thread % machine.lanes < rule.lanes
        if not supplies or (guard and not guard.admits(base.shape, machine.lanes, thread, thread)):
            index[thread] = None
    warps = [index[at : at + machine.lanes] for at in range(0, len(index), machine.lanes)]
    memory = _images(base)
    offsets = tuple(
        dict.fromkeys(
            tuple([None if at is None else memory[at + moved] for at in lanes])
            for moved in (register + iteration for iteration in iterations for register in registers)
            for lanes in warps
        )
    )
    return Visits(rule, access.element.bits, extent.elems, offsets, tuple(map(_relative, offsets)))


def _images(layout: Layout) -> list[int]:
    """The offset of every index of a layout."""
    out = [0]
    for extent, stride in leaves(layout):
        out = [at + digit * stride for digit in range(extent) for at in out]
    return out


def _relative(lanes: Lanes) -> Lanes:
    """The lanes seen from the first one, or from 0 where that supplies no address."""
    first = lanes[0] or 0
    return tuple([None if at is None else at - first for at in lanes])


def _check_count(access: Access, count: int, machine: Arch) -> None:
    if count * machine.lanes > ADDRESSES:
        raise UndecidedError(
            f"{access.op} with tv {access.tv} has at least {count} instructions; swizzles are tried on "
            f"{ADDRESSES // machine.lanes} at most",
            budget=ADDRESSES,
        )


def _without_repeats(access: Access, mode: Layout, machine: Arch) -> list[int]:
    """The different values of a mode; leaves of stride 0 are not walked."""
    moving = [(extent, stride) for extent, stride in leaves(mode) if stride]
    walk = plain([extent for extent, _ in moving], [stride for _, stride in moving])
    _check_count(access, size(walk), machine)
    return sorted(set(_images(walk)))


@functools.lru_cache(maxsize=32)
def every_swizzle(room: int) -> tuple[Swizzle, ...]:
    """Every Sw<B,M,S> that moves one of the offsets 0 to room - 1 among them, simplest first.

    Fewest bits first, then involutions (|S| >= B), then right shifts, then the lowest bits.

    >>> [str(s) for s in every_swizzle(4)], len(every_swizzle(1 << 13))
    (['Sw<1,0,1>', 'Sw<1,0,-1>'], 728)
    """
    top = (room - 1).bit_length()
    swizzles = (
        Swizzle(bits, base, shift * sign)
        for bits in range(1, top)
        for shift in range(1, top - bits + 1)
        for base in range(top - bits - shift + 1)
        for sign in (1, -1)
    )
    return tuple(
        sorted(swizzles, key=lambda s: (s.bits, not s.is_involution, s.shift < 0, s.base, abs(s.shift)))
    )


def free_singles(visits: Sequence[Visits], elements: int, room: int, machine: Arch) -> Iterator[Single]:
    """The swizzles of `elements` in storage order that are free of conflicts and stay below `room`.

    Least memory first, then as `every_swizzle` has them.  Raises UndecidedError when WORK does not suffice.

    >>> from layoutalg.arch import ARCHS
    >>> base, machine = Layout((32, 36), (36, 1)), ARCHS["sm_90"]
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> [str(one.swizzle) for one in free_singles([visits_of(base, column, machine)], 1152, 1152, machine)]
    ['Sw<2,0,5>', 'Sw<5,0,2>', 'Sw<6,0,2>', 'Sw<7,0,2>', 'Sw<8,0,2>']
    """
    trials = _Trials(machine)
    # Most swizzles fail on one of a few instructions: the first, middle and last of every access sieve them
    # all at once; only what is left is counted class by class.
    left = every_swizzle(room)
    for each in visits:
        for row in dict.fromkeys((0, len(each.offsets) // 2, len(each.offsets) - 1)):
            left = trials.pass_one(left, each, row)
    outside: list[Single] = []
    for swizzle in left:
        reached = trials.reached(swizzle, visits)
        if reached is None:
            continue
        period_bits = _period(swizzle, visits, machine).bit_length() - 1
        single = Single(swizzle, _past(swizzle, elements), period_bits, reached)
        if not single.extra:
            yield single
        elif single.extra <= room - elements:
            outside.append(single)
    yield from sorted(outside, key=lambda single: single.extra)


def _past(swizzle: Swizzle, elements: int) -> int:
    """The number of elements by which the images of the offsets below `elements` reach past it.

    The offsets fall into blocks that share their high bits and have all low ones; a swizzle is linear in
    bits, so the largest of a block is found by taking each row of the low bits' images that makes it larger.
    """
    most = 0
    for low in range(elements.bit_length()):
        if elements >> low & 1:
            at = swizzle((elements >> low ^ 1) << low)
            for row in basis(swizzle(1 << bit) for bit in range(low)):
                at = max(at, at ^ row)
            most = max(most, at)
    return max(0, most + 1 - elements)


def _period(swizzle: Swizzle, visits: Sequence[Visits], machine: Arch) -> int:
    """Elements by which addresses may move together without changing any cost."""
    units = (8 * max(machine.bank_bytes, each.rule.width_bytes) // each.bits for each in visits)
    return max([swizzle.period, *units])


class _Trials:
    """Swizzles tried on instructions, with the work counted."""

    def __init__(self, machine: Arch) -> None:
        self.machine, self.work = machine, 0

    def pass_one(self, swizzles: Sequence[Swizzle], visit: Visits, row: int) -> tuple[Swizzle, ...]:
        """The swizzles on which one instruction is free of conflicts and its vectors are unbroken."""
        moved = [(swizzle, _moved(swizzle, visit.offsets[row], visit.elems)) for swizzle in swizzles]
        intact = [(swizzle, lanes) for swizzle, lanes in moved if lanes is not None]
        free = self._free(visit, [lanes for _, lanes in intact])
        return tuple(swizzle for (swizzle, _), ok in zip(intact, free, strict=True) if ok)

    def reached(self, swizzle: Swizzle, visits: Sequence[Visits]) -> tuple[int, ...] | None:
        """The number of classes of instructions of every access, or None when one of them conflicts."""
        period = _period(swizzle, visits, self.machine)
        out: list[int] = []
        for visit in visits:
            kinds = {
                (shape, (lanes[0] or 0) % period): lanes
                for shape, lanes in zip(visit.shapes, visit.offsets, strict=True)
            }
            rows = list(kinds.values())
            for start in range(0, len(rows), AT_ONCE):  # most swizzles fail early
                moved = [_moved(swizzle, lanes, visit.elems) for lanes in rows[start : start + AT_ONCE]]
                intact = [lanes for lanes in moved if lanes is not None]
                if len(intact) < len(moved) or not all(self._free(visit, intact)):
                    return None
            out.append(len(kinds))
        return tuple(out)

    def _free(self, visit: Visits, rows: Sequence[Lanes]) -> list[bool]:
        """Whether each instruction takes its ideal."""
        words = max(1, visit.rule.width_bytes // self.machine.bank_bytes)
        self.work += len(rows) * self.machine.lanes * words
        if self.work > WORK:
            raise UndecidedError(
                f"no single swizzle, and no proof of none, after {WORK} swizzled words were counted",
                budget=WORK,
            )
        bytes_ = ([None if at is None else at * visit.bits // 8 for at in lanes] for lanes in rows)
        return [taken == ideal for taken, ideal, _ in instruction_costs(visit.rule, self.machine, bytes_)]


def _moved(swizzle: Swizzle, lanes: Lanes, elems: int) -> Lanes | None:
    """The lanes after a swizzle; None where it tears or misaligns a vector of `elems`."""
    read, written, shift = swizzle.yyy_mask, swizzle.zzz_mask, abs(swizzle.shift)
    if read & (elems - 1):
        return None
    # Two loops of their own: this is where the search spends its time.
    if swizzle.shift > 0:
        moved = tuple([None if at is None else at ^ (at & read) >> shift for at in lanes])
    else:
        moved = tuple([None if at is None else at ^ (at & read) << shift for at in lanes])
    torn = written & (elems - 1) and any(at is not None and at % elems for at in moved)
    return None if torn else moved
