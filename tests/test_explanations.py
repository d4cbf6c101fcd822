"""explain: every operation has a derivation, every statement in it is true, and the steps come to the answer.

Statements are read and computed by tests/paper.py; answers are held to definitions by enumeration in
tests/definitions.py.
"""

from __future__ import annotations

import importlib
import inspect
import re
from collections.abc import Callable
from types import FunctionType
from typing import Any

import pytest
import sympy
from hypothesis import given, settings
from hypothesis import strategies as st

import layoutalg
from layoutalg import algebra
from layoutalg.derivation import PAGE, Derivation, Step
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    LayoutAlgError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.explanations import EXPLAINERS, explain
from layoutalg.layout import Layout, make_identity_layout
from layoutalg.scaled_basis import ScaledBasis
from layoutalg.swizzle import ComposedLayout, Swizzle
from tests.exports import OTHER_PARTS
from tests.operands import ANY, SOURCES, Call, located
from tests.paper import Judge, proved, statements

NO_OPERATIONS = {
    "copy_tensor": "moves data",
    "explain": "is what is tested here",
    "parse": "reads text",
    "parse_int_tuple": "reads text",
    "parse_tiler": "reads text",
    "with_assumptions": "asks another operation",
}
"""Exported functions that derive nothing, and what they do."""

EXAMPLES = max(10, settings().max_examples // 4)
"""Examples for each of the operations, of which there are many."""

A = Layout((4, 8), (8, 1))
TEXTBOOK: tuple[tuple[Any, ...], ...] = (
    ("coalesce", Layout((2, (1, 6)), (1, (6, 2)))),
    ("complement", Layout((2, 2), (1, 6)), 24),
    ("composition", Layout((6, 2), (8, 2)), Layout((4, 3), (3, 1))),
    ("composition", Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))),
    ("crd2idx", (7, 5), ((2, 4), 8)),
    ("cycles", A),
    ("gaps", Layout((4, 8), (1, 6))),
    ("left_inverse", ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4)))),
    ("local_tile", Layout((8, 32), (32, 1)), (4, 8), (1, 2)),
    ("logical_divide", Layout((4, 2, 3), (2, 1, 8)), Layout(4, 2)),
    ("raked_product", Layout((2, 5), (5, 1)), Layout((3, 4))),
    ("recast_layout", Layout((8, 64), (64, 1)), 16, 128),
    ("right_inverse", A),
    ("same_function", Layout((2, 4)), Layout(8)),
    ("zipped_divide", Layout((9, (4, 8)), (59, (13, 1))), (Layout(3, 3), Layout((2, 4), (1, 8)))),
)


def test_every_operation_is_explained() -> None:
    """An operation that is added to the algebra has to be explained, and needs operands to try it on."""
    exported = {
        name
        for module in (layoutalg, algebra)
        for name in module.__all__
        if isinstance(function := getattr(module, name), FunctionType)
        and not function.__module__.startswith(OTHER_PARTS)
    }
    assert exported - set(EXPLAINERS) == set(NO_OPERATIONS)
    assert set(EXPLAINERS) == set(SOURCES)
    for name, row in EXPLAINERS.items():
        assert row.operation is getattr(layoutalg, name)


@pytest.mark.parametrize("op", EXPLAINERS)
def test_every_statement_is_true(op: str) -> None:
    @settings(max_examples=EXAMPLES)
    @given(SOURCES[op])
    def check(call: Call) -> None:
        operands, params = call
        proved(op, *operands, **params)

    check()


@given(ANY, st.data())
def test_every_value_is_explained(layout: Any, data: st.DataObject) -> None:
    index = data.draw(st.integers(0, layoutalg.size(layout) - 1))
    assert explain(layout, index).result == layout(index)
    statements(explain(layout, index))


@given(located(), st.integers(0, 500))
def test_values_at_trees_and_of_swizzles(call: Call, x: int) -> None:
    crd, shape = call[0]
    layout = Layout(shape)
    assert statements(explain(layout, crd)) and explain(layout, crd).result == layout(crd)
    for swizzle in (Swizzle(2, 1, 3), Swizzle(2, 4, -3), Swizzle(0, 4, 3), Swizzle(3, 0, 1)):
        assert statements(explain(swizzle, x)) and explain(swizzle, x).result == swizzle(x)
    chain = (Swizzle(1, 0, 2), Swizzle(2, 2, 2))
    assert statements(explain(chain, x)) and explain(chain, x).result == chain[0](chain[1](x))


@pytest.mark.parametrize("call", TEXTBOOK, ids=lambda call: str(call[0]))
def test_a_wrong_number_is_seen(call: tuple[Any, ...]) -> None:
    """Every equation that ends in a number or a layout is false with another number at its end."""
    proved(*call)
    tried = 0
    page = Judge()
    for step in explain(*call).steps:
        for statement in step.statements:
            if re.search(r" = \S*\d\)*$", statement) and not re.match(r"[A-Z]\d* = ", statement):
                wrong = re.sub(r"(\d+)(\)*)$", lambda m: f"{int(m[1]) + 1}{m[2]}", statement)
                with pytest.raises((AssertionError, LayoutAlgError)):
                    page.accept(wrong)
                tried += 1
            page.accept(statement)
    assert tried >= 1


WRONG: tuple[tuple[str, str, Callable[..., Any], tuple[Any, ...]], ...] = (
    ("compose", "composition", lambda a, b: Layout(12, 2), TEXTBOOK[2]),
    (
        "compose",
        "normal_form",
        lambda a: Layout(8, 3),
        ("normal_form", ComposedLayout(Layout(9), 1, Layout(8))),
    ),
    ("inverse", "complement", lambda a, n: Layout(2, 2), TEXTBOOK[1]),
    ("inverse", "right_inverse", lambda a: Layout(32), ("right_inverse", A)),
    ("inverse", "max_alignment", lambda a: 16, ("max_alignment", Layout((8, 4), (1, 12)))),
    ("measure", "coalesce", lambda a, p=None: Layout(12, 2), TEXTBOOK[0]),
    ("reach", "find_coordinate", lambda a, x: None, ("find_coordinate", A, 19)),
    ("reach", "extremes", lambda a: (0, 30), ("cosize", ComposedLayout(Swizzle(1, 0, 1), 0, A))),
    (
        "collisions",
        "find_collision",
        lambda a, moving=False: (0, 1),
        ("is_injective", Layout((4, 8), (1, 3))),
    ),
    ("collisions", "find_difference", lambda a, b: None, ("same_function", A, Layout(32))),
    ("collisions", "cycles", lambda a: ((1, 2), (5, 5)), ("order", A)),
    (
        "recast",
        "plain_picks",
        lambda a, runs: Layout((8, 2)),
        ("recast_layout", Layout((8, 4), (4, 1)), 8, 16),
    ),
    ("slices", "slice_and_offset", lambda c, a: (Layout((8,), (4,)), 1), ("slice_", (2, None), A)),
    ("tiles", "concat", lambda *a: Layout(4), ("blocked_product", Layout((2, 5)), Layout((3, 4)))),
    ("trees", "product", lambda a: 33, ("product", (4, 8))),
)


@pytest.mark.parametrize(
    ("module", "name", "mistake", "call"), WRONG, ids=lambda v: v if type(v) is str else ""
)
def test_a_mistake_in_a_derivation_is_seen(
    module: str,
    name: str,
    mistake: Callable[..., Any],
    call: tuple[Any, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is written with wrong pieces is contradicted by its own statements."""
    proved(*call)
    monkeypatch.setattr(importlib.import_module(f"layoutalg.explain_{module}"), name, mistake)
    with pytest.raises((AssertionError, LayoutAlgError)):
        proved(*call)


@pytest.mark.parametrize(
    ("wrong", "why"),
    [
        ("A(1) = 9", "is false"),
        ("A(c) = 8 * c for every c < 5", "is false"),
        ("B(0) = 0", "not defined"),
        ("A(1)", "states nothing"),
        ("A(1) = 8 8", "cannot read on"),
        ("A(1) is 8", "not defined|cannot read on"),
        ("A o 2:1 = 2:7", "is false"),
        ("is_injective(A) = False", "is false"),
        ("A(1) = True", "is false"),
    ],
)
def test_the_judge_refuses(wrong: str, why: str) -> None:
    page = Judge()
    page.accept("A = (4,8):(8,1)")
    page.accept("A(c) = 8 * c for every c < 4")
    with pytest.raises(AssertionError, match=why):
        page.accept(wrong)


def test_a_derivation_without_statements_is_refused() -> None:
    with pytest.raises(AssertionError, match="states nothing"):
        statements(Derivation("size(4:1)", (Step("it is clear"),), 4))


LARGE = Layout((1 << 20, 1 << 20), (1 << 20, 1))
ONE_LAYOUT = ("cosize", "cycles", "gaps", "is_bijective", "is_injective", "left_inverse", "order", "to_f2")


@pytest.mark.parametrize("op", ONE_LAYOUT)
def test_large_layouts_are_explained_without_enumeration(op: str) -> None:
    """At 2^40 coordinates, where going through them would not end."""
    for layout in (
        LARGE,
        ComposedLayout(Swizzle(3, 3, 3), 0, LARGE),
        Layout(LARGE.shape, ((1 << 20) + 1, 1)),
    ):
        derivation = explain(op, layout)
        assert derivation.steps and max(map(len, derivation.lines())) <= PAGE


# --- the call ------------------------------------------------------------------------------------------


def test_operations_are_named_or_given() -> None:
    assert explain(layoutalg.size, A) == explain("size", A)
    assert explain("is_surjective", A, codomain=8).call == "is_surjective((4,8):(8,1), codomain=8)"
    assert explain("coalesce", A).answer == "= (4,8):(8,1)"


def test_the_refusal_is_the_last_line() -> None:
    derivation = explain("composition", Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3)))
    assert isinstance(derivation.refusal, DivisibilityError) and derivation.result is None
    assert derivation.answer.startswith("refused, DivisibilityError (witness 5): composition((6,2):(1,7)")


N = sympy.Symbol("n", integer=True, positive=True)


@pytest.mark.parametrize("op", EXPLAINERS)
@pytest.mark.parametrize(
    "value", [Layout((N, 4)), N, make_identity_layout((4, 8)), ScaledBasis(1, 0)], ids=str
)
def test_symbols_and_coordinates_are_refused_by_name(op: str, value: Any) -> None:
    parameters = inspect.signature(EXPLAINERS[op].operation).parameters.values()
    count = sum(p.default is p.empty and p.kind is not p.KEYWORD_ONLY for p in parameters)
    for operands in ((value,) * count, ((4, value),) * count):
        with pytest.raises(UnsupportedError, match=r"^explain of .*; integers are accepted$"):
            explain(op, *operands)
    with pytest.raises(UnsupportedError, match=r"^explain of .*; integers are accepted$"):
        explain(A, value)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (("compose", A), UnknownNameError, "operation"),
        ((len, A), UnknownNameError, "operation"),
        (("size",), ArgumentTypeError, r"size\(\): missing a required argument"),
        (("size", 8), ArgumentTypeError, "layout is 8, and what is accepted is AnyLayout"),
        (("size", A, A), ArgumentTypeError, "too many positional arguments"),
        (("product", True), ArgumentTypeError, "what is accepted is IntTuple"),
        (("product", 1.5), ArgumentTypeError, "what is accepted is IntTuple"),
        (("composition", A, "4:1"), ArgumentTypeError, "what is accepted is Tiler"),
        ((A, 1.0), ArgumentTypeError, "a layout takes a coordinate of integers"),
        ((A,), ArgumentTypeError, "a layout takes a coordinate of integers"),
        ((Swizzle(1, 0, 1), -1), ArgumentTypeError, "a swizzle takes one integer"),
    ],
    ids=lambda v: str(v)[:40],
)
def test_what_cannot_be_explained(call: tuple[Any, ...], error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        explain(*call)


def test_deep_nesting_is_refused() -> None:
    deep: Any = 2
    for _ in range(1000):
        deep = (deep,)
    for call in [("product", deep), ("composition", A, deep), ("slice_", deep, A), (A, deep)]:
        with pytest.raises(ShapeError, match="nested deeper than 64 levels"):
            explain(*call)


def test_numpy_integers_are_integers() -> None:
    import numpy

    assert explain("product", (numpy.int64(4), 8)).result == 32
    assert explain("complement", Layout(4), numpy.int32(24)).answer == "= 6:4"
