"""Derivations of where coordinates or layouts meet: find_collision, is_injective, aliasing, find_overlap,
overlap, find_difference, same_function; and of a permutation's cycles and order.

>>> paper = Paper()
>>> explain_is_injective(paper, Layout((4, 8), (1, 5)))
True
>>> print(*(statement for step in paper.steps for statement in step.statements), sep="\\n")
A = (4,8):(1,5)
1 > 0
0 + 1 * 3 = 3
5 > 3
3 + 5 * 7 = 38
"""

from __future__ import annotations

from layoutalg.derivation import Paper, attempt
from layoutalg.describe import Aliasing, aliasing, cycles, order
from layoutalg.explain_inverse import sorted_modes
from layoutalg.explain_measure import explain_coalesce
from layoutalg.extent import extremes, in_parts
from layoutalg.image import find_difference, image_size, is_injective, same_function
from layoutalg.layout import Layout
from layoutalg.measure import coalesce, filter_zeros, size
from layoutalg.solving import find_collision, find_overlap, overlap
from layoutalg.swizzle import AnyLayout

SHOWN_CYCLE = 12
"""Longest cycle that is written out."""

FOLLOWED_POINTS = 1 << 12
"""Points of a permutation that are followed to find a cycle of each length."""


def explain_is_injective(paper: Paper, layout: AnyLayout) -> bool | None:
    """No two coordinates share an offset, or two that do.

    >>> explain_is_injective(Paper(), Layout((4, 8), (1, 3)))
    False
    """
    result, refusal = attempt(is_injective, layout)
    parts = in_parts(layout)
    if parts is None:
        if refusal is None:
            name, offsets = paper.name(layout, "A"), "as many different offsets as coordinates"
            paper.step(f"the offsets were looked at one by one: {offsets if result else 'two are equal'}")
            paper.write(f"image_size({name}) {'=' if result else '<'} {size(layout)}")
        return result
    if not isinstance(layout, Layout):
        x, inside = paper.name(layout, "X"), paper.name(parts[2], "A")
        paper.step(f"swizzles and added offsets are one-to-one: {x} shares an offset where {inside} does")
    explain_find_collision(paper, parts[2])
    return result


def explain_find_collision(paper: Paper, layout: Layout, *, moving: bool = False) -> tuple[int, int] | None:
    """Two coordinates that share an offset, or the reason why there are none.

    >>> explain_find_collision(Paper(), Layout((5, 4), (3, 4)))
    (4, 15)
    """
    pair, refusal = attempt(find_collision, layout, moving=moving)
    name = paper.name(layout, "A")
    if moving:
        still = filter_zeros(layout)
        if still != layout:
            paper.step(f"modes of stride 0 are left out, {name} becomes {paper.name(still, 'M')}")
        layout = still
    if _explain_order(paper, layout):
        paper.step("every mode steps over all that the modes below it reach: no two sums are equal")
    elif pair is None and refusal is None:
        paper.step("the strides interleave, but no digits differ by amounts that cancel: all were tried")
    if pair is not None:
        paper.step(
            "two coordinates share an offset", f"{name}({pair[0]}) = {name}({pair[1]}) = {layout(pair[0])}"
        )
    return pair


def _explain_order(paper: Paper, layout: Layout) -> bool:
    """Whether every stride exceeds what the modes below it reach, shown up to the first that does not."""
    paper.name(layout, "A")
    paper.step("from the least stride up, each stride is compared with all that the modes below it reach")
    reach = 0
    for d, s in sorted((abs(d), s) for d, s, _ in sorted_modes(layout)):
        if d <= reach:
            paper.write(f"{d} <= {reach}")
            return False
        paper.write(f"{d} > {reach}", f"{reach} + {d} * {s - 1} = {reach + d * (s - 1)}")
        reach += d * (s - 1)
    return True


def explain_aliasing(paper: Paper, layout: AnyLayout) -> Aliasing | None:
    """A pair of coordinates that share an offset, and how many repeat one.

    >>> explain_aliasing(Paper(), Layout((4, 8), (2, 1)))
    Aliasing(pair=(1, 8), repeats=18)
    """
    result, _ = attempt(aliasing, layout)
    explain_is_injective(paper, layout)
    if result is not None:
        name = paper.name(layout, "A")
        count = image_size(layout)
        paper.step(
            "all coordinates but one of each offset repeat",
            f"size({name}) - image_size({name}) = {size(layout)} - {count} = {result.repeats}",
        )
        if result.pair is not None:
            i, j = result.pair
            paper.write(f"{name}({i}) = {name}({j}) = {layout(i)}")
    return result


def explain_find_overlap(paper: Paper, a: AnyLayout, b: AnyLayout) -> tuple[int, int] | None:
    """A coordinate of each layout with one offset, or why there are none.

    >>> explain_find_overlap(Paper(), Layout((4, 4), (1, 8)), Layout(4, 3))
    (5, 3)
    """
    found, refusal = attempt(find_overlap, a, b)
    x, y = paper.name(a, "A"), paper.name(b, "B")
    if found is not None:
        i, j = found
        paper.step(
            f"{x}(i) = {y}(j) is one equation in all digits, and it has a solution",
            f"{x}({i}) = {y}({j}) = {a(i)}",
        )
        return found
    if refusal is not None:
        return None
    (left, _), (right, _) = attempt(extremes, a), attempt(extremes, b)
    if left is not None and right is not None and (left[1] < right[0] or right[1] < left[0]):
        (_, top), (bottom, _) = sorted((left, right))
        paper.step("one ends before the other begins", f"{top} < {bottom}")
    else:
        paper.step(f"{x}(i) = {y}(j) is one equation in all digits, and it has no solution")
    return None


def explain_overlap(paper: Paper, a: AnyLayout, b: AnyLayout) -> bool | None:
    """Whether two layouts share an offset.

    >>> explain_overlap(Paper(), Layout(4), Layout(4, 8))
    True
    """
    result, _ = attempt(overlap, a, b)
    explain_find_overlap(paper, a, b)
    return result


def explain_find_difference(paper: Paper, a: AnyLayout, b: AnyLayout) -> int | None:
    """The first coordinate found at which two layouts differ, or why they do not.

    >>> explain_find_difference(Paper(), Layout((4, 8), (8, 1)), Layout((4, 8), (8, 2)))
    4
    """
    result, refusal = attempt(find_difference, a, b)
    x, y = paper.name(a, "A"), paper.name(b, "B")
    if size(a) != size(b):
        paper.step("the layouts have different sizes", f"size({x}) = {size(a)} != {size(b)} = size({y})")
        return None
    left, right = in_parts(a), in_parts(b)
    if refusal is not None:
        return None
    if left is not None and right is not None and left[:2] == right[:2]:
        paper.step("coalesced leaves are unique: two layouts are one function when theirs are equal")
        explain_coalesce(paper, left[2])
        explain_coalesce(paper, right[2])
        m, n = coalesce(left[2]), coalesce(right[2])
        if left[0] or left[1]:
            paper.step("the swizzles and the offset outside are the same")
        same = "=" if same_function(m, n) else "!="
        paper.step("side by side", f"same_function({m}, {n}) = {same == '='}")
    else:
        paper.step(
            "swizzled offsets differ by what depends on a residue modulo the swizzle period: all are compared"
        )
    if result is None:
        paper.step("no coordinate tells them apart", f"{x}(c) = {y}(c) for every c < {size(a)}")
    else:
        paper.step("they differ", f"{x}({result}) = {a(result)} != {b(result)} = {y}({result})")
    return result


def explain_same_function(paper: Paper, a: AnyLayout, b: AnyLayout) -> bool | None:
    """Whether two layouts agree at every flat coordinate.

    >>> explain_same_function(Paper(), Layout((2, 4)), Layout(8))
    True
    """
    result, _ = attempt(same_function, a, b)
    explain_find_difference(paper, a, b)
    return result


def explain_cycles(paper: Paper, layout: AnyLayout) -> tuple[tuple[int, int], ...] | None:
    """The cycles of a permutation, with one of each length.

    >>> explain_cycles(Paper(), Layout((4, 8), (8, 1)))
    ((1, 2), (5, 6))
    """
    result, _ = attempt(cycles, layout)
    name = paper.name(layout, "A")
    if result is None:
        explain_is_injective(paper, layout)
        return None
    paper.step(
        f"{name} is a bijection onto [0, {size(layout)}), so that every coordinate comes back to itself"
    )
    wanted = {length for length, _ in result if length <= SHOWN_CYCLE}
    for start in range(min(size(layout), FOLLOWED_POINTS)):
        turns = [start]
        while len(turns) <= SHOWN_CYCLE and (after := layout(turns[-1])) != start:
            turns.append(after)
        if len(turns) in wanted:
            wanted.discard(len(turns))
            paper.write(*(f"{name}({i}) = {j}" for i, j in zip(turns, [*turns[1:], start], strict=True)))
    total = " + ".join(f"{length} * {count}" for length, count in result)
    paper.step("the cycles hold every coordinate once", f"{total} = {size(layout)}")
    return result


def explain_order(paper: Paper, layout: AnyLayout) -> int | None:
    """The least common multiple of the lengths of the cycles.

    >>> explain_order(Paper(), Layout((3, 5), (5, 1)))
    6
    """
    result, _ = attempt(order, layout)
    found = explain_cycles(paper, layout)
    if found is not None and result is not None:
        lengths = ", ".join(str(length) for length, _ in found)
        paper.step("all cycles are back together after the least common multiple of their lengths")
        paper.write(f"lcm({lengths}) = {result}")
    return result
