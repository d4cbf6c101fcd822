"""Quantisations: blocks of a row become elements of a narrow type, and a scale each, in tiles for cuBLAS.

The rules, for a block of 16 or 32 elements along K with the largest size amax; what a row lacks counts as 0:

    mxfp8, mxfp4    the scale is the least power of two s with amax / s at most the largest element
    nvfp4           the scale is global_scale amax / 6 as an e4m3, whose number v gives s = v / global_scale
    elements        x / s, rounded to the nearest, ties to even; past the largest number that number

    amax            ue8m0               elements              ue4m3       elements
    0               2^-127              0 and -0              0           0 and -0
    inf             2^127               inf the largest       448         inf the largest, as x / s has it
    NaN             NaN                 by 2^127, NaN is NaN  NaN         NaN

A NaN of e2m1, which has none, is its largest number.  Of nvfp4, products and quotients are floats, each
rounded once: amax (global_scale (1 / 6)), and x (global_scale (1 / v)).  A number whose scale became 0 is 0.
The global scale is 6 * 448 over the largest size of the matrix; 1 over it multiplies results.

Source: OCP Microscaling Formats (MX) Specification 1.0, 6.3, whose scale is rounded down, so that elements
saturate; rounding up is what NVIDIA's cvt.rp.satfinite.ue8m0x2 and Transformer Engine do.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import prod
from typing import Any

from layoutalg.arch import SCALE_TILE, BlockFormat, find_block_format, scale_layout
from layoutalg.codegen.instr import converted
from layoutalg.dtype import DTYPES, DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.layout import Layout

SOURCES, TARGETS = ("bf16", "f16", "f32"), ("e4m3", "e5m2", "e2m1")
LARGEST: Mapping[str, float] = {"e4m3": 448.0, "e5m2": 57344.0, "e2m1": 6.0}
"""The largest number of each type of elements."""


@dataclass(frozen=True, slots=True)
class QuantizeProblem:
    """An M x K matrix of `dtype`, rows dense, as elements and scales of a format.

    >>> print(quantize_problem("mxfp8", (300, 4096)))
    mxfp8 of (300,4096) bf16 -> e4m3
    """

    format: BlockFormat
    shape: tuple[int, int]
    dtype: DType
    result: DType

    @property
    def scales(self) -> Layout:
        """(row, element) -> byte of its scale."""
        return scale_layout(self.format.name, *self.shape)

    @property
    def padded(self) -> tuple[int, int]:
        """Rows and scales of a row, padded to whole tiles."""
        whole = zip((self.shape[0], -(-self.shape[1] // self.format.block)), SCALE_TILE, strict=True)
        rows, blocks = (-(-n // tile) * tile for n, tile in whole)
        return rows, blocks

    @property
    def arrays(self) -> dict[str, tuple[DType, tuple[int, ...]]]:
        """The elements and the shape of each array: the matrix, its elements in bytes, its scales."""
        (m, k), byte = self.shape, DTYPES["u8"]
        elements = m, k * self.result.bits // 8
        return {"x": (self.dtype, (m, k)), "q": (byte, elements), "scales": (byte, (prod(self.padded),))}

    @property
    def bytes(self) -> tuple[int, ...]:
        """Bytes of each array, padding included."""
        return tuple(prod(shape) * element.nbytes for element, shape in self.arrays.values())

    @property
    def moved_bytes(self) -> int:
        """Bytes read plus bytes written."""
        return sum(self.bytes)

    def __str__(self) -> str:
        return f"{self.format.name} of ({self.shape[0]},{self.shape[1]}) {self.dtype} -> {self.result}"


def quantize_problem(
    format: str, shape: Sequence[int], dtype: str | DType = "bf16", result: str | DType | None = None
) -> QuantizeProblem:
    """A checked problem; `result` is one of the format's element types, by default the first.

    Raises UnknownNameError for a format there is not, UnsupportedError for types that are not converted,
    ShapeError for an array that is not a matrix, and for rows that do not end with a byte.

    >>> quantize_problem("nvfp4", (2, 33))
    Traceback (most recent call last):
    layoutalg.errors.ShapeError: nvfp4 of (2, 33): two e2m1 share a byte, so that rows of 32 or 34 are needed
    """
    kind, source = find_block_format(format), find_dtype(dtype)
    if result is not None and str(result) not in kind.elements:
        raise UnsupportedError(f"{format} of {result}: its elements are {' or '.join(kind.elements)}")
    target = str(result or kind.elements[0])
    if source.name not in SOURCES or target not in TARGETS:
        accepted = f"{', '.join(SOURCES)} to {', '.join(TARGETS)}"
        raise UnsupportedError(f"{format} of {source} to {target}: {accepted} are converted")
    shape = tuple(shape)
    if len(shape) != 2 or any(type(n) is not int or n < 1 for n in shape):
        raise ShapeError(f"{format} of {shape}: the two extents of a matrix are needed, each at least 1")
    if DTYPES[target].bits < 8 and shape[1] % 2:
        near = (
            f"rows of {shape[1] - 1} or {shape[1] + 1} are needed" if shape[1] > 1 else "rows of 2 are needed"
        )
        raise ShapeError(f"{format} of {shape}: two {target} share a byte, so that {near}")
    return QuantizeProblem(kind, (shape[0], shape[1]), source, DTYPES[target])


def quantized(p: QuantizeProblem, values: Any, global_scale: float = 1.0) -> tuple[Any, Any]:
    """The definition: bytes of the elements, row by row, and of the scales, from float64 values.

    >>> import numpy
    >>> codes, scales = quantized(quantize_problem("mxfp8", (1, 4)), numpy.array([[448.0, 1.0, -2.0, 0.0]]))
    >>> codes.tolist(), int(scales[0]), len(scales)
    ([[126, 56, 192, 0]], 127, 512)
    """
    import numpy

    (m, k), block, element = p.shape, p.format.block, p.result.name
    rows, blocks = p.padded
    filled = numpy.zeros((rows, blocks * block))
    filled[:m, :k] = values
    groups = filled.reshape(rows, blocks, block)
    with numpy.errstate(all="ignore"):
        amax = numpy.abs(groups).max(-1)  # NaN where one is
        if p.format.scale == "ue8m0":
            codes, exponent = _powers(amax, LARGEST[element])
            scaled = numpy.ldexp(groups, -exponent[..., None])
        else:
            whole, one = numpy.float32(global_scale), numpy.float32(1)
            sizes = amax.astype("f4") * (whole * (one / numpy.float32(6)))
            codes = converted(sizes.view("u4"), "f32", "e4m3")
            numbers = converted(codes, "e4m3", "f32").view("f4")
            inverse = numpy.where(numbers == 0, 0, whole * (one / numbers)).astype("f4")
            scaled = (groups.astype("f4") * inverse[..., None]).astype("f8")
    elements = converted(scaled.view("u8"), "f64", element).reshape(rows, -1)[:m, :k]
    if p.result.bits < 8:
        elements = elements[:, ::2] | elements[:, 1::2] << 4
    scales = numpy.zeros(rows * blocks, numpy.uint8)
    row, j = numpy.indices((rows, blocks))
    scales[p.scales(row, j * block)] = codes
    return elements, scales


def _powers(amax: Any, largest: float) -> tuple[Any, Any]:
    """The codes of the least powers of two s with amax / s <= largest, and their exponents."""
    import numpy

    part, exponent = numpy.frexp(amax)
    top, above = numpy.frexp(largest)
    least = numpy.clip(exponent - above + (part > top) + 127, 0, 254)
    codes = numpy.where(amax == 0, 0, numpy.where(numpy.isfinite(amax), least, 254))
    return numpy.where(numpy.isnan(amax), 255, codes).astype(numpy.uint8), codes.astype(int) - 127
