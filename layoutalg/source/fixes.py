"""What removes the bank conflicts of a source: padded rows or a swizzle, for the accesses that were read.

The idea.  An address in a shared array is a sum of bytes.  With a pitch of C elements it is row C + column,
and both remedies are functions of it:

    padding     address + pad * (address / pitch)         rows start in other banks
    swizzle     address ^ (some of its bits, S lower)     Sw<B,M,S> on the element number

A pad is tried in steps of the widest vector, for rows as they are declared, or in arrays of one dimension as
long as the strides of their addresses and as all banks.  The swizzle is asked of `layoutalg.synthesis`, with
the accesses of the source as thread-value maps; where those are not maps of bits, or it has none, all
Sw<B,M,S> that map the array onto itself are tried.  Either is applied to the sums of all accesses to the
array, and each of them is counted anew: a remedy is told only where no conflict is left.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, replace
from math import prod
from typing import Any

from layoutalg.analysis import Access
from layoutalg.arch import Arch, find_arch, find_instruction
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.indexing import code
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.source.counting import Cost, Launch, cost_of, sum_of
from layoutalg.source.front import Type
from layoutalg.source.machine import Touch
from layoutalg.source.reading import KernelReading
from layoutalg.source.terms import Sum, add, bits, constant, floor_div, scale, values
from layoutalg.synthesis import storage_layout, synthesize

MOST_PITCHES, MOST_PAD, MOST_BITS = 8, 128, 5
"""Pitches of an array of one dimension, bytes of a pad, and bits of a swizzle: as many as banks have."""

_NAMES = {1: "u8", 2: "f16", 4: "f32", 8: "f64"}
_C_NAMES = {1: "unsigned char", 2: "half", 4: "float", 8: "double"}


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy for one array: `kind` is padding or swizzle, `layout` where element (row, column) goes.

    `before` and `after` are wavefronts of all accesses to the array, `ideal` the fewest; `extra_bytes` is the
    memory that it costs; `code` is what to paste.
    """

    array: str
    kind: str
    layout: AnyLayout
    extra_bytes: int
    before: int
    after: int
    ideal: int
    code: str


@dataclass(frozen=True, slots=True)
class _Tile:
    """A shared array as rows of `pitch` elements."""

    name: str
    element_bytes: int
    element_name: str
    rows: int
    pitch: int
    dims: tuple[int, ...]


def fixes_of(reading: KernelReading) -> tuple[tuple[Fix, ...], tuple[str, ...]]:
    """(remedies for the arrays that have conflicts, what is to be said where there is none).

    >>> from layoutalg.source.reading import read_kernel
    >>> body = "__shared__ float s[32][32]; p[threadIdx.x] = s[threadIdx.x][1] + s[1][threadIdx.x];"
    >>> found, _ = fixes_of(read_kernel(f"__global__ void k(float* p) {{ {body} }}", 32))
    >>> [(fix.kind, str(fix.layout), fix.before, fix.after) for fix in found]
    [('padding', '(32,32):(33,1)', 33, 2), ('swizzle', 'Sw<5,0,5> o 0 o (32,32):(32,1)', 33, 2)]
    """
    machine = find_arch(reading.arch)
    launch = Launch(reading.block, reading.grid)
    found: list[Fix] = []
    notes: list[str] = []
    for name in reading.conflicting:
        touches = [t for t in reading.touches if t.array == name and _is_shared(t, machine)]
        before = Cost()
        worst: dict[int, int] = {}
        for touch in touches:
            cost = cost_of(touch, launch, machine)
            before = sum_of(before, cost)
            worst[id(touch)] = cost.ways
        touches.sort(key=lambda touch: -worst[id(touch)])
        own = list(_for_array(reading, name, touches, before, launch, machine))
        best = {kind: min((f for f in own if f.kind == kind), key=lambda f: f.extra_bytes, default=None)
                for kind in ("padding", "swizzle")}  # fmt: skip
        kept = [fix for fix in best.values() if fix is not None]
        found += kept
        unread = sum(a.array == name and not a.read for a in reading.accesses)
        if kept and unread:
            notes.append(f"{unread} accesses to {name} are not read: what is said of it holds for the others")
        if not kept:
            rows = ", ".join(dict.fromkeys(str(tile.pitch) for tile in _tiles(reading, name, touches)))
            notes.append(
                f"{name}: conflicts are left by every padding of up to {MOST_PAD} bytes per row of "
                f"{rows or 'no'} elements, and by every swizzle Sw<B,M,S> with B <= {MOST_BITS} and S >= B "
                "that maps the array onto itself; others were not tried"
            )
    return tuple(found), tuple(notes)


def _is_shared(touch: Touch, machine: Arch) -> bool:
    return find_instruction(touch.op, machine).space == "shared"


def _free(touches: list[Touch], to: Any, launch: Launch, machine: Arch) -> Cost | None:
    """The cost of all accesses with their addresses moved; None where one of them has a conflict."""
    total = Cost()
    known: dict[Any, Cost] = {}
    for touch in touches:
        key = (touch.op, touch.offset.key, tuple(c.key for c in touch.conditions), touch.turns)
        if key not in known:
            try:
                known[key] = cost_of(replace(touch, offset=to(touch.offset)), launch, machine)
            except LayoutAlgError:  # lanes that are not aligned any more
                return None
        if known[key].total != known[key].ideal:
            return None
        total = sum_of(total, known[key])
    return total


def _for_array(
    reading: KernelReading, name: str, touches: list[Touch], before: Cost, launch: Launch, machine: Arch
) -> Iterator[Fix]:
    tiles, in_place = list(_tiles(reading, name, touches)), False
    for tile in tiles:
        padded = _padding(tile, touches, before, launch, machine)
        if padded is not None:
            yield padded
        swizzled = _swizzle(tile, touches, before, launch, machine)
        if swizzled is not None:
            in_place = True
            yield swizzled
    if tiles and not in_place:
        by_banks = (tile for tile in tiles if tile.pitch * tile.element_bytes == MOST_PAD)
        swizzled = _searched(next(by_banks, tiles[0]), touches, before, launch, machine)
        if swizzled is not None:
            yield swizzled


def _tiles(reading: KernelReading, name: str, touches: list[Touch]) -> Iterator[_Tile]:
    """The array as it is declared in rows, or by each pitch that its addresses are made of."""
    declared = next((d for d in reading.shared if d.name == name), None)
    dims: list[int] = []
    kind: Type | None = declared.type if declared is not None else None
    while kind is not None and kind.kind == "array":
        dims.append(kind.extent)
        kind = kind.to
    whole = kind is not None and (kind.kind in ("int", "float") or kind.bytes in (8, 16))
    element, named = (kind.bytes, kind.name) if kind is not None and whole else (4, "float")
    named = {"__fp16": "half"}.get(named, named)
    if kind is not None and kind.bytes > element and dims:
        dims.append(kind.bytes // element)
    reach = max((t.offset.high + t.width for t in touches), default=0)
    size = prod(dims) if prod(dims) > 1 else -(-reach // element)
    if len(dims) > 1:
        yield _Tile(name, element, named, size // dims[-1], dims[-1], tuple(dims))
        return
    users: Counter[int] = Counter()
    for touch in touches:
        users.update({abs(k) // element for _, k in touch.offset.parts if k % element == 0})
    pitches = sorted((p for p in users if 1 < p < size), key=lambda p: (-users[p], -p))[:MOST_PITCHES]
    banks = MOST_PAD // element
    for pitch in (*pitches, *({banks} - set(pitches) if banks < size else ())):
        yield _Tile(name, element, named, -(-size // pitch), pitch, (size,))


def _padding(tile: _Tile, touches: list[Touch], before: Cost, launch: Launch, machine: Arch) -> Fix | None:
    """The least pad that leaves no conflict."""
    widest = max(tile.element_bytes, *(t.width for t in touches))
    row = tile.pitch * tile.element_bytes
    if tile.rows < 2 or row % tile.element_bytes:
        return None
    for pad in range(widest, MOST_PAD + 1, widest):
        after = _free(touches, lambda at, pad=pad: add(at, scale(floor_div(at, row), pad)), launch, machine)
        if after is not None:
            pitch = tile.pitch + pad // tile.element_bytes
            layout = storage_layout((tile.rows, tile.pitch), "row", pitch - tile.pitch)
            text = _padded_text(tile, pitch)
            return Fix(
                tile.name, "padding", layout, tile.rows * pad, before.total, after.total, after.ideal, text
            )
    return None


def _padded_text(tile: _Tile, pitch: int) -> str:
    if len(tile.dims) > 1:
        sizes = "".join(f"[{n}]" for n in (*tile.dims[:-1], pitch))
        return f"__shared__ {tile.element_name} {tile.name}{sizes};  // {pitch} instead of {tile.pitch}"
    total = tile.rows * pitch
    return (
        f"__shared__ {tile.element_name} {tile.name}[{total}];  "
        f"// rows of {pitch} instead of {tile.pitch}: row * {pitch} + column"
    )


def _swizzle(tile: _Tile, touches: list[Touch], before: Cost, launch: Launch, machine: Arch) -> Fix | None:
    """The single swizzle that synthesis finds for the accesses, where it leaves no conflict."""
    shape = (tile.rows, tile.pitch)
    plain = storage_layout(shape, "row")
    element = _NAMES.get(tile.element_bytes)
    if element is None or tile.pitch & (tile.pitch - 1):
        return None
    accesses = list(dict.fromkeys(a for t in touches if (a := _access(t, tile, launch, element)) is not None))
    if not accesses:
        return None
    try:
        found = synthesize(shape, accesses, element=element, order="row", form="single", arch=machine)
    except LayoutAlgError:
        return None
    layout = found.layout
    if not isinstance(layout, ComposedLayout) or len(layout.swizzles) != 1 or layout.inner != plain:
        return None
    swizzle = layout.swizzles[0]
    extra = tile.rows * tile.pitch - prod(tile.dims)
    return _applied(tile, swizzle, extra, touches, before, launch, machine)


def _searched(tile: _Tile, touches: list[Touch], before: Cost, launch: Launch, machine: Arch) -> Fix | None:
    """The first swizzle that leaves no conflict, of few bits rather, of those that keep vectors whole and map
    the array onto itself."""
    size, widest = prod(tile.dims), max(t.width for t in touches)
    whole, highest = max(0, (widest // tile.element_bytes).bit_length() - 1), (size - 1).bit_length()
    for count in range(1, MOST_BITS + 1):
        for base in range(whole, highest - 2 * count + 1):
            last = size - size % (1 << base + count)  # whole blocks are permuted, perhaps what is left over
            for shift in range(count, highest - base - count + 1):
                swizzle = Swizzle(count, base, shift)
                if all(swizzle(at) < size for at in range(last, size)):
                    found = _applied(tile, swizzle, 0, touches, before, launch, machine)
                    if found is not None:
                        return found
    return None


def _applied(
    tile: _Tile,
    swizzle: Swizzle,
    extra: int,
    touches: list[Touch],
    before: Cost,
    launch: Launch,
    machine: Arch,
) -> Fix | None:
    """A swizzle as a remedy that takes so many elements more, where it leaves no conflict."""
    after = _free(touches, lambda at: _swizzled(at, swizzle, tile.element_bytes), launch, machine)
    if after is None:
        return None
    layout = ComposedLayout(swizzle, 0, storage_layout((tile.rows, tile.pitch), "row"))
    text = code(layout, "cuda", f"{tile.name}_index", parameters=("row", "col"))
    more = extra * tile.element_bytes
    return Fix(tile.name, "swizzle", layout, more, before.total, after.total, after.ideal, text)


def _swizzled(at: Sum, swizzle: Swizzle, element_bytes: int) -> Sum:
    """Sw<B,M,S> of an address in bytes; S above zero."""
    low = swizzle.base + swizzle.shift
    mask = ((1 << swizzle.bits) - 1 << low) * element_bytes
    taken = floor_div(bits("and", at, constant(mask)), 1 << swizzle.shift)
    return bits("xor", at, taken)


def _access(touch: Touch, tile: _Tile, launch: Launch, element: str) -> Access | None:
    """An access as a thread-value map onto flat indices of the tile, where it is linear in its bits."""
    import numpy as np

    env: dict[str, Any] = dict(launch.threads)
    for name in touch.offset.variables - set(env):
        env[name] = 0
    offsets = np.broadcast_to(values(touch.offset, env), env["thread"].shape) // tile.element_bytes
    threads = len(offsets)
    if threads & (threads - 1) or threads < 2:
        return None
    start = int(offsets[0])
    wide = touch.width // tile.element_bytes
    strides = [int(offsets[1 << b]) ^ start for b in range(threads.bit_length() - 1)]
    number = np.arange(threads)
    whole = np.full(threads, start)
    for b, stride in enumerate(strides):
        whole ^= np.where(number >> b & 1, stride, 0)
    if (whole != offsets).any() or any(s & t for i, s in enumerate(strides) for t in strides[:i] if s != t):
        return None
    if any(s and s & (s - 1) for s in strides) or not wide:
        return None
    flat = [s // tile.pitch + s % tile.pitch * tile.rows for s in strides]
    thread = Layout((2,) * len(flat), tuple(flat))
    tv = Layout((thread.shape, wide), (thread.stride, tile.rows))
    try:
        return Access(touch.op, tv, dtype(element))
    except LayoutAlgError:
        return None
