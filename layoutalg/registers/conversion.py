"""convert_layout: the cheapest way from one register layout to another, by counting, with its steps.

The idea.  What has to move decides what is possible (layoutalg.registers.place_map), what it costs
decides what is done:

    rename     every value is in the right lane: registers get other names, for nothing
    select     the right lane, but which register depends on the lane
    shuffle    the right warp: selects, shuffles, selects (layoutalg.registers.shuffles)
    shared     anything: store, barrier, load under a swizzle made for the two of them
               (layoutalg.registers.exchange)

The accumulator of two m16n8 products is, unchanged, the A operand of the next m16n8k16; with 8-bit
operands, where a lane needs four neighbours instead of two, it is not:

>>> from layoutalg.registers import register_layout
>>> from layoutalg.layout import Layout
>>> c = register_layout(Layout(((4, 8), (2, 2, 4)), ((32, 1), (16, 8, 128))), (16, 32))
>>> a_f16 = register_layout(Layout(((4, 8), (2, 2, 2, 2)), ((32, 1), (16, 8, 128, 256))), (16, 32))
>>> a_e4m3 = register_layout(Layout(((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256))), (16, 32))
>>> print(convert_layout(c, a_f16, "f16"))
rename: no instructions
>>> print(convert_layout(c, a_e4m3, "e4m3"))
shuffle: 8 selects, 4 permutes, 4 shuffles; 10 cycles

Notes.  Elements narrower than 32 bits lie in registers in order, 32 / bits of them in each.  Neighbours that
stay together move as one; others are taken out and put back by byte permutations, which count.  Every plan
that exists is built and counted, `alternatives` has those that cost more, and `run` executes any of them.

Comparison with Triton.  ttg.convert_layout chooses by what is possible; here both ways are counted.

Source: Linear Layouts, arXiv 2505.23819.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ResourceError, ShapeError, UnsupportedError, check_type
from layoutalg.f2 import LinearLayout
from layoutalg.registers.exchange import exchange_plan
from layoutalg.registers.place_map import (
    REGISTER_BITS,
    Packing,
    as_they_are,
    crosses,
    pack,
    permutes,
    place_map,
    words,
)
from layoutalg.registers.shuffles import shuffle_plans
from layoutalg.registers.steps import Cost, Load, PlanStep, Rename, Select, Shuffle, Store, cost_of, run

if TYPE_CHECKING:
    from numpy.typing import NDArray

PlanKind: TypeAlias = Literal["rename", "select", "shuffle", "shared"]

BYTE_BITS = 8


@dataclass(frozen=True, slots=True)
class Plan:
    """A way to convert, and what it costs a warp.

    Registers are put in the order `before`, 2^packed neighbours become one unit, the steps move units, and
    destination register r is element `after[r]` of the result.
    """

    kind: PlanKind
    before: tuple[int, ...]
    packed: int
    steps: tuple[PlanStep, ...]
    after: tuple[int, ...]
    cost: Cost

    def run(self, values: NDArray[Any]) -> NDArray[Any]:
        """Execute on an array (warp, lane, register) of source values; the result is the destination's.

        Raises ShapeError for an array of another shape.
        """
        if values.ndim != 3 or values.shape[2] != len(self.before):
            raise ShapeError(
                f"values have the shape {values.shape}; (warps, lanes, {len(self.before)}) is needed"
            )
        warps, lanes, _ = values.shape
        units = values[:, :, list(self.before)].reshape(warps, lanes, -1, 1 << self.packed)
        return run(self.steps, units).reshape(warps, lanes, -1)[:, :, list(self.after)]

    def __str__(self) -> str:
        counts = [(getattr(self.cost, name), name) for name in self.cost.__slots__]
        parts = ", ".join(f"{n} {name if n > 1 else name[:-1]}" for n, name in counts if n)
        return (
            f"{self.kind}: {parts}; {self.cost.cycles:g} cycles" if parts else f"{self.kind}: no instructions"
        )


@dataclass(frozen=True, slots=True)
class Conversion:
    """A conversion between register layouts: the cheapest plan, and the others in order of cost.

    `places` is the map it carries out, from places of `dst` to places of `src`.  `refused` says, for each way
    that is left out, why.
    """

    src: LinearLayout
    dst: LinearLayout
    element: DType
    places: LinearLayout
    plan: Plan
    alternatives: tuple[Plan, ...]
    refused: tuple[str, ...]

    def __str__(self) -> str:
        return str(self.plan)


def convert_layout(
    src: LinearLayout, dst: LinearLayout, element: str | DType = "f32", arch: str | Arch = DEFAULT_ARCH
) -> Conversion:
    """The cheapest conversion of a tensor from register layout `src` to `dst`, in throughput cycles per warp.

    Both layouts map (register, lane, warp) to the same tensor; either may hold elements several times, and
    `dst` may hold only some of them.  Ties go to the way that needs no shared memory.

    Raises ShapeError when tensors, lanes or warps differ, DivisibilityError when `dst` holds an element that
    `src` does not, UnsupportedError for other in dimensions and for elements narrower than a byte that do
    not move as whole bytes, ResourceError when only shared memory would do and the tensor does not fit.

    >>> rows = LinearLayout({"register": [1, 2], "lane": [4, 8]}, {"n": 16})
    >>> columns = LinearLayout({"register": [4, 8], "lane": [1, 2]}, {"n": 16})
    >>> found = convert_layout(rows, columns)
    >>> print(found, *found.alternatives, sep=", or ")
    shared: 8 wavefronts, 1 barrier; 10 cycles, or shuffle: 16 selects, 3 shuffles; 11 cycles
    """
    for layout in (src, dst):
        check_type("convert_layout", layout, LinearLayout, "a LinearLayout")
    machine, element = find_arch(arch), dtype(element)
    places = place_map(src, dst)
    most = max(0, (REGISTER_BITS // element.bits).bit_length() - 1)
    natural = as_they_are(places, most)
    if element.bits << natural.bits < BYTE_BITS:
        raise UnsupportedError(
            f"elements of {element.bits} bits that do not move as whole bytes: bytes are the least that "
            f"permutes, shuffles and shared memory keep apart"
        )
    plans: list[Plan] = []
    refused: list[str] = []
    if crosses(places, "warp"):
        refused.append("shuffle: values move between warps")
    else:
        packings = dict.fromkeys((natural, pack(places, most)))
        local = [_in_registers(p, steps, element) for p in packings for steps in shuffle_plans(p.units)]
        plans.append(min(local, key=_cycles))
    if crosses(places, "lane") or crosses(places, "warp"):
        try:
            plans.append(_through_shared(src, dst, natural, element, machine))
        except (ResourceError, UnsupportedError) as error:
            if not plans:
                raise
            refused.append(f"shared: {error.message}")
    best, *others = sorted(plans, key=_cycles)
    return Conversion(src, dst, element, places, best, tuple(others), tuple(refused))


def _cycles(plan: Plan) -> float:
    return plan.cost.cycles


def _in_registers(packing: Packing, steps: tuple[PlanStep, ...], element: DType) -> Plan:
    """The plan of steps that stay in the warp."""
    order = tuple(range(len(packing.before)))
    held = words(order, element.bits)
    if all(isinstance(step, Rename) for step in steps):
        units = list(range(len(order) >> packing.bits))
        for step in steps:
            units = [units[i] for i in step.sources] if isinstance(step, Rename) else units
        elements = _elements(units, packing.bits)
        names = tuple(packing.before[elements[i]] for i in packing.after)
        return Plan("rename", order, 0, (), names, Cost(permutes=permutes(words(names, element.bits), held)))
    first, last = steps[0], steps[-1]
    used = first.sources if isinstance(first, Rename) else range(len(order) >> packing.bits)
    last_units = last.sources if isinstance(last, Rename) else range(len(packing.after) >> packing.bits)
    taken_out = [tuple(packing.before[i] for i in _elements([unit], packing.bits)) for unit in used]
    moved = [tuple(_elements([unit], packing.bits)) for unit in last_units]
    elements = _elements(last_units, packing.bits)
    put_back = words([elements[i] for i in packing.after], element.bits)
    cost = cost_of(steps, max(1, element.bits // REGISTER_BITS))
    cost += Cost(permutes=permutes(taken_out, held) + permutes(put_back, moved))
    kind: PlanKind = "shuffle" if any(isinstance(step, Shuffle) for step in steps) else "select"
    return Plan(kind, packing.before, packing.bits, steps, packing.after, cost)


def _through_shared(
    src: LinearLayout, dst: LinearLayout, packing: Packing, element: DType, machine: Arch
) -> Plan:
    """The plan of an exchange through shared memory."""
    steps = exchange_plan(src, dst, packing.bits, element.bits << packing.bits, machine)
    count = 0
    held = words(packing.before, element.bits)
    last_units: Sequence[int] = range(len(packing.after) >> packing.bits)
    for step in steps:
        match step:
            case Store():
                vectors = [_elements(vector, packing.bits) for vector in step.transfer.vectors]
                count += permutes([word for v in vectors for word in words(v, element.bits)], held)
            case Load():
                vectors = [_elements(vector, packing.bits) for vector in step.transfer.vectors]
                held = [word for v in vectors for word in words(v, element.bits)]
            case Rename(sources):
                last_units = sources
            case Select() | Shuffle():
                pass
    count += permutes(words(_elements(last_units, packing.bits), element.bits), held)
    cost = cost_of(steps) + Cost(permutes=count)
    return Plan("shared", packing.before, packing.bits, steps, packing.after, cost)


def _elements(units: Iterable[int], bits: int) -> list[int]:
    """The elements of units of 2^bits."""
    return [unit << bits | k for unit in units for k in range(1 << bits)]
