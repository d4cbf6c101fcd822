"""explain: how a result of the algebra came about, step by step, as text.

The idea.  Every operation has a derivation: the laws it rests on, and what they say about the operands at
hand, in statements that a program can check (see layoutalg.derivation).

>>> print(explain("composition", Layout((6, 2), (1, 7)), Layout((3, 2), (2, 3))))
composition((6,2):(1,7), (3,2):(2,3))
  1. by definition (A o B)(c) = A(B(c)) for every coordinate c of B
       A = (6,2):(1,7)
       B = (3,2):(2,3)
  2. an index of A has a digit for each mode, and A adds up digit * stride
       A(i) = i % 6 * 1 + i // 6 * 7 for every i < 12
  3. 3:2 walks through A in equal steps: one mode
       A(2) = 2
       A(2 * x) = 2 * x for every x < 3
       A o 3:2 = 3:2
  4. 2:3 walks through A in equal steps: one mode
       A(3) = 3
       A(3 * x) = 3 * x for every x < 2
       A o 2:3 = 2:3
  5. a layout adds up over its modes, and here the sum carries: no layout has all these values
       B(5) = B(2) + B(3) = 7
       A(B(2)) + A(B(3)) = 4 + 3 = 7
       A(B(5)) = A(7) = 8 != 7
  refused, DivisibilityError (witness 5): composition((6,2):(1,7), (3,2):(2,3)): a digit of the first layout
      carries, so that no layout has the value 8 at coordinate 5 (index 7); the second layout's
      extents and strides must divide the first's extents

Notes.  The result is the one of the operation itself: a derivation computes pieces with the library and
names the rule by which they fit together; it is no second implementation.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType
from typing import Any, NamedTuple

from layoutalg.common import max_alignment, max_common_layout, max_common_vector, nullspace
from layoutalg.composed import Chain, composition, is_chain
from layoutalg.derivation import Derivation, Paper, attempt, notation
from layoutalg.describe import aliasing, cycles, footprint, gaps, is_contiguous, order
from layoutalg.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from layoutalg.errors import ArgumentTypeError, UnknownNameError
from layoutalg.explain_collisions import (
    explain_aliasing,
    explain_cycles,
    explain_find_collision,
    explain_find_difference,
    explain_find_overlap,
    explain_is_injective,
    explain_order,
    explain_overlap,
    explain_same_function,
)
from layoutalg.explain_compose import explain_composition, explain_normal_form
from layoutalg.explain_evaluate import explain_crd2crd, explain_crd2idx, explain_idx2crd, explain_value
from layoutalg.explain_inverse import (
    explain_complement,
    explain_left_inverse,
    explain_max_alignment,
    explain_max_common_layout,
    explain_max_common_vector,
    explain_nullspace,
    explain_right_inverse,
    explain_swizzle_inverse,
)
from layoutalg.explain_measure import (
    explain_coalesce,
    explain_coalesce_x,
    explain_depth,
    explain_filter,
    explain_filter_zeros,
    explain_rank,
    explain_size,
)
from layoutalg.explain_operands import check_argument, check_operands
from layoutalg.explain_reach import (
    explain_cosize,
    explain_extremes,
    explain_find_coordinate,
    explain_find_offset_bit,
    explain_footprint,
    explain_gaps,
    explain_image_size,
    explain_is_bijective,
    explain_is_contiguous,
    explain_is_surjective,
)
from layoutalg.explain_recast import explain_downcast, explain_recast_layout, explain_to_f2, explain_upcast
from layoutalg.explain_slices import explain_local_partition, explain_local_tile, explain_slice
from layoutalg.explain_tiles import (
    explain_divide,
    explain_make_layout_like,
    explain_make_ordered_layout,
    explain_product,
    explain_side_by_side,
    explain_tile_to_shape,
)
from layoutalg.explain_trees import (
    MOVES,
    explain_compatible,
    explain_concat,
    explain_congruent,
    explain_flatten,
    explain_identity,
    explain_make_layout,
    explain_modes,
    explain_modes_moved,
    explain_quotient,
    explain_tree_product,
    explain_unflatten,
    explain_weakly_congruent,
)
from layoutalg.extent import cosize, extremes
from layoutalg.f2 import to_f2
from layoutalg.image import (
    find_difference,
    find_offset_bit,
    image_size,
    is_bijective,
    is_injective,
    is_surjective,
    same_function,
)
from layoutalg.int_tuple import product
from layoutalg.inverse import complement, left_inverse, right_inverse
from layoutalg.layout import Layout, concat, make_identity_layout, modes
from layoutalg.measure import coalesce, coalesce_x, depth, filter, filter_zeros, rank, size
from layoutalg.normal import normal_form
from layoutalg.ordered import make_layout_like, make_ordered_layout
from layoutalg.partition import dice, domain_offset, local_partition, local_tile, slice_
from layoutalg.products import (
    blocked_product,
    flat_product,
    logical_product,
    raked_product,
    tile_to_shape,
    tiled_product,
    zipped_product,
)
from layoutalg.recast import downcast, recast_layout, upcast
from layoutalg.regroup import flatten, make_layout, unflatten
from layoutalg.scaled_basis import make_basis_like
from layoutalg.shapes import (
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
from layoutalg.slicing import slice_and_offset
from layoutalg.solving import find_collision, find_coordinate, find_overlap, overlap
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle, swizzle_inverse


class Explainer(NamedTuple):
    """An operation, and what writes its derivation for the same operands."""

    operation: Callable[..., Any]
    write: Callable[..., Any]


_ROWS: tuple[Explainer, ...] = (
    Explainer(aliasing, explain_aliasing),
    Explainer(coalesce, explain_coalesce),
    Explainer(coalesce_x, explain_coalesce_x),
    Explainer(compatible, explain_compatible),
    Explainer(complement, explain_complement),
    Explainer(composition, explain_composition),
    Explainer(concat, explain_concat),
    Explainer(congruent, explain_congruent),
    Explainer(cosize, explain_cosize),
    Explainer(crd2crd, explain_crd2crd),
    Explainer(crd2idx, explain_crd2idx),
    Explainer(cycles, explain_cycles),
    Explainer(depth, explain_depth),
    Explainer(downcast, explain_downcast),
    Explainer(extremes, explain_extremes),
    Explainer(filter, explain_filter),
    Explainer(filter_zeros, explain_filter_zeros),
    Explainer(find_collision, explain_find_collision),
    Explainer(find_coordinate, explain_find_coordinate),
    Explainer(find_difference, explain_find_difference),
    Explainer(find_offset_bit, explain_find_offset_bit),
    Explainer(find_overlap, explain_find_overlap),
    Explainer(flatten, explain_flatten),
    Explainer(footprint, explain_footprint),
    Explainer(gaps, explain_gaps),
    Explainer(idx2crd, explain_idx2crd),
    Explainer(image_size, explain_image_size),
    Explainer(is_bijective, explain_is_bijective),
    Explainer(is_contiguous, explain_is_contiguous),
    Explainer(is_injective, explain_is_injective),
    Explainer(is_surjective, explain_is_surjective),
    Explainer(left_inverse, explain_left_inverse),
    Explainer(local_partition, explain_local_partition),
    Explainer(local_tile, explain_local_tile),
    Explainer(make_layout, explain_make_layout),
    Explainer(make_layout_like, explain_make_layout_like),
    Explainer(make_ordered_layout, explain_make_ordered_layout),
    Explainer(max_alignment, explain_max_alignment),
    Explainer(max_common_layout, explain_max_common_layout),
    Explainer(max_common_vector, explain_max_common_vector),
    Explainer(modes, explain_modes),
    Explainer(normal_form, explain_normal_form),
    Explainer(nullspace, explain_nullspace),
    Explainer(order, explain_order),
    Explainer(overlap, explain_overlap),
    Explainer(product, explain_tree_product),
    Explainer(rank, explain_rank),
    Explainer(recast_layout, explain_recast_layout),
    Explainer(right_inverse, explain_right_inverse),
    Explainer(same_function, explain_same_function),
    Explainer(size, explain_size),
    Explainer(swizzle_inverse, explain_swizzle_inverse),
    Explainer(tile_to_shape, explain_tile_to_shape),
    Explainer(to_f2, explain_to_f2),
    Explainer(unflatten, explain_unflatten),
    Explainer(upcast, explain_upcast),
    Explainer(weakly_congruent, explain_weakly_congruent),
    *(
        Explainer(op, partial(explain_identity, operation=op))
        for op in (make_basis_like, make_identity_layout)
    ),
    *(Explainer(op, partial(explain_quotient, operation=op)) for op in (ceil_div, shape_div)),
    *(
        Explainer(op, partial(explain_slice, operation=op))
        for op in (slice_, slice_and_offset, dice, domain_offset)
    ),
    *(Explainer(op, partial(explain_modes_moved, operation=op, law=law)) for op, law in MOVES),
    *(
        Explainer(op, partial(explain_divide, operation=op))
        for op in (logical_divide, zipped_divide, tiled_divide, flat_divide)
    ),
    *(
        Explainer(op, partial(explain_product, operation=op))
        for op in (logical_product, zipped_product, tiled_product, flat_product)
    ),
    *(Explainer(op, partial(explain_side_by_side, operation=op)) for op in (blocked_product, raked_product)),
)

EXPLAINERS: Mapping[str, Explainer] = MappingProxyType(
    {row.operation.__name__: row for row in sorted(_ROWS, key=lambda row: row.operation.__name__)}
)
"""Every operation that can be explained, by name, read only."""


def explain(op: str | Callable[..., Any] | Chain, *operands: Any, **params: Any) -> Derivation:
    """The derivation of op(*operands): its steps, and the result or the refusal they end with.

    `op` is an operation of the algebra or its name; a layout or a swizzle is explained at a coordinate.
    Raises UnknownNameError for another op, ArgumentTypeError for operands it does not take, UnsupportedError
    for symbols and strides along modes.

    >>> print(explain("logical_divide", Layout(24), 4).answer)
    = (4,6):(1,4)
    >>> print(explain(Swizzle(1, 0, 2), 5))
    Sw<1,0,2> at 5
      1. Sw<1,0,2> XORs bits 2..2 into bits 0..0
           S = Sw<1,0,2>
           5 = 0b101
           0b101 & 0b100 = 0b100
           0b100 >> 2 = 0b001
           0b101 ^ 0b001 = 0b100
           S(5) = 4
      2. bit by bit: bit 2 flips bit 0
           5 >> 2 & 1 = 1
           5 >> 0 & 1 = 1
           4 >> 0 & 1 = 0
      = 4
    """
    known, call = _resolve(op, operands, params)
    result, refusal = attempt(known.operation, *operands, **params)
    if isinstance(refusal, ArgumentTypeError):
        raise refusal
    paper = Paper()
    known.write(paper, *operands, **params)
    return Derivation(call, tuple(paper.steps), result, refusal)


def _resolve(
    op: str | Callable[..., Any] | Chain, operands: tuple[Any, ...], params: dict[str, Any]
) -> tuple[Explainer, str]:
    """The operation with what writes its derivation, and the call as text, after checking the operands."""
    for operand in (*operands, *params.values()):
        check_nesting(operand, "an operand")
    arguments = ", ".join([*map(notation, operands), *(f"{k}={notation(v)}" for k, v in params.items())])
    if isinstance(op, (Layout, ComposedLayout)) or is_chain(op):
        call = f"{notation(op)} at {arguments}"
        check_argument(call, op, operands)
        return Explainer(partial(_value, op), partial(explain_value, function=op)), call
    name = op if isinstance(op, str) else getattr(op, "__name__", str(op))
    known = EXPLAINERS.get(name)
    if known is None or not (isinstance(op, str) or op is known.operation):
        raise UnknownNameError("operation", name, EXPLAINERS)
    call = f"{name}({arguments})"
    check_operands(call, known.operation, operands, params)
    return known, call


def _value(function: AnyLayout | Swizzle | Chain, *crd: Any) -> Any:
    for swizzle in reversed(function if isinstance(function, tuple) else ()):
        crd = (swizzle(*crd),)
    return crd[0] if isinstance(function, tuple) else function(*crd)
