"""Accesses of kernels of CuTe by CUTLASS's own headers: the text compiled for the host, thread by thread.

The headers' innermost copies are made to note the addresses that they move: a copy of those few files, with
a call in front of each move, lies in front of the others.  `LAYOUTALG_CUTLASS` is the folder `include` of
CUTLASS, or the wheel nvidia-cutlass is installed; CUDA's headers are those of the wheels or of an installed
toolkit."""

from __future__ import annotations

import hashlib
import importlib.util
import itertools
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

_START = r"""
#include <cstdint>
#include <cstdio>
#include <cstddef>
struct Layoutalg { unsigned x, y, z; };
static Layoutalg layoutalg_thread{0, 0, 0}, layoutalg_block{0, 0, 0};
struct LayoutalgSpan { char const* name; char const* begin; size_t bytes; };
static LayoutalgSpan layoutalg_spans[16];
static int layoutalg_count = 0;
template <class T> T* layoutalg_array(char const* name, T* p, size_t bytes) {
    layoutalg_spans[layoutalg_count++] = {name, (char const*)p, bytes};
    return p; }
template <class T> void layoutalg_note(char kind, T const& t) {
    char const* p = (char const*)&t;
    for (int i = 0; i < layoutalg_count; ++i) {
        LayoutalgSpan const& s = layoutalg_spans[i];
        if (s.begin <= p && p < s.begin + s.bytes)
            printf("%u %c %s %ld %d\n", layoutalg_thread.x, kind, s.name, long(p - s.begin),
                   int(sizeof(T))); } }
template <class S, class D> void layoutalg_move(S const& s, D const& d) {
    layoutalg_note('l', s);
    layoutalg_note('s', d); }
#include <cute/tensor.hpp>
#define threadIdx layoutalg_thread
#define blockIdx layoutalg_block
#undef __global__
#define __global__ static
#undef __shared__
#define __shared__ alignas(1024) static
#undef __syncthreads
#define __syncthreads()
"""

_MOVES = (
    ("cute/algorithm/copy.hpp", r"(dst\(i\) = static_cast<DstType>)", r"layoutalg_move(src(i), dst(i)); \1"),
    ("cute/algorithm/copy.hpp", r"(copy_op\.copy\(src\(i\))", r"layoutalg_move(src(i), dst(i)); \1"),
    *((f"cute/arch/copy{name}.hpp",
       r"(\bcopy\(\w+ const& (\w+),\s*\w+\s*& (\w+)[^)]*\)\s*\{)", r"\1 layoutalg_move(\2, \3);")
      for name in ("", "_sm75", "_sm80")),
)  # fmt: skip


class Move(NamedTuple):
    """An access of a thread: l(oad) or s(tore), the array, the byte, and the number of bytes."""

    thread: int
    kind: str
    array: str
    byte: int
    bytes: int


class Case(NamedTuple):
    """A kernel and its launch: `arrays` are the elements of its pointers, `sets` its numbers."""

    name: str
    text: str
    threads: int
    block: int
    arrays: tuple[tuple[str, str, int], ...]
    sets: tuple[tuple[str, int], ...]
    shared: tuple[str, ...]


def folders() -> list[Path] | None:
    """The folders of CUTLASS's headers and of CUDA's; None where one is missing."""
    cutlass = [Path(os.environ["LAYOUTALG_CUTLASS"])] if "LAYOUTALG_CUTLASS" in os.environ else []
    spec = importlib.util.find_spec("cutlass_library")
    if spec is not None and spec.submodule_search_locations:
        cutlass += [Path(spot) / "source" / "include" for spot in spec.submodule_search_locations]
    spec = importlib.util.find_spec("nvidia")
    cuda = [
        p
        for spot in (spec.submodule_search_locations or () if spec else ())
        for p in Path(spot).glob("*/include")
    ]
    cuda.append(Path("/usr/local/cuda/include"))
    found = next((p for p in cutlass if (p / "cute" / "tensor.hpp").is_file()), None)
    toolkit = next((p for p in cuda if (p / "cuda_fp16.h").is_file() and (p / "cccl").is_dir()), None)
    return None if found is None or toolkit is None else [found, toolkit, toolkit / "cccl"]


def prepared(spot: Path, cutlass: Path) -> Path:
    """A folder with the headers that move, which note what they move."""
    texts: dict[str, str] = {}
    for name, pattern, call in _MOVES:
        text = texts.get(name) or (cutlass / name).read_text()
        texts[name], count = re.subn(pattern, call, text)
        assert count, f"{name} has no {pattern}"
    for name, text in texts.items():
        text = re.sub(r"CUTE_INVALID_CONTROL_PATH\([^;]*\);", "", text)
        (spot / name).parent.mkdir(parents=True, exist_ok=True)
        (spot / name).write_text(text)
    return spot


def moves(cases: Sequence[Case], spot: Path) -> list[list[Move] | None]:
    """The accesses of some kernels by thread; None for a kernel that CuTe does not compile."""
    found = folders()
    assert found is not None
    mine = prepared(spot / "noting", found[0])
    source, program = spot / "cases.cpp", spot / "cases"
    flags = [f"-I{folder}" for folder in (mine, *found)]
    command = ["g++", "-std=c++17", "-O0", "-w", "-DNDEBUG", *flags, str(source), "-o", str(program)]
    left = list(cases)
    while left:
        bodies = [_body(case) for case in left]
        parts = [_START, *bodies, "int main() {", *map(_run, left), "}"]
        source.write_text("\n".join(parts))
        made = subprocess.run(command, capture_output=True, text=True, check=False)
        if not made.returncode:
            break
        starts = list(itertools.accumulate(part.count("\n") + 1 for part in parts))
        lines = {int(n) for n in re.findall(r"cases\.cpp:(\d+):", made.stderr)}
        wrong = {i for i in range(len(left)) if any(starts[i] < n <= starts[i + 1] for n in lines)}
        assert wrong, made.stderr[:2000]
        left = [case for i, case in enumerate(left) if i not in wrong]
    out = subprocess.run([str(program)], capture_output=True, text=True, check=True).stdout
    by_case = dict(zip(left, map(list, map(_moves, out.split("--\n")[1:])), strict=True))
    return [by_case.get(case) for case in cases]


def _moves(text: str) -> Iterator[Move]:
    for thread, kind, array, byte, count in re.findall(
        r"^(\d+) ([ls]) (\w+) (\d+) (\d+)$", text, re.MULTILINE
    ):
        yield Move(int(thread), kind, array, int(byte), int(count))


def _body(case: Case) -> str:
    text = case.text
    for name in case.shared:
        text = re.sub(rf"(__shared__[^;]*\b{name}\[[^;]*;)",
                      rf'\1 layoutalg_array("{name}", {name}, sizeof({name}));', text)  # fmt: skip
    return text.replace("#include <cute/tensor.hpp>", "")


def _run(case: Case) -> str:
    lines = ['printf("--\\n"); {']
    for kind, name, count in case.arrays:
        lines.append(f"static {kind} {name}[{count}];")
    lines.append(
        f"for (unsigned t = 0; t < {case.threads}; ++t) {{ layoutalg_thread.x = t; layoutalg_count = 0;"
    )
    lines.append(f"layoutalg_block.x = {case.block};")
    lines += [f'layoutalg_array("{name}", {name}, sizeof({name}));' for _, name, _ in case.arrays]
    given = ", ".join([*(name for _, name, _ in case.arrays), *(str(n) for _, n in case.sets)])
    return "\n".join([*lines, f"{case.name}({given}); }} }}"])


def digest(found: Sequence[Move]) -> str:
    """A short name of some accesses, whatever their order."""
    return hashlib.sha256(repr(sorted(map(tuple, found))).encode()).hexdigest()[:16]


FACTS = Path(__file__).parents[1] / "data" / "cute_moves.json"
"""Accesses of kernels of random_cute by these headers; `python -m tests.source.cute_oracle` writes them."""


def main() -> None:
    """Write the facts that are compared where the headers are not."""
    from tests.source.random_cute import kernel

    seeds = range(40, 64)
    with tempfile.TemporaryDirectory() as spot:
        found = moves([kernel(seed) for seed in seeds], Path(spot))
    facts = {
        str(seed): {"moves": len(each), "digest": digest(each)}
        for seed, each in zip(seeds, found, strict=True)
        if each is not None
    }
    FACTS.write_text(json.dumps(facts, indent=1) + "\n")


if __name__ == "__main__":
    main()
