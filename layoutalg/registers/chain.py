"""The register layout of each value of a chain of operations: the choice that costs least altogether.

The idea.  A tile is loaded, computed with, multiplied, reduced and stored, and each operation has register
layouts in which it is cheap: a load wants rows in vectors, a tensor core its fragments, a reduction rows in
few lanes.  Between two operations the tile is converted, or it is not.  Each operation is a few forms,

    (the layout it takes, the layout it gives, cycles of a warp)

and the chain is a shortest path: the best way to each form of one step goes on from the best ways to those
of the step before, with the cost of a conversion (conversion) in between.

    Q K           leaves an accumulator              0
    elementwise   on it as it is                    16
    convert       to 8-bit operand A                10      neighbours have to change lanes
    P V           takes operand A                    0

Compilers for tiles do this by rules (Triton's layout propagation and its removal of conversions,
ThunderKittens' types of register tiles); here it is the optimum of the candidates that are given, and of no
others.

>>> from layoutalg.layout import Layout
>>> from layoutalg.registers import register_layout
>>> c = register_layout(Layout(((4, 8), (2, 2, 4)), ((32, 1), (16, 8, 128))), (16, 32))
>>> a = register_layout(Layout(((4, 8), (4, 2, 2)), ((64, 1), (16, 8, 256))), (16, 32))
>>> memory = Layout((16, 32), (32, 1))
>>> chain = [operand_step(c, c, "Q K"), elementwise_step([c, a], 2), operand_step(a, c, "P V")]
>>> chain.append(store_step(memory, [c, a], "e4m3"))
>>> print(choose_layouts(chain, {"accumulator": c, "operand A": a}, "e4m3"))
Q K: accumulator, 0 cycles
elementwise: accumulator, 16 cycles
convert: shuffle: 8 selects, 4 permutes, 4 shuffles; 10 cycles
P V: operand A, 0 cycles
store: accumulator, 16 cycles
42 cycles

Notes.  Cycles are those of one warp by throughput, as conversions count them; latency is not in them.  Of
global memory an instruction takes a cycle per 4 sectors, of shared memory one per wavefront.

Source: Linear Layouts, arXiv 2505.23819, section 5; ThunderKittens, arXiv 2410.20399.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.analysis import sectors, wavefronts
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.f2 import LinearLayout, affine_f2, apply
from layoutalg.layout import AnyLayout
from layoutalg.registers.conversion import Conversion, convert_layout
from layoutalg.registers.fragments import PLACE, linear_fragment, over_places
from layoutalg.registers.reducing import ReductionOp, reduction_plans

Space: TypeAlias = Literal["global", "shared"]

SECTORS_PER_CYCLE = 4
"""Sectors that the L1 delivers per cycle: 128 bytes.  Source: NVIDIA tuning guides, unified data cache."""

OPERATION_CYCLES = 0.5
"""Cycles of a warp for one operation per register: 64 lanes per cycle."""

_WIDEST_BYTES = 16


@dataclass(frozen=True, slots=True)
class Form:
    """A way to carry out an operation: the layout it takes (None: nothing), what it gives, its cycles."""

    takes: LinearLayout | None
    gives: LinearLayout | None
    cycles: float


@dataclass(frozen=True, slots=True)
class Step:
    """An operation of a chain, with its forms."""

    name: str
    forms: tuple[Form, ...]


@dataclass(frozen=True, slots=True)
class ChainChoice:
    """The form of every step, the conversion in front of it (None where there is none), and all cycles.

    `names` says what layouts are called when the choice is printed.
    """

    steps: tuple[Step, ...]
    forms: tuple[Form, ...]
    conversions: tuple[Conversion | None, ...]
    cycles: float
    names: tuple[tuple[str, LinearLayout], ...] = ()

    def name_of(self, layout: LinearLayout | None) -> str:
        """The name of a layout; its number of registers where it has no name."""
        if layout is None:
            return "memory"
        for name, known in self.names:
            if known == layout:
                return name
        return f"{1 << over_places(layout).in_bits['register']} registers"

    def __str__(self) -> str:
        lines = []
        for step, form, conversion in zip(self.steps, self.forms, self.conversions, strict=True):
            if conversion is not None and conversion.plan.cost.cycles:
                lines.append(f"convert: {conversion.plan}")
            held = form.takes if form.takes is not None else form.gives
            lines.append(f"{step.name}: {self.name_of(held)}, {form.cycles:g} cycles")
        return "\n".join((*lines, f"{self.cycles:g} cycles"))


def choose_layouts(
    steps: Sequence[Step],
    names: Mapping[str, LinearLayout] | None = None,
    element: str | DType = "f32",
    arch: str | Arch = DEFAULT_ARCH,
) -> ChainChoice:
    """The forms of a chain that together cost least, conversions included: the optimum of what is given.

    `element` is the type of the values that are converted.  Ties go to the forms that come first.  Raises
    ArgumentTypeError for a chain without steps or a step without forms, ShapeError where no form of a step
    takes what the step before gives.

    >>> from layoutalg.f2 import LinearLayout
    >>> one = LinearLayout({"register": [1], "lane": [2, 4, 8, 16, 32]}, {"n": 64})
    >>> choose_layouts([elementwise_step([one], 3)]).cycles
    3.0
    """
    if not steps or not all(step.forms for step in steps):
        raise ArgumentTypeError("choose_layouts needs steps, and each of them a form")
    machine, what = find_arch(arch), dtype(element)
    known: dict[tuple[LinearLayout, LinearLayout], Conversion | None] = {}

    def between(source: LinearLayout, taken: LinearLayout) -> Conversion | None:
        if (source, taken) not in known:
            try:
                known[source, taken] = convert_layout(source, taken, what, machine)
            except LayoutAlgError:
                known[source, taken] = None
        return known[source, taken]

    best: list[tuple[float, tuple[int, ...]]] = [(form.cycles, (j,)) for j, form in enumerate(steps[0].forms)]
    for before, step in itertools.pairwise(steps):
        reached = []
        for j, form in enumerate(step.forms):
            ways = []
            for cycles, path in best:
                source = before.forms[path[-1]].gives
                if source is None or form.takes is None:
                    continue
                conversion = between(source, form.takes)
                if conversion is not None:
                    ways.append((cycles + conversion.plan.cost.cycles + form.cycles, (*path, j)))
            if ways:
                reached.append(min(ways))
        if not reached:
            raise ShapeError(f"no form of {step.name} takes what {before.name} gives")
        best = reached
    cycles, path = min(best)
    forms = tuple(step.forms[j] for step, j in zip(steps, path, strict=True))
    conversions = tuple(
        between(a.gives, b.takes) if a.gives is not None and b.takes is not None else None
        for a, b in itertools.pairwise(forms)
    )
    return ChainChoice(tuple(steps), forms, (None, *conversions), cycles, tuple((names or {}).items()))


# --- steps -------------------------------------------------------------------------------------------------


def load_step(
    memory: AnyLayout, candidates: Sequence[LinearLayout], element: str | DType = "f32",
    space: Space = "global", arch: str | Arch = DEFAULT_ARCH,
) -> Step:  # fmt: skip
    """A tile read from memory, `memory` in elements, into one of the candidates, in vectors where it can be.

    Raises NotLinearError for memory that is not linear over F2.

    >>> from layoutalg.f2 import LinearLayout
    >>> from layoutalg.layout import Layout
    >>> pairs = LinearLayout({"register": [1], "lane": [2, 4, 8, 16, 32]}, {"n": 64})
    >>> load_step(Layout(64), [pairs]).forms[0].cycles
    2.0
    """
    cycles = [_moved("ld", memory, layout, dtype(element), space, find_arch(arch)) for layout in candidates]
    return Step("load", tuple(Form(None, layout, n) for layout, n in zip(candidates, cycles, strict=True)))


def store_step(
    memory: AnyLayout, candidates: Sequence[LinearLayout], element: str | DType = "f32",
    space: Space = "global", arch: str | Arch = DEFAULT_ARCH,
) -> Step:  # fmt: skip
    """A tile written to memory; as `load_step`.

    >>> from layoutalg.f2 import LinearLayout
    >>> from layoutalg.layout import Layout
    >>> column = LinearLayout({"lane": [1, 2, 4, 8, 16]}, {"n": 32})
    >>> store_step(Layout(32, 32), [column]).forms[0].cycles
    8.0
    """
    cycles = [_moved("st", memory, layout, dtype(element), space, find_arch(arch)) for layout in candidates]
    return Step("store", tuple(Form(layout, None, n) for layout, n in zip(candidates, cycles, strict=True)))


def elementwise_step(candidates: Sequence[LinearLayout], operations: int = 1) -> Step:
    """An operation on each element: any layout serves, those that repeat elements do the work twice.

    >>> from layoutalg.f2 import LinearLayout
    >>> elementwise_step([LinearLayout({"lane": [1, 2, 4, 8, 16]}, {"n": 32})]).forms[0].cycles
    0.5
    """
    return Step(
        "elementwise",
        tuple(
            Form(held, held, OPERATION_CYCLES * operations * (1 << over_places(held).in_bits["register"]))
            for held in candidates
        ),
    )


def operand_step(takes: LinearLayout, gives: LinearLayout, name: str = "operand") -> Step:
    """A product that wants its operand in one layout and leaves its sums in another.

    >>> from layoutalg.f2 import LinearLayout
    >>> one = LinearLayout({"lane": [1, 2, 4, 8, 16]}, {"n": 32})
    >>> operand_step(one, one).forms[0].cycles
    0.0
    """
    return Step(name, (Form(takes, gives, 0.0),))


def reduce_step(
    candidates: Sequence[LinearLayout],
    along: str,
    operation: ReductionOp = "max",
    element: str | DType = "f32",
    arch: str | Arch = DEFAULT_ARCH,
) -> Step:
    """A maximum or sum along a dimension, by the cheapest plan; what is left are the other dimensions.

    >>> from layoutalg.f2 import LinearLayout
    >>> lanes = [(1 << j, 0) for j in range(5)]
    >>> own = LinearLayout({"register": [(0, 1), (0, 2)], "lane": lanes}, {"m": 32, "n": 4})
    >>> reduce_step([own], "n").forms[0].cycles
    1.5
    """
    forms = []
    for layout in candidates:
        tile = linear_fragment(layout)
        plan = reduction_plans(tile, along=along, element=element, operation=operation, arch=arch)[0]
        placed = over_places(layout)
        rest = [name for name, _ in layout.outs if name != along]
        left = placed.sublayout(PLACE, rest)
        ins = {
            name: tuple(base for base in bases if name != "register" or any(base)) for name, bases in left.ins
        }
        forms.append(Form(layout, LinearLayout(ins, left.outs), plan.cycles))
    return Step(f"reduce {along}", tuple(forms))


def _moved(
    kind: Literal["ld", "st"],
    memory: AnyLayout,
    layout: LinearLayout,
    element: DType,
    space: Space,
    machine: Arch,
) -> float:
    """Cycles of a warp that moves a tile: vectors as wide as registers lie side by side in memory."""
    start, at = affine_f2(memory)
    flat = over_places(layout).flatten_outs()
    if sum(flat.out_bits.values()) != len(at):
        raise ShapeError(f"{memory} has {1 << len(at)} elements; the registers hold another tile")
    offsets = {name: [apply(at, column) for column in flat.columns_of(name)] for name in PLACE}
    elems, rest = 1, list(offsets["register"])
    moving = offsets["lane"] + offsets["warp"]
    while elems in rest and 2 * elems * element.bits <= 8 * _WIDEST_BYTES:
        if any(other & elems for other in (start, *moving, *(r for r in rest if r != elems))):
            break  # another place starts inside of the vector
        rest.remove(elems)
        elems *= 2
    op = f"{kind}.{space}.b{elems * element.bits}"
    cycles = 0.0
    for n in range(1 << len(rest)):
        base = start ^ apply(tuple(rest), n)
        lanes: list[int | None] = [
            (base ^ apply(tuple(offsets["lane"]), lane)) * element.bits // 8
            for lane in range(1 << len(offsets["lane"]))
        ]
        lanes += [None] * (machine.lanes - len(lanes))
        if space == "shared":
            cycles += wavefronts(op, lanes, machine)
        else:
            cycles += max(1.0, sectors(op, lanes, machine) / SECTORS_PER_CYCLE)
    return cycles
