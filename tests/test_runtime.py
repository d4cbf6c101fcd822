"""What can be checked of launching without a GPU: arguments, grids, and the word on what is missing."""

from __future__ import annotations

import ctypes
import gc
import sys
import weakref
from typing import Any

import pytest

from layoutalg.codegen import runtime
from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.nvrtc import Cubin
from layoutalg.codegen.runtime import (
    Loaded,
    check_argument,
    gpu_status,
    launch_grid,
    load,
    median_times_ms,
    require_gpu,
)
from layoutalg.codegen.tile import Kernel
from layoutalg.errors import AlignmentError, ArgumentTypeError, ResourceError, ShapeError, UnsupportedError


def kernel() -> Kernel:
    k = KernelBuilder("k", threads=32)
    n = k.param("n", 1 << 40)
    k.block(0, (n + 31) // 32)
    k.block(1, n)
    return k.build()


def test_arguments_are_held_to_their_declaration() -> None:
    ld = KernelBuilder("k", threads=32).param("ld", 4096, 8, multiple=8)
    check_argument(ld, 8)
    check_argument(ld, 4096)
    for bad in (0, 4, 4104, 12, -8):
        with pytest.raises(ShapeError, match=rf"ld = {bad}: this kernel was built for 8 <= ld <= 4096, mult"):
            check_argument(ld, bad)
    for wrong in (8.0, "8", True, None):
        with pytest.raises(ArgumentTypeError, match="an int is needed"):
            check_argument(ld, wrong)


def test_the_grid_follows_the_parameters() -> None:
    assert launch_grid(kernel(), {"n": 33}) == (2, 33, 1)


def test_a_grid_past_the_limits_is_refused() -> None:
    with pytest.raises(ResourceError, match="blocks along y of k: 65536 asked, the limit is 65535"):
        launch_grid(kernel(), {"n": 65536})


def test_without_a_driver_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*args: Any, **kwargs: Any) -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    status = gpu_status()
    assert not status.available
    assert "no CUDA driver" in status.reason
    with pytest.raises(UnsupportedError, match="running a kernel needs a GPU: no CUDA driver"):
        require_gpu()
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        load(kernel())


def test_without_cupy_the_reason_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    monkeypatch.setattr(runtime, "find_spec", lambda name: None)
    assert "pip install 'layoutalg[cuda13]'" in gpu_status().reason


def pointers() -> Kernel:
    k = KernelBuilder("k", threads=64)
    k.pointer("src", 4)
    k.pointer("dst", 4, writable=True)
    k.block(0, 7)
    return k.build()


def loaded(kernel: Kernel, launched: list[Any]) -> Loaded:
    """A kernel whose launches are written down."""

    def function(*args: Any, **options: Any) -> None:
        launched.append((*args, options))

    return Loaded(kernel, Cubin("k", "sm_80", b"", 1, 0, 0, 0, ""), "", function)


def test_a_kernel_of_pointers_is_launched_by_addresses() -> None:
    launched: list[Any] = []
    launch = loaded(pointers(), launched).of_addresses()
    launch(4096, 1 << 40)
    assert launched == [((7, 1, 1), (64, 1, 1), (4096, 1 << 40), {"shared_mem": 0})]
    assert all(value.dtype == "uint64" for value in launched[0][2])
    with pytest.raises(AlignmentError, match="dst starts at 0x1008: this kernel was built for 16-byte align"):
        launch(4096, 4104)
    with pytest.raises(ValueError, match="argument"):
        launch(4096)
    assert len(launched) == 1


def test_a_launcher_keeps_its_arrays_alive() -> None:
    class Array:
        @property
        def __cuda_array_interface__(self) -> dict[str, Any]:
            return {"data": (4096, False), "typestr": "<u4", "shape": (1,), "version": 3}

    array = Array()
    launched: list[Any] = []
    alive = weakref.ref(array)
    launch = loaded(pointers(), launched).launcher(src=array, dst=array)
    del array
    gc.collect()
    assert alive() is not None
    launch()
    assert len(launched) == 1
    del launch
    gc.collect()
    assert alive() is None


def test_a_kernel_with_more_than_pointers_is_launched_by_names() -> None:
    with pytest.raises(ArgumentTypeError, match="k takes more than pointers: launch it by names"):
        loaded(kernel(), []).of_addresses()


class Clock:
    """What `median_times_ms` asks of CuPy, with a clock that launches move."""

    def __init__(self) -> None:
        self.ms = 0.0
        self.cuda = self
        self.Event = lambda: Event(self)

    def get_elapsed_time(self, start: Event, stop: Event) -> float:
        return stop.at - start.at


class Event:
    def __init__(self, clock: Clock) -> None:
        self.clock, self.at = clock, 0.0

    def record(self) -> None:
        self.at = self.clock.ms

    def synchronize(self) -> None:
        pass


def test_slow_contenders_are_launched_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setitem(sys.modules, "cupy", clock)
    monkeypatch.setattr(runtime, "require_gpu", lambda: None)
    counts = {0.125: 0, 2.0: 0, 64.0: 0}

    def launch(ms: float) -> None:
        clock.ms += ms
        counts[ms] += 1

    contenders = [[lambda ms=ms: launch(ms)] for ms in counts]
    got = median_times_ms(contenders, rounds=3, inner=16, warmup=2, sample_ms=4.0)
    assert got == list(counts)
    assert list(counts.values()) == [2 + 3 * 16, 2 + 3 * 2, 2 + 3]
    assert median_times_ms(contenders, rounds=1, inner=4) == list(counts)
    assert list(counts.values()) == [50 + 2 + 4, 8 + 2 + 4, 5 + 2 + 4]
