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


HIDING = """\
__shared__ float s[1024];
struct Init { float x; __device__ Init() : x(s[threadIdx.x * 32]) {} };
struct InitN { float x; __device__ InitN(int i) : x(s[i * 32]) {} };
struct Member { float x = s[threadIdx.x * 32]; float y = 0; };
template <class T> struct MemberT { T x = s[threadIdx.x * 32]; };
struct Base { float x; __device__ Base() { x = s[threadIdx.x * 32]; } };
struct Derived : Base {}; struct Holder { Base base; };
template <class T> struct BaseT { T x; __device__ BaseT() { x = s[threadIdx.x * 32]; } };
template <class T> struct DerivedT : BaseT<T> {};
struct Ends { __device__ ~Ends() { s[threadIdx.x * 32] = 1; } };
struct EndsToo : Ends {}; struct EndsPart { Ends part; };
struct Copied { int i; __device__ Copied(int j) : i(j) {}
  __device__ Copied(const Copied& o) : i(o.i) { s[0] = 1; } };
struct Absent { float x; __device__ Absent(); __device__ float get(); __device__ Absent operator-(Absent); };
struct AbsentEnd { float x; __device__ ~AbsentEnd(); };
__device__ void absent(); __device__ int number(int i); template <class F> __device__ void apply(F f);
"""
MADE = ("Init a;", "InitN a(threadIdx.x);", "Member a;", "Member a{};", "MemberT<float> a;", "Derived a;",
        "Holder a;", "DerivedT<float> a;")  # fmt: skip
OUT_OF_SIGHT = (
    "Ends();", "EndsToo a;", "EndsPart a;", "Copied a(3); Copied b = a;", "Absent a;",
    "AbsentEnd a{1};", "absent();", "int i = number(3);", "MACRO_OF_A_HEADER(threadIdx.x);",
    "apply([&](int i) { s[i * 32] = 1; });",
    'asm volatile("{ UP: st.shared.f32 [%0], %1; bra UP; }" :: "r"(b), "f"(1.f));',
    'asm volatile("call put, (%0);" :: "r"(1));',
    'asm volatile("tcgen05.mma.cta_group::1.kind::f16 [%0], %1, %1, %0, 0;" :: "r"(1), "l"(2l));',
    'asm volatile("tex.1d.v4.f32.s32 {%0, %0, %0, %0}, [%1, {%2}];" : "=f"(v) : "l"(t), "r"(3));',
)  # fmt: skip
IN_SIGHT = (
    "s[threadIdx.x] = sizeof(s[threadIdx.x * 32]);", "decltype(s[threadIdx.x * 32] + 0) a = 1; s[3] = a;",
    "Plain a; Plain d{}; Plain c(3); s[threadIdx.x] = a.x + d.x + c.x;",
    "v = std::sqrt(v) + float(hexp(h) + hsqrt(h));",
    'asm volatile("tcgen05.ld.sync.aligned.32x32b.x1.b32 {%0}, [%1];" : "=r"(b) : "r"(b));',
    "cuFloatComplex z = make_float2(1.f, 2.f); v = z.x;",
)  # fmt: skip


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


@each("body", MADE)
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
    assert [(a.line, a.total) for a in reading.memory] == [(1, 4), (6, 4), (8, 4), (9, 32)]
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
