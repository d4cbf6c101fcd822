"""Checks on access patterns: no bank conflicts, sectors used in full.  Import them from layoutalg.testing.

A failure names the access, its cost, and one instruction that shows it.  A bank conflict is shrunk to the
fewest lanes that still have it, as a layout of their addresses; wasted sectors are a matter of the whole
warp, whose lanes are shown.

>>> tile = Layout((64, 64), (64, 1))
>>> check_conflict_free(tile, "ldmatrix.x4", element="f16")
Traceback (most recent call last):
...
layoutalg.errors.MismatchError: (64,64):(64,1) with ldmatrix.x4 on f16 takes 512 wavefronts instead of 64;
in warp 0, value 0, iteration 0 lanes 0 and 1 are enough: 2:64 elements, at bytes 0 and 128
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import islice, pairwise, product
from typing import TypeAlias

from layoutalg.analysis import (
    Access,
    GlobalReport,
    Place,
    SharedReport,
    access_extent,
    analyze_access,
    ideal_wavefronts,
    instruction_offsets,
    traffic,
    wavefronts,
)
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch, find_instruction
from layoutalg.dtype import DType
from layoutalg.errors import ArgumentTypeError, MismatchError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, Layout
from layoutalg.testing.minimal import shrink_lanes

LaneBytes: TypeAlias = "list[int | None]"

SHOWN_INSTRUCTIONS = 4096
"""Instructions of an access that are looked through for one that shows a failure."""


def check_conflict_free(
    layout: AnyLayout,
    *accesses: Access | str,
    element: str | DType | None = None,
    arch: str | Arch = DEFAULT_ARCH,
) -> None:
    """Every access takes its ideal number of wavefronts, in all of its instructions.

    An access is an Access, or a text OP[@row|col|TV] that covers the layout with elements of `element`.
    Raises MismatchError, whose `index` is (warp, value, iteration) of an instruction that conflicts;
    UnsupportedError for an access of global memory; and what `analyze` raises.

    >>> from layoutalg.layout import ComposedLayout, Swizzle
    >>> swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
    >>> check_conflict_free(swizzled, "ldmatrix.x4", "st.shared.b128", element="f16")
    """
    for access in _resolve(layout, accesses, element):
        report = analyze_access(layout, access, arch)
        if not isinstance(report, SharedReport):
            raise UnsupportedError(f"{access.op} has no bank conflicts: ask check_coalesced about it")
        if not report.conflict_free:
            what = f"takes {report.total} wavefronts instead of {report.ideal_total}"
            raise _mismatch(layout, access, arch, what, _conflict)


def check_coalesced(
    layout: AnyLayout,
    *accesses: Access | str,
    element: str | DType | None = None,
    min_efficiency: float = 1.0,
    arch: str | Arch = DEFAULT_ARCH,
) -> None:
    """Every access uses at least `min_efficiency` of the bytes of the sectors that it moves.

    Accesses are given as for `check_conflict_free`.  Raises MismatchError, whose `index` is (warp, value,
    iteration) of an instruction that takes more sectors than its bytes need; UnsupportedError for an access
    of shared memory; ShapeError for an efficiency outside 0 to 1; and what `analyze` raises.

    >>> check_coalesced(Layout((64, 64), (64, 1)), "ld.global.b32", element="f32")
    >>> check_coalesced(Layout((64, 64), (66, 1)), "ld.global.b64", element="f32")
    Traceback (most recent call last):
    ...
    layoutalg.errors.MismatchError: (64,64):(66,1) with ld.global.b64 on f32 has efficiency 0.914 instead of
    1.0: 560 sectors for 16384 useful bytes; in warp 1, value 0, iteration 0 9 sectors instead of 8: lanes
    32:2 elements, from byte 264
    """
    if not 0 <= min_efficiency <= 1:
        raise ShapeError(f"min_efficiency is {min_efficiency}; a share from 0 to 1 is needed")
    for access in _resolve(layout, accesses, element):
        report = analyze_access(layout, access, arch)
        if not isinstance(report, GlobalReport):
            raise UnsupportedError(f"{access.op} moves no sectors: ask check_conflict_free about it")
        if report.efficiency < min_efficiency:
            what = (
                f"has efficiency {report.efficiency:.3f} instead of {min_efficiency}: {report.sectors} "
                f"sectors for {report.useful_bytes} useful bytes"
            )
            raise _mismatch(layout, access, arch, what, _waste)


def _resolve(
    layout: AnyLayout, accesses: tuple[Access | str, ...], element: str | DType | None
) -> Iterator[Access]:
    if not accesses:
        raise ArgumentTypeError(f"no access of {layout} was given to check; an Access or a text is needed")
    for access in accesses:
        if isinstance(access, str) and element is None:
            raise ArgumentTypeError(f"access {access!r} is a text; it needs element=..., such as 'f16'")
        yield Access.of(access, layout, element or "u8")


def _mismatch(
    layout: AnyLayout,
    access: Access,
    arch: str | Arch,
    what: str,
    evidence: Callable[[Access, LaneBytes, Arch], str | None],
) -> MismatchError:
    """The error, with the first instruction for which there is evidence."""
    machine = find_arch(arch)
    message = f"{layout} with {access.op} on {access.element} {what}"
    extent = access_extent(layout, access, find_instruction(access.op, machine), machine)
    numbers = product(range(extent.iterations), range(extent.registers), range(extent.warps))
    for iteration, register, warp in islice(numbers, SHOWN_INSTRUCTIONS):
        lanes = instruction_offsets(layout, access, Place(warp, register, iteration), machine)
        shown = evidence(access, lanes, machine)
        if shown is not None:
            index = (warp, register * extent.elems, iteration)
            where = "in warp {}, value {}, iteration {}".format(*index)
            return MismatchError(f"{message}; {where} {shown}", index=index)
    return MismatchError(message)


def _conflict(access: Access, lanes: LaneBytes, machine: Arch) -> str | None:
    """The fewest lanes that take more than their ideal."""

    def fails(some: Sequence[int | None]) -> bool:
        return wavefronts(access.op, some, machine) > ideal_wavefronts(access.op, some, machine)

    if not fails(lanes):
        return None
    fewest = [(lane, at) for lane, at in enumerate(shrink_lanes(lanes, fails)) if at is not None]
    names, bytes_ = (" and ".join(map(str, column)) for column in zip(*fewest, strict=True))
    return f"lanes {names} are enough: {_spacing(access, [at for _, at in fewest])}, at bytes {bytes_}"


def _waste(access: Access, lanes: LaneBytes, machine: Arch) -> str | None:
    """The sectors of an instruction, if its useful bytes would fit fewer."""
    moved = traffic(access.op, lanes, machine)
    needed = -(-moved.useful_bytes // machine.sector_bytes)
    if moved.sectors == needed:
        return None
    taken = [at for at in lanes if at is not None]
    return (
        f"{moved.sectors} sectors instead of {needed}: lanes {_spacing(access, taken)}, from byte {taken[0]}"
    )


def _spacing(access: Access, offsets: list[int]) -> str:
    """Equally spaced addresses as a layout, in elements; others as they are."""
    steps = {b - a for a, b in pairwise(offsets)}
    if len(steps) != 1:
        return f"at bytes {', '.join(map(str, offsets))}"
    return f"{Layout(len(offsets), steps.pop() * 8 // access.element.bits)} elements"
