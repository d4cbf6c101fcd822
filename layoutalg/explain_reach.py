"""Derivations of what a layout reaches: extremes, cosize, image_size, footprint, gaps, is_contiguous,
is_surjective, is_bijective, find_coordinate, find_offset_bit.

>>> paper = Paper()
>>> explain_cosize(paper, Layout((4, 8), (8, 2)))
39
>>> print(*(statement for step in paper.steps for statement in step.statements), sep="\\n")
A = (4,8):(8,2)
A(31) = 3 * 8 + 7 * 2 = 38
A(0) = 0
38 - 0 + 1 = 39
"""

from __future__ import annotations

import math

from layoutalg.derivation import Paper, attempt
from layoutalg.describe import Footprint, footprint, gaps, is_contiguous
from layoutalg.explain_collisions import explain_is_injective
from layoutalg.explain_inverse import sorted_modes
from layoutalg.extent import contiguous_from_zero, cosize, extremes, in_parts, whole_periods
from layoutalg.image import find_offset_bit, image_size, is_bijective, is_surjective
from layoutalg.layout import Layout, leaves
from layoutalg.measure import filter, plain, size, span
from layoutalg.solving import find_collision, find_coordinate
from layoutalg.swizzle import AnyLayout

SEARCHED_OFFSETS = 1 << 10
"""Offsets that are asked for one by one to find one that is missing."""


def explain_extremes(paper: Paper, layout: AnyLayout) -> tuple[int, int] | None:
    """The least and the greatest offset, each with a coordinate that has it.

    >>> explain_extremes(Paper(), Layout((4, 8), (-1, 10)))
    (-3, 70)
    """
    found, _ = attempt(extremes, layout)
    name = paper.name(layout, "A")
    if isinstance(layout, Layout):
        low, high = span(layout)
        paper.step(
            "the greatest offset has every digit of a positive stride at its end, and the others at 0; the "
            "least offset the other way round",
            *(_corner(name, layout, sign) for sign in (1, -1)),
        )
        return low, high
    if found is None:
        return None
    parts = in_parts(layout)
    if parts is None:
        law = "the outer layout cannot be moved inwards, so the offsets were looked at one by one"
    elif not any(s.bits for s in parts[0]):
        law = "nothing is swizzled: an offset is added to the layout inside"
    elif whole_periods(*parts):
        law = "the layout inside fills whole periods of the swizzles, and these only permute a period"
    else:
        period = max(s.period for s in parts[0])
        law = (
            f"swizzles move an offset inside its period of {period}: the extremes lie in the first and the "
            f"last period that the layout inside touches"
        )
    paper.step(law)
    for offset in dict.fromkeys(found):
        c, _ = attempt(find_coordinate, layout, offset)
        if c is not None:
            paper.write(f"{name}({c}) = {offset}")
    paper.write(
        f"{name}(c) >= {found[0]} for every c < {size(layout)}",
        f"{name}(c) <= {found[1]} for every c < {size(layout)}",
    )
    return found


def _corner(name: str, layout: Layout, sign: int) -> str:
    """The coordinate with the greatest (sign 1) or the least offset, as a statement."""
    coordinate, base = 0, 1
    terms: list[str] = []
    for s, d in leaves(layout):
        if d * sign > 0 and s > 1:
            coordinate += (s - 1) * base
            terms.append(f"{s - 1} * {d}")
        base *= s
    value = layout(coordinate)
    return (
        f"{name}({coordinate}) = {' + '.join(terms)} = {value}"
        if terms
        else f"{name}({coordinate}) = {value}"
    )


def explain_cosize(paper: Paper, layout: AnyLayout) -> int | None:
    """The length of the interval that holds 0 and every offset.

    >>> explain_cosize(Paper(), Layout(8, -1))
    8
    """
    result, _ = attempt(cosize, layout)
    found = explain_extremes(paper, layout)
    if result is None or found is None:
        return None
    low, high = min(0, found[0]), max(0, found[1])
    paper.step(
        "cosize is the length of the interval that holds 0 and every offset", f"{high} - {low} + 1 = {result}"
    )
    return result


def explain_image_size(paper: Paper, layout: AnyLayout) -> int | None:
    """How many different offsets there are.

    >>> explain_image_size(Paper(), Layout((4, 8), (1, 2)))
    18
    """
    result, _ = attempt(image_size, layout)
    parts = in_parts(layout)
    if result is None:
        return None
    if parts is None:
        paper.step("the outer layout cannot be moved inwards, so the offsets were counted one by one")
        paper.write(f"image_size({paper.name(layout, 'A')}) = {result}")
        return result
    inner = filter(parts[2])
    name = paper.name(inner, "A")
    paper.step(
        f"swizzles and added offsets are one-to-one, and stride 0 repeats what is there: {name} counts",
        f"image_size({paper.name(layout, 'X')}) = image_size({name})",
    )
    if attempt(find_collision, inner) == (None, None):
        explain_is_injective(paper, inner)
        paper.step("so there are as many offsets as coordinates", f"size({name}) = {result}")
        return result
    paper.step("mode by mode, the different sums are counted")
    for count in range(1, len(leaves(inner)) + 1):
        part = plain(*zip(*leaves(inner)[:count], strict=True))
        different, _ = attempt(image_size, part)
        if different is not None:
            paper.write(f"image_size({part}) = {different}")
    return result


def explain_footprint(paper: Paper, layout: AnyLayout) -> Footprint | None:
    """Extremes, number of offsets, number of coordinates.

    >>> explain_footprint(Paper(), Layout((4, 8), (0, 3)))
    Footprint(first=0, last=21, offsets=8, coordinates=32)
    """
    result, _ = attempt(footprint, layout)
    explain_extremes(paper, layout)
    explain_image_size(paper, layout)
    name = paper.name(layout, "A")
    paper.step("a footprint is (first, last, offsets, coordinates)", f"size({name}) = {size(layout)}")
    return result


def explain_is_contiguous(paper: Paper, layout: AnyLayout) -> bool | None:
    """Neighbours without a gap, each taken once.

    >>> explain_is_contiguous(Paper(), Layout((4, 8), (9, 1)))
    False
    """
    result, _ = attempt(is_contiguous, layout)
    if result is None:
        return None
    name = paper.name(layout, "A")
    found = explain_extremes(paper, layout)
    if found is not None:
        length, count = found[1] - found[0] + 1, size(layout)
        relation = "=" if length == count else "!="
        paper.step(
            "as many offsets as the interval is long, each taken once, leave no gap",
            f"{found[1]} - {found[0]} + 1 = {length} {relation} {count} = size({name})",
        )
        if length == count:
            explain_is_injective(paper, layout)
    return result


def explain_gaps(paper: Paper, layout: AnyLayout) -> tuple[tuple[int, int], ...] | None:
    """The runs of offsets that are not taken.

    >>> explain_gaps(Paper(), Layout((4, 8), (1, 6)))
    ((2, 7),)
    """
    result, _ = attempt(gaps, layout)
    if result is None:
        return None
    name = paper.name(layout, "A")
    if isinstance(layout, Layout):
        paper.step(
            "from the least stride up: copies at a distance d of what reaches r leave gaps of d - r - 1"
        )
        reach = 0
        for d, s in sorted((abs(d), s) for d, s, _ in sorted_modes(layout)):
            if d > reach + 1:
                paper.write(f"{d} - {reach} - 1 = {d - reach - 1}")
            if d:
                paper.write(f"{reach} + {d} * {s - 1} = {reach + d * (s - 1)}")
            reach += d * (s - 1)
    else:
        paper.step("swizzles tear the gaps apart: they are read off the set of offsets")
    found, _ = attempt(extremes, layout)
    taken, _ = attempt(image_size, layout)
    if found is not None and taken is not None:
        terms = " + ".join(f"{length} * {count}" for length, count in result) or "0"
        paper.step(
            "all gaps together are what the interval holds and the layout does not take",
            f"{terms} = {found[1]} - {found[0]} + 1 - {taken}",
            f"image_size({name}) = {taken}",
        )
    return result


def explain_is_surjective(paper: Paper, layout: AnyLayout, codomain: int | None = None) -> bool | None:
    """Every offset below the codomain is reached, or one that is not.

    >>> explain_is_surjective(Paper(), Layout((4, 8), (1, 3)))
    True
    """
    result, _ = attempt(is_surjective, layout, codomain)
    target = explain_cosize(paper, layout) if codomain is None else codomain
    if result is None or target is None:
        return None
    name = paper.name(layout, "A")
    if size(layout) < target:
        paper.step(
            "there are more offsets than coordinates to reach them",
            f"size({name}) = {size(layout)} < {target}",
        )
        return result
    parts = in_parts(layout)
    if parts is not None and not parts[0] and span(parts[2])[0] >= 0:
        _explain_run(paper, parts[2], target)
    missing = None if result else _missing(layout, target)
    if missing is not None:
        paper.step(f"no coordinate has the offset {missing}", f"find_coordinate({name}, {missing}) = None")
    elif result:
        paper.step(f"every offset below {target} is reached", f"image_size({name}) >= {target}")
    return result


def _explain_run(paper: Paper, layout: Layout, target: int) -> None:
    name = paper.name(layout, "A")
    paper.step(
        "from the least stride up: while a stride is no greater than the first offset that is not reached "
        f"yet, the run from 0 goes on; it has to come to {target}"
    )
    first = 1
    for d, s, _ in sorted_modes(layout):
        if d > first:
            paper.write(f"{d} > {first}")
            return
        paper.write(f"{d} <= {first}", f"{first} + {d} * {s - 1} = {first + d * (s - 1)}")
        first += d * (s - 1)
    paper.write(f"cosize({name}) = {first}")


def _missing(layout: AnyLayout, target: int) -> int | None:
    """An offset below `target` that is not reached, if one is found quickly."""
    parts = in_parts(layout)
    known = contiguous_from_zero(parts[2]) if parts and not parts[0] and span(parts[2])[0] >= 0 else 0
    for offset in (known, *range(min(target, SEARCHED_OFFSETS))):
        found, refusal = attempt(find_coordinate, layout, offset)
        if refusal is not None:
            return None
        if found is None and offset < target:
            return int(offset)
    return None


def explain_is_bijective(paper: Paper, layout: AnyLayout) -> bool | None:
    """One-to-one, and onto [0, size).

    >>> explain_is_bijective(Paper(), Layout((4, 8), (8, 1)))
    True
    """
    result, _ = attempt(is_bijective, layout)
    if result is None:
        return None
    name = paper.name(layout, "A")
    count, reach = size(layout), cosize(layout)
    explain_extremes(paper, layout)
    relation = "=" if reach == count else "!="
    paper.step(
        "a bijection onto [0, size) has a cosize of its size, and shares no offset",
        f"cosize({name}) = {reach} {relation} {count} = size({name})",
    )
    if reach == count:
        explain_is_injective(paper, layout)
        if not result and (found := extremes(layout))[0] < 0:
            paper.step("offsets below 0 are not in [0, size)", f"{found[0]} < 0")
    return result


def explain_find_coordinate(paper: Paper, layout: AnyLayout, offset: int) -> int | None:
    """A coordinate that has the offset, or why none has.

    >>> explain_find_coordinate(Paper(), Layout((4, 8), (8, 1)), 19)
    14
    """
    result, refusal = attempt(find_coordinate, layout, offset)
    name = paper.name(layout, "A")
    if result is not None:
        paper.step("one equation, sum of digit * stride = offset, solved from the largest stride down")
        paper.write(f"{name}({result}) = {offset}")
        return result
    if refusal is not None:
        return None
    found, _ = attempt(extremes, layout)
    common = math.gcd(*(d for _, d in leaves(layout))) if isinstance(layout, Layout) else 0
    if found is not None and not found[0] <= offset <= found[1]:
        shown = f"{offset} < {found[0]}" if offset < found[0] else f"{offset} > {found[1]}"
        paper.step("the offset lies outside of what is reached", shown)
    elif common > 1 and offset % common:
        strides = ", ".join(str(d) for _, d in leaves(layout)) if isinstance(layout, Layout) else ""
        paper.step(
            "every offset is a multiple of the greatest common divisor of the strides",
            f"gcd({strides}) = {common}",
            f"{offset} % {common} = {offset % common}",
        )
    else:
        paper.step(
            "the equation sum of digit * stride = offset has no solution with digits inside the extents",
            f"{name}(c) != {offset} for every c < {size(layout)}",
        )
    return None


def explain_find_offset_bit(paper: Paper, layout: AnyLayout, bit: int) -> int | None:
    """A coordinate whose offset has the bit, or that there is none.

    >>> explain_find_offset_bit(Paper(), Layout((4, 8), (8, 1)), 3)
    1
    """
    result, refusal = attempt(find_offset_bit, layout, bit)
    name = paper.name(layout, "A")
    law = f"bit {bit} of an offset depends on its residue modulo 2^{bit + 1} alone, of which there are few"
    if result is not None:
        paper.step(law, f"{name}({result}) = {layout(result)}", f"{layout(result)} >> {bit} & 1 = 1")
    elif refusal is None:
        paper.step(law, f"{name}(c) >> {bit} & 1 = 0 for every c < {size(layout)}")
    return result
