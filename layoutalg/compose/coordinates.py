"""Composition with a layout of coordinates: strides that are scaled bases, on the left of `o`.

The idea.  A coordinate is one integer, in fields that are too wide to carry (Fields).  Give every
mode of the coordinate a field for all that the second layout can reach; then the strides are integers, the
layouts compose as integers do, exactly, and every stride of the result is read back from its fields.

    (4,8):(1@0,1@1)  in 8 bits each:  (4,8):(1,256)      o (2,4):(2,4)  =  (2,4):(2,256)  =  (2,4):(2@0,1@1)

A stride of the result that moves along two modes at once is not a scaled basis, and is refused: 4:(1,1) has
none, though its function exists.

>>> from layoutalg.compose import compose_layouts
>>> from layoutalg.layout import make_identity_layout
>>> print(compose_coordinates(make_identity_layout((4, 8)), Layout((2, 4), (2, 4)), compose_layouts))
(2,4):(2@0,1@1)

Comparison with CuTe.  CuTe composes basis strides like integers that divide each other, mode by mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from layoutalg.compose.fields import Fields
from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.layout import Layout, ScaledBasis, flatten_tree, layout_of, leaves, unflatten_tree

Compose = Callable[[Layout, Layout], Layout]


class Axes(NamedTuple):
    """The modes of a coordinate that strides move along, each with its own field of one integer.

    >>> from layoutalg.layout import make_identity_layout
    >>> axes = axes_of(make_identity_layout((4, 8)), 100)
    >>> print(axes.numbers(make_identity_layout((4, 8))), axes.coordinates(Layout((2, 4), (2, 128))))
    (4,8):(1,128) (2,4):(2@0,1@1)
    """

    paths: tuple[tuple[int, ...], ...]
    fields: Fields

    def numbers(self, layout: Layout) -> Layout:
        """The layout of integers whose fields are the coordinates."""
        position = {path: i for i, path in enumerate(self.paths)}
        strides = [
            self.fields.code(d.value, position[d.modes]) if isinstance(d, ScaledBasis) else 0
            for d in _strides(layout)
        ]
        return layout_of(layout.shape, unflatten_tree(tuple(strides), layout.stride))

    def along(self, number: int) -> list[ScaledBasis]:
        """The strides along one mode that a number is the sum of."""
        values = self.fields.unpack(number, len(self.paths))
        return [ScaledBasis(v, *path) for v, path in zip(values, self.paths, strict=False) if v != 0]

    def coordinates(self, layout: Layout) -> Layout:
        """Inverse of `numbers`, for numbers that are along one mode each."""
        strides: list[Any] = [(*self.along(d), 0)[0] for d in flatten_tree(layout.stride)]
        return layout_of(layout.shape, unflatten_tree(tuple(strides), layout.stride))


def _strides(layout: Layout) -> tuple[Any, ...]:
    return flatten_tree(layout.stride)


def axes_of(layout: Layout, most: int = 1) -> Axes:
    """The modes that a layout's strides move along, with room for `most` steps along each.

    >>> axes_of(Layout((2, 2), (ScaledBasis(1, 0), ScaledBasis(4, 0)))).paths
    ((0,),)
    """
    paths = dict.fromkeys([d.modes for d in _strides(layout) if isinstance(d, ScaledBasis)])
    return Axes(tuple(paths), Fields(most.bit_length()))


def compose_coordinates(a: Layout, b: Layout, compose: Compose) -> Layout:
    """R with R(c) = a(b(c)) for an `a` whose strides are scaled bases of integers; `compose` does integers.

    Raises DivisibilityError, with a witness coordinate, where no layout with basis strides is this function,
    and what `compose` raises.

    >>> from layoutalg.compose import compose_layouts
    >>> print(compose_coordinates(Layout(8, ScaledBasis(2, 1)), Layout(4, 2), compose_layouts))
    4:4@1
    """
    top = 1 + sum((s - 1) * abs(d) for s, d in leaves(b))
    values = sum(abs(d.value) for d in _strides(a) if isinstance(d, ScaledBasis))
    axes = axes_of(a, 8 * top * (1 + values))
    try:
        result = compose(axes.numbers(a), b)
    except (DivisibilityError, UndecidedError) as error:
        raise _refusal(error, a, b) from None
    weight = 1
    strides: list[Any] = []
    for s, d in leaves(result):
        moves = axes.along(d)
        if len(moves) > 1:
            raise DivisibilityError(
                f"composition({a}, {b}): coordinate {weight} of the result is {a(b(weight))}, a step along "
                f"several modes at once, which no scaled basis is",
                lhs=a,
                rhs=b,
                witness=weight,
            )
        strides += moves or [0]
        weight *= s
    return layout_of(result.shape, unflatten_tree(tuple(strides), result.shape))


def _refusal(
    error: DivisibilityError | UndecidedError, a: Layout, b: Layout
) -> DivisibilityError | UndecidedError:
    """The same error, about the layouts that were given."""
    if isinstance(error, UndecidedError):
        return UndecidedError(
            f"composition({a}, {b}): digits of the first layout carry, and {error.budget} coordinates "
            f"neither refute nor prove that the carries cancel",
            budget=error.budget,
        )
    at = error.witness or 0
    return DivisibilityError(
        f"composition({a}, {b}): a digit of the first layout carries, so that no layout has the value "
        f"{a(b(at))} at coordinate {at} (index {b(at)}); the second layout's extents and strides must divide "
        f"the first's extents",
        lhs=a,
        rhs=b,
        mode=error.mode,
        witness=error.witness,
    )
