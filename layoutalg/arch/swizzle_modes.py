"""The swizzle modes of Hopper's shared memory: what TMA writes, wgmma reads, and the tensor map names.

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
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.errors import ShapeError, UnknownNameError, check_type, shown
from layoutalg.layout import Swizzle

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
