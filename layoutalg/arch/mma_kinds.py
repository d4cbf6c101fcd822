"""Products that read shared memory: wgmma of sm_90 and tcgen05 of sm_100, their types, shapes and places.

tcgen05.mma of sm_100: kinds, shapes, where the accumulator lies in tensor memory, scale factors of blocks.

The idea.  On Blackwell one thread starts a product, A and B lie in shared memory (A in tensor memory as
well), and D lies in tensor memory (TMEM): 128 lanes by 512 columns of 32 bits per SM, of which warp w of a
warpgroup reaches lanes 32 w to 32 w + 31.  Row i, column j of D goes to a lane and a column by one of seven
layouts, which depend on M, on how many CTAs work together, and on .ws:

    D   M = 128                 lane i                      column j
    F   M = 64                  lane 32 (i / 16) + i % 16   column j       half of the lanes are idle
    E   M = 64, .ws             lane i + 64 (j / (N/2))     column j mod N/2
    G   M = 32, .ws             lane i + 32 (j / (N/4))     column j mod N/4
    A   M = 256, two CTAs       as D, rows 128 and on in the second CTA
    B   M = 128, two CTAs       64 rows per CTA, as E        (C, of sparse A: as F)

Here an accumulator is a layout (row, column) -> lane + 128 column.

>>> print(*tmem_accumulator(64, 128))
F ((16,4),128):((1,32),128)
>>> kind = TCGEN05_KINDS["mxf4nvf4"]
>>> kind.blocks, kind.rows(ctas=2), kind.columns(ctas=2)[:3]
((('ue8m0', 32), ('ue8m0', 16), ('ue4m3', 16)), (128, 256), (16, 32, 48))

Notes.  All of this is documented, none of it measured.  CUTLASS asserts a part of these shapes
(layoutalg.atoms.tensor_memory).  K of 96, of mxf4 on sm_103, is left out.  Kernels for it are not generated.

Source: PTX ISA 9.0, 9.7.16.2.1 (matrix shapes, table 39), 9.7.16.2.3 (data movement shapes), 9.7.16.10.1
(transposition, table 52), 9.7.16.10.5 (data path layouts), 9.7.16 (block scaling); CUTLASS,
include/cutlass/detail/sm100_blockscaled_layout.hpp (the atom of scale factors).

wgmma.mma_async: the types, shapes and operand sources that exist.

The idea.  D (64 x N) += A (64 x K) B (K x N), where K is 32 bytes of operand, N steps by 8 (by 16 past 32 for
integers), B lies in shared memory and A there or in registers.  Only 16-bit operands in shared memory may be
M-major or N-major; everything else is K-major.

>>> WGMMA_TYPES["bf16"].k, WGMMA_TYPES["s8"].n_sizes[:6], WGMMA_TYPES["tf32"].transposable
(16, (8, 16, 24, 32, 48, 64), False)

Source: PTX ISA, "Asynchronous Warpgroup Level Matrix Multiply-Accumulate Operation using
wgmma.mma_async", matrix shapes, syntax and description; integer N of 240 and 256: CUTLASS,
include/cute/arch/mma_sm90_gmma.hpp.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Literal, TypeAlias

from layoutalg.arch.model import Provenance
from layoutalg.arch.swizzle_modes import HOPPER_MODES, Major, SwizzleMode
from layoutalg.errors import DivisibilityError, UnsupportedError
from layoutalg.layout import Layout, span

WGMMA_M = 64
"""Rows of A and D of one instruction."""


@dataclass(frozen=True, slots=True)
class WgmmaType:
    """The limits that a type of A sets: the types of B, the accumulators, the sizes along N and K."""

    name: str
    k: int
    b_types: tuple[str, ...]
    accumulators: tuple[str, ...]
    n_sizes: tuple[int, ...]
    transposable: bool = False
    mn_modes: tuple[SwizzleMode, ...] = HOPPER_MODES

    def modes(self, major: Major) -> tuple[SwizzleMode, ...]:
        """The swizzle modes of an operand of this major-ness."""
        return HOPPER_MODES if major == "K" else self.mn_modes


_EVERY_8 = tuple(range(8, 257, 8))
_INTEGER = (8, 16, 24, *range(32, 257, 16))

_WGMMA = (
    WgmmaType("f16", 16, ("f16",), ("f32", "f16"), _EVERY_8, transposable=True),
    WgmmaType("bf16", 16, ("bf16",), ("f32",), _EVERY_8, transposable=True),
    WgmmaType("tf32", 8, ("tf32",), ("f32",), _EVERY_8),
    WgmmaType("e4m3", 32, ("e4m3", "e5m2"), ("f32", "f16"), _EVERY_8),
    WgmmaType("e5m2", 32, ("e4m3", "e5m2"), ("f32", "f16"), _EVERY_8),
    WgmmaType("s8", 32, ("s8", "u8"), ("s32",), _INTEGER),
    WgmmaType("u8", 32, ("s8", "u8"), ("s32",), _INTEGER),
    WgmmaType("b1", 256, ("b1",), ("s32",), _INTEGER),
)

WGMMA_TYPES: Mapping[str, WgmmaType] = MappingProxyType({t.name: t for t in _WGMMA})
"""By the type of A, read only."""


TMEM_LANES = 128
"""Lanes of the tensor memory of an SM."""

TMEM_COLUMNS = 512
"""Columns of 32 bits of each lane."""

DataPath: TypeAlias = Literal["A", "B", "D", "E", "F", "G"]
"""The data path: the lane and column of tensor memory that an element of a dense product goes to."""


def sizes_text(sizes: Sequence[object]) -> str:
    """Accepted values in words: all of a few, else the first and the last.

    >>> sizes_text((64, 128)), sizes_text(range(8, 257, 8))
    ('64, 128', '8, 16, 24, 32, 40, 48, ..., 256')
    """
    listed = [*map(str, sizes)]
    return ", ".join(listed if len(listed) < 8 else [*listed[:6], "...", listed[-1]])


@dataclass(frozen=True, slots=True)
class Tcgen05Kind:
    """A .kind of tcgen05.mma: types of operands and accumulator, extent along K, blocks that are scaled.

    `blocks` are (type of a scale factor, elements along K that share one); none where nothing is scaled.
    `machines` are the architectures that have it: ptxas 13.0 assembles i8 for sm_100a alone.
    """

    name: str
    operands: tuple[str, ...]
    accumulators: tuple[str, ...]
    k: int
    blocks: tuple[tuple[str, int], ...] = ()
    machines: tuple[str, ...] = ("sm_100", "sm_103")
    provenance: Provenance = "documented"
    source: str = "PTX ISA 9.0, 9.7.16.2.1, table 39"

    @property
    def ptx(self) -> str:
        """The instruction's name."""
        return f"tcgen05.mma.kind::{self.name}{'.block_scale' if self.blocks else ''}"

    @property
    def transposable(self) -> bool:
        """True where A and B in shared memory may be M-major and N-major."""
        return self.k <= 32

    def multiplies(self, a: str, b: str, accumulator: str) -> bool:
        """True where A and B of these types add up to the accumulator: f16 of f16 alone.

        >>> [TCGEN05_KINDS["f16"].multiplies("bf16", "f16", d) for d in ("f32", "f16")]
        [True, False]
        """
        exists = a in self.operands and b in self.operands and accumulator in self.accumulators
        return exists and not (accumulator == "f16" and "bf16" in (a, b))

    def rows(self, ctas: int = 1, *, ws: bool = False) -> tuple[int, ...]:
        """M of one CTA or of two; `ws` is the weight-stationary form, which one CTA has without blocks.

        >>> TCGEN05_KINDS["f16"].rows(), TCGEN05_KINDS["mxf4"].rows(), TCGEN05_KINDS["mxf4"].rows(ws=True)
        ((64, 128), (128,), ())
        """
        if ws:
            return () if ctas == 2 or self.blocks else (32, 64, 128)
        return (128, 256) if ctas == 2 else (128,) if self.blocks else (64, 128)

    def columns(self, ctas: int = 1, *, ws: bool = False, b_major: Major = "K") -> tuple[int, ...]:
        """N of one CTA or of two; an N-major B of 8-bit elements steps twice as far.

        >>> TCGEN05_KINDS["i8"].columns()[:6], TCGEN05_KINDS["f8f6f4"].columns(2, b_major="MN")[:2]
        ((8, 16, 24, 32, 48, 64), (32, 64))
        """
        if ws:
            return 64, 128, 256
        step = 8 * ctas * (2 if self.k == 32 and b_major == "MN" else 1)
        if self.name == "i8" and b_major == "K":
            return (8, 16, 24, *range(32, 257, 16)) if ctas == 1 else tuple(range(32, 257, 32))
        return tuple(range(step, 257, step))


_NARROW = ("e4m3", "e5m2", "e2m3", "e3m2", "e2m1")

_TABLE = (
    Tcgen05Kind("f16", ("f16", "bf16"), ("f16", "f32"), 16),
    Tcgen05Kind("tf32", ("tf32",), ("f32",), 8),
    Tcgen05Kind("f8f6f4", _NARROW, ("f16", "f32"), 32),
    Tcgen05Kind("i8", ("s8", "u8"), ("s32",), 32, machines=("sm_100",)),
    Tcgen05Kind("mxf8f6f4", _NARROW, ("f32",), 32, (("ue8m0", 32),)),
    Tcgen05Kind("mxf4", ("e2m1",), ("f32",), 64, (("ue8m0", 32),)),
    Tcgen05Kind("mxf4nvf4", ("e2m1",), ("f32",), 64, (("ue8m0", 32), ("ue8m0", 16), ("ue4m3", 16))),
)

TCGEN05_KINDS: Mapping[str, Tcgen05Kind] = MappingProxyType({kind.name: kind for kind in _TABLE})
"""Every kind by name, read only."""


INSTRUCTION_FIELDS: Mapping[str, tuple[int, int]] = {
    "d": (4, 2), "a": (7, 3), "b": (10, 3), "a_negated": (13, 1), "b_negated": (14, 1), "a_major": (15, 1),
    "b_major": (16, 1), "n": (17, 6), "scale": (23, 1), "m": (24, 5),
}  # fmt: skip
"""Lowest bit and number of bits of the instruction descriptor's fields; scales of blocks are of `scale`."""

_CODES = {
    "f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5,
}  # fmt: skip
"""The types of A and B; e2m1 is 1 where it is packed."""

_SUMS = {"f16": 0, "f32": 1, "s32": 2}


def instruction_descriptor(
    kind: Tcgen05Kind,
    types: tuple[str, str, str],
    m: int,
    n: int,
    *,
    majors: tuple[Major, Major] = ("K", "K"),
    scale: str = "",
) -> int:
    """The 32 bits that say types and shape of a dense tcgen05.mma; `types` are those of A, B and D.

    `scale` is the type of the scale factors.  Nothing is negated, and the identifiers of factors are 0.
    Source: PTX ISA 9.0, 9.7.16.4.2, tables 42 to 44.

    >>> hex(instruction_descriptor(TCGEN05_KINDS["f16"], ("bf16", "bf16", "f32"), 128, 256))
    '0x8400490'
    """
    a, b, d = types
    fields = {
        "a": 1 if kind.k == 64 else _CODES[a], "b": 1 if kind.k == 64 else _CODES[b],
        "d": 0 if kind.blocks else _SUMS[d], "n": n // 8, "m": m // 16, "scale": int(scale == "ue8m0"),
        "a_major": int(majors[0] == "MN"), "b_major": int(majors[1] == "MN"),
    }  # fmt: skip
    return sum(value << INSTRUCTION_FIELDS[name][0] for name, value in fields.items())


def tmem_accumulator(m: int, n: int, *, ctas: int = 1, ws: bool = False) -> tuple[DataPath, Layout]:
    """The data path of a dense M x N accumulator of 32 bits; (row, column) of one CTA -> lane + 128 column.

    Raises UnsupportedError for rows that no product has, DivisibilityError where N does not fold.

    >>> print(*tmem_accumulator(256, 64, ctas=2))
    A (128,64):(1,128)
    >>> print(*tmem_accumulator(32, 64, ws=True))
    G (32,(16,4)):(1,(128,32))
    """
    path: dict[tuple[int, int, bool], DataPath] = {
        (128, 1, False): "D", (128, 1, True): "D", (64, 1, False): "F", (64, 1, True): "E",
        (32, 1, True): "G", (256, 2, False): "A", (128, 2, False): "B",
    }  # fmt: skip
    letter = path.get((m, ctas, ws))
    if letter is None:
        raise UnsupportedError(
            f"no accumulator of {m} rows in {ctas} CTAs{' with .ws' if ws else ''}: one CTA has 64 or 128, "
            f"32 too with .ws, and two have 128 or 256"
        )
    folds = {"B": 2, "E": 2, "G": 4}.get(letter, 1)
    if n % folds:
        raise DivisibilityError(f"data path {letter} folds {n} columns {folds} times", lhs=n, rhs=folds)
    if letter == "F":
        return letter, Layout(((16, 4), n), ((1, 32), TMEM_LANES))
    if folds == 1:
        return letter, Layout((128, n), (1, TMEM_LANES))
    rows = TMEM_LANES // folds
    return letter, Layout((rows, (n // folds, folds)), (1, (TMEM_LANES, rows)))


def tmem_columns(layout: Layout) -> int:
    """Columns that an accumulator of 32 bits takes, of the 512; allocations are powers of two from 32 on.

    >>> tmem_columns(tmem_accumulator(64, 96, ws=True)[1])
    48
    """
    return span(layout)[1] // TMEM_LANES + 1
