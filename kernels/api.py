"""What users call: permute, transpose and relayout of arrays, wherever they are.

The idea.  An array is an address, a shape and strides.  Arrays on a GPU (CuPy, PyTorch, anything with
__cuda_array_interface__ or DLPack) are moved by a kernel that is planned for exactly this problem, compiled
once and kept; arrays on the CPU by the same kernel in the simulator while they are small, by NumPy after.

    y = layoutalg.permute(x, (0, 3, 1, 2))                       NHWC to NCHW, as x.transpose(...) copied
    y = layoutalg.relayout(x, nhwc, nc32hw32)                    any two layouts of one domain

Notes.  Elements are moved, never interpreted.  What starts or strides at no multiple of its element is moved
in narrower pieces.  Kernels run on CuPy's current stream.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from math import gcd, prod
from typing import Any

from layoutalg.algebra import find_overlap
from layoutalg.codegen.runtime import Loaded, device_array, device_view, load, require_gpu
from layoutalg.codegen.simulate import simulate
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.kernels.permute_family import build
from layoutalg.kernels.permute_modes import (
    CARRIER,
    WIDTHS_BYTES,
    Moves,
    PermuteProblem,
    move_problem,
    normalise,
    permute_problem,
    reference,
)
from layoutalg.kernels.permute_plan import configs
from layoutalg.kernels.permute_stage import PLAIN
from layoutalg.kernels.refinement import relayout_problem
from layoutalg.layout import Layout
from layoutalg.swizzle import AnyLayout, ComposedLayout

SIMULATED_ELEMS = 1 << 14
"""CPU arrays up to this size go through the simulator."""

_ALIGN_BYTES = 16
_DTYPE = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}
_DLPACK_CPU, _DLPACK_GPU = 1, (2, 13)


@dataclass(frozen=True, slots=True)
class _View:
    """An array as memory: `strides` in bytes; `array` keeps it alive."""

    array: Any
    address: int
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    dtype: Any
    on_gpu: bool

    @property
    def span(self) -> tuple[int, int]:
        """The first byte, and the one past the last."""
        steps = [(n - 1) * d for n, d in zip(self.shape, self.strides, strict=True)]
        low = self.address + sum(min(s, 0) for s in steps)
        return low, self.address + sum(max(s, 0) for s in steps) + self.dtype.itemsize


def permute(x: Any, axes: Sequence[int], out: Any = None) -> Any:
    """A copy of x with its modes permuted: mode k of the result is mode axes[k] of x, as in NumPy.

    `out`, if given, is written and returned; it may have any strides that do not alias.  Raises ShapeError
    where axes are no permutation or `out` does not fit, UnsupportedError for elements that are not 1, 2, 4,
    8 or 16 bytes wide, NotInjectiveError for an `out` that aliases, ArgumentTypeError for what is no array
    and where x and `out` overlap, ResourceError where the result does not fit into memory.

    >>> import numpy
    >>> permute(numpy.arange(6).reshape(2, 3), (1, 0)).tolist()
    [[0, 3], [1, 4], [2, 5]]
    """
    source = _view(x)
    rank = len(source.shape)
    axes = tuple(a + rank if isinstance(a, int) and -rank <= a < 0 else a for a in axes)
    if sorted(axes) != list(range(rank)):
        raise ShapeError(f"axes {axes} are no permutation of 0..{rank - 1}, the modes of {source.shape}")
    shape = tuple(source.shape[a] for a in axes)
    strides = tuple(source.strides[a] for a in axes)
    moved = _View(source.array, source.address, shape, strides, source.dtype, source.on_gpu)
    target = _target(source, shape, out)
    if prod(shape) == 0:
        return _returned(target, x, out)
    if source.on_gpu:
        _move_on_gpu(moved, target)
    else:
        _check_apart(moved, target)
        data = source.array.transpose(axes)
        if prod(shape) <= SIMULATED_ELEMS:
            p = permute_problem(source.shape, axes, _DTYPE[source.dtype.itemsize])
            data = _simulated(p, source.array.ravel(), prod(shape)).reshape(shape)
        target.array[...] = data
    return _returned(target, x, out)


def transpose(x: Any, axes: Sequence[int] | None = None, out: Any = None) -> Any:
    """A copy of x with its modes reversed, or permuted by `axes`.  Raises as `permute` does.

    >>> import numpy
    >>> transpose(numpy.zeros((2, 3, 5))).shape
    (5, 3, 2)
    """
    return permute(x, range(len(_view(x).shape))[::-1] if axes is None else axes, out)


def relayout(x: Any, src: AnyLayout, dst: AnyLayout, out: Any = None) -> Any:
    """A flat buffer y with y[dst(i)] = x[src(i)] for every coordinate i of two layouts of one domain.

    x is a contiguous array of at least cosize(src) elements, read as a flat buffer; y has cosize(dst)
    elements, zeros where no element goes, unless `out` is given.  Raises as `relayout_problem` and `permute`
    do.

    >>> import numpy
    >>> relayout(numpy.arange(6), Layout((2, 3), (3, 1)), Layout((2, 3))).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    source = _flat(_view(x), "x")
    p = relayout_problem(src, dst, _DTYPE[source.dtype.itemsize])
    length = p.target_elems
    target = _flat(_target(source, (length,), None) if out is None else _view(out), "out")
    if target.dtype.itemsize != source.dtype.itemsize or target.on_gpu != source.on_gpu:
        raise ArgumentTypeError(f"out holds {target.dtype}, x {source.dtype}: both must be of one kind")
    p = relayout_problem(src, dst, p.dtype, (source.shape[0], target.shape[0]))
    if source.on_gpu:
        if source.address % _ALIGN_BYTES or target.address % _ALIGN_BYTES:
            raise UnsupportedError("relayout needs buffers that start at multiples of 16 bytes")
        _check_apart(source, target)
        _launch(normalise(p), source.address, target.address)
    else:
        _check_apart(source, target)
        old = target.array.reshape(-1)
        small = prod(p.shape) <= SIMULATED_ELEMS
        carrier = CARRIER[source.dtype.itemsize]
        of, to = source.array.reshape(-1).view(carrier), old.view(carrier)
        to[...] = _run(p, of, to) if small else reference(p, of, to)
    return _returned(target, x, out)


# --- arrays --------------------------------------------------------------------------------------------


def _view(x: Any) -> _View:
    """Any array as memory.  Raises ArgumentTypeError for what is none, UnsupportedError for its elements."""
    import numpy

    interface = getattr(x, "__cuda_array_interface__", None)
    if interface is None and not isinstance(x, numpy.ndarray):
        if not hasattr(x, "__dlpack_device__"):
            raise ArgumentTypeError(f"{type(x).__name__} is no array: NumPy, CuPy, DLPack are understood")
        kind = int(x.__dlpack_device__()[0])
        if kind not in (_DLPACK_CPU, *_DLPACK_GPU):
            raise UnsupportedError(f"the array is on a device of DLPack kind {kind}; CPU and CUDA are known")
        x = numpy.from_dlpack(x) if kind == _DLPACK_CPU else device_view(x)
        interface = getattr(x, "__cuda_array_interface__", None)
    if interface is None:
        view = _View(x, x.ctypes.data, x.shape, x.strides, x.dtype, False)
    else:
        dtype = numpy.dtype(interface["typestr"])
        shape = tuple(interface["shape"])
        strides = interface.get("strides") or tuple(
            dtype.itemsize * prod(shape[k + 1 :]) for k in range(len(shape))
        )
        view = _View(x, int(interface["data"][0]), shape, tuple(strides), dtype, True)
    if view.dtype.itemsize not in WIDTHS_BYTES or view.dtype.hasobject:
        raise UnsupportedError(f"elements of type {view.dtype}: 1, 2, 4, 8 and 16 bytes are accepted")
    return view


def _flat(view: _View, name: str) -> _View:
    """A contiguous array as one mode."""
    length, step = prod(view.shape), view.dtype.itemsize
    for n, d in zip(reversed(view.shape), reversed(view.strides), strict=True):
        if n > 1 and d != step:
            raise ShapeError(f"{name} has strides {view.strides}: relayout takes a contiguous buffer")
        step *= n
    return _View(view.array, view.address, (length,), (view.dtype.itemsize,), view.dtype, view.on_gpu)


def _target(source: _View, shape: tuple[int, ...], out: Any) -> _View:
    """The destination: `out`, checked, or a new array."""
    import numpy

    if out is None:
        return _view(device_array(shape, source.dtype) if source.on_gpu else numpy.zeros(shape, source.dtype))
    target = _view(out)
    if target.shape != shape:
        raise ShapeError(f"out has shape {target.shape}; the result has {shape}")
    if target.dtype.itemsize != source.dtype.itemsize or target.on_gpu != source.on_gpu:
        raise ArgumentTypeError(f"out holds {target.dtype}, x {source.dtype}: both must be of one kind")
    return target


def _returned(target: _View, x: Any, out: Any) -> Any:
    """What the caller gets: `out`, or the new array as an array of x's library."""
    if out is not None:
        return out
    library = sys.modules.get(type(x).__module__.partition(".")[0])
    same = type(target.array) is type(x) or not hasattr(library, "from_dlpack")
    return target.array if same or library is None else library.from_dlpack(target.array)


def _check_apart(a: _View, b: _View) -> None:
    """Raise ArgumentTypeError where two arrays share a byte."""
    (low, end), (other, other_end) = a.span, b.span
    if low >= other_end or other >= end:
        return
    first, second = (
        ComposedLayout(
            PLAIN,
            view.span[0] - min(low, other),
            Layout((view.dtype.itemsize, *view.shape), (1, *map(abs, view.strides))),
        )
        for view in (a, b)
    )
    if find_overlap(first, second) is not None:
        raise ArgumentTypeError("x and out overlap: a permutation cannot be done in place")


# --- running -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Pointer:
    """An address that kernels take for an array."""

    address: int
    itemsize: int

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        kind = {1: "|u1", 2: "<u2", 4: "<u4", 8: "<u8", 16: "<c16"}[self.itemsize]
        return {"data": (self.address, False), "typestr": kind, "shape": (1,), "version": 3}


def _move_on_gpu(source: _View, target: _View) -> None:
    """Plan the problem that two arrays pose, and launch its kernel."""
    _check_apart(source, target)
    unit = gcd(source.dtype.itemsize, source.address, target.address)
    for n, s, d in zip(source.shape, source.strides, target.strides, strict=True):
        unit = gcd(unit, s, d) if n > 1 else unit
    pieces = source.dtype.itemsize // unit
    bases = [view.span[0] // _ALIGN_BYTES * _ALIGN_BYTES for view in (source, target)]
    offsets = [(view.address - base) // unit for view, base in zip((source, target), bases, strict=True)]
    src, dst = (
        (*(d // unit if n > 1 else 0 for n, d in zip(view.shape, view.strides, strict=True)), 1)
        for view in (source, target)
    )
    p = move_problem((*source.shape, pieces), _DTYPE[unit], src, dst, offsets[0], offsets[1])
    _launch(normalise(p), *bases)


def _launch(x: Moves, source: int, target: int) -> None:
    kernel = _compiled(x, require_gpu().arch)
    kernel(src=_Pointer(source, x.element_bytes), dst=_Pointer(target, x.element_bytes))


@functools.lru_cache(maxsize=256)
def _compiled(x: Moves, arch: str) -> Loaded:
    return load(build(x, configs(x, arch)[0]))


def _simulated(p: PermuteProblem, data: Any, length: int) -> Any:
    """A permute of contiguous data in the simulator, as a new flat array."""
    import numpy

    carrier = CARRIER[data.dtype.itemsize]
    return _run(p, data.view(carrier), numpy.zeros(length, carrier)).view(data.dtype)


def _run(p: PermuteProblem, source: Any, old: Any) -> Any:
    """The destination after the plan's best kernel has run in the simulator."""
    import numpy

    x = normalise(p)
    wide = x.element_bytes
    buffers = []
    for array in (source, old):
        raw = numpy.zeros(-(-array.nbytes // wide) * wide, dtype="u1")
        raw[: array.nbytes] = array.view("u1")
        buffers.append(raw)
    simulate(build(x, configs(x)[0]), {"src": buffers[0], "dst": buffers[1]}, trace=False)
    return buffers[1][: old.nbytes].view(old.dtype)
