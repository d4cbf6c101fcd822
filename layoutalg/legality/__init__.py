"""Whether TMA and wgmma accept a layout: every rule with its source, and the nearest layout that is accepted.

rules              Rule, Violation, Legality: a verdict with machine-applicable fixes
tma_rules, tma     check_tma, check_tensor_map: boxes, strides, swizzles of cp.async.bulk.tensor
canonical          canonical_layout, recognize: the canonical shared memory layouts of wgmma
wgmma_rules, wgmma check_wgmma: operands of wgmma and their descriptors
wgmma_instruction  check_wgmma_instruction: shapes and types
"""

from __future__ import annotations

from layoutalg.legality.canonical import Canonical, canonical_layout, recognize
from layoutalg.legality.rules import Legality, Rule, Violation
from layoutalg.legality.tma import TmaCopy, check_tensor_map, check_tma
from layoutalg.legality.tma_rules import MAX_BOX_ELEMS
from layoutalg.legality.wgmma import WgmmaOperand, check_wgmma
from layoutalg.legality.wgmma_instruction import WgmmaInstruction, check_wgmma_instruction

__all__ = [
    "MAX_BOX_ELEMS",
    "Canonical",
    "Legality",
    "Rule",
    "TmaCopy",
    "Violation",
    "WgmmaInstruction",
    "WgmmaOperand",
    "canonical_layout",
    "check_tensor_map",
    "check_tma",
    "check_wgmma",
    "check_wgmma_instruction",
    "recognize",
]
