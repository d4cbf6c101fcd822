"""`layoutalg analyze`: what accesses cost on a layout, an index expression or explicit offsets."""

from __future__ import annotations

import dataclasses
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from layoutalg.analysis import (
    Access,
    DramReport,
    GlobalReport,
    OpenReport,
    Report,
    Reuse,
    SharedReport,
    Wanted,
    analyze_access,
    dram_of,
    report_notes,
    reuse_of,
    sentence,
)
from layoutalg.answers import Answer, Count, taken
from layoutalg.arch import Arch, find_arch
from layoutalg.cli.commands.accesses.options import AccessOptions, check_source
from layoutalg.cli.inputs import ORDERS, read_fail_on, read_layout, read_level, read_method, read_open
from layoutalg.cli.options import argument
from layoutalg.cli.output import progress, say, say_answer, say_verbatim, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.cli.reports import AccessAnswer, access_answers, failures, report_tables
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import ArgumentTypeError, UndecidedError
from layoutalg.layout import AnyLayout, Layout

if TYPE_CHECKING:
    from layoutalg.symbolic import SymbolicLayout


@dataclass(frozen=True)
class ReuseAnswer:
    """Sectors that all accesses of global memory ask for, and the different ones of them."""

    requests: Count
    asked: Count
    different: Count
    method: Literal["digit-classes", "enumerated"]


@dataclass(frozen=True)
class Subject:
    """The subject of a count: a layout, an index expression, or a file of offsets."""

    layout: str | None
    index: str | None
    offsets: str | None
    """Path of the offsets file."""
    dtype: str | None
    """null: offsets count bytes."""


@dataclass(frozen=True)
class PieceAnswer:
    """Wavefronts or sectors in all, null where addresses are misaligned; for which values, and the least."""

    total: Count | None
    condition: str
    example: str


@dataclass(frozen=True)
class OpenAccess:
    """The cost of an access to a layout with names, for all their values."""

    access: str
    space: Literal["shared", "global"]
    where: str
    pieces: tuple[PieceAnswer, ...]
    """They ascend by their totals, so that the first is the best."""


@dataclass(frozen=True)
class Analysis(Subject, Answer, command="analyze"):
    """The cost of accesses."""

    arch: str
    accesses: tuple[AccessAnswer, ...]
    open: tuple[OpenAccess, ...]
    """The accesses where the layout holds names, in place of accesses."""
    reuse: ReuseAnswer | None
    failed: tuple[str, ...]
    """Conditions of --fail-on that hold; exit code 1 when there is one."""


def analyze_command(
    layout: Annotated[
        str | None,
        argument(
            "A layout in CuTe notation, such as '(64,64):(64,1)'; - reads it from standard input.",
            stdin="text",
        ),
    ] = None,
    *,
    asked: AccessOptions,
) -> int:
    """Count wavefronts (shared memory) or sectors (global memory) of accesses, in closed form.

    layoutalg analyze "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4

    layoutalg analyze "(4096,8):(1024,1)" --access ld.global.b128@row --level dram

    layoutalg analyze "(32,32):(ld,1)" --access ld.shared.b32@col --where "ld in 32..4096"
    """
    conditions = [read_fail_on(text) for text in asked.fail_on or ()]
    machine = find_arch(asked.arch)
    wanted, chosen = read_method(asked.method), read_level(asked.level)
    check_source(layout is not None, asked)
    if layout is not None:
        _, with_names = read_open(layout)
        if with_names is not None:
            return _of_names(with_names, asked, machine)
    if asked.where is not None:
        raise ArgumentTypeError(f"--where {asked.where!r} is of names in a layout, and there are none")
    with progress("counting"):
        if layout is not None:
            of_memory = chosen != "request"
            subject, named, hint, reuse = _of_layout(layout, asked, machine, wanted, of_memory=of_memory)
        else:
            if chosen != "request":
                raise ArgumentTypeError(
                    f"--level {asked.level} needs a layout; offsets are those of single requests"
                )
            if wanted not in ("auto", "enumerated"):
                raise ArgumentTypeError(
                    f"--method {asked.method} needs a layout; offsets are counted one by one"
                )
            subject, named, hint = _of_offsets(asked, machine)
            reuse = None
    failed = failures(conditions, [report for _, report in named])
    if wants_json():
        accesses = access_answers(named)
        fields = {"accesses": accesses, "open": (), "reuse": reuse, "failed": failed}
        say_answer(taken(Analysis, subject, arch=machine.name, **fields))
    else:
        say(*report_tables(named), *(sentence(n, r) for n, r in named))
        if reuse is not None and reuse.again:
            say(f"Together: {reuse}")
        say(*report_notes(r for _, r in named))
        if hint:
            say_verbatim(f"To look for one without conflicts: {hint}")
        for text in failed:
            say(f"Fails: {text}.")
    return FAILED if failed else 0


def _of_names(layout: Layout | SymbolicLayout, asked: AccessOptions, machine: Arch) -> int:
    """The costs of accesses to a layout with names, as pieces."""
    from layoutalg.symbolic import open_report

    if asked.fail_on or asked.level != "request" or asked.method != "auto":
        raise ArgumentTypeError("--fail-on, --level and --method are of layouts of integers")
    element = element_type("f32" if asked.dtype is None else asked.dtype)
    loads = [f"ld.shared.b{element.bits}@row", f"ld.shared.b{element.bits}@col"]
    with progress("counting"):
        reports = [
            (spec, open_report(layout, spec, element, machine, where=asked.where, base=asked.base))
            for spec in asked.access or loads
        ]
    if not wants_json():
        say_verbatim("\n\n".join(str(report) for _, report in reports))
        return 0
    found = tuple(OpenAccess(spec, r.space, r.where, _pieces(r)) for spec, r in reports)
    subject = Subject(str(layout), None, None, element.name)
    fields = {"accesses": (), "open": found, "reuse": None, "failed": ()}
    say_answer(taken(Analysis, subject, arch=machine.name, **fields))
    return 0


def _pieces(report: OpenReport) -> tuple[PieceAnswer, ...]:
    return tuple(PieceAnswer(piece.total, piece.condition, piece.at) for piece in report.pieces)


Named = list[tuple[str, Report | DramReport]]


def _of_layout(
    text: str, asked: AccessOptions, machine: Arch, method: Wanted, *, of_memory: bool
) -> tuple[Subject, Named, str, Reuse | None]:
    """The reports of accesses on a layout, the command that looks for a better one, and what those of global
    memory ask for together; or what memory moves for each of them, and for all of one kind together."""
    layout, element = read_layout(text), element_type("f32" if asked.dtype is None else asked.dtype)
    space = "global" if of_memory else "shared"
    specs = asked.access or [f"ld.{space}.b{element.bits}@{way}" for way in ORDERS]
    chosen = [
        dataclasses.replace(Access.of(spec, layout, element, machine), base_bytes=asked.base)
        for spec in specs
    ]
    subject, named = Subject(str(layout), None, None, element.name), Named()
    for spec, each in zip(specs, chosen, strict=True):
        count = dram_of if of_memory else analyze_access
        named.append((spec, count(layout, each, machine, method)))
    if of_memory:
        if len({each.op.startswith("st.") for each in chosen}) == 1 < len(chosen):
            named.append(("together", dram_of(layout, chosen, machine, method)))
        return subject, named, "", None
    moved = [a for a, (_, report) in zip(chosen, named, strict=True) if isinstance(report, GlobalReport)]
    reuse = _reuse(layout, moved, machine)
    shared = [(spec, report) for spec, report in named if isinstance(report, SharedReport)]
    if all(report.conflict_free for _, report in shared):
        return subject, named, "", reuse
    from layoutalg.algebra import storage_order

    words = ["layoutalg", "synthesize", text, "--dtype", element.name]
    words += [word for spec, _ in shared for word in ("--access", spec)]
    return subject, named, shlex.join(words) if storage_order(layout) is not None else "", reuse


def _reuse(layout: AnyLayout, moved: list[Access], machine: Arch) -> Reuse | None:
    """The sectors that accesses of global memory read together; None where they are too many to list."""
    try:
        return reuse_of(layout, moved, machine) if moved else None
    except UndecidedError:
        return None


def _of_offsets(query: AccessOptions, machine: Arch) -> tuple[Subject, Named, str]:
    """The report of one instruction on offsets that are spelled out."""
    from layoutalg.cli.commands.accesses.explicit import count_explicit, read_explicit, to_bytes

    lanes, op = read_explicit(query.index, query.offsets, query.warps, query.regs, machine), str(query.op)
    element = None if query.dtype is None else element_type(query.dtype)
    addresses = to_bytes(lanes.offsets, 8 if element is None else element.bits, query.base)
    report = count_explicit(op, addresses, lanes.mask, lanes.warps, machine, element)
    name = None if element is None else element.name
    where = None if query.offsets is None else str(query.offsets)
    return Subject(None, query.index, where, name), [(op, report)], ""
