"""sm_61 and before: arithmetic of one thread, and the copies that every architecture has.

A fused multiply-add, dp4a and dp2a are matrix instructions of extent 1 x 1.  A vector copy moves the bits of
one thread, and a 2 x 2 transpose exchanges words between two lanes with a shuffle.

Source: PTX ISA 9.0, 9.7.3.6 (fma), 9.7.1.23 (dp4a), 9.7.1.24 (dp2a), 9.7.9.6 (shfl.sync), 9.7.9.8 (ld),
9.7.9.12 (st); CUTLASS, include/cute/atom/mma_traits.hpp, mma_traits_sm61.hpp, copy_traits.hpp,
copy_traits_sm50.hpp.
"""

from __future__ import annotations

from layoutalg.atoms.atom import CopyAtom, MMAAtom
from layoutalg.atoms.rows import copy_atom, types_of
from layoutalg.layout import Layout


def _thread(name: str, k: int, types_text: str, ptx: str, section: str) -> MMAAtom:
    line, single = Layout((1, k)), Layout((1, 1))
    types = types_of(types_text)
    source = f"PTX ISA 9.0, {section}"
    return MMAAtom(name, (1, 1, k), Layout(1), line, line, single, types, source, "sm_61", ptx)


MMA_ATOMS: tuple[MMAAtom, ...] = (
    _thread("UniversalFMA<float,float,float,float>", 1, "f32 f32 f32 f32", "fma.rn.f32", "9.7.3.6"),
    _thread("UniversalFMA<double,double,double,double>", 1, "f64 f64 f64 f64", "fma.rn.f64", "9.7.3.6"),
    _thread("SM61_DP4A", 4, "s32 s8 s8 s32", "dp4a.s32.s32", "9.7.1.23"),
    _thread("SM61_DP2A", 2, "s32 s16 s8 s32", "dp2a.lo.s32.s32", "9.7.1.24"),
)
"""Multiply-adds; dot products of four bytes with four, and of two halves with the two low bytes of a word.

CuTe gives dp2a halves on both sides and a mnemonic without .lo, which does not assemble."""

_VECTOR = {8: "b8", 16: "b16", 32: "b32", 64: "b64", 128: "v4.b32"}


def _universal(bits: int) -> CopyAtom:
    tv = Layout((1, bits))
    return copy_atom(
        f"UniversalCopy<uint{bits}_t>", tv, tv, f"ld.{_VECTOR[bits]}", "sm_61", "9.7.9.8, 9.7.9.12"
    )


def _memory(kind: str, space: str, bits: int) -> CopyAtom:
    tv, op = Layout((1, bits)), f"{kind}.{space}.b{bits}"
    section = "9.7.9.8" if kind == "ld" else "9.7.9.12"
    sides = {"src_op": op} if kind == "ld" else {"dst_op": op}
    return copy_atom(op, tv, tv, f"{kind}.{space}.{_VECTOR[bits]}", "sm_61", section, **sides)


def _exchange(distance: int, dst_tv: Layout) -> CopyAtom:
    name = f"SM50_Shuffle_U32_2x2Trans_XOR{distance}"
    return copy_atom(name, Layout((32, 64), (64, 1)), dst_tv, "shfl.sync.bfly.b32", "sm_61", "9.7.9.6")


COPY_ATOMS: tuple[CopyAtom, ...] = (
    *(_universal(bits) for bits in _VECTOR),
    *(_memory(kind, space, b) for kind in ("ld", "st") for space in ("shared", "global") for b in _VECTOR),
    _exchange(1, Layout(((2, 16), (32, 2)), ((32, 128), (1, 64)))),
    _exchange(4, Layout(((4, 2, 4), (32, 2)), ((64, 32, 512), (1, 256)))),
)
"""Vector copies of 8 to 128 bits, by CuTe's name and by the access they are; transposes by shuffle."""
