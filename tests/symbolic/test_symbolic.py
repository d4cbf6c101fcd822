"""Answers in symbols: the known numbers, and that they hold exactly where a concrete analysis says so."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import pytest
import sympy
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Access, GlobalReport, SharedReport, analyze
from layoutalg.arch import INSTRUCTIONS
from layoutalg.decide import is_injective
from layoutalg.dtype import dtype
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.symbolic import (
    Condition,
    ResidueSet,
    SymbolicLayout,
    solve_conflict_free,
    solve_sectors,
    symbolic_access,
    symbolic_cost,
)
from tests.sweeps import each
from tests.symbolic.questions import ANY, LD, access, at, column, questions


@each(
    ("what", "shape", "pitch", "answer"),
    [
        (column("ld.shared.b32", "f32"), (32, 32), LD, "ld odd"),
        (column("ld.shared.b32", "f32"), (32, 32), 32 + LD, "ld odd"),
        (column("ld.shared.b32", "f32"), (32, 32), 2 * LD, "no ld"),
        (column("ld.shared.b16", "f16"), (32, 64), LD,
         "ld mod 64 in {2, 6, 10, 14, 18, 22, 26, 30, 33, 34, 38, 42, 46, 50, 54, 58, 62}, or ld = 1"),
        (column("ld.shared.b64", "f64"), (32, 32), LD, "ld odd"),
        (column("ld.shared.b128", "f32", 4), (32, 32), LD, "ld mod 8 = 4"),
        (access("ldmatrix.x1", (((8, 4), 8), ((1, 0), 8)), "f16"), (8, 8), LD, "ld mod 16 = 8"),
        (access("ldmatrix.x4", (((16, 2), 8), ((1, 128), 16)), "f16"), (16, 16), LD, "ld mod 16 = 8"),
        (access("st.shared.b64", (((4, 8), 2), ((16, 1), 8)), "f32"), (8, 8), LD,
         "ld mod 16 = 8"),
    ],
)  # fmt: skip
def test_known_answers(what: Access, shape: tuple[int, int], pitch: Any, answer: str) -> None:
    found = solve_conflict_free((shape, (pitch, 1)), what, LD)
    assert str(found) == answer


def test_the_hardware_numbers_of_pitches() -> None:
    """Wavefronts of one instruction that were counted, here as one function of the pitch."""
    rows = access("ldmatrix.x1", (((8, 4), 8), ((1, 0), 8)), "f16")
    cost = symbolic_cost(((8, 8), (LD, 1)), rows, LD)
    pitches = (16, 32, 48, 64, 80, 128, 144, 160, 192, 256, 272, 136)
    assert [cost.at(p // 2) for p in pitches] == [1, 2, 1, 4, 1, 8, 1, 2, 4, 8, 1, None]
    fragment = access("st.shared.b64", (((4, 8), 2), ((16, 1), 8)), "f32")
    cost = symbolic_cost(((8, 8), (LD, 1)), fragment, LD)
    assert [cost.at(p) for p in (8, 16, 32, 36, 40, 64, 68, 72, 136)] == [2, 4, 8, 4, 2, 8, 4, 2, 2]
    doubles = symbolic_cost(((32, 32), (LD, 1)), column("ld.shared.b64", "f64"), LD)
    assert [doubles.at(p) for p in (32, 33, 34)] == [32, 2, 4]
    halves = symbolic_cost(((32, 64), (LD, 1)), column("ld.shared.b16", "f16"), LD)
    assert [halves.at(p) for p in (64, 65, 66, 72)] == [32, 2, 1, 4]
    floats = symbolic_cost(((32, 32), (LD, 1)), column("ld.shared.b128", "f32", 4), LD)
    assert [floats.at(p) for p in (32, 33, 36)] == [32, None, 4]
    octets = symbolic_cost((32, LD), access("ld.shared.b8", ((32, 1), (1, 0)), "u8"), LD)
    assert [octets.at(p) for p in (4, 33, 128, 129, 132)] == [1, 1, 32, 4, 1]


def test_the_closed_form_branches_on_gcd_classes() -> None:
    cost = symbolic_cost(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), LD).piecewise()
    for d in range(1, 200):
        assert cost.subs(LD, d) == sympy.igcd(d, 32)
    assert len(cost.args) == 6


@pytest.mark.deep
@given(questions("shared"), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_the_set_holds_where_the_analysis_says_so(
    question: tuple[SymbolicLayout, Access, Any], values: list[int]
) -> None:
    layout, what, base = question
    found = solve_conflict_free(layout, what, ANY, base=base)
    for value in values:
        try:
            report = analyze(*at(question, value))
        except AlignmentError:
            free = False
        else:
            assert isinstance(report, SharedReport)
            free = report.conflict_free and (
                not INSTRUCTIONS[what.op].stores or is_injective(layout.at({ANY: value}))
            )
        member = found.holds(value) if isinstance(found, ResidueSet) else found.holds({ANY: value})
        assert member == free


@pytest.mark.deep
@given(questions(), st.lists(st.integers(0, 300), min_size=1, max_size=8))
def test_the_cost_is_that_of_the_analysis(
    question: tuple[SymbolicLayout, Access, Any], values: list[int]
) -> None:
    layout, what, base = question
    try:
        cost = symbolic_cost(layout, what, ANY, base=base)
    except UndecidedError:
        return
    for value in values:
        try:
            report = analyze(*at(question, value))
        except AlignmentError:
            assert cost.at(value) is None
        else:
            assert cost.at(value) == (report.total if isinstance(report, SharedReport) else report.sectors)


@given(questions("global"), st.integers(0, 300), st.sampled_from((0.25, 0.5, 0.9, 1.0)))
def test_the_efficiency_is_that_of_the_analysis(
    question: tuple[SymbolicLayout, Access, Any], value: int, share: float
) -> None:
    layout, what, base = question
    found = solve_sectors(layout, what, ANY, base=base, efficiency=share, distinct=False)
    if not isinstance(found, ResidueSet):
        return
    try:
        report = analyze(*at(question, value))
    except AlignmentError:
        assert not found.holds(value)
    else:
        assert isinstance(report, GlobalReport)
        useful, moved = report.useful_bytes, report.moved_bytes
        assert found.holds(value) == (useful >= Fraction(str(share)) * moved)


# --- sectors, bases, swizzles --------------------------------------------------------------------------


def test_which_leading_dimensions_coalesce() -> None:
    """Rows of 20 floats, one after the other: whole sectors where rows touch or start half a sector on."""
    rows = access("ld.global.b32", (((20, 48), 1), ((48, 1), 0)), "f32")
    assert str(solve_sectors(((48, 20), (LD, 1)), rows, LD, least=20)) == "ld mod 8 = 4"
    cost = symbolic_cost(((48, 20), (LD, 1)), rows, LD, least=20)
    assert {n: cost.at(n) for n in (20, 21, 22, 24, 28)} == {20: 120, 21: 150, 22: 150, 24: 156, 28: 144}
    share = solve_sectors(((48, 20), (LD, 1)), rows, LD, efficiency=0.9, least=20)
    assert str(share) == "ld = 20"


def test_misaligned_bases() -> None:
    shift = sympy.Symbol("shift")
    row = access("ld.global.b32", ((32, 1), (1, 0)), "f32")
    cost = symbolic_cost(Layout(32), row, shift, base=shift)
    assert [cost.at(n) for n in (0, 4, 28, 32, 2)] == [4, 5, 5, 4, None]
    wide = symbolic_cost(Layout(512), access("ld.global.b128", ((32, 16), (16, 1)), "u8"), shift, base=shift)
    assert (wide.at(0), wide.at(16), wide.at(8)) == (16, 17, None)
    assert str(solve_sectors(Layout(32), row, shift, base=shift)) == "shift mod 32 = 0"


def test_a_base_inside_a_swizzle_matters_and_one_outside_does_not() -> None:
    wide = access("ld.shared.b128", ((32, 16), (16, 1)), "u8")
    swizzle = (Swizzle(3, 4, 3),)
    inside = symbolic_cost(SymbolicLayout(512, 1, swizzle, 16 * ANY), wide, ANY)
    assert [inside.at(n) for n in range(8)] == [4, 8, 6, 8, 5, 8, 6, 8]
    outside = symbolic_cost(SymbolicLayout(512, 1, swizzle), wide, ANY, base=16 * ANY)
    assert outside.values == (4,) and outside.exceptions == ()


def test_pitches_under_a_swizzle() -> None:
    rows = access("ldmatrix.x1", (((8, 4), 8), ((1, 0), 8)), "f16")
    found = solve_conflict_free(SymbolicLayout((8, 8), (LD, 1), (Swizzle(3, 3, 3),)), rows, LD)
    assert isinstance(found, ResidueSet) and found.holds(64)
    for pitch in range(8, 1100, 8):
        tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 8), (pitch, 1)))
        report = analyze(tile, rows)
        assert isinstance(report, SharedReport) and found.holds(pitch) == report.conflict_free


def test_narrow_lanes_may_share_a_word() -> None:
    octets = access("ld.shared.b8", ((32, 1), (1, 0)), "u8")
    found = solve_conflict_free((32, ANY), octets, ANY)
    assert isinstance(found, ResidueSet)
    for stride in range(300):
        report = analyze(Layout(32, stride), octets)
        assert isinstance(report, SharedReport) and found.holds(stride) == report.conflict_free


def test_small_values_at_which_rows_overlap_are_exceptions() -> None:
    found = solve_conflict_free(((32, 32), (ANY, 1)), column("ld.shared.b32", "f32"), ANY)
    assert isinstance(found, ResidueSet) and found.also == (0,) and str(found) == "s odd, or s = 0"
    assert found.values(0, 6) == (0, 1, 3, 5)
    assert sympy.latex(found) == sympy.latex(found.condition())


def test_vectors_along_a_symbol_are_contiguous_once() -> None:
    what = access("ld.shared.b64", ((32, 2), (1, 32)), "f32")
    assert str(solve_conflict_free(((32, 2), (2, ANY)), what, ANY)) == "s = 1"


def test_layouts_that_hold_symbols() -> None:
    ld = sympy.Symbol("ld", integer=True, positive=True)
    tile = Layout((64, 64), (ld, 1))
    what = symbolic_access("ldmatrix.x4", tile, "f16")
    assert what == Access.default("ldmatrix.x4", Layout((64, 64), (64, 1)), "f16")
    found = solve_conflict_free(tile, what, ld)
    assert found == solve_conflict_free(((64, 64), (ld, 1)), what, ld) and str(found) == "ld mod 16 = 8"
    with pytest.raises(UnsupportedError, match="the extent ld"):
        solve_conflict_free(Layout((ld, 4), (4, 1)), what, ld)


@pytest.mark.deep
@each("swizzle", [(1, 0, 1), (1, 0, 3), (1, 0, -3), (2, 0, -4), (1, 1, -2), (2, 1, 3), (3, 0, 4)], sample=1)
@each("element", ["u8", "f16"], sample=1)
def test_swizzles_inside_words(swizzle: tuple[int, int, int], element: str) -> None:
    """Lanes a whole period apart may meet in one word: those strides are counted one by one."""
    what = access(f"ld.shared.b{dtype(element).bits}", ((32, 1), (1, 0)), element)
    tile = SymbolicLayout(32, ANY, (Swizzle(*swizzle),))
    cost = symbolic_cost(tile, what, ANY)
    for stride in range(280):
        report = analyze(tile.at({ANY: stride}), what)
        assert isinstance(report, SharedReport) and cost.at(stride) == report.total, stride


def test_strides_that_begin_negative() -> None:
    """Below 40 the column runs downwards, to negative addresses, which the instruction refuses."""
    column_of = column("ld.shared.b32", "f32")
    found = solve_conflict_free(((32, 32), (LD - 40, 1)), column_of, LD)
    assert isinstance(found, ResidueSet)
    assert found.values(1, 48) == (40, 41, 43, 45, 47)
    cost = symbolic_cost(((32, 32), (LD - 40, 1)), column_of, LD)
    assert [cost.at(n) for n in (1, 39, 40, 41, 42, 72)] == [None, None, 1, 1, 2, 32]
    falling = solve_conflict_free(((32, 32), (100 - LD, 1)), column_of, LD)
    assert isinstance(falling, Condition) and "negative without end" in falling.why
    assert [falling.holds({LD: n}) for n in (99, 98, 101)] == [True, False, False]


def test_a_late_start() -> None:
    found = solve_conflict_free(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), LD, least=1 << 40)
    assert isinstance(found, ResidueSet) and found.residues == (1,) and not found.also


# --- what is refused -----------------------------------------------------------------------------------


@each(
    ("ask", "error", "message"),
    [
        (lambda: solve_conflict_free(((32, 32), (LD, 1)), column("ld.global.b32", "f32"), LD),
         UnsupportedError, "solve_sectors answers for it"),
        (lambda: solve_sectors(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), LD),
         UnsupportedError, "solve_conflict_free answers for it"),
        (lambda: solve_conflict_free(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), "ld"),
         ArgumentTypeError, "a sympy Symbol is needed"),
        (lambda: solve_conflict_free(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), LD, least=-1),
         ShapeError, "counted from 0"),
        (lambda: solve_sectors(((32, 32), (LD, 1)), column("ld.global.b32", "f32"), LD, efficiency=1.5),
         ShapeError, "at most 1"),
        (lambda: solve_sectors(((32, 32), (LD, 1)), column("ld.global.b32", "f32"), LD,
                               efficiency=float("nan")), ShapeError, "at most 1"),
        (lambda: solve_sectors(((32, 32), (LD, 1)), column("ld.global.b32", "f32"), LD,
                               efficiency="0.5"),  # type: ignore[arg-type]
         ArgumentTypeError, "a number is needed"),
        (lambda: solve_conflict_free(((32, 32), (LD, 1)), "ld.shared.b32", LD),  # type: ignore[arg-type]
         ArgumentTypeError, "an Access is needed"),
        (lambda: solve_conflict_free(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), LD, base="4*ld"),
         ArgumentTypeError, "base '4[*]ld' is a str"),
        (lambda: solve_conflict_free(((32, 32), (LD, 1)), column("ld.shared.b32", "f32"), LD,
                                     least=1.5),  # type: ignore[arg-type]
         ArgumentTypeError, "least 1.5 is a float"),
    ],
)  # fmt: skip
def test_bad_questions(ask: Any, error: type[Exception], message: str) -> None:
    with pytest.raises(error, match=message):
        ask()
