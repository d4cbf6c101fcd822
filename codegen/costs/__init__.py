"""What the memory accesses of a tile program cost, read off the program itself.

cost         Cost, Prediction, Costs: instructions, wavefronts or sectors, and the least possible
enumerated   the definition: every block, turn, warp and lane
accesses     each memory operand of a program with what decides where and when it is executed
split        expressions as a part that the point decides and a part that the rest decides
classes      which executions of an access cost the same
count        traffic: the same numbers as the definition, from classes
"""

from __future__ import annotations

from layoutalg.codegen.costs.classes import MAX_EXECUTIONS, MAX_POINTS
from layoutalg.codegen.costs.cost import Cost, Costs, Prediction, describe, total_costs, warp_costs
from layoutalg.codegen.costs.count import (
    AccessTraffic,
    copied,
    sequence_traffic,
    traffic,
    traffic_by_access,
)
from layoutalg.codegen.costs.enumerated import traffic_enumerated

__all__ = [
    "MAX_EXECUTIONS",
    "MAX_POINTS",
    "AccessTraffic",
    "Cost",
    "Costs",
    "Prediction",
    "copied",
    "describe",
    "sequence_traffic",
    "total_costs",
    "traffic",
    "traffic_by_access",
    "traffic_enumerated",
    "warp_costs",
]
