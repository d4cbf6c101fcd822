"""Lock files: what they choose, what refuses them, and what the runtime does with them."""

from __future__ import annotations

import functools
import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy
import pytest

from layoutalg import __version__
from layoutalg.errors import LayoutAlgError, MismatchError, ParseError, ResourceError
from layoutalg.kernels import FAMILIES, find_family, plan_cache, tuning
from layoutalg.kernels.bench import Timed, make
from layoutalg.kernels.calls import product_choice
from layoutalg.kernels.files import read_once
from layoutalg.kernels.plan_cache import ready_sequence
from layoutalg.kernels.tuning.rates import MOST_RANKED, RATES, counters_of
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


FAMILY = find_family("permute")
PROBLEM = FAMILY.problem((40, 30, 50), (2, 0, 1), "f32")


def rates(**ns: float) -> tuning.Rates:
    return tuning.Rates("permute", "model", "sm_90", __version__, dict.fromkeys(RATES, 0.0) | ns, 0.25)


@functools.cache
def counters(config: Any) -> dict[str, float]:
    sequence = FAMILY.call_launches(PROBLEM, config, "sm_90")
    return counters_of(sequence, FAMILY.scalars(PROBLEM), "sm_90")


@pytest.fixture
def use(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[tuning.Rates], Path]:
    def used(given: tuning.Rates) -> Path:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(tuning.rates_text(given))
        monkeypatch.setenv("LAYOUTALG_RATES", str(path))
        return path

    return used


@pytest.mark.deep
@pytest.mark.parametrize("name", ["sectors", "wavefronts"])
def test_candidates_are_ranked_as_the_numbers_of_the_file_say(name: str, use: Any) -> None:
    use(rates(**{name: 1.0}))
    every = FAMILY.configs(PROBLEM)
    by_definition = min(every, key=lambda c: (counters(c)[name], every.index(c)))
    config, source = tuning.choose(FAMILY, PROBLEM, "sm_90")
    assert config == by_definition and source == "fitted rates (model times on sm_90, median error 25.0%)"
    searched = list(FAMILY.searched(PROBLEM))[:MOST_RANKED]
    jobs = list(tuning.jobs_of("permute", [PROBLEM], "sm_90", tuning.model_place("sm_90"), top=len(searched)))
    assert [counters(job.config)[name] for job in jobs] == sorted(counters(c)[name] for c in searched)
    assert "by the fitted rates" in make((Timed("permute", PROBLEM), "sm_90a")).way


def test_sectors_and_wavefronts_choose_differently_and_the_environment_alone_brings_them(
    use: Callable[[tuning.Rates], Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    chosen = []
    for name in ("sectors", "wavefronts"):
        use(rates(**{name: 1.0}))
        chosen.append(tuning.choose(FAMILY, PROBLEM, "sm_90")[0].way)
    assert chosen == ["staged", "direct"]
    words = ("generate", "permute", "--shape", "40,30,50", "--axes", "2,0,1")
    assert "by the fitted rates (model times on sm_90" in run(*words).output
    other = find_family("sum")
    assert tuning.choose(other, other.problem((64, 96), (1,), "f16"), "sm_90")[1] == "cost model"
    monkeypatch.delenv("LAYOUTALG_RATES")
    assert tuning.choose(FAMILY, PROBLEM, "sm_90") == (FAMILY.choose(PROBLEM), "cost model")


@each(
    ("change", "said"),
    [
        ({"gpu": "sm_80"}, "are of sm_80, this is sm_90"),
        ({"timing": "gpu", "gpu": "NVIDIA A100"}, "are of NVIDIA A100, this is NVIDIA H200"),
        ({"library": "0.0.9"}, "fitted with layoutalg 0.0.9"),
    ],
)
def test_rates_of_another_gpu_or_version_are_refused_by_name(change: Any, said: str, use: Any) -> None:
    path = use(replace(rates(sectors=1.0), **change))
    with pytest.raises(MismatchError, match=said) as caught:
        tuning.choose(FAMILY, PROBLEM, "sm_90", "NVIDIA H200")
    assert str(path) in str(caught.value)


def test_rates_of_another_gpu_are_refused_where_a_plan_by_them_is_kept(tmp_path: Path, use: Any) -> None:
    """Hosts with GPUs of one architecture share a folder of plans."""
    use(replace(rates(sectors=1.0), timing="gpu", gpu="NVIDIA H100"))
    folder = tmp_path / "cubins"
    first = ready_sequence("permute", PROBLEM, "sm_90", folder, gpu="NVIDIA H100")
    assert ready_sequence("permute", PROBLEM, "sm_90", folder, gpu="NVIDIA H100") == first
    with pytest.raises(MismatchError, match="of NVIDIA H100"):
        ready_sequence("permute", PROBLEM, "sm_90", folder, gpu="NVIDIA H200")


def test_what_holds_no_rates_is_refused(use: Callable[[tuning.Rates], Path]) -> None:
    path = use(rates(sectors=1.0))
    path.write_text(json.dumps(json.loads(path.read_text()) | {"version": 2}))
    with pytest.raises(ParseError, match=str(path)):
        tuning.choose(FAMILY, PROBLEM, "sm_90")
    path.write_bytes(b"[" * 100_000)
    with pytest.raises(LayoutAlgError):
        tuning.rates.read_rates(path)
