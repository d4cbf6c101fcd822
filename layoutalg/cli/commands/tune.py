"""`layoutalg tune`: the best configurations of a family's problems, timed once, kept, locked."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from layoutalg.cli.completions import archs, dtypes, families, one_of
from layoutalg.cli.inputs import read_source
from layoutalg.cli.options import JsonOption
from layoutalg.cli.output import count, progress, say, say_json, size_bytes, table, write_whole
from layoutalg.cli.refusals import header
from layoutalg.errors import ParseError, ResourceError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.kernels.family import Family
    from layoutalg.kernels.tuning import Place, Record, Store

MOST_PROBLEMS = 100_000
"""Of one search."""

SECONDS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86400}

TOPS = (1, 4, 8, 16)
"""Numbers of candidates that a search is replayed for."""


def tune_command(
    what: Annotated[
        str,
        typer.Argument(
            help="A family of kernels; or show STORE, merge NEW STORE..., export STORE, lock STORE, "
            "fit STORE FAMILY, replay STORE.",
            show_default=False,
            autocompletion=families,
        ),
    ],
    operands: Annotated[
        list[str] | None, typer.Argument(help="Files of show, merge, export, lock, fit.", show_default=False)
    ] = None,
    problems: Annotated[
        str | None,
        typer.Option(
            help='A JSON file with a list of problems by their arguments: [{"m": 64, "n": 4096}].',
            show_default=False,
        ),
    ] = None,
    sizes: Annotated[
        str | None,
        typer.Option(help="Sides of square problems instead: 1024,2048.", show_default=False),
    ] = None,
    dtype: Annotated[
        list[str] | None,
        typer.Option(help="Element type, of --sizes. Repeats.", show_default=False, autocompletion=dtypes),
    ] = None,
    top: Annotated[int, typer.Option(help="Candidates of a problem that are timed.")] = 8,
    budget: Annotated[
        str | None, typer.Option(help="When to stop: 90s, 30m, 2h. Default: at the end.", show_default=False)
    ] = None,
    limit: Annotated[str, typer.Option(help="What one configuration may take: 60s.")] = "60s",
    store: Annotated[Path, typer.Option(help="Where timings are kept.")] = Path("layoutalg-times.jsonl"),
    gpus: Annotated[int, typer.Option(help="GPUs of this host, a process for each.")] = 1,
    scheduler: Annotated[
        str | None,
        typer.Option(help="A cluster instead: tcp://... of Dask, ray://... of Ray.", show_default=False),
    ] = None,
    timing: Annotated[
        str,
        typer.Option(
            help="gpu, or model: numbers from what memory accesses cost, which are no times.",
            autocompletion=one_of("gpu", "model"),
        ),
    ] = "gpu",
    arch: Annotated[
        str, typer.Option("--arch", help="Architecture, of --timing model.", autocompletion=archs)
    ] = "sm_90",
    gpu: Annotated[
        str | None,
        typer.Option(help="Records of this GPU alone, of lock, fit and replay.", show_default=False),
    ] = None,
    output: Annotated[
        Path | None, typer.Option("--output", "-o", help="What lock, export and fit write to.")
    ] = None,
    as_json: JsonOption = False,
) -> None:
    """Time the best candidates of a family's problems, keep the times, and lock the choices in a file.

    layoutalg tune transpose --sizes 1024,2048 --top 8 --gpus 2

    The same command again times only what the store lacks. What hangs, crashes or is wrong is tried twice and
    recorded with its text.
    """
    from layoutalg.kernels.tuning import Store

    words = operands or []
    if what in _ACTIONS:
        least, most = _OPERANDS[what]
        if not least <= len(words) <= most:
            raise UnsupportedError(f"tune {what} takes {_TAKES[what]}")
        found = _ACTIONS[what]([*words], gpu, output)
    else:
        if words:
            raise UnsupportedError(f"tune {what} takes no more words: {', '.join(_ACTIONS)} do")
        search = _Asked(problems, sizes, dtype, top, budget, limit, gpus, scheduler, timing, arch)
        found = _search(what, search, Store(store), quiet=as_json)
    said, fields = found
    if as_json:
        say_json(header("tune") | {"action": what if what in _ACTIONS else "search"} | _NOTHING | fields)
    else:
        say(*said)


_NOTHING: dict[str, Any] = {"records": 0, "torn_bytes": 0, "output": None, "rows": [], "numbers": {}}

Found = tuple[list[Any], dict[str, Any]]
"""What is said, and the fields of the JSON object."""


# --- the search ----------------------------------------------------------------------------------------


class _Asked:
    """The options of a search."""

    def __init__(
        self,
        problems: str | None,
        sizes: str | None,
        dtypes: list[str] | None,
        top: int,
        budget: str | None,
        limit: str,
        gpus: int,
        scheduler: str | None,
        timing: str,
        arch: str,
    ) -> None:
        self.problems, self.sizes, self.dtypes, self.top = problems, sizes, dtypes, top
        self.budget_s = float("inf") if budget is None else _seconds("budget", budget)
        self.limit_s = _seconds("limit", limit)
        self.gpus, self.scheduler, self.timing, self.arch = gpus, scheduler, timing, arch


def _search(name: str, asked: _Asked, store: Store, *, quiet: bool) -> Found:
    from layoutalg.arch import find_arch
    from layoutalg.kernels.registry import FAMILIES
    from layoutalg.kernels.tuning import (
        TIMINGS,
        cluster_engine,
        first_of,
        gpu_place,
        jobs_of,
        local_engine,
        model_place,
        tune,
    )

    if name not in FAMILIES:
        raise UnknownNameError("kernel family or action", name, (*FAMILIES, *_ACTIONS))
    if asked.timing not in TIMINGS:
        raise UnknownNameError("timing", asked.timing, TIMINGS)
    family, chip = FAMILIES[name], find_arch(asked.arch).name
    listed = _problems(family, asked)
    on_gpus = asked.timing == "gpu"
    if asked.scheduler is None and on_gpus:
        from layoutalg.codegen.gpu import require_gpu

        require_gpu()
    engine = (
        local_engine(asked.gpus)
        if asked.scheduler is None
        else cluster_engine(asked.scheduler, on_gpus=on_gpus)
    )
    with engine as opened:
        place: Place = model_place(chip)
        if on_gpus:
            place, chip = first_of(opened, gpu_place)
        jobs = jobs_of(
            name, listed, chip, place, top=asked.top, store=store.path.resolve(), limit_s=asked.limit_s
        )
        with progress(f"{name}: timing configurations", quiet=quiet) as timed:
            summary = tune(jobs, opened, store, budget_s=asked.budget_s, heard=lambda _: timed())
    best: dict[str, Record] = {}
    asked_for = {str(p) for p in listed}
    for r in store.records().values():
        if r.key.family == name and r.key.place == place and r.problem in asked_for and not r.failure:
            best[r.problem] = min(best.get(r.problem, r), r, key=lambda x: (x.ns, x.rank))
    rows = sorted(best.values(), key=_order)
    numbers = {word: getattr(summary, word) for word in ("timed", "failed", "known", "left", "retried")}
    where = f"by the model of {place[1]}, which measures nothing" if place[0] == "model" else f"on {place[1]}"
    shown = table(f"{name}, {where}", ("problem", "configuration", "rank", "time"), map(_row, rows), left=2)
    sentence = (
        f"{summary.timed} timed, {summary.failed} failed, {summary.known} known, {summary.left} left; "
        f"{store.path} holds {count(len(store.records()))} records."
    )
    fields = {"records": len(store.records()), "rows": [_fields(r) for r in rows]}
    return [shown, sentence], fields | {"numbers": numbers}


def _problems(family: Family, asked: _Asked) -> list[Any]:
    if (asked.problems is None) == (asked.sizes is None):
        raise UnsupportedError("a search takes --problems FILE or --sizes 1024,2048, one of them")
    if asked.sizes is not None:
        from layoutalg.cli.kernel_names import read_ints

        made = [p for _, p in family.bench.cases(asked.dtypes, read_ints("sizes", asked.sizes))]
    else:
        made = [family.problem(**_arguments(family, x)) for x in _listed(asked.problems or "")]
    if len(made) > MOST_PROBLEMS:
        raise ResourceError("problems of a search", len(made), MOST_PROBLEMS)
    return list({str(p): p for p in made}.values())


def _listed(file: str) -> list[Any]:
    text = read_source(file)
    try:
        found = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise ParseError(f"the problems of {file} are no JSON: {error}", text="", position=0) from error
    if not isinstance(found, list) or not found:
        raise ParseError(
            f'{file} is no list of problems, such as [{{"m": 64, "n": 4096}}]', text="", position=0
        )
    return found


def _arguments(family: Family, named: object) -> Mapping[str, Any]:
    taken = (*family.asks, "dtype")
    if not isinstance(named, dict) or not all(isinstance(x, str) for x in named) or set(named) - set(taken):
        raise ParseError(
            f"{str(named)[:80]} is no problem of {family.name}, which has {', '.join(taken)}",
            text="",
            position=0,
        )
    return {name: tuple(x) if isinstance(x, list) else x for name, x in named.items()}


def _seconds(what: str, text: str) -> float:
    found = re.fullmatch(r"(\d{1,6})([smhd]?)", text.strip(), re.ASCII)
    if not found or not int(found[1]):
        raise ParseError(
            f"cannot read the {what} {text[:40]!r}: 90s, 30m or 2h are accepted", text=text, position=0
        )
    return float(int(found[1]) * SECONDS[found[2]])


def _time(record: Record) -> str:
    return record.failure.splitlines()[0][:60] if record.failure else f"{record.ns / 1e3:,.2f} us"


def _order(record: Record) -> tuple[object, ...]:
    return record.key.place, record.key.family, record.problem, record.rank, record.key.config


def _row(record: Record) -> tuple[str, ...]:
    return record.problem, record.config, str(record.rank), _time(record)


def _fields(record: Record) -> dict[str, Any]:
    return {
        "family": record.key.family,
        "problem": record.problem,
        "config": record.config,
        "rank": record.rank,
        "timing": record.key.timing,
        "gpu": record.key.gpu,
        "ns": None if record.failure else record.ns,
        "failure": record.failure,
    }


# --- what is done with stores --------------------------------------------------------------------------


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


def _show(words: list[str], gpu: str | None, output: Path | None) -> Found:
    store, records = _read(words[0])
    shown = sorted((r for r in records if gpu in (None, r.key.gpu)), key=_order)
    said: list[Any] = [*_torn(store)]
    for place in dict.fromkeys(r.key.place for r in shown):
        own = [r for r in shown if r.key.place == place]
        title = f"{place[0]} times, {', '.join(x for x in place[1:] if x)}"
        said.append(table(title, ("problem", "configuration", "rank", "time"), map(_row, own), left=2))
    said.append(
        f"{count(len(shown))} records, {count(sum(bool(r.failure) for r in shown))} of them failures."
    )
    return said, {
        "records": len(records),
        "torn_bytes": store.torn_bytes,
        "rows": [_fields(r) for r in shown],
    }


def _merge(words: list[str], gpu: str | None, output: Path | None) -> Found:
    from layoutalg.kernels.tuning import Store, salvaged

    new, added, said, broken = Store(Path(words[0])), 0, [], 0
    for path in words[1:]:
        records, lines = salvaged(Path(path))
        added += new.add_all(records)
        broken += len(lines)
        if lines:
            said.append(f"{path}: line {', '.join(map(str, lines[:20]))} is damaged and left out.")
    total = len(new.records())
    said.append(f"{count(added)} records added: {words[0]} holds {count(total)}.")
    return said, {"records": total, "numbers": {"added": added, "damaged": broken}}


def _export(words: list[str], gpu: str | None, output: Path | None) -> Found:
    from layoutalg.kernels.tuning import t4_results

    _, records = _read(words[0])
    text = json.dumps(t4_results(r for r in records if gpu in (None, r.key.gpu)), indent=1) + "\n"
    target = output or Path(words[0]).with_suffix(".t4.json")
    write_whole(target, text.encode())
    return [f"{count(len(records))} records in {target}, in the T4 results format."], {
        "records": len(records),
        "output": str(target),
    }


def _lock(words: list[str], gpu: str | None, output: Path | None) -> Found:
    from layoutalg.kernels.tuning import lock_of, lock_text

    _, records = _read(words[0])
    lock, target = lock_of(records, gpu), output or Path("layoutalg.lock")
    write_whole(target, lock_text(lock).encode())
    return [f"{count(len(lock.choices))} problems, by {lock.timing} times on {lock.gpu}, in {target}."], {
        "records": len(records),
        "output": str(target),
        "numbers": {"problems": len(lock.choices)},
    }


def _fit(words: list[str], gpu: str | None, output: Path | None) -> Found:
    from layoutalg.kernels.tuning import fitted_rates

    _, records = _read(words[0])
    own = [r for r in records if r.key.family == words[1] and gpu in (None, r.key.gpu)]
    fit = fitted_rates(own)
    said: list[Any] = [
        table("Nanoseconds", ("of one of", "ns"), ((name, f"{x:.6g}") for name, x in fit.rates.items())),
        f"{count(fit.records)} times of {count(fit.problems)} problems; of problems left out, the median "
        f"error is {fit.median_error:.1%} and the worst {fit.worst_error:.1%}.",
    ]
    numbers = dict(fit.rates) | {"median_error": fit.median_error, "worst_error": fit.worst_error}
    if output is not None:
        key = own[0].key
        data: dict[str, Any] = {
            "family": words[1],
            "timing": key.timing,
            "gpu": key.gpu,
            "rates_ns": dict(fit.rates),
        }
        data |= {"median_error": fit.median_error, "worst_error": fit.worst_error, "records": fit.records}
        write_whole(output, (json.dumps(data, indent=1) + "\n").encode())
    return said, {"records": len(own), "output": None if output is None else str(output), "numbers": numbers}


def _replay(words: list[str], gpu: str | None, output: Path | None) -> Found:
    from layoutalg.kernels.tuning import shares

    _, records = _read(words[0])
    own = [r for r in records if gpu in (None, r.key.gpu)]
    found = shares(own, TOPS)
    cells = ((str(n), f"{share:.4f}") for n, share in found.items())
    return [
        table("Share of the best time that the first candidates reach", ("candidates", "share"), cells)
    ], {
        "records": len(own),
        "numbers": {f"top_{n}": share for n, share in found.items()},
    }


_Action = Callable[[list[str], str | None, Path | None], Found]

_ACTIONS: Mapping[str, _Action] = {
    "show": _show, "merge": _merge, "export": _export, "lock": _lock, "fit": _fit, "replay": _replay,
}  # fmt: skip
_TAKES = {
    "show": "one store", "merge": "the new store and at least one other", "export": "one store",
    "lock": "one store", "fit": "one store and a family", "replay": "one store",
}  # fmt: skip
_OPERANDS = {"merge": (2, 1000), "fit": (2, 2)} | dict.fromkeys(("show", "export", "lock", "replay"), (1, 1))
