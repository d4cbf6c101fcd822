"""Launches in a source: the block of each kernel, the instance that is read, and what is not constant."""

from __future__ import annotations

from pathlib import Path

import pytest

from layoutalg.errors import UnsupportedError
from layoutalg.source import KernelReading, read_kernel, refuse_unread
from tests.sweeps import each

KERNEL = "template <class T, int N> __global__ void k(const T* a, T* b, int n) { b[threadIdx.x] = a[N]; }\n"
PLAIN = "__global__ void p(const float* a, float* b, int n) { b[threadIdx.x] = a[threadIdx.x]; }\n"
HEAD = "const float* a, float* b, int n"
RUN = f"void run({HEAD}) {{ "

SHAPES = (
    # the host's text, and the block; None where it is not constant
    (RUN + "p<<<n / 64, 64>>>(a, b, n); }", (64, 1, 1)),
    (f"#define TILE 16\n{RUN}dim3 block(TILE, TILE / 2), grid(n); p<<<grid, block>>>(a, b, n); }}",
     (16, 8, 1)),
    (f"constexpr int W = 32;\n{RUN}const int t = W * 2; auto twice = t * 2; dim3 block{{t, 2}};\n"
     "p<<<n, block, twice * sizeof(float), nullptr>>>(a, b, n); }", (64, 2, 1)),
    (RUN + "p<<<dim3(n, 2), {8, 4, 2}>>>(a, b, n); }", (8, 4, 2)),
    (f"template <int B> void of({HEAD}) {{ p<<<1, B>>>(a, b, n); }}\n{RUN}of<96>(a, b, n); }}",
     (96, 1, 1)),
    (RUN + "void* all[] = {&a, &b, &n}; cudaLaunchKernel((void*)p, dim3(n), dim3(48), all, 0, 0); }",
     (48, 1, 1)),
    (RUN + "cudaLaunchConfig_t c = {}; c.gridDim = n; c.blockDim = dim3(32, 3);\n"
     "cudaLaunchKernelEx(&c, p, a, b, n); }", (32, 3, 1)),
    (RUN + "int t = 32; if (n > 9) t = 64; p<<<1, t>>>(a, b, n); }", None),
    (f"void run({HEAD}, int t) {{ p<<<n / t, t>>>(a, b, n); }}", None),
    (RUN + "dim3 block; block.x = 32; p<<<1, block>>>(a, b, n); }", None),
    (RUN + "p<<<1, 0>>>(a, b, n); }", None),
)  # fmt: skip

INSTANCES = (
    # the host's text, and the operation that stores
    (RUN + "k<float, 3><<<n, 32>>>(a, b, n); }", "st.global.b32"),
    ("void run(const double* x, double* y) { k<double, (4 > 3)><<<1, 32>>>(x, y, 2); }", "st.global.b64"),
    ("using word = short;\nvoid run(const word* x, word* y) {\n"
     "k<word, 3><<<1, 32>>>(x, y, 2); }", "st.global.b16"),
    (f"{KERNEL.replace('class T, int N', 'class T').replace(' k(', ' d(').replace('[N]', '[0]')}"
     "void run(int n) { double *x = alloc(n), *y; d<<<1, 32>>>(x, y, n); }", "st.global.b64"),
    ("template __global__ void k<char, 2>(const char*, char*, int);", "st.global.b8"),
)  # fmt: skip

OPEN: tuple[tuple[str, str, dict[str, int | str]], ...] = (
    # the host's text, the operation that stores, and the values that are taken for what it leaves open
    ("#define GO(T, ...) k<T, __VA_ARGS__><<<n, 32>>>(a, b, n)\nvoid run(const int* a, int* b, int n) {\n"
     "GO(int, 3); }", "st.global.b32", {}),
    ("#define PICK(KERNEL, T, N) if (n == N) KERNEL<T, N><<<n, 32>>>(a, b, n);\n"
     "#define EACH(X) X(k, short, 2) X(k, double, 3)\n"
     "void run(const short* a, short* b, int n) { EACH(PICK) }",
     "st.global.b16", {}),
    ("#define SWITCH(ON, NAME, ...) if (ON) { constexpr int NAME = 5; __VA_ARGS__(); }\n"
     "void run(const char* a, char* b, int n) { SWITCH(n > 1, M, [&] { k<char, M><<<n, 32>>>(a, b, n); }) }",
     "st.global.b8", {}),
    ("void run(Tensor t) { GO(t.type(), [&] { k<scalar_t, 3><<<1, 32>>>(t.data<scalar_t>(), 0, 2); }); }",
     "st.global.b32", {"scalar_t": "float"}),
    ("template <class U> void run(const U* a, U* b, int n) { k<U, 3><<<n, 32>>>(a, b, n); }",
     "st.global.b32", {"U": "float"}),
    ("", "st.global.b32", {"T": "float", "N": 32}),
)  # fmt: skip

KINDS = (
    # parameters of a kernel that nothing launches, its statement, and the values that are taken
    ("bool B", "if (B) p[threadIdx.x] = 1; else p[threadIdx.x * 32] = 1;", {"B": 0}),
    ("Kind E", "p[threadIdx.x * E] = 1;", {"E": 0}),
    ("int N", 'static_assert(N == 48, ""); p[threadIdx.x * N] = 1;', {"N": 48}),
    ("int (*F)(int)", "p[F(threadIdx.x)] = 1;", {"F": "twice"}),
    ("float (*F)(float, int)", "p[threadIdx.x] = F(*p, 1);", {"F": "a function"}),
    ("template <class> class V", "p[threadIdx.x] = V<float>().x;", {"V": "Two"}),
    ("class T", "p[threadIdx.x] = T(1) % 2;", {"T": "int"}),
)


def read(text: str) -> KernelReading:
    return read_kernel(text)


@each("number", range(len(SHAPES)), sample=4)
def test_a_block_is_that_of_the_launch(number: int) -> None:
    host, block = SHAPES[number]
    if block is not None:
        reading = read(PLAIN + host)
        assert reading.blocks == (block,) and reading.share == 1.0
        return
    with pytest.raises(
        UnsupportedError, match=r"the block is not constant in its launch in line \d .*: --block is"
    ):
        refuse_unread(read(PLAIN + host))


@each("number", range(len(INSTANCES)), sample=3)
def test_an_instance_is_that_of_the_launch(number: int) -> None:
    host, op = INSTANCES[number]
    reading = read_kernel(KERNEL + host, 32, kernel="d" if " d(" in host else "k")
    assert [a.op for a in reading.memory if a.op.startswith("st")] == [op]
    assert reading.share == 1.0


@each("number", range(len(OPEN)), sample=4)
def test_open_names_have_values_that_are_told(number: int) -> None:
    host, op, taken = OPEN[number]
    reading = read_kernel(KERNEL + host, 32)
    assert [a.op for a in reading.memory if a.op.startswith("st")] == [op]
    assert {t.name: t.value for t in reading.taken} == taken and reading.share == 1.0
    assert all(a.depends == tuple(sorted(taken)) for a in reading.memory)
    given = {name: 1 if name == "N" else "double" for name in taken}
    if given:  # each is set by its name
        reading = read_kernel(KERNEL + host, 32, sets=given)
        assert [a.op for a in reading.memory if a.op.startswith("st")] == ["st.global.b64"]
        assert not reading.taken and not any(a.depends for a in reading.memory)


@each("number", range(len(KINDS)), sample=3)
def test_open_names_have_values_of_their_kind(number: int) -> None:
    parameter, statement, taken = KINDS[number]
    host = "void pick(int n) { run(n ? once : twice); }"
    text = "enum class Other { A }; enum Kind { NO, YES }; __device__ int twice(int n) { return 2 * n; }\n"
    text += "template <class T> struct One { }; template <class T> struct Two { T x; };\n"
    reading = read_kernel(
        f"{text}template <{parameter}> __global__ void k(float* p) {{ {statement} }}\n{host}", 32
    )
    assert {t.name: t.value for t in reading.taken} == taken and reading.share == 1.0


@pytest.mark.deep
def test_each_kernel_has_its_own_block(tmp_path: Path) -> None:
    """Those of a header that the source launches too; what no launch tells of is not read, and says so."""
    (tmp_path / "own.cuh").write_text(KERNEL + PLAIN.replace(" p(", " other("), encoding="utf-8")
    text = f"""#include "own.cuh"
{PLAIN}__global__ void q(float* b) {{ b[threadIdx.x] = blockDim.x + gridDim.x; }}
{RUN}k<float, 1><<<n, 32>>>(a, b, n); p<<<4, 256>>>(a, b, n); p<<<4, 128>>>(a, b, n); }}
"""
    reading = read_kernel(text, folder=str(tmp_path))
    assert dict(zip(reading.kernels, reading.blocks, strict=True)) == {
        "p": (256, 1, 1),
        "q": None,
        "k": (32, 1, 1),
    }
    assert [(a.kernel, a.file, a.line, a.instructions) for a in reading.memory if a.read] == [
        ("p", "", 2, 8), ("p", "", 2, 8), ("k", "own.cuh", 1, 1), ("k", "own.cuh", 1, 1)
    ]  # fmt: skip
    assert reading.notes == ("p is launched with other blocks too: --block 128x1x1, line 4",)
    (part,) = reading.unfollowed
    assert part.why == "q is not read: no launch of it is in the source: --block is wanted"
    assert read_kernel(text, 64, folder=str(tmp_path)).blocks == ((64, 1, 1),) * 3


def test_an_instance_has_the_members_of_its_base() -> None:
    text = """
template <class T> struct Base { int n = 0; T* out = nullptr; };
template <class T, bool B> struct P : Base<T> { T* more = nullptr; };
template <class T> struct Q : Base<T> { __device__ virtual void f() {} T* more = nullptr; };
__global__ void k(P<short, true> p) { p.out[threadIdx.x] = 1; p.more[threadIdx.x * 4] = 2; }
__global__ void q(Q<short> q) { q.out[threadIdx.x] = 1; }
"""
    reading = read_kernel(text, 32)
    assert [(a.line, a.op, a.array, a.total) for a in reading.memory if a.read] == [
        (5, "st.global.b16", "p.out", 2), (5, "st.global.b16", "p.more", 8)
    ]  # fmt: skip
    assert [a.line for a in reading.memory if not a.read] == [6, 6]


SWITCHED = """
#define SWITCH(condition, name, ...) \\
  [&] { if (condition) { constexpr bool name = true; return __VA_ARGS__(); } \\
        else { constexpr bool name = false; return __VA_ARGS__(); } }()
template <int N, bool Wide, class T> struct Traits { static constexpr int threads = N; using type = T; };
template <class Kernel, bool Sorted> __global__ void k(float* p) {
  __shared__ typename Kernel::type s[Kernel::threads];
  s[threadIdx.x] = ((typename Kernel::type*)p)[threadIdx.x];
}
template <int N, class T> void launch(float* p, bool a, bool b) {
  SWITCH(a, Wide, [&] {
    SWITCH(b, Sorted, [&] {
      using Kernel = Traits<N, Wide, T>;
      auto kernel = &k<Kernel, Sorted>;
      kernel<<<3, Kernel::threads>>>(p);
    });
  });
}
template void launch<96, double>(float*, bool, bool);
"""


def test_a_macro_in_the_argument_of_a_macro_is_written_out() -> None:
    """And a launch of the variable that holds the address of a kernel is one of the kernel."""
    reading = read_kernel(SWITCHED)
    assert reading.blocks == ((96, 1, 1),)
    assert [a.op for a in reading.memory if a.read] == ["st.shared.b64", "ld.global.b64"]


def test_kernels_of_one_name_are_told_apart() -> None:
    text = """
template <int N> __global__ void k(float* p) { p[threadIdx.x * N] = 1; }
template <int N> __global__ void k(double* p) { p[threadIdx.x * N] = 1; }
template <int N> __global__ void k(float* p, int n) { p[threadIdx.x * N] = n; }
template <typename T> void run(T*);
template <> void run<float>(float* p) { int rows = 1,
  n = rows * 2; k<2><<<n, 64>>>(p); k<4><<<1, 32>>>(p, rows); }
template <> void run<double>(double* p) { k<8><<<1, 96>>>(p); }
"""
    reading = read_kernel(text)
    assert reading.blocks == ((64, 1, 1), (96, 1, 1), (32, 1, 1))
    rows = [(a.op, a.instructions, a.total) for a in reading.memory]
    assert rows == [("st.global.b32", 2, 16), ("st.global.b64", 3, 96), ("st.global.b32", 1, 16)]


def test_a_number_that_nothing_declares_leaves_the_types_that_name_it() -> None:
    text = """
template <int N, bool B> struct Traits { static constexpr int width = B ? N : 1; };
template <class Traits_> __global__ void k(float* p) { p[threadIdx.x * Traits_::width] = 1; }
void run(float* p) { using Chosen = Traits<8, kSwitched>; k<Chosen><<<1, 32>>>(p); }
"""
    (access,) = read_kernel(text).memory
    assert access.total in (4, 32)
    assert [n.name for n in read_kernel(text).taken] == ["kSwitched"]
