"""From a kernel to a layout: the bank map written as XORs of rows into banks, over plain or permuted strides.

The idea.  A basis of K in reduced echelon form gives every pivot coordinate h as a sum N(h) of the other
coordinates: h + N(h) lies in K, so h and N(h) share a bank.  The non-pivots number the banks, and a pivot
adds N(h) to them:

    K = {128 + 1, 256 + 2, ...}        bank ^= row, one diagonal of XORs: Sw<5,0,7>

Where all pivots are rows, storage order stays and the XORs are the swizzles.  Otherwise some bank coordinate
is a pivot; it trades places with a row that is not, which only changes strides.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.f2 import basis, kernel, to_f2
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    Layout,
    Swizzle,
    Swizzles,
    layout_of,
    merge,
    modes,
    plain,
    size,
)
from layoutalg.synthesis.patterns import BitTile


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
    return layout_of(tuple(part.shape for part in parts), tuple(part.stride for part in parts))


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
