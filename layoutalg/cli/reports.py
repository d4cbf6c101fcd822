"""Reports of accesses and of verified problems: as records, as tables, and judged by conditions;
kernels and compilations, in sentences and as records.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.analysis import DramReport, Named, Report, SharedReport, Witness, report_rows
from layoutalg.answers import Count, Positive, Share, taken
from layoutalg.cli.inputs import FailOn
from layoutalg.cli.output import Table, size_bytes
from layoutalg.errors import ShapeError

if TYPE_CHECKING:
    from layoutalg.codegen.gpu import Cubin
    from layoutalg.codegen.program import Kernel
    from layoutalg.kernels.checks import VerifyReport
    from layoutalg.kernels.tuning import Summary

Method: TypeAlias = Literal["f2", "gcd", "digit-classes", "enumerated"]
Provenance: TypeAlias = Literal["measured", "documented", "assumed"]


@dataclass(frozen=True)
class SharedAccess:
    """An access to shared memory; totals are wavefronts of all its instructions."""

    access: str | None
    """The access as it was asked for."""
    op: str
    instructions: Positive
    space: Literal["shared"]
    total: Count
    ideal_total: Count
    worst: Count
    """Wavefronts of the costliest instruction."""
    worst_ideal: Count
    ways: Count
    """The n of n-way conflict."""
    conflict_free: bool
    witness: Witness | None
    """The worst instruction, and the busiest bank of its busiest phase group."""
    method: Method
    provenance: Provenance
    notes: tuple[str, ...]
    """Truths about the count that are easily overlooked."""


@dataclass(frozen=True)
class GlobalAccess:
    """An access to global memory; sectors are of all its instructions."""

    access: str | None
    """The access as it was asked for."""
    op: str
    instructions: Positive
    space: Literal["global"]
    sectors: Count
    ideal: Count
    lines: Count
    efficiency: Share
    """Distinct useful bytes over bytes moved."""
    worst_alignment: Count
    """Sectors at the worst base address."""
    method: Method
    provenance: Provenance
    notes: tuple[str, ...]
    """Truths about the count that are easily overlooked."""


@dataclass(frozen=True)
class DramAccess:
    """Bytes that memory moves for all requests of an access of global memory together."""

    access: str | None
    """The access as it was asked for; together: all of them."""
    op: str
    instructions: Positive
    space: Literal["dram"]
    sectors: Count
    """Different sectors, over all requests."""
    partial: Count
    """Sectors that are stored to and not filled."""
    halves: Count
    """Different half lines of 64 bytes."""
    lines: Count
    useful_bytes: Count
    """Different bytes that lanes ask for."""
    read_bytes: Count
    written_bytes: Count
    efficiency: Share
    """Different useful bytes over bytes read and written."""
    method: Method
    provenance: Provenance
    notes: tuple[str, ...]
    """Truths about the count that are easily overlooked."""


AccessAnswer: TypeAlias = SharedAccess | GlobalAccess | DramAccess


@dataclass(frozen=True)
class CheckedProperty:
    """A property that was checked."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True)
class Verified:
    """A configuration on one target."""

    problem: str
    target: Literal["simulator", "gpu", "host"]
    passed: bool
    checks: tuple[CheckedProperty, ...]


def access_answer(report: Report | DramReport, access: str | None = None) -> AccessAnswer:
    """The record of a report, and of the access as it was asked for."""
    if isinstance(report, SharedReport):
        return taken(SharedAccess, report, access=access, space="shared")
    if isinstance(report, DramReport):
        return taken(DramAccess, report, access=access, space="dram")
    return taken(GlobalAccess, report, access=access, space="global")


def access_answers(named: Named) -> tuple[AccessAnswer, ...]:
    """The records of reports by name."""
    return tuple(access_answer(report, name) for name, report in named)


def report_tables(named: Named, title: str = "Shared memory") -> list[Table]:
    """The tables of the reports, as a terminal shows them."""
    return [Table(*rows) for rows in report_rows(named, title)]


def failures(conditions: Sequence[FailOn], reports: Sequence[Report | DramReport]) -> list[str]:
    """The conditions of --fail-on that hold for one of the reports; ShapeError for one that judges none."""
    return [condition.text for condition in conditions if _fails(condition, reports)]


def _fails(condition: FailOn, reports: Sequence[Report | DramReport]) -> bool:
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


@dataclass(frozen=True)
class Compiled:
    """A compilation."""

    arch: str
    registers: Count
    spill_bytes: Count
    shared_bytes: Count
    image_bytes: Positive


def kernel_sentence(kernel: Kernel) -> str:
    """State what a block of a kernel takes, and how its shared memory is laid out."""
    buffers = "".join(f", {s.name} as {s.layout}" for s in kernel.shared)
    shared = f"{size_bytes(kernel.shared_bytes)} of shared memory{buffers}" if buffers else "no shared memory"
    return f"{kernel.threads} threads per block, {shared}"


def contract_lines(kernel: Kernel) -> list[str]:
    """State what a launch of a kernel must give it, as the comment above its text does."""
    from layoutalg.codegen.program import contract, lines

    return list(lines(contract(kernel)))


def cubin_sentence(cubin: Cubin) -> str:
    """State what the assembler reports of a kernel."""
    spills = "no spills" if not cubin.spill_bytes else f"{cubin.spill_bytes} bytes of spills"
    return (
        f"{cubin.name} for {cubin.arch}: {cubin.registers} registers per thread, {spills}, "
        f"{size_bytes(len(cubin.image))} of machine code"
    )


def cubin_answer(cubin: Cubin) -> Compiled:
    """The record of one compilation."""
    return taken(Compiled, cubin, image_bytes=len(cubin.image))


def verify_tables(reports: list[VerifyReport]) -> list[Any]:
    """A table per report, with every check and what was seen."""
    return [
        Table(
            f"{report.family}, {report.problem}, on the {report.target}",
            ("check", "", "seen"),
            ((c.name, "ok" if c.passed else "FAILS", c.detail) for c in report.checks),
            left=3,
        )
        for report in reports
    ]


def unfit_words(summary: Summary) -> list[str]:
    """A sentence for each worker that could do none of the jobs."""
    return [f"The worker {name} could do none: {why}." for name, why in summary.unfit.items()]
