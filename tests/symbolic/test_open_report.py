"""The cost of accesses to layouts with symbols, as pieces: compared with the analysis at single values."""

from __future__ import annotations

import random
from itertools import product as tuples
from typing import Any

import pytest
import sympy

import layoutalg as la
from layoutalg import errors
from layoutalg.analysis import Access, OpenReport, analyze_access
from layoutalg.symbolic import SymbolicLayout, Values, open_layout, open_report, symbolic_access, values_of
from layoutalg.symbolic.question import count, make_question

LD, K = (sympy.Symbol(name, integer=True, nonnegative=True) for name in ("ld", "k"))
OPS = (
    "ld.shared.b32@row",
    "ld.shared.b32@col",
    "st.shared.b64@row",
    "ldmatrix.x4",
    "ld.global.b32@col",
    "ld.global.b128@row",
)


def drawn(rng: random.Random) -> tuple[SymbolicLayout, str, str, dict[str, Values]]:
    """A layout, an access and ranges, of which a third have two symbols."""
    rows, cols = rng.choice((8, 16, 32)), rng.choice((8, 16, 32, 64))
    several = rng.random() < 0.33
    stride = LD * K if several and rng.random() < 0.5 else rng.choice((1, 1, 2)) * LD + rng.choice((0, 0, 8))
    offset = K * 8 if several and stride.free_symbols == {LD} else 0
    swizzles = (la.Swizzle(3, 3, 3),) if rng.random() < 0.3 else ()
    layout = SymbolicLayout((rows, cols), (stride, 1), swizzles, offset)
    symbols = stride.free_symbols | getattr(offset, "free_symbols", set())
    values = {}
    for name in sorted(s.name for s in symbols):
        first, modulus = rng.choice((1, 8, 32)), rng.choice((1, 4, 8))
        last = first + (rng.choice((8, 24)) if len(symbols) > 1 else rng.choice((20, 200)))
        values[name] = Values(name, first, last, modulus, first % modulus)
    return layout, rng.choice(OPS), rng.choice(("f16", "f32")), values


@pytest.mark.parametrize(("seed", "number"), [(46101, 5), pytest.param(46102, 100, marks=pytest.mark.deep)])
def test_pieces_are_the_cost_at_each_value(seed: int, number: int) -> None:
    rng, met = random.Random(seed), 0
    while met < number:
        layout, op, dtype, values = drawn(rng)
        try:
            report = open_report(layout, op, dtype, where=values)
        except (errors.ShapeError, errors.AlignmentError):
            continue  # the instruction does not fit the tile
        met += 1
        question = make_question(layout, symbolic_access(op, layout, dtype))
        points = list(tuples(*(v.range() for v in values.values())))
        symbols = sorted(
            layout.stride[0].free_symbols | getattr(layout.offset, "free_symbols", set()), key=str
        )
        costs = {}
        for at in points if len(points) < 40 else rng.sample(points, 40):
            cost = count(question, dict(zip(symbols, at, strict=True)))
            costs[at] = None if cost is None else cost.total
        totals = [piece.total for piece in report.pieces]
        assert set(costs.values()) <= set(totals), (str(layout), op)
        assert len(points) >= 40 or set(costs.values()) == set(totals)
        for piece in report.pieces:
            cost = count(question, {s: dict(piece.example)[s.name] for s in symbols})
            assert (None if cost is None else cost.total) == piece.total
        known = [total for total in totals if total is not None]
        assert known == sorted(known) and totals[len(known) :] in ([], [None])


def test_ends_and_errors_are_told() -> None:
    report = la.analyze("(32,32):(ld,1)", "ld.shared.b32@col", "f32", where="ld in 32..64")
    assert isinstance(report, OpenReport) and report.best and report.worst
    assert (report.best.total, report.worst.total) == (32, 1024)
    assert "Best 32 at ld = 33, worst 1,024 at ld = 32." in str(report)
    with pytest.raises(errors.UndecidedError, match="narrower ranges"):
        la.analyze("(32,32):(ld*k,1)", "ld.shared.b32@col", "f32", where="ld in 1..4096")
    with pytest.raises(errors.ArgumentTypeError, match="no symbol"):
        la.analyze("(32,32):(1,32)", "ld.shared.b32@col", "f32", where="")
    with pytest.raises(errors.ArgumentTypeError, match="type of an element"):
        open_report("(32,32):(ld,1)", "ld.shared.b32@col")
    with pytest.raises(errors.UnknownNameError, match="n"):
        la.analyze("(32,32):(ld,1)", "ld.shared.b32@col", "f32", where="n in 1..2")
    column = Access("ld.shared.b32", la.Layout((32, 1), (1, 0)), la.dtype.dtype("f32"))
    misaligned = open_report(SymbolicLayout((32, 32), (LD, 1)), column, base=2, where="ld in 32..40")
    assert misaligned.best is None and "misaligned" in str(misaligned)


def test_a_layout_with_symbols_needs_no_word() -> None:
    op, text = "ld.shared.b32@row", "(2,32):(ld,1)"
    layouts: tuple[Any, ...] = (text, open_layout(text), la.Layout((2, 32), (LD, 1)))
    stated = la.analyze(text, op, "f32", where="")
    assert {la.analyze(layout, op, "f32") for layout in layouts} == {stated}
    assert la.analyze(text, [op], "f32") == [stated]
    column = Access("ld.shared.b32", la.Layout((32, 1), (2, 0)), la.dtype.dtype("f32"))
    with pytest.raises(errors.UnknownNameError, match="sm_42"):
        la.analyze(text, column, "sm_42")
    with pytest.raises(errors.ArgumentTypeError, match="of integers"):
        la.analyze(text, op, "f32", level="dram")
    with pytest.raises(errors.ArgumentTypeError, match="of integers"):
        la.analyze(text, op, "f32", method="f2")
    with pytest.raises(errors.ArgumentTypeError, match="leave it out"):
        la.analyze(text, column, "f16")
    with pytest.raises(errors.UnsupportedError, match="the extent n"):
        la.analyze("(n,32):(32,1)", op, "f32")
    with pytest.raises(errors.ParseError):
        la.analyze("hello", op, "f32")
    with pytest.raises(errors.UnsupportedError, match="has symbols; analyze"):
        analyze_access(layouts[2], column)


@pytest.mark.parametrize(
    ("text", "first", "last", "modulus", "residue"),
    [
        ("", 0, (1 << 31) - 1, 1, 0), ("n > 3, n <= 9", 4, 9, 1, 0), ("n == 7", 7, 7, 1, 0),
        ("n % 4 == 2, n % 6 == 4, n in 5..100", 10, 94, 12, 10),
    ],
)  # fmt: skip
def test_clauses_narrow_what_a_symbol_may_be(
    text: str, first: int, last: int, modulus: int, residue: int
) -> None:
    values = values_of(text, ["n"])["n"]
    assert (values.least, values.most, values.modulus, values.residue) == (
        first, last - (last - residue) % modulus, modulus, residue,
    )  # fmt: skip
    assert [*values.range()[:3]] == [n for n in range(first, first + 3 * modulus) if n in values][:3]


@pytest.mark.parametrize("text", ["n % 4 == 1, n % 6 == 2", "n in 9..2", "n % 4 == 5", "n > 4, n < 5"])
def test_no_value_is_refused(text: str) -> None:
    with pytest.raises(errors.ShapeError):
        values_of(text, ["n"])
