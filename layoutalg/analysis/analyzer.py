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
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Literal, TypeAlias

from layoutalg import budget
from layoutalg.analysis.access import Access, Guard, TmaAccess, addressing
from layoutalg.analysis.banks import linear_wavefronts, worst_clash
from layoutalg.analysis.classes.classes import ClassTable, class_table, count_classes, worst_alignment
from layoutalg.analysis.classes.footprint import AccessStrides, find_footprint
from layoutalg.analysis.classes.guarded import guarded_table
from layoutalg.analysis.classes.straddling import Straddling, find_straddling
from layoutalg.analysis.coalescing import linear_traffic
from layoutalg.analysis.enumerated import count_all, instruction_offsets
from layoutalg.analysis.report import (
    CostClass,
    GlobalReport,
    Method,
    Place,
    SharedReport,
    Witness,
    access_notes,
    global_report,
    shared_report,
    worst_rank,
)
from layoutalg.arch import Arch, Instruction, find_arch, find_instruction
from layoutalg.budget import budget_of
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    NotLinearError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
    check_choice,
    shown,
)
from layoutalg.f2 import affine_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, check_integers, has_symbols

METHODS: tuple[Method, ...] = ("f2", "gcd", "digit-classes", "enumerated")

Wanted: TypeAlias = Literal["auto"] | Method


def analyze_access(
    layout: AnyLayout, access: Access | TmaAccess, arch: str | Arch = "sm_90", method: Wanted = "auto"
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
    access = addressing(access, rule, machine)
    with budget_of(lambda: f"{access.op} on {layout}:", 2 * budget.UNITS):
        return _analyze(layout, access, rule, machine, method)


def check_layout(layout: AnyLayout) -> None:
    """Refuse what offsets cannot be counted of: symbols, strides along modes, and what is not a layout.

    >>> check_layout(Layout((4, 8)))
    """
    try:
        check_integers("analyze", layout)
    except UnsupportedError:
        if isinstance(layout, Layout) and has_symbols(layout):
            raise UnsupportedError(
                f"analyze counts for integers, and {layout} has symbols; solve_conflict_free, solve_sectors "
                f"and symbolic_cost answer for those"
            ) from None
        raise


def _analyze(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, method: Wanted
) -> SharedReport | GlobalReport:
    """The first way that applies; where the budget of the closed forms is spent, enumerating may still do."""
    if method != "enumerated":
        try:
            with budget_of(lambda: f"{access.op} on {layout} by digit classes:"):
                report = _in_closed_form(layout, access, rule, machine, method)
        except UndecidedError:
            if method != "auto":
                raise
            report = None
        if report is not None:
            return report
        if method != "auto":
            raise UnsupportedError(
                f"method {shown(method)} does not apply to {access.op} with tv {access.tv} on {layout}; "
                f"'auto' takes the one that does"
            )
    kinds = count_all(layout, access, rule, machine)
    notes = access_notes(rule, machine, access.element, layout)
    if rule.space == "shared":
        witness = _witness(
            rule, machine, access.element.bits, kinds,
            lambda place: instruction_offsets(layout, access, place, machine),
        )  # fmt: skip
        return shared_report(access.op, kinds, "enumerated", rule.provenance, witness, notes)
    worst = _worst_enumerated(layout, access, rule, machine)
    return global_report(access.op, kinds, "enumerated", rule.provenance, worst, machine.sector_bytes, notes)


def _in_closed_form(
    layout: AnyLayout, access: Access, rule: Instruction, machine: Arch, method: Wanted
) -> SharedReport | GlobalReport | None:
    """The report by the first closed form that `method` admits, or None."""
    table: ClassTable | None = None
    over: Straddling | None = None
    strides = _footprint(layout, access, rule, machine)
    if strides is not None and isinstance(access.active, Guard):
        table = guarded_table(layout, access, strides)
        strides = None
    if strides is None and table is None:
        over = find_straddling(layout, access, rule, machine)
        table = None if over is None else over.table
    counted = _closed_form(strides, table, method)
    if counted is None:
        return None
    kinds, used = counted
    kinds = [over.renamed(kind) for kind in kinds] if over is not None else kinds
    notes = access_notes(rule, machine, access.element, layout)
    if rule.space == "shared":
        of_place = (
            strides.lane_offsets
            if strides is not None
            else lambda place: instruction_offsets(layout, access, place, machine)
        )
        witness = _witness(rule, machine, access.element.bits, kinds, of_place)
        return shared_report(access.op, kinds, used, rule.provenance, witness, notes)
    if strides is not None:
        table = class_table(strides)
    if table is not None:
        worst = worst_alignment(table)
    else:
        worst = _worst_enumerated(layout, access, rule, machine)
    return global_report(access.op, kinds, used, rule.provenance, worst, machine.sector_bytes, notes)


def _worst_enumerated(layout: AnyLayout, access: Access, rule: Instruction, machine: Arch) -> int:
    """Sectors at the worst base, every instruction counted."""
    shifts = range(0, machine.sector_bytes, rule.width_bytes)
    return max(_sectors(count_all(layout, access, rule, machine, shift)) for shift in shifts)


def _footprint(layout: AnyLayout, access: Access, rule: Instruction, machine: Arch) -> AccessStrides | None:
    """The strides of an access that closed forms may answer, its guard aside."""
    if access.active is None:
        return find_footprint(layout, access, rule, machine)
    if not isinstance(access.active, Guard):
        return None
    try:
        return find_footprint(layout, access, rule, machine)
    except (AlignmentError, ShapeError):
        return None  # perhaps of a lane that the guard leaves out: the definition looks at each


def _closed_form(
    strides: AccessStrides | None, table: ClassTable | None, method: Wanted
) -> tuple[list[CostClass], Method] | None:
    """The kinds of instruction by the first closed form that `method` admits, or None."""
    if strides is not None and method in ("auto", "f2"):
        linear = _linear(strides)
        if linear is not None or method == "f2":
            return None if linear is None else ([linear], "f2")
    if strides is not None:
        table = class_table(strides)
    if table is None or method == "f2":
        return None
    if method in ("auto", "gcd") and table.is_progression:
        return count_classes(table, by_stride=True), "gcd"
    return None if method == "gcd" else (count_classes(table), "digit-classes")


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
    rule: Instruction,
    machine: Arch,
    bits: int,
    kinds: Sequence[CostClass],
    offsets_of: Callable[[Place], list[int | None]],
) -> Witness | None:
    """The busiest bank of the worst instruction; None when no lane is active.

    Of several that are the worst it is the one with the busiest bank: 8 + 1 + 1 + 1 wavefronts are as many as
    3 + 3 + 3 + 2.
    """
    rank = max(map(worst_rank, kinds))
    places = [kind.place for kind in kinds if worst_rank(kind) == rank]
    clashes = [(worst_clash(rule.name, offsets_of(place), machine), place) for place in places]
    worst, place = max(clashes, key=lambda pair: pair[0].ways)
    if not worst.ways:
        return None
    value = place.register * 8 * rule.width_bytes // bits
    return Witness(place.warp, value, place.iteration, worst.ways, worst.bank, worst.lanes)


def _sectors(kinds: list[CostClass]) -> int:
    return sum(kind.instructions * kind.cost[0] for kind in kinds)
