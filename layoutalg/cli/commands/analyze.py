"""`layoutalg analyze`: what accesses cost on a layout, an index expression or explicit offsets."""

from __future__ import annotations

import dataclasses
import shlex
from pathlib import Path
from typing import Annotated, Any

import typer

from layoutalg.analysis import (
    LEVELS,
    METHODS,
    Access,
    DramReport,
    GlobalReport,
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
from layoutalg.arch import Arch, find_arch
from layoutalg.cli.completions import accesses, dtypes, instructions, one_of
from layoutalg.cli.explicit import count_explicit, index_offsets, row_arrays, to_bytes
from layoutalg.cli.inputs import (
    FailOn,
    file_or_input,
    or_input,
    read_fail_on,
    read_layout,
    read_offsets,
)
from layoutalg.cli.options import ArchOption, JsonOption
from layoutalg.cli.output import progress, say, say_json, say_verbatim
from layoutalg.cli.refusals import header
from layoutalg.cli.reports import report_fields, report_tables
from layoutalg.dtype import dtype as element_type
from layoutalg.errors import ArgumentTypeError, ShapeError, UndecidedError, UnknownNameError
from layoutalg.layout import AnyLayout
from layoutalg.notation import parse_index

FAILED = 1


def analyze_command(
    layout: Annotated[
        str | None,
        typer.Argument(
            help="A layout in CuTe notation, such as '(64,64):(64,1)'; - reads it from standard input.",
            show_default=False,
            callback=or_input,
        ),
    ] = None,
    access: Annotated[
        list[str] | None,
        typer.Option(
            help="OP, OP@row, OP@col or OP@TV layout, such as ldmatrix.x4, ld.shared.b32@col or LDS.128. "
            "Repeats. Default: loads of one element, by row and by column.",
            show_default=False,
            autocompletion=accesses,
        ),
    ] = None,
    index: Annotated[
        str | None,
        typer.Option(
            help="Instead of a layout: the offset as a Python or C expression in lane, tid, warp and reg, "
            "such as '(lane//8)*144 + (lane%8)*16'; - reads it from standard input.",
            callback=or_input,
        ),
    ] = None,
    offsets: Annotated[
        Path | None,
        typer.Option(
            help="Instead of a layout: a file with 32 integers or null per line, or JSON; - reads "
            "standard input.",
            callback=file_or_input,
        ),
    ] = None,
    op: Annotated[
        str | None,
        typer.Option(
            help="The instruction of --index or --offsets.",
            autocompletion=instructions,
        ),
    ] = None,
    dtype: Annotated[
        str | None,
        typer.Option(
            help="Element type. Default: f32 for a layout; --index and --offsets count bytes.",
            show_default=False,
            autocompletion=dtypes,
        ),
    ] = None,
    arch: ArchOption = "sm_90",
    base: Annotated[int, typer.Option(help="Bytes added to every address.")] = 0,
    warps: Annotated[
        int | None,
        typer.Option(help="Warps that run the --index expression. Default: 1.", show_default=False),
    ] = None,
    regs: Annotated[
        int | None,
        typer.Option(help="Values of reg in the --index expression. Default: 1.", show_default=False),
    ] = None,
    method: Annotated[
        str,
        typer.Option(
            help="auto, f2, gcd, digit-classes or enumerated (the definition).",
            autocompletion=one_of("auto", "f2", "gcd", "digit-classes", "enumerated"),
        ),
    ] = "auto",
    level: Annotated[
        str,
        typer.Option(
            help="request: each request of a warp; dram: what memory moves for all of them together.",
            autocompletion=one_of(*LEVELS),
        ),
    ] = "request",
    fail_on: Annotated[
        list[str] | None,
        typer.Option(
            help="Exit 1 on 'conflicts' or 'efficiency<0.9'. Repeats.",
            show_default=False,
            autocompletion=one_of("conflicts", "efficiency<1"),
        ),
    ] = None,
    as_json: JsonOption = False,
) -> int:
    """Count wavefronts (shared memory) or sectors (global memory) of accesses, in closed form.

    layoutalg analyze "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4

    layoutalg analyze "(4096,8):(1024,1)" --access ld.global.b128@row --level dram
    """
    conditions = [read_fail_on(text) for text in fail_on or ()]
    machine = find_arch(arch)
    if level not in LEVELS:
        raise UnknownNameError("level", level, LEVELS)
    if sum(source is not None for source in (layout, index, offsets)) != 1:
        raise ArgumentTypeError("give one of a LAYOUT, --index EXPRESSION or --offsets FILE")
    if index is None and (warps is not None or regs is not None):
        raise ArgumentTypeError("--warps and --regs go with --index")
    with progress("counting", quiet=as_json):
        if layout is not None:
            if op is not None:
                raise ArgumentTypeError(
                    f"--op goes with --index and --offsets; for a layout say --access {op}"
                )
            element = "f32" if dtype is None else dtype
            count = _of_layout if level == "request" else _of_memory
            payload, named, hint, reuse = count(layout, access, element, machine, base, _method(method))
        else:
            if level != "request":
                raise ArgumentTypeError(
                    f"--level {level} needs a layout; offsets are those of single requests"
                )
            if op is None or access:
                raise ArgumentTypeError("--index and --offsets need the instruction as --op, and no --access")
            if _method(method) not in ("auto", "enumerated"):
                raise ArgumentTypeError(f"--method {method} needs a layout; offsets are counted one by one")
            payload, named, hint = _of_offsets(index, offsets, op, dtype, machine, base, warps, regs)
            reuse = None
    failed = [c.text for c in conditions if _fails(c, [report for _, report in named])]
    if as_json:
        say_json(
            header("analyze")
            | payload
            | {"arch": machine.name, "accesses": [{"access": n} | report_fields(r) for n, r in named]}
            | {"reuse": None if reuse is None else _reuse_fields(reuse)}
            | {"failed": failed}
        )
    else:
        say(*report_tables(named), *(sentence(n, r) for n, r in named))
        if reuse is not None and reuse.again:
            say(f"Together: {reuse}")
        say(*report_notes(r for _, r in named))
        if hint and any(isinstance(r, SharedReport) and not r.conflict_free for _, r in named):
            say_verbatim(f"To look for one without conflicts: {hint}")
        for text in failed:
            say(f"Fails: {text}.")
    return FAILED if failed else 0


Named = list[tuple[str, Report | DramReport]]


def _of_layout(
    text: str, access: list[str] | None, dtype: str, machine: Arch, base: int, method: Wanted
) -> tuple[dict[str, Any], Named, str, Reuse | None]:
    """The reports of accesses on a layout, the command that looks for a better one, and what those of global
    memory ask for together."""
    from layoutalg.synthesis import storage_order

    layout, element = read_layout(text), element_type(dtype)
    loads = [f"ld.shared.b{element.bits}@row", f"ld.shared.b{element.bits}@col"]
    named: Named = []
    moved: list[Access] = []
    for spec in access or loads:
        chosen = dataclasses.replace(Access.of(spec, layout, element), base_bytes=base)
        report = analyze_access(layout, chosen, machine, method)
        named.append((spec, report))
        moved += [chosen] if isinstance(report, GlobalReport) else []
    reuse = _reuse(layout, moved, machine)
    words = ["layoutalg", "synthesize", text, "--dtype", element.name]
    for spec, found in named:
        words += ["--access", spec] if isinstance(found, SharedReport) else []
    payload = {"layout": str(layout), "index": None, "offsets": None, "dtype": element.name}
    return payload, named, shlex.join(words) if storage_order(layout) is not None else "", reuse


def _of_memory(
    text: str, access: list[str] | None, dtype: str, machine: Arch, base: int, method: Wanted
) -> tuple[dict[str, Any], Named, str, None]:
    """The same where memory is asked: of each access, and of several of one kind together."""
    layout, element = read_layout(text), element_type(dtype)
    specs = access or [f"ld.global.b{element.bits}@row", f"ld.global.b{element.bits}@col"]
    chosen = [dataclasses.replace(Access.of(spec, layout, element), base_bytes=base) for spec in specs]
    named: Named = [
        (spec, dram_of(layout, one, machine, method)) for spec, one in zip(specs, chosen, strict=True)
    ]
    if len({one.op.startswith("st.") for one in chosen}) == 1 < len(chosen):
        named.append(("together", dram_of(layout, chosen, machine, method)))
    payload = {"layout": str(layout), "index": None, "offsets": None, "dtype": element.name}
    return payload, named, "", None


def _reuse(layout: AnyLayout, moved: list[Access], machine: Arch) -> Reuse | None:
    """What accesses of global memory ask for together; None where that is more than can be listed."""
    try:
        return reuse_of(layout, moved, machine) if moved else None
    except UndecidedError:
        return None


def _reuse_fields(reuse: Reuse) -> dict[str, int | str]:
    return {
        "requests": reuse.requests,
        "asked": reuse.asked,
        "different": reuse.different,
        "method": reuse.method,
    }


def _method(name: str) -> Wanted:
    """The method of a name; raises UnknownNameError."""
    if name == "auto":
        return "auto"
    for method in METHODS:
        if name == method:
            return method
    raise UnknownNameError("method", name, ("auto", *METHODS))


def _of_offsets(
    index: str | None,
    path: Path | None,
    op: str,
    dtype: str | None,
    machine: Arch,
    base: int,
    warps: int | None,
    regs: int | None,
) -> tuple[dict[str, Any], Named, str]:
    """The report of one instruction on offsets that are spelled out."""
    import numpy as np

    warps, registers = 1 if warps is None else warps, 1 if regs is None else regs
    bits = 8 if dtype is None else element_type(dtype).bits
    if index is not None:
        units = index_offsets(parse_index(index), warps, registers, machine)
        mask = np.ones(units.shape, dtype=bool)
    else:
        units, mask = row_arrays(read_offsets(path, machine.lanes))  # type: ignore[arg-type]
        warps = len(units)
    element = None if dtype is None else element_type(dtype)
    report = count_explicit(op, to_bytes(units, bits, base), mask, warps, machine, element)
    name = None if element is None else element.name
    where = None if path is None else str(path)
    return {"layout": None, "index": index, "offsets": where, "dtype": name}, [(op, report)], ""


def _fails(condition: FailOn, reports: list[Report | DramReport]) -> bool:
    """Whether the condition holds for one of the reports it judges; raises when it judges none."""
    judged = [r for r in reports if isinstance(r, SharedReport) == (condition.space == "shared")]
    if not judged:
        raise ShapeError(
            f"--fail-on {condition.text!r} judges {condition.space} memory, which none of the accesses uses"
        )
    for report in judged:
        if isinstance(report, SharedReport):
            failed = not report.conflict_free
        else:
            failed = report.useful_bytes < (condition.threshold or 0) * report.moved_bytes
        if failed:
            return True
    return False
