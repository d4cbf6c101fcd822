"""The swizzle modes of Hopper's shared memory, and the atoms that they make.

TMA writes, wgmma reads and the tensor map names these modes.

The idea.  The hardware permutes 16-byte chunks of shared memory by XORing bits of the byte ADDRESS: with a
row of 32, 64 or 128 bytes, 1, 2 or 3 bits from bit 7 up go into the bits from 4 up.

    mode    on bytes     on f16 elements   row of an atom   repeats every
    none    Sw<0,4,3>    Sw<0,3,3>         16 bytes         16 bytes
    32B     Sw<1,4,3>    Sw<1,3,3>         32 bytes         256 bytes
    64B     Sw<2,4,3>    Sw<2,3,3>         64 bytes         512 bytes
    128B    Sw<3,4,3>    Sw<3,3,3>         128 bytes        1024 bytes

Since the XOR reads absolute addresses, a tile lies as its layout says only if it starts where the pattern
starts: S(base + x) = base + S(x) for every x when the base is a multiple of the period.

>>> mode = find_swizzle_mode(128)
>>> print(mode.swizzle, mode.in_elements(16), mode.period_bytes)
Sw<3,4,3> Sw<3,3,3> 1024

Notes.  One table, five spellings of a mode: the bytes of a row, the code of the sm_90 and of the sm_100
matrix descriptor, the enumerator of the tensor map, and the tag in CUTLASS's names of atoms.  The mode with
32-byte chunks exists in the sm_100 descriptor alone.

Sources.  PTX ISA, "Matrix Descriptor Format" of wgmma.mma_async and "Shared memory descriptor" of tcgen05;
CUDA Driver API, CUtensorMapSwizzle; CUTLASS, include/cute/arch/mma_sm90_desc.hpp and mma_sm100_desc.hpp.

The shared-memory atoms of CUTLASS: Layout_{MN,K}_{INTER,SW32,SW64,SW128}_Atom, derived from one rule.

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

from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, UnknownNameError, check_type, shown
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle

CHUNK_BYTES = 16
"""The bytes that are permuted as one: the width of one row of a core matrix."""


@dataclass(frozen=True, slots=True)
class SwizzleMode:
    """A mode: `swizzle` acts on byte addresses; an atom is `rows` rows of `row_bytes`.

    `sm_90_code` and `sm_100_code` are the values of the descriptor's mode field (None: there is none),
    `tensor_map_code` that of CUtensorMapSwizzle, `atom` the tag in CUTLASS's names (Layout_K_SW128_Atom).

    >>> SWIZZLE_MODES["64B"].sm_90_code, SWIZZLE_MODES["64B"].sm_100_code
    (2, 4)
    """

    name: str
    row_bytes: int
    swizzle: Swizzle
    sm_90_code: int | None
    sm_100_code: int
    tensor_map_code: int
    atom: str
    rows: int = 8

    @property
    def period_bytes(self) -> int:
        """The pattern repeats, and has to start at a multiple of, this many bytes (one chunk for none)."""
        return self.swizzle.period if self.swizzle.bits else CHUNK_BYTES

    def in_elements(self, bits: int) -> Swizzle:
        """The same swizzle of offsets counted in elements of `bits` bits, a power of two up to 128.

        Raises ShapeError for other widths.
        """
        if bits < 1 or bits & (bits - 1) or bits > 8 * CHUNK_BYTES:
            raise ShapeError(
                f"swizzle mode {self.name} in elements of {bits} bits: a power of two up to 128 is needed"
            )
        low = self.swizzle.base + 3 - (bits.bit_length() - 1)
        return Swizzle(self.swizzle.bits, low, self.swizzle.shift)

    def __str__(self) -> str:
        return self.name


_TABLE = (
    SwizzleMode("none", 16, Swizzle(0, 4, 3), 0, 0, 0, "INTER"),
    SwizzleMode("32B", 32, Swizzle(1, 4, 3), 3, 6, 1, "SW32"),
    SwizzleMode("64B", 64, Swizzle(2, 4, 3), 2, 4, 2, "SW64"),
    SwizzleMode("128B", 128, Swizzle(3, 4, 3), 1, 2, 3, "SW128"),
    SwizzleMode("128B_ATOM_32B", 128, Swizzle(2, 5, 2), None, 1, 4, "SW128_32B", rows=4),
)

SWIZZLE_MODES: Mapping[str, SwizzleMode] = MappingProxyType({mode.name: mode for mode in _TABLE})
"""Every mode by name, narrowest first; read only."""

HOPPER_MODES: tuple[SwizzleMode, ...] = tuple(mode for mode in _TABLE if mode.sm_90_code is not None)
"""The four modes of sm_90."""

_BY_BYTES: Mapping[int, SwizzleMode] = MappingProxyType(
    {mode.row_bytes if mode.swizzle.bits else 0: mode for mode in HOPPER_MODES}
)


def find_swizzle_mode(which: int | str | SwizzleMode) -> SwizzleMode:
    """A mode by its bytes (0, 32, 64 or 128) or its name; a SwizzleMode is returned as it is.

    Raises ShapeError for other numbers, UnknownNameError for other names.

    >>> find_swizzle_mode(0).name, find_swizzle_mode("32B").row_bytes
    ('none', 32)
    """
    if isinstance(which, SwizzleMode):
        return which
    if isinstance(which, str):
        named = SWIZZLE_MODES.get(which)
        if named is None:
            raise UnknownNameError("swizzle mode", which, SWIZZLE_MODES)
        return named
    check_type("find_swizzle_mode", which, int, "a name or a number of bytes")
    mode = _BY_BYTES.get(which)
    if mode is None:
        raise ShapeError(f"a swizzle of {shown(which)} bytes; the modes are 0 (none), 32, 64 and 128")
    return mode


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
