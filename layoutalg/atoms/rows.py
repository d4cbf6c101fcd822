"""Rows of the atom tables: what an entry of layoutalg.arch.atoms_sm* states, and the atom it stands for.

The idea.  An mma.sync of sm_75 and later is fixed by its architecture, its shape, its four types and what it
does beside multiplying; name, mnemonic and layouts follow:

    MMARow("SM80", (16, 8, 16), "f32 f16 f16 f32", "9.7.14.5.8")
        SM80_16x8x16_F32F16F16F32_TN
        mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32
        A = core_matrices(16, 16, 2), B = core_matrices(8, 16, 2), C = core_matrices(16, 8, 2)

The narrow types of sm_120 lie in bytes where K is 32, packed where it is 64, and have a template's name.

Source: CUTLASS, include/cute/arch/mma_sm75.hpp to mma_sm120.hpp for the names.
"""

from __future__ import annotations

from typing import NamedTuple

from layoutalg.atoms.atom import Arithmetic, BlockScales, CopyAtom, MMAAtom, MMATypes
from layoutalg.atoms.core_matrix import core_matrices, neighbours
from layoutalg.dtype import CUTLASS_NAMES, dtype
from layoutalg.layout import Layout

_CODES = {"b1": "U1", "c128": "C64"}
"""CUTLASS's spelling of a type inside an atom's name, where it is not the type's name in capitals."""

ENDINGS: dict[Arithmetic, tuple[str, str]] = {
    "multiply": ("", ""),
    "gauss": ("", ""),
    "saturate": ("_SATURATE", ".satfinite"),
    "xor.popc": ("_XORPOPC", ".xor.popc"),
    "and.popc": ("_ANDPOPC", ".and.popc"),
}
"""The endings that an arithmetic adds to the name and to the mnemonic."""

_REAL_PRODUCTS = {"multiply": 4, "gauss": 3}
"""Real multiplications of a complex one."""


def types_of(text: str) -> MMATypes:
    """D, A, B and C of a row's text.

    >>> str(types_of("f32 bf16 bf16 f32").a)
    'bf16'
    """
    d, a, b, c = map(dtype, text.split())
    return MMATypes(d, a, b, c)


def type_codes(text: str, arithmetic: Arithmetic = "multiply") -> str:
    """The types of a row as CUTLASS writes them in a name.

    >>> type_codes("s32 b1 b1 s32"), type_codes("c128 c128 c128 c128", "gauss")
    ('S32U1U1S32', 'GC64C64C64GC64')
    """
    codes = [_CODES.get(t, t.upper()) for t in text.split()]
    if arithmetic == "gauss":
        codes[0], codes[-1] = f"G{codes[0]}", f"G{codes[-1]}"
    return "".join(codes)


def template_name(operation: str, types: str, *numbers: int | str) -> str:
    """CUTLASS's name of an operation that is a template: A, B and D of a row's text, then what follows.

    >>> template_name("SM120_16x8x32_TN", "f32 e4m3 e2m1 f32")
    'SM120_16x8x32_TN<float_e4m3_t,float_e2m1_t,float>'
    """
    d, a, b = (CUTLASS_NAMES[name] for name in types.split()[:3])
    return f"{operation}<{','.join(map(str, (a, b, d, *numbers)))}>"


class MMARow(NamedTuple):
    """An mma.sync whose fragments follow the core-matrix rule; `section` is that of the PTX ISA 9.0.

    `kind` is the .kind of narrow types, `block` the type of their scale factors and the elements of one.
    """

    arch: str
    shape: tuple[int, int, int]
    types: str
    section: str
    arithmetic: Arithmetic = "multiply"
    kind: str = ""
    block: tuple[str, int] | None = None

    @property
    def name(self) -> str:
        """CUTLASS's name of the atom."""
        shape = "x".join(map(str, self.shape))
        if self.block:
            operation = f"SM120::BLOCKSCALED::{self.arch}_{shape}_TN_VS"
            return template_name(operation, self.types, CUTLASS_NAMES[self.block[0]], self.block[1])
        if self.kind:
            return template_name(f"{self.arch}_{shape}_TN", self.types)
        return (
            f"{self.arch}_{shape}_{type_codes(self.types, self.arithmetic)}_TN{ENDINGS[self.arithmetic][0]}"
        )

    def build(self) -> MMAAtom:
        """The atom of the row."""
        m, n, k = self.shape
        types = types_of(self.types)
        is_complex = types.a.name == "c128"
        texts = ["f64"] * 4 if is_complex else self.types.split()
        shape = f"m{m}n{n}k{k}"
        in_bytes = bool(self.kind) and k == 32
        e = 4 if in_bytes else neighbours(types.a)
        keep = types.a.bits == 4 and k == 32 and not in_bytes  # CuTe writes their only value mode as a tuple
        ptx = f"mma.sync.aligned.{shape}.row.col.{'.'.join(texts)}{ENDINGS[self.arithmetic][1]}"
        scales = None
        if self.kind:
            ptx = ptx.replace("aligned.", f"aligned.kind::{self.kind}{'.block_scale' if self.block else ''}.")
        if self.block:
            factor, of = self.block
            ptx = f"{ptx.replace('block_scale', f'block_scale.scale_vec::{k // of}X')}.{factor}"
            scales = BlockScales(
                dtype(factor), of, Layout(((2, 2, 8), k), ((8, 0, 1), m)), Layout(((4, 8), k), ((0, 1), n))
            )
        return MMAAtom(
            name=self.name,
            shape_mnk=self.shape,
            thr_layout=Layout(32),
            a_tv=core_matrices(m, k, e, keep=keep),
            b_tv=core_matrices(n, k, e, keep=keep),
            c_tv=core_matrices(m, n, 2),
            dtypes=types,
            source=f"PTX ISA 9.0, {self.section}",
            arch=f"sm_{self.arch[2:]}",
            ptx=ptx,
            arithmetic=self.arithmetic,
            instructions=_REAL_PRODUCTS[self.arithmetic] if is_complex else 1,
            scales=scales,
            in_bytes=in_bytes,
        )


def copy_atom(
    name: str,
    src_tv: Layout,
    dst_tv: Layout,
    ptx: str,
    arch: str,
    source: str,
    *,
    reference: str = "src",
    src_op: str = "",
    dst_op: str = "",
) -> CopyAtom:
    """A copy atom whose threads are numbered from 0, with one of its sides as reference.

    >>> copy_atom("x", Layout((1, 32)), Layout((1, 32)), "mov.b32", "sm_70", "none").threads
    1
    """
    threads = src_tv.shape[0] if isinstance(src_tv.shape, tuple) else 1
    count = 32 if threads != 1 else 1
    ref_tv = src_tv if reference == "src" else dst_tv
    return CopyAtom(
        name, Layout(count), src_tv, dst_tv, ref_tv, f"PTX ISA 9.0, {source}", arch, ptx, src_op, dst_op
    )
