"""The front door: texts and lists of accesses, and a report that prints as the command does."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

import layoutalg as la
from layoutalg.analysis import Access, GlobalReport, Guard, SharedReport, TmaAccess, analyze_access
from layoutalg.analysis.report import report_text
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, ParseError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.f2 import LinearLayout
from tests.command import run

TILE = la.Layout((64, 64), (64, 1))
SWIZZLED = la.ComposedLayout(la.Swizzle(3, 3, 3), 0, TILE)
TEXTS = (
    "ldmatrix.x4", "ldmatrix.x4@row", "ld.shared.b128@col", "LDS.U16@(32,1):(1,0)", "st.shared.v2.b32 @ row",
    "cp.async.b128", "cp.async.16:global@col", "ld.global.v4.f32", "SM90_U32x4_STSM_N",
)  # fmt: skip


@pytest.mark.parametrize("layout", [TILE, SWIZZLED], ids=str)
def test_a_text_is_the_access_it_describes(layout: la.AnyLayout) -> None:
    expected = [analyze_access(layout, Access.of(text, layout, "f16")) for text in TEXTS]
    assert [la.analyze(layout, text, "f16") for text in TEXTS] == expected
    assert la.analyze(layout, TEXTS, dtype("f16")) == la.analyze(layout, iter(TEXTS), "f16") == expected
    assert la.analyze(layout, [], "f16") == [] and la.analyze(str(layout), TEXTS, "f16") == expected


def test_an_access_is_counted_as_it_is() -> None:
    access = dataclasses.replace(
        Access.of("ld.shared.b32", TILE, "f32"), base_bytes=4, active=Guard((60, 30), lanes=range(7))
    )
    expected = analyze_access(TILE, access, "sm_80", "enumerated")
    assert la.analyze(TILE, access, arch="a100", method="enumerated") == expected
    assert la.analyze(TILE, [access, "LDS"], "f32", arch="sm_80")[0].total == expected.total  # type: ignore[union-attr]


def test_every_mistake_is_named() -> None:
    access = Access.of("LDS", TILE, "f32")
    refused: list[tuple[type[Exception], str, Any]] = [
        (ArgumentTypeError, "needs the type of an element", (TILE, "LDS")),
        (ArgumentTypeError, "an access of f32 with the element f16", (TILE, access, "f16")),
        (ArgumentTypeError, "an access, its text or a list is needed", (TILE, 4, "f16")),
        (ArgumentTypeError, "counts what lanes do", (TILE, [TmaAccess((8, 8), 0)], "f16")),
        (ArgumentTypeError, "counts what lanes do", (TILE, [None], "f16")),
        (ParseError, "expected ',' or", ("(64,64", "LDS", "f32")),
        (ArgumentTypeError, "a layout is needed", ("Sw<3,3,3>", "LDS", "f32")),
        (ArgumentTypeError, "a layout is needed", (la.Swizzle(3, 3, 3), "LDS", "f32")),
        (ArgumentTypeError, "a layout is needed", (LinearLayout.from_layout(TILE), "LDS", "f32")),
        (UnsupportedError, "strides move along modes", (la.make_identity_layout((8, 8)), "LDS", "f32")),
        (UnknownNameError, "unknown instruction", (TILE, "LDS.7", "f32")),
        (UnknownNameError, "unknown", (TILE, "LDS", "f99")),
        (ParseError, "cannot read", (TILE, "LDS@diagonal", "f32")),
        (ShapeError, "not a thread-value layout", (TILE, "LDS@Sw<1,0,1>", "f32")),
    ]
    for error, text, operands in refused:
        with pytest.raises(error, match=text):
            la.analyze(*operands)


def test_a_report_prints_as_the_command_does() -> None:
    for texts in (("ldmatrix.x4",), ("LDS.128@col", "LDG.E.128", "stmatrix", "cp.async.4@col")):
        reports = la.analyze(TILE, texts, "f16")
        words = [word for text in texts for word in ("--access", text)]
        printed = run("analyze", str(TILE), "--dtype", "f16", *words).stdout
        assert printed.startswith(report_text(list(zip(texts, reports, strict=True))) + "\n")
    (report,) = la.analyze(TILE, ["ldmatrix.x4"], "f16")
    assert str(report) == report_text([("ldmatrix.x4", report)])


def test_the_repr_of_a_report_is_short() -> None:
    shared, moved = la.analyze(TILE, ["ldmatrix.x4", "ld.global.b16@col"], "f16")
    assert isinstance(shared, SharedReport) and isinstance(moved, GlobalReport)
    assert repr(shared) == "<SharedReport ldmatrix.x4: 16 instructions, 512 wavefronts, ideal 64, 8-way>"
    assert repr(moved).startswith("<GlobalReport ld.global.b16: 128 instructions, ")
    assert "conflict-free" in repr(la.analyze(SWIZZLED, "ldmatrix.x4", "f16"))
