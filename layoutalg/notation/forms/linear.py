"""Maps of bits as layouts, and back: tiles of shared memory, thread-value layouts of registers; their text.

The idea.  Triton maps an offset of shared memory to a coordinate of the tensor, CuTe a coordinate to an
offset: one is the other's inverse.  Triton maps (register, lane, warp, block) to a coordinate; CuTe's
thread-value layout maps (thread, value), with thread = lane + 32 * warp, to the coordinate's index, the first
dimension fastest.

The text of a LinearLayout is that which Triton prints in its logs, or this library's own:

    - register=1 -> (0, 1)            register=1 -> (0, 1)
      register=2 -> (8, 0)            register=2 -> (8, 0)
    - warp is a size 1 dimension      warp: size 1
    where out dims are: [dim0 (size 16), dim1 (size 2)]          outs: dim0 (size 16), dim1 (size 2)

Out dimensions without sizes are as large as the bases reach.  A map from offsets alone is read as the layout
of its tile, as the shared encodings are.

Source: Triton, lib/Tools/LinearLayout.cpp, LinearLayout::toString.

>>> from layoutalg.layout import Layout
>>> found = map_of_threads(Layout(((4, 8), 2), ((32, 1), 16)), (16, 8))
>>> found(lane=5, register=1), str(threads_of(found))
({'dim0': 1, 'dim1': 3}, '((4,8),2):((32,1),16)')
"""

from __future__ import annotations

import re
from typing import NoReturn

from layoutalg.compose import composition
from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    coalesce,
    concat,
    innermost,
    map_innermost,
    modes,
    rank,
    size,
)
from layoutalg.notation.form import Options, Value, check_length, refuse
from layoutalg.notation.forms.triton_maps import DISTRIBUTED
from layoutalg.notation.symbols import MAX_DIGITS

LANES = 5
"""The number of bits of a lane's number."""


def tile_of(found: LinearLayout) -> AnyLayout | LinearLayout:
    """The layout of the tile whose offsets are mapped, from coordinates; the map itself where blocks share
    the tensor or several offsets hold one element."""
    if {name for name, bases in found.ins if bases} - {"offset"} or not found.is_invertible():
        return found
    tile = found.sublayout(["offset"], list(found.out_bits)).invert().to_layout()
    if len(found.outs) == 1 and rank(tile) > 1:  # one dimension is one mode
        return map_innermost(tile, lambda plain: Layout((plain.shape,), (plain.stride,)))
    return tile


def padded(tile: AnyLayout, pairs: tuple[tuple[int, int], ...]) -> AnyLayout:
    """A tile with pads: offset e lies at e plus, for each (interval, pad), pad times e // interval.

    Intervals and pads are powers of two, so that a bit of e at or above an interval moves by itself: the pads
    are strides of the bits.  A tile under a swizzle stays under it, with an outer layout.  Raises ShapeError.

    >>> from layoutalg.layout import Layout
    >>> print(padded(Layout((64, 64), (64, 1)), ((64, 4),)))
    (64,64):(68,1)
    """
    for number in (number for pair in pairs for number in pair):
        if type(number) is not int or number < 1 or number & (number - 1):
            raise ShapeError(f"intervals and pads are powers of two, and {number} is not")
    if len({interval for interval, _ in pairs}) < len(pairs) or not pairs:
        raise ShapeError("intervals are given, each once")
    bits = (size(tile) - 1).bit_length()
    strides = tuple(
        (1 << bit) + sum((pad << bit) // interval for interval, pad in pairs if 1 << bit >= interval)
        for bit in range(bits)
    )
    outer = coalesce(Layout((2,) * bits, strides)) if bits else Layout(1)
    if not isinstance(tile, Layout):
        return tile if outer == Layout(1 << bits) else ComposedLayout(outer, 0, tile)
    parts = [coalesce(composition(outer, mode)) for mode in modes(tile)]  # whose bits are not shared
    if not isinstance(tile.shape, tuple) and rank(parts[0]) == 1:
        return parts[0]
    return concat(*parts)


def offsets_of(value: AnyLayout | LinearLayout, what: str) -> LinearLayout:
    """The map from offsets to the coordinates of a tile.  Raises UnsupportedError: no `what`, and why.

    >>> from layoutalg.layout import Layout
    >>> offsets_of(Layout((2, 4), (4, 1)), "shared_linear").columns_of("offset")
    (2, 4, 1)
    """
    if isinstance(value, LinearLayout):
        if "offset" not in value.in_bits:
            raise UnsupportedError(f"no {what}: this maps {', '.join(value.in_bits)}, and no offsets")
        return value
    names = [f"dim{i}" for i in range(rank(value))]
    if not names:
        raise UnsupportedError(f"no {what} for {value}: it has no modes")
    try:
        offset_of = LinearLayout.from_layout(value, names)
    except LayoutAlgError as error:
        raise UnsupportedError(f"no {what} for {value}: {error.message}") from error
    elements = size(innermost(value))
    if not offset_of.is_injective() or offset_of.outs[0][1] != elements:
        raise UnsupportedError(
            f"no {what} for {value}: its {elements} elements lie at offsets up to {offset_of.outs[0][1] - 1} "
            f"with gaps or copies, and the tile has an offset for each element"
        )
    back = offset_of.invert()
    return LinearLayout({"offset": dict(back.ins)["offset"], "block": ()}, back.outs)


def threads_of(found: LinearLayout) -> AnyLayout:
    """The thread-value layout of a map of registers and lanes: (thread, value), and block where there are."""
    ins = {name: dict(found.ins).get(name, ()) for name in DISTRIBUTED}
    threads = LinearLayout([(name, ins[name]) for name in ("lane", "warp", "register", "block")], found.outs)
    bits = threads.in_bits
    shape = {"thread": bits["lane"] + bits["warp"], "value": bits["register"]}
    if bits["block"]:
        shape["block"] = bits["block"]
    return threads.reshape_ins(shape).to_layout()


def map_of_threads(layout: AnyLayout, shape: tuple[int, ...]) -> LinearLayout:
    """Inverse of `threads_of`, for a tensor of `shape`.

    Raises ShapeError for layouts of other modes, or past the tensor, NotLinearError as LinearLayout does.
    """
    if rank(layout) not in (2, 3):
        raise ShapeError(
            f"{layout} has {rank(layout)} modes; (thread, value) or (thread, value, block) are needed"
        )
    names = ["thread", "register", "block"][: rank(layout)]
    linear = LinearLayout.from_layout(layout, names)
    bits = {"block": 0, **linear.in_bits}
    outs = [(f"dim{i}", extent) for i, extent in enumerate(shape)]
    lanes = min(LANES, bits["thread"])
    ins = {"lane": lanes, "warp": bits.pop("thread") - lanes, **bits}
    threads = LinearLayout.from_columns(linear.columns, ins, outs)
    return threads.transpose_ins(list(DISTRIBUTED))


def as_layout(value: AnyLayout | LinearLayout) -> AnyLayout:
    """A map of bits as a layout: a tile of shared memory, a thread-value layout, or a mode per input."""
    if not isinstance(value, LinearLayout):
        return value
    names = set(value.in_bits)
    if "offset" in names:
        tile = tile_of(value)
        return tile.to_layout() if isinstance(tile, LinearLayout) else tile
    return threads_of(value) if names <= set(DISTRIBUTED) else value.to_layout()


# --- the text ----------------------------------------------------------------------------------------------

FAMILY = "a LinearLayout"

MAX_PARTS = 64
"""Most bits of an in dimension, and most out dimensions."""

BEGINS = re.compile(
    r"(?://[ \t]*)?(?:-[ \t]*)?[A-Za-z_]\w*(?:=1 +-> ?[(0-9]|[ \t]+is a size 1 dimension|: size 1\b)"
)

_BASIS = re.compile(r"(?:-\s*)?([A-Za-z_]\w*)=([0-9]{1,20})\s*->\s*(\(?)([0-9, ]*)(\)?)")
_ONE = re.compile(r"(?:-\s*)?([A-Za-z_]\w*)(?: is a size 1 dimension|: size 1)")
_OUTS = re.compile(r"(?:where out dims are: \[(.*)\]|outs: (.*))")
_OUT = re.compile(r"\s*([A-Za-z_]\w*)(?: \(size ([0-9]{1,20})\))?\s*")


def read_linear(text: str, options: Options) -> Value:
    """The map, or the layout of the tile where it maps offsets.  Raises ParseError with line and column."""
    check_length(text)
    ins: dict[str, list[tuple[int, ...]]] = {}
    outs: list[tuple[str, str | None]] | None = None
    at = 0

    def fail(why: str) -> NoReturn:
        refuse(text, FAMILY, why, min(at, len(text)))

    for line in text.splitlines(keepends=True):
        body = line.strip().removeprefix("//").strip()
        at += len(line) - len(line.lstrip())
        if body and outs is not None:
            fail("expected the end behind the out dimensions")
        if match := _BASIS.fullmatch(body):
            name, power, digits = match[1], match[2], match[4].split(",")
            bases = ins.setdefault(name, [])
            if int(power) != 1 << len(bases):
                fail(f"expected {name}={1 << len(bases)}, found {name}={power}")
            parts = [part.strip() for part in digits if part.strip()]
            if len(match[3]) != len(match[5]) or any(not p.isdigit() or len(p) > MAX_DIGITS for p in parts):
                fail("expected a basis such as (0, 1)")
            if len(parts) > MAX_PARTS or len(bases) >= MAX_PARTS:
                fail(f"expected at most {MAX_PARTS} bases of at most {MAX_PARTS} parts")
            bases.append(tuple(map(int, parts)))
        elif match := _ONE.fullmatch(body):
            if match[1] in ins:
                fail(f"{match[1]} is there already")
            ins[match[1]] = []
        elif match := _OUTS.fullmatch(body):
            listed = [_OUT.fullmatch(part) for part in (match[1] or match[2] or "").split(",")]
            if not all(listed):
                fail("expected out dimensions such as dim0 (size 32), dim1 (size 32)")
            outs = [(part[1], part[2]) for part in listed if part]
        elif body:
            fail("expected a basis such as register=1 -> (0, 1), or the out dimensions")
        at += len(line.lstrip()) if line.strip() else 0
    every = [basis for bases in ins.values() for basis in bases]
    if len({len(basis) for basis in every}) > 1:
        fail("bases of different ranks")
    rank = len(every[0]) if every else len(outs or ())
    named = outs or [(f"dim{i}" if rank > 1 else "offset", None) for i in range(rank)]
    if len(named) != rank:
        fail(f"{len(named)} out dimensions and bases of {rank} parts")
    try:
        sizes = [
            (name, int(extent) if extent else 1 << max([b[i] for b in every], default=0).bit_length())
            for i, (name, extent) in enumerate(named)
        ]
        made = LinearLayout(ins, sizes)
        return tile_of(made) if set(ins) <= {"offset", "block"} else made
    except LayoutAlgError as error:
        fail(error.message)


def write_linear(value: Value, options: Options) -> str:
    """The text of Triton's logs.  Raises UnsupportedError for tiles that are not a map of bits."""
    if isinstance(value, Swizzle):
        raise UnsupportedError(f"a LinearLayout maps a tensor, and {value} alone has no shape")
    linear = value if isinstance(value, LinearLayout) else offsets_of(value, "LinearLayout")
    lines: list[str] = []
    for name, bases in linear.ins:
        if not bases:
            lines.append(f" - {name} is a size 1 dimension")
        for j, basis in enumerate(bases):
            lines.append(f" {' ' if j else '-'} {name}={1 << j} -> ({', '.join(map(str, basis))})")
    outs = ", ".join([f"{name} (size {extent})" for name, extent in linear.outs])
    return "\n".join([*lines, f"where out dims are: [{outs}]"])
