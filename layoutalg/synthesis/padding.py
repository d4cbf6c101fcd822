"""Padding: rows set apart so that they start in different banks, at a cost in memory; or turned, at none.

The idea.  A pitch of `row + pad` instead of `row` moves row r by r * pad.  What conflicts depends on the
pitch modulo one row of all banks (128 bytes), so at most 128 / vector pads are worth trying, and none is
left out:

    f32 (32,32), columns    pitch 33 words: conflict-free for 128 bytes more
    f16 (64,64), ldmatrix   pitch 72 halves: the 16-byte rows start 4 banks apart; 1024 bytes more

Pads keep every vector aligned.  The analysis decides whether a pitch serves: its gcd and digit-class forms
answer for tiles of any shape.

A rotation is padding modulo the row: row m is turned by step (m / rows per step) elements, and what leaves it
on the right comes back on the left.  It takes no memory and needs no power of two, and serves blocks of lanes
that are none, 3 x 8 or 5 x 6, where no swizzle does.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import (
    Access,
    Place,
    SharedReport,
    analyze_access,
    instruction_costs,
    instruction_offsets,
)
from layoutalg.arch import Arch, find_instruction
from layoutalg.compose import Rotation
from layoutalg.dtype import DType
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, product


def pads_of(
    shape: IntTuple,
    accesses: Sequence[Access],
    element: DType,
    order: Order,
    max_extra_bytes: int,
    machine: Arch,
) -> Iterator[tuple[int, int]]:
    """Every pad worth trying within `max_extra_bytes`, as (elements, extra bytes in all).

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> column = Access("ld.shared.b128", Layout((32, 4), (1, 32)), "f32")
    >>> list(pads_of((32, 32), [column], dtype("f32"), "row", 1024, ARCHS["sm_90"]))
    [(4, 512), (8, 1024)]
    """
    sizes = [product(mode) for mode in (shape if isinstance(shape, tuple) else (shape,))]
    run = next((size for size in (reversed(sizes) if order == "row" else sizes) if size > 1), 1)
    rows = product(shape) // run
    step = _step(accesses, element, machine)
    turn = 8 * machine.banks * machine.bank_bytes // element.bits
    if rows == 1:
        return
    for pad in range(step, turn, step):
        extra_bytes = rows * pad * element.bits // 8
        if extra_bytes > max_extra_bytes:
            return
        yield pad, extra_bytes


def _step(accesses: Sequence[Access], element: DType, machine: Arch) -> int:
    """Elements by multiples of which rows may grow: whole bytes, and whole vectors of every access."""
    widest = max((find_instruction(access.op, machine).width_bytes for access in accesses), default=1)
    return max(1, 8 * widest // element.bits)


def padded_tiles(
    shape: IntTuple, accesses: Sequence[Access], order: Order, pads: Sequence[tuple[int, int]], machine: Arch
) -> Iterator[tuple[Layout, int]]:
    """The padded storage orders, with their extra bytes, on which no access's first instruction conflicts.

    Offsets are affine in the pad, so those of all tiles follow from two tiles, and are counted together.

    >>> from layoutalg.arch import ARCHS
    >>> column = Access("ld.shared.b128", Layout((32, 4), (1, 32)), "f32")
    >>> pads = [(4, 512), (8, 1024), (12, 1536), (16, 2048)]
    >>> [(str(t), n) for t, n in padded_tiles((32, 32), [column], "row", pads, ARCHS["sm_90"])]
    [('(32,32):(36,1)', 512), ('(32,32):(44,1)', 1536)]
    """
    free: Sequence[int] = range(len(pads))
    # Paddings are one pad step apart, so the offsets of a lane are too: start + n * (next - start).
    two = [storage_layout(shape, order, pad) for pad, _ in pads[:2]]
    for access in accesses if len(two) == 2 else ():
        first, second = (instruction_offsets(tile, access, Place(0, 0, 0), machine) for tile in two)
        pairs = list(zip(first, second, strict=True))
        rows = [[None if a is None or b is None else a + n * (b - a) for a, b in pairs] for n in free]
        free = _without_conflict(access, machine, free, rows)
    for n in free:
        yield storage_layout(shape, order, pads[n][0]), pads[n][1]


def _without_conflict(
    access: Access, machine: Arch, numbers: Sequence[int], rows: Sequence[Sequence[int | None]]
) -> list[int]:
    """The numbers whose row of lanes, as one instruction of the access, has no conflict."""
    costs = instruction_costs(find_instruction(access.op, machine), machine, rows)
    return [number for number, (taken, ideal, _) in zip(numbers, costs, strict=True) if taken == ideal]


def rotated_tiles(
    shape: tuple[int, int], accesses: Sequence[Access], element: DType, machine: Arch
) -> Iterator[ComposedLayout]:
    """The rotations of a tile stored by rows on which the first instruction of every access has no conflict.

    Steps are multiples of the widest vector; the fewest rows per step come first, then the smallest step.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> block = Access("ld.shared.b128", Layout(((6, 4), 4, (5, 2)), ((1, 48), 12, (192, 6))), "f32")
    >>> print(next(rotated_tiles((12, 80), [block], dtype("f32"), ARCHS["sm_90"])))
    (80,2,12):(1,0,80) o 0 o ((2,6),80):((160,332),1)
    """
    rows, columns = shape
    vector = _step(accesses, element, machine)
    if columns % vector:
        return
    first = [instruction_offsets(storage_layout(shape, "row"), a, Place(0, 0, 0), machine) for a in accesses]

    def turned(byte: int | None, step: int, many: int) -> int | None:
        if byte is None:
            return None
        row, column = divmod(8 * byte // element.bits, columns)
        return (row * columns + (column + step * (row // many)) % columns) * element.bits // 8

    for many in (n for n in range(1, rows) if rows % n == 0):
        free: Sequence[int] = range(vector, columns, vector)
        for access, base in zip(accesses, first, strict=True):
            lanes = [[turned(byte, step, many) for byte in base] for step in free]
            free = _without_conflict(access, machine, free, lanes)
        for step in free:
            yield Rotation(rows, columns, step, many).layout()


def reports_if_free(
    layout: AnyLayout, accesses: Sequence[Access], machine: Arch
) -> tuple[SharedReport, ...] | None:
    """The reports of all accesses if none has a conflict, else None.

    >>> from layoutalg.arch import ARCHS
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 32)), "f32")
    >>> reports_if_free(Layout((32, 32), (32, 1)), [column], ARCHS["sm_90"]) is None
    True
    """
    out: list[SharedReport] = []
    for access in accesses:
        report = analyze_access(layout, access, machine)
        if not isinstance(report, SharedReport) or not report.conflict_free:
            return None
        out.append(report)
    return tuple(out)
