"""Mistakes drawn in the source: the same for a seed, each a different program that parses."""

from __future__ import annotations

import ast
from itertools import islice

import pytest

from tests.mutants.__main__ import ROOT, drawn, places_of, source_of


@pytest.mark.deep
def test_drawn_mistakes_are_other_programs_and_the_same_for_a_seed() -> None:
    mistakes = list(islice(drawn("layoutalg/f2", 3), 40))
    assert mistakes == list(islice(drawn("layoutalg/f2", 3), 40))
    assert len(set(mistakes)) == 40
    for mistake in mistakes:
        before = ast.dump(ast.parse((ROOT / mistake.path).read_bytes()))
        assert ast.dump(ast.parse(mistake.planted())) != before, str(mistake)
        assert str(mistake).count("\n+") == 2, "the file's name and one line"


def test_a_room_has_its_tests_and_doctests() -> None:
    assert places_of(source_of("f2")) == ["layoutalg/f2", "tests/f2"]
    assert places_of(source_of("kernels/rowwise"))[0] == "layoutalg/kernels/rowwise"
    assert places_of("kernels/rowwise")[1] in ("tests/kernels", "tests/kernels/rowwise")
    with pytest.raises(SystemExit, match="is not a room"):
        source_of("tests")
