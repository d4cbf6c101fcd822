"""Launches with tensor maps and of clusters, without a GPU: what the driver is given and is asked."""

from __future__ import annotations

import ctypes
import itertools
import sys
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import pytest

from layoutalg.arch import TensorMap
from layoutalg.codegen import gpu
from layoutalg.codegen.expr import as_expr
from layoutalg.codegen.gpu import driver as driver_calls
from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.gpu.driver import active_clusters, largest_cluster
from layoutalg.codegen.gpu.preparation import Prepared
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, TensorMapParam, contract
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ResourceError, ShapeError, UnsupportedError
from layoutalg.testing import compile_shared
from tests.codegen.gpu.test_driver import include_folder
from tests.stand_ins.cuda_driver import FUNCTION, STREAM, Array, Driver
from tests.tiles.boxes import Boxes, copy_program


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
    monkeypatch.setattr(gpu.runtime, "require_gpu", lambda: GpuStatus(True, "a stand-in", "sm_90a"))
    monkeypatch.setattr(gpu.tensor_maps, "encode_tiled", cupy.encode_tiled)
    for name in ("active_clusters", "largest_cluster", "cached_cubin"):
        monkeypatch.setattr(gpu.runtime, name, getattr(cupy, name))
    return cupy


def prepared(kernel: Kernel) -> Prepared:
    """With its text, and machine code that nobody reads."""
    cubin: Any = SimpleNamespace(image=b"code", name=kernel.name)
    return Prepared(replace(kernel, body=(), regs=()), print_kernel(kernel), cubin)


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
    calls = (lambda: active_clusters(9, (4, 2, 1), 256, 4096, named),
             lambda: largest_cluster(9, 256, 4096, named))  # fmt: skip
    vars(named).update(dict.fromkeys(names, library.active))
    assert [call() for call in calls] == [421, 111] and active_clusters(9, (4, 2, 1), 128, 4096, named) == 0
    vars(named).update(dict.fromkeys(names, lambda *_: 700))
    for name, call in zip(names, calls, strict=True):
        with pytest.raises(UnsupportedError, match=rf"{name}: an unknown error \(700\)"):
            call()
    assert driver_calls.NON_PORTABLE_CLUSTER == 14
