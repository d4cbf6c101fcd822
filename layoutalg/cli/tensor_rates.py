"""What is said of timed permutes, reductions and norms, for people and as JSON."""

from __future__ import annotations

import datetime
from typing import TYPE_CHECKING, Any

from layoutalg.cli.output import progress, say, say_json, table
from layoutalg.cli.refusals import header

if TYPE_CHECKING:
    from layoutalg.kernels.bench import BenchRow
    from layoutalg.kernels.permute_bench import PermuteRow
    from layoutalg.kernels.reduce_bench import ReduceRow


def permute_bench(dtypes: list[str] | None, as_json: bool) -> None:
    """`layoutalg bench permute`: the quoted cases and the drawn ones, with what was predicted of them."""
    from layoutalg.codegen.runtime import require_gpu
    from layoutalg.kernels.permute_bench import CASES, DTYPES, SEED, benchmark_permutes, random_cases
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
    from layoutalg.codegen.runtime import require_gpu
    from layoutalg.errors import UnknownNameError
    from layoutalg.kernels.reduce_bench import CASES, DTYPES, SEED, benchmark_reductions, random_cases

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
