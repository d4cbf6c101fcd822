"""Accesses given lane by lane, from an index expression or a file: counted one by one, by the definition."""

from __future__ import annotations

import math
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg import analysis
from layoutalg.arch import Arch, find_instruction
from layoutalg.cli.inputs import Offsets, read_offsets
from layoutalg.dtype import DType
from layoutalg.errors import (
    AlignmentError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.layout import AnyLayout
from layoutalg.limits import Most
from layoutalg.reading import IndexText, parse_index

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Explicit(NamedTuple):
    """Offsets and mask, (registers * warps, lanes), registers slowest."""

    offsets: NDArray[Any]
    mask: NDArray[Any]
    warps: int


def read_explicit(
    index: str | None, path: Path | None, warps: int | None, regs: int | None, machine: Arch
) -> Explicit:
    """The offsets of --index over warps and registers, by default 1, or those of a file, a warp per line.

    Raises as `parse_index`, `index_offsets` and `read_offsets` do.
    """
    import numpy as np

    if index is None:
        offsets, mask = row_arrays(read_offsets(path, machine.lanes))  # type: ignore[arg-type]
        return Explicit(offsets, mask, len(offsets))
    warps = 1 if warps is None else warps
    offsets = index_offsets(parse_index(index), warps, 1 if regs is None else regs, machine)
    return Explicit(offsets, np.ones(offsets.shape, dtype=bool), warps)


def layout_of(given: Explicit, op: str, element: DType, machine: Arch) -> tuple[AnyLayout, str]:
    """Explicit offsets in elements as a layout (thread, value) -> offset, and the access that they are on it.

    A lane's vector lies from its offset on, and values count the vectors register by register.  Raises
    ShapeError where a lane is inactive, UnsupportedError where no layout is found, and as `vector_elems` and
    `identify` do.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> given = read_explicit("(lane//8)*144 + (lane%8)*16", None, None, None, ARCHS["sm_90"])
    >>> found, access = layout_of(given, "ld.shared.b128", dtype("u8"), ARCHS["sm_90"])
    >>> print(found, access)
    ((8,4),16):((16,144),1) ld.shared.b128@(32,16):(1,32)
    """
    import numpy as np

    from layoutalg.indexing import identify

    rule = find_instruction(op, machine)
    elems = analysis.vector_elems(rule, element)
    inactive = np.argwhere(~given.mask)
    if len(inactive):
        row, lane = inactive[0].tolist()
        raise ShapeError(
            f"instruction {row}, lane {lane} has no offset, and a page draws layouts, which have one "
            f"everywhere; layoutalg analyze counts such instructions"
        )
    Most.CELLS.guard(given.offsets.size * elems, "elements of all instructions", hint="analyze counts them")
    by_warp = given.offsets.reshape(-1, given.warps, machine.lanes).transpose(1, 2, 0)
    threads = given.warps * machine.lanes
    table = (by_warp[..., None] + np.arange(elems)).reshape(threads, -1)
    result = identify(table)
    if result.layout is None:
        raise UnsupportedError(
            f"a page draws layouts, and these offsets are none: {result.why}; layoutalg analyze counts them"
        )
    return result.layout, f"{rule.name}@({threads},{table.shape[1]}):(1,{threads})"


def index_offsets(index: IndexText, warps: int, registers: int, machine: Arch) -> NDArray[Any]:
    """The offsets of an index expression: (registers * warps, lanes), registers slowest.

    Raises ResourceError for lanes past Most.POINTS, ShapeError for a count below 1.
    """
    import numpy as np

    for what, number in (("--warps", warps), ("--regs", registers)):
        if number < 1:
            raise ShapeError(f"{what} is {number}; a positive number is needed")
    Most.POINTS.guard(warps * registers * machine.lanes, "lanes of all instructions")
    lane = np.arange(machine.lanes)
    warp = np.arange(warps)[:, None]
    register = np.arange(registers)[:, None, None]
    offsets = index(lane=lane, warp=warp, reg=register, tid=warp * machine.lanes + lane)
    return offsets.reshape(registers * warps, machine.lanes)


def row_arrays(rows: Sequence[Offsets]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Offsets and mask of rows in which None is an inactive lane."""
    import numpy as np

    offsets = np.array([[0 if offset is None else offset for offset in row] for row in rows], dtype=np.int64)
    return offsets, np.array([[offset is not None for offset in row] for row in rows], dtype=bool)


def to_bytes(offsets: NDArray[Any], bits: int, base_bytes: int) -> NDArray[Any]:
    """Byte addresses of offsets in units of `bits`; raises AlignmentError between bytes.

    Raises ResourceError for an address that is not a 62-bit number.
    """
    common = math.gcd(bits, 8)
    units, per_byte = bits // common, 8 // common
    for extreme in (int(offsets.min()), int(offsets.max())) if offsets.size else ():
        address = extreme * units // per_byte + base_bytes
        Most.MAGNITUDE.guard(max(abs(extreme * units), abs(address)), "magnitude of an offset or address")
    ragged = offsets % per_byte != 0
    if ragged.any():
        first = int(offsets[ragged].flat[0])
        raise AlignmentError(f"offset {first} in elements of {bits} bits does not start at a byte")
    scaled: NDArray[Any] = offsets * units // per_byte + base_bytes
    return scaled


def count_explicit(
    op: str,
    addresses: NDArray[Any],
    mask: NDArray[Any],
    warps: int,
    machine: Arch,
    element: DType | None = None,
) -> analysis.SharedReport | analysis.GlobalReport:
    """The report of instructions given by byte addresses and mask, both (count, lanes), warps fastest.

    Notes speak of `element` where it is given.

    Raises as the definitions in layoutalg.analysis do.
    """
    rule = find_instruction(op, machine)
    checked = analysis.batch_lanes(rule, machine, addresses, mask)
    notes = analysis.access_notes(rule, machine, element)

    def kinds(costs: Sequence[NDArray[Any]]) -> list[analysis.CostClass]:
        rows = zip(*(cost.tolist() for cost in costs), strict=True)
        return [
            analysis.CostClass(1, tuple(row), analysis.Place(n % warps, n // warps, 0))
            for n, row in enumerate(rows)
        ]

    if rule.space == "global":
        worst = max(
            int(analysis.traffic_batch(rule, machine, checked[0] + shift, checked[1])[:, 0].sum())
            for shift in range(0, machine.sector_bytes, rule.width_bytes)
        )
        counted = kinds(list(analysis.traffic_batch(rule, machine, *checked).T))
        return analysis.global_report(
            rule.name, counted, "enumerated", rule.provenance, worst, machine.sector_bytes, notes
        )
    counted = kinds(analysis.served_batch(rule, machine, *checked))
    worst_place = max(range(len(counted)), key=lambda n: analysis.worst_rank(counted[n]))
    offsets = [
        int(a) if on else None for a, on in zip(addresses[worst_place], mask[worst_place], strict=True)
    ]
    clash = analysis.worst_clash(rule.name, offsets, machine)
    place = counted[worst_place].place
    witness = analysis.Witness(place.warp, place.register, 0, *clash) if clash.ways else None
    return analysis.shared_report(rule.name, counted, "enumerated", rule.provenance, witness, notes)
