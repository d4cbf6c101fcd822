"""Arguments of a launch, held to what the kernel declares: ranges, multiples, widths, alignment, the grid.

The idea.  A kernel's text relies on its parameters' declarations: index code is simplified by the range of an
integer, and a vector access by the alignment of a pointer.  So every value is checked before it is launched
with, once, and a launch that is repeated does not check again.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping
from typing import Any

from layoutalg.codegen.expr import GRID_LIMITS, Var, evaluate
from layoutalg.codegen.gpu.driver import MAP_ALIGNMENT, MAP_BYTES
from layoutalg.codegen.program import Global, Kernel, check_argument, check_integers
from layoutalg.errors import AlignmentError, ArgumentTypeError, ResourceError, ShapeError

__all__ = ["Packed", "check_aligned", "check_argument", "check_integers", "launch_grid", "pointer_address"]


def launch_grid(kernel: Kernel, scalars: Mapping[str, int]) -> tuple[int, int, int]:
    """The grid for given integer arguments.

    Raises ResourceError past CUDA's limits, ShapeError where it is not whole clusters.

    >>> from layoutalg.codegen.language import KernelBuilder
    >>> launch_grid(KernelBuilder("empty", threads=32).build(), {})
    (1, 1, 1)
    """
    env = {p: scalars[p.name] for p in kernel.params if isinstance(p, Var)}
    x, y, z = (int(evaluate(extent, env)) for extent in kernel.grid)
    for axis, n, limit in zip("xyz", (x, y, z), GRID_LIMITS, strict=True):
        if n > limit:
            raise ResourceError(f"blocks along {axis} of {kernel.name}", n, limit)
    for axis, n, side in zip("xyz", (x, y, z), kernel.cluster, strict=True):
        if n % side:
            raise ShapeError(
                f"{kernel.name} has {n} blocks along {axis}, which are not whole clusters of {side}; nearest "
                f"are {-(-n // side) * side}"
            )
    return x, y, z


def pointer_address(p: Global, value: Any) -> int:
    """The address of an array on the GPU.

    Raises ArgumentTypeError for what is none, has elements of another width or byte order, or is read-only
    where the kernel writes; AlignmentError.

    >>> from types import SimpleNamespace
    >>> array = SimpleNamespace(__cuda_array_interface__={"data": (4096, False), "typestr": "<f4"})
    >>> from layoutalg.codegen.language import KernelBuilder
    >>> pointer_address(KernelBuilder("copy", threads=32).pointer("src", 4), array)
    4096
    """
    interface = getattr(value, "__cuda_array_interface__", None)
    if interface is None:
        raise ArgumentTypeError(f"{p.name} is a {type(value).__name__}; an array on the GPU is needed")
    import numpy

    address = int(interface["data"][0])
    element = numpy.dtype(interface["typestr"])
    if element.itemsize != p.element_bytes:
        raise ArgumentTypeError(
            f"{p.name} has elements of {element.itemsize} bytes, the kernel moves {p.element_bytes}"
        )
    if not element.isnative:
        raise ArgumentTypeError(
            f"{p.name} holds {element.str}: elements in the machine's byte order are needed"
        )
    if p.writable and interface["data"][1]:
        raise ArgumentTypeError(f"{p.name} is read-only, and the kernel writes it")
    check_aligned(p.name, p.align_bytes, address)
    return address


def check_aligned(name: str, align_bytes: int, address: int) -> None:
    """Raise AlignmentError unless an address is a multiple of what the kernel was built for, in bytes.

    >>> check_aligned("src", 16, 4096)
    """
    if address % align_bytes:
        raise AlignmentError(
            f"{name} starts at {address:#x}: this kernel was built for {align_bytes}-byte alignment",
            offset=address,
            required_bytes=align_bytes,
        )


class Packed:
    """Memory for the values of a launch and the address of the pointers to them.

    A value has 8 bytes, of which the driver reads as many as it needs; behind the values lie the tensor maps,
    of 128 bytes at multiples of as many.  `sources` are the addresses of the tensors that the maps describe;
    `early` launches with these values, where that needs memory of its own.
    """

    __slots__ = ("_images", "_memory", "_table", "early", "pointers", "sources", "values")

    def __init__(self, count: int, maps: int = 0) -> None:
        self.values: Any = (ctypes.c_uint64 * count)()
        self.sources: list[int | None] = [None] * maps
        self.early: Callable[[int], int] | None = None
        first = ctypes.addressof(self.values)
        self._memory = ctypes.create_string_buffer(MAP_BYTES * maps + MAP_ALIGNMENT)
        self._images = -(-ctypes.addressof(self._memory) // MAP_ALIGNMENT) * MAP_ALIGNMENT
        places = (
            *range(first, first + 8 * count, 8),
            *range(self._images, self._images + MAP_BYTES * maps, MAP_BYTES),
        )
        self._table = (ctypes.c_void_p * len(places))(*places)
        self.pointers = ctypes.addressof(self._table)

    def place_map(self, number: int, address: int, image: bytes) -> None:
        """Put the image of a map of the tensor at `address` where the driver reads it."""
        ctypes.memmove(self._images + MAP_BYTES * number, image, MAP_BYTES)
        self.sources[number] = address
