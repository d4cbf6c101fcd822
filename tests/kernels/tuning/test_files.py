"""Stores, locks and rates that somebody else has written: refused by name, each in a sentence, and never half
believed. What is changed here has a right digest, so that nothing but the check itself refuses it."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import LayoutAlgError, MismatchError, ParseError, ResourceError
from layoutalg.kernels.tuning import (
    RATES,
    Key,
    Lock,
    Rates,
    Record,
    Store,
    library_version,
    lock_of,
    lock_text,
    lockfile,
    rates,
    rates_text,
    read_lock,
    read_rates,
    record_fields,
    salvaged,
    store,
)
from tests.command import answer, refusal, run

KEY = Key("sum", "a" * 64, "c" * 64, "d" * 64, "model", "sm_90", "", "", "", library_version())
RECORD = Record(KEY, "64 x 64", "by rows", 0, (1500.0,), {"sectors": 5.0})
HEADER = '{"format": "layoutalg tuning store", "version": 2}\n'


def line_of(changed: Callable[[dict[str, Any]], object]) -> str:
    """A record's line after a change, with the digest that belongs to it."""
    named: dict[str, Any] = json.loads(json.dumps(record_fields(RECORD)))
    changed(named)
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
    return json.dumps({"record": named, "sha256": digest}) + "\n"


def setting(*path: str | int, to: Any) -> Callable[[dict[str, Any]], object]:
    def changed(named: Any) -> None:
        for name in path[:-1]:
            named = named[name]
        named[path[-1]] = to

    return changed


RECORDS: tuple[tuple[str, Callable[[dict[str, Any]], object]], ...] = (
    ("a time of 400 digits", setting("times_ns", 0, to=10**400)),
    ("a time past all numbers", setting("times_ns", 0, to=1e300)),
    ("a time that is none", setting("times_ns", 0, to=float("nan"))),
    ("a time of no length", setting("times_ns", 0, to=0)),
    ("a time before its start", setting("times_ns", 0, to=-5.0)),
    ("a time that is true", setting("times_ns", 0, to=True)),
    ("times that are one number", setting("times_ns", to=5.0)),
    ("a rank below the first", setting("rank", to=-1)),
    ("a rank of 400 digits", setting("rank", to=10**400)),
    ("a rank that is true", setting("rank", to=True)),
    ("a counter without end", setting("counters", "sectors", to=float("inf"))),
    ("a counter of 400 digits", setting("counters", "sectors", to=-(10**400))),
    ("a counter that is a text", setting("counters", "sectors", to="5")),
    ("another way of timing", setting("key", "timing", to="guessed")),
    ("a key with more", setting("key", "colour", to="red")),
    ("a key of a number", setting("key", "problem", to=5)),
    ("times and a failure", setting("failure", to="no")),
    ("neither times nor a failure", setting("times_ns", to=[])),
    ("no board", lambda named: named.pop("board")),
)


@pytest.mark.parametrize(("what", "changed"), RECORDS, ids=[what for what, _ in RECORDS])
def test_a_record_that_nobody_can_reckon_with_is_refused_by_its_line(
    what: str, changed: Callable[[dict[str, Any]], object], tmp_path: Path
) -> None:
    path = tmp_path / "times.jsonl"
    path.write_text(HEADER + line_of(lambda named: None) + line_of(changed))
    with pytest.raises(ParseError, match=r"times.jsonl is damaged: line 3 of it: a record has key"):
        Store(path).records()
    assert salvaged(path) == ([RECORD], [3])
    for words in (("show",), ("lock",), ("replay",), ("export",), ("fit",)):
        operands = (*words, str(path), *(("sum",) if words == ("fit",) else ()))
        assert refusal("tune", *operands)[0] == "ParseError"


HEADERS = (
    ("[" * 60000 + "\n", "is not a store of timings"),
    ('{"format": "layoutalg tuning store"}\n', "is not a store of timings"),
    (HEADER.replace("2", "1"), "is of version 1: version 2 is read"),
    (HEADER.replace("2", "3"), "is of version 3: version 2 is read"),
    (HEADER.replace("2", '"2"'), "is of version 2: version 2 is read"),
    (HEADER.replace("2", "true"), "is of version True"),
    (HEADER.replace("2", "[" * 900 + "]" * 900), "is of version"),
    (HEADER.replace("tuning store", "lock"), "is not a store of timings"),
    ("\x00" * 70000, "is not a store of timings"),
    (HEADER.encode("utf-16").decode("latin-1"), "is not a store of timings"),
    ("\n" + HEADER, "is not a store of timings"),
)


@pytest.mark.parametrize(("text", "said"), HEADERS, ids=range(len(HEADERS)))
def test_what_begins_otherwise_is_no_store(text: str, said: str, tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    path.write_bytes(text.encode("latin-1"))
    before = path.read_bytes()
    for read in (Store(path).records, lambda: Store(path).add(RECORD), lambda: salvaged(path)):
        with pytest.raises(ParseError, match=said):
            read()
    assert path.read_bytes() == before and refusal("tune", "show", str(path))[0] == "ParseError"


@pytest.mark.parametrize("cut", [1, 20, len(HEADER) - 1, len(HEADER) + 1, len(HEADER) + 200])
def test_a_store_that_is_half_written_is_gone_on_with(cut: int, tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    whole = HEADER + line_of(lambda named: None)
    path.write_text(whole[:cut])
    assert not Store(path).records()
    assert Store(path).add(RECORD) and [*Store(path).records().values()] == [RECORD]
    torn = path.with_name("times.jsonl.torn")
    assert torn.read_text() == whole[(0 if cut < len(HEADER) else len(HEADER)) : cut] + "\n"


def test_a_huge_store_is_refused_before_it_is_read(tmp_path: Path) -> None:
    """A sparse file of a gigabyte and a byte, which has no block on the disk."""
    path = tmp_path / "times.jsonl"
    path.write_text(HEADER)
    os.truncate(path, store.MOST_BYTES + 1)
    for read in (Store(path).records, lambda: Store(path).add(RECORD), lambda: salvaged(path)):
        with pytest.raises(
            ResourceError, match=f"{store.MOST_BYTES + 1} asked, the limit is {store.MOST_BYTES}"
        ):
            read()
    assert refusal("tune", "show", str(path))[0] == "ResourceError"
    assert refusal("tune", "merge", str(tmp_path / "new.jsonl"), str(path))[0] == "ResourceError"


def test_a_line_of_a_megabyte_is_damage(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    path.write_text(HEADER + '{"record": "' + "x" * 1_000_000 + '"}\n' + line_of(lambda named: None))
    with pytest.raises(ParseError, match="line 2 of it: it is not JSON"):
        Store(path).records()
    assert salvaged(path)[0] == [RECORD]


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_not_a_file_is_refused_at_once(what: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to keeps who opens it waiting."""
    path = tmp_path / "it"
    path.mkdir() if what == "folder" else os.mkfifo(path)
    for read in (
        Store(path).records,
        lambda: salvaged(path),
        lambda: read_lock(path),
        lambda: read_rates(path),
    ):
        with pytest.raises(OSError, match="not a regular file"):
            read()
    with pytest.raises(OSError, match=r"not a regular file|directory"):
        Store(path).add(RECORD)


def test_what_controls_a_terminal_is_not_shown_to_it(tmp_path: Path) -> None:
    path = tmp_path / "times.jsonl"
    path.write_text(HEADER + line_of(setting("problem", to="64\x1b[2J\x07 x 64")))
    told = run("tune", "show", str(path))
    assert told.exit_code == 0 and "\x1b" not in told.output and "\x07" not in told.output
    page = tmp_path / "page.html"
    assert run("tune", "show", str(path), "--html", str(page)).exit_code == 0


# --- locks ---------------------------------------------------------------------------------------------


def lock_data() -> dict[str, Any]:
    found: dict[str, Any] = json.loads(lock_text(lock_of([RECORD])))
    return found


def twice(named: dict[str, Any]) -> None:
    named["choices"].append(named["choices"][0] | {"config": "e" * 64})


LOCKS: tuple[tuple[Callable[[dict[str, Any]], object], str], ...] = (
    (setting("choices", 0, "ns", to=float("nan")), "is damaged"),
    (setting("choices", 0, "ns", to=10**400), "is damaged"),
    (setting("choices", 0, "ns", to=-1.0), "is damaged"),
    (setting("choices", 0, "ns", to=True), "is damaged"),
    (setting("choices", 0, "config", to="c" * 63 + "\n"), "is damaged"),
    (setting("choices", 0, "shown", to=["one"]), "is damaged"),
    (twice, r"is damaged: choice 2 is another one of sum '64 x 64': one of each problem is accepted"),
    (setting("version", to=2), "is of version 2: version 1 is read"),
    (setting("version", to=True), "is of version True: version 1 is read"),
    (lambda named: named.pop("version"), "is of version None: version 1 is read"),
    (setting("timing", to="verified"), "is not a lock file"),
    (setting("choices", to={}), "is not a lock file"),
)


@pytest.mark.parametrize(("changed", "said"), LOCKS, ids=range(len(LOCKS)))
def test_a_lock_that_is_not_whole_is_refused(
    changed: Callable[[dict[str, Any]], object], said: str, tmp_path: Path
) -> None:
    named, path = lock_data(), tmp_path / "layoutalg.lock"
    path.write_text(json.dumps(named))
    assert isinstance(read_lock(path), Lock)
    changed(named)
    path.write_text(json.dumps(named))
    with pytest.raises(ParseError, match=said):
        read_lock(path)


def test_every_half_of_a_lock_is_refused(tmp_path: Path) -> None:
    path, text = tmp_path / "layoutalg.lock", lock_text(lock_of([RECORD]))
    for end in range(0, len(text.rstrip()), 7):
        path.write_text(text[:end])
        with pytest.raises(ParseError, match="is not a lock file"):
            read_lock(path)


def test_what_a_merge_has_left_in_a_lock_is_refused(tmp_path: Path) -> None:
    path, text = tmp_path / "layoutalg.lock", lock_text(lock_of([RECORD]))
    first, second, *rest = text.splitlines()
    path.write_text("\n".join([first, "<<<<<<< ours", second, "=======", second, ">>>>>>> theirs", *rest]))
    with pytest.raises(ParseError, match="is not a lock file"):
        read_lock(path)


def test_huge_locks_and_rates_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "huge"
    path.touch()
    for limit, read in ((lockfile.MOST_BYTES, read_lock), (rates.MOST_BYTES, read_rates)):
        os.truncate(path, limit + 1)
        with pytest.raises(ResourceError, match=f"the limit is {limit}"):
            read(path)


def test_a_lock_of_nothing_is_not_written(tmp_path: Path) -> None:
    path, target = tmp_path / "times.jsonl", tmp_path / "layoutalg.lock"
    Store(path).add(RECORD)
    told = refusal("tune", "lock", str(path), "--gpu", "NVIDIA H100", "-o", str(target))
    assert told[0] == "UnsupportedError"
    assert "has no times of NVIDIA H100 to make a lock of, but those of sm_90" in told[1]
    assert not target.exists()


# --- rates ---------------------------------------------------------------------------------------------

WHOLE = Rates("sum", "model", "sm_90", library_version(), dict(RATES))

BAD_RATES: tuple[tuple[Callable[[dict[str, Any]], object], str], ...] = (
    (setting("rates_ns", "sectors", to=10**400), "is not a file of fitted rates"),
    (setting("rates_ns", "sectors", to=float("nan")), "is not a file of fitted rates"),
    (setting("rates_ns", "sectors", to=-1.0), "is not a file of fitted rates"),
    (setting("rates_ns", "colours", to=1.0), "is not a file of fitted rates"),
    (setting("median_error", to=float("inf")), "is not a file of fitted rates"),
    (setting("worst_error", to=10**400), "is not a file of fitted rates"),
    (setting("records", to=-1), "is not a file of fitted rates"),
    (setting("problems", to=True), "is not a file of fitted rates"),
    (setting("rates_ns", to=dict.fromkeys(RATES, 0)), "is not a file of fitted rates"),
    (setting("timing", to="verified"), "is not a file of fitted rates"),
    (setting("version", to=2), "are of version 2: version 1 is read"),
    (lambda named: named.pop("version"), "are of version None: version 1 is read"),
)


@pytest.mark.parametrize(("changed", "said"), BAD_RATES, ids=range(len(BAD_RATES)))
def test_rates_that_are_not_whole_are_refused(
    changed: Callable[[dict[str, Any]], object], said: str, tmp_path: Path
) -> None:
    named, path = json.loads(rates_text(WHOLE)), tmp_path / "rates.json"
    path.write_text(json.dumps(named))
    assert read_rates(path).rates_ns == RATES
    changed(named)
    path.write_text(json.dumps(named))
    with pytest.raises(ParseError, match=said):
        read_rates(path)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (Rates("sum", "gpu", "NVIDIA H200", library_version(), dict(RATES)), "this is NVIDIA H100"),
        (Rates("sum", "model", "sm_80", library_version(), dict(RATES)), "are of sm_80, this is sm_90"),
        (Rates("sum", "gpu", "NVIDIA H100", "9.9.9", dict(RATES)), "fitted with layoutalg 9.9.9"),
    ],
)
def test_rates_of_another_place_are_refused(given: Rates, said: str, tmp_path: Path) -> None:
    path = tmp_path / "rates.json"
    path.write_text(rates_text(given))
    with pytest.raises(MismatchError, match=said):
        read_rates(path).check("sm_90", "NVIDIA H100")


def test_random_bytes_of_a_store_are_named_or_left_out(tmp_path: Path) -> None:
    """A byte changed anywhere: refused with a sentence, torn, or another spelling of the same."""
    import random

    path, rng = tmp_path / "times.jsonl", random.Random(5)
    whole = (HEADER + line_of(lambda named: None) + line_of(setting("rank", to=1))).encode()
    for _ in range(300):
        data = bytearray(whole)
        data[rng.randrange(len(data))] = rng.randrange(256)
        path.write_bytes(data)
        try:
            found = Store(path).records()
        except LayoutAlgError as error:
            assert str(path) in str(error)
        else:
            assert all(record == RECORD for record in found.values())


MODEL = ("--timing", "model", "--top", "1")


@pytest.mark.deep
def test_problems_of_one_size_are_timed_each(tmp_path: Path) -> None:
    """Products that differ in an option alone are problems of their own, and their texts say which."""
    file, cube = tmp_path / "problems.json", {"m": 64, "n": 64, "k": 64}
    file.write_text(json.dumps([cube, cube, cube | {"bias": True}, cube | {"lda": 128, "ldd": 80}]))
    store = str(tmp_path / "times.jsonl")
    found = answer("tune", "gemm-sm80", "--problems", str(file), *MODEL, "--store", store)
    assert found["numbers"]["timed"] == 3
    assert [row["problem"].removeprefix("64 x 64 x 64 f16 TN") for row in found["rows"]] == [
        "", ", alpha A B + bias", ", lda 128, ldd 80",
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("family", "problem", "said"),
    [
        ("gemm-sm80", "{}", "{} is not a problem of gemm-sm80: m is missing"),
        ("transpose", "{}", "{} is not a problem of transpose: m and n are missing"),
        ("sum", '{"shape": [8, 64]}', "of sum: axes is missing"),
        ("sum", '{"shape": [8, null], "axes": [1]}', "a list such as [64,128] is needed"),
        ("sum", '{"shape": [8, 64], "axes": 1}', "axes = 1, and a list such as [1,0] is needed"),
        ("gemm-sm80", '{"m": 64, "activation": {}}', "activation = {}, and one value is needed"),
        ("gemm-sm80", '{"m": [64]}', "m = [64], and one value is needed"),
        ("gemm-sm80", '{"m": 64, "c": "no"}', "c = 'no': True or False is needed"),
    ],
)
def test_what_is_not_a_problem_is_refused(family: str, problem: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "problems.json"
    file.write_text(f"[{problem}]")
    _, text = refusal("tune", family, "--problems", str(file), *MODEL, "--store", str(tmp_path / "new"))
    assert said in text and not (tmp_path / "new").exists()


def test_a_verification_takes_no_times(tmp_path: Path) -> None:
    store = str(tmp_path / "new")
    _, text = refusal("tune", "relu", "--sizes", "64", "--timing", "verified", "--store", store)
    assert "unknown timing 'verified': accepted are gpu, model" in text
