"""Counters of many cases: what the profiler is asked, what is read of its text, and what is refused.

A program of a few lines that is named ncu stands for the profiler.
"""

from __future__ import annotations

import contextlib
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import layoutalg.codegen.gpu
from layoutalg.codegen.gpu import gpu_status
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.errors import MismatchError, UnsupportedError
from layoutalg.kernels import find_family, tuning
from layoutalg.kernels.tuning import sweep
from tests.command import answer, refusal, run
from tests.sweeps import each

PLACE = (tuning.VERIFIED, "NVIDIA H200", "580.95", "13.0", "13.0", "0.1.0")
NO_GPU = not gpu_status().available

Profiler = Callable[..., Path]


@pytest.fixture
def profiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Profiler:
    """Puts a program on PATH that keeps what it was asked and prints a text, by the number of its call."""

    def install(*texts: str, status: int = 0) -> Path:
        folder = tmp_path / "bin"
        folder.mkdir()
        program, asked = folder / "ncu", tmp_path / "asked.jsonl"
        program.write_text(
            f"#!{sys.executable}\nimport json, sys\n"
            f"with open({str(asked)!r}, 'a+') as file:\n"
            "    file.seek(0)\n    number = len(file.readlines())\n"
            "    file.write(json.dumps(sys.argv[1:]) + '\\n')\n"
            f"print({list(texts)!r}[min(number, {len(texts) - 1})])\nsys.exit({status})\n"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", str(folder))
        monkeypatch.setattr(tuning.sweep, "check_worker", lambda job: None)
        return asked

    return install


def text_of(*launches: dict[str, Any]) -> str:
    """What the profiler prints of launches by the names of METRICS."""
    head = '"ID","Process ID","Kernel Name","Section Name","Metric Name","Metric Unit","Metric Value"'
    lines = [
        f'"{n}","77","k","Command line profiler metrics","{sweep.METRICS[name]}","sector","{value:,}"'
        for n, launch in enumerate(launches)
        for name, value in launch.items()
    ]
    return "\n".join(["==PROF== Connected to process 77", "==PROF== Profiling", head, *lines])


def case(name: str = "transpose", seed: int = 5, **more: Any) -> tuning.Job:
    (job,) = tuning.counted_cases(name, 1, place=PLACE, arch="sm_90", seed=seed, **more)
    return job


@pytest.mark.deep(only=("gemm-simt",))
@pytest.mark.parametrize("name", ["permute", "gemm-simt"])
def test_a_case_has_what_is_predicted_and_what_is_counted(name: str, profiler: Profiler) -> None:
    job = case(name)
    predicted, family = sweep.predicted_counters(job), find_family(name)
    costs = family.costs(job.problem, job.config, "sm_90")
    stored = sum(cost.total for one in costs for op, cost in one.items() if "st.global" in op)
    assert predicted[sweep.PREDICTED + "sectors stored"] == stored > 0
    asked = profiler(text_of({"sectors stored": 40, "sectors loaded": 1000}, {"sectors stored": 2}))
    (took,), counters = sweep.by_counters(job, tuning.jobs.build(job))
    counted = {x.removeprefix(sweep.COUNTED): n for x, n in counters.items() if x.startswith(sweep.COUNTED)}
    assert took > 0 and predicted.items() <= counters.items()
    assert counted == {"sectors stored": 42, "sectors loaded": 1000}, "what is not counted is not 0"
    (words,) = map(json.loads, asked.read_text().splitlines())
    assert words[-5:] == [sys.executable, "-m", "layoutalg.kernels.tuning.sweep", name, "5"]
    assert set(words[words.index("--metrics") + 1].split(",")) == set(sweep.METRICS.values())
    names = words[words.index("--kernel-name") + 1]
    assert all(k.name in names for k in family.launches(job.problem, job.config, "sm_90").kernels)


READ = text_of({"bytes read": 4096})


@each(
    "text",
    ["", "==WARNING== No kernels were profiled.", READ[:-30], '"ID"\n"0"\n',
     READ.replace("dram__bytes_read.sum", "other.sum"),
     *(READ.replace('"4,096"', f'"{wrong}"') for wrong in ("n/a", "nan", "-1"))],
)  # fmt: skip
def test_what_the_profiler_prints_is_read(text: str) -> None:
    assert sweep.counters_in(READ) == {"bytes read": 4096.0} and not sweep.counters_in(text)


@pytest.mark.parametrize(
    ("text", "error", "word"),
    [
        ("==ERROR== the application returned 1", MismatchError, "ended with 1 .* the application returned"),
        ("==ERROR== ERR_NVGPUCTRPERM - no permission", tuning.jobs.UnfitWorkerError, "for administrators"),
    ],
)
def test_where_nothing_is_counted_its_words_are_kept(
    text: str, error: type[Exception], word: str, profiler: Profiler
) -> None:
    profiler(text, status=1)
    with pytest.raises(error, match=word):
        sweep.by_counters(case(), tuning.jobs.build(case()))


def test_a_profiler_that_hangs_is_ended_and_one_that_is_absent_is_named(
    profiler: Profiler, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    profiler("")
    (tmp_path / "bin" / "ncu").write_text(f"#!{sys.executable}\nimport time\ntime.sleep(60)\n")
    with pytest.raises(TimeoutError, match="within 1 s"):
        sweep.by_counters(case(limit_s=1), tuning.jobs.build(case()))
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    with pytest.raises(tuning.jobs.UnfitWorkerError, match="not on PATH"):
        sweep.by_counters(case(), tuning.jobs.build(case()))


@pytest.mark.skipif(not NO_GPU, reason="a GPU is here")
def test_without_a_gpu_it_is_refused_by_name(
    engine: tuning.Engine, path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(tuning.jobs.UnfitWorkerError, match="needs a GPU"):
        sweep.by_counters(case(), tuning.jobs.build(case()))
    assert refusal("verify", "transpose", "--random", "3", "--counters") == (
        "UnsupportedError", f"running a kernel needs a GPU: {gpu_status().reason}",
    )  # fmt: skip
    monkeypatch.setattr("layoutalg.kernels.tuning.tuner.UNFIT_S", 0.0)
    with pytest.raises(UnsupportedError, match=r"no worker can .* needs a GPU"):
        tuning.tune([case(store=path)] * 4, engine, tuning.Store(path))
    assert not tuning.Store(path).records()


@pytest.fixture
def some_gpu(engine: tuning.Engine, monkeypatch: pytest.MonkeyPatch) -> None:
    """A GPU by name, threads in place of processes, and no child between a worker and the profiler."""

    def taken(job: tuning.Job, built: Any) -> Any:
        assert job.take is not None
        return *job.take(job, built), ""

    here = GpuStatus(True, "NVIDIA H200", "sm_90a")
    monkeypatch.setattr(layoutalg.codegen.gpu, "require_gpu", lambda: here)
    monkeypatch.setattr(tuning, "local_engine", lambda *given, **options: contextlib.nullcontext(engine))
    monkeypatch.setattr(tuning, "gpu_place", lambda: (("gpu", *PLACE[1:]), "sm_90a"))
    monkeypatch.setattr(tuning.jobs, "_in_child", taken)


WORDS = ("verify", "transpose", "--random", "3", "--counters", "--store", "counted.jsonl")


def launches() -> list[dict[str, int]]:
    """What is predicted of three transposes, by the names of METRICS."""
    return [
        {
            name.removeprefix(sweep.PREDICTED): int(x)
            for name, x in found.items()
            if name.startswith(sweep.PREDICTED)
        }
        for job in tuning.counted_cases("transpose", 3, place=PLACE, arch="sm_90a")
        for found in [sweep.predicted_counters(replace(job, arch="sm_90a"))]
    ]


@pytest.mark.deep
@pytest.mark.usefixtures("some_gpu", "here")
def test_a_number_that_differs_fails_the_command(profiler: Profiler) -> None:
    first, second, third = launches()
    stored = third["sectors stored"]
    asked = profiler(*map(text_of, (first, second, third | {"sectors stored": stored + 4})))
    shown = answer(*WORDS, exit_code=1)
    assert not shown["passed"] and len(asked.read_text().splitlines()) == 3
    assert [shown["random"][name] for name in ("known", "compared", "equal", "missing")] == [0, 9, 8, 0]
    (report,) = shown["reports"]
    (check,) = [one for one in report["checks"] if not one["passed"]]
    assert check["detail"] == f"predicted {stored}, counted {stored + 4}"
    assert check["name"] == "sectors stored" and "seed 2" in report["problem"] and not report["passed"]
    assert {r.key.place for r in tuning.Store(Path("counted.jsonl")).records().values()} == {PLACE}
    told = run(*WORDS)
    said = " ".join(told.output.split())
    assert told.exit_code == 1 and said.endswith("FAILED."), told.output
    assert "seed 2, counted" in said and "8 of 9 numbers equal." in said
    assert "sectors stored 3 2" in said and "sectors loaded 3 3" in said


@pytest.mark.deep(but=("kept2",))
@pytest.mark.usefixtures("some_gpu", "here")
@pytest.mark.parametrize(
    "kept",
    [(), ("sectors stored",), ("sectors stored", "shared wavefronts"), ("sectors stored", "shared wavefronts",
      "sectors loaded")],
)  # fmt: skip
def test_numbers_that_are_not_in_the_report_do_not_pass(kept: tuple[str, ...], profiler: Profiler) -> None:
    """Bytes of memory are not compared."""
    seen = [{name: x for name, x in one.items() if name in kept} | {"bytes read": 1} for one in launches()]
    profiler(*map(text_of, seen))
    equal, missing = 3 * len(kept), 9 - 3 * len(kept)
    shown = answer(*WORDS, exit_code=int(missing > 0))
    assert shown["passed"] == (not missing)
    assert [shown["random"][name] for name in ("equal", "missing")] == [equal, missing]
    said = " ".join(run(*WORDS).output.split())
    assert f"{equal} of {equal} numbers equal." in said
    assert said.endswith(f"Not passed: {missing} predicted numbers were not counted." * (missing > 0))


@pytest.mark.deep(only=("gemm-sm80", "gemm-simt"))
@pytest.mark.parametrize("name", ["gemm-sm80", "gemm-simt", "permute", "softmax", "transpose", "tiled_copy"])
def test_what_copies_and_the_l2_change_is_an_estimate(name: str) -> None:
    for seed in range(6 if name not in ("gemm-sm80", "gemm-simt") else 3):
        job = case(name, seed)
        found = sweep.predicted_counters(job)
        copied = any("cp.async" in op for one in find_family(name).costs(job.problem, job.config, "sm_90")
                     for op in one)  # fmt: skip
        exact = {x.removeprefix(sweep.PREDICTED) for x in found if x.startswith(sweep.PREDICTED)}
        assert exact == {"sectors stored"} | (set() if copied else {"sectors loaded", "shared wavefronts"})
        record = job.record(
            "k" * 64, times_ns=(1.0,), counters={**found, sweep.COUNTED + "sectors stored": 1.0}
        )
        numbers = sweep.numbers_of([record])
        assert [one.name for one in numbers if one.compared] == ["sectors stored"]
        assert len(numbers) == len(found) and {one.name for one in numbers if not one.exact} == {
            x.removeprefix(sweep.ESTIMATED) for x in found if x.startswith(sweep.ESTIMATED)
        }


@pytest.mark.usefixtures("some_gpu")
def test_a_command_without_the_profiler_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    for words, part in ((("--random", "3"), "ncu is not on PATH"), ((), "goes with random cases")):
        kind, said = refusal("verify", "transpose", *words, "--counters")
        assert kind == "UnsupportedError" and part in said
