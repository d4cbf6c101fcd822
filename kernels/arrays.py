"""Arrays of any library as memory: where they are, what they hold, who orders the work on them.

    view(x)                 address, shape, strides in bytes, kind of element, device
    new_array(v, shape)     a new array of v's library, device and kind
    destination(v, shape, out)      the same, or `out` where that fits
    launching(v)            v's device and stream, for the launches inside

The idea.  Kernels know addresses.  A view says what a NumPy array, a CuPy array, a PyTorch tensor or anything
with `__cuda_array_interface__` or DLPack is, and nothing more; what needs the library itself (a new array,
the current stream) goes through the library that is already loaded: nothing is imported for it.

Notes.  Work on PyTorch tensors is ordered by PyTorch's current stream, work on everything else by CuPy's;
what arrives through an interface waits for the stream it names.  Values are read as they lie in memory:
tensors whose values lie elsewhere (sparse, lazily conjugated or negated) are refused, and so are those that
record gradients, which a kernel does not.
"""

from __future__ import annotations

import contextlib
import functools
import os
import sys
from collections.abc import Collection
from dataclasses import dataclass
from math import prod
from types import ModuleType
from typing import Any

from layoutalg.algebra import find_overlap
from layoutalg.codegen.runtime import device_array, device_empty, device_view, on_stream
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.permute_modes import WIDTHS_BYTES
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle

UNIT_BYTES = 16
"""Kernels take pointers that are multiples of it; what starts elsewhere is an offset."""

_PLAIN = Swizzle(0, 4, 3)
_DLPACK_CPU, _DLPACK_GPU = 1, (2, 13)


@dataclass(frozen=True, slots=True)
class View:
    """An array as memory: `strides` in bytes, `kind` as NumPy names it, `device` None for the CPU.

    `array` is what the caller sees and keeps the memory alive; `host` is that memory as a NumPy array, for
    arrays on the CPU.
    """

    array: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    kind: str
    itemsize: int
    device: int | None
    host: Any = None

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one past the last."""
        low = high = self.address
        for n, d in zip(self.shape, self.strides, strict=True):
            if d < 0:
                low += (n - 1) * d
            else:
                high += (n - 1) * d
        return low, high + self.itemsize

    @property
    def library(self) -> str:
        """The library whose arrays these are: torch, cupy or numpy."""
        if _loaded("torch", "Tensor", self.array):
            return "torch"
        return "numpy" if self.device is None else "cupy"


def view(x: Any) -> View:
    """Any array as memory.

    Raises ArgumentTypeError for what is no array, UnsupportedError for elements that are not 1, 2, 4, 8 or
    16 bytes wide and for tensors whose values do not lie in memory as they are.

    >>> import numpy
    >>> view(numpy.zeros((2, 3), "f4")).strides, view(numpy.zeros(2, "f2")).kind
    ((12, 4), 'float16')
    """
    import numpy

    if isinstance(x, numpy.ma.MaskedArray):
        raise UnsupportedError("x is a masked array, whose values do not lie in memory alone: fill it first")
    if isinstance(x, numpy.ndarray):
        address = x.__array_interface__["data"][0]
        found = View(x, address, x.shape, x.strides, _named(x.dtype), x.itemsize, None, x)
    elif torch := _loaded("torch", "Tensor", x):
        found = _of_tensor(x, torch)
    else:
        x = _resolved(x)
        if isinstance(x, numpy.ndarray):
            return view(x)
        found = View(x, x.data.ptr, x.shape, x.strides, _named(x.dtype), x.itemsize, x.device.id)
    if found.itemsize not in WIDTHS_BYTES:
        raise UnsupportedError(f"elements of type {found.kind}: 1, 2, 4, 8 and 16 bytes are accepted")
    return found


def new_array(like: View, shape: tuple[int, ...], *, zeros: bool = False) -> View:
    """A new array of the library, kind and device of another.  Raises ResourceError where it does not fit.

    >>> import numpy
    >>> new_array(view(numpy.zeros(3, "f4")), (2, 5)).array.dtype.name
    'float32'
    """
    import numpy

    torch = _loaded("torch", "Tensor", like.array)
    asked = prod(shape) * like.itemsize
    if like.device is None:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if asked > most:
            raise ResourceError("bytes of memory", asked, most)
        if torch is None:
            return view((numpy.zeros if zeros else numpy.empty)(shape, like.array.dtype))
    elif torch is None:
        with on_stream(like.device):
            return view((device_array if zeros else device_empty)(shape, like.array.dtype))
    try:
        return view(like.array.new_zeros(shape) if zeros else like.array.new_empty(shape))
    except torch.cuda.OutOfMemoryError as error:
        free = torch.cuda.mem_get_info(like.device)[0]
        raise ResourceError("bytes of GPU memory", asked, free) from error


def launching(v: View) -> contextlib.AbstractContextManager[None]:
    """What is launched inside runs on the device of an array, on the stream that orders work on it.

    >>> import numpy
    >>> with launching(view(numpy.zeros(3))):
    ...     pass
    """
    if v.device is None:
        return contextlib.nullcontext()
    torch = _loaded("torch", "Tensor", v.array)
    return on_stream(v.device, torch.cuda.current_stream(v.device).cuda_stream if torch else None)


def destination(
    x: View, shape: tuple[int, ...], out: Any, *, zeros: bool = False, kinds: Collection[str] = ()
) -> View:
    """`out`, checked, or a new array like x where `out` is None.

    Elements of `out` are of one of the `kinds`, x's own where none is named.  Raises ShapeError for another
    shape, ArgumentTypeError where `out` is of another library, device or kind, or read-only, and as `view`
    and `new_array` do.

    >>> import numpy
    >>> destination(view(numpy.zeros(3, "f4")), (2, 5), None).shape
    (2, 5)
    """
    if out is None:
        return new_array(x, shape, zeros=zeros)
    target = view(out)
    if target.shape != shape:
        raise ShapeError(f"out has shape {target.shape}; the result has {shape}")
    check_fellows(x, target)
    accepted = dict.fromkeys(kinds or (x.kind,))
    if target.kind not in accepted:
        raise ArgumentTypeError(f"out holds {target.kind}, x {x.kind}: out may hold {' or '.join(accepted)}")
    if target.host is not None and not target.host.flags.writeable:
        raise ArgumentTypeError("out is read-only")
    return target


def check_fellows(x: View, other: View, name: str = "out") -> None:
    """Raise ArgumentTypeError unless two arrays are of one library and on one device.

    >>> import numpy
    >>> check_fellows(view(numpy.zeros(3)), view(numpy.zeros(4)))
    """
    if (x.library, x.device) != (other.library, other.device):
        raise ArgumentTypeError(
            f"{name} is {_place(other)}, x {_place(x)}: both must be of one library and on one device"
        )


def fill(v: View, value: float) -> None:
    """Write one number everywhere.

    >>> import numpy
    >>> x = numpy.zeros(2, "f4")
    >>> fill(view(x), 1.5)
    >>> x.tolist()
    [1.5, 1.5]
    """
    with launching(v):
        if v.library == "torch":
            v.array.fill_(value)
        else:
            v.array.fill(value)


def unit_base(v: View) -> tuple[int, int]:
    """The 16-byte boundary before an array's first byte, and where its coordinate 0 is from there.

    >>> View(None, 0x1014, (3,), (-4,), "float32", 4, 0).span, unit_base(View(None, 38, (3,), (4,), "", 4, 0))
    ((4108, 4120), (32, 6))
    """
    base = v.span[0] // UNIT_BYTES * UNIT_BYTES
    return base, v.address - base


def overlapping(a: View, b: View) -> bool:
    """True where two arrays share a byte.

    >>> import numpy
    >>> x = numpy.zeros((4, 4))
    >>> overlapping(view(x[:, :2]), view(x[:, 2:])), overlapping(view(x[:3]), view(x[2:]))
    (False, True)
    """
    if not prod(a.shape) or not prod(b.shape):
        return False
    (low, end), (other, other_end) = a.span, b.span
    if low >= other_end or other >= end:
        return False
    first, second = (
        ComposedLayout(
            _PLAIN, v.span[0] - min(low, other), Layout((v.itemsize, *v.shape), (1, *map(abs, v.strides)))
        )
        for v in (a, b)
    )
    return find_overlap(first, second) is not None


def of_library(x: Any, result: View) -> Any:
    """A new array as the caller of `x` expects it: of x's library where that reads DLPack.

    >>> import numpy
    >>> of_library([1], view(numpy.zeros(3))).shape
    (3,)
    """
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    if type(result.array) is type(x) or not hasattr(library, "from_dlpack"):
        return result.array
    return library.from_dlpack(result.array) if library else result.array


def _loaded(library: str, kind: str, x: Any) -> ModuleType | None:
    """The library, if it is loaded and x is one of its arrays."""
    module = sys.modules.get(library)
    return module if module is not None and isinstance(x, getattr(module, kind)) else None


@functools.lru_cache(256)
def _named(dtype: Any) -> str:
    """The name of a NumPy type of elements.  Raises UnsupportedError for Python objects."""
    if dtype.hasobject:
        raise UnsupportedError(f"elements of type {dtype}: 1, 2, 4, 8 and 16 bytes are accepted")
    return str(dtype.name if dtype.isnative else dtype.str)


def _place(v: View) -> str:
    where = "the CPU" if v.device is None else f"GPU {v.device}"
    return f"an array of {v.library} on {where}"


def _resolved(x: Any) -> Any:
    """An array of a library that is not known by name, as a NumPy or CuPy array of the same memory."""
    import numpy

    if _loaded("cupy", "ndarray", x):
        return x
    if hasattr(x, "__cuda_array_interface__"):
        return device_view(x)
    if not hasattr(x, "__dlpack_device__"):
        raise ArgumentTypeError(f"{type(x).__name__} is no array: NumPy, CuPy, DLPack are understood")
    kind = int(x.__dlpack_device__()[0])
    if kind not in (_DLPACK_CPU, *_DLPACK_GPU):
        raise UnsupportedError(f"the array is on a device of DLPack kind {kind}; CPU and CUDA are known")
    return numpy.from_dlpack(x) if kind == _DLPACK_CPU else device_view(x)


@functools.lru_cache(256)
def _kind_of(dtype: Any) -> str:
    """NumPy's name for a PyTorch type."""
    return str(dtype).removeprefix("torch.")


_SAME_WIDTH = {1: "uint8", 2: "int16", 4: "int32", 8: "int64", 16: "complex128"}


def _of_tensor(x: Any, torch: ModuleType) -> View:
    """A PyTorch tensor as memory."""
    kind, place = _kind_of(x.dtype), x.device.type
    if place not in ("cpu", "cuda"):
        raise UnsupportedError(f"the tensor is on a device of type {place}; cpu and cuda are known")
    if x.layout is not torch.strided or x.is_quantized or x.is_conj() or x.is_neg():
        raise UnsupportedError("the tensor is sparse, quantised, or a conjugate or negative not yet computed")
    if x.requires_grad and torch.is_grad_enabled():
        raise UnsupportedError("the tensor records gradients, which kernels do not: detach() it")
    size = x.element_size()
    host = None
    if place == "cpu" and size in _SAME_WIDTH:
        host = x.detach().view(getattr(torch, _SAME_WIDTH[size])).numpy()
    strides = tuple(d * size for d in x.stride())
    device = x.device.index if place == "cuda" else None
    return View(x, x.data_ptr(), tuple(x.shape), strides, kind, size, device, host)
