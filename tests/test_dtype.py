"""Element types: the table is consistent, and every spelling people use finds its type."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.dtype import DTYPES, DType, dtype
from layoutalg.errors import UnknownNameError
from tests.sweeps import each


@each("name", DTYPES)
def test_the_carrier_is_as_wide_as_the_type(name: str) -> None:
    kind = DTYPES[name]
    assert kind.name == name == str(kind)
    assert dtype(name) is kind
    if kind.bits < 8:
        assert (kind.c_name, kind.numpy_name, kind.nbytes) == ("", "", 0)
    else:
        assert np.dtype(kind.numpy_name).itemsize == kind.nbytes == kind.bits // 8
        assert kind.c_name


@each(
    ("spelling", "name"),
    [
        ("half", "f16"),
        ("float16", "f16"),
        ("bfloat16", "bf16"),
        ("float", "f32"),
        ("float32", "f32"),
        ("double", "f64"),
        ("int8", "s8"),
        ("int", "s32"),
        ("uint32", "u32"),
        ("int64", "s64"),
        ("complex64", "c64"),
        ("float8_e4m3", "e4m3"),
    ],
)
def test_common_spellings(spelling: str, name: str) -> None:
    assert dtype(spelling) is DTYPES[name]


@each("name", ["float32", "float64", "int8", "int16", "int32", "int64", "uint8", "uint16"])
def test_numpy_names_mean_what_numpy_means(name: str) -> None:
    assert dtype(name).numpy_name == name


def test_a_dtype_passes_through() -> None:
    odd = DType("x12", 12, "", "")
    assert dtype(odd) is odd


def test_an_unknown_type_names_the_nearest() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'f23': did you mean 'f32'\?.*bf16"):
        dtype("f23")


def test_the_table_is_read_only() -> None:
    with pytest.raises(TypeError):
        DTYPES["f16"] = DTYPES["f32"]  # type: ignore[index]
