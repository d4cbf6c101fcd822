"""The report of a question of legality: what it says, and what `require` does."""

from __future__ import annotations

import pytest

from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError, UnsupportedError
from layoutalg.legality import MEMORY_RULES, TMA_RULES, WGMMA_RULES, Legality, Rule, Violation
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
