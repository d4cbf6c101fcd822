"""complement, right_inverse, left_inverse and nullspace.

The idea.  Sort the modes of a layout by stride.  If every stride is a multiple of extent * stride of the
one below, the modes are some of the digits of a mixed radix, and then

    complement       is the layout of the digits that are missing, up to a target size,
    right_inverse    reads the digits from 0 upwards, as far as none is missing: A(R(i)) = i,
    left_inverse     turns an offset back into the coordinate it came from:      L(A(i)) = i.

        A = (4,2):(1,8)      digits: 4 at 1, (2 at 4 is missing), 2 at 8
        complement(A, 32) = (2,2):(4,16)      right_inverse(A) = 4:1      left_inverse(A) = (8,2):(1,4)

Notes.  Each function says what holds for its result and refuses what has none.  Swizzled layouts are
inverted through the inverse of their swizzles.

Comparison with CuTe.  The same results wherever CuTe's satisfy their own post-conditions.  A layout that is
not injective has no complement and no left inverse: refused, with two coordinates that share an offset.

Other left inverses cannot be read off digit by digit, and are found by trying radices.  Once the radix of L
is fixed, L(layout(i)) = i is a system of linear equations in L's strides.

    layout (2,2):(2,3)    offsets 0 2 3 5    radix 2: digits (0,0) (0,1) (1,1) (1,2)    L = (2,3):(1,1)

The digits of L must cut where something happens, so the radices tried are the chains of divisors among the
strides and the ends of the modes; for offsets up to EXHAUSTIVE_REACH every radix is tried, and a refusal
there is a proof.  A candidate is an answer only when its composition with the layout is the identity.

>>> print(search_left_inverse(Layout((2, 2), (2, 3))))
(2,3):(1,1)
>>> search_left_inverse(Layout((3, 3), (2, 3))) is None
True
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, NoReturn, overload

from layoutalg.budget import Budget
from layoutalg.compose import (
    complement_symbols,
    compose_layouts,
    composition,
    find_rotation,
    need_normal_form,
    normal_form,
)
from layoutalg.decide import find_collision
from layoutalg.errors import (
    DivisibilityError,
    LayoutAlgError,
    NotInjectiveError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
    named,
)
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    Swizzles,
    Trace,
    check_layouts,
    decide,
    flatten_tree,
    has_symbols,
    integer_leaves,
    layout_of,
    layout_size,
    leaf_lists,
    leaves,
    merge,
    not_integers,
    plain,
    product,
    span,
)


def _sorted_modes(layout: Layout) -> list[tuple[int, int, int]] | None:
    """(stride, extent, weight in the flat index) of all modes of extents above 1, sorted by stride; None
    for a layout that is not all integers."""
    out: list[tuple[int, int, int]] = []
    base = 1
    strides = flatten_tree(layout.stride)
    for s, d in zip(flatten_tree(layout.shape), strides, strict=True):
        if s != 1:
            out.append((d, s, base))
            base *= s
    if type(base) is not int or type(sum(strides)) is not int:
        return None
    out.sort()
    return out


def _refuse_collision(name: str, layout: AnyLayout, inner: Layout, *, moving: bool = False) -> None:
    """Raise for a layout two of whose coordinates share an offset."""
    pair = find_collision(inner, moving=moving)
    if pair is not None:
        raise NotInjectiveError(
            f"{name} of {layout}: coordinates {pair[0]} and {pair[1]} share the offset {layout(pair[0])}; "
            f"an injective layout is needed",
            layout=layout,
            a=pair[0],
            b=pair[1],
        )


def _refuse_negative(name: str, layout: AnyLayout, stride: int) -> NoReturn:
    raise UnsupportedError(f"{name} of {layout}: stride {stride} is negative; strides >= 0 are accepted")


def complement(layout: AnyLayout, cotarget: IntTuple | None = None, *, trace: Trace | None = None) -> Layout:
    """The layout R of the offsets that `layout` leaves out: every offset below `cotarget` is
    layout(c) + R(r) for exactly one offset layout(c) and one r.

    R's strides ascend; its last mode is rounded up, so that layout and R together reach the first whole
    multiple at or past `cotarget` (3:2 up to 10 covers 12).  Modes of stride 0 are ignored, as in CuTe.
    `cotarget` is a number of elements or a shape; the default is the cosize of `layout`.  Raises
    NotInjectiveError with two coordinates, DivisibilityError when the gaps are not a layout (`witness` is
    the offset that would be reached twice), UnsupportedError for swizzled layouts and negative strides.

    Source: CUTLASS, media/docs/cpp/cute/02_layout_algebra.md, Complement.

    >>> print(complement(Layout((4, 2), (1, 8)), 32))
    (2,2):(4,16)
    """
    if not isinstance(layout, Layout):
        check_layouts("complement", layout)
        normal = normal_form(layout, trace=trace)
        if not isinstance(normal, Layout):
            raise UnsupportedError(
                f"complement of {layout}: take the complement of the layout inside instead"
            )
        layout = normal
    modes = _sorted_modes(layout)
    try:
        target = cotarget if cotarget is None or type(cotarget) is int else product(Layout(cotarget).shape)
    except LayoutAlgError as error:
        named("complement", error, layout, cotarget)
    if modes is None or type(target or 0) is not int:
        return complement_symbols(layout, target)
    if modes and modes[0][0] < 0:
        _refuse_negative("complement", layout, modes[0][0])
    if target is None:
        target = span(layout)[1] + 1
    elif target <= 0:
        raise ShapeError(f"complement of {layout} up to {target}: the target must be positive")
    if trace is not None:
        trace.note("complement", layout=layout, target=target, modes=modes)
    extents: list[int] = []
    strides: list[int] = []
    current = 1
    for d, s, _ in modes:
        if not d:
            continue
        gap, rest = divmod(d, current)
        if rest or not gap:
            _refuse_collision("complement", layout, layout, moving=True)
            raise DivisibilityError(
                f"complement of {layout}: a layout that completes the offsets below {d} reaches {d} a second "
                f"time; sorted by stride, each stride must be a multiple of extent * stride below it",
                lhs=layout,
                rhs=target,
                witness=d,
            )
        if gap > 1:
            extents.append(gap)
            strides.append(current)
        if trace is not None:
            trace.note("past digit", extent=s, stride=d, current=current, gap=gap)
        current = s * d
    gap = -(-target // current)
    if gap > 1:
        extents.append(gap)
        strides.append(current)
    result = plain(*merge(extents, strides))
    if trace is not None:
        trace.note("rounded up", target=target, current=current, gap=gap)
        trace.note("inverse", name="complement", layout=layout, target=target, result=result)
    return result


@overload
def right_inverse(layout: Layout) -> Layout: ...
@overload
def right_inverse(layout: ComposedLayout) -> AnyLayout: ...
def right_inverse(layout: AnyLayout, *, trace: Trace | None = None) -> AnyLayout:
    """R with layout(R(i)) = i for every i < size(R), on as many whole modes as continue each other.

    R is 1:0 when no mode has stride 1.  For a swizzled layout R is as long as the swizzle maps the indices
    below that length onto themselves.  Raises DivisibilityError when no coordinate has the offset 0
    (a composed layout with an offset), UnsupportedError when the outer function is a layout that cannot be
    moved inwards.

    Source: CUTLASS, include/cute/layout.hpp, right_inverse.

    >>> print(right_inverse(Layout((4, 8), (8, 1))))
    (8,4):(4,1)
    >>> print(right_inverse(Layout((3, 5), (2, 7))))
    1:0
    >>> import sympy
    >>> print(right_inverse(Layout((8, sympy.Symbol("n", integer=True, positive=True)), (1, 8))))
    8*n:1
    """
    if isinstance(layout, Layout):
        return _right_inverse(layout, trace)
    rotation = find_rotation(layout)
    if rotation is not None:
        return rotation.inverse()
    swizzles, offset, inner = need_normal_form("right_inverse", layout, trace=trace)
    if offset:
        raise DivisibilityError(
            f"right_inverse of {layout}: no coordinate has the offset 0, since {offset} is added",
            lhs=layout,
            witness=0,
        )
    result = _right_inverse(inner, trace)
    undo = swizzles.inverse()
    full = product(result.shape)
    length = full if _fixes(undo, full) else _closed_length(undo, full)
    indices: AnyLayout = layout_of(length, 1 if length > 1 else 0)
    if not _fixes(undo, length):
        indices = ComposedLayout(undo, 0, indices)
    undone = (
        result
        if length == full and isinstance(indices, Layout)
        else normal_form(ComposedLayout(result, 0, indices))
    )
    if trace is not None:
        trace.note("undone", layout=layout, undo=undo, length=length, plain=result, result=undone, left=False)
    return undone


def _fixes(chain: Swizzles, length: int) -> bool:
    """True when the chain leaves every index below `length` where it is."""
    return all(chain(1 << j) == 1 << j for j in range((length - 1).bit_length()))


def _right_inverse(layout: Layout, trace: Trace | None = None) -> Layout:
    """The longest chain of modes in which each stride is the product of the extents before it."""
    extents: list[int] = []
    weights: list[int] = []
    modes = _sorted_modes(layout)
    if modes is None and has_symbols(layout):
        return _chain_of_symbols("right_inverse", layout)
    if modes is None:
        raise not_integers("right_inverse", layout)
    if trace is not None:
        trace.note("right inverse", layout=layout, modes=modes)
    current = 1
    for i, (d, s, weight) in enumerate(modes):
        if d == current:
            if i + 1 < len(modes) and modes[i + 1][0] == d:
                extents, weights = _longest_chain(modes)
                break
            extents.append(s)
            weights.append(weight)
            current *= s
    result = plain(*merge(extents, weights))
    if trace is not None:
        trace.note("chain", layout=layout, extents=extents, weights=weights)
        trace.note("inverse", name="right_inverse", layout=layout, result=result)
    return result


def _chain_of_symbols(operation: str, layout: Layout) -> Layout:
    """The longest chain of modes of a layout with symbols, for a left inverse one of all modes.

    Raises UndecidedError where it is not decided that they are the same modes for all values of the symbols.
    """
    import sympy

    left: list[tuple[Any, Any, Any]] = []
    base: Any = 1
    for s, d in zip(flatten_tree(layout.shape), flatten_tree(layout.stride), strict=True):
        if s != 1:
            left.append((d, s, base))
            base = base * s
    extents: list[Any] = []
    weights: list[Any] = []
    current: Any = 1
    open_ = operation == "left_inverse"
    while left:
        known = [decide(sympy.Eq(d, current)) for d, _, _ in left]
        following = [mode for mode, equal in zip(left, known, strict=True) if equal]
        open_ = open_ or None in known
        if not following and not open_:
            break
        if len(following) != 1:
            strides = ", ".join(str(d) for d, _, _ in left)
            raise UndecidedError(
                f"{operation} of {layout}: of the strides {strides} it is not decided which one alone is "
                f"{current}, where the modes before end, for all values of the symbols"
            )
        left.remove(following[0])
        extents.append(following[0][1])
        weights.append(following[0][2])
        current = sympy.expand(current * following[0][1])
    return plain(*merge(extents, weights))


def _longest_chain(modes: list[tuple[int, int, int]]) -> tuple[list[int], list[int]]:
    """(extents, weights) of `_right_inverse` where two modes have one stride, so that there is a choice."""
    best: dict[int, tuple[int, list[tuple[int, int]]]] = {}
    for d, s, weight in reversed(modes):
        length, chain = best.get(s * d, (1, []))
        if d > 0 and (d not in best or best[d][0] < s * length):
            best[d] = (s * length, [(s, weight), *chain])
    chain = best.get(1, (1, []))[1]
    return [s for s, _ in chain], [w for _, w in chain]


def _closed_length(chain: Swizzles, limit: int) -> int:
    """The largest n <= limit of which the chain permutes [0, n): a multiple of 2^t that holds all changed
    bits, or a power of two."""
    changed = 0
    for swizzle in chain:
        changed |= swizzle.zzz_mask
    n = limit >> changed.bit_length() << changed.bit_length()
    if n:
        return n
    n = 1 << limit.bit_length() - 1
    while any(chain(1 << j) >= n for j in range(n.bit_length() - 1)):
        n >>= 1
    return n


@overload
def left_inverse(layout: Layout) -> Layout: ...
@overload
def left_inverse(layout: ComposedLayout) -> AnyLayout: ...
def left_inverse(layout: AnyLayout, *, trace: Trace | None = None) -> AnyLayout:
    """L with L(layout(i)) = i for every flat coordinate i of an injective `layout`.

    The offsets' digits are read in the radix of the strides: sorted, each must be a multiple of the one
    below, with room for its extent.  Where they are not, other radices are tried.
    Raises DivisibilityError when none fits, NotInjectiveError with two coordinates that share an offset,
    UnsupportedError for negative strides.

    Source: CUTLASS, include/cute/layout.hpp, left_inverse.

    >>> print(left_inverse(Layout((4, 8), (1, 5))))
    (5,8):(1,4)
    >>> print(left_inverse(Layout((2, 2), (2, 3))))
    (2,3):(1,1)
    """
    if isinstance(layout, Layout):
        return _left_inverse(layout, layout, 0, trace)
    rotation = find_rotation(layout)
    if rotation is not None:
        return rotation.inverse()
    swizzles, offset, inner = need_normal_form("left_inverse", layout, trace=trace)
    result = _left_inverse(layout, inner, offset, trace)
    undo = swizzles.inverse()
    domain = product(result.shape)
    top = 0
    for swizzle in undo:
        top |= swizzle.yyy_mask | swizzle.zzz_mask
    if not top:
        return result
    unit = 1 << top.bit_length()
    domain = -(-domain // unit) * unit
    inverse = composition(result, ComposedLayout(undo, 0, layout_of(domain, 1)))
    if trace is not None:
        trace.note("undone", layout=layout, undo=undo, length=domain, plain=result, result=inverse, left=True)
    return inverse


def _searched(original: AnyLayout, layout: Layout, offset: int, why: str) -> Layout:
    """A left inverse that is not read off digit by digit, or the refusal."""
    _refuse_collision("left_inverse", original, layout)
    inverse = None if offset else search_left_inverse(layout)
    if inverse is not None:
        return inverse
    proof = "there is none" if not offset and span(layout)[1] <= EXHAUSTIVE_REACH else "none was found"
    raise DivisibilityError(
        f"left_inverse of {original}: sorted by stride, {why} of it, so that the inverse cannot be read off "
        f"digit by digit, and in other radices {proof}",
        lhs=original,
    )


def _left_inverse(original: AnyLayout, layout: Layout, offset: int, trace: Trace | None) -> Layout:
    """L with L(offset + layout(i)) = i."""
    modes = _sorted_modes(layout)
    if modes is None and has_symbols(layout) and not offset:
        return _chain_of_symbols("left_inverse", layout)
    if modes is None:
        raise not_integers("left_inverse", layout)
    if modes and modes[0][0] < 0:
        _refuse_negative("left_inverse", original, modes[0][0])
    if trace is not None:
        trace.note("left inverse", layout=layout, offset=offset, modes=modes)
    if offset:
        modes = sorted([*modes, (offset, 2, 0)])
    extents: list[int] = []
    strides: list[int] = []
    current, below, weight = 1, 1, 0
    for d, s, w in modes:
        gap, rest = divmod(d, current)
        if rest or gap < below:
            inverse = _searched(
                original, layout, offset, f"{d} is not a multiple of {current} with room for {below}"
            )
            if trace is not None:
                trace.note("searched", stride=d, current=current, below=below)
                trace.note("inverse", name="left_inverse", layout=layout, result=inverse)
            return inverse
        if gap > 1:
            extents.append(gap)
            strides.append(weight)
        if trace is not None:
            trace.note("read digit", stride=d, extent=s, weight=w, current=current, gap=gap)
        current, below, weight = d, s, w
    if modes:
        extents.append(below)
        strides.append(weight)
    result = plain(*merge(extents, strides))
    if trace is not None:
        trace.note("inverse", name="left_inverse", layout=layout, offset=offset, result=result)
    return result


EXHAUSTIVE_REACH = 96
"""Layouts whose largest offset is at most this are refused only after every radix was tried."""

CHAIN_LIMIT = 256
"""The most radices that are tried, for layouts that reach further."""


def search_left_inverse(layout: Layout) -> Layout | None:
    """L with L(layout(i)) = i, or None when none is found: there is none when the largest offset is at most
    EXHAUSTIVE_REACH.  Strides must not be negative.

    >>> search_left_inverse(Layout((2, 2), (2, 3)))
    Layout((2, 3), (1, 1))
    """
    top = span(layout)[1]
    if top <= EXHAUSTIVE_REACH:
        cuts = list(range(2, top + 1))
    else:
        ends = {d for _, d in leaves(layout)} | {s * d for s, d in leaves(layout)}
        cuts = sorted(cut for cut in ends if 1 < cut <= top)
    budget = Budget(lambda: f"left inverse of {layout}:", reached="the radices were not all tried when")
    for count, chain in enumerate(_chains(1, cuts)):
        if count >= CHAIN_LIMIT and top > EXHAUSTIVE_REACH:
            return None
        inverse = _fit(layout, chain, top, budget)
        if inverse is not None:
            return inverse
    return None


def _chains(last: int, cuts: list[int]) -> Iterator[list[int]]:
    """Every ascending list of cuts in which each divides the next, shorter ones first at each step."""
    yield []
    for i, cut in enumerate(cuts):
        if cut % last == 0:
            for rest in _chains(cut, cuts[i + 1 :]):
                yield [cut, *rest]


def _fit(layout: Layout, chain: list[int], top: int, budget: Budget) -> Layout | None:
    """The layout with digits cut at `chain` that inverts `layout`, or None."""
    samples = _samples(layout)
    budget.spend(len(samples) * (len(chain) + 1 + len(leaves(layout))))
    weights = _solve([(_digits(x, chain), i) for i, x in samples], len(chain) + 1, budget)
    if weights is None:
        return None
    ends = [1, *chain]
    extents = [b // a for a, b in zip(ends, chain, strict=False)] + [top // ends[-1] + 1]
    candidate = plain(*merge(extents, weights))
    try:
        identity = compose_layouts(candidate, layout)
    except (DivisibilityError, UndecidedError):
        return None
    size = layout_size(layout)
    return (
        candidate if merge(*leaf_lists(identity)) == ([size] if size > 1 else [], [1][: size > 1]) else None
    )


def _samples(layout: Layout) -> list[tuple[int, int]]:
    """(coordinate, offset): all of a small layout; else those that move one mode by a power of two or to its
    end, and the last one."""
    if span(layout)[1] <= EXHAUSTIVE_REACH:
        return [(i, layout(i)) for i in range(layout_size(layout))]
    places: list[int] = [layout_size(layout) - 1]
    base = 1
    for s, _ in leaves(layout):
        steps = {1 << j for j in range((s - 1).bit_length())} | {s - 1}
        places += [x * base for x in sorted(steps) if 0 < x < s]
        base *= s
    return [(i, layout(i)) for i in places]


def _digits(x: int, chain: list[int]) -> list[int]:
    out: list[int] = []
    last = 1
    for cut in chain:
        out.append(x % cut // last)
        last = cut
    return [*out, x // last]


def _solve(equations: list[tuple[list[int], int]], unknowns: int, budget: Budget) -> list[int] | None:
    """Integers that satisfy all equations, or None when there are none: Euclid on the columns."""
    columns = [[digits[k] for digits, _ in equations] for k in range(unknowns)]
    change = [[int(i == k) for i in range(unknowns)] for k in range(unknowns)]
    known: list[int] = []
    for r, (_, value) in enumerate(equations):
        done = len(known)
        while True:
            moving = sorted(
                (k for k in range(done, unknowns) if columns[k][r]), key=lambda k: abs(columns[k][r])
            )
            if len(moving) < 2:
                break
            least, other = moving[0], moving[-1]
            budget.spend(1 + (len(equations) + unknowns) // 4)
            q = columns[other][r] // columns[least][r]
            for table in (columns, change):
                table[other] = [a - q * b for a, b in zip(table[other], table[least], strict=True)]
        budget.spend(1 + unknowns // 4)
        rest = value - sum(columns[j][r] * y for j, y in enumerate(known))
        if not moving:
            if rest:
                return None
            continue
        for table in (columns, change):
            table[done], table[moving[0]] = table[moving[0]], table[done]
        if rest % columns[done][r]:
            return None
        known.append(rest // columns[done][r])
    return [sum(change[j][k] * y for j, y in enumerate(known)) for k in range(unknowns)]


def nullspace(layout: AnyLayout) -> Layout:
    """The coordinates whose modes have stride 0, as a layout of flat indices: layout(nullspace(i)) = 0.

    Swizzles leave 0 where it is; with an offset no such coordinate has the offset 0, and
    UnsupportedError is raised.

    >>> print(nullspace(Layout((4, 2, 8), (1, 0, 4))))
    2:4
    """
    _, offset, inner = need_normal_form("nullspace", layout)
    if offset:
        raise UnsupportedError(f"nullspace of {layout}: its offset {offset} is added to every coordinate")
    base = 1
    extents: list[int] = []
    weights: list[int] = []
    for s, d in zip(*integer_leaves("nullspace", inner), strict=True):
        if d == 0:
            extents.append(s)
            weights.append(base)
        base *= s
    return plain(*merge(extents, weights))
