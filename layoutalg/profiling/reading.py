"""From a file to launches: what is not a report, is damaged, too large or has no counters is refused by name.

The idea.  `ncu_report.load_report` answers for any file, mostly with nothing.  So the framing is checked
first (frame), the library then reads the file in a child with a limit of time and memory (importer), and
what it found is compared with what the framing promised.

The format of a report file: enough of it to recognise a file that is not a report, or that is cut off.

The idea.  ncu-report reads a file that is not a report, or whose end is missing, as a report of fewer
results or of none, without an error.  The format states the length of each part, so that this can be checked
beforehand:

    NVR\\0                          four bytes
    size, file header              a message whose field 1 is the version of the format
    size, block header, payload    again and again to the end; field 2 of the header is its number of results,
                                   field 5 the bytes of its payload

Sizes are 32-bit little-endian; messages are Protocol Buffers, of which only the outermost fields are read.

Source: Nsight Compute, Customization Guide, section Report File Format.

>>> frame(b"NVR\\0" + b"\\2\\0\\0\\0" + b"\\x08\\7" + b"\\4\\0\\0\\0" + b"\\x10\\1" + b"\\x28\\3" + b"abc")
Frame(version=7, blocks=1, results=1)
"""

from __future__ import annotations

import json
import shlex
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg.errors import ParseError, UnknownNameError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.profiling.records import Launch, launch_of
from layoutalg.tools import run_tool

MAGIC = b"NVR\0"

_VERSION, _RESULTS, _PAYLOAD = 1, 2, 5
_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5


class Frame(NamedTuple):
    """A report as its framing says: version of the format, blocks, results of launches in all of them."""

    version: int
    blocks: int
    results: int


def frame(raw: bytes, name: str = "the report") -> Frame:
    """The framing of a report; raises ParseError, with `name` and the byte, where a part is missing."""
    if not raw.startswith(MAGIC):
        begins = raw[:8].hex(" ") or "nothing"
        raise ParseError(f"{name} is not a report of Nsight Compute: it begins with {begins}, not with NVR")
    header, at = _message(raw, len(MAGIC), name)
    blocks = results = 0
    while at < len(raw):
        start = at
        fields, at = _message(raw, at, name)
        blocks, results = blocks + 1, results + fields.get(_RESULTS, 0)
        at += fields.get(_PAYLOAD, 0)
        if at > len(raw):
            raise ParseError(
                f"{name} is cut off: its part at byte {start} ends at byte {at}, the file at {len(raw)}",
                position=len(raw),
            )
    return Frame(header.get(_VERSION, 0), blocks, results)


def _message(raw: bytes, at: int, name: str) -> tuple[dict[int, int], int]:
    """The integers among the fields of a message with its size before it, and where it ends."""
    size = int.from_bytes(raw[at : at + 4], "little")
    first, end = at + 4, at + 4 + size
    if len(raw) < end:
        raise ParseError(
            f"{name} is cut off: a header at byte {at} ends at byte {end}, the file at {len(raw)}",
            position=len(raw),
        )
    try:
        return dict(_integers(memoryview(raw)[first:end])), end
    except (IndexError, ValueError):
        raise ParseError(f"{name} is damaged: the header at byte {at} does not decode", position=at) from None


def _integers(message: memoryview) -> Iterator[tuple[int, int]]:
    """(field, value) of the outermost integer fields; raises IndexError at a field that does not end."""
    at = 0
    while at < len(message):
        key, at = _varint(message, at)
        kind = key & 7
        if kind == _VARINT:
            value, at = _varint(message, at)
            yield key >> 3, value
            continue
        if kind == _BYTES:
            size, at = _varint(message, at)
        elif kind in (_FIXED64, _FIXED32):
            size = 8 if kind == _FIXED64 else 4
        else:
            raise ValueError(kind)
        at += size
        if at > len(message):
            raise IndexError(at)


def _varint(message: memoryview, at: int) -> tuple[int, int]:
    """A number in groups of seven bits, the lowest first, and the byte after it."""
    value = 0
    for shift in range(0, 70, 7):
        byte = message[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
    raise ValueError(value)


TIMEOUT_S = 120.0
"""Seconds that the library may take."""

RECORD = "ncu --section SourceCounters --section MemoryWorkloadAnalysis_Tables --import-source yes -o report"
"""The command that records all that is read here; a program, compiled with -lineinfo, follows it."""

INSTALL = "pip install 'layoutalg[profile]'"


@dataclass(frozen=True, slots=True)
class Report:
    """A report: `launches` are those requested, `names` the kernels of all launches in order."""

    file: str
    launches: tuple[Launch, ...]
    names: tuple[str, ...]


def read_report(path: str | Path, kernel: str | None = None) -> Report:
    """The launches in a report of Nsight Compute whose kernel's name a regular expression finds.

    Raises OSError for a file that cannot be opened; ParseError for one that is not a report, is cut off,
    damaged, or of a version that ncu-report does not read, and for an invalid expression; ResourceError
    past Most.REPORT and Most.PARTS; UnknownNameError where no kernel has such a name;
    UnsupportedError without the package ncu-report, and for a report that lacks the counters of
    instructions, with what records them.
    """
    path = Path(path)
    raw = Most.REPORT.read(path)
    promised = frame(raw, path.name)
    Most.LINE.guard(len(kernel or ""), "length of the kernel's expression")
    read = _imported(path, kernel)
    names = tuple(read["names"])
    if len(names) != promised.results:
        raise ParseError(
            f"{path.name} is damaged, or of a version that ncu-report does not read: its parts (version "
            f"{promised.version} of the format) hold {promised.results} launches, it read {len(names)}"
        )
    if not names:
        raise UnsupportedError(f"{path.name} has no launch of a kernel; record one by {RECORD} ./program")
    if not read["launches"]:
        raise UnknownNameError("kernel", kernel or "", sorted(set(names)))
    launches = tuple(launch_of(each) for each in read["launches"])
    _check_counters(path.name, launches)
    return Report(path.name, launches, names)


def _imported(path: Path, kernel: str | None) -> Any:
    """Return what the importer printed; raise its refusals as errors."""
    program = Path(__file__).with_name("importer.py")
    command = [sys.executable, "-P", str(program), str(path.absolute()), str(Most.PARTS.number)]
    try:
        ran = run_tool([*command, *([] if kernel is None else [kernel])], timeout_s=TIMEOUT_S)
    except TimeoutError as error:
        raise ParseError(f"{path.name}: ncu-report gave {error}") from None
    if ran.status:
        last = ran.err.decode(errors="replace").strip().rpartition("\n")[2][:300] or "nothing"
        raise ParseError(f"{path.name} is damaged: ncu-report ended with status {ran.status} and said {last}")
    read = json.loads(ran.out)
    kind = read.get("error")
    if kind == "missing":
        raise UnsupportedError(
            f"reading a report needs the package ncu-report: {INSTALL} ({read['message']})"
        )
    if kind == "regex":
        raise ParseError(f"{kernel!r} is not a regular expression: {read['message']}", text=kernel or "")
    if kind == "many":
        Most.PARTS.guard(int(read["message"]), f"launches in {path.name}", hint="name fewer of its kernels")
    if kind:
        raise ParseError(f"{path.name} is damaged: {read['message']}")
    return read


def _check_counters(name: str, launches: tuple[Launch, ...]) -> None:
    """Refuse what no launch has counters for; the first one's are named."""
    if all(launch.missing for launch in launches):
        lacks = ", ".join(launches[0].missing)
        kernel = shlex.quote(f"regex:^{launches[0].name}$")
        raise UnsupportedError(
            f"{name}: the launch of {launches[0].name} has no counters of instructions ({lacks}); record it "
            f"by {RECORD} --kernel-name {kernel} ./program"
        )
