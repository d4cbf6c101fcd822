"""Kernels that compute each element of a tensor from those at the same coordinate: y = f(x, ...).

problem    a problem: a formula by name, a shape, strides of every operand; its result by definition
program    configurations, and the tile program of one
families   the Family records
"""

from __future__ import annotations

from layoutalg.kernels.elementwise.families import ELEMENTWISE_FAMILIES
from layoutalg.kernels.elementwise.problem import MapProblem, map_problem

__all__ = ["ELEMENTWISE_FAMILIES", "MapProblem", "map_problem"]
