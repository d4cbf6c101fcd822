"""The notations other than CuTe's own, parsed and printed; layoutalg.notation.table lists them.

    record         Form, Options: a notation as a record, and what a text leaves unspecified
    constructors   C++, CuTe DSL and Python source, by one table of names; nothing is executed
    functions      FUNCTIONS: functions of CuTe that a source text may call
    spellings      printing those: a record per language
    cute_prints    tensors over pointers, prints of the CuTe DSL, names of atoms
    arrays         NumPy and PyTorch: shapes and strides
    tiles          maps of bits as layouts: tiles of shared memory, thread-value layouts
    triton_maps    Triton's encodings as maps, from their definitions
    triton_search  the fields of an encoding for a given map, or why there are none
    triton_text    encodings as text of the IR and of Gluon; ADD AN ENCODING THERE
    linear_text    the text of a LinearLayout
    objects        objects of pycute, tensor-layouts, NumPy and PyTorch

>>> from layoutalg.layout import Layout
>>> cute_text(Layout(8))
'cute::make_layout(cute::Int<8>{}, cute::Int<1>{})'
"""

from __future__ import annotations

from layoutalg.notation.forms.objects import from_object, is_object, to_object
from layoutalg.notation.forms.record import Form, Options
from layoutalg.notation.forms.spellings import cute_text

__all__ = ["Form", "Options", "cute_text", "from_object", "is_object", "to_object"]
