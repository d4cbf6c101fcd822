"""The shortest form of a problem reaches the same elements in the same groups, and it is short."""

from __future__ import annotations

import random
from itertools import product

import pytest

from layoutalg.errors import NotInjectiveError, ShapeError
from layoutalg.kernels.rowwise import AxesProblem, axes_problem, find_axes
from layoutalg.kernels.rowwise.problems import Form, normalise
from tests.reductions import random_axes
from tests.sweeps import each


def groups_of_problem(p: AxesProblem) -> set[tuple[int, ...]]:
    """For each group the sources of its elements and, with each, where that goes."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for crd in product(*map(range, p.shape)):
        src = p.src_offset + sum(i * d for i, d in zip(crd, p.src, strict=True))
        dst = p.dst_offset + sum(i * d for i, d in zip(crd, p.dst, strict=True))
        found.setdefault(tuple(i for k, i in enumerate(crd) if k not in p.axes), []).append((src, dst))
    return {tuple(v for pair in sorted(g) for v in pair) for g in found.values()}


def groups_of_form(x: Form) -> set[tuple[int, ...]]:
    """The same of the shortest form."""
    found: dict[tuple[int, ...], list[tuple[int, int]]] = {}
    for crd in product(*(range(m.extent) for m in x.modes)):
        src = x.src_offset + sum(i * m.src for i, m in zip(crd, x.modes, strict=True))
        places = (i if m.dst >= 0 else m.extent - 1 - i for i, m in zip(crd, x.modes, strict=True))
        dst = x.dst_offset + sum(i * abs(m.dst) for i, m in zip(places, x.modes, strict=True))
        key = tuple(i for i, m in zip(crd, x.modes, strict=True) if not m.reduced)
        found.setdefault(key, []).append((src, dst))
    return {tuple(v for pair in sorted(g) for v in pair) for g in found.values()}


@each("seed", range(60))
def test_the_shortest_form_has_the_same_groups(seed: int) -> None:
    p = random_axes(random.Random(seed), 400, keeps=seed % 2 == 0)
    x = normalise(p)
    assert groups_of_form(x) == groups_of_problem(p)
    assert (x.outputs, x.count) == (p.outputs, p.count)
    assert all(m.extent > 1 and m.src >= 0 for m in x.modes)
    steps = [m.src for m in x.modes if m.src]
    assert steps == sorted(steps) and all(m.src == 0 for m in x.modes[len(steps) :])


@each(
    ("shape", "axes", "expected"),
    [
        ((8192, 8192), (1,), "R 8192:1, K 8192:8192->1"),
        ((8192, 8192), (0,), "K 8192:1->1, R 8192:8192"),
        ((4, 5, 6), (1, 2), "R 30:1, K 4:30->1"),
        ((4, 5, 6), None, "R 120:1"),
        ((4, 5, 6), (), "K 120:1->1"),
        ((1, 1), (0,), "one element"),
        ((2, 1, 3, 1, 4), (0, 3), "K 12:1->1, R 2:12"),
        ((2, 3, 4, 5), (1, 3), "R 5:1, K 4:5->1, R 3:20, K 2:60->4"),
    ],
)
def test_dense_problems_by_hand(shape: tuple[int, ...], axes: tuple[int, ...] | None, expected: str) -> None:
    assert str(normalise(axes_problem(shape, axes, "f32"))) == expected


def test_modes_of_a_softmax_merge_only_where_both_sides_do() -> None:
    assert str(normalise(axes_problem((3, 4, 5), 2, "f32", keeps=True))) == "R 5:1->1, K 12:5->5"
    padded = axes_problem((3, 4, 5), 2, "f32", dst=(40, 5, 1), keeps=True)
    assert str(normalise(padded)) == "R 5:1->1, K 4:5->5, K 3:20->40"


def test_axes_are_counted_from_either_end_and_refused() -> None:
    assert find_axes((-1, 0), 3) == (0, 2)
    for axes in (3, -4, (0, 3), True):
        with pytest.raises(ShapeError, match="axis"):
            find_axes(axes, 3)
    with pytest.raises(ShapeError, match="twice"):
        find_axes((1, -2), 3)


def test_what_is_no_tensor_is_refused() -> None:
    with pytest.raises(ShapeError, match="negative"):
        axes_problem((2, -1), 0, "f32")
    with pytest.raises(ShapeError, match="9 modes"):
        axes_problem((1,) * 9, 0, "f32")
    with pytest.raises(ShapeError, match="every mode"):
        axes_problem((2, 3), 0, "f32", src=(1,))
    with pytest.raises(ShapeError, match="the source of offset 0"):
        axes_problem((2, 3), 0, "f32", src=(-3, 1))
    with pytest.raises(NotInjectiveError, match="two coordinates"):
        axes_problem((2, 3, 4), 2, "f32", dst=(1, 1, 0))
    assert axes_problem((2, 3, 4), (0, 2), "f32", dst=(7, 1, 7)).dst == (0, 1, 0)
