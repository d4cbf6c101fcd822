"""The search for a bank map, one swizzle or any linear map, or the proof of none; and the layout of a map.

The idea.  Word vectors have `keep` low coordinates that stay (vectors), then the other coordinates of the
bank, then rows.  A bank map that keeps the low ones is a subspace K of the rest, of codimension
m = bank coordinates - keep, and it serves every access without conflict iff K meets no footprint but in 0.
K grows a vector at a time; x may join as long as it lies in no F + K:

    forbidden = F1 | F2 | ...        x free: forbidden |= forbidden moved by x

Two footprints always leave a free vector: they have at most 2 (2^m - 1) points beside 0, and while K lacks a
dimension the quotient has 2^(m+1) - 1.  Three may leave none, and deciding is the critical problem of Crapo
and Rota; the search is exhaustive over reduced echelon bases, each subspace once.

`find_graph` wants K as a graph over the rows, row -> row + N(row): then rows stay whole and the map is
"bank ^= N row", which a chain of swizzles does in place.  `find_kernel` takes any K.

Notes.  A set of vectors is one integer, bit x for vector x; moving it by x swaps blocks of its bits.
Source: Linear Layouts, arXiv 2505.23819, for two patterns of unit vectors; here subspaces, any number.

From a kernel to a layout.  The bank map is written as XORs of rows into banks.  A basis of K in reduced
echelon form gives every pivot coordinate h as a sum N(h) of the other coordinates: h + N(h) lies in K, so h
and N(h) share a bank.  The non-pivots number the banks, and a pivot adds N(h) to them:

    K = {128 + 1, 256 + 2, ...}        bank ^= row, one diagonal of XORs: Sw<5,0,7>

Where all pivots are rows, storage order stays and the XORs are the swizzles.  Otherwise some bank coordinate
is a pivot; it trades places with a row that is not, which only changes strides.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from typing import NamedTuple, TypeAlias

from layoutalg.errors import UndecidedError
from layoutalg.f2 import basis, complement, intersection, kernel, rank, to_f2
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    concat,
    merge,
    modes,
    plain,
    size,
)
from layoutalg.synthesis.patterns import BitTile

Basis: TypeAlias = "tuple[int, ...]"

NODES = 1 << 15
"""Vectors tried, at most, before an exhaustive search gives up with an UndecidedError."""

WORK = 1 << 28
"""Set elements moved, at most, in the same search; it limits the vectors tried on large tiles."""

GRAPH_NODES = 1 << 10
"""Vectors tried for a map that keeps rows whole; that form is preferred, not needed."""


class Found(NamedTuple):
    """A basis of K, or None when there is none; `nodes` vectors were tried."""

    kernel: Basis | None
    nodes: int


@functools.lru_cache(maxsize=64)
def single_swizzles(word_bits: int, bank_bits: int, keep: int) -> tuple[Swizzle, ...]:
    """Every Sw<B,M,S> on word numbers that changes banks and stays in the tile, simplest first.

    Fewest bits first, and of those the involutions (S >= B).  Left shifts are left out: they add bank bits
    to others, which never changes who shares a bank.

    >>> [str(s) for s in single_swizzles(4, 5, 1)]
    ['Sw<1,1,1>', 'Sw<1,1,2>', 'Sw<1,2,1>', 'Sw<2,1,1>']
    """
    return tuple(
        Swizzle(bits, base, shift)
        for bits in range(1, word_bits - keep)
        for shifts in (range(bits, word_bits), range(1, bits))
        for base in range(keep, min(bank_bits, word_bits - bits))
        for shift in shifts
        if base + bits + shift <= word_bits
    )


def degree_bits(footprint: Basis, bank_bits: int, swizzles: tuple[Swizzle, ...] = ()) -> int:
    """log2 of the words that the busiest bank serves in one phase, under swizzles of the word number.

    >>> degree_bits((128, 256, 512), 5), degree_bits((128, 256, 512), 5, (Swizzle(3, 2, 5),))
    (3, 0)
    """
    banks = (1 << bank_bits) - 1
    moved = footprint
    for swizzle in reversed(swizzles):
        read, shift = swizzle.yyy_mask, swizzle.shift
        if shift > 0:
            moved = tuple(word ^ (word & read) >> shift for word in moved)
        else:
            moved = tuple(word ^ (word & read) << -shift for word in moved)
    return len(footprint) - rank(word & banks for word in moved)


def in_rows(footprint: Basis, word_bits: int, keep: int) -> Basis:
    """The part of a footprint with 0 in its `keep` low coordinates, which are then dropped.

    >>> in_rows((1, 2, 128, 256), 12, 2)
    (32, 64)
    """
    rows = tuple(1 << j for j in range(keep, word_bits))
    return tuple(vector >> keep for vector in intersection(footprint, rows))


def find_graph(spaces: Sequence[Basis], dim: int, bank_dim: int) -> Found | None:
    """K = {x + N(x) : x a row} in F2^dim that meets every space in 0, or None when not found in budget.

    The first `bank_dim` coordinates are banks, the rest rows.  N is as sparse as the search can make it.
    `Found.kernel` is None when there is none.

    >>> find_graph([(1, 2), (4, 8)], 4, 2).kernel
    (5, 10)
    """
    # Few bits first: every bit of N(row) is a XOR, or a bit of a swizzle, in the layout.
    values = sorted(range(1 << bank_dim), key=lambda n: (n.bit_count(), n))
    masks = _masks(dim)
    start = union_of(spaces)
    nodes = 0
    stack: list[tuple[int, Iterator[int]]] = [(start, iter(values))]
    chosen: list[int] = []
    while stack:
        forbidden, rest = stack[-1]
        row = 1 << (bank_dim + len(chosen))
        if len(chosen) == dim - bank_dim:
            return Found(tuple(chosen), nodes)
        for value in rest:
            nodes += 1
            if nodes > GRAPH_NODES:
                return None
            x = row | value
            if not forbidden >> x & 1:
                # K now has x + k for every k in it, so what lies in F + K is also forbidden moved by x.
                chosen.append(x)
                stack.append((forbidden | _moved(forbidden, x, masks), iter(values)))
                break
        else:
            stack.pop()
            if chosen:
                chosen.pop()
    return Found(None, nodes)


def find_kernel(spaces: Sequence[Basis], dim: int, bank_dim: int) -> Found:
    """Any K of F2^dim of codimension `bank_dim` that meets every space in 0; `kernel` None when exhausted.

    Spaces have at most `bank_dim` dimensions.  Raises UndecidedError when neither is known after NODES
    vectors or WORK.

    >>> find_kernel([(1, 2), (4, 8), (5, 10)], 4, 2).kernel
    (6, 11)
    >>> find_kernel([(1, 2), (1, 4), (1, 6), (2, 4), (3, 4), (2, 5), (3, 5)], 3, 2).kernel is None
    True
    """
    joint = basis(vector for space in spaces for vector in space)
    if len(joint) <= bank_dim:  # any complement of the whole span will do
        banks = joint + complement(joint, dim)[: bank_dim - len(joint)]
        return Found(complement(banks, dim), 0)
    # Only the span of the spaces matters: a complement of it joins K as it is.
    # The basis is reduced, so a vector's coordinates in it are its bits at the pivots.
    pivots = [vector.bit_length() - 1 for vector in joint]

    def inside(vector: int) -> int:
        return sum((vector >> pivot & 1) << i for i, pivot in enumerate(pivots))

    size = len(joint)
    search = _Search(size, min(NODES, WORK >> size))
    chosen = search.grow(union_of([[inside(v) for v in space] for space in spaces]), size - bank_dim, 0, 0)
    if chosen is None:
        return Found(None, search.nodes)
    kernel = [_combine(joint, vector) for vector in chosen]
    return Found(basis([*kernel, *complement(joint, dim)]), search.nodes)


class _Search:
    """Depth-first over reduced echelon bases: pivots ascend, and a vector is 0 at earlier pivots."""

    def __init__(self, size: int, limit: int) -> None:
        self.size, self.limit, self.nodes = size, limit, 0
        self.masks = _masks(size)

    def grow(self, forbidden: int, need: int, first: int, earlier: int) -> list[int] | None:
        """`need` vectors with pivots from `first` on that join one after another, or None."""
        if need == 0:
            return []
        for pivot in range(first, self.size - need + 1):
            # The vectors with this highest bit are half + low, low < half: one slice of the set of vectors.
            half = 1 << pivot
            free = ~(forbidden >> half) & ((1 << half) - 1)
            while free:
                low = (free & -free).bit_length() - 1
                free &= free - 1
                if low & earlier:
                    continue  # not reduced: the same subspace has a basis without this bit
                self.nodes += 1
                if self.nodes > self.limit:
                    raise UndecidedError(
                        f"no bank map and no proof of none after {self.limit} vectors of F2^{self.size}",
                        budget=self.limit,
                    )
                x = half | low
                rest = self.grow(
                    forbidden | _moved(forbidden, x, self.masks), need - 1, pivot + 1, earlier | half
                )
                if rest is not None:
                    return [x, *rest]
        return None


def union_of(spaces: Sequence[Sequence[int]]) -> int:
    """The set of all vectors of the spaces: bit x for the vector x.

    >>> bin(union_of([(1, 2), (4,)]))
    '0b11111'
    """
    union = 1
    for space in spaces:
        points = [0]
        for vector in space:
            points += [point ^ vector for point in points]
        for point in points:
            union |= 1 << point
    return union


def _masks(dim: int) -> tuple[int, ...]:
    """For every coordinate j, the set of the vectors of F2^dim that are 0 there.

    Blocks of 2^j ones and zeros in turn: all ones, divided by 2^(2^j) + 1.
    """
    everything = (1 << (1 << dim)) - 1
    return tuple(everything // ((1 << (1 << j)) + 1) for j in range(dim))


def _moved(points: int, x: int, masks: tuple[int, ...]) -> int:
    """The set {point ^ x}: for every bit j of x, neighbouring blocks of 2^j vectors change places."""
    for j, zero in enumerate(masks):
        if x >> j & 1:
            block = 1 << j
            points = (points & zero) << block | (points >> block) & zero
    return points


def _combine(vectors: Basis, selection: int) -> int:
    out = 0
    for i, vector in enumerate(vectors):
        if selection >> i & 1:
            out ^= vector
    return out


def swizzled_tile(tile: BitTile, swizzle: Swizzle) -> ComposedLayout:
    """Storage order under one swizzle of word numbers.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.synthesis.patterns import make_tile
    >>> print(swizzled_tile(make_tile((16, 64), 16, "row", ARCHS["sm_90"]), Swizzle(3, 2, 3)))
    Sw<3,3,3> o 0 o (16,64):(64,1)
    """
    return ComposedLayout(Swizzle(swizzle.bits, swizzle.base - tile.word_shift, swizzle.shift), 0, tile.base)


def layout_of_kernel(tile: BitTile, sharing: Sequence[int], keep: int) -> AnyLayout:
    """A layout whose bank map has the kernel `sharing`, over word numbers without the `keep` low bits.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.synthesis.patterns import make_tile
    >>> tile = make_tile((8, 32), 32, "row", ARCHS["sm_90"])
    >>> print(layout_of_kernel(tile, (33, 66, 130), 0))
    Sw<1,1,6> o Sw<2,0,5> o 0 o (8,32):(32,1)
    """
    coordinates = tile.word_bits - keep
    bank_dim = min(tile.bank_bits - keep, coordinates)
    pivots = {vector.bit_length() - 1: vector for vector in basis(sharing)}
    banks = [j for j in range(coordinates) if j not in pivots]
    target = list(range(coordinates))
    displaced = [h for h in pivots if h < bank_dim]
    for j, h in zip([j for j in banks if j >= bank_dim], displaced, strict=True):
        target[j], target[h] = h, j
    pairs = [(target[h], target[j]) for h, vector in pivots.items() for j in banks if vector >> j & 1]
    low = keep - tile.word_shift
    pairs.sort(key=lambda pair: (pair[0] - pair[1], pair[1]))
    swizzles = Swizzles.from_bit_pairs((y + low, z + low) for y, z in pairs)
    inner = _permuted(tile.base, [*range(low), *(p + low for p in target)])
    return ComposedLayout(swizzles, 0, inner) if swizzles else inner


def _permuted(base: Layout, target: list[int]) -> Layout:
    """The layout with bit i of every offset moved to bit place[i], mode by mode."""
    if target == sorted(target):
        return base
    columns = [1 << target[column.bit_length() - 1] for column in to_f2(base)]
    parts: list[Layout] = []
    for mode in modes(base):
        bits = size(mode).bit_length() - 1
        parts.append(plain(*merge([2] * bits, columns[:bits])))
        columns = columns[bits:]
    if not isinstance(base.shape, tuple):
        return parts[0]
    return concat(*parts)


def kernel_of(tile: BitTile, layout: AnyLayout) -> tuple[int, ...]:
    """The words, numbered in storage order, that share a bank with word 0 in a linear layout: a basis.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.synthesis.patterns import make_tile
    >>> tile = make_tile((2, 32), 32, "row", ARCHS["sm_90"])
    >>> kernel_of(tile, swizzled_tile(tile, Swizzle(1, 0, 5)))
    (33,)
    """
    goes = dict(zip(to_f2(tile.base), to_f2(layout), strict=True))
    moved: list[int] = []
    for j in range(tile.word_bits):
        element = j - tile.word_shift
        moved.append(tile.words(goes[1 << element]) if element >= 0 else 1 << j)
    return kernel([word & ((1 << tile.bank_bits) - 1) for word in moved])
