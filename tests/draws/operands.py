"""Operands for operations that have a definition by enumeration or a derivation: hypothesis strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from layoutalg.layout import ComposedLayout, product
from layoutalg.testing import composed_layouts, layouts, shapes, swizzles

Call = tuple[tuple[Any, ...], dict[str, Any]]

PLAIN = layouts(max_size=64)
SIGNED = layouts(max_size=64, negative=True)
COMPACT = layouts(max_size=64, compact=True)
BINARY = layouts(max_size=64, power_of_two=True)
SWIZZLED = composed_layouts(max_size=64)
OUTSIDE = st.builds(
    ComposedLayout,
    layouts(max_size=64),
    st.integers(0, 9),
    st.one_of(layouts(max_size=32), composed_layouts(max_size=32)),
)
ANY = st.one_of(SIGNED, COMPACT, SWIZZLED, composed_layouts(max_size=64, power_of_two=True), OUTSIDE)
SMALL = layouts(max_leaves=2, max_size=16)
SHAPE = shapes(max_size=64)
NUMBER = st.integers(1, 12)


@st.composite
def tilers(draw: st.DrawFn, depth: int = 2) -> Any:
    """Layouts, extents, None and tuples of them."""
    kinds = ["extent", "layout", "none"] + ["tuple"] * (depth > 0)
    kind = draw(st.sampled_from(kinds))
    if kind == "tuple":
        return tuple(draw(st.lists(tilers(depth - 1), min_size=1, max_size=3)))
    return None if kind == "none" else draw(NUMBER if kind == "extent" else SMALL)


@st.composite
def located(draw: st.DrawFn) -> Call:
    shape = draw(SHAPE)
    crd = draw(coordinates_without_none(shape))
    return (crd, shape), {}


@st.composite
def coordinates_without_none(draw: st.DrawFn, shape: Any) -> Any:
    if isinstance(shape, tuple) and draw(st.booleans()):
        return tuple(draw(coordinates_without_none(s)) for s in shape)
    return draw(st.integers(0, product(shape)))


@st.composite
def profiled(draw: st.DrawFn) -> Call:
    layout = draw(ANY)
    count = len(layout.shape) if isinstance(layout.shape, tuple) else 0
    profile = draw(st.one_of(st.none(), st.just(1), st.just((1,) * draw(st.integers(0, count + 1)))))
    return (layout, profile), {}


def calls(*strategies: st.SearchStrategy[Any], **params: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.tuples(st.tuples(*strategies), st.fixed_dictionaries({}, optional=params))


CHAINS = st.lists(swizzles(), min_size=1, max_size=3).map(tuple)
RIGHT: st.SearchStrategy[Any] = st.one_of(
    SMALL, SMALL, tilers(), SWIZZLED, layouts(max_leaves=2, max_size=16, negative=True)
)
SOURCES: Mapping[str, st.SearchStrategy[Call]] = {
    **dict.fromkeys(
        (
            *("aliasing", "coalesce_x", "cosize", "extremes", "flatten", "footprint", "gaps", "image_size"),
            *("is_bijective", "is_contiguous", "is_injective", "left_inverse", "normal_form"),
            "right_inverse",
            *("size", "sort"),
        ),
        calls(ANY),
    ),
    **dict.fromkeys(("filter", "filter_zeros", "nullspace"), calls(SIGNED)),
    "find_collision": calls(SIGNED, moving=st.booleans()),
    **dict.fromkeys(
        ("cycles", "order"),
        calls(st.one_of(COMPACT, SWIZZLED, BINARY, layouts(max_size=64, compact=True, power_of_two=True))),
    ),
    "coalesce": profiled(),
    "composition": st.one_of(
        calls(st.one_of(PLAIN, SIGNED, SWIZZLED, OUTSIDE), RIGHT),
        calls(st.one_of(swizzles(), CHAINS), st.one_of(swizzles(), CHAINS, PLAIN, SWIZZLED)),
        calls(PLAIN, st.one_of(swizzles(), CHAINS)),
    ),
    "complement": st.one_of(calls(ANY, st.one_of(st.none(), st.integers(-1, 100), SHAPE)), calls(COMPACT)),
    "unflatten": calls(st.one_of(PLAIN, SWIZZLED), SHAPE),
    "group": calls(ANY, st.integers(-1, 3), st.integers(0, 4)),
    **dict.fromkeys(
        (
            f"{form}_{what}"
            for form in ("logical", "zipped", "tiled", "flat")
            for what in ("divide", "product")
        ),
        calls(st.one_of(PLAIN, COMPACT, SWIZZLED), tilers()),
    ),
    **dict.fromkeys(("blocked_product", "raked_product"), calls(st.one_of(PLAIN, COMPACT, SWIZZLED), SMALL)),
    **dict.fromkeys(
        ("upcast", "downcast"), calls(st.one_of(ANY, BINARY), st.sampled_from((1, 2, 3, 4, 8, 0)))
    ),
    "max_common_layout": calls(SIGNED, SIGNED),
    **dict.fromkeys(
        ("same_function", "find_difference"), st.one_of(calls(ANY, ANY), ANY.map(lambda v: ((v, v), {})))
    ),
    **dict.fromkeys(("overlap", "find_overlap"), calls(ANY, ANY)),
    "find_coordinate": calls(ANY, st.integers(-3, 80)),
    "find_offset_bit": calls(ANY, st.integers(0, 8)),
    "is_surjective": calls(ANY, codomain=st.integers(0, 70)),
}
"""Calls of each operation."""
