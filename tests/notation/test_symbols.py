"""Expressions as text: what a polynomial means, and where one that is none is refused."""

from __future__ import annotations

import random

import pytest

from layoutalg.errors import ParseError, ResourceError
from layoutalg.limits import Most
from layoutalg.notation import parse_polynomial
from tests.notation.texts import rows
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


@each(("text", "position", "part"), rows("polynomials that are none"))
def test_refusals_name_the_place(text: str, position: int, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_polynomial(text, NAMES)
    assert caught.value.position == position and part in str(caught.value)


def test_length_and_nesting_are_bounded() -> None:
    for text in ("n" * (Most.LINE.number + 1), "(" * (Most.NESTING.number + 1) + "n"):
        with pytest.raises(ResourceError, match="of the polynomial"):
            parse_polynomial(text, NAMES)
