"""Refutations: what they say, and the facts they rest on."""

from __future__ import annotations

import itertools

import pytest

from layoutalg.analysis import Access
from layoutalg.dtype import dtype
from layoutalg.layout import Layout
from layoutalg.synthesis import synthesize
from layoutalg.synthesis.proof.refutation import check_refutation

F32 = dtype("f32")
THREE = [
    Access("ld.shared.b32", Layout(((8, 4), 1), ((8, 2), 0)), F32),
    Access("ld.shared.b32", Layout(((8, 4), 1), ((1, 16), 0)), F32),
    Access("ld.shared.b32", Layout(((2, 4, 4), 1), ((9, 16, 2), 0)), F32),
]

CLASH = "none is free of conflicts for (0, 1, 2) of"
LINEAR = "F2-linear maps of (8,8):(8,1) onto itself that keep 4-byte units whole"
ANY = "permutations of (8,8):(8,1) that keep 4-byte units whole"
SINGLE = "single swizzles Sw<B,M,S> of (8,8):(8,1) in"


@pytest.mark.parametrize(
    ("accesses", "form", "extra", "sentence"),
    [
        (THREE, "any", 0, f"{CLASH} {LINEAR}; {ANY}; {SINGLE} its own memory"),
        (THREE, "any", 64, f"{CLASH} {LINEAR}; {ANY}; {SINGLE} its memory and 64 bytes more; "
         "(8,8):(8,1) with longer rows, by multiples of 4 bytes, up to 64 bytes in all"),
        (THREE, "single", 0, f"none is free of conflicts of {SINGLE} its own memory"),
    ],
)  # fmt: skip
def test_sentences(accesses: list[Access], form: str, extra: int, sentence: str) -> None:
    found = synthesize((8, 8), accesses, element="f32", form=form, max_extra_bytes=extra)  # type: ignore[arg-type]
    assert check_refutation(found) == sentence


def test_the_three_patterns_meet_in_every_pair_of_words() -> None:
    """The counting behind any-in-place: rows, columns and red cells join every two words of one class."""
    cells = list(itertools.product(range(8), range(8)))
    groups = [
        {(r, c) for r, c in cells if r % 2 == 0},
        {(r, c) for r, c in cells if c % 2 == 0},
        {(r, c) for r, c in cells if (r + c) % 2 == 0},
    ]
    common = set.intersection(*groups)
    assert len(common) == 16
    for cell in common:
        assert set(cells) == {other for group in groups if cell in group for other in group}


def test_with_96_words_a_map_exists_that_is_not_linear() -> None:
    """(r & 1, c & 1) = 00 takes bank i row 0; 01, 10, 11 take bank 16 + i, rows 0, 1, 2."""
    bank = {}
    for r, c in itertools.product(range(8), range(8)):
        i = (r // 2) * 4 + c // 2
        bank[r, c] = i if r % 2 == c % 2 == 0 else 16 + i
    for group in (
        [(r, c) for r, c in bank if r % 2 == 0],
        [(r, c) for r, c in bank if c % 2 == 0],
        [(r, c) for r, c in bank if (r + c) % 2 == 0],
    ):
        assert len({bank[cell] for cell in group}) == len(group) == 32
