"""Index expressions: what Python and C agree upon is read, every disputed or unbounded case is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ParseError, ResourceError
from layoutalg.limits import Most
from layoutalg.reading import parse_index
from tests.draws import index_trees
from tests.notation.texts import rows
from tests.sweeps import each

LANE = np.arange(32)


def read(tree: index_trees.Tree) -> list[int] | None:
    """What is read, or None where the text is refused for what it means."""
    try:
        return [int(x) for x in parse_index(tree.text)(lane=LANE)]
    except ParseError:
        return None


@given(st.integers(0, 1 << 32), st.integers(1, 10))
def test_the_meaning_is_that_of_python_and_of_c_or_the_text_is_refused(seed: int, leaves: int) -> None:
    """Refused exactly where the definition, lane by lane in the types of C, finds another value."""
    tree = index_trees.draw(random.Random(seed), leaves)
    wanted = index_trees.expected(tree)
    try:
        got = read(tree)
    except ResourceError:
        return  # the bound on growth is an interval's, so it may refuse what just fits
    if got is None:
        assert None in wanted, tree.text
    else:
        assert got == wanted, tree.text


def test_what_is_accepted_is_what_the_compiler_computes() -> None:
    """Each accepted text is a constant expression of C++, in which nothing undefined compiles."""
    wrong, accepted = index_trees.against_the_compiler(seed=2026, cases=60)
    assert not wrong and accepted >= 20


@each(("text", "position", "part"), rows("indices on which C and Python disagree"))
def test_what_is_c_alone_or_python_alone_is_refused(text: str, position: int, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_index(text)(lane=LANE)
    assert caught.value.position == position and part in str(caught.value)


@each("given", [1.5, True, [1 << 31], np.arange(4.0), "lane", [1 << 70]])
def test_variables_are_integers_of_32_bits(given: object) -> None:
    with pytest.raises(ArgumentTypeError, match=r"lane is .*: an array of integers of 32 bits is needed"):
        parse_index("lane * 4")(lane=given)


def test_several_variables_broadcast() -> None:
    index = parse_index("warp*1024 + reg*128 + lane*4")
    assert index.names == ("warp", "reg", "lane")
    got = index(warp=np.arange(2)[:, None, None], reg=np.arange(3)[:, None], lane=LANE)
    assert got.shape == (2, 3, 32)
    assert got[1, 2, 5] == 1024 + 256 + 20
    with pytest.raises(ArgumentTypeError, match="uses warp, reg, for which no values were given"):
        index(lane=LANE)


@each(("text", "position", "part"), rows("indices that are none"))
def test_refusals_name_the_place(text: str, position: int, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_index(text)(lane=LANE)
    assert caught.value.position == position
    assert caught.value.text == text
    assert part in str(caught.value)
    assert "\n" not in str(caught.value)


@each(
    "text",
    [
        "(" * (Most.NESTING.number + 1) + "1" + ")" * (Most.NESTING.number + 1),
        "- " * (Most.NESTING.number + 1) + "1",
        "1+" * Most.LINE.number + "1",
        "1ll << 62",
        "(1ll << 61) * 2",
        "((1ll << 61) - 1 + (1ll << 61)) + 1",
        "*".join(["lane", "1ll"] * 13),
    ],
)
def test_growth_is_bounded(text: str) -> None:
    with pytest.raises(ResourceError):
        parse_index(text)(lane=LANE)
