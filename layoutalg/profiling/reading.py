"""From a file to launches: what is not a report, is damaged, too large or has no counters is refused by name.

The idea.  `ncu_report.load_report` answers for any file, mostly with nothing.  So the framing is checked
first (container), the library then reads the file in a child with a limit of time and memory (importer), and
what it found is compared with what the framing promised.
"""

from __future__ import annotations

import json
import shlex
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from layoutalg.errors import ParseError, UnknownNameError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.profiling.container import frame
from layoutalg.profiling.records import Launch, launch_of
from layoutalg.tools import run_tool

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
