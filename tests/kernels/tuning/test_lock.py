"""Lock files: what they choose, what refuses them, and what the runtime does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from layoutalg.errors import MismatchError, ParseError, ResourceError
from layoutalg.kernels import FAMILIES, plan_cache, plan_matmul, tuning
from layoutalg.kernels.calls import product_choice
from layoutalg.kernels.tuning import lockfile as module
from tests.command import refusal, run
from tests.sweeps import each

TRANSPOSE = FAMILIES["transpose"]
P = TRANSPOSE.problem(512, 512, "f32")


def records(family: str = "transpose", problem: Any = P, place: Any = None) -> list[tuning.Record]:
    """Records by which the second candidate is fastest."""
    jobs = list(tuning.jobs_of(family, [problem], "sm_90", place or tuning.model_place("sm_90"), top=2))
    made = [job.record(tuning.build(job).kernel, times_ns=(9.0 - job.rank,)) for job in jobs]
    assert len({r.key.config for r in made}) == 2
    return made


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[tuning.Record]], Path]]:
    def write(own: list[tuning.Record]) -> Path:
        path = tmp_path / "layoutalg.lock"
        path.write_text(tuning.lock_text(tuning.lock_of(own)))
        monkeypatch.setenv("LAYOUTALG_LOCK", str(path))
        module._read_once.cache_clear()
        return path

    yield write
    module._read_once.cache_clear()


def test_a_lock_is_what_was_written_and_the_same_bytes_again(tmp_path: Path) -> None:
    own = records()
    text = tuning.lock_text(tuning.lock_of(own))
    assert text == tuning.lock_text(tuning.lock_of(own[::-1]))
    path = tmp_path / "lock"
    path.write_text(text)
    assert (
        tuning.read_lock(path).choices == tuning.lock_of(own).choices
        and tuning.lock_text(tuning.read_lock(path)) == text
    )


def test_the_locked_configuration_goes_before_the_cost_model(named: Any) -> None:
    first, second, *_ = TRANSPOSE.configs(P)
    assert tuning.choose(TRANSPOSE, P, "sm_90") == (first, "cost model")
    named(records())
    assert tuning.choose(TRANSPOSE, P, "sm_90") == (second, "lock file (model times on sm_90)")
    other = TRANSPOSE.problem(1024, 512, "f32")
    assert tuning.choose(TRANSPOSE, other, "sm_90")[1] == "cost model"


def test_kernels_on_disk_are_those_of_the_lock(named: Any, tmp_path: Path) -> None:
    def images() -> list[bytes]:
        ready = plan_cache.ready_sequence("transpose", P, "sm_90", tmp_path / "kept")
        return [k.image for k in ready.kernels]

    by_model = images()
    named(records())
    assert images() != by_model and images() == images()


def test_a_command_says_where_a_choice_came_from(named: Callable[[list[tuning.Record]], Path]) -> None:
    named(records(problem=TRANSPOSE.problem(64, 64, "f32")))
    told = run("generate", "transpose", "--m", "64", "--n", "64").stdout
    assert "by the lock file (model times on sm_90)" in told


def test_a_product_says_where_its_choice_came_from(named: Callable[[list[tuning.Record]], Path]) -> None:
    x = numpy.ones((512, 512), "f2")
    plan = plan_matmul(x, x.T, arch="sm_90")
    family = FAMILIES["gemm-sm80"]
    named(records("gemm-sm80", plan.problem))
    product_choice.ways.cache_clear()
    locked = plan_matmul(x, x.T, arch="sm_90")
    product_choice.ways.cache_clear()
    assert locked.config == family.configs(plan.problem)[1]
    assert str(locked).splitlines()[0].endswith("by the lock file (model times on sm_90)")


def test_a_mismatch_is_refused_by_name() -> None:
    own = records()
    lock = tuning.lock_of(own)
    with pytest.raises(MismatchError, match="was made for sm_90, this is sm_80"):
        lock.chosen(TRANSPOSE, P, "sm_80")
    changed = tuning.lock_of([replace(r, key=replace(r.key, kernel="0" * 64)) for r in own])
    with pytest.raises(MismatchError, match="with the kernels 000000000000, this version makes"):
        changed.chosen(TRANSPOSE, P, "sm_90")
    gone = tuning.lock_of([replace(r, key=replace(r.key, config="0" * 64)) for r in own])
    with pytest.raises(MismatchError, match="does not offer: tune again"):
        gone.chosen(TRANSPOSE, P, "sm_90")


def test_times_of_a_gpu_hold_on_that_gpu() -> None:
    lock = tuning.lock_of(records(place=("gpu", "NVIDIA H200", "580.95", "13.0", "13.0", "0.1.0")))
    assert lock.chosen(TRANSPOSE, P, "sm_90", "NVIDIA H200") == TRANSPOSE.configs(P)[1]
    with pytest.raises(MismatchError, match="made for NVIDIA H200, this is NVIDIA H100"):
        lock.chosen(TRANSPOSE, P, "sm_90", "NVIDIA H100")


def test_records_of_several_places_do_not_mix() -> None:
    own = records()
    mixed = [*own, replace(own[0], key=replace(own[0].key, gpu="sm_80"))]
    with pytest.raises(
        MismatchError, match=r"records of 2 places do not mix: model, sm_80, .*; model, sm_90"
    ):
        tuning.lock_of(mixed)
    assert tuning.lock_of(mixed, "sm_90").gpu == "sm_90"


@each(
    ("change", "said"),
    [(lambda text: text[:-20], "is not a lock file"), (lambda text: "[" * 100000, "is not a lock file")],
)
def test_what_is_no_lock_is_refused_and_not_passed_over(named: Any, change: Any, said: str) -> None:
    path = named(records())
    path.write_text(change(path.read_text()))
    with pytest.raises(ParseError, match=said):
        tuning.current_lock()
    assert refusal("generate", "transpose", "--m", "64", "--n", "64")[0] == "ParseError"


def test_a_lock_that_is_absent_or_too_large_is_refused(named: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    path = named(records())
    monkeypatch.setattr(module, "MOST_BYTES", 10)
    with pytest.raises(ResourceError, match="bytes of the lock"):
        tuning.current_lock()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        tuning.current_lock()
