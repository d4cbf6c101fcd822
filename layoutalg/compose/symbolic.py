"""The algebra in symbols: operations on layouts whose extents and strides are sympy expressions.

The idea.  A symbolic layout stands for all layouts that its symbols' values give, and the result of an
operation has to be right for all of them: put in the values, and it is the function that the integer
operation gives.  The rules are those of the integers (digits, inverse), but each question they ask of the
operands is decided for all values at once, see symbols; what is not decided is an UndecidedError that names
the condition, or, inside `with_assumptions`, a condition that comes back with the result.

    A = (n,m):(1,ld)      logical_divide(A, (4,8)) = ((4,ceiling(n/4)),(8,ceiling(m/8))):((1,4),(ld,8*ld))
    A o 4:1               4:1 if 4 <= n
    complement(A, ld*m)   ld/n:n if n divides ld

What is decided, or comes back as a condition:

    a shape                       extents are positive
    coalesce, flatten, modes      nothing: modes merge where strides continue each other for all values
    filter, filter_zeros          strides are not 0
    cosize, extremes              the signs of strides
    composition                   how steps of b meet extents of a: they fit, divide, do not carry
    complement                    strides are positive multiples of extent * stride below
    divides, products, tiles      as complement, composition and, for products, cosize
    same_function                 coalesced extents and strides are equal
    shape_div                     each extent is a multiple of its divisor
    upcast, recast_layout         strides are multiples of the factor or divide it, extents fill it
    downcast                      which mode has stride 1: the first that has it for all values grows

What depends on a layout's offsets (inverses, injectivity, swizzles, vectors) takes integers alone,
and raises UnsupportedError with the operation's name: tests/draws/symbolic_calls.py lists the operations.
Answers hold on the domain: past the end of a mode whose extent turns out to be 1, default strides would be 0.

>>> import sympy
>>> n, m, ld = sympy.symbols("n m ld", integer=True, positive=True)
>>> from layoutalg.algebra import logical_divide
>>> print(logical_divide(Layout((n, m), (1, ld)), (4, 8)))
((4,ceiling(n/4)),(8,ceiling(m/8))):((1,4),(ld,8*ld))

Comparison with CuTe.  CuTe's dynamic integers are such symbols, and it takes every condition it cannot check
for granted, without a word.
"""

from __future__ import annotations

from typing import Any, TypeAlias

from layoutalg.errors import DivisibilityError, ShapeError, UndecidedError, UnsupportedError
from layoutalg.layout import (
    Layout,
    ScaledBasis,
    any_leaves,
    canonical,
    decide,
    divides,
    is_nonnegative,
    leaf_lists,
    merge,
    merge_open,
    not_integers,
    plain,
    quotient,
    require,
    span,
    unflatten_tree,
)

SymbolicPiece: TypeAlias = "tuple[list[Any], list[Any]]"


def compose_symbols(a: Layout, b: Layout) -> list[SymbolicPiece]:
    """Extents and strides of a o b, one piece for each leaf of `b`.

    A leaf s:d of b walks through the digits of a: digits that d is a multiple of stay; a digit of
    extent n that d divides takes n / d steps and then counts the next one.  Digits that several leaves move
    must not carry.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> compose_symbols(Layout((4, n), (n, 1)), Layout((2, n), (2, 4)))
    [([2], [2*n]), ([n], [1])]
    """
    what = f"composition({a}, {b})"
    radix, weights = merge_open(a)
    used: list[list[Any]] = [[] for _ in radix]
    _require_forward(what, b)
    return [_walk(what, radix, weights, s, d, used) for s, d in any_leaves(b)]


def _require_forward(what: str, b: Layout) -> None:
    """Every step of `b` is 0 or positive."""
    import sympy

    for s, d in any_leaves(b):
        if isinstance(d, ScaledBasis):
            raise UnsupportedError(f"{what}: the second layout gives coordinates, the first takes indices")
        if s != 1 and d != 0 and not require(what, sympy.Le(1, d)):
            raise ShapeError(f"{what}: step {d} of the second layout is negative; use non-negative strides")


def undecided_value(what: str, coordinate: int, value: Any, expected: Any) -> UndecidedError:
    """The error for a result that is right only if `value`, at a coordinate, is the one that is `expected`.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> undecided_value("composition", 3, n, 4).condition
    Eq(n, 4)
    """
    import sympy

    condition = sympy.Eq(value, expected)
    return UndecidedError(
        f"{what}: digits of the first layout carry, so that there is no such layout unless the value at "
        f"coordinate {coordinate} is right: {condition}",
        condition=condition,
    )


def _walk(
    what: str, radix: list[Any], weights: list[Any], extent: Any, step: Any, used: list[list[Any]]
) -> SymbolicPiece:
    """Extents and strides of x -> A(step * x), x < extent; notes in `used` how far it moves each digit."""
    import sympy

    extents: list[Any] = []
    strides: list[Any] = []
    if extent == 1 or step == 0:
        return [extent], [0]
    for n, weight, moved in zip(radix, weights, used, strict=False):
        exact = quotient(step, n)
        if exact is not None:
            step = exact
            continue
        run = _divided(what, n, step)
        fits = decide(sympy.Le(extent, run))
        rest = None if fits else quotient(extent, run)
        if fits is None and rest is None:
            fits = require(what, sympy.Le(extent, run))
        if fits:
            _move(what, n, moved, (extent - 1) * step)
            return [*extents, extent], [*strides, _times(step, weight)]
        _move(what, n, moved, n - step)
        extents.append(run)
        strides.append(_times(step, weight))
        extent = _divided(what, extent, run) if rest is None else rest
        step = 1
    return [*extents, extent], [*strides, _times(step, weights[-1])]


def _divided(what: str, a: Any, b: Any) -> Any:
    """a / b; the condition that b divides a is required."""
    if not require(what, divides(b, a)):
        raise UnsupportedError(
            f"{what}: {b} does not divide {a}; in symbols, steps and extents must divide each other"
        )
    exact = quotient(a, b)
    return canonical(a // b) if exact is None else exact


def _move(what: str, n: Any, moved: list[Any], distance: Any) -> None:
    """Note a walk of `distance` along a digit of extent n; a sum of several must not carry."""
    import sympy

    moved.append(distance)
    if len(moved) > 1 and not require(what, sympy.Le(canonical(sum(moved)), n - 1)):
        raise UnsupportedError(f"{what}: a digit of extent {n} carries; in symbols, digits must not carry")


def _times(step: Any, weight: Any) -> Any:
    """step * weight in canonical form; the weight may be a scaled basis."""
    if isinstance(weight, ScaledBasis):
        return weight.scaled(canonical(step * weight.value))
    return canonical(step * weight)


def upcast_symbols(layout: Layout, n: int) -> Layout:
    """`upcast` for a layout with symbols; raises UndecidedError, with the condition, where one is open.

    >>> import sympy
    >>> k = sympy.Symbol("k", integer=True, positive=True)
    >>> print(upcast_symbols(Layout((2 * k, 8), (1, 4 * k)), 2))
    (k,8):(1,2*k)
    """
    import sympy

    what = f"upcast({layout}, {n})"
    extents: list[Any] = []
    strides: list[Any] = []
    over: Any = 0  # how far the coordinates that are joined reach inside a wider element
    for s, d in _offset_leaves("upcast", layout):
        exact = quotient(d, n)
        if s == 1 or exact is not None:
            extents.append(s)
            strides.append(0 if s == 1 else _floor(exact, d, n))
        elif type(d) is int and d > 0 and n % d == 0:
            run: Any = n // d
            if quotient(s, run) is None and decide(sympy.Le(s, run)):
                run = s
            over = over + (run - 1) * d
            extents.append(1 if run == s else _floor(_divided(what, s, run), s, run))
            strides.append(0 if run == s else 1)
        elif type(d) is not int:
            extents.append(s)
            strides.append(_floor(_divided(what, d, n), d, n))
        elif require(what, sympy.Eq(s, 1)):
            extents.append(1)
            strides.append(0)
        else:
            raise UnsupportedError(f"{what}: the stride {d} is neither a multiple of {n} nor divides it")
    if not require(what, sympy.Le(canonical(over), n - 1)):
        raise UnsupportedError(f"{what}: the modes that are joined reach past an element of {n}")
    return _like(layout, extents, strides)


def downcast_symbols(layout: Layout, n: int) -> Layout:
    """`downcast` for a layout with symbols.  Raises as `upcast_symbols` does.

    >>> import sympy
    >>> k = sympy.Symbol("k", integer=True, positive=True)
    >>> print(downcast_symbols(Layout((k, 8), (1, k)), 2))
    (2*k,8):(1,2*k)
    """
    import sympy

    what = f"downcast({layout}, {n})"
    parts = _offset_leaves("downcast", layout)
    if n == 1:
        return layout
    grown = next((i for i, (s, d) in enumerate(parts) if s != 1 and d == 1), None)
    for i, (s, d) in enumerate(parts):
        if grown is None and s != 1 and decide(sympy.Eq(d, 1)) is not False:
            grown = i if require(what, sympy.Eq(d, 1)) else None
    if grown is None:
        grown = next((i for i, (s, _) in enumerate(parts) if s == 1), None)
    if grown is None:
        raise UnsupportedError(f"{what}: no mode has stride 1, in which the {n} parts could run")
    extents = [s * n if i == grown else s for i, (s, _) in enumerate(parts)]
    strides = [1 if i == grown else 0 if s == 1 else d * n for i, (s, d) in enumerate(parts)]
    return _like(layout, extents, strides)


def _floor(exact: Any, a: Any, b: Any) -> Any:
    """The quotient of a by b as an integer for all values: floor(n/2), where n/2 is one by an assumption."""
    return exact if type(exact) is int or exact.is_integer else canonical(a // b)


def _offset_leaves(operation: str, layout: Layout) -> list[tuple[Any, Any]]:
    """Extents and strides of offsets; strides along modes are refused."""
    parts = list(any_leaves(layout))
    if any(isinstance(d, ScaledBasis) for _, d in parts):
        raise not_integers(operation, layout)
    return parts


def _like(layout: Layout, extents: list[Any], strides: list[Any]) -> Layout:
    """A layout of the modes of another."""
    shape, stride = (unflatten_tree(tuple(map(canonical, flat)), layout.shape) for flat in (extents, strides))
    return Layout(shape, stride)


def complement_symbols(layout: Layout, target: Any) -> Layout:
    """`complement` for symbolic operands, up to `target` elements; None for the cosize.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> print(complement_symbols(Layout((4, n), (1, 8)), 24 * n))
    (2,3):(4,8*n)
    """
    import sympy

    what = f"complement of {layout}"
    modes = _ascending(what, layout)
    if target is None:
        target = span(layout)[1] + 1
    if not require(what, sympy.Le(1, target)):
        raise ShapeError(f"{what} up to {target}: the target must be positive")
    extents: list[Any] = []
    strides: list[Any] = []
    current: Any = 1
    real = True  # whether the topmost mode takes part for all values, instead of being one of extent 1
    for s, d in modes:
        gap = _gap(what, layout, d, current)
        real = decide(sympy.Le(2, s)) is True or (real and gap == 1)
        if gap != 1:
            extents.append(gap)
            strides.append(current)
        top, current = s, canonical(s * d)
    gap = quotient(target, current)
    if gap is None:
        if not real and not require(what, sympy.Le(2, top)):
            raise UnsupportedError(f"{what}: extent {top} is 1; leave the mode out")
        rounded = sympy.ceiling(sympy.sympify(target) / current)
        gap = 1 if is_nonnegative(current - target) else canonical(rounded)
    if gap != 1:
        extents.append(gap)
        strides.append(current)
    return plain(*merge(extents, strides))


def _gap(what: str, layout: Layout, stride: Any, current: Any) -> Any:
    """stride / current: how many times the offsets below `current` repeat before the next mode."""
    if not require(what, divides(current, stride)):
        raise DivisibilityError(
            f"{what}: sorted by stride, each stride must be a multiple of extent * stride below it, and "
            f"{stride} is none of {current}",
            lhs=layout,
        )
    exact = quotient(stride, current)
    return canonical(stride // current) if exact is None else exact


def _ascending(what: str, layout: Layout) -> list[tuple[Any, Any]]:
    """(extent, stride) of the moving modes, sorted by stride; the order must be decided."""
    import sympy

    out: list[tuple[Any, Any]] = []
    for s, d in any_leaves(layout):
        if isinstance(d, ScaledBasis):
            raise UnsupportedError(f"{what}: its strides move along modes; a layout of offsets is needed")
        if s == 1 or d == 0:
            continue
        if not require(what, sympy.Le(1, d)):
            raise UnsupportedError(f"{what}: stride {d} is negative; strides >= 0 are accepted")
        at = len(out)
        while at and _before(what, (s, d), out[at - 1]):
            at -= 1
        out.insert(at, (s, d))
    return out


def _before(what: str, low: tuple[Any, Any], high: tuple[Any, Any]) -> bool:
    """True when mode `low` = (extent, stride) belongs below `high`."""
    import sympy

    (s, d), (t, e) = low, high
    if quotient(e, canonical(s * d)) is not None:
        return True
    if quotient(d, canonical(t * e)) is not None:
        return False
    return not require(what, sympy.Le(e, d))


def _merged_leaves(layout: Layout) -> list[Any]:
    """Extents and then strides of the coalesced layout."""
    return [x for part in merge(*leaf_lists(layout)) for x in part]


def require_same(a: Layout, b: Layout) -> None:
    """The two layouts are the same function: their coalesced leaves are equal for all values.

    Raises UndecidedError where they are not; extents may then still be 1, and the functions be equal.

    >>> import sympy
    >>> n = sympy.Symbol("n", integer=True, positive=True)
    >>> require_same(Layout((n, 4)), Layout(4 * n))
    """
    import sympy

    what = f"same_function({a}, {b})"
    left, right = _merged_leaves(a), _merged_leaves(b)
    if len(left) != len(right):
        raise UndecidedError(f"{what}: in symbols, layouts are compared that coalesce to as many modes")
    for x, y in zip(left, right, strict=True):
        bases = isinstance(x, ScaledBasis) or isinstance(y, ScaledBasis)
        condition = None if bases else sympy.Eq(x, y)
        if not (x == y if bases else require(what, condition)):
            raise UndecidedError(f"{what}: they coalesce to layouts with {x} and {y}", condition=condition)
