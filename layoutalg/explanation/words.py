"""The words of a derivation: what an operation of the algebra noted, as laws and statements.

The idea.  An operation notes what it finds while it computes (a Trace).  Here each kind of note
has a function that writes a step of it, and the witness of a refusal is shown to be one.  So a derivation
tells what the operation did; nothing is computed a second time but sums and products of what was noted.

>>> from layoutalg.compose import composition
>>> from layoutalg.layout import Trace
>>> trace, page = Trace(), Page()
>>> print(composition(Layout((6, 4), (4, 1)), Layout(12, 2), trace=trace))
(3,4):(8,1)
>>> for kind, facts in trace.records:
...     WORDS[kind](page, **facts)
>>> page.steps[1].statements
('A(2 * x) = 8 * x for every x < 3', '2 * 3 = 6', 'A(6 * x) = 1 * x for every x < 4')

A value is explained by its definition: digit * stride, then the offset, then the outer function.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any

from layoutalg.compose import NormalForm
from layoutalg.errors import LayoutAlgError
from layoutalg.explanation.steps import Page, notation
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    coordinate_at,
    flatten_tree,
    inner_product,
    leaves,
    modes,
    size,
    to_text,
)

Operation = Callable[..., Any]


# --- what the notes of an operation say ----------------------------------------------------------------


def _same(page: Page, law: str, left: str, result: AnyLayout) -> None:
    """A step that says: `left`, a term in c, is the result at every coordinate c."""
    page.step(law, f"{left} = {page.name(result, 'R')}(c) for every c < {size(result)}")


def _composition(page: Page, a: Layout, b: Layout, radix: list[int], weights: list[int]) -> None:
    x, y = page.names(A=a, B=b)
    if not radix:
        terms = [f"i * {weights[0]}"]
        law = f"{x} has one digit, so it multiplies its index by one stride"
    else:
        terms, below = [], 1
        for n, d in zip([*radix, 0], weights, strict=True):
            terms.append(f"i{f' // {below}' if below > 1 else ''}{f' % {n}' if n else ''} * {d}")
            below *= n
        law = f"an index of {x} has a digit for each mode, and {x} adds up digit * stride"
    page.step(f"({x} o {y})(c) = {x}({y}(c)); {law}", f"{x}(i) = {' + '.join(terms)} for every i < {size(a)}")


def _modes(
    page: Page, a: Layout, b: Layout, pieces: Sequence[Any], radix: list[int], used: list[int] | None
) -> None:
    x = page.name(a, "A")
    for (s, d), (extents, strides) in zip(leaves(b), pieces, strict=True):
        if s == 1:
            continue
        step, lines = d, []
        for i, (e, w) in enumerate(zip(extents, strides, strict=True)):
            lines.append(f"{x}({step} * x) = {w} * x for every x < {e}")
            lines += [f"{step} * {e} = {step * e}"] if i + 1 < len(extents) else []
            step *= e
        if len(extents) == 1:
            page.step(f"mode {s}:{d} walks through {x} in equal steps: one mode", *lines)
        else:
            law = f"mode {s}:{d} fills a digit of {x} on its way: there it carries, and a new mode begins"
            page.step(law, *lines)
    if sum(s > 1 for s, _ in leaves(b)) < 2:
        return
    if used is None:
        page.step("digits may carry when the modes add up: every coordinate where they can is compared")
    elif not radix:
        page.step(f"{x}(i + j) = {x}(i) + {x}(j), so the modes add up")
    else:
        full = [f"{u} < {n}" for u, n in zip(used, radix, strict=True)]
        page.step("the digits that the modes use never add up to a full one, so nothing carries", *full)


def _composed(page: Page, a: Layout, b: Layout, result: Layout) -> None:
    x, y, r = page.names(A=a, B=b, R=result)
    law = "side by side, in the tree of the second layout, the modes satisfy the definition"
    page.step(law, f"{x} o {y} = {r}", f"{x}({y}(c)) = {r}(c) for every c < {size(b)}")


def _by_mode(page: Page, name: str, a: Layout, i: int, part: Layout, tiler: object) -> None:
    x = page.name(a, "A")
    p = page.name(part, f"{x}{i}")
    stays = "stays as it is" if name != "zipped_divide" else "counts as tiles of one element"
    law = f"_ for mode {i}: it {stays}" if tiler is None else f"mode {i}, with {notation(tiler)}"
    page.step(law, f"{x}[{i}] = {p}")


def _together(page: Page, parts: Sequence[Layout], result: Layout) -> None:
    names = ", ".join(page.name(part, "P") for part in parts)
    page.step("the modes together", f"concat({names}) = {page.name(result, 'R')}")


def _joined(page: Page, a: Swizzle | Swizzles, b: Swizzle | Swizzles, chain: Swizzle | Swizzles) -> None:
    x, y, r = page.names(S=a, T=b, R=chain)
    law = "swizzles in a row are joined where they move bits alike; equal moves cancel"
    page.step(law, f"{x}({y}(i)) = {r}(i) for every i < {Swizzles(a, b).period}")


def _outside(page: Page, outer: Any, offset: int, inner: AnyLayout, result: AnyLayout) -> None:
    f, m = page.names(S=outer, L=inner)
    law = "the outer function stays outside, and swizzles in a row are joined"
    _same(page, law, f"{f}({offset} + {m}(c))" if offset else f"{f}({m}(c))", result)


def _inside(page: Page, operation: Operation, layout: ComposedLayout, result: ComposedLayout) -> None:
    x, m = page.names(X=layout, M=layout.inner)
    page.step(f"{operation.__name__} works on {m} inside of {x}; the outer function and the offset stay")
    _outside(page, result.outer, result.offset, result.inner, result)


def _normal_form(page: Page, layout: AnyLayout, result: AnyLayout) -> None:
    x = page.name(layout, "X")
    if layout == result:
        page.step("that is the plainest form that is found", f"normal_form({x}) = {x}")
    else:
        _same(page, "the function is the same, as swizzles over one layout or as a layout", f"{x}(c)", result)


def _through(
    page: Page, a: Layout, swizzles: Swizzles, offset: int, inner: Layout, moved: NormalForm
) -> None:
    x, m = page.names(A=a, M=inner)
    chain, constant, base = moved
    index = f"{offset} + {m}(c)"
    value = f"{constant} + {page.name(base, 'N')}(c)"
    if swizzles:
        index = f"{page.name(swizzles, 'S')}({index})"
        value = f"{page.name(chain, 'T')}({value})" if chain else value
        law = f"{x} sends the bits that are swizzled to single bits, so the swizzle moves outwards through it"
    else:
        law = f"{x} does not carry, so it adds up over the offset and the layout inside"
    page.step(law, f"{x}({index}) = {value} for every c < {size(inner)}")


def _coalesced(page: Page, layout: Layout, result: Layout) -> None:
    x, r = page.names(A=layout, R=result)
    lines: list[str] = []
    last: tuple[int, int] | None = None
    for s, d in leaves(layout):
        if s == 1:
            continue
        joins = last is not None and last[0] * last[1] == d
        if last is not None:
            lines.append(f"{last[0]} * {last[1]} {'=' if joins else '!='} {d}")
        last = (last[0] * s, last[1]) if last is not None and joins else (s, d)
    page.step("neighbours s:d and t:s*d are one mode s*t:d, and a mode of extent 1 is none", *lines)
    _same(page, "what does not merge stays", f"{x}(c)", result)
    page.step("no two neighbours merge any more", f"coalesce({x}) = {r}")


def _complement(page: Page, layout: Layout, target: int, modes: list[tuple[int, int, int]]) -> None:
    x = page.name(layout, "A")
    lines = [f"{x}({w}) = {d}" for d, _, w in modes]
    page.step(f"the modes of {x} sorted by stride; modes of stride 0 reach nothing new", *lines)


def _past_digit(page: Page, extent: int, stride: int, current: int, gap: int) -> None:
    missing = f"{gap}:{current} is missing" if gap > 1 else "nothing is missing"
    law = f"{missing} below {extent}:{stride}, which goes on to extent * stride"
    page.step(law, f"{current} * {gap} = {stride}", f"{extent} * {stride} = {extent * stride}")


def _rounded_up(page: Page, target: int, current: int, gap: int) -> None:
    rest = f"{gap}:{current} covers the rest" if gap > 1 else "nothing is left to cover"
    page.step(f"up to the target {target}, {rest}", f"ceil_div({target}, {current}) = {gap}")


def _right_inverse(page: Page, layout: Layout, modes: list[tuple[int, int, int]]) -> None:
    x = page.name(layout, "A")
    lines = [f"{x}({w}) = {d}" for d, _, w in modes]
    page.step(f"the modes of {x} sorted by stride, each at the coordinate where it begins", *lines)


def _chain(page: Page, layout: Layout, extents: list[int], weights: list[int]) -> None:
    x = page.name(layout, "A")
    current, lines = 1, []
    for s, w in zip(extents, weights, strict=True):
        lines += [f"{x}({w}) = {current}", f"{current} * {s} = {current * s}"]
        current *= s
    law = "offsets are contiguous from 0 as long as each stride is the product of the extents before it"
    page.step(law, *(lines or [f"size({x}) = {size(layout)}"]))


def _left_inverse(page: Page, layout: Layout, offset: int, modes: list[tuple[int, int, int]]) -> None:
    _right_inverse(page, layout, modes)
    if offset:
        page.step(f"the offset {offset} is added, and taken off as a digit of its own")


def _read_digit(page: Page, stride: int, extent: int, weight: int, current: int, gap: int) -> None:
    law = f"the digit at {stride} is read in units of {stride}, and counts {weight} in the coordinate"
    page.step(law, f"{current} * {gap} = {stride}")


def _searched(page: Page, stride: int, current: int, below: int) -> None:
    law = (
        f"{stride} is not a multiple of {current} with room for {below}: the digits are not read off one by "
        f"one, and an inverse in another radix is searched and checked at every coordinate"
    )
    page.step(law, f"{stride} != {below} * {current}")


def _inverse(
    page: Page, name: str, layout: Layout, result: Layout, target: int | None = None, offset: int = 0
) -> None:
    x, r = page.names(A=layout, R=result)
    if name == "complement":
        law = f"what is missing, side by side: every offset is one of {x} plus one of {r}"
        page.step(law, f"complement({x}, {target}) = {r}")
    elif name == "right_inverse":
        law = f"{x} after {r} is the identity"
        page.step(law, f"{x}({r}(i)) = i for every i < {size(result)}")
    else:
        index = f"{offset} + {x}(i)" if offset else f"{x}(i)"
        law = f"{r} after {x} is the identity"
        page.step(law, f"{r}({index}) = i for every i < {size(layout)}")


def _undone(
    page: Page, layout: AnyLayout, undo: Swizzles, length: int, plain: Layout, result: AnyLayout, left: bool
) -> None:
    x, r, p = page.names(X=layout, R=result, P=plain)
    if left:
        law = f"the swizzles are undone first, by {notation(undo)}, and then {p} takes the offset back"
        page.step(law, f"{r}({x}(i)) = i for every i < {size(layout)}")
    else:
        law = f"{notation(undo)} undoes the swizzles, and maps the first {length} offsets onto themselves"
        page.step(law, f"{x}({r}(i)) = i for every i < {size(result)}")


def _divide(page: Page, layout: Layout, tile: Layout) -> None:
    x, t = page.names(A=layout, T=tile)
    law = (
        f"logical_divide({x}, {t}) = {x} o ({t}, complement({t}, size({x}))): mode 0 walks one tile, mode 1 "
        f"from tile to tile"
    )
    page.step(law, f"size({x}) = {size(layout)}")


def _product(page: Page, layout: Layout, copies: Layout, target: int) -> None:
    x, b = page.names(A=layout, B=copies)
    law = (
        f"logical_product({x}, {b}) = ({x}, complement({x}, size({x}) * cosize({b})) o {b}): mode 0 is the "
        f"tile, mode 1 walks its copies through the room that it leaves"
    )
    page.step(law, f"size({x}) * {target // size(layout)} = {target}")


def _regrouped(page: Page, name: str, first: Layout, second: Layout, result: Layout) -> None:
    t, q, r = page.names(T=first, Q=second, R=result)
    kind, _, what = name.partition("_")
    rest = "rests" if what == "divide" else "copies"
    count = len(modes(second))
    if kind in ("blocked", "raked"):
        a, b = (t, q) if kind == "blocked" else (q, t)
        law = "mode i is mode i of the tile, then of its copies: they lie side by side"
        if kind == "raked":
            law = "mode i is mode i of the copies, then of the tile: they are interleaved"
        page.step(law, *(f"{r}[{i}] = concat({a}[{i}], {b}[{i}])" for i in range(count)))
    elif kind in ("zipped", "logical"):
        page.step(f"all tiles are mode 0 and all {rest} mode 1", f"concat({t}, {q}) = {r}")
    elif kind == "tiled":
        others = (f"{r}[{i + 1}] = {q}[{i}]" for i in range(count))
        page.step(f"the tiles are mode 0, and the {rest} modes of their own", f"{r}[0] = {t}", *others)
    else:
        split = len(modes(first))
        page.step(
            f"the tiles and the {rest} are modes of their own",
            *(f"{r}[{i}] = {t}[{i}]" for i in range(split)),
            *(f"{r}[{split + i}] = {q}[{i}]" for i in range(count)),
        )


WORDS: Mapping[str, Operation] = MappingProxyType(
    {
        "by mode": _by_mode,
        "chain": _chain,
        "coalesced": _coalesced,
        "complement": _complement,
        "composed": _composed,
        "composition": _composition,
        "divide": _divide,
        "inside": _inside,
        "inverse": _inverse,
        "joined": _joined,
        "left inverse": _left_inverse,
        "modes": _modes,
        "normal form": _normal_form,
        "outside": _outside,
        "past digit": _past_digit,
        "product": _product,
        "read digit": _read_digit,
        "regrouped": _regrouped,
        "right inverse": _right_inverse,
        "rounded up": _rounded_up,
        "searched": _searched,
        "through": _through,
        "together": _together,
        "undone": _undone,
    }
)
"""The functions that word a note, by its kind."""


def refused(page: Page, refusal: LayoutAlgError) -> None:
    """The witness of a refusal, shown to be one.

    >>> from layoutalg.errors import NotInjectiveError
    >>> page, still = Page(), Layout(4, 0)
    >>> refused(page, NotInjectiveError("complement of 4:0: ...", layout=still, a=0, b=1))
    >>> page.steps[0].statements
    ('X = 4:0', 'X(0) = 0 = X(1)')
    """
    a, b = getattr(refusal, "lhs", None), getattr(refusal, "rhs", None)
    witness, layout = getattr(refusal, "witness", None), getattr(refusal, "layout", None)
    if layout is not None:
        x = page.name(layout, "X")
        first, second = getattr(refusal, "a", 0), getattr(refusal, "b", 0)
        page.step("two coordinates share an offset", f"{x}({first}) = {layout(first)} = {x}({second})")
    elif isinstance(a, Layout) and isinstance(b, Layout) and witness is not None:
        x, y, index = page.name(a, "A"), page.name(b, "B"), b(witness)
        parts, base = [], 1
        for s in flatten_tree(b.shape):
            parts += [witness // base % s * base] if witness // base % s else []
            base *= s
        alone = [a(b(p)) for p in parts]
        if len(parts) > 1 and sum(alone) != a(index):
            sums = " + ".join(f"{x}({y}({p}))" for p in parts)
            page.step(
                "a layout adds up over its modes, and here the sum carries: no layout has all these values",
                f"{sums} = {' + '.join(map(str, alone))} = {sum(alone)}",
                f"{x}({y}({witness})) = {x}({index}) = {a(index)} != {sum(alone)}",
            )
        else:
            page.step(
                "one mode walks in equal steps that end inside of it, where no mode of a layout can end",
                f"{x}({y}({witness})) = {x}({index}) = {a(index)}",
            )


# --- values --------------------------------------------------------------------------------------------


def value_steps(page: Page, function: AnyLayout | Swizzle | Swizzles, crd: Any) -> int:
    """The value at a coordinate by definition: digit * stride, then the offset, then the outer function.

    >>> value_steps(Page(), ComposedLayout(Swizzle(2, 0, 2), 0, Layout((4, 4), (4, 1))), (2, 1))
    11
    """
    if isinstance(function, (Swizzle, Swizzles)):
        for swizzle in reversed(tuple(Swizzles(function))):
            crd = _swizzled(page, swizzle, crd)
        return int(crd)
    name = page.name(function, "A")
    at = f"{name}({notation(crd)[1:-1] if isinstance(crd, tuple) and len(crd) > 1 else notation(crd)})"
    if isinstance(function, Layout):
        full = function.shape if crd is None else _full(crd, function.shape)
        if full != crd:
            page.step(
                f"a flat index is divided up, leftmost fastest: {notation(crd)} is {notation(full)} in "
                f"{to_text(function.shape)}"
            )
        pairs = list(zip(flatten_tree(full), flatten_tree(function.stride), strict=True))
        value = int(inner_product(full, function.shape, function.stride))
        terms = " + ".join(f"{x} * {d}" for x, d in pairs) or "0"
        page.step("the offset is the sum of digit * stride", f"{at} = {terms} = {value}")
        return value
    inside = value_steps(page, function.inner, crd)
    value = inside + function.offset
    if function.offset:
        page.step(f"{name} adds its offset to the value inside", f"{inside} + {function.offset} = {value}")
    value = value_steps(page, function.outer, value)
    page.step("that is the value of the composed layout", f"{at} = {value}")
    return value


def _full(crd: Any, shape: Any) -> Any:
    """The coordinate with an integer for every leaf of the shape."""
    if isinstance(crd, tuple) and isinstance(shape, tuple):
        return tuple(_full(c, s) for c, s in zip(crd, shape, strict=True))
    return coordinate_at(crd, shape) if isinstance(shape, tuple) else crd


def _swizzled(page: Page, swizzle: Swizzle, x: int) -> int:
    """Apply a swizzle bit by bit: the field that is read, moved, and XORed into the other."""
    name, read, changed = page.name(swizzle, "S"), swizzle.yyy_mask, swizzle.zzz_mask
    if not swizzle.bits:
        page.step(f"{swizzle} has no bits and moves nothing", f"{name}({x}) = {x}")
        return x
    field = x & read
    moved = field >> swizzle.shift if swizzle.shift > 0 else field << -swizzle.shift
    width = max(x, read, changed).bit_length()
    x0, read0, field0, moved0, y0 = (f"0b{n:0{width}b}" for n in (x, read, field, moved, x ^ moved))
    shift = f">> {swizzle.shift}" if swizzle.shift > 0 else f"<< {-swizzle.shift}"
    page.step(
        swizzle_words(swizzle),
        f"{x} = {x0}",
        f"{x0} & {read0} = {field0}",
        f"{field0} {shift} = {moved0}",
        f"{x0} ^ {moved0} = {y0}",
        f"{name}({x}) = {x ^ moved}",
    )
    if not swizzle.is_involution:
        less = f"|{swizzle.shift}| < {swizzle.bits}"
        page.step(f"{less}: the fields overlap, so {swizzle} is not its own inverse")
    return x ^ moved


def swizzle_words(swizzle: Swizzle) -> str:
    """State which bits a swizzle adds to which, without carries.

    >>> swizzle_words(Swizzle(3, 3, 3))
    'Sw<3,3,3> adds bits 6..8 to bits 3..5, by XOR'
    """
    read, changed = ((m & -m).bit_length() - 1 for m in (swizzle.yyy_mask, swizzle.zzz_mask))
    last = swizzle.bits - 1
    return f"{swizzle} adds bits {read}..{read + last} to bits {changed}..{changed + last}, by XOR"
