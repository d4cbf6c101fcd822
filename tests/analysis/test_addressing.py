"""addressing: lanes that supply no address change no answer, whatever they hold."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy

from layoutalg.analysis import Access, Guard, SharedReport, addressing, analyze
from layoutalg.arch import ARCHS, INSTRUCTIONS
from layoutalg.layout import Layout
from layoutalg.symbolic import solve_conflict_free
from layoutalg.synthesis import check_certificate, synthesize
from tests.draws.addressing import mistakes
from tests.sweeps import each

MACHINE = ARCHS["sm_90"]


@pytest.mark.deep
def test_ignored_lanes_change_no_answer() -> None:
    answered, wrong = mistakes(31, 60)
    assert wrong == [] and answered > 30


@each(
    ("op", "threads", "kept"),
    [
        ("ldmatrix.x1", "(8,4):(8,64)", "(8,4,1):(8,0,0)"),
        ("ldmatrix.x2", "(8,4):(8,100)", "((8,2),2,1):((8,100),0,0)"),
        ("stmatrix.x1", "(8,4,2):(1,3,8)", "(8,4,2):(1,0,8)"),
        ("ldmatrix.x1", "12:1", "(8,4,1):(1,0,0)"),
        ("ldmatrix.x1", "8:1", "8:1"),
        ("ldmatrix.x1", "(8,4):(8,0)", "(8,4):(8,0)"),
        ("ldmatrix.x4", "(8,4):(8,64)", "(8,4):(8,64)"),
        ("ld.shared.b128", "(8,4):(8,64)", "(8,4):(8,64)"),
    ],
)
def test_ignored_lanes_repeat_those_that_count(op: str, threads: str, kept: str) -> None:
    access = Access.of(f"{op}@({threads.split(':')[0]},8):({threads.split(':')[1]},1)", Layout(4096), "f16")
    assert str(addressing(access, INSTRUCTIONS[op], MACHINE).tv[0]) == kept


def test_where_a_thread_mode_does_not_split_a_guard_leaves_them_out() -> None:
    access = Access("ldmatrix.x1", Layout(((6, 8), 8), ((1, 100), 8)), "f16")  # type: ignore[arg-type]
    assert addressing(access, INSTRUCTIONS[access.op], MACHINE).active == Guard(lanes=range(8))
    bounded = replace(access, active=Guard(threads=40, lanes=(1, 5, 9)))
    assert addressing(bounded, INSTRUCTIONS[access.op], MACHINE).active == Guard(threads=40, lanes=(1, 5))


def test_a_predicate_stays_as_it_is() -> None:
    def first(thread: int, value: int, iteration: int) -> bool:
        return thread == 0

    access = Access("ldmatrix.x1", Layout(((6, 8), 8), ((1, 100), 8)), "f16", active=first)  # type: ignore[arg-type]
    assert addressing(access, INSTRUCTIONS[access.op], MACHINE) == access


@each("method", ["auto", "f2", "enumerated"])
def test_lanes_that_ldmatrix_ignores_need_no_alignment(method: str) -> None:
    """Lanes 8 to 31 would be at odd places; neither a solution nor a layout asks for them."""
    rows = Access("ldmatrix.x1", Layout(((8, 4), 8), ((8, 64), 1)), "f16")  # type: ignore[arg-type]
    report = analyze(Layout((8, 8, 4), (1, 8, 3)), rows, method=method)  # type: ignore[call-overload]
    assert isinstance(report, SharedReport) and (report.total, report.ideal_total) == (1, 1)
    step = sympy.Symbol("s", positive=True)
    assert str(solve_conflict_free(((8, 8, 4), (1, 8, step)), rows, step)) == "every s"
    answers = []
    for stride in (24, 0):
        anywhere = Access("ldmatrix.x1", Layout(((8, 4), 8), ((1, stride), 8)), "f16")  # type: ignore[arg-type]
        found = synthesize((8, 64), [anywhere, "st.shared.b128"], element="f16")
        assert found.layout is not None and check_certificate(found)
        answers.append((found.layout, found.certificate))
    assert answers[0] == answers[1]
