"""Changing coordinates below a swizzle, slices of one thread, and registers in the order of a partition."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.algebra import make_fragment_like
from layoutalg.atoms import Tensor
from layoutalg.atoms.tiling import check_multiples, take
from layoutalg.errors import ArgumentTypeError, ShapeError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.notation import parse
from tests.sweeps import each


def test_a_tensor_gives_a_tensor() -> None:
    tensor = Tensor(np.arange(64), Layout((4, 8), (8, 1)), 16)
    part = take(tensor, Layout((4, (2, (4,))), (8, (1, (2,)))), 2)
    assert isinstance(part, Tensor) and part.to_array().ravel("F").tolist() == list(range(32, 40))


@each(
    ("matrix", "message"),
    [
        (Layout((64, 24)), r"A: mode 1 of \(64,24\):\(1,64\) has 24 elements and the tile 16; .* 32"),
        (Layout(64), r"A: 64:1 has 1 modes; 2 or more are needed"),
        (ComposedLayout(Swizzle(1, 0, 3), 0, Layout((8, 16))), "has 8 elements and the tile 32; .* 32"),
    ],
)  # fmt: skip
def test_ragged_matrices_are_refused(matrix: Layout, message: str) -> None:
    with pytest.raises(ShapeError, match=message):
        check_multiples("A", matrix, (32, 16))
    with pytest.raises(ArgumentTypeError, match="a layout is needed"):
        check_multiples("A", (32, 16), (32, 16))  # type: ignore[arg-type]


@each(
    ("partition", "registers"),
    [
        ("((2,2,2),2,3):((64,8,512),32,1024)", "((2,2,2),2,3):((1,2,4),8,16)"),
        ("((2,2,2),2,3):((1,448,8),1792,16)", "((2,2,2),2,3):((1,2,4),24,8)"),
        ("((2,2),2,3,5):((1,8),768,16,1536)", "((2,2),2,3,5):((1,2),12,4,24)"),
        ("((2,2),4):((0,8),16)", "((2,2),4):((0,1),2)"),
        ("8:2", "8:1"),
    ],
)
def test_registers_follow_the_partition(partition: str, registers: str) -> None:
    layout = parse(partition)
    assert isinstance(layout, Layout) and str(make_fragment_like(layout)) == registers
    assert make_fragment_like(ComposedLayout(Swizzle(1, 0, 3), 8, layout)) == make_fragment_like(layout)
