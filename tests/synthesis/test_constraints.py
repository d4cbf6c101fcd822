"""Constraints of a synthesis: vectors and rows that stay whole, as accesses that the certificate covers."""

from __future__ import annotations

import dataclasses
import itertools

import pytest

from layoutalg.analysis import Access, analyze
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ArgumentTypeError, MismatchError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout
from layoutalg.synthesis import check_certificate, synthesize


@pytest.mark.parametrize(("vector_bytes", "swizzle"), [(0, "Sw<5,0,5>"), (4, "Sw<5,0,5>")])
def test_no_wider_vectors_than_words_change_nothing(vector_bytes: int, swizzle: str) -> None:
    found = synthesize((32, 32), ["ld.shared.b32@col"], element="f32", vector_bytes=vector_bytes)
    assert isinstance(found.layout, ComposedLayout) and str(found.layout.swizzles[0]) == swizzle
    assert check_certificate(found)


EIGHT = Access("ld.shared.b32", Layout((8, 1, 4), (1, 0, 8)), dtype("f32"))
"""Eight lanes down a column: three bits of the bank are enough."""


def test_vectors_nobody_reads_stay_whole() -> None:
    free = synthesize((32, 32), [EIGHT], element="f32")
    kept = synthesize((32, 32), [EIGHT], element="f32", vector_bytes=16)
    assert (str(free.layout), str(kept.layout)) == (
        "Sw<3,0,5> o 0 o (32,32):(32,1)", "Sw<3,2,3> o 0 o (32,32):(32,1)",
    )  # fmt: skip
    assert kept.layout is not None and check_certificate(kept)
    for row, column in itertools.product(range(32), range(0, 32, 4)):
        offsets = [kept.layout(row, column + n) for n in range(4)]
        assert offsets == list(range(offsets[0], offsets[0] + 4)) and offsets[0] % 4 == 0
    assert [a.op for a in kept.accesses if isinstance(a, Access)] == ["ld.shared.b32", "ld.shared.b128"]


def test_vectors_kept_whole_may_leave_no_layout() -> None:
    found = synthesize((32, 32), ["ld.shared.b32@col"], element="f32", vector_bytes=16)
    assert found.layout is None and found.certificate.reason == "narrow-banks"
    assert "32 words of 8 banks" in check_certificate(found)


WEAVE = [
    Access("ld.shared.b32", Layout(((2,) * 5, 1), ((16, 32, 1, 2, 4), 0)), dtype("f32")),
    Access("ld.shared.b32", Layout(((2,) * 5, 1), ((12, 16, 32, 1, 2), 0)), dtype("f32")),
]
"""Two patterns of an 8 x 8 tile that only a map which tears rows apart serves."""


def test_rows_stay_whole_where_that_is_asked() -> None:
    torn = synthesize((8, 8), WEAVE, element="f32")
    assert torn.kind == "xor" and check_certificate(torn)
    found = synthesize((8, 8), WEAVE, element="f32", whole_rows=True)
    assert found.layout is None and found.certificate.reason == "exhausted" and check_certificate(found)
    both = synthesize((32, 32), ["ld.shared.b32@col"], element="f32", whole_rows=True)
    assert both.layout is not None and check_certificate(both)
    for row in range(32):
        assert {both.layout(row, column) // 32 for column in range(32)} == {row}
        assert sorted(both.layout(row, column) % 32 for column in range(32)) == list(range(32))


def test_a_layout_that_breaks_the_constraint_fails_the_check() -> None:
    found = synthesize((32, 32), [EIGHT], element="f32", vector_bytes=16)
    loose = synthesize((32, 32), [EIGHT], element="f32")
    assert found.layout is not None and loose.layout is not None
    with pytest.raises(MismatchError):
        check_certificate(dataclasses.replace(found, layout=loose.layout))
    with pytest.raises(AlignmentError):
        analyze(loose.layout, [a for a in found.accesses if isinstance(a, Access)][-1])


def test_what_no_lane_can_read() -> None:
    with pytest.raises(UnsupportedError, match="vector_bytes is 32"):
        synthesize((32, 32), ["ld.shared.b32@col"], element="f32", vector_bytes=32)
    with pytest.raises(UnsupportedError, match="a lane must hold"):
        synthesize((32, 32), ["ld.shared.b64@col"], element="f64", vector_bytes=4)
    with pytest.raises(AlignmentError, match="not a multiple"):
        synthesize((32, 2), ["ld.shared.b32@col"], element="f32", vector_bytes=16)
    with pytest.raises(ArgumentTypeError, match="a list of accesses"):
        synthesize((32, 32), "ldmatrix.x4", element="f16")
