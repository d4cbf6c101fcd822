"""Fixes that remove the bank conflicts of a source: padded rows or a swizzle, for accesses that were read.

The idea.  An address in a shared array is a sum of bytes.  With a pitch of C elements it is row C + column,
and both remedies are functions of it:

    padding     address + pad * (address / pitch)         rows start in other banks
    swizzle     address ^ (some of its bits, S lower)     Sw<B,M,S> on the element number

A pad is tried in steps of the widest vector, for rows as they are declared, or in arrays of one dimension as
long as the strides of their addresses and as all banks.  The swizzle comes from `layoutalg.synthesis`, with
the accesses of the source as thread-value maps; where those are not maps of bits, or no swizzle exists, all
Sw<B,M,S> that map the array onto itself are tried.  Either is applied to the sums of all accesses to the
array, and each of them is counted anew: the remedy that leaves the fewest wavefronts past the ideal is
reported, with the accesses that keep conflicts, if any do.  An array is a declaration, not a name:
declarations in two kernels or scopes are two arrays.  An array of one dimension may hold several tiles: its
parts are the ranges of bytes between which no access moves, and each has rows, and remedies, of its own.
"""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access
from layoutalg.arch import Arch, find_arch, find_instruction
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.indexing import code
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.source.costs import Cost, Launch, cost_of
from layoutalg.source.fixes.arrays import SharedArray, owners, parts, past_limit, same_memory, shared_array
from layoutalg.source.fixes.check import offered
from layoutalg.source.fixes.edits import hindrances, rewriting
from layoutalg.source.fixes.remedies import Fix, Remedy, Tile, moved
from layoutalg.source.front import LINES
from layoutalg.source.machine import Touch
from layoutalg.source.rows import KernelReading
from layoutalg.source.terms import Sum, values
from layoutalg.synthesis import synthesize


@dataclass(slots=True)
class Tried:
    """`pads` are the bytes per row that were tried, by the elements of a row; `refused` are other reasons."""

    pads: dict[int, list[int]] = field(default_factory=dict)
    swizzles: dict[Swizzle, None] = field(default_factory=dict)
    refused: dict[str, None] = field(default_factory=dict)

    def note(self, tile: Tile, by: int | Swizzle) -> None:
        """Note a pad of the rows of a tile, or a swizzle."""
        if isinstance(by, Swizzle):
            self.swizzles[by] = None
        else:
            self.pads.setdefault(tile.pitch, []).append(by * tile.element_bytes)

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
    steps = {b - a for a, b in itertools.pairwise(numbers)}
    if len(numbers) > 4 and len(steps) == 1:
        return f"{numbers[0]}, {numbers[1]}, ..., {numbers[-1]}"
    return ", ".join(map(str, numbers))


def _swizzles(swizzles: list[Swizzle]) -> str:
    """The swizzles, or how many and their ranges."""
    if len(swizzles) <= 3:
        return ", ".join(map(str, swizzles))
    columns = zip("BMS", zip(*((s.bits, s.base, s.shift) for s in swizzles), strict=True), strict=True)
    ranges = (f"{name} of {min(numbers)} to {max(numbers)}" for name, numbers in columns)
    return f"{len(swizzles):,} swizzles Sw<B,M,S>, with {', '.join(ranges)}"


MOST_PITCHES, MOST_PAD, MOST_BITS = 8, 128, 5
"""Pitches of an array of one dimension, bytes of a pad, and bits of a swizzle: as many as banks have."""

_NAMES = {1: "u8", 2: "f16", 4: "f32", 8: "f64"}


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
    added: dict[tuple[str, bool], int] = {}  # bytes of paddings so far, by kernel and by who gives the memory
    names = Counter(declared.name for declared in reading.shared)
    for declared in reading.shared:
        array = shared_array(reading, declared)
        shared = [t for t in array.touches if find_instruction(t.op, machine).space == "shared"]
        launch = Launch(next((t.block for t in shared), reading.block), reading.grid)
        for part in parts(replace(array, touches=tuple(shared)), launch):
            search = _Search(reading, part, launch, machine, added)
            if not search.excess:
                continue
            own = search.remedies()
            fixes += own
            name = part.name if part.whole is None else bytes_of(part)
            if names[declared.name] > 1:
                name += f" of line {declared.line % LINES}"
            if own and array.unread:
                count = len({(t.line, t.column) for t in array.unread})
                note = f"{count} accesses to {name} are not read: what is said of it holds for the others"
                notes.append(note)
            if not own or all(fix.after - fix.ideal for fix in own):
                notes.append(f"{name}: {search.tried.words()}")
            elif search.tried.refused:
                notes.append(f"{name}: {'; '.join(search.tried.refused)}")
    return offered(reading, fixes), tuple(notes)


def bytes_of(part: SharedArray) -> str:
    """The bytes of an array that a part is, as smem[0:4096]."""
    first, size = part.start * part.element.bytes, part.size * part.element.bytes
    return f"{part.name}[{first}:{first + size}]"


class _Search:
    """The remedies of one array."""

    def __init__(
        self, reading: KernelReading, array: SharedArray, launch: Launch, machine: Arch,
        added: dict[tuple[str, bool], int],
    ) -> None:  # fmt: skip
        self.reading, self.launch, self.machine, self.added = reading, launch, machine, added
        self.tried = Tried()
        costs = [(touch, cost_of(touch, launch, machine)) for touch in array.touches]
        self.before = sum(cost.total for _, cost in costs)
        self.excess = self.before - sum(cost.ideal for _, cost in costs)
        worst_first = sorted(costs, key=lambda each: each[1].ideal - each[1].total)
        self.array = replace(array, touches=tuple(touch for touch, _ in worst_first))
        self.least: dict[type, int] = dict.fromkeys((int, Swizzle), self.excess)
        self.found: list[Remedy] = []
        self.widest = max((array.element.bytes, *(t.width for t in array.touches)))
        self.kernels = owners(reading, array.declared)

    def remedies(self) -> list[Fix]:
        """The padding and the swizzle that leave the fewest conflicts, of these the least memory."""
        element, same = self.array.element, same_memory(self.array, self.reading)
        if same:
            self.tried.refused[f"{', '.join(same)} is the same memory of the launch"] = None
        elif not self.array.dims:
            what = f"{element.name} of {element.bytes} bytes, not an array of elements"
            self.tried.refused[f"it is one {what}"] = None
        else:
            self._look(list(self._tiles()))
        by_memory = sorted(self.found, key=lambda each: (each.excess, each.elements))
        groups = ([remedy for remedy in by_memory if type(remedy.by) is kind] for kind in (int, Swizzle))
        best = [remedy for own in groups for remedy in itertools.islice(filter(self._has_room, own), 1)]
        least = min((remedy.excess for remedy in best), default=0)
        return [self._fix(remedy) for remedy in best if remedy.excess == least]

    def _look(self, tiles: list[Tile]) -> None:
        """Try paddings and swizzles of the array in rows of each kind."""
        for tile in tiles:
            self._try(tile, self._paddings(tile))
            self._try(tile, self._synthesized(tile))
        if tiles and self.least[Swizzle]:
            tile = next((tile for tile in tiles if tile.row_bytes == MOST_PAD), tiles[0])
            self._try(tile, self._swizzles(tile))

    def _try(self, tile: Tile, candidates: Iterator[tuple[int | Swizzle, int]]) -> None:
        """Find candidates, each with its elements, that leave fewer conflicts than others, up to none."""
        for by, elements in candidates:
            costs = self._costs(functools.partial(moved, by=by, tile=tile), self.least[type(by)])
            if costs is not None:
                self.found.append(Remedy(tile, by, elements, costs))
                self.least[type(by)] = self.found[-1].excess
                if not self.found[-1].excess:
                    return
            self.tried.note(tile, by)

    def _tiles(self) -> Iterator[Tile]:
        """The array as it is declared in rows, or by each pitch that its addresses are made of."""
        array = self.array
        size, element = array.size, array.element.bytes
        if len(array.dims) > 1:
            yield Tile(array, -(-size // array.dims[-1]), array.dims[-1])
            return
        users: Counter[int] = Counter()
        for touch in array.touches:
            users.update({abs(k) // element for _, k in touch.offset.parts if k % element == 0})
        pitches = sorted((p for p in users if 1 < p < size), key=lambda p: (-users[p], -p))[:MOST_PITCHES]
        banks = MOST_PAD // element
        for pitch in (*pitches, *({banks} - set(pitches) if 1 < banks < size else ())):
            yield Tile(array, -(-size // pitch), pitch)

    def _costs(self, to: Callable[[Sum], Sum], least: int) -> tuple[Cost, ...] | None:
        """The cost of each access with its address moved; None where `least` wavefronts or more are past the
        ideal, or lanes are not aligned any more."""
        costs: list[Cost] = []
        known: dict[Any, Cost] = {}
        for touch in self.array.touches:
            key = (touch.op, touch.offset.key, tuple(c.key for c in touch.conditions), touch.turns)
            if key not in known:
                try:
                    moved = replace(touch, offset=to(touch.offset))
                    known[key] = cost_of(moved, self.launch, self.machine)
                except LayoutAlgError:
                    return None
            costs.append(known[key])
            least -= known[key].total - known[key].ideal
            if least <= 0:
                return None
        return tuple(costs)

    def _has_room(self, remedy: Remedy) -> bool:
        array, extra = self.array, remedy.extra
        before = max((self.added.get((key, array.dynamic), 0) for key in self.kernels), default=0)
        dynamic = self._memory + before + extra if array.dynamic else 0
        past = past_limit(array, self.reading, self.machine, before + extra if extra else 0, dynamic)
        if past:
            what = "leaves no conflict" if not remedy.excess else "leaves the fewest conflicts"
            self.tried.refused[f"a {remedy.kind} that {what} takes {past}"] = None
        return not past

    @property
    def _memory(self) -> int:
        """Bytes of the array that are reached, of a part those of the whole."""
        return (self.array.whole or self.array).reach * self.array.element.bytes

    def _fix(self, remedy: Remedy) -> Fix:
        """A remedy with the function that accesses must be rewritten with."""
        array, pitch = self.array, remedy.tile.pitch
        launched = None
        for key in self.kernels if remedy.kind == "padding" else ():
            self.added[key, array.dynamic] = self.added.get((key, array.dynamic), 0) + remedy.extra
        if array.dynamic:
            pads = max(self.added.get((key, True), 0) for key in self.kernels)
            launched = self._memory + (pads if remedy.kind == "padding" else 0)
        start, ideal = array.start * array.element.bytes, sum(cost.ideal for cost in remedy.costs)
        hinder = hindrances(array, self.reading, self.launch, self.machine)
        return Fix(
            array.name, array.declared.file, array.declared.line % LINES, remedy.kind, remedy.layout,
            remedy.extra, self.before, ideal + remedy.excess, ideal,
            code(remedy.layout, "cuda", array.function, parameters=("row", "col")), (),
            rewriting(array, pitch, remedy.elements, hinder), launched, start,
            start + array.size * array.element.bytes, array.whole is not None, tuple(self._left(remedy)),
            remedy, hinder,
        )  # fmt: skip

    def _left(self, remedy: Remedy) -> Iterator[str]:
        """The accesses that keep conflicts, by line."""
        ways: dict[str, int] = {}
        for touch, cost in zip(self.array.touches, remedy.costs, strict=True):
            if cost.ways > 1:
                name = f"line {touch.line % LINES}, {touch.op}"
                ways[name] = max(ways.get(name, 0), cost.ways)
        for name, most in ways.items():
            yield f"{name}: {most}-way"

    # --- candidates -------------------------------------------------------------------------------------

    def _paddings(self, tile: Tile) -> Iterator[tuple[int, int]]:
        """Pads of rows in steps of the widest vector, and all elements with them."""
        if tile.rows < 2 or self.widest % tile.element_bytes:
            return
        if any(tile.row_bytes % t.width for t in self.array.touches if t.width > tile.element_bytes):
            self.tried.refused[f"vectors of {self.widest} bytes cross rows of {tile.pitch} elements"] = None
            return
        array, last = self.array, self.array.size - 1
        for pad in range(self.widest, MOST_PAD + 1, self.widest):
            more = pad // tile.element_bytes
            static = not array.dynamic and array.whole is None
            elements = tile.rows * (tile.pitch + more) if static else last + last // tile.pitch * more + 1
            if array.whole is not None:  # what follows stays at a multiple of every vector
                elements += -(elements - array.size) * tile.element_bytes % 16 // tile.element_bytes
            yield more, elements

    def _synthesized(self, tile: Tile) -> Iterator[tuple[Swizzle, int]]:
        """The single swizzle that synthesis finds for the accesses."""
        shape, element = (tile.rows, tile.pitch), _NAMES.get(tile.element_bytes)
        if element is None or tile.pitch & (tile.pitch - 1):
            return
        mapped = (_access(touch, tile, self.launch, element) for touch in self.array.touches)
        accesses = list(dict.fromkeys(access for access in mapped if access is not None))
        try:
            layout = synthesize(
                shape, accesses, element=element, order="row", form="single", arch=self.machine
            ).layout if accesses else None  # fmt: skip
        except LayoutAlgError:
            return
        if not isinstance(layout, ComposedLayout) or layout.inner != storage_layout(shape, "row"):
            return
        if len(layout.swizzles) == 1 and layout.swizzles[0].base >= self._together(tile):
            yield layout.swizzles[0], tile.rows * tile.pitch

    def _swizzles(self, tile: Tile) -> Iterator[tuple[Swizzle, int]]:
        """All swizzles, of few bits rather, that keep vectors together and map the array onto itself."""
        size = self.array.size
        lowest, highest = self._together(tile), (size - 1).bit_length()
        if tile.element_bytes & (tile.element_bytes - 1):
            return
        for count in range(1, MOST_BITS + 1):
            for base in range(lowest, highest - 2 * count + 1):
                last = size - size % (1 << base + count)  # up to it whole blocks are permuted
                for shift in range(count, highest - base - count + 1):
                    swizzle = Swizzle(count, base, shift)
                    if all(swizzle(at) < size for at in range(last, size)):
                        yield swizzle, size

    def _together(self, tile: Tile) -> int:
        """The bits of an element's number that stay in a vector."""
        return (self.widest // tile.element_bytes).bit_length() - 1


def _access(touch: Touch, tile: Tile, launch: Launch, element: str) -> Access | None:
    """An access as a thread-value map onto flat indices of the tile, where it is linear in its bits."""
    import numpy as np

    env: dict[str, Any] = dict(launch.threads)
    for name in touch.offset.variables - set(env):
        env[name] = 0
    offsets = np.broadcast_to(values(touch.offset, env), env["thread"].shape) // tile.element_bytes
    threads, wide = len(offsets), touch.width // tile.element_bytes
    if threads & (threads - 1) or threads < 2 or not wide:
        return None
    own = offsets ^ offsets[0]
    strides = tuple(int(own[1 << b]) for b in range(threads.bit_length() - 1))
    bits = [s for s in strides if s]
    lanes = Layout((2,) * len(strides), strides)
    if any(s & (s - 1) for s in bits) or len({*bits}) < len(bits) or (lanes(np.arange(threads)) != own).any():
        return None
    flat = tuple(s // tile.pitch + s % tile.pitch * tile.rows for s in strides)
    tv = Layout((lanes.shape, wide), (flat, tile.rows))
    try:
        return Access(touch.op, tv, dtype(element))
    except LayoutAlgError:
        return None
