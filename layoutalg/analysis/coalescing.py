"""Global-memory sectors of one warp instruction: the definition, for many at once, and closed forms.

The idea.  A warp's global access is one request; memory moves in 32-byte sectors, four to a 128-byte line.
What the request costs is the number of DISTINCT sectors its active lanes touch, at every width:

    32 lanes, 4 bytes, contiguous, aligned          128 bytes      4 sectors
    the same, 4 bytes further                       128 bytes      5 sectors   (misalignment costs one)
    32 lanes, 4 bytes, stride 32 bytes                            32 sectors   (an eighth is useful)

Efficiency is distinct useful bytes over bytes moved.  Distinct, because lanes that read one word make
neither more traffic nor more than 100 %.

Closed forms.

LINEAR.  address(lane) = base ^ (XOR of the columns its bits select), base a multiple of a line: the sectors
are 2^rank(columns / 32), the lines 2^rank(columns / 128), the useful bytes width * 2^rank(columns / width).

STRIDE.  address(lane) = start + d lane, lowest address a: with D = |d| and S = 32 or 128 bytes, lanes
closer than S skip no sector and farther ones share none, so the count is

    1 for D = 0;    floor((a mod S + (lanes - 1) D) / S) + 1 for D < S;    the lane count for D >= S

>>> b32 = warp_rule("ld.global.b32", "global", "sm_90")
>>> linear_traffic(*b32, (4, 8, 16, 32, 64)), stride_traffic(*b32, 4, 32, 28)
(Traffic(sectors=4, lines=1, useful_bytes=128), Traffic(sectors=5, lines=2, useful_bytes=128))

Notes.  Counted on an H200 for loads and stores of 1 to 16 bytes
(l1tex__t_sectors_pipe_lsu_mem_global_op_{ld,st}.sum).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.analysis.lanes import active_lanes, batch_lanes, distinct, warp_rule
from layoutalg.arch import Arch, Instruction
from layoutalg.f2 import rank

if TYPE_CHECKING:
    from numpy.typing import NDArray


class Traffic(NamedTuple):
    """The traffic of one request: distinct sectors, distinct lines, distinct useful bytes."""

    sectors: int
    lines: int
    useful_bytes: int


def sectors(instruction: str, offsets: Sequence[int | None], arch: str | Arch = "sm_90") -> int:
    """Distinct 32-byte sectors that one warp-wide global-memory instruction touches.

    `offsets` are byte addresses, one per lane, None where a lane is inactive.  Raises ShapeError when their
    number is not the architecture's lane count, AlignmentError for a lane that is not a multiple of the
    width, UnknownNameError, and UnsupportedError for a shared-memory instruction.

    Source: CUDA C++ Best Practices Guide, Coalesced Access to Global Memory; counted on an H200.

    >>> [sectors("ld.global.b32", [start + 4 * lane for lane in range(32)]) for start in (0, 4, 28)]
    [4, 5, 5]
    """
    return traffic(instruction, offsets, arch).sectors


def traffic(instruction: str, offsets: Sequence[int | None], arch: str | Arch = "sm_90") -> Traffic:
    """Sectors, lines and useful bytes of one instruction, by the definition.  Raises as `sectors` does.

    >>> traffic("ld.global.b64", [0] * 16 + [128] * 16)
    Traffic(sectors=2, lines=2, useful_bytes=16)
    """
    rule, machine = warp_rule(instruction, "global", arch)
    return traffic_lanes(rule, machine, active_lanes(rule, machine, offsets))


def traffic_lanes(rule: Instruction, machine: Arch, active: Sequence[tuple[int, int]]) -> Traffic:
    """`traffic` of lanes that `active_lanes` has checked: THE definition.

    >>> rule, machine = warp_rule("ld.global.b64", "global", "sm_90")
    >>> traffic_lanes(rule, machine, ((0, 24), (1, 32), (2, 32)))
    Traffic(sectors=2, lines=1, useful_bytes=16)
    """
    touched = {byte for _, address in active for byte in range(address, address + rule.width_bytes)}
    return Traffic(
        len({byte // machine.sector_bytes for byte in touched}),
        len({byte // machine.line_bytes for byte in touched}),
        len(touched),
    )


def sectors_batch(
    instruction: str, offsets: Any, active: Any = None, arch: str | Arch = "sm_90"
) -> NDArray[Any]:
    """`sectors` of many instructions at once: int64 of shape (count,).

    `offsets` is an integer array of shape (count, lanes), `active` a bool array of that shape or None.
    Raises as `sectors` does.

    >>> import numpy
    >>> lane = numpy.arange(32)
    >>> sectors_batch("ld.global.b128", numpy.stack([16 * lane, 16 * lane + 16, 128 * lane])).tolist()
    [16, 17, 32]
    """
    rule, machine = warp_rule(instruction, "global", arch)
    return traffic_batch(rule, machine, *batch_lanes(rule, machine, offsets, active))[:, 0]


def traffic_batch(
    rule: Instruction, machine: Arch, offsets: NDArray[Any], mask: NDArray[Any]
) -> NDArray[Any]:
    """(sectors, lines, useful bytes) of instructions whose lanes `batch_lanes` has checked: (count, 3).

    >>> import numpy
    >>> rule, machine = warp_rule("ld.global.b32", "global", "sm_90")
    >>> traffic_batch(rule, machine, *batch_lanes(rule, machine, 32 * numpy.arange(32)[None, :])).tolist()
    [[32, 8, 128]]
    """
    import numpy as np

    # An aligned lane no wider than a sector lies in one; a wider one (no GPU has it) in several.
    out = np.empty((len(offsets), 3), dtype=np.int64)
    units = (machine.sector_bytes, machine.line_bytes, rule.width_bytes)
    for column, unit in enumerate(units):
        each = max(1, rule.width_bytes // unit)
        cells = (offsets // unit)[:, :, None] + np.arange(each)
        _, keep = distinct(cells.reshape(len(offsets), -1), np.repeat(mask, each, axis=1))
        out[:, column] = keep.sum(axis=1)
    out[:, 2] *= rule.width_bytes
    return out


# --- closed forms --------------------------------------------------------------------------------------


def linear_traffic(rule: Instruction, machine: Arch, columns: Sequence[int]) -> Traffic:
    """Traffic when lane l < 2^len(columns) is at base ^ (XOR of the columns that l's bits select).

    `columns` are in bytes, of lanes 1, 2, 4, ...; the base is a multiple of a line.  Equal to the
    definition: tests/analysis/test_banks.py.

    >>> linear_traffic(*warp_rule("ld.global.b128", "global", "sm_90"), (128, 256, 512, 1024, 16))
    Traffic(sectors=16, lines=16, useful_bytes=512)
    """
    used = columns[: rule.lanes.bit_length() - 1]
    sectors, lines, chunks = (
        1 << rank(column // unit for column in used)
        for unit in (machine.sector_bytes, machine.line_bytes, rule.width_bytes)
    )
    return Traffic(sectors, lines, chunks * rule.width_bytes)


def stride_traffic(
    rule: Instruction, machine: Arch, stride_bytes: int, active: int, start_bytes: int
) -> Traffic:
    """Traffic when lane l < `active` is at start + stride * l, and the others are inactive.

    Equal to the definition: tests/analysis/test_banks.py.

    >>> stride_traffic(*warp_rule("ld.global.b32", "global", "sm_90"), 12, 32, 4)
    Traffic(sectors=12, lines=3, useful_bytes=128)
    """
    active = min(active, rule.lanes)
    if active == 0:
        return Traffic(0, 0, 0)
    if stride_bytes == 0:
        return Traffic(1, 1, rule.width_bytes)
    reach = (active - 1) * abs(stride_bytes)
    lowest = start_bytes - (reach if stride_bytes < 0 else 0)
    sectors, lines = (
        active if abs(stride_bytes) >= unit else (lowest % unit + reach) // unit + 1
        for unit in (machine.sector_bytes, machine.line_bytes)
    )
    return Traffic(sectors, lines, active * rule.width_bytes)
