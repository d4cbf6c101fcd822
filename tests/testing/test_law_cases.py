"""Laws on drawn operands: the same for the same seed, held, and refuted by an algebra that is wrong."""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Any

import pytest

from layoutalg.errors import ArgumentTypeError, MismatchError, ShapeError, UnknownNameError
from layoutalg.layout import Layout
from layoutalg.testing import LAWS, check_law, laws

CASES = 60


@pytest.mark.parametrize("name", LAWS)
def test_a_law_says_something_of_what_is_drawn(name: str) -> None:
    held = [check_law(name, seed) for seed in range(CASES)]
    assert held == [check_law(name, seed) for seed in range(CASES)]
    assert sum(held) > CASES // 5


@pytest.mark.parametrize("kind", sorted({kind for law in LAWS.values() for kind in law.operands}))
def test_operands_differ_from_seed_to_seed_and_not_otherwise(kind: str) -> None:
    first, again = ([str(laws.drawn(kind, random.Random(n))) for n in range(CASES)] for _ in range(2))
    assert first == again and len(set(first)) > 5


WRONG: tuple[tuple[str, Callable[..., Any], str], ...] = (
    ("coalesce", lambda a: Layout(6, 7), "coalescing changes no value"),
    ("complement", lambda a, target=None: Layout(2, 1), "a layout and its complement are a bijection"),
    ("left_inverse", lambda a: Layout(4, 2), "a left inverse gives the index back"),
    ("right_inverse", lambda a: Layout(4, 3), "a right inverse gives the offset back"),
    ("composition", lambda a, b: b, "composition is one function after the other"),
    ("logical_product", lambda a, b: Layout(3, 2), "products of compact layouts are compact"),
    ("logical_divide", lambda a, b: Layout(a.shape, 3), "dividing permutes the indices"),
    ("is_injective", lambda a: True, "what is decided is what the table shows"),
    ("same_function", lambda a, b: False, "layouts are the same where their tables are"),
    ("downcast", lambda a, n: a, "a downcast has the same bytes"),
    ("parse", lambda text: Layout(1), "a value is its text"),
    ("normal_form", lambda a: Layout(3, 5), "a normal form is the same function"),
)


@pytest.mark.parametrize(("name", "wrong", "law"), WRONG, ids=[name for name, _, _ in WRONG])
def test_a_wrong_operation_is_found(
    name: str, wrong: Callable[..., Any], law: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(laws, name, wrong)
    found = []
    for seed in range(CASES):
        try:
            check_law(law, seed)
        except MismatchError as error:
            found.append(str(error))
    assert found and all(said.startswith(f"{law}: ") and "seed" in said for said in found)


def test_an_operation_that_fails_where_it_may_not_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(a: object) -> object:
        raise ShapeError("no layout at all")

    monkeypatch.setattr(laws, "coalesce", refuse)
    with pytest.raises(MismatchError, match=r"coalescing .*, seed 3: ShapeError: no layout"):
        check_law("coalescing changes no value", 3)


@pytest.mark.parametrize(
    ("name", "seed", "error"),
    [
        ("composition is commutative", 0, UnknownNameError),
        ("coalescing changes no value", -1, ShapeError),
        ("coalescing changes no value", 1.0, ArgumentTypeError),
        ("coalescing changes no value", True, ArgumentTypeError),
    ],
)
def test_what_is_no_case_is_refused(name: str, seed: Any, error: type[Exception]) -> None:
    with pytest.raises(error):
        check_law(name, seed)
