"""Two stores of timings under writers that are killed at random moments: lines of JSON, and SQLite.

    python tests/bench/bench_stores.py                200 kills of each, and records per second
    python tests/bench/bench_stores.py --kills 1000

Four writers at once add the same records, each in an order of its own, and say of each, when `add` has
returned, that it is there; one after another is killed (SIGKILL) and another one started.  At the end every
record that was said to be there has to be there once, whole, and the store has to take more.  What is said
goes through a pipe that outlives the writer.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sqlite3
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from layoutalg.kernels.tuning import Record, Store
from layoutalg.kernels.tuning.store import Key

WRITERS, SAID_BYTES = 4, 8


def record(number: int) -> Record:
    """A record of a key of its own."""
    key = Key("sum", f"{number:064}", "c" * 64, "k" * 64, "model", "sm_90", "", "", "", "0")
    return Record(key, f"problem {number}", "by rows", 0, (1.0 + number,))


def add_to_lines(path: Path) -> Callable[[int], object]:
    """Add records, by number, to a store of lines."""
    store = Store(path)
    return lambda number: store.add(record(number))


def lines_there(path: Path) -> list[int]:
    """The numbers of all lines of a store, once for each line."""
    store = Store(path)
    store.add(record(10**9))  # what is torn is cut off first
    torn = path.read_bytes().count(b"\n") - 1 - len(store.records())
    return [int(r.key.problem) for r in Store(path).records().values()] + [-1] * torn


def add_to_sqlite(path: Path) -> Callable[[int], object]:
    """Add records, by number, to a table with an immediate transaction each."""
    table = sqlite3.connect(path, timeout=60, isolation_level=None)
    rows = "CREATE TABLE IF NOT EXISTS times (key TEXT PRIMARY KEY, ns REAL NOT NULL)"
    for text in ("PRAGMA journal_mode=DELETE", "PRAGMA synchronous=FULL", rows):
        table.execute(text)

    def add(number: int) -> None:
        table.execute("BEGIN IMMEDIATE")
        table.execute("INSERT OR IGNORE INTO times VALUES (?, ?)", (f"{number:064}", 1.0 + number))
        table.execute("COMMIT")

    return add


def sqlite_there(path: Path) -> list[int]:
    """The numbers of all rows."""
    table = sqlite3.connect(path, timeout=60)
    if table.execute("PRAGMA integrity_check").fetchone() != ("ok",):
        return [-1]
    add_to_sqlite(path)(10**9)
    return [int(key) for (key,) in table.execute("SELECT key FROM times")]


class Kind(NamedTuple):
    """A kind of store: how records are added, and which are there."""

    open: Callable[[Path], Callable[[int], object]]
    there: Callable[[Path], list[int]]


KINDS = {"lines": Kind(add_to_lines, lines_there), "sqlite": Kind(add_to_sqlite, sqlite_there)}


class Found(NamedTuple):
    """What a trial found: records that were said to be there, and of these lost or repeated ones."""

    kills: int
    said: int
    lost: int
    repeated: int
    seconds: float


def _write(kind: str, path: Path, said: int, seed: int) -> None:
    draw, add = random.Random(seed), KINDS[kind].open(path)
    first = 40 * (seed // WRITERS)
    while True:
        number = first + draw.randrange(80)
        add(number)
        os.write(said, f"{number:0{SAID_BYTES}}".encode())
        first += 1


def trial(kind: str, path: Path, kills: int, seed: int = 0, wait_s: float = 0.02) -> Found:
    """Kill writers at random moments; what the store then holds of what they said."""
    fork, draw, start = multiprocessing.get_context("fork"), random.Random(seed), time.perf_counter()
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    KINDS[kind].open(path)(0)
    text = bytearray()

    def drain() -> None:
        with suppress(BlockingIOError):
            while part := os.read(reading, 1 << 16):
                text.extend(part)

    def begin(number: int) -> multiprocessing.process.BaseProcess:
        writer = fork.Process(target=_write, args=(kind, path, writing, number), daemon=True)
        writer.start()
        return writer

    running = [begin(n) for n in range(WRITERS)]
    for n in range(kills):
        time.sleep(draw.uniform(0, 2 * wait_s))
        drain()
        place = draw.randrange(WRITERS)
        os.kill(running[place].pid or 0, signal.SIGKILL)
        running[place].join()
        running[place] = begin(WRITERS + n)
    for writer in running:
        writer.kill()
        writer.join()
    drain()
    os.close(reading)
    os.close(writing)
    said = {int(text[i : i + SAID_BYTES]) for i in range(0, len(text) // SAID_BYTES * SAID_BYTES, SAID_BYTES)}
    there = Counter(KINDS[kind].there(path))
    repeated = sum(count - 1 for count in there.values()) + there[-1]
    return Found(kills, len(said), len(said - there.keys()), repeated, time.perf_counter() - start)


def rate(kind: str, path: Path, count: int = 300) -> float:
    """Records per second of one writer."""
    add, start = KINDS[kind].open(path), time.perf_counter()
    for number in range(count):
        add(number)
    return count / (time.perf_counter() - start)


def main(words: list[str] | None = None) -> int:
    """Print a line for each kind of store; 1 where one has lost or repeated something."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--seed", type=int, default=0)
    asked = parser.parse_args(words)
    failed = 0
    for kind in KINDS:
        with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
            found = trial(kind, Path(folder, "trial"), asked.kills, asked.seed)
            alone = rate(kind, Path(folder, "alone"))
        failed |= bool(found.lost or found.repeated)
        print(
            f"{kind}: {found.kills} kills in {found.seconds:.1f} s, {found.said} records said to be there, "
            f"{found.lost} lost, {found.repeated} repeated; one writer adds {alone:.0f} a second",
            flush=True,
        )
    return failed


if __name__ == "__main__":
    sys.exit(main())
