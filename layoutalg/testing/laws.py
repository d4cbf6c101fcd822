"""The laws of the algebra, on operands that are drawn from a seed: what a fuzz of many cases checks.

    check_law("composition is associative", 6)       True: it holds there; False: it says nothing there

The idea.  A law is an equation between operations, or between an operation and its definition: the table of
a layout's offsets.  It is checked wherever both sides are defined, and an operation that refuses its operands
says nothing.  Operands come from a seed alone, so that a case that fails is a number.

A law's operands are of few kinds: "small" layouts with any strides, "compact" bijections, "tiny" compact
ones, "any" layout, swizzled or not, "linear" ones of powers of two, "value" one of those or a swizzle, a
"number".

>>> sorted({kind for law in LAWS.values() for kind in law.operands})
['any', 'compact', 'linear', 'number', 'small', 'tiny', 'value']
"""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from layoutalg.algebra import (
    blocked_product,
    complement,
    downcast,
    left_inverse,
    logical_divide,
    logical_product,
    raked_product,
    right_inverse,
    upcast,
    zipped_divide,
)
from layoutalg.compose import composition, normal_form
from layoutalg.decide import cosize, find_difference, is_bijective, is_injective, same_function
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    LayoutAlgError,
    MismatchError,
    ShapeError,
    check_choice,
)
from layoutalg.f2 import LinearLayout
from layoutalg.f2 import rank as rank_of
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    coalesce,
    compatible,
    concat,
    filter,
    modes,
    rank,
    size,
)
from layoutalg.notation import parse

EXTENTS = (1, 2, 3, 4, 5, 6, 7, 8, 9, 12, 16)
"""The extents of the modes that are drawn."""

MOST_STRIDE = 64
"""The largest of the strides that are drawn at random; the others follow from the extents."""


class Undefined(Exception):
    """An operation refuses the operands: the law says nothing of them.

    >>> raise Undefined
    Traceback (most recent call last):
    ...
    layoutalg.testing.laws.Undefined
    """


@dataclass(frozen=True, slots=True)
class Law:
    """A law: the kinds of its operands, and whether it holds for some, which raises Undefined where it says
    nothing.

    >>> LAWS["coalescing changes no value"].holds(Layout((2, 4), (4, 8)))
    True
    """

    operands: tuple[str, ...]
    holds: Callable[..., bool]


def check_law(name: str, seed: int) -> bool:
    """True where a law holds for the operands of a seed, False where it says nothing of them.

    Raises MismatchError where it does not hold or an operation fails that may not, with the operands;
    UnknownNameError for no law, ShapeError for a seed below 0, ArgumentTypeError for one that is not an int.

    >>> check_law("composition is associative", 6)
    True
    """
    check_choice("law of the algebra", name, LAWS)
    if isinstance(seed, bool) or not isinstance(seed, int):
        raise ArgumentTypeError(f"seed = {seed!r}: an int is needed")
    if seed < 0:
        raise ShapeError(f"the seed is {seed}; seeds count from 0")
    law, rng = LAWS[name], random.Random(f"{name} {seed}")
    operands = [drawn(kind, rng) for kind in law.operands]
    try:
        held = law.holds(*operands)
    except Undefined:
        return False
    except (
        LayoutAlgError,
        ArithmeticError,
        AttributeError,
        LookupError,
        RuntimeError,
        TypeError,
        ValueError,
    ) as error:
        reason = f"{type(error).__name__}: {error}"
        raise MismatchError(f"{name}: {_shown(operands)}, seed {seed}: {reason}") from error
    if not held:
        raise MismatchError(f"{name}: it does not hold of {_shown(operands)}, seed {seed}")
    return True


def _shown(operands: list[Any]) -> str:
    return ", ".join(map(str, operands))


# --- operands ------------------------------------------------------------------------------------------


def drawn(kind: str, rng: random.Random) -> Any:
    """An operand of a kind.

    >>> str(drawn("compact", random.Random(1))) == str(drawn("compact", random.Random(1)))
    True
    """
    if kind == "number":
        return rng.choice((1, 2, 4, 8, 16, rng.randint(1, 200)))
    if kind == "value" and rng.random() < 0.2:
        return _swizzle(rng)
    if kind in ("any", "value", "linear"):
        inner = _layout(rng, 4, 256, binary=kind == "linear")
        return _swizzled(rng, inner) if rng.random() < 0.5 else inner
    leaves, most = {"small": (3, 48), "compact": (3, 64), "tiny": (2, 8)}[kind]
    return _layout(rng, leaves, most, compact=kind != "small")


def _layout(
    rng: random.Random, leaves: int, most: int, *, compact: bool = False, binary: bool = False
) -> Layout:
    """A layout of so many modes and elements at most: any strides, padded or compact ones, in some order."""
    extents: list[int] = []
    room = most
    for _ in range(rng.randint(1, leaves)):
        fits = [n for n in EXTENTS if n <= room and not (binary and n & (n - 1))]
        extents.append(rng.choice(fits))
        room //= extents[-1]
    way = "compact" if compact else rng.choice(("any", "padded", "compact"))
    strides, step = [0] * len(extents), 1
    for k in rng.sample(range(len(extents)), len(extents)):
        if way == "padded":
            step = step << rng.randrange(2) if binary else step + rng.randrange(4)
        strides[k] = 0 if extents[k] == 1 and rng.random() < 0.5 else step
        step *= extents[k]
    if way == "any":
        some = [0, *(1 << k for k in range(MOST_STRIDE.bit_length()))]
        strides = [rng.choice(some) if binary else rng.randint(0, MOST_STRIDE) for _ in extents]
    cut = rng.randrange(len(extents)) if len(extents) > 2 and rng.random() < 0.5 else 0
    shape, stride = (_nested(values, cut) for values in (extents, strides))
    return Layout(shape, stride)


def _nested(values: list[int], cut: int) -> Any:
    """A tree of values whose first `cut` and one are together; for one value the value."""
    if len(values) == 1:
        return values[0]
    return (tuple(values[: cut + 1]), *values[cut + 1 :]) if cut else tuple(values)


def _swizzle(rng: random.Random) -> Swizzle:
    bits = rng.randint(0, 3)
    return Swizzle(bits, rng.randint(0, 4), rng.choice((1, 1, -1)) * rng.randint(1, 4))


def _swizzled(rng: random.Random, inner: Layout) -> ComposedLayout:
    chain = tuple(_swizzle(rng) for _ in range(rng.choice((1, 1, 2))))
    return ComposedLayout(chain, rng.choice((0, 0, rng.randint(0, MOST_STRIDE))), inner)


# --- laws ----------------------------------------------------------------------------------------------


def _table(a: AnyLayout) -> list[int]:
    """Every offset in the order of the index: what a layout is, by definition."""
    return [a(i) for i in range(size(a))]


def _defined(operation: Callable[..., Any], *operands: Any) -> Any:
    try:
        return operation(*operands)
    except LayoutAlgError as error:
        raise Undefined from error


def _given(fact: bool) -> None:
    """Require what a law assumes."""
    if not fact:
        raise Undefined


def _composed(a: AnyLayout, b: Layout) -> bool:
    return _table(_defined(composition, a, b)) == [a(x) for x in _table(b)]


def _associative(a: Layout, b: Layout, c: Layout) -> bool:
    """Holds while C stays in B's domain: past it, B and A o B are extended, each by its own last mode."""
    _given(cosize(c) <= size(b))
    left = _defined(composition, _defined(composition, a, b), c)
    return same_function(left, _defined(composition, a, _defined(composition, b, c)))


def _identities(a: AnyLayout) -> bool:
    others = (composition(a, Layout(size(a))), composition(Layout(cosize(a)), a))
    return all(same_function(b, a) for b in (*others, composition(Swizzle(0, 0, 0), a)))


def _refined(a: AnyLayout, b: Layout) -> bool:
    return compatible(b.shape, _defined(composition, a, b).shape)


def _distributes(a: Layout, b: Layout, c: Layout) -> bool:
    together = _defined(composition, a, concat(b, c))
    parts = (composition(a, b), composition(a, c))
    return all(same_function(m, p) for m, p in zip(modes(together), parts, strict=True))


def _coalesced_operands(a: AnyLayout, b: AnyLayout) -> bool:
    if cosize(b) > size(a):
        a, b = b, a
    _given(cosize(b) <= size(a))
    result = _defined(composition, a, b)
    return same_function(result, _defined(composition, coalesce(a), coalesce(b)))


def _completes(a: Layout, target: int) -> bool:
    """Sums of an offset of each are all different, and are everything below the target."""
    a = filter(a)
    rest = _defined(complement, a, target)
    sums = sorted(x + y for x in _table(a) for y in _table(rest))
    together = concat(a, rest)
    return sums == [*range(len(sums))] and len(sums) >= target and is_bijective(together)


def _complement_again(a: Layout) -> bool:
    a = filter(a)
    rest = _defined(complement, a)
    return sorted(_table(complement(rest, cosize(concat(a, rest))))) == sorted(_table(a))


def _inverses(a: AnyLayout) -> bool:
    _given(is_bijective(a))
    left, right = _defined(left_inverse, a), _defined(right_inverse, a)
    identity = Layout(size(a))
    pairs = (
        (composition(left, a), identity),
        (composition(a, right), identity),
        (composition(left, identity), right),
        (right_inverse(right), a),
    )
    return all(same_function(x, y) for x, y in pairs)


def _left_inverse(a: AnyLayout) -> bool:
    left = _defined(left_inverse, a)
    return is_injective(a) and all(left(x) == i for i, x in enumerate(_table(a)))


def _right_inverse(a: AnyLayout) -> bool:
    right = _defined(right_inverse, a)
    return is_injective(right) and all(a(x) == i for i, x in enumerate(_table(right)))


def _divided(a: Layout, tile: Layout) -> bool:
    """The divide by a tile that divides is the layout behind a permutation of its indices."""
    divided = _defined(logical_divide, a, tile)
    _given(size(divided) == size(a) and is_injective(tile))
    order = zipped_divide(Layout(size(a)), tile)
    back = composition(divided, right_inverse(order))
    return is_bijective(order) and same_function(divided, composition(a, order)) and same_function(back, a)


def _product_divided(tile: Layout, copies: Layout) -> bool:
    product = _defined(logical_product, tile, copies)
    back = logical_divide(product, Layout(size(tile)))
    return same_function(back[0], tile) and same_function(back[1], product[1])


def _compact_products(tile: Layout, copies: Layout) -> bool:
    held = is_bijective(_defined(logical_product, tile, copies))
    if rank(tile) == rank(copies):
        held = held and is_bijective(blocked_product(tile, copies))
        held = held and is_bijective(raked_product(tile, copies))
    return held


def _decided(a: AnyLayout) -> bool:
    values = _table(a)
    injective = len(set(values)) == len(values)
    return (
        cosize(a) == max(0, *values) - min(0, *values) + 1
        and is_injective(a) == injective
        and is_bijective(a) == (sorted(values) == [*range(len(values))])
    )


def _same(a: AnyLayout, b: AnyLayout) -> bool:
    """Sameness of two layouts, which is rare, and of one in two spellings."""
    for x, y in ((a, b), (a, coalesce(a))):
        equal = _table(x) == _table(y)
        at = find_difference(x, y) if size(x) == size(y) else None
        if not same_function(x, y) == same_function(y, x) == equal:
            return False
        if at is not None and _table(x)[at] == _table(y)[at]:
            return False
    return True


def _spellings(a: AnyLayout) -> bool:
    spelled = (coalesce(a), normal_form(a), composition(a, Layout(size(a))))
    return all(_table(b) == _table(a) and find_difference(a, b) is None for b in spelled)


def _downcast(a: AnyLayout, count: int) -> bool:
    finer = _defined(downcast, a, count)
    return sorted(_table(finer)) == sorted(x * count + i for x in _table(a) for i in range(count))


def _upcast(a: AnyLayout, count: int) -> bool:
    coarser = _table(_defined(upcast, a, count))
    return sorted(x // count for x in _table(a)) == sorted(coarser * (size(a) // len(coarser)))


def _linear(a: AnyLayout) -> bool:
    matrix = _defined(LinearLayout.from_layout, a)
    try:
        back = matrix.to_layout()
    except DivisibilityError:
        return rank_of(matrix.columns) < sum(map(bool, matrix.columns))
    return same_function(back, a)


def _matrix(a: AnyLayout) -> bool:
    """A matrix is the layout: its columns are added up for the bits of an index."""
    columns = _defined(LinearLayout.from_layout, a).columns
    for i, offset in enumerate(_table(a)):
        for k, column in enumerate(columns):
            offset ^= column if i >> k & 1 else 0
        if offset:
            return False
    return True


LAWS: Mapping[str, Law] = MappingProxyType(
    {
        "composition is one function after the other": Law(("any", "small"), _composed),
        "composition is associative": Law(("small", "small", "tiny"), _associative),
        "composition with an identity changes nothing": Law(("any",), _identities),
        "composition refines the right shape": Law(("any", "small"), _refined),
        "composition distributes over modes": Law(("small", "small", "small"), _distributes),
        "coalescing the operands of a composition changes nothing": Law(("any", "any"), _coalesced_operands),
        "coalescing changes no value": Law(("any",), lambda a: _table(coalesce(a)) == _table(a)),
        "a layout and its complement are a bijection": Law(("small", "number"), _completes),
        "the complement of the complement is the layout sorted": Law(("small",), _complement_again),
        "the inverses of a bijection are inverse": Law(("compact",), _inverses),
        "a left inverse gives the index back": Law(("any",), _left_inverse),
        "a right inverse gives the offset back": Law(("any",), _right_inverse),
        "dividing permutes the indices": Law(("compact", "tiny"), _divided),
        "dividing a product gives its parts": Law(("compact", "tiny"), _product_divided),
        "products of compact layouts are compact": Law(("compact", "tiny"), _compact_products),
        "what is decided is what the table shows": Law(("any",), _decided),
        "layouts are the same where their tables are": Law(("any", "any"), _same),
        "a normal form is the same function": Law(("any",), _spellings),
        "a value is its text": Law(("value",), lambda value: parse(str(value)) == value),
        "a downcast has the same bytes": Law(("any", "number"), _downcast),
        "an upcast has the same bytes": Law(("any", "number"), _upcast),
        "a linear layout comes back from its matrix": Law(("linear",), _linear),
        "a matrix has the values of its layout": Law(("linear",), _matrix),
    }
)
"""All of them by name."""
