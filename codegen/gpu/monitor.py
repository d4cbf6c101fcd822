"""The state of the GPU while something runs: clocks, power, temperature, and what holds its clocks back.

    with watching() as monitor:
        monitor.read()          Reading(sm_mhz=1980, memory_mhz=3201, power_w=412.5, temperature_c=54, ...)
        monitor.joules()        what the GPU has taken since its driver was loaded
    conditions(readings)        the least, the median and the most of each, and what held the clocks back

The idea.  A rate means something beside the clock that it was measured at.  NVML, which comes with the
driver, is read through its own binding: a call takes some microseconds, so that it can be made while the GPU
works on launches that are queued, and energy comes from a counter, where a query of power is an average over
up to a second.  (A child process of nvidia-smi takes longer to start than most samples do, and has neither.)

What cannot be read is None, and `Monitor.reason` says why where nothing can.  Nothing is ever set.

Source: NVIDIA, NVML API Reference Guide, Device Queries and "NvmlClocksEventReasons".
"""

from __future__ import annotations

import contextlib
import socket
import statistics
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from layoutalg.codegen.gpu.runtime import pci_bus_id
from layoutalg.optional import import_trouble

REASONS: Mapping[int, str] = MappingProxyType(
    {
        0x1: "idle", 0x2: "application clocks", 0x4: "power cap", 0x8: "hardware slowdown",
        0x10: "sync boost", 0x20: "thermal slowdown by software", 0x40: "thermal slowdown by hardware",
        0x80: "power brake", 0x100: "display clocks",
    }
)  # fmt: skip
"""Why clocks are not higher, by bit of NVML's mask; 0 where nothing holds them back."""

HARMLESS = 0x1
"""Idle: the reason of a GPU that nothing held back."""


class Reading(NamedTuple):
    """A look at the GPU: megahertz, watts, degrees Celsius and NVML's mask; None where it cannot be read.

    >>> Reading(sm_mhz=1980).power_w is None
    True
    """

    sm_mhz: int | None = None
    memory_mhz: int | None = None
    power_w: float | None = None
    temperature_c: int | None = None
    reasons: int | None = None


class Span(NamedTuple):
    """The least, the median and the most of what was read.

    >>> Span(1755, 1980, 1980).median
    1980
    """

    least: float
    median: float
    most: float


@dataclass(frozen=True, slots=True)
class Conditions:
    """The summary of several readings; None where none of them could be made.

    `reasons` are all bits that were ever set, and `held_back` is how many of `readings` had one beside idle.
    """

    readings: int = 0
    sm_mhz: Span | None = None
    memory_mhz: Span | None = None
    power_w: Span | None = None
    temperature_c: Span | None = None
    reasons: int | None = None
    held_back: int = 0

    @property
    def names(self) -> tuple[str, ...]:
        """The reasons in words; a bit without a name is its number.

        >>> Conditions(1, reasons=0x204).names, Conditions(1, reasons=0).names
        (('power cap', '0x200'), ())
        """
        return reason_names(self.reasons or 0)


def reason_names(mask: int) -> tuple[str, ...]:
    """The meanings of the bits of a mask of reasons.

    >>> reason_names(0x0), reason_names(0x1), reason_names(0x24)
    ((), ('idle',), ('power cap', 'thermal slowdown by software'))
    """
    bits = [1 << n for n in range(mask.bit_length()) if mask >> n & 1]
    return tuple(REASONS.get(bit, hex(bit)) for bit in bits)


def conditions(readings: Iterable[Reading]) -> Conditions:
    """The least, the median and the most of each number that was read.

    >>> found = conditions([Reading(1980, 2619, 400.0, 50, 0), Reading(1755, None, 700.0, 61, 0x4)])
    >>> found.sm_mhz, found.memory_mhz, found.names, found.held_back
    (Span(least=1755, median=1867.5, most=1980), Span(least=2619, median=2619, most=2619), ('power cap',), 1)
    """
    seen = list(readings)

    def span(name: str) -> Span | None:
        known = [value for reading in seen if (value := getattr(reading, name)) is not None]
        return Span(min(known), statistics.median(known), max(known)) if known else None

    masks = [reading.reasons for reading in seen if reading.reasons is not None]
    ever = None
    for mask in masks:
        ever = (ever or 0) | mask
    held = sum(1 for mask in masks if mask & ~HARMLESS)
    return Conditions(
        len(seen), span("sm_mhz"), span("memory_mhz"), span("power_w"), span("temperature_c"), ever, held
    )


@dataclass(frozen=True, slots=True)
class Monitor:
    """A GPU that can be queried, or the `reason` why it cannot; then every answer is None.

    >>> Monitor(reason="no driver").read(), Monitor(reason="no driver").joules()
    (Reading(sm_mhz=None, memory_mhz=None, power_w=None, temperature_c=None, reasons=None), None)
    """

    nvml: Any = None
    device: Any = None
    reason: str = ""

    def read(self) -> Reading:
        """Read the state of the GPU."""
        if self.nvml is None:
            return Reading()
        nvml, device = self.nvml, self.device
        milliwatts = self._ask(lambda: nvml.nvmlDeviceGetPowerUsage(device))
        return Reading(
            self._ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_SM)),
            self._ask(lambda: nvml.nvmlDeviceGetClockInfo(device, nvml.NVML_CLOCK_MEM)),
            None if milliwatts is None else milliwatts / 1e3,
            self._ask(lambda: nvml.nvmlDeviceGetTemperature(device, nvml.NVML_TEMPERATURE_GPU)),
            self._ask(lambda: nvml.nvmlDeviceGetCurrentClocksEventReasons(device)),
        )

    def joules(self) -> float | None:
        """The energy that the GPU has taken since its driver was loaded."""
        if self.nvml is None:
            return None
        millijoules = self._ask(lambda: self.nvml.nvmlDeviceGetTotalEnergyConsumption(self.device))
        return None if millijoules is None else millijoules / 1e3

    def _ask(self, question: Callable[[], int]) -> int | None:
        try:
            return int(question())
        except self.nvml.NVMLError:
            return None


@contextlib.contextmanager
def _nvml() -> Iterator[tuple[Any, str]]:
    """NVML's binding, while it lasts; where it cannot be queried, None and the reason."""
    if trouble := import_trouble("pynvml", "pip install 'layoutalg[monitor]' brings it, as nvidia-ml-py"):
        yield None, trouble
        return
    import pynvml

    try:
        pynvml.nvmlInit()
    except pynvml.NVMLError as error:
        yield None, f"NVML: {error}"
        return
    try:
        yield pynvml, ""
    finally:
        pynvml.nvmlShutdown()


@contextlib.contextmanager
def watching() -> Iterator[Monitor]:
    """The monitor of the current GPU, while it lasts; where NVML cannot be queried, one that says why.

    Raises UnsupportedError without a GPU.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     with watching() as monitor:
    ...         assert monitor.reason or monitor.read().sm_mhz
    """
    bus = pci_bus_id()
    with _nvml() as (nvml, reason):
        monitor = Monitor(reason=reason)
        if nvml is not None:
            try:
                monitor = Monitor(nvml, nvml.nvmlDeviceGetHandleByPciBusId(bus))
            except nvml.NVMLError as error:
                monitor = Monitor(reason=f"NVML, of the GPU at {bus}: {error}")
        yield monitor


def display_driver() -> str:
    """The version of the display driver, such as 580.95.05; empty where NVML cannot be queried.

    >>> display_driver().count(".") <= 3
    True
    """
    with _nvml() as (nvml, _):
        if nvml is not None:
            with contextlib.suppress(nvml.NVMLError):
                return str(nvml.nvmlSystemGetDriverVersion())
    return ""


def board_name() -> str:
    """The current GPU's UUID as nvidia-smi prints it, or where NVML cannot be asked its host and PCI address.

    Raises UnsupportedError without a GPU.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> found = board_name() if gpu_status().available else ""
    """
    with watching() as monitor:
        if monitor.nvml is not None:
            with contextlib.suppress(monitor.nvml.NVMLError):
                return str(monitor.nvml.nvmlDeviceGetUUID(monitor.device))
    return f"{socket.gethostname()} {pci_bus_id()}"
