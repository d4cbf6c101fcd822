"""Mutants of programs in the kernel language: each is caught, or is the same for a reason that is shown.

Here all that are quick; `python tests/bench/bench_program_mutants.py` makes the rest.
"""

from __future__ import annotations

import random
from collections import Counter

import pytest

from tests.mutants.texts import CAUGHT, HEAD, LIST, SAME, finding, listed, programs, written
from tests.sweeps import each

SLOW = ("gemm", "gemm ring", "scaled_transpose", "row_sum")
EACH = 3


@pytest.mark.deep
def test_the_right_programs_pass() -> None:
    for name, text in programs().items():
        assert finding(text) == ("", ""), name


@pytest.mark.deep
@each("name", [name for name in programs() if name not in SLOW])
def test_every_mutant_of_a_quick_program(name: str) -> None:
    for mutant in listed():
        if mutant.program == name:
            assert mutant.found() == mutant


@pytest.mark.deep
@each("name", SLOW)
def test_a_sample_of_mutants_of_the_others(name: str) -> None:
    every = [m for m in listed() if m.program == name]
    for mutant in random.Random(f"sample {name}").sample(every, EACH):
        assert mutant.found() == mutant


def test_the_list() -> None:
    """It is long and has no entry twice, every survivor has a reason, and hazards name thread and place."""
    found = listed()
    assert written(found) == LIST.read_text(encoding="utf-8") and HEAD
    assert len({(m.program, m.old, m.new) for m in found}) == len(found) >= 270
    assert {m.program for m in found} == set(programs())
    counts = Counter(m.verdict for m in found)
    assert set(counts) <= {*CAUGHT, *SAME} and all(counts[verdict] >= 20 for verdict in CAUGHT)
    for m in found:
        assert m.text
        if m.verdict == "hazard":
            assert m.text.startswith("thread ") and " of block (" in m.text and ", at '" in m.text
