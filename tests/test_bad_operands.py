"""Anything in every place of every exported operation: an answer or a LayoutAlgError, and nothing else.

Whatever `layoutalg.__all__` holds is called with none to three operands out of ANYTHING, drawn anew for each
operation by a fixed seed; an operation that is exported tomorrow is called tomorrow.  What the answers are
worth is the business of the other tests.
"""

from __future__ import annotations

import inspect
import pickle
import random
from typing import Any

import numpy
import pytest

import layoutalg
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    LayoutAlgError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.layout import ComposedLayout, Layout, ScaledBasis, Swizzle, make_identity_layout
from tests.judges.exports import algebra
from tests.sweeps import each

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


@each("name", OPERATIONS)
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


@each("name", ON_LAYOUTS)
@each("bad", [5, "x", None, (4, 8), Swizzle(1, 0, 1)], ids=str)
def test_what_is_no_layout_is_refused_by_the_operation_and_its_type(name: str, bad: Any) -> None:
    if name in ("size", "rank", "depth") and bad in (5, (4, 8)):
        return  # a shape is measured as well
    with pytest.raises(ArgumentTypeError, match=rf"{name} of .*this is a {type(bad).__name__}; a .*layout"):
        getattr(layoutalg, name)(bad)


BY_ANOTHER_NAME = {
    "Layout", "Swizzle", "ComposedLayout", "LinearLayout",  # the part that is wrong is named
    "with_assumptions",  # the operation that was handed over is
    "parse", "parse_int_tuple", "parse_tiler", "convert",  # the text is
    "rotated_layout",  # its shape is
    "code", "identify",  # the function, expression or table is
    "extremes", "find_collision", "append",  # "cosize, extremes of", "is_injective, find_collision of", a sum
}  # fmt: skip
"""Operations whose refusals begin otherwise."""


def test_a_refusal_begins_with_the_operation_that_was_called() -> None:
    """Whichever part of it refuses; the inner reason is the cause."""
    wrong = []
    for name in sorted(set(OPERATIONS) - BY_ANOTHER_NAME):
        operation, draw = getattr(layoutalg, name), random.Random(name)
        for operands in [tuple(draw.choices(ANYTHING, k=k)) for k in (1, 2, 3) for _ in range(DRAWN)]:
            try:
                operation(*operands)
            except LayoutAlgError as error:
                if not str(error).startswith(name):
                    wrong.append(f"{name}{operands}: {error}")
            except TypeError:
                pass
    assert not wrong, "\n".join(wrong)


L, ROWS = Layout((4, 8), (16, 1)), Layout((8, 8), (8, 1))

REFUSED: dict[str, tuple[tuple[Any, ...], type[LayoutAlgError], str]] = {
    "logical_divide": ((L, 3), DivisibilityError, "composition("),
    "zipped_divide": ((ROWS, (Layout((2, 2), (3, 2)), 8)), DivisibilityError, "complement of"),
    "tiled_divide": ((L, 3), DivisibilityError, "composition("),
    "flat_divide": ((L, 3), DivisibilityError, "composition("),
    "logical_product": ((Layout(4, 0), Layout((2, 2), (-1, 1))), ShapeError, "composition("),
    "zipped_product": ((Layout((2, 2), (3, 2)), 2), DivisibilityError, "complement of"),
    "tiled_product": ((Layout((2, 2), (3, 2)), 2), DivisibilityError, "complement of"),
    "flat_product": ((Layout((2, 2), (3, 2)), 2), DivisibilityError, "complement of"),
    "blocked_product": ((Layout((2, 2), (3, 2)), ROWS), DivisibilityError, "complement of"),
    "raked_product": ((Layout((2, 2), (3, 2)), ROWS), DivisibilityError, "complement of"),
    "tile_to_shape": ((Layout((2, 2), (3, 2)), (4, 4)), DivisibilityError, "complement of"),
    "local_tile": ((L, 3, 0), DivisibilityError, "composition("),
    "local_partition": ((L, Layout(3), 0), DivisibilityError, "composition("),
    "max_common_vector": ((L, make_identity_layout((4, 8))), UnsupportedError, ""),
    "recast_layout": ((Layout(8, 3), 16, 32), DivisibilityError, "upcast("),
}


def test_the_reason_of_a_refusal_is_its_cause() -> None:
    """A composition that has no layout is refused by the divide that asked for it, with its witness."""
    for name, (operands, kind, reason) in REFUSED.items():
        with pytest.raises(kind) as refused:
            getattr(layoutalg, name)(*operands)
        error = refused.value
        assert str(error) == error.message and error.message.startswith(name), name
        inner = error.__cause__
        while inner is not None and inner.__cause__ is not None:
            inner = inner.__cause__
        if reason:
            assert type(inner) is type(error) and str(inner).startswith(reason) and str(inner) in str(error)
            assert getattr(inner, "witness", None) == getattr(error, "witness", None)
            assert str(error).count(reason) == 1
        assert type(pickle.loads(pickle.dumps(error))) is kind


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
