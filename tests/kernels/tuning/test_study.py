"""The facts that a store tells: shares of shorter searches, slow boards, and the command."""

from __future__ import annotations

import random
from dataclasses import replace
from math import prod
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import MismatchError
from layoutalg.kernels import tuning
from layoutalg.kernels.tuning.jobs import CALIBRATION, HELD_BACK
from tests.command import answer, refusal, run
from tests.sweeps import each


def record(problem: int, rank: int, ns: float, counters: Any = None, **more: Any) -> tuning.Record:
    """A time of a way of a problem, of a board where one is given."""
    place = ("gpu", "H200", "580", "13", "13") if "board" in more else ("model", "sm_90", "", "", "")
    key = tuning.store.Key("sum", f"{problem:064}", f"{rank:064}", "k" * 64, *place, "0.1.0")
    return tuning.Record(key, f"problem <{problem}>", f"way {rank}", rank, (ns,), counters or {}, **more)


def test_shares_are_those_of_the_enumerated_search() -> None:
    draw = random.Random(1)
    times = [[draw.uniform(1, 9) for _ in range(12)] for _ in range(7)]
    own = [record(p, rank, ns) for p, row in enumerate(times) for rank, ns in enumerate(row)]
    for n in (1, 2, 5, 12):
        product = prod(min(row) / min(row[:n]) for row in times)
        assert tuning.shares(own, (n,))[n] == pytest.approx(product ** (1 / 7))
    with pytest.raises(MismatchError, match="no record of the store has times"):
        tuning.shares([])


def test_problems_whose_first_candidates_failed_are_left_out_and_counted() -> None:
    failed = replace(record(1, 0, 1.0), times_ns=(), failure="no answer")
    own = [failed, record(1, 1, 9.0), record(2, 0, 4.0), record(2, 1, 2.0)]
    assert tuning.shares(own, (1, 2)) == {1: 0.5, 2: pytest.approx(1.0)}
    assert [tuning.without(own, n) for n in (1, 2)] == [1, 0]
    assert tuning.shares([failed, record(1, 1, 9.0)], (1,)) == {1: 0.0}
    verified = replace(own[1], key=replace(own[1].key, timing=tuning.VERIFIED))
    with pytest.raises(MismatchError, match="no record of the store has times"):
        tuning.shares([verified])
    assert not tuning.lock_of([verified]).choices


@pytest.fixture
def store(here: Path) -> Path:
    counters = {"launches": 1.0, "sectors": 9.0, "wavefronts": 0.0}
    tuning.Store(Path("a.jsonl")).add_all(
        record(p, r, 100.0 * p + r, counters) for p in range(1, 7) for r in range(3)
    )
    return here / "a.jsonl"


def test_the_command_shows_merges_locks_and_replays(store: Path) -> None:
    shown = answer("tune", "show", "a.jsonl")
    assert (shown["action"], shown["records"], len(shown["rows"])) == ("show", 18, 18)
    data = store.read_bytes()
    store.write_bytes(data[:-30])
    assert answer("tune", "show", "a.jsonl")["torn_bytes"] > 100
    assert "The last line of a.jsonl is torn" in run("tune", "show", "a.jsonl").stdout
    store.write_bytes(data.replace(b"601.0", b"602.0"))
    assert refusal("tune", "show", "a.jsonl")[0] == "ParseError"
    assert answer("tune", "merge", "b.jsonl", "a.jsonl")["numbers"] == {"added": 17, "damaged": 1}
    assert answer("tune", "lock", "b.jsonl", "-o", "c.lock")["numbers"] == {"problems": 6}
    assert answer("tune", "replay", "b.jsonl")["numbers"]["top_16"] == 1.0


MODEL = ("--timing", "model")


@each(
    ("words", "error"),
    [
        (("sums", "--sizes", "64", *MODEL), "UnknownNameError"), (("sum",), "UnsupportedError"),
        (("transpose", "--sizes", "64", "--timing", "guess"), "UnknownNameError"),
        (("transpose", "--sizes", "64", "--problems", "x"), "UnsupportedError"),
        (("transpose", "--problems", "x.json", *MODEL), "ParseError"),
        (("transpose", "--sizes", "64", *MODEL, "--budget", "soon"), "ParseError"),
        (("transpose", "--sizes", "64", *MODEL, "--gpus", "0"), "ResourceError"),
        (("transpose", "more", "--sizes", "64"), "UnsupportedError"), (("show",), "UnsupportedError"),
        (("show", "absent"), "OSError"), (("merge", "a.jsonl"), "UnsupportedError"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("store")
def test_what_is_not_understood_is_refused(words: tuple[str, ...], error: str) -> None:
    Path("x.json").write_text('[{"rows": 3}]')
    assert refusal("tune", *words)[0] == error


def test_slow_boards_and_slow_copies_are_flagged(here: Path) -> None:
    """Three boards, of which one is slow and one had one slow copy, and a failure."""
    copies = [("GPU-a", 4000.0, 0.0)] * 5 + [("GPU-b", 4010.0, 0.0)] * 4
    copies += [("GPU-b", 3000.0, 0.5), ("GPU-c", 3500.0, 0.0), ("GPU-c", 3600.0, 0.0)]
    boards = [
        record(1, n, 2000.0 + n, {CALIBRATION: rate, HELD_BACK: held, "torch ns": 3000.0}, board=board)
        for n, (board, rate, held) in enumerate(copies)
    ]
    boards.append(replace(record(1, 12, 1.0, board=""), times_ns=(), failure="no answer <b>"))
    found = tuning.boards_of(boards)
    middles = {"GPU-a": 4000.0, "GPU-b": 4010.0, "GPU-c": 3550.0}
    assert [(b.name, b.median, b.of_model) for b in found] == [(n, m, 4000.0) for n, m in middles.items()]
    assert [(b.is_slow, b.held_back) for b in found] == [(False, 0.0), (False, 0.1), (True, 0.0)]
    slow = {r.key.digest for r in boards if r.board and r.counters[CALIBRATION] < tuning.SLOW * 4000}
    assert set().union(*(b.slow for b in found)) == slow and len(slow) == 3
    tuning.Store(Path("a.jsonl")).add_all(boards)
    shown = answer("tune", "show", "a.jsonl")
    assert shown["numbers"] == {"slow_boards": 1, "slow_results": 3}
    assert [row["rank"] for row in shown["rows"] if row["slow"]] == [9, 10, 11]
    said = " ".join(run("tune", "show", "a.jsonl").stdout.split())
    assert "GPU-c is slow" in said and "1 of 5 results of GPU-b" in said
