"""Tiles in practice: buffers of stages, parts of wider buffers, rows that ldmatrix.x4 does not tile.

    written   read_tile: rows of a buffer, stages outside of a swizzle
    covers    covers_of: accesses that tile the shape, a mix of several where one does not
    ranking   Choice: wavefronts, extra bytes, index instructions, TMA, wgmma
    answer    synthesize_tile: a layout, or what was ruled out and what would help

>>> from layoutalg.layout import Layout
>>> found = synthesize_tile(Layout((64, 72), (128, 1)), ["ldmatrix.x4"], element="f16")
>>> print(found.found.layout)
Sw<3,3,4> o 0 o (64,72):(128,1)
"""

from __future__ import annotations

from layoutalg.synthesis.tiles.answer import Offer, TileSynthesis, synthesize_tile
from layoutalg.synthesis.tiles.covers import Cost, Cover, Piece, covers_of
from layoutalg.synthesis.tiles.ranking import Choice, choices_of, ranked_choices, tma_mode, wgmma_operands
from layoutalg.synthesis.tiles.written import Stage, WrittenTile, read_tile

__all__ = [
    "Choice", "Cost", "Cover", "Offer", "Piece", "Stage", "TileSynthesis", "WrittenTile", "choices_of",
    "covers_of", "ranked_choices", "read_tile", "synthesize_tile", "tma_mode", "wgmma_operands",
]  # fmt: skip
