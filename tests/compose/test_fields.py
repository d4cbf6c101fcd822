"""Vectors in the fields of one integer, against the vectors."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.compose import Fields


@given(st.lists(st.integers(-127, 127), min_size=1, max_size=5), st.integers(-(1 << 60), 1 << 60))
def test_fields_hold_vectors(values: list[int], last: int) -> None:
    fields = Fields(8)
    code = fields.pack([*values, last])
    assert fields.unpack(code, len(values) + 1) == (*values, last)
    assert [fields.of(code, i) for i in range(len(values))] == values
    assert -code == fields.pack([-v for v in (*values, last)])


@given(st.lists(st.tuples(st.integers(-50, 50), st.integers(-50, 50), st.integers(-50, 50)), max_size=4))
def test_sums_of_codes_are_codes_of_sums(vectors: list[tuple[int, ...]]) -> None:
    fields = Fields(9)
    total = sum(map(fields.pack, vectors))
    assert fields.unpack(total, 3) == tuple(sum(v[i] for v in vectors) for i in range(3))
    assert fields.pack((0, 7)) == fields.code(7, 1)
