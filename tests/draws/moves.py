"""Random moves between views: any strides on either side, any start in bytes, and relayouts under swizzles.

The idea.  A view is what slices, turns and broadcasts leave of a dense tensor, so both sides are drawn so,
each with a start of its own.  The problem is the one that arrays on a GPU are moved by (`problem_of`), and
the destination is compared with a definition that knows nothing of it: NumPy's assignment between two views
of raw bytes, or a loop over the coordinates of two layouts.

A plan is right when `check` accepts its kernel and the lowered program, run on buffers that end where the
problem ends, leaves every byte of the destination as the definition does, those in gaps and around included.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from math import prod
from typing import Any

from layoutalg.codegen.program import lower
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.decide import cosize
from layoutalg.errors import LayoutAlgError, NotInjectiveError, UnsupportedError
from layoutalg.kernels.calls.api import problem_of
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import PermuteProblem, normalise, relayout_problem
from layoutalg.kernels.move.stage import PermuteConfig
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size

ITEM_BYTES = (1, 1, 1, 2, 2, 2, 4, 4, 4, 8, 8, 16)
MOST_OFFSET_BYTES = 64
UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}


@dataclass(frozen=True, slots=True)
class Move:
    """dst[i] = src[i] between two views: strides and the starts of coordinate 0 in bytes."""

    shape: tuple[int, ...]
    item_bytes: int
    src: tuple[int, ...]
    dst: tuple[int, ...]
    src_at: int
    dst_at: int

    @property
    def problem(self) -> PermuteProblem:
        """The problem that arrays of these forms are moved by."""
        return problem_of(self.shape, self.item_bytes, self.src, self.dst, self.src_at, self.dst_at)

    def moved(self, src: Any, old: Any) -> Any:
        """The destination's bytes by definition."""
        import numpy

        new = old.copy()
        of, to = (
            numpy.lib.stride_tricks.as_strided(raw[at:], (*self.shape, self.item_bytes), (*strides, 1))
            for raw, at, strides in ((src, self.src_at, self.src), (new, self.dst_at, self.dst))
        )
        to[...] = of
        return new


@dataclass(frozen=True, slots=True)
class Relayout:
    """dst_buffer[dst(i)] = src_buffer[src(i)], with elements to spare behind both layouts."""

    src: AnyLayout
    dst: AnyLayout
    item_bytes: int
    spare: tuple[int, int]

    @property
    def problem(self) -> PermuteProblem:
        """The problem that `layoutalg.ops.relayout` moves."""
        elems = int(cosize(self.src)) + self.spare[0], int(cosize(self.dst)) + self.spare[1]
        return relayout_problem(self.src, self.dst, UNSIGNED[self.item_bytes], elems)

    def moved(self, src: Any, old: Any) -> Any:
        """The destination's bytes by definition."""
        new = old.copy()
        of, to = (raw.reshape(-1, self.item_bytes) for raw in (src, new))
        for i in range(int(size(self.src))):
            to[self.dst(i)] = of[self.src(i)]
        return new


Case = Move | Relayout


def random_case(rng: random.Random, most: int) -> Case:
    """A move of up to `most` elements, of few in half of all cases; one in five is a relayout."""
    most = rng.choice((most, max(1, most // 2 ** rng.randint(1, 5))))
    if rng.random() >= 0.2:
        return random_move(rng, most)
    while True:
        case = random_relayout(rng, most)
        try:
            _ = case.problem
        except (NotInjectiveError, UnsupportedError):  # tests of relayout hold these refusals
            continue
        return case


# --- views ---------------------------------------------------------------------------------------------


def random_move(rng: random.Random, most: int) -> Move:
    """A move between two views of rank 0 to 8.

    Three in ten are copies of slices, as many permute a dense source into a destination that starts anywhere.
    In half of all, extents are multiples of a small power of two, as those of tensors are.
    """
    kind = rng.choice(("copy", "copy", "copy", "into", "into", "into", "any", "any", "any", "any"))
    rank = rng.choice((0, *(1,) * 3, *(2,) * 24, *(3,) * 12, *(4,) * 4, 5, 6, 7, 8))
    item = rng.choice(ITEM_BYTES)
    shape: list[int] = []
    step = rng.choice((1, 1, 1, 1, 4, 8, 8, 16))
    for _ in range(rank):
        n = _extent(rng, max(1, most // prod(shape)))
        shape.append(n // step * step or n)
    rng.shuffle(shape)
    source = rng.sample(range(rank), rank)
    target = source if kind == "copy" else rng.sample(range(rank), rank)
    src, src_low = _view(rng, shape, item, source, dense=kind == "into", broadcast=kind == "any")
    dst, dst_low = _view(rng, shape, item, target, dense=kind != "any", broadcast=False)
    src_at = src_low + (_start(rng, item) if kind != "into" or rng.random() < 0.2 else 0)
    return Move(tuple(shape), item, src, dst, src_at, dst_low + _start(rng, item))


def random_matrix(rng: random.Random, most: int) -> Move:
    """What is most common: columns of a matrix copied, or a matrix turned into a buffer at any element."""
    item = rng.choice((1, 2, 4))
    rows, row = rng.randint(2, 64), 2 * rng.randint(2, 150)
    if rng.random() < 0.5:
        first = rng.randrange(row - 1)
        width = min(rng.randint(1, row - first), max(1, most // rows))
        width = width // 8 * 8 or width
        dense = (width * item, item)
        return Move((rows, width), item, (row * item, item), dense, first * item % 16, 0)
    rows = max(1, min(rows, most // row))
    at = rng.randrange(0, MOST_OFFSET_BYTES, item)
    return Move((row, rows), item, (item, row * item), (rows * item, item), 0, at)


def _extent(rng: random.Random, most: int) -> int:
    kind = rng.random()
    if kind < 0.05:
        n = 1
    elif kind < 0.35:
        n = rng.randint(1, 9)
    elif kind < 0.6:
        n = max(1, (1 << rng.randint(1, 8)) + rng.choice((0, 0, -1, 1, 4, 8)))
    else:
        n = int(2 ** rng.uniform(1, 7))
    return min(n, most)


def _start(rng: random.Random, item: int) -> int:
    """Bytes from a 16-byte boundary: elements most often."""
    step = item if rng.random() < 0.9 else 1
    return rng.randrange(0, MOST_OFFSET_BYTES + 1, step) if rng.random() < 0.6 else 0


def _view(
    rng: random.Random, shape: list[int], item: int, order: list[int], *, dense: bool, broadcast: bool
) -> tuple[tuple[int, ...], int]:
    """Strides of a slice of a dense tensor in bytes, its modes in `order`, and how far they reach down.

    Where it may `broadcast` some modes of one view in four have stride 0.
    """
    dense, broadcast = dense or rng.random() < 0.2, broadcast and rng.random() < 0.25
    strides, low = [0] * len(shape), 0
    step = item if dense or rng.random() < 0.95 else item + rng.choice((1, 2, item, 2 * item))
    for k in order:
        if broadcast and rng.random() < 0.35:
            continue
        every, more = 1, 0
        if not dense:
            every = rng.choice((2, 3, 4)) if rng.random() < 0.05 else 1
            more = rng.choice((1, 2, 2, 4, 4, 8, 15, 16)) if rng.random() < 0.6 else 0
        strides[k] = every * step
        if not dense and rng.random() < 0.08:
            strides[k] = -every * step
            low += (shape[k] - 1) * every * step
        step *= every * shape[k] + more
    return tuple(strides), low


# --- layouts -------------------------------------------------------------------------------------------


def random_relayout(rng: random.Random, most: int) -> Relayout:
    """Two layouts of one domain, most of them under a swizzle, an offset or both."""
    shape: list[int] = []
    for _ in range(rng.randint(1, 4)):
        shape.append(_extent(rng, max(1, most // prod(shape))))
    src, dst = (_layout(rng, shape) for _ in range(2))
    spare = rng.choice((0, 0, 1, 5, 16)), rng.choice((0, 0, 1, 5, 16))
    return Relayout(src, dst, rng.choice(ITEM_BYTES), spare)


def _layout(rng: random.Random, shape: list[int]) -> AnyLayout:
    order = [*range(len(shape))]
    rng.shuffle(order)
    strides, step = [0] * len(shape), 1
    for k in order:
        strides[k] = step
        step *= shape[k] + (rng.choice((1, 4, 8)) if rng.random() < 0.2 else 0)
    plain, offset = Layout(tuple(shape), tuple(strides)), 0
    if rng.random() < 0.3:
        offset = rng.randint(1, 20)
    if rng.random() < 0.6:
        bits = rng.randint(1, 3)
        return ComposedLayout(
            Swizzle(bits, rng.randint(0, 4), rng.choice((1, -1)) * rng.randint(1, 4)), offset, plain
        )
    return ComposedLayout(Swizzle(0, 0, 1), offset, plain) if offset else plain


# --- the judge -----------------------------------------------------------------------------------------


def buffers(case: Case, seed: int) -> tuple[Any, Any]:
    """Random bytes of both buffers, whole elements of the problem's normal form."""
    import numpy

    p, rng = case.problem, numpy.random.default_rng(seed)
    wide = normalise(p).element_bytes
    src, old = (
        rng.integers(0, 256, -(-n * p.element_bytes // wide) * wide, dtype=numpy.uint8)
        for n in (p.source_elems, p.target_elems)
    )
    return src, old


def verdict(case: Case, c: PermuteConfig, seed: int, arch: str = "sm_90") -> str:
    """What is wrong with a configuration, in words; nothing where it is right."""
    p = case.problem
    src, old = buffers(case, seed)
    used = p.source_elems * p.element_bytes, p.target_elems * p.element_bytes
    wanted = old.copy()
    wanted[: used[1]] = case.moved(src[: used[0]], old[: used[1]])
    new = old.copy()
    try:
        kernel = build(normalise(p), c)
        check(kernel, arch)
    except LayoutAlgError as error:
        return f"refused: {type(error).__name__}: {error}"
    try:
        simulate(lower(kernel), {"src": src, "dst": new}, arch=arch, trace=False)
    except LayoutAlgError as error:
        return f"wrong: {type(error).__name__}: {error}"
    return "" if (new == wanted).all() else "wrong: other bytes"


def plans(case: Case, arch: str = "sm_90") -> Iterator[PermuteConfig]:
    """Every plan that the chooser offers, the best first."""
    yield from configs(normalise(case.problem), arch)
