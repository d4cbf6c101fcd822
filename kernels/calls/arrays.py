"""Arrays of any library as memory: where they are, what they hold, who orders the work on them.

    view(x)                 where x lies: its address, and its form
    new_array(v, shape)     a new array of v's library, device and kind
    check_result, check_apart       whether an array can hold the result, and overlaps none that is read
    launching(v)            v's device, for the launches inside, on the stream that it gives

The idea.  Kernels know addresses.  A view says what a NumPy array, a CuPy array, a PyTorch tensor or anything
with `__cuda_array_interface__` or DLPack is, and nothing more; what needs the library itself (a new array,
the current stream) goes through the library that is already loaded: nothing is imported for it.

All that arrays of one library, device, shape, type and strides have in common is their `Form`.  Equal forms
are one object, found in a dictionary by the array's attributes, so that what depends on forms alone is kept
by them: a call that repeats another is a few look-ups and the launch.

Notes.  Work on PyTorch tensors is ordered by PyTorch's current stream, work on everything else by CuPy's;
what arrives through an interface waits for the stream it names.  Values are read as they lie in memory:
tensors whose values lie elsewhere (sparse, lazily conjugated or negated) are refused, and so are those that
record gradients, which a kernel does not.
"""

from __future__ import annotations

import contextlib
import functools
import operator
import os
import sys
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import gcd, prod
from types import ModuleType
from typing import Any, NamedTuple

from layoutalg.codegen.gpu import device_array, device_empty, device_view, on_device
from layoutalg.decide import find_overlap
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError, UnsupportedError, shown
from layoutalg.kernels.elements import TORCH_CARRIER
from layoutalg.kernels.modes import compact_strides
from layoutalg.kernels.move import WIDTHS_BYTES
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.limits import Most
from layoutalg.optional import is_of, loaded

UNIT_BYTES = 16
"""The alignment of the pointers that kernels take; the start of an array between multiples is an offset."""

KEPT_FORMS = 4096
"""The most forms, and problems by their forms, that are cached; the least recently used leave."""

_PLAIN = Swizzle(0, 4, 3)
_DLPACK_CPU, _DLPACK_GPU = 1, (2, 13)


@dataclass(frozen=True, slots=True, eq=False)
class Form:
    """The properties of an array without its address; `form_of` returns equal forms as the same object.

    `strides` in bytes, `kind` of its elements as NumPy names it, `device` None for the CPU; the array's bytes
    are at most those from `low` to `end`, from the address of its first element; `unit` divides all strides
    of modes that have more than one element.
    """

    library: str
    device: int | None
    kind: str
    itemsize: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    elems: int
    low: int
    end: int
    unit: int

    def laid(self, shape: tuple[int, ...], strides: tuple[int, ...]) -> Form:
        """The form of such elements of the same library and device, laid out otherwise."""
        return form_of(self.library, self.device, self.kind, self.itemsize, shape, strides)


@functools.lru_cache(KEPT_FORMS)
def form_of(
    library: str,
    device: int | None,
    kind: str,
    itemsize: int,
    shape: tuple[int, ...],
    strides: tuple[int, ...],
) -> Form:
    """The form of an array.  Raises UnsupportedError for elements that are not 1, 2, 4, 8 or 16 bytes wide.

    >>> f = form_of("numpy", None, "float32", 4, (3, 2), (-8, 4))
    >>> f.elems, f.low, f.end, f.unit
    (6, -16, 8, 4)
    """
    if itemsize not in WIDTHS_BYTES:
        raise UnsupportedError(f"elements of type {kind}: 1, 2, 4, 8 and 16 bytes are accepted")
    reach = [(n - 1) * d for n, d in zip(shape, strides, strict=True)]
    low, high = sum(r for r in reach if r < 0), sum(r for r in reach if r > 0)
    unit = gcd(*(d for n, d in zip(shape, strides, strict=True) if n > 1))
    return Form(library, device, kind, itemsize, shape, strides, prod(shape), low, high + itemsize, unit)


class View(NamedTuple):
    """An array as memory: the address of its first element, and its form.

    `array` is what the caller sees and keeps the memory alive; `host` is that memory as a NumPy array, for
    arrays on the CPU.
    """

    array: Any
    address: int
    form: Form
    host: Any = None

    @property
    def shape(self) -> tuple[int, ...]:
        """The extent of each mode."""
        return self.form.shape

    @property
    def strides(self) -> tuple[int, ...]:
        """The stride of each mode, in bytes."""
        return self.form.strides

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one past the last."""
        return self.address + self.form.low, self.address + self.form.end


def view(x: Any) -> View:
    """Any array as memory.

    Raises ArgumentTypeError for what is not an array, UnsupportedError for elements that are not 1, 2, 4, 8
    or 16 bytes wide and for arrays whose values do not lie in memory alone.

    >>> import numpy
    >>> view(numpy.zeros((2, 3), "f4")).strides, view(numpy.zeros(2, "f2")).form.kind
    ((12, 4), 'float16')
    """
    if is_of(x, "torch", "Tensor"):
        return _of_tensor(x, sys.modules["torch"])
    if not is_of(x, "cupy", "ndarray"):
        import numpy

        if not isinstance(x, numpy.ndarray):
            x = _resolved(x)
        if isinstance(x, numpy.ma.MaskedArray):
            raise UnsupportedError(
                "x is a masked array, whose values do not lie in memory alone: fill it first"
            )
        if isinstance(x, numpy.ndarray):
            form = _array_form("numpy", None, x.dtype, x.shape, x.strides)
            return View(x, x.__array_interface__["data"][0], form, x)
    memory = x.data
    return View(x, memory.ptr, _array_form("cupy", memory.device_id, x.dtype, x.shape, x.strides))


def new_array(like: View, shape: tuple[int, ...], *, zeros: bool = False, kind: str = "") -> View:
    """A new array of the library and device of another, and of its kind, or of one that its library has.

    Raises ResourceError where it does not fit, UnsupportedError for bfloat16 where the library has none.

    >>> import numpy
    >>> new_array(view(numpy.zeros(3, "f4")), (2, 5)).array.dtype.name
    'float32'
    """
    if kind == "bfloat16" and like.form.library != "torch":
        raise UnsupportedError(f"a result of bfloat16: {like.form.library} has no such type, PyTorch has")
    form = _dense(like.form, shape, kind or like.form.kind)
    nbytes = form.elems * form.itemsize
    if form.device is None:
        most = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
        if nbytes > most:
            raise ResourceError("bytes of memory", nbytes, most)
        if form.library == "torch":
            return view(_new_tensor(like, shape, kind, zeros=zeros))
        import numpy

        return view((numpy.zeros if zeros else numpy.empty)(shape, kind or like.array.dtype))
    if form.library == "cupy":
        with on_device(form.device):
            array = (device_array if zeros else device_empty)(shape, kind or like.array.dtype)
        return View(array, array.data.ptr, form)
    torch = sys.modules["torch"]
    try:
        array = _new_tensor(like, shape, kind, zeros=zeros)
    except torch.cuda.OutOfMemoryError as error:
        raise no_memory(torch, form.device, nbytes) from error
    return View(array, array.data_ptr(), form)


def no_memory(torch: Any, device: int | None, asked: int) -> ResourceError:
    """The error for so many bytes that PyTorch cannot allocate on a GPU, with the free ones.

    >>> from types import SimpleNamespace
    >>> print(no_memory(SimpleNamespace(cuda=SimpleNamespace(mem_get_info=lambda device: (7, 8))), 0, 960))
    bytes of GPU memory: 960 asked, the limit is 7
    """
    return ResourceError("bytes of GPU memory", asked, torch.cuda.mem_get_info(device)[0])


def _new_tensor(like: View, shape: tuple[int, ...], kind: str, *, zeros: bool) -> Any:
    made = like.array.new_zeros if zeros else like.array.new_empty
    return made(shape, dtype=getattr(sys.modules["torch"], kind)) if kind else made(shape)


@functools.lru_cache(KEPT_FORMS)
def _dense(like: Form, shape: tuple[int, ...], kind: str) -> Form:
    """The form of a new array: row-major."""
    import numpy

    if kind == like.kind:
        itemsize = like.itemsize
    elif kind == "bfloat16":
        itemsize = 2
    else:
        itemsize = numpy.dtype(kind).itemsize
    strides = tuple(itemsize * d for d in compact_strides(shape))
    return form_of(like.library, like.device, kind, itemsize, shape, strides)


def launching(v: View) -> contextlib.AbstractContextManager[object]:
    """Return a context in which launches run on the device of an array.

    >>> import numpy
    >>> with launching(view(numpy.zeros(3))):
    ...     pass
    """
    return contextlib.nullcontext() if v.form.device is None else on_device(v.form.device)


def check_result(
    x: View, out: View, shape: tuple[int, ...], kinds: Collection[str], name: str = "out"
) -> None:
    """Raise unless results of such a shape, of one of the `kinds`, computed from x, can be written to `out`.

    Raises ShapeError for another shape, ArgumentTypeError where `out` is of another library, device or kind,
    or read-only.

    >>> import numpy
    >>> check_result(view(numpy.zeros(3, "f4")), view(numpy.zeros((2, 5), "f4")), (2, 5), ["float32"])
    """
    if out.form.shape != shape:
        raise ShapeError(f"{name} has shape {out.form.shape}; the result has {shape}")
    check_fellows(x, out, name)
    if out.form.kind not in kinds:
        several = " or ".join(dict.fromkeys(kinds))
        raise ArgumentTypeError(f"{name} holds {out.form.kind}, x {x.form.kind}: {name} may hold {several}")
    if out.host is not None and not out.host.flags.writeable:
        raise ArgumentTypeError(f"{name} is read-only")


def check_apart(given: Mapping[str, View], in_place: str = "", written: str = "out") -> None:
    """Raise where results in `written` would overwrite data that is still read; one array may be that itself.

    >>> import numpy
    >>> check_apart({name: view(numpy.zeros(3)) for name in ("x", "out")})
    """
    out = given[written]
    for name, v in given.items():
        if name == written or not overlapping(v, out):
            continue
        if name != in_place or v.address != out.address or not lie_alike(v.form, out.form):
            hint = f"; {name} may be {written} itself, element for element" if name == in_place else ""
            raise ArgumentTypeError(
                f"{written} overlaps {name}: results would be written over what is still read{hint}"
            )


def ints_of(axes: Any, needed: str) -> tuple[int, ...]:
    """Axes as integers.  Raises ArgumentTypeError, which says what is `needed`.

    >>> ints_of([1, 0], "a sequence of ints is")
    (1, 0)
    """
    try:
        given = tuple(axes)
        numbers = tuple(map(operator.index, given))
    except TypeError as error:
        raise ArgumentTypeError(f"axes {shown(axes)}: {needed} needed") from error
    if bool in map(type, given):
        raise ArgumentTypeError(f"axes {shown(axes)}: {needed} needed, and a bool is none")
    return numbers


def in_elements(shape: tuple[int, ...], strides: tuple[int, ...], width: int) -> tuple[int, ...]:
    """Strides in units of so many bytes, 0 along modes of one element.

    >>> in_elements((2, 1, 3), (12, 7, 4), 4)
    (3, 0, 1)
    """
    return tuple(d // width if n > 1 else 0 for n, d in zip(shape, strides, strict=True))


def flag(name: str, value: Any) -> bool:
    """An option that is True or False.  Raises ArgumentTypeError for another value.

    >>> flag("copy", True)
    True
    """
    if value is not True and value is not False:
        raise ArgumentTypeError(f"{name} is {shown(value)}: True or False is needed")
    return bool(value)


def check_fellows(x: View, other: View, name: str = "out", first: str = "x") -> None:
    """Raise ArgumentTypeError unless two arrays are of one library and on one device.

    >>> import numpy
    >>> check_fellows(view(numpy.zeros(3)), view(numpy.zeros(4)))
    """
    if x.form.library != other.form.library or x.form.device != other.form.device:
        raise ArgumentTypeError(
            f"{name} is {_place(other)}, {first} {_place(x)}: both must be of one library and on one device"
        )


def in_simulator(simulate: object, *views: View) -> bool:
    """Whether a call on these arrays runs in the simulator, which `simulate` selects.

    Raises ArgumentTypeError for another value than True and False and for arrays on a GPU, ResourceError for
    an array of elements past Most.ONE_BY_ONE.

    >>> import numpy
    >>> in_simulator(False), in_simulator(True, view(numpy.zeros(3)))
    (False, True)
    """
    chosen = flag("simulate", simulate)
    for v in views if chosen else ():
        if v.form.device is not None:
            raise ArgumentTypeError(
                f"an array is {_place(v)}, where its kernels run: simulate=True is for arrays on the CPU"
            )
        Most.ONE_BY_ONE.guard(v.form.elems, "elements of an array that is simulated")
    return chosen


def fill(v: View, value: float) -> None:
    """Write one number everywhere.

    >>> import numpy
    >>> x = numpy.zeros(2, "f4")
    >>> fill(view(x), 1.5)
    >>> x.tolist()
    [1.5, 1.5]
    """
    with launching(v):
        if v.form.library == "torch":
            v.array.fill_(value)
        else:
            v.array.fill(value)


def unit_base(v: View) -> tuple[int, int]:
    """The 16-byte boundary before an array's first byte, and where its coordinate 0 is from there.

    >>> backwards = View(None, 0x1014, form_of("cupy", 0, "float32", 4, (3,), (-4,)))
    >>> backwards.span, unit_base(backwards)
    ((4108, 4120), (4096, 20))
    """
    base = v.address + v.form.low & -UNIT_BYTES
    return base, v.address - base


def overlapping(a: View, b: View) -> bool:
    """True where two arrays share a byte.

    >>> import numpy
    >>> x = numpy.zeros((4, 4))
    >>> overlapping(view(x[:, :2]), view(x[:, 2:])), overlapping(view(x[:3]), view(x[2:]))
    (False, True)
    """
    if not a.form.elems or not b.form.elems:
        return False
    low, end, other, other_end = *a.span, *b.span
    if low >= other_end or other >= end:
        return False
    first, second = (
        ComposedLayout(
            _PLAIN,
            v.span[0] - min(low, other),
            Layout((v.form.itemsize, *v.shape), (1, *map(abs, v.strides))),
        )
        for v in (a, b)
    )
    return find_overlap(first, second) is not None


@functools.lru_cache(KEPT_FORMS)
def lie_alike(a: Form, b: Form) -> bool:
    """Whether arrays that start together have one shape, and their elements at the same places.

    >>> f, g = (form_of("numpy", None, "float32", 4, (3, 1), strides) for strides in ((4, 4), (4, 8)))
    >>> lie_alike(f, g)
    True
    """
    modes = zip(a.shape, a.strides, b.strides, strict=False)
    return a.shape == b.shape and all(n == 1 or d == e for n, d, e in modes)


def of_library(x: Any, result: View) -> Any:
    """A new array as the caller of `x` expects it: of x's library where that reads DLPack.

    >>> import numpy
    >>> of_library([1], view(numpy.zeros(3))).shape
    (3,)
    """
    if type(result.array) is type(x):
        return result.array
    read = loaded(type(x).__module__.partition(".")[0], "from_dlpack")
    return result.array if read is None else read(result.array)


@functools.lru_cache(KEPT_FORMS)
def _array_form(
    library: str, device: int | None, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]
) -> Form:
    """The form of an array of a NumPy type.  Raises UnsupportedError for Python objects, and as `form_of`."""
    if dtype.hasobject:
        raise UnsupportedError(f"elements of type {dtype}: 1, 2, 4, 8 and 16 bytes are accepted")
    kind = str(dtype.name if dtype.isnative else dtype.str)
    return form_of(library, device, kind, dtype.itemsize, shape, strides)


def _place(v: View) -> str:
    where = "the CPU" if v.form.device is None else f"GPU {v.form.device}"
    return f"an array of {v.form.library} on {where}"


def _resolved(x: Any) -> Any:
    """An array of a library that is not known by name, as a NumPy or CuPy array of the same memory."""
    import numpy

    if hasattr(x, "__cuda_array_interface__"):
        return device_view(x)
    if not hasattr(x, "__dlpack_device__"):
        raise ArgumentTypeError(f"{type(x).__name__} is no array: NumPy, CuPy, DLPack are understood")
    kind = int(x.__dlpack_device__()[0])
    if kind not in (_DLPACK_CPU, *_DLPACK_GPU):
        raise UnsupportedError(f"the array is on a device of DLPack kind {kind}; CPU and CUDA are known")
    return numpy.from_dlpack(x) if kind == _DLPACK_CPU else device_view(x)


def _of_tensor(x: Any, torch: ModuleType) -> View:
    """A PyTorch tensor as memory."""
    if x.layout is not torch.strided or x.is_quantized or x.is_conj() or x.is_neg():
        raise UnsupportedError("the tensor is sparse, quantised, or a conjugate or negative not yet computed")
    if x.requires_grad and torch.is_grad_enabled():
        raise UnsupportedError("the tensor records gradients, which kernels do not: detach() it")
    form = _tensor_form(x.device, x.dtype, x.shape, x.stride())
    host = None
    if form.device is None:
        host = x.detach().view(getattr(torch, TORCH_CARRIER[form.itemsize])).numpy()
    return View(x, x.data_ptr(), form, host)


@functools.lru_cache(KEPT_FORMS)
def _tensor_form(device: Any, dtype: Any, shape: tuple[int, ...], strides: tuple[int, ...]) -> Form:
    """The form of a tensor by PyTorch's names, with strides in elements."""
    if device.type not in ("cpu", "cuda"):
        raise UnsupportedError(f"the tensor is on a device of type {device.type}; cpu and cuda are known")
    kind, size = str(dtype).removeprefix("torch."), dtype.itemsize
    number = device.index if device.type == "cuda" else None
    return form_of("torch", number, kind, size, tuple(shape), tuple(d * size for d in strides))
