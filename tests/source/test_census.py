"""Nothing that may touch memory is left out: every site of the census is in the accesses, read or not."""

from __future__ import annotations

import functools
import json
import re
from pathlib import Path

import pytest

from layoutalg.source import KernelReading, read_kernel
from tests.sweeps import each

FOLDER = Path(__file__).parents[1] / "data" / "sources"
EXPECTED = json.loads((FOLDER / "expected.json").read_text(encoding="utf-8"))
PUBLISHED = tuple(name for name in EXPECTED if re.match(r"[sh]gemm_", name))


@functools.cache
def reading_of(name: str, text: str | None = None) -> KernelReading:
    case = EXPECTED[name]
    source = text if text is not None else (FOLDER / name).read_text(encoding="utf-8")
    return read_kernel(source, tuple(case["block"]), sets=case["set"], kernel=case.get("kernel"))


def lines_of_the_kernel(reading: KernelReading, text: str) -> set[int]:
    """The lines of the kernel itself that have accesses; a function goes with the statement that calls it."""
    first = text.count("\n", 0, text.index("__global__")) + 1
    return {access.line for access in reading.accesses if access.line >= first}


HEADS = ("for", "if", "while", "else", "return", "extern", "__shared__", "const", "unsigned", "float", "half")


def statements_with_sites(text: str) -> list[tuple[int, int]]:
    """(start, end) of the statements of one line that end with a semicolon and have a bracket."""
    found = []
    at = text.index("__global__")
    for line in text[at:].splitlines(keepends=True):
        plain = re.fullmatch(r"\s+([A-Za-z*(][^{}#]*\[[^{}#]*;)\s*", line)
        if plain is not None and not plain[1].startswith(HEADS):
            found.append((at + plain.start(1), at + plain.end(1)))
        at += len(line)
    return found


def with_error(text: str, span: tuple[int, int]) -> str:
    """The text with a name that nothing declares in one statement."""
    inside = text[span[0] : span[1]]
    bracket = inside.index("[")
    broken = f"{inside[: bracket + 1]}nothing_of_this_name + {inside[bracket + 1 :]}"
    return f"{text[: span[0]]}{broken}{text[span[1] :]}"


def test_the_errors_of_a_text_are_counted() -> None:
    """Of n statements with one store and one load each, k have an open name: their stores are read."""
    rows = [f"  p[threadIdx.x + {n}] = q[threadIdx.x * {n}];" for n in range(12)]
    broken = {3, 4, 9}
    for n in broken:
        rows[n] = rows[n].replace("q[", "q[unknown_name + ")
    text = "\n".join(["__global__ void k(float* p, const float* q) {", *rows, "}"])
    reading = read_kernel(text, 64)
    assert [(a.line, a.read) for a in reading.accesses] == [
        (n + 2, store or n not in broken) for n in range(12) for store in (True, False)
    ]
    assert reading.wanted == ("unknown_name",)


def test_what_cannot_be_read_says_why() -> None:
    text = """
#include <mma.h>
#include "no/such/header.h"
__constant__ float table[64];
__global__ void k(float* p, const int* index, float* out, int n) {
  __shared__ float s[64];
  float mine[4];
  p[index[threadIdx.x]] = 1;
  if (out[0] > 0) s[threadIdx.x] = 2;
  mine[n % 4] = table[threadIdx.x];
  switch (n) { case 1: s[1] = 1; break; default: s[2] = 2; }
  memcpy(p, s, 16);
  atomicAdd(&p[threadIdx.x], 1.0f);
  asm volatile("red.async.shared.b64 [%0], 1;" :: "r"((unsigned)__cvta_generic_to_shared(s)));
  asm volatile("ld.global.nc.v2.f32 {%0, %1}, [%2 + 8];" : "=f"(mine[0]), "=f"(mine[1])
               : "l"(p + 2 * threadIdx.x));
  for (auto& one : s) one = 0;
}
"""
    reading = read_kernel(text, 64, sets={"n": 5})
    rows = [(a.line, a.op, a.array, a.read) for a in reading.accesses if a.op != "registers"]
    assert rows == [
        (8, "st.global.b32", "p", False),
        (8, "ld.global.b32", "index", True),
        (9, "ld.global.b32", "out", True),
        (9, "st.shared.b32", "s", True),
        (10, "constant", "table", True),
        (11, "st.shared.b32", "s", True),
        (11, "st.shared.b32", "s", True),
        (12, "ld.shared.b8", "s", True),
        (12, "st.global.b8", "p", True),
        (13, "atom.global.b32", "p", True),
        (14, "red.async.shared.b64", "", False),
        (15, "ld.global.b64", "p", True),
        (17, "range-based for", "", False),
        (17, "st", "", False),
    ]
    assert all(a.why for a in reading.accesses if not a.read)
    assert not any(a.why for a in reading.accesses if a.read)


@pytest.mark.deep
@each("name", PUBLISHED)
def test_every_statement_with_an_error_is_told(name: str) -> None:
    text = (FOLDER / name).read_text(encoding="utf-8")
    before = lines_of_the_kernel(reading_of(name), text)
    for span in statements_with_sites(text):
        broken = reading_of(name, with_error(text, span))
        line = text.count("\n", 0, span[0]) + 1
        unread = [access for access in broken.accesses if "nothing_of_this_name" in (access.why or "")]
        # what only registers depend on is read without its value, and the name is told all the same
        parts = [part for part in broken.unfollowed if "nothing_of_this_name" in part.why]
        assert line in {access.line for access in unread} | {part.line for part in parts}, (name, line)
        assert bool(unread) == ("nothing_of_this_name" in broken.wanted), (name, line)
        lines = {access.line for access in broken.accesses} | {part.line for part in broken.unfollowed}
        assert before <= lines, (name, line)


def test_parts_of_arrays_have_the_names_of_the_source() -> None:
    """The first name that an address has stays; a part ends where the next one begins."""
    text = """struct Storage { float a[32][33]; float b[64]; };
__device__ void put(float* tile, int t) { tile[t * 2] = 1; }
__global__ void k(float* p, int n) {
extern __shared__ float smem[]; __shared__ Storage raw; int t = threadIdx.x;
float* As = smem; float* Bs; Bs = smem + 2048; float* mine = smem + t / 32 * 64;
float (&Cs)[16][32] = *reinterpret_cast<float (*)[16][32]>(smem + 4096);
As[t] = p[t];
Bs[t * 32] = 2;
Cs[t / 32][t % 32] = 3;
put(As, t); put(Bs, t); put(n ? As : Bs, t);
raw.a[t % 32][t / 32] = raw.b[t];
mine[t % 32] = 4;
smem[t] = 5;
for (int i = 0; i < 4; ++i) { As[t] = 1; As += 64; }
}"""
    a, b = "smem[0:8192] (As)", "smem[8192:16384] (Bs)"
    assert [(x.line, x.part) for x in read_kernel(text, 64).memory] == [
        (2, f"{a}, {b}, smem"), (7, a), (7, ""), (8, b), (9, "smem[16384:] (Cs)"), (11, "raw.a"),
        (11, "raw.b"),
        (12, "smem (mine)"), (13, ""), (14, a),
    ]  # fmt: skip
