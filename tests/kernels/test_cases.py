"""The problems that are timed."""

from __future__ import annotations

from math import prod

from layoutalg.kernels.checks import move as moves
from layoutalg.kernels.checks.rowwise import CASES, DTYPES, ELEMS, REDUCED, Case, random_cases
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.norms import NORMS as OPS


def test_the_drawn_permutes_are_the_same_for_the_same_seed() -> None:
    assert moves.random_cases() == moves.random_cases() != moves.random_cases(1)
    assert len(moves.random_cases()) == 20


def test_the_drawn_permutes_are_large_and_no_copies() -> None:
    for shape, axes in (*moves.CASES, *moves.random_cases()):
        assert prod(shape) > moves.ELEMS // 4 and normalise(permute_problem(shape, axes, "u8")).rank > 1


def test_the_drawn_reductions_are_the_same_for_the_same_seed() -> None:
    assert random_cases() == random_cases() != random_cases(1)
    assert [case.op in OPS for case in random_cases()] == [False] * 12 + [True] * 8


def test_the_drawn_reductions_are_large_and_reduce_some_modes_of_many() -> None:
    for case in random_cases():
        assert ELEMS / 2 < prod(case.shape) < 2 * ELEMS and 0 < len(case.axes) < len(case.shape)


def test_the_quoted_reductions_are_there() -> None:
    assert len(CASES) == len(set(CASES)) and len([c for c in CASES if c.op == "sum"]) == 3 * len(REDUCED)
    assert Case("softmax", (65536, 1024), (0,), "bf16") in CASES and {c.dtype for c in CASES} == set(DTYPES)
