"""Plans of reductions: vectors, who shares an output, when there are two passes; and the model of times."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from itertools import product
from math import prod
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import find_arch
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.model import machine_of
from layoutalg.kernels.rowwise import ReduceConfig, norm_problem, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.forms import Beside, Later, first_pass, second_pass, stream_of
from layoutalg.kernels.rowwise.tensors import Form, axes_problem, normalise
from layoutalg.kernels.rowwise.ways.norm_model import streamed
from layoutalg.kernels.rowwise.ways.norm_plan import form_of
from layoutalg.kernels.rowwise.ways.reduce_plan import Pass, configs, refusals
from tests.kernels.rowwise.definition import of_form
from tests.sweeps import each


@each(
    ("shape", "axes", "dtype", "vec", "passes"),
    [
        ((8192, 8192), 1, "f32", 4, 1), ((8192, 8192), 0, "bf16", 8, 1), ((8191, 8193), 1, "f16", 8, 1),
        ((8191, 8193), 0, "f16", 8, 1), ((8191, 13), 0, "f16", 8, 1), ((8192, 8196), 0, "f16", 8, 1),
        ((1000, 3), 1, "f32", 1, 1), ((1000, 33), 1, "f32", 1, 1), ((1000, 20), 1, "f32", 4, 1),
        ((1 << 26,), 0, "f32", 4, 2), ((65536, 1024), 0, "f32", 4, 2), ((4, 1 << 22), 1, "f32", 4, 2),
    ],
)  # fmt: skip
def test_the_width_of_loads_and_the_passes(
    shape: tuple[int, ...], axes: int, dtype: str, vec: int, passes: int
) -> None:
    """Of loads from global memory: runs that are copied have another width."""
    found = plans(reduce_problem(shape, axes, "sum", dtype))
    assert next(c for plan in found if not (c := plan.passes[0].config).packed).vec == vec
    if passes == 2:
        splits = found[0].passes[0].config.splits
        assert len(found[0].passes) == 2 and found[0].passes[1].form.count == splits
        assert found[0].workspace_elems == splits * prod(shape) // shape[axes]


def test_the_second_pass_carries_operation_factor_and_type() -> None:
    p = reduce_problem((4, 1 << 12), 1, "mean", "f16")
    one, two = plan_with(p, ReduceConfig(8, 32, 1, 1, 2, splits=3)).passes
    assert (one.op, one.result.name, one.factor) == ("sum", "f32", 1.0)
    assert (two.op, two.element.name, two.result.name, two.factor) == ("mean", "f32", "f16", 2.0**-12)


@each(("op", "factor"), [("sum", 8.0), ("mean", 1 / 16), ("max", 1.0)])
def test_what_broadcasts_is_a_factor(op: str, factor: float) -> None:
    one = plans(reduce_problem((8, 5, 16), (0, 2), op, "f32", src=(0, 16, 1)))[0].passes[0]
    assert (str(one.form), one.factor) == ("R 16:1, K 5:16->1", factor)


def test_sums_round_rarely() -> None:
    """The bound of an output of n elements is far from n u; maxima do not round."""
    shapes: list[tuple[Any, Any]] = [
        ((8192, 8192), 1), ((8192, 8192), 0), ((1 << 26,), 0), ((64, 256, 56, 56), (0, 2, 3))
    ]  # fmt: skip
    for shape, axes in shapes:
        assert plans(reduce_problem(shape, axes, "sum", "f32"))[0].additions <= 300
    assert plans(reduce_problem((8192, 8192), 1, "max", "f32"))[0].additions == 0


def test_blocks_fit_the_hardware() -> None:
    shapes = ((7, 3), (1000, 3), (3, 1000), (1, 1), (64, 33, 5), (100_000, 2), (2, 100_000))
    for shape, axes, element in product(shapes, (0, 1), ("f32", "f16")):
        p = reduce_problem(shape, axes, "sum", element)
        for c in configs(normalise(p.axes), p.axes.dtype, find_arch("sm_90")):
            assert c.threads % 32 == 0 and 32 <= c.threads <= 1024 and c.lanes_per_row <= 32
            assert all(n & (n - 1) == 0 for n in (c.lanes_per_row, c.groups_per_row))


@each(
    ("shape", "axes", "dtype", "text"),
    [
        ((4, 100), 0, "f16", "split: not every thread"), ((4096, 31), 1, "f16", "of 31 elements are short"),
        ((40, 4, 6, 63), (0, 2), "f16", "not all rows of columns start"),
        ((3000, 63), 0, "f32", "2016 asked, the limit is 1024"),
    ],
)  # fmt: skip
def test_a_candidate_that_is_dropped_says_why(shape: Any, axes: Any, dtype: str, text: str) -> None:
    p = reduce_problem(shape, axes, "sum", dtype)
    found = refusals(p)
    assert any(text in str(why) for why in found.values()), list(map(str, found.values()))
    assert not set(found) & {plan.passes[0].config for plan in plans(p)}


# --- the model of a launch -----------------------------------------------------------------------------


@each(
    ("shape", "axis", "dtype", "config", "measured"),
    [
        ((8192, 8192), 1, "f32", ReduceConfig(4, 32, 1, 8, 4), 64.0),
        ((8192, 8192), 0, "f32", ReduceConfig(4, 1, 32, 8, 8), 138.5),
        ((8192, 8192), 0, "f16", ReduceConfig(8, 1, 8, 64, 8), 36.9),
        ((65536, 1024), 1, "f16", ReduceConfig(8, 32, 8, 1, 4, 2), 34.2),
        ((1024, 65536), 0, "f16", ReduceConfig(8, 1, 64, 4, 8), 45.7),
        ((8191, 8193), 0, "f16", ReduceConfig(1, 1, 64, 16, 16), 40.0),
    ],
)
def test_the_model_knows_measured_times(
    shape: Any, axis: int, dtype: str, config: ReduceConfig, measured: float
) -> None:
    """Microseconds of the first pass on an H200, launched again and again: the first takes longer."""
    plan, m = plan_with(reduce_problem(shape, axis, "sum", dtype), config), machine_of("sm_90")
    assert plan.predicted_us - m.launch_us + m.next_launch_us == pytest.approx(measured, rel=0.12)


def places(form: Form) -> Iterator[tuple[int, int]]:
    """Where each element of a form is, and where what it is reduced to goes."""
    yield from ((e.source, e.target) for e in of_form(form))


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
    for (begin, at), column in product(starts.items(), range(left)):
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
    assert count > 1 and form.lead.reduced == rows
    one = data.draw(st.integers(int(rows), count - 1))
    others = data.draw(st.sets(st.sampled_from([n for n in range(count) if n != one])))
    later = tuple(sorted({0, *others} if rows else others or {(one + 1) % count}))
    assert by_two(form, later, splits) == Counter(places(form))
    assert len(later) > 1 or first_pass(form, later) == first_pass(form, later[0])


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
    assert (own.form.lead.extent, own.left) == (beside * columns, rows % beside * columns)
    assert by_two(form, Beside(beside), splits) == Counter(places(form))


def keeps_more(first: Pass) -> bool:
    """Whether a first pass keeps several reduced modes, or rows that lie beside each other."""
    return isinstance(first.config.later, tuple | Beside)


@each(
    ("shape", "axes", "dtype", "later"),
    [
        ((19460, 6, 28, 6, 7), (0, 2, 4), "bf16", (0, 1)), ((19460, 6, 28, 6, 7), (0, 2, 4), "f32", (0, 1)),
        ((64, 256, 56, 56), (0, 2, 3), "f16", None), ((16304, 86), (0,), "bf16", None),
        ((1630482, 86), (0,), "bf16", Beside(4)),
    ],
)  # fmt: skip
def test_a_first_pass_that_keeps_more_comes_first_where_it_is_faster(
    shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, later: Later | None
) -> None:
    found = [plan.passes[0] for plan in plans(reduce_problem(shape, axes, "sum", dtype))]
    one = found[0]
    assert one.config.later == later
    assert len({keeps_more(x) for x in found}) == 2 or later is None
    if isinstance(later, Beside):
        assert (one.config.vec, one.form.lead.extent, one.left) == (8, 344, 172)
        for other, axis, offset in (((2, 99, 5), 1, 0), ((99, 5), 0, 3), ((2, 99, 4, 5), 1, 0)):
            none = plans(reduce_problem(other, axis, "sum", "f32", src_offset=offset))
            assert not any(keeps_more(x.passes[0]) for x in none), "rows that do not start at vectors"


@each(
    ("shape", "axes", "later", "message"),
    [
        ((97, 5), 0, Beside(3), "loads of 4 elements"), ((99, 5), 1, Beside(4), "one reduced mode"),
        ((9, 2, 5), 0, Beside(10), "twice as many rows"), ((9, 2, 5), (0, 2), Beside(4), "one reduced mode"),
        ((9, 2, 5), (0, 2), (0, 1), "not all"), ((9, 2, 5), (0, 2), (0, 0), "each once"),
        ((9, 2, 5), (0, 2), 2, "some of 2"),
    ],
)  # fmt: skip
def test_a_first_pass_that_does_not_stand_is_refused_by_name(
    shape: tuple[int, ...], axes: Any, later: Later, message: str
) -> None:
    with pytest.raises(UnsupportedError, match=message):
        plan_with(reduce_problem(shape, axes, "sum", "f32"), ReduceConfig(4, 1, 8, 4, 2, later=later))


# --- streams -------------------------------------------------------------------------------------------


@each(
    ("op", "shape", "axes", "src", "dst", "at", "width", "is_one"),
    [
        ("softmax", (8, 100), 1, None, None, 0, 8, False), ("softmax", (100,), 0, None, None, 0, 8, False),
        ("softmax", (100, 8), 0, (16, 2), (16, 2), 0, 8, False),
        ("softmax", (100, 8), 0, (8, 1), (1, 100), 0, 8, False),
        ("softmax", (100, 8), 0, (8, 1), (-8, 1), 792, 8, False),
        ("softmax", (100, 8), 0, (16, 1), (16, 1), 0, 8, True),
        ("softmax", (100, 8), 0, (16, 1), (16, 1), 0, 16, False),
        ("rms_norm", (100, 8), 0, None, None, 0, 16, False),
        ("rms_norm", (100, 8), 0, None, None, 0, 8, True),
        ("rms_norm", (100, 8, 3), (0, 2), None, None, 0, 24, False),
    ],
)  # fmt: skip
def test_what_is_a_stream(
    op: str, shape: Any, axes: Any, src: Any, dst: Any, at: int, width: int, is_one: bool
) -> None:
    p = norm_problem(op, shape, axes, "f32", src, dst, 0, at, weight=op == "rms_norm")
    assert (stream_of(form_of(p), width) is not None) == is_one


@each("width", [13, 58, 104, 117, 184])
def test_the_cheapest_way_leaves_few_threads_without_columns(width: int) -> None:
    p = norm_problem("rms_norm", (1 << 20, width), 0, "f16")
    way = streamed(form_of(p), p.dtype, "rms_norm", machine_of("sm_90"), 4)[0]
    s = stream_of(form_of(p), way.width)
    assert s is not None
    assert (
        prod((-(-s.places // (way.vec * way.rows_per_block)), way.vec, way.rows_per_block)) <= 1.1 * s.places
    )
