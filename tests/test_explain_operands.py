"""The signatures of the operations, read as checks of their operands."""

from __future__ import annotations

import inspect
from typing import Any

import numpy
import pytest

from layoutalg.composed import composition
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from layoutalg.explain_operands import KINDS, check_argument, check_operands, is_integer, words
from layoutalg.explanations import EXPLAINERS
from layoutalg.layout import Layout, make_identity_layout
from layoutalg.measure import size
from layoutalg.regroup import make_layout
from layoutalg.swizzle import ComposedLayout, Swizzle


@pytest.mark.parametrize("op", EXPLAINERS)
def test_every_word_of_every_signature_is_a_check(op: str) -> None:
    for parameter in inspect.signature(EXPLAINERS[op].operation).parameters.values():
        assert words(parameter.annotation), parameter
        assert set(words(parameter.annotation)) <= set(KINDS), parameter


@pytest.mark.parametrize(
    ("value", "kinds"),
    [
        (3, {"Any", "Coordinate", "IntTuple", "Tiler", "int"}),
        (numpy.int16(3), {"Any", "Coordinate", "IntTuple", "Tiler", "int"}),
        (True, {"bool"}),
        (numpy.bool_(True), set()),
        (1.0, set()),
        ("3", set()),
        (None, {"Any", "Coordinate", "None", "Tiler"}),
        (Layout(4), {"AnyLayout", "Layout", "Tiler"}),
        (ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4)), {"AnyLayout", "Tiler"}),
        (Swizzle(1, 0, 1), {"Swizzle"}),
        ((Swizzle(1, 0, 1),), {"Chain", "tuple[Swizzle, ...]"}),
        ((4, Layout(2), None), {"Tiler"}),
        ((4, (None, 2)), {"Any", "Coordinate", "Tiler"}),
        ((4, None), {"Any", "Coordinate", "Tiler", "tuple[int | None, ...]"}),
        ([4], set()),
    ],
    ids=lambda v: "" if isinstance(v, set) else str(v),
)
def test_kinds(value: Any, kinds: set[str]) -> None:
    assert {kind for kind, accepts in KINDS.items() if accepts(value)} == kinds


def test_integers() -> None:
    assert is_integer(numpy.int64(1))
    assert not is_integer(numpy.array([1]))
    assert not is_integer(Layout(4))


def test_operands_in_any_place() -> None:
    check_operands("call", composition, (Layout(4), (2, None)), {})
    check_operands("call", make_layout, (Layout(4), Layout(2)), {})
    check_operands("call", make_layout, ((4, 8),), {"stride": (8, 1)})
    with pytest.raises(ArgumentTypeError, match=r"^call: parts is 4\.5, and what is accepted is "):
        check_operands("call", make_layout, (Layout(4), 4.5), {})
    with pytest.raises(
        ArgumentTypeError, match=r"^call: got an unexpected keyword argument 'n'; accepted are"
    ):
        check_operands("call", size, (Layout(4),), {"n": 1})


def test_what_derivations_are_not_written_for() -> None:
    for value in (make_identity_layout((4, 8)), (4, make_identity_layout((4,)))):
        with pytest.raises(UnsupportedError, match="strides move along modes"):
            check_operands("call", composition, (Layout(4), value), {})


@pytest.mark.parametrize(
    ("function", "crd", "accepted"),
    [
        (Layout((4, 8)), (3,), True),
        (Layout((4, 8)), (1, 2), True),
        (Layout((4, 8)), ((1, 2),), True),
        (Layout((4, 8)), (), False),
        (Layout((4, 8)), (None,), False),
        (Swizzle(1, 0, 1), (5,), True),
        (Swizzle(1, 0, 1), (5, 5), False),
        (Swizzle(1, 0, 1), (-1,), False),
        ((Swizzle(1, 0, 1), Swizzle(1, 2, 1)), (5,), True),
        ((Swizzle(1, 0, 1), Swizzle(1, 2, 1)), ((5,),), False),
    ],
    ids=str,
)
def test_arguments(function: Any, crd: tuple[Any, ...], accepted: bool) -> None:
    if accepted:
        check_argument("call", function, crd)
    else:
        with pytest.raises(ArgumentTypeError, match=r"^call: a (swizzle|layout) takes"):
            check_argument("call", function, crd)
