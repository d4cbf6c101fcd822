"""Derivations of results in words: the steps that an algorithm recorded, counts and certificates.

explanations  explain: an operation, a value, an analysis or a synthesis, step by step
steps         Derivation: the steps, and how they are written
words         the sentence of each kind of step
"""

from __future__ import annotations

from layoutalg.explanation.explanations import OPERATIONS, explain

__all__ = [
    "OPERATIONS",
    "explain",
]
