"""Lock files: what they choose, what refuses them, and what the runtime does with them."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from layoutalg.errors import MismatchError, ParseError, ResourceError
from layoutalg.kernels import FAMILIES, plan_cache, tuning
from layoutalg.kernels.calls import product_choice
from layoutalg.kernels.files import read_once
from layoutalg.limits import Most
from layoutalg.ops import plan_matmul
from tests.command import refusal, run
from tests.sweeps import each

TRANSPOSE = FAMILIES["transpose"]
P = TRANSPOSE.problem(512, 512, "f32")


def records(family: str = "transpose", problem: Any = P, place: Any = None) -> list[tuning.Record]:
    """Records by which the second candidate is fastest."""
    jobs = list(tuning.jobs_of(family, [problem], "sm_90", place or tuning.model_place("sm_90"), top=2))
    made = [job.record(tuning.jobs.build(job).kernel, times_ns=(9.0 - job.rank,)) for job in jobs]
    assert len({r.key.config for r in made}) == 2
    return made


@pytest.fixture
def named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[list[tuning.Record]], Path]]:
    def write(own: list[tuning.Record]) -> Path:
        path = tmp_path / "layoutalg.lock"
        path.write_text(tuning.lock_text(tuning.lock_of(own)))
        monkeypatch.setenv("LAYOUTALG_LOCK", str(path))
        read_once.cache_clear()
        return path

    yield write
    read_once.cache_clear()


def test_a_lock_is_what_was_written_and_the_same_bytes_again(path: Path) -> None:
    own = records()
    lock, text = tuning.lock_of(own), tuning.lock_text(tuning.lock_of(own))
    assert text == tuning.lock_text(tuning.lock_of(own[::-1]))
    path.write_text(text)
    read = tuning.lockfile.read_lock(path)
    assert read.choices == lock.choices and tuning.lock_text(read) == text


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


@pytest.mark.deep
def test_commands_and_products_say_where_a_choice_came_from(named: Any) -> None:
    named(records(problem=TRANSPOSE.problem(64, 64, "f32")))
    told = run("generate", "transpose", "--m", "64", "--n", "64").stdout
    assert "by the lock file (model times on sm_90)" in told
    x = numpy.ones((512, 512), "f2")
    plan = plan_matmul(x, x.T, arch="sm_90")
    named(records("gemm-sm80", plan.problem))
    product_choice.ways.cache_clear()
    locked = plan_matmul(x, x.T, arch="sm_90")
    product_choice.ways.cache_clear()
    assert locked.config == FAMILIES["gemm-sm80"].configs(plan.problem)[1]
    assert str(locked).splitlines()[0].endswith("by the lock file (model times on sm_90)")


def changed(**key: str) -> tuning.Lock:
    """A lock of records whose keys have something else."""
    return tuning.lock_of([replace(r, key=replace(r.key, **key)) for r in records()])


H200 = ("gpu", "NVIDIA H200", "580.95", "13.0", "13.0", "0.1.0")


@pytest.mark.deep
@each(
    ("call", "words"),
    [
        (lambda: changed().chosen(TRANSPOSE, P, "sm_80"), "made for sm_90, this is sm_80"),
        (lambda: changed(kernel="0" * 64).chosen(TRANSPOSE, P, "sm_90"), "the kernels 000000000000"),
        (lambda: changed(config="0" * 64).chosen(TRANSPOSE, P, "sm_90"), "tune again"),
        (lambda: tuning.lock_of(records(place=H200)).chosen(TRANSPOSE, P, "sm_90", "NVIDIA H100"),
         "made for NVIDIA H200, this is NVIDIA H100"),
        (lambda: tuning.lock_of([*records(), *mixed()]), "2 places .*: model, sm_80, .*; model, sm_90"),
    ],
)  # fmt: skip
def test_a_mismatch_is_refused_by_name(call: Callable[[], object], words: str) -> None:
    with pytest.raises(MismatchError, match=words):
        call()


def mixed() -> list[tuning.Record]:
    """A record of another place."""
    (one, *_) = records()
    return [replace(one, key=replace(one.key, gpu="sm_80"))]


def test_times_of_a_place_hold_there() -> None:
    lock = tuning.lock_of(records(place=H200))
    assert lock.chosen(TRANSPOSE, P, "sm_90", "NVIDIA H200") == TRANSPOSE.configs(P)[1]
    assert tuning.lock_of([*records(), *mixed()], "sm_90").gpu == "sm_90"


def test_a_lock_that_is_torn_too_large_or_absent_is_refused(
    named: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A choice does not pass over it."""
    path = named(records())
    text = path.read_text()
    for wrong in (text[:-20], "[" * 100000):
        path.write_text(wrong)
        with pytest.raises(ParseError, match="not a lock"):
            tuning.current_lock()
        assert refusal("generate", "transpose", "--m", "64", "--n", "64")[0] == "ParseError"
    monkeypatch.setattr(Most.REPORT, "number", 10)
    with pytest.raises(ResourceError):
        tuning.current_lock()
    path.unlink()
    with pytest.raises(FileNotFoundError):
        tuning.current_lock()
