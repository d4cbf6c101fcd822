"""Why a result is what it is: the steps an algorithm noted, counts and certificates, in words.

explanations  explain: an operation, a value, an analysis or a synthesis, step by step
words         what each kind of note says
"""

from __future__ import annotations

from layoutalg.explanation.explanations import OPERATIONS, explain

__all__ = [
    "OPERATIONS",
    "explain",
]
