"""What a store tells: shares of shorter searches, rates with their error, the T4 format, and the command."""

from __future__ import annotations

import json
import random
from dataclasses import replace
from pathlib import Path
from statistics import median

import pytest

from layoutalg.errors import MismatchError, ResourceError
from layoutalg.kernels import tuning
from layoutalg.kernels.tuning.jobs import CALIBRATION, HELD_BACK
from tests.command import answer, refusal, run
from tests.stand_ins.engines import lasting_engines


def record(
    problem: int, rank: int, ns: float, counters: dict[str, float] | None = None, gpu: str = "sm_90"
) -> tuning.Record:
    key = tuning.Key("sum", f"{problem:064}", f"{rank:064}", "k" * 64, "model", gpu, "", "", "", "0.1.0")
    return tuning.Record(key, f"problem {problem}", f"way {rank}", rank, (ns,), counters or {})


def test_shares_are_those_of_the_enumerated_search() -> None:
    draw = random.Random(1)
    times = [[draw.uniform(1, 9) for _ in range(12)] for _ in range(7)]
    own = [record(p, rank, ns) for p, each in enumerate(times) for rank, ns in enumerate(each)]
    for n in (1, 2, 5, 12):
        product = 1.0
        for each in times:
            product *= min(each) / min(each[:n])
        assert tuning.shares(own, (n,))[n] == pytest.approx(product ** (1 / 7))
    with pytest.raises(MismatchError, match="no record of the store has times"):
        tuning.shares([])


def test_problems_whose_first_candidates_failed_are_left_out_and_counted() -> None:
    failed = replace(record(1, 0, 1.0), times_ns=(), failure="no answer")
    own = [failed, record(1, 1, 9.0), record(2, 0, 4.0), record(2, 1, 2.0)]
    assert tuning.shares(own, (1, 2)) == {1: 0.5, 2: pytest.approx(1.0)}
    assert [tuning.without(own, n) for n in (1, 2)] == [1, 0]
    assert tuning.shares([failed, record(1, 1, 9.0)], (1,)) == {1: 0.0}


def test_verifications_are_no_times() -> None:
    own = [replace(record(1, 0, 9.0), key=replace(record(1, 0, 9.0).key, timing=tuning.VERIFIED))]
    with pytest.raises(MismatchError, match="no record of the store has times"):
        tuning.shares(own)
    assert not tuning.lock_of(own).choices


def test_rates_are_found_again_within_the_noise_that_was_added() -> None:
    draw, rates = random.Random(2), {"launches": 1500.0, "sectors": 0.25, "wavefronts": 0.02}
    own = []
    for p in range(30):
        counters = {name: draw.uniform(1, 4) * 500 / rate for name, rate in rates.items()}
        exact = sum(rate * counters[name] for name, rate in rates.items())
        own.append(record(p, 0, exact * draw.uniform(0.99, 1.01), counters))
    fit = tuning.fitted_rates(own)
    assert all(fit.rates[name] == pytest.approx(rate, rel=0.05) for name, rate in rates.items())
    assert 0 < fit.median_error < fit.worst_error < 0.03 and (fit.records, fit.problems) == (30, 30)


def test_no_rate_is_negative_and_too_few_problems_are_refused() -> None:
    own = [
        record(p, 0, 1000.0 / p, {"launches": 1.0, "sectors": float(p), "wavefronts": 0.0})
        for p in range(1, 9)
    ]
    assert all(rate >= 0 for rate in tuning.fitted_rates(own).rates.values())
    with pytest.raises(ResourceError, match="parts of the problems of a fit"):
        tuning.fitted_rates(own[:4])
    with pytest.raises(MismatchError, match="2 places do not mix"):
        tuning.fitted_rates([*own, record(1, 0, 5.0, gpu="sm_80")])


def test_results_are_those_of_the_format() -> None:
    failed = tuning.Record(record(1, 1, 1.0).key, "problem 1", "way 1", 1, failure="no answer")
    good, bad = tuning.t4_results([record(1, 0, 2e6), failed])["results"]
    assert good["measurements"] == [{"name": "time", "value": 2.0, "unit": "ms"}]
    assert (good["invalidity"], bad["invalidity"], bad["correctness"]) == ("correct", "runtime", 0)
    assert good["times"]["runtimes"] == [2.0] and bad["measurements"] == []


@pytest.fixture
def store(here: Path) -> Path:
    counters = {"launches": 1.0, "sectors": 9.0, "wavefronts": 0.0}
    tuning.Store(Path("a.jsonl")).add_all(
        record(p, r, 100.0 * p + r, counters) for p in range(1, 7) for r in range(3)
    )
    return here / "a.jsonl"


def test_the_command_shows_merges_exports_locks_fits_and_replays(store: Path) -> None:
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
    assert set(answer("tune", "fit", "b.jsonl", "sum", "-o", "rates.json")["numbers"]) > {"sectors"}
    assert json.loads(Path("rates.json").read_text())["records"] == 17
    assert answer("tune", "replay", "b.jsonl")["numbers"]["top_16"] == 1.0
    assert answer("tune", "export", "b.jsonl")["output"] == "b.t4.json"
    assert len(json.loads(Path("b.t4.json").read_text())["results"]) == 17


@pytest.mark.parametrize(
    ("words", "error"),
    [
        (("sums", "--sizes", "64", "--timing", "model"), "UnknownNameError"),
        (("sum",), "UnsupportedError"),
        (("transpose", "--sizes", "64", "--timing", "guess"), "UnknownNameError"),
        (("transpose", "--sizes", "64", "--problems", "x"), "UnsupportedError"),
        (("transpose", "--problems", "x.json", "--timing", "model"), "ParseError"),
        (("transpose", "--sizes", "64", "--timing", "model", "--budget", "soon"), "ParseError"),
        (("transpose", "--sizes", "64", "--timing", "model", "--gpus", "0"), "ResourceError"),
        (("transpose", "more", "--sizes", "64"), "UnsupportedError"),
        (("show",), "UnsupportedError"),
        (("show", "absent"), "OSError"),
        (("merge", "a.jsonl"), "UnsupportedError"),
    ],
)
def test_what_is_not_understood_is_refused(store: Path, words: tuple[str, ...], error: str) -> None:
    Path("x.json").write_text('[{"rows": 3}]')
    assert refusal("tune", *words)[0] == error


def copied(board: str, config: int, rate: float, held: float = 0.0, failure: str = "") -> tuning.Record:
    key = tuning.Key(
        "sum", "a" * 64, f"{config:064}", "d" * 64, "gpu", "NVIDIA H200", "580", "13.0", "13.0", "0.1.0"
    )
    counters = {CALIBRATION: rate, HELD_BACK: held, "torch ns": 3000.0}
    times = () if failure else (2000.0 + config, 2100.0 + config, 1990.0 + config)
    return tuning.Record(key, "64 x 64 <f32>", f"way {config}", config, times, counters, failure, board)


@pytest.fixture
def boards() -> list[tuning.Record]:
    """Three boards, of which one is slow and one had one slow copy, and a failure."""
    own = [copied("GPU-a", n, 4000.0) for n in range(5)] + [copied("GPU-b", n, 4010.0) for n in range(5, 9)]
    own += [copied("GPU-b", 9, 3000.0, 0.5), copied("GPU-c", 10, 3500.0), copied("GPU-c", 11, 3600.0)]
    return [*own, replace(copied("", 12, 4000.0, failure="no answer <b>"), counters={})]


def test_slow_boards_and_slow_copies_are_told_by_the_median_of_the_model(boards: list[tuning.Record]) -> None:
    found = tuning.boards_of(boards)
    names = ("GPU-a", "GPU-b", "GPU-c")
    middles = {name: median(r.counters[CALIBRATION] for r in boards if r.board == name) for name in names}
    of_model = median(middles.values())
    assert [(b.name, b.median, b.of_model) for b in found] == [(n, m, of_model) for n, m in middles.items()]
    assert [b.is_slow for b in found] == [False, False, True]
    expected = {r.key.digest for r in boards if r.board and r.counters[CALIBRATION] < tuning.SLOW * of_model}
    assert set().union(*(b.slow for b in found)) == expected and len(expected) == 3
    assert [b.held_back for b in found] == [0.0, 0.1, 0.0]


def test_the_command_flags_slow_boards_and_writes_a_page_that_loads_nothing(
    boards: list[tuning.Record], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    tuning.Store(Path("a.jsonl")).add_all(boards)
    shown = answer("tune", "show", "a.jsonl", "--html", "a.html")
    assert shown["numbers"] == {"slow_boards": 1, "slow_results": 3} and shown["output"] == "a.html"
    assert [(row["rank"], row["board"]) for row in shown["rows"] if row["slow"]] == [
        (9, "GPU-b"), (10, "GPU-c"), (11, "GPU-c"),
    ]  # fmt: skip
    said = " ".join(run("tune", "show", "a.jsonl").stdout.split())
    assert "GPU-c is slow: its copies have 0.887 of the median of NVIDIA H200, less than 0.95." in said
    assert "1 of 5 results of GPU-b were taken beside a copy of less than 0.95" in said
    page = Path("a.html").read_text()
    assert page.count("<svg") == 2 and page.count("slow copy</span>") == 3
    assert "no answer &lt;b&gt;" in page and "64 x 64 &lt;f32&gt;" in page
    assert "<td>1.50</td>" in page, "the fastest library takes 1.5 times as long"
    assert not any(word in page for word in ("https:", "src=", "<script", "@import", "url("))
    assert refusal("tune", "lock", "a.jsonl", "--html", "b.html")[0] == "UnsupportedError"


@pytest.mark.deep
@lasting_engines()
@pytest.mark.usefixtures("here")
def test_a_search_is_told_line_by_line_where_nobody_looks() -> None:
    words = ("tune", "transpose", "--sizes", "64", "--dtype", "f32", "--timing", "model", "--top", "2")
    result = run(*words)
    assert sorted(result.stderr.splitlines()) == [
        f"64 x 64 f32, ld 64 -> 64, rank {rank}: 2.01 us" for rank in (0, 1)
    ]
    assert run(*words).stderr == ""
