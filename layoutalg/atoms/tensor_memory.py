"""sm_100a: tcgen05's products, its loads and stores, and where their operands lie in tensor memory.

Loads and stores.  A warp moves 16 or 32 lanes of tensor memory, and of each a run of columns, `.xN` times as
long; who gets what is a pattern of the shape:

    32x32b     lane l reads its own lane of tensor memory: a whole row of D per thread
    16x64b     lane l: row l / 4 + 8 (l % 2), column l / 2 % 2
    16x128b    lane l: row l / 4, column l % 4; register 1 is 8 rows further down
    16x256b    lane l: row l / 4, columns 2 (l % 4) and the next; then 8 rows further down: the core matrix

so that what 16x256b leaves in registers is what mma.sync and wgmma leave there.  Bits are counted along the
columns of a lane, lane after lane; as in CuTe every thread is shown the whole of tensor memory.  A warpgroup
reads its accumulator warp by warp, 32 lanes each, and every question about register layouts applies to it:

>>> from layoutalg.registers import fragment, reduction_of
>>> rows = tmem_load_tv(128, 64, "32x32b")
>>> print(rows, reduction_of(fragment(rows, (128, 64)), along="n").shuffles)
((32,4),64):((1,32),128) 0

Products.  A thread of a CTA, or of one of two, starts D (M x N) += A B.  B is read from shared memory (SS,
TS), A from there or from tensor memory, D lies in tensor memory.  CuTe's layouts count CTAs as threads:

    SM100_MMA_F16BF16_2x1SM_SS<half_t,half_t,float,256,128>        ThrID 2:1
        A (2,(128,16)):(128,(1,256))    B (2,(64,16)):(64,(1,128))    C (2,(128,128)):(128,(1,256))

and follow from the kind (layoutalg.arch.mma_kinds), M, N and the number of CTAs.  Atoms are made by their
template's name and are not listed in MMA_ATOMS, since there are thousands.  Their fragments are layouts
((row, column), tile, ...) -> lane + 128 column:

>>> atom = find_umma_atom("SM100_MMA_F16BF16_SS<half_t, half_t, float, 64, 96>")
>>> print(atom.c_tv, tmem_layout(atom, "C"), tmem_layout(atom, "C", (2, 2)))
(1,(64,96)):(0,(1,64)) ((16,4),96):((1,32),128) (((16,4),96),2,2):(((1,32),128),16,12288)

Notes.  Rows of 64 use half of the lanes; the next tile takes the other half, but for the products whose A
lies in tensor memory, which need equal lanes.  The N that CuTe admits are a part of those of PTX: a product
with A in tensor memory steps by 16 for M = 128 and by 32 for two CTAs, and integers have no N = 24.  Products
of interleaved complex numbers, K = 96 of sm_103 and the place of a sparse A's metadata are left out.

Source: PTX ISA 9.0, 9.7.16.2.3.1 (matrix fragments for shapes .32x32b to .16x256b), 9.7.16.2.1, 9.7.16.10.5;
CUTLASS, include/cute/atom/copy_traits_sm100.hpp, mma_traits_sm100.hpp, mma_traits_sm100_frag.hpp, and the
asserts of include/cute/arch/mma_sm100_umma.hpp.
"""

from __future__ import annotations

import re
from itertools import accumulate
from operator import mul
from typing import NamedTuple

from layoutalg.algebra import logical_product, upcast
from layoutalg.arch import TCGEN05_KINDS, Tcgen05Kind, sizes_text, tmem_accumulator
from layoutalg.atoms.atom import BlockScales, CopyAtom, MMAAtom, Operand, OperandPlace
from layoutalg.atoms.core_matrix import mode_of
from layoutalg.atoms.rows import template_name, types_of
from layoutalg.compose import compose_layouts
from layoutalg.dtype import CUTLASS_NAMES, dtype
from layoutalg.errors import DivisibilityError, UnknownNameError, UnsupportedError, check_choice
from layoutalg.layout import Layout, concat, leaves, modes, whole_number

# --- loads and stores ---------------------------------------------------------------------------------

MOST_REGISTERS = 128
"""32-bit registers that one tcgen05.ld or .st moves per lane."""

TMEM_SHAPES: dict[str, tuple[int, int, int]] = {
    "32x32b": (32, 32, 1),
    "16x64b": (16, 64, 1),
    "16x128b": (16, 128, 2),
    "16x256b": (16, 256, 4),
}
"""Lanes of tensor memory, bits of each, and registers per thread of one repetition."""


def registers_of(shape: str, repeat: int) -> Layout:
    """(lane, bit of its registers) -> bit of what moves, lane after lane of tensor memory.

    >>> print(registers_of("16x256b", 1), registers_of("16x64b", 2))
    ((4,8),(64,2)):((64,256),(1,2048)) ((2,2,8),(32,2)):((1024,32,128),(1,64))
    """
    _, bits, _ = TMEM_SHAPES[shape]
    row = bits * repeat
    threads, values = {
        "32x32b": ([(32, row)], [(32 * repeat, 1)]),
        "16x64b": ([(2, 8 * row), (2, 32), (8, row)], [(32, 1), (repeat, 64)]),
        "16x128b": ([(4, 32), (8, row)], [(32, 1), (2, 8 * row), (repeat, 128)]),
        "16x256b": ([(4, 64), (8, row)], [(64, 1), (2, 8 * row), (repeat, 256)]),
    }[shape]
    return concat(mode_of(threads), mode_of(values))


def _tensor_memory(shape: str, repeat: int, *, load: bool) -> CopyAtom:
    lanes, bits, _ = TMEM_SHAPES[shape]
    memory, held = Layout((32, lanes * bits * repeat), (0, 1)), registers_of(shape, repeat)
    kind = "ld" if load else "st"
    return CopyAtom(
        f"SM100_TMEM_{'LOAD' if load else 'STORE'}_{lanes}dp{bits}b{repeat}x",
        Layout(32),
        memory if load else held,
        held if load else memory,
        memory,
        "PTX ISA 9.0, 9.7.16.2.3.1",
        "sm_100",
        f"tcgen05.{kind}.sync.aligned.{shape}.x{repeat}.b32",
    )


TENSOR_MEMORY_COPIES: tuple[CopyAtom, ...] = tuple(
    _tensor_memory(shape, 1 << j, load=load)
    for load in (True, False)
    for shape, (_, _, registers) in TMEM_SHAPES.items()
    for j in range((MOST_REGISTERS // registers).bit_length())
)
"""Loads and stores of tensor memory, by shape and repetition."""


def tmem_load_tv(m: int, n: int, shape: str) -> Layout:
    """(thread of a warpgroup, value) -> row + m * column of an M x N accumulator of 32 bits.

    M is 128 (data path D: two loads of 16 lanes per warp, or one of 32) or 64 (data path F: one of 16).
    Raises UnknownNameError for another shape, UnsupportedError for another M, DivisibilityError for an N that
    repetitions do not cover.

    >>> print(tmem_load_tv(128, 8, "16x256b"))
    ((4,8,4),(2,2,2)):((256,1,32),(128,8,16))
    """
    check_choice("shape of tcgen05.ld", shape, TMEM_SHAPES)
    m, n = whole_number(m, "M"), whole_number(n, "N")
    lanes, bits, _ = TMEM_SHAPES[shape]
    if m not in (64, 128) or (m == 64 and lanes == 32):
        raise UnsupportedError(
            f"tcgen05.ld.{shape} of {m} rows: four warps read 128 rows, or 64 with shapes of 16 lanes"
        )
    columns = bits // 32
    if n % columns:
        raise DivisibilityError(
            f"tcgen05.ld.{shape} reads {columns} columns at once, not {n}", lhs=n, rhs=columns
        )
    thread, value = modes(
        compose_layouts(Layout((columns, lanes), (m, 1)), upcast(registers_of(shape, 1), 32))
    )
    held = [*leaves(value), (n // columns, columns * m)]
    if m == 128 and lanes == 16:
        held.append((2, 16))
    return concat(mode_of([*leaves(thread), (4, m // 4)]), mode_of(held))


# --- products -----------------------------------------------------------------------------------------

KINDS = {
    "TF32": ("tf32",), "F16BF16": ("f16",), "S8": ("i8",), "F8F6F4": ("f8f6f4",), "MXF8F6F4": ("mxf8f6f4",),
    "MXF4": ("mxf4", "mxf4nvf4"),
}  # fmt: skip
"""Kinds of CUTLASS's operations."""

_SCALED = {("F16BF16", "SS"), ("F16BF16", "TS"), ("TF32", "TS")}
"""Operations of which CuTe has a form that scales D first."""


class UmmaRow(NamedTuple):
    """A tcgen05.mma: CUTLASS's operation, the types of D, A and B, M and N, and who takes part."""

    operation: str
    types: str
    m: int
    n: int
    ctas: int = 1
    source: str = "SS"
    block: tuple[str, int] | None = None
    scaled: bool = False
    sparse: bool = False

    @property
    def kind(self) -> Tcgen05Kind:
        """The kind of the instruction: of fp4 mxf4 where 32 of a dense A share a factor, else mxf4nvf4."""
        names = KINDS[self.operation]
        return TCGEN05_KINDS[names[-1 if self.sparse or (self.block and self.block[1] == 16) else 0]]

    @property
    def name(self) -> str:
        """CUTLASS's name without the major-nesses, which are arguments of the instruction."""
        pair, form = "_2x1SM" if self.ctas == 2 else "", "_SCALED" if self.scaled else ""
        form, operation = ("_SPARSE", _spelled(self.operation)) if self.sparse else (form, self.operation)
        numbers: list[int | str] = [self.m, self.n]
        if self.block:
            numbers.insert(0, CUTLASS_NAMES[self.block[0]])
            numbers += [self.block[1]] if self.operation == "MXF4" else []
        return template_name(f"SM100_MMA_{operation}{pair}_{self.source}{form}", self.types, *numbers)

    @property
    def rows(self) -> tuple[int, ...]:
        """M that CuTe admits."""
        return (256,) if self.operation == "MXF8F6F4" and self.ctas == 2 else self.kind.rows(self.ctas)

    @property
    def columns(self) -> tuple[int, ...]:
        """N that CuTe admits for the row's M."""
        sizes = self.kind.columns(self.ctas)
        if self.operation == "S8":
            return tuple(n for n in sizes if n != 24)
        wide = self.source == "TS" or (self.sparse and self.operation == "F8F6F4")
        step = (32 if self.ctas == 2 else self.m // 8) if wide else 8
        return tuple(n for n in sizes if n % step == 0)

    @property
    def exists(self) -> bool:
        """True for what CuTe has."""
        d, a, b = self.types.split()
        kind = self.kind
        blocks = [(t, n << self.sparse) for t, n in kind.blocks]
        return (
            kind.multiplies(a, b, d)
            and (self.block in blocks if blocks else not self.block)
            and (self.source == "SS" or not (blocks or self.sparse))
            and not (self.sparse and self.scaled)
            and ((self.operation, self.source) in _SCALED or not self.scaled)
            and self.m in self.rows
            and self.n in self.columns
        )

    def build(self) -> MMAAtom:
        """The atom of the row."""
        kind, (m, n, k), ctas = self.kind, (self.m, self.n, self.kind.k << self.sparse), self.ctas
        block = f".block{self.block[1] >> self.sparse}" if self.block and self.operation == "MXF4" else ""
        a_in: OperandPlace = "tensor" if self.source == "TS" else "shared"
        return MMAAtom(
            name=self.name,
            shape_mnk=(m, n, k),
            thr_layout=Layout(ctas),
            a_tv=_by_cta(m, k, m, ctas),
            b_tv=_by_cta(n, k, n, ctas),
            c_tv=_by_cta(m, n, m, ctas),
            dtypes=types_of(f"{self.types} {self.types.split()[0]}"),
            source="PTX ISA 9.0, 9.7.16.2.1",
            arch="sm_100",
            ptx=kind.ptx.replace("mma.", f"mma.{'sp.' if self.sparse else ''}cta_group::{ctas}.") + block,
            sparsity=1 + self.sparse,
            a_in=a_in,
            b_in="shared",
            c_in="tensor",
            scales=None if self.block is None else _factors(*self.block, m // ctas, n, k, ctas),
            in_bytes=kind.k == 32,
        )


def _by_cta(rows: int, columns: int, pitch: int, ctas: int) -> Layout:
    """(CTA, (row, column)) -> row + pitch column: each of two CTAs has half of the rows."""
    own = rows // ctas
    return Layout((ctas, (own, columns)), (own if ctas == 2 else 0, (1, pitch)))


def _factors(element: str, block: int, m: int, n: int, k: int, ctas: int) -> BlockScales:
    """The factors of one product: 32 rows in a lane each, for all four warps; 4 bytes further the next 32.

    N is rounded up to 128.  Of two CTAs with 64 rows each, A counts 128 rows, and two warps have half of B's.
    """
    along = Layout((block, k // block), (0, 128))
    wide, rows = -(-n // 128) * 128, max(m, 128)
    b = concat(Layout(((32, wide // 32), 4), ((1, 512), 32)), along)
    if ctas == 2 and m == 64:
        b = concat(Layout(((32, wide // 64), 2, 2), ((1, 512), 64, 32)), along)
    return BlockScales(dtype(element), block, concat(Layout(((32, rows // 32), 4), ((1, 512), 32)), along), b)


_UMMA = re.compile(r"SM100_MMA_([A-Z0-9]+)(_2x1SM)?_(SS|TS)(_SCALED|_SPARSE)?<([\w:,]*)>", re.ASCII)


def _spelled(operation: str) -> str:
    """CUTLASS's name of an operation with a sparse A."""
    return "MXF4NVF4" if operation == "MXF4" else operation


def find_umma_atom(name: str) -> MMAAtom:
    """The atom of a tcgen05.mma by CUTLASS's name; major-nesses and negations are read and left out.

    Raises UnknownNameError for an operation or a type that there is not, UnsupportedError with what there is
    for another shape, and for an A in tensor memory that is M-major.
    """
    matched = _UMMA.fullmatch(re.sub(r"\s|cute::|cutlass::|detail::", "", name))
    words = matched[5].split(",") if matched else []
    count = 4 if matched and matched[1].startswith("MX") else 3
    sizes = [int(word) for word in words[count : count + 3] if word.isdecimal()]
    sparse = matched is not None and matched[4] == "_SPARSE"
    operations = {_spelled(own) if sparse else own: own for own in KINDS}
    if matched is None or matched[1] not in operations or len(sizes) < 2:
        end = "_SPARSE" if sparse else ""
        raise UnknownNameError(
            "MMA atom", name, [f"SM100_MMA_{own}_SS{end}<A,B,D,M,N>" for own in operations]
        )
    operation, ctas, source = operations[matched[1]], 2 if matched[2] else 1, matched[3]
    a, b, d, *factor = (dtype(word).name for word in words[:count])
    block = (
        (factor[0], sizes[2] if operation == "MXF4" and len(sizes) == 3 else 32 << sparse) if factor else None
    )
    m, n, scaled = sizes[0], sizes[1], matched[4] == "_SCALED"
    row = UmmaRow(operation, f"{d} {a} {b}", m, n, ctas, source, block, scaled, sparse)
    majors = [word for word in words[count:] if "Major::" in word]
    if source == "TS" and majors and majors[0].endswith("MN"):
        raise UnsupportedError(f"{name}: A is MN-major; an operand in tensor memory is K-major")
    if not row.exists:
        kind = TCGEN05_KINDS[KINDS[operation][-1]]
        if sparse and source == "TS":
            raise UnsupportedError(f"{name}: a sparse A lies in shared memory, SS")
        raise UnsupportedError(
            f"{name}: CuTe has A and B of {', '.join(kind.operands)} into {' or '.join(kind.accumulators)}, "
            f"M of {' or '.join(map(str, row.rows))}, N of {sizes_text(row.columns)}"
            + (
                f", factors of {' or '.join(f'{t} for {n << sparse}' for t, n in kind.blocks)}"
                if kind.blocks
                else ""
            )
        )
    return row.build()


def tmem_layout(atom: MMAAtom, operand: Operand, tiles: tuple[int, ...] = ()) -> Layout:
    """((row, column), tile, ...) of one CTA -> lane + 128 column of an operand: CuTe's fragment.

    Columns of D are 32 bits, those of A count its elements.  `tiles` are the numbers of products along
    further modes, which take free lanes first, then columns.  Raises UnsupportedError for an operand that
    does not lie in tensor memory.

    >>> atom = find_umma_atom("SM100_MMA_F16BF16_2x1SM_TS<half_t, half_t, float, 128, 64>")
    >>> print(tmem_layout(atom, "C"), tmem_layout(atom, "A"))
    (64,(32,2)):(1,(128,64)) (128,16):(1,128)
    """
    if atom.place(operand) != "tensor":
        raise UnsupportedError(f"{operand} of {atom} lies in {atom.place(operand)}, not in tensor memory")
    m, n, k = atom.shape_mnk
    if operand == "C":
        path_c = (
            atom.sparsity == 2 and m == 128 and atom.threads == 2
        )  # CuTe has B here, PTX has C, which is F
        place = tmem_accumulator(m // 2, n)[1] if path_c else tmem_accumulator(m, n, ctas=atom.threads)[1]
    else:  # rows of a product of two CTAs of 64 rows each lie twice, once for each pair of warps
        place = Layout((128, k), (1, 128)) if m > 64 else Layout(((16, 4), k), ((1, 32), 128))
    if not tiles:
        return place
    step = 2 if m == 64 and atom.a_in == "tensor" else 1  # the lanes of D have to be those of A
    repeated = logical_product(place, Layout(tiles, tuple(accumulate((step, *tiles[:-1]), mul))))
    return concat(place, *modes(modes(repeated)[1]))
