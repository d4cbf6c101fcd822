"""Evidence: what a check of a synthesis computes from its question, without any help of the search.

The idea.  Everything is computed from the question again: instructions are listed from thread-value layouts,
and their addresses come from a layout, or from any other rule that gives each element a place.

Where all is linear, the words of a tile are numbered in storage order.  A phase of an access moves along the
words of its lanes and of its vector; a layout sends words to banks.  Both are read off thread-value layout
and layout by applying them to single bits; ranks do the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from typing import TYPE_CHECKING, Any, NamedTuple

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, addressing, batch_lanes, served_batch
from layoutalg.arch import Arch, find_instruction
from layoutalg.errors import NotLinearError, ShapeError
from layoutalg.f2 import affine_f2, apply, basis, kernel
from layoutalg.layout import Layout, leaves, modes, product, size
from layoutalg.limits import Most
from layoutalg.synthesis.result import Synthesis

if TYPE_CHECKING:
    from numpy.typing import NDArray


@dataclass(frozen=True, slots=True)
class Phase:
    """A phase of an access: the words its lanes move by, and log2 of the words that a lane reads.

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
        """Whether lanes read a word twice and the instruction does not broadcast."""
        return not self.broadcast and len(basis(self.words)) < len(self.words)


def lane_accesses(synthesis: Synthesis) -> list[Access]:
    """The accesses that have lanes, which are those with a report; ignored lanes repeat those that count.

    >>> from layoutalg.analysis import TmaAccess
    >>> from layoutalg.synthesis import synthesize
    >>> len(lane_accesses(synthesize((64, 64), ["ldmatrix.x4", TmaAccess((64, 64), 128)], element="f16")))
    1
    """
    machine = synthesis.arch
    accesses = [access for access in synthesis.accesses if isinstance(access, Access)]
    return [addressing(access, find_instruction(access.op, machine), machine) for access in accesses]


def log2(n: int) -> int:
    """The exponent of a power of two.

    >>> log2(32)
    5
    """
    return n.bit_length() - 1


def word_of(synthesis: Synthesis, element: int) -> int:
    """The word that holds an element, both numbered in the same order.

    >>> from layoutalg.synthesis import synthesize
    >>> word_of(synthesize((64, 64), ["ldmatrix.x4"], element="f16"), 9)
    4
    """
    return element * synthesis.element.bits // (8 * synthesis.arch.bank_bytes)


def word_count_bits(synthesis: Synthesis) -> int:
    """log2 of the words in the tile.

    >>> from layoutalg.synthesis import synthesize
    >>> word_count_bits(synthesize((64, 64), ["ldmatrix.x4"], element="f16"))
    11
    """
    return log2(max(1, word_of(synthesis, product(synthesis.shape))))


def phase_of(synthesis: Synthesis, access: Access) -> Phase:
    """Return a phase of an access, over the words of the tile in storage order.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
    >>> phase_of(found, found.accesses[0]).footprint
    (1, 2, 32, 64, 128)
    """
    machine = synthesis.arch
    rule = find_instruction(access.op, machine)
    _, storage = affine_f2(storage_layout(synthesis.shape, synthesis.order))
    _, moves = affine_f2(access.tv)
    lane_bits = min(log2(size(access.tv[0])), log2(rule.lanes))
    together = rule.phase_columns(moves[:lane_bits])
    words = tuple(word_of(synthesis, apply(storage, move)) for move in moves)
    vector_bits = max(0, log2(rule.width_bytes) - log2(machine.bank_bytes))
    reach = basis([*words, *(1 << j for j in range(vector_bits))])
    phase = tuple(word_of(synthesis, apply(storage, move)) for move in together)
    return Phase(phase, reach, vector_bits, rule.broadcast)


def linear_phases(synthesis: Synthesis) -> list[Phase] | None:
    """Return a phase of every access; None where tile or accesses are not linear over F2.

    >>> from layoutalg.synthesis import synthesize
    >>> linear_phases(synthesize((64, 96), ["ldmatrix.x4"], element="f16")) is None
    True
    """
    elements = product(synthesis.shape)
    if elements & (elements - 1):
        return None
    try:
        return [phase_of(synthesis, access) for access in lane_accesses(synthesis)]
    except NotLinearError:
        return None


class Instructions(NamedTuple):
    """The different instructions of an access: offsets in elements of the storage order, and a mask.

    Rows are instructions, columns lanes; `elems` is the length of a vector.
    """

    op: str
    bits: int
    elems: int
    offsets: NDArray[Any]
    mask: NDArray[Any]

    def classes(self, period: int) -> tuple[NDArray[Any], NDArray[Any]]:
        """Offsets and mask of one instruction of each class modulo a period of the addresses."""
        import numpy as np

        first = self.offsets[:, :1]
        relative = np.where(self.mask, self.offsets - first, 0)
        keys = np.concatenate([relative, self.mask, first % period], axis=1)
        _, rows = np.unique(keys, axis=0, return_index=True)
        return self.offsets[rows], self.mask[rows]

    def served(
        self,
        place: Callable[[NDArray[Any]], NDArray[Any]],
        offsets: NDArray[Any],
        mask: NDArray[Any],
        machine: Arch,
    ) -> NDArray[Any]:
        """Whether each instruction has unbroken vectors and no conflict where `place` puts the elements.

        `place` maps offsets of the storage order to those in memory: a swizzle, or a table of the tile.
        """
        import numpy as np

        moved = np.where(mask, place(offsets), 0)
        intact = (moved % self.elems == 0).all(axis=1)
        for n in range(1, self.elems):
            intact &= (~mask | (place(offsets + n * mask) == moved + n)).all(axis=1)
        rule = find_instruction(self.op, machine)
        lanes = batch_lanes(rule, machine, np.where(intact[:, None], moved, 0) * self.bits // 8, mask)
        taken, ideal, _ = served_batch(rule, machine, *lanes)
        out: NDArray[Any] = intact & (taken == ideal)
        return out


def instructions_of(synthesis: Synthesis, access: Access) -> Instructions:
    """The instructions of an access on the tile in storage order, each different one once.

    Raises UndecidedError past Most.ONE_BY_ONE of them, ShapeError where they leave the tile.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((64, 96), ["ldmatrix.x4"], element="f16")
    >>> rows = instructions_of(found, found.accesses[0])
    >>> rows.offsets.shape, len(rows.classes(256)[0])
    ((24, 32), 6)
    """
    import numpy as np

    machine = synthesis.arch
    rule = find_instruction(access.op, machine)
    elems = 8 * rule.width_bytes // access.element.bits
    moving = [(extent, stride) for extent, stride in leaves(_mode(access, 2)) if stride]
    threads, warp = size(_mode(access, 0)), machine.lanes
    warps, vectors = -(-threads // warp), size(_mode(access, 1)) // elems
    loops = [0]
    count = warps * vectors * prod(extent for extent, _ in moving)
    Most.ONE_BY_ONE.decide(count, f"the instructions of {access.op} are looked at one by one")
    for extent, stride in moving:
        loops = [at + n * stride for at in loops for n in range(extent)]
    starts = [_mode(access, 1)(vector * elems) for vector in range(vectors)]
    lane = np.arange(warps * warp).reshape(warps, warp)
    supplies = (lane < threads) & (lane % warp < rule.lanes)
    if access.active is not None:
        supplies &= np.isin(lane % warp, list(getattr(access.active, "lanes", None) or range(rule.lanes)))
    index = np.where(supplies, _mode(access, 0)(np.where(supplies, lane, 0)), 0)
    added = np.unique(np.add.outer(np.array(starts), np.array(loops)))
    together = index[:, None, :] + added[:, None]
    mask = np.broadcast_to(supplies[:, None, :], together.shape).reshape(-1, warp)
    storage = storage_layout(synthesis.shape, synthesis.order)
    flat = np.where(mask, together.reshape(-1, warp), 0)
    if flat.size and not 0 <= flat.min() <= flat.max() < size(storage):
        raise ShapeError(f"tv {access.tv} of {access.op} leaves a tile of {size(storage)} elements")
    offsets = np.where(mask, storage(flat), 0)
    rows = np.unique(np.concatenate([offsets, mask], axis=1), axis=0)
    return Instructions(access.op, access.element.bits, elems, rows[:, :warp], rows[:, warp:].astype(bool))


def _mode(access: Access, which: int) -> Layout:
    """Mode 0, 1 or 2 of the thread-value layout: threads, values, iterations (one, where there are none)."""
    parts = modes(access.tv)
    return parts[which] if which < len(parts) else Layout(1, 0)


def bank_map_kernel(synthesis: Synthesis, columns: Sequence[int]) -> tuple[int, ...]:
    """The words, in storage order, that share the bank of word 0 when flat index 2^i goes to columns[i].

    >>> from layoutalg.f2 import to_f2
    >>> from layoutalg.synthesis import synthesize
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
