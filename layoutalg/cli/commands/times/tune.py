"""`layoutalg tune`: the best configurations of a family's problems, timed once, kept, locked."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.times import stores
from layoutalg.cli.files import read_source
from layoutalg.cli.inputs import read_seconds
from layoutalg.cli.kernel_names import read_ints, read_options, read_problems
from layoutalg.cli.options import (
    GroupsOption,
    ProblemsOption,
    archs,
    argument,
    dtypes,
    families,
    one_of,
    option,
)
from layoutalg.cli.output import Table, Told, count, live_table, progress, say, say_answer, wants_json
from layoutalg.cli.reports import unfit_words
from layoutalg.errors import UnknownNameError, UnsupportedError, check_choice
from layoutalg.limits import Most

if TYPE_CHECKING:
    from layoutalg.kernels.family import Family
    from layoutalg.kernels.tuning import Place, Record, Store


BOARD = "board"
"""The word that asks for the numbers of a board, in place of a family or an action."""


def tune_command(
    what: Annotated[
        str,
        argument(
            "A kernel family to tune; or an action: show STORE, merge NEW STORE..., lock STORE, "
            "replay STORE; or board: time what fits the numbers of this GPU's board.",
            complete=families,
        ),
    ],
    operands: Annotated[list[str] | None, argument("The files of an action.")] = None,
    problems: ProblemsOption = None,
    sizes: Annotated[str | None, "In place of --problems, the sides of square problems: 1024,2048."] = None,
    dtype: Annotated[
        list[str] | None, option("Element type, with --sizes. May be repeated.", complete=dtypes)
    ] = None,
    groups: GroupsOption = None,
    top: Annotated[
        int, "Candidate configurations timed per problem; permute, transpose and tiled_copy have 16 and more."
    ] = 8,
    budget: Annotated[str | None, "Stop after 90s, 30m, 2h. Default: at the end."] = None,
    limit: Annotated[str, "Time limit for one configuration."] = "60s",
    store: Annotated[Path, "The file that keeps the timings."] = Path("layoutalg-times.jsonl"),
    gpus: Annotated[int, "Number of GPUs of this host to use, with one process each."] = 1,
    scheduler: Annotated[
        str | None, "A cluster to use instead: tcp://... for Dask, ray://... for Ray."
    ] = None,
    timing: Annotated[
        str, option("gpu, or model: the time that is expected.", complete=one_of("gpu", "model"))
    ] = "gpu",
    arch: Annotated[
        str, option("Architecture for --timing model: sm_90, sm_75, ...", complete=archs)
    ] = DEFAULT_ARCH,
    gpu: Annotated[str | None, "With lock and replay: only records of this GPU."] = None,
    output: Annotated[Path | None, option("The file that lock and board write.", "--output", "-o")] = None,
) -> None:
    """Autotune a kernel family: time the best candidates, keep the times, and lock the choices in a file.

    layoutalg tune transpose --sizes 1024,2048 --top 8 --gpus 2

    The same command again times only what the store lacks. A configuration that hangs, crashes or gives wrong
    results is tried twice and recorded with its error.
    """
    from layoutalg.kernels.tuning import Store

    words = operands or []
    if what == BOARD:
        if words:
            raise UnsupportedError("tune board takes no more words: -o names its file")
        outcome = stores.fit_board(output)
    elif what in stores.ACTIONS:
        least, most = stores.OPERANDS[what]
        if not least <= len(words) <= most:
            raise UnsupportedError(f"tune {what} takes {stores.TAKES[what]}")
        outcome = stores.ACTIONS[what](stores.Asked([*words], gpu, output))
    else:
        if words:
            raise UnsupportedError(f"tune {what} takes no more words: {', '.join(stores.ACTIONS)} do")
        budget_s = float("inf") if budget is None else read_seconds("budget", budget)
        times = budget_s, read_seconds("limit", limit)
        search = _Search(problems, sizes, dtype, groups, top, *times, gpus, scheduler, timing, arch)
        outcome = _search(what, search, Store(store))
    parts, answer = outcome
    if wants_json():
        say_answer(answer)
    else:
        say(*parts)


# --- the search ----------------------------------------------------------------------------------------


@dataclass(frozen=True)
class _Search:
    """The options of a search."""

    problems: str | None
    sizes: str | None
    dtypes: list[str] | None
    groups: int | None
    top: int
    budget_s: float
    limit_s: float
    gpus: int
    scheduler: str | None
    timing: str
    arch: str


def _search(name: str, options: _Search, store: Store) -> stores.Found:
    from layoutalg.arch import find_arch, find_board
    from layoutalg.kernels import tuning
    from layoutalg.kernels.identity import data_digest
    from layoutalg.kernels.registry import FAMILIES

    if name not in FAMILIES:
        raise UnknownNameError("kernel family or action", name, (*FAMILIES, *stores.ACTIONS, BOARD))
    check_choice("timing", options.timing, tuning.TIMINGS)
    family, chip = FAMILIES[name], find_arch(options.arch).name
    listed = _problems(family, options)
    on_gpus = options.timing == "gpu"
    if options.timing == "model":
        for problem in listed:
            family.expected(problem, family.choose(problem, chip), chip)  # refuses where no law is known
        if (board := find_board(options.arch)) != find_board(chip):
            raise UnsupportedError(
                f"the model has no times on {board.name}: name {chip} for those on {find_board(chip).name}"
            )
    if options.scheduler is None and on_gpus:
        from layoutalg.codegen.gpu import require_gpu

        require_gpu()
    engine = (
        tuning.local_engine(options.gpus)
        if options.scheduler is None
        else tuning.cluster_engine(options.scheduler, on_gpus=on_gpus)
    )
    with engine as opened:
        place: Place = tuning.model_place(chip)
        if on_gpus:
            with progress("asking for the GPU"):
                place, chip = tuning.first_of(opened, tuning.gpu_place)
        jobs = tuning.jobs_of(
            name, listed, chip, place, top=options.top, store=store.path.resolve(), limit_s=options.limit_s
        )
        columns = ("problem", "timed", "failed", "fastest", "rank", "last")
        with live_table(f"{name} on {place[1]}", columns) as changed:
            heard = _Heard(changed)
            summary = tuning.tune(jobs, opened, store, budget_s=options.budget_s, heard=heard)
    best: dict[str, Record] = {}
    asked_for = {data_digest(p) for p in listed}
    for r in store.records().values():
        if r.key.family == name and r.key.place == place and r.key.problem in asked_for and not r.failure:
            best[r.key.problem] = min(best.get(r.key.problem, r), r, key=lambda x: (x.ns, x.rank))
    rows = sorted(best.values(), key=stores.by_place)
    numbers = {word: getattr(summary, word) for word in ("timed", "failed", "known", "left", "retried")}
    where = f"on {place[1]}"
    if place[0] == "model":
        where = f"by the model of {chip} ({find_board(chip).name}), which measures nothing"
    shown = Table(
        f"{name}, {where}", ("problem", "configuration", "rank", "time"), map(stores.record_row, rows), left=2
    )
    sentence = (
        f"{summary.timed} timed, {summary.failed} failed, {summary.known} known, {summary.left} left; "
        f"{store.path} holds {count(len(store.records()))} records."
    )
    answer = stores.TuneAnswer(
        "search", len(store.records()), rows=tuple(map(stores.timing_row, rows)), numbers=numbers
    )
    return [shown, *unfit_words(summary), sentence], answer


@dataclass
class _Heard:
    """The results of each problem so far, for the live table."""

    changed: Told
    of: dict[str, tuple[int, int, Record | None]] = field(default_factory=dict)

    def __call__(self, record: Record) -> None:
        timed, failed, best = self.of.get(record.problem, (0, 0, None))
        if record.failure:
            failed += 1
        else:
            timed += 1
            best = record if best is None or record.ns < best.ns else best
        self.of[record.problem] = timed, failed, best
        shown = ("-", "-") if best is None else (stores.shown_time(best), str(best.rank))
        line = f"{record.problem}, rank {record.rank}: {stores.shown_time(record)}"
        cells = str(timed), str(failed), *shown, stores.shown_time(record)
        self.changed(record.problem, cells, line)


def _problems(family: Family, options: _Search) -> list[Any]:
    from layoutalg.kernels.checks import bench_of

    if (options.problems is None) == (options.sizes is None):
        raise UnsupportedError("a search takes --problems FILE or --sizes 1024,2048, one of them")
    more = read_options(family, {"groups": options.groups})
    if options.sizes is not None:
        cases = bench_of(family).cases(options.dtypes, read_ints("sizes", options.sizes), **more)
        made = [p for _, p in cases]
    elif more:
        raise UnsupportedError('--groups goes with --sizes: of --problems each names its own, {"groups": 8}')
    else:
        file = options.problems or ""
        made = read_problems(family, read_source(file), file)
    Most.ENTRIES.guard(len(made), "problems of a search")
    return list(dict.fromkeys(made))
