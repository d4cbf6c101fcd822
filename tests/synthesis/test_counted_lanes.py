"""Synthesis, and lanes that count: layouts that were missed, claims that were false."""

from __future__ import annotations

from dataclasses import replace

import pytest
import sympy

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.dtype import dtype
from layoutalg.errors import MismatchError
from layoutalg.layout import Layout
from layoutalg.symbolic import solve_conflict_free
from layoutalg.synthesis import Certificate, Synthesis, check_certificate, synthesize
from layoutalg.synthesis.proof.evidence import lane_accesses, phase_of
from tests.command import run

F16, F32 = dtype("f16"), dtype("f32")

MATRIX = Layout((8, 8, 4), (1, 8, 3))
EIGHT_ROWS = Access("ldmatrix.x1", Layout(((8, 4), 8), ((8, 64), 1)), F16)
"""Lanes 8 to 31 would be at odd places; ldmatrix.x1 does not look at them."""


@pytest.mark.parametrize("method", ["auto", "f2", "enumerated"])
def test_lanes_that_ldmatrix_ignores_need_no_alignment(method: str) -> None:
    report = analyze(MATRIX, EIGHT_ROWS, method=method)  # type: ignore[call-overload]
    assert isinstance(report, SharedReport) and (report.total, report.ideal_total) == (1, 1)


def test_solve_does_not_ask_for_lanes_that_are_ignored() -> None:
    step = sympy.Symbol("s", positive=True)
    assert str(solve_conflict_free(((8, 8, 4), (1, 8, step)), EIGHT_ROWS, step)) == "every s"


def test_what_was_not_found_is_not_said_not_to_exist() -> None:
    text = run("synthesize", "(48,20)", "--access", "ld.shared.b32@col").stdout.replace("\n", " ")
    assert "was found for these accesses among single swizzles Sw<B,M,S> of (48,20):(20,1) in its own" in text
    assert "Others were not searched." in text and "exists" not in text


PART = Access("st.shared.b128", Layout(((2, 2, 2, 2, 2), (2, 2)), ((4, 16, 256, 512, 8), (1, 2))), F32)
"""128 of 1024 elements: bits 5, 6 and 7 of the place are never set."""

WORDS = [
    Access("ld.shared.b32", Layout(((2, 2, 2, 2, 2), 1), (strides, 0)), F32)
    for strides in ((4, 8, 1, 64, 16), (64, 32, 16, 128, 256))
]


def linear_footprints(found: Synthesis) -> tuple[tuple[int, ...], ...]:
    return tuple(phase_of(found, access).footprint for access in lane_accesses(found))


def test_a_proof_about_whole_vectors_speaks_of_whole_vectors() -> None:
    found = synthesize((1, 1024), [PART, *WORDS], element="f32")
    claim = Certificate(False, "narrow-banks", ("linear-in-place",), (), linear_footprints(found), (1, 0))
    none = replace(found, layout=None, kind="none", reports=(), certificate=claim, alternatives=())
    with pytest.raises(MismatchError):
        check_certificate(none)


def test_lanes_that_ldmatrix_ignores_are_in_no_proof() -> None:
    anywhere = Access("ldmatrix.x1", Layout(((8, 4), 8), ((1, 24), 8)), F16)
    found = synthesize((8, 64), [anywhere, "st.shared.b128"], element="f16")
    assert found.layout is not None and check_certificate(found)
    same = replace(anywhere, tv=Layout(((8, 4), 8), ((1, 0), 8)))
    again = synthesize((8, 64), [same, "st.shared.b128"], element="f16")
    assert (found.layout, found.certificate) == (again.layout, again.certificate)
