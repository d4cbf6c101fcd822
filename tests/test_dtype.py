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
        assert (kind.numpy_name, kind.nbytes) == ("", 0)
    else:
        assert np.dtype(kind.numpy_name).itemsize == kind.nbytes == kind.bits // 8


SPELLINGS = (
    "half=f16 float16=f16 bfloat16=bf16 float=f32 float32=f32 double=f64 int8=s8 int=s32 uint32=u32 "
    "int64=s64 complex64=c64 float8_e4m3=e4m3"
)


@each("spelling", SPELLINGS.split())
def test_common_spellings(spelling: str) -> None:
    name, _, short = spelling.partition("=")
    found = dtype(name)
    assert found is DTYPES[short]
    assert found.numpy_name == name or not hasattr(np, name) or np.dtype(name).itemsize == found.nbytes


def test_a_dtype_passes_through() -> None:
    odd = DType("x12", 12, "")
    assert dtype(odd) is odd


def test_an_unknown_type_names_the_nearest_and_the_table_is_read_only() -> None:
    with pytest.raises(UnknownNameError, match=r"unknown dtype 'f23': did you mean 'f32'\?.*f16"):
        dtype("f23")
    with pytest.raises(TypeError):
        DTYPES["f16"] = DTYPES["f32"]  # type: ignore[index]
