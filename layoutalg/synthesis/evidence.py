"""Evidence: what a check of a synthesis computes from its question, without any help of the search.

The idea.  The words of a tile are numbered in storage order.  A phase of an access moves along the words of
its lanes and of its vector; a layout sends words to banks.  Both are read off thread-value layout and
layout by applying them to single bits; ranks do the rest.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from layoutalg.analysis.access import Access, TmaAccess
from layoutalg.arch import find_instruction
from layoutalg.f2 import affine_f2, apply, basis, kernel
from layoutalg.int_tuple import product
from layoutalg.layout import Layout
from layoutalg.measure import size
from layoutalg.synthesis.result import Synthesis, storage_layout
from layoutalg.synthesis.tma import TmaTile, tma_layouts


@dataclass(frozen=True, slots=True)
class Phase:
    """One phase of an access: the words its lanes move by, and log2 of the words that a lane reads.

    `reach` is a basis of the words of the whole access, all phases together.
    """

    words: tuple[int, ...]
    reach: tuple[int, ...]
    vector_bits: int
    broadcast: bool

    @property
    def footprint(self) -> tuple[int, ...]:
        """The span of the lanes' words and of the words within a lane."""
        return basis([*self.words, *(1 << j for j in range(self.vector_bits))])

    @property
    def repeats(self) -> bool:
        """True when lanes ask for one word twice and the instruction does not broadcast."""
        return not self.broadcast and len(basis(self.words)) < len(self.words)


def lane_accesses(synthesis: Synthesis) -> list[Access]:
    """The accesses that have lanes, which are those with a report.

    >>> from layoutalg.analysis.access import TmaAccess
    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> len(lane_accesses(synthesize((64, 64), ["ldmatrix.x4", TmaAccess((64, 64), 128)], element="f16")))
    1
    """
    return [access for access in synthesis.accesses if isinstance(access, Access)]


def log2(n: int) -> int:
    """The exponent of a power of two.

    >>> log2(32)
    5
    """
    return n.bit_length() - 1


def word_of(synthesis: Synthesis, element: int) -> int:
    """The word that holds an element, both numbered in the same order.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> word_of(synthesize((64, 64), ["ldmatrix.x4"], element="f16"), 9)
    4
    """
    return element * synthesis.element.bits // (8 * synthesis.arch.bank_bytes)


def word_count_bits(synthesis: Synthesis) -> int:
    """log2 of the words in the tile.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> word_count_bits(synthesize((64, 64), ["ldmatrix.x4"], element="f16"))
    11
    """
    return log2(max(1, word_of(synthesis, product(synthesis.shape))))


def phase_of(synthesis: Synthesis, access: Access) -> Phase:
    """One phase of an access, over the words of the tile in storage order.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
    >>> phase_of(found, found.accesses[0]).footprint
    (1, 2, 32, 64, 128)
    """
    machine = synthesis.arch
    rule = find_instruction(access.op, machine)
    _, storage = affine_f2(storage_layout(synthesis.shape, synthesis.order))
    _, moves = affine_f2(access.tv)
    lane_bits = min(log2(size(access.tv[0])), log2(rule.lanes))
    group = log2(rule.group_lanes)
    if any(x >> lane_bits or moves[log2(x)] == 0 for x in rule.merge_xor):
        group += 1
    words = tuple(word_of(synthesis, apply(storage, move)) for move in moves)
    vector_bits = max(0, log2(rule.width_bytes) - log2(machine.bank_bytes))
    reach = basis([*words, *(1 << j for j in range(vector_bits))])
    return Phase(words[: min(group, lane_bits)], reach, vector_bits, rule.broadcast)


def bank_map_kernel(synthesis: Synthesis, columns: Sequence[int]) -> tuple[int, ...]:
    """The words, in storage order, that share the bank of word 0 when flat index 2^i goes to columns[i].

    >>> from layoutalg.f2 import to_f2
    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> found = synthesize((8, 64), ["ldmatrix.x1"], element="f16")
    >>> bank_map_kernel(found, to_f2(found.layout))
    (36, 72, 144)
    """
    _, storage = affine_f2(storage_layout(synthesis.shape, synthesis.order))
    goes = dict(zip(storage, columns, strict=True))
    banks: list[int] = []
    for j in range(word_count_bits(synthesis)):
        bit = (8 * synthesis.arch.bank_bytes) << j
        if bit < synthesis.element.bits:
            word = 1 << j
        else:
            word = word_of(synthesis, goes[bit // synthesis.element.bits])
        banks.append(word % synthesis.arch.banks)
    return kernel(banks)


def paddings(synthesis: Synthesis) -> Iterator[tuple[int, Layout]]:
    """(extra bytes, layout) of every pitch within max_extra_bytes that keeps vectors aligned.

    Pitches that differ by a whole turn of the banks have the same conflicts; the shortest of them is here.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> found = synthesize((48, 4), ["ld.shared.b128"], element="f32", max_extra_bytes=1600)
    >>> [(extra, str(layout)) for extra, layout in paddings(found)]
    [(768, '(48,4):(8,1)'), (1536, '(48,4):(12,1)')]
    """
    shape, bits, machine = synthesis.shape, synthesis.element.bits, synthesis.arch
    modes = [product(mode) for mode in (shape if isinstance(shape, tuple) else (shape,))]
    long = [extent for extent in (modes if synthesis.order == "col" else modes[::-1]) if extent > 1]
    rows = product(tuple(long[1:]))
    vectors = [find_instruction(a.op, machine).width_bytes for a in lane_accesses(synthesis)]
    step = max(1, 8 * max(vectors, default=1) // bits)
    for pad in range(step, 8 * machine.banks * machine.bank_bytes // bits, step):
        extra = rows * pad * bits // 8
        if len(long) < 2 or extra > synthesis.max_extra_bytes:
            return
        yield extra, storage_layout(shape, synthesis.order, pad)


def tma_tiles(synthesis: Synthesis) -> Iterator[TmaTile]:
    """What the tensor-map copies of the question can write, within its max_extra_bytes.

    >>> from layoutalg.analysis.access import TmaAccess
    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> found = synthesize((64, 64), ["ldmatrix.x4", TmaAccess((64, 64), 128)], element="f16")
    >>> [str(tile.layout) for tile in tma_tiles(found)]
    ['Sw<3,3,3> o 0 o (64,64):(64,1)']
    """
    copies = [access for access in synthesis.accesses if isinstance(access, TmaAccess)]
    s = synthesis
    return tma_layouts(s.shape, s.element, s.order, copies, s.arch, s.max_extra_bytes)
