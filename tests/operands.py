"""Operands for every operation that can be explained: examples of each kind, and hypothesis strategies."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from hypothesis import strategies as st

from layoutalg.int_tuple import product
from layoutalg.strategies import composed_layouts, int_tuples, layouts, shapes, swizzles
from layoutalg.swizzle import ComposedLayout
from tests.test_slicing import coordinates

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
def sliced(draw: st.DrawFn) -> Call:
    layout = draw(ANY)
    return (coordinates(draw, layout.shape), layout), {}


@st.composite
def tiled(draw: st.DrawFn) -> Call:
    layout = draw(st.one_of(layouts(max_size=64), SWIZZLED))
    tiler = draw(tilers(1))
    crd = draw(
        st.one_of(
            st.integers(0, 5),
            st.none(),
            st.lists(st.one_of(st.none(), st.integers(0, 3)), max_size=3).map(tuple),
        )
    )
    return (layout, tiler, crd), {}


@st.composite
def partitioned(draw: st.DrawFn) -> Call:
    threads = draw(SMALL)
    index = draw(
        st.one_of(st.sampled_from([threads(i) for i in range(product(threads.shape))]), st.integers(0, 9))
    )
    return (draw(st.one_of(PLAIN, SWIZZLED)), threads, index), {}


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
def renamed(draw: st.DrawFn) -> Call:
    (crd, shape), _ = draw(located())
    return (crd, shape, draw(st.one_of(st.just(shape), SHAPE))), {}


@st.composite
def ordered(draw: st.DrawFn) -> Call:
    shape = draw(SHAPE)

    def rank(node: Any) -> Any:
        return (
            tuple(map(rank, node))
            if isinstance(node, tuple) and draw(st.booleans())
            else draw(st.integers(0, 5))
        )

    return (shape, rank(shape)), {}


@st.composite
def profiled(draw: st.DrawFn) -> Call:
    layout = draw(ANY)
    count = len(layout.shape) if isinstance(layout.shape, tuple) else 0
    profile = draw(st.one_of(st.none(), st.just(1), st.just((1,) * draw(st.integers(0, count + 1)))))
    return (layout, profile), {}


def calls(*strategies: st.SearchStrategy[Any], **params: st.SearchStrategy[Any]) -> st.SearchStrategy[Call]:
    return st.tuples(st.tuples(*strategies), st.fixed_dictionaries({}, optional=params))


TREES = st.one_of(SHAPE, int_tuples(st.integers(1, 12)))
PAIR_OF_TREES: st.SearchStrategy[Call] = st.one_of(
    calls(TREES, TREES), TREES.map(lambda t: ((t, t), {})), SHAPE.map(lambda t: ((product(t), t), {}))
)
CHAINS = st.lists(swizzles(), min_size=1, max_size=3).map(tuple)
RIGHT: st.SearchStrategy[Any] = st.one_of(
    SMALL, SMALL, tilers(), SWIZZLED, layouts(max_leaves=2, max_size=16, negative=True)
)
SOURCES: Mapping[str, st.SearchStrategy[Call]] = {
    **dict.fromkeys(
        [
            "coalesce_x",
            "depth",
            "rank",
            "size",
            "normal_form",
            "sort",
            "cosize",
            "extremes",
            "footprint",
            "gaps",
            "image_size",
            "is_bijective",
            "is_contiguous",
            "is_injective",
            "aliasing",
            "left_inverse",
            "right_inverse",
            "to_f2",
        ],
        calls(ANY),
    ),
    **dict.fromkeys(
        ["filter", "filter_zeros", "make_layout_like", "max_alignment", "nullspace", "modes"], calls(SIGNED)
    ),
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
    "concat": st.lists(SIGNED, max_size=3).map(lambda v: (tuple(v), {})),
    "make_layout": st.one_of(
        st.lists(SIGNED, min_size=1, max_size=3).map(lambda v: (tuple(v), {})),
        calls(SHAPE),
        PLAIN.map(lambda v: ((v.shape, v.stride), {})),
        PLAIN.map(lambda v: ((v.shape,), {"stride": v.stride})),
        calls(SHAPE, SHAPE),
    ),
    **dict.fromkeys(("congruent", "weakly_congruent", "compatible"), PAIR_OF_TREES),
    **dict.fromkeys(("ceil_div", "shape_div"), PAIR_OF_TREES),
    **dict.fromkeys(("make_identity_layout", "make_basis_like"), calls(SHAPE)),
    "product": calls(TREES),
    "flatten": st.one_of(calls(ANY), calls(TREES)),
    "unflatten": st.one_of(
        calls(st.one_of(PLAIN, SWIZZLED), SHAPE),
        SHAPE.map(
            lambda s: ((s if isinstance(s, tuple) and all(type(v) is int for v in s) else (1, 2), s), {})
        ),
    ),
    "crd2idx": st.one_of(
        located(),
        PLAIN.flatmap(
            lambda v: coordinates_without_none(v.shape).map(lambda c: ((c, v.shape, v.stride), {}))
        ),
    ),
    "idx2crd": calls(st.integers(-1, 300), SHAPE),
    "crd2crd": renamed(),
    **dict.fromkeys(("append", "prepend"), st.one_of(calls(ANY, SIGNED), calls(ANY, rank=st.integers(0, 5)))),
    "replace": calls(ANY, st.integers(-3, 3), SIGNED),
    "group": calls(ANY, st.integers(-1, 3), st.integers(0, 4)),
    "select": st.tuples(ANY, st.lists(st.integers(-2, 3), max_size=3)).map(lambda v: ((v[0], *v[1]), {})),
    **dict.fromkeys(("slice_", "slice_and_offset", "dice", "domain_offset"), sliced()),
    "local_tile": tiled(),
    "local_partition": partitioned(),
    **dict.fromkeys(
        (
            "logical_divide",
            "zipped_divide",
            "tiled_divide",
            "flat_divide",
            "logical_product",
            "zipped_product",
            "tiled_product",
            "flat_product",
        ),
        calls(st.one_of(PLAIN, COMPACT, SWIZZLED), tilers()),
    ),
    **dict.fromkeys(("blocked_product", "raked_product"), calls(st.one_of(PLAIN, COMPACT, SWIZZLED), SMALL)),
    "tile_to_shape": st.one_of(
        calls(st.one_of(PLAIN, SWIZZLED), SHAPE),
        calls(
            st.one_of(SMALL, SWIZZLED),
            st.tuples(st.sampled_from((8, 16)), st.sampled_from((9, 16))),
            st.sampled_from(((0, 1), (1, 0))),
        ),
    ),
    "make_ordered_layout": ordered(),
    **dict.fromkeys(
        ("upcast", "downcast"), calls(st.one_of(ANY, BINARY), st.sampled_from((1, 2, 3, 4, 8, 0)))
    ),
    "recast_layout": calls(
        st.one_of(ANY, BINARY), st.sampled_from((4, 8, 16)), st.sampled_from((4, 8, 16, 32, 6))
    ),
    **dict.fromkeys(("max_common_layout", "max_common_vector"), calls(SIGNED, SIGNED)),
    **dict.fromkeys(
        ("same_function", "find_difference"), st.one_of(calls(ANY, ANY), ANY.map(lambda v: ((v, v), {})))
    ),
    **dict.fromkeys(("overlap", "find_overlap"), calls(ANY, ANY)),
    "find_coordinate": calls(ANY, st.integers(-3, 80)),
    "find_offset_bit": calls(ANY, st.integers(0, 8)),
    "is_surjective": calls(ANY, codomain=st.integers(0, 70)),
    "swizzle_inverse": calls(st.one_of(swizzles(), CHAINS)),
}
