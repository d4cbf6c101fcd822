"""Stores, locks and rates that somebody else has written: refused by name, each in a sentence, and never half
believed. What is changed here has a right digest, so that nothing but the check itself refuses it."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from layoutalg.errors import LayoutAlgError, ParseError, ResourceError
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
from tests.sweeps import each

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


HUGE = 10**400
RECORDS: dict[str, Callable[[dict[str, Any]], object]] = {
    **{f"a time of {str(ns)[:9]}": setting("times_ns", 0, to=ns)
       for ns in (HUGE, 1e300, float("nan"), 0, -5.0, True)},
    "times of one number": setting("times_ns", to=5.0), "no times": setting("times_ns", to=[]),
    **{f"a rank of {str(n)[:9]}": setting("rank", to=n) for n in (-1, HUGE, True, "first")},
    **{f"a counter of {str(n)[:9]}": setting("counters", "sectors", to=n)
       for n in (float("inf"), -HUGE, "5")},
    "another way of timing": setting("key", "timing", to="guessed"),
    "a key with more": setting("key", "colour", to="red"), "no key": setting("key", to={}),
    "a key of a number": setting("key", "problem", to=5), "times and a failure": setting("failure", to="no"),
    "no board": lambda named: named.pop("board"),
}  # fmt: skip


@pytest.mark.parametrize("what", RECORDS)
def test_a_record_that_nobody_can_reckon_with_is_refused_by_its_line(what: str, path: Path) -> None:
    path.write_text(HEADER + line_of(lambda named: None) + line_of(RECORDS[what]))
    with pytest.raises(ParseError, match=r"times.jsonl is damaged: line 3 of it: a record has key"):
        Store(path).records()
    assert salvaged(path) == ([RECORD], [3])
    for words in (("show",), ("lock",), ("replay",), ("export",), ("fit",)):
        operands = (*words, str(path), *(("sum",) if words == ("fit",) else ()))
        assert refusal("tune", *operands)[0] == "ParseError"


NO_STORE = "is not a store of timings"
HEADERS = (
    ("[" * 60000 + "\n", NO_STORE), ('{"format": "layoutalg tuning store"}\n', NO_STORE),
    (HEADER.replace("2", "1"), "is of version 1: version 2 is read"),
    (HEADER.replace("2", "3"), "is of version 3: version 2 is read"),
    (HEADER.replace("2", '"2"'), "is of version 2: version 2 is read"),
    (HEADER.replace("2", "true"), "is of version True"),
    (HEADER.replace("2", "[" * 900 + "]" * 900), "is of version"),
    (HEADER.replace("tuning store", "lock"), NO_STORE), ("\x00" * 70000, NO_STORE),
    (HEADER.encode("utf-16").decode("latin-1"), NO_STORE), ("\n" + HEADER, NO_STORE),
    ("some text of a user's", NO_STORE), ("some text\n" + HEADER, NO_STORE),
)  # fmt: skip


@each(("text", "said"), HEADERS)
def test_what_begins_otherwise_is_no_store(text: str, said: str, path: Path) -> None:
    path.write_bytes(text.encode("latin-1"))
    before = path.read_bytes()
    for read in (Store(path).records, lambda: Store(path).add(RECORD), lambda: salvaged(path)):
        with pytest.raises(ParseError, match=said):
            read()
    assert path.read_bytes() == before and refusal("tune", "show", str(path))[0] == "ParseError"


@pytest.mark.parametrize("cut", [0, 1, 20, *(len(HEADER) + n for n in (-1, 1, 2, 60, 200, 500))])
def test_a_store_that_is_half_written_is_gone_on_with(cut: int, path: Path) -> None:
    """What is left of a line is named, cut off and kept beside."""
    whole = HEADER + line_of(lambda named: None)
    path.write_text(whole[:cut])
    torn, reader = whole[(0 if cut < len(HEADER) else len(HEADER)) : cut], Store(path)
    assert not reader.records() and reader.torn_bytes == len(torn)
    assert reader.add(RECORD) and [*Store(path).records().values()] == [RECORD] and not Store(path).torn_bytes
    assert not torn or Path(f"{path}.torn").read_text() == torn + "\n"


def test_a_huge_store_is_refused_before_it_is_read(path: Path, tmp_path: Path) -> None:
    """A sparse file of a gigabyte and a byte, which has no block on the disk."""
    path.write_text(HEADER)
    os.truncate(path, store.MOST_BYTES + 1)
    for read in (Store(path).records, lambda: Store(path).add(RECORD), lambda: salvaged(path)):
        with pytest.raises(ResourceError, match=f"the limit is {store.MOST_BYTES}"):
            read()
    assert refusal("tune", "show", str(path))[0] == "ResourceError"
    assert refusal("tune", "merge", str(tmp_path / "new.jsonl"), str(path))[0] == "ResourceError"


def test_a_line_of_a_megabyte_is_damage(path: Path) -> None:
    path.write_text(HEADER + '{"record": "' + "x" * 1_000_000 + '"}\n' + line_of(lambda named: None))
    with pytest.raises(ParseError, match="line 2 of it: it is not JSON"):
        Store(path).records()
    assert salvaged(path)[0] == [RECORD]


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_not_a_file_is_refused_at_once(what: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to keeps who opens it waiting."""
    path = tmp_path / "it"
    path.mkdir() if what == "folder" else os.mkfifo(path)
    reads: tuple[Callable[[Path], object], ...] = (
        lambda p: Store(p).records(), salvaged, read_lock, read_rates,
    )  # fmt: skip
    for read, place in product(reads, (path, Path("/dev/null"))):
        with pytest.raises(OSError, match="not a regular file"):
            read(place)
    with pytest.raises(OSError, match=r"not a regular file|directory"):
        Store(path).add(RECORD)


def test_what_controls_a_terminal_is_not_shown_to_it(path: Path, tmp_path: Path) -> None:
    path.write_text(HEADER + line_of(setting("problem", to="64\x1b[2J\x07 x 64")))
    told = run("tune", "show", str(path))
    assert told.exit_code == 0 and "\x1b" not in told.output and "\x07" not in told.output
    page = tmp_path / "page.html"
    assert run("tune", "show", str(path), "--html", str(page)).exit_code == 0


# --- locks ---------------------------------------------------------------------------------------------


def twice(named: dict[str, Any]) -> None:
    named["choices"].append(named["choices"][0] | {"config": "e" * 64})


LOCK, WHOLE = lock_of([RECORD]), Rates("sum", "model", "sm_90", library_version(), dict(RATES))
NO_RATES = "is not a file of fitted rates"
Changes = tuple[tuple[Callable[[dict[str, Any]], object], str], ...]
LOCKS: Changes = (
    *((setting("choices", 0, "ns", to=ns), "is damaged") for ns in (float("nan"), HUGE, -1.0, True)),
    (setting("choices", 0, "config", to="c" * 63 + "\n"), "is damaged"),
    (setting("choices", 0, "kernel", to="x" + "d" * 64), "is damaged"),
    (setting("choices", 0, "shown", to=["one"]), "is damaged"),
    (setting("choices", to=[3]), "is damaged: '3' is not a choice"),
    (twice, "choice 2 is another one of sum '64 x 64'"),
    (setting("format", to="other"), "is not a lock file"),
    (setting("version", to=2), "is of version 2: version 1 is read"),
    (setting("version", to=True), "is of version True: version 1 is read"),
    (lambda named: named.pop("version"), "is of version None: version 1 is read"),
    (setting("timing", to="verified"), "is not a lock file"),
    (setting("choices", to={}), "is not a lock file"),
)  # fmt: skip
BAD_RATES: Changes = (
    *((setting("rates_ns", "sectors", to=ns), NO_RATES) for ns in (HUGE, float("nan"), -1.0)),
    (setting("rates_ns", "colours", to=1.0), NO_RATES), (setting("rates_ns", to={"sectors": 1.0}), NO_RATES),
    (setting("rates_ns", to=dict.fromkeys(RATES, 0)), NO_RATES),
    (setting("median_error", to=float("inf")), NO_RATES), (setting("median_error", to="small"), NO_RATES),
    (setting("worst_error", to=HUGE), NO_RATES), (setting("records", to=-1), NO_RATES),
    (setting("problems", to=True), NO_RATES), (setting("timing", to="verified"), NO_RATES),
    (setting("gpu", to=3), NO_RATES), (setting("format", to="rates"), NO_RATES),
    (setting("version", to=2), "are of version 2: version 1 is read"),
    (lambda named: named.pop("version"), "are of version None: version 1 is read"),
)  # fmt: skip


@each(
    ("text", "read", "changed", "said"),
    [*((lock_text(LOCK), read_lock, *one) for one in LOCKS),
     *((rates_text(WHOLE), read_rates, *one) for one in BAD_RATES)],
)  # fmt: skip
def test_what_is_not_whole_is_refused(text: str, read: Any, changed: Any, said: str, tmp_path: Path) -> None:
    path, named = tmp_path / "it", json.loads(text)
    path.write_text(json.dumps(named))
    whole: Lock | Rates = read(path)
    assert whole.choices == LOCK.choices if isinstance(whole, Lock) else whole.rates_ns == RATES
    changed(named)
    path.write_text(json.dumps(named))
    with pytest.raises(ParseError, match=said):
        read(path)


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


def test_a_lock_of_nothing_is_not_written(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "layoutalg.lock"
    Store(path).add(RECORD)
    told = refusal("tune", "lock", str(path), "--gpu", "NVIDIA H100", "-o", str(target))
    assert told[0] == "UnsupportedError"
    assert "has no times of NVIDIA H100 to make a lock of, but those of sm_90" in told[1]
    assert not target.exists()


def test_random_bytes_of_a_store_are_named_or_left_out(path: Path) -> None:
    """A byte changed anywhere: refused with a sentence, torn, or another spelling of the same."""
    rng = random.Random(5)
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


@each(
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
