"""analyze: the cost of an access on a layout, in closed form wherever there is one.

The idea.  Four ways, tried from the shortest:

    f2             layout o tv is linear over F2 (swizzles included): every instruction costs the same, and
                   the count is a rank
    gcd            every warp's lanes are equally spaced: a gcd, whatever the number of warps
    digit-classes  everything else that composes to strides, as it is or rewritten (straddling): warps sorted
                   by their carries, by their base modulo a period, and by the lanes a Guard leaves active;
                   one of each sort counted
    enumerated     the definition; where a lane predicate is arbitrary, or strides do not compose

The first three do not depend on the size of the tile.

>>> from layoutalg.layout import Layout
>>> tile = Layout((64, 64), (64, 1))
>>> report = analyze_access(tile, Access.default("ldmatrix.x4", tile, "f16"))
>>> report.instructions, report.worst, report.worst_ideal, report.method
(16, 32, 4, 'f2')

`analyze` takes accesses said in text (`Access.of`), one or a list; the numbers are explained in
layoutalg.analysis.report.

>>> print(analyze(tile, "ldmatrix.x4@row", "f16"))
Shared memory
access       instructions  wavefronts  ideal  worst  its ideal  conflict  method
────────────────────────────────────────────────────────────────────────────────
ldmatrix.x4            16         512     64     32          4     8-way      f2
<BLANKLINE>
ldmatrix.x4: 16 instructions, each 8-way: 32 wavefronts against an ideal of 4 (warp 0: bank 0 has 8
words to serve for lanes 0-7).

Reuse.  Requests are counted one by one, and each alone may look wasteful.  A warp that reads an RGB picture
in NHWC order, one byte per lane and channel, asks three times for 96 bytes:

    requests     R: 0 3 6 .. 93     G: 1 4 7 .. 94     B: 2 5 8 .. 95      bytes
    sectors      3                  3                  3                   9 asked
                 0 1 2              0 1 2              0 1 2               3 different: memory sees 3

`reuse_of` counts the sectors that a list of accesses asks for, a loop body or an unrolled loop, and how many
of them differ.  The latter is what memory must deliver; the rest hits the L1 as far as it still holds them.

>>> from layoutalg.dtype import dtype
>>> pixels = Layout((32, 3), (3, 1))
>>> channels = Access("ld.global.b8", Layout((32, 3), (1, 32)), dtype("u8"))
>>> print(reuse_of(pixels, [channels]))
3 requests ask for 9 sectors, 3 of them different: 6 can be served by the L1.

Notes.  That the L1 keeps what it holds until it is asked again is assumed: a bound from below for memory, as
the sectors asked are one from above.

Source: CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory"; Nsight Compute, sectors of L1 and
of L2.
"""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple, TypeAlias, cast, overload

from layoutalg import budget
from layoutalg.analysis.access import Access, Guard, TmaAccess, addressing
from layoutalg.analysis.banks import Clash, clash, linear_traffic, linear_wavefronts, phase_groups
from layoutalg.analysis.classes import ClassTable, class_table, count_classes, guarded_table, worst_alignment
from layoutalg.analysis.enumerated import check_layout, count_all, instruction_offsets
from layoutalg.analysis.footprint import AccessStrides, Straddling, find_footprint, find_straddling
from layoutalg.analysis.memory import dram_of, touched_by
from layoutalg.analysis.open_report import OpenReport
from layoutalg.analysis.report import (
    METHODS,
    CostClass,
    DramReport,
    GlobalReport,
    Method,
    Place,
    Report,
    SharedReport,
    Wanted,
    Witness,
    access_notes,
    global_report,
    shared_report,
    worst_rank,
)
from layoutalg.arch import DEFAULT_ARCH, Arch, Instruction, find_arch, find_instruction
from layoutalg.budget import budget_of
from layoutalg.dtype import DTYPES, DType, dtype
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    NotLinearError,
    ParseError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
    check_choice,
    listed,
    shown,
)
from layoutalg.f2 import affine_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, has_symbols


def analyze_access(
    layout: AnyLayout, access: Access | TmaAccess, arch: str | Arch = DEFAULT_ARCH, method: Wanted = "auto"
) -> SharedReport | GlobalReport:
    """The cost of all instructions of `access` on `layout`: wavefronts or sectors, by the op's space.

    `method` "auto" takes the first that applies; a named one is used or refused.  Raises AlignmentError,
    ShapeError and UnknownNameError for an access that does not fit, UnsupportedError when a named closed
    form does not apply, UndecidedError when the budget is spent, of the closed forms and of enumerating.

    >>> from layoutalg.layout import Layout
    >>> tile = Layout((1 << 20, 1 << 20), (1 << 20, 1))
    >>> report = analyze_access(tile, Access.default("ld.global.b32", tile, "f32"))
    >>> report.sectors == (1 << 40) // 8, report.method
    (True, 'f2')
    """
    if not isinstance(access, Access):
        raise ArgumentTypeError(
            f"analyze counts what lanes do; {shown(access)} is a {type(access).__name__} and has none"
        )
    check_choice("method", method, ("auto", *METHODS))
    check_layout(layout)
    machine = find_arch(arch)
    rule = find_instruction(access.op, machine)
    in_order, access = access, addressing(access, rule, machine)
    with budget_of(lambda: f"{access.op} on {layout}:", 2 * budget.UNITS):
        count: _Count | None = None
        if method != "enumerated":
            count = _in_closed_form(layout, access, in_order, rule, machine, method)
        if count is None:
            kinds = count_all(layout, access, rule, machine)
            worst = _worst_enumerated(layout, access, rule, machine) if rule.space == "global" else 0
            count = _Count(kinds, "enumerated", worst)
    kinds, used, worst, strides = count
    notes = access_notes(rule, machine, access.element, layout)
    if rule.space == "global":
        return global_report(access.op, kinds, used, rule.provenance, worst, machine.sector_bytes, notes)
    witness = _witness(layout, access, rule, machine, kinds, strides)
    return shared_report(access.op, kinds, used, rule.provenance, witness, notes)


class _Count(NamedTuple):
    """Kinds of instruction, sectors of all at the worst base, and the strides of all where they compose."""

    kinds: list[CostClass]
    method: Method
    worst_sectors: int
    strides: AccessStrides | None = None


def _in_closed_form(
    layout: AnyLayout, access: Access, in_order: Access, rule: Instruction, machine: Arch, method: Wanted
) -> _Count | None:
    """The count by a closed form; None where "auto" may still enumerate, as when their budget is spent.

    `in_order` is the access before the lanes that supply no address were folded, which hides how it goes on.
    """
    try:
        with budget_of(lambda: f"{access.op} on {layout} by digit classes:"):
            count = _first_form(layout, access, in_order, rule, machine, method)
    except UndecidedError:
        if method != "auto":
            raise
        return None
    if count is None and method != "auto":
        raise UnsupportedError(
            f"method {shown(method)} does not apply to {access.op} with tv {access.tv} on {layout}; "
            f"'auto' takes the one that does"
        )
    return count


def _first_form(
    layout: AnyLayout, access: Access, in_order: Access, rule: Instruction, machine: Arch, method: Wanted
) -> _Count | None:
    """The count by the first closed form that `method` admits and that applies, or None."""
    strides: AccessStrides | None = None
    try:
        if access.active is None or isinstance(access.active, Guard):
            strides = find_footprint(layout, access, rule, machine)
    except (AlignmentError, ShapeError):
        if access.active is None:
            raise  # else perhaps of a lane that the guard leaves out: the definition looks at each
    plain = strides if access.active is None else None
    linear = None if plain is None or method not in ("auto", "f2") else _linear(plain)
    if linear is None and method == "f2":
        return None
    table: ClassTable | None = None
    over: Straddling | None = None
    if plain is None:
        table = None if strides is None else guarded_table(layout, access, strides)
        if table is None:
            over = find_straddling(layout, access, rule, machine)
            over = over or find_straddling(layout, in_order, rule, machine)
        if over is not None:
            table = guarded_table(layout, over.access, over.strides, over.counts, over.every)
    elif linear is None or rule.space == "global":
        table = class_table(plain)
    used: Method = "f2"
    if linear is not None:
        kinds = [linear]
    elif table is None or (method == "gcd" and not table.is_progression):
        return None
    else:
        used = "gcd" if method != "digit-classes" and table.is_progression else "digit-classes"
        kinds = count_classes(table, by_stride=used == "gcd")
    worst = 0
    if rule.space == "global":
        worst = worst_alignment(table) if table else _worst_enumerated(layout, access, rule, machine)
    kinds = [over.renamed(kind) for kind in kinds] if over is not None else kinds
    return _Count(kinds, used, worst, plain)


def _worst_enumerated(layout: AnyLayout, access: Access, rule: Instruction, machine: Arch) -> int:
    """Sectors at the worst base, every instruction counted."""
    shifts = range(0, machine.sector_bytes, rule.width_bytes)
    return max(
        sum(kind.instructions * kind.cost[0] for kind in count_all(layout, access, rule, machine, shift))
        for shift in shifts
    )


def _linear(strides: AccessStrides) -> CostClass | None:
    """The one kind of instruction of an access that is linear over F2, or None when it is not."""
    machine, rule = strides.machine, strides.rule
    # A base added after the map is a translation; in whole words, or whole lines, it changes nothing.
    unit = machine.line_bytes if rule.space == "global" else max(machine.bank_bytes, rule.width_bytes)
    if strides.base_bytes % unit:
        return None
    composed: AnyLayout = strides.whole
    if strides.swizzles or strides.offset:
        composed = ComposedLayout(strides.swizzles, strides.offset, strides.whole)
    if strides.outer is not None:
        composed = ComposedLayout(strides.outer, 0, composed)
    try:
        _, columns = affine_f2(composed)
    except NotLinearError:
        return None
    lane_bits = min(strides.extent.threads.bit_length(), machine.lanes.bit_length()) - 1
    lanes = [column * strides.bits // 8 for column in columns[:lane_bits]]
    form = linear_wavefronts if rule.space == "shared" else linear_traffic
    return CostClass(strides.extent.instructions, tuple(form(rule, machine, lanes)), Place(0, 0, 0))


def _witness(
    layout: AnyLayout,
    access: Access,
    rule: Instruction,
    machine: Arch,
    kinds: Sequence[CostClass],
    strides: AccessStrides | None,
) -> Witness | None:
    """The busiest bank of the worst instruction; None when no lane is active."""
    place = max(kinds, key=worst_rank).place
    if strides is None:
        offsets = instruction_offsets(layout, access, place, machine)
    else:
        offsets = strides.lane_offsets(place)
    active = tuple((lane, at) for lane, at in enumerate(offsets) if at is not None)
    clashes = (clash(rule, machine, group) for group in phase_groups(rule, active))
    ways, bank, lanes = max(clashes, key=lambda c: c.ways, default=Clash(0, 0, ()))
    value = place.register * 8 * rule.width_bytes // access.element.bits
    return Witness(place.warp, value, place.iteration, ways, bank, lanes) if ways else None


Level: TypeAlias = Literal["request", "dram"]
"""The place where costs are counted: each request of a warp, or the memory behind the L2 for all of them."""

LEVELS: tuple[Level, ...] = ("request", "dram")


@overload
def analyze(  # type: ignore[overload-overlap]  # a text is an iterable of texts, too
    layout: AnyLayout,
    access: str | Access,
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Literal["request"] = "request",
) -> Report: ...


@overload
def analyze(  # type: ignore[overload-overlap]
    layout: str,
    access: str | Access,
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Literal["request"] = "request",
) -> Report | OpenReport: ...


@overload
def analyze(
    layout: AnyLayout,
    access: Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Literal["request"] = "request",
) -> list[Report]: ...


@overload
def analyze(
    layout: str,
    access: Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Literal["request"] = "request",
) -> list[Report] | list[OpenReport]: ...


@overload
def analyze(  # type: ignore[overload-overlap]
    layout: AnyLayout | str,
    access: str | Access,
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Literal["dram"],
) -> DramReport: ...


@overload
def analyze(
    layout: AnyLayout | str,
    access: Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Literal["dram"],
) -> list[DramReport]: ...


@overload
def analyze(
    layout: Any,
    access: str | Access,
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    *,
    where: str | Mapping[str, tuple[int, int]],
) -> OpenReport: ...


def analyze(
    layout: AnyLayout | str,
    access: str | Access | Iterable[str | Access],
    element: str | DType | Arch | None = None,
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
    *,
    level: Level = "request",
    where: str | Mapping[str, tuple[int, int]] | None = None,
) -> Report | DramReport | OpenReport | list[Report] | list[DramReport] | list[OpenReport]:
    """The cost of an access to `layout`: wavefronts in shared memory, sectors in global memory.

    By default every request is counted by itself.  With level="dram" the report is of the DRAM traffic of all
    requests of a global access together (see `dram_of`, which also takes several accesses).

    Of a layout whose strides or offset hold symbols, such as the text "(32,32):(ld,1)", the report is an
    OpenReport of all of their values, or of those that `where` states: "ld in 32..4096, ld % 8 == 0".

    A layout may be a text that `parse` reads.  An access is an Access, or a text such as "ldmatrix.x4@row"
    that covers the whole tile (see `Access.of`) and needs the type of an `element`; an Access has its type,
    and the architecture may follow it.  A list of accesses gives a list of reports; `print(report)` is a
    table and a sentence.  Raises ParseError for a text that is not a layout, ArgumentTypeError for a text
    without an element, an element that differs from the access's own, and what is not a layout;
    AlignmentError, ShapeError and UnknownNameError for an access that does not fit, UnsupportedError when a
    named closed form does not apply, UndecidedError when the budget is spent.

    >>> from layoutalg.layout import Layout
    >>> analyze("(64,64):(64,1)", ["LDS.128", "cp.async.b128:global"], "f16", arch="A100")[0].ways
    1
    >>> slab = Layout((4096, 8), (1024, 1))
    >>> analyze(slab, "ld.global.b128@row", "f32", level="dram")
    <DramReport ld.global.b128: 256 instructions, 262,144 bytes moved, 50.0% efficient>
    >>> analyze("(32,32):(ld,1)", "ld.shared.b32@col", "f32", where="ld in 32..64").best.at
    'ld = 33'
    """
    check_choice("level", level, LEVELS)
    if isinstance(layout, str):
        from layoutalg.notation import parse

        try:
            layout = cast("AnyLayout", parse(layout))
        except ParseError:
            symbolic = importlib.import_module("layoutalg.symbolic")
            if not symbolic.has_names(layout):
                raise
            layout, where = cast("AnyLayout", symbolic.open_layout(layout)), where or ""
    elif where is None and _is_open(layout):
        where = ""
    if isinstance(access, Access) and (
        isinstance(element, Arch) or (isinstance(element, str) and element not in DTYPES)
    ):  # an access has its type: what follows it is the architecture, and then the method
        method = cast(Wanted, arch) if arch in {"auto", *METHODS} else method
        arch, element = element, None
    if where is not None and (level != "request" or method != "auto"):
        raise ArgumentTypeError("analyze of a layout with symbols: `level` and `method` are of integers")
    if where is None and not isinstance(access, Access):  # of one, analyze_access looks at the layout
        check_layout(layout)
    if isinstance(element, Arch):
        raise ArgumentTypeError(f"analyze with the element {element.name}: an architecture goes to `arch`")
    if isinstance(access, (str, Access, TmaAccess)):
        return _one(layout, access, element, arch, method, level, where)
    several = listed("analyze", access, "an access, its text or a list")
    reports = [_one(layout, each, element, arch, method, level, where) for each in several]
    return cast("list[Report] | list[DramReport] | list[OpenReport]", reports)


def _is_open(layout: object) -> bool:
    """Whether a layout holds symbols; SymbolicLayout is of a room above this one."""
    if isinstance(layout, Layout):
        return has_symbols(layout)
    return not isinstance(layout, ComposedLayout) and isinstance(
        layout, importlib.import_module("layoutalg.symbolic").SymbolicLayout
    )


def _one(
    layout: AnyLayout,
    access: str | Access | TmaAccess,
    element: str | DType | None,
    arch: str | Arch,
    method: Wanted,
    level: Level,
    where: str | Mapping[str, tuple[int, int]] | None,
) -> Report | DramReport | OpenReport:
    if isinstance(access, Access) and element is not None and dtype(element) != access.element:
        raise ArgumentTypeError(
            f"analyze of an access of {access.element} with the element {dtype(element)}: leave it out"
        )
    if where is not None:
        symbolic = importlib.import_module("layoutalg.symbolic")
        return cast(OpenReport, symbolic.open_report(layout, access, element, arch, where=where))
    if isinstance(access, str):
        if element is None:
            raise ArgumentTypeError(
                f'analyze of {access!r} needs the type of an element, such as "f16", as the third argument'
            )
        access = Access.of(access, layout, element, arch)
    count = analyze_access if level == "request" else dram_of
    return count(layout, access, arch, method)


@dataclass(frozen=True, slots=True)
class Reuse:
    """The sectors that `requests` ask for, each counted alone, and the `different` ones among them."""

    requests: int
    asked: int
    different: int
    sector_bytes: int
    method: Method

    @property
    def again(self) -> int:
        """Sectors that are read again, which the L1 can serve."""
        return self.asked - self.different

    def __str__(self) -> str:
        served = f"{self.again:,} can be served by the L1" if self.again else "none is asked for twice"
        return (
            f"{self.requests:,} requests ask for {self.asked:,} sectors, {self.different:,} of them "
            f"different: {served}."
        )


def reuse_of(
    layout: AnyLayout,
    accesses: Iterable[Access],
    arch: str | Arch = DEFAULT_ARCH,
    method: Wanted = "auto",
) -> Reuse:
    """The sectors that accesses of global memory ask for together, all warps, registers and iterations.

    `method` is "auto" or "enumerated".  Raises ArgumentTypeError where there is no access or one of shared
    memory, UnsupportedError for another method, and what `analyze_access` raises.

    >>> from layoutalg.layout import Layout
    >>> rows = Layout((64, 64), (64, 1))
    >>> twice = [Access.of(f"ld.global.b32@{way}", rows, "f32") for way in ("row", "col")]
    >>> found = reuse_of(rows, twice)
    >>> found.asked, found.different, found.method
    (4608, 512, 'digit-classes')
    """
    machine, all_accesses = find_arch(arch), listed("reuse_of", accesses, "a list of accesses")
    if not isinstance(method, str) or method not in ("auto", "enumerated"):
        raise UnsupportedError(f"sectors asked twice are counted by 'auto' or 'enumerated': {shown(method)}")
    reports = [analyze_access(layout, access, machine) for access in all_accesses]
    moved = [report for report in reports if isinstance(report, GlobalReport)]
    if not all_accesses or len(moved) < len(all_accesses):
        raise ArgumentTypeError(
            "sectors are asked for again by accesses of global memory; one or more are needed"
        )
    requests, total = sum(r.instructions for r in moved), sum(r.sectors for r in moved)
    touched = touched_by(layout, all_accesses, machine, listed=method == "enumerated")
    different = touched.units(machine.sector_bytes).touched
    return Reuse(requests, total, different, machine.sector_bytes, touched.method)
