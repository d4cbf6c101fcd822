"""Parsing and printing layouts: CuTe notation, C++, CuTe DSL, Triton, NumPy, PyTorch.

    conversion  parse and convert: a text of any notation to a value, a value to a text of any notation
    table       FORMS: every notation, a record per form: ADD A FORM HERE
    cute        parse_cute ("Sw<3,4,3> o 0 o (8,64):(64,1)"), parse_int_tuple, parse_tiler
    symbols     extents and strides in symbols: polynomials as text, leaves that are known only at run time
    forms/      the notations other than CuTe's own, parsed and printed
    form        Form: a notation as a record; nested names and brackets of C++, Python and MLIR as one tree

>>> print(parse("(_8,_64):(_64,_1)"))
(8,64):(64,1)
>>> print(convert("(8,64):(64,1)", "cpp-type"))
cute::Layout<cute::tuple<cute::C<8>, cute::C<64>>, cute::tuple<cute::C<64>, cute::C<1>>>
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.notation.conversion import Notation, convert, parse
from layoutalg.notation.cute import parse_cute, parse_int_tuple, parse_open, parse_tiler
from layoutalg.notation.symbols import parse_polynomial
from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.notation.form import Term
    from layoutalg.notation.forms import (
        FUNCTIONS,
        Major,
        Options,
        TermReader,
        call_function,
        cute_text,
        term_of,
        to_object,
    )
    from layoutalg.notation.table import FORMS

__all__ = [
    "FORMS", "FUNCTIONS", "Major", "Notation", "Options", "Term", "TermReader", "call_function", "convert",
    "cute_text", "parse", "parse_cute", "parse_int_tuple", "parse_open", "parse_polynomial", "parse_tiler",
    "term_of", "to_object",
]  # fmt: skip

__getattr__ = later(
    __name__,
    {
        "table": "FORMS",
        "form": "Term",
        "forms": "FUNCTIONS Major Options TermReader call_function cute_text term_of to_object",
    },
)
