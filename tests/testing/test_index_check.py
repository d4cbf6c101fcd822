"""check_index_function on functions as people have them, and on ones that do not end well."""

from __future__ import annotations

import gc
import random
import tempfile
from pathlib import Path

import pytest

from layoutalg import Layout, Swizzle, composition
from layoutalg.errors import (
    ArgumentTypeError,
    CompileError,
    MismatchError,
    ParseError,
    ShapeError,
    UndecidedError,
    UnknownNameError,
)
from layoutalg.testing import check_index_function
from layoutalg.testing.cuda_shim import body_of, headers_of, is_of_cuda, prepared
from layoutalg.testing.indexcode import IndexCode

LAYOUT = Layout((4, 8), (8, 1))

SOURCE = """
#include <cuda_runtime.h>
#include <cuda_fp16.h>
#include <mma.h>
#include "not_there/tile.cuh"
#define LD 8
#define AT(r, c) ((r) * LD + (c))
template <int N> __device__ __forceinline__ size_t pitch(size_t r, size_t c) { return r * N + c; }
struct Tile { __device__ int operator()(int r, int c) const { return AT(r, c); } };
auto lambda = [] __device__ (int r, int c) { return AT(r, c); };
auto generic = [](auto r, auto c) { return AT(r, c); };
__device__ int both(int2 rc) { return rc.x * LD + rc.y; }
__device__ half* pointer(half* base, int r, int c) { return base + AT(r, c); }
__device__ float& reference(float* base, const int& r, const int c) { return base[AT(r, c)]; }
__device__ unsigned by_thread(int u) { return __umul24(threadIdx.x, LD) + u; }
__device__ int all_threads() { return AT(threadIdx.x, threadIdx.y); }
namespace tile { __device__ constexpr long long at(long long r, long long c) noexcept { return r * LD + c; } }
__device__ int bits(int r, int c) { return r * LD + c + __popc(0) + __ffs(0) + min(r, 0) + __brev(0u); }
__global__ void kernel(const half* __restrict__ p) {
    extern __shared__ float smem[];
    asm volatile("ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%0}, [%1];" :: "r"(0));
    smem[threadIdx.x] = 0.f;
    __syncthreads();
}
int main() { kernel<<<dim3(1, 2), 32>>>(nullptr); }
"""
FUNCTIONS = (
    *("AT", "pitch<8>", "Tile", "lambda", "generic", "both", "pointer", "reference", "by_thread"),
    *("all_threads", "tile::at", "bits"),
)


def left_over() -> set[str]:
    """Private folders of this process's tables that are there."""
    return {path.name for path in Path(tempfile.gettempdir()).glob("layoutalg-*")}


@pytest.mark.deep
def test_a_whole_file_of_cuda_is_checked_function_by_function(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    for function in FUNCTIONS:
        check_index_function(SOURCE, LAYOUT, function)
    with pytest.raises(
        MismatchError, match=r"pitch<9> is not \(4,8\):\(8,1\): at 1 = \(1,0\) it returns 9 instead of 8"
    ):
        check_index_function(SOURCE, LAYOUT, "pitch<9>")
    gc.collect()
    assert not left_over()


@pytest.mark.deep
def test_what_does_not_end_well_is_a_report_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(MismatchError, match="ends its process at index 0 with SIGFPE"):
        check_index_function("int f(int r, int c) { return r / c; }", LAYOUT)
    with pytest.raises(UndecidedError, match="has not returned at index 0 after 1 s"):
        check_index_function(
            "int f(int i) { volatile int go = 1; while (go) {} return i; }", LAYOUT, timeout_s=1.0
        )
    with pytest.raises(UndecidedError, match="has not returned at index 0 after 1 s"):
        check_index_function("def f(i):\n    while True: pass", LAYOUT, timeout_s=1.0)
    with pytest.raises(MismatchError, match="ZeroDivisionError"):
        check_index_function("def f(r, c):\n    return r // c", LAYOUT)
    with pytest.raises(MismatchError, match="ends its process at index 0"):
        check_index_function("def f(r, c):\n    import os\n    os._exit(3)", LAYOUT)
    with pytest.raises(
        CompileError, match=r"the compiler refused f: swz\.cu:1:24: error: 'k' was not declared"
    ):
        check_index_function("int f(int i) { return  k; }", LAYOUT, label="swz.cu")
    with pytest.raises(CompileError, match="there is no g in the text"):
        check_index_function("def f(i): return i", LAYOUT, "g")
    with pytest.raises(MismatchError, match="points between two elements at index 1"):
        check_index_function("int* f(int* p, int i) { return (int*)((char*)p + i); }", LAYOUT)
    with pytest.raises(UnknownNameError, match="unknown language 'rust'"):
        check_index_function("fn f(i) {}", LAYOUT, language="rust")
    gc.collect()
    assert not left_over()


@pytest.mark.deep
def test_python_functions_with_and_without_a_decorator() -> None:
    check_index_function("def f(row, col):\n    return row * 8 + col", LAYOUT)
    check_index_function("import triton\n\n@triton.jit\ndef f(row, col):\n    return row * 8 + col", LAYOUT)
    check_index_function("@triton.jit\ndef f(row, col):\n    return row * 8 + col", LAYOUT)
    code = IndexCode("def f(i): return i // 4 + i % 4 * 8", "f", (4, 8), language="python")
    assert code.table(5, 2).tolist() == [9, 17]


def test_a_table_may_be_asked_for_by_its_process_alone(tmp_path: Path) -> None:
    """What the code writes to its own standard output, or into its folder, changes no answer."""
    noisy = '#include <cstdio>\nint f(int i) { printf("%d\\n", i); return i % 4 * 8 + i / 4; }'
    check_index_function(noisy, LAYOUT)
    check_index_function("def f(i):\n    print(i)\n    return i % 4 * 8 + i // 4", LAYOUT)


def test_text_is_prepared_without_moving_a_line() -> None:
    text = 'void g() {\n  k<int, 4><<<grid(1, 2),\n    32>>>(a(1), "x)");\n  asm("a)b"\n : : );'
    text += "\n  int x = 1 << 2;\n}"
    made = prepared(text)
    assert made.count("\n") == text.count("\n") and "<<<" not in made and "asm" not in made
    assert "int x = 1 << 2;" in made
    assert prepared("a <<< b") == "a <<< b" and prepared("asm(") == "asm("
    assert headers_of('#include <a.h>\n# include "b/c.h"\n#include "../../etc/x"\n#include </abs>') == (
        "a.h",
        "b/c.h",
    )
    assert is_of_cuda("cute/tensor.hpp") and not is_of_cuda("vector")
    assert body_of("int f(int); int f(int i) { return g(i, {1}); }", "f") == " return g(i, {1}); "


def test_headers_beside_a_file_are_found(tmp_path: Path) -> None:
    (tmp_path / "tile.cuh").write_text("#define LD 8\n")
    source = '#include "tile.cuh"\n__device__ int f(int r, int c) { return r * LD + c; }'
    check_index_function(source, LAYOUT, folders=(tmp_path,))
    with pytest.raises(CompileError, match="'LD' was not declared"):
        check_index_function(source, LAYOUT)


SWIZZLED = composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))


def test_an_expression_is_taken_as_analyze_reads_it() -> None:
    check_index_function("(col ^ (row % 8 * 8)) + row * 64", SWIZZLED)
    check_index_function("row * 64 + (col ^ row // 1 % 8 * 8)", SWIZZLED, language="python")
    check_index_function("(c ^ (r % 8 * 8)) + r * 64", SWIZZLED, names=["r", "c"])
    check_index_function("i % 4 * 8 + i / 4", LAYOUT)
    check_index_function("row", Layout((8, 64), (1, 0)))
    check_index_function("j", Layout((8, 64), (0, 1)))
    check_index_function("k * 6 + j * 2 + i", Layout((2, 3, 5)))
    check_index_function("a + 2 * b", Layout(((2, 3), 5), ((1, 2), 0)), names=["a", "b", "c"])
    with pytest.raises(MismatchError, match=r"the expression is not .* at 4 = \(4,0\) it returns 256"):
        check_index_function("(col ^ (row % 4 * 8)) + row * 64", SWIZZLED)
    with pytest.raises(MismatchError, match="'/' at character 4 of 'col / row' divides by zero at row=0"):
        check_index_function("col / row", SWIZZLED)


def test_an_expression_with_two_readings_is_refused() -> None:
    with pytest.raises(ArgumentTypeError, match=r"nothing says which of them is which mode of .* give names"):
        check_index_function("(c ^ (r % 8 * 8)) + r * 64", SWIZZLED)
    with pytest.raises(ArgumentTypeError, match="the expression uses c, and its names are r, x"):
        check_index_function("c + r * 64", SWIZZLED, names=["r", "x"])
    with pytest.raises(ArgumentTypeError, match="names is 'rc': a list of names"):
        check_index_function("c + r * 64", SWIZZLED, names="rc")
    with pytest.raises(ArgumentTypeError, match="names are r, r: each is needed once"):
        check_index_function("r * 64", SWIZZLED, names=["r", "r"])
    with pytest.raises(ShapeError, match=r"has 3 variables, r, c, x; for the shape \(8,64\) it may"):
        check_index_function("c + r * 64", SWIZZLED, names=["r", "c", "x"])
    with pytest.raises(ArgumentTypeError, match="a function has its parameters"):
        check_index_function("int f(int i) { return i; }", LAYOUT, names=["i"])
    with pytest.raises(CompileError, match="swz"):
        check_index_function("swz", Layout(8))
    with pytest.raises(ParseError, match="expected an operator"):
        check_index_function("max(row, 1)", SWIZZLED)
    for comparison in ("row * 64 + (col == 3)", "row * 64 + (col >= 3 && row != 2)", "row <= 1"):
        with pytest.raises(ParseError, match="expected an operator"):
            check_index_function(comparison, SWIZZLED)
    check_index_function("i % 4 * 8 +\n i / 4", LAYOUT)


@pytest.mark.deep
def test_a_function_of_an_expression_and_the_expression_are_judged_alike() -> None:
    """A seeded law: of drawn padded and swizzled tiles, right and wrong."""
    rng = random.Random(20261129)
    for _ in range(3):
        rows, bits, vector, pad = (rng.choice(x) for x in ((3, 8), (1, 2, 3), (1, 4), (0, 8)))
        columns = vector << bits
        swizzle = Swizzle(bits, vector.bit_length() - 1, bits)
        tile = Layout((rows, columns), (columns + pad, 1)) if pad else Layout((rows, columns), (columns, 1))
        meant = tile if pad else composition(swizzle, tile)
        right = (
            f"row * {columns + pad} + col"
            if pad
            else f"row * {columns} + (col ^ row % {1 << bits} * {vector})"
        )
        for text in (right, right.replace("row *", "row * 2 *", 1)):
            verdicts = set()
            for code in (text, f"def f(row, col): return {text}"):
                try:
                    check_index_function(code, meant)
                except MismatchError as error:
                    verdicts.add(error.index)
                else:
                    verdicts.add(-1)
            assert len(verdicts) == 1 and (verdicts == {-1}) == (text == right)
