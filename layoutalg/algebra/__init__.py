"""The layout algebra: CuTe's operations that make a new layout, each exact or refused with a witness.

    inverse      complement, right_inverse, left_inverse, nullspace
    tiles        divides and products: logical, zipped, tiled, flat, blocked, raked; tile_to_shape;
                 make_fragment_like
    partition    local_tile, local_partition, slice_, dice, domain_offset
    order        make_layout_like, make_ordered_layout; storage_layout, storage_order of a tile
    recast       upcast, downcast, recast_layout: the same bytes in units of another size;
                 max_common_layout, max_common_vector, max_alignment

composition and normal_form, of layoutalg.compose, can be imported from here too.

>>> from layoutalg.layout import Layout
>>> print(logical_divide(Layout(24), Layout(4)), complement(Layout(4, 2), 16))
(4,6):(1,4) (2,2):(1,8)
"""

from __future__ import annotations

from layoutalg.algebra.inverse import complement, left_inverse, nullspace, right_inverse
from layoutalg.algebra.order import (
    Order,
    make_layout_like,
    make_ordered_layout,
    storage_layout,
    storage_order,
)
from layoutalg.algebra.partition import dice, domain_offset, local_partition, local_tile, slice_
from layoutalg.algebra.recast import (
    downcast,
    max_alignment,
    max_common_layout,
    max_common_vector,
    recast_layout,
    upcast,
)
from layoutalg.algebra.tiles import (
    blocked_product,
    flat_divide,
    flat_product,
    logical_divide,
    logical_product,
    make_fragment_like,
    raked_product,
    tile_to_shape,
    tiled_divide,
    tiled_product,
    zipped_divide,
    zipped_product,
)
from layoutalg.compose import composition, normal_form

__all__ = [
    "Order", "blocked_product", "complement", "composition", "dice", "domain_offset", "downcast",
    "flat_divide", "flat_product", "left_inverse", "local_partition", "local_tile", "logical_divide",
    "logical_product", "make_fragment_like", "make_layout_like", "make_ordered_layout", "max_alignment",
    "max_common_layout", "max_common_vector", "normal_form", "nullspace", "raked_product", "recast_layout",
    "right_inverse", "slice_", "storage_layout", "storage_order", "tile_to_shape", "tiled_divide",
    "tiled_product", "upcast", "zipped_divide", "zipped_product",
]  # fmt: skip
