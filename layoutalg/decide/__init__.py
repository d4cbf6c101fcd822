"""Questions about a layout as a function: injective, bijective, contiguous, equal; the offsets it reaches.

Every answer is exact and has a witness, or is an UndecidedError when the budget runs out; nothing is sampled.

    equation    one linear equation with digits in a box: its solution, or a proof that there is none
    solving     find_collision (of two coordinates), find_coordinate (of an offset), find_overlap and overlap
    extent      cosize, extremes; runs of offsets, tables of offsets
    distinct    the number of distinct offsets
    image       image_size, is_injective, is_surjective, is_bijective, same_function, find_difference
    describe    aliasing, footprint, gaps, cycles, order, is_contiguous

>>> from layoutalg.layout import Layout
>>> find_collision(Layout((4, 4), (1, 2))), image_size(Layout((4, 4), (1, 2)))
((2, 4), 10)
"""

from __future__ import annotations

from layoutalg.decide.describe import (
    Aliasing,
    Footprint,
    aliasing,
    cycles,
    footprint,
    gaps,
    is_contiguous,
    order,
)
from layoutalg.decide.extent import cosize, extremes, leaf_count
from layoutalg.decide.image import (
    find_difference,
    find_offset_bit,
    image_size,
    is_bijective,
    is_injective,
    is_surjective,
    same_function,
)
from layoutalg.decide.solving import find_collision, find_coordinate, find_overlap, overlap

__all__ = [
    "Aliasing", "Footprint", "aliasing", "cosize", "cycles", "extremes", "find_collision", "find_coordinate",
    "find_difference", "find_offset_bit", "find_overlap", "footprint", "gaps", "image_size", "is_bijective",
    "is_contiguous", "is_injective", "is_surjective", "leaf_count", "order", "overlap", "same_function",
]  # fmt: skip
