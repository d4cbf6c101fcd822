"""The report of a bench on the state of the GPU: a table, and the fields of its JSON."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal

from layoutalg.answers import Count, Positive, Rate, taken
from layoutalg.cli.output import Table

if TYPE_CHECKING:
    from layoutalg.codegen.gpu import Conditions, Span
    from layoutalg.kernels.bench import BenchRow, Method

MOVED = 1.05
"""A clock that rises by more has moved."""


@dataclass(frozen=True)
class SpanAnswer:
    """The least, the median and the most of what was read."""

    least: float
    median: float
    most: float


@dataclass(frozen=True)
class ConditionsAnswer:
    """Readings of the GPU while a contender was timed; null where it cannot be read."""

    readings: Count
    sm_mhz: SpanAnswer | None
    memory_mhz: SpanAnswer | None
    power_w: SpanAnswer | None
    temperature_c: SpanAnswer | None
    reasons: int | None
    """All bits that NVML's mask of reasons for lower clocks ever had."""
    reason_names: tuple[str, ...]
    held_back: Count
    """Readings with a reason beside idle."""


@dataclass(frozen=True)
class RunAnswer:
    """The conditions of a row. Data is cold where buffers rotated through four L2 caches; launches are
    those of the rule of the later half; joules are those of a launch, and work operations or bytes."""

    cold: bool
    launches: Positive | None
    contenders: Mapping[str, ConditionsAnswer]
    joules: Mapping[str, Rate | None]
    work_per_joule: Mapping[str, Rate | None]


@dataclass(frozen=True)
class MethodAnswer:
    """The method that rows were timed with."""

    rule: Literal["rounds", "later half"]
    cold: bool
    energy: bool
    not_read: str | None
    """Why no clocks were read, null where they were."""


def condition_tables(rows: Sequence[BenchRow], method: Method) -> Iterator[Table | str]:
    """State the conditions of our kernels, row by row, and the energy of all contenders, or why not."""
    if not rows:
        return
    if method.rule != "rounds":
        counts = [row.run.launches for row in rows]
        yield (
            f"Launches: {max(counts):,} to {min(counts):,} by size, one contender after another; the mean of "
            "their later half."
        )
    warm = sum(1 for row in rows if not row.run.cold)
    if method.cold and warm:
        from layoutalg.kernels.checks import MOST_SETS

        yield f"The data of {warm} rows is not cold: {MOST_SETS} sets of buffers are less than four L2s."
    if rows[0].run.unread:
        yield f"Clocks, power and temperature were not read: {rows[0].run.unread}."
        return
    columns = ("problem", "way", "SM MHz", "memory", "W", "C", "held back by", "L2")
    yield Table("What ours was timed under", columns, map(_condition_row, rows), left=2)
    if moved := _moved(rows):
        yield moved
    contenders = list(dict.fromkeys(x for row in rows for x in row.run.joules))
    if contenders:
        unit = "GFLOP/J" if rows[0].unit == "TFLOP/s" else "GB/J"
        cells = (
            (row.problem, row.way, *(_number(_giga(row.per_joule(x)), 1) for x in contenders)) for row in rows
        )
        yield Table(f"Work by energy, {unit}", ("problem", "way", *contenders), cells, left=2)


def _condition_row(row: BenchRow) -> tuple[str, ...]:
    seen = row.run.conditions.get("ours")
    l2 = "cold" if row.run.cold else "warm"
    if seen is None:
        return (row.problem, row.way, *"----", "-", l2)
    spans = (_span(x) for x in (seen.sm_mhz, seen.memory_mhz, seen.power_w, seen.temperature_c))
    return (row.problem, row.way, *spans, _held(seen), l2)


def _moved(rows: Sequence[BenchRow]) -> str:
    """Advice where the clock moved while our kernel was timed; empty where it was steady or not read."""
    spans = [seen.sm_mhz for row in rows if (seen := row.run.conditions.get("ours")) and seen.sm_mhz]
    low = min((span.least for span in spans), default=1.0)
    high = max((span.most for span in spans), default=1.0)
    if high <= MOVED * low:
        return ""
    return (
        f"The SM clock moved between {low:.0f} and {high:.0f} MHz: ratios of contenders in turn hold, "
        "rates of different rows were measured at different clocks. An administrator can hold it: nvidia-smi "
        f"--lock-gpu-clocks={low:.0f}, and --reset-gpu-clocks afterwards. Nothing here sets a clock."
    )


def _held(seen: Conditions) -> str:
    """State what held clocks back, with the share of readings, or "nothing"; "-" where it cannot be read."""
    if seen.reasons is None:
        return "-"
    names = [name for name in seen.names if name != "idle"]
    return f"{', '.join(names)} ({seen.held_back} of {seen.readings})" if names else "nothing"


def _span(span: Span | None) -> str:
    if span is None:
        return "-"
    low, high = round(span.least), round(span.most)
    return f"{low}" if low == high else f"{low}-{high}"


def _giga(x: float | None) -> float | None:
    return None if x is None else x / 1e9


def _number(x: float | None, digits: int) -> str:
    return "-" if x is None else f"{x:,.{digits}f}"


def run_answer(row: BenchRow) -> RunAnswer:
    """The record of the conditions of a row."""
    run = row.run
    seen = {
        name: taken(ConditionsAnswer, each, reason_names=each.names) for name, each in run.conditions.items()
    }
    work = {name: row.per_joule(name) for name in run.joules}
    return RunAnswer(run.cold, run.launches or None, seen, run.joules, work)


def method_answer(rows: Sequence[BenchRow], method: Method) -> MethodAnswer:
    """The record of how all was timed."""
    return taken(MethodAnswer, method, not_read=(rows[0].run.unread or None) if rows else None)
