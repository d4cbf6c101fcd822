"""Readers answer or refuse by a leaf of LayoutAlgError, whatever the text; tests/bench has the long run."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import LayoutAlgError
from tests.draws.option_fuzz import draw_words, outcome
from tests.draws.readers import BLANKS, READERS, check, draw_bytes, text_of
from tests.sweeps import each

SHORT = 400

COMPARED = "mma atom"
"""A reader that compares an unknown name with a long table, and takes its time."""


@pytest.mark.deep
@each("name", READERS, sample=3)
def test_any_text_is_read_or_refused(name: str) -> None:
    draw = random.Random(name)
    runs = SHORT // (40 if name == COMPARED else 1)
    answered = sum(check(name, draw_bytes(draw)) for _ in range(runs))
    assert answered < runs


@each("name", [name for name in READERS if name != COMPARED], sample=9)
@given(raw=st.binary(max_size=40))
def test_any_bytes_are_read_or_refused(name: str, raw: bytes) -> None:
    assert check(name, raw) in (True, False)


@each("blank", BLANKS, sample=3)
@each("name", [name for name in READERS if name not in ("solve, base", "fail-on", COMPARED)], sample=6)
def test_blanks_of_other_kinds_are_no_part_of_a_text(name: str, blank: str) -> None:
    """Wherever one stands in a text that is made of the reader's words, it crashes no reader."""
    draw = random.Random(ord(blank))
    for _ in range(20):
        text = text_of(READERS[name], bytes([2, *draw.randbytes(draw.randrange(6))]))
        at = draw.randrange(len(text) + 1)
        try:
            READERS[name].read(text[:at] + blank + text[at:])
        except LayoutAlgError as error:
            assert str(error)


def test_command_lines_end_with_an_answer_or_a_refusal() -> None:
    draw = random.Random(5)
    for _ in range(40):
        words = draw_words(draw)
        assert outcome(words) is None, words
