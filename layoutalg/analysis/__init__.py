"""Memory accesses and their cost: bank conflicts and sectors, in closed form or by enumeration.

`analyze(layout, access)` gives a SharedReport (wavefronts) or a GlobalReport (sectors), with a witness.

    access       Access: instruction, thread-value map, element, base; Guard: which lanes take part; TmaAccess
    mapping      "row", "col", ...: thread-value maps of a whole tile by name
    ask          analyze: the public call, with accesses as text or values, one or a list
    analyzer     which closed form applies, and when lanes are enumerated instead
    banks        wavefronts: banks, words and phases of a shared instruction, LDMATRIX'S PHASES among them;
                 bank conflicts of linear layouts without enumeration
    coalescing   sectors and lines of one global instruction; of linear layouts without enumeration
    lanes        the addresses of a warp: which lanes supply one, bytes per lane, alignment
    enumerated   every instruction counted: the definition
    memory/      the sectors and half lines that all requests touch together, and what DRAM moves for them
    classes/     sums over classes of instructions that cost the same: digit classes, footprints, guards
    report       SharedReport, GlobalReport, Witness, how they print, and the notes they carry
    reuse        sectors that several requests share, which the L1 serves again
    words        the sentences of a report: which rows and lanes conflict, and why

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
"""

from __future__ import annotations

from layoutalg.analysis.access import Access, Guard, TmaAccess, addressing
from layoutalg.analysis.analyzer import METHODS, Wanted, analyze_access
from layoutalg.analysis.ask import LEVELS, Level, analyze
from layoutalg.analysis.banks import (
    clash,
    ideal_wavefronts,
    linear_wavefronts,
    phase_groups,
    served_batch,
    swizzled_batch,
    wavefronts,
    wavefronts_batch,
    ways_batch,
    worst_clash,
)
from layoutalg.analysis.classes.classes import warp_families
from layoutalg.analysis.classes.residues import Residues
from layoutalg.analysis.coalescing import sectors, sectors_batch, traffic, traffic_batch
from layoutalg.analysis.enumerated import access_extent, instruction_costs, instruction_offsets
from layoutalg.analysis.lanes import active_lanes, batch_lanes, warp_rule
from layoutalg.analysis.mapping import vector_elems
from layoutalg.analysis.memory.dram import dram_of
from layoutalg.analysis.memory.units import Runs, Units, count_units, nested, touched_by
from layoutalg.analysis.report import (
    CostClass,
    DramReport,
    GlobalReport,
    Named,
    Place,
    Report,
    SharedReport,
    Witness,
    access_notes,
    global_report,
    report_notes,
    report_rows,
    report_text,
    sentence,
    shared_report,
    swizzle_notes,
    worst_rank,
)
from layoutalg.analysis.reuse import Reuse, reuse_of
from layoutalg.analysis.words import conflict_words

__all__ = [
    "LEVELS",
    "METHODS",
    "Access",
    "CostClass",
    "DramReport",
    "GlobalReport",
    "Guard",
    "Level",
    "Named",
    "Place",
    "Report",
    "Residues",
    "Reuse",
    "Runs",
    "SharedReport",
    "TmaAccess",
    "Units",
    "Wanted",
    "Witness",
    "access_extent",
    "access_notes",
    "active_lanes",
    "addressing",
    "analyze",
    "analyze_access",
    "batch_lanes",
    "clash",
    "conflict_words",
    "count_units",
    "dram_of",
    "global_report",
    "ideal_wavefronts",
    "instruction_costs",
    "instruction_offsets",
    "linear_wavefronts",
    "nested",
    "phase_groups",
    "report_notes",
    "report_rows",
    "report_text",
    "reuse_of",
    "sectors",
    "sectors_batch",
    "sentence",
    "served_batch",
    "shared_report",
    "swizzle_notes",
    "swizzled_batch",
    "touched_by",
    "traffic",
    "traffic_batch",
    "vector_elems",
    "warp_families",
    "warp_rule",
    "wavefronts",
    "wavefronts_batch",
    "ways_batch",
    "worst_clash",
    "worst_rank",
]
