"""The table of operations: what takes symbols, what takes strides along modes, each with a call of it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from layoutalg.layout import ArithTuple, Layout, ScaledBasis, Swizzle, make_identity_layout, size
from tests.draws.symbolic_cases import K, M, N

Call = Callable[[Any], Any]

A, TILE = Layout((N, M), (1, N)), Layout((4, N), (1, 4))
I = make_identity_layout((4, 8))  # noqa: E741
COPIES = Layout((2, 2), (1, 2))
ALONG = Layout((4, 2), (ScaledBasis(1, 0), ScaledBasis(4, 0)))


def integers_alone(a: Layout) -> dict[str, Call]:
    """Calls of what asks which offsets a layout has: refused by name unless all leaves are integers."""
    alone = (
        *("aliasing", "cycles", "find_collision", "footprint", "gaps", "image_size", "is_bijective"),
        *("is_contiguous", "is_injective", "is_surjective", "make_layout_like", "order"),
        *("make_fragment_like", "max_alignment", "nullspace", "sort", "to_f2"),
    )
    return {
        **{name: lambda f: f(a) for name in alone},
        "ComposedLayout": lambda f: f(Swizzle(1, 0, 2), 0, a),
        "Tensor": lambda f: f(numpy.zeros(32), a),
        "find_coordinate": lambda f: f(a, 3),
        "find_offset_bit": lambda f: f(a, 2),
        "find_overlap": lambda f: f(a, a),
        "max_common_layout": lambda f: f(a, a),
        "max_common_vector": lambda f: f(a, a),
        "overlap": lambda f: f(a, a),
    }


OFFSETS_ALONE: dict[str, Call] = {
    "complement": lambda f: f(I, 64),
    "cosize": lambda f: f(I),
    "downcast": lambda f: f(I, 2),
    "extremes": lambda f: f(I),
    "left_inverse": lambda f: f(I),
    "recast_layout": lambda f: f(I, 16, 32),
    "right_inverse": lambda f: f(I),
    "upcast": lambda f: f(I, 2),
}
"""What takes symbols, and refuses strides along modes by name."""


def _on_a_layout(a: Layout) -> dict[str, Call]:
    """Calls that are made alike on both kinds of layout."""
    alone = (
        *("append", "coalesce", "coalesce_x", "depth", "filter", "filter_zeros", "flatten", "modes"),
        *("normal_form", "prepend", "rank", "size"),
    )
    return {
        **{name: lambda f: f(a) for name in alone},
        "Layout": lambda f: f(a.shape, a.stride),
        "concat": lambda f: f(a, a),
        "congruent": lambda f: f(a.shape, a.stride),
        "crd2idx": lambda f: f((0, 1), a.shape, a.stride),
        "dice": lambda f: f((None, 1), a),
        "domain_offset": lambda f: f((1, 1), a),
        "find_difference": lambda f: f(a, a),
        "flat_divide": lambda f: f(a, (4, 8)),
        "group": lambda f: f(a, 0, 2),
        "local_partition": lambda f: f(a, COPIES, 3),
        "local_tile": lambda f: f(a, (2, 2), (0, 1)),
        "logical_divide": lambda f: f(a, (4, 8)),
        "make_layout": lambda f: f(a, a),
        "replace": lambda f: f(a, 0, Layout(2)),
        "same_function": lambda f: f(a, a),
        "select": lambda f: f(a, 1),
        "slice_": lambda f: f((None, 1), a),
        "slice_and_offset": lambda f: f((None, 1), a),
        "tiled_divide": lambda f: f(a, (4, 8)),
        "unflatten": lambda f: f(a, (0, 0)),
        "weakly_congruent": lambda f: f(a.shape, a.stride),
        "with_assumptions": lambda f: f(size, a),
        "zipped_divide": lambda f: f(a, (4, 8)),
    }


WITH_SYMBOLS: dict[str, Call] = {
    **_on_a_layout(A),
    "cosize": lambda f: f(A),
    "extremes": lambda f: f(A),
    "ArithTuple": lambda f: f((N, (0, M))),
    "ScaledBasis": lambda f: f(N, 0),
    "blocked_product": lambda f: f(A, Layout((2, K))),
    "ceil_div": lambda f: f((N, M), (4, 2)),
    "compatible": lambda f: f(N * M, (N, M)),
    "complement": lambda f: f(TILE, 16 * N),
    "composition": lambda f: f(A, Layout((N, M), (1, N))),
    "crd2crd": lambda f: f((0, K - 1), (N, M), (M, N)),
    "crd2idx": lambda f: f((0, K - 1), (N, M)),
    "downcast": lambda f: f(A, 2),
    "find_difference": lambda f: f(A, Layout(N * M)),
    "flat_product": lambda f: f(A, Layout(4)),
    "idx2crd": lambda f: f(K, (N, M)),
    "left_inverse": lambda f: f(A),
    "local_tile": lambda f: f(A, (2, 2), (K - 1, 0)),
    "logical_product": lambda f: f(A, Layout(4)),
    "make_basis_like": lambda f: f((N, M)),
    "make_identity_layout": lambda f: f((N, M)),
    "make_ordered_layout": lambda f: f((N, M), (1, 0)),
    "parse": lambda f: f("(n,4*m):(1,n)", {"n": N, "m": M}),
    "product": lambda f: f((N, (M, 2))),
    "raked_product": lambda f: f(A, Layout((2, K))),
    "recast_layout": lambda f: f(Layout((2 * N, M), (1, 4 * N)), 16, 32),
    "right_inverse": lambda f: f(A),
    "same_function": lambda f: f(A, Layout(N * M)),
    "shape_div": lambda f: f((4 * N, M), (2, M)),
    "tile_to_shape": lambda f: f(Layout((8, 8)), (N, M)),
    "tiled_product": lambda f: f(A, Layout(4)),
    "upcast": lambda f: f(Layout((4 * N, 2, M), (2, 1, 8 * N)), 4),
    "zipped_product": lambda f: f(A, Layout(4)),
}
"""What takes symbols, on symbols."""

WITH_BASES: dict[str, Call] = {
    **_on_a_layout(I),
    "blocked_product": lambda f: f(ALONG, COPIES),
    "composition": lambda f: f(I, Layout((2, 4), (2, 4))),
    "flat_product": lambda f: f(ALONG, Layout(4)),
    "logical_product": lambda f: f(ALONG, Layout(4)),
    "parse": lambda f: f("(4,8):(1@0,1@1)"),
    "raked_product": lambda f: f(ALONG, COPIES),
    "tile_to_shape": lambda f: f(ALONG, (8, 8)),
    "tiled_product": lambda f: f(ALONG, Layout(4)),
    "zipped_product": lambda f: f(ALONG, Layout(4)),
}
"""What takes strides along modes, on such strides."""


def number(value: Any) -> Any:
    """`value` with a number for every coordinate: mode i counts 1000^i."""
    if isinstance(value, Layout):
        return Layout(value.shape, number(value.stride))
    if isinstance(value, ScaledBasis):
        return value.value * 1000 ** value.modes[0]
    if isinstance(value, ArithTuple):
        return sum(x * 1000**i for i, x in enumerate(value))
    return tuple(map(number, value)) if type(value) is tuple else value
