"""`layoutalg verify`: run a kernel and compare it with its definition."""

from __future__ import annotations

from typing import Annotated

import typer

from layoutalg.cli.kernel_words import verify_fields, verify_tables
from layoutalg.cli.options import DtypeOption, JsonOption, LddOption, LdsOption
from layoutalg.cli.output import header, progress, say, say_json
from layoutalg.errors import UnknownNameError

TARGETS = ("auto", "simulator", "gpu")

VERIFIED = ((200, 136), (67, 259), (256, 256))
"""What `verify` checks when no size is given: with and without tiles that stick out."""


def verify_command(
    family: Annotated[str, typer.Argument(help="tiled_copy or transpose.", show_default=False)],
    dtype: DtypeOption = "f32",
    m: Annotated[int | None, typer.Option(help="Rows of the source.", show_default=False)] = None,
    n: Annotated[int | None, typer.Option(help="Columns of the source.", show_default=False)] = None,
    lds: LdsOption = None,
    ldd: LddOption = None,
    target: Annotated[
        str, typer.Option(help="auto (the GPU too where there is one), simulator, gpu.")
    ] = "auto",
    seed: Annotated[int, typer.Option(help="Seed of the data and of the order of warps.")] = 0,
    as_json: JsonOption = False,
) -> int:
    """Run a kernel and compare: its result with the definition, its traced accesses with the prediction.

    layoutalg verify transpose --dtype f32
    """
    from layoutalg.codegen.runtime import gpu_status
    from layoutalg.kernels.families import find_family
    from layoutalg.kernels.family import Target, verify

    if target not in TARGETS:
        raise UnknownNameError("target", target, TARGETS)
    chosen = find_family(family)
    status = gpu_status()
    targets: list[Target] = []
    if target in ("auto", "simulator"):
        targets.append("simulator")
    if target == "gpu" or (target == "auto" and status.available):
        targets.append("gpu")
    sizes = VERIFIED if m is None and n is None else ((m or n or 0, n or m or 0),)
    problems = [chosen.problem(m=a, n=b, dtype=dtype, lds=lds, ldd=ldd) for a, b in sizes]
    reports = []
    with progress(f"verifying {family}", len(problems) * len(targets), quiet=as_json) as step:
        for where in targets:
            for problem in problems:
                reports.append(verify(chosen, problem, target=where, seed=seed))
                step()
    passed = all(report.passed for report in reports)
    if as_json:
        say_json(
            header("verify")
            | {"family": family, "dtype": dtype, "passed": passed}
            | {"gpu": {"available": status.available, "name": status.name, "reason": status.reason}}
            | {"reports": [verify_fields(report) for report in reports]}
        )
    else:
        parts = verify_tables(reports)
        if "gpu" not in targets and target == "auto":
            parts.append(f"Not run on a GPU: {status.reason}.")
        say(*parts, "Passed." if passed else "FAILED.")
    return 0 if passed else 1
