"""Index code and generated text: what they said or computed that was not so."""

from __future__ import annotations

import pytest

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.ctext import index_function, to_c
from layoutalg.codegen.cuda import print_kernel
from layoutalg.codegen.expr import Const, Select, Var
from layoutalg.codegen.instr_sm75 import BAR
from layoutalg.errors import MismatchError
from layoutalg.hostcc import compile_shared
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from layoutalg.testing import check_index_function


def test_a_select_of_two_constants_is_unsigned() -> None:
    """`(x < 4 ? 1 : 2) * 1500000000` overflowed an int, and its sign went into the 64-bit sum."""
    x, y = Var("x", 8), Var("y", 1 << 40)
    node = y + Select(x < 4, Const(1), Const(2)) * 1_500_000_000
    assert to_c(node) == "y + (x < 4 ? 1u : 2u) * 1500000000"
    at = compile_shared(index_function(node, "at", (x, y)), language="c").at
    assert at(5, 0) & 0xFFFFFFFF == 3_000_000_000


@pytest.mark.parametrize(
    ("node", "text"),
    [
        (Const(65535) << 16, "65535u << 16"),
        ((Var("x", 8) < 4) * 2_147_483_647 + 5, "(u32)(x < 4) * 2147483647u + 5"),
        ((Var("x", 8) < 4) << 31, "(u32)(x < 4) << 31"),
        (Const(1 << 30) * 3 + Var("y", 1 << 40), "1073741824u * 3u + y"),
        (Var("x", 8) >> 70, "0"),
        (Var("y", 1 << 40) >> 64, "0"),
    ],
)
def test_nothing_is_computed_with_signed_integers(node: Var, text: str) -> None:
    assert to_c(node) == text


def test_the_end_of_a_loop_may_be_a_select() -> None:
    """`i < n < 3 ? 2 : 5` was read as `(i < n < 3) ? 2 : 5`, and the loop never ended."""
    k = KernelBuilder("turns", threads=32)
    n = k.param("n", 8)
    with k.For("i", Select(n < 3, Const(2), Const(5))):
        k.do(BAR)
    assert "for (u32 i = 0; i < (n < 3 ? 2u : 5u); ++i) {" in print_kernel(k.build())


def test_an_index_function_has_the_parameters_of_its_layout() -> None:
    """They came in alphabetical order, (col, row), and the checker refused what the library had printed."""
    tile = ComposedLayout(Swizzle(3, 0, 3), 0, Layout((8, 8), (8, 1)))
    row, col = Var("row", 8), Var("col", 8)
    for text in (index_function(tile(row, col), "swz"), index_function(tile(row, col), "swz", (row, col))):
        assert "swz(u32 row, u32 col)" in text
        check_index_function(text, tile, "swz")


def test_a_division_by_zero_ends_a_process_of_its_own() -> None:
    with pytest.raises(
        MismatchError, match=r"f ends its process at index 5 with SIGFPE \(a division by zero\)"
    ) as e:
        check_index_function("int f(int i) { return 7 / (i - 5); }", Layout(8))
    assert e.value.index == 5
