"""Expressions as text: what a polynomial means, and where one that is none is refused."""

from __future__ import annotations

import random

import pytest

from layoutalg.errors import ParseError, ResourceError
from layoutalg.notation import parse_polynomial
from layoutalg.notation.expression_text import MAX_DIGITS, MAX_LENGTH, MAX_NESTING
from tests.sweeps import each

NAMES = {"n": 5, "ld": 64, "m_2": 7}


@each("seed", range(40))
def test_a_polynomial_means_what_it_means_in_python(seed: int) -> None:
    draw = random.Random(seed)

    def term(depth: int) -> str:
        if depth == 0:
            return draw.choice((str(draw.randint(0, 30)), *NAMES, f"{draw.choice(list(NAMES))} ** 3"))
        left, right = term(depth - 1), term(draw.randrange(depth))
        return draw.choice(
            (f"{left}{draw.choice('+-*')} {right}", f"({left} - {right})", f"-({left})*{right}")
        )

    text = term(4)
    assert parse_polynomial(text, NAMES) == eval(text, {}, dict(NAMES))  # noqa: S307


@each(
    ("text", "position", "part"),
    [
        ("", 0, "the end at character 0 of ''; expected a number, '(' or a variable (n, ld, m_2)"),
        ("n/2", 1, "'/' at character 1 of 'n/2'; expected an operator (* + - **)"),
        ("2 n", 2, "'n' at character 2"),
        ("~n", 0, "'~'"),
        ("n--1", 1, "changes a variable in C"),
        ("0x10*n", 0, "'0x10' at character 0 of '0x10*n' is not an integer; accepted are decimal ones"),
        ("2**n", 1, "'**' at character 1 of '2**n' is read as a power of a name"),
        ("n**n", 1, "a power of a name"),
        ("n**-1", 1, "a power of a name"),
        ("n**2**2", 4, "a power of a name"),
        ("n**1001", 1, "up to 1000"),
        ("k+1", 0, "unknown variable 'k' at character 0 of 'k+1': accepted are n, ld, m_2"),
        ("9" * (MAX_DIGITS + 1), 0, "integers of at most 100 digits"),
    ],
)
def test_refusals_name_the_place(text: str, position: int, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_polynomial(text, NAMES)
    assert caught.value.position == position and part in str(caught.value)


def test_length_and_nesting_are_bounded() -> None:
    for text in ("n" * (MAX_LENGTH + 1), "(" * (MAX_NESTING + 1) + "n"):
        with pytest.raises(ResourceError, match="of the polynomial"):
            parse_polynomial(text, NAMES)
