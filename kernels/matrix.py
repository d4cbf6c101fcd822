"""MatrixProblem: two matrices of equal element width in global memory, each with a leading dimension.

Copy and transpose share it.  The source is m x n, row-major with leading dimension `lds`; the destination
is row-major too, with leading dimension `ldd`, of the shape its family says.  Elements are bits: only
their width matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import gcd
from typing import Any

from layoutalg.dtype import DType
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.modes import strided

VECTOR_BYTES = 16
"""The widest access of a lane."""

MOST_ELEMS, MOST_WIDE = 1 << 30, 1 << 40
"""Elements of a tensor whose rows a launch counts: 32 bits hold the sum of two of its indices, or 64 bits."""


def most_rows(extent: int, pitch: int) -> int:
    """The most rows that lie `pitch` elements apart, of a kernel that is made for `extent` and for others.

    >>> most_rows(64, 1000), most_rows(1 << 30, 1000)
    (1073741, 1099511627)
    """
    return (MOST_ELEMS if extent <= MOST_ELEMS // pitch else MOST_WIDE) // pitch


@dataclass(frozen=True, slots=True)
class MatrixProblem:
    """Move an m x n matrix; `lds`, `ldd` are the leading dimensions in elements.

    The destination is m x n, or n x m where `turned`.  The buffers start at multiples of `align_bytes`.

    >>> from layoutalg.dtype import dtype
    >>> MatrixProblem(4, 6, dtype("f32"), lds=6, ldd=4, turned=True).target_shape
    (6, 4)
    """

    m: int
    n: int
    dtype: DType
    lds: int
    ldd: int
    turned: bool
    align_bytes: int = VECTOR_BYTES

    @property
    def element_bytes(self) -> int:
        """Width of an element."""
        return self.dtype.nbytes

    @property
    def source_elems(self) -> int:
        """Elements of the source buffer, gaps between rows included."""
        return (self.m - 1) * self.lds + self.n

    @property
    def target_shape(self) -> tuple[int, int]:
        """Rows and columns of the destination."""
        return (self.n, self.m) if self.turned else (self.m, self.n)

    @property
    def target_elems(self) -> int:
        """Elements of the destination buffer, gaps between rows included."""
        rows, columns = self.target_shape
        return (rows - 1) * self.ldd + columns

    @property
    def moved_bytes(self) -> int:
        """Bytes read plus bytes written, each element once."""
        return 2 * self.m * self.n * self.element_bytes

    def __str__(self) -> str:
        return f"{self.m} x {self.n} {self.dtype}, ld {self.lds} -> {self.ldd}"


def matrix_problem(
    m: int, n: int, dtype: str | DType = "f32", lds: int | None = None, ldd: int | None = None, *,
    turned: bool, align_bytes: int = VECTOR_BYTES,
) -> MatrixProblem:  # fmt: skip
    """A checked problem; leading dimensions default to the row lengths.

    Raises ShapeError for extents, leading dimensions and starts that make no matrix, UnsupportedError for
    elements that are not 1, 2, 4, 8 or 16 bytes and for a transpose that starts between vectors,
    UnknownNameError for an unknown dtype.

    >>> print(matrix_problem(3, 5, "f16", turned=True))
    3 x 5 f16, ld 5 -> 3
    """
    element = find_dtype(dtype)
    if element.nbytes not in (1, 2, 4, 8, 16):
        raise UnsupportedError(
            f"elements of {element.bits} bits ({element}): 8, 16, 32, 64 and 128 bits are accepted"
        )
    columns = m if turned else n
    lds, ldd = n if lds is None else lds, columns if ldd is None else ldd
    for name, value in (("m", m), ("n", n), ("lds", lds), ("ldd", ldd)):
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise ShapeError(f"{name} = {value!r}: a positive integer is needed")
    if lds < n:
        raise ShapeError(f"lds = {lds} is less than the row length {n} of the source")
    if ldd < columns:
        raise ShapeError(f"ldd = {ldd} is less than the row length {columns} of the destination")
    if align_bytes not in (1, 2, 4, 8, 16) or align_bytes < element.nbytes:
        raise ShapeError(
            f"align_bytes = {align_bytes!r}: a power of two from {element.nbytes} to 16 is needed"
        )
    if turned and align_bytes < VECTOR_BYTES:
        raise UnsupportedError(
            f"a transpose from {align_bytes} bytes on: multiples of 16 are accepted; permute takes any"
        )
    return MatrixProblem(m, n, element, lds, ldd, turned, align_bytes)


def vector_elems(leading: int, element_bytes: int) -> int:
    """Elements a lane can move at once when every row starts at a multiple of `leading` elements.

    >>> vector_elems(1000, 2), vector_elems(1001, 2)
    (8, 1)
    """
    return gcd(leading, VECTOR_BYTES // element_bytes)


def reference(problem: MatrixProblem, src: Any, old: Any) -> Any:
    """The destination buffer that results, by definition: `old` with the matrix written into it.

    >>> import numpy
    >>> reference(matrix_problem(2, 3, "u8", turned=True), numpy.arange(6), numpy.zeros(6)).tolist()
    [0.0, 3.0, 1.0, 4.0, 2.0, 5.0]
    """
    result = old.copy()
    rows, columns = problem.target_shape
    matrix = strided(src, (problem.m, problem.n), (problem.lds, 1))
    strided(result, (rows, columns), (problem.ldd, 1))[...] = matrix.T if problem.turned else matrix
    return result
