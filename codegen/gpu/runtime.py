"""A GPU through CuPy, which no other module imports: machine code that is loaded, arrays, streams, times.

`gpu_status` looks for a driver before anything calls one, and says in a sentence what is missing.
"""

from __future__ import annotations

import contextlib
import ctypes
import functools
import math
import statistics
import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from layoutalg.codegen.gpu.cubin_cache import cache_folder, cached_cubin
from layoutalg.codegen.gpu.driver import NON_PORTABLE_CLUSTER, active_clusters, largest_cluster
from layoutalg.codegen.printing import without_clusters
from layoutalg.codegen.program import PORTABLE_CLUSTER
from layoutalg.errors import ResourceError, UnknownNameError, UnsupportedError
from layoutalg.optional import import_trouble


@dataclass(frozen=True, slots=True)
class GpuStatus:
    """Whether kernels can run here: `name` and `arch` of the GPU, or the `reason` why not."""

    available: bool
    name: str = ""
    arch: str = ""
    reason: str = ""


def gpu_status() -> GpuStatus:
    """Look for a driver, CuPy and a GPU, in this order; never raises.

    >>> status = gpu_status()
    >>> status.available or len(status.reason) > 0
    True
    """
    try:
        ctypes.CDLL("libcuda.so.1")
    except OSError:
        return GpuStatus(False, reason="no CUDA driver on this machine (libcuda.so.1 is missing)")
    if trouble := import_trouble("cupy", "pip install 'layoutalg[cuda13]' brings it"):
        return GpuStatus(False, reason=trouble)
    import cupy

    try:
        return _status_of(cupy.cuda.runtime.getDevice())
    except cupy.cuda.runtime.CUDARuntimeError as error:
        return GpuStatus(False, reason=f"the CUDA driver reports no usable GPU: {error}")


@functools.cache
def _status_of(device: int) -> GpuStatus:
    """The status of a GPU that is there, which the driver takes a millisecond to describe."""
    import cupy

    capability = cupy.cuda.Device(device).compute_capability
    name = cupy.cuda.runtime.getDeviceProperties(device)["name"].decode()
    return GpuStatus(True, name=name, arch=f"sm_{capability}" + ("a" if int(capability) >= 90 else ""))


def require_gpu() -> GpuStatus:
    """The GPU's status.  Raises UnsupportedError with the reason when there is none."""
    status = gpu_status()
    if not status.available:
        raise UnsupportedError(f"running a kernel needs a GPU: {status.reason}")
    return status


def load_function(
    name: str, image: bytes, cluster: tuple[int, int, int], threads: int, shared_bytes: int, source: str
) -> Any:
    """CuPy's handle of a kernel of some machine code, which keeps that loaded on the current GPU.

    Raises UnsupportedError without one, ResourceError, with the largest that does, where it does not fit a
    cluster.  A function has the clusters that its text, `source`, states and no others; so the same text
    without them is tried.
    """
    blocks = math.prod(cluster)
    function = _function(name, image, shared_bytes, blocks)
    if blocks > 1 and not active_clusters(function.ptr, cluster, threads, shared_bytes):
        gpu = require_gpu()
        free = cached_cubin(without_clusters(source, cluster), name, gpu.arch, cache_folder())
        other = _function(name, free.image, shared_bytes, PORTABLE_CLUSTER + 1)
        largest = largest_cluster(other.ptr, threads, shared_bytes)
        raise ResourceError(f"blocks per cluster of {name} on {gpu.name}", blocks, largest)
    return function


def _function(name: str, image: bytes, shared_bytes: int, blocks: int) -> Any:
    require_gpu()
    import cupy

    module, driver = cupy.cuda.Module(), cupy.cuda.driver
    module.load(image)
    function = module.get_function(name)
    if shared_bytes:
        driver.funcSetAttribute(
            function.ptr, driver.CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, shared_bytes
        )
    if blocks > PORTABLE_CLUSTER:
        driver.funcSetAttribute(function.ptr, NON_PORTABLE_CLUSTER, 1)
    return function


here = threading.local()
"""The objects that a thread has taken up."""


def take_up() -> Callable[..., None]:
    """The driver's `cuLaunchKernel`, as this thread may call it: with the context of its current GPU."""
    import cupy

    cupy.cuda.runtime.setDevice(cupy.cuda.runtime.getDevice())
    launch: Callable[..., None] = cupy.cuda.driver.launchKernel
    here.launch = launch
    return launch


def driver_error(status: int) -> Exception:
    """CuPy's error of a status of the driver."""
    import cupy

    error: Exception = cupy.cuda.driver.CUDADriverError(status)
    return error


def to_device(array: Any) -> Any:
    """A copy of a NumPy array on the GPU."""
    require_gpu()
    import cupy

    return cupy.asarray(array)


def device_array(shape: tuple[int, ...], dtype: Any) -> Any:
    """An array of zeros on the GPU.  Raises ResourceError where it does not fit into memory."""
    require_gpu()
    array = device_empty(shape, dtype)
    array.fill(0)
    return array


def device_empty(shape: tuple[int, ...], dtype: Any) -> Any:
    """A new array on the GPU, of any content.  Raises ResourceError where it does not fit into memory."""
    import cupy
    import numpy

    try:
        return cupy.empty(shape, dtype)
    except cupy.cuda.memory.OutOfMemoryError as error:
        nbytes = math.prod(shape) * numpy.dtype(dtype).itemsize
        free = cupy.cuda.runtime.memGetInfo()[0] + cupy.get_default_memory_pool().free_bytes()
        raise ResourceError("bytes of GPU memory", nbytes, free) from error


def device_view(x: Any) -> Any:
    """Another library's GPU array as a CuPy array that shares its memory; the current stream waits for it."""
    require_gpu()
    import cupy

    return cupy.asarray(x) if hasattr(x, "__cuda_array_interface__") else cupy.from_dlpack(x)


def current_stream() -> int:
    """CuPy's current stream, a cudaStream_t."""
    import cupy

    return int(cupy.cuda.get_current_stream().ptr)


def device_getter() -> Callable[[], int] | None:
    """Return the function that gives the number of the current GPU; None where there is only one."""
    import cupy

    if cupy.cuda.runtime.getDeviceCount() == 1:
        return None
    getter: Callable[[], int] = cupy.cuda.runtime.getDevice
    return getter


def stream_getter() -> Callable[[], int]:
    """Return a function that gives CuPy's current stream, as `current_stream` does, but finds CuPy once."""
    import cupy

    current = cupy.cuda.get_current_stream

    def stream() -> int:
        return current().ptr  # type: ignore[no-any-return]

    return stream


def pci_bus_id() -> str:
    """The PCI bus ID of the current GPU, by which other libraries find it.  Raises UnsupportedError."""
    require_gpu()
    import cupy

    return str(cupy.cuda.Device().pci_bus_id)


def on_device(device: int) -> contextlib.AbstractContextManager[object]:
    """Launch, load or allocate on a device, inside the context."""
    import cupy

    return _THERE if cupy.cuda.runtime.getDevice() == device else cupy.cuda.Device(device)


_THERE = contextlib.nullcontext()
"""Nothing has to be done to be on the current device."""


def random_bytes(nbytes: int, seed: int) -> Any:
    """Uniform random bytes on the GPU, as an array of uint8."""
    require_gpu()
    import cupy

    return cupy.random.RandomState(seed).randint(0, 256, nbytes, dtype=cupy.uint8)


def random_normal(elems: int, seed: int, element: str) -> Any:
    """Standard normal numbers on the GPU: f64, f32 or f16, or bf16 as uint16, e4m3 and e5m2 as uint8, rounded
    towards 0; for integers, s8 and s32, those that a byte holds.  Raises UnknownNameError."""
    require_gpu()
    import cupy

    ints = {"s8": cupy.int8, "s32": cupy.int32}
    if element in ints:
        return cupy.random.RandomState(seed).randint(-128, 128, elems).astype(ints[element])
    kinds = {"f64": cupy.float64, "f32": cupy.float32, "tf32": cupy.float32, "f16": cupy.float16}
    known = (*kinds, "bf16", "e4m3", "e5m2")
    if element not in known:
        raise UnknownNameError("element of random numbers", element, known)
    x = cupy.random.RandomState(seed).standard_normal(elems, kinds["f64" if element == "f64" else "f32"])
    if element == "bf16":
        return (x.view(cupy.uint32) >> 16).astype(cupy.uint16)
    if element in known[-2:]:
        e4m3 = element == "e4m3"  # its exponents are less than those of f16 by 8, and have a bit less
        bits = (x / 256 if e4m3 else x).astype(cupy.float16).view(cupy.uint16)
        return ((bits >> 8 & 0x80) | (bits >> 8 - e4m3 & 0x7F)).astype(cupy.uint8)
    return x.astype(kinds[element])


def largest_difference(x: Any, y: Any, element: str) -> float:
    """The largest |x - y| of two GPU arrays of an element type that `random_normal` knows; NaN if any is."""
    import cupy

    if element == "bf16":
        x, y = ((v.astype(cupy.uint32) << 16).view(cupy.float32) for v in (x, y))
    return float(cupy.abs(x.astype(cupy.float64) - y.astype(cupy.float64)).max())


def to_host(array: Any) -> Any:
    """A copy of a GPU array as a NumPy array."""
    import cupy

    return cupy.asnumpy(array)


def device_copy(dst: Any, src: Any) -> Callable[[], None]:
    """A launch of the driver's device-to-device copy of `src` over `dst`."""
    import cupy

    stream = cupy.cuda.get_current_stream()
    return lambda: dst.data.copy_from_device_async(src.data, src.nbytes, stream)


@contextlib.contextmanager
def profiled() -> Iterator[None]:
    """Let a profiler look at the launches of the block, all of which end in it."""
    from cupy.cuda import runtime

    runtime.deviceSynchronize()
    runtime.profilerStart()
    yield
    runtime.deviceSynchronize()
    runtime.profilerStop()


def array_assign(dst: Any, src: Any) -> Callable[[], None]:
    """A launch of CuPy's own assignment dst[...] = src, whatever the strides."""
    import cupy

    return lambda: cupy.copyto(dst, src)


def array_reduction(op: str, x: Any, axes: tuple[int, ...]) -> Callable[[], Any] | None:
    """A launch of CuPy's own sum, max or mean of floats over some axes; None where it has no such thing."""
    if op not in ("sum", "max", "mean") or x.dtype.kind != "f":
        return None
    reduction = getattr(x, op)
    return lambda: reduction(axis=axes)


Contender: TypeAlias = "Sequence[Callable[[], object]]"
"""Launches of equal work on different buffers, walked in turn, so that no data is found in the cache."""


def median_times_ms(
    launches: Sequence[Contender],
    *,
    rounds: int = 15,
    inner: int = 8,
    warmup: int = 2,
    sample_ms: float = math.inf,
    meanwhile: Callable[[int], object] | None = None,
) -> list[float]:
    """Median milliseconds of each contender, all interleaved round by round on one stream.

    A sample is `inner` launches between two events, or as many fewer as take `sample_ms`; `meanwhile` is
    called with the contender's number while the GPU works on them.  Raises UnsupportedError without a GPU.
    """
    timer = _Timer()
    counts = []
    for contender in launches:
        timer.launch(contender, max(warmup, len(contender)) - 1)
        slowest = timer.mean_ms(contender[-1:], 1)
        counts.append(max(1, min(inner, int(min(sample_ms / slowest, inner)))))
    samples: list[list[float]] = [[] for _ in launches]
    for _ in range(rounds):
        for number, (contender, count) in enumerate(zip(launches, counts, strict=True)):
            look = None if meanwhile is None else functools.partial(meanwhile, number)
            samples[number].append(timer.mean_ms(contender, count, look))
    return [statistics.median(own) for own in samples]


FLUSH_BYTES, FLUSHES = 256 << 20, 4
"""Bytes that are read before a cold launch, several times what an L2 holds, and how often, so that the host
is ahead of the GPU."""


def cold_times_us(launches: Iterable[Callable[[], object]], rounds: int = 9) -> Iterator[float]:
    """Yield the median microseconds of each launch on a cold L2, with the host ahead of the GPU.

    Raises UnsupportedError without a GPU.

    >>> list(cold_times_us([])) if gpu_status().available else []
    []
    """
    timer = _Timer()
    buffer = device_empty((FLUSH_BYTES // 4,), "float32")
    for launch in launches:
        launch()
        samples = []
        for _ in range(rounds):
            for _ in range(FLUSHES):
                buffer.sum()
            samples.append(1e3 * timer.mean_ms([launch], 1))
        yield statistics.median(samples)


def board_facts() -> dict[str, int]:
    """Return what the driver says of the current GPU, by CUDA's names of attributes.

    Raises UnsupportedError without a GPU.

    >>> board_facts()["MultiProcessorCount"] > 0 if gpu_status().available else True
    True
    """
    require_gpu()
    import cupy

    return dict(cupy.cuda.Device().attributes)


def later_half_times_ms(
    launches: Sequence[Contender], count: int, meanwhile: Callable[[int], object] | None = None
) -> list[float]:
    """Mean milliseconds of the later half of `count` launches of each contender, one contender after another.

    Raises UnsupportedError without a GPU.

    >>> later_half_times_ms([], 371) if gpu_status().available else []
    []
    """
    timer, later = _Timer(), max(1, count // 2)
    times = []
    for number, contender in enumerate(launches):
        timer.launch(contender, count - later)
        look = None if meanwhile is None else functools.partial(meanwhile, number)
        times.append(timer.mean_ms(contender, later, look))
    return times


def repeat_for(contender: Contender, count: int) -> None:
    """Launch so many times and wait for the last.  Raises UnsupportedError without a GPU.

    >>> if gpu_status().available:
    ...     repeat_for([lambda: None], 3)
    """
    timer = _Timer()
    timer.launch(contender, count)
    timer.wait()


class _Timer:
    """Two events on the current stream.  Every launch, of whichever contender, is on the set of buffers after
    the one before, so that a set is touched again only when all others have been."""

    def __init__(self) -> None:
        require_gpu()
        import cupy

        self.start, self.stop = cupy.cuda.Event(), cupy.cuda.Event()
        self.elapsed = cupy.cuda.get_elapsed_time
        self.place = 0

    def launch(self, contender: Contender, count: int) -> None:
        first, sets = self.place, len(contender)
        for n in range(first, first + count):
            contender[n % sets]()
        self.place = first + count

    def wait(self) -> None:
        self.stop.record()
        self.stop.synchronize()

    def mean_ms(
        self, contender: Contender, count: int, meanwhile: Callable[[], object] | None = None
    ) -> float:
        """Milliseconds of one of `count` launches; what is called meanwhile runs while they are queued."""
        self.start.record()
        self.launch(contender, count)
        self.stop.record()
        if meanwhile is not None:
            meanwhile()
        self.stop.synchronize()
        return float(self.elapsed(self.start, self.stop)) / count


def cuda_versions() -> tuple[str, str]:
    """The latest CUDA that the driver runs, and the CUDA runtime that CuPy has.

    Raises UnsupportedError without a GPU.

    >>> if gpu_status().available:
    ...     driver, runtime = cuda_versions()
    """
    require_gpu()
    import cupy

    both = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    driver, runtime = (f"{number // 1000}.{number % 1000 // 10}" for number in both)
    return driver, runtime
