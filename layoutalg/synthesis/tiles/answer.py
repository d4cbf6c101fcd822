"""synthesize_tile: a layout without conflicts of a tile as it is written, or what was searched for one.

The idea.  A tile is read as rows of a buffer with stages outside (written), its accesses as what tiles it
(covers), and the buffer is given to `synthesize`, which answers with a certificate:

    1  the buffer as it is: storage order, one swizzle, a XOR matrix
    2  the buffer with longer rows, as far as memory allows: storage order or one swizzle of each pitch
    3  nothing: what was ruled out, and what helps beside: other lane orders of the stores, more memory

What was found is put back into the layout as it was given, its strides kept where that is possible.

>>> asked = Layout((128, 64, 3), (64, 1, 8192)), ["ldmatrix.x4", "st.shared.b128"]
>>> ring = synthesize_tile(*asked, element="f16")
>>> print(ring.found.layout)
Sw<3,3,3> o 0 o (128,64,3):(64,1,8192)
>>> print(*ring.notes, sep="\\n")
mode 2 (3 stages, 16384 bytes apart) is outside of the swizzle, which repeats after 1024 bytes: all stages \
are alike

Notes.  Joint search: a swizzle of longer rows may be free of conflicts where no swizzle of the rows as given
is, and no padding alone.  Each pitch is a question of its own with a certificate of its own.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from math import prod

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, SharedReport, analyze_access
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch, find_instruction
from layoutalg.dtype import DType, dtype
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    DivisibilityError,
    MismatchError,
    ResourceError,
    ShapeError,
    UndecidedError,
)
from layoutalg.layout import AnyLayout, Layout, whole_number
from layoutalg.synthesis.proof.forms import refusal
from layoutalg.synthesis.result import Alternative, Form, Synthesis
from layoutalg.synthesis.synthesizer import synthesize
from layoutalg.synthesis.tiles.covers import Cost, Cover, cost_of, covers_of
from layoutalg.synthesis.tiles.ranking import Choice, plain_layout, ranked_choices, tma_mode, wgmma_operands
from layoutalg.synthesis.tiles.written import Placed, WrittenTile, read_tile

PITCHES = 16
"""Longer rows that are tried together with a swizzle, at most, and never more than one turn of the banks."""


@dataclass(frozen=True, slots=True)
class Offer:
    """Something else that is free of conflicts: another order of lanes, or more memory than was allowed.

    `accesses` are the accesses as they would be, as texts; `change` says what is different.
    """

    change: str
    accesses: tuple[str, ...]
    choice: Choice
    synthesis: Synthesis


@dataclass(frozen=True, slots=True)
class TileSynthesis:
    """The answer of `synthesize_tile`.

    `found` is the layout on the shape of `given`, or None; `ranking` lists it with all others that were
    examined, best first.  `covers` are the accesses that tile, one for each of `specs`, `others` further
    ways of those that do not tile as requested.
    `tried` are the questions to `synthesize`, by pitch, each with its certificate: where no layout was
    found, those state what is ruled out.  `offers` help where no layout was found, `notes` say what is easily
    overlooked.
    """

    given: Layout
    tile: WrittenTile
    specs: tuple[str, ...]
    covers: tuple[Cover, ...]
    others: tuple[tuple[Cover, ...], ...]
    found: Choice | None
    synthesis: Synthesis
    tried: tuple[tuple[int, Synthesis], ...]
    ranking: tuple[Choice, ...]
    offers: tuple[Offer, ...]
    notes: tuple[str, ...]

    def ways(self, which: int) -> list[tuple[Cover, Cost]]:
        """The ways in which access `which` tiles, the one that was taken first, with what each costs.

        They are counted on the layout that was found, or on the one that was given where none was.
        """
        layout = self.tile.tile if self.found is None else self.found.stage
        covers = (self.covers[which], *self.others[which])
        return [(cover, cost_of(cover, layout, self.tile.shape, self.synthesis.arch)) for cover in covers]

    def refusal(self) -> str:
        """State in a sentence what was ruled out; raises ArgumentTypeError where a layout was found."""
        if self.found is not None:
            raise ArgumentTypeError(f"{self.found.layout} was found; there is nothing to refuse")
        pitches = ", ".join(str(pitch) for pitch, _ in self.tried[1:])
        more = f"single swizzles of rows {pitches} elements apart, each in its own memory" if pitches else ""
        return refusal(self.tried[0][1], self.tile.shape, more)


def synthesize_tile(
    given: Layout,
    accesses: Iterable[str | Access],
    *,
    element: str | DType,
    max_extra_bytes: int = 0,
    form: Form = "any",
    arch: str | Arch = DEFAULT_ARCH,
    index_instructions: Callable[[AnyLayout], int | None] | None = None,
) -> TileSynthesis:
    """A layout without bank conflicts of a tile that is written as `given`, for all `accesses`.

    `given` has a contiguous mode, rows, and any stages: see `written.read_tile`, which raises for others.
    Accesses are of one stage, as texts OP[@row|col|TV] or as an Access on the flat index of one stage; one
    that does not tile it is replaced by narrower ones that do.  `max_extra_bytes` and `form` are those of
    `synthesize`.  `index_instructions` counts the instructions of a layout's index function, for the ranking.
    Raises what `synthesize` raises.

    >>> found = synthesize_tile(Layout((64, 72), (72, 1)), ["ldmatrix.x4"], element="f16")
    >>> print(found.covers[0], found.found.kind)
    ldmatrix.x4 on (64,64) at (0,0), ldmatrix.x2 on (64,8) at (0,64) plain
    """
    machine, what = find_arch(arch), dtype(element)
    extra = whole_number(max_extra_bytes, "max_extra_bytes")
    if extra < 0:
        raise ShapeError(f"max_extra_bytes is {max_extra_bytes!r}; a non-negative integer is needed")
    tile = read_tile(given)
    listed = list(accesses)
    ways = [covers_of(spec, tile.tile, what) for spec in listed]
    search = _Search(tile, what, form, extra, machine)
    specs = tuple(spec if isinstance(spec, str) else f"{spec.op}@{spec.tv}" for spec in listed)
    covers = tuple(way[0] for way in ways)
    tried, answer = search.run(covers)
    choices = [search.choice(covers, each, pitch, proved=True) for pitch, each in tried if each is answer]
    choices += search.alternatives(covers, tried)
    choices.append(search.as_given(covers))
    offers = () if answer is not None else tuple(search.offers(listed, specs, covers, tried))
    ranking = ranked_choices(
        [*choices, *(o.choice for o in offers if o.accesses == specs)], index_instructions
    )
    best = None
    if answer is not None:
        best = next(choice for choice in ranking if choice.layout == choices[0].layout)
    return TileSynthesis(
        given,
        tile,
        specs,
        covers,
        tuple(tuple(way[1:]) for way in ways),
        best,
        answer if answer is not None else tried[0][1],
        tuple(tried),
        ranking,
        offers,
        tuple(search.notes(best, tried)),
    )


def _layout_of(answer: Synthesis | Alternative) -> AnyLayout:
    """The layout of an answer that has one."""
    if answer.layout is None:
        raise MismatchError("the answer has no layout to place")
    return answer.layout


@dataclass(frozen=True, slots=True)
class _Search:
    """A tile, and what its layout may be."""

    tile: WrittenTile
    element: DType
    form: Form
    max_extra_bytes: int
    machine: Arch

    @property
    def copies(self) -> int:
        """The number of stages."""
        return prod(stage.extent for stage in self.tile.stages)

    @property
    def one(self) -> WrittenTile:
        """A stage as a tile of its own."""
        return read_tile(self.tile.tile)

    def ask(self, covers: Iterable[Cover], pitch: int, form: Form, max_extra_bytes: int) -> Synthesis:
        """The question of a buffer with rows `pitch` apart."""
        wanted = [access for cover in covers for access in cover.wanted]
        return synthesize(
            self.tile.buffer(pitch),
            [self.tile.moved(access, pitch) for access in wanted],
            element=self.element,
            order=self.tile.order,
            max_extra_bytes=max_extra_bytes,
            form=form,
            arch=self.machine,
        )

    def run(self, covers: tuple[Cover, ...]) -> tuple[list[tuple[int, Synthesis]], Synthesis | None]:
        """The questions that were tried, by pitch, up to the first that has an answer."""
        first = self.ask(covers, self.tile.pitch, self.form, self.max_extra_bytes // self.copies)
        if first.layout is not None and self.extra_bytes(first, self.tile.pitch) > self.max_extra_bytes:
            first = self.ask(covers, self.tile.pitch, self.form, 0)  # stages would move too far apart
        tried = [(self.tile.pitch, first)]
        if first.layout is not None:
            return tried, first
        if first.certificate.classes == ("any-placement",) or self.form in ("tma", "rotation"):
            return tried, None
        for pitch in self.longer(covers, self.max_extra_bytes):
            answer = self.ask(covers, pitch, "single", 0)
            if answer.layout is not None and self.extra_bytes(answer, pitch) > self.max_extra_bytes:
                continue  # nothing is said of rows that are this far apart
            tried.append((pitch, answer))
            if answer.layout is not None:
                return tried, answer
        return tried, None

    def placed(self, buffer: AnyLayout, pitch: int, extra_bytes: int) -> Placed:
        """Place a layout of the buffer, which takes `extra_bytes` more than its rows, in the given layout."""
        return self.tile.place(buffer, pitch, -(-8 * extra_bytes // self.element.bits))

    def extra_bytes(self, answer: Synthesis, pitch: int) -> int:
        """The bytes that an answer takes beyond the layout as it is given."""
        span = self.placed(_layout_of(answer), pitch, answer.extra_bytes).span
        return (span - self.tile.span) * self.element.bits // 8

    def longer(self, covers: Iterable[Cover], extra_bytes: int) -> list[int]:
        """Longer rows in `extra_bytes` more memory, up to a turn of the banks, that keep vectors aligned."""
        ops = [access.op for cover in covers for access in cover.wanted]
        widest = max(find_instruction(op, self.machine).width_bytes for op in ops)
        step = max(1, 8 * widest // self.element.bits)
        turn = 8 * self.machine.banks * self.machine.bank_bytes // self.element.bits
        room_bytes = self.machine.max_shared_bytes_per_block
        room_bytes = min(room_bytes, extra_bytes + self.tile.span * self.element.bits // 8)
        out: list[int] = []
        for pitch in range((self.tile.pitch // step + 1) * step, self.tile.pitch + turn, step):
            buffer = storage_layout(self.tile.buffer(pitch), self.tile.order)
            if self.placed(buffer, pitch, 0).span * self.element.bits > 8 * room_bytes or len(out) == PITCHES:
                break
            out.append(pitch)
        return out

    def choice(
        self, covers: Iterable[Cover], other: Synthesis | Alternative, pitch: int, *, proved: bool = False
    ) -> Choice:
        """A buffer's layout as the tile's; one that is `proved` is free of conflicts in all stages."""
        kind: str = other.kind
        if pitch != self.tile.pitch:
            kind = "padding" if kind in ("plain", "padding") else f"{kind} and padding"
        return self._choice(covers, _layout_of(other), pitch, kind, other.extra_bytes, proved=proved)

    def _choice(
        self,
        covers: Iterable[Cover],
        buffer: AnyLayout,
        pitch: int,
        kind: str,
        extra_bytes: int = 0,
        *,
        proved: bool = False,
    ) -> Choice:
        placed = self.placed(buffer, pitch, extra_bytes)
        stage = self.one.place(buffer, pitch).layout
        costs = [cost_of(cover, stage, self.tile.shape, self.machine) for cover in covers]
        if proved:
            self._check_stages(covers, placed)
        unsplit = placed.inside or plain_layout(buffer)
        tma = tma_mode(stage, self.tile.shape, self.element, self.tile.order, self.machine)
        wgmma = wgmma_operands(stage, self.element, self.machine)
        return Choice(
            placed.layout,
            stage,
            kind,
            (placed.span - self.tile.span) * self.element.bits // 8,
            sum(cost.total for cost in costs),
            sum(cost.ideal_total for cost in costs),
            tma if unsplit else "no",
            wgmma if unsplit else "no",
        )

    def _check_stages(self, covers: Iterable[Cover], placed: Placed) -> None:
        """Every access takes its ideal in every stage, counted on the whole layout."""
        wanted = [access for cover in covers for access in cover.wanted]
        for stage in self.tile.each_stage(placed.layout):
            for access in wanted:
                report = analyze_access(stage, access, self.machine)
                if not isinstance(report, SharedReport) or not report.conflict_free:
                    raise MismatchError(f"{placed.layout} is free of conflicts in one stage, and not in all")

    def as_given(self, covers: Iterable[Cover]) -> Choice:
        """The layout as it is given."""
        buffer = storage_layout(self.tile.buffer(self.tile.pitch), self.tile.order)
        return self._choice(covers, buffer, self.tile.pitch, "plain")

    def alternatives(self, covers: Iterable[Cover], tried: list[tuple[int, Synthesis]]) -> Iterator[Choice]:
        """The alternatives that the questions found beside their answers."""
        for pitch, each in tried:
            if pitch != self.tile.pitch and each.layout is None:
                continue
            for other in each.alternatives:
                yield self.choice(covers, other, pitch)

    def offers(
        self,
        accesses: list[str | Access],
        specs: tuple[str, ...],
        covers: tuple[Cover, ...],
        tried: list[tuple[int, Synthesis]],
    ) -> Iterator[Offer]:
        """Other lane orders on the layout as given, then more memory than was allowed."""
        yield from self._lane_orders(accesses, specs)
        if tried[0][1].certificate.classes == ("any-placement",) or self.form in ("tma", "rotation"):
            return
        seen = {pitch for pitch, _ in tried}
        room = self.machine.max_shared_bytes_per_block
        for pitch in self.longer(covers, room):
            if pitch in seen:
                continue
            try:
                answer = self.ask(covers, pitch, "single", 0)
            except (UndecidedError, ResourceError, DivisibilityError):
                continue
            if answer.layout is not None:
                choice = self.choice(covers, answer, pitch, proved=True)
                change = f"rows {pitch} elements apart, {choice.extra_bytes} bytes more"
                yield Offer(change, specs, choice, answer)
                return

    def _lane_orders(self, accesses: list[str | Access], specs: tuple[str, ...]) -> Iterator[Offer]:
        """The stores and vector loads in memory order, with lanes down the rows instead, as few as serve."""
        for rows in (2, 4, 8, 16, 32):
            changed: list[str | Access] = []
            words: list[str] = []
            for spec, text in zip(accesses, specs, strict=True):
                other = self._down(text, rows) if isinstance(spec, str) else None
                changed.append(other or spec)
                words.append(other or text)
            if tuple(words) == specs:
                continue
            try:
                covers = tuple(covers_of(spec, self.tile.tile, self.element)[0] for spec in changed)
                answer = self.ask(covers, self.tile.pitch, self.form, self.max_extra_bytes // self.copies)
            except (UndecidedError, AlignmentError, ShapeError, DivisibilityError):
                continue
            if answer.layout is not None:
                choice = self.choice(covers, answer, self.tile.pitch, proved=True)
                phase = self._bytes_per_row(words, specs, rows)
                change = f"lanes down {rows} rows first, {phase} contiguous bytes of each row per phase"
                yield Offer(change, tuple(words), choice, answer)
                return

    def _bytes_per_row(self, words: list[str], specs: tuple[str, ...], rows: int) -> int:
        """The fewest bytes that a phase takes of a row, of the accesses whose lanes go down `rows` rows."""
        changed = [text.partition("@")[0] for text, old in zip(words, specs, strict=True) if text != old]
        rules = [find_instruction(op, self.machine) for op in changed]
        return min(rule.width_bytes * (rule.group_lanes // rows) for rule in rules)

    def _down(self, text: str, rows: int) -> str | None:
        """An access in memory order with `rows` neighbouring lanes in rows of their own, as text."""
        op, at, mapping = (part.strip() for part in text.partition("@"))
        rule = find_instruction(op, self.machine)
        along = "row" if self.tile.order == "row" else "col"
        if rule.matrices or (at and mapping != along):
            return None
        elems = 8 * rule.width_bytes // self.element.bits
        group, left = rule.group_lanes // rows, self.tile.run // max(1, elems)
        if not elems or not group or self.tile.run % elems or self.tile.rows % rows or left % group:
            return None
        row, column = (1, self.tile.rows) if self.tile.order == "row" else (self.tile.run, 1)
        parts = [(group, elems * column), (self.tile.rows, row), (left // group, group * elems * column)]
        longer = [part for part in parts if part[0] > 1]
        shape, stride = tuple(extent for extent, _ in longer), tuple(step for _, step in longer)
        tv = Layout((shape, elems), (stride, column if elems > 1 else 0))
        return f"{rule.name}@{tv}"

    def notes(self, best: Choice | None, tried: list[tuple[int, Synthesis]]) -> Iterator[str]:
        """Notes on what is easily overlooked in a buffer and its stages."""
        solved = next(((pitch, each) for pitch, each in tried if each.layout is not None), None)
        if best is None or solved is None or solved[1].layout is None:
            return
        pitch, buffer = solved[0], solved[1].layout
        swizzled = not plain_layout(buffer)
        if swizzled and pitch != self.tile.run:
            yield (
                f"the swizzle is one of the whole buffer of rows {pitch} elements apart: whatever else lies "
                f"in its rows has to be addressed through it"
            )
        placed = self.placed(buffer, pitch, solved[1].extra_bytes)
        for stage, stride in zip(self.tile.stages, placed.strides, strict=True):
            yield self._stage_note(stage.mode, stage.extent, stage.stride, stride, placed, swizzled=swizzled)

    def _stage_note(
        self, mode: int, extent: int, before: int, stride: int, placed: Placed, *, swizzled: bool
    ) -> str:
        bits = self.element.bits
        name = f"mode {mode} ({extent} stages, {stride * bits // 8} bytes apart"
        name += ")" if stride == before else f", {before * bits // 8} as given: a stage no longer fits)"
        if not swizzled:
            return f"{name} is as it was given" if stride == before else f"{name} is changed"
        period = placed.period * bits // 8
        if stride % placed.period == 0:
            return (
                f"{name} is outside of the swizzle, which repeats after {period} bytes: all stages are alike"
            )
        nearest = -(-stride // placed.period) * placed.period
        return (
            f"{name} is added after the swizzle, which repeats after {period} bytes: TMA and wgmma, which "
            f"swizzle addresses, need stages a multiple of that apart, such as {nearest} elements"
        )
