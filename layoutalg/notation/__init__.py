"""Text to values: CuTe notation, and index expressions as they stand in C, CUDA and Python.

    cute        parse ("Sw<3,4,3> o 0 o (8,64):(64,1)"), parse_int_tuple, parse_tiler
    expression_text  the one reader of expressions, with limits on length, depth and digits
    index_text  parse_index: "(row ^ (col & 7)) * 64 + col" as a function of named integers

>>> print(parse("(8,64):(64,1)"), parse_index("lane * 64 + reg")(lane=2, reg=3))
(8,64):(64,1) 131
"""

from __future__ import annotations

from layoutalg.notation.cute import parse, parse_int_tuple, parse_open, parse_tiler
from layoutalg.notation.expression_text import parse_polynomial
from layoutalg.notation.index_text import IndexText, parse_index

__all__ = [
    "IndexText",
    "parse",
    "parse_index",
    "parse_int_tuple",
    "parse_open",
    "parse_polynomial",
    "parse_tiler",
]
