"""Values in registers: which lane holds what, reductions over them, and conversions between register layouts.

fragments    fragment, holders, register_layout: registers of MMA operands as LinearLayouts
reductions   reduction_of: the shuffles and exchanges that reduce one dimension
reducing     which of shuffles, redux.sync and shared memory is cheapest for a reduction
chain        choose_layouts: the register layout of each value of a chain of operations
conversion   convert_layout: the cheapest plan from one register layout to another
place_map    a conversion as a LinearLayout between places; several values per 32-bit register
shuffles     plans of warp shuffles
exchange     plans through shared memory
steps        the steps of a plan, their cost, and running them on the CPU
"""

from __future__ import annotations

from layoutalg.registers.chain import (
    Step,
    choose_layouts,
    elementwise_step,
    load_step,
    operand_step,
    reduce_step,
    store_step,
)
from layoutalg.registers.conversion import Conversion, Plan, PlanKind, convert_layout
from layoutalg.registers.fragments import (
    Fragment,
    fragment,
    holders,
    linear_fragment,
    register_layout,
)
from layoutalg.registers.place_map import REGISTER_BITS, places_of, serves_as_it_is, words
from layoutalg.registers.reducing import ReductionKind, ReductionOp, ReductionPlan, reduction_plans
from layoutalg.registers.reductions import Reduction, numbers_of, reduction_of, row_numbers
from layoutalg.registers.steps import Cost, Load, Rename, Select, Shuffle, Store, Transfer, converted

__all__ = [
    "REGISTER_BITS", "Conversion", "Cost", "Fragment", "Load", "Plan", "PlanKind", "Reduction",
    "ReductionKind", "ReductionOp", "ReductionPlan", "Rename", "Select", "Shuffle", "Step", "Store",
    "Transfer", "choose_layouts", "convert_layout", "converted", "elementwise_step", "fragment", "holders",
    "linear_fragment", "load_step", "numbers_of", "operand_step", "places_of", "reduce_step", "reduction_of",
    "reduction_plans", "register_layout", "row_numbers", "serves_as_it_is", "store_step",
    "words",
]  # fmt: skip
