"""The records of answers, and the schema that is generated from them."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from layoutalg.answers import Count, fields_of, taken
from layoutalg.layout import Layout
from tests.frozen import schema


def test_the_schema_is_that_of_the_records(capsys: pytest.CaptureFixture[str]) -> None:
    assert schema.main([]) == 0, capsys.readouterr().out


@dataclass(frozen=True)
class Inner:
    shape: str
    stride: Count | None = None


@dataclass(frozen=True)
class Outer:
    inner: tuple[Inner, ...]
    pairs: tuple[tuple[int, ...], ...]
    from_: str = "here"


@dataclass(frozen=True)
class Source:
    inner: list[Layout]
    pairs: list[list[int]]


def test_a_record_is_taken_from_attributes_and_fitted_to_its_types() -> None:
    record = taken(Outer, Source([Layout((2, 4), (1, 2))], [[1, 2]]), inner=(Inner("8", 1),))
    assert record == Outer((Inner("8", 1),), ((1, 2),))
    shown = {"inner": [{"shape": "(2, 4)", "stride": None}], "pairs": [], "from": "there"}
    assert fields_of(taken(Outer, Source([], []), inner=(Inner("(2, 4)"),), from_="there")) == shown
    with pytest.raises(AttributeError, match="pairs"):
        taken(Outer, Layout(8), inner=())
