"""Random calls of the array functions on random views: permute, transpose, relayout, reduce and the norms.

    draw(7)      a function, its options, and where its arrays lie; the same for equal integers

The idea.  An array is a shape and strides in bytes, somewhere in an allocation: dense, permuted, padded,
sliced, reversed, broadcast, overlapping itself, of elements that do not start at multiples of their width,
without elements, of rank 0 to 9.  The destination is drawn in the same ways; it lies in an allocation of its
own, in the gaps of the source, beside it, or in its place.  GUARD_BYTES lie on either side of all of them.

Notes.  What a call has to do is in view_judge.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree
from tests.stand_ins.hostgpu import CARRIERS, KINDS, UNIT_BYTES, Bytes

Array = np.ndarray[Any, Any]
Rng = np.random.Generator

FUNCTIONS = ("permute", "transpose", "relayout", "sum", "max", "mean", "softmax", "layer_norm")
FOLDS = ("min", "prod", "argmax", "argmin", "var", "logsumexp", "int_sum", "int_max")
"""Reductions that are drawn where they are asked for: of floats, of integers, or both."""

MOVES, REDUCTIONS, NORMS = FUNCTIONS[:3], (*FUNCTIONS[3:6], *FOLDS), FUNCTIONS[6:]
EVERY = (*FUNCTIONS, *FOLDS)
Library: TypeAlias = Literal["host", "numpy", "cupy", "torch"]
LIBRARIES = get_args(Library)
"""Whose arrays a case is for."""

FLOATS = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""Element types that are computed with, and their short names."""

INTEGERS = {"uint8": "u8", "int8": "s8", "int16": "s16", "int32": "s32", "int64": "s64"}
"""The same of integers."""

GUARD_BYTES = 256
"""Bytes on either side of what an array reaches."""

SIZES = (1, 2, 3, 4, 5, 7, 8, 9, 12, 16, 17, 24, 31, 32, 33, 48, 63, 64, 65, 100, 127, 128, 130, 257, 300)


@dataclass(frozen=True, slots=True)
class Placed:
    """An array: strides in bytes, and the byte of an allocation at which coordinate 0 starts."""

    shape: tuple[int, ...]
    strides: tuple[int, ...]
    start: int
    allocation: str

    def of(self, raw: Bytes, nbytes: int) -> Array:
        """Its elements, as words that carry them, in the bytes of the allocation."""
        return np.ndarray(self.shape, CARRIERS[nbytes], raw.data, self.start, self.strides)

    def reach(self, nbytes: int) -> tuple[int, int]:
        """Its first byte, and the one past the last; without elements, those that one would have."""
        if 0 in self.shape:
            return self.start, self.start + nbytes
        ends = [(n - 1) * d for n, d in zip(self.shape, self.strides, strict=True)]
        return self.start + sum(e for e in ends if e < 0), self.start + sum(e for e in ends if e > 0) + nbytes

    def places(self) -> Array:
        """The byte at which each element starts, counted from the start of the allocation."""
        crd = np.indices(self.shape, sparse=True) if self.shape else ()
        total = sum((i * d for i, d in zip(crd, self.strides, strict=True)), start=np.int64(self.start))
        return np.broadcast_to(total, self.shape)


@dataclass(frozen=True, slots=True)
class Case:
    """A call: its function, arrays and options; `sizes` are the bytes of each allocation."""

    seed: int
    function: str
    kind: str
    result: str
    x: Placed
    out: Placed | None
    axes: tuple[int, ...] | int | None = None
    keepdims: bool = False
    eps: float = 1e-5
    parameters: Mapping[str, Placed] = field(default_factory=dict)
    layouts: tuple[AnyLayout, AnyLayout] | None = None
    numbers: str = "normal"
    sizes: Mapping[str, int] = field(default_factory=dict)

    def __str__(self) -> str:
        out = "" if self.out is None else f" -> {self.result} {_placed(self.out)}"
        layouts = "" if self.layouts is None else f", {self.layouts[0]} -> {self.layouts[1]}"
        options = "" if self.axes is None else f" over {self.axes}"
        more = "".join(f", {name} {_placed(p)}" for name, p in self.parameters.items())
        return (
            f"{self.function}{options} of {self.kind} {_placed(self.x)}{out}{layouts}{more}, {self.numbers}"
        )

    @property
    def over(self) -> tuple[int, ...]:
        """The axes of a reduction or a norm, from 0 on, in order."""
        rank = len(self.x.shape)
        asked = (
            range(rank) if self.axes is None else (self.axes,) if isinstance(self.axes, int) else self.axes
        )
        return tuple(sorted(a % rank for a in asked))

    @property
    def order(self) -> tuple[int, ...]:
        """The permutation of a permute."""
        rank = len(self.x.shape)
        if not isinstance(self.axes, tuple):
            return tuple(range(rank))[::-1]
        return tuple(a % rank for a in self.axes)

    @property
    def result_shape(self) -> tuple[int, ...]:
        """The shape of the result."""
        shape = self.x.shape
        if self.function == "relayout":
            assert self.layouts is not None
            return (cosize(self.layouts[1]),)
        if self.function in MOVES:
            return tuple(shape[a] for a in self.order)
        if self.function in NORMS:
            return shape
        over = self.over
        return tuple(1 if k in over else n for k, n in enumerate(shape) if self.keepdims or k not in over)


def _placed(p: Placed) -> str:
    return f"{p.shape}:{p.strides} at {p.start - GUARD_BYTES} of {p.allocation}"


# --- drawing -------------------------------------------------------------------------------------------


def draw(
    seed: int, *, most: int = 3000, functions: tuple[str, ...] = FUNCTIONS, library: Library = "host"
) -> Case:
    """The case of an integer: of at most `most` elements, which arrays of a library can express.

    NumPy and CuPy have no bfloat16; PyTorch has no negative strides, and counts starts and strides in
    elements; "host" has all of it.
    """
    rng = np.random.default_rng([seed, most, *map(EVERY.index, functions), LIBRARIES.index(library)])
    function = functions[int(rng.integers(len(functions)))]
    return _Drawing(seed, rng, most, library).case(function)


@dataclass
class _Drawing:
    """What is drawn from, and how wild a case is.

    `plain`: dense arrays, a `window` of them, or one mode turned round; `dense`: whole ones, of two or three
    modes.
    """

    seed: int
    rng: Rng
    most: int
    library: Library

    def __post_init__(self) -> None:
        rng = self.rng
        self.dense = bool(rng.random() < 0.2)
        self.plain = self.dense or bool(rng.random() < 0.45)
        self.window = not self.dense and bool(rng.random() < 0.4)
        self.size = int(rng.choice([min(self.most, n) for n in (8, 60, 200, 400, 1000, self.most)]))
        free = self.library != "torch"
        self.reversed = 0.0 if self.dense or not free else float(rng.choice([0, 0.3, 0.6]))
        self.padded = 0.0 if self.plain else float(rng.choice([0, 0.3, 0.6]))
        self.broadcast = 0.0 if self.plain else float(rng.choice([0, 0, 0.25]))
        self.shuffled = not self.plain and bool(rng.random() < 0.5)
        self.bytewise = free and bool(rng.random() < 0.06)

    def chance(self, p: float) -> bool:
        """True with a probability."""
        return bool(self.rng.random() < p)

    def pick(self, *among: Any) -> Any:
        """One of them."""
        return among[int(self.rng.integers(len(among)))]

    def kind(self, among: Iterable[str]) -> str:
        """A type of elements that the library has."""
        kinds = [k for k in among if k != "bfloat16" or self.library in ("host", "torch")]
        return kinds[int(self.rng.integers(len(kinds)))]

    def case(self, function: str) -> Case:
        """A case of a function."""
        if function == "relayout":
            return self.relayout()
        floats = function not in MOVES
        kind = self.kind(FLOATS if floats else KINDS)
        if function.startswith("int_") or (function in FOLDS[:4] and self.chance(0.5)):
            kind = self.kind(INTEGERS)
        nbytes = KINDS[kind].itemsize
        x = self.odd_pitch(nbytes) if function in NORMS and self.chance(0.12) else self.source(nbytes)
        rank = len(x.shape)
        axes: tuple[int, ...] | int | None = None
        if function in MOVES:
            order = list(range(rank))[::-1] if self.dense else self.rng.permutation(rank).tolist()
            if self.chance(0.2):
                order.sort()
            axes = tuple(a - rank if self.chance(0.1) else a for a in order)
            if function == "transpose" and self.chance(0.7):
                axes = None
        elif x.allocation == "odd pitch":
            axes = rank - 2
        elif rank and self.chance(0.35):  # rows
            axes = min(range(rank), key=lambda k: (x.shape[k] == 1, x.strides[k] == 0, abs(x.strides[k])))
        elif rank and self.chance(0.5):
            axes = int(self.rng.integers(-rank, rank))
        elif not self.chance(0.1):
            axes = tuple(k - rank if self.chance(0.2) else k for k in range(rank) if self.chance(0.5))
        x = Placed(x.shape, x.strides, x.start, "x")
        numbers = self.pick("normal", "normal", "integers", "special") if floats else "bytes"
        result = "float32" if function in REDUCTIONS and self.chance(0.25) else kind
        if function.startswith("arg") or kind in INTEGERS:
            result = "int64" if function.startswith("arg") or function in ("prod", "int_sum") else kind
        case = Case(
            self.seed, function, kind, result, x, None, axes, keepdims=self.chance(0.3),
            eps=self.pick(1e-5, 0.1), numbers=numbers,
        )  # fmt: skip
        parameters = {}
        if function == "layer_norm":
            reduced = tuple(x.shape[k] for k in case.over)
            parameters = {
                n: self.parameter(n, reduced, nbytes) for n in ("weight", "bias") if self.chance(0.4)
            }
        own = result == kind or kind in INTEGERS or function.startswith("arg")
        out = None if self.chance(0.25) and own else self.destination(case)
        return self.settled(case, out, parameters)

    def settled(self, case: Case, out: Placed | None, parameters: Mapping[str, Placed]) -> Case:
        """The case with its destination and parameters, every array inside of its allocation."""
        named = {"x": case.x, **({} if out is None else {"out": out}), **parameters}
        widths = {name: KINDS[case.result if name == "out" else case.kind].itemsize for name in named}
        low: dict[str, int] = {}
        end: dict[str, int] = {}
        for name, p in named.items():
            first, past = p.reach(widths[name])
            low[p.allocation] = min(first, low.get(p.allocation, first))
            end[p.allocation] = max(past, end.get(p.allocation, past))
        up = {name: -(at // GUARD_BYTES) * GUARD_BYTES + GUARD_BYTES for name, at in low.items()}
        placed = {
            name: Placed(p.shape, p.strides, p.start + up[p.allocation], p.allocation)
            for name, p in named.items()
        }
        sizes = {n: -(-(at + up[n]) // UNIT_BYTES) * UNIT_BYTES + GUARD_BYTES for n, at in end.items()}
        return Case(
            case.seed, case.function, case.kind, case.result, placed["x"], placed.get("out"), case.axes,
            case.keepdims, case.eps, {n: placed[n] for n in parameters}, case.layouts, case.numbers, sizes,
        )  # fmt: skip

    # --- arrays ----------------------------------------------------------------------------------------

    def shape(self) -> tuple[int, ...]:
        """Extents of a tensor of at most `size` elements."""
        ranks = [0.03, 0.1, 0.34, 0.2, 0.12, 0.08, 0.06, 0.03, 0.03, 0.01]
        rank = self.pick(2, 2, 3) if self.dense else int(self.rng.choice(len(ranks), p=ranks))
        extents: list[int] = []
        for left in range(rank, 0, -1):
            room = self.size // prod(extents)
            fair = min(room, max(2, int(room ** (2 / (left + 1)))))
            least = 2 if room > 1 and self.chance(0.85) else 1
            extents.append(self.pick(*(n for n in SIZES if least <= n <= fair)))
            if self.chance(0.1):
                extents[-1] = int(self.rng.integers(1, room + 1))
        self.rng.shuffle(extents)
        if extents and self.chance(0.05):
            extents[int(self.rng.integers(rank))] = 0
        return tuple(extents)

    def source(self, nbytes: int) -> Placed:
        """A view that is read: it may broadcast, and overlap itself."""
        shape = self.shape()
        placed = self.strided(shape, nbytes, "x")
        strides = list(placed.strides)
        for k in range(len(shape)):
            if self.broadcast and self.chance(self.broadcast):
                strides[k] = 0
        if shape and self.chance(0.06):  # a window that slides
            strides[int(self.rng.integers(len(shape)))] = nbytes * int(self.rng.integers(1, 20))
        return Placed(shape, tuple(strides), placed.start, "x")

    def strided(self, shape: tuple[int, ...], nbytes: int, allocation: str) -> Placed:
        """An array that may be permuted, padded, sliced, reversed, and start anywhere."""
        order = list(range(len(shape)))[::-1]
        if self.shuffled:
            self.rng.shuffle(order)
        if self.plain or self.chance(0.3):
            return self.slice(shape, order, nbytes, allocation)
        step = nbytes * (self.pick(2, 3, 4) if self.padded and self.chance(0.2) else 1)
        strides = [0] * len(shape)
        for k in order:
            if shape[k] == 1 and self.chance(0.3):  # counts for nothing
                strides[k] = nbytes * int(self.rng.integers(0, 50))
                continue
            strides[k] = -step if self.reversed and self.chance(self.reversed) else step
            step *= max(1, shape[k])
            if self.padded and self.chance(self.padded):
                step += nbytes * self.pick(1, 1, 2, 3, 4, 8, 16)
                step += int(self.rng.integers(nbytes)) if self.bytewise and self.chance(0.5) else 0
        return self.at(shape, tuple(strides), self.start(nbytes), allocation)

    def slice(self, shape: tuple[int, ...], order: list[int], nbytes: int, allocation: str) -> Placed:
        """A slice as users take them, of few modes, of a dense array."""
        steps = [1] * len(shape)
        before, after = [0] * len(shape), [0] * len(shape)
        turned = (-1, -1, -2) if self.reversed else (1,)
        for k in range(len(shape)):
            if self.plain and self.window and self.chance(0.6):
                before[k], after[k] = self.pick(0, 1, 1, 2, 3, 5, 8), self.pick(0, 0, 1, 3)
            if not self.plain and self.chance(min(0.5, 1.2 / len(shape))):
                steps[k] = self.pick(1, 1, 2, 3, *turned, *turned)
                before[k], after[k] = self.pick(0, 0, 1, 2, 5), self.pick(0, 0, 1, 3)
        if self.plain and not self.window and shape and self.reversed and self.chance(0.7):
            steps[int(self.rng.integers(len(shape)))] = -1
        strides, start, step = [0] * len(shape), self.start(nbytes), nbytes
        for k in order:
            n = max(1, shape[k])
            strides[k] = step * steps[k]
            start += step * (before[k] if steps[k] > 0 else before[k] + (n - 1) * -steps[k])
            step *= before[k] + n * abs(steps[k]) + after[k]
        return Placed(shape, tuple(strides), start, allocation)

    def at(self, shape: tuple[int, ...], strides: tuple[int, ...], at: int, allocation: str) -> Placed:
        """An array whose first byte or, less often, coordinate 0 lies at a byte."""
        low = Placed(shape, strides, 0, allocation).reach(0)[0]
        return Placed(shape, strides, at if self.chance(0.3) else at - low, allocation)

    def start(self, nbytes: int) -> int:
        """A byte to start at, modulo 32: most often one at which elements start."""
        if self.bytewise:
            return int(self.rng.integers(0, 32))
        if self.chance(0.6 if self.plain and not self.dense else 0.4):
            return 0
        return nbytes * int(self.rng.integers(0, max(1, 32 // nbytes)))

    def odd_pitch(self, nbytes: int) -> Placed:
        """Many rows of an odd pitch, over which columns are normalised."""
        rows = int(self.rng.integers(130, max(131, self.most // 9)))
        width = int(self.rng.integers(9, max(10, self.most // rows)))
        outer = int(self.rng.integers(1, max(2, min(4, self.most // (rows * width) + 1))))
        pitch = width // 2 * 2 + 1 + self.pick(0, 0, 2, 8)
        shape, steps = (outer, rows, width), (rows * pitch, pitch, 1)
        turns = [-1 if self.chance(self.reversed) else 1 for _ in steps]
        strides = tuple(sign * step * nbytes for sign, step in zip(turns, steps, strict=True))
        return self.at(shape, strides, self.start(nbytes), "odd pitch")

    def parameter(self, name: str, shape: tuple[int, ...], nbytes: int) -> Placed:
        """A weight or bias: contiguous, anywhere."""
        strides = tuple(nbytes * prod(shape[k + 1 :]) for k in range(len(shape)))
        return Placed(shape, strides, self.start(nbytes), name)

    def destination(self, case: Case) -> Placed:
        """A view that is written: of its own strides, of those of x, in the gaps of x, or x itself."""
        x, shape, nbytes = case.x, case.result_shape, KINDS[case.result].itemsize
        ways = ["own"] if self.dense else ["own", "own", "like", "like", "near"]
        if case.function in NORMS and not self.dense:
            ways += ["place", "like", "like"]
        way = self.pick(*ways)
        if way == "place":
            return x
        if way == "own" or case.result != case.kind:
            made = self.strided(shape, nbytes, "out")
            if shape and self.chance(0.04):  # aliases, most often
                aliasing = list(made.strides)
                aliasing[int(self.rng.integers(len(shape)))] = nbytes * int(self.rng.integers(0, 4))
                made = Placed(shape, tuple(aliasing), made.start, "out")
            return made
        strides = self.along(case)
        if way == "like":
            signs = [-1 if self.reversed and self.chance(self.reversed / 2) else 1 for _ in shape]
            turned = tuple(s * d for s, d in zip(signs, strides, strict=True))
            if self.chance(0.3):
                return self.at(shape, turned, self.start(nbytes), "out")
            if self.chance(0.5):
                return Placed(shape, turned, x.start, "out")
            low = x.reach(0)[0] - Placed(shape, turned, 0, "out").reach(0)[0]
            return Placed(shape, turned, low, "out")  # the lowest place is that of x
        low, end = x.reach(nbytes)
        after = -(-(end - low) // nbytes) * nbytes  # past x, or so near that bytes are shared
        steps = (after, after, nbytes, -nbytes, nbytes * int(self.rng.integers(1, 64)))
        return Placed(shape, strides, x.start + self.pick(*steps), "x")

    def along(self, case: Case) -> tuple[int, ...]:
        """Strides of x for the modes of the result; of those that x broadcasts, some that do not alias."""
        x = case.x
        given = list(zip(x.shape, x.strides, strict=True))
        if case.function in MOVES:
            given = [given[a] for a in case.order]
        elif case.function in REDUCTIONS:
            kept = [(1, 0) if k in case.over else mode for k, mode in enumerate(given)]
            given = [m for k, m in enumerate(kept) if case.keepdims or k not in case.over]
        strides, nbytes = [], KINDS[case.kind].itemsize
        step = max([nbytes, *(n * abs(d) for n, d in given)])
        for n, d in given:
            if n > 1 and d == 0:
                d, step = step, step * n
            strides.append(d)
        return tuple(strides)

    # --- relayouts -------------------------------------------------------------------------------------

    def relayout(self) -> Case:
        """Two layouts of one domain with common cuts, and flat buffers that hold them."""
        kind = self.kind(KINDS)
        nbytes = KINDS[kind].itemsize
        shape = tuple(n for n in self.shape() if n) or (1,)
        layouts = self.layout(shape, reads=True), self.layout(shape, reads=False)
        lengths = [cosize(layout) + (self.pick(0, 0, 3, 16)) for layout in layouts]
        starts = [0 if self.chance(0.7) else self.start(nbytes) for _ in range(2)]
        x = Placed((lengths[0],), (nbytes,), starts[0], "x")
        out = None if self.chance(0.4) else Placed((lengths[1],), (nbytes,), starts[1], "out")
        case = Case(self.seed, "relayout", kind, kind, x, None, layouts=layouts, numbers="bytes")
        return self.settled(case, out, {})

    def layout(self, shape: tuple[int, ...], *, reads: bool) -> AnyLayout:
        """A layout of a shape: permuted, padded, with broadcast modes where it `reads`, swizzled."""
        order = list(range(len(shape)))
        self.rng.shuffle(order)
        strides, step = [0] * len(shape), 1
        for k in order:
            strides[k] = 0 if reads and self.broadcast and self.chance(self.broadcast) else step
            step *= shape[k] if strides[k] else 1
            step += self.pick(1, 2, 4, 8) if self.padded and self.chance(self.padded) else 0
        layout = Layout(shape, tuple(strides))
        offset = int(self.rng.integers(0, 9)) if self.chance(0.2) else 0
        if self.chance(0.4):
            bits, base = int(self.rng.integers(0, 4)), int(self.rng.integers(0, 4))
            return ComposedLayout(
                Swizzle(bits, base, max(bits, int(self.rng.integers(1, 5)))), offset, layout
            )
        return layout


def indices(layout: AnyLayout) -> Array:
    """The index of every coordinate, in order of the flat one, by the definition."""
    swizzle, offset = None, 0
    if isinstance(layout, ComposedLayout):
        swizzle, offset, layout = layout.outer, layout.offset, layout.inner
    assert isinstance(layout, Layout)
    total = np.full(1, offset)
    for n, d in zip(flatten_tree(layout.shape), flatten_tree(layout.stride), strict=True):
        total = (total[None, :] + (np.arange(n) * d)[:, None]).ravel()
    if isinstance(swizzle, Swizzle):
        mask = (1 << swizzle.bits) - 1 << swizzle.base + swizzle.shift
        total = total ^ (total & mask) >> swizzle.shift
    return total


def is_swizzled(layout: AnyLayout) -> bool:
    """Whether indices go through a swizzle that moves any."""
    return isinstance(layout, ComposedLayout) and isinstance(layout.outer, Swizzle) and layout.outer.bits > 0


def cosize(layout: AnyLayout) -> int:
    return int(indices(layout).max()) + 1
