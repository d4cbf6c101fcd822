"""Statements beside a count, and doors of the library and the command, each by the case that showed it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layoutalg import (
    ArgumentTypeError,
    LayoutAlgError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    layer_norm,
    permute,
    reduce,
    relayout,
    softmax,
    transpose,
)
from layoutalg.codegen.gpu import to_cuda
from layoutalg.f2 import LinearLayout
from layoutalg.kernels.gemm.problem import gemm_problem, scalar_words
from layoutalg.kernels.gemm.programs import sm80 as gemm_sm80
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.rowwise import plans, reduce_problem
from layoutalg.kernels.rowwise.programs.reduce import build_pass
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.ops import cross_entropy, grouped_matmul, matmul, rms_norm
from tests.command import run
from tests.sweeps import each


def test_an_assumed_rule_of_sm_90_is_not_carried_over_from_itself() -> None:
    text = run("analyze", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x2.trans").stdout
    assert "rule of ldmatrix.x2.trans on sm_90 is assumed: its row addresses are served as those of" in text
    assert "carried over" not in text


def test_trans_of_wide_elements_is_counted_with_a_word() -> None:
    for element, lanes in (("f32", 2), ("f64", 4)):
        words = ("analyze", "(64,64):(64,1)", "--dtype", element, "--access", "ldmatrix.x4.trans")
        note = f"ldmatrix.x4.trans transposes units of 16 bits: each {element} element is split over {lanes}"
        assert note in " ".join(run(*words).stdout.split())
        assert any(note in said for said in json.loads(run(*words, "--json").stdout)["accesses"][0]["notes"])


def test_a_swizzle_that_is_no_involution_is_said_to_be_none() -> None:
    note = "Sw<3,3,2> is not an involution (|S| < B: its fields overlap), and CuTe refuses it"
    layout = "Sw<3,3,2> o 0 o (64,64):(64,1)"
    for words in (
        ("analyze", layout, "--dtype", "f16", "--access", "ldmatrix.x4"),
        ("draw", layout),
        ("draw", layout, "--access", "ld.shared.b32"),
    ):
        assert note in " ".join(run(*words).stdout.split()), words
    assert "Sw<3,3,2> is not its own inverse" in run("explain", "Sw<3,3,2>", "72").stdout


def test_the_kernel_of_relu_says_relu() -> None:
    p = gemm_problem(256, 256, 64, bias=True, activation="relu")
    head = to_cuda(gemm_sm80.build(p, Sm80Config(64, 64, 32, 2, 2, 2))).partition("using")[0]
    assert "D = relu(alpha A B + bias)" in head


def test_the_second_kernel_of_a_mean_says_what_it_divides_by() -> None:
    passes = plans(reduce_problem((2, 3_000_000), 1, "mean", "f32"))[0].passes
    assert [p.op for p in passes] == ["sum", "mean"]
    assert "// mean of f32 to f32, sums times 1/3000000," in to_cuda(build_pass(passes[-1]))


def test_a_swizzle_of_negative_integers_is_one_function_of_ints_and_arrays() -> None:
    swizzle, x = Swizzle(3, 3, 3), [-1, -64, -1000, 1000]
    assert swizzle(np.array(x)).tolist() == [swizzle(n) for n in x]
    mirrored = ComposedLayout(swizzle, 0, Layout((8, 64), (-64, 1)))
    assert mirrored(np.arange(512)).tolist() == [mirrored(i) for i in range(512)]


@each("dtype", ["i1", "u1", "i2", "u2", "i4", "u4", "i8", "u8"])
def test_an_array_of_coordinates_is_not_cut_off(dtype: str) -> None:
    """8-bit coordinates have offsets past 8 bits; what int64 does not hold is refused."""
    index = np.array([0, 99, 100, 127], dtype)
    for layout in (
        Layout((4, 50), (1000, 3)),
        Layout((4, (5, 10)), (-1, (1 << 40, 7))),
        ComposedLayout(Swizzle(3, 4, 3), 300, Layout((4, 50), (1, 80))),
    ):
        assert layout(index).tolist() == [layout(int(i)) for i in index]
    with pytest.raises(ResourceError, match="bits of an offset in an int64 array"):
        Layout((4, 50), (1, 1 << 60))(index)


def test_nothing_of_a_linear_layout_is_deleted() -> None:
    linear = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    for name in ("ins", "outs"):
        with pytest.raises(AttributeError, match="a LinearLayout is immutable"):
            delattr(linear, name)
    assert linear(lane=3) == {"offset": 3}


def test_coordinate_strides_are_drawn_and_refused_by_analyze() -> None:
    assert "(3,7)" in run("draw", "(4,8):(1@0,1@1)").stdout
    refused = run("analyze", "(4,8):(1@0,1@1)")
    assert refused.exit_code == 2 and "its strides move along modes" in refused.stderr


def test_swizzled_layouts_are_explained() -> None:
    layout = "Sw<2,4,3> o 0 o (4,2,8):(1,0,4)"
    for operation, said in (
        (("coalesce", layout), "= Sw<2,4,3> o 0 o (4,2,8):(1,0,4)"),
        (("logical_divide", layout, "8"), "= Sw<2,4,3> o 0 o ((4,2),8):((1,0),4)"),
    ):
        explained = run("explain", *operation)
        assert explained.exit_code == 0 and said in explained.stdout, operation


def test_a_tile_without_modes_is_synthesized() -> None:
    assert run("synthesize", "()").exit_code == 0


def test_find_family_knows_all_ten() -> None:
    assert find_family("gemm-sm80").name == "gemm-sm80"


PRODUCTS = [gemm_problem(8, 8, 8, dtype) for dtype in ("f16", "f64", "s8")]
SCALARS = [
    10**5000, -(10**5000), 10**400, 1 << 63, 1 << 64, -(1 << 63), 1e39, 3.5e38,
    float("nan"), float("inf"), -1.0,
    1j, "a", "\ud800", b"x", None, True, [1], {}, object(), np.float32(1e-3), np.int64(1), np.float64("nan"),
]  # fmt: skip


@each("value", SCALARS, ids=[str(n) for n in range(len(SCALARS))])
def test_every_scalar_of_an_array_function_is_taken_or_refused_by_name(value: Any) -> None:
    """Nothing but errors of the library comes out, OverflowError of eps=10**400 least of all."""
    x = np.ones((4, 8), "f4")
    calls: list[Callable[[], object]] = [
        lambda: layer_norm(x, eps=value),
        lambda: layer_norm(x, axes=value),
        lambda: softmax(x, value),
        lambda: softmax(x, (value,)),
        lambda: softmax(value),
        lambda: reduce(x, "sum", value),
        lambda: reduce(x, value),
        lambda: permute(x, value),
        lambda: permute(x, (value, 0)),
        lambda: transpose(x, value),
        lambda: relayout(x.ravel(), value, Layout(32)),
        *(functools.partial(scalar_words, p, "alpha", value) for p in PRODUCTS),
    ]
    served = 0
    for call in calls:
        try:
            call()
        except LayoutAlgError as error:
            assert 0 < len(str(error)) < 2000 and "\n" not in str(error)
        else:
            served += 1
    assert served < len(calls)


@each("eps", [10**400, 10**4000, 1e39, 1e-60, float("nan"), float("inf"), -1.0])
def test_an_eps_that_f32_does_not_hold_is_refused(eps: float) -> None:
    accepted = "0, or a number from 1.4012985e-45 to 3.4028235e.38 is needed"
    with pytest.raises(ShapeError, match=rf"eps of layer_norm is .*: {accepted}"):
        layer_norm(np.ones((4, 8), "f4"), eps=eps)


@each("least", [2.0**-149, 0])
def test_the_least_eps_is_that_of_the_kernel(least: float) -> None:
    x = np.zeros((2, 3), "f4")
    given = rms_norm(x, eps=least), rms_norm(x, eps=least, simulate=True)
    assert np.array_equal(*given, equal_nan=True)


@each("tiny", [1e-60, Fraction(1, 10**400), -1e-46])
def test_an_alpha_that_f32_rounds_to_0_is_refused(tiny: Any) -> None:
    x = np.full((2, 2), 1e19, "f4")
    with pytest.raises(ShapeError, match=r"alpha is .*, which f32 cannot hold"):
        matmul(x, x, alpha=tiny)
    assert matmul(x, x, alpha=0).tolist() == [[0, 0], [0, 0]]


def test_keepdims_is_a_flag_as_simulate_is() -> None:
    some: Any = "no"
    with pytest.raises(ArgumentTypeError, match="keepdims is 'no': True or False is needed"):
        reduce(np.ones((2, 3), "f4"), "sum", 1, keepdims=some)


def test_a_number_has_no_axes() -> None:
    x = np.ones((), "f4")
    for axes in (0, -1, (0,)):
        with pytest.raises(ShapeError, match="of a tensor with 0 modes: it has no axes"):
            softmax(x, axes)


def test_an_unknown_reduction_of_losses_is_quoted_once() -> None:
    with pytest.raises(UnknownNameError, match="reduction of losses 'avg'"):
        cross_entropy(np.ones((2, 3), "f4"), np.zeros(2, "i8"), reduction="avg")


def test_a_bool_is_not_the_rows_of_a_group() -> None:
    x, w = np.ones((2, 3), "f4"), np.ones((2, 3, 4), "f4")
    with pytest.raises(ArgumentTypeError, match="an integer per group is needed"):
        grouped_matmul(x, w, [True, True])


def test_contiguous_modes_are_no_cut_of_a_relayout() -> None:
    src, dst = Layout((2, 3)), Layout((3, 2), (2, 1))
    for simulate in (False, True):
        moved = relayout(np.arange(6), src, dst, simulate=simulate)
        assert [int(moved[dst(i)]) for i in range(6)] == [src(i) for i in range(6)]


def test_a_numpy_number_is_a_number() -> None:
    x = np.arange(8, dtype="f4").reshape(2, 4)
    float32: Any = np.float32
    assert np.array_equal(layer_norm(x, eps=float32(0.5)), layer_norm(x, eps=0.5))


def test_alpha_of_integer_sums_is_not_truncated() -> None:
    p = gemm_problem(8, 8, 8, "s8")
    with pytest.raises(ShapeError, match=r"alpha is 1.5: s8 has integer sums"):
        scalar_words(p, "alpha", 1.5)
    assert scalar_words(p, "alpha", -2.0) == {"alpha": (1 << 32) - 2}
