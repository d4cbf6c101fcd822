"""Volta's own instruction: mma.m8n8k4 of the four quad pairs of a warp.

quad_pairs  QUAD_PAIR_MMA: four 8 x 8 x 4 products at once, one per quad pair
"""

from __future__ import annotations

from layoutalg.codegen.instr.sm70.quad_pairs import QUAD_PAIR_MMA

__all__ = ["QUAD_PAIR_MMA"]
