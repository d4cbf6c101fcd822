"""The numbers of a board from launches of a GPU that stands in: fitted, written, read and chosen by."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.errors import MismatchError
from layoutalg.kernels.model import machine_of, read_machine
from layoutalg.kernels.registry import FAMILIES
from layoutalg.kernels.tuning import board
from tests.command import answer, refusal

THERE = replace(
    machine_of("sm_90"), board="H100-PCIe", sms=114, launch_us=3.5, bytes_per_us=1.7e6, load_us=0.9
)
"""The times that the GPU that stands in takes."""

FACTS = {
    "MultiProcessorCount": 114, "L2CacheSize": 50 << 20, "ClockRate": 1755000, "MemoryClockRate": 1593000,
    "GlobalMemoryBusWidth": 5120,
}  # fmt: skip


@pytest.fixture
def gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    def timed(cases: Any, codes: Any, until: float) -> Iterator[tuple[board.Case, float]]:
        for case, _ in zip(cases, codes, strict=True):
            clock = FAMILIES[case.family].clock_of(case.problem, case.config, "sm_90")
            yield case, clock(THERE).us

    status = GpuStatus(True, "NVIDIA H100 PCIe", "sm_90a")
    monkeypatch.setattr(board.device, "require_gpu", lambda: status)
    monkeypatch.setattr(board.device, "board_facts", lambda: FACTS)
    monkeypatch.setattr(board.device, "in_processes", lambda function, items: [None] * len(items))
    monkeypatch.setattr(board, "timed", timed)
    monkeypatch.setattr(board, "LAUNCHES", 30)


@pytest.mark.deep
@pytest.mark.usefixtures("gpu")
def test_the_numbers_of_a_board_are_found_from_its_launches(tmp_path: Path) -> None:
    found, times = board.measured(launches=60)
    assert found.board == "H100-PCIe" and found.is_measured and found.sms == 114
    for name in ("launch_us", "bytes_per_us", "load_us"):
        assert getattr(found, name) == pytest.approx(getattr(THERE, name), rel=0.05)
    assert board.errors_of(times)["all"][2] < 0.02


@pytest.mark.usefixtures("gpu")
def test_a_board_starts_from_what_the_driver_says(monkeypatch: pytest.MonkeyPatch) -> None:
    m = board.described()
    assert (m.board, m.arch, m.sms, m.l2_bytes) == ("H100-PCIe", "sm_90", 114, 50 << 20)
    assert m.bytes_per_us == pytest.approx(machine_of("H100-PCIe").bytes_per_us, rel=0.01)
    with pytest.raises(MismatchError, match="0 of 4 launches were timed"):
        monkeypatch.setattr(board, "timed", lambda *asked: iter(()))
        board.measured(launches=4)


def test_the_command_writes_a_file_that_is_read_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    case = next(board.drawn(3, "sm_90"))
    found = replace(THERE, source="measured here"), [board.Timed(case, 10.0, 10.5)]
    monkeypatch.setattr(board, "measured", lambda: found)
    path = tmp_path / "mine.json"
    told = answer("tune", "board", "-o", str(path))
    assert (told["action"], told["records"], told["numbers"]["median_error"]) == ("board", 1, 0.05)
    assert read_machine(path, "H100-PCIe").bytes_per_us == THERE.bytes_per_us
    monkeypatch.setenv("LAYOUTALG_BOARD", str(path))
    machine_of.cache_clear()
    assert machine_of("sm_90").sms == 114 and machine_of("sm_80").sms == 108
    machine_of.cache_clear()
    path.write_text(json.dumps(json.loads(path.read_text()) | {"load_us": -1}))
    assert refusal("tune", "board", "more")[0] == "UnsupportedError"


@pytest.mark.deep
def test_what_is_drawn_is_of_all_families_that_a_file_suffices_for() -> None:
    cases = board.drawn(5, "sm_90")
    assert {next(cases).family for _ in range(120)} == {n for n, f in FAMILIES.items() if not f.board}
