"""`layoutalg bench --predict`: the steps of a product's ladder, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from typing import Any

import pytest

from layoutalg.kernels import Family, find_family, ladder
from layoutalg.kernels.ladder.gemm import predict_steps
from layoutalg.kernels.ladder.step import Step
from tests.command import answer, refusal, run

STEPS = {
    "gemm-sm75": ("2 vectors", "3 swizzle"), "gemm-sm80": ("2 vectors", "3 swizzle"),
    "gemm-simt": ("v7", "v8"),
}  # fmt: skip
"""Two steps of each family: the others take as long to compile, and no other path."""


@cache
def _predicted(family: str, n: int, arch: str) -> list[Step]:
    return list(predict_steps(find_family(family), n, STEPS[family], arch))


def _named(family: Family, n: int, names: tuple[str, ...], *, arch: str) -> Iterator[Step]:
    if names == ("cp.async",) and arch == "sm_75":  # which refuses it
        yield from predict_steps(family, n, names, arch)
    yield from (step for step in _predicted(family.name, n, arch) if step.name in names)


@pytest.fixture(autouse=True)
def _short_ladders(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command predicts two steps, once a session."""
    monkeypatch.setattr(ladder, "predict_steps", _named)


def _steps(family: str) -> list[dict[str, Any]]:
    payload = answer("bench", family, "--predict", "--size", "512")
    assert payload["arch"] == "sm_90" and [r["problem"] for r in payload["predicted"]]
    found: list[dict[str, Any]] = payload["predicted"][0]["steps"]
    return found


@pytest.mark.deep
def test_the_swizzle_is_predicted() -> None:
    before, after = _steps("gemm-sm80")
    assert before["effects"] == {} and set(after["effects"]) == {"shared wavefronts"}
    assert (before["ways"]["ldmatrix.x4"], after["ways"]["ldmatrix.x4"]) == (8, 1)
    assert (before["bound"], after["bound"]) == ("L1", "tensor")
    assert after["counts"]["mma"] == 512**3 // (16 * 8 * 8)
    assert after["index_operations"]["written"] > 10 and after["index_operations"]["lowered"] < 1


@pytest.mark.deep
def test_a_larger_tile_halves_what_is_loaded() -> None:
    before, after = _steps("gemm-simt")
    assert after["effects"]["sectors loaded"] == 0.5
    assert (before["flops_per_byte"], after["flops_per_byte"]) == (16, 32)


@pytest.mark.deep
def test_the_tables_fit_a_page() -> None:
    text = run("bench", "gemm-sm80", "--predict", "--size", "512").stdout
    assert text.startswith("512 x 512 x 512 f16 TN on sm_90 (H200): a launch executes (millions)\n")
    assert "Against the step before" in text and "shared wavefronts x 0.1" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.deep
def test_the_published_shares_of_a_t4_stand_beside_what_is_predicted() -> None:
    """An 8-way conflict and copies that nothing covers: a quarter of the tensor cores' rate, as published."""
    payload = answer("bench", "gemm-sm75", "--predict", "--size", "512")
    assert payload["arch"] == "sm_75" and any("documented only" in rate for rate in payload["rates"])
    before, after = payload["predicted"][0]["steps"]
    assert (before["published_share"], after["published_share"]) == (0.24, 0.5)
    assert not before["overlapped"] and before["least_cycles"] > before["cycles"]["L1"]
    assert 0.22 < before["share"] < 0.25 and 0.5 < after["share"] < 0.6
    text = run("bench", "gemm-sm75", "--predict", "--size", "512").stdout
    assert "at most" in text and "documented only" in text and "1,022 documented" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.deep
def test_the_same_steps_on_another_machine_have_no_published_share() -> None:
    payload = answer("bench", "gemm-sm75", "--predict", "--size", "512", "--arch", "H200")
    assert payload["arch"] == "sm_90"
    assert [step["published_share"] for step in payload["predicted"][0]["steps"]] == [None, None]


@pytest.mark.parametrize(
    ("words", "error", "part"),
    [
        (
            ("gemm-sm75", "--arch", "sm_80"),
            "UnsupportedError",
            "neither measured nor published: sm_90 and sm_75",
        ),
        (("transpose",), "UnknownNameError", "family with steps"),
        (("gemm-simt", "--size", "100"), "ShapeError", "whole tiles are predicted"),
    ],
)
def test_what_is_not_predicted_is_refused(words: tuple[str, ...], error: str, part: str) -> None:
    name, message = refusal("bench", *words, "--predict")
    assert name == error and part in message


@pytest.mark.deep
def test_steps_that_an_architecture_lacks_are_named_beside_the_others() -> None:
    payload = answer("bench", "gemm-simt", "--predict", "--size", "512", "--arch", "sm_75")
    (report,) = payload["predicted"]
    assert [step["step"] for step in report["steps"]] == list(STEPS["gemm-simt"])
    (refused,) = report["refused"]
    assert refused["step"] == "cp.async" and "sm_75" in refused["why"]
    text = run("bench", "gemm-simt", "--predict", "--size", "512", "--arch", "sm_75").stdout
    assert "cp.async: not on sm_75:" in text


def test_what_is_timed_is_timed_on_the_gpu_that_is_there() -> None:
    name, message = refusal("bench", "gemm-sm75", "--arch", "sm_75")
    assert name == "UnsupportedError" and "--arch is of --predict" in message
