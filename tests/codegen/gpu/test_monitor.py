"""Clocks, power and temperature: what NVML answers, what it cannot, and what is said then."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from layoutalg.codegen.gpu import REASONS, Monitor, Reading, Span, conditions, monitor, reason_names, watching


class Refused(Exception):
    """What NVML raises."""


def nvml(**answers: Any) -> ModuleType:
    """A library with these answers; a question without one is not supported."""
    made: Any = ModuleType("pynvml")
    made.NVMLError, made.NVML_CLOCK_SM, made.NVML_CLOCK_MEM, made.NVML_TEMPERATURE_GPU = Refused, 1, 2, 0
    made.ended = 0

    def answer(name: str) -> Any:
        def asked(*args: Any) -> Any:
            value = answers.get(name, Refused("Not Supported"))
            if isinstance(value, Exception):
                raise value
            return value(*args) if callable(value) else value

        return asked

    for name in ("nvmlInit", "nvmlDeviceGetHandleByPciBusId", "nvmlDeviceGetClockInfo",
                 "nvmlDeviceGetPowerUsage", "nvmlDeviceGetTemperature", "nvmlDeviceGetTotalEnergyConsumption",
                 "nvmlDeviceGetCurrentClocksEventReasons"):  # fmt: skip
        setattr(made, name, answer(name))

    def end() -> None:
        made.ended += 1

    made.nvmlShutdown = end
    return made  # type: ignore[no-any-return]


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU at a place, and a library."""

    def put(library: ModuleType) -> Any:
        monkeypatch.setattr(monitor, "pci_bus_id", lambda: "0000:17:00.0")
        monkeypatch.setitem(sys.modules, "pynvml", library)
        return library

    return put


ANSWERS: dict[str, Any] = {
    "nvmlInit": None, "nvmlDeviceGetHandleByPciBusId": lambda bus: f"the GPU at {bus}",
    "nvmlDeviceGetClockInfo": lambda device, clock: {1: 1980, 2: 2619}[clock],
    "nvmlDeviceGetPowerUsage": 412_345, "nvmlDeviceGetTemperature": lambda device, sensor: 54,
    "nvmlDeviceGetTotalEnergyConsumption": 7_250, "nvmlDeviceGetCurrentClocksEventReasons": 0x4,
}  # fmt: skip


def test_a_gpu_is_read_and_let_go(plugged: Any) -> None:
    library = plugged(nvml(**ANSWERS))
    with watching() as found:
        assert found.device == "the GPU at 0000:17:00.0" and not found.reason
        assert found.read() == Reading(1980, 2619, 412.345, 54, 4)
        assert found.joules() == 7.25
        assert library.ended == 0
    assert library.ended == 1


@pytest.mark.parametrize(
    "missing", [name for name in ANSWERS if "DeviceGet" in name and "Handle" not in name]
)
def test_what_a_gpu_does_not_say_is_none(plugged: Any, missing: str) -> None:
    plugged(nvml(**{name: value for name, value in ANSWERS.items() if name != missing}))
    with watching() as found:
        seen = [*found.read(), found.joules()]
    assert seen.count(None) == (2 if missing.endswith("ClockInfo") else 1)


@pytest.mark.parametrize(
    ("changed", "said", "ended"),
    [
        ({"nvmlInit": Refused("Driver Not Loaded")}, "NVML: Driver Not Loaded", 0),
        ({"nvmlDeviceGetHandleByPciBusId": Refused("Not Found")}, "of the GPU at 0000:17:00.0: Not Found", 1),
    ],
)
def test_without_a_driver_or_a_place_the_reason_is_said(
    plugged: Any, changed: dict[str, Any], said: str, ended: int
) -> None:
    library = plugged(nvml(**ANSWERS | changed))
    with watching() as found:
        assert said in found.reason and found.read() == Reading() and found.joules() is None
    assert library.ended == ended


def test_without_the_library_the_reason_is_said(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "pynvml", None)
    with watching() as found:
        assert "pip install 'layoutalg[monitor]' brings it" in found.reason


def test_it_is_let_go_where_what_runs_inside_fails(plugged: Any) -> None:
    library = plugged(nvml(**ANSWERS))
    with pytest.raises(ZeroDivisionError), watching():
        raise ZeroDivisionError
    assert library.ended == 1


def test_every_bit_has_a_name_and_others_are_numbers() -> None:
    assert [reason_names(bit) for bit in REASONS] == [(name,) for name in REASONS.values()]
    assert reason_names(0x200) == ("0x200",) and reason_names(sum(REASONS)) == tuple(REASONS.values())


def test_readings_are_spans_of_what_was_read() -> None:
    found = conditions([Reading(), Reading(1500, None, 2.5, 40, 1), Reading(1900, None, 3.5, 50, 0x44)])
    assert found.sm_mhz == Span(1500, 1700, 1900) and found.memory_mhz is None
    assert found.power_w == Span(2.5, 3.0, 3.5) and found.readings == 3
    assert (found.reasons, found.held_back) == (0x45, 1)
    assert conditions([]) == conditions(iter(())) and conditions([]).reasons is None
    assert Monitor(reason="none").read() == Reading()
