"""Census of a folder of CUDA sources: files refused whole, accesses read, reasons of the others, time.

    python -m tests.source.census FOLDER [--part K/N] [--jobs N] [--rows]

Each file with a kernel is read in a process of its own, twice: as it is, and with a value for every name that
the first reading asks for.  No file is judged by its name, and none of what is read is stored.
"""

from __future__ import annotations

import argparse
import json
import re
import resource
import sys
import time
from collections import Counter
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

from layoutalg.errors import LayoutAlgError
from layoutalg.source import KernelReading, read_kernel, refuse_unread
from layoutalg.source.front.texts import Texts
from layoutalg.tools import run_tool

_INCLUDE = re.compile(r'^[ \t]*#[ \t]*include[ \t]*[<"]([\w./-]+)[>"]', re.MULTILINE)

SECONDS = 120.0
"""The longest that a file may take."""

BLOCK = 256
"""The block of a kernel of which no launch in the file says a constant one."""

ROUNDS = 6
"""Readings of a file in which names that the last one asks for get a value."""


def sources(folder: Path) -> list[Path]:
    """The files of a folder that define a kernel or launch one, but headers that such a source includes."""
    files = [path for path in sorted(folder.rglob("*.cu*")) if path.suffix in (".cu", ".cuh")]
    files = [path for path in files if defines(path) or (path.suffix == ".cu" and launches(path))]
    with_them = {
        spot
        for path in files
        if path.suffix == ".cu"
        for spot in headers(path, [path.parent.as_posix(), *folders(path, folder)])
    }
    return [path for path in files if path.suffix == ".cu" or path.resolve() not in with_them]


def launches(path: Path) -> bool:
    """Whether a file launches kernels."""
    return "<<<" in path.read_text(encoding="utf-8", errors="replace")


def headers(path: Path, spots: list[str]) -> set[Path]:
    """The headers in some folders that a file includes, by way of each other too."""
    found, waiting = set[Path](), [path]
    while waiting:
        file = waiting.pop()
        text = file.read_text(encoding="utf-8", errors="replace")
        for name in _INCLUDE.findall(text):
            for each in (file.parent / name, *(Path(folder) / name for folder in spots)):
                spot = each.resolve()
                if spot.is_file() and spot not in found:
                    found.add(spot)
                    waiting.append(spot)
    return found


def defines(path: Path) -> bool:
    """Whether a kernel with a body is in a file itself."""
    text = path.read_text(encoding="utf-8", errors="replace")
    return "__global__" in text and any(f.kernel for f in Texts(path, text, []).main.census.functions)


def folders(path: Path, root: Path) -> list[str]:
    """The folders of a repository that hold headers which are not beside a file, as its build names them."""
    named, waiting, there = set[str](), [path], dict[str, None]()
    while waiting:
        file = waiting.pop()
        text = file.read_text(encoding="utf-8", errors="replace")
        for name in _INCLUDE.findall(text):
            if name in named:
                continue
            named.add(name)
            beside = file.parent / name
            if beside.is_file():
                waiting.append(beside)
            if beside.is_file() or name.startswith("."):
                continue
            for spot in sorted(root.rglob(Path(name).name), key=lambda spot: (len(spot.parts), spot)):
                if spot.is_file() and spot.as_posix().endswith(f"/{name}"):
                    there[spot.as_posix().removesuffix(name)] = None
                    waiting.append(spot)
                    break
    return list(there)


def value_of(name: str, text: str) -> str:
    """A value for a name that is asked for: a type, true, a size of the problem, or a size of a tile."""
    if re.search(rf"\b(?:typename|class)\s+{re.escape(name)}\b", text):
        return "float"
    if re.search(rf"\bbool\s+{re.escape(name)}\b", text):
        return "1"
    if re.search(r"dims?$|rank$", name):
        return "2"
    return "1024" if name.islower() else "32"


def counted(reading: KernelReading | None, refusal: str) -> dict[str, Any]:
    """Refusal, counts and reasons: the row of a reading in the census."""
    if reading is None:
        return {"refused": refusal, "read": 0, "bounded": 0, "all": 0, "why": {}, "unfollowed": 0}
    memory = [access for access in reading.memory if access.reached]
    whys = Counter(plain(access.why or "") for access in memory if not (access.read or access.bounds))
    read = sum(access.read for access in memory)
    return {"refused": refusal, "read": read, "bounded": sum(access.bounds is not None for access in memory),
            "all": len(memory), "why": dict(whys), "unfollowed": len(reading.unfollowed)}  # fmt: skip


def joined(launched: KernelReading, other: KernelReading) -> KernelReading:
    """A reading with the kernels of which a launch tells the block as this has them."""
    blocks = zip(launched.kernels, launched.blocks, strict=True)
    own = {name for name, block in blocks if block is not None}
    accesses = [a for a in launched.accesses if a.kernel in own]
    rest = [a for a in other.accesses if a.kernel not in own]
    return replace(other, accesses=(*accesses, *rest))


def plain(why: str) -> str:
    """A reason without the names and places of its file."""
    why = re.sub(r"^.*?the statement has an error: (?:\S+:)?(?:line \d+, column \d+: )?", "error: ", why)
    why = re.sub(r"'[^']*'", "'…'", why)
    why = re.sub(r"\b\w+ is not known: --set.*", "a name is not known", why)
    why = re.sub(r"\d+", "N", why)
    return re.sub(r"(?<=what )\S+(?= (?:does|returns))", "…", why)[:90]


def reading_of(
    path: Path, sets: dict[str, int | float | str], include: list[str]
) -> tuple[KernelReading | None, str]:
    """The reading of a file, or why it is refused: kernels with the blocks of their launches, else BLOCK."""
    text = path.read_text(encoding="utf-8", errors="replace")
    try:
        reading = read_kernel(text, sets=sets, folder=str(path.parent), include=include)
        if None in reading.blocks:
            reading = joined(
                reading, read_kernel(text, BLOCK, sets=sets, folder=str(path.parent), include=include)
            )
    except LayoutAlgError as error:
        return None, f"{type(error).__name__}: {error.message}"
    try:
        refuse_unread(reading)
    except LayoutAlgError as error:
        return reading, error.message
    return reading, ""


def looked_at(path: Path, root: Path) -> dict[str, Any]:
    """Both readings of a file of a repository."""
    start = time.process_time()
    include = folders(path, root)
    reading, refusal = reading_of(path, {}, include)
    readings = {"without": counted(reading, refusal), "seconds": spent(start)}
    text = path.read_text(encoding="utf-8", errors="replace")
    sets: dict[str, int | float | str] = {f"gridDim.{axis}": 16 for axis in "xyz"}
    best = readings["without"]
    for turn in range(ROUNDS):
        wanted = [name for name in (reading.wanted if reading is not None else ()) if name not in sets]
        if reading is None or (turn and not wanted):
            break
        sets |= {name: value_of(name, text) for name in wanted}
        again, refusal = reading_of(path, sets, include)
        if again is None:
            break
        reading, best = again, counted(again, refusal)
    usage = resource.getrusage(resource.RUSAGE_SELF), resource.getrusage(resource.RUSAGE_CHILDREN)
    return readings | {"with": best, "mib": max(each.ru_maxrss for each in usage) >> 10}


def spent(start: float) -> float:
    """Seconds of this process since a start, and of its children."""
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    return round(time.process_time() - start + children.ru_utime + children.ru_stime, 2)


def row(path: Path, root: Path) -> dict[str, Any]:
    """The readings of a file, in a process of its own."""
    command = [sys.executable, "-m", "tests.source.census", str(root), "--file", str(path)]
    try:
        ran = run_tool(command, timeout_s=SECONDS)
    except TimeoutError:
        return ended([f"no answer within {SECONDS:.0f} seconds"])
    return json.loads(ran.out) if ran.status == 0 else ended(ran.said.splitlines()[-1:])


def ended(last: list[str]) -> dict[str, Any]:
    """The row of a file whose process did not answer."""
    nothing = counted(None, f"the process ended: {' '.join(last)}")
    return {"without": nothing, "with": nothing, "seconds": SECONDS, "mib": 0}


def summary(readings: list[dict[str, Any]]) -> Iterator[str]:
    """The lines of a census."""
    seconds = [row["seconds"] for row in readings]
    yield f"{len(readings)} files, {sum(seconds):.0f} s of CPU, at most {max(seconds, default=0):.0f} s"
    yield f"at most {max((row['mib'] for row in readings), default=0)} MiB"
    for kind in ("without", "with"):
        parts = [row[kind] for row in readings]
        refused = [part["refused"] for part in parts if part["refused"]]
        read, memory = sum(p["read"] for p in parts), sum(p["all"] for p in parts)
        data = sum(p["bounded"] for p in parts)
        share, other = (f"{read / n:.1%}" if n else "none" for n in (memory, memory - data))
        yield f"{kind} values: {len(refused)} refused whole; {read} of {memory} accesses read, {share}"
        yield f"    {data} are between bounds since loaded data decides their address; {other} of the others"
        yield f"    {sum(bool(p['unfollowed']) for p in parts)} files with parts that are not followed"
        for why, count in Counter(map(plain, refused)).most_common(12):
            yield f"    {count:5} {'refused':8} {why}"
        whys: Counter[str] = Counter()
        for part in parts:
            whys.update(part["why"])
        for why, count in whys.most_common(24):
            yield f"    {count:5} {'unread':8} {why}"


def main() -> None:
    """Read the command line and print the census."""
    options = argparse.ArgumentParser()
    options.add_argument("folder", type=Path)
    options.add_argument("--file", type=Path, help="print the readings of one file as JSON")
    options.add_argument("--part", default="0/1", help="every Nth file from the Kth on")
    options.add_argument("--jobs", type=int, default=1, help="files that are read at the same time")
    options.add_argument("--rows", action="store_true", help="print a line for each file")
    asked = options.parse_args()
    if asked.file:
        json.dump(looked_at(asked.file, asked.folder), sys.stdout)
        return
    first, step = map(int, asked.part.split("/"))
    paths = sources(asked.folder)[first::step]
    readings = []
    with ThreadPoolExecutor(asked.jobs) as pool:
        for path, found in zip(paths, pool.map(lambda path: row(path, asked.folder), paths), strict=True):
            readings.append(found)
            if asked.rows:
                shares = " ".join(f"{found[k]['read']:4} of {found[k]['all']:4}" for k in ("without", "with"))
                said = found["with"]["refused"][:110]
                print(
                    f"{found['seconds']:6.1f} s {shares} {path.relative_to(asked.folder)} {said}", flush=True
                )
    print("\n".join(summary(readings)))


if __name__ == "__main__":
    main()
