"""Linear algebra over F2, and the layouts that are linear in the bits of their coordinate.

An XOR swizzle, a bank and a register layout are matrices of bits.  to_f2 turns a layout into its matrix where
there is one, LinearLayout is that matrix with named dimensions (Triton's vocabulary).

    matrix        Echelon, and rank, kernel, solve, ... of matrices whose columns are integers
    realize       to_f2, affine_f2: the matrix of a layout, or NotLinearError; and back, as swizzles over one
    dims          named dimensions: checked, and packed into one integer
    linear        LinearLayout: named in and out dimensions; *, compose, invert, divide_left, sublayout, ...

>>> print(LinearLayout({"lane": [1, 2], "register": [4]}, {"offset": 8}).invert()(offset=5))
{'lane': 1, 'register': 1}
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.f2.matrix import (
    Columns,
    Echelon,
    apply,
    basis,
    complement,
    contains,
    identity,
    intersection,
    kernel,
    multiply,
    rank,
    solve,
)
from layoutalg.f2.realize import affine_f2, fold, separate, to_f2
from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.f2.dims import unpack
    from layoutalg.f2.linear import LinearLayout

__all__ = [
    "Columns", "Echelon", "LinearLayout", "affine_f2", "apply", "basis", "complement", "contains", "fold",
    "identity", "intersection", "kernel", "multiply", "rank", "separate", "solve", "to_f2", "unpack",
]  # fmt: skip

__getattr__ = later(__name__, {"linear": "LinearLayout", "dims": "unpack"})
