"""`layoutalg bench`: kernels timed beside the libraries, in one run; tables, and what was predicted."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any

import typer

from layoutalg.cli.ladder_words import predict_command
from layoutalg.cli.options import JsonOption
from layoutalg.cli.output import progress, say, say_json, table
from layoutalg.cli.refusals import header
from layoutalg.cli.tensor_rates import permute_bench, rate_fields, rate_row, reduce_bench

if TYPE_CHECKING:
    from layoutalg.kernels.bench import BenchRow
    from layoutalg.kernels.gemm_bench import GemmRow

TENSORS = {"permute": permute_bench, "reduce": reduce_bench}
"""Benches of a list of cases: their element types can be chosen."""


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

    from layoutalg.codegen.runtime import require_gpu
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

    from layoutalg.codegen.runtime import require_gpu
    from layoutalg.kernels.gemm_bench import (
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
