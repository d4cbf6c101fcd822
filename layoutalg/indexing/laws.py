"""The laws of layouts: from a table of offsets to the layout that it is.

The idea.  The offsets at all coordinates are a table, and each kind of layout is a law of the table:

    plain, padded    offsets add, mode by mode, and along a mode digit by digit
    F2               all extents are powers of two, and the bits of the coordinate XOR
    swizzled         one swizzle undoes it, and what is left is plain; or it does so of rows of another pitch
    rotation         the offset has a digit that adds modulo n: (col + row) % n

Plain and F2 are complete: where a law fails, the coordinates that break it are the witness.

>>> import numpy
>>> print(*found_layout(numpy.array([[0, 1], [3, 2]]))[:1])
Sw<1,0,1> o 0 o (2,2):(2,1)
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any

from layoutalg.f2 import Columns, fold, identity, separate
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    concat,
    leaves,
    merge,
    plain,
    to_text,
)

if TYPE_CHECKING:
    from numpy.typing import NDArray

MOST_SWIZZLE_BITS = 6
"""Widest swizzle that is tried where the extents are not powers of two."""

MOST_PAIR_WIDTH = 18
"""Bits of the offsets of a table for which two swizzles are tried."""

TRIED = (
    f"nor is it linear over F2, under one swizzle of up to {MOST_SWIZZLE_BITS} bits or two, or a rotation by "
    "one digit"
)
"""The laws that were tried when none is found, in words."""


def found_layout(cube: NDArray[Any]) -> tuple[AnyLayout | None, str, tuple[tuple[int, ...], ...]]:
    """The layout of a table with an axis per mode; else why it is not plain, and coordinates that show it.

    >>> import numpy
    >>> found_layout(numpy.array([[0, 1], [3, 9]]))[2]
    ((1, 1), (1, 0), (0, 1), (0, 0))
    """
    layout, law, witness = _plain(cube)
    for more in (_linear, _swizzled, _rotated, _pitched, _twice_swizzled):
        layout = layout or next(more(cube), None)
    return layout, law, witness


def kind_of(layout: AnyLayout) -> str:
    """plain, padded, swizzled (by one swizzle), F2 (by several) or rotation, of a layout that was found.

    >>> kind_of(Layout((4, 8), (9, 1)))
    'padded'
    """
    if isinstance(layout, Layout):
        return _kind_of_plain(layout)
    inner = layout.inner
    if not isinstance(layout.outer, Layout):
        count = sum(1 for s in layout.swizzles if s.bits)
        if count == 0:
            return kind_of(inner)
        return "swizzled" if count == 1 and isinstance(inner, Layout) else "F2"
    return "rotation" if isinstance(inner, Layout) else kind_of(inner)


def _at(crd: tuple[int, ...]) -> str:
    return to_text(crd) if len(crd) > 1 else f"({crd[0]})"


def _kind_of_plain(inner: Layout) -> str:
    """Padded where modes in the order of their strides leave gaps, and none overlap."""
    reach, gap = 1, False
    for d, s in sorted((abs(d), s) for s, d in leaves(inner) if s > 1):
        if d < reach:
            return "plain"
        gap, reach = gap or d > reach, d * s
    return "padded" if gap else "plain"


class Broken(Exception):
    """A law that fails, with the coordinates that show it."""

    def __init__(self, law: str, *witness: tuple[int, ...]) -> None:
        super().__init__(law)
        self.law, self.witness = law, witness


def _plain(cube: NDArray[Any]) -> tuple[AnyLayout | None, str, tuple[tuple[int, ...], ...]]:
    """The plain layout of a table; else why there is none, and the coordinates that show it."""
    try:
        parts = modes_of([(cube, 0)])
    except Broken as broken:
        return None, broken.law, broken.witness
    layout = _layout_of([(extents, [d[0] for d in steps]) for extents, steps in parts])
    first = int(cube.flat[0])
    if first < 0:
        zero = (0,) * cube.ndim
        return None, f"f{_at(zero)} is {first}, and a layout's offset is not below 0", (zero,)
    return (ComposedLayout(Swizzle(0, 0, 0), first, layout) if first else layout), "", ()


def _layout_of(parts: Iterable[tuple[list[int], list[int]]]) -> Layout:
    """A layout of one mode per list of extents and strides."""
    return concat(*(plain(extents, strides) for extents, strides in parts))


Channels = Sequence["tuple[NDArray[Any], int]"]
"""Tables whose values add, the second ones modulo a number (0: as integers)."""


def modes_of(channels: Channels) -> list[tuple[list[int], list[tuple[int, ...]]]]:
    """The digits of each mode, with a step per channel; raises Broken where offsets do not add."""
    import numpy as np

    dims = channels[0][0].ndim
    axes: list[list[NDArray[Any]]] = []
    for table, modulus in channels:
        first = table[(0,) * dims]
        total, along = np.zeros_like(table), []
        for m in range(dims):
            line = table[(0,) * m + (slice(None),) + (0,) * (dims - m - 1)] - first
            along.append(_reduced(line, modulus))
            total += line.reshape((1,) * m + (-1,) + (1,) * (dims - m - 1))
        wrong = _reduced(table - first - total, modulus) != 0
        if wrong.any():
            at = tuple(int(i) for i in np.unravel_index(int(wrong.argmax()), wrong.shape))
            law = f"f{_at(at)} - f{_at((0,) * dims)} is {int(table[at] - first)}, and its modes alone make "
            zero = (0,) * dims
            alone = [(*zero[:m], at[m], *zero[m + 1 :]) for m in range(dims) if at[m]]
            raise Broken(f"offsets do not add: {law}{int(total[at])}", at, *alone, zero)
        axes.append(along)
    digits = []
    for m in range(dims):
        try:
            digits.append(
                _digits([(along[m], modulus) for along, (_, modulus) in zip(axes, channels, strict=True)])
            )
        except Broken as broken:
            places = [(0,) * m + w + (0,) * (dims - m - 1) for w in broken.witness]
            raise Broken(f"mode {m} has no digits: {broken.law}", *places) from None
    return digits


def _reduced(values: Any, modulus: int) -> Any:
    return values % modulus if modulus else values


def _digits(lines: Sequence[tuple[NDArray[Any], int]]) -> tuple[list[int], list[tuple[int, ...]]]:
    """(extents, steps) of one mode, from the values along it in each channel, which begin with 0."""
    import numpy as np

    extents: list[int] = []
    steps: list[tuple[int, ...]] = []
    count, unit = len(lines[0][0]), 1
    while count > 1:
        places = np.arange(count)
        wrong = np.zeros(count, dtype=bool)
        for line, modulus in lines:
            wrong |= _reduced(places * line[1] - line, modulus) != 0
        run = int(wrong.argmax()) if wrong.any() else count
        step = tuple(int(line[1]) for line, _ in lines)
        if count % run:
            raise Broken(
                f"its steps are equal up to {run * unit} of {count * unit}, which no digit divides",
                (run * unit,),
            )
        rest = [(line[::run], modulus) for line, modulus in lines]
        for (line, modulus), (coarse, _) in zip(lines, rest, strict=True):
            sums = np.repeat(coarse, run) + np.tile(np.arange(run) * line[1], count // run)
            bad = _reduced(line - sums, modulus) != 0
            if bad.any():
                at = int(bad.argmax())
                base, part = at // run * run, at % run
                raise Broken(
                    f"{at * unit} is {base * unit} + {part * unit}, and its offset is {int(line[at])}, not "
                    f"{int(line[base] + line[part])}", (at * unit,), (base * unit,), (part * unit,),
                )  # fmt: skip
        extents.append(run)
        steps.append(step)
        lines, count, unit = rest, count // run, unit * run
    return extents, steps


# --- F2 --------------------------------------------------------------------------------------------------


def _linear(cube: NDArray[Any]) -> Iterator[AnyLayout]:
    """The layout of a table that is affine over F2."""
    import numpy as np

    if any(n & (n - 1) for n in cube.shape) or cube.min() < 0:
        return
    bits = [n.bit_length() - 1 for n in cube.shape]
    flat = cube.flatten(order="F")
    constant = int(flat[0])
    columns = tuple(int(flat[1 << j]) ^ constant for j in range(sum(bits)))
    indices = np.arange(flat.size)
    values = np.full(flat.size, constant)
    for j, column in enumerate(columns):
        values ^= np.where(indices >> j & 1, column, 0)
    if np.array_equal(values, flat):
        yield _affine_layout(constant, columns, bits)


def _affine_layout(constant: int, columns: Columns, bits: Sequence[int]) -> AnyLayout:
    """constant ^ columns * index as swizzles o (offset + layout): a bit that the constant has counts down."""
    before, folded = fold(columns)
    swizzles, strides = separate(folded)
    offset = int(swizzles.inverse()(constant))
    signed = [(d & ~offset) - (d & offset) for d in strides]

    def by_modes(steps: Sequence[int], counts: Sequence[int]) -> Layout:
        parts, k = [], 0
        for count in counts:
            parts.append(merge([2] * count, steps[k : k + count]))
            k += count
        return _layout_of(parts)

    if before:
        index = ComposedLayout(before.simplest(), 0, by_modes(identity(len(columns)), bits))
        inner: AnyLayout = ComposedLayout(by_modes(signed, [len(columns)]), 0, index)
    else:
        inner = by_modes(signed, bits)
    if not swizzles and not offset:
        return inner
    return ComposedLayout(swizzles.simplest() if swizzles else Swizzle(0, 0, 0), offset, inner)


# --- swizzles over extents that are not powers of two, and rotations -------------------------------------


def _swizzled(cube: NDArray[Any]) -> Iterator[AnyLayout]:
    """Layouts under swizzles: what the bits of a corner XOR to, then each single swizzle."""
    if cube.min() < 0:
        return
    width = int(cube.max()).bit_length()
    sample = _Sample(cube)
    for swizzles in (*_corner(cube), *map(Swizzles, _swizzles(width))):
        if not sample.adds([(swizzles.inverse()(sample.values), 0)]):
            continue
        undone, _, _ = _plain(swizzles.inverse()(cube))
        if undone is None:
            continue
        yield _under(swizzles, undone)


def _under(swizzles: Swizzles, plainly: AnyLayout) -> AnyLayout:
    """Swizzles over what `_plain` found."""
    offset, inner = (0, plainly) if isinstance(plainly, Layout) else (plainly.offset, plainly.inner)
    return ComposedLayout(swizzles.simplest(), offset, inner)


def _swizzles(width: int) -> Iterator[Swizzle]:
    """Every swizzle of the bits of a number of so many, the narrowest first."""
    for bits in range(1, min(MOST_SWIZZLE_BITS, width - 1) + 1):
        for distance in range(1, width - bits + 1):
            for base in range(width - bits - distance + 1):
                yield Swizzle(bits, base, distance)
                yield Swizzle(bits, base, -distance)


def _corner(cube: NDArray[Any]) -> Iterator[Swizzles]:
    """The swizzles of the columns that the largest powers of two inside of the extents show."""
    first = int(cube.flat[0])
    columns: list[int] = []
    for m, n in enumerate(cube.shape):
        for j in range((n - 1).bit_length()):
            crd = tuple((1 << j) if k == m else 0 for k in range(cube.ndim))
            columns.append(int(cube[crd]) ^ first)
    before, folded = fold(tuple(columns))
    if not before:
        swizzles, _ = separate(folded)
        if len(swizzles) > 1:
            yield swizzles


def _pitched(cube: NDArray[Any]) -> Iterator[AnyLayout]:
    """Layouts under swizzles whose rows then get another pitch: row * 48 + (col ^ row % 8)."""
    import numpy as np

    for m in range(cube.ndim):
        base = cube.min(axis=tuple(k for k in range(cube.ndim) if k != m))
        if base[0] < 0:
            continue
        form = (1,) * m + (-1,) + (1,) * (cube.ndim - m - 1)
        rest = cube - base.reshape(form)
        pitch = 1 << int(rest.max()).bit_length()
        stepped = rest + pitch * np.arange(cube.shape[m]).reshape(form)
        try:
            extents, steps = _digits([(base - base[0], 0)])
        except Broken:
            continue
        inner = next(_linear(stepped), None) or next(_swizzled(stepped), None)
        if inner is None or np.array_equal(stepped, cube):
            continue
        outer = Layout((pitch, *extents), (1, *(step[0] for step in steps)))
        composed = ComposedLayout(outer, 0, inner)
        yield ComposedLayout(Swizzle(0, 0, 0), int(base[0]), composed) if base[0] > 0 else composed


def _twice_swizzled(cube: NDArray[Any]) -> Iterator[AnyLayout]:
    """Layouts under two swizzles whose fields do not overlap, of offsets below 2^MOST_PAIR_WIDTH.

    All second swizzles are taken back at once, at a few coordinates; what still adds is looked at whole.
    """
    import numpy as np

    width = int(cube.max()).bit_length()
    if cube.min() < 0 or width > MOST_PAIR_WIDTH:
        return
    legal = [s for s in _swizzles(width) if abs(s.shift) >= s.bits]
    read = np.array([[s.yyy_mask] for s in legal])
    down, up = (np.array([[max(0, sign * s.shift)] for s in legal]) for sign in (1, -1))
    sample = _Sample(cube, 8)
    for first in legal:
        x = first(sample.values)
        undone = (x ^ (x & read) >> down << up).reshape(len(legal), -1, sample.count)
        alone = undone[:, 1 : sample.dims + 1].sum(axis=1) - sample.dims * undone[:, 0, :1]
        adds = (undone[:, 0] - undone[:, 0, :1] == alone).all(axis=1)
        for second in (legal[k] for k in np.flatnonzero(adds)):
            plainly, _, _ = _plain(second(first(cube)))
            if plainly is not None:
                yield _under(Swizzles(first, second), plainly)


class _Sample:
    """Some coordinates of a table with those of their modes alone: what must add, for a first look."""

    def __init__(self, cube: NDArray[Any], count: int = 64) -> None:
        import numpy as np

        draw = np.random.default_rng(1)
        self.dims = cube.ndim
        places = np.array([[0] * cube.ndim, *(draw.integers(0, cube.shape, (count, cube.ndim)).tolist())])
        alone = [np.where(np.arange(cube.ndim) == m, places, 0) for m in range(cube.ndim)]
        half = places // 2
        lower = [np.where(np.arange(cube.ndim) == m, half, 0) for m in range(cube.ndim)]
        stacked = np.concatenate([places, *alone, *lower])
        self.count = len(places)
        self.values = cube[tuple(stacked.T)]

    def adds(self, channels: Channels) -> bool:
        """Whether the modes' own values add up to the whole, in every channel."""
        for values, modulus in channels:
            rows = values.reshape(-1, self.count)
            total = rows[1 : self.dims + 1].sum(axis=0) - self.dims * rows[0][0]
            if (_reduced(rows[0] - rows[0][0] - total, modulus) != 0).any():
                return False
        return True


def _rotated(cube: NDArray[Any]) -> Iterator[AnyLayout]:
    """Layouts with one digit that adds modulo its extent."""
    if cube.min() < 0:
        return
    sample = _Sample(cube)
    most = int(cube.max())
    sizes = {d for n in cube.shape for d in range(2, min(n, 1 << 12) + 1) if n % d == 0}
    sizes |= {1 << k for k in range(1, most.bit_length() + 1)}
    for unit in [1 << k for k in range(most.bit_length())]:
        for modulus in sorted(n for n in sizes if 1 < n <= most // unit + 1):
            if not sample.adds(_split(sample.values, unit, modulus)):
                continue
            channels = _split(cube, unit, modulus)
            try:
                parts = modes_of(channels)
            except Broken:
                continue
            layout = _rotation(parts, unit, modulus, *(int(table.flat[0]) for table, _ in channels))
            if layout is not None:
                yield layout


def _split(values: NDArray[Any], unit: int, modulus: int) -> Channels:
    """The rest of offsets without a digit, and the digit."""
    digit = values // unit % modulus
    return [(values - digit * unit, 0), (digit, modulus)]


def _rotation(
    parts: Sequence[tuple[list[int], list[tuple[int, ...]]]], unit: int, modulus: int, first: int, turn: int
) -> AnyLayout | None:
    """(modulus,carries,rest):(unit,0,1) o offset o inner: what the digit carries is dropped."""
    steps = [step for _, mode in parts for step in mode]
    extents = [n for shape, _ in parts for n in shape]
    if first < 0 or any(step[0] < 0 for step in steps):
        return None
    reach = turn + sum(step[1] * (n - 1) for step, n in zip(steps, extents, strict=True))
    common = math.gcd(first, *(step[0] for step in steps)) or 1
    carries = reach // modulus + 1
    most = (first + sum(step[0] * (n - 1) for step, n in zip(steps, extents, strict=True))) // common + 1
    above = modulus * carries
    inner = _layout_of(
        (shape, [step[1] + above * (step[0] // common) for step in mode]) for shape, mode in parts
    )
    outer = Layout((modulus, carries, most), (unit, 0, common))
    return ComposedLayout(outer, turn + above * (first // common), inner)
