"""The layout algebra, gathered: CuTe's operations on layouts, each exact or refused.

The idea.  A layout is a function from coordinates to offsets, and a kernel is a handful of such functions
put together: composed, cut into tiles, repeated, inverted.  Each module below holds one idea,

    measure     size rank depth coalesce coalesce_x filter
    regroup     make_layout append prepend replace group select flatten unflatten sort
    slicing     slice_and_offset
    partition   slice_ dice domain_offset local_tile local_partition
    shapes      ceil_div shape_div crd2idx idx2crd crd2crd
    digits      composition of two layouts, digit by digit
    normal      normal_form: chain o (offset + layout)
    composed    composition with swizzles, composed layouts and tilers
    injective   two coordinates that share an offset, or the proof that there are none
    inverse     complement right_inverse left_inverse
    divide      logical_divide zipped_divide tiled_divide flat_divide
    products    logical_product ... blocked_product raked_product tile_to_shape
    common      max_common_layout max_common_vector max_alignment nullspace
    recast      upcast downcast recast_layout
    ordered     make_ordered_layout make_layout_like
    extent      extremes, cosize of anything
    image       same_function, is_injective, is_surjective, is_bijective, image_size
    solving     find_coordinate find_overlap overlap
    describe    footprint is_contiguous gaps aliasing cycles order

and this one offers them all.  The contract of every operation: the result satisfies the operation's
defining equation at every coordinate, or an error says at which coordinate it cannot.

>>> tile = composition(Layout((8, 8), (8, 1)), Layout((2, 4), (1, 8)))
>>> print(tile, "|", complement(Layout((2, 4), (1, 8)), 64), "|", right_inverse(Layout((8, 8), (8, 1))))
(2,4):(8,1) | (4,2):(2,32) | (8,8):(8,1)
"""

from __future__ import annotations

from layoutalg.common import max_alignment, max_common_layout, max_common_vector, nullspace
from layoutalg.composed import Tiler, composition
from layoutalg.describe import Aliasing, Footprint, aliasing, cycles, footprint, gaps, is_contiguous, order
from layoutalg.divide import flat_divide, logical_divide, tiled_divide, zipped_divide
from layoutalg.extent import cosize, extremes
from layoutalg.image import (
    find_difference,
    find_offset_bit,
    image_size,
    is_bijective,
    is_injective,
    is_surjective,
    same_function,
)
from layoutalg.inverse import complement, left_inverse, right_inverse
from layoutalg.layout import Layout
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
from layoutalg.regroup import append, flatten, group, make_layout, prepend, replace, select, sort, unflatten
from layoutalg.shapes import ceil_div, crd2crd, crd2idx, idx2crd, shape_div
from layoutalg.slicing import slice_and_offset
from layoutalg.solving import find_collision, find_coordinate, find_overlap, overlap

__all__ = [
    "Aliasing",
    "Footprint",
    "Layout",
    "Tiler",
    "aliasing",
    "append",
    "blocked_product",
    "ceil_div",
    "coalesce",
    "coalesce_x",
    "complement",
    "composition",
    "cosize",
    "crd2crd",
    "crd2idx",
    "cycles",
    "depth",
    "dice",
    "domain_offset",
    "downcast",
    "extremes",
    "filter",
    "filter_zeros",
    "find_collision",
    "find_coordinate",
    "find_difference",
    "find_offset_bit",
    "find_overlap",
    "flat_divide",
    "flat_product",
    "flatten",
    "footprint",
    "gaps",
    "group",
    "idx2crd",
    "image_size",
    "is_bijective",
    "is_contiguous",
    "is_injective",
    "is_surjective",
    "left_inverse",
    "local_partition",
    "local_tile",
    "logical_divide",
    "logical_product",
    "make_layout",
    "make_layout_like",
    "make_ordered_layout",
    "max_alignment",
    "max_common_layout",
    "max_common_vector",
    "normal_form",
    "nullspace",
    "order",
    "overlap",
    "prepend",
    "raked_product",
    "rank",
    "recast_layout",
    "replace",
    "right_inverse",
    "same_function",
    "select",
    "shape_div",
    "size",
    "slice_",
    "slice_and_offset",
    "sort",
    "tile_to_shape",
    "tiled_divide",
    "tiled_product",
    "unflatten",
    "upcast",
    "zipped_divide",
    "zipped_product",
]
