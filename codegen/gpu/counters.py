"""Counters of launches by Nsight Compute: any number of runs in one process of its own.

    count_launches([Run(compiled, {"src": x, "dst": y})], ("dram__bytes_read.sum",), timeout_s=60)

The idea.  Starting the profiler, Python, CuPy and a context takes seconds, counting a launch a tenth of one.
So what is compiled and its arguments are sent through a file, and one process launches all of it, between
calls that start and stop the profiler: nothing else is counted, and launches are known by their order.  A run
that fails ends that process, and those behind it go to a new one.

Sources: Nsight Compute, "Command Line Options" (--csv, --print-units base, --profile-from-start off).
"""

from __future__ import annotations

import csv
import os
import shutil
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

from layoutalg.codegen.costs import (
    BESIDE_BYTES,
    BYTES_READ,
    COUNTERS,
    ISSUED,
    is_counter,
    predicted_counters,
)
from layoutalg.codegen.gpu.launch import CompiledSequence, compile_sequence, load_sequence
from layoutalg.codegen.gpu.runtime import profiled, to_device
from layoutalg.codegen.gpu.sass import disassemble, parse_sass, shared_accesses
from layoutalg.codegen.program import LaunchSequence
from layoutalg.errors import LayoutAlgError, ProfilerError
from layoutalg.tools import run_tool, scratch

FORBIDDEN = "ERR_NVGPUCTRPERM"
"""The profiler's error where the driver reserves counters for administrators."""

COUNTING_S = 600.0
"""The seconds that the profiler may take for the runs of one call."""

MOST_SAID = 400
"""The most characters that are kept of the profiler's output."""

_CHILD = "import sys; from layoutalg.codegen.gpu.counters import launch_runs; launch_runs(sys.argv[1])"


_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True, slots=True)
class Run:
    """Compiled kernels and their arguments: NumPy arrays and numbers by name; what is predicted of their
    counters, and the bytes of machine code that count as read and may not be run."""

    compiled: CompiledSequence
    given: Mapping[str, Any]
    predicted: Mapping[str, int] = field(default_factory=dict)
    unrun: int = 0


@dataclass(frozen=True, slots=True)
class Compared:
    """Numbers by the names of COUNTERS: predicted, counted, and where wavefronts differ, those that
    instructions `issued` by their addresses; with the bytes of machine code that may not be run.

    >>> case = Compared({"wavefronts stored": 64}, {"wavefronts stored": 71}, {"wavefronts stored": 64})
    >>> case.replayed, case.apart, case.missing
    (('wavefronts stored',), (), ())
    """

    predicted: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)
    issued: Mapping[str, int] = field(default_factory=dict)
    unrun: int = 0

    @property
    def _differ(self) -> Iterator[str]:
        counted = self.counted
        return (x for x, n in self.predicted.items() if not is_counter(x, n, counted.get(x, n), self.unrun))

    @property
    def replayed(self) -> tuple[str, ...]:
        """The names of wavefronts that were issued as predicted, and some of them replayed."""
        return tuple(x for x in self._differ if self.issued.get(x) == self.predicted[x] < self.counted[x])

    @property
    def apart(self) -> tuple[str, ...]:
        """The names of counters that are not as predicted, nor that and replays."""
        return tuple(x for x in self._differ if x not in self.replayed)

    @property
    def unseen(self) -> bool:
        """True where wavefronts differ, and nothing is known of what was issued."""
        return bool(ISSUED.keys() & self.apart) and not any(self.issued.values())

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of predictions without a counter."""
        return tuple(x for x in self.predicted if x not in self.counted)


def predicted_run(
    sequence: LaunchSequence, given: Mapping[str, Any], arch: str, data_bytes: int | None = None
) -> Run:
    """A run with what is predicted of its counters: those of a cold launch too, where the bytes of its data
    that memory reads are given and it is one kernel.

    Raises as `compile_sequence`, `disassemble` and `traffic` do.
    """
    compiled = compile_sequence(sequence, arch)
    code = [parse_sass(disassemble(prepared.cubin.image))[0] for prepared in compiled.prepared]
    predicted = predicted_counters(sequence, _numbers(given), arch, map(shared_accesses, code))
    if data_bytes is not None and len(code) == 1:
        predicted[BYTES_READ] = data_bytes + code[0].nbytes + BESIDE_BYTES
    return Run(compiled, given, predicted, sum(one.nbytes for one in code))


def compare(runs: Sequence[Run]) -> list[Compared | str]:
    """Runs beside their counters, or why one failed.  Raises as `count_launches` does.

    Where wavefronts differ, the run is launched again for those that were issued.
    """
    metrics = {name: (metric,) for name, metric in COUNTERS.items()}
    found = [
        out
        if isinstance(out, str)
        else Compared(run.predicted, {x: n for x, n in out.items() if x in run.predicted}, unrun=run.unrun)
        for run, out in zip(runs, _sums(runs, metrics), strict=True)
    ]
    for _ in range(2):  # the instrumented launch of 1 in 15 counted nothing
        again = [n for n, x in enumerate(found) if isinstance(x, Compared) and x.unseen]
        for n, out in zip(again, _sums([runs[n] for n in again], ISSUED), strict=True):
            if isinstance(one := found[n], Compared):
                found[n] = out if isinstance(out, str) else replace(one, issued=out)
    return found


def _sums(runs: Sequence[Run], metrics: Mapping[str, tuple[str, ...]]) -> list[dict[str, int] | str]:
    """Sums of metrics over the launches of each run by name, where every launch has them."""
    words = tuple(chain.from_iterable(metrics.values()))
    return [
        launches
        if isinstance(launches, str)
        else {
            name: round(sum(one[metric] for one in launches for metric in own))
            for name, own in metrics.items()
            if all(metric in one for one in launches for metric in own)
        }
        for launches in count_launches(runs, words, timeout_s=COUNTING_S)
    ]


def _numbers(given: Mapping[str, Any]) -> dict[str, int]:
    return {name: x for name, x in given.items() if isinstance(x, int)}


def profiler() -> str:
    """Return the path of Nsight Compute.  Raises ProfilerError where it is not on PATH.

    >>> shutil.which("ncu") is None or profiler() == shutil.which("ncu")
    True
    """
    path = shutil.which("ncu")
    if path is None:
        raise ProfilerError(
            "hardware counters need Nsight Compute: ncu is not on PATH; it comes with the CUDA toolkit"
        )
    return path


def count_launches(
    runs: Sequence[Run], metrics: Sequence[str], *, timeout_s: float
) -> list[tuple[Mapping[str, float], ...] | str]:
    """Launch every run once under the profiler: the metrics of each of its kernels, or why it failed; those
    that this GPU does not have are left out.

    Raises ProfilerError without the profiler, where the driver forbids counters, and where the profiler
    cannot count a launch, in its words; TimeoutError.
    """
    found = list[tuple[Mapping[str, float], ...] | str]()
    if not runs:
        return found
    ncu = profiler()
    with scratch() as folder:
        path = folder / "runs"
        while len(found) < len(runs):
            with Connection(os.open(path, _WRITTEN, 0o600), readable=False) as file:
                file.send(runs[len(found) :])
            command = [
                ncu, "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "all",
                "--profile-from-start", "off", "--metrics", ",".join(metrics), sys.executable, "-c", _CHILD,
                str(path),
            ]  # fmt: skip
            ran = run_tool(command, timeout_s=timeout_s, any_memory=True)
            if FORBIDDEN in ran.said:
                raise ProfilerError(
                    f"the driver keeps counters for administrators: ncu says {FORBIDDEN}; "
                    "NVreg_RestrictProfilingToAdminUsers=0 of the kernel module lifts it"
                )
            done = path.with_suffix(".done")
            outcomes = done.read_text().splitlines() if done.exists() else []
            launches = launches_in(ran.out.decode(errors="replace"))
            for outcome in outcomes:
                if outcome:
                    found.append(outcome)
                    continue
                count = len(runs[len(found)].compiled.prepared)
                own, launches = launches[:count], launches[count:]
                if len(own) < count or not all(own):
                    raise ProfilerError(f"ncu cannot count a launch: {ran.said[-MOST_SAID:]}")
                found.append(tuple(own))
            if not outcomes:
                raise ProfilerError(
                    f"ncu ended with {ran.status} and counted nothing: {ran.said[-MOST_SAID:]}"
                )
            done.unlink()
    return found


def launch_runs(path: str) -> None:
    """Launch the runs of a file, each while the profiler looks, until one fails: the profiled process."""
    with Connection(os.open(path, os.O_RDONLY), writable=False) as file:
        runs: list[Run] = file.recv()
    with Path(path).with_suffix(".done").open("w") as done:
        for run in runs:
            numbers, said = _numbers(run.given), ""
            try:
                arrays = {name: to_device(x) for name, x in run.given.items() if name not in numbers}
                launch = load_sequence(run.compiled.ready(numbers)).on_arrays(arrays)
                with profiled():
                    launch()
            except (
                LayoutAlgError,
                RuntimeError,
                MemoryError,
            ) as error:  # CuPy's errors of CUDA are the second
                said = " ".join(f"{type(error).__name__}: {error}".split())
            print(said, file=done, flush=True)
            if said:
                break


def launches_in(text: str) -> list[dict[str, float]]:
    """The counters of each launch in the profiler's CSV, in order.

    >>> launches_in('==PROF==\\n"ID","Metric Name","Metric Value"\\n"0","dram__bytes_read.sum","1,024"\\n')
    [{'dram__bytes_read.sum': 1024.0}]
    """
    begin = text.find('"ID"')
    found: dict[str, dict[str, float]] = {}
    for line in csv.DictReader(text[begin:].splitlines()) if begin >= 0 else ():
        metric, value = line.get("Metric Name"), (line.get("Metric Value") or "").replace(",", "")
        if metric and (line.get("ID") or "").isdecimal():
            launch = found.setdefault(line["ID"], {})
            if value.replace(".", "", 1).isdecimal():  # not "n/a": this GPU does not have the metric
                launch[metric] = float(value)
    return list(found.values())
