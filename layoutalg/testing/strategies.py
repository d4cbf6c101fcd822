"""hypothesis strategies for layouts: small, readable, and shrinking towards few modes and small numbers.

Import this module only where hypothesis is installed; `import layoutalg` does not load it.

The idea.  A leaf is drawn as one pair (extent, number), so that shrinking drops a mode in one step.  The
number is the leaf's stride in an arbitrary layout, and the leaf's place in the order of strides (with the
padding before it) in a compact or padded one.  Nesting is drawn last and shrinks to none.

>>> from hypothesis import find
>>> print(find(layouts(), lambda layout: layout(1) > 3))
1:4
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import Any

try:
    from hypothesis import strategies as st
except ModuleNotFoundError as error:
    message = "layoutalg.testing.strategies needs hypothesis: pip install 'layoutalg[testing]'"
    raise ModuleNotFoundError(message, name=error.name) from error

from layoutalg.analysis import Access, Guard
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.dtype import dtype
from layoutalg.errors import UnknownNameError
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, Swizzle, flatten_tree, size

EXTENTS = (1, 2, 3, 4, 5, 6, 8, 12, 16)
"""Extents of leaves: powers of two and their neighbours, smallest first, so that shrinking finds it."""

MAX_NUMBER = 64
"""Largest stride, in absolute value, of an arbitrary layout."""


def _nest(draw: st.DrawFn, count: int) -> IntTuple:
    """A tree whose leaves are 0 .. count - 1, left to right; shrinks to a bare leaf or a flat tuple."""
    items: list[IntTuple] = list(range(count))
    for _ in range(draw(st.integers(0, 2)) if count else 0):
        start = draw(st.integers(0, len(items) - 1))
        stop = start + draw(st.integers(1, len(items) - start))
        items[start:stop] = [tuple(items[start:stop])]
    wrapped = draw(st.booleans())  # drawn in every case, so that a mode dropped above changes no draw below
    return items[0] if len(items) == 1 and not wrapped else tuple(items)


def _fill(tree: IntTuple, values: list[int]) -> IntTuple:
    return tuple(_fill(t, values) for t in tree) if isinstance(tree, tuple) else values[tree]


@st.composite
def int_tuples(
    draw: st.DrawFn, leaves: st.SearchStrategy[int] | None = None, *, max_leaves: int = 5
) -> IntTuple:
    """IntTuples of at most `max_leaves` leaves, each drawn from `leaves` (default 0 to 64)."""
    values = draw(st.lists(st.integers(0, 64) if leaves is None else leaves, max_size=max_leaves))
    return _fill(_nest(draw, len(values)), values)


def _clip(extents: list[int], max_size: int) -> list[int]:
    """Extents whose product stays within `max_size`; what does not fit becomes 1."""
    out, room = [], max_size
    for e in extents:
        out.append(e if e <= room else 1)
        room //= out[-1]
    return out


def _extents(power_of_two: bool) -> st.SearchStrategy[int]:
    return st.sampled_from([e for e in EXTENTS if not power_of_two or e & (e - 1) == 0])


@st.composite
def shapes(
    draw: st.DrawFn, *, max_leaves: int = 4, max_size: int = 256, power_of_two: bool = False
) -> IntTuple:
    """Shapes of at most `max_size` elements; `power_of_two` keeps every extent a power of two."""
    drawn = draw(st.lists(_extents(power_of_two), min_size=1, max_size=max_leaves))
    return _fill(_nest(draw, len(drawn)), _clip(drawn, max_size))


def _ordered(extents: list[int], numbers: list[int], pad: bool, power_of_two: bool) -> list[int]:
    """Strides that increase in the order of `numbers`, without gaps or with padding."""
    strides, current = [0] * len(extents), 1
    for i in sorted(range(len(extents)), key=lambda i: abs(numbers[i])):
        if pad:
            extra = abs(numbers[i]) % 4
            current = current << extra % 2 if power_of_two else current + extra
        strides[i] = 0 if extents[i] == 1 else current
        current *= extents[i]
    return strides


@st.composite
def layouts(
    draw: st.DrawFn,
    *,
    max_leaves: int = 4,
    max_size: int = 256,
    power_of_two: bool = False,
    negative: bool = False,
    compact: bool = False,
) -> Layout:
    """Layouts of at most `max_size` elements: arbitrary strides, compact and padded ones.

    `compact` draws bijections onto [0, size) only; `power_of_two` keeps extents and strides powers of two
    (a stride may be 0); `negative` admits negative strides.
    """
    number: st.SearchStrategy[int] = st.integers(-MAX_NUMBER if negative else 0, MAX_NUMBER)
    if power_of_two:
        number = st.sampled_from([0, *(1 << i for i in range(MAX_NUMBER.bit_length()))])
    kind = "compact" if compact else draw(st.sampled_from(("any", "padded", "compact")))
    pairs = draw(st.lists(st.tuples(_extents(power_of_two), number), min_size=1, max_size=max_leaves))
    extents, numbers = _clip([e for e, _ in pairs], max_size), [n for _, n in pairs]
    if kind != "any":
        numbers = _ordered(extents, numbers, kind == "padded", power_of_two)
    tree = _nest(draw, len(pairs))
    return Layout(_fill(tree, extents), _fill(tree, numbers))


@st.composite
def swizzles(draw: st.DrawFn, *, max_bits: int = 3, max_base: int = 4, max_shift: int = 4) -> Swizzle:
    """Swizzles Sw<B,M,S>, overlapping ones (|S| < B) and left shifts included; shrink towards Sw<0,0,0>."""
    bits = draw(st.integers(0, max_bits))
    base = draw(st.integers(0, max_base))
    shift = draw(st.integers(0 if bits == 0 else 1, max_shift))
    return Swizzle(bits, base, -shift if draw(st.booleans()) else shift)


@st.composite
def composed_layouts(
    draw: st.DrawFn, *, max_size: int = 256, max_swizzles: int = 2, power_of_two: bool = False
) -> ComposedLayout:
    """Swizzled layouts `Sw o offset o layout`, with one swizzle or a chain of them."""
    chain = tuple(draw(st.lists(swizzles(), min_size=1, max_size=max_swizzles)))
    inner = draw(layouts(max_size=max_size, power_of_two=power_of_two))
    return ComposedLayout(chain, draw(st.integers(0, MAX_NUMBER)), inner)


KINDS = (
    "plain", "padded", "ragged", "straddling", "partial", "misaligned", "swizzled", "loops", "mixed",
    "predicated",
)  # fmt: skip
"""The stresses of `accesses`: none; gaps between rows; extents that are not powers of two; warps that run
over the end of a mode; inactive lanes, by their number or by a guard; a base that is only just aligned;
swizzles over padded strides; threads that take the tile in order, going on where they stopped, in numbers
that fit no mode; any of these together; an arbitrary lane predicate."""


@dataclass(frozen=True, slots=True)
class LanesBelow:
    """The predicate of an access whose lanes from `limit` on, counted modulo `period`, are inactive."""

    limit: int
    period: int

    def __call__(self, thread: int, value: int, iteration: int) -> bool:
        return thread % self.period < self.limit


def _factors(draw: st.DrawFn, n: int) -> list[int]:
    """`n` as a product of factors, at random; shrinks to [n]."""
    out: list[int] = []
    while n > 1:
        out.append(draw(st.sampled_from([d for d in range(n, 1, -1) if n % d == 0])))
        n //= out[-1]
    return out


def _access_tile(draw: st.DrawFn, kinds: frozenset[str], elems: int, max_size: int) -> tuple[Layout, int]:
    """A layout with a stride-1 mode of whole vectors and aligned strides, and the place of that mode."""
    ragged = bool(kinds & {"ragged", "straddling", "loops"})
    extents = [draw(_extents(not ragged)) for _ in range(draw(st.integers(1, 3)))]
    vector = 0 if "loops" in kinds and elems > 1 else draw(st.integers(0, len(extents) - 1))
    extents[vector] = 1
    extents = _clip(extents, max_size // elems)
    extents[vector] = elems * draw(st.sampled_from((1, 2, 4, 3) if ragged else (1, 2, 4)))
    order = [vector, *draw(st.permutations([i for i in range(len(extents)) if i != vector]))]
    strides, current = [0] * len(extents), 1
    for i in order:
        strides[i] = current
        current *= extents[i]
        if kinds & {"padded", "swizzled"}:
            current += elems * draw(st.integers(0, 4))
        current += -current % elems
    return Layout(tuple(extents), tuple(strides)), vector


def _cut(draw: st.DrawFn, kinds: frozenset[str], elems: int, inner: Layout, vector: int) -> Layout:
    """Threads, registers and iterations that share out the vectors of a tile, digit by digit."""
    pieces: list[tuple[int, int]] = []
    index, step = 1, 1
    for i, extent in enumerate(flatten_tree(inner.shape)):
        count, at = (extent // elems, index * elems) if i == vector else (extent, index)
        step = index if i == vector else step
        for factor in _factors(draw, count):
            pieces.append((factor, at))
            at *= factor
        index *= extent
    modes: list[list[tuple[int, int]]] = [[], [(elems, step)], []]
    for extent, at in draw(st.permutations(pieces)):
        where = draw(st.sampled_from((0, 0, 0, 1, 2)))
        modes[where].append((draw(st.integers(1, extent)) if "partial" in kinds else extent, at))
    if draw(st.booleans()):
        modes[0].insert(draw(st.integers(0, len(modes[0]))), (draw(st.sampled_from((2, 3, 4, 32))), 0))
    shape = tuple(tuple(n for n, _ in mode) or 1 for mode in modes)
    stride = tuple(tuple(d for _, d in mode) or 0 for mode in modes)
    return Layout(shape, stride)


def _in_order(draw: st.DrawFn, elems: int, tile: int) -> Layout:
    """So many threads, a vector each, and loops over what follows; the last round stays within the tile."""
    vectors = tile // elems
    threads = draw(st.sampled_from([n for n in (1, 20, 32, 48, 64, 96, 256) if n <= vectors]))
    rounds = draw(st.integers(1, vectors // threads))
    registers = draw(st.sampled_from([n for n in range(1, rounds + 1) if rounds % n == 0]))
    step = threads * elems
    return Layout((threads, (elems, registers), rounds // registers), (elems, (1, step), registers * step))


@st.composite
def _guards(draw: st.DrawFn, layout: Layout) -> Guard:
    """Bounds on some modes, on threads, on lanes, some of which leave nothing or everything."""
    below = tuple(draw(st.none() | st.integers(0, side + 1)) for side in flatten_tree(layout.shape))
    threads = draw(st.none() | st.integers(0, 80))
    lanes = draw(st.none() | st.frozensets(st.integers(0, 31), max_size=6))
    return Guard(below[: draw(st.integers(0, len(below)))], threads, lanes)


@st.composite
def accesses(
    draw: st.DrawFn,
    *,
    space: str | None = None,
    kind: str | None = None,
    max_size: int = 2048,
    arch: str | Arch = DEFAULT_ARCH,
) -> tuple[AnyLayout, Access]:
    """Pairs (layout, access) that fit each other and exist on `arch`; `space` and `kind` (one of KINDS)
    narrow the draw.

    The access cuts the tile into the vectors of its instruction, in any order, reads some of them several
    times or not at all, and spreads them over threads, registers and iterations.

    >>> from hypothesis import find
    >>> layout, access = find(accesses(space="shared", kind="plain"), lambda pair: pair[1].tv(1, 0, 0) == 1)
    >>> print(layout, access.op, access.tv)
    (2):(1) ld.shared.b8 ((2),(1),1):((1),(1),0)
    """
    kind = draw(st.sampled_from(KINDS)) if kind is None else kind
    mixed = st.frozensets(st.sampled_from(KINDS[1:8]), min_size=2)
    kinds = draw(mixed) if kind == "mixed" else frozenset({kind})
    rules = find_arch(arch).instructions.values()
    rule = draw(st.sampled_from([r for r in rules if space in (None, r.space)]))
    fits = [t for t in ("f32", "u8", "f16", "f64", "s4") if dtype(t).bits <= 8 * rule.width_bytes]
    element = dtype(draw(st.sampled_from(fits)))
    elems = 8 * rule.width_bytes // element.bits
    inner, vector = _access_tile(draw, kinds, elems, max_size)
    layout: AnyLayout = inner
    if "swizzled" in kinds:
        low = elems.bit_length() - 1
        swizzle = draw(swizzles(max_bits=3, max_base=3))
        chain = (Swizzle(swizzle.bits, swizzle.base + low, swizzle.shift),)
        layout = ComposedLayout(chain, elems * draw(st.integers(0, 3)), inner)
    tv = _in_order(draw, elems, size(inner)) if "loops" in kinds else _cut(draw, kinds, elems, inner, vector)
    base = rule.width_bytes * draw(st.integers(0, 9)) if "misaligned" in kinds else 0
    active: Guard | LanesBelow | None = None
    if "partial" in kinds:
        active = draw(st.none() | _guards(inner))
    elif "predicated" in kinds:
        active = LanesBelow(draw(st.integers(0, 8)), draw(st.integers(1, 9)))
    return layout, Access(rule.name, tv, element, base_bytes=base, active=active)


@st.composite
def index_functions(draw: st.DrawFn, *, max_size: int = 256) -> tuple[str, AnyLayout]:
    """Pairs (text, layout): a function `f` in C or Python, and the layout that it computes.

    >>> from hypothesis import find
    >>> text, layout = find(index_functions(), lambda pair: pair[1](1) > 3)
    >>> print(layout)
    1:4
    """
    layout = draw(layouts(max_size=max_size) | composed_layouts(max_size=max_size))
    text = importlib.import_module("layoutalg.indexing").code(layout, draw(st.sampled_from(("c", "python"))))
    return str(text), layout


@st.composite
def problems(draw: st.DrawFn, family: str) -> tuple[Any, Any]:
    """Pairs (problem, configuration) of a family of kernels by its name, which a simulator runs in a second.

    They are those of `layoutalg verify FAMILY --random`, by their seeds, and do not shrink in size.  Raises
    UnknownNameError for another name.

    >>> from hypothesis import Phase, find, settings
    >>> first = settings(max_examples=1, phases=(Phase.generate,), database=None)
    >>> find(problems("transpose"), lambda pair: pair[0].m > 0, settings=first)[1].tile_m > 0
    True
    """
    room = importlib.import_module("layoutalg.kernels")
    tuning = importlib.import_module("layoutalg.kernels.tuning.sweep")
    if family not in room.FAMILIES:
        raise UnknownNameError("family of kernels", family, tuple(room.FAMILIES))
    case: tuple[Any, Any] = tuning.random_case(room.FAMILIES[family], draw(st.integers(0, 1 << 32)))
    return case
