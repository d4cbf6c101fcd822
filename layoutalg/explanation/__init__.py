"""Why a result is what it is: the steps an algorithm noted, counts and certificates, in words.

explanations  explain: an operation, a value, an analysis or a synthesis, step by step
steps         Derivation: the steps, and how they are written
words         what each kind of note says
"""

from __future__ import annotations

from layoutalg.explanation.explanations import OPERATIONS, explain
from layoutalg.explanation.steps import Derivation

__all__ = [
    "OPERATIONS",
    "Derivation",
    "explain",
]
