"""Index expressions: the meaning is Python's on naturals, every disputed or unbounded case is refused."""

from __future__ import annotations

import operator
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.errors import ArgumentTypeError, ParseError, ResourceError
from layoutalg.index_text import MAX_LENGTH, MAX_NESTING, MAX_VALUE, parse_index

LANE = np.arange(32)
BINARY: dict[str, tuple[int, Callable[[Any, Any], Any]]] = {
    "*": (6, operator.mul),
    "/": (6, operator.floordiv),
    "//": (6, operator.floordiv),
    "%": (6, operator.mod),
    "+": (5, operator.add),
    "-": (5, operator.sub),
    "<<": (4, operator.lshift),
    ">>": (4, operator.rshift),
    "&": (3, operator.and_),
    "^": (2, operator.xor),
    "|": (1, operator.or_),
}
UNARY: dict[str, Callable[[Any], Any]] = {"+": operator.pos, "-": operator.neg, "~": operator.invert}

# A tree is the text of an expression with no more parentheses than it needs, the strength of its outermost
# operator, and its value at each lane by Python's own operators (None where the expression is undefined).
Tree = tuple[str, int, list[int | None]]


def leaf(value: int) -> Tree:
    return str(value), 9, [value] * len(LANE)


def unary(symbol: str, a: Tree) -> Tree:
    text = a[0] if a[1] >= 7 else f"({a[0]})"
    return f"{symbol}{text}", 7, [None if x is None else UNARY[symbol](x) for x in a[2]]


def binary(symbol: str, a: Tree, b: Tree, spaced: bool) -> Tree:
    strength, function = BINARY[symbol]
    left = a[0] if a[1] >= strength else f"({a[0]})"
    right = b[0] if b[1] > strength else f"({b[0]})"

    def one(x: int | None, y: int | None) -> int | None:
        if x is None or y is None:
            return None
        if symbol in ("/", "//", "%", "<<", ">>") and (x < 0 or y < 0):
            return None
        if symbol in ("/", "//", "%") and y == 0:
            return None
        if symbol == "<<":
            return 0 if x == 0 else x << y if y < 63 and x << y < MAX_VALUE else None
        value = int(function(x, y))
        return value if abs(value) < MAX_VALUE else None

    gap = " " if spaced else ""
    return f"{left}{gap}{symbol}{gap}{right}", strength, [*map(one, a[2], b[2])]


NAMED: list[Tree] = [("lane", 9, [*range(32)]), ("0x1F", 9, [31] * 32)]
LEAVES: st.SearchStrategy[Tree] = st.one_of(st.integers(0, 300).map(leaf), st.sampled_from(NAMED))
TREES: st.SearchStrategy[Tree] = st.recursive(
    LEAVES,
    lambda t: st.one_of(
        st.builds(unary, st.sampled_from(sorted(UNARY)), t),
        st.builds(binary, st.sampled_from(sorted(BINARY)), t, t, st.booleans()),
    ),
    max_leaves=12,
)


@given(TREES)
@example(binary("<<", leaf(0), leaf(201), False))
def test_the_meaning_is_pythons_or_the_text_is_refused(tree: Tree) -> None:
    text, _, expected = tree
    try:
        got = parse_index(text)(lane=LANE)
    except ParseError:
        assert None in expected, text
    except ResourceError:
        pass  # the bound on growth is an interval's, so it may refuse what just fits
    else:
        assert got.tolist() == expected, text


@pytest.mark.parametrize(
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
        ("0 << 4000", [0] * 32),
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


@pytest.mark.parametrize(
    ("text", "position", "part"),
    [
        ("", 0, "the end at character 0"),
        ("lane +", 6, "the end at character 6 of 'lane +'; expected a number, '(' or a variable"),
        ("lane lane", 5, "expected an operator"),
        ("lane ** 2", 6, "'*' at character 6"),
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
        ("1.5*lane", 0, "'1.5' at character 0 of '1.5*lane' is no integer"),
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


@pytest.mark.parametrize(
    "text",
    [
        "(" * (MAX_NESTING + 1) + "1" + ")" * (MAX_NESTING + 1),
        "-" * (MAX_NESTING + 1) + "1",
        "1+" * MAX_LENGTH + "1",
        "9" * 40,
        "1 << 62",
        "1 << 100000000",
        "(1 << 61) * 2",
        "((1 << 61) - 1 + (1 << 61)) + 1",
        "*".join(["lane"] * 13),
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
