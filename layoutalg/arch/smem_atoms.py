"""The shared-memory atoms of CUTLASS: Layout_{MN,K}_{INTER,SW32,SW64,SW128}_Atom, derived from one rule.

The idea.  An atom is the smallest piece of an operand tile that one swizzle mode describes: eight rows of
16, 32, 64 or 128 bytes.  With W elements to a row,

    K-major    (8,W):(W,1)     a row holds W elements along K, rows follow M or N
    MN-major   (W,8):(1,W)     a row holds W elements along M or N, rows follow K

under the mode's swizzle.  Everything else (widths, unswizzled atoms, tiles) follows:

>>> print(atom_layout("Layout_K_SW128_Atom", "f16"))
Sw<3,3,3> o 0 o (8,64):(64,1)
>>> from layoutalg.algebra import tile_to_shape
>>> print(tile_to_shape(atom_layout("Layout_MN_SW64_Atom", "bf16"), (64, 16)))
Sw<2,3,3> o 0 o ((32,2),(8,2)):((1,256),(32,512))

Notes.  `tile_to_shape` of an atom is legal for wgmma and can be written by TMA; layoutalg.analysis says what
else is.  Layout_MN_SW128_32B_Atom permutes 32-byte chunks over four rows and exists for sm_100 alone.

Comparison with CUTLASS.  There an atom is a type over bits, upcast to an element type and bound to a pointer;
`atom_text` prints it the same way.  Here it is a layout in elements from the start.

Source: CUTLASS, include/cute/atom/mma_traits_sm90_gmma.hpp and mma_traits_sm100.hpp; PTX ISA,
wgmma.mma_async, "Shared Memory Matrix Layout", table of swizzle atoms.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.arch.swizzle_modes import HOPPER_MODES, SWIZZLE_MODES, SwizzleMode
from layoutalg.dtype import DType, dtype
from layoutalg.errors import UnknownNameError, check_type
from layoutalg.layout import AnyLayout, ComposedLayout, Layout

Major: TypeAlias = Literal["K", "MN"]
"""The mode of an operand that lies contiguously in memory."""


@dataclass(frozen=True, slots=True)
class SmemAtom:
    """An atom: its CUTLASS name, the mode along which it is contiguous, its swizzle mode.

    >>> SMEM_ATOMS["Layout_K_SW32_Atom"].mode.period_bytes
    256
    """

    name: str
    major: Major
    mode: SwizzleMode


_ATOMS = (
    *(SmemAtom(f"Layout_MN_{mode.atom}_Atom", "MN", mode) for mode in SWIZZLE_MODES.values()),
    *(SmemAtom(f"Layout_K_{mode.atom}_Atom", "K", mode) for mode in HOPPER_MODES),
)

SMEM_ATOMS: Mapping[str, SmemAtom] = MappingProxyType({atom.name: atom for atom in _ATOMS})
"""Every atom by its CUTLASS name, read only."""


def find_smem_atom(name: str | SmemAtom) -> SmemAtom:
    """An atom by name; a SmemAtom is returned as it is.  Raises UnknownNameError.

    >>> find_smem_atom("Layout_MN_INTER_Atom").major
    'MN'
    """
    if isinstance(name, SmemAtom):
        return name
    check_type("find_smem_atom", name, str, "the name of an atom")
    atom = SMEM_ATOMS.get(name)
    if atom is None:
        raise UnknownNameError("shared-memory atom", name, SMEM_ATOMS)
    return atom


def _plain(atom: SmemAtom, bits: int) -> Layout:
    width, rows = 8 * atom.mode.row_bytes // bits, atom.mode.rows
    return Layout((rows, width), (width, 1)) if atom.major == "K" else Layout((width, rows), (1, width))


def atom_layout(atom: str | SmemAtom, element: str | DType) -> AnyLayout:
    """The atom as a layout (M or N, K) -> offset in elements; a Layout where the mode has no swizzle.

    This is what CuTe calls the position independent form.  Raises UnknownNameError for names, ShapeError
    for elements wider than 16 bytes.

    >>> print(atom_layout("Layout_MN_SW128_Atom", "tf32"), atom_layout("Layout_K_INTER_Atom", "e4m3"))
    Sw<3,2,3> o 0 o (32,8):(1,32) (8,16):(16,1)
    """
    atom, bits = find_smem_atom(atom), dtype(element).bits
    swizzle = atom.mode.in_elements(bits)
    inner = _plain(atom, bits)
    return ComposedLayout(swizzle, 0, inner) if swizzle.bits else inner


def atom_text(atom: str | SmemAtom, element: str | DType) -> str:
    """The atom as CuTe prints it: its swizzle of bytes, and a layout of elements that awaits a pointer.

    Raises as `atom_layout` does.

    >>> atom_text("Layout_K_SW64_Atom", "f32")
    'Sw<2,4,3> o smem_ptr[32b](unset) o (8,16):(16,1)'
    """
    atom, bits = find_smem_atom(atom), dtype(element).bits
    return f"{atom.mode.swizzle} o smem_ptr[{bits}b](unset) o {_plain(atom, bits)}"
