"""Single swizzles of a tile of any extents: all of them, each asked of every class of instructions.

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
>>> from layoutalg.synthesis import storage_layout
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
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.analysis import Access, Guard, access_extent, served_batch
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.errors import UndecidedError
from layoutalg.layout import Layout, Swizzle, leaves, modes, plain, size

if TYPE_CHECKING:
    from numpy.typing import NDArray

ADDRESSES = 1 << 21
"""Lanes of all instructions of an access that are spelled out, at most, before an UndecidedError."""

WORK = 1 << 25
"""Addresses that are swizzled and counted, at most, in one search."""


class Visits(NamedTuple):
    """The different instructions of one access on a storage order: a row per instruction, a column per lane.

    `offsets` are in elements, 0 where `mask` is False; `shapes` numbers the rows by their lanes relative to
    the first and by their mask.
    """

    rule: Instruction
    bits: int
    elems: int
    offsets: NDArray[Any]
    mask: NDArray[Any]
    shapes: NDArray[Any]


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
    >>> visits_of(Layout((48, 20), (20, 1)), column, ARCHS["sm_90"]).offsets[:, :3].tolist()
    [[0, 20, 40], [1, 21, 41], [2, 22, 42], [640, 660, 680], [641, 661, 681], [642, 662, 682]]
    """
    import numpy as np

    rule = find_instruction(access.op, machine)
    extent = access_extent(base, access, rule, machine)
    threads, values, *rest = modes(access.tv)
    _check_count(access, max(extent.warps, extent.registers), machine)
    # Where a mode repeats itself the same instructions come again.
    iterations = _without_repeats(access, rest[0], machine) if rest else np.zeros(1, dtype=np.int64)
    registers = np.unique(values(np.arange(extent.registers) * extent.elems))
    _check_count(access, extent.warps * len(registers) * len(iterations), machine)
    thread = np.arange(extent.warps * machine.lanes)
    active = (thread < extent.threads) & (thread % machine.lanes < rule.lanes)
    if isinstance(access.active, Guard):
        active &= access.active.admits(base.shape, machine.lanes, thread, thread)
    index = np.where(active, threads(np.where(active, thread, 0)), 0).reshape(-1, 1, 1, machine.lanes)
    index = index + registers[:, None, None] + iterations[:, None]
    mask = np.broadcast_to(active.reshape(-1, 1, 1, machine.lanes), index.shape).reshape(-1, machine.lanes)
    offsets = np.where(mask, base(np.where(mask, index.reshape(mask.shape), 0)), 0)
    together = np.unique(np.concatenate([offsets, mask], axis=1), axis=0)
    offsets, mask = together[:, : machine.lanes], together[:, machine.lanes :].astype(bool)
    relative = np.where(mask, offsets - offsets[:, :1], -1 - np.abs(offsets).max())
    _, shapes = np.unique(relative, axis=0, return_inverse=True)
    return Visits(rule, access.element.bits, extent.elems, offsets, mask, shapes.reshape(-1))


def _check_count(access: Access, count: int, machine: Arch) -> None:
    if count * machine.lanes > ADDRESSES:
        raise UndecidedError(
            f"{access.op} with tv {access.tv} has at least {count} instructions; swizzles are tried on "
            f"{ADDRESSES // machine.lanes} at most",
            budget=ADDRESSES,
        )


def _without_repeats(access: Access, mode: Layout, machine: Arch) -> NDArray[Any]:
    """The different values of a mode; leaves of stride 0 are not walked."""
    import numpy as np

    moving = [(extent, stride) for extent, stride in leaves(mode) if stride]
    walk = plain([extent for extent, _ in moving], [stride for _, stride in moving])
    _check_count(access, size(walk), machine)
    return np.unique(walk(np.arange(size(walk))))


@functools.lru_cache(maxsize=32)
def every_swizzle(room: int) -> tuple[Swizzle, ...]:
    """Every Sw<B,M,S> that moves one of the offsets 0 to room - 1 among them, simplest first.

    Fewest bits first, then involutions (|S| >= B), then right shifts, then the lowest bits.

    >>> [str(s) for s in every_swizzle(4)], len(every_swizzle(1 << 13))
    (['Sw<1,0,1>', 'Sw<1,0,-1>'], 728)
    """
    top = (room - 1).bit_length()
    found = (
        Swizzle(bits, base, shift * sign)
        for bits in range(1, top)
        for shift in range(1, top - bits + 1)
        for base in range(top - bits - shift + 1)
        for sign in (1, -1)
    )
    return tuple(
        sorted(found, key=lambda s: (s.bits, not s.is_involution, s.shift < 0, s.base, abs(s.shift)))
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
    for one in visits:
        for row in dict.fromkeys((0, len(one.offsets) // 2, len(one.offsets) - 1)):
            left = trials.pass_one(left, one, row)
    outside: list[Single] = []
    for swizzle in left:
        reached = trials.reached(swizzle, visits)
        if reached is None:
            continue
        period_bits = _period(swizzle, visits, machine).bit_length() - 1
        found = Single(swizzle, _past(swizzle, elements), period_bits, reached)
        if not found.extra:
            yield found
        elif found.extra <= room - elements:
            outside.append(found)
    yield from sorted(outside, key=lambda one: one.extra)


def _past(swizzle: Swizzle, elements: int) -> int:
    """How far the offsets below `elements` reach past it."""
    import numpy as np

    # A right shift stays within blocks that end at its highest written bit.
    start = elements - elements % (1 << (swizzle.base + swizzle.bits)) if swizzle.shift > 0 else 0
    return max(0, int(swizzle(np.arange(start, elements)).max(initial=0)) + 1 - elements)


def _period(swizzle: Swizzle, visits: Sequence[Visits], machine: Arch) -> int:
    """Elements by which addresses may move together without changing any cost."""
    units = (8 * max(machine.bank_bytes, one.rule.width_bytes) // one.bits for one in visits)
    return max([swizzle.period, *units])


class _Trials:
    """Swizzles tried on instructions, with the work counted."""

    def __init__(self, machine: Arch) -> None:
        self.machine, self.work = machine, 0

    def pass_one(self, swizzles: Sequence[Swizzle], one: Visits, row: int) -> tuple[Swizzle, ...]:
        """Those of the swizzles on which one instruction is free of conflicts and its vectors whole."""
        import numpy as np

        if not swizzles:
            return ()
        read = np.array([[s.yyy_mask] for s in swizzles])
        step, right = (
            np.array([[abs(s.shift)] for s in swizzles]),
            np.array([[s.shift > 0] for s in swizzles]),
        )
        given = one.offsets[row]
        moved = given ^ np.where(right, (given & read) >> step, (given & read) << step)
        mask = np.broadcast_to(one.mask[row], moved.shape)
        whole = ((read & (one.elems - 1)) == 0)[:, 0] & (moved % one.elems == 0).all(axis=1)
        free = whole.copy()
        free[whole] = self._free(one, moved[whole], mask[whole])
        return tuple(s for s, ok in zip(swizzles, free.tolist(), strict=True) if ok)

    def reached(self, swizzle: Swizzle, visits: Sequence[Visits]) -> tuple[int, ...] | None:
        """The number of classes of instructions of every access, or None when one of them conflicts."""
        import numpy as np

        period = _period(swizzle, visits, self.machine)
        out: list[int] = []
        for one in visits:
            first = one.offsets[:, 0]
            kinds = np.stack([one.shapes, first % period], axis=1)
            _, rows = np.unique(kinds, axis=0, return_index=True)
            moved = swizzle(one.offsets[rows])
            if one.elems > 1 and (swizzle.yyy_mask & (one.elems - 1) or (moved % one.elems).any()):
                return None
            if not self._free(one, moved, one.mask[rows]).all():
                return None
            out.append(len(rows))
        return tuple(out)

    def _free(self, one: Visits, offsets: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
        """Which of the instructions take their ideal."""
        self.work += offsets.size * max(1, one.rule.width_bytes // self.machine.bank_bytes)
        if self.work > WORK:
            raise UndecidedError(
                f"no single swizzle, and no proof of none, after {WORK} swizzled words were counted",
                budget=WORK,
            )
        lanes = offsets[:, : one.rule.lanes] * one.bits // 8
        taken, ideal = served_batch(one.rule, self.machine, lanes, mask[:, : one.rule.lanes])
        free: NDArray[Any] = taken == ideal
        return free
