"""What an access costs: wavefronts in shared memory, sectors in global memory.

>>> wavefronts("ld.shared.b32", [128 * lane for lane in range(32)])
32
>>> sectors("ld.global.b32", [4 * lane for lane in range(32)])
4

On layouts, in closed form:

>>> from layoutalg.layout import Layout
>>> tile = Layout((64, 64), (64, 1))
>>> report = analyze(tile, Access.default("ldmatrix.x4", tile, "f16"))
>>> report.total, report.ideal_total, report.ways, report.method
(512, 64, 8, 'f2')

And in symbols:

>>> from sympy import Symbol
>>> ld = Symbol("ld", positive=True)
>>> print(solve_conflict_free(((64, 64), (ld, 1)), Access.default("ldmatrix.x4", tile, "f16"), ld))
ld mod 16 = 8
"""

from layoutalg.analysis.access import Access, TmaAccess
from layoutalg.analysis.ask import analyze
from layoutalg.analysis.banks import ideal_wavefronts, wavefronts, wavefronts_batch
from layoutalg.analysis.canonical import Canonical, canonical_layout, recognize
from layoutalg.analysis.coalescing import sectors, sectors_batch
from layoutalg.analysis.enumerated import instruction_offsets
from layoutalg.analysis.fragments import (
    Fragment,
    Holders,
    fragment,
    holders,
    linear_fragment,
    register_layout,
)
from layoutalg.analysis.guard import Guard
from layoutalg.analysis.l2_order import L2Locality, best_band, block_place, l2_locality
from layoutalg.analysis.legality import Legality, Rule, Violation
from layoutalg.analysis.legality_tma import TmaCopy, check_tma
from layoutalg.analysis.legality_wgmma import WgmmaOperand, check_wgmma
from layoutalg.analysis.occupancy import Limit, Occupancy, occupancy_of
from layoutalg.analysis.reductions import Reduction, reduction_of
from layoutalg.analysis.report import GlobalReport, Place, SharedReport, Witness
from layoutalg.analysis.roofline import (
    Bound,
    Roofline,
    balance_point,
    gemm_intensities,
    mean_rate,
    roofline_of,
    tile_intensity,
)
from layoutalg.analysis.solutions import Periodic, ResidueSet
from layoutalg.analysis.symbolic import solve_conflict_free, solve_sectors, symbolic_access, symbolic_cost
from layoutalg.analysis.symbolic_layout import SymbolicLayout
from layoutalg.analysis.symbolic_question import Condition
from layoutalg.analysis.wgmma_instruction import WgmmaInstruction, check_wgmma_instruction

__all__ = [
    "Access",
    "Bound",
    "Canonical",
    "Condition",
    "Fragment",
    "GlobalReport",
    "Guard",
    "Holders",
    "L2Locality",
    "Legality",
    "Limit",
    "Occupancy",
    "Periodic",
    "Place",
    "Reduction",
    "ResidueSet",
    "Roofline",
    "Rule",
    "SharedReport",
    "SymbolicLayout",
    "TmaAccess",
    "TmaCopy",
    "Violation",
    "WgmmaInstruction",
    "WgmmaOperand",
    "Witness",
    "analyze",
    "balance_point",
    "best_band",
    "block_place",
    "canonical_layout",
    "check_tma",
    "check_wgmma",
    "check_wgmma_instruction",
    "fragment",
    "gemm_intensities",
    "holders",
    "ideal_wavefronts",
    "instruction_offsets",
    "l2_locality",
    "linear_fragment",
    "mean_rate",
    "occupancy_of",
    "recognize",
    "reduction_of",
    "register_layout",
    "roofline_of",
    "sectors",
    "sectors_batch",
    "solve_conflict_free",
    "solve_sectors",
    "symbolic_access",
    "symbolic_cost",
    "tile_intensity",
    "wavefronts",
    "wavefronts_batch",
]
