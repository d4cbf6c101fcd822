"""Index expressions: what Python and C agree upon is read, every disputed or unbounded case is refused."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ParseError, ResourceError
from layoutalg.notation import parse_index
from layoutalg.notation.expression_text import MAX_LENGTH, MAX_NESTING
from tests.draws import index_trees
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
    """Refused exactly where the definition, lane by lane in the types of C, finds a disagreement."""
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


@each(
    ("text", "position", "part"),
    [
        ("++lane", 0, "'++' at character 0 of '++lane' changes a variable in C"),
        ("--lane", 0, "'--'"),
        ("lane--1", 4, "'--' at character 4"),
        ("lane+++1", 4, "'++' at character 4"),
        ("lane >> 64", 5, "shifts 32 bits by 64, which C leaves undefined"),
        ("lane << 32", 5, "shifts 32 bits by 32"),
        ("0 << 4000", 2, "shifts 32 bits by 4000"),
        ("1ll << 64", 4, "shifts 64 bits by 64"),
        (
            "lane * 0x10000000",
            5,
            "is past the 32 bits of C's int (a number with the suffix ll has 64) at lane=8",
        ),
        ("2147483647 + lane", 11, "is past the 32 bits of C's int"),
        ("lane - 4u", 5, "is past what C's unsigned integer of 32 bits holds at lane=0"),
        ("0xFFFFFFFF + lane", 11, "unsigned integer of 32 bits holds at lane=1"),
        ("(lane - 4) * 8ll", 11, "has an operand that C may hold as another number in 32 bits at lane=0"),
        ("(4u - lane) % 3", 12, "has a negative operand (-27)"),
        ("(0xFFFFFFFF + lane) >> 1", 20, "another number in 32 bits at lane=1"),
        ("1lll", 0, "'1lll' at character 0"),
        ("1lL", 0, "'1lL'"),
        ("1uu", 0, "'1uu'"),
        ("lane && 1", 6, "'&' at character 6"),
        ("!lane", 0, "'!'"),
        ("lane < 4", 5, "'<'"),
        ("lane ? 1 : 2", 5, "'?'"),
        ("lane /* 4 */", 6, "'*' at character 6"),
    ],
)
def test_what_is_c_alone_or_python_alone_is_refused(text: str, position: int, part: str) -> None:
    with pytest.raises(ParseError) as caught:
        parse_index(text)(lane=LANE)
    assert caught.value.position == position and part in str(caught.value)


@each("given", [1.5, True, [1 << 31], np.arange(4.0), "lane", [1 << 70]])
def test_variables_are_integers_of_32_bits(given: object) -> None:
    with pytest.raises(ArgumentTypeError, match=r"lane is .*: an array of integers of 32 bits is needed"):
        parse_index("lane * 4")(lane=given)


@each(
    ("text", "expected"),
    [
        ("(lane//8)*144 + (lane%8)*16", [lane // 8 * 144 + lane % 8 * 16 for lane in range(32)]),
        ("(lane/8)*144+lane%8*16", [lane // 8 * 144 + lane % 8 * 16 for lane in range(32)]),
        ("threadIdx.x * 4u ^ (laneid >> 3 & 7) << 2", [t * 4 ^ (t >> 3 & 7) << 2 for t in range(32)]),
        ("1 + 2 << 3 & 31 ^ 5 | 64", [1 + 2 << 3 & 31 ^ 5 | 64] * 32),
        ("10 - 4 - 3", [3] * 32),
        ("0b101ULL + 0X10", [21] * 32),
        ("~~lane", list(range(32))),
        ("-(-lane)", list(range(32))),
        ("lane - 4", [lane - 4 for lane in range(32)]),
        ("(lane - 4) * 4 + 64", [lane * 4 + 48 for lane in range(32)]),
        ("lane * 0x10000000LL", [lane << 28 for lane in range(32)]),
        ("lane - -1 + +2", [lane + 3 for lane in range(32)]),
        ("3 - 2u", [1] * 32),
    ],
)
def test_examples(text: str, expected: list[int]) -> None:
    assert parse_index(text)(lane=LANE, tid=LANE).tolist() == expected


def test_several_variables_broadcast() -> None:
    index = parse_index("warp*1024 + reg*128 + lane*4")
    assert index.names == ("warp", "reg", "lane")
    got = index(warp=np.arange(2)[:, None, None], reg=np.arange(3)[:, None], lane=LANE)
    assert got.shape == (2, 3, 32)
    assert got[1, 2, 5] == 1024 + 256 + 20
    with pytest.raises(ArgumentTypeError, match="uses warp, reg, for which no values were given"):
        index(lane=LANE)


@each(
    ("text", "position", "part"),
    [
        ("", 0, "the end at character 0"),
        ("lane +", 6, "the end at character 6 of 'lane +'; expected a number, '(' or a variable"),
        ("lane lane", 5, "expected an operator"),
        ("lane ** 2", 5, "'**' at character 5"),
        ("lane[0]", 4, "'[' at character 4"),
        ("(lane", 5, "ends with an open '('"),
        ("lane)", 4, "closes no '('"),
        ("()", 1, "')' at character 1"),
        ("foo*4", 0, "unknown variable 'foo' at character 0 of 'foo*4': accepted are lane"),
        ("__import__('os')", 0, "unknown variable '__import__'"),
        ("lane.__class__", 0, "unknown variable 'lane.__class__'"),
        ("lane if 1 else 2", 5, "'i' at character 5"),
        ("lane; 1", 4, "';' at character 4"),
        ("010 + lane", 0, "octal in C"),
        ("1.5*lane", 0, "'1.5' at character 0 of '1.5*lane' is not an integer"),
        ("1e3", 0, "'1e3'"),
        ("lane == 3", 5, "'='"),
        ("lane % (lane - lane)", 5, "divides by zero at lane=0"),
        ("(lane - 1) / 2", 11, "has a negative operand (-1), on which Python and C disagree at lane=0"),
        ("(8 - lane) >> 1", 11, "at lane=9"),
        ("1 << (lane - 31)", 2, "'<<' at character 2"),
        ("-lane // 2", 6, "at lane=1"),
    ],
)
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
        "(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1),
        "- " * (MAX_NESTING + 1) + "1",
        "1+" * MAX_LENGTH + "1",
        "9" * 40,
        "1ll << 62",
        "(1ll << 61) * 2",
        "((1ll << 61) - 1 + (1ll << 61)) + 1",
        "*".join(["lane", "1ll"] * 13),
    ],
)
def test_growth_is_bounded(text: str) -> None:
    with pytest.raises(ResourceError):
        parse_index(text)(lane=LANE)


def test_the_deepest_and_longest_accepted_text_evaluates() -> None:
    deep = "(" * MAX_NESTING + "lane" + ")" * MAX_NESTING
    assert parse_index(deep)(lane=LANE).tolist() == LANE.tolist()
    long = "+".join(["1"] * (MAX_LENGTH // 2))
    assert parse_index(long)().tolist() == MAX_LENGTH // 2
