"""What may touch memory and is not read is in the list, and what --set may help with is named."""

from __future__ import annotations

import re
import sys
from pathlib import Path

import pytest

from layoutalg.limits import Most
from layoutalg.source import KernelReading, read_kernel, statements
from layoutalg.source.front.texts import MOST_KEPT
from layoutalg.tools import run_tool
from tests.sweeps import each

FILE = Path(__file__).with_name("unread.cu")
SECTIONS = {
    title: lines.strip()
    for title, _, lines in (
        part.partition("\n") for part in re.split(r"^// --- ", FILE.read_text("utf-8"), flags=re.M)[1:]
    )
}
HEAD, HIDING = SECTIONS["beside"] + "\n", SECTIONS["hiding"] + "\n"
TOLD = [
    (body.strip().replace(" \\n ", "\n"), op.strip())
    for body, _, op in (line.rpartition("@") for line in SECTIONS["told"].splitlines())
]
SILENT, MADE, OUT_OF_SIGHT, IN_SIGHT = (
    tuple(SECTIONS[title].splitlines()) for title in ("silent", "made", "out of sight", "in sight")
)
START = (
    "__global__ void k{n}(float* p, int n, View v) {{ __shared__ float s[64]; int t = threadIdx.x; float a;\n"
)


@pytest.fixture(scope="module")
def reading() -> KernelReading:
    """All statements, each in a kernel of its own, at lines apart by 4."""
    kernels = []
    for n, body in enumerate([*(body for body, _ in TOLD), *SILENT]):
        text = f"{START.format(n=n)}{body}\n}}\n"
        kernels.append(text + "\n" * (4 - text.count("\n")))
    return read_kernel(HEAD + "".join(kernels), 32, sets={"n": 4})


def told_of(reading: KernelReading, number: int) -> list[str]:
    """The ops of what is told of a statement."""
    first = HEAD.count("\n") + 1 + 4 * number
    return [a.op for a in reading.memory if not a.read and first <= a.line < first + 4]


@each("number", tuple(range(len(TOLD))))
def test_what_may_access_memory_is_told(number: int, reading: KernelReading) -> None:
    body, op = TOLD[number]
    assert op in told_of(reading, number), (body, told_of(reading, number))


@each("number", tuple(range(len(TOLD), len(TOLD) + len(SILENT))))
def test_what_touches_no_memory_is_not_told(number: int, reading: KernelReading) -> None:
    assert not told_of(reading, number), SILENT[number - len(TOLD)]


def test_a_destructor_is_told() -> None:
    text = HEAD + "__global__ void k(float* p) { Guard guard{p}; p[0] = 1; }"
    told = [(a.line, a.why) for a in read_kernel(text, 32).memory if not a.read]
    assert (3, "when ~Guard() is executed is not followed") in told


def test_only_what_a_value_helps_with_is_wanted() -> None:
    """Not a local variable, a function, a namespace, or an array whose declaration has an error."""
    text = """\
#include "tile.h"
__global__ void k(float* p, int n) {
  Tensor tile = make_tensor(p, _32{});
  __shared__ Fragment parts[4];
  int step = WIDE + STEPS;
  for (Index i = 0; i < n; ++i) p[i] = parts[i];
  cuda::barrier_wait(tile);
  p[n * PITCH] = block_max<float>(step);
  EACH_TURN p[n] = 1;
}
"""
    assert set(read_kernel(text, 32, sets={"n": 2}).wanted) <= {"WIDE", "STEPS", "PITCH"}
    assert set(read_kernel(text.replace("block_max<float>(step)", "1"), 32, sets={"n": 2}).wanted) == {
        "WIDE", "STEPS", "PITCH",
    }  # fmt: skip


@each(
    "loop",
    ("for (int i = 0; i < n; ++i)", "for (int i = t; i < n; i += 32)", "int i = n; while ((i >>= 1) > 0)"),
)
def test_what_the_turns_of_a_loop_wait_for_is_wanted(loop: str) -> None:
    text = f"__global__ void k(float* p, int n, int m) {{ int t = threadIdx.x; {loop} p[i * m] = 1; }}"
    reading, given = read_kernel(text, 32), read_kernel(text, 32, sets={"n": 4, "m": 2})
    assert {"n"} <= {*reading.wanted, *(each.name for each in reading.taken)} <= {"n", "m"}
    assert not given.wanted and not given.taken


def test_a_loop_that_is_too_long_leaves_the_rest_of_its_kernel(monkeypatch: pytest.MonkeyPatch) -> None:
    """An array whose elements are set in turns is known where all of them are read."""
    text = """
__device__ int twice(int i) { return 2 * i; }
__global__ void k(float* p) {
  int m[32];
  for (int i = 0; i < 8; ++i) for (int j = 0; j < 4; ++j) m[4 * i + j] = twice(4 * i + j);
  p[m[threadIdx.x]] = 1;
  p[threadIdx.x] = 1;
}"""
    assert [access.total for access in read_kernel(text, 32).memory] == [8, 4]
    monkeypatch.setattr(Most.NODES, "number", 1000)
    accesses = read_kernel(text, 32).memory
    assert [access.total for access in accesses] == [None, 4]
    assert "more than 500 steps" in (accesses[0].why or "")


@pytest.mark.deep
def test_what_a_statement_may_set_is_found_soon() -> None:
    """However often a text nearly sets something: an expression that goes back through it takes minutes."""
    parts = ("_", "a ", "a* ", "a  \n", "f(", "f.", "a[", "a.b ", ";a<b> ", "a=(b(", "(&")
    code = (
        "import sys; from layoutalg.source import statements\n"
        "for part in sys.argv[1:]:\n    for end in ' !(=': "
        f"statements._set_in((part * {MOST_KEPT})[:{MOST_KEPT - 1}] + end)"
    )
    assert run_tool([sys.executable, "-c", code, *parts], timeout_s=60).status == 0


def test_what_a_statement_may_set() -> None:
    names, parts = statements._set_in(
        "a = f(b, g.h(c)) + (++d); e.x.y += *(&i); m[n[1]] = 2; int k; a[0] == 1 ? x7 : x8;"
    )
    assert names >= {"a", "b", "c", "d", "i", "k"} and not names & {"m", "x7", "x8"}
    assert parts >= {"e", "m"} and not parts & {"a", "x"}


def test_a_kernel_that_is_not_read_to_its_end_has_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that was left may have come to an access again."""
    monkeypatch.setattr(Most.NODES, "number", 60)
    text = (
        """\
__device__ void put(float* p) { p[threadIdx.x] = 1; }
__global__ void k(float* p, const int* q) {
  for (int i = 0; i < q[0]; ++i) { p[threadIdx.x] = 1; }
  int n = 1; """
        + "n = n * 2 + 1;" * 20
        + """
  put(p);
}
"""
    )
    reading = read_kernel(text, 32)
    assert {a.line for a in reading.memory} >= {1, 3} and not any(a.read for a in reading.memory)
    assert all("not read to its end" in str(a.why) for a in reading.memory if not a.op)


def hiding(bodies: tuple[str, ...]) -> tuple[KernelReading, int]:
    """Statements that touch no pointer, each in a kernel and a line of its own, and the line before them."""
    head = HIDING + "struct Plain { float x = 2.f; __device__ Plain(int i = 1) : x(-i) {} };\n"
    start = "__global__ void k{n}(unsigned b, float v, cudaTextureObject_t t, __half h) {{ {body} }}"
    kernels = [start.format(n=n, body=body) for n, body in enumerate(bodies)]
    return read_kernel(head + "\n".join(kernels), 32), head.count("\n")


def test_what_initializers_destructors_and_absent_functions_do_is_told() -> None:
    reading, before = hiding(OUT_OF_SIGHT)
    destructors = {HIDING[: HIDING.index(f"struct {name} ")].count("\n") + 1 for name in ("Ends",)}
    told = {a.line for a in reading.memory if not a.read} | {part.line for part in reading.unfollowed}
    for n, body in enumerate(OUT_OF_SIGHT):
        here = {before + n + 1} | (destructors if "Ends" in body else set())
        assert here & told, body


@each("body", MADE, sample=6)
def test_what_is_done_where_an_object_is_made_is_read_or_told(body: str) -> None:
    reading, _ = hiding((body,))
    assert reading.unfollowed or any(not a.read or (a.ways or 1) > 1 for a in reading.memory), body


def test_what_is_in_sight_is_not_told() -> None:
    reading, _ = hiding(IN_SIGHT)
    assert not reading.unfollowed and not [a for a in reading.memory if not a.read]


def test_kernels_and_instances_that_are_not_read_are_told() -> None:
    text = """\
__global__ void k(float* p) { p[threadIdx.x] = 1; }
#ifdef OTHER
__global__ void hidden(float* p) { p[threadIdx.x * 32] = 1; }
#endif
__global__ void refused(NoSuchType t, float* p) { p[threadIdx.x * 32] = 1; }
template <int N> __global__ void many(float* p) { p[threadIdx.x * N] = 1; }
template __global__ void many<1>(float*); template __global__ void many<32>(float*);
template <int N> __global__ void special(float* p) { p[threadIdx.x] = 1; }
template <> __global__ void special<8>(float* p) { p[threadIdx.x * 8] = 1; }
void start() { special<1><<<1, 32>>>(0); }
"""
    reading = read_kernel(text, 32)
    assert [part.line for part in reading.unfollowed] == [3, 5, 6]
    assert "the instance many<32> is not read: --set N=32" in [part.why for part in reading.unfollowed]
    assert [(a.line, a.total) for a in reading.memory] == [(1, 4), (5, 32), (6, 4), (8, 4), (9, 32)]
    assert not read_kernel(text, 32, kernel="k").unfollowed
    assert not read_kernel(text, 32, kernel="many", sets={"N": 32}).unfollowed


@each("declared", ("__shared__ alignas(16) float s[64];", "alignas(float4) __shared__ float s[64];",
                   "extern __shared__ alignas(16 * sizeof(int)) float s[];"))  # fmt: skip
def test_a_shared_array_may_be_aligned(declared: str) -> None:
    text = f"__global__ void k() {{ {declared} s[threadIdx.x * 2] = 1; }}"
    assert [(a.op, a.ways, a.column) for a in read_kernel(text, 32).accesses] == [
        ("st.shared.b32", 2, text.index("s[threadIdx") + 1)
    ]


def test_two_kernels_of_one_name_are_both_read() -> None:
    text = "__global__ void k(float* p) { p[0] = 1; }\n__global__ void k(double* p) { p[1] = 1; }"
    assert [(a.line, a.read) for a in read_kernel(text, 32).memory] == [(1, True), (2, True)]


def test_an_array_in_a_struct_is_moved_element_by_element() -> None:
    text = """template <class T, int n> struct Vec { T elements[n]; };
__global__ void k(Vec<int, 4>* g, Vec<double, 2>* d, Vec<char, 4096>* c) { __shared__ Vec<int, 4> s[64];
Vec<int, 4> q; q = s[threadIdx.x];
Vec<double, 2> e = d[threadIdx.x];
Vec<char, 4096> h = c[threadIdx.x]; }"""
    rows = [(a.line, a.op, a.instructions, a.ways) for a in read_kernel(text, 32).memory]
    assert rows == [(3, "ld.shared.b32", 4, 4), (4, "ld.global.b64", 2, None), (5, "ld.global", None, None)]
