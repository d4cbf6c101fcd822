"""Lists stand wherever tuples do: shapes, strides, coordinates, tilers, profiles and orders."""

from __future__ import annotations

from typing import Any

import layoutalg as la
from layoutalg import Layout
from tests.judges.exports import PUBLIC

L = Layout((4, (2, 8)), (16, (8, 1)))
TILE = Layout((2, 2), (1, 2))

CALLS: tuple[tuple[str, tuple[Any, ...]], ...] = (
    ("Layout", ((4, (2, 8)), (16, (8, 1)))),
    ("make_layout", ((4, 8), (8, 1))),
    ("make_identity_layout", ((4, (2, 8)),)),
    ("make_basis_like", ((4, (2, 8)),)),
    ("make_ordered_layout", (((2, 4), 5), ((3, 1), 0))),
    ("size", ((4, (2, 8)),)),
    ("rank", ((4, (2, 8)),)),
    ("depth", ((4, (2, 8)),)),
    ("product", (((2, 2), 3),)),
    ("flatten", (((2, 2), 3),)),
    ("unflatten", ((1, 2, 3), ((0, 0), 0))),
    ("unflatten", (Layout((2, 3, 5)), ((0, 0), 0))),
    ("coalesce", (L, (1, (1, 1)))),
    ("congruent", ((4, (2, 8)), (1, (1, 1)))),
    ("weakly_congruent", ((4, 1), (1, (1, 1)))),
    ("compatible", ((4, 16), (4, (2, 8)))),
    ("ceil_div", ((10, 9), (4, 2))),
    ("shape_div", ((2, (2, 3)), (2, 2))),
    ("crd2idx", ((1, (1, 3)), (4, (2, 8)), (16, (8, 1)))),
    ("idx2crd", (11, (4, (2, 8)))),
    ("crd2crd", ((5, 1), (8, 2), ((2, 4), 2))),
    ("slice_", ((None, (1, None)), L)),
    ("dice", ((None, (1, None)), L)),
    ("slice_and_offset", ((None, (1, None)), L)),
    ("domain_offset", ((1, (1, 0)), L)),
    ("composition", (L, (2, (2, 4)))),
    ("complement", (TILE, (4, 8))),
    *((f"{kind}_divide", (L, (2, (2, 4)))) for kind in ("logical", "zipped", "tiled", "flat")),
    *((f"{kind}_divide", (L, (2, None))) for kind in ("logical", "zipped", "tiled", "flat")),
    *((f"{kind}_product", (TILE, (2, Layout(4)))) for kind in ("logical", "zipped", "tiled", "flat")),
    ("tile_to_shape", (TILE, (4, 8), (1, 0))),
    ("local_tile", (L, (2, 4), (1, None))),
    ("local_tile", (L, (2, 3, 4), (1, 0, None), (1, None, 1))),
)


def lists(value: Any) -> Any:
    """The value with lists in place of tuples."""
    return [lists(part) for part in value] if isinstance(value, tuple) else value


def test_lists_are_tuples() -> None:
    wrong = []
    for name, operands in CALLS:
        operation = getattr(PUBLIC, name)
        one, other = operation(*operands), operation(*map(lists, operands))
        if one != other or type(one) is not type(other) or "[" in str(other):
            wrong.append(f"{name}{operands}: {one} of tuples, {other} of lists")
    assert not wrong, "\n".join(wrong)


def test_a_shape_is_measured_like_its_layout() -> None:
    for shape in (5, (), (4, 8), ((2, 4), (8, (2, 2)))):
        for operation in (la.size, la.rank, la.layout.depth):
            assert operation(shape) == operation(Layout(shape))
