"""Storage order, and the records of a synthesis."""

from __future__ import annotations

import dataclasses

import pytest

from layoutalg.layout import IntTuple
from layoutalg.synthesis import Order, storage_layout, synthesize
from tests.sweeps import each


@each(
    ("shape", "order", "pad", "expected"),
    [
        ((4, 8), "row", 0, "(4,8):(8,1)"),
        ((4, 8), "col", 0, "(4,8):(1,4)"),
        ((2, 4, 8), "row", 1, "(2,4,8):(36,9,1)"),
        ((2, 4, 8), "col", 1, "(2,4,8):(1,3,12)"),
        (((2, 2), 8), "row", 0, "((2,2),8):((8,16),1)"),
        ((4, (2, 4)), "row", 3, "(4,(2,4)):(11,(1,2))"),
        ((4, 1), "row", 2, "(4,1):(1,0)"),
        ((2, 4, 1), "row", 2, "(2,4,1):(6,1,0)"),
        (16, "row", 0, "16:1"),
    ],
)
def test_storage_order(shape: IntTuple, order: Order, pad: int, expected: str) -> None:
    assert str(storage_layout(shape, order, pad)) == expected


def test_a_synthesis_is_a_value_that_keeps_its_question() -> None:
    found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
    assert found == synthesize((64, 64), ["ldmatrix.x4"], element="f16")
    assert (found.shape, found.order, found.form, found.arch.name) == ((64, 64), "row", "any", "sm_90")
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.layout = None  # type: ignore[misc]


def test_a_synthesis_prints_as_a_table_and_is_short_in_a_session() -> None:
    found = synthesize((32, 32), ["st.shared.b32@row", "ld.shared.b32@col"], element="f32")
    assert (
        repr(found) == f"<Synthesis {found.layout}, {found.kind}, {found.extra_bytes} bytes of extra memory>"
    )
    lines = str(found).splitlines()
    assert lines[0] == repr(found)[len("<Synthesis ") : -1]
    for report in found.reports:
        assert any(
            line.split()[:3] == [report.op, str(report.instructions), str(report.total)] for line in lines
        )
    assert sum(line.startswith("Or ") for line in lines) == len(found.alternatives)
    none = synthesize((32, 32), ["ld.shared.b32@col", "ld.shared.b32@row"], element="f32", form="tma")
    assert none.layout is None and all(name in str(none) for name in none.certificate.classes)
