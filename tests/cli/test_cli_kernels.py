"""`layoutalg generate`, `verify` and `bench`: kernels from the command line, with and without a GPU."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen import gpu
from layoutalg.codegen.gpu import Reading, conditions, gpu_status, runtime
from layoutalg.errors import SimulationError
from layoutalg.kernels import FAMILIES, bench
from layoutalg.kernels import checks as kernel_checks
from layoutalg.kernels.bench import BenchRow, Method, Run, Timed
from layoutalg.kernels.checks import bench_of
from layoutalg.kernels.checks.gemm import SIZES
from layoutalg.kernels.checks.record import Check, VerifyReport
from layoutalg.kernels.checks.rowwise import CASES
from layoutalg.kernels.registry import find_steps
from tests.command import answer, refusal, run
from tests.sweeps import each

NO_GPU = not gpu_status().available


@pytest.mark.deep
@each("family", ["tiled_copy", "transpose"])
@each("dtype", ["u8", "f16", "f32", "f64", "c128"])
def test_generate_prints_the_source_and_nothing_else(family: str, dtype: str) -> None:
    printed = run("generate", family, "--dtype", dtype).stdout
    assert printed.startswith("//") and '"C" __global__' in printed
    assert printed.count("{") == printed.count("}")
    payload = answer("generate", family, "--dtype", dtype)
    assert payload["source"] == printed and payload["output"] is None
    assert all(buffer["layout"] in printed for buffer in payload["shared"]) and payload["threads"] % 32 == 0
    assert bool(payload["shared"]) == (family == "transpose")


def test_compiling_needs_no_gpu() -> None:
    payload = answer("generate", "transpose", "--compile", "sm_80", "--compile", "sm_90a")
    assert [c["arch"] for c in payload["compiled"]] == ["sm_80", "sm_90a"]
    assert all(c["registers"] > 0 and c["spill_bytes"] == 0 for c in payload["compiled"])


def test_generate_writes_ptx() -> None:
    """What the machine code is made of, for the target that was asked for; two kernels are two texts."""
    small = ("--m", "64", "--n", "64")
    payload = answer("generate", "transpose", *small, "--arch", "sm_86", "--ptx")
    assert payload["language"] == "ptx" and f".entry {payload['kernel']}(" in payload["source"]
    assert ".target sm_86" in payload["source"] and "ld.global" in payload["source"]
    assert answer("generate", "transpose", *small)["language"] == "cuda"
    hopper = answer(
        "generate", "gemm-sm90", "--m", "256", "--n", "256", "--k", "128", "--arch", "sm_90a", "--ptx"
    )
    assert ".target sm_90a" in hopper["source"] and "wgmma.mma_async" in hopper["source"]
    assert refusal("generate", "transpose", "--ptx", "--launcher", "cpp")[0] == "UnsupportedError"
    assert refusal("generate", "transpose", "--ptx", "--arch", "sm_70")[0] == "UnknownNameError"


@each("family", ["tiled_copy", "transpose"], sample=1)
@each(("dtype", "m", "n"), [("f32", "33", "70"), ("u8", "65", "130"), ("f16", "64", "64")], sample=1)
def test_verify_in_the_simulator(family: str, dtype: str, m: str, n: str) -> None:
    words = ("verify", family, "--dtype", dtype, "--m", m, "--n", n, "--target", "simulator")
    payload = answer(*words)
    assert payload["passed"] and len(payload["reports"]) == 1
    checks = payload["reports"][0]["checks"]
    assert [c["name"] for c in checks[:2]] == ["result, one block at a time", "result, one warp at a time"]
    assert any(c["name"].startswith("accesses, st.shared") for c in checks) or family == "tiled_copy"
    assert all(c["passed"] for c in checks)
    text = run(*words)
    assert text.exit_code == 0 and text.stdout.endswith("Passed.\n") and "FAILS" not in text.stdout


@each("how", ["hazard", "difference"])
def test_what_fails_is_exit_code_1(monkeypatch: pytest.MonkeyPatch, how: str) -> None:
    def wrong(*_: Any, **__: Any) -> VerifyReport:
        if how == "hazard":
            raise SimulationError("lane 3 reads a word that lane 5 writes", lane=3)
        return VerifyReport("transpose", "2 x 2", "simulator", (Check("result", False, "3 bytes differ"),))

    monkeypatch.setattr(kernel_checks, "verify", wrong)
    words = ("verify", "transpose", "--m", "2", "--n", "2", "--target", "simulator")
    payload, result = answer(*words, exit_code=1), run(*words)
    if how == "hazard":
        assert (result.stdout, payload["error"]) == ("", "SimulationError")
        assert result.stderr == "layoutalg verify: lane 3 reads a word that lane 5 writes\n"
    else:
        assert payload["passed"] is False
        assert "FAILS" in result.stdout and result.stdout.endswith("FAILED.\n")


@pytest.mark.skipif(NO_GPU, reason=gpu_status().reason)
def test_on_a_gpu_verify_runs_there_too() -> None:
    payload = answer("verify", "transpose", "--m", "100", "--n", "200")
    assert payload["passed"] and [r["target"] for r in payload["reports"]] == ["simulator", "gpu"]


SEEN = conditions([Reading(1980, 2619, 412.3, 54, 0), Reading(1755, 2619, 688.0, 61, 0x5)])
READ = Run({"ours": SEEN, "cublas": SEEN}, "", True, 371, {"ours": 2.0, "cublas": None})
NOT_READ: dict[str, Any] = {
    "cold": False,
    "launches": None,
    "contenders": {},
    "joules": {},
    "work_per_joule": {},
}


@pytest.fixture
def measured(monkeypatch: pytest.MonkeyPatch) -> list[Timed]:
    """What is timed; rows are made up, measuring itself needs a GPU."""
    asked: list[Timed] = []

    def one(timed: Timed, method: Method, way: str = "64x64", ours: float = 3000.0) -> BenchRow:
        asked.append(timed)
        family = FAMILIES[timed.family]
        rates: dict[str, float | None] = {"ours": ours, **dict.fromkeys(bench_of(family).contenders)}
        rates |= {"cupy": 900.5} if "cupy" in rates else {}
        if bench_of(family).limit:
            rates[bench_of(family).limit] = 4000.0
        if "cublas" in rates:
            rates |= {"ours": 2.0, "cublas": 4.0}
        if timed.family == "sum":
            rates["torch"] = 1500.0
        if getattr(timed.problem, "grouped", False):
            rates["grouped_mm"] = 1.0
        notes: dict[str, Any] = {}
        if timed.family == "permute":
            notes = {"sectors in": 700, "sectors out": 800, "bound": "bytes: 7, 1.5 us", "board": "B"}
        elif bench_of(family).limit == "read":
            notes = {"moved bytes": 1000, "memory bytes": 1500}
        elif timed.family == "attention":
            notes = {"memory bytes": 1000, "tma bytes": 2500}
        elif rates.get("grouped_mm"):
            notes = {"expected us": 4.0, "board": "B", "boxes by TMA": 7000, "boxes by threads": 8}
        shown = timed.name or str(timed.problem)
        run = READ if method.energy else Run(unread="nothing to read by")
        return BenchRow(
            timed.family,
            shown,
            way,
            bench_of(family).unit,
            rates,
            bench_of(family).limit,
            90,
            notes,
            4 * 10**9,
            run,
        )

    monkeypatch.setattr(gpu, "require_gpu", lambda: runtime.GpuStatus(True, "Some GPU", "sm_90a"))
    monkeypatch.setattr(
        bench, "benchmark", lambda problems, method: (one(timed, method) for timed in problems)
    )
    monkeypatch.setattr(
        bench,
        "benchmark_ways",
        lambda name, p, ways, method: [one(Timed(name, p), method, way) for way in ways],
    )
    return asked


def test_the_table_of_a_bench(measured: list[Timed]) -> None:
    payload = answer("bench", "transpose", "--dtype", "f32", "--dtype", "u8", "--size", "64")
    assert payload["device"] == "Some GPU" and len(payload["rows"]) == 2
    assert payload["rows"][0] == {
        "problem": "64 x 64 f32, ld 64 -> 64",
        "way": "64x64",
        "registers": 90,
        "unit": "GB/s",
        "rates": {"ours": 3000.0, "copy": 4000.0, "torch": None, "cupy": 900.5},
        "ratios": {"copy": 0.75, "torch": None, "cupy": 3000 / 900.5},
        "limit": "copy",
        "notes": {},
        "run": NOT_READ,
    }
    text = run("bench", "transpose", "--dtype", "f32", "--size", "64").stdout
    assert text.startswith("transpose on Some GPU, ") and re.search(
        r"64 x 64 f32, ld 64 -> 64 +64x64 +3,000 +4,000 +- +900\.5 +0\.750 +- +3\.331", text
    )


def test_the_table_of_a_bench_beside_a_copy_alone(measured: list[Timed]) -> None:
    rows = answer("bench", "quantize_mxfp8", "--dtype", "f32")["rows"]
    assert rows and all(row["rates"] == {"ours": 3000.0, "copy": 4000.0} for row in rows)
    assert "of 2 rows: 0.750 of copy." in run("bench", "quantize_mxfp8", "--dtype", "f32").stdout


def test_the_tables_of_the_bench_of_permutes(measured: list[Timed]) -> None:
    payload = answer("bench", "permute", "--dtype", "f32")
    assert payload["family"] == "permute" and {r["ratios"]["copy"] for r in payload["rows"]} == {0.75}
    assert len(payload["rows"]) == 25
    text = run("bench", "permute", "--dtype", "f32").stdout
    name = "128x224x224x3 -> 0,3,1,2 f32"
    assert "; cases drawn with seed " in text and re.search(
        name + r" +64x64 +90 +700 +800 +bytes: 7, 1\.5 us", text
    )
    assert "Geometric mean of 25 rows: 0.750 of copy, 3.331 of cupy, 0.750 of the fastest." in text


def test_the_tables_of_the_bench_of_reductions(measured: list[Timed]) -> None:
    payload = answer("bench", "reduce")
    assert len(measured) == len(CASES) + 20 == len(payload["rows"])
    assert {row["ratios"][row["limit"]] for row in payload["rows"]} == {0.75}
    measured.clear()
    text = run("bench", "reduce", "--dtype", "bf16").stdout
    assert measured and {str(timed.problem.axes.dtype) for timed in measured} == {"bf16"}
    assert re.search(r"sum 8192x8192 over 1 bf16 +64x64 +90 +1,000 +1,500", text)
    assert "0.750 of read, 2.000 of torch, 3.331 of cupy, 0.750 of the fastest." in text
    assert "0.750 of copy, 3.331 of cupy, 0.750 of the fastest." in text
    measured.clear()
    assert {row["limit"] for row in answer("bench", "softmax", "--dtype", "f32")["rows"]} == {"copy"}
    assert {timed.family for timed in measured} == {"softmax"}


def test_the_tables_of_the_bench_of_products(measured: list[Timed]) -> None:
    payload = answer("bench", "gemm-simt")
    steps = find_steps("gemm-simt")
    assert [row["way"] for row in payload["steps"]] == list(steps) and len(payload["rows"]) == len(SIZES)
    assert payload["steps"][0] == {
        "problem": "4096 x 4096 x 4096 f32 TT", "way": next(iter(steps)), "registers": 90,
        "unit": "TFLOP/s", "rates": {"ours": 2.0, "cublas": 4.0}, "ratios": {"cublas": 0.5}, "limit": "",
        "notes": {}, "run": NOT_READ,
    }  # fmt: skip
    assert answer("bench", "gemm-simt", "--size", "8")["steps"] == []
    text = run("bench", "gemm-simt", "--size", "8").stdout
    assert text.startswith("gemm-simt on Some GPU, ")
    assert re.search(r"8 x 8 x 8 f32 TT +64x64 +2\.0 +4\.0 +0\.500", text)
    assert "Geometric mean of 1 rows: 0.500 of cublas." in text


def test_the_table_of_the_bench_of_attention(measured: list[Timed]) -> None:
    name = "bf16 16x16x1024x1024x128"
    first, *_ = answer("bench", "attention", "--size", "1024")["rows"]
    assert first["problem"] == name and first["ratios"] == {"cudnn": None, "flash": None}
    text = run("bench", "attention", "--size", "1024").stdout
    assert text.startswith("attention on Some GPU, ") and "Geometric mean" not in text
    assert re.search(name + r" +64x64 +3,000 +- +- +- +-", text)
    assert re.search(name + r" +64x64 +90 +1,000 +2,500", text)


def test_the_table_of_the_bench_of_groups(measured: list[Timed]) -> None:
    payload = answer("bench", "gemm-sm90", "--groups", "4", "--size", "512")
    (row,) = payload["rows"]
    assert row["problem"] == "512 x 512 x 512 bf16 TN in 4 groups" and payload["steps"] == []
    assert row["notes"] == {"expected us": 4.0, "boxes by TMA": 7000, "boxes by threads": 8, "board": "B"}
    assert row["ratios"] == {"cublas": 0.5, "grouped_mm": 2.0}
    assert answer("bench", "gemm-sm90", "--size", "512")["rows"][0]["notes"] == {}
    measured.clear()
    text = run("bench", "gemm-sm90", "--groups", "4", "--size", "512", "--group-rows", "drawn").stdout
    assert re.search(r"64x64 +2\.0 +4\.0 +1\.0 +0\.500 +2\.000", text)
    assert "drawn" in text and re.search(r" +90 +4 +B +7,000 +8", text)
    begins = dict(measured[0].given)
    assert begins["begin4"] == 512 and begins["begin1"] not in (0, 128)


def test_whole_problems_are_timed_by_their_arguments(measured: list[Timed], tmp_path: Path) -> None:
    file = tmp_path / "experts.json"
    file.write_text('[{"m": 96, "n": 64, "k": 72, "groups": 3}, {"m": 64, "n": 64, "k": 64}]')
    payload = answer("bench", "gemm-sm90", "--problems", str(file))
    assert [row["problem"] for row in payload["rows"]] == [
        "96 x 64 x 72 bf16 TN in 3 groups", "64 x 64 x 64 bf16 TN"
    ]  # fmt: skip
    assert [bool(row["notes"]) for row in payload["rows"]] == [True, False] and not payload["steps"]
    file.write_text('[{"m": 8, "n": 4}]')
    assert (
        answer("bench", "transpose", "--problems", str(file))["rows"][0]["problem"] == "8 x 4 f32, ld 4 -> 8"
    )


def test_the_choice_for_groups_is_predicted(tmp_path: Path) -> None:
    payload = answer("bench", "gemm-sm90", "--groups", "4", "--size", "1000", "--predict")
    (found,) = payload["predicted"]
    assert found["problem"] == "1000 x 1000 x 1000 bf16 TN in 4 groups" and found["steps"] == []
    family = FAMILIES["gemm-sm90"]
    config = family.choose(family.problem(1000, groups=4))
    across = -(-1000 // config.tile_n) * len(config.boxes(2))
    assert found["choice"]["way"] == family.way(config) and 5 < found["choice"]["notes"]["expected us"] < 50
    assert found["choice"]["notes"]["boxes by TMA"] == 4 * (250 // 64) * across
    assert found["choice"]["notes"]["boxes by threads"] == 4 * across
    assert "in 4 groups" in run("bench", "gemm-sm90", "--groups", "4", "--size", "512", "--predict").stdout
    file = tmp_path / "one.json"
    file.write_text('[{"m": 64, "n": 64, "k": 64}]')
    name, text = refusal("bench", "gemm-sm90", "--problems", str(file), "--predict")
    assert name == "UnsupportedError" and "has no groups" in text


@pytest.mark.deep
def test_machine_code_and_times_of_groups(tmp_path: Path) -> None:
    counted = answer(
        "inspect", "sass", "gemm-sm90", "--m", "512", "--n", "256", "--k", "128", "--groups", "4"
    )
    assert counted["problem"] == "512 x 256 x 128 bf16 TN in 4 groups" and counted["spill_bytes"] == 0
    store = ("--timing", "model", "--top", "1", "--store", str(tmp_path / "times.jsonl"))
    (row,) = answer("tune", "gemm-sm90", "--sizes", "256", "--groups", "4", *store)["rows"]
    assert row["problem"] == "256 x 256 x 256 bf16 TN in 4 groups"
    assert refusal("tune", "gemm-sm80", "--sizes", "256", "--groups", "4", *store)[0] == "UnsupportedError"
    file = tmp_path / "experts.json"
    file.write_text('[{"m": 96, "n": 64, "k": 72, "groups": 3}]')
    (row,) = answer("tune", "gemm-sm90", "--problems", str(file), *store)["rows"]
    assert row["problem"] == "96 x 64 x 72 bf16 TN in 3 groups"
    name, text = refusal("tune", "gemm-sm90", "--problems", str(file), "--groups", "3", *store)
    assert name == "UnsupportedError" and "of --problems each names its own" in text


@pytest.mark.parametrize("arch", ["RTX 3090", "sm_120"])
def test_what_can_be_compiled_for_is_known_everywhere(arch: str) -> None:
    """sm_86 could be compiled for, and nothing else could be asked of it."""
    generated = answer("generate", "transpose", "--m", "64", "--n", "64", "--arch", arch, "--compile", arch)
    assert [one["arch"] for one in generated["compiled"]] == [generated["arch"]]
    analysed = answer("analyze", "(32,32):(32,1)", "--access", "ld.shared.b32@col", "--arch", arch)
    assert analysed["arch"] == generated["arch"]


def test_the_conditions_of_a_row_stand_beside_it(measured: list[Timed]) -> None:
    words = ("bench", "gemm-simt", "--sizes", "64:192:64", "--energy", "--cold", "--launches", "later-half")
    payload = answer(*words)
    assert [timed.problem.m for timed in measured] == [64, 128, 192] and payload["steps"] == []
    assert payload["method"] == {"rule": "later half", "cold": True, "energy": True, "not_read": None}
    run_of = payload["rows"][0]["run"]
    assert (run_of["cold"], run_of["launches"]) == (True, 371)
    assert run_of["joules"] == {"ours": 2.0, "cublas": None}
    assert run_of["work_per_joule"] == {"ours": 2e9, "cublas": None}
    assert run_of["contenders"]["ours"] == {
        "readings": 2, "sm_mhz": {"least": 1755, "median": 1867.5, "most": 1980},
        "memory_mhz": {"least": 2619, "median": 2619, "most": 2619},
        "power_w": {"least": 412.3, "median": 550.15, "most": 688.0},
        "temperature_c": {"least": 54, "median": 57.5, "most": 61},
        "reasons": 5, "reason_names": ["idle", "power cap"], "held_back": 1,
    }  # fmt: skip
    text = run(*words).stdout
    assert re.search(r"1755-1980 +2619 +412-688 +54-61 +power cap \(1 of 2\) +cold", text)
    assert re.search(r"64 x 64 x 64 f32 TT +64x64 +2\.0 +-$", text, re.M) and "GFLOP/J" in text
    said = " ".join(text.split())
    assert "The SM clock moved between 1755 and 1980 MHz" in said and "Nothing here sets a clock." in said
    assert "Launches: 371 to 371 by size" in text and "is not cold" not in text


def test_what_was_not_read_is_said(measured: list[Timed]) -> None:
    text = " ".join(run("bench", "transpose", "--size", "64", "--cold").stdout.split())
    assert "The data of 3 rows is not cold: 64 sets of buffers are less than four L2s." in text
    assert "Clocks, power and temperature were not read: nothing to read by." in text
    assert answer("bench", "transpose", "--size", "64")["method"]["not_read"] == "nothing to read by"


@each(("words", "error", "part"), [
    ("gemm-simt --sizes 1024", "ParseError", "expected FIRST:LAST:STEP"),
    ("gemm-simt --sizes 0:8:1", "ParseError", "none of them 0"),
    ("gemm-simt --sizes 8:4:1", "ParseError", "the first no larger than the last"),
    ("gemm-simt --sizes 1:100001:1", "ResourceError", "sizes of a sweep"),
    ("gemm-simt --launches mean", "UnknownNameError", "accepted are rounds, later-half"),
    ("softmax --launches later-half", "UnsupportedError", "have it"),
    ("gemm-sm90 --groups 0", "ShapeError", "a positive integer"),
    ("gemm-sm90 --groups 4 --group-rows some", "UnknownNameError", "rows of groups"),
    ("gemm-sm90 --size 64 --group-rows drawn", "UnsupportedError", "has no groups, whose"),
    ("gemm-sm90 --problems x --size 64", "UnsupportedError", "--problems names whole"),
    ("gemm-sm75 --arch sm_75", "UnsupportedError", "--arch is of --predict"),
    ("reduce --dtype u8", "UnknownNameError", "element type"),
])  # fmt: skip
def test_what_cannot_be_timed_is_refused(measured: list[Timed], words: str, error: str, part: str) -> None:
    """With a GPU as well."""
    found, sentence = refusal("bench", *words.split())
    assert found == error and part in sentence
