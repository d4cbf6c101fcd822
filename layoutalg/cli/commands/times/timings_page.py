"""A store of timings as a page: winners, candidates, failures, boards, and what a shorter search would find.

>>> "<h2>" in timings_html("times.jsonl", []), "no record" in timings_html("times.jsonl", [])
(False, True)
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from statistics import geometric_mean

from layoutalg.draw import Chart, Series, chart_svg
from layoutalg.kernels.tuning import SLOW, Board, Record, boards_of, by_problem, shares, without
from layoutalg.limits import Most
from layoutalg.page import escaped, html_document, paragraph, table

MOST_DETAILED = 100
"""Problems of a page whose candidates are listed; the winners of all are."""

STYLE = "main th:nth-child(2), main td:nth-child(2) { text-align: left; }"
"""The second column of every table is a name."""

TOPS = (1, 2, 4, 8, 16, 32, 64)
"""Numbers of candidates that a shorter search is shown for, as far as there are more."""


def timings_html(name: str, records: Iterable[Record]) -> str:
    """A page of all that a store holds, by family and place, which opens from a file and loads nothing.

    Raises ResourceError for a page past Most.PAGE.

    >>> page = timings_html("times.jsonl", [])
    >>> page.startswith("<!doctype html>"), "https:" in page, "src=" in page
    (True, False, False)
    """
    own = list(records)
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in own:
        groups[(record.key.family, *record.key.place)].append(record)
    failed = sum(bool(r.failure) for r in own)
    body = [
        f"<header><p class='soft'>layoutalg tune</p><h1>{escaped(name)}</h1></header><main>",
        paragraph(f"{len(own):,} records, {failed:,} of them failures.")
        if own
        else paragraph("It has no record."),
    ]
    boards = boards_of(own)
    if boards:
        body.append(_section("Boards", _boards(boards)))
    slow = frozenset().union(*(board.slow for board in boards))
    for group in sorted(groups):
        family, timing, gpu, *rest = group
        measured = "times by the model of" if timing == "model" else "timed on"
        head = f"{family}, {measured} {gpu}"
        where = ", ".join(word for word in rest if word)
        names = "display driver, CUDA of the driver, CUDA, layoutalg" if timing == "gpu" else "layoutalg"
        body.append(_section(head, [paragraph(f"{names}: {where}", "soft"), *_group(groups[group], slow)]))
    policy = "default-src 'none'; img-src data:; style-src 'unsafe-inline'"
    page = html_document(f"layoutalg tune: {name}", policy, "".join([*body, "</main>"]), STYLE)
    Most.PAGE.guard(len(page.encode()), "bytes of a page of timings")
    return page


def _section(head: str, parts: Iterable[str]) -> str:
    return f"<section><h2>{escaped(head)}</h2>{''.join(parts)}</section>"


def _boards(boards: Sequence[Board]) -> Iterator[str]:
    yield paragraph(
        f"A copy is timed beside each configuration. A board is slow where the median of its copies is under "
        f"{SLOW:.2f} of that of its model; results that were taken beside a slow copy are marked."
    )
    rows = []
    for board in boards:
        held = "" if board.held_back is None else f"{board.held_back:.0%}"
        verdict = '<span class="bad">slow</span>' if board.is_slow else ""
        rows.append(
            [
                escaped(board.gpu), escaped(board.name), f"{board.median:,.0f}", f"{board.share:.3f}",
                f"{board.records:,}", f"{len(board.slow):,}", held, verdict,
            ]
        )  # fmt: skip
    columns = (
        "GPU",
        "board",
        "copy GB/s",
        "of its model",
        "results",
        "beside a slow copy",
        "clocks held back",
        "",
    )
    yield table("Boards by the copies beside what they timed", columns, rows)


def _group(records: Sequence[Record], slow: frozenset[str]) -> Iterator[str]:
    problems = by_problem(records)
    failures: dict[str, list[Record]] = defaultdict(list)
    for record in records:
        if record.failure:
            failures[record.key.problem].append(record)
    if problems:
        yield from _charts(list(problems.values()))
        rows = [_winner(own, failures[name[1]], slow) for name, own in problems.items()]
        columns = (
            "problem",
            "fastest",
            "time",
            "rank",
            "candidates",
            "failed",
            "first alone",
            "first 4",
            "libraries",
        )
        yield table("Winners", columns, sorted(rows))
        yield paragraph(
            "Rank: the place in the order of the cost model, 0 is its first. First alone, first 4: the share "
            "of the fastest time that a search of so few would have reached. Libraries: how many times as "
            "long the fastest of them took.",
            "soft",
        )
    lost = [r for own in failures.values() for r in own]
    if lost:
        cells = [
            [escaped(r.problem), _wrapped(r.config), str(r.rank), _wrapped(r.failure)]
            for r in sorted(lost, key=lambda r: (r.problem, r.rank))
        ]
        yield table("Failures", ("problem", "configuration", "rank", "what was said"), cells)
    for own in list(problems.values())[:MOST_DETAILED]:
        yield _details(own, slow)
    if len(problems) > MOST_DETAILED:
        yield paragraph(
            f"The candidates of {MOST_DETAILED} of {len(problems):,} problems are listed.", "soft"
        )


def _charts(problems: Sequence[Sequence[Record]]) -> Iterator[str]:
    """The time over the fastest, of each candidate by its rank and of a search of the first n."""
    points, first = [], []
    for own in problems:
        best = min(r.ns for r in own)
        points += [(r.rank + 1, r.ns / best) for r in own if r.ns > best]
        first.append(min((r for r in own), key=lambda r: (r.ns, r.rank)).rank + 1)
    most = max(r.rank for own in problems for r in own) + 1
    series = [Series("others", tuple(points), line=False)] if points else []
    won = Series("fastest of its problem", tuple((rank, 1.0) for rank in sorted(set(first))), line=False)
    yield _drawn(
        Chart(
            "Candidates by the order of the cost model", "place in the order", "time over the fastest",
            (*series, won), log_x=most > 16, log_y=True,
        )
    )  # fmt: skip
    tops = [n for n in TOPS if n < most] + [most]
    reached = shares((r for own in problems for r in own), tops)
    worst = []
    for n in tops:
        each = [
            min((r.ns for r in own if r.rank < n), default=float("inf")) / min(r.ns for r in own)
            for own in problems
        ]
        finite = [x for x in each if x < float("inf")]
        worst.append(100 * (max(finite) - 1) if finite else 0.0)
    if len(tops) > 1:
        yield _drawn(
            Chart(
                f"What a search of the first n loses, {len(problems):,} problems", "n", "% over the fastest",
                (
                    Series("mean", tuple((n, 100 * (1 / reached[n] - 1)) for n in tops if reached[n])),
                    Series("worst", tuple(zip(tops, worst, strict=True))),
                ),
                notes=tuple(
                    f"Left out where none of the first {n} stands: {count} problems."
                    for n in tops
                    if (count := without((r for own in problems for r in own), n))
                ),
            )
        )  # fmt: skip


def _drawn(chart: Chart) -> str:
    return f'<div class="scroll">{chart_svg(chart)}</div>'


def _winner(own: Sequence[Record], failed: Sequence[Record], slow: frozenset[str]) -> list[str]:
    best = min(own, key=lambda r: (r.ns, r.rank))
    beside = [x for name, x in best.counters.items() if name.endswith(" ns")]
    by_share = [
        f"{best.ns / least:.3f}" if (least := min((r.ns for r in own if r.rank < n), default=0.0)) else "none"
        for n in (1, 4)
    ]
    return [
        escaped(best.problem), _wrapped(best.config), _time(best, slow), str(best.rank),
        str(len(own) + len(failed)), str(len(failed) or ""), *by_share,
        f"{min(beside) / best.ns:.2f}" if beside else "",
    ]  # fmt: skip


def _details(own: Sequence[Record], slow: frozenset[str]) -> str:
    best = min(r.ns for r in own)
    rows = [
        [
            str(r.rank), _wrapped(r.config), _time(r, slow), f"{r.ns / best:.3f}",
            f"{(max(r.times_ns) / min(r.times_ns) - 1):.1%}" if len(r.times_ns) > 1 else "", escaped(r.board),
        ]
        for r in own
    ]  # fmt: skip
    columns = ("rank", "configuration", "time", "over the fastest", "spread", "board")
    spread = geometric_mean([r.ns / best for r in own])
    head = f"{own[0].problem}: {len(own)} candidates, {spread:.2f} times the fastest in the geometric mean"
    return f"<details><summary>{escaped(head)}</summary>{table('', columns, rows)}</details>"


def _time(record: Record, slow: frozenset[str]) -> str:
    mark = ' <span class="bad">slow copy</span>' if record.key.digest in slow else ""
    return f"{record.ns / 1e3:,.2f} us{mark}"


def _wrapped(text: str) -> str:
    """Long text in a cell, which may be broken anywhere."""
    return (
        f'<div style="white-space:normal;min-width:20rem;text-align:left"><code>{escaped(text)}</code></div>'
    )
