"""The cost of a tile program's memory accesses: wavefronts and sectors, predicted from the program.

cost         Cost, Prediction, Costs: instructions, wavefronts or sectors, and the least possible
enumerated   the definition: every block, iteration, warp and lane; followed, which pictures use too
accesses     each memory operand of a program, with the loops and conditions around it
split        an expression as the sum of a part that the point determines and a remainder
classes      which executions of an access cost the same
compiling    compiled: the shared accesses that a compiler leaves of a program
counters     predicted_counters: the hardware counters of a launch
count        traffic: the numbers of the definition, computed from classes; unstated: what is not in them
"""

from __future__ import annotations

from layoutalg.codegen.costs.accesses import bound, without_data
from layoutalg.codegen.costs.classes import MAX_EXECUTIONS
from layoutalg.codegen.costs.compiling import compiled
from layoutalg.codegen.costs.cost import Cost, Costs, Prediction, describe, is_shared, total_costs, warp_costs
from layoutalg.codegen.costs.count import (
    STATED,
    copied,
    sequence_traffic,
    traffic,
    traffic_by_access,
    uncounted,
    unstated,
)
from layoutalg.codegen.costs.counters import (
    BESIDE_BYTES,
    BYTES_READ,
    COUNTERS,
    ISSUED,
    is_counter,
    predicted_counters,
)
from layoutalg.codegen.costs.enumerated import followed, traffic_enumerated
