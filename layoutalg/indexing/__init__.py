"""Index functions: printed from a layout in six languages, and read back to one.

    code       layout -> one function in C, CUDA, CuTe C++, CuTe DSL, Triton or Python, proved
    identify   a function, an expression or offsets -> the layout it computes, or a witness that there is none

>>> from layoutalg.layout import Layout
>>> text = code(Layout((4, 8), (8, 1)), "cuda", "at")
>>> print(identify(text, (4, 8)))
(4,8):(8,1)

Source text is never executed: it is read as a term (layoutalg.reading), which is evaluated.

    lowering         the index expression of a layout in the parameters of a function
    targets          the text of a function in each language
    proofs           that a text is its layout
    static_asserts   assertions: a header that the user's compiler checks
    open_layouts     layouts with symbols, and the proof of their texts
    printing         code
    laws             from a table of offsets to a layout
    open_recognition the layout with symbols of a function that takes them
    recognition      identify
    open_checks      is_layout, is_permutation: functions of symbols, for all their values
"""

from __future__ import annotations

from layoutalg.indexing.lowering import Side, Through, through_layout
from layoutalg.indexing.open_checks import Held, is_layout, is_permutation
from layoutalg.indexing.printing import UNITS, code
from layoutalg.indexing.recognition import Identification, identify, parse_array
from layoutalg.indexing.static_asserts import assertions
from layoutalg.indexing.targets import TARGETS

__all__ = [
    "TARGETS", "UNITS", "Held", "Identification", "Side", "Through", "assertions", "code", "identify",
    "is_layout", "is_permutation", "parse_array", "through_layout",
]  # fmt: skip
