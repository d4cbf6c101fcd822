"""Index code in C and CUDA: every way to write the parameters, every width, and refusals that say why."""

from __future__ import annotations

import pytest

from layoutalg.errors import CompileError, MismatchError, ParseError, ShapeError
from layoutalg.layout import Layout
from layoutalg.testing.indexcode import IndexCode
from tests.sweeps import each

SHAPE = ((2, 4), 8)
LAYOUT = Layout(SHAPE, ((1, 16), 2))


@each(
    "source",
    [
        "int f(int i) { return i % 2 + i / 2 % 4 * 16 + i / 8 * 2; }",
        "int f(int row, int column) { return row % 2 + row / 2 * 16 + column * 2; }",
        "int f(int a, int b, int c) { return a + b * 16 + c * 2; }",
        "__host__ __device__ __forceinline__ unsigned f(unsigned i)\n"
        "{ return i % 2 + i / 2 % 4 * 16 + i / 8 * 2; }",
        "static __device__ constexpr long long f(short a, unsigned long long b, char c)\n"
        "{ return a + b * 16 + c * 2; }",
        "__device__ __constant__ int p = 16;\nint f(int a, int b, int c) { return a + b * p + c * 2; }",
        "#include <stdint.h>\nuint8_t f(uint8_t a, uint8_t b, uint8_t c) { return a + b * 16 + c * 2; }",
    ],
    sample=1,
)
def test_a_table_is_the_layout_however_it_is_written(source: str) -> None:
    code = IndexCode(source, "f", SHAPE)
    assert code.table(0, 64).tolist() == [LAYOUT(i) for i in range(64)]
    assert code.table(60, 4).tolist() == [LAYOUT(i) for i in range(60, 64)]


def test_the_last_digit_is_not_reduced() -> None:
    code = IndexCode("int f(int i, int j) { return 100 * i + j; }", "f", (4, 8))
    assert code.table(70, 1).tolist() == [100 * (70 % 4) + 70 // 4]


@pytest.mark.deep
def test_results_of_64_bits_keep_them() -> None:
    code = IndexCode("long long f(long long i) { return i << 31; }", "f", 8)
    assert code.table(0, 8).tolist() == [i << 31 for i in range(8)]
    narrow = IndexCode("int f(int i) { return i * 65536 * 32768u; }", "f", 8)
    assert narrow.table(2, 1).tolist() == [0]
    assert IndexCode("unsigned long long f(int i) { return 1ull << 62; }", "f", 1).table(0, 1)[0] == 1 << 62


def test_a_name_may_be_qualified_and_nothing_else() -> None:
    code = IndexCode("namespace mine { int at(int i) { return 3 * i; } }", "mine::at", 4)
    assert code.table(0, 4).tolist() == [0, 3, 6, 9]
    for name in ("f; system(1)", "f()", "", "1f", "f\n", "a::", "é"):
        with pytest.raises(ParseError, match="is not the name of a C"):
            IndexCode("int f(int i) { return i; }", name, 4)


@pytest.mark.deep
def test_another_number_of_parameters_is_refused() -> None:
    with pytest.raises(
        ShapeError, match=r"f takes 4 arguments; for the shape \(\(2,4\),8\) it may take 1, 2, 3"
    ):
        IndexCode("int f(int a, int b, int c, int d) { return 0; }", "f", SHAPE)
    with pytest.raises(ShapeError, match="f takes 0 arguments; for the shape 8 it may take 1"):
        IndexCode("int f() { return 0; }", "f", 8)
    with pytest.raises(ShapeError, match="f takes 0 arguments"):
        IndexCode("int f(int* p) { return *p; }", "f", 8)  # a pointer is a base, not a coordinate


@pytest.mark.parametrize(
    ("source", "complaint"),
    [
        ("int f(int i) { return k; }", "f:1:23: error: 'k' was not declared"),
        ("int g(int i) { return i; }", "'f' was not declared"),
        ("int f(void (*p)()) { return p; }", "error"),
        ("float f(int i) { return i; }", "index code maps integers to one"),
    ],
)
def test_what_does_not_compile_says_where(source: str, complaint: str) -> None:
    with pytest.raises(CompileError) as caught:
        IndexCode(source, "f", 8)
    assert complaint in caught.value.log


def test_a_parameter_too_narrow_for_the_domain_is_named_not_wrapped() -> None:
    code = IndexCode("int f(signed char i) { return i; }", "f", 300)
    assert code.table(0, 128).tolist() == list(range(128))
    with pytest.raises(MismatchError, match="the parameters of f cannot hold index 128") as caught:
        code.table(0, 300)
    assert caught.value.index == 128
