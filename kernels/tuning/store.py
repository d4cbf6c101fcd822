"""The store of timings: lines of JSON that are appended and never changed, one for each key.

    store = Store(Path("times.jsonl"))
    store.add(record)            True: it is on the disk; False: the store had its key
    store.records()              all of them, by the digest of their keys

The idea.  A file that only grows is sound under any number of writers if three things hold, each a call of
the system: writers take turns (`flock`), a record is on the disk before it counts (`fsync`), and the rest of
a line that a killed writer or a full disk left is cut off before the next line is written.

    {"format": "layoutalg tuning store", "version": 2}
    {"record": {...}, "sha256": "64 hex digits of the record"}

A last line without its end is what a killed writer leaves: readers skip it and name it (`torn_bytes`), the
next writer moves it to STORE.torn and cuts it off.  Any other line whose digest is not that of its record was
changed by something else, and the file is refused by the number of that line.  A key is looked up while the
file is locked: a record that is added twice is in the file once, even from two writers.

The reasons against SQLite: under killed writers both lose nothing and repeat nothing, as
tests/bench/bench_stores.py shows, but a line is added ten times as fast, SQLite needs a file system of this
host where flock works over NFS too, and lines can be read, compared and merged by every other tool.

Sources: flock(2), fsync(2); sqlite.org, "How To Corrupt An SQLite Database".

Keys.  A record is a timing, by a key:

    Key       family, problem, configuration, kernel, timing, GPU, driver, CUDA of the driver and of the
              runtime, and library
    Record    a key with times and counters, or with the text of its failure

A problem and a configuration are known by the digest of their data (`identity`), a kernel by that of the text
of all kernels of a call's launches: two records with the same key describe the same machine code on the same
kind of GPU.  `driver` is the version of the display driver, such as 580.95.05, empty without NVML;
`cuda_driver` is the latest CUDA that it runs, `cuda` that of the runtime.  `timing` says what took the times:
"gpu", or "model" for numbers that were never measured; neither replaces the other.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import json
import os
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Annotated, Any

from layoutalg.answers import Bound, Count, Rate, fields_of
from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.program import LaunchSequence
from layoutalg.errors import MismatchError, ParseError, ResourceError
from layoutalg.kernels.files import Format, opened, read_as
from layoutalg.limits import Most

VERIFIED = "verified"
"""The timing of a record that has passed or failed a verification: its time is that of the verification."""

TIMINGS = ("gpu", "model")
"""The kinds of timing."""

MOST_RANK = 1 << 31
"""The largest rank in an order."""

MOST_TEXT = 2000
"""The most characters that are kept of a failure."""


@dataclass(frozen=True, slots=True)
class Key:
    """The key of a timing: digests of the problem, the configuration and the kernels' text, and the place.

    >>> Key("sum", "p" * 64, "c" * 64, "k" * 64, "model", "sm_90", "", "", "", "0.1.0").digest[:8]
    '77f95ff9'
    """

    family: str
    problem: str
    config: str
    kernel: str
    timing: str
    gpu: str
    driver: str
    cuda_driver: str
    cuda: str
    library: str

    @property
    def digest(self) -> str:
        """64 hex digits of all of it."""
        return sorted_digest(asdict(self))

    @property
    def place(self) -> tuple[str, str, str, str, str, str]:
        """The place and the means of the timing: results of different places never mix."""
        return self.timing, self.gpu, self.driver, self.cuda_driver, self.cuda, self.library


@dataclass(frozen=True, slots=True)
class Record:
    """A timing: `times_ns` of one launch each, none where it failed, and then `failure` says how.

    `problem` and `config` are for people, `rank` is the place among the family's candidates, the first is 0;
    `counters` are predictions or readings of the launches by name, `board` is the GPU's UUID, if known.

    >>> key = Key("sum", "p" * 64, "c" * 64, "k" * 64, "model", "sm_90", "", "", "", "0.1.0")
    >>> one = Record(key, "64 x 64", "by rows", 0, (1500.0, 1400.0, 1600.0))
    >>> from layoutalg.answers import fields_of
    >>> one.ns, record_of(fields_of(one)) == one
    (1500.0, True)
    """

    key: Key
    problem: str
    config: str
    rank: Annotated[Count, Bound("maximum", MOST_RANK)]
    times_ns: tuple[Rate, ...] = ()
    counters: Mapping[str, float] = field(default_factory=lambda: MappingProxyType({}))
    failure: str = ""
    board: str = ""

    @property
    def ns(self) -> float:
        """The median of its times, infinity where it failed."""
        own = sorted(self.times_ns)
        return own[len(own) // 2] if own else float("inf")


def record_of(named: object) -> Record:
    """The record that JSON holds.  Raises ParseError for fields of other names or kinds.

    >>> record_of({"key": 3})
    Traceback (most recent call last):
    ...
    layoutalg.errors.ParseError: a record has key, problem, config, rank, times_ns, counters, failure, board
    """
    with contextlib.suppress(ValueError):
        record: Record = read_as(Record, named)
        if record.key.timing in (*TIMINGS, VERIFIED) and bool(record.times_ns) != bool(record.failure):
            return record
    raise ParseError("a record has key, problem, config, rank, times_ns, counters, failure, board")


def by_problem(records: Iterable[Record]) -> dict[tuple[str, ...], list[Record]]:
    """Records of each problem in each place, those that have times, in the order of the family's candidates;
    verifications have none.

    >>> by_problem([])
    {}
    """
    groups: dict[tuple[str, ...], list[Record]] = defaultdict(list)
    for record in records:
        if not record.failure and record.key.timing != VERIFIED:
            groups[record.key.family, record.key.problem, *record.key.place].append(record)
    return {name: sorted(own, key=lambda r: r.rank) for name, own in groups.items()}


def sorted_digest(value: Any) -> str:
    """64 hex digits of a value as JSON, whatever the order of its fields.

    >>> sorted_digest({"a": 1, "b": 2}) == sorted_digest({"b": 2, "a": 1})
    True
    """
    return hashlib.sha256(json.dumps(value, sort_keys=True).encode()).hexdigest()


def kernel_digest(sequence: LaunchSequence, arch: str) -> str:
    """64 hex digits of the text of all kernels of a sequence, in order.  Raises what `to_cuda` raises.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> from layoutalg.codegen.program import launch_sequence
    >>> one = launch_sequence([KernelBuilder("empty", threads=32).build()])
    >>> kernel_digest(one, "sm_90") == kernel_digest(one, "sm_80"), len(kernel_digest(one, "sm_90"))
    (True, 64)
    """
    return text_digest([to_cuda(kernel, find_arch(arch).name) for kernel in sequence.kernels])


def text_digest(texts: list[str]) -> str:
    """64 hex digits of texts in order.

    >>> text_digest(["a", "b"]) == text_digest(["ab"])
    False
    """
    return hashlib.sha256(json.dumps(texts).encode()).hexdigest()


NO_STORE = "a store of timings: its first line is not that of one"
FORMAT = Format("layoutalg tuning store", 2, "the store", NO_STORE, Most.BULK)

LINE_BYTES = 1 << 16
"""The most bytes of a line of a store, which is a record."""

_HEADER = json.dumps(FORMAT.head).encode() + b"\n"


class Store:
    """A store of timings in a file, which is made, for its owner alone, when a record is added.

    Raises ParseError for a file that is not a store, of another version, or changed, by the number of the
    line; ResourceError for one past Most.BULK; OSError where it cannot be read or written.

    >>> import tempfile
    >>> from layoutalg.kernels.tuning.store import Key
    >>> key = Key("sum", "p" * 64, "c" * 64, "k" * 64, "model", "sm_90", "", "", "", "0.1.0")
    >>> one = Record(key, "64 x 64", "by rows", 0, (1500.0,))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     store = Store(Path(folder, "times.jsonl"))
    ...     store.add(one), store.add(one), len(store.records())
    (True, False, 1)
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.torn_bytes = 0
        self._records: dict[str, Record] = {}
        self._read_bytes = 0
        self._lines = 0
        self._inode = 0

    def records(self) -> Mapping[str, Record]:
        """All records by the digest of their keys, in the order in which they were added."""
        with contextlib.suppress(FileNotFoundError), opened(self.path) as descriptor:
            self._catch_up(descriptor)
        return dict(self._records)

    def add(self, record: Record) -> bool:
        """Write a record unless its key is there; whether it was written.

        Raises OSError where it cannot be, as on a full disk: the store is then unchanged.
        """
        return self.add_all([record]) == 1

    def add_all(self, records: Iterable[Record]) -> int:
        """Write those records whose keys are not there; how many they are.  All or none of them, unless the
        writer is killed: then the first ones, each whole."""
        given = list(records)
        with opened(self.path, os.O_RDWR | os.O_CREAT) as descriptor:
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            self._catch_up(descriptor)
            if self.torn_bytes:
                self._cut_off(descriptor)
            new = {r.key.digest: r for r in given}
            lines = [_line(r) for digest, r in new.items() if digest not in self._records]
            if lines:
                self._append(descriptor, b"".join(lines))
                self._catch_up(descriptor)
            return len(lines)

    def _append(self, descriptor: int, data: bytes) -> None:
        start = self._read_bytes
        data = (b"" if start else _HEADER) + data
        Most.BULK.guard(start + len(data), f"bytes of the store {self.path}")
        try:
            done = 0
            while done < len(data):
                done += os.pwrite(descriptor, data[done:], start + done)
            os.fsync(descriptor)
        except OSError as error:
            os.ftruncate(descriptor, start)
            raise OSError(error.errno, error.strerror, str(self.path)) from error

    def _cut_off(self, descriptor: int) -> None:
        """Move the rest of a line to STORE.torn: twice where this writer is killed in between."""
        torn = os.pread(descriptor, self.torn_bytes, self._read_bytes)
        flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
        with opened(f"{self.path}.torn", flags) as beside, contextlib.suppress(OSError):
            os.write(beside, torn + b"\n")  # on a full disk the piece is worth nothing
        os.ftruncate(descriptor, self._read_bytes)
        self.torn_bytes = 0

    def _catch_up(self, descriptor: int) -> None:
        """Read the lines that were added since this was called last."""
        status = _guarded(self.path, descriptor)
        if self._inode != status.st_ino or status.st_size < self._read_bytes:
            self._records, self._read_bytes, self._lines, self._inode = {}, 0, 0, status.st_ino
        rest = b""
        for line in _lines_from(descriptor, self._read_bytes):
            if not line.endswith(b"\n") and len(line) < LINE_BYTES:
                rest = line
                break
            self._take(line)
            self._read_bytes += len(line)
            self._lines += 1
        if rest and not self._lines and not _HEADER.startswith(rest):
            FORMAT.checked(rest, self.path)
        self.torn_bytes = len(rest)

    def _take(self, line: bytes) -> None:
        if self._lines == 0:
            FORMAT.checked(line, self.path)
            return
        try:
            record = _record_of_line(line)
        except (ParseError, MismatchError) as error:
            raise ParseError(
                f"the store {self.path} is damaged: line {self._lines + 1} of it: {error}; "
                f"`layoutalg tune merge NEW {self.path}` keeps all other lines",
                position=self._read_bytes,
            ) from error
        self._records.setdefault(record.key.digest, record)


def salvaged(path: Path) -> tuple[list[Record], list[int]]:
    """All records of a damaged store that are whole, and the numbers of the lines that are not.

    Raises ParseError for what is not a store, or one of another version; ResourceError for one past
    Most.BULK; OSError where it cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     place = Path(folder, "times.jsonl")
    ...     size = place.write_bytes(_HEADER + b"nonsense\\n")
    ...     salvaged(place)
    ([], [2])
    """
    records: dict[str, Record] = {}
    broken: list[int] = []
    with opened(path) as descriptor:
        _guarded(path, descriptor)
        for number, line in enumerate(_lines_from(descriptor, 0), 1):
            if number == 1:
                FORMAT.checked(line, path)
                continue
            try:
                record = _record_of_line(line)
            except (ParseError, MismatchError):
                broken.append(number)
            else:
                records.setdefault(record.key.digest, record)
    return list(records.values()), broken


def _guarded(path: Path, descriptor: int) -> os.stat_result:
    """The status of a store's file.  Raises ResourceError past Most.BULK."""
    status = os.fstat(descriptor)
    Most.BULK.guard(status.st_size, f"bytes of the store {path}")
    return status


def _lines_from(descriptor: int, start: int) -> Iterator[bytes]:
    """Lines with their ends from a place on, the last one as far as it goes; of one that is too long the
    first LINE_BYTES, which no reader takes."""
    with os.fdopen(os.dup(descriptor), "rb") as file:
        file.seek(start)
        while line := file.readline(LINE_BYTES):
            yield line
            while line and not line.endswith(b"\n"):
                line = file.readline(LINE_BYTES)


def _line(record: Record) -> bytes:
    """A record's line.  Raises ParseError for one that no reader would take."""
    named = fields_of(record)
    record_of(named)
    line = json.dumps({"record": named, "sha256": sorted_digest(named)}, sort_keys=True).encode()
    if len(line) >= LINE_BYTES:
        raise ResourceError("bytes of a record", len(line), LINE_BYTES)
    return line + b"\n"


def _record_of_line(line: bytes) -> Record:
    if len(line) == LINE_BYTES and not line.endswith(b"\n"):
        raise ParseError(f"it is longer than {LINE_BYTES} bytes")
    try:
        named: Any = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise ParseError("it is not JSON") from error
    if not isinstance(named, dict) or named.keys() != {"record", "sha256"}:
        raise ParseError("it has not the fields record and sha256")
    if named["sha256"] != sorted_digest(named["record"]):
        raise MismatchError("its digest is not that of its record")
    return record_of(named["record"])
