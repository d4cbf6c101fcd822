"""Reading CuTe's text: parse is the inverse of str, and what it refuses it refuses with a position."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.compose import Tiler, tiler_text
from layoutalg.errors import LayoutAlgError, ParseError
from layoutalg.layout import MAX_DEPTH, ComposedLayout, IntTuple, Layout, Swizzle, to_text
from layoutalg.notation import parse, parse_int_tuple, parse_tiler
from layoutalg.notation.symbols import MAX_DIGITS
from layoutalg.testing import composed_layouts, int_tuples, layouts, swizzles
from tests.notation.texts import rows
from tests.sweeps import each
from tests.work import counted

values = st.one_of(layouts(negative=True), swizzles(), composed_layouts())


@given(values)
@example(Layout(()))
@example(Swizzle(3, 4, -3))
@example(Layout((4,)))
@example(Layout(4, -(10**60)))
@example(ComposedLayout(Layout(8, 2), 3, ComposedLayout(Swizzle(1, 0, 1), 0, Layout(4))))
@example(ComposedLayout(Swizzle(1, 0, 1), 0, ComposedLayout(Layout(8), 0, Layout(4))))
def test_parse_is_the_inverse_of_str(value: object) -> None:
    text = str(value)
    assert " " not in text.replace(" o ", "") and "_" not in text
    assert parse(text) == value
    spaced = text.replace(",", " , ").replace(":", " :\n").replace("(", "( ")
    assert parse(f"\t{spaced} ") == value


@given(values)
def test_an_underscore_before_integers_changes_nothing(value: object) -> None:
    text = "".join(f"_{c}" if c.isdigit() or c == "-" else c for c in _spread(str(value)))
    assert parse(text) == value


def _spread(text: str) -> list[str]:
    """The text in tokens, numbers whole."""
    import re

    return re.findall(r"-?[0-9]+|[^0-9-]", text)


@given(int_tuples())
@example(int("9" * MAX_DIGITS))
def test_int_tuples(value: IntTuple) -> None:
    assert parse_int_tuple(to_text(value)) == value


@each(("text", "words"), [
    ("0:1", "must be positive"), ("(4,-2):(1,4)", "must be positive"), ("Sw<3,4,0>", "clears bits"),
    ("Sw<99,99,99>", "past bit 64"), ("Sw<1,0,1> o -1 o 4:1", "non-negative"),
])  # fmt: skip
def test_well_formed_text_of_nothing(text: str, words: str) -> None:
    with pytest.raises(ParseError, match=words):
        parse(text)


tilers: st.SearchStrategy[Tiler] = st.recursive(
    st.one_of(st.none(), st.integers(1, 64), layouts()),
    lambda inner: st.lists(inner, max_size=3).map(tuple),
    max_leaves=5,
)


@given(tilers)
@example(())
def test_tilers(value: Tiler) -> None:
    assert parse_tiler(tiler_text(value)) == value


@each(("bits", "base"), [(1, 7), (4, 5), (8, 4), (16, 3), (32, 2), (64, 1), (128, 0)])
def test_a_swizzle_of_bytes_is_read_in_elements(bits: int, base: int) -> None:
    """Element i of `bits` bits lies at byte bits * i / 8: swizzling either address moves the same bits."""
    text = f"Sw<3,4,3> o smem_ptr[{bits}b](unset) o (8,64):(64,1)"
    value = parse(text)
    assert value == ComposedLayout(Swizzle(3, base, 3), 0, Layout((8, 64), (64, 1)))
    assert isinstance(value, ComposedLayout)
    for i in range(512):
        byte_address = value.inner(i) * bits // 8
        assert value(i) * bits // 8 == Swizzle(3, 4, 3)(byte_address)
    assert parse(str(value)) == value


def test_a_swizzle_inside_one_element_is_refused() -> None:
    with pytest.raises(ParseError, match=r"expected elements of at most 128 bits under Sw<3,4,3>"):
        parse("Sw<3,4,3> o smem_ptr[256b](unset) o 8:1")
    assert str(parse("Sw<0,4,3> o smem_ptr[256b](unset) o 8:1")) == "Sw<0,0,3> o 0 o 8:1"


@each(("text", "position", "expected"), [
    *rows("malformed layouts"),
    ("", 0, "an integer, '(' or '_'"),
    ("8:1 o 0 o " * 100 + "8:1", 356, "at most 64 composed layouts"),
    ("(" * 5000, MAX_DEPTH, "at most 64 nested parentheses"),
    ("8:" + "9" * (MAX_DIGITS + 1), 2, "an integer of at most 100 digits"),
])  # fmt: skip
def test_malformed_text_says_where_and_what(text: str, position: int, expected: str) -> None:
    with pytest.raises(ParseError) as info:
        parse(text)
    assert info.value.position == position
    assert f"expected {expected}" in str(info.value) and f"at position {position}, found" in str(info.value)
    assert info.value.text == text and len(str(info.value)) < 300


@given(st.text(alphabet="()0123456789:,_-o Sw<>smem_ptr[b](unset)x", max_size=40))
def test_any_text_is_read_or_refused(text: str) -> None:
    for reader in (parse, parse_int_tuple, parse_tiler):
        try:
            reader(text)
        except ParseError as error:
            assert 0 <= error.position <= len(text)


LONG: dict[str, Callable[[int], str]] = {
    "flat": lambda n: f"({','.join(['2'] * n)}):({','.join(['2'] * n)})",
    "open": lambda n: "(" * n,
    "deep": lambda n: "(1," * n,
    "chain": lambda n: "1 o " * n,
    "swizzles": lambda n: "Sw<1,0,1> o " * n,
    "wild": lambda n: "_" * n,
    "halves": lambda n: "(((1):" * n,
    "blanks": lambda n: " " * n + "x",
}


@pytest.mark.deep
@each("name", LONG, sample=2)
def test_long_text_takes_work_in_proportion(name: str) -> None:
    """Twice the text takes twice the steps at most; all but the first are refused."""

    def steps(n: int) -> int:
        def read() -> None:
            try:
                value = parse(LONG[name](n))
            except LayoutAlgError:
                assert name != "flat"
            else:
                assert name == "flat" and len(value.shape) == n  # type: ignore[union-attr, arg-type]

        return counted(read)[1]

    assert steps(8000) < 2.2 * steps(4000) + 200
