"""The sentences, tables and records of kernels, compilations and verified problems."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from layoutalg.answers import Count, Positive, taken
from layoutalg.cli.output import size_bytes, table
from layoutalg.cli.reports import Verified

if TYPE_CHECKING:
    from layoutalg.codegen.gpu import Cubin
    from layoutalg.codegen.program import Kernel
    from layoutalg.kernels.verification import VerifyReport


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
        table(
            f"{report.family}, {report.problem}, on the {report.target}",
            ("check", "", "seen"),
            ((c.name, "ok" if c.passed else "FAILS", c.detail) for c in report.checks),
            left=3,
        )
        for report in reports
    ]


def verify_answer(report: VerifyReport) -> Verified:
    """The record of one verified problem."""
    return taken(Verified, report)
