"""Questions that ran for days, crashed or were answered wrongly where numbers or work were large."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy
import pytest

from layoutalg.analysis import Access, analyze_access
from layoutalg.budget import UNITS, metered
from layoutalg.decide import find_coordinate
from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    ParseError,
    ResourceError,
    ShapeError,
    UndecidedError,
)
from layoutalg.layout import ComposedLayout, Layout, ScaledBasis, Swizzle
from layoutalg.notation import parse, parse_int_tuple, parse_tiler
from layoutalg.reading import parse_index
from tests.command import answer, refusal
from tests.sweeps import each


def test_an_offset_that_a_chain_of_strides_misses_is_decided() -> None:
    layout, offset = Layout((1 << 38, 748063000, 79), (3072, 655360, 3)), 608619029553582
    with metered() as meter:
        assert find_coordinate(layout, offset) is None
    assert meter.units < UNITS // 100
    there = layout((12345678901, 700000000, 7))
    found = find_coordinate(layout, there)
    assert found is not None and layout(found) == there


def test_numbers_past_floating_point_are_reduced_exactly() -> None:
    big = 1 << 1100
    layout = Layout((big, big + 1, 9), (big * 6 + 10, big * 10 + 6, big * 15 + 35))
    try:
        found = find_coordinate(layout, layout((big - 5, big // 3, 7)))
    except UndecidedError as error:
        pytest.fail(str(error))
    assert found is not None and layout(found) == layout((big - 5, big // 3, 7))


# Numbers that wrapped in 64-bit arithmetic.


def test_offsets_of_an_index_expression_do_not_wrap() -> None:
    assert answer(*INDEX)["accesses"][0]["sectors"] == 2


INDEX = ("analyze", "--index", "(lane%2)*0x2000000000000000", "--op", "ld.global.b32")
LONG, DIGITS = "9" * 22, "9" * 30
TURNED = ("generate", "permute", "--axes", "1,0", "--shape")
REFUSED = {
    "ResourceError": (
        (*INDEX, "--base", str((1 << 62) - 4)),
        ("analyze", "--index", "lane*4", "--op", "ld.global.b32", "--base", DIGITS),
        ("analyze", "--offsets", "/dev/zero", "--op", "ld.global.b32"),
        (*TURNED, "999999999999999999,4"),
        ("verify", "transpose", "--m", "100000", "--n", "100000"),
        ("verify", "softmax", "--shape", "999999999,999999999"),
        ("verify", "gemm-sm80", "--m", "999999", "--n", "999999", "--k", "64"),
    ),
    "ShapeError": (
        *(("analyze", layout, "--base", base) for layout in ("(32,32):(32,1)", "(1003,7):(7,1)")
          for base in (str((1 << 62) - 1024), DIGITS)),
        ("solve", f"({LONG},64):(ld,1)", "--access", "ld.shared.b32"),
        *(("solve", "(64,64):(ld,1)", "--access", "ld.shared.b32", "--efficiency", share)
          for share in ("inf", "nan", "-inf", "0", "1.5", "1e999")),
        ("verify", "transpose", "--m", "0", "--n", "5"), ("verify", "transpose", "--m", "5", "--n", "0"),
        ("verify", "transpose", "--seed", "-1", "--m", "8", "--n", "8"),
    ),
    "ParseError": (("generate", "softmax", "--shape", "\x1e3,4"),),
    "": (
        (*TURNED, "999999999999999999,999999999999999999"), ("generate", "permute", "--shape", "3,4"),
        ("solve", f"(64,{LONG}):(ld,1)", "--access", "ld.shared.b32"),
        ("solve", f"({LONG},64):(ld,1)", "--access", "ldmatrix.x4", "--dtype", "f16"),
        ("solve", f"({LONG},64):(ld,1)", "--access", "ld.global.b16", "--dtype", "f16"),
        ("solve", f"(1024,3,{LONG[2:]}):(ld,5,0)", "--access", "ld.shared.b32"),
    ),
}  # fmt: skip
"""Numbers that wrapped, work without a limit, and a 0 that was taken for no number, by the error."""


@each(("error", "words"), [(error, words) for error, asked in REFUSED.items() for words in asked], sample=12)
def test_what_is_too_large_is_refused(error: str, words: tuple[str, ...]) -> None:
    found, sentence = refusal(*words)
    assert found == (error or found) and (
        "2147483647" in sentence or words != (*TURNED, "999999999999999999,4")
    )


def test_a_swizzle_of_high_bits_leaves_low_offsets() -> None:
    found = answer("analyze", "Sw<1,58,5> o 0 o (32,33):(33,1)")["accesses"]
    plain = answer("analyze", "(32,33):(33,1)")["accesses"]
    assert [a["total"] for a in found] == [a["total"] for a in plain]


def test_arrays_of_offsets_are_exact_or_refused() -> None:
    assert Layout((4, 4), (1 << 61, -(1 << 61)))(numpy.arange(16)).tolist() == [
        (c % 4 - c // 4) << 61 for c in range(16)
    ]
    assert Layout(100, 1_000_000)(numpy.arange(100, dtype="i1")).tolist()[-1] == 99_000_000
    assert Layout(8, -1)(numpy.arange(8, dtype="u1")).tolist() == [0, -1, -2, -3, -4, -5, -6, -7]
    assert Swizzle(1, 58, 5)(numpy.arange(3)).tolist() == [0, 1, 2]
    with pytest.raises(ResourceError, match="int64"):
        Layout(4, 1 << 62)(numpy.arange(4))
    with pytest.raises(ResourceError, match="int64"):
        ComposedLayout(Swizzle(1, 0, -63), 0, Layout(2))(numpy.arange(2))


def test_variables_of_an_index_expression_are_integers_of_32_bits() -> None:
    index = parse_index("lane + 1")
    with pytest.raises(ArgumentTypeError, match="lane"):
        index(lane=numpy.array([1 << 63], dtype="u8"))
    with pytest.raises(ArgumentTypeError, match="lane"):
        index(lane=numpy.array([1.5]))
    with pytest.raises(ParseError, match="is not an integer"):
        parse_index("0x" + "f" * 4000)


# Characters and numbers that crashed readers.


@each("blank", ["\u00a0", "\x0c", "\u3000", "\u2003"])
@each("read", [parse, parse_int_tuple, parse_tiler])
def test_another_blank_at_the_end_is_refused_where_it_stands(
    read: Callable[[str], object], blank: str
) -> None:
    text = "(4,8):(8,1)" if read is not parse_int_tuple else "(4,8)"
    assert read(text + " \t\n") == read(text)
    with pytest.raises(ParseError) as info:
        read(text + blank)
    assert info.value.position == len(text)


# Work and sizes without a limit.


def test_extents_and_strides_past_int64_meet_arrays() -> None:
    wide = Layout((1 << 70, 3), (1, 1 << 70))
    assert wide(numpy.arange(4)).tolist() == [0, 1, 2, 3]
    assert wide((numpy.arange(2), 0)).tolist() == [0, 1]
    assert Layout((1 << 40, 1 << 40), (1 << 40, 1))(numpy.arange(9))[8] == 8 << 40
    with pytest.raises(ShapeError, match="coordinate -1 is negative"):
        wide(numpy.array([0, -1]))


def test_arrays_of_long_integers_meet_others() -> None:
    long = numpy.array([93, 1 << 70], dtype=object)
    layout, few = Layout((4, 20), (-2, 65535)), numpy.array([20518, 16774], dtype="i2")
    assert layout(few, long).tolist() == [layout(20518, 93), layout(16774, 1 << 70)]
    swizzled = ComposedLayout(Swizzle(2, 3, 2), 1 << 62, Layout((4, 20), (3, 65535)))
    assert swizzled(few, long).tolist() == [swizzled(20518, 93), swizzled(16774, 1 << 70)]
    assert Layout((5, 9), (11, 11))(few, 1 << 40).tolist() == [
        11 * (20518 + (1 << 40)),
        11 * (16774 + (1 << 40)),
    ]
    with pytest.raises(ArgumentTypeError, match="dtype object"):
        layout(numpy.array([1, "a"], dtype=object))


def test_an_array_gives_as_many_offsets() -> None:
    assert Layout((), ())(numpy.arange(3)).tolist() == [0, 0, 0]
    assert Layout(((), 3), ((), 5))(numpy.arange(2), 1).tolist() == [5, 5]


def test_coordinates_of_arrays_are_exact() -> None:
    far = Layout((4, 8), (ScaledBasis(1 << 62, 1), ScaledBasis(1, 0)))
    assert [part.tolist() for part in far((numpy.arange(2), numpy.arange(2)))] == [[0, 1], [0, 1 << 62]]
    with pytest.raises(ResourceError):
        far((numpy.arange(4), numpy.arange(4)))
    near = Layout((4, 8), (ScaledBasis(1, 1), ScaledBasis(1, 0)))
    flat = numpy.array([1 << 63, 5], dtype="u8")
    assert [part.tolist() for part in near(flat)] == [[1 << 61, 1], [0, 1]]


@each("text", ["Sw<3,0,60> o 0 o 1:66", "Sw<8,2,54> o 0 o (32,4):(4,1)", "Sw<4,40,20> o 8 o (8,8):(8,1)"])
@each("op", ["ld.global.b32", "ld.shared.b32"])
def test_a_swizzle_of_bits_past_the_memory_does_nothing(text: str, op: str) -> None:
    swizzled = parse(text)
    assert isinstance(swizzled, ComposedLayout)
    plain = ComposedLayout(Swizzle(0, 0, 0), swizzled.offset, swizzled.inner)
    access = Access.default(op, Layout(swizzled.shape), "f32")
    found = analyze_access(swizzled, access)
    assert replace(found, method="enumerated") == analyze_access(swizzled, access, method="enumerated")
    assert found == analyze_access(plain, access)


HUGE = 10**5000


@each(
    "ask",
    [
        lambda: Swizzle(HUGE, 0, 1),
        lambda: Swizzle(1, -HUGE, 1),
        lambda: Layout(-HUGE),
        lambda: Layout((4, 8), (HUGE, 1)),
        lambda: Layout((4, 8))(-HUGE),
        lambda: Layout((4, 8))((1, -HUGE)),
        lambda: find_coordinate(Layout((4, 8)), HUGE),
        lambda: ComposedLayout(Swizzle(1, 0, 1), -HUGE, Layout(4)),
        lambda: parse_tiler(HUGE),  # type: ignore[arg-type]
    ],
)
def test_refusals_show_integers_that_python_does_not_write(ask: Callable[[], object]) -> None:
    with pytest.raises(LayoutAlgError) as refused:
        ask()
    assert len(str(refused.value)) < 1000
