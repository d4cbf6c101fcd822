"""Strange input to every operation: an answer or a named error, whatever it is.

One table of operations, each called on every kind of strange value in every place.  NumPy integers are
integers; bool and float are refused; negative strides are exact or refused as NEGATIVE says; empty tuples,
extents of 1 and nesting of a thousand levels never end in anything but an answer or a LayoutAlgError.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy
import pytest

import layoutalg as la
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.layout import MAX_DEPTH, ComposedLayout, Layout, Swizzle
from tests.judges.brute import table

A = Layout((4, 8), (8, 1))
B = Layout(4, 2)
Call = Callable[[Any], object]


def nested(levels: int, leaf: Any = 2) -> Any:
    """((((leaf))))"""
    for _ in range(levels):
        leaf = (leaf,)
    return leaf


ON_A_LAYOUT: dict[str, Call] = {
    **{
        name: getattr(la, name)
        for name in (
            *("size", "rank", "depth", "cosize", "coalesce", "coalesce_x", "filter", "filter_zeros"),
            *("complement", "right_inverse", "left_inverse", "nullspace", "max_alignment"),
            *("make_layout_like", "flatten", "sort", "append", "prepend", "normal_form", "find_collision"),
            *("is_injective", "is_surjective", "is_bijective", "image_size", "is_contiguous"),
            *("footprint", "gaps", "aliasing", "extremes", "cycles", "order", "make_layout"),
        )
    },
    "composition, left": lambda a: la.composition(a, B),
    "composition, right": lambda a: la.composition(A, a),
    "logical_divide": lambda a: la.logical_divide(a, 2),
    "logical_divide, tiler": lambda a: la.logical_divide(A, a),
    "zipped_divide": lambda a: la.zipped_divide(a, B),
    "tiled_divide": lambda a: la.tiled_divide(a, B),
    "flat_divide": lambda a: la.flat_divide(a, B),
    "logical_product": lambda a: la.logical_product(a, B),
    "logical_product, copies": lambda a: la.logical_product(A, a),
    "zipped_product": lambda a: la.zipped_product(a, B),
    "tiled_product": lambda a: la.tiled_product(a, B),
    "flat_product": lambda a: la.flat_product(a, B),
    "blocked_product": lambda a: la.blocked_product(a, B),
    "blocked_product, copies": lambda a: la.blocked_product(B, a),
    "raked_product": lambda a: la.raked_product(a, B),
    "tile_to_shape": lambda a: la.tile_to_shape(a, (64, 64)),
    "max_common_layout": lambda a: la.max_common_layout(a, A),
    "max_common_vector": lambda a: la.max_common_vector(A, a),
    "upcast": lambda a: la.upcast(a, 2),
    "downcast": lambda a: la.downcast(a, 2),
    "recast_layout": lambda a: la.recast_layout(a, 16, 32),
    "group": lambda a: la.group(a, 0, 1),
    "select": lambda a: la.select(a, 0),
    "replace": lambda a: la.replace(a, 0, B),
    "slice_": lambda a: la.slice_(None, a),
    "dice": lambda a: la.dice(0, a),
    "slice_and_offset": lambda a: la.slice_and_offset(0, a),
    "domain_offset": lambda a: la.domain_offset(0, a),
    "local_tile": lambda a: la.local_tile(a, 2, 0),
    "local_partition": lambda a: la.local_partition(a, Layout(2), 0),
    "local_partition, threads": lambda a: la.local_partition(A, a, 0),
    "same_function": lambda a: la.same_function(a, a),
    "find_difference": lambda a: la.find_difference(a, a),
    "find_offset_bit": lambda a: la.find_offset_bit(a, 1),
    "find_coordinate": lambda a: la.find_coordinate(a, 3),
    "find_overlap": lambda a: la.find_overlap(a, A),
    "overlap": lambda a: la.overlap(A, a),
}
"""Operations as functions of one layout, the others being harmless."""

ON_A_NUMBER: dict[str, Call] = {
    "Layout": lambda n: Layout(n),
    "Layout, shape": lambda n: Layout((n, 4)),
    "Layout, stride": lambda n: Layout((2, 4), (n, 1)),
    "call": lambda n: A(n),
    "call, mode": lambda n: A(0, n),
    "complement": lambda n: la.complement(B, n),
    "composition": lambda n: la.composition(A, n),
    "logical_divide": lambda n: la.logical_divide(A, n),
    "zipped_divide": lambda n: la.zipped_divide(A, (n, n)),
    "tiled_divide": lambda n: la.tiled_divide(A, n),
    "flat_divide": lambda n: la.flat_divide(A, n),
    "logical_product": lambda n: la.logical_product(A, n),
    "flat_product": lambda n: la.flat_product(A, n),
    "tile_to_shape": lambda n: la.tile_to_shape(B, n),
    "make_ordered_layout": lambda n: la.make_ordered_layout((n, 4), (1, 0)),
    "upcast": lambda n: la.upcast(A, n),
    "downcast": lambda n: la.downcast(A, n),
    "recast_layout": lambda n: la.recast_layout(A, n, 4),
    "coalesce": lambda n: la.coalesce(A, (n, n)),
    "append": lambda n: la.append(A, rank=n),
    "group": lambda n: la.group(Layout((2, 2, 2)), 0, n),
    "select": lambda n: la.select(Layout((2, 2, 2)), n),
    "replace": lambda n: la.replace(Layout((2, 2, 2)), n, B),
    "slice_": lambda n: la.slice_((n, None), A),
    "dice": lambda n: la.dice((n, None), A),
    "domain_offset": lambda n: la.domain_offset((n, 0), A),
    "local_tile": lambda n: la.local_tile(A, (n, 2), (0, 0)),
    "local_partition": lambda n: la.local_partition(A, Layout((2, 4)), n),
    "ceil_div": lambda n: la.ceil_div(7, n),
    "shape_div": lambda n: la.shape_div((4, 8), n),
    "crd2crd": lambda n: la.crd2crd(n, (4, 8), 32),
    "find_coordinate": lambda n: la.find_coordinate(A, n),
    "Swizzle": lambda n: Swizzle(n, n, n),
    "ComposedLayout": lambda n: ComposedLayout(Swizzle(1, 0, 1), n, A),
}
"""Operations as functions of one number."""

NEGATIVE: dict[str, str] = dict.fromkeys(
    (
        *("complement", "left_inverse", "composition, right"),
        *("logical_divide, tiler", "logical_product", "zipped_product", "tiled_product", "flat_product"),
        *("logical_product, copies", "blocked_product", "blocked_product, copies", "raked_product"),
        *("tile_to_shape", "cycles", "order"),
    ),
    "refused",
)
"""What each operation does with a negative stride: refused by name, or (all others) an exact answer."""

STRANGE: dict[str, Any] = {
    "one element": Layout(1),
    "all ones": Layout((1, (1, 1))),
    "ones with strides": Layout((1, 1), (5, 7)),
    "empty": Layout(()),
    "empty inside": Layout(((), 4), ((), 2)),
    "broadcast": Layout((4, 2), (0, 0)),
    "deep": Layout(nested(MAX_DEPTH - 1)),
    "huge": Layout((1 << 40, 1 << 20), (1 << 21, 1)),
    "overlapping": Layout((5, 7, 4), (3, 5, 2)),
    "no swizzle": ComposedLayout(Swizzle(0, 0, 0), 3, A),
    "swizzled": ComposedLayout(Swizzle(1, 0, 2), 1, A),
    "layout outside": ComposedLayout(Layout((6, 10), (3, 1)), 1, ComposedLayout(Swizzle(1, 0, 2), 1, A)),
    "negative": Layout((4, 2), (-2, 1)),
}


def outcome(call: Call, value: Any) -> object:
    """The answer, or the LayoutAlgError that refuses; whatever else is raised comes back as it is."""
    try:
        return call(value)
    except Exception as error:  # noqa: BLE001
        return error


def surprises(calls: dict[str, Call], values: dict[str, Any]) -> list[str]:
    """The calls that end in neither an answer nor a LayoutAlgError with a text."""
    return [
        f"{name} of {what}: {found!r}"
        for name, call in calls.items()
        for what, value in values.items()
        if isinstance(found := outcome(call, value), Exception)
        and not (isinstance(found, LayoutAlgError) and str(found))
    ]


def test_a_strange_layout_gets_an_answer_or_a_named_error() -> None:
    assert not (found := surprises(ON_A_LAYOUT, STRANGE)), "\n".join(found)


def test_negative_strides_are_exact_or_refused_as_documented() -> None:
    refused = {
        name
        for name, call in ON_A_LAYOUT.items()
        if isinstance(outcome(call, STRANGE["negative"]), Exception)
    }
    assert refused == set(NEGATIVE)


NO_INTEGERS = {
    "bool": True,
    "numpy.bool": numpy.True_,
    "float": 2.0,
    "float32": numpy.float32(2),
    "str": "2",
}


def test_what_is_no_integer_is_refused() -> None:
    taken = [
        f"{name} of {what}: {found!r}"
        for name, call in ON_A_NUMBER.items()
        for what, bad in NO_INTEGERS.items()
        if not isinstance(found := outcome(call, bad), ArgumentTypeError)
    ]
    assert not taken, "\n".join(taken)


def test_numpy_integers_are_integers() -> None:
    def told(found: object) -> tuple[object, str]:
        return (type(found), "") if isinstance(found, LayoutAlgError) else (found, str(found))

    different = [
        f"{name} of {kind.__name__}({number}): {got!r}, not {wanted!r}"
        for name, call in ON_A_NUMBER.items()
        for number in (2, 1)
        for kind in (numpy.int64, numpy.uint8)
        if (got := told(outcome(call, kind(number)))) != (wanted := told(outcome(call, number)))
    ]
    assert not different, "\n".join(different)


STRANGE_NUMBERS: dict[str, Any] = {
    "0": 0,
    "-1": -1,
    "()": (),
    "deep": nested(1000),
    "deep and 4": (nested(1000), 4),
    "None": None,
}


def test_strange_numbers_get_an_answer_or_a_named_error() -> None:
    assert not (found := surprises(ON_A_NUMBER, STRANGE_NUMBERS)), "\n".join(found)


TREES: dict[str, Call] = {
    "congruent": lambda t: la.congruent(t, t),
    "weakly_congruent": lambda t: la.weakly_congruent(t, t),
    "compatible": lambda t: la.compatible(t, t),
    "product": la.product,
    "flatten": la.flatten,
    "unflatten": lambda t: la.unflatten((2,), t),
    "crd2idx": lambda t: la.crd2idx(t, t),
    "idx2crd": lambda t: la.idx2crd(0, t),
    "slice_, layout": lambda t: la.slice_(t, Layout(2)),
    "coalesce": lambda t: la.coalesce(A, t),
}


def test_a_thousand_levels_never_exhaust_the_stack() -> None:
    assert not (found := surprises(TREES, {"a thousand levels": nested(1000)})), "\n".join(found)


def test_results_that_nest_without_end_are_refused() -> None:
    layout = A
    with pytest.raises(ShapeError, match="nested deeper"):
        for _ in range(200):
            layout = la.group(layout, 0, 1)
    assert table(layout) == table(A)
