"""Memory accesses and their cost: bank conflicts and sectors, in closed form or by enumeration.

`analyze(layout, access)` gives a SharedReport (wavefronts) or a GlobalReport (sectors), with a witness.

    access       Access: instruction, thread-value map, element, base; Guard: which lanes take part;
                 TmaAccess; "row", "col", ...: thread-value maps of a whole tile by name
    analyzer     analyze: the public call, and which closed form applies; reuse_of: sectors asked for again
    lanes        the addresses of a warp: which lanes supply one, bytes per lane, alignment
    banks        wavefronts: banks, words and phases of a shared instruction, LDMATRIX'S PHASES among them;
                 bank conflicts of linear layouts without enumeration; sectors and lines likewise
    enumerated   every instruction counted: the definition
    footprint    an access on a layout as a handful of strides, rewritten where it runs over the ends of modes
    residues     choices of digits, counted by where they lead modulo a period, or cut at a bound
    classes      digit classes: warps sorted by where their digits carry and a Guard cuts, one of each counted
    memory       the sectors and half lines that all requests touch together, and what DRAM moves for them
    report       SharedReport, GlobalReport, Witness, how they print, and the notes they carry
    open_report  OpenReport: the cost as pieces over the values of symbols
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

from layoutalg.analysis.access import Access, Guard, TmaAccess, addressing, vector_elems
from layoutalg.analysis.analyzer import LEVELS, Level, Reuse, analyze, analyze_access, reuse_of
from layoutalg.analysis.banks import (
    clash,
    ideal_wavefronts,
    linear_wavefronts,
    phase_groups,
    sectors,
    served_batch,
    swizzled_batch,
    traffic,
    traffic_batch,
    wavefronts,
    worst_clash,
)
from layoutalg.analysis.classes import warp_families
from layoutalg.analysis.enumerated import access_extent, instruction_costs, instruction_offsets
from layoutalg.analysis.lanes import active_lanes, batch_lanes, warp_rule
from layoutalg.analysis.memory import Runs, Units, count_units, dram_of, nested, touched_by
from layoutalg.analysis.open_report import OpenReport, Piece
from layoutalg.analysis.report import (
    METHODS,
    CostClass,
    DramReport,
    GlobalReport,
    Named,
    Place,
    Report,
    SharedReport,
    Wanted,
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
from layoutalg.analysis.residues import Residues
from layoutalg.analysis.words import conflict_words

__all__ = [
    "LEVELS", "METHODS", "Access", "CostClass", "DramReport", "GlobalReport", "Guard", "Level", "Named",
    "OpenReport", "Piece", "Place", "Report", "Residues", "Reuse", "Runs", "SharedReport", "TmaAccess",
    "Units", "Wanted", "Witness", "access_extent", "access_notes", "active_lanes", "addressing", "analyze",
    "analyze_access", "batch_lanes", "clash", "conflict_words", "count_units", "dram_of", "global_report",
    "ideal_wavefronts", "instruction_costs", "instruction_offsets", "linear_wavefronts", "nested",
    "phase_groups", "report_notes", "report_rows", "report_text", "reuse_of", "sectors",
    "sentence", "served_batch", "shared_report", "swizzle_notes", "swizzled_batch", "touched_by", "traffic",
    "traffic_batch", "vector_elems", "warp_families", "warp_rule", "wavefronts",
    "worst_clash", "worst_rank",
]  # fmt: skip
