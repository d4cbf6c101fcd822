"""`layoutalg verify`: run a kernel and compare it with its definition."""

from __future__ import annotations

from dataclasses import asdict, astuple, dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from layoutalg.answers import Answer, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.kernels.options import (
    ConfigOptions,
    FamilyArgument,
    ProblemOptions,
)
from layoutalg.cli.commands.kernels.sweeps import RandomCases, Sweep, count_sweep, sweep
from layoutalg.cli.inputs import read_seconds
from layoutalg.cli.kernel_names import find_config, step_sizes, verified_problems
from layoutalg.cli.options import one_of, option
from layoutalg.cli.output import progress, say, say_answer, wants_json
from layoutalg.cli.reports import Verified, verify_tables
from layoutalg.errors import UnsupportedError, check_choice

if TYPE_CHECKING:
    from layoutalg.kernels.checks import Target

TARGETS = ("auto", "simulator", "gpu")


@dataclass(frozen=True)
class GpuAnswer:
    """Whether a kernel can run on a GPU here."""

    available: bool
    name: str
    reason: str


@dataclass(frozen=True)
class VerifyAnswer(Answer, command="verify"):
    """Results that were compared with the definition, and accesses with the prediction."""

    family: str
    dtype: str
    passed: bool
    gpu: GpuAnswer
    reports: tuple[Verified, ...]
    random: RandomCases | None
    """The cases of --random, whose reports are of failures; null without it."""


def verify_command(
    family: FamilyArgument,
    *,
    asked: ProblemOptions,
    how: ConfigOptions,
    alpha: Annotated[float | None, "alpha of a GEMM. Default: 2."] = None,
    beta: Annotated[float | None, "beta of a GEMM. Default: -3."] = None,
    target: Annotated[
        str,
        option(
            "auto (the simulator, and the GPU if there is one), simulator or gpu.",
            complete=one_of("auto", "simulator", "gpu"),
        ),
    ] = "auto",
    seed: Annotated[int, "Seed of the data and of the order of warps, 0 or more."] = 0,
    cases: Annotated[
        int | None,
        option(
            "Verify this many random problems and configurations, of the seeds from --seed on; those "
            "that --store has are not run again. With algebra for the family: random cases of the "
            "algebra's laws.",
            "--random",
        ),
    ] = None,
    workers: Annotated[int, "Number of processes of --random; with --target gpu one per GPU."] = 1,
    scheduler: Annotated[
        str | None, "A cluster to run --random on: tcp://... for Dask, ray://... for Ray."
    ] = None,
    store: Annotated[
        Path | None, "The file that keeps the results of --random. Default: layoutalg-verified.jsonl."
    ] = None,
    stop_after: Annotated[
        str | None, "Stop --random after 90s, 30m, 2h; the same command resumes it. Default: at the end."
    ] = None,
    counters: Annotated[
        bool, "Compare the counters of Nsight Compute with the prediction, for the cases of --random."
    ] = False,
) -> int:
    """Run a kernel, and compare its result with the definition and its traced accesses with the prediction.

    layoutalg verify transpose --dtype f32

    layoutalg verify gemm-sm80 --m 200 --n 136 --k 72

    layoutalg verify gemm-simt --m 96 --n 80 --k 40 --a-major mn --ldd 88 --bias m --beta 0.5

    layoutalg verify gemm-sm90 --m 300 --n 64 --k 72 --groups 5

    layoutalg verify softmax --shape 12,515 --axes 0 --dtype bf16

    layoutalg verify transpose --random 1000 --workers 8

    layoutalg verify algebra --random 100000 --workers 8
    """
    from layoutalg.codegen.gpu import gpu_status, version
    from layoutalg.kernels.checks import checks_of, verify
    from layoutalg.kernels.registry import find_family
    from layoutalg.kernels.tuning import ALGEBRA
    from layoutalg.testing import all_pass

    check_choice("target", target, TARGETS)
    status = gpu_status()
    targets: list[Target] = ["gpu"] if target == "gpu" else ["simulator"]
    if target == "auto" and status.available:
        targets.append("gpu")
    if cases is None and (family == ALGEBRA or counters or stop_after is not None):
        what = family if family == ALGEBRA else "--counters" if counters else "--stop-after"
        raise UnsupportedError(f"{what} goes with random cases: --random 1000")
    options = asdict(asked)
    answer = partial(taken, VerifyAnswer, None, family=family, gpu=status)
    if cases is not None:
        fixed = (*options.values(), *astuple(how), alpha, beta)
        if any(value is not None for value in fixed):
            raise UnsupportedError("--random draws problems and configurations: give it the family alone")
        budget_s = float("inf") if stop_after is None else read_seconds("time", stop_after)
        cast = Sweep(cases, seed, workers, scheduler, store, target, counters, budget_s)
        run = count_sweep if counters else sweep
        passed, messages, drawn, failures = run(family, cast)
        if wants_json():
            say_answer(answer(dtype="any", passed=passed, reports=failures, random=drawn))
        else:
            say(*messages)
        return 0 if passed else 1
    chosen = find_family(family)
    checks = checks_of(chosen, alpha, beta)
    if how.step is not None and asked.m is asked.n is asked.k is None:
        options |= step_sizes(chosen, how.step)
    problems = verified_problems(chosen, options)
    reports = []
    with progress(f"verifying {family}", len(problems) * len(targets)) as advance:
        for where in targets:
            run_on = status.arch if where == "gpu" else DEFAULT_ARCH
            for problem in problems:
                named = how != ConfigOptions()
                config = find_config(chosen, problem, run_on, *astuple(how))[1] if named else None
                reports.append(verify(chosen, problem, config, target=where, seed=seed, checks=checks))
                advance()
    passed = all_pass("reports", (report.passed for report in reports))
    element = _element(problems[0])
    if wants_json():
        say_answer(answer(dtype=element, passed=passed, reports=reports, random=None))
    else:
        parts = verify_tables(reports)
        if "gpu" not in targets and target == "auto":
            parts.append(f"Not run on a GPU: {status.reason}.")
        try:
            version()
        except UnsupportedError as error:
            parts.append(f"Not compiled: {error}.")
        say(*parts, "Passed." if passed else "FAILED.")
    return 0 if passed else 1


def _element(problem: Any) -> str:
    """The type of a problem's elements."""
    where = getattr(problem, "axes", problem)
    return str(getattr(where, "operand", None) or where.dtype)
