"""Reductions of values of several words: integers of 64 bits, indices with their values, moments.

values    how they are made of elements, join and end, in records of statements
steps     the instructions: from elements, within a lane and between lanes, to what they stand for
"""

from __future__ import annotations

from layoutalg.codegen.instr.folds.steps import (
    PARTIAL,
    absorb,
    empty,
    exchange,
    finish,
    join,
)
from layoutalg.codegen.instr.folds.values import FOLDS, IGNORED, UNKNOWN, Fold
