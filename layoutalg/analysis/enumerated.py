"""The definition of an access's cost: every instruction of the tile, counted.

The idea.  `instruction_offsets` spells out one instruction, lane by lane, straight from the meaning of an
Access; everything else in this package must agree with it.  `count_all` does the same for all instructions
under a budget: in blocks where NumPy is there, and otherwise one by one, by the definition itself.

>>> access = Access("ld.shared.b32", Layout((4, 1), (1, 0)), "f32")
>>> instruction_offsets(Layout((4, 8), (8, 1)), access, Place(0, 0, 0), "sm_90")[:5]
[0, 32, 64, 96, None]
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.analysis.access import Access, Guard, addressing, vector_elems
from layoutalg.analysis.banks import served_batch, served_lanes, traffic_batch, traffic_lanes
from layoutalg.analysis.lanes import active_lanes, batch_lanes, misaligned, scattered
from layoutalg.analysis.report import CostClass, Place
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction, find_arch, find_instruction
from layoutalg.budget import Budget
from layoutalg.decide import leaf_count
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
from layoutalg.layout import (
    AnyLayout,
    Layout,
    Swizzles,
    check_integers,
    has_symbols,
    leaves,
    modes,
    size,
    span,
)
from layoutalg.limits import Most
from layoutalg.optional import has_numpy

if TYPE_CHECKING:
    from numpy.typing import NDArray

PER_UNIT = 64
"""The terms of element addresses that `count_all` computes per unit of work."""

_BLOCK = 1 << 18


class Extent(NamedTuple):
    """The instructions of an access: warps x registers x iterations of them, of `elems` elements per lane."""

    threads: int
    warps: int
    registers: int
    iterations: int
    elems: int

    @property
    def instructions(self) -> int:
        """The number of all instructions."""
        return self.warps * self.registers * self.iterations


def check_layout(layout: AnyLayout) -> None:
    """Refuse what offsets cannot be counted of: symbols, strides along modes, and what is not a layout.

    >>> check_layout(Layout((4, 8)))
    """
    try:
        check_integers("analyze", layout)
    except UnsupportedError:
        if isinstance(layout, Layout) and has_symbols(layout):
            raise UnsupportedError(
                f"{layout} has symbols; analyze and solve_conflict_free answer for those"
            ) from None
        raise


def access_extent(layout: AnyLayout, access: Access, rule: Instruction, machine: Arch) -> Extent:
    """The instructions of `access`, after checking that it fits the layout and the instruction.

    Raises ShapeError when the values are not a whole number of vectors, or the access leaves the layout's
    domain (asked of all lanes that supply an address, unless a predicate may exclude them); AlignmentError
    when the base is not known to be aligned.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> access = Access("ldmatrix.x4", Layout((32, 16), (1, 32)), "f16")
    >>> access_extent(Layout((32, 64)), access, INSTRUCTIONS["ldmatrix.x4"], ARCHS["sm_90"])
    Extent(threads=32, warps=1, registers=2, iterations=1, elems=8)
    """
    elems = vector_elems(rule, access.element)
    counts = [size(mode) for mode in modes(access.tv)]
    threads, values, iterations = counts[0], counts[1], counts[2] if len(counts) > 2 else 1
    if values % elems:
        raise ShapeError(
            f"{access.op} moves {elems} {access.element} a lane; the {values} values of tv {access.tv} are "
            f"no multiple"
        )
    counted = addressing(access, rule, machine)
    low, high = span(counted.tv)
    if counted.active is None and (low < 0 or high >= size(layout)):
        raise ShapeError(
            f"tv {access.tv} of {access.op} reaches the flat index {low if low < 0 else high} of {layout}, "
            f"whose size is {size(layout)}"
        )
    needed = max(rule.width_bytes, machine.bank_bytes) if rule.space == "shared" else rule.width_bytes
    if access.base_alignment_bytes % needed:
        raise AlignmentError(
            f"{access.op} needs a base known to {needed} bytes; base_alignment_bytes is "
            f"{access.base_alignment_bytes}",
            offset=access.base_alignment_bytes,
            required_bytes=needed,
        )
    warps = -(-threads // machine.lanes)
    return Extent(threads, warps, values // elems, iterations, elems)


def instruction_offsets(
    layout: AnyLayout, access: Access, place: Place, arch: str | Arch = DEFAULT_ARCH
) -> list[int | None]:
    """Byte offsets of the lanes of one instruction, None where a lane is inactive: THE definition.

    Raises AlignmentError when a lane's values are not contiguous or not aligned, ShapeError when a lane
    leaves the layout's domain.

    >>> access = Access("ld.shared.b64", Layout((32, 2), (2, 1)), "f32")
    >>> instruction_offsets(Layout(64), access, Place(0, 0, 0))[:3]
    [0, 8, 16]
    """
    machine = find_arch(arch)
    rule = find_instruction(access.op, machine)
    extent = access_extent(layout, access, rule, machine)
    bits, first_value = access.element.bits, place.register * extent.elems
    out: list[int | None] = []
    for lane in range(machine.lanes):
        thread = place.warp * machine.lanes + lane
        if thread >= extent.threads or lane >= rule.lanes:
            out.append(None)
            continue
        if not _is_active(layout, access, machine, thread, first_value, place.iteration):
            out.append(None)
            continue
        offsets: list[int] = []
        for value in range(first_value, first_value + extent.elems):
            index = _tv(access, thread, value, place.iteration)
            if not 0 <= index < size(layout):
                raise ShapeError(
                    f"thread {thread}, value {value}, iteration {place.iteration} of {access.op} is the flat "
                    f"index {index} of {layout}, whose size is {size(layout)}"
                )
            offsets.append(layout(index))
        for n, offset in enumerate(offsets):
            if offset != offsets[0] + n:
                raise scattered(rule, first_value + n, offset, offsets[0] + n)
        if offsets[0] * bits % 8:
            raise misaligned(rule, lane, offsets[0] * bits // 8)
        address = offsets[0] * bits // 8 + access.base_bytes
        if address % rule.width_bytes:
            raise misaligned(rule, lane, address)
        out.append(address)
    return out


def _is_active(
    layout: AnyLayout, access: Access, machine: Arch, thread: int, first_value: int, iteration: int
) -> bool:
    """Whether the lane's guard or predicate admits the instruction."""
    if isinstance(access.active, Guard):
        index = _tv(access, thread, first_value, iteration)
        return bool(access.active.admits(layout.shape, machine.lanes, thread, index))
    return access.active is None or bool(access.active(thread, first_value, iteration))


def _tv(access: Access, thread: Any, value: Any, iteration: Any) -> Any:
    """The flat index; an access without an iteration mode ignores it."""
    three = isinstance(access.tv.shape, tuple) and len(access.tv.shape) == 3
    return access.tv(thread, value, iteration) if three else access.tv(thread, value)


def count_all(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, shift_bytes: int = 0
) -> list[CostClass]:
    """Every instruction counted, equal costs gathered; `shift_bytes` is added to every address.

    Raises UndecidedError when that is more work than the budget has, ResourceError where flat indices do not
    fit 64-bit arithmetic, and as `instruction_offsets` does.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> access = Access("ld.shared.b32", Layout((32, 8), (8, 1)), "f32")
    >>> count_all(Layout((8, 32)), access, INSTRUCTIONS["ld.shared.b32"], ARCHS["sm_90"])
    [CostClass(instructions=8, cost=(8, 1, 8), place=Place(warp=0, register=0, iteration=0))]
    """
    extent = access_extent(layout, access, rule, machine)
    lookups = extent.instructions * machine.lanes * extent.elems
    budget = Budget(
        lambda: (
            f"{access.op} on {layout}: counting {extent.instructions} instructions one by one means "
            f"{lookups} addresses;"
        )
    )
    terms = 4 + len(leaves(access.tv)) + leaf_count(layout)
    budget.spend(lookups * (terms + (PER_UNIT // 4 if callable(access.active) else 0)) // PER_UNIT)
    _check_reach(layout, access)
    counted = _in_blocks if has_numpy() else _one_by_one
    kinds: dict[tuple[int, ...], tuple[int, int]] = {}
    for cost, count, at in counted(layout, access, rule, machine, extent, shift_bytes):
        before, first = kinds.get(cost, (0, at))
        kinds[cost] = (before + count, first)
    return [CostClass(n, cost, place_of(extent, at)) for cost, (n, at) in sorted(kinds.items())]


def _one_by_one(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, extent: Extent, shift_bytes: int
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """(cost, 1, number) of every instruction, by the definition."""
    for number in range(extent.instructions):
        lanes = instruction_offsets(layout, access, place_of(extent, number), machine)
        moved = [None if offset is None else offset + shift_bytes for offset in lanes]
        yield costs_by_definition(rule, machine, [moved])[0], 1, number


def _in_blocks(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, extent: Extent, shift_bytes: int
) -> Iterator[tuple[tuple[int, ...], int, int]]:
    """(cost, instructions, the number of the first) of every block, by cost; needs NumPy."""
    import numpy as np

    step = max(1, _BLOCK // (machine.lanes * extent.elems))
    for start in range(0, extent.instructions, step):
        number = np.arange(start, min(start + step, extent.instructions))
        offsets, mask = lane_addresses(layout, access, rule, machine, extent, number)
        costs = _batch_costs(rule, machine, np.where(mask, offsets + shift_bytes, 0), mask)
        unique, first, count = np.unique(costs, axis=0, return_index=True, return_counts=True)
        for cost, at, n in zip(unique.tolist(), first.tolist(), count.tolist(), strict=True):
            yield tuple(cost), n, start + at


def instruction_costs(
    rule: Instruction, machine: Arch, rows: Iterable[Sequence[int | None]]
) -> list[tuple[int, ...]]:
    """(wavefronts, ideal, ways), or (sectors, lines, useful bytes), of instructions given by lanes' bytes.

    All at once with NumPy, otherwise by the definition.  Raises as `active_lanes` does.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> rows = [[4 * lane for lane in range(32)], [128 * lane for lane in range(32)], [None] * 32]
    >>> instruction_costs(INSTRUCTIONS["ld.shared.b32"], ARCHS["sm_90"], rows)
    [(1, 1, 1), (32, 1, 32), (0, 0, 0)]
    """
    if not has_numpy():
        return costs_by_definition(rule, machine, rows)
    import numpy as np

    listed = list(rows)
    out: list[tuple[int, ...]] = []
    for start in range(0, len(listed), _BLOCK // machine.lanes):
        block = listed[start : start + _BLOCK // machine.lanes]
        offsets = np.array([[0 if a is None else a for a in row] for row in block])
        mask = np.array([[a is not None for a in row] for row in block])
        out.extend(map(tuple, _batch_costs(rule, machine, offsets, mask).tolist()))
    return out


def _batch_costs(rule: Instruction, machine: Arch, offsets: NDArray[Any], mask: NDArray[Any]) -> NDArray[Any]:
    """The costs of instructions, a row each."""
    import numpy as np

    lanes = batch_lanes(rule, machine, offsets, mask)
    if rule.space == "global":
        return traffic_batch(rule, machine, *lanes)
    return np.stack(served_batch(rule, machine, *lanes), axis=1)


def costs_by_definition(
    rule: Instruction, machine: Arch, rows: Iterable[Sequence[int | None]]
) -> list[tuple[int, ...]]:
    """`instruction_costs`, one instruction after another.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> costs_by_definition(INSTRUCTIONS["ld.global.b32"], ARCHS["sm_90"], [[32 * n for n in range(32)]])
    [(32, 8, 128)]
    """
    of = served_lanes if rule.space == "shared" else traffic_lanes
    return [tuple(of(rule, machine, active_lanes(rule, machine, row))) for row in rows]


def place_of(extent: Extent, number: int) -> Place:
    """Instruction `number`, counted warp first, then register, then iteration.

    >>> place_of(Extent(64, 2, 3, 4, 1), 7)
    Place(warp=1, register=0, iteration=1)
    """
    rest, warp = divmod(number, extent.warps)
    iteration, register = divmod(rest, extent.registers)
    return Place(warp, register, iteration)


def lane_addresses(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, extent: Extent, number: NDArray[Any]
) -> tuple[NDArray[Any], NDArray[Any]]:
    """Byte offsets and mask, (count, lanes), of the instructions `number`.

    >>> import numpy
    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> access, rule = Access("ld.shared.b32", Layout((32, 2), (1, 32)), "f32"), INSTRUCTIONS["ld.shared.b32"]
    >>> machine, tile = ARCHS["sm_90"], Layout(64)
    >>> extent = access_extent(tile, access, rule, machine)
    >>> lane_addresses(tile, access, rule, machine, extent, numpy.arange(2))[0][:, :3].tolist()
    [[0, 4, 8], [128, 132, 136]]
    """
    import numpy as np

    lane = np.arange(machine.lanes)
    thread = number[:, None] % extent.warps * machine.lanes + lane
    rest = number[:, None] // extent.warps
    first_value = np.broadcast_to(rest % extent.registers * extent.elems, thread.shape)
    iteration = np.broadcast_to(rest // extent.registers, thread.shape)
    mask = (thread < extent.threads) & (lane < rule.lanes)
    if isinstance(access.active, Guard):
        index = _tv(access, np.where(mask, thread, 0), first_value, iteration)
        mask &= access.active.admits(layout.shape, machine.lanes, thread, index)
    elif access.active is not None:
        predicate = access.active
        calls = zip(
            mask.ravel().tolist(),
            thread.ravel().tolist(),
            first_value.ravel().tolist(),
            iteration.ravel().tolist(),
            strict=True,
        )
        answers = [ok and bool(predicate(t, v, i)) for ok, t, v, i in calls]
        mask = np.array(answers, dtype=bool).reshape(mask.shape)
    thread = np.where(mask, thread, 0)
    first: NDArray[Any] = np.zeros_like(thread)
    for n in range(extent.elems):
        index = np.where(mask, _tv(access, thread, first_value + n, iteration), 0)
        outside = (index < 0) | (index >= size(layout))
        if outside.any():
            at = tuple(np.argwhere(outside)[0])
            raise ShapeError(
                f"thread {thread[at]}, value {first_value[at] + n}, iteration {iteration[at]} of {access.op} "
                f"is the flat index {index[at]} of {layout}, whose size is {size(layout)}"
            )
        offset = np.broadcast_to(layout(index), index.shape)
        if n == 0:
            first = offset
        wrong = mask & (offset != first + n)
        if wrong.any():
            at = tuple(np.argwhere(wrong)[0])
            raise scattered(rule, int(first_value[at]) + n, int(offset[at]), int(first[at]) + n)
    bits = access.element.bits
    ragged = mask & (first * bits % 8 != 0)
    if ragged.any():
        at = tuple(np.argwhere(ragged)[0])
        raise misaligned(rule, int(at[1]), int(first[at]) * bits // 8)
    return first * bits // 8 + access.base_bytes, mask


def _check_reach(layout: AnyLayout, access: Access) -> None:
    """Refuse layouts whose offsets could overflow 64-bit arithmetic, and indices that could."""
    furthest = max(size(layout), *map(abs, span(access.tv)))
    Most.MAGNITUDE.guard(furthest, "flat index that is looked at one by one")
    inner: AnyLayout = layout
    reach, factor = 0, 1
    swizzles = Swizzles()
    while not isinstance(inner, Layout):
        if isinstance(inner.outer, Layout):
            factor *= 1 + sum(abs(stride) for _, stride in leaves(inner.outer))
        swizzles = Swizzles(inner.swizzles, swizzles)
        reach += inner.offset
        inner = inner.inner
    low, high = span(inner)
    reach += max(-low, high)
    reach = swizzles.most_offset(reach, signed=low < 0)
    if 256 * (reach + 1) * factor + access.base_bytes > Most.MAGNITUDE.number:
        raise ShapeError(f"the offsets of {layout} do not fit the 2^62 bytes that are counted exactly")
