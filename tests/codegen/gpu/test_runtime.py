"""What can be checked of launching without a GPU: arguments, grids, and the word on what is missing."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Iterable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg.codegen import gpu
from layoutalg.codegen.gpu.driver import attribute_launcher
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, dependent
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.layout import Layout
from tests.stand_ins.cuda_driver import FUNCTION, STREAM, Array, Driver


def test_without_a_driver_or_cupy_the_reason_names_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_library(*args: Any, **kwargs: Any) -> Any:
        raise OSError("libcuda.so.1: cannot open shared object file")

    monkeypatch.setattr(ctypes, "CDLL", no_library)
    assert not gpu.gpu_status().available
    for call in (gpu.require_gpu, lambda: gpu.load(pointers())):
        with pytest.raises(UnsupportedError, match="needs a GPU: no CUDA driver"):
            call()
    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    monkeypatch.setitem(sys.modules, "cupy", None)
    assert "pip install 'layoutalg[cuda13]'" in gpu.gpu_status().reason


def test_a_gpu_is_described_once(driver: Driver, monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []

    def properties(device: int) -> dict[str, Any]:
        asked.append(device)
        return {"name": b"a chip"}

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    monkeypatch.setattr(driver.cuda.runtime, "getDeviceProperties", properties, raising=False)
    monkeypatch.setattr(driver.cuda.runtime, "CUDARuntimeError", OSError, raising=False)
    monkeypatch.setattr(
        driver.cuda, "Device", lambda n: SimpleNamespace(compute_capability=("90", "86", "120")[n])
    )
    gpu.runtime._status_of.cache_clear()
    for driver.current, arch in ((0, "sm_90a"), (1, "sm_86"), (2, "sm_120a"), (1, "sm_86")):
        assert gpu.gpu_status() == GpuStatus(True, "a chip", arch)
    assert asked == [0, 1, 2]
    gpu.runtime._status_of.cache_clear()

    def broken(device: int) -> None:
        raise OSError("no device")

    monkeypatch.setattr(driver.cuda.runtime, "getDeviceProperties", broken)
    assert gpu.gpu_status().reason == "the CUDA driver reports no usable GPU: no device"


def pointers(*, shared: int = 0) -> Kernel:
    """A kernel of two pointers, with shared memory of so many words."""
    k = KernelBuilder("k", threads=64)
    k.pointer("src", 4)
    k.pointer("dst", 4, writable=True)
    k.block(0, 7)
    if shared:
        k.shared_buffer("tile", 4, Layout(shared), shared, 16)
    return k.build()


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Driver:
    """A driver in CuPy's place, which no thread has called yet."""
    cupy = Driver()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(gpu.runtime.here, "launch", None, raising=False)
    monkeypatch.setattr(gpu.runtime, "attribute_launcher", cupy.attribute_launcher)
    monkeypatch.setattr(gpu.runtime, "require_gpu", lambda: None)
    return cupy


def test_threads_that_launch_what_is_packed_once_keep_their_streams(
    driver: Driver, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A kernel that starts early: the stream stands in memory of the launch until the driver has read it."""
    seen, inside, second, here = list[int](), threading.Event(), threading.Event(), threading.local()

    def launch(config: Any, *_: Any) -> int:
        if not inside.is_set():
            inside.set()
            second.wait(0.2)  # the other thread launches meanwhile, if it may
        seen.append(config._obj.stream or 0)
        if here.stream == 2:
            second.set()
        return 0

    library = SimpleNamespace(cuLaunchKernelEx=launch)
    monkeypatch.setattr(gpu.runtime, "attribute_launcher", partial(attribute_launcher, library=library))
    monkeypatch.setattr(gpu.runtime, "current_stream", lambda: here.stream)
    early = replace(pointers(), awaited=("src",))
    assert early.dependent
    loaded = gpu.runtime.Loaded(early, prepared(early).cubin, "", SimpleNamespace(ptr=FUNCTION))
    call = loaded.launcher(src=Array(0x4000, (8,)), dst=Array(0x8000, (8,)))

    def work(stream: int) -> None:
        here.stream = stream
        call()

    threads = [threading.Thread(target=work, args=(stream,)) for stream in (1, 2)]
    threads[0].start()
    assert inside.wait(10)
    threads[1].start()
    for thread in threads:
        thread.join()
    assert sorted(seen) == [1, 2]


def prepared(kernel: Kernel) -> gpu.Prepared:
    return gpu.Prepared(kernel, "", gpu.Cubin(kernel.name, "sm_80", b"code of k", 1, 0, 0, 0, ""))


def launch_of(kernel: Kernel) -> gpu.Launch:
    """A kernel's launch, of a GPU that is the driver above."""
    return gpu.load_launch(gpu.launchable(prepared(kernel)))


def test_a_kernel_of_pointers_is_launched_by_addresses(driver: Driver) -> None:
    launch = launch_of(pointers())
    launch((4096, 1 << 40), None)
    launch((32, 16), 9)
    assert driver.loaded == [(b"code of k", "k")]
    shape = (7, 1, 1, 64, 1, 1, 0)
    assert driver.launched == [(shape, STREAM, [4096, 1 << 40]), (shape, 9, [32, 16])]
    with pytest.raises(AlignmentError, match="dst starts at 0x1008"):
        launch((4096, 4104), None)
    with pytest.raises(ValueError, match="argument 2 is shorter"):
        launch((4096,), None)
    assert len(driver.launched) == 2
    launch_of(pointers(shared=1 << 14))((16, 32), None)
    assert driver.dynamic_bytes == [1 << 16] and driver.launched[2][0] == (7, 1, 1, 64, 1, 1, 1 << 16)


def test_a_dependent_kernel_is_launched_early_and_a_refusal_is_told(driver: Driver) -> None:
    launch = launch_of(dependent(pointers(), ["src"], "sm_90"))
    launch((4096, 1 << 40), 9)
    assert driver.launched == [((7, 1, 1, 64, 1, 1, 0), 9, [4096, 1 << 40])] and driver.early == [0]
    driver.status = 801
    with pytest.raises(Driver.CUDADriverError, match="801"):
        launch((4096, 1 << 40), 9)


def test_threads_share_a_launch(driver: Driver) -> None:
    """Every launch gets the addresses it was called with, however threads take turns."""
    launch = launch_of(pointers())
    driver.meanwhile = lambda: time.sleep(0)
    wanted = [[(32 * n + thread) << 12, (32 * n + thread) << 20] for thread in range(4) for n in range(1, 60)]

    def work(thread: int) -> None:
        for pair in wanted[59 * thread : 59 * (thread + 1)]:
            launch(pair, None)

    threads = [threading.Thread(target=work, args=(thread,)) for thread in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(values for _, _, values in driver.launched) == sorted(wanted)


def run_all(threads: Iterable[threading.Thread]) -> None:
    """Start threads, and wait for all."""
    started = list(threads)
    for thread in started:
        thread.start()
    for thread in started:
        thread.join()


def test_a_launcher_keeps_its_arrays_alive(driver: Driver) -> None:
    array = Array(4096, (1,))
    alive = weakref.ref(array)
    launch = gpu.load_prepared(prepared(pointers())).launcher(src=array, dst=array)
    del array
    gc.collect()
    assert alive() is not None
    launch()
    assert [values for _, _, values in driver.launched] == [[4096, 4096]]
    del launch
    gc.collect()
    assert alive() is None


def test_integers_and_pointers_are_in_the_order_of_the_declaration(driver: Driver) -> None:
    """Integers are bound before a launch on addresses, and given beside arrays."""
    k = KernelBuilder("k", threads=32)
    n = k.param("n", 100)
    k.pointer("src", 4)
    ld = k.param("ld", 100)
    k.pointer("dst", 4)
    k.require(n <= ld)
    k.block(0, (n + 31) // 32)
    ready = prepared(k.build())
    driver.arguments = itertools.repeat(4)
    launch = gpu.load_launch(gpu.launchable(ready, {"ld": 70, "n": 65, "other": 3}))
    for first in (1 << 36, 1 << 37):
        launch([first, 1 << 38], STREAM)
    gpu.load_prepared(ready)(n=65, ld=70, src=Array(1 << 35, (1,)), dst=Array(1 << 38, (1,)))
    assert driver.launched == [
        ((3, 1, 1, 32, 1, 1, 0), STREAM, [65, 1 << log, 70, 1 << 38]) for log in (36, 37, 35)
    ]
    with pytest.raises(ArgumentTypeError, match="takes n, ld beside"):
        gpu.launchable(ready)
    with pytest.raises(ShapeError, match="n <= ld"):
        gpu.launchable(ready, {"n": 65, "ld": 64})


class Clock:
    """What `median_times_ms` asks of CuPy: events that record a clock, which launches move."""

    ms = 0.0

    def __init__(self) -> None:
        self.cuda = self
        self.get_elapsed_time = lambda start, stop: stop.at - start.at

    def Event(self) -> Any:
        made = SimpleNamespace(at=0.0, synchronize=lambda: None)
        made.record = lambda: setattr(made, "at", self.ms)
        return made


def test_slow_contenders_are_launched_less_often(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setitem(sys.modules, "cupy", clock)
    monkeypatch.setattr(gpu.runtime, "require_gpu", lambda: None)
    counts = {0.125: 0, 2.0: 0, 64.0: 0}

    def launch(ms: float) -> None:
        clock.ms += ms
        counts[ms] += 1

    contenders = [[lambda ms=ms: launch(ms)] for ms in counts]
    got = gpu.median_times_ms(contenders, rounds=3, inner=16, warmup=2, sample_ms=4.0)
    assert got == list(counts)
    assert list(counts.values()) == [2 + 3 * 16, 2 + 3 * 2, 2 + 3]
    assert gpu.median_times_ms(contenders, rounds=1, inner=4) == list(counts)
    assert list(counts.values()) == [50 + 2 + 4, 8 + 2 + 4, 5 + 2 + 4]
