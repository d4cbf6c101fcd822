"""C text of index expressions: widths, precedence, and agreement with the host compiler."""

from __future__ import annotations

import random
from typing import Literal

import pytest

from layoutalg.codegen import expr
from layoutalg.codegen.expr.ctext import is_wide
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.errors import IRError, ResourceError
from layoutalg.layout import Layout
from layoutalg.testing import check_index_function
from tests.draws.ctext_cases import draw_case, draw_function, index_function, nodes, source, wrong
from tests.sweeps import each

I = expr.Var("i", 1 << 20)  # noqa: E741
J = expr.Var("j", 1 << 20)
ROW, LD, COLUMN = expr.Var("row", 1 << 30), expr.Var("ld", 1 << 30, "param", 1), expr.Var("column", 1 << 30)
A32, WIDE = expr.Var("a", 1 << 32), expr.Var("wide", 1 << 40, "let", 1 << 39)
BLOCK = expr.Var("block_x", expr.Var("m", 1 << 40, "param", 1), "block")


TEXTS: list[tuple[expr.Expr, str]] = [
    (I * 4 + 1, "i * 4 + 1"),
    ((I + 1) * 4, "(i + 1) * 4"),
    (I // 4 % 8, "i / 4 % 8"),
    (I ^ (J & 3), "i ^ (j & 3)"),
    (I % 8 ^ J * 2, "(i % 8) ^ (j * 2)"),
    (((I < 4) & (J + 1 <= 7)) | I.eq(J), "i < 4 && j + 1 <= 7 || i == j"),
    (expr.Select(I < 4, I, J + 1), "i < 4 ? i : j + 1"),
    (I << 3, "i << 3"),
    (J + (expr.Const(1 << 21) - (I + J)) * 4, "j + (2097152 - (i + j)) * 4"),
    (expr.Minus(I, J + 1), "j + 1 < i ? i - (j + 1) : 0"),
    (expr.Minus(I, J) * 4, "(j < i ? i - j : 0) * 4"),
    (expr.Const(3 << 30), "3221225472u"),
    (expr.Const(1 << 40), "1099511627776ull"),
    (ROW * LD + COLUMN, "(u64)row * ld + column"),
    (ROW * LD // LD, "(u64)row * ld / ld"),
    (ROW + COLUMN, "row + column"),
    (A32 + A32, "(u64)a + a"),
    (A32 << 1, "(u64)a << 1"),
    (WIDE - I, "wide - i"),
    (expr.Const(1 << 40) - WIDE, "1099511627776ull - wide"),
    (expr.Minus(I, WIDE) + 1, "(wide < i ? i - wide : 0) + 1"),
    (BLOCK // 8 * 2048, "(u64)(block_x / 8) * 2048"),
    (expr.Const(2_000_000_000) + 2_000_000_000, "2000000000u + 2000000000u"),
    (I >> 40, "(u64)i >> 40"),
]


@each(("node", "text"), TEXTS)
def test_text_has_the_parentheses_and_the_widths_that_it_needs(node: expr.Expr, text: str) -> None:
    """Wide values are widened once and where they grow; blockIdx has 32 bits."""
    assert expr.to_c(node) == text
    assert expr.ctype(node) == ("u64" if is_wide(node) else "u32")


def test_what_has_no_text_is_refused() -> None:
    with pytest.raises(ResourceError, match="64"):
        expr.to_c(WIDE * WIDE)
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
    text = source([draw_case(rng) for _ in range(60)], "c++").replace(
        "static void f", "static __device__ void f"
    )
    assert compile_cubin(text.replace("void all", "__global__ void all"), "all", "sm_80").name == "all"


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
