"""Two passes of a reduction reduce what one pass does: every element goes to its output, once."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.errors import UnsupportedError
from layoutalg.kernels.rowwise import ReduceConfig, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.columns import Beside, Later, first_pass, second_pass
from layoutalg.kernels.rowwise.problems import Form, axes_problem, normalise


def places(form: Form) -> Iterator[tuple[int, int]]:
    """Where each element of a form is, and where what it is reduced to goes."""
    for crd in product(*(range(m.extent) for m in form.modes)):
        source = form.src_offset + sum(i * m.src for i, m in zip(crd, form.modes, strict=True))
        kept = (i * m.dst for i, m in zip(crd, form.modes, strict=True) if not m.reduced)
        yield source, form.dst_offset + sum(kept)


def by_two(form: Form, later: Later, splits: int) -> Counter[tuple[int, int]]:
    """The same through the workspace of two passes, of which the first has so many splits."""
    (own, left), found = first_pass(form, later), Counter[tuple[int, int]]()
    joined = dict(places(second_pass(form, later, splits, own.outputs)))
    assert sorted(joined) == list(range(own.outputs * splits))
    rows, (behind, *_) = own.outputs // own.lead.extent, own.reduced
    for n, (source, at) in enumerate(places(own)):
        found[source, joined[at + own.outputs * (n % splits)]] += 1
    starts = dict(places(Form(own.kept[1:], own.src_offset, 0)))
    assert len(starts) == rows
    for begin, at in starts.items():
        for column in range(left):
            found[begin + behind.extent * behind.src + column, joined[at + column]] += 1
    return found


@given(
    st.lists(st.integers(2, 5), min_size=4, max_size=6), st.booleans(), st.data(), st.integers(0, 9),
    st.integers(1, 3),
)  # fmt: skip
def test_several_modes_that_are_kept_are_reduced_later(
    shape: list[int], rows: bool, data: st.DataObject, offset: int, splits: int
) -> None:
    """Every second mode is reduced, the last one too where there are `rows`: those are kept."""
    over = tuple(k for k in range(len(shape)) if (len(shape) - 1 - k) % 2 != rows)
    form = normalise(axes_problem(tuple(shape), over, "f32", src_offset=offset))
    count = len(form.reduced)
    assert count > 1
    assert form.lead.reduced == rows
    one = data.draw(st.integers(int(rows), count - 1))
    others = data.draw(st.sets(st.sampled_from([n for n in range(count) if n != one])))
    later = tuple(sorted({0, *others} if rows else others or {(one + 1) % count}))
    assert by_two(form, later, splits) == Counter(places(form))
    if len(later) == 1:
        assert first_pass(form, later) == first_pass(form, later[0])


@given(
    st.integers(1, 3), st.integers(4, 40), st.integers(2, 9), st.integers(2, 9), st.integers(0, 9),
    st.integers(1, 3),
)  # fmt: skip
def test_rows_beside_each_other_and_those_that_are_left_are_all_rows(
    many: int, rows: int, columns: int, beside: int, offset: int, splits: int
) -> None:
    rows = max(rows, 2 * beside)
    form = normalise(axes_problem((many, rows, columns), 1, "f32", src_offset=offset))
    own = first_pass(form, Beside(beside))
    assert own.form.lead.extent == beside * columns
    assert own.left == rows % beside * columns
    assert by_two(form, Beside(beside), splits) == Counter(places(form))


@pytest.mark.parametrize(
    ("shape", "axes", "dtype", "later"),
    [
        ((19460, 6, 28, 6, 7), (0, 2, 4), "bf16", (0, 1)),
        ((30000, 7, 9, 7, 9, 7), (0, 2, 4), "f32", (0, 1)),
        ((19460, 6, 28, 6, 7), (0, 2, 4), "f32", 0),
        ((64, 256, 56, 56), (0, 2, 3), "f16", None),
        ((1630482, 86), (0,), "bf16", Beside(4)),
        ((16304, 86), (0,), "bf16", None),
    ],
)
def test_a_first_pass_that_keeps_more_comes_first_where_it_gains_enough(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, later: Later | None
) -> None:
    found = plans(reduce_problem(shape, axes, "sum", dtype))
    assert found[0].passes[0].config.later == later
    assert len({plan.keeps_more for plan in found}) == 2 or later is None


def test_rows_beside_each_other_are_whole_vectors_and_one_row_is_left() -> None:
    found = plans(reduce_problem((1630482, 86), 0, "mean", "bf16"))
    first = next(plan for plan in found if plan.keeps_more).passes[0]
    assert first.config.later == Beside(4)
    assert (first.config.vec, first.form.lead.extent, first.left) == (8, 344, 172)


def test_rows_that_do_not_start_at_vectors_are_not_taken_beside_each_other() -> None:
    for shape, axis, offset in (((2, 99, 5), 1, 0), ((99, 5), 0, 3), ((2, 99, 4, 5), 1, 0)):
        found = plans(reduce_problem(shape, axis, "sum", "f32", src_offset=offset))
        assert not any(plan.keeps_more for plan in found)


@pytest.mark.parametrize(
    ("shape", "axes", "later", "message"),
    [
        ((97, 5), 0, Beside(3), "with 5 elements of a row that is left"),
        ((99, 5), 1, Beside(4), "4 rows of R 5:1, K 99:5->1 beside each other: one reduced mode is accepted"),
        ((9, 2, 5), 0, Beside(10), "of at least twice as many rows"),
        ((9, 2, 5), (0, 2), Beside(4), "one reduced mode is accepted"),
        ((9, 2, 5), (0, 2), (0, 1), "some of 2 are accepted, each once, and not all"),
        ((9, 2, 5), (0, 2), (0, 0), "each once"),
        ((9, 2, 5), (0, 2), 2, "some of 2 are accepted"),
    ],
)
def test_a_first_pass_that_does_not_stand_is_refused_by_name(
    shape: tuple[int, ...], axes: tuple[int, ...], later: Later, message: str
) -> None:
    p = reduce_problem(shape, axes, "sum", "f32")
    with pytest.raises(UnsupportedError, match=message):
        plan_with(p, ReduceConfig(4, 1, 8, 4, 2, later=later))
