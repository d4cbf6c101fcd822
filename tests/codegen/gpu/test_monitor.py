"""Clocks, power and temperature: what NVML answers, what it cannot, and what is said then."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any

import pytest

from layoutalg.codegen.gpu import Monitor, Reading, Span, conditions, monitor, watching
from layoutalg.codegen.gpu.monitor import REASONS, reason_names
from tests.sweeps import each


class Refused(Exception):
    """What NVML raises."""


def nvml(**answers: Any) -> Any:
    """A library with these answers; a question without one is not supported."""
    made: Any = ModuleType("pynvml")
    made.NVMLError, made.NVML_CLOCK_SM, made.NVML_CLOCK_MEM, made.NVML_TEMPERATURE_GPU = Refused, 1, 2, 0
    made.ended = 0

    def asked(name: str, *args: Any) -> Any:
        value = answers.get(name, Refused("Not Supported"))
        if isinstance(value, Exception):
            raise value
        return value(*args) if callable(value) else value

    for name in ANSWERS:
        setattr(made, name, partial(asked, name))
    made.nvmlShutdown = lambda: setattr(made, "ended", made.ended + 1)
    return made


@pytest.fixture
def plugged(monkeypatch: pytest.MonkeyPatch) -> Any:
    """A GPU at a place, and a library."""

    def put(library: Any) -> Any:
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


def test_a_gpu_is_read_and_let_go_also_where_what_runs_inside_fails(plugged: Any) -> None:
    library = plugged(nvml(**ANSWERS))
    with pytest.raises(ZeroDivisionError), watching() as found:
        assert found.device == "the GPU at 0000:17:00.0" and not found.reason
        assert found.read() == Reading(1980, 2619, 412.345, 54, 4)
        assert found.joules() == 7.25 and library.ended == 0
        raise ZeroDivisionError
    assert library.ended == 1


@each("missing", [name for name in ANSWERS if "DeviceGet" in name and "Handle" not in name])
def test_what_a_gpu_does_not_say_is_none(plugged: Any, missing: str) -> None:
    plugged(nvml(**{name: value for name, value in ANSWERS.items() if name != missing}))
    with watching() as found:
        seen = [*found.read(), found.joules()]
    assert seen.count(None) == (2 if missing.endswith("ClockInfo") else 1)


@each(
    ("changed", "said", "ended"),
    [
        ({"nvmlInit": Refused("Driver Not Loaded")}, "NVML: Driver Not Loaded", 0),
        ({"nvmlDeviceGetHandleByPciBusId": Refused("Not Found")}, "of the GPU at 0000:17:00.0: Not Found", 1),
    ],
)
def test_without_a_driver_a_place_or_the_library_the_reason_is_said(
    plugged: Any, changed: dict[str, Any], said: str, ended: int
) -> None:
    library = plugged(nvml(**ANSWERS | changed))
    with watching() as found:
        assert said in found.reason and found.read() == Reading() and found.joules() is None
    assert library.ended == ended
    plugged(None)
    with watching() as found:
        assert "layoutalg[monitor]" in found.reason


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
