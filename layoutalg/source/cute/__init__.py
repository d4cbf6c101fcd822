"""CuTe in kernels: its expressions evaluated by the library's algebra, and what its copies move.

`declared_text` and `definition_of` are of the process that parses, `CuteCalls` is a part of the reader.

    declarations  what CuTe's names are, so that a text parses
    cute.cuh      their text
    spelling      CuTe's values as C++ types spell them
    values        integers of threads, tensors, atoms, tilings
    functions     CuTe's functions on them
    copies        copy, gemm and their like, as accesses
    reader        calls of CuTe in the reader
    expression    evaluate: expressions of CuTe as texts
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.source.cute.declarations import asked, declared_text, definition_of, silent_functions
    from layoutalg.source.cute.reader import CuteCalls, is_cute, parameter_of

__getattr__ = later(
    __name__,
    {
        "declarations": "asked declared_text definition_of silent_functions",
        "reader": "CuteCalls is_cute parameter_of",
    },
)
