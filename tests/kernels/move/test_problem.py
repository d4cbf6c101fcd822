"""Permutes as data: what is refused, and that the shortest form moves the same bytes."""

from __future__ import annotations

import random
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import NotInjectiveError, ShapeError, UnsupportedError
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.problem import Moves, move_problem, normalise, permute_problem, reference, strided
from tests.permutations import random_buffers, random_problem
from tests.sweeps import each


def move(x: Moves, src: Any, old: Any) -> Any:
    """What a shortest form says, by the definition, on bytes."""
    wide = CARRIER[x.element_bytes]
    padded = [np.concatenate([a.view("u1"), np.zeros(-a.nbytes % 16, "u1")]).view(wide) for a in (src, old)]
    shape = tuple(m.extent for m in x.modes)
    low = x.src_offset + sum((m.extent - 1) * max(-m.src, 0) for m in x.modes)
    of = strided(padded[0], shape, tuple(m.src for m in x.modes), low)
    strided(padded[1], shape, tuple(m.dst for m in x.modes), x.dst_offset)[...] = of
    return padded[1].view("u1")[: old.nbytes]


@each("seed", range(80))
def test_the_shortest_form_moves_the_same_bytes(seed: int) -> None:
    p = random_problem(random.Random(seed), 3000)
    src, old = random_buffers(p, seed)
    x = normalise(p)
    assert move(x, src, old).tobytes() == reference(p, src, old).tobytes()
    assert all(m.extent > 1 for m in x.modes) or x.rank == 1
    assert x.rank <= len([n for n in p.shape if n > 1]) + 1


def test_numpy_agrees_with_the_reference() -> None:
    a = np.arange(120, dtype="u2")
    p = permute_problem((4, 5, 6), (2, 0, 1), "u16")
    expected = a.reshape(4, 5, 6).transpose(2, 0, 1).ravel()
    assert reference(p, a, np.zeros(120, "u2")).tolist() == expected.tolist()


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "expected"),
    [
        ((64, 128), (0, 1), "f32", "16-byte elements, 2048:1->1"),
        ((64, 128), (1, 0), "f32", "4-byte elements, 64:128->1, 128:1->64"),
        ((8, 4, 6), (1, 0, 2), "u8", "2-byte elements, 3:1->1, 8:12->3, 4:3->24"),
        ((1, 1), (1, 0), "c128", "16-byte elements, 1:1->1"),
    ],
)
def test_known_shortest_forms(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, expected: str
) -> None:
    assert str(normalise(permute_problem(shape, axes, dtype))) == expected


def test_what_is_no_permutation_is_refused() -> None:
    with pytest.raises(ShapeError, match=r"axes \(0, 0\) are not a permutation of 0..1"):
        permute_problem((2, 3), (0, 0), "f32")
    with pytest.raises(ShapeError, match="every mode needs one stride"):
        permute_problem((2, 3), (1, 0), "f32", src=(1,))
    with pytest.raises(ShapeError, match="every mode needs one on either side"):
        move_problem((2, 3), "f32", (1, 2), (1,))
    with pytest.raises(ShapeError, match="extents must be positive"):
        permute_problem((2, 0), (1, 0), "f32")


def test_elements_narrower_than_a_byte_are_refused() -> None:
    with pytest.raises(UnsupportedError, match="elements of 4 bits"):
        permute_problem((2, 3), (1, 0), "u4")


def test_an_aliasing_destination_is_refused() -> None:
    with pytest.raises(NotInjectiveError, match="has one place for two coordinates"):
        move_problem((4, 4), "f32", (4, 1), (1, 1))
    with pytest.raises(NotInjectiveError):
        move_problem((4, 4), "f32", (4, 1), (1, 0))


def test_a_tensor_that_starts_before_its_buffer_is_refused() -> None:
    with pytest.raises(ShapeError, match="the source of offset 2"):
        move_problem((4,), "f32", (-1,), (1,), src_offset=2)
    assert move_problem((4,), "f32", (-1,), (1,), src_offset=3).source_elems == 4


def test_broadcasts_are_read_once() -> None:
    assert move_problem((4, 8), "u8", (0, 1), (8, 1)).moved_bytes == 8 + 32
