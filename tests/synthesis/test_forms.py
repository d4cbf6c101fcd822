"""The forms that certificates name: the proof's lists against the search's, and wrong lists of the search."""

from __future__ import annotations

import itertools
import random
from collections.abc import Callable
from math import prod
from typing import Any

import pytest

from layoutalg.analysis import Access
from layoutalg.errors import AlignmentError, MismatchError
from layoutalg.synthesis import (
    Order,
    Synthesis,
    check_certificate,
    padding,
    storage_layout,
    synthesize,
    synthesizer,
)
from layoutalg.synthesis.padding import padded_tiles
from layoutalg.synthesis.proof.forms import class_in_words, paddings
from tests.sweeps import each


@each("shape", [(48, 20), (1, 64), (64, 1), (2, 3, 8), (4, (2, 4)), ((3, 2), (2, 4)), 24])
@each("order", ["row", "col"])
@each("op", ["ld.shared.b32@row", "ld.shared.b128@row"])
def test_two_lists_of_paddings(shape: Any, order: Order, op: str) -> None:
    try:
        found = synthesize(shape, [op], element="f32", order=order, max_extra_bytes=2048)
    except AlignmentError:
        return  # rows that hold no whole vector
    accesses = [a for a in found.accesses if isinstance(a, Access)]
    tried = padded_tiles(found.shape, accesses, found.element, found.order, 2048, found.arch)
    assert list(paddings(found)) == [(extra, layout) for layout, extra in tried]


def test_storage_order_is_what_its_name_says() -> None:
    """What search and proof share of layouts: coordinates in lexicographic order lie in a row."""
    rng = random.Random(1)
    for _ in range(60):
        shape = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 4)))
        by_row = itertools.product(*map(range, shape))
        assert [storage_layout(shape, "row")(crd) for crd in by_row] == list(range(prod(shape)))
        by_column = (crd[::-1] for crd in itertools.product(*map(range, shape[::-1])))
        assert [storage_layout(shape, "col")(crd) for crd in by_column] == list(range(prod(shape)))


# --- wrong lists in the search -------------------------------------------------------------------------


def single() -> Synthesis:
    return synthesize((64, 96), ["ldmatrix.x4"], element="f16")


def padded() -> Synthesis:
    return synthesize((33, 32), ["ld.shared.b128@col"], element="f32", max_extra_bytes=1536)


@pytest.mark.parametrize(
    ("make", "where", "what", "wrong"),
    [
        (single, synthesizer, "free_singles", lambda *args: iter(())),
        (padded, padding, "_step", lambda *args: 8),
        (padded, synthesizer, "padded_tiles", lambda *args: iter(())),
        (padded, synthesizer, "promising", lambda tiles, *args: tiles[1:2]),
    ],
)
def test_a_wrong_list_is_noticed(
    monkeypatch: pytest.MonkeyPatch,
    make: Callable[[], Synthesis],
    where: object,
    what: str,
    wrong: Callable[..., object],
) -> None:
    right = make()
    assert right.layout is not None and check_certificate(right)
    monkeypatch.setattr(where, what, wrong)
    found = make()
    assert found.layout is None
    with pytest.raises(MismatchError, match="is free of conflicts"):
        check_certificate(found)


def test_classes_in_words() -> None:
    found = padded()
    said = {
        "plain": "the storage order (33,32):(32,1)",
        "single-swizzle": "single swizzles Sw<B,M,S> of (33,32):(32,1) in its memory and 1536 bytes more",
        "padding up to 1536 bytes": "(33,32):(32,1) with longer rows, by multiples of 16 bytes, "
        "up to 1536 bytes in all",
        "linear-in-place of whole 16-byte units": "F2-linear maps of (33,32):(32,1) onto itself "
        "that keep 16-byte units whole",
        "linear-in-place": "F2-linear maps of (33,32):(32,1) onto itself",
        "any-in-place of whole 4-byte units": "permutations of (33,32):(32,1) that keep 4-byte units whole",
        "tma": "what tensor-map copies write of (33,32) in its memory and 1536 bytes more",
        "any-placement": "all placements",
    }
    assert {name: class_in_words(found, name) for name in said} == said
