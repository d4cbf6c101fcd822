"""The data that kernels are verified on: what each trial promises."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg.errors import UnsupportedError
from layoutalg.kernels import FAMILIES, verify
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.checks.record import given_to
from layoutalg.kernels.checks.rows import LARGEST, TENSOR_TRIALS, placed_numbers, tensor_numbers
from layoutalg.kernels.elements import ROUNDS_TO_INFINITY, SMALLEST_SUM, agrees, bits_of, numbers_of
from layoutalg.kernels.modes import places
from layoutalg.kernels.rowwise import NormConfig, norm_problem, normed
from tests.sweeps import each

ELEMENTS = ("f32", "f16", "bf16")


def groups(trial: str, op: str, element: str, shape: tuple[int, ...] = (6, 40)) -> np.ndarray:
    x = tensor_numbers(trial, op, shape, (1,), element, 3)
    return numbers_of(bits_of(x, element), element).reshape(shape)  # type: ignore[no-any-return]


@each("element", ELEMENTS)
@each("trial", ["first spikes", "last spikes", "other spikes", "more spikes"])
def test_without_its_spike_a_softmax_overflows(trial: str, element: str) -> None:
    """In f32, whatever other element stands for the maximum, and 0 too where an offset is added."""
    x = groups(trial, "softmax", element)
    most = x.argmax(axis=1)
    if trial == "first spikes":
        assert not most.any()
    if trial == "last spikes":
        assert (most == 39).all()
    second = np.sort(x, axis=1)[:, -2]
    with np.errstate(over="ignore"):
        assert np.isinf(np.exp((x.max(axis=1) - second).astype(np.float32))).all()
    assert {0.0, 8192.0, -8192.0} <= set(np.round(np.median(x, axis=1) / 8192) * 8192)


def test_other_spikes_reach_every_place() -> None:
    for trial in ("other spikes", "more spikes"):
        assert sorted(groups(trial, "max", "f32", (40, 40)).argmax(axis=1)) == list(range(40))
    one, two = (groups(t, "max", "f32").argmax(axis=1) for t in ("other spikes", "more spikes"))
    assert not np.array_equal(one, two)


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_kind_of_group_that_is_not_of_numbers_is_there(element: str) -> None:
    x = groups("infinities", "softmax", element, (8, 40))
    kinds = [(int((row == -np.inf).sum()), int((row == np.inf).sum())) for row in x]
    assert kinds[:3] == [(1, 0), (0, 1), (40, 0)] == kinds[4:7]
    assert {kinds[3], kinds[7]} <= {(1, 1), (0, 1)}  # both, or one in the place of the other
    p = norm_problem("softmax", (8, 40), 1, element)
    wanted = np.isnan(normed(p, x)).all(axis=1)
    assert wanted.tolist() == [False, True, True, True] * 2
    assert not np.isnan(normed(p, x)[~wanted]).any()
    nan = np.isnan(groups("NaN", "sum", element)).sum(axis=1)
    assert nan.tolist() == [1, 0, 1, 1, 0, 1]
    assert np.isnan(normed(norm_problem("layer_norm", (8, 40), 1, element), x)).all(axis=1).all()


@pytest.mark.parametrize("element", ELEMENTS)
def test_the_ends_of_a_type_are_its_ends(element: str) -> None:
    for value in (LARGEST[element], SMALLEST_SUM[element]):
        bits = bits_of(np.array([value, -value]), element)
        assert numbers_of(bits, element).tolist() == [value, -value]
    up = np.array([ROUNDS_TO_INFINITY[element], np.nextafter(ROUNDS_TO_INFINITY[element], 0)])
    assert numbers_of(bits_of(up, element), element).tolist() == [np.inf, LARGEST[element]]
    half = numbers_of(bits_of(np.array([SMALLEST_SUM[element] / 2]), element), element)
    assert half.tolist() == [0.0]
    ends = {LARGEST[element], SMALLEST_SUM[element], 0.0, 1.0}
    assert set(np.abs(groups("extremes", "max", element)).ravel()) == ends


def test_trials_repeat_and_ties_are_equal_along_what_is_kept() -> None:
    def numbers(trial: str, op: str = "softmax") -> Any:
        return tensor_numbers(trial, op, (3, 4, 5), (0, 2), "f32", 1)

    for trial in TENSOR_TRIALS:
        assert numbers(trial).shape == (60,)
        assert np.array_equal(numbers(trial), numbers(trial), equal_nan=True)
    ties = numbers("ties", "sum").reshape(3, 4, 5)
    assert (ties == ties[:1, :, :1]).all() and len(set(ties[0, :, 0])) == 4


def test_results_agree_where_the_definition_says() -> None:
    inf, nan = np.inf, np.nan
    cases = [
        (1.0, 1.5, 0.5, True), (1.0, 1.6, 0.5, False), (nan, nan, nan, True), (nan, 0.0, nan, False),
        (nan, inf, nan, False), (inf, inf, nan, True), (inf, -inf, nan, False), (inf, nan, nan, False),
        (inf, 65504.0, inf, False), (1.0, nan, 0.5, False), (1.0, inf, 0.5, False), (65519.9, inf, 0.5, True),
        (65519.0, inf, 0.5, False), (-7e4, -inf, 0.5, True), (-7e4, inf, 0.5, False),
        (7e4, 65504.0, 0.5, False), (0.0, nan, inf, True), (0.0, -inf, inf, True), (inf, nan, inf, False),
    ]  # fmt: skip
    exact, found, allowed, wanted = (np.array(x) for x in zip(*cases, strict=True))
    assert agrees(found, exact, allowed, "f16").tolist() == wanted.astype(bool).tolist()


PERMUTED: list[tuple[str, tuple[int, ...], tuple[int, ...], dict[str, Any]]] = [
    ("cross_entropy", (37, 21), (1,), {"src": (1, 37), "reduction": "none"}),
    ("cross_entropy", (5, 21, 3), (1,), {"src": (1, 15, 5), "reduction": "mean"}),
    ("softmax", (19, 21), (1,), {"src": (1, 19)}),
    ("layer_norm", (19, 21), (1,), {"dst": (1, 19), "weight": True}),
    ("rms_norm", (19, 21), (1,), {"src": (1, 19), "dst": (1, 19), "in_place": True}),
    ("add_rms_norm", (19, 21), (1,), {"src": (1, 19), "dst": (1, 19), "weight": True}),
    ("logsumexp", (3, 4, 21), (2,), {"src": (1, 3, 12), "dst": (1, 3, 0)}),
    ("argmax", (3, 4, 21), (2,), {"src": (4, 1, 12), "dst": (1, 3, 0)}),
    ("mean", (3, 21, 4), (0, 2), {"src": (21, 1, 63)}),
]


@each(("name", "shape", "axes", "strides"), PERMUTED, sample=1)
def test_tensors_whose_modes_lie_in_another_order_verify(
    name: str, shape: tuple[int, ...], axes: tuple[int, ...], strides: dict[str, Any]
) -> None:
    """Each trial's rows are where the strides say, and so are results and what they may be off."""
    family = FAMILIES[name]
    p = family.problem(shape, axes, "f32", **strides)
    verify(family, p).require()
    for trial in checks_of(family).trials(p):
        expected = checks_of(family).expected(p, None, given_to(family, p, family.choose(p), trial, 0))
        if expected.allowed is not None:
            assert np.isfinite(expected.allowed[np.isfinite(expected.values)]).all(), trial


HELD = [
    ((2, 4096), NormConfig(4, 1, 128, "shared")), ((2, 4096), NormConfig(4, 1, 64, "shared", staged=4)),
    ((2, 4096), NormConfig(4, 1, 64, "shared", cluster=2, staged=4)),
    ((64, 32), NormConfig(4, 8, 16, "shared")), ((256, 64), NormConfig(4, 8, 32, "shared", cluster=2)),
    ((256, 128), NormConfig(4, 8, 32, "shared", cluster=2, staged=2, resident=2)),
]  # fmt: skip
"""Shapes, and ways to hold their rows where there are 2, else their columns."""


@pytest.mark.deep
@each(("shape", "config"), HELD, sample=1)
def test_a_residual_is_added_wherever_elements_are_held(shape: tuple[int, ...], config: NormConfig) -> None:
    family = FAMILIES["add_rms_norm"]
    p = family.problem(shape, (int(shape[0] == 2),), "f32", weight=True)
    verify(family, p, config).require()
    for other in (NormConfig(4, 1, 128, "global"), NormConfig(4, 1, 32, "registers", turns=1)):
        with pytest.raises(UnsupportedError, match="a residual is added where registers or shared memory"):
            family.launches(p, other, "sm_90")


def test_rows_of_a_trial_are_rows_of_the_tensor() -> None:
    for strides in (None, (40, 1), (1, 6)):
        x = norm_problem("softmax", (6, 40), 1, "f32", strides).axes
        found = placed_numbers("ties", "softmax", x, 3)[places(x.shape, x.src)]
        assert np.array_equal(found, groups("ties", "softmax", "f32"))
