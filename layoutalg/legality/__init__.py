"""The layouts that the hardware accepts: every rule with its source, and the nearest legal request.

rules              Rule, Violation, Legality: a verdict with machine-applicable fixes;
                   nearest_legal: applies fixes until no rule is broken
tma_rules, tma     check_tma, check_tensor_map: boxes, strides, swizzles of cp.async.bulk.tensor
canonical          canonical_layout, recognize: the canonical shared memory layouts of wgmma
wgmma_rules, wgmma check_wgmma: operands of wgmma and their descriptors;
                   check_wgmma_instruction: shapes and types
tcgen05            check_tcgen05: products of sm_100 and their instruction descriptors; check_tcgen05_operand;
                   check_tcgen05_access: loads and stores of tensor memory
memory_rules, memory  check_memory: ld, st, ldmatrix, stmatrix and cp.async
tiles              shared_tiles: the tiles of a shape that TMA writes and wgmma reads, by CuTe's atoms
vectors            which elements a lane moves together, and whether a layout keeps them together
"""

from __future__ import annotations

from layoutalg.legality.canonical import Canonical, canonical_layout, operand_shape, recognize
from layoutalg.legality.memory import MemoryAccess, check_memory
from layoutalg.legality.memory_rules import MEMORY_RULES
from layoutalg.legality.rules import Legality, Repair, Rule, Violation, nearest_legal
from layoutalg.legality.tcgen05 import (
    TCGEN05_RULES,
    Tcgen05Access,
    Tcgen05Instruction,
    check_tcgen05,
    check_tcgen05_access,
    check_tcgen05_operand,
)
from layoutalg.legality.tiles import SharedTile, shared_tiles
from layoutalg.legality.tma import TmaCopy, check_tensor_map, check_tma
from layoutalg.legality.tma_rules import LOAD_MODES, MAX_BOX_ELEMS, TMA_RULES
from layoutalg.legality.wgmma import WgmmaInstruction, WgmmaOperand, check_wgmma, check_wgmma_instruction
from layoutalg.legality.wgmma_rules import WGMMA_RULES

__all__ = [
    "LOAD_MODES", "MAX_BOX_ELEMS", "MEMORY_RULES", "TCGEN05_RULES", "TMA_RULES", "WGMMA_RULES", "Canonical",
    "Legality", "MemoryAccess", "Repair", "Rule", "SharedTile", "Tcgen05Access", "Tcgen05Instruction",
    "TmaCopy", "Violation", "WgmmaInstruction", "WgmmaOperand", "canonical_layout", "check_memory",
    "check_tcgen05", "check_tcgen05_access", "check_tcgen05_operand", "check_tensor_map", "check_tma",
    "check_wgmma", "check_wgmma_instruction", "nearest_legal", "operand_shape", "recognize", "shared_tiles",
]  # fmt: skip
