"""verify: it passes what is right in every family, and names what is wrong."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.costs import Cost, sequence_traffic
from layoutalg.codegen.gpu import gpu_status
from layoutalg.codegen.instr import BAR
from layoutalg.codegen.program import LaunchSequence, printed_sequence
from layoutalg.errors import MismatchError, ShapeError, SimulationError, UnsupportedError
from layoutalg.kernels import FAMILIES, Family, verify
from layoutalg.kernels.checks import checks_of, record
from layoutalg.kernels.checks.gemm import ALPHA, BETA, definition, operands
from layoutalg.kernels.checks.record import Expected
from layoutalg.kernels.checks.rows import TENSOR_TRIALS
from layoutalg.kernels.elements import bits_of
from layoutalg.kernels.gemm import Sm80Config, gemm_problem, matrices, scalar_words
from layoutalg.kernels.move.problem import permute_problem
from layoutalg.kernels.rowwise import norm_problem, reduce_problem
from layoutalg.kernels.tuning.sweep import random_case
from tests.draws.sequences import launches_of, predicted, problem_of, verified
from tests.kernels.gemm.cases import unpacked
from tests.mutants import planting
from tests.sweeps import each

TRANSPOSE, SM80, SIMT = FAMILIES["transpose"], FAMILIES["gemm-sm80"], FAMILIES["gemm-simt"]
PROBLEM = TRANSPOSE.problem(70, 140, "f32")


SMALL = {"gemm-sm80": (64, 64, 64), "gemm-simt": (64, 128, 16)}
"""Products of whole tiles."""


def small(family: Family) -> Any:
    """A problem whose accesses are predicted."""
    if family.name in SMALL:
        return family.problem(*SMALL[family.name], reads_c=True, bias=True)
    return family.problem(**checks_of(family).verified[0])


# --- every family --------------------------------------------------------------------------------------


@pytest.mark.deep(but=("tiled_copy", "sum", "argmin", "silu"))
@pytest.mark.parametrize("name", FAMILIES)
def test_the_first_problem_of_a_family_passes_every_check(name: str) -> None:
    family = FAMILIES[name]
    p = small(family)
    report = verify(family, p)
    names = [c.name for c in report.checks]
    assert report.passed and report.family == name and str(p) in report.problem
    assert names[:2] == ["result, one block at a time", "result, one warp at a time"]
    assert "no other accesses" in names and names[-1].startswith("machine code, ")
    assert [n for n in names if n.startswith("result, ") and not n.endswith(" rows")][2:] == [
        f"result, {trial}" for trial in checks_of(family).trials(p)[1:]
    ]
    report.require()


MISTAKES = ("definition", "more", "less")
FIRST = ("tiled_copy", "sum", "cross_entropy", "gelu")


@pytest.mark.deep(but=tuple(f"{name}-{MISTAKES[i % 3]}" for i, name in enumerate(FIRST)))
@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.parametrize("name", FAMILIES)
def test_a_wrong_definition_or_prediction_is_a_failed_check(
    name: str, mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An element that is off, a wavefront too many, an instruction of which nothing is predicted."""
    family = FAMILIES[name]
    p = small(family)

    def off(p: Any, c: Any, given: Any) -> Expected:
        right = checks_of(family).expected(p, c, given)
        values = right.values.copy()
        by = 3 if right.allowed is None else 3 + 2 * np.broadcast_to(right.allowed, values.shape).flat[7]
        values.reshape(-1)[7] = values.reshape(-1)[7] + by
        return replace(right, values=values)

    def wrong(sequence: Any, scalars: Any) -> Any:
        first, *others = sequence_traffic(sequence, scalars)
        op, right = next(iter(first)), dict(first)
        if mistake == "less":
            del right[op]
        else:
            right[op] += Cost(0, 1, 0)
        return (right, *others)

    if mistake != "definition":
        monkeypatch.setattr(record, "sequence_traffic", wrong)
    checks = replace(checks_of(family), expected=off) if mistake == "definition" else None
    report = verify(family, p, checks=checks)
    failed = [c.name for c in report.checks if not c.passed]
    if mistake == "definition":
        assert failed[:2] == ["result, one block at a time", "result, one warp at a time"]
        with pytest.raises(MismatchError, match=r"a time: [12] (bytes differ|elements are wrong)"):
            report.require()
    else:
        (one,) = failed
        assert one.startswith("accesses, ") if mistake == "more" else one == "no other accesses"


@pytest.mark.parametrize("name", FAMILIES)
def test_what_lies_outside_of_a_result_stays(name: str) -> None:
    """Gaps between rows, or the end of the last unit, of a buffer that is longer than it has to be."""
    family = FAMILIES[name]
    p = small(family)
    given = checks_of(family).buffers(p, checks_of(family).trials(p)[0], 0)
    expected = replace(checks_of(family).expected(p, family.choose(p), given), beside=None)
    old = np.concatenate([given[expected.buffer], given[expected.buffer][:4]])
    new = old.copy()
    new.view("u1")[-1] ^= 1
    if expected.allowed is None:
        expected = replace(expected, values=np.concatenate([expected.values, old[-4:]]))
    before = {**given, expected.buffer: old}
    assert not record.compare("r", before, expected, {expected.buffer: new}).passed


@each("name", FAMILIES)
def test_buffers_are_the_same_for_the_same_seed(name: str) -> None:
    family = FAMILIES[name]
    p = small(family)
    first, same, other = (
        checks_of(family).buffers(p, checks_of(family).trials(p)[0], seed) for seed in (1, 1, 2)
    )
    source = next(name for name in ("a", "src", "x", "q") if name in first)
    assert all(np.array_equal(first[x], same[x]) for x in first)
    assert not np.array_equal(first[source], other[source]) and len(set(first[source].tolist())) > 9


def test_no_element_that_is_converted_is_nan_and_half_are_of_the_order_of_a_hundred() -> None:
    p = permute_problem((13, 22, 35), (2, 0, 1), "f32", result="f16")
    given = checks_of(FAMILIES["permute"]).buffers(p, "", 0)["src"].view("f4")
    near = (abs(given) < 500).mean()
    assert not np.isnan(given).any() and 0.7 < near < 0.8, near


def test_on_a_machine_without_gpu_the_gpu_target_says_so() -> None:
    if gpu_status().available:
        assert verify(TRANSPOSE, PROBLEM, target="gpu").passed
        return
    with pytest.raises(UnsupportedError, match="running a kernel needs a GPU"):
        verify(TRANSPOSE, PROBLEM, target="gpu")


# --- tensors -------------------------------------------------------------------------------------------


RANDOM = [(name, seed) for seed in range(2) for name in FAMILIES]


@each(("name", "seed"), RANDOM, sample=2)
def test_random_problems_of_every_family_agree(name: str, seed: int) -> None:
    report = verify(FAMILIES[name], *random_case(FAMILIES[name], seed), seed=seed)
    assert report.passed, report
    assert report.family == name and any(c.name.startswith("accesses, ") for c in report.checks)


@pytest.mark.deep
def test_what_two_kernels_do_is_verified_together() -> None:
    p = problem_of("layer_norm", (20_000, 2), (0,), "f32")
    assert verified(p).passed and len(launches_of(p).kernels) == 2
    one, two = (predicted(problem_of("sum", (n,), (0,), "f32")) for n in (1 << 10, 1 << 24))
    assert one["st.global.b32"].instructions == 1 < two["st.global.b32"].instructions


@pytest.mark.deep(only=("permute-shape0-axes0-stg128_whole",))
@pytest.mark.parametrize(
    ("op", "shape", "axes", "store"),
    [("permute", (16, 64, 48), (0, 2, 1), "stg128_whole"), ("softmax", (8, 64), (1,), "stg128_whole")],
)
def test_a_store_that_is_not_printed_fails(
    op: str, shape: Any, axes: Any, store: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    def without(sequence: LaunchSequence) -> LaunchSequence:
        kernels = tuple(planting.without(kernel, store) for kernel in sequence.kernels)
        return printed_sequence(replace(sequence, kernels=kernels))

    monkeypatch.setattr(record, "printed_sequence", without)
    report = verify(FAMILIES[op], problem_of(op, shape, axes, "f32"))
    failed = [c.name for c in report.checks if not c.passed]
    assert failed[0] == "result, one block at a time" and "accesses, st.global.b128" in failed


@each("extra", [{"weight": True, "bias": True}, {"bias": True}, {"in_place": True}], ids=str, sample=1)
@each("axis", [0, 1], sample=1)
def test_weights_and_norms_in_place_are_verified(extra: dict[str, bool], axis: int) -> None:
    report = verified(norm_problem("layer_norm", (19, 24), axis, "f16", **extra), seed=3)  # type: ignore[arg-type]
    names = [c.name for c in report.checks if c.name.startswith("result, ")][2:]
    assert report.passed and names == [f"result, {trial}" for trial in list(TENSOR_TRIALS)[1:]], report


@pytest.mark.parametrize(
    ("p", "error"),
    [
        (norm_problem("softmax", (0, 4), 1, "f32"), ShapeError),
        (reduce_problem((4, 4), 1, "sum", "f32", src=(8, 1)), ShapeError),
        (permute_problem((4, 4), (1, 0), "f32", src_offset=1), ShapeError),
    ],
)
def test_what_is_not_verified_is_refused(p: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="verif"):
        verified(p)


# --- products ------------------------------------------------------------------------------------------


@pytest.mark.deep
def test_parts_of_k_agree() -> None:
    config = Sm80Config(64, 64, 32, 2, 2, 2, splits=2, result_vec=4)
    report = verify(SM80, gemm_problem(64, 64, 128), config)
    assert report.passed and report.problem.endswith("64x64x32 by 2")
    assert sum(check.name == "no other accesses" for check in report.checks) == 2


def test_the_definition_element_by_element() -> None:
    p = gemm_problem(3, 5, 4, "f32", lda=6, ldb=7, ldc=8, ldd=9, b_major="mn", reads_c=True, bias=True)
    given = operands(p, seed=1)
    a, b = matrices(p, unpacked(given["a"], "f32"), unpacked(given["b"], "f32"))
    c, bias = unpacked(given["c"], "f32"), unpacked(given["bias"], "f32")
    exact, allowed = definition(p, given)
    for i in range(3):
        for j in range(5):
            terms = [ALPHA * a[i, x] * b[x, j] for x in range(4)] + [BETA * c[8 * i + j], bias[j]]
            assert exact[i, j] == pytest.approx(sum(terms), rel=1e-14)
            assert allowed[i, j] > 2 * 4 * 2.0**-24 * sum(map(abs, terms))


def test_what_is_out_of_bounds_is_named() -> None:
    p = gemm_problem(4, 6, 5, "f32")
    given = operands(p, seed=2)
    right = checks_of(SIMT).expected(p, None, given)
    exact, allowed = right.values, right.allowed

    def seen(values: Any) -> Any:
        return record.compare("right", given, right, {"d": bits_of(values, "f32").ravel()})

    assert seen(exact).passed
    for wrong in (exact[2, 3] + 2 * allowed[2, 3], np.nan, np.inf):
        bad = exact.copy()
        bad[2, 3] = wrong
        check = seen(bad)
        assert not check.passed and check.detail.startswith("1 elements are wrong: d[2, 3] = ")


@pytest.mark.deep
@pytest.mark.parametrize("factor", ["alpha", "beta"])
def test_a_forgotten_factor_is_seen(factor: str) -> None:
    """The definition takes it for 1, whatever the kernel is given: neither factor that is verified is 1."""
    p = SIMT.problem(32, 32, 16, reads_c=True, bias=True)
    one = scalar_words(p, factor, 1)
    expected = checks_of(SIMT).expected
    wrong = replace(checks_of(SIMT), expected=lambda p, c, given: expected(p, c, {**given, **one}))
    assert verify(SIMT, p).passed and not verify(SIMT, p, checks=wrong).passed


def test_a_missing_barrier_is_an_error() -> None:
    def launches(p: Any, config: Any, arch: Any) -> LaunchSequence:
        one = SM80.launches(p, config, arch)
        return replace(one, kernels=tuple(planting.without(kernel, BAR.name) for kernel in one.kernels))

    family = replace(SM80, launches=launches)
    with pytest.raises(SimulationError):
        verify(family, gemm_problem(64, 64, 128))
