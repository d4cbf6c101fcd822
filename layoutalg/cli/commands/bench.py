"""`layoutalg bench`: kernels timed beside the libraries, in one run; tables, and what was predicted."""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Annotated, Any, TypeAlias

import typer

from layoutalg.cli.completions import dtypes, families
from layoutalg.cli.options import JsonOption
from layoutalg.cli.output import progress, say, say_json, table
from layoutalg.cli.refusals import header
from layoutalg.errors import UnknownNameError

if TYPE_CHECKING:
    from rich.table import Table

    from layoutalg.kernels.bench import BenchRow
    from layoutalg.kernels.ladder import Step


def bench_command(
    family: Annotated[
        str,
        typer.Argument(
            help="tiled_copy, transpose, permute, gemm-simt, gemm-sm80, gemm-sm90, gemv; relu, gelu, silu, "
            "add; sum, mean, max, softmax, layer_norm, rms_norm, reduce: all six.",
            show_default=False,
            autocompletion=families,
        ),
    ],
    dtype: Annotated[
        list[str] | None,
        typer.Option(
            help="Element type. Repeats. Default: f32, f16, u8; reductions f32, f16, bf16.",
            show_default=False,
            autocompletion=dtypes,
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
    if predict:
        predict_command(family, size, as_json)
        return
    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.kernels.bench import benchmark, benchmark_ways, timed_problems
    from layoutalg.kernels.registry import find_family

    asked = timed_problems(family, dtype, size)
    chosen, status = find_family(asked[0].family), require_gpu()
    steps: list[BenchRow] = []
    rows: list[BenchRow] = []
    if chosen.steps and size is None:
        steps = benchmark_ways(family, chosen.problem(chosen.bench.steps_size), chosen.steps)
    with progress(f"timing {family}", len(asked), quiet=as_json) as step:
        for row in benchmark(asked):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    tables, fields = RECORDS[chosen.bench.record]
    if as_json:
        where = {"family": family, "device": status.name, "arch": status.arch, "date": today}
        say_json(header("bench") | where | fields(steps, rows))
    else:
        say(*tables(family, f"on {status.name}, {today}", steps, rows))


Rows: TypeAlias = "Sequence[BenchRow]"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}"


def _factor(factor: float | None, digits: int = 2) -> str:
    return "-" if factor is None else f"{factor:.{digits}f}"


# --- what moves data -----------------------------------------------------------------------------------


def _moved_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    """The rates, and where something was predicted, that and the mean share of the copy."""
    from layoutalg.kernels.bench import mean_of
    from layoutalg.kernels.move import SEED

    cells = ((row.problem, *(_rate(row.rates[name]) for name in _MOVED), _factor(row.share)) for row in rows)
    predicted = [row for row in rows if row.notes]
    copy, share = ("copy", "share") if predicted else ("device copy", "share of copy")
    drawn = f"; cases drawn with seed {SEED}" if predicted else ""
    yield table(f"{family} {where}, GB/s{drawn}", ("problem", "ours", copy, "PyTorch", "CuPy", share), cells)
    if predicted:
        seen = (
            (row.problem, *(f"{row.notes[f'sectors {way}']:,}" for way in ("in", "out")), row.notes["bound"])
            for row in predicted
        )
        yield table("What was predicted", ("problem", "sectors in", "sectors out", "bound"), seen)
        yield f"Geometric mean of the shares of the copy: {mean_of(row.share for row in rows):.2f}."


_MOVED = ("ours", "copy", "torch", "cupy")


def _moved_fields(steps: Rows, rows: Rows) -> dict[str, Any]:
    return {
        "rows": [
            {"problem": row.problem}
            | {f"{name}_gb_per_s": row.rates[name] for name in _MOVED}
            | {"share_of_copy": row.share}
            for row in rows
        ]
    }


# --- reductions and norms ------------------------------------------------------------------------------


def _reduced_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    from layoutalg.kernels.rowwise import SEED

    for limit, name in (("read", "reductions"), ("copy", "softmax and layer norm")):
        part = [row for row in rows if row.limit == limit]
        if part:
            title = f"{name} {where}, GB/s; cases drawn with seed {SEED}"
            columns = ("case", "ours", limit, "share", "PyTorch", "CuPy", "ratio", "memory")
            yield table(title, columns, map(_reduced_row, part))
            yield _means(name, limit, part)


def _reduced_row(row: BenchRow) -> tuple[str, ...]:
    return (
        row.problem,
        _rate(row.ours),
        _rate(row.rates[row.limit]),
        _factor(row.share),
        _rate(row.rates["torch"]),
        _rate(row.rates["cupy"]),
        _factor(row.ratio("torch")),
        _factor(row.notes["memory bytes"] / row.notes["moved bytes"]),
    )


def _means(name: str, limit: str, rows: Rows) -> str:
    from layoutalg.kernels.bench import mean_of

    share, ratio = mean_of(row.share for row in rows), mean_of(row.ratio("torch") for row in rows)
    beside = "" if ratio is None else f", {ratio:.2f} times PyTorch"
    return (
        f"Geometric mean of {len(rows)} {name}: {share:.2f} of the {limit}{beside}. Ratio: to PyTorch; "
        "memory: the bytes that are predicted to be moved, over those that have to be."
    )


def _reduced_fields(steps: Rows, rows: Rows) -> dict[str, Any]:
    return {
        "reduced": [
            {
                "problem": row.problem,
                "ours_gb_per_s": row.ours,
                "limit": row.limit,
                "limit_gb_per_s": row.rates[row.limit],
                "share_of_limit": row.share,
                "torch_gb_per_s": row.rates["torch"],
                "cupy_gb_per_s": row.rates["cupy"],
                "moved_bytes": row.notes["moved bytes"],
                "predicted_memory_bytes": row.notes["memory bytes"],
            }
            for row in rows
        ]
    }


# --- products ------------------------------------------------------------------------------------------


def _product_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    from layoutalg.kernels.bench import mean_of

    for name, part in (("steps", steps), ("sizes", rows)):
        if part:
            columns = ("problem", "way", "registers", "ours", "cuBLAS", "ratio")
            title = f"{family}, {name}, {where}, TFLOP/s"
            yield table(title, columns, map(_product_row, part), left=2)
    if (mean := mean_of(row.ratio("cublas") for row in rows)) is not None:
        yield f"Geometric mean of the ratios: {mean:.3f}."


def _product_row(row: BenchRow) -> tuple[str, ...]:
    rates = (f"{row.ours:.1f}", _factor(row.rates["cublas"], 1), _factor(row.ratio("cublas"), 3))
    return (row.problem, row.way, str(row.registers), *rates)


def _product_fields(steps: Rows, rows: Rows) -> dict[str, Any]:
    def fields(row: BenchRow) -> dict[str, Any]:
        return {
            "problem": row.problem,
            "way": row.way,
            "registers": row.registers,
            "ours_tflop_per_s": row.ours,
            "cublas_tflop_per_s": row.rates["cublas"],
            "ratio": row.ratio("cublas"),
        }

    return {"steps": [fields(row) for row in steps], "rows": [fields(row) for row in rows]}


RECORDS: Mapping[str, tuple[Callable[..., Iterator[Table | str]], Callable[..., dict[str, Any]]]] = {
    "rate": (_moved_tables, _moved_fields),
    "reduced_rate": (_reduced_tables, _reduced_fields),
    "product_rate": (_product_tables, _product_fields),
}
"""The tables, and what `--json` says, of each kind of row in the schema."""


# --- predicted steps of a ladder -----------------------------------------------------------------------


def predict_command(family: str, sizes: list[int] | None, as_json: bool) -> None:
    """`layoutalg bench gemm-sm80 --predict`: every step at one size, before anything runs."""
    from layoutalg.kernels.ladder import ARCH, predict_steps
    from layoutalg.kernels.registry import FAMILIES, find_family

    chosen, reports = find_family(family), []
    if not chosen.steps:
        stepped = [name for name, one in FAMILIES.items() if one.steps]
        raise UnknownNameError("family with steps", family, stepped)
    for size in sizes or [chosen.bench.steps_size]:
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
    from layoutalg.kernels.ladder import effects

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
    from layoutalg.kernels.ladder import effects

    return ", ".join(f"{what} x {factor:.2f}" for what, factor in effects(before, after).items()) or "nothing"
