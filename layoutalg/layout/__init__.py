"""Layouts and their parts: IntTuple, Layout, Swizzle, ComposedLayout; their modes, slices and sizes.

A layout maps a coordinate of its shape to an offset, the inner product of the coordinate and the strides;
a swizzle permutes offsets; a composed layout is a swizzle after a layout.  Operations on two layouts are in
layoutalg.compose and layoutalg.algebra.

    int_tuple         IntTuple: integers in nested tuples; their text, leaves and product
    value             the base classes: of values, immutable and compared by their parts; and of layouts, with
                      slice_and_offset and layout(None, 3): the modes that a coordinate with None leaves
    basis             ScaledBasis and ArithTuple: strides along several modes, as a coordinate tensor has
    symbols           sympy expressions as extents and strides, and what is assumed of them
    layout            Layout, its modes and leaves; concat, make_identity_layout
    swizzle           Swizzle, Swizzles (a chain)
    composed          ComposedLayout; the decorator `operation`: swizzles stay outside, refusals are named by
                      the call; Trace: the steps that an operation records for `explain`
    shapes            crd2idx, idx2crd, crd2crd, ceil_div, shape_div, congruent, compatible
    measure           size, rank, depth, span (the least and the greatest offset), coalesce, filter
    tree              make_layout, append, prepend, replace, group, select, flatten, unflatten, sort

>>> tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
>>> print(tile, tile(1, 0), size(tile))
Sw<3,3,3> o 0 o (8,64):(64,1) 72 512
"""

from __future__ import annotations

from layoutalg.layout.basis import ArithTuple, ScaledBasis, make_basis_like
from layoutalg.layout.composed import (
    AnyLayout,
    ComposedLayout,
    Outer,
    Trace,
    check_integers,
    check_layouts,
    innermost,
    map_innermost,
    operation,
)
from layoutalg.layout.int_tuple import (
    MAX_DEPTH,
    IntTuple,
    congruent_trees,
    coordinate_at,
    flatten_tree,
    index_at,
    inner_product,
    normalize,
    product,
    to_text,
    unflatten_tree,
    whole_number,
)
from layoutalg.layout.layout import (
    Layout,
    any_leaves,
    check_depth,
    concat,
    has_bases,
    has_symbols,
    integer_leaves,
    layout_of,
    layout_size,
    leaf_lists,
    leaf_of_shape,
    leaves,
    make_identity_layout,
    modes,
    not_integers,
)
from layoutalg.layout.measure import (
    coalesce,
    coalesce_x,
    depth,
    filter,
    filter_zeros,
    merge,
    merge_open,
    plain,
    rank,
    size,
    span,
)
from layoutalg.layout.shapes import (
    ceil_div,
    check_nesting,
    compatible,
    congruent,
    crd2crd,
    crd2idx,
    idx2crd,
    shape_div,
    weakly_congruent,
)
from layoutalg.layout.swizzle import (
    Swizzle,
    Swizzles,
    as_chain,
    swizzle_inverse,
)
from layoutalg.layout.symbols import (
    canonical,
    decide,
    divides,
    free_symbols,
    is_nonnegative,
    is_symbolic,
    quotient,
    require,
    substituted,
    symbolic_leaf,
    with_assumptions,
)
from layoutalg.layout.tree import (
    append,
    flatten,
    group,
    make_layout,
    prepend,
    replace,
    select,
    sort,
    unflatten,
)
from layoutalg.layout.value import (
    Coordinate,
    Value,
    fit_coordinate,
    keeps_mode,
    slice_and_offset,
)

__all__ = [
    "MAX_DEPTH", "AnyLayout", "ArithTuple", "ComposedLayout", "Coordinate", "IntTuple", "Layout", "Outer",
    "ScaledBasis", "Swizzle", "Swizzles", "Trace", "Value", "any_leaves", "append", "as_chain", "canonical",
    "ceil_div", "check_depth", "check_integers", "check_layouts", "check_nesting", "coalesce", "coalesce_x",
    "compatible", "concat", "congruent", "congruent_trees", "coordinate_at", "crd2crd", "crd2idx", "decide",
    "depth", "divides", "filter", "filter_zeros", "fit_coordinate", "flatten", "flatten_tree", "free_symbols",
    "group", "has_bases", "has_symbols", "idx2crd", "index_at", "inner_product", "innermost",
    "integer_leaves", "is_nonnegative", "is_symbolic", "keeps_mode", "layout_of", "layout_size", "leaf_lists",
    "leaf_of_shape", "leaves", "make_basis_like", "make_identity_layout", "make_layout", "map_innermost",
    "merge", "merge_open", "modes", "normalize", "not_integers", "operation", "plain", "prepend", "product",
    "quotient", "rank", "replace", "require", "select", "shape_div", "size", "slice_and_offset", "sort",
    "span", "substituted", "swizzle_inverse", "symbolic_leaf", "to_text", "unflatten", "unflatten_tree",
    "weakly_congruent", "whole_number", "with_assumptions",
]  # fmt: skip
