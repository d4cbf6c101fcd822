"""A GPU for tests of what the host does: CuPy's part in loading and launching, all of it written down."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable, Iterator
from itertools import repeat
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import launch, runtime
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.kernels import plan_cache
from layoutalg.kernels.calls import operation

FUNCTION, STREAM = 77, 5
"""The handle of every kernel, and CuPy's current stream."""


class Array:
    """A row-major array of CuPy's, of which only the address exists."""

    def __init__(self, address: int, shape: tuple[int, ...], dtype: Any = "f4", device: int = 0) -> None:
        self.dtype, self.shape = np.dtype(dtype), shape
        self.strides = tuple(
            self.dtype.itemsize * int(np.prod(shape[k + 1 :], dtype=int)) for k in range(len(shape))
        )
        self.data = SimpleNamespace(ptr=address, device_id=device)

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {"data": (self.data.ptr, False), "typestr": self.dtype.str, "shape": self.shape, "version": 3}


class Device:
    """The device that is current inside."""

    def __init__(self, driver: Driver, number: int) -> None:
        self.driver, self.number = driver, number

    def __enter__(self) -> None:
        self.before, self.driver.current = self.driver.current, self.number

    def __exit__(self, *_: object) -> None:
        self.driver.current = self.before


class Driver:
    """What the library asks of CuPy; takes its place in `sys.modules`."""

    CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES = 8
    ndarray = Array

    def __init__(self) -> None:
        self.arguments: Iterator[int] = repeat(2)
        """How many each launch has."""
        self.current = 0
        self.end = 1 << 20
        self.full = False
        """Whether no memory is left."""
        self.launched: list[tuple[tuple[int, ...], int, list[int]]] = []
        """Grid, block and shared memory; the stream; the values that the pointers point to."""
        self.devices: list[int] = []
        """The device that was current at each launch."""
        self.early: list[int] = []
        """The launches, by number, that may start before what is in front of them ends."""
        self.together: list[int] = []
        """Those whose blocks are all resident."""
        self.status = 0
        """What the driver says to both."""
        self.taken_up: list[int] = []
        self.loaded: list[tuple[bytes, str]] = []
        self.dynamic_bytes: list[int] = []
        self.large_clusters: list[int] = []
        """What is allowed of functions."""
        self.meanwhile: Callable[[], None] = lambda: None
        self.cuda = SimpleNamespace(
            driver=self,
            runtime=SimpleNamespace(
                getDevice=lambda: self.current,
                setDevice=self.taken_up.append,
                getDeviceCount=lambda: 2,
                memGetInfo=lambda: (7, 8),
            ),
            get_current_stream=lambda: SimpleNamespace(ptr=STREAM),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            Module=lambda: Module(self),
            Device=lambda number: Device(self, number),
        )

    def get_default_memory_pool(self) -> Any:
        return SimpleNamespace(free_bytes=lambda: 0)

    def empty(self, shape: tuple[int, ...], dtype: Any) -> Array:
        if self.full:
            raise MemoryError
        array = Array(self.end, shape, dtype, self.current)
        self.end += 1 << 20
        return array

    def funcSetAttribute(self, function: int, attribute: int, value: int) -> None:
        assert function == FUNCTION and attribute in (8, 14)
        (self.dynamic_bytes if attribute == 8 else self.large_clusters).append(value)

    def launchKernel(self, function: int, *given: int) -> None:
        *shape, stream, pointers, extra = given
        assert (function, extra) == (FUNCTION, 0)
        self.meanwhile()
        table = (ctypes.c_void_p * next(self.arguments)).from_address(pointers)
        values = [ctypes.c_uint64.from_address(place or 0).value for place in table]
        self.launched.append((tuple(shape), stream, values))
        self.devices.append(self.current)

    def attribute_launcher(
        self,
        function: int,
        grid: tuple[int, int, int],
        threads: int,
        shared: int,
        pointers: int,
        *,
        cooperative: bool,
    ) -> Callable[[int], int]:
        def start(stream: int) -> int:
            (self.together if cooperative else self.early).append(len(self.launched))
            self.launchKernel(function, *grid, threads, 1, 1, shared, stream, pointers, 0)
            return self.status

        return start

    def resident_blocks(self, function: int, threads: int, shared: int) -> int:
        return 264

    class CUDADriverError(RuntimeError):
        """A status that is not 0."""


def standing_in(patch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver in CuPy's place, of a GPU of sm_90a; what calls keep is forgotten before and behind."""
    cupy, status = Driver(), GpuStatus(True, "a stand-in", "sm_90a")
    patch.setitem(sys.modules, "cupy", cupy)
    patch.setattr(runtime.here, "launch", None, raising=False)
    for name in ("attribute_launcher", "resident_blocks"):
        patch.setattr(launch, name, getattr(cupy, name))
    for module in (runtime, launch, plan_cache):
        patch.setattr(module, "require_gpu", lambda: status)
    _forget()
    yield cupy
    _forget()


def _forget() -> None:
    plan_cache.plan_on_gpu.cache_clear()
    operation.forget()


class Module:
    """Machine code that is loaded."""

    def __init__(self, driver: Driver) -> None:
        self.driver = driver

    def load(self, image: bytes) -> None:
        self.image = image

    def get_function(self, name: str) -> Any:
        self.driver.loaded.append((self.image, name))
        return SimpleNamespace(ptr=FUNCTION)
