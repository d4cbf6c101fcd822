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
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias

from layoutalg.codegen.gpu.launch import CompiledSequence, load_sequence
from layoutalg.codegen.gpu.preparation import Prepared
from layoutalg.codegen.gpu.runtime import profiled, to_device
from layoutalg.codegen.gpu.sass import branched_loads, disassemble, parse_sass
from layoutalg.errors import LayoutAlgError, ProfilerError, UnsupportedError
from layoutalg.tools import run_tool, scratch

Counters: TypeAlias = "Mapping[str, float]"
"""The metrics of a launch; those that this GPU does not have are left out."""

FORBIDDEN = "ERR_NVGPUCTRPERM"
"""The profiler's error where the driver reserves counters for administrators."""

MOST_SAID = 400
"""The most characters that are kept of the profiler's output."""

_CHILD = "import sys; from layoutalg.codegen.gpu.counters import launch_runs; launch_runs(sys.argv[1])"


_WRITTEN = os.O_WRONLY | os.O_CREAT | os.O_TRUNC


@dataclass(frozen=True, slots=True)
class Run:
    """Compiled kernels and their arguments: NumPy arrays and numbers by name."""

    compiled: CompiledSequence
    given: Mapping[str, Any]


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
) -> list[tuple[Counters, ...] | str]:
    """Launch every run once under the profiler: the counters of each of its kernels, or why it failed.

    Raises ProfilerError without the profiler, where the driver forbids counters, and where the profiler
    cannot count a launch, in its words; TimeoutError.
    """
    ncu, found = profiler(), list[tuple[Counters, ...] | str]()
    with scratch() as folder:
        path = folder / "runs"
        while len(found) < len(runs):
            with Connection(os.open(path, _WRITTEN, 0o600), readable=False) as file:
                file.send(runs[len(found) :])
            command = [
                ncu, "--csv", "--print-units", "base", "--clock-control", "none", "--cache-control", "none",
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
            numbers = {name: x for name, x in run.given.items() if isinstance(x, int)}
            said = ""
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


def loads_of(prepared: Prepared) -> frozenset[tuple[int, int]]:
    """The loads that the machine code of a kernel makes behind a branch; none where no disassembler is.

    >>> from layoutalg.codegen.gpu import prepare
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> loads_of(prepare(KernelBuilder("empty", threads=32).build(), "sm_80"))
    frozenset()
    """
    try:
        functions = parse_sass(disassemble(prepared.cubin.image))
    except UnsupportedError:
        return frozenset()
    return frozenset[tuple[int, int]]().union(*map(branched_loads, functions))


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
