"""A conflict count in words: why the worst instruction of an access takes the wavefronts it takes.

The idea.  A report names its worst instruction.  Its lanes are spelled out by the definition, phase by phase
(`worst_phases`), and every sentence states numbers of those lanes: where they start, what each swizzle adds,
which of them want different words of one bank.  Nothing is said of a pattern that was not looked at.

>>> from layoutalg.analysis import analyze
>>> from layoutalg.layout import Layout
>>> tile = Layout((64, 64), (64, 1))
>>> rows = Access.default("ldmatrix.x4", tile, "f16")
>>> print(*conflict_words(tile, rows, analyze(tile, rows)), sep="\\n")
The instruction of warp 0, value 0, iteration 0: 32 lanes address 16 bytes each, in 4 phases: lanes 0 to 7; 8
to 15; 16 to 23; 24 to 31.
The busiest phase is that of lanes 0 to 7, at rows 0 to 7 of column 0.
Rows 0 to 7 start 128 bytes apart, and 128 bytes are all 32 banks, so they start in bank 0.
Lanes 0 to 7 ask for 8 different words of bank 0: 8 wavefronts where 1 is ideal.
The phases take 8 + 8 + 8 + 8 = 32 wavefronts; the ideal is 4.
All 16 instructions take 512 wavefronts; the ideal is 64.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import NamedTuple

from layoutalg.analysis.access import Access, vector_elems
from layoutalg.analysis.banks import Clash, clash, ideal_wavefronts, phase_groups
from layoutalg.analysis.enumerated import instruction_offsets
from layoutalg.analysis.report import GlobalReport, Place, SharedReport
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction, find_arch, find_instruction
from layoutalg.errors import MismatchError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, product


class PhaseFacts(NamedTuple):
    """A phase of an instruction, lane by lane.

    `indices` are the flat indices at which the lanes start and `starts` their byte addresses; `clash` is the
    busiest bank, `ideal` the fewest wavefronts of these lanes.
    """

    lanes: tuple[int, ...]
    indices: tuple[int, ...]
    starts: tuple[int, ...]
    clash: Clash
    ideal: int


def conflict_words(
    layout: AnyLayout, access: Access, report: SharedReport | GlobalReport, arch: str | Arch = DEFAULT_ARCH
) -> list[str]:
    """Sentences that derive the count of `report` from the lanes of its worst instruction.

    `report` is the answer of `analyze(layout, access, arch)`; MismatchError is raised for another one's.

    >>> from layoutalg.analysis import analyze
    >>> from layoutalg.layout import Layout
    >>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
    >>> rows = Access.default("ldmatrix.x4", tile, "f16")
    >>> print(*conflict_words(tile, rows, analyze(tile, rows))[2:5], sep="\\n")
    Before any swizzle rows 0 to 7 start 128 bytes apart, and 128 bytes are all 32 banks, so they start in
    bank 0.
    Sw<3,3,3> adds bits 6 to 8 of an element's offset, without carry, to bits 3 to 5: it adds r there for row
    r, 0 to 7, counted in 8 elements = 16 bytes.
    Then they start in banks 0, 4, 8, ..., 28.
    """
    machine = find_arch(arch)
    if isinstance(report, GlobalReport):
        return list(_of_sectors(report))
    if report.witness is None:
        return [f"No lane of {report.op} is active, so no bank is accessed."]
    rule = find_instruction(access.op, machine)
    phases = worst_phases(layout, access, report, machine)
    return list(_of_banks(layout, access, report, rule, machine, phases))


def worst_phases(
    layout: AnyLayout, access: Access, report: SharedReport, arch: str | Arch = DEFAULT_ARCH
) -> list[PhaseFacts]:
    """The phases of the worst instruction, in the order of lanes; raises as `conflict_words` does.

    >>> from layoutalg.analysis import analyze
    >>> from layoutalg.layout import Layout
    >>> tile = Layout((4, 8), (8, 1))
    >>> column = Access("ld.shared.b32", Layout((4, 1), (1, 0)), "f32")
    >>> worst_phases(tile, column, analyze(tile, column))[0].starts
    (0, 32, 64, 96)
    """
    machine = find_arch(arch)
    witness = report.witness
    if witness is None:
        return []
    rule = find_instruction(access.op, machine)
    value = witness.value
    place = Place(witness.warp, value // vector_elems(rule, access.element), witness.iteration)
    offsets = instruction_offsets(layout, access, place, machine)
    active = tuple((lane, at) for lane, at in enumerate(offsets) if at is not None)
    phases: list[PhaseFacts] = []
    for group in phase_groups(rule, active):
        lanes = tuple(lane for lane, _ in group)
        threads = [witness.warp * machine.lanes + lane for lane in lanes]
        alone = [at if lane in lanes else None for lane, at in enumerate(offsets)]
        phases.append(
            PhaseFacts(
                lanes,
                tuple(_index(access, thread, value, witness.iteration) for thread in threads),
                tuple(at for _, at in group),
                clash(rule, machine, group),
                1 if rule.broadcast else ideal_wavefronts(rule.name, alone, machine) - rule.counter_bias,
            )
        )
    cost = sum(phase.clash.ways for phase in phases) + rule.counter_bias
    ways = max(phase.clash.ways for phase in phases)
    if (cost, ways, access.op) != (report.worst, report.ways, report.op):
        raise MismatchError(
            f"the report of {report.op} counts {report.worst} wavefronts in its worst instruction; "
            f"{access.op} on {layout} takes {cost} there: it is the report of something else"
        )
    return phases


def _index(access: Access, thread: int, value: int, iteration: int) -> int:
    """The flat index of one value of the access."""
    coordinate = (thread, value, iteration)
    shape = access.tv.shape
    index: int = access.tv(coordinate[: len(shape) if isinstance(shape, tuple) else 1])
    return index


# --- sentences -----------------------------------------------------------------------------------------


def _of_banks(
    layout: AnyLayout,
    access: Access,
    report: SharedReport,
    rule: Instruction,
    machine: Arch,
    phases: Sequence[PhaseFacts],
) -> Iterator[str]:
    witness = report.witness
    lanes = [phase.lanes for phase in phases]
    where = f"warp {witness.warp}, value {witness.value}, iteration {witness.iteration}" if witness else ""
    yield (
        f"The instruction of {where}: {_many(sum(map(len, lanes)), 'lane')} "
        f"{_verb(sum(map(len, lanes)), 'address')} {_many(rule.width_bytes, 'byte')} each, in "
        f"{_many(len(lanes), 'phase')}: lanes {'; '.join(map(listed, lanes))}."
    )
    busiest = max(phases, key=lambda phase: phase.clash.ways)
    rows, columns = _coordinates(layout, busiest.indices)
    who = _named("lane", busiest.lanes)
    along = ""
    if rows and len(set(columns)) == 1:
        along, who = f" of column {columns[0]}", _named("row", rows)
    elif rows and len(set(rows)) == 1:
        along, who = f" of row {rows[0]}", _named("column", columns)
    at = f", at {who}{along}" if along else ""
    yield f"The busiest phase is that of {_named('lane', busiest.lanes)}{at}."
    yield from _starts(layout, access, machine, busiest, who, rows if who == _named("row", rows) else ())
    yield _of_clash(rule, busiest)
    yield from _sums(report, rule, phases)


def _coordinates(layout: AnyLayout, indices: Sequence[int]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Rows and columns of flat indices of a layout of two modes; nothing for others."""
    shape = layout.shape
    if not isinstance(shape, tuple) or len(shape) != 2:
        return (), ()
    height = product(shape[0])
    return tuple(i % height for i in indices), tuple(i // height for i in indices)


def _starts(
    layout: AnyLayout, access: Access, machine: Arch, phase: PhaseFacts, who: str, rows: Sequence[int]
) -> Iterator[str]:
    """State where the lanes of a phase start, before each swizzle and after all of them."""
    bits = access.element.bits
    swizzles = layout.swizzles if isinstance(layout, ComposedLayout) else ()
    if not swizzles or not isinstance(layout, ComposedLayout) or not isinstance(layout.inner, Layout):
        yield _placed(machine, phase.starts, _upper(who)) + "."
        return
    offsets = [layout.offset + layout.inner(i) for i in phase.indices]
    plain = [access.base_bytes + x * bits // 8 for x in offsets]
    if all(x * bits % 8 == 0 for x in offsets):
        yield _placed(machine, plain, f"Before any swizzle {who}") + "."
    for swizzle in reversed(swizzles):
        if not swizzle.bits:
            continue
        yield _of_swizzle(swizzle, offsets, bits, who, rows)
        offsets = [swizzle(x) for x in offsets]
    start = _verb(len(phase.lanes), "start")
    yield f"Then {'it' if len(phase.lanes) == 1 else 'they'} {start} in {_in_banks(machine, phase.starts)}."


def _of_swizzle(swizzle: Swizzle, offsets: Sequence[int], bits: int, who: str, rows: Sequence[int]) -> str:
    """State what a swizzle adds to the offsets that reach it."""
    low = swizzle.base - min(0, swizzle.shift)
    from_ = swizzle.base + max(0, swizzle.shift)
    added = [(swizzle(x) ^ x) >> low for x in offsets]
    unit_bits = bits << low
    bytes_ = f" = {_many(unit_bits // 8, 'byte')}" if unit_bits % 8 == 0 else ""
    unit = _many(1 << low, "element") + bytes_
    if len(rows) > 1 and list(rows) == added:
        what = f"it adds r there for row r, {listed(added)}"
    else:
        what = f"it adds {listed(added)} there for {who}"
    return (
        f"{swizzle} adds {_bits(from_, swizzle.bits)} of an element's offset, without carry, to "
        f"{_bits(low, swizzle.bits)}: {what}, counted in {unit}."
    )


def _bits(low: int, count: int) -> str:
    return f"bits {low} to {low + count - 1}" if count > 1 else f"bit {low}"


def _placed(machine: Arch, starts: Sequence[int], who: str) -> str:
    """State how far apart addresses are, and in which banks."""
    apart = {b - a for a, b in pairwise(starts)}
    turn = machine.banks * machine.bank_bytes
    if len(apart) != 1 or apart == {0}:
        return f"{who} {_verb(len(starts), 'start')} in {_in_banks(machine, starts)}"
    (step,) = apart
    subject = f"{who} start {_many(abs(step), 'byte')} apart"
    if step % turn == 0:
        times = abs(step) // turn
        banks = f"all {machine.banks} banks" if times == 1 else f"{times} times all {machine.banks} banks"
        return f"{subject}, and {abs(step)} bytes are {banks}, so they start in {_in_banks(machine, starts)}"
    if step % machine.bank_bytes == 0:
        subject += f", which is {_many(abs(step) // machine.bank_bytes, 'bank')}"
    return f"{subject}, in {_in_banks(machine, starts)}"


def _in_banks(machine: Arch, starts: Sequence[int]) -> str:
    banks = [at // machine.bank_bytes % machine.banks for at in starts]
    if len(set(banks)) == 1:
        return f"bank {banks[0]}"
    return f"banks {listed(banks)}"


def _of_clash(rule: Instruction, phase: PhaseFacts) -> str:
    """State what the busiest bank of a phase has to serve."""
    ways, bank, users = phase.clash
    lanes = tuple(dict.fromkeys(users))
    ideal = f"{_many(ways, 'wavefront')} where {phase.ideal} {'is' if phase.ideal == 1 else 'are'} ideal"
    subject = f"{_upper(_named('lane', lanes))} {_verb(len(lanes), 'ask')}"
    if not rule.broadcast:
        return f"{subject} bank {bank} for {_many(ways, 'word')}, equal ones one after another: {ideal}."
    if ways == 1:
        return f"No bank is asked for more than 1 word in this phase: {ideal}."
    return f"{subject} for {ways} different words of bank {bank}: {ideal}."


def _sums(report: SharedReport, rule: Instruction, phases: Sequence[PhaseFacts]) -> Iterator[str]:
    terms = [phase.clash.ways for phase in phases]
    bias = f" + {rule.counter_bias} (which the counter always adds)" if rule.counter_bias else ""
    if len(terms) > 1 or bias:
        subject = "The phases take" if len(terms) > 1 else "The phase takes"
        yield (
            f"{subject} {' + '.join(map(str, terms))}{bias} = {_many(report.worst, 'wavefront')}; the ideal "
            f"is {report.worst_ideal}."
        )
    if report.instructions > 1:
        yield (
            f"All {report.instructions} instructions take {_many(report.total, 'wavefront')}; the ideal is "
            f"{report.ideal_total}."
        )


def _of_sectors(report: GlobalReport) -> Iterator[str]:
    """State what the lanes of all instructions move, from the report."""
    yield (
        f"{_many(report.instructions, 'instruction')} touch{'es' if report.instructions == 1 else ''} "
        f"{_many(report.sectors, 'sector')} of {report.sector_bytes} bytes; the ideal is {report.ideal}."
    )
    yield (
        f"Those are {report.moved_bytes} bytes, of which {report.useful_bytes} are asked for: an efficiency "
        f"of {report.efficiency:.1%}."
    )
    if report.worst_alignment > report.sectors:
        yield f"At the worst base that the instruction allows they would be {report.worst_alignment} sectors."


# --- wording -------------------------------------------------------------------------------------------


def listed(numbers: Sequence[int]) -> str:
    """Numbers in words, none left out that cannot be told.

    >>> print(listed(range(8)), listed([0, 4, 8, 12, 16]), listed([3, 1, 2]), sep=" | ")
    0 to 7 | 0, 4, 8, ..., 16 | 3, 1, 2
    """
    steps = {b - a for a, b in pairwise(numbers)}
    if steps == {1} and len(numbers) > 2:
        return f"{numbers[0]} to {numbers[-1]}"
    if len(steps) == 1 and steps != {0} and len(numbers) > 4:
        return f"{numbers[0]}, {numbers[1]}, {numbers[2]}, ..., {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _named(noun: str, numbers: Sequence[int]) -> str:
    """ "lane 3", "lanes 0 to 7"."""
    return f"{noun}{'' if len(numbers) == 1 else 's'} {listed(numbers)}"


def _many(count: int, noun: str) -> str:
    return f"{count} {noun}{'' if count == 1 else 's'}"


def _verb(count: int, verb: str) -> str:
    if count > 1:
        return verb
    return f"{verb}es" if verb.endswith("s") else f"{verb}s"


def _upper(text: str) -> str:
    return text[:1].upper() + text[1:]
