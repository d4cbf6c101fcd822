"""A GPU whose machine code is run by the simulator: CuPy's place, filled with NumPy, and a clock of its own.

    gpu = CubinGpu({image: kernel}, {image: 0.5})   what each CUBIN is the code of, and how many ms it takes
    with gpu.installed(): ...                       kernels that are loaded and launched run here

The idea.  All of the runtime but CuPy and the driver is real: what is launched is found by its machine code,
its arguments are read where the driver would read them, and the arrays at these addresses are simulated on.
"""

from __future__ import annotations

import contextlib
import ctypes
from collections.abc import Callable, Iterator, Mapping
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import numpy as np

from layoutalg.codegen.gpu import launch, runtime
from layoutalg.codegen.program import Global, Kernel, printed
from layoutalg.codegen.sim import simulate

FLUSH_MS = 0.125
"""How long it takes to write memory over."""


class GpuArray(np.ndarray[Any, Any]):
    """A NumPy array that shows its address as CuPy's do."""

    gpu: CubinGpu

    @property
    def data(self) -> Any:
        """Its memory."""
        address: int = self.ctypes.data

        def memset_async(value: int, nbytes: int) -> None:
            assert nbytes == self.nbytes
            self.gpu.ms += FLUSH_MS

        return SimpleNamespace(ptr=address, memset_async=memset_async)

    def __array_finalize__(self, of: Any) -> None:
        self.gpu = getattr(of, "gpu", None)  # type: ignore[assignment]


class CubinGpu:
    """See the module's text; `ms` is the time, `launched` the kernels' names in the order of launches."""

    def __init__(self, programs: Mapping[bytes, Kernel], costs: Mapping[bytes, float]) -> None:
        self.programs = {image: printed(kernel) for image, kernel in programs.items()}
        self.costs, self.ms = costs, 0.0
        self.launched: list[str] = []
        self.early = 0
        self.made: dict[int, GpuArray] = {}
        self.functions: list[bytes] = []
        for name in (
            "uint8", "uint16", "uint32", "int8", "int16", "int32", "int64", "float16", "float32", "float64"
        ):  # fmt: skip
            setattr(self, name, np.dtype(name))
        self.random = SimpleNamespace(RandomState=lambda seed: Random(self, seed))
        self.cuda = SimpleNamespace(
            Event=lambda: Event(self),
            Module=lambda: Module(self),
            get_elapsed_time=lambda start, stop: stop.at - start.at,
            get_current_stream=lambda: SimpleNamespace(ptr=0),
            memory=SimpleNamespace(OutOfMemoryError=MemoryError),
            runtime=SimpleNamespace(
                getDevice=lambda: 0, setDevice=lambda device: None, getDeviceCount=lambda: 1
            ),
            driver=SimpleNamespace(
                launchKernel=self.launch, funcSetAttribute=lambda *given: None,
                CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES=8,
            ),
        )  # fmt: skip

    def get_default_memory_pool(self) -> Any:
        """Of which nothing is taken: arrays are NumPy's."""
        return SimpleNamespace(free_all_blocks=self.made.clear)

    def array(self, values: Any) -> GpuArray:
        """An array of this GPU, which launches may find by its address."""
        found = np.ascontiguousarray(values).view(GpuArray)
        found.gpu = self
        return found

    def empty(self, shape: tuple[int, ...], dtype: Any) -> GpuArray:
        """An array of any content."""
        return self.array(np.empty(shape, dtype))

    def seen(self, array: GpuArray) -> None:
        """Let launches find an array."""
        self.made[array.ctypes.data] = array

    def launch(self, function: int, *given: int) -> None:
        """Run a kernel in the simulator, on the arrays at its addresses; check how it is launched."""
        *shape, stream, pointers, extra = given
        image = self.functions[function]
        kernel = self.programs[image]
        table = (ctypes.c_void_p * len(kernel.params)).from_address(pointers)
        values = [ctypes.c_uint64.from_address(place or 0).value for place in table]
        args: dict[str, Any] = {}
        for p, value in zip(kernel.params, values, strict=True):
            args[p.name] = self.made[value].view(np.ndarray) if isinstance(p, Global) else value
        assert shape[3:6] == [kernel.threads, 1, 1]
        assert (stream, extra) == (0, 0)
        simulate(kernel, args, trace=False)
        self.ms += self.costs[image]
        self.launched.append(kernel.name)

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
        """The launch of a kernel that may start early."""
        assert not cooperative

        def start(stream: int) -> int:
            self.early += 1
            self.launch(function, *grid, threads, 1, 1, shared, stream, pointers, 0)
            return 0

        return start

    @contextlib.contextmanager
    def installed(self) -> Iterator[CubinGpu]:
        """This GPU in the place of CuPy and the driver."""
        status = runtime.GpuStatus(True, "a GPU of the simulator", "sm_90a")
        with (
            patch.dict("sys.modules", cupy=self),
            patch.object(runtime, "gpu_status", lambda: status),
            patch.object(runtime.here, "launch", None, create=True),
            patch.object(launch, "attribute_launcher", self.attribute_launcher),
        ):
            yield self


class Random:
    """Random numbers of a seed."""

    def __init__(self, gpu: CubinGpu, seed: int) -> None:
        self.gpu, self.rng = gpu, np.random.default_rng(seed)

    def randint(self, low: int, high: int, count: int, dtype: Any) -> GpuArray:
        """Uniform integers."""
        return self.gpu.array(self.rng.integers(low, high, count, dtype))

    def standard_normal(self, count: int, dtype: Any) -> GpuArray:
        """Normal numbers."""
        return self.gpu.array(self.rng.standard_normal(count).astype(dtype))


class Event:
    """A moment of the GPU's clock."""

    def __init__(self, gpu: CubinGpu) -> None:
        self.gpu, self.at = gpu, 0.0

    def record(self) -> None:
        """Take the time."""
        self.at = self.gpu.ms

    def synchronize(self) -> None:
        """All is done when it is launched."""


class Module:
    """Machine code that is loaded."""

    def __init__(self, gpu: CubinGpu) -> None:
        self.gpu = gpu

    def load(self, image: bytes) -> None:
        """Keep it."""
        self.image = image

    def get_function(self, name: str) -> Any:
        """A kernel of it."""
        assert self.gpu.programs[self.image].name == name
        self.gpu.functions.append(self.image)
        return SimpleNamespace(ptr=len(self.gpu.functions) - 1)
