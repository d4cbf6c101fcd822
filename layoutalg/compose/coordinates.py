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

Fields.  What is right of integers is right of vectors of integers that are one integer.  Give every
component a field of `bits` bits, wide enough for all that it adds up to, so that none carries into the
next.  Then a vector is an integer, sums and multiples of vectors are those of integers, and procedures that
know integer strides alone (composition, classes of warps) carry several numbers at once: the coordinates
along the modes of a space, an offset and the coordinates it belongs to, the parts of constant + slope *
symbol.

    (3, -2) in fields of 8 bits     3 - 2 * 256 = -509      2 * -509 = -1018 = (6, -4)

>>> fields = Fields(8)
>>> fields.pack((3, -2)), fields.unpack(-1018, 2)
(-509, (6, -4))

Fields are signed.  `unpack` leaves the last one without an end; `of` looks at one by itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.layout import Layout, ScaledBasis, flatten_tree, layout_of, leaves, unflatten_tree


class Fields(NamedTuple):
    """Signed numbers of `bits` bits each in one integer; sums of codes are codes of sums.

    >>> Fields(4).of(Fields(4).code(-3, 2) + 5, 0), Fields(4).of(Fields(4).code(-3, 2) + 5, 2)
    (5, -3)
    """

    bits: int

    def code(self, value: Any, which: int) -> Any:
        """The integer that has a value in one field; in field 0 the value itself, whatever it is."""
        return value << self.bits * which if which else value

    def pack(self, values: Iterable[int]) -> int:
        """The integer that has these values in its fields, from field 0 on."""
        return sum(self.code(value, which) for which, value in enumerate(values))

    def of(self, code: int, which: int) -> int:
        """The value of one field."""
        half = 1 << (self.bits - 1)
        for _ in range(which):
            code = (code + half) >> self.bits
        return (code + half & 2 * half - 1) - half

    def unpack(self, code: Any, count: int) -> tuple[Any, ...]:
        """The values of the first `count` fields, the last of them as long as it is."""
        half = 1 << (self.bits - 1)
        out: list[Any] = []
        for _ in range(count - 1):
            out.append((code + half & 2 * half - 1) - half)
            code = (code + half) >> self.bits
        return (*out, code)


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
