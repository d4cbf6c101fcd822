"""The calls of the driver that CuPy does not offer.

    attribute_launcher(function, grid, threads, shared_bytes, pointers) -> a launch on a stream -> status
    active_clusters(function, cluster, threads, shared_bytes) -> how many the device can run at a time
    largest_cluster(function, threads, shared_bytes) -> blocks of the largest cluster that fits
    resident_blocks(function, threads, shared_bytes) -> how many the device can run at a time
    encode_tiled(tensor_map, address) -> status, 128 bytes
    MapImages(tensor_map).at(address)    128 bytes, encoded once per address

The first calls `cuLaunchKernelEx` with one attribute, of programmatic stream serialization, for a kernel that
may start while the one in front ends, or of a cooperative launch; 0 is success.  What the call reads is
made once, not per launch.

What TMA is to know is the record arch.TensorMap, which people, the simulator and the rules of legality read.
Its bytes are opaque: no document says what they hold, so nothing here reads them.  To encode takes
microseconds, and a launch that is repeated has the same addresses again: the images of a form are kept by
address, up to a limit.  A map that breaks a rule is refused with the nearest legal change before the driver,
which would say no more than CUDA_ERROR_INVALID_VALUE.

Sources: CUDA Driver API 13.0, "Execution Control" (cuLaunchKernelEx), "Occupancy"
(cuOccupancyMaxActiveBlocksPerMultiprocessor, cuOccupancyMaxActiveClusters,
cuOccupancyMaxPotentialClusterSize), "Tensor Map Object Management"
(cuTensorMapEncodeTiled) and "Data types used by CUDA driver" (CUlaunchConfig, CUlaunchAttribute and their
enumerations).
"""

from __future__ import annotations

import ctypes
import functools
import threading
from collections.abc import Callable
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Enumerator, TensorMap, tensor_map_arguments
from layoutalg.errors import UnsupportedError
from layoutalg.legality import check_tensor_map

COOPERATIVE, CLUSTER_DIMENSION, SERIALIZATION = 2, 4, 6
"""Numbers of launch attributes."""

NON_PORTABLE_CLUSTER = 14
"""The number of the function attribute that allows clusters of more than 8 blocks."""

MULTIPROCESSORS = 16
"""The number of the device attribute that counts its multiprocessors."""

INVALID_CLUSTER_SIZE = 912
"""The status of a cluster that does not fit the device."""

MAP_BYTES, MAP_ALIGNMENT = 128, 128
"""Size and alignment of CUtensorMap in the header of CUDA 13; the call itself requires 64."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number, and a value of 64 bytes at byte 8, of up to three integers here."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("values", ctypes.c_uint * 3),
        ("rest", ctypes.c_char * 52),
    )


class LaunchConfig(ctypes.Structure):
    """CUlaunchConfig: grid, block, shared memory, stream and attributes."""

    _fields_ = (
        ("grid", ctypes.c_uint * 3),
        ("block", ctypes.c_uint * 3),
        ("shared_bytes", ctypes.c_uint),
        ("stream", ctypes.c_void_p),
        ("attributes", ctypes.POINTER(LaunchAttribute)),
        ("count", ctypes.c_uint),
    )


_EARLY, _TOGETHER = (LaunchAttribute(n, 0, (1, 0, 0)) for n in (SERIALIZATION, COOPERATIVE))


def cluster_config(cluster: tuple[int, int, int], threads: int, shared_bytes: int) -> LaunchConfig:
    """The configuration of one cluster, as questions of occupancy take it.

    >>> config = cluster_config((2, 1, 1), 256, 1024)
    >>> list(config.grid), config.attributes[0].id, list(config.attributes[0].values)
    ([2, 1, 1], 4, [2, 1, 1])
    """
    attributes = ctypes.pointer(LaunchAttribute(CLUSTER_DIMENSION, 0, cluster))
    return LaunchConfig(cluster, (threads, 1, 1), shared_bytes, None, attributes, 1)


@functools.cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def status_name(status: int, library: Any = None) -> str:
    """A status as the driver calls it, with its number: CUDA_ERROR_INVALID_VALUE (1)."""
    name = ctypes.c_char_p()
    (library or _libcuda()).cuGetErrorName(status, ctypes.byref(name))
    return f"{(name.value or b'an unknown error').decode()} ({status})"


def attribute_launcher(
    function: int,
    grid: tuple[int, int, int],
    threads: int,
    shared_bytes: int,
    pointers: int,
    *,
    cooperative: bool = False,
    library: Any = None,
) -> Callable[[int], int]:
    """The launch of a function in the current context, by stream; it returns the driver's status.

    It may start early, or is `cooperative`: its blocks wait for each other, so that all are resident, or the
    driver refuses.  `pointers` is the address of its arguments' addresses.  One launch at a time: the stream
    stays in the configuration until the driver has read it.  `library` replaces libcuda, without which
    this raises OSError.

    >>> from types import SimpleNamespace
    >>> told = SimpleNamespace(cuLaunchKernelEx=lambda config, *rest: config._obj.attributes[0].id)
    >>> [attribute_launcher(7, (4, 1, 1), 256, 0, 0, cooperative=x, library=told)(0) for x in (False, True)]
    [6, 2]
    """
    attributes = ctypes.pointer(_TOGETHER if cooperative else _EARLY)
    config = LaunchConfig(grid, (threads, 1, 1), shared_bytes, 0, attributes, 1)
    launch = (library or _libcuda()).cuLaunchKernelEx
    arguments = (ctypes.byref(config), ctypes.c_void_p(function), ctypes.c_void_p(pointers), None)

    def start(stream: int) -> int:
        config.stream = stream
        return int(launch(*arguments))

    return start


def _require(status: int, what: str, driver: Any) -> None:
    """Raise UnsupportedError for a status of the driver that is not success."""
    if status:
        raise UnsupportedError(f"{what}: {status_name(status, driver)}")


def active_clusters(
    function: int, cluster: tuple[int, int, int], threads: int, shared_bytes: int, library: Any = None
) -> int:
    """The number of clusters of a function that the current device runs at a time; 0 where not one fits.

    Raises UnsupportedError for any other answer of the driver.
    """
    config, count = cluster_config(cluster, threads, shared_bytes), ctypes.c_int()
    driver = library or _libcuda()
    status = driver.cuOccupancyMaxActiveClusters(
        ctypes.byref(count), ctypes.c_void_p(function), ctypes.byref(config)
    )
    if status == INVALID_CLUSTER_SIZE:
        return 0
    _require(status, "cuOccupancyMaxActiveClusters", driver)
    return int(count.value)


def largest_cluster(function: int, threads: int, shared_bytes: int, library: Any = None) -> int:
    """Blocks of the largest cluster that the current device runs of a function whose text names none.

    Raises UnsupportedError for any other answer of the driver.
    """
    config, size = cluster_config((1, 1, 1), threads, shared_bytes), ctypes.c_int()
    driver = library or _libcuda()
    status = driver.cuOccupancyMaxPotentialClusterSize(
        ctypes.byref(size), ctypes.c_void_p(function), ctypes.byref(config)
    )
    _require(status, "cuOccupancyMaxPotentialClusterSize", driver)
    return int(size.value)


def resident_blocks(function: int, threads: int, shared_bytes: int, library: Any = None) -> int:
    """Blocks of a function that the current device runs at a time.  Raises UnsupportedError for any other
    answer of the driver."""
    driver, device = library or _libcuda(), ctypes.c_int()
    each, sms = ctypes.c_int(), ctypes.c_int()
    status = driver.cuOccupancyMaxActiveBlocksPerMultiprocessor(
        ctypes.byref(each), ctypes.c_void_p(function), threads, ctypes.c_size_t(shared_bytes)
    )
    status = status or driver.cuCtxGetDevice(ctypes.byref(device))
    status = status or driver.cuDeviceGetAttribute(ctypes.byref(sms), MULTIPROCESSORS, device)
    _require(status, "resident blocks", driver)
    return each.value * sms.value


def encode_tiled(tensor_map: TensorMap, address: int, library: Any = None) -> tuple[int, bytes]:
    """Status and result of cuTensorMapEncodeTiled, for any parameters; 0 is success.

    Raises UnsupportedError for an element type that the driver has no name for, and where the driver is too
    old to have the call.
    """
    driver = library or _libcuda()
    try:
        encode = driver.cuTensorMapEncodeTiled
    except AttributeError as error:
        raise UnsupportedError("this driver encodes no tensor maps: CUDA 12.0 or later is needed") from error
    values = {
        name: value.value if isinstance(value, Enumerator) else value
        for name, value in tensor_map_arguments(tensor_map).items()
    }
    rank, u64, u32 = tensor_map.rank, ctypes.c_uint64, ctypes.c_uint32
    memory = ctypes.create_string_buffer(MAP_BYTES + MAP_ALIGNMENT - 1)
    start = -(-ctypes.addressof(memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
    status = encode(
        ctypes.c_void_p(start), values["tensorDataType"], u32(rank), ctypes.c_void_p(address),
        (u64 * rank)(*tensor_map.dims), (u64 * max(1, rank - 1))(*tensor_map.strides_bytes),
        (u32 * rank)(*tensor_map.box), (u32 * rank)(*tensor_map.element_strides),
        values["interleave"], values["swizzle"], values["l2Promotion"], values["oobFill"],
    )  # fmt: skip
    return int(status), ctypes.string_at(start, MAP_BYTES)


MOST_IMAGES = 256
"""Addresses for which a form keeps its image; the one that was encoded first goes first."""

WIDEST = 256
"""Rules of global addresses require at most this many bytes."""


def encode_tensor_map(
    tensor_map: TensorMap, address: int, *, arch: str = DEFAULT_ARCH, library: Any = None
) -> bytes:
    """The 128 bytes of a tensor map of the tensor at `address`, in bytes; `library` replaces libcuda.

    Raises the error of the first rule that is broken, with the nearest legal change, and UnsupportedError for
    an architecture without TMA, and with the driver's name for it for what the driver alone refuses.

    >>> from types import SimpleNamespace
    >>> from layoutalg.dtype import dtype
    >>> m = TensorMap(dtype("f16"), (64, 100), (200,), (64, 64), (1, 1))
    >>> encode_tensor_map(m, 1 << 20, library=SimpleNamespace())
    Traceback (most recent call last):
    ...
    layoutalg.errors.AlignmentError: tensor map of f16 (64,100) in boxes (64,64), mode none: tma.stride: \
the stride of leaf 1 is 200 bytes; accepted are multiples of 16 bytes; nearest: 208 bytes, 8 bytes of padding
    """
    require_legal(tensor_map, min(address & -address or WIDEST, WIDEST), arch)
    status, image = encode_tiled(tensor_map, address, library)
    if status:
        raise UnsupportedError(
            f"cuTensorMapEncodeTiled of {tensor_map} at {address:#x}: {status_name(status, library)}"
        )
    return image


def require_legal(tensor_map: TensorMap, alignment_bytes: int, arch: str = DEFAULT_ARCH) -> None:
    """Raise the error of a rule that a tensor map breaks, where its address is a multiple of so many bytes.

    >>> from layoutalg.dtype import dtype
    >>> require_legal(TensorMap(dtype("u8"), (64,), (), (64,), (1,)), 16)
    """
    if alignment_bytes < _least_alignment(tensor_map, arch):
        check_tensor_map(tensor_map, global_alignment_bytes=alignment_bytes, arch=arch).require()


@functools.lru_cache(maxsize=1024)
def _least_alignment(tensor_map: TensorMap, arch: str) -> int:
    """The least power of two that, if it divides the address, breaks no rule: what divides it too is as good;
    past WIDEST where there is none."""
    nbytes = 16
    while (
        nbytes <= WIDEST and check_tensor_map(tensor_map, global_alignment_bytes=nbytes, arch=arch).violations
    ):
        nbytes *= 2
    return nbytes


class MapImages:
    """The images of one form, by address."""

    __slots__ = ("_arch", "_images", "_lock", "tensor_map")

    def __init__(self, tensor_map: TensorMap, arch: str = DEFAULT_ARCH) -> None:
        self.tensor_map, self._arch = tensor_map, arch
        self._images: dict[int, bytes] = {}
        self._lock = threading.Lock()

    def at(self, address: int) -> bytes:
        """The 128 bytes for a tensor at an address.  Raises what `encode_tensor_map` raises."""
        image = self._images.get(address)
        if image is None:
            image = encode_tensor_map(self.tensor_map, address, arch=self._arch)
            with self._lock:
                while len(self._images) >= MOST_IMAGES:
                    del self._images[next(iter(self._images))]
                self._images[address] = image
        return image

    def __len__(self) -> int:
        return len(self._images)
