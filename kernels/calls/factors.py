"""Factors of products, as calls give them: one, those of rows or columns, those of blocks of 8-bit floats."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Literal

from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.kernels.calls.arrays import Form
from layoutalg.kernels.gemm import PROMOTED_K

BYTE_KINDS: Mapping[str, str] = MappingProxyType({"float8_e4m3fn": "e4m3", "float8_e5m2": "e5m2"})
"""The floats of 8 bits, which may be mixed, by PyTorch's names."""

MOST_LEADING = 1 << 30
"""The largest leading dimension that a kernel takes, in elements."""


def in_blocks(a: Form, by_row: Form, by_columns: Form, extents: tuple[int, int, int]) -> bool:
    """Whether factors are those of blocks of 1 x 128 of A and of 128 x 128 of B."""
    m, n, k = extents
    deep = -(-k // PROMOTED_K)
    blocks = (m, deep), (deep, -(-n // PROMOTED_K))
    given = by_row.shape, by_columns.shape
    if a.kind not in BYTE_KINDS or given != blocks or given in (((m, 1), (1, n)), ((m, 1), (1, 1))):
        return False
    for name, form in (("scale_a", by_row), ("scale_b", by_columns)):
        if form.kind != "float32":
            raise ArgumentTypeError(f"{name} holds {form.kind}: factors are float32")
        if form.elems and (form.low or any(d % form.itemsize or d > MOST_LEADING for d in form.strides)):
            raise UnsupportedError(
                f"{name} has strides {form.strides} in bytes: steps of floats are accepted"
            )
    return True


def factors_along(
    name: str, form: Form, mode: Literal["m", "n"], extent: int
) -> tuple[Literal["m", "n", ""], int]:  # fmt: skip
    """The mode of D along which factors lie, none of a single one, and the bytes from one to the next."""
    if form.kind != "float32":
        raise ArgumentTypeError(f"{name} holds {form.kind}: factors are float32")
    if form.elems == 1 and len(form.shape) <= 2:
        return "", form.itemsize
    if form.shape == ((extent, 1) if mode == "m" else (1, extent)):
        return mode, form.strides[0 if mode == "m" else 1]
    shape = f"({extent}, 1)" if mode == "m" else f"(1, {extent})"
    what = "row" if mode == "m" else "column"
    raise ShapeError(
        f"{name} has shape {form.shape}: one factor, or {shape}, one per {what}, are accepted; of 8-bit "
        f"floats both may have one per block of {PROMOTED_K} of k"
    )
