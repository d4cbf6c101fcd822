"""Fixes that remove the bank conflicts of a source: padded rows or a swizzle, for accesses that were read.

The idea.  An address in a shared array is a sum of bytes.  With a pitch of C elements it is row C + column,
and both remedies are functions of it:

    padding     address + pad * (address / pitch)         rows start in other banks
    swizzle     address ^ (some of its bits, S lower)     Sw<B,M,S> on the element number

A pad is tried in steps of the widest vector, for rows as they are declared, or in arrays of one dimension as
long as the strides of their addresses and as all banks.  The swizzle comes from `layoutalg.synthesis`, with
the accesses of the source as thread-value maps; where those are not maps of bits, or no swizzle exists, all
Sw<B,M,S> that map the array onto itself are tried.  Either is applied to the sums of all accesses to the
array, and each of them is counted anew: a remedy is reported only where no conflict is left.  An array is a
declaration, not a name: declarations in two kernels or scopes are two arrays.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access
from layoutalg.arch import Arch, find_arch, find_instruction
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.indexing import code
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.source.costs import Cost, Launch, cost_of, sum_of
from layoutalg.source.fixes.arrays import SharedArray, past_limit, same_memory, shared_array
from layoutalg.source.fixes.edits import Edit, edited, hindrances, padding_edit, rewriting
from layoutalg.source.front import LINES, Declaration
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading
from layoutalg.source.terms import Sum, add, bits, constant, floor_div, scale, values
from layoutalg.synthesis import synthesize


@dataclass(slots=True)
class Tried:
    """`pads` are the bytes per row that were tried, by the elements of a row; `refused` are other reasons."""

    pads: dict[int, list[int]] = field(default_factory=dict)
    swizzles: dict[Swizzle, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)

    def padded(self, pitch: int, pad: int) -> None:
        """Note a pad per row of `pitch` elements."""
        self.pads.setdefault(pitch, []).append(pad)

    def words(self) -> str:
        """State which fixes left conflicts, and which were not tried.

        >>> tried = Tried({32: [4, 8, 12]}, {Swizzle(1, 0, 5): None, Swizzle(2, 1, 5): None})
        >>> print(tried.words().replace(" and by ", "\\n"))
        conflicts are left by pads of 4, 8, 12 bytes per row of 32 elements
        Sw<1,0,5>, Sw<2,1,5>; others were not tried
        >>> Tried().words()
        'no padding and no swizzle was tried'
        """
        left = []
        for pads in dict.fromkeys(map(tuple, self.pads.values())):
            rows = [str(pitch) for pitch, own in self.pads.items() if tuple(own) == pads]
            left.append(f"pads of {_numbers(list(pads))} bytes per row of {' or '.join(rows)} elements")
        if self.swizzles:
            left.append(_swizzles(list(self.swizzles)))
        words = f"conflicts are left by {' and by '.join(left)}; others were not tried" if left else (
            "no padding and no swizzle was tried"
        )  # fmt: skip
        return "; ".join([words, *self.refused])


def _numbers(numbers: list[int]) -> str:
    """4, 8, 12 as they are; a long row of equal steps by its first two and its last."""
    steps = {b - a for a, b in pairwise(numbers)}
    if len(numbers) > 4 and len(steps) == 1:
        return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _swizzles(swizzles: list[Swizzle]) -> str:
    """The swizzles, or how many and their ranges."""
    if len(swizzles) <= 3:
        return ", ".join(map(str, swizzles))
    ranges = (
        f"{name} of {min(numbers)} to {max(numbers)}"
        for name, numbers in (
            ("B", [s.bits for s in swizzles]),
            ("M", [s.base for s in swizzles]),
            ("S", [s.shift for s in swizzles]),
        )
    )
    return f"{len(swizzles):,} swizzles Sw<B,M,S>, with {', '.join(ranges)}"


MOST_PITCHES, MOST_PAD, MOST_BITS = 8, 128, 5
"""Pitches of an array of one dimension, bytes of a pad, and bits of a swizzle: as many as banks have."""

_NAMES = {1: "u8", 2: "f16", 4: "f32", 8: "f64"}


@dataclass(frozen=True, slots=True)
class Fix:
    """A remedy for one array: `kind` is padding or swizzle, `layout` where element (row, column) goes.

    `line` is that of the array's declaration.  `before` and `after` are wavefronts of all accesses to the
    array, `ideal` the fewest; `extra_bytes` is the memory that it costs.  With an `edit` that change of the
    text is all; without one, the accesses must be written as `rewrite` says, with the function that `code`
    is.  `launch_bytes` is the dynamic shared memory that the launch then gives, of what was read; None of a
    static array.
    """

    array: str
    line: int
    kind: str
    layout: AnyLayout
    extra_bytes: int
    before: int
    after: int
    ideal: int
    code: str
    edit: Edit | None = None
    rewrite: tuple[str, ...] = ()
    launch_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class _Tile:
    """A shared array as rows of `pitch` elements."""

    array: SharedArray
    rows: int
    pitch: int

    @property
    def element_bytes(self) -> int:
        """Bytes of an element."""
        return self.array.element.bytes

    @property
    def row_bytes(self) -> int:
        """Bytes of a row."""
        return self.pitch * self.element_bytes


def fixes_of(reading: KernelReading) -> tuple[tuple[Fix, ...], tuple[str, ...]]:
    """Return (remedies for the arrays that have conflicts, sentences on the arrays without a remedy).

    >>> from layoutalg.source.reading import read_kernel
    >>> body = "__shared__ float s[32][32]; p[threadIdx.x] = s[threadIdx.x][1] + s[1][threadIdx.x];"
    >>> found, _ = fixes_of(read_kernel(f"__global__ void k(float* p) {{ {body} }}", 32))
    >>> [(fix.kind, str(fix.layout), fix.before, fix.after) for fix in found]
    [('padding', '(32,32):(33,1)', 33, 2), ('swizzle', 'Sw<5,0,5> o 0 o (32,32):(32,1)', 33, 2)]
    """
    machine = find_arch(reading.arch)
    fixes: list[Fix] = []
    notes: list[str] = []
    added: dict[str, int] = {}  # static bytes of the paddings so far, by the kernels that have the array
    names = Counter(declared.name for declared in reading.shared)
    for declared in reading.shared:
        array = shared_array(reading, declared)
        shared = [t for t in array.touches if find_instruction(t.op, machine).space == "shared"]
        launch = Launch(next((t.block for t in shared), reading.block), reading.grid)
        search = _Search(reading, replace(array, touches=tuple(shared)), launch, machine, added)
        if search.before.total == search.before.ideal:
            continue
        own = search.remedies()
        fixes += own
        name = (
            declared.name if names[declared.name] == 1 else f"{declared.name} of line {declared.line % LINES}"
        )
        if own and array.unread:
            count = len({(t.line, t.column) for t in array.unread})
            notes.append(f"{count} accesses to {name} are not read: what is said of it holds for the others")
        if not own:
            notes.append(f"{name}: {search.tried.words()}")
        elif search.tried.refused:
            notes.append(f"{name}: {'; '.join(search.tried.refused)}")
    return tuple(_together(fixes, reading)), tuple(notes)


def _together(fixes: list[Fix], reading: KernelReading) -> Iterator[Fix]:
    """The fixes, with all edits of one statement in the code of each of them."""
    for fix in fixes:
        declared = next(
            (d for d in reading.shared if (d.name, d.line % LINES) == (fix.array, fix.line)), None
        )
        if fix.edit is None or declared is None or declared.written is None:
            yield fix
            continue
        first, last = declared.written.line, declared.written.line + declared.written.text.count("\n")
        edits = {f.edit for f in fixes if f.edit is not None and first <= f.edit.line <= last}
        within = [e for e in edits if _is_in(e, declared)]
        yield replace(fix, code=f"{edited(declared, within)}{fix.code}")


def _is_in(edit: Edit, declared: Declaration) -> bool:
    """Whether an edit is in the statement of a declaration."""
    written = declared.written
    if written is None:
        return False
    lines = written.text.encode().split(b"\n")
    row = edit.line - written.line
    start = written.column if row == 0 else 1
    return start <= edit.column < start + len(lines[row])


class _Search:
    """The remedies of one array."""

    def __init__(
        self, reading: KernelReading, array: SharedArray, launch: Launch, machine: Arch, added: dict[str, int]
    ) -> None:
        self.reading, self.launch, self.machine, self.added = reading, launch, machine, added
        self.tried = Tried()
        costs = [(touch, cost_of(touch, launch, machine)) for touch in array.touches]
        self.before = Cost()
        for _, cost in costs:
            self.before = sum_of(self.before, cost)
        worst_first = sorted(costs, key=lambda each: -each[1].ways)
        self.array = replace(array, touches=tuple(touch for touch, _ in worst_first))

    def remedies(self) -> list[Fix]:
        """The padding and the swizzle that take the least memory."""
        same = same_memory(self.array, self.reading)
        if same:
            self.tried.refused[f"{', '.join(same)} is the same memory of the launch"] = None
            return []
        if not self.array.dims:
            kind = self.array.element
            self.tried.refused[f"it is one {kind.name} of {kind.bytes} bytes, not an array of elements"] = (
                None
            )
            return []
        own = list(self._all())
        best = {kind: min((f for f in own if f.kind == kind), key=lambda f: f.extra_bytes, default=None)
                for kind in ("padding", "swizzle")}  # fmt: skip
        for fix in best.values():
            if fix is not None and fix.launch_bytes is None and fix.kind == "padding":
                for key in self._kernels():
                    self.added[key] = self.added.get(key, 0) + fix.extra_bytes
        return [fix for fix in best.values() if fix is not None]

    def _kernels(self) -> list[str]:
        """The kernels that have the array."""
        key = self.array.declared.key
        pairs = zip(self.reading.kernels, self.reading.together, strict=True)
        return [name for name, own in pairs if any(d.key == key for d in own)]

    def _all(self) -> Iterator[Fix]:
        tiles, in_place = list(self._tiles()), False
        for tile in tiles:
            padded = self._padding(tile)
            if padded is not None:
                yield padded
            swizzled = self._swizzle(tile)
            if swizzled is not None:
                in_place = True
                yield swizzled
        if tiles and not in_place:
            by_banks = (tile for tile in tiles if tile.row_bytes == MOST_PAD)
            swizzled = self._searched(next(by_banks, tiles[0]))
            if swizzled is not None:
                yield swizzled

    def _tiles(self) -> Iterator[_Tile]:
        """The array as it is declared in rows, or by each pitch that its addresses are made of."""
        array = self.array
        size, element = array.size, array.element.bytes
        if len(array.dims) > 1:
            yield _Tile(array, -(-size // array.dims[-1]), array.dims[-1])
            return
        users: Counter[int] = Counter()
        for touch in array.touches:
            users.update({abs(k) // element for _, k in touch.offset.parts if k % element == 0})
        pitches = sorted((p for p in users if 1 < p < size), key=lambda p: (-users[p], -p))[:MOST_PITCHES]
        banks = MOST_PAD // element
        for pitch in (*pitches, *({banks} - set(pitches) if 1 < banks < size else ())):
            yield _Tile(array, -(-size // pitch), pitch)

    def _free(self, to: Callable[[Sum], Sum]) -> Cost | None:
        """The cost of all accesses with their addresses moved; None where one of them has a conflict."""
        total = Cost()
        known: dict[Any, Cost] = {}
        for touch in self.array.touches:
            key = (touch.op, touch.offset.key, tuple(c.key for c in touch.conditions), touch.turns)
            if key not in known:
                try:
                    moved = replace(touch, offset=to(touch.offset))
                    known[key] = cost_of(moved, self.launch, self.machine)
                except LayoutAlgError:  # lanes that are not aligned any more
                    return None
            if known[key].total != known[key].ideal:
                return None
            total = sum_of(total, known[key])
        return total

    # --- padding ----------------------------------------------------------------------------------------

    def _padding(self, tile: _Tile) -> Fix | None:
        """The least pad that leaves no conflict."""
        widest = max(tile.element_bytes, *(t.width for t in self.array.touches))
        if tile.rows < 2 or widest % tile.element_bytes:
            return None
        if any(tile.row_bytes % t.width for t in self.array.touches if t.width > tile.element_bytes):
            self.tried.refused[f"vectors of {widest} bytes cross rows of {tile.pitch} elements"] = None
            return None
        row = tile.row_bytes
        for pad in range(widest, MOST_PAD + 1, widest):
            after = self._free(lambda at, pad=pad: add(at, scale(floor_div(at, row), pad)))  # type: ignore[misc]
            if after is not None:
                return self._padded(tile, pad // tile.element_bytes, after)
            self.tried.padded(tile.pitch, pad)
        return None

    def _padded(self, tile: _Tile, pad: int, after: Cost) -> Fix | None:
        """The padding of a tile, unless its memory does not fit."""
        array = self.array
        layout = storage_layout((tile.rows, tile.pitch), "row", pad)
        last = array.size - 1
        elements = last + last // tile.pitch * pad + 1 if array.dynamic else tile.rows * (tile.pitch + pad)
        extra = (elements - array.size) * tile.element_bytes
        if not self._has_room("padding", extra, elements):
            return None
        hinder = hindrances(array, self.reading, self.launch, self.machine)
        edit = None if hinder or len(array.dims) < 2 or array.dynamic else padding_edit(array, pad)
        if edit is not None:
            text = f"  // rows of {tile.pitch + pad} instead of {tile.pitch}"
            return self._fix("padding", layout, extra, after, text, edit)
        words = rewriting(array, tile.pitch, elements, hinder)
        return self._fix("padding", layout, extra, after, self._code(layout), None, words, elements)

    def _has_room(self, kind: str, extra: int, elements: int) -> bool:
        array = self.array
        before = max((self.added.get(key, 0) for key in self._kernels()), default=0)
        dynamic = elements * array.element.bytes if array.dynamic else 0
        past = past_limit(array, self.reading, self.machine, before + extra if extra else 0, dynamic)
        if past:
            self.tried.refused[f"a {kind} that leaves no conflict takes {past}"] = None
        return not past

    def _fix(
        self,
        kind: str,
        layout: AnyLayout,
        extra: int,
        after: Cost,
        text: str,
        edit: Edit | None,
        words: tuple[str, ...] = (),
        elements: int = 0,
    ) -> Fix:
        array = self.array
        launched = elements * array.element.bytes if array.dynamic else None
        return Fix(
            array.name, array.declared.line % LINES, kind, layout, extra, self.before.total, after.total,
            after.ideal, text, edit, words, launched,
        )  # fmt: skip

    def _code(self, layout: AnyLayout) -> str:
        return code(layout, "cuda", f"{self.array.name}_index", parameters=("row", "col"))

    # --- swizzles ---------------------------------------------------------------------------------------

    def _swizzle(self, tile: _Tile) -> Fix | None:
        """The single swizzle that synthesis finds for the accesses, where it leaves no conflict."""
        shape = (tile.rows, tile.pitch)
        plain = storage_layout(shape, "row")
        element = _NAMES.get(tile.element_bytes)
        if element is None or tile.pitch & (tile.pitch - 1):
            return None
        touches = self.array.touches
        mapped = (_access(touch, tile, self.launch, element) for touch in touches)
        accesses = list(dict.fromkeys(access for access in mapped if access is not None))
        if not accesses:
            return None
        try:
            answer = synthesize(
                shape, accesses, element=element, order="row", form="single", arch=self.machine
            )
        except LayoutAlgError:
            return None
        layout = answer.layout
        if not isinstance(layout, ComposedLayout) or len(layout.swizzles) != 1 or layout.inner != plain:
            return None
        return self._applied(tile, layout.swizzles[0], tile.rows * tile.pitch)

    def _searched(self, tile: _Tile) -> Fix | None:
        """The first swizzle that leaves no conflict, of few bits rather.

        All that keep vectors whole and map the array onto itself are tried.
        """
        size = self.array.size
        lowest, highest = self._whole(tile), (size - 1).bit_length()
        for count in range(1, MOST_BITS + 1):
            for base in range(lowest, highest - 2 * count + 1):
                last = size - size % (
                    1 << base + count
                )  # whole blocks are permuted, perhaps what is left over
                for shift in range(count, highest - base - count + 1):
                    swizzle = Swizzle(count, base, shift)
                    if all(swizzle(at) < size for at in range(last, size)):
                        fix = self._applied(tile, swizzle, size)
                        if fix is not None:
                            return fix
        return None

    def _whole(self, tile: _Tile) -> int:
        """The bits of an element's number that stay in a vector."""
        widest = max(t.width for t in self.array.touches)
        return max(0, (widest // tile.element_bytes).bit_length() - 1)

    def _applied(self, tile: _Tile, swizzle: Swizzle, elements: int) -> Fix | None:
        """A swizzle as a remedy for `elements` elements, where it leaves no conflict."""
        if tile.element_bytes & (tile.element_bytes - 1) or swizzle.base < self._whole(tile):
            return None
        after = self._free(lambda at: _swizzled(at, swizzle, tile.element_bytes))
        if after is None:
            self.tried.swizzles[swizzle] = None
            return None
        extra = (elements - self.array.size) * tile.element_bytes
        if not self._has_room("swizzle", extra, elements):
            return None
        layout = ComposedLayout(swizzle, 0, storage_layout((tile.rows, tile.pitch), "row"))
        hinder = hindrances(self.array, self.reading, self.launch, self.machine)
        words = rewriting(self.array, tile.pitch, elements, hinder)
        return self._fix("swizzle", layout, extra, after, self._code(layout), None, words, elements)


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
    linear = np.full(threads, start)
    for b, stride in enumerate(strides):
        linear ^= np.where(number >> b & 1, stride, 0)
    if (linear != offsets).any() or any(s & t for i, s in enumerate(strides) for t in strides[:i] if s != t):
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
