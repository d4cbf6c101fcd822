"""relayout: registers of a tile re-laid out in the middle of a kernel, as a step of a tile program.

The idea.  A conversion (layoutalg.registers.conversion) says by which steps a tile goes from one register
layout to another, and what they cost.  Here each step is written down as instructions:

    Rename     nothing: other registers are meant from now on
    Select     select32 by a parity of bits of the thread's number
    Shuffle    shuffle_xor where lanes exchange in pairs, else shuffle_lane
    Store      vectors to a shared buffer under the plan's swizzle, by one of the lanes that hold a value
    Load       a barrier, and vectors from there
    packing    byte_permute, where elements narrower than a register change neighbours

    c = register_layout(accumulators, (16, 64))             what mma leaves in the lanes
    rows = register_layout(rows_of_16_bytes, (16, 64))      what a 16-byte store wants
    out = relayout(k, convert_layout(c, rows, "f16"), acc, "out")

The counts of select32, byte_permute and shuffles that a warp executes, and the wavefronts of its stores and
loads, are those of the plan's cost.

Notes.  Elements lie in 32-bit words in the order of the layout's registers: 32 / bits of them in each, or
bits / 32 words for each.  Where a lane holds less than a word, the rest of the word is anything.  The layouts
are those of 32 lanes and some warps; a block of more warps does the same in each group of as many.

A step through shared memory has a buffer of its own, unless `overlay` puts it over what is there.  In a
loop, or over a buffer that is still read, a barrier belongs in front of it; the simulator misses it.

Comparison with CuTe.  There a copy of registers to shared memory and back is written by hand, with a layout
that is found by hand; here both follow from the two register layouts.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from layoutalg.codegen import instr
from layoutalg.codegen.expr import Const, Expr
from layoutalg.codegen.instr import WARP
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Reg, RegRef, Shared
from layoutalg.errors import ShapeError, UnknownNameError
from layoutalg.f2 import Columns
from layoutalg.registers import (
    REGISTER_BITS,
    Conversion,
    Load,
    Plan,
    PlanKind,
    Rename,
    Select,
    Shuffle,
    Store,
    Transfer,
    places_of,
    serves_as_it_is,
    words,
)

Value: TypeAlias = tuple[RegRef, ...]
"""The words of one register of a layout, or of a unit of several."""


def relayout(
    k: KernelBuilder,
    found: Conversion,
    src: Reg | RegRef,
    name: str,
    kind: PlanKind | None = None,
    *,
    overlay: bool = False,
) -> Reg:
    """Write the steps that turn the words `src` into a register array `name`, which is returned.

    `kind` picks one of the conversion's plans, the cheapest by default; `overlay` puts its shared memory, if
    it needs some, over the buffers declared so far.  Raises ShapeError for a number of words, lanes or
    threads that does not fit the layouts, UnknownNameError for a kind that the conversion has no plan of.

    >>> from layoutalg.f2 import LinearLayout
    >>> from layoutalg.registers import convert_layout
    >>> lanes = [1, 2, 4, 8, 16]
    >>> src = LinearLayout({"register": [32], "lane": lanes}, {"n": 64})
    >>> dst = LinearLayout({"register": [1], "lane": [32, *lanes[1:]]}, {"n": 64})
    >>> k = KernelBuilder("exchange", threads=32)
    >>> held = k.reg("held", 2)
    >>> relayout(k, convert_layout(src, dst, "f32"), held, "wanted").shape
    (2,)
    """
    plans = {plan.kind: plan for plan in (*found.alternatives, found.plan)}
    if kind is not None and kind not in plans:
        raise UnknownNameError("plan", kind, plans)
    return _Writer(k, found, plans[kind or found.plan.kind], name, overlay=overlay).write(src)


class _Writer:
    """Writes one plan into a kernel; what it declares is named after the result."""

    def __init__(self, k: KernelBuilder, found: Conversion, plan: Plan, name: str, *, overlay: bool) -> None:
        lanes, warps = (1 << found.places.in_bits[name] for name in ("lane", "warp"))
        if lanes != WARP or k.threads % (lanes * warps):
            raise ShapeError(
                f"layouts of {lanes} lanes and {warps} warps in a block of {k.threads} threads: {WARP} lanes "
                f"are needed, and a multiple of all threads"
            )
        self.k, self.plan, self.name, self.overlay = k, plan, name, overlay
        self.bits, self.warps = found.element.bits, warps
        self.lane, self.warp = k.tid % WARP, k.tid // WARP % warps
        self.declared = 0

    def write(self, src: Reg | RegRef) -> Reg:
        """All steps, from the words of the source to the array of the result."""
        plan, out = self.plan, self._words(len(self.plan.after))
        sources, held = self._given(src), words(range(len(plan.before)), self.bits)
        if plan.kind == "rename":
            wanted = words(plan.after, self.bits)
        elif plan.kind == "shared":
            sources, held, units = self._exchanged(sources, held)
            wanted = words([units[i] for i in plan.after], self.bits)
        else:
            sources, held, units = self._moved(sources, held)
            wanted = words([units[i] for i in plan.after], self.bits)
        result = self.k.reg(self.name, out)
        each = max(1, self.bits // REGISTER_BITS)
        for n, value in enumerate(self._assembled(wanted, held, sources)):
            for i, word in enumerate(value):
                self.k.do(instr.MOVE, result[n * each + i], word)
        return result

    def _words(self, registers: int) -> int:
        return -(-registers * self.bits // REGISTER_BITS)

    def _given(self, src: Reg | RegRef) -> list[Value]:
        """The source's registers, as values of one or more words."""
        refs = _each_word(src)
        needed = self._words(len(self.plan.before))
        if len(refs) != needed:
            raise ShapeError(
                f"{src.name if isinstance(src, Reg) else src} has {len(refs)} words; the source layout has "
                f"{len(self.plan.before)} registers of {self.bits} bits, which take {needed}"
            )
        each = max(1, self.bits // REGISTER_BITS)
        return [tuple(refs[i : i + each]) for i in range(0, len(refs), each)]

    def _fresh(self, *shape: int) -> Reg:
        self.declared += 1
        return self.k.reg(f"{self.name}_{self.declared}", *shape)

    # --- narrow elements -------------------------------------------------------------------------------

    def _assembled(
        self, wanted: Sequence[tuple[int, ...]], held: Sequence[tuple[int, ...]], sources: Sequence[Value]
    ) -> list[Value]:
        """The registers `wanted`, by their elements, out of `sources`, which hold the elements `held`."""
        places = places_of(wanted, held)
        made = {word: sources[at[0][0]] for word, at in places.items() if serves_as_it_is(at)}
        missing = [word for word in places if word not in made]
        if missing:
            target = self._fresh(len(missing))
            for n, word in enumerate(missing):
                self._permute(target[n], places[word], sources)
                made[word] = (target[n],)
        return [made[word] for word in wanted]

    def _permute(self, target: RegRef, places: Sequence[tuple[int, int]], values: Sequence[Value]) -> None:
        """Make one register out of bytes of others: the first two at once, then one more at a time."""
        sources = list(dict.fromkeys(n for n, _ in places))
        count = len(places) * self.bits // 8
        of: list[tuple[int, int]] = []
        for byte in range(4):
            n, i = places[byte % count * 8 // self.bits]
            of.append((n, (i * self.bits + byte * 8 % max(8, self.bits)) // 8))
        first, second = sources[0], sources[1] if len(sources) > 1 else sources[0]
        pick = [byte + (4 if n == second != first else 0) for n, byte in of]
        self.k.do(instr.BYTE_PERMUTE, target, values[first][0], values[second][0], _selector(pick))
        for more in sources[2:]:
            pick = [4 + byte if n == more else i for i, (n, byte) in enumerate(of)]
            self.k.do(instr.BYTE_PERMUTE, target, target, values[more][0], _selector(pick))

    # --- inside a warp ---------------------------------------------------------------------------------

    def _moved(
        self, inputs: list[Value], held: list[tuple[int, ...]]
    ) -> tuple[list[Value], list[tuple[int, ...]], list[int]]:
        """Selects and shuffles: the units afterwards, the elements they hold, and those that are wanted."""
        plan, steps = self.plan, self.plan.steps
        order: Sequence[int] = range(len(plan.before) >> plan.packed)
        if isinstance(steps[0], Rename):
            order, steps = steps[0].sources, steps[1:]
        taken = [tuple(plan.before[i] for i in _elements([unit], plan.packed)) for unit in order]
        values = self._assembled(taken, held, inputs)
        units: Sequence[int] = range(len(plan.after) >> plan.packed)
        if isinstance(steps[-1], Rename):
            units, steps = steps[-1].sources, steps[:-1]
        for step in steps:
            match step:
                case Rename(sources):
                    values = [values[i] for i in sources]
                case Select():
                    values = self._selected(step, values)
                case Shuffle():
                    values = self._shuffled(step, values)
        numbered = [tuple(_elements([unit], plan.packed)) for unit in range(len(values))]
        return values, numbered, _elements(units, plan.packed)

    def _selected(self, step: Select, values: Sequence[Value]) -> list[Value]:
        different = [i for i, pair in enumerate(zip(step.even, step.odd, strict=True)) if len(set(pair)) > 1]
        out = [values[i] for i in step.even]
        target = self._fresh(len(different), len(values[0]))
        mask = step.lane_mask | step.warp_mask * WARP
        odd = self.k.let(f"{target.name}_odd", _parity(self.k.tid, mask))
        for n, i in enumerate(different):
            pair = zip(values[step.even[i]], values[step.odd[i]], strict=True)
            for word, (even, other) in enumerate(pair):
                self.k.do(instr.SELECT, target[n, word], even, other, odd)
            out[i] = tuple(target[n, word] for word in range(len(values[0])))
        return out

    def _shuffled(self, step: Shuffle, values: Sequence[Value]) -> list[Value]:
        pairs = step.is_xor and not any(step.warp_columns)
        moving = [i for i, offset in enumerate(step.offsets) if offset or not pairs]
        out = list(values)
        target = self._fresh(len(moving), len(values[0]))
        if not pairs:
            source = linear(step.lane_columns, self.lane) ^ linear(step.warp_columns, self.warp)
            lane = self.k.let(f"{target.name}_lane", source)
        for n, i in enumerate(moving):
            for word, value in enumerate(values[i]):
                if pairs:
                    self.k.do(instr.SHUFFLE_XOR, target[n, word], value, step.offsets[i])
                else:
                    self.k.do(instr.SHUFFLE_LANE, target[n, word], value, lane ^ step.offsets[i])
            out[i] = tuple(target[n, word] for word in range(len(values[0])))
        return out

    # --- through shared memory -------------------------------------------------------------------------

    def _exchanged(
        self, inputs: list[Value], held: list[tuple[int, ...]]
    ) -> tuple[list[Value], list[tuple[int, ...]], list[int]]:
        """Store, barrier, load: the registers afterwards, the elements they hold, and those wanted."""
        units: Sequence[int] = ()
        for step in self.plan.steps:
            match step:
                case Store(tile, size, transfer):
                    groups = self.k.threads // (WARP * self.warps)
                    unit_bytes = (self.bits << self.plan.packed) // 8
                    buffer = self.k.shared_buffer(
                        f"{self.name}_tile", unit_bytes, tile, size * groups, 128, overlay=self.overlay
                    )
                    self._store(buffer, step, inputs, held)
                case Load(_, transfer):
                    self.k.do(instr.WARP_SYNC if self.warps == 1 else instr.BAR)
                    inputs, held = self._load(buffer, size, transfer)
                    units = range(len(transfer.vectors) * len(transfer.vectors[0]))
                case Rename(sources):
                    units = sources
                case Select() | Shuffle():
                    raise UnknownNameError("step of an exchange", type(step).__name__, ("Store", "Load"))
        return inputs, held, _elements(units, self.plan.packed)

    def _vectors(self, transfer: Transfer) -> list[list[tuple[int, ...]]]:
        """The words of each vector, by their elements."""
        return [words(_elements(vector, self.plan.packed), self.bits) for vector in transfer.vectors]

    def _place(self, transfer: Transfer, base: int, size: int) -> Expr:
        """The index in the tile where a lane's vector starts."""
        moved = linear(transfer.lane_columns, self.lane) ^ linear(transfer.warp_columns, self.warp)
        return (moved ^ base) + self.k.tid // (WARP * self.warps) * size

    def _store(self, buffer: Shared, step: Store, sources: list[Value], held: list[tuple[int, ...]]) -> None:
        k, transfer = self.k, step.transfer
        vectors = self._vectors(transfer)
        flat = self._assembled([word for vector in vectors for word in vector], held, sources)
        each = [word for value in flat for word in value]
        count = len(each) // len(vectors)
        target = self._fresh(len(vectors), count)
        for i, word in enumerate(each):
            k.do(instr.MOVE, target[i // count, i % count], word)
        silent = step.silent_lanes | step.silent_warps * WARP
        with k.If((k.tid & silent).eq(0) if silent else Const(1)):
            for n, base in enumerate(transfer.bases):
                k.do(
                    instr.STS[_bytes(transfer)],
                    k.at(buffer, self._place(transfer, base, step.size)),
                    target[n],
                )

    def _load(
        self, buffer: Shared, size: int, transfer: Transfer
    ) -> tuple[list[Value], list[tuple[int, ...]]]:
        k, nbytes = self.k, _bytes(transfer)
        target = self._fresh(len(transfer.vectors), max(1, nbytes // 4))
        for n, base in enumerate(transfer.bases):
            k.do(instr.LDS[nbytes], target[n], k.at(buffer, self._place(transfer, base, size)))
        held = [word for vector in self._vectors(transfer) for word in vector]
        refs = _each_word(target)
        each = max(1, self.bits // REGISTER_BITS)
        return [tuple(refs[i : i + each]) for i in range(0, len(refs), each)], held


def _each_word(src: Reg | RegRef) -> list[RegRef]:
    """Its 32-bit words, one by one, in order."""
    ref = RegRef(src, ()) if isinstance(src, Reg) else src
    rest = ref.reg.shape[len(ref.index) :]
    if not rest:
        *outer, last = ref.index
        return [RegRef(ref.reg, (*outer, last + i if i else last)) for i in range(ref.count)]
    indices: list[tuple[Expr, ...]] = [ref.index]
    for extent in rest:
        indices = [(*index, Const(i)) for index in indices for i in range(extent)]
    return [RegRef(ref.reg, index) for index in indices]


def _elements(units: Sequence[int], packed: int) -> list[int]:
    """The elements of units of 2^packed."""
    return [unit << packed | i for unit in units for i in range(1 << packed)]


def _bytes(transfer: Transfer) -> int:
    """Bytes of a lane's vector, from the name of the access."""
    return int(transfer.op.rpartition(".b")[2]) // 8


def _selector(pick: Sequence[int]) -> int:
    return sum(byte << 4 * i for i, byte in enumerate(pick))


def _parity(x: Expr, mask: int) -> Expr:
    """The parity of the bits of x that the mask has."""
    return linear(tuple(mask >> j & 1 for j in range(mask.bit_length())), x)


def linear(columns: Columns, x: Expr) -> Expr:
    """The XOR of the columns that the bits of x select; neighbouring bits that move together stay so.

    >>> from layoutalg.codegen.expr import Var, simplify
    >>> print(simplify(linear((4, 8, 1), Var("lane", 8))))
    lane % 4 * 4 + lane // 4
    """
    total: Expr = Const(0)
    j = 0
    while j < len(columns):
        column, run = columns[j], 1
        if column and column & (column - 1) == 0:
            while j + run < len(columns) and columns[j + run] == column << run:
                run += 1
        if column:
            total = total ^ (x >> j & (1 << run) - 1) * column
        j += run
    return total
