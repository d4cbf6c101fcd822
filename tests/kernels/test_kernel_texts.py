"""Printed kernels, choices and launches are byte for byte what `tests.frozen.kernel_texts` has stored."""

from __future__ import annotations

import pytest

from layoutalg.kernels import FAMILIES
from tests import sweeps
from tests.frozen import kernel_texts as texts

PARTS = 4
"""Of the problems that are compared each time: tests of the first tier do little work each."""


@pytest.mark.deep(only=("attention-0",))
@pytest.mark.parametrize("part", sweeps.first(1, range(PARTS)))
@pytest.mark.parametrize("family", FAMILIES)
def test_the_first_drawn_problems_are_printed_as_before(family: str, part: int) -> None:
    every = slice(part, texts.FEW, PARTS)
    before = {"drawn": texts.stored()[family]["drawn"][every]}
    cases = texts.drawn(family, texts.FEW)[every]
    assert not list(texts.differences(family, before, texts.of_drawn(cases), cases))


@pytest.mark.deep
@pytest.mark.parametrize("family", FAMILIES)
def test_all_are_printed_as_before(family: str) -> None:
    before, now = texts.stored()[family], texts.made(family)
    assert {kind: len(words) for kind, words in now.items()} == {k: len(words) for k, words in before.items()}
    assert not list(texts.differences(family, before, now, texts.drawn(family)))


def test_another_word_is_named_by_its_case() -> None:
    before, cases = texts.stored()["softmax"], texts.drawn("softmax", 4)
    digest, choice = before["drawn"][3].split()
    for word, what in ((f"{digest} 0", "choice"), (f"0 {choice}", "launches")):
        now = {"drawn": [*before["drawn"][:3], word]}
        (line,) = texts.differences("softmax", before, now, cases)
        assert str(cases[3]) in line and what in line
