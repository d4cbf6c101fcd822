"""Anything in every place of every exported operation: an answer or a LayoutAlgError, and nothing else.

Whatever `layoutalg.__all__` holds is called with none to three operands out of ANYTHING, drawn anew for each
operation by a fixed seed; an operation that is exported tomorrow is called tomorrow.  What the answers are
worth is the business of the other tests.
"""

from __future__ import annotations

import inspect
import random
from typing import Any

import numpy
import pytest

import layoutalg
from layoutalg.errors import ArgumentTypeError, LayoutAlgError
from layoutalg.layout import ComposedLayout, Layout, ScaledBasis, Swizzle, make_identity_layout
from tests.exports import algebra

DRAWN = 120


def nested(levels: int) -> Any:
    """((((2))))"""
    value: Any = 2
    for _ in range(levels):
        value = (value,)
    return value


ANYTHING: tuple[Any, ...] = (
    *(5, 0, -1, True, 2.0, "x", None, [4], object(), numpy.int64(2), numpy.float32(2), numpy.True_),
    *((), (4, 8), (0, 4), (None, 1), (2.0, 4), nested(1000), ScaledBasis(1, 0)),
    *(Layout(4), Layout(()), Layout((4, 2), (-2, 1)), Layout((4, 2), (0, 0)), Layout((1, 1), (5, 7))),
    *(make_identity_layout((4, 8)), Swizzle(1, 0, 2), ComposedLayout(Swizzle(1, 0, 2), 1, Layout((4, 8)))),
)

OPERATIONS = [name for name in algebra() if name != "explain"]
"""explain calls any operation there is, and has its own tests."""


def _wrong_number(error: TypeError) -> bool:
    """True when Python itself refused the number of operands."""
    return any(words in str(error) for words in ("positional argument", "keyword-only", "keyword argument"))


@pytest.mark.parametrize("name", OPERATIONS)
def test_anything_gets_an_answer_or_a_named_error(name: str) -> None:
    operation = getattr(layoutalg, name)
    draw = random.Random(name)
    calls = [(), *((x,) for x in ANYTHING)]
    calls += [tuple(draw.choices(ANYTHING, k=k)) for k in (2, 3) for _ in range(DRAWN)]
    answered = 0
    for operands in calls:
        try:
            operation(*operands)
        except LayoutAlgError as error:
            assert str(error)
        except TypeError as error:
            if not _wrong_number(error):
                raise
            continue
        answered += 1
    assert answered


ON_LAYOUTS = [
    *("size", "rank", "depth", "cosize", "coalesce", "filter", "complement", "right_inverse", "left_inverse"),
    *("modes", "concat", "append", "sort", "is_injective", "image_size", "gaps", "cycles", "order", "to_f2"),
]


@pytest.mark.parametrize("name", ON_LAYOUTS)
@pytest.mark.parametrize("bad", [5, "x", None, (4, 8), Swizzle(1, 0, 1)], ids=str)
def test_what_is_no_layout_is_refused_by_the_operation_and_its_type(name: str, bad: Any) -> None:
    with pytest.raises(ArgumentTypeError, match=rf"{name} of .*this is a {type(bad).__name__}; a .*layout"):
        getattr(layoutalg, name)(bad)


def test_arities_are_enough() -> None:
    """No operation needs more than three operands, so that the calls above reach each."""
    for name in OPERATIONS:
        signature = inspect.signature(getattr(layoutalg, name))
        needed = [
            p
            for p in signature.parameters.values()
            if p.default is p.empty and p.kind in (p.POSITIONAL_ONLY, p.POSITIONAL_OR_KEYWORD)
        ]
        assert len(needed) <= 3, name
