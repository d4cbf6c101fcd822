"""C text of index expressions: widths, precedence, and agreement with the host compiler."""

from __future__ import annotations

import random
from typing import Literal

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutalg.codegen import expr
from layoutalg.codegen.expr.ctext import index_function, is_wide
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.errors import IRError, ResourceError
from layoutalg.layout import AnyLayout, Layout, size
from layoutalg.testing import check_index_function, compile_shared, composed_layouts, layouts
from tests.draws.ctext_cases import draw_case, draw_function, nodes, source, wrong
from tests.sweeps import each

I = expr.Var("i", 1 << 20)  # noqa: E741
J = expr.Var("j", 1 << 20)


@each(
    ("node", "text"),
    [
        (I * 4 + 1, "i * 4 + 1"),
        ((I + 1) * 4, "(i + 1) * 4"),
        (I // 4 % 8, "i / 4 % 8"),
        (I ^ (J & 3), "i ^ (j & 3)"),
        ((I ^ J) ^ 5, "i ^ j ^ 5"),
        (I % 8 ^ J * 2, "(i % 8) ^ (j * 2)"),
        ((I < 4) & (J + 1 <= 7), "i < 4 && j + 1 <= 7"),
        (((I < 4) & (J < 4)) | I.eq(J), "i < 4 && j < 4 || i == j"),
        (expr.Select(I < 4, I, J + 1), "i < 4 ? i : j + 1"),
        (I << 3, "i << 3"),
        (expr.Const(1 << 20) - I, "1048576 - i"),
        (J + (expr.Const(1 << 21) - (I + J)) * 4, "j + (2097152 - (i + j)) * 4"),
        (expr.Minus(I, J + 1), "j + 1 < i ? i - (j + 1) : 0"),
        (expr.Minus(I, J) * 4, "(j < i ? i - j : 0) * 4"),
        (expr.Const(3 << 30), "3221225472u"),
        (expr.Const(1 << 40), "1099511627776ull"),
    ],
)
def test_text(node: expr.Expr, text: str) -> None:
    assert expr.to_c(node) == text


def test_wide_values_are_widened_once_and_where_needed() -> None:
    row, ld = expr.Var("row", 1 << 30), expr.Var("ld", 1 << 30, "param", 1)
    column = expr.Var("column", 1 << 30)
    assert expr.to_c(row * ld + column) == "(u64)row * ld + column"
    assert expr.ctype(row * ld) == "u64"
    assert expr.to_c(row * ld // ld) == "(u64)row * ld / ld"
    assert expr.to_c(row + column) == "row + column"
    assert not is_wide(row + column)


def test_the_sum_of_narrow_values_that_is_wide() -> None:
    a = expr.Var("a", 1 << 32)
    assert expr.to_c(a + a) == "(u64)a + a"
    assert expr.to_c(a << 1) == "(u64)a << 1"


def test_a_difference_is_as_wide_as_its_parts() -> None:
    wide, narrow = expr.Var("wide", 1 << 40, "let", 1 << 39), expr.Var("narrow", 1 << 20)
    assert expr.to_c(wide - narrow) == "wide - narrow"
    assert expr.to_c(expr.Const(1 << 40) - wide) == "1099511627776ull - wide"
    assert expr.ctype(expr.Const(1 << 40) - wide) == "u64"
    assert expr.to_c(expr.Minus(narrow, wide) + 1) == "(wide < narrow ? narrow - wide : 0) + 1"


def test_a_block_index_is_narrow_however_many_blocks_a_kernel_is_built_for() -> None:
    """blockIdx has 32 bits: what is made of it is widened where it grows."""
    block = expr.Var("block_x", expr.Var("m", 1 << 40, "param", 1), "block")
    assert expr.to_c(block // 8 * 2048) == "(u64)(block_x / 8) * 2048"


def test_unsimplified_literals_do_not_overflow() -> None:
    assert expr.to_c(expr.Const(2_000_000_000) + 2_000_000_000) == "2000000000u + 2000000000u"
    assert expr.to_c(expr.Var("i", 1 << 20) >> 40) == "(u64)i >> 40"


def test_more_than_64_bits_is_refused() -> None:
    a = expr.Var("a", 1 << 40)
    with pytest.raises(ResourceError, match="64"):
        expr.to_c(a * a)


def compiled(node: expr.Expr, name: str, n: int) -> list[int]:
    """The expression's C text, compiled with the host compiler, over name = 0 .. n - 1."""
    argument = "k" if expr.variables(node) else ""
    loop = f"for (u32 k = 0; k < {n}; ++k) out[k] = f({argument});"
    out = np.zeros(n, dtype=np.uint64)
    compile_shared(f"{index_function(node)}void table(u64* out) {{ {loop} }}", language="c").table(out.ctypes)
    return [int(v) for v in out]


@pytest.mark.deep
@given(st.one_of(layouts(), composed_layouts()))
def test_python_numpy_and_compiled_c_agree_on_the_whole_domain(layout: AnyLayout) -> None:
    i = expr.Var("i", min(size(layout), 4096))
    every = np.arange(i.facts.hi + 1)
    expected = [layout(int(k)) for k in every]
    assume(min(expected) >= 0)  # a negative stride is refused: index values are >= 0
    node = expr.simplify(layout(i))
    assert compiled(node, "i", len(every)) == expected
    assert np.broadcast_to(layout(every), len(every)).tolist() == expected
    assert np.broadcast_to(expr.evaluate(node, {i: every}), len(every)).tolist() == expected


def test_a_negative_stride_is_refused() -> None:
    with pytest.raises(IRError, match="non-negative"):
        Layout((4, 2), (-1, 8))(expr.Var("i", 8))


@pytest.mark.deep(but=("c",))
@pytest.mark.parametrize("language", ["c", "c++"])
def test_compiled_text_computes_the_expression_at_every_width(language: Literal["c", "c++"]) -> None:
    """Selects, shifts, comparisons and constants around 2^31, 2^32 and 2^63; the bench draws many more."""
    rng = random.Random(f"widths {language}")
    cases = [draw_case(rng) for _ in range(120)]
    kinds = {type(n) for case in cases for n in nodes(case.node)}
    names = "Add Minus Mul FloorDiv Mod Xor And Or Shl Shr Select Lt Le Eq Const Var"
    assert kinds >= {getattr(expr, name) for name in names.split()}
    assert sum(is_wide(case.node) for case in cases) > 20
    assert not wrong(cases, language)


@pytest.mark.deep
def test_nvrtc_reads_the_text_as_the_host_does() -> None:
    rng = random.Random("nvrtc")
    text = source([draw_case(rng) for _ in range(60)], "c++")
    text = text.replace("static void f", "static __device__ void f").replace(
        "void all", "__global__ void all"
    )
    assert compile_cubin(text, "all", "sm_80").name == "all"


@pytest.mark.deep
def test_the_parameters_of_a_function_are_in_the_order_that_is_asked_for() -> None:
    """Whatever the variables are called, and also where the value does not depend on all of them."""
    rng = random.Random("order")
    for _ in range(6):
        layout, text = draw_function(rng)
        check_index_function(text, layout, "place")


def test_parameters_that_make_no_function_are_refused() -> None:
    node = I * 4 + J
    assert index_function(node, "f", (J, I)).splitlines()[-1] == "u32 f(u32 j, u32 i) { return i * 4 + j; }"
    assert index_function(J * 4 + I).splitlines()[-1] == "u32 f(u32 j, u32 i) { return j * 4 + i; }"
    with pytest.raises(IRError, match="j is not among the parameters of f"):
        index_function(node, "f", (I,))
    with pytest.raises(IRError, match="two parameters of f have one name"):
        index_function(node, "f", (I, J, expr.Var("i", 8)))
