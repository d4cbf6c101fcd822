"""Stores and locks that somebody else has written: refused by name, each in a sentence, and never half
believed. What is changed here has a right digest, so that nothing but the check itself refuses it."""

from __future__ import annotations

import hashlib
import json
import os
import random
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from layoutalg import __version__
from layoutalg.answers import fields_of
from layoutalg.errors import LayoutAlgError, ParseError, ResourceError
from layoutalg.kernels.model import read_machine
from layoutalg.kernels.tuning import Record, Store, lock_of, lock_text, salvaged
from layoutalg.kernels.tuning.lockfile import read_lock
from layoutalg.kernels.tuning.store import Key
from layoutalg.limits import Most
from tests.command import answer, refusal, run
from tests.sweeps import each

KEY = Key("sum", "a" * 64, "c" * 64, "d" * 64, "model", "sm_90", "", "", "", __version__)
RECORD = Record(KEY, "64 x 64", "by rows", 0, (1500.0,), {"sectors": 5.0})
HEADER = '{"format": "layoutalg tuning store", "version": 2}\n'


def line_of(named: Any) -> str:
    """A record's line, with the digest that belongs to it."""
    digest = hashlib.sha256(json.dumps(named, sort_keys=True).encode()).hexdigest()
    return json.dumps({"record": named, "sha256": digest}) + "\n"


FIELDS: Any = json.loads(json.dumps(fields_of(RECORD)))
LINE, LOCK = line_of(FIELDS), lock_of([RECORD])


WRONG: tuple[Any, ...] = (
    None,
    True,
    float("nan"),
    10**400,
    -1,
    [3],
    {},
    "other",
    "c" * 63 + "\n",
    ABSENT := object(),
)
"""What stands in the place of a value, of which only some can be believed."""


def leaves(named: Any, *path: Any) -> Iterator[tuple[Any, ...]]:
    """Where the values of a file are."""
    if not isinstance(named, (dict, list)):
        yield path
    for at in named if isinstance(named, dict) else range(len(named)) if isinstance(named, list) else ():
        yield from leaves(named[at], *path, at)


def changes(named: Any) -> Iterator[tuple[str, Any, Any]]:
    """A file with every value replaced by every other one, and without it."""
    for (*path, last), value in product(leaves(named), WRONG):
        changed = at = json.loads(json.dumps(named))
        for name in path:
            at = at[name]
        at[last] = value
        if value is ABSENT:
            del at[last]
        yield last if isinstance(last, str) else path[-1], value, changed


TEXTS = {"family", "gpu", "driver", "cuda_driver", "cuda", "library", "board", "shown"}
OF_RECORDS = {"problem", "config", "kernel"}


def believed(kind: str, name: str, value: Any) -> bool:
    """Texts that name something, and a count below 0 or absent."""
    if name in TEXTS | (OF_RECORDS if kind == "record" else set()):
        return isinstance(value, str)
    return kind == "record" and name == "sectors" and (value is ABSENT or value == -1)


@pytest.mark.parametrize(
    ("kind", "named", "text", "read"),
    [
        ("record", FIELDS, lambda named: HEADER + LINE + line_of(named), lambda path: Store(path).records()),
        ("lock", json.loads(lock_text(LOCK)), json.dumps, read_lock),
    ],
)
def test_what_nobody_can_reckon_with_is_refused(
    kind: str, named: Any, text: Callable[[Any], str], read: Any, path: Path
) -> None:
    """Every value of a file, whatever stands in its place."""
    path.write_text(text(named))
    assert read(path)
    for name, value, changed in changes(named):
        path.write_text(text(changed))
        if believed(kind, name, value):
            read(path)
            continue
        with pytest.raises(ParseError, match="line 3 of it: a record has key" if kind == "record" else kind):
            read(path)
        assert kind != "record" or salvaged(path) == ([RECORD], [3])


@each(
    ("words", "error"),
    [
        *((("tune", action, "damaged"), "ParseError") for action in ("show", "lock", "replay")),
        (("tune", "show", "huge"), "ResourceError"),
        (("tune", "merge", "new.jsonl", "huge"), "ResourceError"),
        (("tune", "relu", "--sizes", "64", "--timing", "verified"), "UnknownNameError"),
    ],
)  # fmt: skip
@pytest.mark.usefixtures("here")
def test_commands_refuse_what_is_damaged_or_huge(words: tuple[str, ...], error: str) -> None:
    Path("damaged").write_text(HEADER + LINE + line_of(FIELDS | {"rank": -1}))
    Path("huge").write_text(HEADER)
    os.truncate("huge", Most.BULK.number + 1)
    assert refusal(*words)[0] == error


NO_STORE = "is not a store of timings"
HEADERS = (
    ("[" * 60000 + "\n", NO_STORE), ('{"format": "layoutalg tuning store"}\n', NO_STORE),
    *((HEADER.replace("2", version), "is of version") for version in ("1", "3", '"2"', "true")),
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
    whole = HEADER + LINE
    path.write_text(whole[:cut])
    torn, reader = whole[(0 if cut < len(HEADER) else len(HEADER)) : cut], Store(path)
    assert not reader.records() and reader.torn_bytes == len(torn)
    assert reader.add(RECORD) and [*Store(path).records().values()] == [RECORD] and not Store(path).torn_bytes
    assert not torn or Path(f"{path}.torn").read_text() == torn + "\n"


@each(
    ("limit", "read"),
    [(Most.BULK.number, lambda path: Store(path).records()), (Most.BULK.number, salvaged),
     (Most.BULK.number, lambda path: Store(path).add(RECORD)), (Most.REPORT.number, read_lock),
     (Most.FILE.number, read_machine)],
)  # fmt: skip
def test_huge_files_are_refused_before_they_are_read(limit: int, read: Any, path: Path) -> None:
    """A sparse file of a byte more than the limit, which has no block on the disk."""
    path.write_text(HEADER)
    os.truncate(path, limit + 1)
    with pytest.raises(ResourceError, match=f"the limit is {limit}"):
        read(path)


def test_a_line_of_a_megabyte_is_damage(path: Path) -> None:
    path.write_text(HEADER + '{"record": "' + "x" * 1_000_000 + '"}\n' + LINE)
    with pytest.raises(ParseError, match="line 2 of it: it is longer than 65536 bytes"):
        Store(path).records()
    assert salvaged(path)[0] == [RECORD]


@pytest.mark.parametrize("what", ["folder", "pipe"])
def test_what_is_not_a_file_is_refused_at_once(what: str, tmp_path: Path) -> None:
    """A pipe that nobody writes to keeps who opens it waiting."""
    path = tmp_path / "it"
    path.mkdir() if what == "folder" else os.mkfifo(path)
    reads: tuple[Callable[[Path], object], ...] = (
        lambda p: Store(p).records(), salvaged, read_lock, read_machine,
    )  # fmt: skip
    for read, place in product(reads, (path, Path("/dev/null"))):
        with pytest.raises(OSError, match="not a regular file"):
            read(place)
    with pytest.raises(OSError, match=r"not a regular file|directory"):
        Store(path).add(RECORD)


def test_what_controls_a_terminal_is_not_shown_to_it(path: Path) -> None:
    path.write_text(HEADER + line_of(FIELDS | {"problem": "64\x1b[2J\x07 x 64"}))
    told = run("tune", "show", str(path))
    assert told.exit_code == 0 and "\x1b" not in told.output and "\x07" not in told.output


# --- locks ---------------------------------------------------------------------------------------------


def test_a_torn_lock_or_one_with_marks_of_a_merge_is_refused(path: Path) -> None:
    text = lock_text(LOCK)
    first, second, *rest = text.splitlines()
    merged = "\n".join([first, "<<<<<<< ours", second, "=======", second, ">>>>>>> theirs", *rest])
    twice = json.loads(text)
    twice["choices"].append(twice["choices"][0] | {"config": "e" * 64})
    for wrong in (merged, json.dumps(twice), *(text[:end] for end in range(0, len(text.rstrip()), 7))):
        path.write_text(wrong)
        with pytest.raises(ParseError, match=r"is not a lock file|choice 2 is another one"):
            read_lock(path)


def test_a_lock_of_nothing_is_not_written(path: Path, tmp_path: Path) -> None:
    target = tmp_path / "layoutalg.lock"
    Store(path).add(RECORD)
    told = refusal("tune", "lock", str(path), "--gpu", "NVIDIA H100", "-o", str(target))
    assert told[0] == "UnsupportedError" and "no times of NVIDIA H100" in told[1]
    assert not target.exists()


def test_random_bytes_of_a_store_are_named_or_left_out(path: Path) -> None:
    """A byte changed anywhere: refused with a sentence, torn, or another spelling of the same."""
    rng = random.Random(5)
    whole = (HEADER + LINE + line_of(FIELDS | {"rank": 1})).encode()
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
        ("gemm-sm80", "{}", "m is missing"), ("transpose", "{}", "m and n are missing"),
        ("sum", '{"shape": [8, 64]}', "axes is missing"),
        ("sum", '{"shape": [8, null], "axes": [1]}', "a list such as"),
        ("sum", '{"shape": [8, 64], "axes": 1}', "a list such as"),
        ("gemm-sm80", '{"m": 64, "activation": {}}', "one value is needed"),
        ("gemm-sm80", '{"m": [64]}', "one value is needed"),
        ("gemm-sm80", '{"m": 64, "c": "no"}', "True or False is needed"),
    ],
)  # fmt: skip
def test_what_is_not_a_problem_is_refused(family: str, problem: str, said: str, tmp_path: Path) -> None:
    file = tmp_path / "problems.json"
    file.write_text(f"[{problem}]")
    _, text = refusal("tune", family, "--problems", str(file), *MODEL, "--store", str(tmp_path / "new"))
    assert said in text and not (tmp_path / "new").exists()
