"""`layoutalg bench --predict`: the steps of a product's ladder, without a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

import pytest

from layoutalg.kernels import Family, find_family, ladder
from layoutalg.kernels.ladder.step import Step, predict_steps
from tests.command import answer, run

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


@pytest.mark.deep
def test_the_published_shares_of_a_t4_stand_beside_what_is_predicted() -> None:
    """An 8-way conflict and copies that nothing covers: a quarter of the tensor cores' rate, as published."""
    payload = answer("bench", "gemm-sm75", "--predict", "--size", "512")
    assert payload["arch"] == "sm_75" and any("documented only" in rate for rate in payload["rates"])
    before, after = payload["predicted"][0]["steps"]
    assert (before["published_share"], after["published_share"]) == (0.24, 0.5)
    assert not before["overlapped"] and before["least_cycles"] == before["cycles"]["L1"]
    assert 0.22 < before["estimated_share"] < 0.24 < before["share"] < 0.3
    assert 0.5 < after["estimated_share"] < 0.6 < after["share"] == 1
    text = run("bench", "gemm-sm75", "--predict", "--size", "512").stdout
    assert "at most  estimate  was" in text and "documented only" in text and "1,022 documented" in text
    assert max(map(len, text.splitlines())) <= 100


@pytest.mark.deep
def test_steps_that_an_architecture_lacks_are_named_beside_the_others() -> None:
    payload = answer("bench", "gemm-simt", "--predict", "--size", "512", "--arch", "sm_75")
    (report,) = payload["predicted"]
    assert [step["step"] for step in report["steps"]] == list(STEPS["gemm-simt"])
    (refused,) = report["refused"]
    assert refused["step"] == "cp.async" and "sm_75" in refused["why"]
    text = run("bench", "gemm-simt", "--predict", "--size", "512", "--arch", "sm_75").stdout
    assert "cp.async: not on sm_75:" in text
