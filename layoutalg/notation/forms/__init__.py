"""The notations other than CuTe's own, parsed and printed; layoutalg.notation.table lists them.

    constructors   C++, CuTe DSL and Python source, by one table of names; nothing is executed
    functions      FUNCTIONS: functions of CuTe that a source text may call
    spellings      printing those: a record per language
    cute_prints    tensors over pointers, prints of the CuTe DSL, names of atoms
    arrays         NumPy and PyTorch: shapes and strides
    linear         maps of bits as layouts (tiles of shared memory, thread-value layouts) and as text
    triton_maps    Triton's encodings as maps, from their definitions
    triton_search  the fields of an encoding for a given map, or why there are none
    triton_text    encodings as text of the IR and of Gluon; ADD AN ENCODING THERE
    objects        objects of pycute, tensor-layouts, NumPy and PyTorch

>>> from layoutalg.layout import Layout
>>> cute_text(Layout(8))
'cute::make_layout(cute::Int<8>{}, cute::Int<1>{})'
"""

from __future__ import annotations

from layoutalg.notation.form import Form, Options
from layoutalg.notation.forms.constructors import TermReader, term_of
from layoutalg.notation.forms.functions import FUNCTIONS, Major, call_function
from layoutalg.notation.forms.objects import from_object, is_object, to_object
from layoutalg.notation.forms.spellings import cute_text

__all__ = [
    "FUNCTIONS", "Form", "Major", "Options", "TermReader", "call_function", "cute_text", "from_object",
    "is_object", "term_of", "to_object",
]  # fmt: skip
