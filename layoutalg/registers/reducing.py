"""The ways to reduce a fragment along a dimension, each with its cost: the choice is the cheapest.

The idea.  The part of a row in registers of one lane is folded there in any case (reductions).  What lies
in other lanes and warps may come

    shuffle    by butterflies between the lanes of a warp; what other warps have, through shared memory
    redux      by one redux.sync for each row, where all 32 lanes of a warp share it; integers, from sm_80 on
    shared     through shared memory alone: each lane writes its part, and reads the others'

>>> from layoutalg.layout import Layout
>>> from layoutalg.registers import fragment
>>> accumulator = fragment(Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), (16, 8))
>>> for plan in reduction_plans(accumulator, along="n", element="s32"):
...     print(plan)
shuffle: 6 operations, 4 shuffles; 7 cycles
shared: 8 operations, 8 wavefronts; 12 cycles
>>> row = fragment(Layout((32, 4), (1, 32)), (1, 128))
>>> print(*reduction_plans(row, along="n", element="s32"), sep="\\n")
redux: 3 operations, 1 redux.sync; 3.5 cycles
shuffle: 8 operations, 5 shuffles; 9 cycles
shared: 34 operations, 32 wavefronts; 49 cycles

Notes.  `wavefronts` and cycles are those of one warp, weighed as conversions are, and redux.sync by its
throughput of 16 lanes per cycle.  One redux.sync with a mask per group of lanes would be one instruction per
group, each for the whole warp: it is not a candidate.

Source: PTX ISA 9.0, redux.sync (sm_80: .u32, .s32, .add, .min, .max); CUDA C++ Programming Guide,
"Arithmetic Instructions", warp reduce operations of compute capability 8.x and 9.0: 16 results per cycle.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.analysis import wavefronts
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.dtype import DType, dtype
from layoutalg.errors import UnsupportedError, check_choice
from layoutalg.f2 import Columns, Echelon, apply, kernel
from layoutalg.registers.fragments import Fragment
from layoutalg.registers.reductions import (
    WORD_BYTES,
    Exchange,
    Reduction,
    numbers_of,
    reduction_of,
    row_numbers,
)
from layoutalg.registers.steps import Cost

ReductionKind: TypeAlias = Literal["shuffle", "redux", "shared"]
"""The way the parts of a row are combined: between lanes, by one instruction, or in shared memory alone."""

ReductionOp: TypeAlias = Literal["sum", "max", "min"]

OPERATIONS: tuple[ReductionOp, ...] = ("sum", "max", "min")

_ELEMENTS = ("f32", "s32", "u32")

_REDUX_SM = (8, 0)

_OPERATION_CYCLES, _REDUX_CYCLES = 0.5, 2.0
"""64 lanes per cycle add or compare, 16 of a redux.sync arrive."""


@dataclass(frozen=True, slots=True)
class ReductionPlan:
    """A way to reduce; every lane ends with the result of each of its rows.

    After a lane's own `reduction.groups` are folded come the `exchanges` between lanes, or one redux.sync per
    group.  Then, where `together` is more than 1, the part of thread t is written to slot
    `apply(slots, t)` of its row, unless t has a bit of `silent`; and the other slots are read, behind a
    barrier of the block where `barriers`, of the warp otherwise.  `places` are the words from slot to slot
    and from row to row.
    """

    kind: ReductionKind
    reduction: Reduction
    exchanges: tuple[Exchange, ...]
    reduxes: int
    slots: Columns
    together: int
    silent: int
    places: tuple[int, int]
    wavefronts: int
    barriers: int

    @property
    def shuffles(self) -> int:
        """Shuffles, each followed by one operation."""
        return len(self.reduction.groups) * len(self.exchanges)

    @property
    def operations(self) -> int:
        """Additions or comparisons of a lane."""
        rest = len(self.reduction.groups) * (self.together - 1)
        return self.reduction.lane_operations + self.shuffles + rest

    @property
    def cycles(self) -> float:
        """Cycles of an SM for one warp, by throughput."""
        moved = Cost(shuffles=self.shuffles, wavefronts=self.wavefronts, barriers=self.barriers)
        return moved.cycles + _OPERATION_CYCLES * self.operations + _REDUX_CYCLES * self.reduxes

    @property
    def shared_bytes(self) -> int:
        """Shared memory for the parts."""
        return row_numbers(self.reduction) * self.together * WORD_BYTES if self.together > 1 else 0

    def __str__(self) -> str:
        parts = [f"{self.operations} operations"]
        for count, name in (
            (self.shuffles, "shuffles"), (self.reduxes, "redux.sync"), (self.wavefronts, "wavefronts"),
            (self.barriers, "barrier"),
        ):  # fmt: skip
            parts += [f"{count} {name}"] if count else []
        return f"{self.kind}: {', '.join(parts)}; {self.cycles:g} cycles"


def reduction_plans(
    tile: Fragment,
    *,
    along: str,
    element: str | DType = "f32",
    operation: ReductionOp = "max",
    arch: str | Arch = DEFAULT_ARCH,
) -> tuple[ReductionPlan, ...]:
    """Every way to reduce a fragment along a dimension, the cheapest first, which is the choice.

    `element` is f32, s32 or u32.  Raises UnsupportedError for other elements, UnknownNameError for another
    operation, ShapeError for a dimension that does not exist.

    >>> from layoutalg.layout import Layout
    >>> from layoutalg.registers import fragment
    >>> wgmma = fragment(Layout(((4, 8, 4), (2, 2, 32)), ((128, 1, 16), (64, 8, 512))), (64, 256))
    >>> reduction_plans(wgmma, along="m")[0].barriers
    1
    """
    machine, what = find_arch(arch), dtype(element)
    if what.name not in _ELEMENTS:
        raise UnsupportedError(f"a reduction of {what}: {', '.join(_ELEMENTS)} are accepted")
    check_choice("reduction", operation, OPERATIONS)
    base = reduction_of(tile, along=along, arch=machine)
    lanes = tile.layout.in_bits["lane"]
    of_warps = (0,) * lanes + base.warp_slots
    plans = [_plan("shuffle", base, base.exchanges, 0, of_warps, base.warps_together, machine)]
    own = tuple(range(len(base.groups)))
    distances = Echelon([exchange.distance for exchange in base.exchanges])
    if (
        what.name != "f32"
        and machine.compute_capability >= _REDUX_SM
        and len(base.exchanges) == lanes == machine.lanes.bit_length() - 1
        and len(distances.basis()) == lanes
        and all(exchange.partner == own for exchange in base.exchanges)
    ):
        plans.append(_plan("redux", base, (), len(base.groups), of_warps, base.warps_together, machine))
    if base.exchanges:
        slots, together = base.thread_slots
        plans.append(_plan("shared", base, (), 0, slots, together, machine))
    return tuple(sorted(plans, key=lambda plan: plan.cycles))


def _plan(
    kind: ReductionKind,
    base: Reduction,
    exchanges: tuple[Exchange, ...],
    reduxes: int,
    slots: Columns,
    together: int,
    machine: Arch,
) -> ReductionPlan:
    """The plan with what shared memory it takes."""
    if together == 1:
        return ReductionPlan(kind, base, exchanges, reduxes, (), 1, 0, (0, 0), 0, 0)
    tile = base.tile
    number, registers = numbers_of(tile, base.along), tile.layout.in_bits["register"]
    rows = row_numbers(base)
    # Threads that would write what another one writes: of each set, the one without these bits does.
    places = [n << len(slots) for n in number[:registers]]
    places += [n << len(slots) | slot for n, slot in zip(number[registers:], slots, strict=True)]
    same = Echelon([vector >> registers for vector in kernel(places)])
    silent = sum(1 << (vector.bit_length() - 1) for vector in same.basis())
    served, steps = min(
        (_wavefronts(base, slots, together, silent, steps, machine), steps)
        for steps in ((rows, 1), (1, together))
    )
    lane_bits = tile.layout.in_bits["lane"]
    crosses = int(any(slots[lane_bits:]) or silent >> lane_bits > 0)  # a warp reads what another one wrote
    return ReductionPlan(kind, base, exchanges, reduxes, slots, together, silent, steps, served, crosses)


def _wavefronts(
    base: Reduction, slots: Columns, together: int, silent: int, steps: tuple[int, int], machine: Arch
) -> int:
    """The wavefronts of warp 0's stores and loads, `steps` being words from slot to slot and row to row."""
    # Another group, or another slot that is read, is a XOR of all words, which permutes the banks.
    tile = base.tile
    number, registers = numbers_of(tile, base.along), tile.layout.in_bits["register"]
    words = [
        WORD_BYTES * (apply(slots, lane) * steps[0] + apply(number, lane << registers) * steps[1])
        for lane in range(tile.lanes)
    ]
    idle: list[int | None] = [None] * (machine.lanes - tile.lanes)
    stored = [None if lane & silent else word for lane, word in enumerate(words)]
    store = wavefronts("st.shared.b32", [*stored, *idle], machine)
    load = wavefronts("ld.shared.b32", [*words, *idle], machine)
    return len(base.groups) * (store + (together - 1) * load)
