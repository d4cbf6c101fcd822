"""`layoutalg solve`: for which leading dimensions, pads or strides an access is free of conflicts.

question        SymbolicLayout, Condition, Criterion: a layout with symbols, what is asked of it, and for what
distinct        solve_distinct: the values at which no two elements share an address, as a store needs
solve           solve_conflict_free, solve_sectors, symbolic_cost
generic_values  one value per class of values that have the same answer
pieces          open_report, open_layout: the cost of an access as pieces over the values of symbols
solutions       ResidueSet, Periodic: the answer, as residues of a period
where           Values: the values that a symbol may have, as `--where` states them
"""

from __future__ import annotations

from layoutalg.symbolic.distinct import shared_ranges, solve_distinct
from layoutalg.symbolic.pieces import has_names, open_layout, open_report
from layoutalg.symbolic.question import Condition, SymbolicLayout
from layoutalg.symbolic.solutions import Periodic, ResidueSet
from layoutalg.symbolic.solve import (
    efficiency_share,
    solve_conflict_free,
    solve_sectors,
    symbolic_access,
    symbolic_cost,
)
from layoutalg.symbolic.where import Values, values_of

__all__ = [
    "Condition", "Periodic", "ResidueSet", "SymbolicLayout", "Values", "efficiency_share", "has_names",
    "open_layout", "open_report", "shared_ranges", "solve_conflict_free", "solve_distinct", "solve_sectors",
    "symbolic_access", "symbolic_cost", "values_of",
]  # fmt: skip
