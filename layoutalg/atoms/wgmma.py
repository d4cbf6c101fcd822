"""sm_90a: wgmma.mma_async, by types, N, and where A comes from.

D (64 x N) += A (64 x K) B (K x N), by the four warps of a warpgroup.  A comes from shared memory (SS) or from
registers (RS), B always from shared memory.  Registers follow the core-matrix rule, four warps of 16 rows;
an operand in shared memory is described by a descriptor, and every thread is given all of it:

    SM90_64x96x16_F32F16F16_SS    A (128,(64,16)):(0,(1,64))                   B (128,(96,16)):(0,(1,96))
    SM90_64x96x16_F32F16F16_RS    A ((4,8,4),(2,2,2)):((128,1,16),(64,8,512))  B as above
    both                          D ((4,8,4),(2,2,12)):((128,1,16),(64,8,512))

The sparse forms take A with two of any four elements along K: K doubles, and so do the neighbours that one
register of A stands for.  E, the metadata, comes in one register of the first two lanes of each four (both
pairs hold the same), and its layout is a table of its own by type.

Source: PTX ISA 9.0, 9.7.15.5.1 (register fragments and shared memory layouts of wgmma.mma_async),
9.7.15.6 (wgmma.mma_async.sp); CUTLASS, include/cute/atom/mma_traits_sm90_gmma.hpp,
mma_traits_sm90_gmma_sparse.hpp.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from typing import NamedTuple

from layoutalg.arch import WGMMA_M, WGMMA_TYPES
from layoutalg.atoms.atom import Arithmetic, MMAAtom, OperandPlace
from layoutalg.atoms.core_matrix import neighbours, warpgroup_matrices
from layoutalg.atoms.rows import ENDINGS, type_codes, types_of
from layoutalg.dtype import dtype
from layoutalg.layout import Layout

THREADS = 128
"""Threads of a warpgroup."""

_METADATA = {
    8: Layout(((2, 2, 8, 4), (32,)), ((8, 2048, 1, 16), (64,))),
    16: Layout(((2, 2, 8, 4), (16, 2)), ((1024, 0, 1, 16), (64, 8))),
    32: Layout(((2, 2, 8, 4), (8, 2)), ((512, 0, 1, 16), (64, 8))),
}
"""(thread, value) -> r + 64 c of the sparse A, by the bits of its elements."""


class WgmmaRow(NamedTuple):
    """A wgmma: types of D, A and B, N, where A comes from, and whether A is sparse."""

    types: str
    n: int
    a_in: OperandPlace
    arithmetic: Arithmetic = "multiply"
    sparse: bool = False

    @property
    def k(self) -> int:
        """Elements along K."""
        return WGMMA_TYPES[self.types.split()[1]].k * (2 if self.sparse else 1)

    @property
    def name(self) -> str:
        """CUTLASS's name: 16-bit types have no TN, since their operands may be M- or N-major."""
        kind = WGMMA_TYPES[self.types.split()[1]]
        order = "" if kind.transposable else "_TN"
        sparse = "SPARSE_" if self.sparse else ""
        sources = "SS" if self.a_in == "shared" else "RS"
        shape = f"{WGMMA_M}x{self.n}x{self.k}"
        return f"SM90_{sparse}{shape}_{type_codes(self.types)}_{sources}{order}{ENDINGS[self.arithmetic][0]}"

    def build(self) -> MMAAtom:
        """The atom of the row."""
        d, a, b = self.types.split()
        n, k, sparsity = self.n, self.k, 2 if self.sparse else 1
        from_registers = warpgroup_matrices(k, sparsity * neighbours(dtype(a)))
        sp = ".sp" if self.sparse else ""
        return MMAAtom(
            name=self.name,
            shape_mnk=(WGMMA_M, n, k),
            thr_layout=Layout(THREADS),
            a_tv=_whole(WGMMA_M, k) if self.a_in == "shared" else from_registers,
            b_tv=_whole(n, k),
            c_tv=warpgroup_matrices(n, 2, keep=True),
            dtypes=types_of(f"{d} {a} {b} {d}"),
            source="PTX ISA 9.0, 9.7.15.6" if self.sparse else "PTX ISA 9.0, 9.7.15.5.1",
            arch="sm_90",
            ptx=f"wgmma.mma_async{sp}.sync.aligned.m{WGMMA_M}n{n}k{k}.{d}.{a}.{b}{ENDINGS[self.arithmetic][1]}",
            arithmetic=self.arithmetic,
            a_in=self.a_in,
            b_in="shared",
            sparsity=sparsity,
            e_tv=_METADATA[dtype(a).bits] if self.sparse else None,
        )


def _whole(rows: int, columns: int) -> Layout:
    """Every thread sees all of an operand in shared memory."""
    return Layout((THREADS, (rows, columns)), (0, (1, rows)))


_SOURCES: tuple[OperandPlace, ...] = ("shared", "registers")


def wgmma_rows() -> Iterator[WgmmaRow]:
    """Every wgmma that CUTLASS names.

    >>> next(wgmma_rows()).name
    'SM90_64x8x16_F32F16F16_SS'
    """
    for kind in WGMMA_TYPES.values():
        if kind.name == "b1":
            continue  # CUTLASS has none
        for b, d, sparse in product(kind.b_types, kind.accumulators, (False, True)):
            sums: tuple[Arithmetic, ...] = ("multiply", "saturate") if d == "s32" else ("multiply",)
            for arithmetic, n, a_in in product(sums, kind.n_sizes, _SOURCES):
                yield WgmmaRow(f"{d} {kind.name} {b}", n, a_in, arithmetic, sparse)
