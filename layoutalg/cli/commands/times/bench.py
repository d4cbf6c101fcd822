"""`layoutalg bench`: kernels timed beside the libraries, in one run; tables, and what was predicted."""

from __future__ import annotations

import datetime
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal

from layoutalg.answers import Amount, Answer, Bound, Count, Rate, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.times.conditions import (
    MethodAnswer,
    RunAnswer,
    condition_tables,
    method_answer,
    run_answer,
)
from layoutalg.cli.commands.times.predictions import predict_command, predict_groups
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
from layoutalg.cli.output import Table, count, progress, say, say_answer, wants_json
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
    if wants_json():
        how = method_answer([*steps, *rows], method)
        where = family, status.name, status.arch, today, how
        say_answer(Timings(*where, _answers(steps), _answers(rows)))
    else:
        drawn = f"; cases drawn with seed {bench_of(chosen).seed}" if bench_of(chosen).seed else ""
        parts = [
            part
            for name, some in ((f"{family}, steps,", steps), (family, rows))
            for part in _tables(f"{name} on {status.name}, {today}{drawn}", some)
        ]
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


# --- tables and the record -----------------------------------------------------------------------------


def _tables(title: str, rows: Sequence[BenchRow]) -> Iterator[Table | str]:
    """The rates of rows with the same contenders, ours over each of the others, and what was predicted."""
    from layoutalg.kernels.bench import OURS, mean_of

    for names in dict.fromkeys(tuple(row.rates) for row in rows):
        part = [row for row in rows if tuple(row.rates) == names]
        others = [name for name in names if name != OURS]
        cells = [
            (
                row.problem, row.way, *(_rate(row.rates[name]) for name in names),
                *(_number(row.ratio(name), 3) for name in others),
            )
            for row in part
        ]  # fmt: skip
        columns = ("problem", "way", *names, *(f"of {name}" for name in others))
        yield Table(f"{title}, {part[0].unit}", columns, cells, left=2)
        means = {name: mean_of(row.ratio(name) for row in part) for name in others}
        if len(others) > 1:
            means["the fastest"] = mean_of(
                min((x for x in map(row.ratio, others) if x is not None), default=None) for row in part
            )
        if known := [f"{mean:.3f} of {name}" for name, mean in means.items() if mean is not None]:
            yield f"Geometric mean of {len(part)} rows: {', '.join(known)}."
    for notes in dict.fromkeys(tuple(row.notes) for row in rows):
        told = [
            (row.problem, row.way, row.registers, *map(_told, row.notes.values()))
            for row in rows
            if tuple(row.notes) == notes
        ]
        title = "Registers of a thread, and what was predicted" if notes else "Registers of a thread"
        yield Table(title, ("problem", "way", "registers", *notes), told, left=2)


def _rate(x: float | None) -> str:
    return _number(x, 1 if x is not None and x < 1000 else 0)


def _number(x: float | None, digits: int) -> str:
    return "-" if x is None else f"{x:,.{digits}f}"


def _told(note: object) -> str:
    """A prediction: a number, words, or that there is none."""
    return count(note) if isinstance(note, int | float) else "-" if note is None else str(note)


@dataclass(frozen=True)
class TimedRow:
    """A problem, computed in one way; null where a contender is missing or cannot compute it."""

    problem: str
    way: str
    registers: Count
    unit: Literal["GB/s", "TFLOP/s"]
    rates: Mapping[str, Rate | None]
    """The rate of each contender."""
    ratios: Mapping[str, Rate | None]
    """Our rate over that of each other contender."""
    limit: str
    """The contender that says what memory can do, empty for products and attention."""
    notes: Mapping[str, Amount | str | None]
    """Predictions, with their units."""
    run: RunAnswer


@dataclass(frozen=True)
class Timings(Answer, command="bench"):
    """Rates of kernels beside libraries, with the device and the method that they were timed with."""

    family: str
    device: str
    arch: str
    date: Annotated[str, Bound("pattern", "^[0-9]{4}-[0-9]{2}-[0-9]{2}$")]
    method: MethodAnswer
    steps: tuple[TimedRow, ...]
    """The steps of a ladder at one size."""
    rows: tuple[TimedRow, ...]


def _answers(rows: Sequence[BenchRow]) -> tuple[TimedRow, ...]:
    from layoutalg.kernels.bench import OURS

    return tuple(
        taken(
            TimedRow, row, ratios={name: row.ratio(name) for name in row.rates if name != OURS},
            run=run_answer(row),
        )
        for row in rows
    )  # fmt: skip
