"""Launches without a GPU: arguments, tensor maps, clusters and grids, and the word on what is missing."""

from __future__ import annotations

import ctypes
import gc
import itertools
import sys
import threading
import time
import weakref
from collections.abc import Callable, Iterable
from dataclasses import replace
from functools import partial
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg.arch import TensorMap
from layoutalg.codegen import gpu
from layoutalg.codegen.expr import as_expr
from layoutalg.codegen.gpu import driver as driver_calls
from layoutalg.codegen.gpu.driver import active_clusters, attribute_launcher, largest_cluster
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, TensorMapParam, contract, dependent
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ArgumentTypeError, ResourceError, ShapeError, UnsupportedError
from layoutalg.layout import Layout
from layoutalg.testing import compile_shared
from tests.codegen.gpu.test_tensor_maps import include_folder
from tests.stand_ins.cuda_driver import FUNCTION, STREAM, Array, Driver
from tests.tiles.boxes import Boxes, copy_program


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
        if device > 2:
            raise OSError("no device")
        asked.append(device)
        return {"name": b"a chip"}

    def device(number: int) -> Any:
        return SimpleNamespace(compute_capability=("90", "86", "120", "90")[number])

    monkeypatch.setattr(ctypes, "CDLL", lambda *a, **k: object())
    monkeypatch.setattr(driver.cuda, "Device", device)
    vars(driver.cuda.runtime).update(getDeviceProperties=properties, CUDARuntimeError=OSError)
    gpu.runtime._status_of.cache_clear()
    for driver.current, arch in ((0, "sm_90a"), (1, "sm_86"), (2, "sm_120a"), (1, "sm_86")):
        assert gpu.gpu_status() == GpuStatus(True, "a chip", arch)
    assert asked == [0, 1, 2]
    driver.current = 3
    assert gpu.gpu_status().reason == "the CUDA driver reports no usable GPU: no device"
    gpu.runtime._status_of.cache_clear()


def pointers(*, shared: int = 0) -> Kernel:
    """A kernel of two pointers, with shared memory of so many words."""
    k = KernelBuilder("k", threads=64)
    k.pointer("src", 4)
    k.pointer("dst", 4, writable=True)
    k.block(0, 7)
    if shared:
        k.shared_buffer("tile", 4, Layout(shared), shared, 16)
    return k.build()


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
    monkeypatch.setattr(gpu.launch, "attribute_launcher", partial(attribute_launcher, library=library))
    monkeypatch.setattr(gpu.launch, "current_stream", lambda: here.stream)
    early = replace(pointers(), awaited=("src",))
    assert early.dependent
    loaded = gpu.Loaded(prepared(early), SimpleNamespace(ptr=FUNCTION))
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


class MapDriver(Driver):
    """A driver whose images are an address and a number of the form; it says how many clusters fit."""

    def __init__(self) -> None:
        super().__init__()
        self.forms: list[TensorMap] = []
        self.encoded: list[int] = []
        self.seen: list[list[tuple[int, int]]] = []
        """Of each launch, what the images behind its values are."""
        self.fitting = {1: 132, 2: 66, 4: 32, 8: 15}
        self.maps = 0

    def encode_tiled(self, m: TensorMap, address: int, library: Any = None) -> tuple[int, bytes]:
        self.forms += [] if m in self.forms else [m]
        self.encoded.append(address)
        image = [address, self.forms.index(m)] + [0] * 14
        return 0, bytes((ctypes.c_uint64 * 16)(*image))

    def launchKernel(self, function: int, *given: int) -> None:
        super().launchKernel(function, *given)
        pointers, values = given[-2], len(self.launched[-1][2])
        table = (ctypes.c_void_p * (values + self.maps)).from_address(pointers)
        images = [(ctypes.c_uint64 * 16).from_address(place or 0) for place in table[values:]]
        assert all((place or 0) % 64 == 0 for place in table[values:])
        self.seen.append([(image[0], image[1]) for image in images])

    def active_clusters(
        self, function: int, cluster: tuple[int, int, int], threads: int, shared_bytes: int
    ) -> int:
        assert function == FUNCTION
        return self.fitting.get(cluster[0] * cluster[1] * cluster[2], 0)

    def largest_cluster(self, function: int, threads: int, shared_bytes: int) -> int:
        assert "__cluster_dims__" not in self.compiled[-1]
        return max(self.fitting)

    def cached_cubin(self, source: str, name: str, arch: str, folder: object) -> Any:
        self.compiled = [*getattr(self, "compiled", []), source]
        return SimpleNamespace(image=b"without clusters")


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> MapDriver:
    cupy = MapDriver()
    monkeypatch.setitem(sys.modules, "cupy", cupy)
    monkeypatch.setattr(gpu.runtime.here, "launch", None, raising=False)
    for module in (gpu.runtime, gpu.launch):
        monkeypatch.setattr(module, "require_gpu", lambda: GpuStatus(True, "a stand-in", "sm_90a"))
    monkeypatch.setattr(gpu.launch, "attribute_launcher", cupy.attribute_launcher)
    monkeypatch.setattr(gpu.driver, "encode_tiled", cupy.encode_tiled)
    for name in ("active_clusters", "largest_cluster", "cached_cubin"):
        monkeypatch.setattr(gpu.runtime, name, getattr(cupy, name))
    monkeypatch.setattr(gpu.launch, "active_clusters", cupy.active_clusters)
    return cupy


def prepared(kernel: Kernel) -> gpu.Prepared:
    """With its text, and machine code that nobody reads."""
    cubin = gpu.Cubin(kernel.name, "sm_80", b"code of k", 1, 0, 0, 0, "")
    return gpu.Prepared(replace(kernel, body=(), regs=()), print_kernel(kernel), cubin)


BOXES = Boxes((40, 9), (64, 8), mode="128B")


def test_maps_lie_behind_the_values_and_follow_the_addresses(driver: MapDriver) -> None:
    driver.maps = 2
    ready = prepared(copy_program(BOXES))
    launch = gpu.load_launch(gpu.launchable(ready))
    pairs = [(4096, 1 << 20), (4096, 1 << 20), (8192, 1 << 20), (4096, 1 << 20)]
    for pair in pairs:
        launch(pair, None)
    src, dst = (Array(address, (9, 40), "f2") for address in pairs[0])
    gpu.load_prepared(ready).launcher(src=src, dst=dst)()
    pairs.append(pairs[0])
    assert [values for _, _, values in driver.launched] == [list(pair) for pair in pairs]
    assert driver.seen == [[(a, 0), (b, 0)] for a, b in pairs]  # both tensors have one form
    assert driver.encoded == [4096, 1 << 20, 8192, 4096, 1 << 20]
    (form,) = driver.forms
    assert (form.dims, form.strides_bytes, form.box, form.mode.name) == ((40, 9), (80,), (64, 8), "128B")


def rows(most: int) -> Kernel:
    """A kernel of an integer that is the pitch of its tensor, in bytes."""
    k = KernelBuilder("rows", threads=32)
    ld = k.param("ld", most, 64)
    x = k.pointer("x", 2, (ld, 1))
    m = TensorMapParam("map_x", x, (ld, as_expr(8)), (ld * 2,), (64, 8), dtype("f16"))
    return replace(k.build(), maps=(m,))


def test_integers_are_part_of_the_form_which_is_judged_before_a_launch(driver: MapDriver) -> None:
    driver.maps = 1
    ready = prepared(rows(1 << 20))
    driver.arguments = itertools.repeat(2)
    gpu.load_launch(gpu.launchable(ready, {"ld": 72}))((1 << 16,), STREAM)
    assert driver.forms[0].dims == (72, 8) and driver.forms[0].strides_bytes == (144,)
    loaded = gpu.load_prepared(ready)
    for call in (
        lambda: gpu.launchable(ready, {"ld": 65}),
        lambda: loaded.launcher(ld=65, x=Array(1 << 16, (8, 65), "f2")),
    ):
        with pytest.raises(AlignmentError, match=r"tma\.stride: .* 130 bytes; .* nearest: 144"):
            call()
    assert len(driver.launched) == 1


def test_nested_launches_do_not_write_over_each_others_arguments(driver: MapDriver) -> None:
    """A launch that another one starts, from a signal or a destructor, before the driver has read."""
    driver.maps = 2
    launch = gpu.load_launch(gpu.launchable(prepared(copy_program(BOXES))))

    def other() -> None:
        driver.meanwhile = lambda: None
        launch((1 << 14, 1 << 15), None)

    for _ in range(2):
        driver.meanwhile = other
        launch((1 << 12, 1 << 13), None)
    both = [[1 << 14, 1 << 15], [1 << 12, 1 << 13]] * 2
    assert [values for _, _, values in driver.launched] == both
    assert driver.seen == [[(address, 0) for address in pair] for pair in both]


@pytest.mark.parametrize("blocks", [1, 2, 8])
def test_a_cluster_that_fits_is_launched_as_it_is(driver: MapDriver, blocks: int) -> None:
    driver.maps = 2
    ready = prepared(copy_program(BOXES, blocks))
    launchable = gpu.launchable(ready)
    assert launchable.cluster == (blocks, 1, 1) and [at for at, _ in launchable.maps] == [0, 1]
    assert (f"__cluster_dims__({blocks}, 1, 1)" in launchable.source) == (blocks > 1)
    gpu.load_launch(launchable)((4096, 1 << 20), None)
    assert gpu.load_prepared(ready).active_clusters == driver.fitting[blocks]
    assert not driver.large_clusters and driver.launched[0][0][:3] == (-(-2 // blocks) * blocks, 1, 1)


def test_a_cluster_that_does_not_fit_is_refused_with_the_largest_that_does(driver: MapDriver) -> None:
    ready = prepared(copy_program(BOXES, 16))
    for load in (gpu.load_prepared, lambda ready: gpu.load_launch(gpu.launchable(ready))):
        with pytest.raises(ResourceError, match=r"blocks per cluster .* 16 asked, the limit is 8"):
            load(ready)
        assert driver.large_clusters == [1, 1]  # of the kernel, and of its text without clusters
        driver.large_clusters.clear()
    driver.fitting[16] = 7
    assert gpu.load_prepared(ready).active_clusters == 7


def test_the_grid_is_whole_clusters() -> None:
    kernel = replace(copy_program(BOXES), cluster=(2, 1, 1))
    k = KernelBuilder("k", threads=32)
    n = k.param("n", 100)
    k.block(0, n)
    open_ = replace(k.build(), cluster=(4, 1, 1))
    assert launch_grid(kernel, {}) == (2, 1, 1) and launch_grid(open_, {"n": 8}) == (8, 1, 1)
    with pytest.raises(ShapeError, match="not whole clusters of 4; nearest are 8"):
        launch_grid(open_, {"n": 6})
    assert [str(c) for c in contract(open_).conditions] == ["n % 4 == 0"]
    with pytest.raises(ShapeError, match=r"not whole clusters of \(4, 1, 1\)"):
        contract(replace(kernel, cluster=(4, 1, 1)))


CLUSTERS = """
#include <cuda.h>
typedef unsigned long long u64;
extern "C" int active(int* count, CUfunction f, const CUlaunchConfig* c) {
    const CUlaunchAttribute& a = c->attrs[0];
    if (c->numAttrs != 1 || a.id != CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION) return 1;
    if (c->gridDimX != a.value.clusterDim.x || c->gridDimY != a.value.clusterDim.y) return 2;
    *count = a.value.clusterDim.x * 100 + a.value.clusterDim.y * 10 + a.value.clusterDim.z;
    const bool fits = c->blockDimX == 256 && c->sharedMemBytes == 4096 && (u64)f == 9;
    return fits ? 0 : CUDA_ERROR_INVALID_CLUSTER_SIZE;
}
"""


def test_the_driver_is_asked_how_many_clusters_fit() -> None:
    library = compile_shared(CLUSTERS, flags=["-I", include_folder()])
    named: Any = SimpleNamespace(cuGetErrorName=lambda status, name: 1)
    names = ("cuOccupancyMaxActiveClusters", "cuOccupancyMaxPotentialClusterSize")
    calls: list[Callable[[], int]] = [
        lambda: active_clusters(9, (4, 2, 1), 256, 4096, named),
        lambda: largest_cluster(9, 256, 4096, named),
    ]
    vars(named).update(dict.fromkeys(names, library.active))
    assert [call() for call in calls] == [421, 111] and active_clusters(9, (4, 2, 1), 128, 4096, named) == 0
    vars(named).update(dict.fromkeys(names, lambda *_: 700))
    for name, call in zip(names, calls, strict=True):
        with pytest.raises(UnsupportedError, match=rf"{name}: an unknown error \(700\)"):
            call()
    assert driver_calls.NON_PORTABLE_CLUSTER == 14
