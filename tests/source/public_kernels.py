"""Published kernels under Nsight Compute beside what is read of them, by line of their sources.

    python -m tests.source.public_kernels FOLDER REPOSITORIES    write programs, readings and record.sh
    OUT=REPORTS bash FOLDER/record.sh                            compile and count on a GPU, in 250 seconds
    python -m tests.source.public_kernels FOLDER PUBLIC.ncu-rep  compare the report with the readings

REPOSITORIES is a folder of snapshots as GitHub names them: nothing of them is stored in this project.  The
launches are those of tests/data/public_kernels.txt, each a line.  Of a source, what the device does not run
is left out, and includes of what is not there; its lines stay where they are.  A program is one launch on
zeros.  The readings are by machine code: nvcc must be there.

The exit status is 1 where a counter of the very instructions that the source has is another number.
"""

from __future__ import annotations

import dataclasses
import json
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from layoutalg.errors import LayoutAlgError
from layoutalg.profiling import Launch, explain_launch, read_report, with_ends
from layoutalg.source import read_kernel
from layoutalg.source.front import Kernel, parse_cuda
from layoutalg.source.front.texts import Texts
from tests.corpus.counted import OTHER, verdict

LIST = Path(__file__).parents[1] / "data" / "public_kernels.txt"
NOT_THERE = re.compile(
    r"^[ \t]*#[ \t]*include[^\n]*\b(?:torch|ATen|c10|cublas\w*|helper_\w+|mma|omp)\b[^\n]*"
    r"|^(?:static[ \t]+)?cublas\w*[ \t]+\w+[^;{}()]*;"
    r"|^\w*TORCH\w*\([^;{}]*?\)$|^(?:extern|void|torch)\b[^;{}]*\btorch::[^;{}]*;|^PYBIND.*\Z",
    re.MULTILINE | re.DOTALL,
)
"""Includes of libraries that are not there, their variables, and what registers functions with them."""

MAIN = """#include "../source/{file}"
#include <cstdio>
#include <type_traits>

struct Argument {{
    char *at;
    double value;
    template <class T> operator T *() const {{ return reinterpret_cast<T *>(at); }}
    template <class T, class = std::enable_if_t<std::is_arithmetic_v<T>>> operator T() const {{
        return static_cast<T>(value);
    }}
}};

int main() {{
    char *zeros;
    cudaMalloc(&zeros, {bytes});
    cudaMemset(zeros, 0, {bytes});
    auto kernel = {kernel};
    cudaFuncSetAttribute(kernel, cudaFuncAttributeMaxDynamicSharedMemorySize, {shared});
    kernel<<<dim3({grid}), dim3({block}), {shared}>>>({arguments});
    printf("{kernel}: %s\\n", cudaGetErrorString(cudaDeviceSynchronize()));
}}
"""
RECORD = """#!/usr/bin/env bash
# Compile the programs and count them in one report: OUT=FOLDER bash record.sh
set -u
cd "$(dirname "$0")" || exit 1
: "${OUT:?a folder for the report}"
mkdir -p "$OUT" build
ncu=$(command -v ncu || ls /usr/local/cuda*/bin/ncu /opt/nvidia/nsight-compute/*/ncu 2>/dev/null | tail -1)
nvcc=$(command -v nvcc || ls /usr/local/cuda*/bin/nvcc 2>/dev/null | tail -1)
ls main/*.cu | xargs -P "$(nproc)" -I{} timeout 90 "$nvcc" -w -std=c++17 -arch=sm_90 -lineinfo \\
    --expt-relaxed-constexpr --extended-lambda -o build/{}.bin {} 2>"$OUT/nvcc.log"
test -n "${ONLY_COMPILE:-}" && exit
printf 'for program in build/main/*.bin; do timeout 20 "$program"; done\\n' >run.sh
timeout 150 "$ncu" -f -o "$OUT/public" --target-processes all --clock-control none --cache-control none \\
    --section SourceCounters sh run.sh | grep -v "^==PROF==\\|^==WARNING=="
ls -l "$OUT"
"""
BYTES = 1 << 26
"""Bytes behind each pointer."""


class Row(NamedTuple):
    """A launch of the list."""

    file: str
    kernel: str
    block: tuple[int, ...]
    grid: tuple[int, ...]
    shared: int
    values: dict[str, str]

    @property
    def label(self) -> str:
        """The name of its program."""
        return f"{self.file.partition('/')[0]}_{self.name}"

    @property
    def name(self) -> str:
        """The kernel without its template arguments."""
        return self.kernel.partition("<")[0]

    @property
    def arguments(self) -> list[str]:
        """The template arguments."""
        return [part.strip() for part in self.kernel.partition("<")[2].rstrip(">").split(",") if part.strip()]


def listed() -> list[Row]:
    """The launches of the list."""
    rows = []
    for line in LIST.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            file, kernel, block, grid, shared, values = (part.strip() for part in line.split("|"))
            threads, blocks = (tuple(map(int, text.split("x"))) for text in (block, grid))
            given = dict(pair.split("=") for pair in values.split())
            rows.append(Row(file, kernel, threads, blocks, int(shared), given))
    return rows


def device_text(path: Path) -> str:
    """A source without what the device does not run, each line where it was."""
    given = path.read_text(encoding="utf-8", errors="replace")
    text = next(iter(Texts(path, given, [str(path.parent)])))
    raw = bytearray(given.encode())
    for f in text.census.functions:
        if not (f.device or f.inner or re.match(r"\s*(?:struct|class|union)\b", f.words)):
            raw[f.head : f.end] = re.sub(rb"[^\n]", b" ", bytes(raw[f.head : f.end]))
    return NOT_THERE.sub(lambda found: re.sub(r"[^\n]", " ", found[0]), raw.decode())


def program(row: Row, kernel: Kernel) -> str:
    """The text of a program: its pointers point at zeros of their own."""
    arguments = [
        f"Argument{{zeros + {number * BYTES}, {row.values.get(name, 1)}}}"
        for number, name in enumerate(kernel.parameters)
    ]
    return MAIN.format(
        file=row.file, kernel=row.kernel, shared=row.shared, bytes=max(len(arguments), 1) * BYTES,
        block=", ".join(map(str, row.block)), grid=", ".join(map(str, row.grid)),
        arguments=", ".join(arguments),
    )  # fmt: skip


def make(folder: Path, repositories: Path) -> None:
    """Write sources, programs, readings and the script; readings that are there already stay."""
    for name in ("main", "build/main", "readings"):
        (folder / name).mkdir(parents=True, exist_ok=True)
    (folder / "record.sh").write_text(RECORD, encoding="utf-8")
    for row in listed():
        source, spot = folder / "source" / row.file, folder / "readings" / f"{row.label}.json"
        if spot.exists():
            continue
        source.parent.mkdir(parents=True, exist_ok=True)
        for path in {repositories / row.file, *(repositories / row.file).parent.glob("*.*h")}:
            (source.parent / path.name).write_text(device_text(path), encoding="utf-8")
        text = source.read_text(encoding="utf-8")
        try:
            (kernel,) = parse_cuda(text, kernel=row.name, folder=str(source.parent)).kernels
            sets = row.values | dict(zip(kernel.template, row.arguments, strict=False))
            reading = read_kernel(
                text, row.block, grid=row.grid, sets=sets, kernel=row.name, folder=str(source.parent),
                compiled=True,
            )  # fmt: skip
            (folder / "main" / f"{row.label}.cu").write_text(program(row, kernel), encoding="utf-8")
        except (LayoutAlgError, LookupError) as error:
            print(f"{row.file}, {row.kernel}: {error}")
            continue
        accesses = [dataclasses.asdict(a) for a in reading.memory if not a.file]
        unfollowed = [f"{part.place}: {part.why}" for part in reading.unfollowed]
        spot.write_text(json.dumps(with_ends(accesses, text)), encoding="utf-8")
        read = sum(a.read for a in reading.memory)
        print(f"{row.file}, {row.kernel}: {read} of {len(reading.memory)} read", *unfollowed, flush=True)


def compared(folder: Path, report: Path) -> Iterator[tuple[str, str]]:
    """(verdict, a line of the table) of every line and op of every launch."""
    launches: list[Launch] = list(read_report(report).launches)
    for row in listed():
        name = row.label
        same = [n for n, launch in enumerate(launches) if _is_of(row, launch)]
        spot = folder / "readings" / f"{name}.json"
        if not same or not spot.exists():
            yield "not launched" if spot.exists() else "not compiled or read", f"| {name} | | | | |"
            continue
        launch = launches.pop(same[0])
        accesses: Any = json.loads(spot.read_text(encoding="utf-8"))
        for each in explain_launch(launch, Path(row.file).name, accesses, whole=True):
            counter = each.joined.counter if each.joined else "wavefronts"
            expected = each.joined.predicted if each.joined else None
            said, measured = verdict(each), each.row.total(counter)
            yield said, f"| {name}:{each.row.line} | {each.row.op} | {expected} | {measured} | {said} |"


def _is_of(row: Row, launch: Launch) -> bool:
    block, grid = ((*extents, 1, 1)[:3] for extents in (row.block, row.grid))
    return launch.name == row.name and (launch.block, launch.grid) == (block, grid)


def main(folder: Path, *repositories: str) -> int:
    """Write the programs, or print the table and how many rows agree."""
    if repositories and not repositories[0].endswith(".ncu-rep"):
        make(folder, Path(repositories[0]))
        return 0
    report = Path(repositories[0]) if repositories else folder / "public.ncu-rep"
    count: dict[str, int] = {}
    print("| kernel and line | op | expected | counted | |\n|---|---|---:|---:|---|")
    for said, line in compared(folder, report):
        count[said] = count.get(said, 0) + 1
        print(line)
    print(", ".join(f"{number} {said}" for said, number in sorted(count.items())))
    return bool(count.get(OTHER) or not count)


if __name__ == "__main__":
    sys.exit(main(Path(sys.argv[1]), *sys.argv[2:]))
