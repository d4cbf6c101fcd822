"""Parsing index functions: text in C, CUDA or Python into a term; the text is never executed.

    terms            what an index function computes, and its values for arrays of coordinates
    statements       assignments, branches and loops, run over terms
    c_tokens         tokens of C text, macros replaced
    c_expressions    expressions of C, with C's types
    c_source         read_c, read_c_expression: functions in C and CUDA text
    python_source    read_python, read_python_expression: functions in Python text
    index_text       parse_index: an expression on which C and Python agree, over the lanes of a warp

>>> read_c("int f(int row, int col) { return row * 64 + col; }").names
('row', 'col')
"""

from __future__ import annotations

from layoutalg.reading.c_source import IndexFunction, read_c, read_c_expression
from layoutalg.reading.index_text import IndexText, parse_index
from layoutalg.reading.python_source import (
    is_constant,
    read_python,
    read_python_expression,
    triton_functions,
)
from layoutalg.reading.terms import (
    Bad,
    CType,
    Term,
    apply,
    evaluated,
    number,
    ordered,
    variable,
)

__all__ = [
    "Bad", "CType", "IndexFunction", "IndexText", "Term", "apply", "evaluated", "is_constant", "number",
    "ordered", "parse_index", "read_c", "read_c_expression", "read_python", "read_python_expression",
    "triton_functions", "variable",
]  # fmt: skip
