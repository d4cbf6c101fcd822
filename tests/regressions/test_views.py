"""Norms and reductions of views that were wrong, or refused without reason."""

from __future__ import annotations

import numpy as np
import pytest

import layoutalg
from layoutalg.errors import AlignmentError, ArgumentTypeError, NotInjectiveError, ShapeError
from layoutalg.kernels.rowwise import norm_problem, reduce_problem
from layoutalg.kernels.rowwise.ways.norm_plan import form_of
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.draws.views import GUARD_BYTES, Case, Placed
from tests.judges.agreement import agree
from tests.judges.view_judge import run_in_simulator
from tests.sweeps import each


def dense(shape: tuple[int, ...], start: int, allocation: str, nbytes: int = 4) -> Placed:
    """A row-major array at a byte of an allocation, from the end of its guard bytes on."""
    strides = tuple(nbytes * int(np.prod(shape[k + 1 :])) for k in range(len(shape)))
    return Placed(shape, strides, GUARD_BYTES + start, allocation)


@each(
    ("shape", "axes", "src", "dst", "starts"),
    [
        ((2, 3), 1, (-3, 1), (3, 1), (4, 1)),  # reversed rows: even rows of odd columns
        ((2, 3), 1, (3, 1), (-3, 1), (1, 4)),  # a reversed destination
        ((6, 7), 1, (-7, 1), (7, 1), (35, 0)),
        ((2, 3, 4, 5), (1, 3), (-60, 20, 5, 1), (60, 20, 5, 1), (60, 0)),  # several reduced axes
        ((2, 2, 130, 9), 2, (-2340, 1170, 9, 1), (2340, 1170, 9, 1), (2341, 2)),  # rows of odd pitch
    ],
    sample=3,
)
@each("op", ["softmax", "layer_norm"])
@each("element", ["f32", "f16"])
def test_a_norm_of_rows_in_reversed_order(
    op: str,
    element: str,
    shape: tuple[int, ...],
    axes: int,
    src: tuple[int, ...],
    dst: tuple[int, ...],
    starts: tuple[int, int],
) -> None:
    """Vectors were taken to lie alike where the lowest elements did, which coordinate 0 is not there."""
    agree(norm_problem(op, shape, axes, element, src, dst, *starts), None, 3)


def test_coordinate_0_of_a_reversed_mode_is_not_the_lowest_element() -> None:
    x = form_of(norm_problem("softmax", (2, 3), 1, "f32", (-3, 1), (3, 1), 4, 1))
    assert (x.src_offset, x.dst_offset, x.dst_start) == (1, 1, 4)


def test_a_reduction_over_nothing_without_results_is_nothing() -> None:
    for shape, axis in (((0, 0), 0), ((0, 0), None), ((3, 0, 0), 1), ((0, 3, 0), (1, 2))):
        x = np.zeros(shape, "f4")
        over = axis if isinstance(axis, tuple) else (axis,)
        kept = tuple(n for k, n in enumerate(shape) if axis is not None and k not in over)
        if axis is None:  # one result, of nothing
            assert layoutalg.ops.reduce(x, "sum") == 0
            continue
        for op in ("sum", "mean"):
            assert layoutalg.ops.reduce(x, op, axis).shape == kept
            assert reduce_problem(shape, axis, op, "f32").of_nothing is None
        with pytest.raises(ShapeError):  # as NumPy, of no elements even where there is no result
            layoutalg.ops.reduce(x, "max", axis)


def test_what_nothing_is_reduced_to_is_written_to_no_aliasing_destination() -> None:
    """It was written by the array's own library, past the checks of a destination."""
    x, raw = np.zeros((3, 0), "f4"), np.full(17, 7, "u1")
    with pytest.raises(NotInjectiveError):
        layoutalg.ops.reduce(x, "sum", 1, out=np.lib.stride_tricks.as_strided(raw[:4].view("f4"), (3,), (0,)))
    with pytest.raises(AlignmentError):
        layoutalg.ops.reduce(x, "sum", 1, out=raw[1:13].view("f4"))
    assert (raw == 7).all()


def test_a_weight_may_start_at_any_element() -> None:
    """It was refused on a GPU unless it started at a multiple of 16 bytes."""
    for start in (0, 4, 8, 12):
        parameters = {"weight": dense((64,), start, "weight"), "bias": dense((64,), 4, "bias")}
        sizes = dict.fromkeys(("x", "out", *parameters), 1024 + 2 * GUARD_BYTES)
        for x in (dense((4, 64), 0, "x"), dense((4, 64), 4, "x")):
            out = Placed(x.shape, x.strides, x.start, "out")
            case = Case(1, "layer_norm", "float32", "float32", x, out, 1, parameters=parameters, sizes=sizes)
            assert run_in_simulator(case).kind == "right"
    whole = np.zeros(17, "u1")
    with pytest.raises(AlignmentError, match=r"weight starts at .*: its elements must start at multiples of"):
        layoutalg.ops.layer_norm(np.ones((2, 4), "f4"), weight=whole[1:].view("f4"))


def test_strides_of_single_elements_do_not_make_another_place() -> None:
    """In place means the same elements: the stride of a mode that has one counts for nothing."""
    x = np.arange(6, dtype="f4").reshape(1, 6)
    same = np.lib.stride_tricks.as_strided(x, (1, 6), (400, 4))
    wanted = layoutalg.ops.softmax(x.copy())
    assert layoutalg.ops.softmax(x, out=same) is same and np.array_equal(x, wanted)
    with pytest.raises(ArgumentTypeError, match="overlap"):
        layoutalg.ops.softmax(x[:, :5], out=x[:, 1:])


def test_a_relayout_starts_at_any_element_where_no_swizzle_counts_from_the_start() -> None:
    """On a GPU every buffer had to start at a multiple of 16 bytes."""
    plain = Layout((4, 6), (6, 1)), Layout((4, 6), (1, 4))
    swizzled = ComposedLayout(Swizzle(1, 0, 2), 0, plain[1])
    for layouts, verdict in ((plain, "right"), ((plain[0], swizzled), "refused")):
        x, out = dense((24,), 4, "x"), dense((24,), 8, "out")
        case = Case(
            1, "relayout", "float32", "float32", x, out, layouts=layouts, numbers="bytes",
            sizes=dict.fromkeys(("x", "out"), 128 + 2 * GUARD_BYTES),
        )  # fmt: skip
        assert run_in_simulator(case).kind == verdict
