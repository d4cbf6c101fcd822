"""The part of an accumulator in tensor memory that threads hold after tcgen05.ld: a thread-value layout.

The idea.  A warpgroup reads its accumulator warp by warp, 32 lanes each, in one of four shapes.  Together
with the data path that put D there (layoutalg.arch), the atom of the load says which thread then has which
element, and every question about register layouts applies to it: conversions, reductions, stores.

>>> from layoutalg.registers import fragment, reduction_of
>>> rows = tmem_load_tv(128, 64, "32x32b")
>>> print(rows, reduction_of(fragment(rows, (128, 64)), along="n").shuffles)
((32,4),64):((1,32),128) 0
>>> wgmma = tmem_load_tv(64, 64, "16x256b")
>>> print(wgmma, reduction_of(fragment(wgmma, (64, 64)), along="n").shuffles)
((4,8,4),(2,2,8)):((128,1,16),(64,8,512)) 4

Source: PTX ISA 9.0, 9.7.16.2.3.1 and 9.7.16.10.5.
"""

from __future__ import annotations

from layoutalg.atoms.core_matrix import mode_of
from layoutalg.atoms.registry import find_copy_atom
from layoutalg.compose import compose_layouts
from layoutalg.errors import DivisibilityError, UnsupportedError, check_choice
from layoutalg.layout import Layout, concat, leaves, modes, whole_number

_ATOMS = {s: f"SM100_TMEM_LOAD_{s.replace('x', 'dp')}1x" for s in ("32x32b", "16x64b", "16x128b", "16x256b")}
"""The atom of one repetition of each shape."""


def tmem_load_tv(m: int, n: int, shape: str) -> Layout:
    """(thread of a warpgroup, value) -> row + m * column of an M x N accumulator of 32 bits.

    M is 128 (data path D: two loads of 16 lanes per warp, or one of 32) or 64 (data path F: one of 16).
    Raises UnknownNameError for another shape, UnsupportedError for another M, DivisibilityError for an N that
    repetitions do not cover.

    >>> print(tmem_load_tv(128, 8, "16x256b"))
    ((4,8,4),(2,2,2)):((256,1,32),(128,8,16))
    """
    check_choice("shape of tcgen05.ld", shape, _ATOMS)
    m, n = whole_number(m, "M"), whole_number(n, "N")
    lanes = int(shape.partition("x")[0])
    if m not in (64, 128) or (m == 64 and lanes == 32):
        raise UnsupportedError(
            f"tcgen05.ld.{shape} of {m} rows: four warps read 128 rows, or 64 with shapes of 16 lanes"
        )
    atom = find_copy_atom(_ATOMS[shape])
    columns = int(shape.partition("x")[2].removesuffix("b")) // 32
    if n % columns:
        raise DivisibilityError(
            f"tcgen05.ld.{shape} reads {columns} columns at once, not {n}", lhs=n, rhs=columns
        )
    thread, value = modes(compose_layouts(Layout((columns, lanes), (m, 1)), atom.bits_as("dst", 32)))
    held = [*leaves(value), (n // columns, columns * m)]
    if m == 128 and lanes == 16:
        held.append((2, 16))
    return concat(mode_of([*leaves(thread), (4, m // 4)]), mode_of(held))
