"""Derivations of composition and normal_form.

>>> paper = Paper()
>>> print(explain_composition(paper, Layout((6, 4), (4, 1)), Layout(12, 2)))
(3,4):(8,1)
>>> print(*paper.steps[2].statements, sep="\\n")
A(2) = 8
A(2 * x) = 8 * x for every x < 3
2 * 3 = 6
A(6) = 1
A(6 * x) = 1 * x for every x < 4
A o 12:2 = (3,4):(8,1)
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

from layoutalg.composed import Chain, Tiler, composition, fitting_modes, is_chain
from layoutalg.derivation import Paper, attempt, notation
from layoutalg.errors import DivisibilityError, LayoutAlgError
from layoutalg.int_tuple import flatten, idx2crd, product
from layoutalg.layout import Layout, leaves, make_layout
from layoutalg.measure import merge_open, size
from layoutalg.normal import normal_form
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle

MAX_SHOWN_BITS = 20
"""Statements about all arguments of a swizzle are made for arguments of this many bits."""


def explain_composition(paper: Paper, a: AnyLayout | Swizzle | Chain, b: Any) -> Any:
    """composition(a, b), or None where it is refused.

    >>> print(explain_composition(Paper(), Layout((8, 8), (8, 1)), (4, Layout(2, 4))))
    (4,2):(8,4)
    """
    result, _ = attempt(composition, a, b)
    if isinstance(a, Layout):
        if is_chain(b):
            whole = paper.name(a, "A")
            b = ComposedLayout(b, 0, Layout(a.shape))
            paper.step(f"a swizzle on the right acts on the flat index of {whole}")
        if isinstance(b, Layout):
            return _digits(paper, a, b)
        if isinstance(b, ComposedLayout):
            return explain_normal_form(paper, ComposedLayout(a, 0, b))
        if b is None:
            _keep(paper, a)
        elif isinstance(b, tuple):
            return _by_mode(paper, a, cast("tuple[Tiler, ...]", b))
        else:
            paper.step(f"an extent n means n:1, the first n indices of {paper.name(a, 'A')}")
            return _digits(paper, a, Layout(b))
        return result
    if isinstance(a, ComposedLayout) and b is not None:
        name, inside = paper.name(a, "A"), paper.name(a.inner, "M")
        paper.step(
            f"composition is associative: in {name} the outer function stays, {inside} o B comes inside"
        )
        inner = explain_composition(paper, a.inner, b)
        if isinstance(inner, (Layout, ComposedLayout)):
            _outside(paper, a, b, inner, cast("AnyLayout", result))
        return result
    if b is None:
        _keep(paper, a)
        return result
    right = Layout(b) if isinstance(b, int) else b
    f, g = paper.name(a, "S"), paper.name(right, "L")
    if is_chain(right):
        paper.step("swizzles one after another are joined where they move bits alike; equal moves cancel")
    else:
        paper.step("a swizzle of a layout stays outside of it, and joins the swizzles that are there")
    if result is not None:
        r = paper.name(result, "R")
        count = 1 << MAX_SHOWN_BITS if is_chain(right) else size(right)
        paper.step("the definition holds", f"{f}({g}(c)) = {r}(c) for every c < {count}")
    return result


def _keep(paper: Paper, a: AnyLayout | Swizzle | Chain) -> None:
    name = paper.name(a, "A")
    paper.step(f"_ keeps all of {name}", f"composition({name}, _) = {name}")


def _outside(paper: Paper, a: ComposedLayout, b: Any, inner: AnyLayout, result: AnyLayout) -> None:
    outer = ComposedLayout(a.outer, a.offset, inner)
    if outer == result:
        paper.step(
            "the outer function and the offset come back", f"{paper.name(a, 'A')} o {notation(b)} = {result}"
        )
        return
    x, r = paper.name(outer, "X"), paper.name(result, "R")
    paper.step(
        "outer functions in a row are joined; the function is the same",
        f"{x}(c) = {r}(c) for every c < {size(result)}",
    )


def _by_mode(paper: Paper, a: Layout, tiler: tuple[Tiler, ...]) -> Layout | None:
    result, _ = attempt(composition, a, tiler)
    parts = explain_by_mode(paper, "composition", a, tiler, explain_composition, "are dropped")
    if parts is not None and result is not None:
        names = ", ".join(paper.name(part, "R") for part in parts)
        paper.step("the modes together", f"concat({names}) = {result}")
    return result


def explain_by_mode(
    paper: Paper,
    operation: str,
    layout: Layout,
    tiler: tuple[Tiler, ...],
    one: Callable[[Paper, Layout, Tiler], Any],
    rest: str,
) -> list[Layout] | None:
    """What `one` says of each mode of a layout with its part of a tuple, or None where it refuses.

    `rest` is what happens to the modes past the tuple.

    >>> layout, tiler = Layout((8, 8), (8, 1)), (4, Layout(2, 4))
    >>> parts = explain_by_mode(Paper(), "composition", layout, tiler, explain_composition, "are dropped")
    >>> print(*parts or ())
    4:8 2:4
    """
    name = paper.name(layout, "A")
    parts, _ = attempt(fitting_modes, operation, layout, tiler)
    if parts is None:
        law = f"a tuple works mode by mode, and {name} has too few modes"
        paper.step(law, f"rank({name}) < {len(tiler)}")
        return None
    past = f"; the modes of {name} past the tuple {rest}" if len(parts) > len(tiler) else ""
    paper.step(f"a tuple works mode by mode{past}")
    found: list[Layout] = []
    for i, (part, t) in enumerate(zip(parts, tiler, strict=False)):
        paper.mode(layout, i, part)
        result = one(paper, part, t)
        if result is None:
            return None
        found.append(result)
    return found


def _digits(paper: Paper, a: Layout, b: Layout) -> Layout | None:
    """Two plain layouts: every mode of b split where it fills a digit of a, then the sums of digits."""
    result, refusal = attempt(composition, a, b)
    x, y = paper.name(a, "A"), paper.name(b, "B")
    paper.step(f"by definition ({x} o {y})(c) = {x}({y}(c)) for every coordinate c of {y}")
    if any(d < 0 for s, d in leaves(b) if s > 1):
        _explain_refusal(paper, a, b, refusal)
        return None
    explain_radix(paper, a)
    pieces: list[tuple[int, Layout]] = []
    for s, d in leaves(b):
        piece, stopped = attempt(composition, a, make_layout(s, d))
        if piece is None:
            _explain_refusal(paper, a, b, refusal or stopped)
            return None
        _explain_mode(paper, a, s, d, piece)
        pieces.append((d, piece))
    if result is None:
        _explain_refusal(paper, a, b, refusal)
        return None
    if sum(s > 1 for s, _ in leaves(b)) > 1:
        _explain_sums(paper, a, pieces)
    r = paper.name(result, "R")
    paper.step(
        "side by side, in the tree of the second layout, the modes satisfy the definition",
        f"{x} o {y} = {r}",
        f"{x}({y}(c)) = {r}(c) for every c < {size(b)}",
    )
    return result


def explain_radix(paper: Paper, a: Layout) -> None:
    """What the digits of an index of `a` are: its extents, neighbours that go on being one.

    >>> paper = Paper()
    >>> explain_radix(paper, Layout((2, 3, 4), (1, 2, 1)))
    >>> print(paper.steps[0].statements[-1])
    A(i) = i % 6 * 1 + i // 6 * 1 for every i < 24
    """
    name = paper.name(a, "A")
    extents, strides = merge_open(a)
    if not extents:
        paper.step(
            f"{name} has one digit, so it multiplies its index by one stride",
            f"{name}(i) = i * {strides[0]} for every i < {size(a)}",
        )
        return
    terms: list[str] = []
    below = 1
    for n, d in zip([*extents, 0], strides, strict=True):
        terms.append(f"i{f' // {below}' if below > 1 else ''}{f' % {n}' if n else ''} * {d}")
        below *= n
    law = f"an index of {name} has a digit for each mode, and {name} adds up digit * stride"
    if len(strides) < len(flatten(a.shape)):
        law += "; modes that go on where the one before them ends share a digit"
    paper.step(law, f"{name}(i) = {' + '.join(terms)} for every i < {size(a)}")


def _explain_mode(paper: Paper, a: Layout, s: int, d: int, piece: Layout) -> None:
    name = paper.name(a, "A")
    if s == 1:
        paper.step("a mode of extent 1 reaches index 0 alone", f"{name} o {s}:{d} = {piece}")
        return
    parts = leaves(piece)
    many = len(parts) > 1
    paper.step(
        f"{s}:{d} fills a digit of {name} on its way: there it carries, and a new mode begins"
        if many
        else f"{s}:{d} walks through {name} in equal steps: one mode"
    )
    step = d
    for i, (e, w) in enumerate(parts):
        paper.write(f"{name}({step}) = {w}", f"{name}({step} * x) = {w} * x for every x < {e}")
        if i + 1 < len(parts):
            paper.write(f"{step} * {e} = {step * e}")
        step *= e
    paper.write(f"{name} o {s}:{d} = {piece}")


def _explain_sums(paper: Paper, a: Layout, pieces: list[tuple[int, Layout]]) -> None:
    """Why the modes may stand side by side: no digit of a carries when they add up."""
    name = paper.name(a, "A")
    extents, _ = merge_open(a)
    if not extents:
        paper.step(f"{name}(i + j) = {name}(i) + {name}(j), so the modes add up")
        return
    radix = (*extents, 1)
    used: list[list[int]] = [[] for _ in radix]
    for step, piece in pieces:
        for e, _w in leaves(piece):
            if e > 1:
                for place, digit in zip(used, idx2crd(step, radix), strict=True):
                    place.append((e - 1) * digit)
            step *= e
    sums = [[u for u in place if u] for place in used[:-1]]
    if all(sum(place) < n for place, n in zip(sums, extents, strict=True)):
        paper.step(
            f"the digits that the modes use never add up to a full one, so nothing carries, and "
            f"{name}(i + j) = {name}(i) + {name}(j)",
            *(
                f"{' + '.join(map(str, place))} = {sum(place)} < {n}"
                if len(place) > 1
                else f"{sum(place)} < {n}"
                for place, n in zip(sums, extents, strict=True)
            ),
        )
    else:
        paper.step(
            f"digits of {name} may carry when the modes add up; then every coordinate where they can is "
            f"compared, and here all carries cancel"
        )


def _explain_refusal(paper: Paper, a: Layout, b: Layout, refusal: LayoutAlgError | None) -> None:
    """The proof that no layout is a o b, from the coordinate that the error names."""
    witness = getattr(refusal, "witness", None)
    if witness is None:
        return
    x, y = paper.name(a, "A"), paper.name(b, "B")
    if not isinstance(refusal, DivisibilityError):
        paper.step(
            f"{x} has no negative coordinates, and {y} reaches one", f"{y}({witness}) = {b(witness)} < 0"
        )
        return
    base = 1
    for k, (s, d) in enumerate(leaves(b)):
        if refusal.mode == k:
            _explain_broken_run(paper, a, s, d)
        base *= s
    digits = idx2crd(witness, flatten(b.shape))
    base, parts = 1, []
    for digit, s in zip(digits, flatten(b.shape), strict=True):
        if digit:
            parts.append(digit * base)
        base *= s
    alone = [a(b(p)) for p in parts]
    if len(parts) > 1 and sum(alone) != a(b(witness)):
        paper.step(
            "a layout adds up over its modes, and here the sum carries: no layout has all these values",
            f"{y}({witness}) = {' + '.join(f'{y}({p})' for p in parts)} = {b(witness)}",
            f"{' + '.join(f'{x}({y}({p}))' for p in parts)} = {' + '.join(map(str, alone))} = {sum(alone)}",
            f"{x}({y}({witness})) = {x}({b(witness)}) = {a(b(witness))} != {sum(alone)}",
        )


def _explain_broken_run(paper: Paper, a: Layout, s: int, d: int) -> None:
    """One mode s:d whose values are in equal steps for a number of them that does not divide the extent."""
    name = paper.name(a, "A")
    step, rest = d, s
    while rest > 1:
        run, slope = _equal_steps(a, step, rest), a(step)
        if run == rest:
            return
        if rest % run and a(step * run) != slope * run:
            paper.step(
                f"along {s}:{d} the values of {name} go in equal steps; where they end, a mode of the result "
                f"would have to end, but its extent does not divide what is left",
                f"{name}({step} * x) = {slope} * x for every x < {run}",
                f"{name}({step} * {run}) = {a(step * run)} != {slope} * {run}",
                f"{rest} % {run} = {rest % run}",
            )
            return
        step, rest = step * run, rest // run


def _equal_steps(a: Layout, step: int, rest: int) -> int:
    """The largest n <= rest with a(step * x) = a(step) * x for every x < n, by bisection."""

    def equal(n: int) -> bool:
        piece, _ = attempt(composition, a, make_layout(n, step))
        return piece is not None and len(leaves(piece)) == 1

    low, high = min(rest, 2), rest + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if equal(middle) else (low, middle)
    return low


def explain_normal_form(paper: Paper, layout: AnyLayout) -> AnyLayout:
    """normal_form(layout), with the bits that a layout outside of a swizzle moves.

    >>> print(explain_normal_form(Paper(), ComposedLayout(Layout(8, 2), 1, Layout(4, 1))))
    Sw<0,0,0> o 2 o 4:2
    """
    result = normal_form(layout)
    x = paper.name(layout, "X")
    if isinstance(layout, Layout):
        paper.step("that is a layout already", f"normal_form({x}) = {x}")
        return layout
    inner = normal_form(layout.inner)
    if isinstance(layout.outer, Layout):
        a, m = paper.name(layout.outer, "A"), paper.name(inner, "M")
        paper.step(f"by definition {x}(c) = {a}({layout.offset} + {m}(c))")
        if result != layout:
            _explain_moved(paper, layout.outer, layout.offset, inner)
        else:
            paper.step(
                f"{a} carries, or mixes the bits that are swizzled: it stays outside, which is exact too"
            )
    elif result != layout:
        paper.step("swizzles in a row are joined; those that move nothing go")
    else:
        paper.step("swizzles over a layout are the normal form already")
    if result != layout:
        r = paper.name(result, "R")
        paper.step("the function is the same", f"{x}(c) = {r}(c) for every c < {size(layout)}")
    else:
        paper.write(f"normal_form({x}) = {x}")
    return result


def _explain_moved(paper: Paper, a: Layout, offset: int, inner: AnyLayout) -> None:
    """A o S o (k + M) = S' o (A(k) + A o M), where A sends the bits of S to single bits."""
    name = paper.name(a, "A")
    swizzles = inner.swizzles if isinstance(inner, ComposedLayout) else ()
    base = inner.inner if isinstance(inner, ComposedLayout) else inner
    start = offset + (inner.offset if isinstance(inner, ComposedLayout) else 0)
    if not isinstance(base, Layout):
        return
    paper.step(
        f"a layout that does not carry adds up: {name}(k + M(c)) = {name}(k) + {name}(M(c))",
        f"{name}({start}) = {a(start)}",
    )
    composed, _ = attempt(composition, a, base)
    if composed is not None:
        paper.write(f"{name} o {base} = {composed}")
    bits = [bit for s in swizzles for pair in s.bit_pairs() for bit in pair]
    live = (product(a.shape) - 1).bit_length()
    moved = sorted({bit for bit in bits if bit < live})
    if moved:
        paper.step(
            f"{name} moves single bits, so the swizzle goes outside and acts on the bits they become",
            *(f"{name}({1 << bit}) = {a(1 << bit)}" for bit in moved),
        )
