"""nearest_legal: changes of several rounds, and requests that no change makes legal."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.errors import ShapeError
from layoutalg.layout import Layout
from layoutalg.legality import (
    Legality,
    Rule,
    Violation,
    check_tma,
    check_wgmma,
    check_wgmma_instruction,
    nearest_legal,
)
from layoutalg.legality.repair import ROUNDS
from tests.legality.test_legality_wgmma import BROKEN
from tests.legality.test_tma_rules import ALONE, WIDE
from tests.sweeps import each

RULE = Rule("toy.size", "at most 4", "a toy's manual")


@each(("rule", "asked", "says", "nearest"), ALONE)
def test_every_broken_copy_with_a_fix_is_repaired(
    rule: str, asked: dict[str, Any], says: str, nearest: str
) -> None:
    request = {"tensor": WIDE, "box": (64, 64), "element": "f16", **asked}
    (violation,) = check_tma(**request).violations
    found = nearest_legal(check_tma, request)
    assert (found is not None) == bool(violation.fix)
    if found is not None:
        assert check_tma(**{**request, **found.changes}).legal


@each(("rule", "layout", "asked", "says", "nearest"), [case for case in BROKEN if "cut" not in case[2]])
def test_every_broken_operand_is_repaired(
    rule: str, layout: Any, asked: dict[str, Any], says: str, nearest: str
) -> None:
    request = {"element": "f16", "operand": "A", "layout": layout, **asked}
    found = nearest_legal(check_wgmma, request)
    assert found is not None and check_wgmma(**{**request, **found.changes}).legal


def test_several_rules_take_several_rounds() -> None:
    request = {"a": "s8", "b": "f16", "accumulator": "f32", "n": 40, "a_major": "MN", "a_source": "registers"}
    found = nearest_legal(check_wgmma_instruction, request)
    assert found is not None and found.report.require().ptx.endswith("m64n32k32.s32.s8.s8")
    assert found.changes == {"b": "s8", "accumulator": "s32", "n": 32, "a_major": "K"}


def test_a_legal_request_is_not_changed() -> None:
    found = nearest_legal(check_tma, {"tensor": WIDE, "box": (64, 64), "element": "f16"})
    assert found is not None and found.changes == {}


def test_changes_without_an_end_are_no_repair() -> None:
    asked = []

    def never(size: int) -> Legality[int]:
        asked.append(size)
        return Legality("a toy", (Violation(RULE, "", "", "", (("size", size + 1),)),))

    assert nearest_legal(never, {"size": 0}) is None
    assert max(asked) == ROUNDS
    assert nearest_legal(lambda: Legality("a toy", (Violation(RULE, "", "", ""),)), {}) is None


def test_changes_that_do_not_fit_together_are_made_one_by_one() -> None:
    """Two leaves of a box that each need another tree of the tensor."""

    def both(a: int, b: int) -> Legality[int]:
        if a != 0 and b != 0:
            raise ShapeError("not both")
        if a == 1 or b == 1:
            return Legality("a toy", (), result=1)
        fixes = ((("a", 1),), (("b", 1),))
        return Legality("a toy", tuple(Violation(RULE, "", "", "", fix) for fix in fixes))

    found = nearest_legal(both, {"a": 0, "b": 0})
    assert found is not None and found.changes == {"a": 1}


def test_what_is_not_understood_is_an_error() -> None:
    with pytest.raises(ShapeError):
        nearest_legal(check_tma, {"tensor": Layout(64), "box": (4, 4), "element": "f16"})
