"""The least that memory moves for a permute in any order: the units that both sides touch, each once.

The idea.  A tile's rows share units with other rows, which may ask the L2 twice, and memory too.  No order
asks memory for less than the union: every half line that holds an element of the source is read, every sector
that holds one of the destination is written, and one that the destination fills in part is read before.

    100 rows of 24 f32, 100 bytes apart      read 100 to 200 half lines, written 4 sectors of each, 1 in part

The union is in closed form where strides are nested (`analysis.touched_by`), and listed otherwise.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any, NamedTuple

from layoutalg.analysis import Units, nested
from layoutalg.arch import DRAM_RULES, Arch, find_arch
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.move.problem import Moves
from layoutalg.limits import Most


class LeastBytes(NamedTuple):
    """Bytes that memory reads and writes at least.

    >>> LeastBytes(96, 64).total
    160
    """

    read: int
    written: int

    @property
    def total(self) -> int:
        """Both."""
        return self.read + self.written


def least_bytes(x: Moves, arch: str | Arch = "sm_90", *, listed: bool = False) -> LeastBytes:
    """Return the least bytes that memory moves; with `listed` by the definition, up to Most.LISTED elements.

    Raises UnsupportedError for an architecture whose units of memory were not counted, UndecidedError where
    bytes have to be listed and are too many.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> least_bytes(normalise(permute_problem((997, 999), (1, 0), "f32")))
    LeastBytes(read=3984096, written=3984032)
    """
    machine = find_arch(arch)
    if machine.name not in DRAM_RULES:
        raise UnsupportedError(
            f"what the memory of {machine.name} moves at once was not counted; {', '.join(DRAM_RULES)} was"
        )
    rules = DRAM_RULES[machine.name]
    read = _touched(x, "src", rules.fill_bytes, listed=listed).touched * rules.fill_bytes
    merged = _touched(x, "dst", machine.sector_bytes, listed=listed).partial * rules.merge_bytes
    written = _touched(x, "dst", rules.written_bytes, listed=listed).touched * rules.written_bytes
    return LeastBytes(read + merged, written)


def _touched(x: Moves, side: str, unit_bytes: int, *, listed: bool) -> Units:
    """The units of one side."""
    source = side == "src"
    size, offset = (x.element_bytes, x.src_offset) if source else (x.result_bytes, x.dst_offset)
    swizzles = x.src_swizzle if source else x.dst_swizzle
    digits = [(m.extent, abs(m.src if source else m.dst) * size) for m in x.modes]
    runs = None if listed or swizzles else nested(offset * size, size, digits)
    if runs is not None:
        return runs.units(unit_bytes)
    Most.LISTED.decide(prod(n for n, step in digits if step), f"elements whose bytes are listed, of {x}")
    return _listed(swizzles, offset, size, digits, unit_bytes)


def _listed(
    swizzles: Any, offset: int, size: int, digits: Sequence[tuple[int, int]], unit_bytes: int
) -> Units:
    """The definition: every byte once, and the bytes of every unit."""
    import numpy as np

    places = np.array([offset])
    for extent, step in digits:
        if step:
            places = (places[:, None] + np.arange(extent) * (step // size)).ravel()
    elements = np.unique(swizzles(places) if swizzles else places)
    found = (elements[:, None] * size + np.arange(size)).ravel() // unit_bytes
    _, counts = np.unique(found, return_counts=True)
    return Units(len(counts), int((counts == unit_bytes).sum()))
