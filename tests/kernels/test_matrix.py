"""MatrixProblem: what is accepted, what is refused, and the reference."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.errors import LayoutAlgError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels.matrix import matrix_problem, reference, vector_elems
from layoutalg.kernels.modes import strided
from tests.sweeps import each


def test_leading_dimensions_default_to_row_lengths() -> None:
    turned, straight = (matrix_problem(3, 5, "f32", turned=t) for t in (True, False))
    assert (turned.lds, turned.ldd, straight.lds, straight.ldd) == (5, 3, 5, 5)


def test_buffers_end_with_the_last_element() -> None:
    p = matrix_problem(3, 5, "f16", 8, 4, turned=True)
    assert (p.source_elems, p.target_elems, p.target_shape, p.moved_bytes) == (21, 19, (5, 3), 60)


@each(
    ("arguments", "error", "match"),
    [
        ((0, 5, "f32"), ShapeError, "m = 0"), ((3, -1, "f32"), ShapeError, "n = -1"),
        ((3, 2.0, "f32"), ShapeError, "n = 2.0"), ((True, 2, "f32"), ShapeError, "m = True"),
        ((3, 5, "f32", 4), ShapeError, "lds = 4"), ((3, 5, "f32", 5, 2), ShapeError, "ldd = 2"),
        ((3, 5, "f33"), UnknownNameError, "f32"), ((3, 5, "s4"), UnsupportedError, "4 bits"),
    ],
)  # fmt: skip
def test_what_makes_no_matrix_is_refused(
    arguments: tuple[object, ...], error: type[LayoutAlgError], match: str
) -> None:
    with pytest.raises(error, match=match):
        matrix_problem(*arguments, turned=True)  # type: ignore[arg-type]


@each(
    ("leading", "nbytes", "elems"),
    [(4096, 1, 16), (4096, 16, 1), (24, 1, 8), (6, 4, 2), (7, 2, 1), (1, 8, 1)],
)
def test_vectors_divide_the_leading_dimension(leading: int, nbytes: int, elems: int) -> None:
    assert vector_elems(leading, nbytes) == elems


@pytest.mark.parametrize("turned", [False, True])
def test_the_reference_writes_the_matrix_and_nothing_else(turned: bool) -> None:
    p = matrix_problem(3, 5, "u16", 7, 8, turned=turned)
    src = np.arange(p.source_elems, dtype=np.uint16)
    old = np.full(p.target_elems, 999, dtype=np.uint16)
    new = reference(p, src, old)
    assert (old == 999).all()
    rows, columns = p.target_shape
    for i in range(rows):
        for j in range(columns):
            a, b = (j, i) if turned else (i, j)
            assert new[i * 8 + j] == a * 7 + b
    assert (new != 999).sum() == 15


def test_strided_is_a_view() -> None:
    x = np.zeros(10, dtype=np.uint8)
    strided(x, (2, 3), (6, 1))[1, 2] = 7
    assert x[8] == 7
