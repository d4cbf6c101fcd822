"""Statements beside a count, and doors of the library and the command, each by the case that showed it."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from layoutalg import errors
from layoutalg.codegen.gpu import to_cuda
from layoutalg.f2 import LinearLayout
from layoutalg.kernels.gemm.problem import gemm_problem, scalar_words
from layoutalg.kernels.gemm.programs import sm80 as gemm_sm80
from layoutalg.kernels.gemm.tiles import Sm80Config
from layoutalg.kernels.rowwise import plans, reduce_problem
from layoutalg.kernels.rowwise.programs import build_reduction
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.ops import (
    cross_entropy,
    grouped_matmul,
    layer_norm,
    matmul,
    permute,
    reduce,
    relayout,
    rms_norm,
    softmax,
    transpose,
)
from tests.command import run
from tests.sweeps import each

TRANS = "ldmatrix.x4.trans transposes units of 16 bits: each {} element is split over {}"
NO_INVOLUTION = "Sw<3,3,2> is not an involution (|S| < B: its fields overlap), and CuTe refuses it"
NONE, PLAIN = "Sw<3,3,2> o 0 o (64,64):(64,1)", "(64,64):(64,1)"
SAID = (
    (("analyze", PLAIN, "--dtype", "f16", "--access", "ldmatrix.x2.trans"),
     "rule of ldmatrix.x2.trans on sm_90 is assumed: its row addresses are served as those of"),
    (("analyze", PLAIN, "--dtype", "f32", "--access", "ldmatrix.x4.trans"), TRANS.format("f32", 2)),
    (("analyze", PLAIN, "--dtype", "f64", "--access", "ldmatrix.x4.trans"), TRANS.format("f64", 4)),
    (("analyze", NONE, "--dtype", "f16", "--access", "ldmatrix.x4"), NO_INVOLUTION),
    (("draw", NONE), NO_INVOLUTION), (("draw", NONE, "--access", "ld.shared.b32"), NO_INVOLUTION),
    (("explain", "Sw<3,3,2>", "72"), "Sw<3,3,2> is not its own inverse"),
    (("draw", "(4,8):(1@0,1@1)"), "(3,7)"), (("synthesize", "()"), ""),
    (("explain", "coalesce", "Sw<2,4,3> o 0 o (4,2,8):(1,0,4)"), "= Sw<2,4,3> o 0 o (4,2,8):(1,0,4)"),
    (("explain", "logical_divide", "Sw<2,4,3> o 0 o (4,2,8):(1,0,4)", "8"),
     "= Sw<2,4,3> o 0 o ((4,2),8):((1,0),4)"),
)  # fmt: skip


@each(("words", "said"), SAID)
def test_what_a_command_says_beside_a_count(words: tuple[str, ...], said: str) -> None:
    """A rule was said to be carried over from itself, and other notes were not said; some were refused."""
    shown = run(*words)
    assert (
        shown.exit_code == 0 and said in " ".join(shown.stdout.split()) and "carried over" not in shown.stdout
    )
    if ".trans" in said and words[3] != "f16":
        notes = json.loads(run(*words, "--json").stdout)["accesses"][0]["notes"]
        assert any(said in note for note in notes)


def test_coordinate_strides_are_refused_by_analyze() -> None:
    refused = run("analyze", "(4,8):(1@0,1@1)")
    assert refused.exit_code == 2 and "its strides move along modes" in refused.stderr


def test_the_kernel_of_relu_says_relu() -> None:
    p = gemm_problem(256, 256, 64, bias=True, activation="relu")
    head = to_cuda(gemm_sm80.build(p, Sm80Config(64, 64, 32, 2, 2, 2))).partition("using")[0]
    assert "D = relu(alpha A B + bias)" in head


def test_the_second_kernel_of_a_mean_says_what_it_divides_by() -> None:
    plan = plans(reduce_problem((2, 3_000_000), 1, "mean", "f32"))[0]
    assert [p.op for p in plan.passes] == ["sum", "mean"]
    assert "// mean of f32 to f32, sums times 1/3000000," in to_cuda(build_reduction(plan)[-1])


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
    with pytest.raises(errors.ResourceError, match="bits of an offset in an int64 array"):
        Layout((4, 50), (1, 1 << 60))(index)


def test_nothing_of_a_linear_layout_is_deleted() -> None:
    linear = LinearLayout({"lane": [1, 2]}, {"offset": 4})
    for name in ("ins", "outs"):
        with pytest.raises(AttributeError, match="a LinearLayout is immutable"):
            delattr(linear, name)
    assert linear(lane=3) == {"offset": 3}


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
        except errors.LayoutAlgError as error:
            assert 0 < len(str(error)) < 2000 and "\n" not in str(error)
        else:
            served += 1
    assert served < len(calls)


@each("least", [2.0**-149, 0])
def test_the_least_eps_is_that_of_the_kernel(least: float) -> None:
    x = np.zeros((2, 3), "f4")
    given = rms_norm(x, eps=least), rms_norm(x, eps=least, simulate=True)
    assert np.array_equal(*given, equal_nan=True)


X, NUMBER, HUGE = np.ones((2, 3), "f4"), np.ones((), "f4"), np.full((2, 2), 1e19, "f4")
ANY: Any = "no"
EPS = "0, or a number from 1.4012985e-45 to 3.4028235e.38 is needed"
REFUSED: tuple[tuple[Callable[[], object], type[Exception], str], ...] = (
    *((functools.partial(layer_norm, X, eps=eps), errors.ShapeError, rf"eps of layer_norm is .*: {EPS}")
      for eps in (10**400, 10**4000, 1e39, 1e-60, float("nan"), float("inf"), -1.0)),
    *((functools.partial(matmul, HUGE, HUGE, alpha=tiny), errors.ShapeError, "which f32 cannot hold")
      for tiny in (1e-60, Fraction(1, 10**400), -1e-46)),
    *((functools.partial(softmax, NUMBER, axes), errors.ShapeError, "has no axes") for axes in (0, -1, (0,))),
    (lambda: reduce(X, "sum", 1, keepdims=ANY), errors.ArgumentTypeError, "keepdims is 'no'"),
    (lambda: cross_entropy(X, np.zeros(2, "i8"), reduction="avg"), errors.UnknownNameError, "'avg'"),
    (lambda: grouped_matmul(X, np.ones((2, 3, 4), "f4"), [True, True]), errors.ArgumentTypeError, "group"),
    (lambda: scalar_words(gemm_problem(8, 8, 8, "s8"), "alpha", 1.5), errors.ShapeError, "integer sums"),
)  # fmt: skip


@each(("call", "error", "words"), REFUSED, ids=lambda value: str(value)[:60])
def test_what_no_kernel_holds_is_refused(
    call: Callable[[], object], error: type[Exception], words: str
) -> None:
    with pytest.raises(error, match=words):
        call()


def test_a_scalar_that_a_kernel_holds_is_what_it_is() -> None:
    """An alpha of integer sums was truncated, and numbers of NumPy were refused."""
    assert matmul(HUGE, HUGE, alpha=0).tolist() == [[0, 0], [0, 0]]
    assert scalar_words(gemm_problem(8, 8, 8, "s8"), "alpha", -2.0) == {"alpha": (1 << 32) - 2}
    float32: Any = np.float32
    assert np.array_equal(layer_norm(X, eps=float32(0.5)), layer_norm(X, eps=0.5))


def test_contiguous_modes_are_no_cut_of_a_relayout() -> None:
    src, dst = Layout((2, 3)), Layout((3, 2), (2, 1))
    for simulate in (False, True):
        moved = relayout(np.arange(6), src, dst, simulate=simulate)
        assert [int(moved[dst(i)]) for i in range(6)] == [src(i) for i in range(6)]
