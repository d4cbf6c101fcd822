"""`layoutalg bench`: kernels timed beside the libraries, in one run; tables, and what was predicted."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, TypeAlias

from layoutalg.answers import Amount, Answer, Bound, Count, Positive, Rate, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.times.conditions import (
    MethodAnswer,
    RunAnswer,
    condition_tables,
    method_answer,
    run_answer,
)
from layoutalg.cli.commands.times.predictions import (
    GroupExpectation,
    expected_of,
    predict_command,
    predict_groups,
)
from layoutalg.cli.files import read_source
from layoutalg.cli.kernel_names import read_options, read_problems
from layoutalg.cli.options import (
    FUNCTION_NAMES,
    GroupsOption,
    ProblemsOption,
    archs,
    argument,
    dtypes,
    families,
    one_of,
    option,
)
from layoutalg.cli.output import Table, progress, say, say_answer, wants_json
from layoutalg.errors import ParseError, UnsupportedError, check_choice
from layoutalg.kernels.norms import NORMS
from layoutalg.limits import Most

if TYPE_CHECKING:
    from layoutalg.kernels.bench import BenchRow, Timed


def bench_command(
    family: Annotated[
        str,
        argument(
            "tiled_copy, transpose, permute, gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90, gemv; attention; "
            f"{FUNCTION_NAMES}, add; sum, mean, max, {', '.join(NORMS)}, reduce: all of them; min, "
            "prod, argmax, argmin, var, logsumexp, cross_entropy; quantize_nvfp4, quantize_mxfp8, "
            "quantize_mxfp4.",
            complete=families,
        ),
    ],
    dtype: Annotated[
        list[str] | None,
        option(
            "Element type. May be repeated. Default: f32, f16, u8; reductions f32, f16, bf16.",
            complete=dtypes,
        ),
    ] = None,
    size: Annotated[
        list[int] | None,
        "Side of the square matrices. May be repeated. Default: 4096, 16384; GEMM 1024 to 8192.",
    ] = None,
    sizes: Annotated[str | None, "More sides, as FIRST:LAST:STEP: 1024:12800:128."] = None,
    groups: GroupsOption = None,
    group_rows: Annotated[
        str,
        option(
            "Rows of each group: equal, or drawn (random, differing by up to a factor of ten).",
            complete=one_of("equal", "drawn"),
        ),
    ] = "equal",
    problems: ProblemsOption = None,
    launches: Annotated[
        str,
        option(
            "How to time: rounds alternates between the libraries and takes medians; later-half runs "
            "1000 exp((1024 - n) / 3100) launches of each library and takes the mean of the later half.",
            complete=one_of("rounds", "later-half"),
        ),
    ] = "rounds",
    cold: Annotated[bool, "Rotate over buffers of four times the L2's size, so that the L2 is cold."] = False,
    energy: Annotated[bool, "Run each library alone for one more second, to measure work per joule."] = False,
    predict: Annotated[
        bool, "Predict instead of timing: the steps of a GEMM, or the choice for groups. Needs no GPU."
    ] = False,
    arch: Annotated[
        str | None,
        option(
            "With --predict: sm_90 (an H200) or sm_75 (a T4). Default: sm_90; sm_75 for gemm-sm75.",
            complete=archs,
        ),
    ] = None,
) -> None:
    """Time kernels beside a device copy, PyTorch, CuPy and cuBLAS, in one run. Needs a GPU.

    Each row has the clocks, the power, the temperature and the reasons for reduced clocks while it was timed,
    as far as they can be read. Clocks are never set.

    layoutalg bench gemm-simt --sizes 1024:12800:128 --launches later-half --cold --energy --json

    layoutalg bench gemm-sm90 --groups 8 --size 4096 --group-rows drawn --cold
    """
    check_choice("rule of launches", launches, _RULES)
    if sizes is not None:
        size = [*(size or ()), *_read_sizes(sizes)]
    check_choice("rows of groups", group_rows, GROUP_ROWS)
    if problems is not None and (size or dtype or groups is not None):
        raise UnsupportedError("--problems names whole problems: --size, --dtype, --groups are not beside it")
    if predict and (groups is not None or problems is not None):
        listed = _listed(family, dtype, size, groups, problems)
        predict_groups(family, [timed.problem for timed in listed], arch or DEFAULT_ARCH)
        return
    if predict:
        predict_command(family, size, arch)
        return
    if arch is not None:
        raise UnsupportedError("--arch is of --predict: kernels are timed on the GPU that is there")
    from layoutalg.codegen.gpu import require_gpu
    from layoutalg.kernels.bench import Method, benchmark, benchmark_ways, check_method, with_drawn_rows
    from layoutalg.kernels.checks import bench_of
    from layoutalg.kernels.registry import LADDERS, find_family, find_steps

    timings = _listed(family, dtype, size, groups, problems)
    if group_rows == "drawn":
        timings = [with_drawn_rows(timed) for timed in timings]
    method = Method(_RULES[launches], cold, energy)
    for timed in timings:
        check_method(method, timed)
    chosen, status = find_family(timings[0].family), require_gpu()
    steps: list[BenchRow] = []
    rows: list[BenchRow] = []
    if family in LADDERS and size is None and groups is None and problems is None:
        steps = benchmark_ways(
            family, chosen.problem(bench_of(chosen).steps_size), find_steps(family), method
        )
    with progress(f"timing {family}", len(timings)) as step:
        for row in benchmark(timings, method):
            rows.append(row)
            step()
    today = datetime.datetime.now(tz=datetime.UTC).date().isoformat()
    tables, answer = RECORDS[bench_of(chosen).record]
    if wants_json():
        how = method_answer([*steps, *rows], method)
        say_answer(answer(Timings(family, status.name, status.arch, today, how), steps, rows))
    else:
        parts = tables(family, f"on {status.name}, {today}", steps, rows)
        say(*parts, *condition_tables([*steps, *rows], method))


def _listed(
    family: str, dtypes: list[str] | None, sizes: list[int] | None, groups: int | None, problems: str | None
) -> list[Timed]:
    """The problems to time or predict.  Raises as `timed_problems`, `read_options` and `read_problems` do."""
    from layoutalg.kernels.bench import REDUCE, Timed, timed_problems
    from layoutalg.kernels.registry import find_family

    if family == REDUCE and (problems is not None or groups is not None):
        raise UnsupportedError(
            f"{REDUCE} is all families of reductions: --problems, --groups are of one family"
        )
    if problems is not None:
        return [Timed(family, p) for p in read_problems(find_family(family), read_source(problems), problems)]
    more = {} if groups is None else read_options(find_family(family), {"groups": groups})
    return timed_problems(family, dtypes, sizes, **more)


GROUP_ROWS = ("equal", "drawn")

_RULES: Mapping[str, Literal["rounds", "later half"]] = {"rounds": "rounds", "later-half": "later half"}


def _read_sizes(text: str) -> range:
    """Sizes from the first to the last, both included.  Raises ParseError, ResourceError for too many."""
    match = re.fullmatch(r"\s*(\d{1,6}):(\d{1,6}):(\d{1,6})\s*", text, re.ASCII)
    first, last, step = map(int, match.groups()) if match else (0, 0, 0)
    if not 0 < first <= last or not step:
        raise ParseError(
            f"cannot read the sizes {text[:80]!r}: expected FIRST:LAST:STEP, such as 1024:12800:128, none of "
            "them 0 and the first no larger than the last",
            text=text,
            position=0,
        )
    sizes = range(first, last + 1, step)
    Most.ENTRIES.guard(len(sizes), "sizes of a sweep")
    return sizes


Rows: TypeAlias = "Sequence[BenchRow]"


def _rate(rate: float | None) -> str:
    return "-" if rate is None else f"{rate:,.0f}"


def _factor(factor: float | None, digits: int = 2) -> str:
    return "-" if factor is None else f"{factor:.{digits}f}"


# --- what moves data -----------------------------------------------------------------------------------


def _moved_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    """The rates, and where something was predicted, that and the mean share of the copy."""
    from layoutalg.kernels.bench import mean_of
    from layoutalg.kernels.checks import bench_of
    from layoutalg.kernels.registry import find_family

    cells = (
        (row.problem, *(_rate(row.rates.get(name)) for name in _MOVED), _factor(row.share)) for row in rows
    )
    predicted = [row for row in rows if row.notes]
    copy, share = ("copy", "share") if predicted else ("device copy", "share of copy")
    drawn = f"; cases drawn with seed {bench_of(find_family(family)).seed}" if predicted else ""
    yield Table(f"{family} {where}, GB/s{drawn}", ("problem", "ours", copy, "PyTorch", "CuPy", share), cells)
    if predicted:
        seen = (
            (row.problem, *(f"{row.notes[f'sectors {way}']:,}" for way in ("in", "out")), row.notes["bound"])
            for row in predicted
        )
        yield Table(
            f"What was predicted, at the rates of {predicted[0].notes['board']}",
            ("problem", "sectors in", "sectors out", "bound"),
            seen,
        )
        yield f"Geometric mean of the shares of the copy: {mean_of(row.share for row in rows):.2f}."


_MOVED = ("ours", "copy", "torch", "cupy")


@dataclass(frozen=True)
class RateRow:
    """A row of the table, in 10^9 bytes per second."""

    problem: str
    ours_gb_per_s: Rate
    copy_gb_per_s: Rate
    torch_gb_per_s: Rate | None
    cupy_gb_per_s: Rate | None
    share_of_copy: Rate
    run: RunAnswer


@dataclass(frozen=True)
class Timings:
    """The device and the method that rows were timed with."""

    family: str
    device: str
    arch: str
    date: Annotated[str, Bound("pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    method: MethodAnswer


@dataclass(frozen=True)
class MovedTimings(Timings, Answer, command="bench"):
    """Rates of what moves data."""

    rows: tuple[RateRow, ...]


def _moved_answer(where: Timings, steps: Rows, rows: Rows) -> MovedTimings:
    shown = (
        taken(
            RateRow, row, **{f"{name}_gb_per_s": row.rates.get(name) for name in _MOVED},
            share_of_copy=row.share, run=run_answer(row),
        )
        for row in rows
    )  # fmt: skip
    return taken(MovedTimings, where, rows=shown)


# --- reductions and norms ------------------------------------------------------------------------------


def _reduced_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    from layoutalg.kernels.checks import bench_of
    from layoutalg.kernels.registry import find_family

    seed = bench_of(find_family(rows[0].family)).seed
    for limit, name in (("read", "reductions"), ("copy", "softmax and layer norm")):
        part = [row for row in rows if row.limit == limit]
        if part:
            title = f"{name} {where}, GB/s; cases drawn with seed {seed}"
            columns = ("case", "ours", limit, "share", "PyTorch", "CuPy", "ratio", "memory")
            yield Table(title, columns, map(_reduced_row, part))
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


@dataclass(frozen=True)
class ReducedRow:
    """A row of the bench of reductions, in 10^9 bytes per second."""

    problem: str
    ours_gb_per_s: Rate
    limit: Literal["read", "copy"]
    """A long sum, or a device copy, of as many bytes."""
    limit_gb_per_s: Rate
    share_of_limit: Rate
    torch_gb_per_s: Rate | None
    cupy_gb_per_s: Rate | None
    moved_bytes: Positive
    """Bytes that have to be read and written."""
    predicted_memory_bytes: Positive
    run: RunAnswer


@dataclass(frozen=True)
class ReducedTimings(Timings, Answer, command="bench"):
    """Rates of reductions and norms."""

    reduced: tuple[ReducedRow, ...]


def _reduced_answer(where: Timings, steps: Rows, rows: Rows) -> ReducedTimings:
    shown = (
        taken(
            ReducedRow, row, ours_gb_per_s=row.ours, limit_gb_per_s=row.rates[row.limit],
            share_of_limit=row.share, torch_gb_per_s=row.rates["torch"], cupy_gb_per_s=row.rates["cupy"],
            moved_bytes=row.notes["moved bytes"], predicted_memory_bytes=row.notes["memory bytes"],
            run=run_answer(row),
        )
        for row in rows
    )  # fmt: skip
    return taken(ReducedTimings, where, reduced=shown)


# --- products ------------------------------------------------------------------------------------------


def _product_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    from layoutalg.kernels.bench import mean_of

    grouped = [row for row in rows if "grouped_mm" in row.rates and row.notes]
    for name, part in (("steps", steps), ("sizes", [row for row in rows if row not in grouped])):
        if part:
            columns = ("problem", "way", "registers", "ours", "cuBLAS", "ratio")
            title = f"{family}, {name}, {where}, TFLOP/s"
            yield Table(title, columns, map(_product_row, part), left=2)
    if grouped:
        named = (
            "problem", "way", "ours", "expected", "loop", "ratio", "_grouped_mm", "ratio", "by TMA", "cut"
        )  # fmt: skip
        yield Table(f"{family}, groups, {where}, TFLOP/s", named, map(_grouped_row, grouped), left=2)
        yield (
            f"Expected is of groups of one size, on {grouped[0].notes['board']}, and so are boxes of 64 rows "
            "of results: those that leave by TMA, and those that a group's end cuts, which threads store."
        )
    if (mean := mean_of(row.ratio("cublas") for row in rows)) is not None:
        yield f"Geometric mean of the ratios: {mean:.3f}."


def _product_row(row: BenchRow) -> tuple[str, ...]:
    rates = (f"{row.ours:.1f}", _factor(row.rates["cublas"], 1), _factor(row.ratio("cublas"), 3))
    return (row.problem, row.way, str(row.registers), *rates)


def _grouped_row(row: BenchRow) -> tuple[str, ...]:
    expected = row.notes["expected us"]
    return (
        row.problem, row.way, f"{row.ours:.1f}", _factor(expected and row.work / expected / 1e6, 1),
        _factor(row.rates["cublas"], 1), _factor(row.ratio("cublas"), 3),
        _factor(row.rates["grouped_mm"], 1), _factor(row.ratio("grouped_mm"), 3),
        f"{row.notes['boxes by TMA']:,}", f"{row.notes['boxes by threads']:,}",
    )  # fmt: skip


@dataclass(frozen=True)
class GroupRates(GroupExpectation):
    """Rates of groups of rows, where cuBLAS is a loop of matmuls: torch._grouped_mm, null where PyTorch has
    none, and what is expected of groups of one size."""

    grouped_mm_tflop_per_s: Amount | None
    ratio: Amount | None


@dataclass(frozen=True)
class ProductRow:
    """TFLOP/s of one way to compute a matrix product, and of cuBLAS; null without PyTorch."""

    problem: str
    way: str
    registers: Count
    ours_tflop_per_s: Amount
    cublas_tflop_per_s: Amount | None
    ratio: Amount | None
    run: RunAnswer
    groups: GroupRates | None


@dataclass(frozen=True)
class ProductTimings(Timings, Answer, command="bench"):
    """Rates of matrix products."""

    steps: tuple[ProductRow, ...]
    rows: tuple[ProductRow, ...]


def _product_answer(where: Timings, steps: Rows, rows: Rows) -> ProductTimings:
    def shown(row: BenchRow) -> ProductRow:
        groups = None
        if "grouped_mm" in row.rates and row.notes:
            more = {"grouped_mm_tflop_per_s": row.rates["grouped_mm"], "ratio": row.ratio("grouped_mm")}
            groups = taken(GroupRates, expected_of(row.notes), **more)
        rates = row.ours, row.rates["cublas"], row.ratio("cublas")
        return ProductRow(row.problem, row.way, row.registers, *rates, run_answer(row), groups)

    return taken(ProductTimings, where, steps=map(shown, steps), rows=map(shown, rows))


# --- attention -----------------------------------------------------------------------------------------

_ATTENDED = ("ours", "cudnn", "flash")


def _attended_ratio(row: BenchRow) -> float | None:
    """Our rate over that of the faster back end."""
    return min((x for x in map(row.ratio, _ATTENDED[1:]) if x is not None), default=None)


def _attended_tables(family: str, where: str, steps: Rows, rows: Rows) -> Iterator[Table | str]:
    from layoutalg.kernels.bench import mean_of

    columns = ("problem", "way", "registers", "ours", "cuDNN", "FlashAttention", "ratio", "L2 / memory")
    cells = (
        (row.problem, row.way, str(row.registers), *(_rate(row.rates[x]) for x in _ATTENDED),
         _factor(_attended_ratio(row), 3), _factor(row.notes["tma bytes"] / row.notes["memory bytes"], 1))
        for row in rows
    )  # fmt: skip
    yield Table(f"{family} {where}, TFLOP/s", columns, cells, left=2)
    yield "L2 / memory: the bytes that TMA moves, over those that memory has to, as predicted."
    if (mean := mean_of(map(_attended_ratio, rows))) is not None:
        yield f"Geometric mean of the ratios to the faster one: {mean:.3f}."


@dataclass(frozen=True)
class AttendedRow:
    """TFLOP/s of attention, and of PyTorch's back ends; null where one cannot; the ratio to the faster."""

    problem: str
    way: str
    registers: Count
    ours_tflop_per_s: Amount
    cudnn_tflop_per_s: Amount | None
    flash_tflop_per_s: Amount | None
    ratio: Amount | None
    predicted_memory_bytes: Positive
    predicted_tma_bytes: Positive
    """Bytes that TMA brings into shared memory and takes out of it."""
    run: RunAnswer


@dataclass(frozen=True)
class AttendedTimings(Timings, Answer, command="bench"):
    """Rates of attention."""

    attended: tuple[AttendedRow, ...]


def _attended_answer(where: Timings, steps: Rows, rows: Rows) -> AttendedTimings:
    shown = (
        taken(
            AttendedRow, row, **{f"{x}_tflop_per_s": row.rates[x] for x in _ATTENDED},
            ratio=_attended_ratio(row), predicted_memory_bytes=row.notes["memory bytes"],
            predicted_tma_bytes=row.notes["tma bytes"], run=run_answer(row),
        )
        for row in rows
    )  # fmt: skip
    return taken(AttendedTimings, where, attended=shown)


RECORDS: Mapping[str, tuple[Callable[..., Iterator[Table | str]], Callable[..., Answer]]] = {
    "rate": (_moved_tables, _moved_answer),
    "reduced_rate": (_reduced_tables, _reduced_answer),
    "product_rate": (_product_tables, _product_answer),
    "attended_rate": (_attended_tables, _attended_answer),
}
"""The tables, and the record of the answer, of each kind of row."""
