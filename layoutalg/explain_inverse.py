"""Derivations of complement, right_inverse, left_inverse, and what rests on them: max_common_layout,
max_common_vector, max_alignment, nullspace, swizzle_inverse.

>>> paper = Paper()
>>> print(explain_complement(paper, Layout((4, 2), (1, 8)), 32))
(2,2):(4,16)
>>> print(paper.steps[2].law, paper.steps[2].statements)
2:8 begins past the 4 that is reached: the gap 2:4 is left ('8 // 4 = 2', '8 * 2 = 16')
"""

from __future__ import annotations

from layoutalg.common import max_alignment, max_common_layout, max_common_vector, nullspace
from layoutalg.composed import Chain
from layoutalg.derivation import Paper, attempt
from layoutalg.errors import DivisibilityError, LayoutAlgError, NotInjectiveError
from layoutalg.explain_compose import explain_normal_form
from layoutalg.explain_measure import innermost
from layoutalg.int_tuple import IntTuple, product
from layoutalg.inverse import complement, left_inverse, right_inverse
from layoutalg.layout import Layout, concat, leaves
from layoutalg.measure import filter, size, span
from layoutalg.normal import normal_form
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzles, swizzle_inverse


def sorted_modes(layout: Layout) -> list[tuple[int, int, int]]:
    """(stride, extent, coordinate of the mode's first step) of modes of extents above 1, by stride.

    >>> sorted_modes(Layout((4, 8), (8, 1)))
    [(1, 8, 4), (8, 4, 1)]
    """
    found: list[tuple[int, int, int]] = []
    base = 1
    for s, d in leaves(layout):
        if s > 1:
            found.append((d, s, base))
        base *= s
    return sorted(found)


def explain_sorting(paper: Paper, layout: Layout) -> None:
    """Show where the modes are, in the order of their strides.

    >>> paper = Paper()
    >>> explain_sorting(paper, Layout((4, 8), (8, 1)))
    >>> print(*paper.steps[0].statements, sep="\\n")
    A = (4,8):(8,1)
    A(4) = 1
    A(1) = 8
    """
    name = paper.name(layout, "A")
    modes = sorted_modes(layout)
    shown = ", ".join(f"{s}:{d}" for d, s, _ in modes) or "none"
    paper.step(
        f"sorted by stride, the modes are {shown}; each begins at the product of the extents before it",
        *(f"{name}({w}) = {d}" for d, _, w in modes),
    )


def explain_collision(paper: Paper, layout: AnyLayout, refusal: LayoutAlgError | None) -> bool:
    """Show the two coordinates that a refusal names, if it names any.

    >>> explain_collision(Paper(), Layout(4), None)
    False
    """
    if not isinstance(refusal, NotInjectiveError) or refusal.a is None or refusal.b is None:
        return False
    name = paper.name(layout, "A")
    paper.step(
        "two coordinates share an offset, so no function can tell them apart",
        f"{name}({refusal.a}) = {name}({refusal.b}) = {layout(refusal.a)}",
    )
    return True


def explain_complement(paper: Paper, layout: AnyLayout, cotarget: IntTuple | None = None) -> Layout | None:
    """The digits that the layout leaves out, up to the target.

    >>> print(explain_complement(Paper(), Layout(4, 2), 16))
    (2,2):(1,8)
    """
    result, refusal = attempt(complement, layout, cotarget)
    if not isinstance(layout, Layout):
        plain = explain_normal_form(paper, layout)
        if not isinstance(plain, Layout):
            return None
        layout = plain
    name = paper.name(layout, "A")
    explain_sorting(paper, layout)
    target = span(layout)[1] + 1 if cotarget is None else product(cotarget)
    reached = 1
    gaps: list[str] = []
    for d, s, _ in sorted_modes(layout):
        if d == 0:
            continue
        if d < 0 or d % reached or d < reached:
            break
        if d > reached:
            gaps.append(f"{d // reached}:{reached}")
            paper.step(
                f"{s}:{d} begins past the {reached} that is reached: the gap {gaps[-1]} is left",
                f"{d} // {reached} = {d // reached}",
                f"{d} * {s} = {d * s}",
            )
        else:
            paper.step(f"{s}:{d} goes on at the {reached} that is reached: no gap", f"{d} * {s} = {d * s}")
        reached = s * d
    if result is None:
        if not explain_collision(paper, layout, refusal) and isinstance(refusal, DivisibilityError):
            _explain_hole(paper, layout, reached, refusal)
        return None
    last = -(-target // reached)
    if last > 1:
        gaps.append(f"{last}:{reached}")
        law = f"{reached} is reached: up to {target} the gap {gaps[-1]} is left, rounded up"
    else:
        law = f"{reached} is reached, and the target is {target}: nothing is left"
    r = paper.name(result, "C")
    paper.step(law, f"ceil_div({target}, {reached}) = {last}")
    paper.step(
        f"the gaps {', '.join(gaps) or 'are none'}: coalesced, they are the complement",
        f"complement({name}, {target}) = {r}",
    )
    both = concat(filter(layout), result)
    paper.step(
        f"sums of an offset of {name} and one of {r} all differ, and every offset below {target} is one",
        f"is_injective({both}) = True",
        f"is_surjective({both}, {target}) = True",
    )
    return result


def _explain_hole(paper: Paper, layout: Layout, reached: int, refusal: DivisibilityError) -> None:
    d = refusal.witness
    if d is not None and reached:
        paper.step(
            f"offset {d} would be reached twice: the stride {d} is no multiple of the {reached} below it",
            f"{d} % {reached} = {d % reached}" if d % reached else f"{d} < {reached}",
        )


def explain_right_inverse(paper: Paper, layout: AnyLayout) -> AnyLayout | None:
    """The coordinates that have the offsets 0, 1, 2, ..., as far as there are any.

    >>> print(explain_right_inverse(Paper(), Layout((4, 8), (8, 1))))
    (8,4):(4,1)
    """
    result, _ = attempt(right_inverse, layout)
    inner = layout
    if isinstance(layout, ComposedLayout):
        normal = explain_normal_form(paper, layout)
        inner = normal.inner if isinstance(normal, ComposedLayout) else normal
        if isinstance(normal, ComposedLayout) and normal.offset:
            paper.step("coordinate 0 has the least offset before the swizzle, and it is not 0")
    if isinstance(inner, Layout):
        _explain_chain(paper, inner, right_inverse(inner))
    if result is None:
        return None
    x, r = paper.name(layout, "X"), paper.name(result, "R")
    if isinstance(layout, ComposedLayout):
        explain_undone(paper, layout)
    count = size(result)
    paper.step(f"the definition holds: {x}({r}(i)) = i", f"{x}({r}(i)) = i for every i < {count}")
    return result


def _explain_chain(paper: Paper, layout: Layout, result: Layout) -> None:
    """Each mode of the result continues where the ones before it end."""
    name = paper.name(layout, "A")
    explain_sorting(paper, layout)
    paper.step(
        "from offset 0: the mode whose stride is what is reached so far goes next, as long as there is one"
    )
    reached = 1
    for s, w in leaves(result):
        if s > 1:
            paper.write(f"{name}({w}) = {reached}", f"{reached} * {s} = {reached * s}")
            reached *= s
    unused = [d for d, _, _ in sorted_modes(layout)]
    paper.step(
        f"no mode has the stride {reached}: here the chain ends"
        if reached not in unused
        else f"the modes of stride {reached} are of no further use: other chains are not longer",
    )


def explain_undone(paper: Paper, layout: ComposedLayout) -> None:
    """Say how the swizzles of a composed layout are undone.

    >>> paper = Paper()
    >>> explain_undone(paper, ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4)))
    >>> paper.steps[0].statements
    ('S = Sw<1,0,1>', 'swizzle_inverse(S) = Sw<1,0,1>')
    """
    normal = normal_form(layout)
    if isinstance(normal, ComposedLayout) and normal.swizzles:
        explain_swizzle_inverse(paper, normal.swizzles)


def explain_left_inverse(paper: Paper, layout: AnyLayout) -> AnyLayout | None:
    """The digits of an offset, read in the radix of the strides, put back where they came from.

    >>> print(explain_left_inverse(Paper(), Layout((4, 8), (1, 5))))
    (5,8):(1,4)
    """
    result, refusal = attempt(left_inverse, layout)
    inner: AnyLayout = layout
    offset = 0
    if isinstance(layout, ComposedLayout):
        normal = explain_normal_form(paper, layout)
        inner = normal
        if isinstance(normal, ComposedLayout):
            inner, offset = normal.inner, normal.offset
            explain_undone(paper, layout)
    if isinstance(inner, Layout):
        _explain_digits_back(paper, inner, offset)
    if result is None:
        explain_collision(paper, layout, refusal)
        return None
    x, r = paper.name(layout, "A"), paper.name(result, "L")
    paper.step(f"the definition holds: {r}({x}(i)) = i", f"{r}({x}(i)) = i for every i < {size(layout)}")
    return result


def _explain_digits_back(paper: Paper, layout: Layout, offset: int) -> None:
    explain_sorting(paper, layout)
    law = (
        "an offset is read in the radix of the strides: each must be a multiple of the one below, at least "
        "the extent times it; the digit of stride d goes to the coordinate where its mode begins"
    )
    paper.step(law)
    modes = sorted_modes(layout)
    if offset:
        modes = sorted([*modes, (offset, 2, 0)])
        paper.write(f"{offset} > 0")
    below, extent = 1, 1
    for d, s, _ in modes:
        if d <= 0 or d % below or d // below < extent:
            shown = f"{d} % {below} = {d % below}" if d > 0 and d % below else f"{d} < {below} * {extent}"
            paper.write(shown)
            return
        paper.write(f"{d} // {below} = {d // below} >= {extent}")
        below, extent = d, s


def explain_swizzle_inverse(paper: Paper, chain: Chain) -> Swizzles:
    """A swizzle is I + N over F2, N nilpotent: its inverse is (I + N)(I + N^2)(I + N^4)...

    >>> print(explain_swizzle_inverse(Paper(), Swizzle(3, 0, 1)))
    Sw<3,0,1> o Sw<2,0,2>
    """
    swizzles = Swizzles(*(chain if isinstance(chain, tuple) else (chain,)))
    result = swizzle_inverse(swizzles)
    s = paper.name(swizzles.simplest(), "S")
    if all(f.is_involution for f in swizzles):
        law = "the bits read are not the bits changed, so that a second time undoes the first"
        if len(swizzles) > 1:
            law = "each swizzle undoes itself; a chain is undone from its other end"
    else:
        law = (
            "a swizzle is I + N over F2, and N, which moves bits by its shift, dies out: the inverse is "
            "(I + N)(I + N^2)(I + N^4)..."
        )
    paper.step(law, f"swizzle_inverse({s}) = {result}")
    touched = sorted({bit for f in swizzles for pair in f.bit_pairs() for bit in pair})
    if touched and result != swizzles:
        t = paper.name(result.simplest(), "T")
        x = 0
        paper.step("both are linear, so it is enough to look at single bits")
        for bit in touched:
            x = 1 << bit
            for f in reversed(swizzles):
                x = f(x)
            paper.write(f"{t}({s}({1 << bit})) = {t}({x}) = {1 << bit}")
    return result


def explain_max_common_layout(paper: Paper, a: Layout, b: Layout) -> Layout:
    """What the right inverses of two layouts begin with.

    >>> print(explain_max_common_layout(Paper(), Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1))))
    8:4
    """
    x, y = paper.name(a, "A"), paper.name(b, "B")
    result = max_common_layout(a, b)
    paper.step("a right inverse lists the coordinates that lie next to each other, from offset 0 upwards")
    for layout in (a, b):
        explain_right_inverse(paper, layout)
    v = paper.name(result, "V")
    inverses = right_inverse(a), right_inverse(b)
    paper.step(
        "as long as both begin with the same coordinates, these lie next to each other in both layouts",
        *(f"right_inverse({n}) = {inverse}" for n, inverse in zip((x, y), inverses, strict=True)),
        f"{x}({v}(i)) = {y}({v}(i)) = i for every i < {size(result)}",
        f"max_common_layout({x}, {y}) = {v}",
    )
    return result


def explain_max_common_vector(paper: Paper, a: Layout, b: Layout) -> int:
    """The size of the common layout.

    >>> explain_max_common_vector(Paper(), Layout((4, 8), (8, 1)), Layout((4, 16), (16, 1)))
    8
    """
    common = explain_max_common_layout(paper, a, b)
    count = max_common_vector(a, b)
    paper.step("the vector is as long as the common layout", f"size({paper.name(common, 'V')}) = {count}")
    return count


def explain_max_alignment(paper: Paper, layout: AnyLayout) -> int | None:
    """The run of neighbours from offset 0, cut down to what divides every other stride.

    >>> explain_max_alignment(Paper(), Layout((8, 4), (1, 12)))
    4
    """
    result, _ = attempt(max_alignment, layout)
    if result is None:
        paper.step("runs are those of one layout, which swizzles may stand around")
        return None
    normal = layout if isinstance(layout, Layout) else explain_normal_form(paper, layout)
    swizzles, first = (normal.swizzles, normal.offset) if isinstance(normal, ComposedLayout) else ((), 0)
    inner = innermost(normal)
    paper.name(inner, "A")
    modes = sorted((abs(d), s) for d, s, _ in sorted_modes(inner))
    shown = ", ".join(f"{s}:{d}" for d, s in modes) or "none"
    paper.step(f"the modes, sorted by stride: {shown}; those without a gap are one run")
    run = 1
    least = span(inner)[0] + first
    rest = [least] if least else []
    for d, s in modes:
        if d <= run:
            paper.write(f"{run} + {s - 1} * {d} = {run + (s - 1) * d}")
            run += (s - 1) * d
        else:
            rest.append(d)
    also = ", the least offset" if least else ""
    kept = [1 << s.base for s in swizzles if s.bits]
    below = ", and no bit of the swizzles lies inside a run" if kept else ""
    paper.step(
        f"runs of n start at multiples of n when n divides the run{also} and every other stride{below}",
        f"gcd({', '.join(map(str, (run, *rest, *kept)))}) = {result}",
    )
    return result


def explain_nullspace(paper: Paper, layout: AnyLayout) -> Layout | None:
    """The coordinates whose modes have stride 0.

    >>> print(explain_nullspace(Paper(), Layout((4, 2, 8), (1, 0, 4))))
    2:4
    """
    result, _ = attempt(nullspace, layout)
    if result is None:
        paper.step(
            "coordinates that do not move are those of one layout, and offset 0 has to stay where it is"
        )
        return None
    normal = layout if isinstance(layout, Layout) else explain_normal_form(paper, layout)
    inner = innermost(normal)
    name = paper.name(layout, "A")
    n = paper.name(result, "N")
    paper.step(
        "a mode of stride 0 can be walked without moving; it begins at the product of the extents before it"
    )
    base = 1
    for s, d in leaves(inner):
        if d == 0 and s > 1:
            paper.write(f"{name}({base}) = 0")
        base *= s
    paper.step(
        "these modes, coalesced, as a layout of flat indices",
        f"nullspace({name}) = {n}",
        f"{name}({n}(i)) = 0 for every i < {size(result)}",
    )
    return result
