"""What may touch memory and is not read is in the list, and what --set may help with is named."""

from __future__ import annotations

import pytest

from layoutalg.source import KernelReading, read_kernel
from tests.sweeps import each

HEAD = """\
struct View { float* p; __device__ float& operator[](int i); __device__ float get(int) const; };
struct Num { float x; __device__ Num operator+(Num) const; };
struct Guard { float* q; __device__ ~Guard() { *q = 1; } };
struct Op { __device__ float operator()(float a) const { return a; } };
__device__ int counter;
__device__ void refd(float& x); __device__ void numb(int n); __device__ void viewed(View v);
__device__ void filled(float (&x)[64]); __device__ float twice(float x);
#define WIDTH 32
"""
START = (
    "__global__ void k{n}(float* p, int n, View v) {{ __shared__ float s[64]; int t = threadIdx.x; float a;\n"
)

TOLD = (
    # a statement that may access memory, and the op of what is told of it
    ("refd(s[t]);", "call refd"),
    ("filled(s);", "call filled"),
    ("v[3] = 1;", "call operator[]"),
    ("a = v[t];", "call operator[]"),
    ("a = v.get(t);", "call get"),
    ("viewed(v);", "call viewed"),
    ("for (float e : s) a += e;", "range-based for"),
    ("unknown_call(s[t], a);", "call unknown_call"),
    ("unknown_call(v);", "call unknown_call"),
    ("unknown_call(&v);", "call unknown_call"),
    ("delete p;", "delete"),
    ("auto w = make_thing(p);", "call make_thing"),
    ("auto w = make_thing(n); other(w);", "call other"),
    ("Tensor tt = w; copy(tt, w);", "call copy"),
    ("destination = source;", ""),
    ("Frag f(p);", ""),
    ("float& r = s[0];\nr = UNDEFINED;", ""),
    ("run_it<3>(p);", "call run_it<3>"),
    ("cute::copy(v, v);", "call cute::copy"),
    ("new (p + t) float(1.f);", ""),
)
SILENT = (
    # a statement that touches no memory
    "numb(t);", "a = twice(a);", "unknown_number(a, 3);", "a = __unknown_intrinsic(a);",
    "a = sinpif(a) + __hfoo(a);", "Num m{1}; Num m2 = m + m;", "a = Op()(a);", "int w = WIDE * 2;",
    "unknown_number(WIDTH, n);", "__syncthreads();",
)  # fmt: skip


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


TILES = """\
#include <cute/tensor.hpp>
using namespace cute;
template <class TS, class TD>
__global__ void move_tile(TS S, TD D) {
  Tensor s = local_partition(S, Layout<Shape<_32, _8>>{}, threadIdx.x);
  Tensor d = local_partition(D, Layout<Shape<_32, _8>>{}, threadIdx.x);
  copy(s, d);
}
"""


def test_a_kernel_of_library_calls_has_no_read_access() -> None:
    reading = read_kernel(TILES, 256)
    assert [(a.line, a.op, a.read, a.why) for a in reading.memory][-1] == (
        7, "call copy", False, "what copy does is not in the file",
    )  # fmt: skip
    assert not any(a.read for a in reading.memory) and reading.wanted == ("TS", "TD")


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


def test_a_kernel_that_is_not_read_to_its_end_has_no_counts(monkeypatch: pytest.MonkeyPatch) -> None:
    """A loop that was left may have come to an access again."""
    monkeypatch.setattr("layoutalg.source.machine.MOST_STEPS", 60)
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
