"""Patterns: accesses as subspaces of a tile's words, and constraints on a layout as further accesses.

The idea.  Number the words of a tile in storage order (a word is one bank wide); the bits of that number are
coordinates over F2.  A linear access moves along fixed vectors: those of its values, which must be the
lowest ones (a vector is contiguous), and those of its lanes.  The footprint of a phase is the span of the
words that its vector and its lanes move along:

    f32 (32,128), row-major, lane l reads row l        2^7 2^8 2^9 2^10 2^11
    the same, 8 lanes of 16 bytes down the rows        2^0 2^1, 2^7 2^8 2^9

Elements narrower than a word: their bits within a word are dropped, and no layout here touches them.

Constraints.  A constraint says that an access which nobody makes would also be possible on the layout:

    vectors stay whole     a lane could read N contiguous bytes anywhere        ld.shared.bN, one lane
    rows are stored whole  a warp could store a row of all banks at once        st.shared, 128 bytes

The first keeps the low bits of an offset where they are.  The second says that the kernel K of the bank map
meets the 32 words of a row in 0 alone, so K is a graph over the rows, { (N row, row) }, and the layout is
bank ^= N row within each row.  As accesses, they take part in the search, the certificate and its check
without a word about them there.

>>> from layoutalg.arch import ARCHS
>>> from layoutalg.dtype import dtype
>>> asked = with_constraints((64, 64), ["ldmatrix.x4"], dtype("f16"), "row", 16, True, ARCHS["sm_90"])
>>> [a if isinstance(a, str) else f"{a.op} {a.tv}" for a in asked]
['ldmatrix.x4', 'ld.shared.b128 (1,8,(8,64)):(0,64,(512,1))', 'st.shared.b32 ((32,64),2):((128,1),64)']
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, TmaAccess, access_extent, addressing
from layoutalg.arch import Arch, find_instruction
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ArgumentTypeError, NotLinearError, ShapeError, UnsupportedError
from layoutalg.f2 import affine_f2, apply, basis, rank, to_f2
from layoutalg.layout import IntTuple, Layout, concat, modes, product, to_text


@dataclass(frozen=True, slots=True)
class BitTile:
    """A tile in plain storage order: log2 of its elements, of their bits, of a bank's bits, of the banks."""

    base: Layout
    element_bits: int
    log_width: int
    log_bank: int
    bank_bits: int

    @property
    def word_bits(self) -> int:
        """Coordinates of words: log2 of the words in the tile."""
        return max(0, self.element_bits + self.word_shift)

    @property
    def word_shift(self) -> int:
        """Word bit minus element bit of the same coordinate: negative where a word holds several elements."""
        return self.log_width - self.log_bank

    def words(self, element: int) -> int:
        """The word vector of an element vector, in storage order."""
        return element << self.log_width >> self.log_bank


@dataclass(frozen=True, slots=True)
class Pattern:
    """An access on a tile, over the words in storage order.

    `footprint` is a basis of the words that a phase reaches, `reach` of those that the whole access reaches;
    `vector_bits` is log2 of the words that a lane reads at once; `repeats` is whether lanes of an
    instruction without broadcast read a word twice.
    """

    footprint: tuple[int, ...]
    reach: tuple[int, ...]
    vector_bits: int
    repeats: bool


def make_tile(shape: IntTuple, width_bits: int, order: Order, machine: Arch) -> BitTile:
    """The tile of a power-of-two shape with elements of `width_bits` bits; raises NotLinearError.

    >>> from layoutalg.arch import ARCHS
    >>> make_tile((32, 128), 16, "row", ARCHS["sm_90"]).word_bits
    11
    """
    base = storage_layout(shape, order)
    size = product(shape)
    if size & (size - 1):
        raise NotLinearError(f"shape {to_text(shape)} has {size} elements, which is not a power of two")
    log_bank = (8 * machine.bank_bytes).bit_length() - 1
    return BitTile(
        base, size.bit_length() - 1, width_bits.bit_length() - 1, log_bank, machine.banks.bit_length() - 1
    )


def make_patterns(
    tile: BitTile, accesses: Sequence[Access], element: DType, machine: Arch
) -> tuple[Pattern, ...]:
    """The patterns of linear accesses of shared memory.

    Raises NotLinearError for an access that is not linear over F2, AlignmentError when vectors do not lie
    along the contiguous mode (naming two accesses whose vectors lie in different directions), and
    UnsupportedError for a lane predicate or global memory.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> tile = make_tile((32, 128), 32, "row", ARCHS["sm_90"])
    >>> column = Access.along("ld.shared.b128", tile.base, "f32", "col")
    >>> make_patterns(tile, [column], dtype("f32"), ARCHS["sm_90"])[0].footprint
    (1, 2, 128, 256, 512)
    """
    return tuple(_pattern(tile, accesses, i, element, machine) for i in range(len(accesses)))


def check_access(access: Access, element: DType, machine: Arch) -> None:
    """Refuse accesses that synthesis does not take: predicates, other elements, global memory, odd bases.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> check_access(Access("ld.shared.b32", Layout((32, 1)), dtype("f32")), dtype("f32"), ARCHS["sm_90"])
    """
    rule = find_instruction(access.op, machine)
    if rule.space != "shared":
        raise UnsupportedError(f"{access.op} addresses global memory; synthesis places shared memory")
    if access.active is not None:
        raise UnsupportedError(f"{access.op} has a guard or a lane predicate; it takes whole warps")
    if access.element.bits != element.bits:
        raise ShapeError(f"{access.op} reads {access.element}, the tile holds {element}: their widths differ")
    unit_bytes = max(rule.width_bytes, machine.bank_bytes)
    if access.base_bytes % unit_bytes:
        raise UnsupportedError(
            f"base_bytes {access.base_bytes} of {access.op}: synthesis needs a multiple of {unit_bytes}"
        )


def _pattern(tile: BitTile, accesses: Sequence[Access], i: int, element: DType, machine: Arch) -> Pattern:
    check_access(accesses[i], element, machine)
    rule = find_instruction(accesses[i].op, machine)
    access = addressing(accesses[i], rule, machine)
    extent = access_extent(tile.base, access, rule, machine)
    threads, vector, rest = _moves(tile, access, extent.threads, extent.elems)
    if vector != _units(vector):
        others = (a for a in accesses if a is not accesses[i] and _is_along(tile, a, machine))
        along = next((f", as those of {a.op} with tv {a.tv} do" for a in others), "")
        raise AlignmentError(
            f"the vectors of {access.op} with tv {access.tv} do not lie along the contiguous mode of "
            f"{tile.base}{along}: vectors of one direction only can be contiguous, along the last mode for "
            f"order 'row', the first for 'col'",
            required_bytes=rule.width_bytes,
        )
    if any(column % extent.elems for column in threads + rest):
        raise AlignmentError(
            f"{access.op} with tv {access.tv} does not start at multiples of {extent.elems} elements of "
            f"{tile.base}",
            required_bytes=rule.width_bytes,
        )
    inside = max(0, (8 * rule.width_bytes).bit_length() - 1 - tile.log_bank)
    words = [tile.words(column) for column in rule.phase_columns(threads)]
    repeats = not rule.broadcast and rank(words) < len(words)
    within = _units(range(inside))
    reach = basis(within + [tile.words(column) for column in threads + vector + rest])
    return Pattern(basis(within + words), reach, inside, repeats)


def _moves(tile: BitTile, access: Access, threads: int, elems: int) -> tuple[list[int], list[int], list[int]]:
    """Storage elements that the bits of thread, vector and (register, iteration) move by."""
    _, columns = affine_f2(access.tv)
    storage = to_f2(tile.base)
    moved = [apply(storage, column) for column in columns]
    first = threads.bit_length() - 1
    last = first + elems.bit_length() - 1
    return moved[:first], moved[first:last], moved[last:]


def _units(vector: Sequence[object]) -> list[int]:
    return [1 << j for j in range(len(vector))]


def _is_along(tile: BitTile, access: Access, machine: Arch) -> bool:
    """True when the access has vectors, and they lie along the contiguous mode."""
    rule = find_instruction(access.op, machine)
    extent = access_extent(tile.base, access, rule, machine)
    vector = _moves(tile, access, extent.threads, extent.elems)[1]
    return bool(vector) and vector == _units(vector)


def with_constraints(
    shape: IntTuple,
    accesses: Iterable[Access | TmaAccess | str],
    element: DType,
    order: Order,
    vector_bytes: int,
    whole_rows: bool,
    machine: Arch,
) -> list[Access | TmaAccess | str]:
    """The accesses, and one more for each constraint.

    Raises UnsupportedError for a vector that no load has, AlignmentError when the contiguous mode is no
    multiple of it.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> with_constraints((8, 8), ["ldmatrix.x1"], dtype("f16"), "row", 0, False, ARCHS["sm_90"])
    ['ldmatrix.x1']
    """
    if isinstance(accesses, (str, Access, TmaAccess)):
        raise ArgumentTypeError(f"accesses is the single {accesses!r}; a list of accesses is needed")
    out = list(accesses)
    if vector_bytes:
        op = f"ld.shared.b{8 * vector_bytes}"
        if op not in machine.instructions:
            raise UnsupportedError(
                f"vector_bytes is {vector_bytes!r}; vectors that a lane can read have 1, 2, 4, 8 or 16 bytes"
            )
        access = Access.along(op, storage_layout(shape, order), element, order)
        threads, values = modes(access.tv)
        out.append(Access(op, concat(Layout(1, 0), values, threads), element))
    if whole_rows:
        width = max(8 * machine.bank_bytes, element.bits)
        out.append(Access.along(f"st.shared.b{width}", storage_layout(shape, order), element, order))
    return out
