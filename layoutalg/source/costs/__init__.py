"""Costs of the accesses that were read.

counting   the cost of an access: one of each class of iterations and blocks is counted
joined     neighbours that a compiler may join into one vector instruction
"""

from __future__ import annotations

from layoutalg.source.costs.counting import Cost, Launch, cost_of, lane_variables, sum_of
from layoutalg.source.costs.joined import joined_rows

__all__ = ["Cost", "Launch", "cost_of", "joined_rows", "lane_variables", "sum_of"]
