"""Layouts with symbols in strides and offset: with numbers they are the layouts that they look like."""

from __future__ import annotations

from typing import Any

import pytest
import sympy

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.symbolic import SymbolicLayout
from layoutalg.symbolic.question import as_symbolic
from tests.sweeps import each
from tests.symbolic.questions import ANY, LD


@pytest.mark.parametrize(
    ("layout", "text", "at_64"),
    [
        (SymbolicLayout((8, 8), (LD, 1)), "(8,8):(ld,1)", "(8,8):(64,1)"),
        (SymbolicLayout((8, (2, 4)), (2 * LD + 8, (1, LD))), "(8,(2,4)):(2*ld+8,(1,ld))",
         "(8,(2,4)):(136,(1,64))"),
        (SymbolicLayout(32, 1, (Swizzle(3, 3, 3),), 8 * LD), "Sw<3,3,3> o 8*ld o 32:1",
         "Sw<3,3,3> o 512 o 32:1"),
        (SymbolicLayout(32, LD, (Swizzle(2, 4, 3), Swizzle(1, 0, 3))),
         "Sw<2,4,3> o Sw<1,0,3> o 0 o 32:ld", "Sw<2,4,3> o Sw<1,0,3> o 0 o 32:64"),
        (SymbolicLayout(32, 1, (), LD + 1), "Sw<0,0,0> o ld+1 o 32:1", "Sw<0,0,0> o 65 o 32:1"),
    ],
)  # fmt: skip
def test_text_and_numbers(layout: SymbolicLayout, text: str, at_64: str) -> None:
    assert str(layout) == text
    assert str(layout.at({LD: 64})) == at_64


def test_numbers_agree_with_the_expressions_coordinate_by_coordinate() -> None:
    layout = SymbolicLayout((4, (2, 3)), (ANY, (2 * ANY + 1, 7)), (Swizzle(2, 0, 3),), ANY + 3)
    for value in range(70):
        found = layout.at({ANY: value})
        for i in range(4):
            for j in range(2):
                for k in range(3):
                    offset = value + 3 + i * value + j * (2 * value + 1) + 7 * k
                    assert found(i, (j, k)) == Swizzle(2, 0, 3)(offset)


def test_every_spelling_of_a_layout() -> None:
    ld = sympy.Symbol("ld", integer=True, positive=True)
    assert as_symbolic(Layout((8, 8), (ld, 1))) == as_symbolic(((8, 8), (ld, 1)))
    plain = as_symbolic(ComposedLayout(Swizzle(0, 0, 0), 5, Layout(8)))
    assert plain == SymbolicLayout(8, 1, (), 5) and as_symbolic(plain) is plain


@each(
    ("ask", "error", "message"),
    [
        (lambda: as_symbolic(7), ArgumentTypeError, "a layout or a tuple"),  # type: ignore[arg-type]
        (lambda: as_symbolic(ComposedLayout(Layout(4, 2), 0, Layout(4))), UnsupportedError, "outer layouts"),
        (lambda: as_symbolic(((LD, 4), (1, LD))), UnsupportedError, "the extent ld of shape"),
        (lambda: SymbolicLayout(8, LD / 2), ArgumentTypeError, "ld/2, which need not be an integer"),
        (lambda: SymbolicLayout(8, 1, (), LD / 2), ArgumentTypeError, "offset has ld/2, which need not"),
        (lambda: SymbolicLayout((8, 8), (LD,)), ShapeError, "stride"),
        (lambda: SymbolicLayout(8, "__import__('os')"), ArgumentTypeError, "is a str; an integer or"),
        (lambda: SymbolicLayout(8, LD).at({"ld": 3}), ArgumentTypeError, "for each sympy Symbol"),
        (lambda: SymbolicLayout(8, LD).at({LD: "3"}), ArgumentTypeError, "an integer for each"),  # type: ignore[dict-item]
        (lambda: SymbolicLayout(8, LD).at({}), UnsupportedError, "an integer is needed"),
    ],
)  # fmt: skip
def test_bad_input(ask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()
