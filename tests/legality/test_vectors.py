"""Vectors of a tile: the closed form against the definition, on layouts of any kind."""

from __future__ import annotations

import random

import pytest

from layoutalg.errors import ShapeError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.legality.vectors import contiguous_leaf, find_torn, torn_by_counting, vectors_of, with_vectors
from layoutalg.limits import Most


def drawn(rng: random.Random) -> AnyLayout:
    """A layout with a leaf of stride 1, its other strides and its swizzle whatever they are."""
    run, rows = rng.choice((4, 8, 16, 24, 32)), rng.randint(1, 12)
    pitch = run + rng.randint(0, 20)
    layout: AnyLayout = Layout((rows, run), (pitch, 1))
    match rng.randint(0, 3):
        case 0:
            layout = Layout((run, (2, rows)), (1, (pitch, 2 * pitch + rng.randint(0, 3))))
        case 1:
            layout = Layout(((2, rows), (run // 2, 2)), ((pitch, 2 * pitch), (1, run // 2)))
    if rng.random() < 0.6:
        swizzle = Swizzle(rng.randint(1, 3), rng.randint(0, 4), rng.choice((1, -1)) * rng.randint(1, 5))
        layout = ComposedLayout(swizzle, rng.choice((0, 0, 2, 8)), layout)
    return layout


@pytest.mark.deep
def test_the_closed_form_is_the_definition() -> None:
    rng = random.Random(3)
    torn = 0
    for _ in range(1500):
        layout = drawn(rng)
        leaf = contiguous_leaf(layout)
        assert leaf is not None
        elems = rng.choice([n for n in (1, 2, 4, 8) if leaf[0] % n == 0])
        cut = vectors_of(layout, elems, leaf[1])
        assert size(cut.starts) * elems == size(layout)
        found, counted = find_torn(layout, cut), torn_by_counting(layout, cut)
        assert (found is None) == (counted is None), (layout, cut)
        if found is not None:
            torn += 1
            row = [layout(found.at + i * cut.step) - layout(found.at) for i in range(elems)]
            assert found.contiguous == (row == list(range(elems)))
            assert not found.contiguous or layout(found.at) % elems
    assert 200 < torn < 1300


def test_the_nearest_layout_keeps_vectors_whole() -> None:
    rng = random.Random(4)
    changed = 0
    for _ in range(400):
        layout, elems, rows = drawn(rng), rng.choice((2, 4, 8)), rng.choice((1, 8))
        near = with_vectors(layout, elems, rows)
        if near is None:
            continue
        leaf = contiguous_leaf(near)
        assert leaf is not None and size(near) >= size(layout) and size(near) // leaf[0] % rows == 0
        assert find_torn(near, vectors_of(near, elems, leaf[1])) is None
        changed += near != layout
    assert changed > 100


def test_layouts_without_a_nearest() -> None:
    assert with_vectors(Layout((8, 8), (2, 16)), 8) is None, "nothing is contiguous"
    assert with_vectors(Layout((8, 8), (1, 4)), 8) is None, "rows overlap"
    assert with_vectors(ComposedLayout(Swizzle(1, 3, 3), 2, Layout((8, 8), (8, 1))), 8) is None, "an offset"


def test_what_is_no_whole_number_of_vectors_is_refused() -> None:
    with pytest.raises(ShapeError, match="12 elements"):
        vectors_of(Layout((8, 12), (12, 1)), 8, 8)


def test_large_layouts_without_a_closed_form_are_undecided(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Most.POINTS, "number", 64)
    torn = ComposedLayout(Swizzle(3, 2, 3), 0, Layout((8, 64), (64, 1)))
    with pytest.raises(UndecidedError, match="one by one"):
        find_torn(torn, vectors_of(torn, 8, 8))
    whole = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((1 << 20, 64), (64, 1)))
    assert find_torn(whole, vectors_of(whole, 8, 1 << 20)) is None
