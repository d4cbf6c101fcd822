"""`layoutalg bench`: kernels timed beside the libraries, in one run; tables, and what was predicted."""

from __future__ import annotations

import datetime
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layoutalg.cli.options import JsonOption
from layoutalg.cli.output import progress, say, say_json, table
from layoutalg.cli.refusals import header

if TYPE_CHECKING:
    from rich.table import Table

    from layoutalg.kernels.bench import BenchRow
    from layoutalg.kernels.gemm.bench import GemmRow
    from layoutalg.kernels.ladder.gemm import Step
    from layoutalg.kernels.move.permute_bench import PermuteRow
    from layoutalg.kernels.reduce_bench import ReduceRow


def bench_command(
    family: Annotated[
        str,
        typer.Argument(
            help="tiled_copy, transpose, permute, reduce, gemm-simt or gemm-sm80.", show_default=False
        ),
    ],
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="Element type. Repeats. Default: f32, f16, u8; reductions f32, f16, bf16.",
            show_default=False,
        ),
    ] = None,
    size: Annotated[
        list[int] | None,
        typer.Option(
            help="Side of the square matrices. Repeats. Default: 4096, 16384; products 1024 to 8192.",
            show_default=False,
        ),
    ] = None,
    predict: Annotated[
        bool, typer.Option("--predict", help="Predict the steps of a product instead; needs no GPU.")
    ] = False,
    as_json: JsonOption = False,
) -> None:
    """Time kernels beside a device copy, PyTorch, CuPy and cuBLAS, in one run. Needs a GPU."""
    import datetime

    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.kernels.bench import DTYPES, SIZES, benchmark
    from layoutalg.kernels.families import matrix_family

    if predict:
        predict_command(family, size, as_json)
        return
    if family in TENSORS:
        TENSORS[family](dtype, as_json)
        return
    if family.startswith("gemm-"):
        gemm_bench_command(family, size, as_json)
        return
    chosen = matrix_family(family)
    problems = [
        chosen.problem(m=side, n=side, dtype=name) for name in dtype or DTYPES for side in size or SIZES
    ]
    status = require_gpu()
    rows: list[BenchRow] = []
    with progress(f"timing {family}", len(problems), quiet=as_json) as step:
        for row in benchmark(chosen, iter(problems)):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": family, "device": status.name, "arch": status.arch, "date": today}
            | {"rows": [rate_fields(row) for row in rows]}
        )
    else:
        columns = ("problem", "ours", "device copy", "PyTorch", "CuPy", "share of copy")
        say(table(f"{family} on {status.name}, {today}, GB/s", columns, map(rate_row, rows)))


def gemm_bench_command(family: str, sizes: list[int] | None, as_json: bool) -> None:
    """`layoutalg bench gemm-simt` and `gemm-sm80`: the steps at one size, then sizes, beside cuBLAS."""
    import datetime

    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.kernels.gemm.bench import (
        SIZES,
        STEPS_SIZE,
        benchmark_sizes,
        benchmark_ways,
        find_gemm_family,
        mean_ratio,
    )

    chosen, status, asked = find_gemm_family(family), require_gpu(), sizes or list(SIZES)
    steps: list[GemmRow] = []
    if chosen.steps and sizes is None:
        steps = benchmark_ways(chosen, chosen.problem(STEPS_SIZE), chosen.steps)
    rows: list[GemmRow] = []
    with progress(f"timing {family}", len(asked), quiet=as_json) as step:
        for row in benchmark_sizes(chosen, [chosen.problem(n) for n in asked]):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": family, "device": status.name, "arch": status.arch, "date": today}
            | {"steps": [gemm_fields(row) for row in steps], "rows": [gemm_fields(row) for row in rows]}
        )
        return
    for name, part in (("steps", steps), ("sizes", rows)):
        if part:
            columns = ("problem", "way", "registers", "ours", "cuBLAS", "ratio")
            title = f"{family}, {name}, on {status.name}, {today}, TFLOP/s"
            say(table(title, columns, map(_gemm_row, part), left=2))
    if (mean := mean_ratio(rows)) is not None:
        say(f"Geometric mean of the ratios: {mean:.3f}.")


def gemm_fields(row: GemmRow) -> dict[str, Any]:
    """What `--json` says of one timed product."""
    return {
        "problem": row.problem,
        "way": row.way,
        "registers": row.registers,
        "ours_tflop_per_s": row.ours,
        "cublas_tflop_per_s": row.cublas,
        "ratio": row.ratio,
    }


def _gemm_row(row: GemmRow) -> tuple[str, ...]:
    cublas, ratio = ("-" if x is None else f"{x:.{d}f}" for x, d in ((row.cublas, 1), (row.ratio, 3)))
    return (row.problem, row.way, str(row.registers), f"{row.ours:.1f}", cublas, ratio)


# --- permutes, reductions and norms --------------------------------------------------------------------


def permute_bench(dtypes: list[str] | None, as_json: bool) -> None:
    """`layoutalg bench permute`: the quoted cases and the drawn ones, with what was predicted of them."""
    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.kernels.move.permute_bench import CASES, DTYPES, SEED, benchmark_permutes, random_cases
    from layoutalg.kernels.reduce_bench import mean_of

    status, cases, names = require_gpu(), (*CASES, *random_cases()), dtypes or list(DTYPES)
    rows: list[PermuteRow] = []
    with progress("timing permute", len(cases) * len(names), quiet=as_json) as step:
        for row in benchmark_permutes(cases, names):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": "permute", "device": status.name, "arch": status.arch, "date": today}
            | {"rows": [rate_fields(row) for row in rows]}
        )
        return
    columns = ("problem", "ours", "copy", "PyTorch", "CuPy", "share")
    expected = (
        (row.problem, f"{row.sectors('ld'):,}", f"{row.sectors('st'):,}", str(row.bound)) for row in rows
    )
    say(
        table(
            f"permute on {status.name}, {today}, GB/s; cases drawn with seed {SEED}",
            columns,
            map(rate_row, rows),
        ),
        table("What was predicted", ("problem", "sectors in", "sectors out", "bound"), expected),
        f"Geometric mean of the shares of the copy: {mean_of(row.share for row in rows):.2f}.",
    )


def reduce_bench(dtypes: list[str] | None, as_json: bool) -> None:
    """`layoutalg bench reduce`: sums beside a long sum, softmax and layer norm beside a copy."""
    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.errors import UnknownNameError
    from layoutalg.kernels.reduce_bench import (
        CASES,
        DTYPES,
        SEED,
        benchmark_reductions,
        random_cases,
    )

    names = dtypes or list(DTYPES)
    for name in names:
        if name not in DTYPES:
            raise UnknownNameError("element type of reductions", name, DTYPES)
    status, cases = require_gpu(), [case for case in (*CASES, *random_cases()) if case.dtype in names]
    rows: list[ReduceRow] = []
    with progress("timing reduce", len(cases), quiet=as_json) as step:
        for row in benchmark_reductions(cases):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    if as_json:
        say_json(
            header("bench")
            | {"family": "reduce", "device": status.name, "arch": status.arch, "date": today}
            | {"reduced": [reduce_fields(row) for row in rows]}
        )
        return
    parts: list[Any] = []
    for limit, name in (("read", "reductions"), ("copy", "softmax and layer norm")):
        part = [row for row in rows if row.limit == limit]
        if part:
            title = f"{name} on {status.name}, {today}, GB/s; cases drawn with seed {SEED}"
            columns = ("case", "ours", limit, "share", "PyTorch", "CuPy", "ratio", "memory")
            parts += [table(title, columns, map(_reduce_row, part)), _means(name, limit, part)]
    say(*parts)


def _means(name: str, limit: str, rows: list[ReduceRow]) -> str:
    from layoutalg.kernels.reduce_bench import mean_of

    share, ratio = mean_of(row.share for row in rows), mean_of(row.ratio for row in rows)
    beside = "" if ratio is None else f", {ratio:.2f} times PyTorch"
    return (
        f"Geometric mean of {len(rows)} {name}: {share:.2f} of the {limit}{beside}. Ratio: to PyTorch; "
        "memory: the bytes that are predicted to be moved, over those that have to be."
    )


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}"


def _reduce_row(row: ReduceRow) -> tuple[str, ...]:
    return (
        row.case,
        _rate(row.ours),
        _rate(row.limit_rate),
        f"{row.share:.2f}",
        _rate(row.torch),
        _rate(row.cupy),
        "-" if row.ratio is None else f"{row.ratio:.2f}",
        f"{row.memory_bytes / row.moved_bytes:.2f}",
    )


def reduce_fields(row: ReduceRow) -> dict[str, Any]:
    """What `--json` says of one timed reduction or norm."""
    return {
        "problem": row.case,
        "ours_gb_per_s": row.ours,
        "limit": row.limit,
        "limit_gb_per_s": row.limit_rate,
        "share_of_limit": row.share,
        "torch_gb_per_s": row.torch,
        "cupy_gb_per_s": row.cupy,
        "moved_bytes": row.moved_bytes,
        "predicted_memory_bytes": row.memory_bytes,
    }


def rate_fields(row: BenchRow | PermuteRow) -> dict[str, Any]:
    """What `--json` says of one timed copy, transpose or permute."""
    return {
        "problem": row.problem,
        "ours_gb_per_s": row.ours,
        "copy_gb_per_s": row.copy,
        "torch_gb_per_s": row.torch,
        "cupy_gb_per_s": row.cupy,
        "share_of_copy": row.share,
    }


def rate_row(row: BenchRow | PermuteRow) -> tuple[str, ...]:
    """The same as cells of a table."""
    rates = map(_rate, (row.ours, row.copy, row.torch, row.cupy))
    return (row.problem, *rates, f"{row.share:.2f}")


TENSORS = {"permute": permute_bench, "reduce": reduce_bench}
"""Benches of a list of cases: their element types can be chosen."""


# --- predicted steps of a ladder -----------------------------------------------------------------------


def predict_command(family: str, sizes: list[int] | None, as_json: bool) -> None:
    """`layoutalg bench gemm-sm80 --predict`: every step at one size, before anything runs."""
    from layoutalg.kernels.gemm.bench import STEPS_SIZE, find_gemm_family
    from layoutalg.kernels.ladder.gemm import ARCH, predict_steps

    chosen, reports = find_gemm_family(family), []
    for size in sizes or [STEPS_SIZE]:
        steps: list[Step] = []
        with progress(f"predicting {family}", len(chosen.steps), quiet=as_json) as advance:
            for step in predict_steps(chosen, size):
                steps.append(step)
                advance()
        reports.append((str(chosen.problem(size)), steps))
    if as_json:
        say_json(
            header("bench")
            | {"family": family, "arch": ARCH}
            | {"predicted": [{"problem": p, "steps": ladder_fields(steps)} for p, steps in reports]}
        )
        return
    say(*(part for problem, steps in reports for part in ladder_tables(f"{problem} on {ARCH}", steps)))


def ladder_tables(problem: str, steps: Sequence[Step]) -> list[Table]:
    """Three tables: what a launch executes, what each resource takes, and what a step changes."""
    counted = list(dict.fromkeys(what for step in steps for what in step.counts))
    executed = (
        (
            step.name,
            str(step.cubin.registers),
            str(step.occupancy.blocks_per_sm),
            f"{_worst(step):.3g}",
            *(_millions(step.counts.get(what, 0)) for what in counted),
        )
        for step in steps
    )
    resources = list(steps[0].cycles)
    taken = (
        (
            step.name,
            *(f"{step.cycles[what]:,.0f}" for what in resources),
            step.bound,
            f"{step.flops_per_cycle:,.0f}",
            f"{step.intensity:.1f}",
            f"{step.index[0]:.1f}",
            f"{step.index[1]:.1f}",
        )
        for step in steps
    )
    changed = ((step.name, _effects(steps[i - 1], step) if i else "-") for i, step in enumerate(steps))
    return [
        table(
            f"{problem}: a launch executes (millions)",
            ("step", "regs", "blocks", "ways", *(_SHORT.get(what, what) for what in counted)),
            executed,
        ),
        table(
            "One block and tile of k takes at least (cycles of a multiprocessor)",
            ("step", *resources, "bound", "flops/cycle", "flops/byte", "index", "lowered"),
            taken,
        ),
        table("Against the step before", ("step", "changes by the factor"), changed, left=2),
    ]


def ladder_fields(steps: Sequence[Step]) -> list[dict[str, Any]]:
    """What `--json` says of the steps."""
    from layoutalg.kernels.ladder.gemm import effects

    return [
        {
            "step": step.name,
            "registers": step.cubin.registers,
            "blocks_per_sm": step.occupancy.blocks_per_sm,
            "counts": dict(step.counts),
            "ways": dict(step.ways),
            "main_loop": dict(step.loop),
            "cycles": dict(step.cycles),
            "bound": step.bound,
            "flops_per_cycle": step.flops_per_cycle,
            "flops_per_byte": step.intensity,
            "index_operations": {"written": step.index[0], "lowered": step.index[1]},
            "effects": dict(effects(steps[i - 1], step)) if i else {},
        }
        for i, step in enumerate(steps)
    ]


_SHORT = {
    "instructions": "all", "shared wavefronts": "wavefr.", "global loads": "loads",
    "sectors loaded": "sec. in", "sectors stored": "out",
}  # fmt: skip


def _worst(step: Step) -> float:
    """The worst bank conflict of a step, 1.0 without."""
    return max((n for op, n in step.ways.items() if "global" not in op), default=1.0)


def _millions(n: int) -> str:
    return f"{n / 1e6:,.4g}" if n < 1e9 else f"{n / 1e6:,.0f}"


def _effects(before: Step, after: Step) -> str:
    from layoutalg.kernels.ladder.gemm import effects

    return ", ".join(f"{what} x {factor:.2f}" for what, factor in effects(before, after).items()) or "nothing"
