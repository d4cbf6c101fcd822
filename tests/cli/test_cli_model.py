"""`layoutalg inspect occupancy`, `roofline`, `l2`, `registers` and `chart`: the models as commands."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from layoutalg.arch import T4_ACHIEVED
from layoutalg.model import l2_locality, occupancy_of
from tests.command import answer, refusal, run

T4 = ("inspect", "roofline", "--arch", "T4", "--rates", "achieved")
ON_T4 = ("inspect", "occupancy", "--threads", "256", "--shared", "49152", "--arch", "T4", "--registers")
MMA, IMMA = "SM80_16x8x16_F32F16F16F32_TN", "SM80_16x8x32_S32S8S8S32_TN"


def test_the_occupancy_of_counts() -> None:
    payload = answer(*ON_T4, "104")
    report = occupancy_of("sm_75", threads=256, registers_per_thread=104, shared_bytes=49152)
    assert (payload["arch"], payload["blocks_per_sm"], payload["limiting"]) == ("sm_75", 1, ["shared"])
    assert [x["blocks"] for x in payload["limits"]] == [x.blocks for x in report.limits]
    text = run(*ON_T4, "166").stdout
    assert "1 block, 8 of 32 warps (25%); limited by registers and shared." in text


def test_the_occupancy_of_a_kernel_has_its_registers_from_the_compiler() -> None:
    payload = answer("inspect", "occupancy", "transpose", "--m", "64", "--n", "64", "--arch", "RTX 3090")
    assert payload["kernel"].startswith("transpose") and payload["registers"] > 8
    assert (payload["arch"], payload["max_warps_per_sm"]) == ("sm_86", 48)


def test_the_rooflines_of_the_published_tiles() -> None:
    payload = answer(*T4, "--tile", "256x128", "--tile", "256x256", "--order", "col", "--size", "8192")
    first, second = payload["tiles"]
    assert payload["source"] == T4_ACHIEVED.source and payload["peak_flops_per_s"] == 49.4e12
    assert [int(b["balance"]) for b in first["bounds"]] == [224, 38, 13]
    assert (first["limiting"], second["limiting"]) == ("dram", "tensor")
    reuse = l2_locality((32, 64), in_flight=40, order="col", tile=(256, 128)).reuse
    assert first["bounds"][0]["intensity"] == pytest.approx(256 * 128 / 384 * reuse)
    assert answer(*T4)["tiles"][0]["bounds"][0]["intensity"] == 64.0


def test_a_locked_clock_lowers_the_roof_and_not_the_memory() -> None:
    words = ("inspect", "roofline", "--arch", "RTX 3090", "--unit", "f32", "--dtype", "f32")
    free, locked = answer(*words), answer(*words, "--clock", "1395")
    assert locked["peak_flops_per_s"] == pytest.approx(free["peak_flops_per_s"] * 1395 / 1695)
    assert {x["tiles"][0]["bounds"][0]["bytes_per_s"] for x in (free, locked)} == {936e9}
    assert locked["tiles"][0]["unknown"] == ["l2", "shared", "registers"]
    assert "No rate is known of l2, shared, registers" in run(*words).stdout


def test_the_picture_of_a_roofline_is_written(tmp_path: Path) -> None:
    path = tmp_path / "roof.svg"
    text = "".join(run(*T4, "--tile", "256x128", "-o", str(path)).stdout.splitlines())
    assert text.endswith(path.name) and path.read_text(encoding="utf-8").startswith("<svg")


def test_the_orders_of_blocks() -> None:
    payload = answer("inspect", "l2", "32x64", "--in-flight", "40", "--tile", "256x128")
    assert [one["order"] for one in payload["orders"]] == ["col", "row", "5"] and payload["best_band"] == 5
    assert [round(one["hit_rate"], 2) for one in payload["orders"]] == [0.45, 0.64, 0.85]
    bands = answer("inspect", "l2", "4x8", "--in-flight", "4", "--order", "2", "--order", "(2,8,2):(1,4,2)")[
        "orders"
    ]
    assert bands[0]["a_panels"] == bands[1]["a_panels"] and bands[0]["b_panels"] == bands[1]["b_panels"]


def test_reductions_over_registers() -> None:
    payload = answer("inspect", "registers", f"{MMA}:C")
    rows, columns = payload["reductions"]
    assert (rows["shuffles"], rows["lane_distances"]) == (4, [1, 2])
    assert (columns["shuffles"], columns["lane_distances"]) == (6, [4, 8, 16])
    own = answer("inspect", "registers", payload["layout"], "--shape", "16x8", "--along", "n")
    assert own["reductions"] == [rows]
    wide = answer("inspect", "registers", f"{MMA}:C", "--shape", "16x32")
    assert wide["registers"] == 16 and wide["reductions"][0]["shuffles"] == 4
    wgmma = answer("inspect", "registers", "SM90_64x64x16_F32F16F16_SS:C", "--along", "m")["reductions"][0]
    assert wgmma["barriers"] == 1 and wgmma["wavefronts"] > 0


def test_conversions_of_registers() -> None:
    halves = answer(
        "inspect", "registers", f"{MMA}:C", "--to", f"{MMA}:A", "--shape", "16x16", "--dtype", "f16"
    )
    assert halves["plans"][0]["kind"] == "rename"
    found = answer(
        "inspect", "registers", f"{MMA}:C", "--to", f"{IMMA}:A", "--shape", "16x32", "--dtype", "u8"
    )
    assert [plan["kind"] for plan in found["plans"]] == ["shuffle", "shared"]
    assert found["plans"][0]["shuffles"] == 4


# --- charts of a bench ---------------------------------------------------------------------------------


def bench(path: Path, **changed: Any) -> Path:
    """The JSON of a bench of two sizes, whose clocks were read."""
    span = {"least": 1700, "median": 1900.0, "most": 1980}
    seen = {"readings": 3, "sm_mhz": span, "memory_mhz": span, "power_w": None, "temperature_c": span,
            "reasons": 0, "reason_names": [], "held_back": 0}  # fmt: skip

    def row(n: int) -> dict[str, Any]:
        run = {"cold": True, "launches": 371, "contenders": {"ours": seen, "cublas": seen},
               "joules": {"ours": 1.0}, "work_per_joule": {"ours": 5e10, "cublas": None}}  # fmt: skip
        return {"problem": f"{n} x {n} x {n} f32 TT", "way": "w", "registers": 90, "unit": "TFLOP/s",
                "rates": {"ours": 50.0, "cublas": 40.0}, "ratios": {"cublas": 1.25}, "run": run}  # fmt: skip

    payload = {
        "schema": "layoutalg/output/1", "command": "bench", "family": "gemm-simt", "device": "Some GPU",
        "arch": "sm_90a", "date": "2026-11-23", "steps": [], "rows": [row(2048), row(1024)],
        "method": {"rule": "later half", "cold": True, "energy": True, "not_read": None},
    } | changed  # fmt: skip
    path.write_text(json.dumps(payload), encoding="utf-8")
    return path


def test_a_bench_is_drawn(tmp_path: Path) -> None:
    path = str(bench(tmp_path / "one.json"))
    payload = answer("inspect", "chart", path)
    assert payload["series"] == [
        {"name": "gemm-simt", "points": [[1024.0, 50.0], [2048.0, 50.0]]},
        {"name": "cuBLAS", "points": [[1024.0, 40.0], [2048.0, 40.0]]},
    ]
    assert payload["content"].startswith("<svg") and "the later half, data cold" in payload["content"]
    assert [one["name"] for one in answer("inspect", "chart", path, "--of", "ratio")["series"]] == [
        "gemm-simt"
    ]
    assert answer("inspect", "chart", path, "--of", "efficiency")["series"][0]["points"][0] == [1024.0, 50.0]
    assert answer("inspect", "chart", path, "--of", "clock")["series"][1]["points"][0] == [1024.0, 1900.0]
    out = tmp_path / "one.svg"
    assert run("inspect", "chart", path, "-o", str(out)).stdout == f"wrote {out} (rate, 4 points)\n"
    assert out.read_text(encoding="utf-8") == run("inspect", "chart", path).stdout
    both = answer("inspect", "chart", path, str(bench(tmp_path / "two.json", family="gemm-sm80")))["series"]
    assert [one["name"] for one in both] == [
        "gemm-simt", "cuBLAS, gemm-simt", "gemm-sm80", "cuBLAS, gemm-sm80"
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "part"),
    [
        ("{", "not JSON that can be read"),
        ("[]", "is not what layoutalg bench --json prints"),
        ('{"command": "bench", "method": {}, "rows": [{"problem": "softmax"}]}', "is not what"),
        ("[" * 100_000, "not JSON that can be read"),
    ],
    ids=("cut", "list", "softmax", "deep"),
)
def test_another_file_is_refused(tmp_path: Path, text: str, part: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(text, encoding="utf-8")
    error, sentence = refusal("inspect", "chart", str(path))
    assert error == "ParseError" and part in sentence


def test_numbers_that_are_not_there_are_refused(tmp_path: Path) -> None:
    method = {"rule": "rounds", "cold": False, "energy": False, "not_read": "NVML: Driver Not Loaded"}
    path = str(bench(tmp_path / "one.json", method=method))
    error, sentence = refusal("inspect", "chart", path, "--of", "power")
    assert error == "UnsupportedError" and sentence.endswith("has a number of W: NVML: Driver Not Loaded")
    assert refusal("inspect", "chart", path, "--of", "speed")[0] == "UnknownNameError"


def test_a_roofline_with_a_ladder_and_what_was_measured(tmp_path: Path) -> None:
    out, found = tmp_path / "roof.svg", str(bench(tmp_path / "one.json"))
    board = ("--arch", "H100-SXM5", "--dtype", "f16")
    words = ("inspect", "roofline", *board, "--ladder", "gemm-sm80", "--measured", found)
    assert run(*words, "-o", str(out)).exit_code == 0
    drawn = out.read_text(encoding="utf-8")
    assert "128x256: 8" in drawn and "gemm-simt, measured" in drawn and "cuBLAS, measured" in drawn
    assert "name a file with -o FILE.svg" in refusal(*words)[1]
    assert (
        "has no ladder of products"
        in refusal("inspect", "roofline", "--ladder", "softmax", "-o", str(out))[1]
    )
