"""The addresses of a warp: the rule of the instruction, the lanes that count, and whether they are aligned.

The idea.  Every definition in this package starts from 32 byte offsets, one per lane, None where the lane is
inactive.  Two forms of that input are checked here, with the same refusals: a sequence for one
instruction, and NumPy arrays (offsets and a mask) for many at once.

    rule, machine = warp_rule("ldmatrix.x2", "shared", "sm_90")
    active_lanes(rule, machine, offsets)      [(lane, byte offset), ...] of lanes 0..15
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from layoutalg.arch import Arch, Instruction, Space, find_arch, find_instruction
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UnsupportedError, listed, shown
from layoutalg.layout import normalize
from layoutalg.limits import Most

if TYPE_CHECKING:
    from numpy.typing import NDArray

_OTHER = {"shared": "sectors", "global": "wavefronts"}


def warp_rule(instruction: str, space: Space, arch: str | Arch) -> tuple[Instruction, Arch]:
    """The rule of `instruction` on `arch`, which must address `space`.

    Raises UnknownNameError for a name that is not known, UnsupportedError for the other space and for an
    instruction that this architecture lacks.

    >>> warp_rule("ld.shared.b64", "shared", "sm_90")[0].group_lanes
    16
    """
    machine = find_arch(arch)
    rule = find_instruction(instruction, machine)
    if rule.space != space:
        counted = "wavefronts" if space == "shared" else "sectors"
        raise UnsupportedError(
            f"{counted} are counted for {space} memory, and {instruction} addresses {rule.space} memory; "
            f"ask for its {_OTHER[space]}"
        )
    return rule, machine


def active_lanes(
    rule: Instruction, machine: Arch, offsets: Sequence[int | None]
) -> tuple[tuple[int, int], ...]:
    """(lane, byte offset) of the lanes that are active and supply an address.

    Raises ShapeError for a wrong number of offsets or one that is negative or past Most.MAGNITUDE,
    ArgumentTypeError for one that is not an integer, AlignmentError for one that is not a multiple of the
    width.

    >>> rule, machine = warp_rule("ldmatrix.x1", "shared", "sm_90")
    >>> active_lanes(rule, machine, [0, None, 32] + [None] * 29)
    ((0, 0), (2, 32))
    """
    offsets = listed(rule.name, offsets, "a list of offsets")
    if len(offsets) != machine.lanes:
        raise ShapeError(
            f"{rule.name} on {machine.name} takes {machine.lanes} offsets, one per lane (None: inactive); "
            f"{len(offsets)} were given"
        )
    out: list[tuple[int, int]] = []
    for lane in range(rule.lanes):
        offset = offsets[lane]
        if offset is None:
            continue
        if type(offset) is not int:
            plain = normalize(offset, f"the offset of lane {lane}")
            if isinstance(plain, tuple):
                raise ArgumentTypeError(f"the offset of lane {lane} is {shown(plain)}; an integer is needed")
            offset = plain
        if not 0 <= offset <= Most.MAGNITUDE.number:
            raise ShapeError(f"the offset {offset} of lane {lane} is not a byte address: 0 to 2^62 are")
        if offset % rule.width_bytes:
            raise misaligned(rule, lane, offset)
        out.append((lane, offset))
    return tuple(out)


def misaligned(rule: Instruction, lane: int, offset: int) -> AlignmentError:
    """The error for a lane whose address is not a multiple of the instruction's width.

    >>> rule, _ = warp_rule("ld.shared.b128", "shared", "sm_90")
    >>> print(misaligned(rule, 1, 132))
    ld.shared.b128 needs addresses that are multiples of 16 bytes; lane 1 has 132
    """
    return AlignmentError(
        f"{rule.name} needs addresses that are multiples of {rule.width_bytes} bytes; "
        f"lane {lane} has {offset}",
        offset=offset,
        required_bytes=rule.width_bytes,
    )


def scattered(rule: Instruction, value: int, offset: int, wanted: int) -> AlignmentError:
    """The error for a lane whose values are not next to each other; offsets in elements.

    >>> rule, _ = warp_rule("ld.shared.b128", "shared", "sm_90")
    >>> print(scattered(rule, 1, 64, 1))
    ld.shared.b128 needs the values of a lane in contiguous elements; value 1 is at offset 64 instead of 1
    """
    return AlignmentError(
        f"{rule.name} needs the values of a lane in contiguous elements; "
        f"value {value} is at offset {offset} instead of {wanted}",
        offset=offset,
        required_bytes=rule.width_bytes,
    )


def batch_lanes(
    rule: Instruction, machine: Arch, offsets: Any, active: Any = None
) -> tuple[NDArray[Any], NDArray[Any]]:
    """(offsets, mask) as int64 and bool arrays of shape (count, rule.lanes); 0 where a lane is inactive.

    `offsets` has shape (count, machine.lanes); `active` likewise, or None for all.  The same refusals as
    `active_lanes`.

    >>> import numpy
    >>> rule, machine = warp_rule("ldmatrix.x1", "shared", "sm_90")
    >>> batch_lanes(rule, machine, 16 * numpy.arange(64).reshape(2, 32))[0].shape
    (2, 8)
    """
    import numpy as np

    try:
        array, chosen = np.asarray(offsets), np.asarray(active)
    except ValueError as error:  # rows of several lengths, or lists nested too deep for an array
        raise ShapeError(f"{rule.name} takes arrays of offsets: {error}") from error
    if array.ndim != 2 or array.shape[1] != machine.lanes:
        raise ShapeError(
            f"{rule.name} on {machine.name} takes offsets of shape (count, {machine.lanes}); "
            f"{array.shape} were given"
        )
    if array.dtype.kind not in "iu":
        raise ArgumentTypeError(f"offsets have dtype {array.dtype}; an integer dtype is needed")
    mask = np.ones(array.shape, dtype=bool) if active is None else chosen
    if mask.shape != array.shape or mask.dtype.kind != "b":
        raise ShapeError(
            f"active needs shape {array.shape} and dtype bool; it has {mask.shape}, {mask.dtype}"
        )
    mask = mask[:, : rule.lanes]
    array = np.where(mask, array[:, : rule.lanes], 0)
    if array.size and (int(array.min()) < 0 or int(array.max()) > Most.MAGNITUDE.number):
        raise ShapeError(f"offsets run from {array.min()} to {array.max()}; byte addresses are 0 to 2^62-1")
    array = array.astype(np.int64)
    wrong = array % rule.width_bytes != 0
    if wrong.any():
        row, lane = (int(i) for i in np.argwhere(wrong)[0])
        raise misaligned(rule, lane, int(array[row, lane]))
    return array, mask


def distinct(values: NDArray[Any], mask: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
    """Sorted rows of `values`, and a mask that keeps one of each value that `mask` admits.

    >>> import numpy
    >>> rows, keep = distinct(numpy.array([[5, 3, 5, 9]]), numpy.array([[True, True, True, False]]))
    >>> rows[keep].tolist()
    [3, 5]
    """
    import numpy as np

    rows = np.sort(np.where(mask, values, -1), axis=1)
    keep = rows >= 0
    keep[:, 1:] &= rows[:, 1:] != rows[:, :-1]
    return rows, keep
