"""The report of a question of legality: what it says, and what `require` does."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.layout import Layout
from layoutalg.legality import (
    MEMORY_RULES,
    TMA_RULES,
    WGMMA_RULES,
    Legality,
    Rule,
    Violation,
    check_tma,
    check_wgmma_instruction,
    nearest_legal,
)
from layoutalg.legality.rules import ROUNDS
from tests.sweeps import each

SIZE = Rule("toy.size", "at most 4", "a toy's manual")
PLACE = Rule("toy.place", "even places", "a toy's manual", AlignmentError)
TOO_BIG = Violation(SIZE, "the size is 5", "1 to 4", "4", (("size", 4),))
ODD = Violation(PLACE, "the place is 3", "even numbers", "2 or 4")


def test_a_legal_report_holds_its_result() -> None:
    report = Legality("a toy", notes=("it squeaks",), result="toy")
    assert report.legal and report.require() == "toy" and report.broken == ()
    assert str(report) == "a toy: legal\n  note: it squeaks"


def test_an_illegal_report_lists_every_rule_and_raises_the_first() -> None:
    report: Legality[str] = Legality("a toy", (ODD, TOO_BIG, ODD))
    assert not report.legal and report.broken == ("toy.place", "toy.size")
    assert str(report).splitlines() == [
        "a toy: illegal",
        "  toy.place: the place is 3; accepted are even numbers; nearest: 2 or 4",
        "  toy.size: the size is 5; accepted are 1 to 4; nearest: 4",
        "  toy.place: the place is 3; accepted are even numbers; nearest: 2 or 4",
    ]
    with pytest.raises(
        AlignmentError, match=r"a toy: toy\.place: the place is 3; .* toy\.size: the size is 5"
    ):
        report.require()
    assert dict(TOO_BIG.fix) == {"size": 4}


def test_without_a_result_there_is_nothing_to_require() -> None:
    empty: Legality[str] = Legality("a toy")
    with pytest.raises(UnsupportedError, match="a toy: there is no result"):
        empty.require()


@each(
    "rule", [*TMA_RULES.values(), *WGMMA_RULES.values(), *MEMORY_RULES.values()], ids=lambda rule: rule.name
)
def test_a_rule_is_named_worded_and_cited(rule: Rule) -> None:
    assert (
        rule.name.partition(".")[0] in ("tma", "wgmma", "vector", "matrix", "copy")
        and rule.text
        and len(rule.source) > 10
    )
    assert issubclass(rule.error, LayoutAlgError) and issubclass(
        rule.error, (ShapeError, AlignmentError, UnsupportedError)
    )
    assert rule.provenance in ("measured", "documented", "assumed")
    assert rule.provenance != "measured" or "H200" in rule.source


# --- repairs


def test_several_rules_take_several_rounds() -> None:
    request: dict[str, Any] = {"a": "s8", "b": "f16", "accumulator": "f32", "n": 40}
    request |= {"a_major": "MN", "a_source": "registers"}
    found = nearest_legal(check_wgmma_instruction, request)
    assert found is not None and found.report.require().ptx.endswith("m64n32k32.s32.s8.s8")
    assert found.changes == {"b": "s8", "accumulator": "s32", "n": 32, "a_major": "K"}


def test_changes_without_an_end_are_no_repair() -> None:
    asked = []

    def never(size: int) -> Legality[int]:
        asked.append(size)
        return Legality("a toy", (Violation(SIZE, "", "", "", (("size", size + 1),)),))

    assert nearest_legal(never, {"size": 0}) is None
    assert max(asked) == ROUNDS
    assert nearest_legal(lambda: Legality("a toy", (Violation(SIZE, "", "", ""),)), {}) is None


def test_changes_that_do_not_fit_together_are_made_one_by_one() -> None:
    """Two leaves of a box that each need another tree of the tensor."""

    def both(a: int, b: int) -> Legality[int]:
        if a != 0 and b != 0:
            raise ShapeError("not both")
        if a == 1 or b == 1:
            return Legality("a toy", (), result=1)
        fixes = ((("a", 1),), (("b", 1),))
        return Legality("a toy", tuple(Violation(SIZE, "", "", "", fix) for fix in fixes))

    found = nearest_legal(both, {"a": 0, "b": 0})
    assert found is not None and found.changes == {"a": 1}


def test_what_is_not_understood_is_an_error() -> None:
    with pytest.raises(ShapeError):
        nearest_legal(check_tma, {"tensor": Layout(64), "box": (4, 4), "element": "f16"})
