"""sm_80: mma.sync of every type, and asynchronous copies to shared memory.

All fragments follow the core-matrix rule, f64 included, where a register pair takes the place of a
register.  CUTLASS multiplies complex matrices with four real instructions, or with three in Gauss's way,
which sums a c, b d and (a + b)(c + d) apart.

Source: PTX ISA 9.0, 9.7.14.5.2 to 9.7.14.5.13 (matrix fragments by shape), 9.7.9.25.3 (cp.async);
CUTLASS, include/cute/arch/mma_sm80.hpp, copy_sm80.hpp.
"""

from __future__ import annotations

from collections.abc import Iterable

from layoutalg.atoms.atom import Arithmetic, CopyAtom
from layoutalg.atoms.rows import MMARow, copy_atom
from layoutalg.layout import Layout

_FLOATING = (
    MMARow("SM80", (16, 8, 8), "f16 f16 f16 f16", "9.7.14.5.7"),
    MMARow("SM80", (16, 8, 16), "f16 f16 f16 f16", "9.7.14.5.8"),
    MMARow("SM80", (16, 8, 8), "f32 f16 f16 f32", "9.7.14.5.7"),
    MMARow("SM80", (16, 8, 16), "f32 f16 f16 f32", "9.7.14.5.8"),
    MMARow("SM80", (16, 8, 8), "f32 bf16 bf16 f32", "9.7.14.5.7"),
    MMARow("SM80", (16, 8, 16), "f32 bf16 bf16 f32", "9.7.14.5.8"),
    MMARow("SM80", (16, 8, 4), "f32 tf32 tf32 f32", "9.7.14.5.6"),
    MMARow("SM80", (16, 8, 8), "f32 tf32 tf32 f32", "9.7.14.5.7"),
    MMARow("SM80", (8, 8, 4), "f64 f64 f64 f64", "9.7.14.5.2"),
    MMARow("SM80", (8, 8, 4), "c128 c128 c128 c128", "9.7.14.5.2"),
    MMARow("SM80", (8, 8, 4), "c128 c128 c128 c128", "9.7.14.5.2", "gauss"),
)

_INTEGER_SHAPES = {
    8: (((8, 8, 16), "9.7.14.5.3"), ((16, 8, 16), "9.7.14.5.9"), ((16, 8, 32), "9.7.14.5.10")),
    4: (((8, 8, 32), "9.7.14.5.4"), ((16, 8, 32), "9.7.14.5.10"), ((16, 8, 64), "9.7.14.5.11")),
}
_INTEGER_SUMS: tuple[Arithmetic, ...] = ("multiply", "saturate")

_BIT_SHAPES = (((8, 8, 128), "9.7.14.5.5"), ((16, 8, 128), "9.7.14.5.12"), ((16, 8, 256), "9.7.14.5.13"))
_BIT_SUMS: tuple[Arithmetic, ...] = ("and.popc", "xor.popc")


def _integers() -> Iterable[MMARow]:
    for bits, shapes in _INTEGER_SHAPES.items():
        for a in "su":
            for b in "su":
                for shape, section in shapes:
                    for sums in _INTEGER_SUMS:
                        yield MMARow("SM80", shape, f"s32 {a}{bits} {b}{bits} s32", section, sums)


MMA_ATOMS: tuple[MMARow, ...] = (
    *_FLOATING,
    *_integers(),
    *(
        MMARow("SM80", shape, "s32 b1 b1 s32", section, s)
        for s in _BIT_SUMS
        for shape, section in _BIT_SHAPES
    ),
)
"""Floating point, bytes and nibbles of either sign, bits."""


def _cp_async(cache: str, nbytes: int, *, zfill: bool) -> CopyAtom:
    tv = Layout((1, 8 * nbytes))
    fill = "_ZFILL" if zfill else ""
    return copy_atom(
        f"SM80_CP_ASYNC_CACHE{cache}{fill}<uint{8 * nbytes}_t>",
        tv,
        tv,
        f"cp.async.{'cg' if cache == 'GLOBAL' else 'ca'}.shared.global",
        "sm_80",
        "9.7.9.25.3",
        src_op=f"cp.async.{nbytes}:global",
        dst_op=f"cp.async.{nbytes}",
    )


COPY_ATOMS: tuple[CopyAtom, ...] = (
    *(_cp_async("ALWAYS", n, zfill=z) for z in (False, True) for n in (4, 8, 16)),
    *(_cp_async("GLOBAL", 16, zfill=z) for z in (False, True)),
)
"""cp.async through L1 (4, 8 or 16 bytes) and past it (16); ZFILL writes zeros where it does not read."""
