"""Element types: their width and the NumPy type that carries their bits.

>>> dtype("half").bits, dtype("bf16").numpy_name
(16, 'uint16')
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType

from layoutalg.errors import UnknownNameError


@dataclass(frozen=True, slots=True)
class DType:
    """An element type: `bits` wide, carried by NumPy dtype `numpy_name`.

    Types NumPy lacks (bf16, f8, tf32) are carried as unsigned integers or float32 of the same width;
    `numpy_name` is empty below 8 bits.

    >>> DTYPES["f16"].nbytes
    2
    """

    name: str
    bits: int
    numpy_name: str

    @property
    def nbytes(self) -> int:
        """Width in bytes; 0 for types narrower than a byte."""
        return self.bits // 8

    def __str__(self) -> str:
        return self.name


_TABLE = (
    DType("b1", 1, ""),
    DType("s4", 4, ""),
    DType("u4", 4, ""),
    DType("e2m1", 4, ""),
    DType("e2m3", 6, ""),
    DType("e3m2", 6, ""),
    DType("u8", 8, "uint8"),
    DType("s8", 8, "int8"),
    DType("e4m3", 8, "uint8"),
    DType("e5m2", 8, "uint8"),
    DType("ue4m3", 8, "uint8"),
    DType("ue8m0", 8, "uint8"),
    DType("u16", 16, "uint16"),
    DType("s16", 16, "int16"),
    DType("f16", 16, "float16"),
    DType("bf16", 16, "uint16"),
    DType("u32", 32, "uint32"),
    DType("s32", 32, "int32"),
    DType("f32", 32, "float32"),
    DType("tf32", 32, "float32"),
    DType("u64", 64, "uint64"),
    DType("s64", 64, "int64"),
    DType("f64", 64, "float64"),
    DType("c64", 64, "complex64"),
    DType("c128", 128, "complex128"),
)

DTYPES: Mapping[str, DType] = MappingProxyType({t.name: t for t in _TABLE})
"""Every element type by name, read only."""

_ALIASES = MappingProxyType(
    {
        "half": "f16", "float16": "f16", "half_t": "f16", "fp16": "f16",
        "bfloat16": "bf16", "bfloat16_t": "bf16",
        "float": "f32", "float32": "f32", "fp32": "f32", "double": "f64", "float64": "f64", "fp64": "f64",
        "tfloat32_t": "tf32", "uint8": "u8", "int8": "s8", "i8": "s8", "uint16": "u16", "int16": "s16",
        "i16": "s16", "uint32": "u32", "int32": "s32", "i32": "s32", "int": "s32", "uint64": "u64",
        "int64": "s64", "i64": "s64", "complex64": "c64", "complex128": "c128", "int4": "s4", "uint4": "u4",
        "float8_e4m3": "e4m3", "float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2",
        "float_e4m3_t": "e4m3", "float_e5m2_t": "e5m2", "__half": "f16", "__nv_bfloat16": "bf16",
        "Float8E4M3FN": "e4m3", "Float8E5M2": "e5m2", "f8E4M3FN": "e4m3", "f8E5M2": "e5m2",
        "int4b_t": "s4", "uint4b_t": "u4", "uint1b_t": "b1", "float4_e2m1fn": "e2m1",
        "float_e2m1_t": "e2m1", "Float4E2M1FN": "e2m1", "f4E2M1FN": "e2m1", "e8m0": "ue8m0",
        "Float6E2M3FN": "e2m3", "f6E2M3FN": "e2m3", "Float6E3M2FN": "e3m2", "f6E3M2FN": "e3m2",
        "Float8E8M0FNU": "ue8m0", "f8E8M0FNU": "ue8m0", "float8_e8m0fnu": "ue8m0",
        **{f"float_{name}_t": name for name in ("e2m3", "e3m2", "ue8m0", "ue4m3")},
        **{f"float_{name}_unpacksmem_t": name for name in ("e2m1", "e2m3", "e3m2")},
        **{f"int{n}_t": f"s{n}" for n in (8, 16, 32, 64)}, **{f"uint{n}_t": f"u{n}" for n in (8, 16, 32, 64)},
        "BFloat16": "bf16", "Float16": "f16", "Float32": "f32", "Float64": "f64", "TFloat32": "tf32",
    }
)  # fmt: skip


CUTLASS_NAMES: Mapping[str, str] = MappingProxyType(
    {
        "f16": "half_t", "bf16": "bfloat16_t", "tf32": "tfloat32_t", "f32": "float", "f64": "double",
        "s4": "int4b_t", "u4": "uint4b_t", "b1": "uint1b_t",
        **{name: f"float_{name}_t" for name in ("e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "ue8m0", "ue4m3")},
        **{f"s{n}": f"int{n}_t" for n in (8, 16, 32, 64)}, **{f"u{n}": f"uint{n}_t" for n in (8, 16, 32, 64)},
    }
)  # fmt: skip
"""Element types as CUTLASS spells them, read only."""


def dtype(name: str | DType) -> DType:
    """Look an element type up by its name or a common alias (`half`, `float32`, `int8`), as C++, CuTe DSL and
    MLIR spell it too (`uint8_t`, `BFloat16`, `f8E4M3FN`).

    Raises UnknownNameError.

    >>> str(dtype("bfloat16"))
    'bf16'
    """
    if isinstance(name, DType):
        return name
    kind = DTYPES.get(_ALIASES.get(name, name)) if isinstance(name, str) else None
    if kind is None:
        raise UnknownNameError("dtype", name, DTYPES)
    return kind
