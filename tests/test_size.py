"""Each part of the project stays within its cap of code lines and tokens; a cap follows what is taken out."""

from __future__ import annotations

import io
import re
import tokenize
from pathlib import Path

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


def test_a_size_is_what_tokenize_finds() -> None:
    """Code lines hold a token that is neither a comment nor a string that is a statement."""
    unseen = {tokenize.COMMENT, tokenize.NL, tokenize.INDENT, tokenize.DEDENT, tokenize.ENCODING}
    for path in (*Path(size.__file__).parent.glob("draws/*s.py"), Path(size.__file__)):
        text = re.sub(r"\bf(?=[\"'])", "", path.read_text("utf-8"))
        seen = [t for t in tokenize.generate_tokens(io.StringIO(text).readline) if t.type not in unseen]
        lines, tokens, ends = set[int](), 0, {tokenize.NEWLINE, tokenize.ENDMARKER}
        for before, token, after in zip([seen[-1], *seen], seen, [*seen[1:], seen[-1]], strict=False):
            if token.type in ends or (
                token.type == tokenize.STRING and before.type in ends and after.type in ends
            ):
                continue
            tokens += 1
            lines.update(range(token.start[0], token.end[0] + 1))
        assert size.size_of(text) == Size(len(lines), tokens), path


def test_a_cap_is_no_target_and_no_reserve() -> None:
    cap = Size(1000, 9000)
    assert not size.verdict("tests", Size(990, 9000), cap, Size())
    assert "11 code lines and 0 tokens over" in size.verdict("tests", Size(1011, 9000), cap, Size())
    assert "1 code lines and 5 tokens over" in size.verdict("tests", Size(1011, 9105), cap, Size(10, 100))
    assert "--lower" in size.verdict("tests", Size(970, 8000), cap, Size())
