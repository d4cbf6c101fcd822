"""reduce_along: the maximum or the sum of each row, or column, of a tile that lies in registers.

The idea.  Which parts of a row a lane holds, which other lanes and which other warps, is read off the
thread-value layout (layoutalg.registers), and so are the ways to join them; here the cheapest is written
down as instructions:

    own registers    one operation for each value but the first
    shuffle          shfl.sync.bfly and one operation, for each halving of the lanes that share a row
    redux            one redux.sync per row, where a warp shares it and the elements are integers
    shared memory    what is left to join: each part stored once, a barrier, and the others' loaded

    thread = k.get_slice(mma)
    acc = thread.fragment_C("acc", (64, 128))
    largest = reduce_along(thread, "max", acc, (64, 128), "n")
    for part, most in largest.rows:
        k.map(exp(part - most), into=part)

Every lane ends with the results of its own rows, and lanes that share a row with the same bits: operations
commute, and parts are joined as a tree of exchanges.

Notes.  In a loop, a barrier belongs in front of a reduction that goes through shared memory; the simulator
misses it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from layoutalg.atoms import TiledMMA
from layoutalg.codegen.expr import Const, Expr, simplify
from layoutalg.codegen.instr import (
    BAR,
    LDS,
    MOVE,
    REDUX,
    SHUFFLE_XOR,
    STS,
    WARP,
    WARP_SYNC,
    Apply,
    Input,
    elementwise,
)
from layoutalg.codegen.language import Fragment, KernelBuilder, ThreadSlice
from layoutalg.codegen.relayout import linear
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.f2 import Columns, Echelon, apply, kernel
from layoutalg.layout import Layout, concat, modes
from layoutalg.registers import Fragment as Held
from layoutalg.registers import (
    ReductionKind,
    ReductionOp,
    ReductionPlan,
    fragment,
    numbers_of,
    reduction_plans,
    row_numbers,
)

_JOIN = {"sum": "add", "max": "max", "min": "min"}


@dataclass(frozen=True, slots=True)
class AlongRows:
    """The share of a thread in a reduction: `results` has an element for each row that it holds a part of.

    `numbers` are those rows' numbers, and `first` holds in one of the threads that share them.  `parts` are
    the registers of each row, none where they are not evenly spaced.
    """

    plan: ReductionPlan
    results: Fragment
    parts: tuple[Fragment, ...]
    numbers: tuple[Expr, ...]
    first: Expr

    @property
    def rows(self) -> list[tuple[Fragment, Fragment]]:
        """The registers of each row with its result, which is one element for all of them.

        Raises UnsupportedError where the registers of a row are not evenly spaced.
        """
        if not self.parts:
            raise UnsupportedError(
                f"the registers of a row of {self.plan.reduction.tile.layout} are not evenly spaced"
            )
        return [(part, self.results[None, g]) for g, part in enumerate(self.parts)]


def reduce_along(
    thread: ThreadSlice,
    op: ReductionOp,
    held: Fragment,
    shape: tuple[int, int],
    along: str,
    *,
    kind: ReductionKind | None = None,
    name: str = "",
) -> AlongRows:
    """Join an accumulator of `shape` (M, N) along "m" or "n": the result of each row or column, in its lanes.

    `kind` picks one of the plans, the cheapest by default.  Raises what `reduce_tile` raises, and
    UnsupportedError for a slice of a tiled copy.

    >>> from layoutalg.atoms import make_tiled_mma
    >>> k = KernelBuilder("rows", threads=32)
    >>> thread = k.get_slice(make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN"))
    >>> acc = thread.fragment_C("acc", (16, 16))
    >>> found = reduce_along(thread, "max", acc, (16, 16), "n")
    >>> print(found.plan, found.results.size)
    shuffle: 10 operations, 4 shuffles; 9 cycles 2
    """
    if not isinstance(thread.tiled, TiledMMA):
        raise UnsupportedError(
            f"reduce_along of {thread.tiled}: a tiled MMA is needed; reduce_tile takes others"
        )
    mine, value = modes(thread.tiled.tidfrg("C", Layout(shape)))
    tile = fragment(concat(mine, value), shape)
    return reduce_tile(thread.k, tile, op, held, along, kind=kind, name=name, thread=thread.thread)


def reduce_tile(
    k: KernelBuilder,
    tile: Held,
    op: ReductionOp,
    held: Fragment,
    along: str,
    *,
    kind: ReductionKind | None = None,
    name: str = "",
    thread: Expr | int | None = None,
) -> AlongRows:
    """`reduce_along` of registers under any thread-value layout: place r of `held` is register r of `tile`.

    Elements are f32 or s32.  Raises UnsupportedError for others and for several warps inside of a role,
    ShapeError for a number of registers, lanes or threads that does not fit, UnknownNameError for a kind
    without a plan.

    >>> from layoutalg.registers import fragment
    >>> k = KernelBuilder("rows", threads=32)
    >>> v = k.fragment("v", "s32", (4,))
    >>> found = reduce_tile(k, fragment(Layout((32, 4), (1, 32)), (1, 128)), "sum", v, "n")
    >>> print(found.plan)
    redux: 3 operations, 1 redux.sync; 3.5 cycles
    """
    plans = {
        plan.kind: plan for plan in reduction_plans(tile, along=along, element=held.element, operation=op)
    }
    if kind is not None and kind not in plans:
        raise UnknownNameError("plan", kind, plans)
    plan = plans[kind] if kind is not None else next(iter(plans.values()))
    if held.element.name not in ("f32", "s32"):
        raise UnsupportedError(f"{op} of {held.element}: f32 and s32 are accepted")
    if held.size != tile.registers or tile.lanes != WARP or k.threads % (WARP * tile.warps):
        raise ShapeError(
            f"{held} of {held.size} elements as {tile.registers} registers of {tile.lanes} lanes and "
            f"{tile.warps} warps, in a block of {k.threads} threads"
        )
    if plan.barriers and k.role is not None:
        raise UnsupportedError(f"{op} along {along} joins {tile.warps} warps by a barrier of the block; "
                               f"the role {k.role.name} has no such barrier")  # fmt: skip
    return _Writer(k, plan, op, held, name or f"{op}_along_{along}", thread).write()


class _Writer:
    """Writes one plan into a kernel; what it declares is named after the result."""

    def __init__(
        self,
        k: KernelBuilder,
        plan: ReductionPlan,
        op: ReductionOp,
        held: Fragment,
        name: str,
        thread: Expr | int | None,
    ) -> None:
        self.k, self.plan, self.op, self.held, self.name = k, plan, op, held, name
        self.groups = plan.reduction.groups
        self.tid: Expr = k.tid if thread is None else Const(thread) if isinstance(thread, int) else thread
        self.warps = plan.reduction.tile.warps
        kind = held.element.name
        self.join = elementwise(Apply(_JOIN[op], (Input(0, kind), Input(1, kind))), 1)

    def write(self) -> AlongRows:
        """Fold, exchange, join through shared memory."""
        k, plan, count = self.k, self.plan, len(self.groups)
        results = k.fragment(self.name, self.held.element, (1, count))
        parts = self._parts()
        for g, group in enumerate(self.groups):
            k.do(MOVE, results.at(0, g), self.held.at(group[0]))
            if parts and len(group) > 1:
                with k.Unroll(k.fresh("i"), len(group) - 1) as i:
                    self._join(results.at(0, g), parts[g].at(simplify(i + 1)))
            else:
                for register in group[1:]:
                    self._join(results.at(0, g), self.held.at(register))
        if plan.exchanges:
            self._exchange(results)
        if plan.reduxes:
            with k.Unroll(k.fresh("i"), count) as i:
                k.do(REDUX[self.op], results.at(0, i), results.at(0, i))
        if plan.together > 1:
            self._through_shared(results)
        return AlongRows(plan, results, parts, tuple(map(self._number, range(count))), self._first())

    def _join(self, into: object, other: object) -> None:
        self.k.do(self.join, into, into, other)  # type: ignore[arg-type]

    def _parts(self) -> tuple[Fragment, ...]:
        """The registers of each row as a fragment; none where those of a row are not evenly spaced."""
        out = []
        for group in self.groups:
            elements = [self.held.layout(register) for register in group]
            spaced = _spaced([e - elements[0] for e in elements])
            if spaced is None:
                return ()
            out.append(replace(self.held, layout=spaced, start=simplify(self.held.start + elements[0])))
        return tuple(out)

    def _exchange(self, results: Fragment) -> None:
        """Butterflies: all rows' words move before any of them changes."""
        k, count = self.k, len(self.groups)
        other = k.fragment(f"{self.name}_other", self.held.element, (1, count))
        for distance, partner in self.plan.exchanges:
            if partner == tuple(range(count)):
                with k.Unroll(k.fresh("i"), count) as i:
                    k.do(SHUFFLE_XOR, other.at(0, i), results.at(0, i), distance)
            else:
                for g, source in enumerate(partner):
                    k.do(SHUFFLE_XOR, other.at(0, g), results.at(0, source), distance)
            with k.Unroll(k.fresh("i"), count) as i:
                self._join(results.at(0, i), other.at(0, i))

    def _through_shared(self, results: Fragment) -> None:
        """Each part stored once; then the other slots of each row, joined as a tree of XOR distances."""
        k, plan, count = self.k, self.plan, len(self.groups)
        rows, lane_bits = row_numbers(plan.reduction), WARP.bit_length() - 1
        groups = k.threads // (WARP * self.warps)
        size = plan.together * rows
        parts = k.shared(k.fresh(f"{self.name}_parts"), self.held.element, Layout(size * groups))
        slot = linear(plan.slots[:lane_bits], self.lane) ^ linear(plan.slots[lane_bits:], self.warp)
        base = self.tid // (WARP * self.warps) * size if groups > 1 else Const(0)

        def slot_of(g: int, other: int) -> Expr:
            row = self._number(g)
            return simplify(base + (slot ^ other) * plan.places[0] + row * plan.places[1])

        writes = (self.tid & plan.silent).eq(0) if plan.silent else Const(1)
        with k.If(writes):
            for g in range(count):
                k.do(STS[4], parts.at(slot_of(g, 0)), results.at(0, g))
        k.do(BAR if plan.barriers else WARP_SYNC)
        others = k.fragment(f"{self.name}_others", self.held.element, (1, plan.together))
        for g in range(count):
            k.do(MOVE, others.at(0, 0), results.at(0, g))
            for other in range(1, plan.together):
                k.do(LDS[4], others.at(0, other), parts.at(slot_of(g, other)))
            step = 1
            while step < plan.together:
                for at in range(0, plan.together, 2 * step):
                    self._join(others.at(0, at), others.at(0, at + step))
                step *= 2
            k.do(MOVE, results.at(0, g), others.at(0, 0))

    @property
    def lane(self) -> Expr:
        """The lane in the warp."""
        return simplify(self.tid % WARP)

    @property
    def warp(self) -> Expr:
        """The warp among those of the tile."""
        return simplify(self.tid // WARP % self.warps)

    def _number(self, g: int) -> Expr:
        """The number of the row of a group."""
        report = self.plan.reduction
        number, registers = numbers_of(report.tile, report.along), report.tile.layout.in_bits["register"]
        lanes = registers + report.tile.layout.in_bits["lane"]
        own = apply(number[:registers], self.groups[g][0])
        moved = linear(number[registers:lanes], self.lane) ^ linear(number[lanes:], self.warp)
        return simplify(moved ^ own)

    def _first(self) -> Expr:
        """Whether a thread is the first of those that hold parts of the same rows."""
        report = self.plan.reduction
        number, registers = numbers_of(report.tile, report.along), report.tile.layout.in_bits["register"]
        silent = _repeats(number, registers)
        return simplify((self.tid & silent).eq(0)) if silent else Const(1)


def _repeats(number: Columns, registers: int) -> int:
    """The bits of threads such that those without them hold every row once."""
    same = Echelon([vector >> registers for vector in kernel(number)])
    return sum(1 << (vector.bit_length() - 1) for vector in same.basis())


def _spaced(elements: list[int]) -> Layout | None:
    """The layout whose values, from 0 on, are a list; None where there is none."""
    extents: list[int] = []
    steps: list[int] = []
    while len(elements) > 1:
        step = elements[1]
        run = next((n for n, e in enumerate(elements) if e != n * step), len(elements))
        block = elements[:run]
        if len(elements) % run or any(
            e != elements[n // run * run] + block[n % run] for n, e in enumerate(elements)
        ):
            return None
        extents.append(run)
        steps.append(step)
        elements = elements[::run]
    return Layout(tuple(extents) or 1, tuple(steps) or 0)
