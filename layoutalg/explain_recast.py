"""Derivations of upcast, downcast, recast_layout, and of to_f2, the columns of a linear layout.

>>> paper = Paper()
>>> print(explain_upcast(paper, Layout((8, 4), (4, 1)), 2))
(8,2):(2,1)
>>> print(*paper.steps[0].statements, sep="\\n")
A = (8,4):(4,1)
upcast(8:4, 2) = 8:2
upcast(4:1, 2) = 2:1
"""

from __future__ import annotations

from layoutalg.derivation import Paper, attempt, notation
from layoutalg.errors import DivisibilityError
from layoutalg.explain_compose import explain_normal_form
from layoutalg.f2 import Columns, to_f2, weights
from layoutalg.image import find_offset_bit
from layoutalg.int_tuple import flatten
from layoutalg.layout import Layout, leaves, make_layout
from layoutalg.measure import plain, size
from layoutalg.recast import downcast, recast_layout, upcast
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle


def explain_upcast(paper: Paper, layout: AnyLayout, n: int) -> AnyLayout | None:
    """Runs of n neighbours become one element, other strides are divided by n.

    >>> print(explain_upcast(Paper(), Layout((8, 4), (4, 1)), 2))
    (8,2):(2,1)
    """
    result, refusal = attempt(upcast, layout, n)
    if n < 1:
        paper.step("an element is made of at least one", f"{n} < 1")
        return None
    if isinstance(layout, ComposedLayout):
        _explain_fields(paper, layout, n, result)
        return result
    name = paper.name(layout, "A")
    paper.step(
        f"{n} neighbours become one element: a stride that {n} divides is divided, a stride that divides {n} "
        f"joins {n} // stride coordinates into one"
    )
    joined = [attempt(upcast, make_layout(s, d), n)[0] for s, d in leaves(layout)]
    for (s, d), part in zip(leaves(layout), joined, strict=True):
        if part is None:
            _explain_split_mode(paper, s, d, n)
            return None
        paper.write(f"upcast({s}:{d}, {n}) = {part}")
    runs = [s // size(part) for (s, _), part in zip(leaves(layout), joined, strict=True) if part is not None]
    left = [(run - 1) * d for (_, d), run in zip(leaves(layout), runs, strict=True) if run > 1]
    total = sum(left)
    terms = f"{' + '.join(map(str, left))} = {total}" if len(left) > 1 else str(total)
    paper.step(
        f"inside an element the remainders add up, and must not reach the next one, {n}",
        f"{terms} {'<' if total < n else '>='} {n}",
    )
    if result is None:
        witness = getattr(refusal, "witness", None)
        if witness is not None:
            paper.write(f"{name}({witness}) = {layout(witness)}")
        return None
    firsts = plain_picks(layout, runs)
    r, e = paper.name(result, "R"), paper.name(firsts, "E")
    paper.step(
        f"{e} picks the first coordinate of each element; there the offset, counted in elements of {n}, is R",
        f"{name}({e}(c)) // {n} = {r}(c) for every c < {size(result)}",
    )
    return result


def plain_picks(layout: Layout, runs: list[int]) -> Layout:
    """The flat coordinates at which every digit is a multiple of its run.

    >>> print(plain_picks(Layout((8, 4)), [2, 1]))
    (4,4):(2,8)
    """
    extents: list[int] = []
    steps: list[int] = []
    base = 1
    for (s, _), run in zip(leaves(layout), runs, strict=True):
        extents.append(s // run)
        steps.append(base * run)
        base *= s
    return plain(extents, steps)


def _explain_split_mode(paper: Paper, s: int, d: int, n: int) -> None:
    if d % n and (d <= 0 or n % d):
        law = f"neither of {d} and {n} divides the other: an element would begin inside of a step of {s}:{d}"
        paper.step(law, f"{d} % {n} = {d % n}", *((f"{n} % {d} = {n % d}",) if d > 0 else (f"{d} < 0",)))
        return
    run = n // d
    paper.step(
        f"{run} steps of {d} make an element, and {s}:{d} does not hold whole ones",
        f"{s} % {run} = {s % run}",
    )


def _explain_fields(paper: Paper, layout: ComposedLayout, n: int, result: AnyLayout | None) -> None:
    """An upcast or downcast moves the fields of the swizzles by log2 n bits."""
    normal = _normal(paper, layout, n)
    if normal is None:
        return
    if not isinstance(normal, ComposedLayout):
        explain_upcast(paper, normal, n)
        _explain_together(paper, "upcast", layout, n, result)
        return
    shift = n.bit_length() - 1
    paper.step(
        f"offsets lose their lowest {shift} bits, so that bit M of a swizzle becomes bit M - {shift}; "
        f"swizzled bits below {shift} would move parts of an element; they go only where no offset has them"
    )
    for i, swizzle in enumerate(normal.swizzles):
        inside = max(0, shift - swizzle.base)
        rest = ComposedLayout(normal.swizzles[i + 1 :] or Swizzle(0, 0, 0), normal.offset, normal.inner)
        name = paper.name(rest, "L")
        for read, _ in sorted(swizzle.bit_pairs())[:inside]:
            found, _ = attempt(find_offset_bit, rest, read)
            paper.step(f"{swizzle} reads bit {read}", f"find_offset_bit({name}, {read}) = {notation(found)}")
            if found is not None:
                paper.write(f"{name}({found}) >> {read} & 1 = 1")
    if normal.offset:
        paper.step("the offset is divided too", f"{normal.offset} % {n} = {normal.offset % n}")
    explain_upcast(paper, normal.inner, n)
    _explain_together(paper, "upcast", layout, n, result)


def _normal(paper: Paper, layout: ComposedLayout, n: int) -> AnyLayout | None:
    """The normal form of a composed layout, if elements of n can be cast in it, or None."""
    normal = explain_normal_form(paper, layout)
    if isinstance(normal, Layout):
        return normal
    if n & (n - 1):
        paper.step("swizzled bits move only by powers of two", f"{n} & {n - 1} = {n & (n - 1)}")
        return None
    if not isinstance(normal.inner, Layout) or not normal.swizzles:
        paper.step(
            "only swizzles over one layout are cast, and here a layout stays outside",
            f"normal_form({paper.name(layout, 'X')}) = {normal}",
        )
        return None
    return normal


def _explain_together(
    paper: Paper, operation: str, layout: AnyLayout, n: int, result: AnyLayout | None
) -> None:
    if result is not None:
        paper.step("all parts together", f"{operation}({paper.name(layout, 'X')}, {n}) = {result}")


def explain_downcast(paper: Paper, layout: AnyLayout, n: int) -> AnyLayout | None:
    """Each element becomes n: offsets are multiplied, and the parts run in the mode of stride 1.

    >>> print(explain_downcast(Paper(), Layout((8, 2), (2, 1)), 2))
    (8,4):(4,1)
    """
    result, refusal = attempt(downcast, layout, n)
    if n < 1:
        paper.step("an element is split into at least one part", f"{n} < 1")
        return None
    if isinstance(layout, ComposedLayout):
        normal = _normal(paper, layout, n)
        if normal is None:
            return None
        inner = normal
        if isinstance(normal, ComposedLayout):
            inner, shift = normal.inner, n.bit_length() - 1
            paper.step(
                f"offsets gain {shift} bits below: bits of swizzles move up by {shift}, the offset is "
                f"multiplied by {n}, and the layout inside is cast for itself",
                f"{normal.offset} * {n} = {normal.offset * n}",
            )
        explain_downcast(paper, inner, n)
        _explain_together(paper, "downcast", layout, n, result)
        return result
    name = paper.name(layout, "A")
    paper.step(
        f"each element becomes {n}: strides are multiplied by {n}, and the parts run in a mode of stride 1"
    )
    if result is None:
        if isinstance(refusal, DivisibilityError):
            paper.step("no mode has stride 1", *(f"{d} != 1" for s, d in leaves(layout) if s > 1))
        return None
    flat = leaves(result) if isinstance(result, Layout) else ()
    for (s, d), (t, e) in zip(leaves(layout), flat, strict=True):
        if t != s:
            paper.write(f"{s} * {n} = {t}")
        elif s > 1:
            paper.write(f"{d} * {n} = {e}")
    runs = [t // s for (s, _), (t, _) in zip(leaves(layout), flat, strict=True)]
    r, e_ = paper.name(result, "R"), paper.name(plain_picks(Layout(tuple(t for t, _ in flat)), runs), "E")
    paper.step(
        f"{e_} picks the first part of each element, and its offset is {n} times the old one",
        f"{r}({e_}(c)) = {name}(c) * {n} for every c < {size(layout)}",
    )
    return result


def explain_recast_layout(paper: Paper, layout: AnyLayout, old_bits: int, new_bits: int) -> AnyLayout | None:
    """An upcast or a downcast by the ratio of the widths.

    >>> print(explain_recast_layout(Paper(), Layout((8, 64), (64, 1)), 16, 128))
    (8,8):(8,1)
    """
    result, _ = attempt(recast_layout, layout, old_bits, new_bits)
    if old_bits > 0 and new_bits > 0 and new_bits % old_bits == 0:
        n = new_bits // old_bits
        paper.step(f"wider elements: an upcast by {n}", f"{new_bits} // {old_bits} = {n}")
        explain_upcast(paper, layout, n)
    elif old_bits > 0 and new_bits > 0 and old_bits % new_bits == 0:
        n = old_bits // new_bits
        paper.step(f"narrower elements: a downcast by {n}", f"{old_bits} // {new_bits} = {n}")
        explain_downcast(paper, layout, n)
    elif old_bits > 0 and new_bits > 0:
        paper.step(
            "one width must divide the other",
            f"{old_bits} % {new_bits} != 0",
            f"{new_bits} % {old_bits} != 0",
        )
    return result


def explain_to_f2(paper: Paper, layout: AnyLayout) -> Columns | None:
    """The offsets of the single bits of a coordinate, and why all others are their XOR.

    >>> explain_to_f2(Paper(), Layout((4, 8), (8, 1)))
    (8, 16, 1, 2, 4)
    """
    result, _ = attempt(to_f2, layout)
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    name = paper.name(layout, "A")
    if not isinstance(inner, Layout) or (isinstance(layout, ComposedLayout) and not layout.swizzles):
        paper.step("layout after layout, each must add up without carries; then single bits say it all")
        paper.write(*(f"{name}({1 << j}) = {c}" for j, c in enumerate(result or ())))
        return result
    broken = [s for s in flatten(inner.shape) if s & (s - 1)]
    if broken:
        s = broken[0]
        paper.step(
            "coordinates have whole bits only where extents are powers of two",
            f"{s} & {s - 1} = {s & (s - 1)}",
        )
        return None
    columns, _ = attempt(weights, inner)
    if columns is None:
        paper.step("negative strides do not combine by XOR")
        return None
    offset = layout.offset if isinstance(layout, ComposedLayout) else 0
    m = paper.name(inner, "M") if isinstance(layout, ComposedLayout) else name
    paper.step(
        "each bit of a coordinate has a weight; sums of weights are XORs when no two weights share a bit",
        *(f"{m}({1 << j}) = {w}" for j, w in enumerate(columns)),
    )
    seen = 0
    for w in (offset, *columns) if offset else columns:
        if seen & w:
            paper.step("two weights share a bit, so that adding them carries", f"{seen} & {w} = {seen & w}")
            return None
        seen |= w
    if len(columns) > 1:
        paper.write(f"{' | '.join(map(str, columns))} = {' + '.join(map(str, columns))}")
    if isinstance(layout, ComposedLayout) and layout.swizzles and result is not None:
        paper.step(
            "swizzles are linear: they act on each column",
            *(f"{name}({1 << j}) = {c}" for j, c in enumerate(result)),
        )
    if result is None:
        paper.step("a linear map sends 0 to 0", f"{name}(0) = {layout(0)} != 0")
    return result
