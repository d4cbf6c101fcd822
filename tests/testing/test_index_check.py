"""check_index_function on functions as people have them, and on ones that do not end well."""

from __future__ import annotations

import gc
import random
import tempfile
from pathlib import Path
from typing import Any

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
from tests.sweeps import each

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
@each(("code", "error", "said"), [
    ("int f(int r, int c) { return r / c; }", MismatchError, "ends its process at index 0 with SIGFPE"),
    ("int f(int i) { volatile int go = 1; while (go) {} return i; }", UndecidedError, "has not returned"),
    ("def f(i):\n    while True: pass", UndecidedError, "has not returned"),
    ("def f(r, c):\n    return r // c", MismatchError, "ZeroDivisionError"),
    ("def f(r, c):\n    import os\n    os._exit(3)", MismatchError, "ends its process at index 0"),
    ("int f(int i) { return  k; }", CompileError, "refused f: swz.cu:1:24: error: 'k'"),
    ("int* f(int* p, int i) { return (int*)((char*)p + i); }", MismatchError, "between two elements"),
])  # fmt: skip
def test_what_does_not_end_well_is_a_report_and_leaves_nothing(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, code: str, error: type[Exception], said: str
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    with pytest.raises(error, match=said):
        check_index_function(code, LAYOUT, label="swz.cu", timeout_s=1.0)
    gc.collect()
    assert not left_over() or error is CompileError  # whose source is kept


@pytest.mark.deep
def test_python_functions_with_and_without_a_decorator() -> None:
    check_index_function("def f(row, col):\n    return row * 8 + col", LAYOUT)
    check_index_function("import triton\n\n@triton.jit\ndef f(row, col):\n    return row * 8 + col", LAYOUT)
    check_index_function("@triton.jit\ndef f(row, col):\n    return row * 8 + col", LAYOUT)
    code = IndexCode("def f(i): return i // 4 + i % 4 * 8", "f", (4, 8), language="python")
    assert code.table(5, 2).tolist() == [9, 17]


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
    with pytest.raises(
        MismatchError, match=r"'col / row' has no value in C .*: a division by zero at .* at row=0"
    ):
        check_index_function("col / row", SWIZZLED)


@each(("code", "options", "error", "said"), [
    ("(c ^ (r % 8 * 8)) + r * 64", {}, ArgumentTypeError, "nothing says which of them is which mode"),
    ("c + r * 64", {"names": ["r", "x"]}, ArgumentTypeError, "uses c, and its names are r, x"),
    ("c + r * 64", {"names": "rc"}, ArgumentTypeError, "a list of names"),
    ("r * 64", {"names": ["r", "r"]}, ArgumentTypeError, "each is needed once"),
    ("c + r * 64", {"names": ["r", "c", "x"]}, ShapeError, "has 3 variables, r, c, x"),
    ("int f(int i) { return i; }", {"names": ["i"]}, ArgumentTypeError, "a function has its parameters"),
    ("swz", {}, CompileError, "swz"),
    ("fn f(i) {}", {"language": "rust"}, UnknownNameError, "language 'rust'"),
    ("def f(i): return i", {"function": "g"}, CompileError, "there is no g"),
    ("row * 64 + (col >= 3 && row != 2)", {}, ParseError, "is not read as Python"),
    *((text, {}, MismatchError, "the expression is not") for text in (
        "max(row, 1)", "row * 64 + (col == 3)", "row <= 1")),
])  # fmt: skip
def test_an_expression_with_two_readings_is_refused(
    code: str, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        check_index_function(code, Layout(8) if code == "swz" else SWIZZLED, **options)


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
