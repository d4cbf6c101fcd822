"""Each part of the project stays within its cap of code lines and tokens; a cap follows what is taken out."""

from __future__ import annotations

import pytest

from tests import size
from tests.size import Size


@pytest.mark.parametrize("part", size.PARTS)
def test_a_part_is_within_its_cap(part: str) -> None:
    limits, allowed = size.caps()
    measured = size.total(size.rooms_of(part).values())
    assert not size.verdict(part, measured, limits[part], allowed[part])


def test_docstrings_comments_and_longer_lines_save_nothing() -> None:
    text = (
        '"""What it is."""\n\n# why\nx = [\n    1,\n]\n\n\ndef f() -> str:\n    """Say."""\n    return "a"\n'
    )
    assert size.size_of(text) == Size(5, 15)
    assert size.size_of(text.replace("\n    1,\n", "1,")) == Size(3, 15)


def test_a_cap_is_no_target_and_no_reserve() -> None:
    cap = Size(1000, 9000)
    assert not size.verdict("tests", Size(990, 9000), cap, Size())
    assert "11 code lines and 0 tokens over" in size.verdict("tests", Size(1011, 9000), cap, Size())
    assert "1 code lines and 5 tokens over" in size.verdict("tests", Size(1011, 9105), cap, Size(10, 100))
    assert "--lower" in size.verdict("tests", Size(970, 8000), cap, Size())
