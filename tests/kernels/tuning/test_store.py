"""The store of timings: idempotent keys, writers that are killed, full disks, and files that are no store."""

from __future__ import annotations

import json
import multiprocessing
import random
import resource
import stat
from collections.abc import Callable
from pathlib import Path

import pytest

from layoutalg.answers import fields_of
from layoutalg.errors import ParseError, ResourceError
from layoutalg.kernels.tuning import Record, Store, salvaged
from layoutalg.kernels.tuning import store as module
from layoutalg.kernels.tuning.store import Key, record_of
from layoutalg.limits import Most
from tests.bench.bench_stores import KINDS, trial
from tests.sweeps import each


def record(number: int, ns: float = 5.0, gpu: str = "sm_90", failure: str = "") -> Record:
    key = Key("sum", f"{number:064}", "c" * 64, "k" * 64, "model", gpu, "", "", "", "0.1.0")
    return Record(key, f"problem {number}", "by rows", number, () if failure else (ns,), {"a": 1.0}, failure)


def test_a_key_is_recorded_once_and_the_first_stays(path: Path) -> None:
    one, other = Store(path), Store(path)
    assert one.add(record(1)) and other.add(record(2)) and not other.add(record(1, 7.0))
    assert not one.add(record(2, 7.0)) and one.add(record(1, gpu="sm_80"))
    assert [r.ns for r in Store(path).records().values()] == [5.0, 5.0, 5.0]
    assert path.read_bytes().count(b"\n") == 4 and stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_record_is_what_was_written(path: Path) -> None:
    given = [record(1, 1 / 3), record(2, failure="no answer within 5 s\nand \x1b more")]
    assert Store(path).add_all([*given, *given]) == 2 and list(Store(path).records().values()) == given
    assert [record_of(fields_of(r)) for r in given] == given


@each(
    ("change", "said"),
    [
        (lambda data: data.replace(b"5.0", b"4.0"), "line 3 of it: its digest"),
        (lambda data: data[:-9] + b"\n", "line 3 of it: it is not JSON"),
        (lambda data: data + b"[" * 70000 + b"\n", "line 4 of it: it is longer than 65536 bytes"),
        (lambda data: data + b"{}\n", "line 4 of it: it has not the fields"),
    ],
)
def test_what_is_damaged_is_refused_by_its_line_and_stays_as_it_is(
    tmp_path: Path, change: Callable[[bytes], bytes], said: str
) -> None:
    """The other lines can be saved."""
    path = tmp_path / said[:6]
    path.unlink(missing_ok=True)
    Store(path).add_all([record(1, 6.0), record(2)])
    path.write_bytes(change(path.read_bytes()))
    before = path.read_bytes()
    for read in (Store(path).records, lambda: Store(path).add(record(3))):
        with pytest.raises(ParseError, match=said):
            read()
    (saved, (line, *_)), both = salvaged(path), [record(1, 6.0), record(2)]
    assert path.read_bytes() == before and said.startswith(f"line {line} ") and saved == both[: line - 2]


def test_what_is_saved_and_what_is_named_are_all_lines(path: Path) -> None:
    """Each line once, however long it is, and whatever stands in the part of it that is too long."""
    most = module.LINE_BYTES
    for seed in range(30):
        path.unlink(missing_ok=True)
        rng, given = random.Random(seed), [record(n) for n in range(6)]
        Store(path).add_all(given)
        header, *lines = path.read_bytes().splitlines(keepends=True)
        broken = rng.sample(range(6), rng.randint(0, 3))
        for n in broken:
            padded = lines[n][:-1] + b" " * rng.randint(most, 3 * most)
            lines[n] = rng.choice((b"nonsense", b"x" * rng.randint(most, 3 * most), padded)) + b"\n"
            lines[n] = rng.choice((b"", b" " * most)) + lines[n]
        path.write_bytes(header + b"".join(lines))
        left = [r for n, r in enumerate(given) if n not in broken]
        assert salvaged(path) == (left, [n + 2 for n in sorted(broken)])
        if broken:
            with pytest.raises(ParseError, match=rf"line {min(broken) + 2} of it"):
                Store(path).records()


def test_what_is_too_large_is_refused(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ResourceError, match="bytes of a record"):
        Store(path).add(record(1, failure="x" * module.LINE_BYTES))
    Store(path).add(record(1))
    monkeypatch.setattr(Most.BULK, "number", path.stat().st_size + 10)
    with pytest.raises(ResourceError, match="bytes of the store"):
        Store(path).add(record(2))


def _fill(path: Path) -> None:
    """Add records under a limit of the size of files until one does not fit; then one that does."""
    store = Store(path)
    resource.setrlimit(resource.RLIMIT_FSIZE, (8000, 8000))
    number, before = 0, 0
    try:
        while True:
            number += 1
            store.add(record(number))
            before = path.stat().st_size
    except OSError:
        print(number, flush=True)
    if path.stat().st_size != before or len(Store(path).records()) != number - 1:
        raise SystemExit(3)


def test_a_full_disk_leaves_the_store_as_it_was(path: Path) -> None:
    child = multiprocessing.get_context("fork").Process(target=_fill, args=(path,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    held = Store(path)
    assert 5 < len(held.records()) < 30 and held.torn_bytes == 0
    assert json.loads(path.read_bytes().splitlines()[-1])["record"]["rank"] == len(held.records())
    assert held.add(record(99))


@pytest.mark.deep
@each(("kind", "kills", "seed"), [*((kind, 20, 0) for kind in KINDS), ("lines", 200, 1)])
def test_killed_writers_lose_and_repeat_nothing(kind: str, kills: int, seed: int, tmp_path: Path) -> None:
    found = trial(kind, tmp_path / f"{kind} {kills}", kills, seed=seed)
    assert found.said > kills and (found.lost, found.repeated) == (0, 0)
