"""The layouts beside the answer: other swizzles, tensor-map modes, padding, storage order; ranked by cost.

The idea.  Who cannot use the best layout wants the next best: another swizzle that is as good, one that a
tensor-map copy writes, padding if swizzling is unwelcome, and storage order to compare with.  Where nothing
is, the swizzle with the fewest wavefronts is, among right shifts of a linear tile that keep vectors whole.

>>> from layoutalg.synthesis import synthesize
>>> for other in synthesize((16, 16), ["ldmatrix.x4"], element="f16").alternatives:
...     print(other.layout, other.kind, other.total)
Sw<2,3,3> o 0 o (16,16):(16,1) swizzle 4
(16,16):(24,1) padding 4
(16,16):(16,1) plain 8
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import islice
from typing import TypeAlias

from layoutalg.algebra import Order
from layoutalg.analysis import Access, SharedReport, analyze_access
from layoutalg.arch import Arch, find_instruction
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, UnsupportedError
from layoutalg.f2 import rank
from layoutalg.layout import AnyLayout, Layout, Swizzle
from layoutalg.synthesis.patterns import BitTile, Pattern
from layoutalg.synthesis.result import Alternative, Kind
from layoutalg.synthesis.search import degree_bits, kernel_of, single_swizzles, swizzled_tile
from layoutalg.synthesis.tma import tma_layouts

OTHERS = 3
"""Further swizzles that are listed, at most."""

Other: TypeAlias = "tuple[AnyLayout, Kind, int]"
"""A layout beside the answer: what kind it is, and the bytes it takes beyond the tile."""


def serves(kernel: tuple[int, ...], patterns: Sequence[Pattern]) -> bool:
    """True when K & F = 0 for the footprints of all patterns, and none repeats a word.

    >>> serves((33,), [Pattern((1, 2), (1, 2), 0, False)]), serves((1,), [Pattern((1, 2), (1, 2), 0, False)])
    (True, False)
    """
    return not any(
        p.repeats or rank(kernel + p.footprint) != len(kernel) + len(p.footprint) for p in patterns
    )


def free_swizzles(tile: BitTile, patterns: Sequence[Pattern]) -> Iterator[Swizzle | None]:
    """None if storage order is conflict-free, then every single swizzle of word numbers that is.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.synthesis.patterns import make_tile
    >>> tile = make_tile((32, 32), 32, "row", ARCHS["sm_90"])
    >>> column = Pattern((32, 64, 128, 256, 512), (32, 64, 128, 256, 512), 0, False)
    >>> print(*free_swizzles(tile, [column]))
    Sw<5,0,5>
    """
    keep = max(p.vector_bits for p in patterns)
    footprints = tuple(dict.fromkeys(p.footprint for p in patterns))
    for swizzle in (None, *single_swizzles(tile.word_bits, tile.bank_bits, keep)):
        swizzles = () if swizzle is None else (swizzle,)
        if not any(degree_bits(footprint, tile.bank_bits, swizzles) for footprint in footprints):
            yield swizzle


def other_swizzles(
    tile: BitTile,
    patterns: Sequence[Pattern],
    accesses: Sequence[Access],
    element: DType,
    order: Order,
    machine: Arch,
) -> Iterator[Other]:
    """Conflict-free swizzles, the simplest, and tensor-map modes; where there is none, the least bad one.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> from layoutalg.synthesis.patterns import make_tile
    >>> machine, f32, column = ARCHS["sm_90"], dtype("f32"), Layout((32, 1), (1, 0))
    >>> tile, words = make_tile((32, 32), 32, "row", machine), (32, 64, 128, 256, 512)
    >>> asked = [Pattern(words, words, 0, False)], [Access("ld.shared.b32", column, f32)]
    >>> [str(one[0]) for one in other_swizzles(tile, *asked, f32, "row", machine)]
    ['Sw<5,0,5> o 0 o (32,32):(32,1)']
    """
    if any(p.repeats for p in patterns):
        return
    free = (s for s in free_swizzles(tile, patterns) if s is not None and s.is_involution)
    for swizzle in list(islice(free, OTHERS + 1)) or _least_bad(tile, patterns, accesses, machine):
        yield swizzled_tile(tile, swizzle), "swizzle", 0
    try:
        modes = list(tma_layouts(tile.base.shape, element, order, (), machine))
    except (AlignmentError, UnsupportedError):
        return  # no TMA at all, or none of rows that are not a multiple of 16 bytes
    for layout, _ in modes:
        if serves(kernel_of(tile, layout), patterns):
            yield layout, "plain" if isinstance(layout, Layout) else "swizzle", 0


def _least_bad(
    tile: BitTile, patterns: Sequence[Pattern], accesses: Sequence[Access], machine: Arch
) -> list[Swizzle]:
    """The single swizzle with the fewest wavefronts, where none is free of conflicts."""
    keep = max(p.vector_bits for p in patterns)
    groups = [_groups(tile.base, access, machine) for access in accesses]

    def cost(swizzle: Swizzle) -> int:
        degrees = (degree_bits(p.footprint, tile.bank_bits, (swizzle,)) for p in patterns)
        return sum(count << degree for count, degree in zip(groups, degrees, strict=True))

    swizzles = single_swizzles(tile.word_bits, tile.bank_bits, keep)
    return [min(swizzles, key=cost)] if swizzles else []


def _groups(base: Layout, access: Access, machine: Arch) -> int:
    """Phase groups of all instructions of a linear access: its ideal, less the counter's bias."""
    report = analyze_access(base, access, machine)
    bias = find_instruction(access.op, machine).counter_bias
    return report.ideal_total - bias * report.instructions if isinstance(report, SharedReport) else 0


def ranked(
    found: AnyLayout | None, others: Iterable[Other], accesses: Sequence[Access], machine: Arch
) -> tuple[Alternative, ...]:
    """The layouts other than `found`, each once, with their cost: fewest wavefronts, then least memory.

    >>> from layoutalg.arch import ARCHS
    >>> column = Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32")
    >>> tiles = [(Layout((32, 32), (32, 1)), "plain", 0), (Layout((32, 32), (33, 1)), "padding", 128)]
    >>> [(str(o.layout), o.total) for o in ranked(None, tiles, [column], ARCHS["sm_90"])]
    [('(32,32):(33,1)', 1), ('(32,32):(32,1)', 32)]
    """
    out: list[Alternative] = []
    seen = {found}
    for layout, kind, extra in others:
        if layout in seen:
            continue
        seen.add(layout)
        reports = [analyze_access(layout, access, machine) for access in accesses]
        shared = [report for report in reports if isinstance(report, SharedReport)]
        total, ideal = sum(r.total for r in shared), sum(r.ideal_total for r in shared)
        out.append(Alternative(layout, kind, extra, total, ideal))
    return tuple(sorted(out, key=lambda other: (other.total, other.extra_bytes)))
