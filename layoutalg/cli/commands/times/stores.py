"""The actions of `layoutalg tune` on stores of timings: show, merge, lock and replay."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from layoutalg.answers import Answer, Count, Rate, fields_of, taken
from layoutalg.cli.files import write_whole
from layoutalg.cli.output import Table, count, progress, size_bytes
from layoutalg.errors import UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.tuning import Board, Record, Store

TOPS = (1, 4, 8, 16)
"""Numbers of candidates that a search is replayed for."""


@dataclass(frozen=True)
class TimingRow:
    """A result of a store."""

    family: str
    problem: str
    config: str
    rank: Count
    timing: Literal["gpu", "model", "verified"]
    gpu: str
    ns: Rate | None
    failure: str
    board: str
    slow: bool


@dataclass(frozen=True)
class TuneAnswer(Answer, command="tune"):
    """A search, or what was done with a store of timings."""

    action: Literal["search", "show", "merge", "lock", "replay", "board"]
    records: Count
    torn_bytes: Count = 0
    output: str | None = None
    rows: tuple[TimingRow, ...] = ()
    numbers: Mapping[str, float] = field(default_factory=dict)
    """By name."""


Found: TypeAlias = tuple[list[Any], TuneAnswer]
"""The sentences and tables, and the record of the answer."""


@dataclass(frozen=True)
class Asked:
    """The words after an action, and its options."""

    words: list[str]
    gpu: str | None = None
    output: Path | None = None


def shown_time(record: Record) -> str:
    """Its time, or the first line of its failure."""
    return record.failure.splitlines()[0][:60] if record.failure else f"{record.ns / 1e3:,.2f} us"


def by_place(record: Record) -> tuple[object, ...]:
    """The key by which records are sorted."""
    return record.key.place, record.key.family, record.problem, record.rank, record.key.config


def record_row(record: Record, slow: Collection[str] = ()) -> tuple[str, ...]:
    """A row of a table; times beside a `slow` copy are marked."""
    mark = ", slow copy" if record.key.digest in slow else ""
    return record.problem, record.config, str(record.rank), shown_time(record) + mark


def timing_row(record: Record, slow: Collection[str] = ()) -> TimingRow:
    """The record of a result in the command's JSON."""
    key = record.key
    ns = None if record.failure else record.ns
    return taken(
        TimingRow, record, family=key.family, timing=key.timing, gpu=key.gpu, ns=ns, slow=key.digest in slow
    )


def slow_of(boards: Iterable[Board]) -> frozenset[str]:
    """Digests of the records that were taken beside a slow copy."""
    return frozenset().union(*(board.slow for board in boards))


def board_parts(boards: Sequence[Board]) -> list[Any]:
    """A table of boards, and a sentence for each that is slow or had slow copies."""
    from layoutalg.kernels.tuning import SLOW

    if not boards:
        return []
    rows = (
        (
            board.gpu, board.name, f"{board.median:,.0f}", f"{board.share:.3f}", f"{board.records:,}",
            "-" if board.held_back is None else f"{board.held_back:.0%}",
        )
        for board in boards
    )  # fmt: skip
    columns = ("GPU", "board", "copy GB/s", "of its model", "results", "clocks held back")
    parts: list[Any] = [Table("Boards, by the copy beside each timing", columns, rows, left=2)]
    for board in boards:
        if board.is_slow:
            parts.append(
                f"{board.name} is slow: its copies have {board.share:.3f} of the median of {board.gpu}, less "
                f"than {SLOW}. Its {count(board.records)} results are of a slow board."
            )
        if board.slow:
            parts.append(
                f"{count(len(board.slow))} of {count(board.records)} results of {board.name} were taken "
                f"beside a copy of less than {SLOW} of the median of {board.gpu}: they are marked."
            )
    return parts


def _read(path: str) -> tuple[Store, list[Record]]:
    from layoutalg.kernels.tuning import Store

    store = Store(Path(path))
    if not store.path.exists():
        raise FileNotFoundError(2, "No such file or directory", path)
    return store, list(store.records().values())


def _torn(store: Store) -> list[str]:
    if not store.torn_bytes:
        return []
    return [
        f"The last line of {store.path} is torn, {size_bytes(store.torn_bytes)} of it are there: the "
        f"next writer moves them to {store.path}.torn."
    ]


def _show(request: Asked) -> Found:
    from layoutalg.kernels.tuning import boards_of

    store, records = _read(request.words[0])
    shown = sorted((r for r in records if request.gpu in (None, r.key.gpu)), key=by_place)
    boards = boards_of(shown)
    slow = slow_of(boards)
    parts: list[Any] = [*_torn(store)]
    for place in dict.fromkeys(r.key.place for r in shown):
        rows = [record_row(r, slow) for r in shown if r.key.place == place]
        title = f"{place[0]} times, {', '.join(x for x in place[1:] if x)}"
        parts.append(Table(title, ("problem", "configuration", "rank", "time"), rows, left=2))
    parts += board_parts(boards)
    parts.append(
        f"{count(len(shown))} records, {count(sum(bool(r.failure) for r in shown))} of them failures."
    )
    return parts, TuneAnswer(
        "show",
        len(records),
        store.torn_bytes,
        None,
        tuple(timing_row(r, slow) for r in shown),
        {"slow_boards": sum(b.is_slow for b in boards), "slow_results": len(slow)},
    )


def _merge(request: Asked) -> Found:
    from layoutalg.kernels.tuning import Store, salvaged

    new, added, parts, broken = Store(Path(request.words[0])), 0, [], 0
    for path in request.words[1:]:
        records, lines = salvaged(Path(path))
        added += new.add_all(records)
        broken += len(lines)
        if lines:
            parts.append(f"{path}: line {', '.join(map(str, lines[:20]))} is damaged and left out.")
    total = len(new.records())
    parts.append(f"{count(added)} records added: {request.words[0]} holds {count(total)}.")
    return parts, TuneAnswer("merge", total, numbers={"added": added, "damaged": broken})


def _lock(request: Asked) -> Found:
    from layoutalg.kernels.tuning import VERIFIED, lock_of, lock_text

    _, records = _read(request.words[0])
    lock, target = lock_of(records, request.gpu), request.output or Path("layoutalg.lock")
    if not lock.choices:
        there = sorted({r.key.gpu for r in records if not r.failure and r.key.timing != VERIFIED})
        of = "" if request.gpu is None else f" of {request.gpu}"
        known = ", ".join(there) or "no GPU"
        raise UnsupportedError(f"{request.words[0]} has no times{of} to make a lock of, but those of {known}")
    write_whole(target, lock_text(lock).encode())
    problems = len(lock.choices)
    parts = [f"{count(problems)} problems, by {lock.timing} times on {lock.gpu}, in {target}."]
    return parts, TuneAnswer("lock", len(records), output=str(target), numbers={"problems": problems})


def _replay(request: Asked) -> Found:
    from layoutalg.kernels.tuning import shares, without

    _, records = _read(request.words[0])
    own = [r for r in records if request.gpu in (None, r.key.gpu)]
    reached = shares(own, TOPS)
    lost = {n: without(own, n) for n in TOPS}
    cells = ((str(n), f"{share:.4f}") for n, share in reached.items())
    parts: list[Any] = [
        Table("Share of the best time that the first candidates reach", ("candidates", "share"), cells)
    ]
    parts += [
        f"Left out where none of the first {n} stands: {count(x)} problems." for n, x in lost.items() if x
    ]
    return parts, TuneAnswer("replay", len(own), numbers={f"top_{n}": x for n, x in reached.items()})


def fit_board(output: Path | None) -> Found:
    """Time launches on this GPU, fit the numbers of its board, and write them.  Raises as `measured` does."""
    from layoutalg.kernels.model import machine_text
    from layoutalg.kernels.tuning import errors_of, measured

    with progress("timing launches"):
        machine, times = measured()
    errors = errors_of(times)
    rows = ((name, str(n), f"{middle:.1%}", f"{most:.1%}") for name, (n, middle, most) in errors.items())
    numbers = {name: x for name, x in fields_of(machine).items() if isinstance(x, int | float)}
    parts: list[Any] = [
        Table("Expected times beside launches", ("family", "launches", "median error", "nine in ten"), rows),
        Table(machine.board, ("number", "is"), ((name, f"{x:.6g}") for name, x in numbers.items())),
    ]
    if output is not None:
        write_whole(output, machine_text(machine).encode())
        parts.append(f"{output}: set LAYOUTALG_BOARD={output} to choose by it.")
    numbers |= {"median_error": errors["all"][1], "ninth_error": errors["all"][2]}
    written = None if output is None else str(output)
    return parts, TuneAnswer("board", len(times), output=written, numbers=numbers)


_Action = Callable[[Asked], Found]

ACTIONS: Mapping[str, _Action] = {"show": _show, "merge": _merge, "lock": _lock, "replay": _replay}
TAKES = dict.fromkeys(ACTIONS, "one store") | {"merge": "the new store and at least one other"}
OPERANDS = dict.fromkeys(ACTIONS, (1, 1)) | {"merge": (2, 1000)}
