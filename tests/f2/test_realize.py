"""Matrices as swizzles over strides."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import f2
from layoutalg.errors import DivisibilityError
from layoutalg.f2.realize import separate
from layoutalg.layout import Swizzle, Swizzles
from tests.sweeps import each


@given(st.lists(st.integers(0, 255), max_size=8).map(tuple))
@example((1, 3, 7, 15, 31, 63, 127, 255))
@example((3, 6, 4))
@example((0, 5, 0, 10))
def test_every_matrix_that_has_the_form(columns: tuple[int, ...]) -> None:
    """Such a form exists exactly when the columns that are not 0 are independent."""
    moving = [c for c in columns if c]
    try:
        chain, strides = separate(columns)
    except DivisibilityError as error:
        assert f2.rank(moving) < len(moving)
        assert error.witness is not None and f2.apply(columns, error.witness) == 0
        assert any(c for j, c in enumerate(columns) if error.witness >> j & 1)
        return
    assert f2.rank(moving) == len(moving)
    n = max(columns, default=0).bit_length()
    wide = tuple(map(chain, f2.identity(n)))
    assert f2.multiply(wide, strides) == columns
    for i, a in enumerate(strides):
        assert not any(a & b for b in strides[:i]), "strides share no bit"


@each("bits", [1, 2, 3])
@each("base", [0, 2, 4])
@each("shift", [3, 4, -3])
def test_a_single_swizzle_is_found_again(bits: int, base: int, shift: int) -> None:
    swizzle = Swizzle(bits, base, shift)
    order = (6, 7, 8, 9, 10, 0, 1, 2, 3, 4, 5)
    columns = tuple(swizzle(1 << j) for j in order)
    assert separate(columns) == (Swizzles(swizzle), tuple(1 << j for j in order))
