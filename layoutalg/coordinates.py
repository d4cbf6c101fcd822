"""Composition with a layout of coordinates: strides that are scaled bases, on the left of `o`.

The idea.  A coordinate is a number in a radix too large to carry.  Give every mode of the coordinate one
digit, wide enough for all that the second layout can reach; then the strides are integers, the layouts
compose as integers do, exactly, and every stride of the result is read back as digits.

    (4,8):(1@0,1@1)  in radix 1000:  (4,8):(1,1000)      o (2,4):(2,4)  =  (2,4):(2,1000)  =  (2,4):(2@0,1@1)

A stride of the result that moves along two modes at once is no scaled basis, and is refused: 4:(1,1) has
none, though its function exists.

>>> from layoutalg.digits import compose_layouts
>>> from layoutalg.layout import make_identity_layout
>>> print(compose_coordinates(make_identity_layout((4, 8)), Layout((2, 4), (2, 4)), compose_layouts))
(2,4):(2@0,1@1)

Comparison with CuTe.  CuTe composes basis strides like integers that divide each other, mode by mode.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.int_tuple import IntTuple, flatten, unflatten
from layoutalg.layout import Layout, leaves, make_layout
from layoutalg.scaled_basis import ScaledBasis

Compose = Callable[[Layout, Layout], Layout]


def compose_coordinates(a: Layout, b: Layout, compose: Compose) -> Layout:
    """R with R(c) = a(b(c)) for an `a` whose strides are scaled bases of integers; `compose` does integers.

    Raises DivisibilityError, with a witness coordinate, where no layout with basis strides is this function,
    and what `compose` raises.

    >>> from layoutalg.digits import compose_layouts
    >>> print(compose_coordinates(Layout(8, ScaledBasis(2, 1)), Layout(4, 2), compose_layouts))
    4:4@1
    """
    top = 1 + sum((s - 1) * abs(d) for s, d in leaves(b))
    strides: tuple[Any, ...] = flatten(a.stride)
    bases = [d for d in strides if isinstance(d, ScaledBasis)]
    radix = 8 * top * (1 + sum(abs(d.value) for d in bases))
    paths = list(dict.fromkeys(d.modes for d in bases))
    place = {path: radix**i for i, path in enumerate(paths)}
    numbers = tuple([d.value * place[d.modes] if isinstance(d, ScaledBasis) else 0 for d in strides])
    try:
        result = compose(make_layout(a.shape, unflatten(numbers, a.stride)), b)
    except (DivisibilityError, UndecidedError) as error:
        raise _refusal(error, a, b) from None
    weight = 1
    out: list[Any] = []
    for s, d in leaves(result):
        digits = _digits(d, radix, len(paths))
        moving = [i for i, digit in enumerate(digits) if digit]
        if len(moving) > 1:
            raise DivisibilityError(
                f"composition({a}, {b}): coordinate {weight} of the result is {a(b(weight))}, a step along "
                f"several modes at once, which no scaled basis is",
                lhs=a,
                rhs=b,
                witness=weight,
            )
        out.append(ScaledBasis(digits[moving[0]], *paths[moving[0]]) if moving else 0)
        weight *= s
    return make_layout(result.shape, unflatten(tuple(out), result.shape))


def _digits(number: int, radix: int, count: int) -> list[int]:
    """Digits of `number`, each between -radix / 2 and radix / 2."""
    out: list[int] = []
    for _ in range(count):
        digit = (number + radix // 2) % radix - radix // 2
        out.append(digit)
        number = (number - digit) // radix
    return out


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


def along_one_mode(layout: Layout) -> tuple[Layout, ScaledBasis] | None:
    """(L, e) with layout(c) = L(c) * e for an integer layout L; None when there is no such single e.

    >>> along_one_mode(Layout((2, 2), (ScaledBasis(1, 0), ScaledBasis(4, 0))))
    (Layout((2, 2), (1, 4)), ScaledBasis(1, 0))
    """
    strides: tuple[Any, ...] = flatten(layout.stride)
    bases = [d for d in strides if isinstance(d, ScaledBasis)]
    if len({d.modes for d in bases}) != 1:
        return None
    numbers = tuple([d.value if isinstance(d, ScaledBasis) else d for d in strides])
    return make_layout(layout.shape, unflatten(numbers, layout.stride)), bases[0].scaled(1)


def times_basis(layout: Layout, basis: ScaledBasis) -> Layout:
    """Inverse of `along_one_mode`: every stride of `layout`, times `basis`.

    >>> print(times_basis(Layout((2, 2)), ScaledBasis(1, 1)))
    (2,2):(1@1,2@1)
    """

    def scale(part: IntTuple) -> Any:
        if isinstance(part, tuple):
            return tuple(map(scale, part))
        return basis * part if part != 0 else 0

    return make_layout(layout.shape, scale(layout.stride))
