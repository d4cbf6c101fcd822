"""MMAAtom and CopyAtom: one tensor-core or copy instruction as data, the way CuTe's traits describe it.

The idea.  A warp-wide D = A B + C spreads three small matrices over the registers of its threads.  Which
thread holds what is one layout an operand, from (thread, value) to the flat index of the matrix, columns
first: A is M x K, B is N x K, C and D are M x N.

    SM80_16x8x16_F32F16F16F32_TN        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
    A   ((4,8),(2,2,2)):((32,1),(16,8,128))     thread 5 = (1,1), value 0:  32 + 1, row 1 of column 2
    B   ((4,8),(2,2)):((16,1),(8,64))
    C   ((4,8),(2,2)):((32,1),(16,8))

A copy instruction moves bits: (thread, value) of its source and of its destination are both mapped to bits
of what is moved, so that the pair says which thread ends up with whose bits.  ldmatrix reads a row of 128
bits in each thread and leaves 32 bits of four rows:

    SM75_U32x4_LDSM_N    source (32,128):(128,1)    destination (32,(32,4)):(32,(1,1024))

The atoms themselves are facts and live in layoutalg.arch: `find_mma_atom`, `find_copy_atom`.

>>> from layoutalg.atoms import find_mma_atom
>>> atom = find_mma_atom("SM80_16x8x16_F32F16F16F32_TN")
>>> divmod(atom.a_tv(5, 0), 16), atom.registers("A"), atom.ptx
((2, 1), 4, 'mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32')

Notes.  Where an operand is read from shared memory (wgmma), its layout gives every thread all of it, as in
CuTe.

Source: CUTLASS, include/cute/atom/mma_traits.hpp and copy_traits.hpp; PTX ISA, "Warp-level matrix
instructions" and "Asynchronous warpgroup-level matrix instructions".
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, TypeAlias

from layoutalg.algebra import upcast
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ArgumentTypeError, DivisibilityError, check_choice
from layoutalg.layout import Layout, layout_size, modes
from layoutalg.notebook import Shown

Operand: TypeAlias = Literal["A", "B", "C"]
"""An operand of D = A B + C; D lies where C does."""

OperandPlace: TypeAlias = Literal["registers", "shared", "tensor"]
"""The place where an instruction finds an operand: registers, shared memory or tensor memory."""

Arithmetic: TypeAlias = Literal["multiply", "saturate", "gauss", "xor.popc", "and.popc"]
"""The summands: products; products into a sum that stops at the ends of s32; products of complex numbers
in three real multiplications, whose sums are kept apart; bits of a ^ b; bits of a & b."""


class MMATypes(NamedTuple):
    """Element types of D, A, B and C."""

    d: DType
    a: DType
    b: DType
    c: DType


class BlockScales(NamedTuple):
    """The scale factors of A and B: their type, the elements along K that share one, and where they lie.

    CuTe's SFALayout and SFBLayout, (thread, element along K) -> m + M k, where factors lie in registers; in
    tensor memory CuTe's fragments, (row and its copies, element along K) -> lane + 128 byte.
    """

    dtype: DType
    block: int
    a: Layout
    b: Layout


@dataclass(frozen=True, slots=True)
class MMAAtom(Shown):
    """A matrix instruction; its layouts are CuTe's ThrID, ALayout, BLayout and CLayout.

    `thr_layout` maps the atom's own thread numbers to threads of the warp or warpgroup; the others map
    (thread, value) to the flat index of an M x K, N x K and M x N matrix.  `arch` is the first architecture
    that has it, `ptx` its mnemonic, issued `instructions` times.  `a_in`, `b_in` and `c_in` say where A, B
    and C are; tcgen05 is started by a thread for one CTA or two, and these are its threads, as in CuTe.
    `scales` are those of blocks along K; `in_bytes` says that narrower elements take a byte each.  With
    `sparsity` 2, A holds two of any four elements along K, and `e_tv` places the metadata that says which.
    """

    name: str
    shape_mnk: tuple[int, int, int]
    thr_layout: Layout
    a_tv: Layout
    b_tv: Layout
    c_tv: Layout
    dtypes: MMATypes
    source: str
    arch: str
    ptx: str
    arithmetic: Arithmetic = "multiply"
    instructions: int = 1
    a_in: OperandPlace = "registers"
    b_in: OperandPlace = "registers"
    sparsity: int = 1
    e_tv: Layout | None = None
    c_in: OperandPlace = "registers"
    scales: BlockScales | None = None
    in_bytes: bool = False

    @property
    def threads(self) -> int:
        """Threads that take part: 32 of a warp, 8 of a quad pair, 128 of a warpgroup; CTAs of tcgen05."""
        return layout_size(self.thr_layout)

    def tv(self, operand: Operand) -> Layout:
        """(thread, value) -> flat index of the operand's matrix."""
        layouts = {"A": self.a_tv, "B": self.b_tv, "C": self.c_tv}
        return layouts[check_operand(operand)]

    def extents(self, operand: Operand) -> tuple[int, int]:
        """Rows and columns of the operand's matrix: (M, K), (N, K) or (M, N)."""
        m, n, k = self.shape_mnk
        return {"A": (m, k), "B": (n, k), "C": (m, n)}[check_operand(operand)]

    def dtype(self, operand: Operand) -> DType:
        """Element type of the operand."""
        return {"A": self.dtypes.a, "B": self.dtypes.b, "C": self.dtypes.c}[check_operand(operand)]

    def values(self, operand: Operand) -> int:
        """Elements of the operand that a thread holds, or sees where they lie in shared memory."""
        return layout_size(modes(self.tv(operand))[1])

    def place(self, operand: Operand) -> OperandPlace:
        """The place of the operand."""
        places: dict[Operand, OperandPlace] = {"A": self.a_in, "B": self.b_in, "C": self.c_in}
        return places[check_operand(operand)]

    def element_bits(self, operand: Operand) -> int:
        """Bits that an element takes: of A and B a byte at least where the atom's `in_bytes` says so."""
        bits = self.dtype(operand).bits
        return max(8, bits) if self.in_bytes and operand != "C" else bits

    def registers(self, operand: Operand) -> int:
        """32-bit registers that the operand takes in each thread: 0 for one in shared or tensor memory."""
        if self.place(operand) != "registers":
            return 0
        bits = self.element_bits(operand) * self.values(operand)
        if operand == "A":
            bits //= self.sparsity
        elif operand == "C" and self.arithmetic == "gauss":
            bits = bits // 2 * 3
        return -(-bits // 32)

    def __str__(self) -> str:
        return self.name


def check_operand(operand: Operand) -> Operand:
    """`operand`, if it is "A", "B" or "C"; else UnknownNameError.

    >>> check_operand("A")
    'A'
    """
    check_choice("operand", operand, ("A", "B", "C"))
    return operand


@dataclass(frozen=True, slots=True)
class CopyAtom(Shown):
    """A copy instruction; its layouts are CuTe's ThrID, SrcLayout, DstLayout and RefLayout.

    The last three map (thread, value) to BITS of what one instruction moves, values being single bits;
    `ref_tv` is the side that a TiledCopy counts threads and values by.  `src_op` and `dst_op` name the
    access of each side as layoutalg.arch.INSTRUCTIONS does, "" for registers and where the space is open.
    `element` is the value type of a Copy_Atom<Op, T>, None of an instruction alone.

    >>> from layoutalg.atoms import find_copy_atom
    >>> str(find_copy_atom("SM75_U32x4_LDSM_N").value_layout("dst", "f16"))
    '(32,(2,4)):(2,(1,64))'
    """

    name: str
    thr_layout: Layout
    src_tv: Layout
    dst_tv: Layout
    ref_tv: Layout
    source: str
    arch: str
    ptx: str
    src_op: str = ""
    dst_op: str = ""
    element: DType | None = None

    @property
    def threads(self) -> int:
        """Threads that take part."""
        return layout_size(self.thr_layout)

    def value_layout(self, side: Literal["src", "dst", "ref"], element: str | DType | None = None) -> Layout:
        """The layout of one side with whole elements as values: CuTe's ValLayoutSrc, -Dst and -Ref.

        Raises UnknownNameError, DivisibilityError for elements wider than what stays together, and as
        `value_type` does.
        """
        return self.bits_as(side, self.value_type(element).bits)

    def value_type(self, element: str | DType | None = None) -> DType:
        """The element type: the one that is given, else that of the Copy_Atom.

        Raises ArgumentTypeError where there is none, or two that differ.

        >>> from layoutalg.atoms import find_copy_atom
        >>> str(find_copy_atom("Copy_Atom<UniversalCopy<uint128_t>, half_t>").value_type())
        'f16'
        """
        wanted = None if element is None else dtype(element)
        kind = wanted or self.element
        if kind is None:
            raise ArgumentTypeError(f"{self} has no element type: give it, or Copy_Atom<{self}, half_t>")
        if self.element is not None and kind != self.element:
            raise ArgumentTypeError(f"Copy_Atom<{self}, {self.element}> is not of elements of {kind}")
        return kind

    def bits_as(self, side: Literal["src", "dst", "ref"], width_bits: int) -> Layout:
        """The layout of one side with groups of `width_bits` bits as values; raises as `value_layout`."""
        layouts = {"src": self.src_tv, "dst": self.dst_tv, "ref": self.ref_tv}
        check_choice("side of a copy", side, layouts)
        layout = upcast(layouts[side], width_bits)
        is_whole = layout_size(layout) * width_bits == layout_size(layouts[side])
        if layout_size(modes(layout)[0]) != self.threads or not is_whole:
            raise DivisibilityError(
                f"{self} in elements of {width_bits} bits: its {side}, {layouts[side]}, splits them",
                lhs=layouts[side],
                rhs=width_bits,
            )
        return layout

    def __str__(self) -> str:
        return self.name
