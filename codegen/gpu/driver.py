"""The launch of the driver that CuPy does not offer: of a kernel that may start while the one in front ends.

    launch_dependent(function, grid, threads, shared_bytes, stream, pointers) -> status

calls `cuLaunchKernelEx` with the attribute of programmatic stream serialization; 0 is success.

Source: CUDA Driver API 13.0, "Execution Control" (cuLaunchKernelEx) and "Data types used by CUDA driver"
(CUlaunchConfig, CUlaunchAttribute, CU_LAUNCH_ATTRIBUTE_PROGRAMMATIC_STREAM_SERIALIZATION).
"""

from __future__ import annotations

import ctypes
import functools
from typing import Any

SERIALIZATION = 6
"""The attribute's number."""


class LaunchAttribute(ctypes.Structure):
    """CUlaunchAttribute: a number, and a value of 64 bytes at byte 8."""

    _fields_ = (
        ("id", ctypes.c_int),
        ("padding", ctypes.c_int),
        ("value", ctypes.c_int),
        ("rest", ctypes.c_char * 60),
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


_EARLY = LaunchAttribute(SERIALIZATION, 0, 1)


def dependent_config(
    grid: tuple[int, int, int], threads: int, shared_bytes: int, stream: int
) -> LaunchConfig:
    """The configuration of a launch that may start early.

    >>> config = dependent_config((4, 1, 1), 256, 1024, 7)
    >>> list(config.grid), list(config.block), config.shared_bytes, config.stream
    ([4, 1, 1], [256, 1, 1], 1024, 7)
    >>> config.count, config.attributes[0].id, config.attributes[0].value
    (1, 6, 1)
    """
    attributes = ctypes.pointer(_EARLY)
    return LaunchConfig(grid, (threads, 1, 1), shared_bytes, stream, attributes, 1)


@functools.cache
def _libcuda() -> ctypes.CDLL:
    return ctypes.CDLL("libcuda.so.1")


def launch_dependent(
    function: int,
    grid: tuple[int, int, int],
    threads: int,
    shared_bytes: int,
    stream: int,
    pointers: int,
    library: Any = None,
) -> int:
    """Launch a function in the current context; `pointers` is the address of its arguments' addresses.

    Returns the driver's status.  `library` stands for libcuda, without which this raises OSError.

    >>> from types import SimpleNamespace
    >>> told = SimpleNamespace(cuLaunchKernelEx=lambda config, function, pointers, extra: function.value)
    >>> launch_dependent(7, (4, 1, 1), 256, 0, 0, 0, told)
    7
    """
    config = dependent_config(grid, threads, shared_bytes, stream)
    launch = (library or _libcuda()).cuLaunchKernelEx
    return int(launch(ctypes.byref(config), ctypes.c_void_p(function), ctypes.c_void_p(pointers), None))
