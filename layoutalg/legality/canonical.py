"""Canonical layouts: what a matrix descriptor can describe, and the descriptor of a layout that is one.

The idea.  A tensor core walks an operand in 16-byte chunks: inside an atom with strides that the swizzle mode
fixes, from atom to atom with two free offsets, LBO and SBO.  With T elements to a chunk and w = 2, 4, 8
chunks to a row of the 32, 64 and 128-byte modes (strides in elements, the swizzle outside):

    K-major   none       ((8,m),(T,c)):((T,SBO),(1,LBO))
              swizzled   ((8,m),(T,c)):((wT,SBO),(1,T))          c <= w; LBO is not used
    MN-major  none       ((T,m),(8,k)):((1,SBO),(T,LBO))
              swizzled   ((T,w,m),(8,k)):((1,T,LBO),(wT,SBO))    LBO and SBO trade places

`canonical_layout` builds these.  `recognize` goes back, from any layout that is the same FUNCTION: undo a
mode's swizzle at the coordinates where the free offsets show, read them off, and compare the layout so
described with the given one on every coordinate, in closed form.

>>> from layoutalg.arch import atom_layout
>>> from layoutalg.algebra import tile_to_shape
>>> tile = tile_to_shape(atom_layout("Layout_MN_SW128_Atom", "f16"), (128, 16))
>>> print(recognize(tile, "MN", "f16"))
MN-major 128B: LBO 1024, SBO 2048 bytes

Notes.  `element_address` is the definition, one element at a time, from the manual's table.  It shares
nothing with the layouts above; tests compare it with them, and with what an H200 read.  An H200 follows it
for parts of atoms too (N = 96 in mode 128B, MN-major); the manual has whole atoms alone, and so has
`recognize`.
An offset that no element needs is given as 0, the unused LBO of swizzled K-major layouts as 16 bytes, the 1
that the manual wants there.

Comparison with CuTe.  make_gmma_desc divides the layout's TYPE by the atom and compares strides, so it takes
one spelling of a layout; here spelling does not count.

Sources.  PTX ISA, wgmma.mma_async, "Canonical Layouts" and "Matrix Descriptor Format"; the mode with 32-byte
chunks: CUTLASS, include/cute/atom/mma_traits_sm100.hpp.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from layoutalg.arch import CHUNK_BYTES, HOPPER_MODES, Major, SmemDescriptor, SwizzleMode, find_swizzle_mode
from layoutalg.compose import normal_form
from layoutalg.decide import find_difference
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, UnsupportedError, check_choice, listed, shown
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, check_integers, innermost, size, whole_number

Free: TypeAlias = Literal["LBO", "SBO"]

UNUSED_LBO_BYTES = 16
"""The LBO field of swizzled K-major layouts, where the hardware does not read it."""

MAJORS: tuple[Major, ...] = ("K", "MN")


class CanonicalDigit(NamedTuple):
    """A digit of a canonical coordinate: along `axis` (0: M or N, 1: K), `unit` coordinates apart.

    `stride` is in elements, or the name of a free offset; `what` says it in words.
    """

    axis: int
    unit: int
    extent: int
    stride: int | Free
    what: str


@dataclass(frozen=True, slots=True)
class Canonical:
    """A canonical layout's parameters; `start_elems` is its first element's offset before the swizzle.

    >>> print(recognize(Layout(((8, 2), (8, 2)), ((8, 128), (1, 64))), "K", "f16"))
    K-major none: LBO 128, SBO 256 bytes
    """

    major: Major
    mode: SwizzleMode
    lbo_bytes: int
    sbo_bytes: int
    start_elems: int = 0

    def __str__(self) -> str:
        return f"{self.major}-major {self.mode}: LBO {self.lbo_bytes}, SBO {self.sbo_bytes} bytes"


def check_major(major: str) -> None:
    """Raise UnknownNameError for what is neither "K" nor "MN".

    >>> check_major("MN")
    """
    check_choice("major-ness", major, MAJORS)


def is_whole(mode: SwizzleMode, major: Major, bits: int, shape: tuple[int, int]) -> bool:
    """True when (M or N, K) elements of `bits` bits are made of whole atoms of the mode.

    Where K is contiguous an operand may take a part of each atom's rows, in whole chunks.

    >>> [is_whole(find_swizzle_mode(n), "MN", 16, (96, 16)) for n in (0, 32, 64, 128)]
    [True, True, True, False]
    """
    (mn, k), width = shape, 8 * mode.row_bytes // bits
    if min(shape) < 1:
        return False
    if major == "MN":
        return mn % width == 0 and k % mode.rows == 0
    chunk = 8 * CHUNK_BYTES // bits
    return mn % mode.rows == 0 and k % chunk == 0 and (k <= width or not mode.swizzle.bits)


def canonical_digits(
    mode: SwizzleMode, major: Major, bits: int, shape: tuple[int, int]
) -> tuple[CanonicalDigit, ...]:
    """The digits of a canonical (M or N, K) coordinate, fastest first along each axis.

    Raises ShapeError when `shape` is not made of whole atoms, or of whole chunks along K where K is
    contiguous.

    >>> [d.stride for d in canonical_digits(find_swizzle_mode(64), "K", 16, (64, 16))]
    [32, 'SBO', 1, 8]
    """
    mn, k = shape
    chunk = 8 * CHUNK_BYTES // bits
    width = 8 * mode.row_bytes // bits
    swizzled = mode.swizzle.bits > 0
    if not is_whole(mode, major, bits, shape):
        along_mn, along_k = (mode.rows, chunk) if major == "K" else (width, mode.rows)
        most = f" and at most {width}" if major == "K" and swizzled else ""
        raise ShapeError(
            f"({mn},{k}) elements of {bits} bits are no {major}-major layout of mode {mode}: a multiple of "
            f"{along_mn} along M or N, and a multiple of {along_k}{most} along K, are needed"
        )
    if major == "K":
        return (
            CanonicalDigit(0, 1, mode.rows, width, "rows of a core matrix"),
            CanonicalDigit(0, mode.rows, mn // mode.rows, "SBO", f"groups of {mode.rows} rows"),
            CanonicalDigit(1, 1, chunk, 1, "elements of a chunk"),
            CanonicalDigit(1, chunk, k // chunk, chunk if swizzled else "LBO", "chunks along K"),
        )
    return (
        CanonicalDigit(0, 1, chunk, 1, "elements of a chunk"),
        CanonicalDigit(0, chunk, width // chunk, chunk, "chunks of a row"),
        CanonicalDigit(0, width, mn // width, "LBO" if swizzled else "SBO", "rows along M or N"),
        CanonicalDigit(1, 1, mode.rows, width, "rows along K of an atom"),
        CanonicalDigit(
            1, mode.rows, k // mode.rows, "SBO" if swizzled else "LBO", f"groups of {mode.rows} along K"
        ),
    )


def _inner(digits: tuple[CanonicalDigit, ...], free: dict[Free, int]) -> Layout:
    """The digits as a layout, free offsets filled in (elements)."""
    parts = [[d for d in digits if d.axis == axis] for axis in (0, 1)]
    strides = {d: free[d.stride] if isinstance(d.stride, str) else d.stride for d in digits}
    return Layout(
        tuple(tuple(d.extent for d in part) for part in parts),
        tuple(tuple(strides[d] for d in part) for part in parts),
    )


def canonical_layout(
    mode: str | int | SwizzleMode,
    major: Major,
    element: str | DType,
    shape: tuple[int, int],
    *,
    lbo_bytes: int = 0,
    sbo_bytes: int = 0,
) -> AnyLayout:
    """The canonical layout (M or N, K) -> offset in elements, relative to an aligned start.

    Offsets that the form does not use are ignored.  Raises ShapeError for a shape that is not a pair, or not
    made of whole atoms, and for offsets that are not whole elements.

    >>> print(canonical_layout("128B", "K", "bf16", (64, 16), sbo_bytes=1024))
    Sw<3,3,3> o 0 o ((8,8),(8,2)):((64,512),(1,8))
    """
    mode, bits = find_swizzle_mode(mode), dtype(element).bits
    check_major(major)
    sides = listed("canonical_layout", shape, "a pair of integers (M or N, K)")
    if len(sides) != 2:
        raise ShapeError(f"canonical_layout of {shown(shape)}: a pair of integers (M or N, K) is needed")
    mn, k = (whole_number(side, "a side of canonical_layout") for side in sides)
    for name, offset in (("LBO", lbo_bytes), ("SBO", sbo_bytes)):
        if 8 * whole_number(offset, name) % bits:
            raise ShapeError(f"{name} of {offset} bytes is no whole number of {dtype(element)} elements")
    digits = canonical_digits(mode, major, bits, (mn, k))
    inner = _inner(digits, {"LBO": 8 * lbo_bytes // bits, "SBO": 8 * sbo_bytes // bits})
    return ComposedLayout(mode.in_elements(bits), 0, inner) if mode.swizzle.bits else inner


class Match(NamedTuple):
    """A layout compared with a mode: `found`, or the flat coordinate `witness` at which it departs."""

    found: Canonical | None
    witness: int | None


def match_mode(layout: AnyLayout, mode: SwizzleMode, major: Major, bits: int) -> Match:
    """`layout`, of two modes (M or N, K), against one mode: its parameters, or where it departs from it.

    The free offsets are read off where they show; the layout that they describe is then compared with the
    given one as a function.  Raises ShapeError for a shape that is not made of whole atoms.

    >>> match_mode(Layout((8, 16), (64, 1)), find_swizzle_mode(128), "K", 16).witness
    1
    """
    shape = operand_shape(layout)
    digits = canonical_digits(mode, major, bits, shape)
    swizzle = mode.in_elements(bits)
    start = swizzle(layout(0))
    if start < 0:
        return Match(None, 0)
    free: dict[Free, int] = {"LBO": 0, "SBO": 0}
    for digit in digits:
        flat = digit.unit if digit.axis == 0 else digit.unit * shape[0]
        step = swizzle(layout(flat)) - start if digit.extent > 1 else 0
        if isinstance(digit.stride, str):
            free[digit.stride] = step
        elif digit.extent > 1 and step != digit.stride:
            return Match(None, flat)
    described = ComposedLayout(swizzle, start, _inner(digits, free))
    witness = find_difference(layout, described)
    if witness is not None:
        return Match(None, witness)
    if any(stride * bits % 8 for stride in free.values()):
        return Match(None, next(d.unit for d in digits if isinstance(d.stride, str)))
    lbo_bytes, sbo_bytes = free["LBO"] * bits // 8, free["SBO"] * bits // 8
    if major == "K" and mode.swizzle.bits:
        lbo_bytes = UNUSED_LBO_BYTES
    return Match(Canonical(major, mode, lbo_bytes, sbo_bytes, start), None)


def recognize(
    layout: AnyLayout,
    major: Major,
    element: str | DType,
    modes: tuple[SwizzleMode, ...] = HOPPER_MODES,
) -> Canonical | None:
    """The canonical layout of one of `modes` that `layout` is, as a function, or None.

    `layout` maps (M or N, K) to offsets in elements from a start that all modes' patterns are aligned with.
    Raises ShapeError when it has not two modes.

    >>> print(recognize(Layout((8, 16), (64, 1)), "K", "f16"))
    None
    """
    check_major(major)
    bits, shape = dtype(element).bits, operand_shape(layout)
    for mode in reversed(modes):
        match = match_mode(layout, mode, major, bits).found if is_whole(mode, major, bits, shape) else None
        if match is not None:
            return match
    return None


def operand_shape(layout: AnyLayout) -> tuple[int, int]:
    """(size along M or N, size along K) of a layout of two modes; ShapeError for any other rank.

    >>> operand_shape(Layout(((8, 2), 16)))
    (16, 16)
    """
    check_integers("an operand of wgmma", layout)
    inner = innermost(layout)
    if not isinstance(inner.shape, tuple) or len(inner.shape) != 2:
        raise ShapeError(f"operand {layout}: two modes (M or N, K) are needed")
    return size(inner[0]), size(inner[1])


def restrict(layout: AnyLayout, offset: int, box: Layout) -> AnyLayout:
    """layout o (offset + box): the layout seen from a part of its flat coordinates, in its simplest form.

    >>> print(restrict(Layout((16, 32), (32, 1)), 16 * 8, Layout((16, 8), (1, 16))))
    Sw<0,0,0> o 8 o (16,8):(32,1)
    """
    if isinstance(layout, Layout):
        return normal_form(ComposedLayout(layout, offset, box))
    return normal_form(ComposedLayout(layout.outer, layout.offset, restrict(layout.inner, offset, box)))


def element_address(descriptor: SmemDescriptor, major: Major, element: str | DType, row: int, k: int) -> int:
    """The byte address that a tensor core reads for element (row, k) of an operand: the definition.

    `row` counts along M or N.  The address is computed first, then its bits are XORed; a base offset moves
    the pattern by as many times 128 bytes.  Raises UnsupportedError for elements narrower than a byte and
    for absolute leading dimensions.

    Source: PTX ISA, wgmma.mma_async, "Canonical Layouts"; MEASURED on an H200, base offsets, offsets that are
    no multiple of the pattern and parts of atoms included: tests/data/h200_wgmma_reads.jsonl.

    >>> d = SmemDescriptor(start_bytes=1024, lbo_bytes=16, sbo_bytes=1024, mode="128B")
    >>> element_address(d, "K", "f16", 1, 0), element_address(d, "K", "f16", 9, 8)
    (1168, 2176)
    """
    check_major(major)
    element_bytes = dtype(element).nbytes
    if not element_bytes or descriptor.lbo_absolute:
        raise UnsupportedError(
            f"addresses of {dtype(element)} by {descriptor}: whole bytes and offsets alone"
        )
    mode, lbo, sbo = descriptor.swizzle_mode, descriptor.lbo_bytes, descriptor.sbo_bytes
    width, rows = mode.row_bytes, mode.rows
    swizzled = mode.swizzle.bits > 0
    if major == "K":
        chunk, byte = divmod(k * element_bytes, CHUNK_BYTES)
        offset = row % rows * width + row // rows * sbo + chunk * (CHUNK_BYTES if swizzled else lbo) + byte
    else:
        along, byte = divmod(row * element_bytes, width)
        outer, inner = (lbo, sbo) if swizzled else (sbo, lbo)
        offset = byte + along * outer + k % rows * width + k // rows * inner
    phase = 128 * descriptor.base_offset
    address: int = mode.swizzle(descriptor.start_bytes + offset - phase) + phase
    return address
