"""The operations that move data: permute, transpose and relayout of arrays on a GPU or the CPU.

The idea.  An array is an address, a shape and strides (see arrays).  Arrays on a GPU (CuPy, PyTorch,
anything with __cuda_array_interface__ or DLPack) are moved by a kernel that is planned for exactly this
problem, compiled once and kept, on disk too; arrays on the CPU by NumPy, or with simulate=True by the same
kernel in the simulator.

    y = layoutalg.ops.permute(x, (0, 3, 1, 2))                       NHWC to NCHW, as x.transpose(...) copied
    y = layoutalg.ops.permute(x, (0, 3, 1, 2), dtype="float16")      the same, converted on the way
    y = layoutalg.ops.relayout(x, nhwc, nc32hw32)                    any two layouts of one domain

Notes.  Elements are moved, never interpreted, except those that are converted (`codegen.instr.convert`
states how they are rounded).  What starts or strides at no multiple of its element is moved in narrower
pieces, or refused where it is converted.  Kernels run on the current stream of the array's library: a call
returns before the data has moved.  An array without elements is a no-op.
"""

from __future__ import annotations

import dataclasses
import functools
import operator
from collections.abc import Callable, Iterable
from math import gcd
from typing import Any, SupportsIndex

from layoutalg.codegen.gpu import LoadedSequence
from layoutalg.codegen.instr import converted
from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.kernels.calls.arrays import (
    KEPT_FORMS,
    UNIT_BYTES,
    Form,
    View,
    destination,
    form_of,
    in_simulator,
    launching,
    new_array,
    of_library,
    overlapping,
    unit_base,
    view,
)
from layoutalg.kernels.calls.repeated import Call, Prepared, launched, nothing, repeated
from layoutalg.kernels.elements import CARRIER, ELEMENT, kind_of
from layoutalg.kernels.move import (
    Moves,
    PermuteProblem,
    best_permute,
    build_permute,
    move_problem,
    normalise,
    permute_problem,
    reference,
    relayout_problem,
)
from layoutalg.kernels.plan_cache import LOADED_PLANS, sequence_on_gpu
from layoutalg.layout import AnyLayout, ComposedLayout, Layout

_DTYPE = {1: "u8", 2: "u16", 4: "u32", 8: "u64", 16: "c128"}


def permute(
    x: Any, axes: Iterable[SupportsIndex], out: Any = None, dtype: Any = None, *, simulate: bool = False
) -> Any:
    """A copy of x with its modes permuted: mode k of the result is mode axes[k] of x, as in NumPy.

    `out`, if given, is written and returned; it may have any strides that do not alias.  `dtype` is the type
    of the result, x's own where it is not given: float64, float32, float16, bfloat16, uint8, int8, int16,
    int32 or int64 of any of these.  Floats are rounded to the nearest, ties to even; a float becomes an
    integer towards zero, NaN 0, and what is past its ends the nearest end; integers are taken modulo 2^n.
    `simulate` runs the kernel for an array on the CPU in the simulator, up to 2^16 elements.

    Raises ShapeError where axes are not a permutation or `out` does not fit, UnsupportedError for elements
    that are not 1, 2, 4, 8 or 16 bytes wide and for types that are not converted, NotInjectiveError for an
    `out` that aliases, ArgumentTypeError for what is not an array or a type, for an `out` of another type and
    where x and `out` overlap, AlignmentError for elements that are converted and do not start at a multiple
    of their width, ResourceError where the result does not fit into memory, or is simulated and too large.

    >>> import numpy
    >>> permute(numpy.arange(6).reshape(2, 3), (1, 0)).tolist()
    [[0, 3], [1, 4], [2, 5]]
    >>> permute(numpy.array([[2.5, -1.5, 300.0]]), (1, 0), dtype="uint8").tolist()
    [[2], [0], [255]]
    """
    if simulate is False and (found := repeated("permute", axes, (dtype,), (x, out))) is not None:
        return found
    return prepare_move("permute", x, axes, out, dtype, simulate=simulate)()


def transpose(
    x: Any, axes: Iterable[SupportsIndex] | None = None, out: Any = None, dtype: Any = None, *,
    simulate: bool = False,
) -> Any:  # fmt: skip
    """A copy of x with its modes reversed, or permuted by `axes`; `dtype` as in `permute`, whose errors it
    raises.

    >>> import numpy
    >>> transpose(numpy.zeros((2, 3, 5))).shape
    (5, 3, 2)
    """
    if simulate is False and (found := repeated("transpose", axes, (dtype,), (x, out))) is not None:
        return found
    return prepare_move("transpose", x, axes, out, dtype, simulate=simulate)()


def prepare_move(
    op: str, x: Any, axes: Iterable[SupportsIndex] | None, out: Any = None, dtype: Any = None, *,
    simulate: bool = False,
) -> Prepared:  # fmt: skip
    """A "permute" or a "transpose" that is worked out.  Raises as these do.

    >>> import numpy
    >>> x, y = numpy.arange(6).reshape(2, 3), numpy.zeros((3, 2), int)
    >>> turn = prepare_move("transpose", x, None, y)
    >>> x[0, 0] = 9
    >>> turn().tolist()
    [[9, 3], [1, 4], [2, 5]]
    """
    source = view(x)
    form, simulated = source.form, in_simulator(simulate, source)
    asked: Any = range(len(form.shape))[::-1] if axes is None and op == "transpose" else axes
    order, shape = _axes(asked, form.shape)
    target = _result(source, shape, out, dtype)
    run: Callable[[], object] = nothing
    if form.elems:
        if out is not None:
            _check_apart(source, target)
        (src, src_at), (dst, dst_at) = unit_base(source), unit_base(target)
        if form.device is None:
            _permute_of(form, order, target.form, src_at, dst_at)  # raises where `out` aliases
            run = functools.partial(_permute_here, source, target, order, simulated=simulated)
        else:
            with launching(source):
                sequence = permute_on_gpu(form, order, target.form, src_at, dst_at)
                pointers = {"src": (1, src - source.address), "dst": (2, dst - target.address)}
                call = Call(op, axes, (dtype,), (x, out))
                run = launched(call, source, (), target, [(sequence, {})], pointers)
    return Prepared(run, functools.partial(of_library, x, target) if out is None else lambda: out)


def relayout(
    x: Any, src: AnyLayout, dst: AnyLayout, out: Any = None, dtype: Any = None, *, simulate: bool = False
) -> Any:
    """A flat buffer y with y[dst(i)] = x[src(i)] for every coordinate i of two layouts of one domain.

    x is a contiguous array of at least cosize(src) elements, read as a flat buffer; y has cosize(dst)
    elements, zeros where no element goes, unless `out` is given; `dtype` as in `permute`.  Raises as
    `relayout_problem` and `permute` do, AlignmentError for GPU buffers that do not start at an element, or at
    a multiple of 16 bytes where the layout is swizzled.

    >>> import numpy
    >>> relayout(numpy.arange(6), Layout((2, 3), (3, 1)), Layout((2, 3))).tolist()
    [0, 3, 1, 4, 2, 5]
    """
    if simulate is False and (found := repeated("relayout", None, (src, dst, dtype), (x, out))) is not None:
        return found
    return prepare_relayout(x, src, dst, out, dtype, simulate=simulate)()


def prepare_relayout(
    x: Any, src: AnyLayout, dst: AnyLayout, out: Any = None, dtype: Any = None, *, simulate: bool = False
) -> Prepared:
    """A prepared `relayout`.  Raises as `relayout` does.

    >>> import numpy
    >>> x = numpy.arange(4)
    >>> turn = prepare_relayout(x, Layout((2, 2), (2, 1)), Layout((2, 2)), numpy.zeros(4, int))
    >>> x[0] = 7
    >>> turn().tolist()
    [7, 2, 1, 3]
    """
    for name, layout in (("src", src), ("dst", dst)):
        if not isinstance(layout, Layout | ComposedLayout):
            raise ArgumentTypeError(f"{name} is {shown(layout)}: a layout is needed")
    source = _flat(view(x), "x")
    simulated = in_simulator(simulate, source)
    kind = _kind(source.form.kind, dtype)
    element, result = _DTYPE[source.form.itemsize], None
    if kind != source.form.kind:
        element, result = ELEMENT[source.form.kind], ELEMENT[kind]
    length = _relayout(src, dst, element, None, result).target_elems
    if out is None:
        target = _result(source, (length,), None, kind, zeros=True)
    else:
        target = _flat(_result(source, view(out).shape, out, kind), "out")
    p = _relayout(src, dst, element, (source.shape[0], target.shape[0]), result)
    _check_apart(source, target)
    device = source.form.device
    run: Callable[[], object]
    if device is None:
        run = functools.partial(_relayout_here, p, source, target, simulated=simulated)
    else:
        for name, v, swizzles in (("x", source, p.src_swizzle), ("out", target, p.dst_swizzle)):
            required = UNIT_BYTES if swizzles else v.form.itemsize
            if v.address % required:
                raise AlignmentError(
                    f"{name} starts at {v.address:#x}: relayout takes it at multiples of {required} bytes",
                    offset=v.address,
                    required_bytes=required,
                )
        (of, src_at), (to, dst_at) = unit_base(source), unit_base(target)
        if src_at or dst_at:
            p = _moved_up(p, src_at // p.element_bytes, dst_at // p.result_bytes)
        with launching(source):
            sequence = sequence_on_gpu("permute", p, device)
            pointers = {"src": (1, of - source.address), "dst": (2, to - target.address)}
            call = Call("relayout", None, (src, dst, dtype), (x, out))
            run = launched(call, source, (), target, [(sequence, {})], pointers, zeros=True)
    return Prepared(run, functools.partial(of_library, x, target) if out is None else lambda: out)


# --- arguments -----------------------------------------------------------------------------------------


def _axes(axes: Iterable[SupportsIndex], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes from 0 on, and the shape of the result."""
    try:
        given = tuple(axes)
        asked = tuple(map(operator.index, given))
    except TypeError as error:
        raise ArgumentTypeError(f"axes {shown(axes)}: a sequence of ints is needed") from error
    if bool in map(type, given):
        raise ArgumentTypeError(f"axes {shown(axes)}: a sequence of ints is needed, and a bool is none")
    return _order(asked, shape)


@functools.lru_cache(KEPT_FORMS)
def _order(asked: tuple[int, ...], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    rank = len(shape)
    order = tuple(a + rank if -rank <= a < 0 else a for a in asked)
    if sorted(order) != list(range(rank)):
        raise ShapeError(f"axes {shown(asked)} are not a permutation of 0..{rank - 1}, the modes of {shape}")
    return order, tuple(shape[a] for a in order)


def _flat(v: View, name: str) -> View:
    """A contiguous array as one mode."""
    form = v.form
    step = form.itemsize
    for n, d in zip(reversed(form.shape), reversed(form.strides), strict=True):
        if n > 1 and d != step:
            raise ShapeError(f"{name} has strides {form.strides}: relayout takes a contiguous buffer")
        step *= n
    flat = form_of(form.library, form.device, form.kind, form.itemsize, (form.elems,), (form.itemsize,))
    return v._replace(form=flat)


def _kind(kind: str, dtype: Any) -> str:
    """NumPy's name of the type of a result.  Raises UnsupportedError for types that are not converted."""
    asked = kind if dtype is None else kind_of(dtype)
    for each in (kind, asked) if asked != kind else ():
        if each not in ELEMENT:
            raise UnsupportedError(f"{kind} converted to {asked}: {', '.join(ELEMENT)} are accepted")
    return asked


def _result(source: View, shape: tuple[int, ...], out: Any, dtype: Any, *, zeros: bool = False) -> View:
    """The array that is written: `out`, which has to have the requested type, or a new one."""
    kind = _kind(source.form.kind, dtype)
    if out is not None:
        return destination(source, shape, out, kinds=(kind,))
    return new_array(source, shape, zeros=zeros, kind=kind if kind != source.form.kind else "")


def _check_apart(source: View, target: View) -> None:
    if overlapping(source, target):
        raise ArgumentTypeError("x and out overlap: a permutation cannot be done in place")


# --- problems and kernels, kept ------------------------------------------------------------------------


def problem_of(
    shape: tuple[int, ...],
    itemsize: int,
    src: tuple[int, ...],
    dst: tuple[int, ...],
    src_at: int,
    dst_at: int,
) -> PermuteProblem:
    """dst[i] = src[i] with strides and starts in bytes, in the widest pieces that all of them allow.

    >>> print(problem_of((4, 6), 4, (4, 16), (24, 4), 6, 0))
    permute (4,6,2) u16, src (2,8,1) -> dst (12,2,1) at 3 -> 0
    """
    unit = gcd(itemsize, src_at, dst_at)
    for n, s, d in zip(shape, src, dst, strict=True):
        unit = gcd(unit, s, d) if n > 1 else unit
    of, to = (
        (*(d // unit if n > 1 else 0 for n, d in zip(shape, strides, strict=True)), 1)
        for strides in (src, dst)
    )
    pieces = itemsize // unit
    return move_problem((*shape, pieces), _DTYPE[unit], of, to, src_at // unit, dst_at // unit)


_relayout = functools.lru_cache(LOADED_PLANS)(relayout_problem)


def _moved_up(p: PermuteProblem, src: int, dst: int) -> PermuteProblem:
    """The same moves in buffers that start so many elements earlier; of sides that are moved, no swizzles."""
    return dataclasses.replace(
        p,
        src_offset=p.src_offset + src,
        dst_offset=p.dst_offset + dst,
        source_elems=p.source_elems + src,
        target_elems=p.target_elems + dst,
    )


def _cast_problem(
    shape: tuple[int, ...], of: Form, src: tuple[int, ...], to: Form, src_at: int, dst_at: int
) -> PermuteProblem:
    """The same as `problem_of` for elements that are converted.  Raises AlignmentError where one is cut."""
    sides = []
    for name, form, strides, at in (("x", of, src, src_at), ("out", to, to.strides, dst_at)):
        width = form.itemsize
        for offset in (at, *(d for n, d in zip(shape, strides, strict=True) if n > 1)):
            if offset % width:
                raise AlignmentError(
                    f"{name} has an offset or a stride of {offset} bytes: elements of {form.kind} are "
                    f"converted at multiples of {width}",
                    offset=offset,
                    required_bytes=width,
                )
        sides.append(tuple(d // width if n > 1 else 0 for n, d in zip(shape, strides, strict=True)))
    offsets = src_at // of.itemsize, dst_at // to.itemsize
    return move_problem(shape, ELEMENT[of.kind], sides[0], sides[1], *offsets, result=ELEMENT[to.kind])


@functools.lru_cache(KEPT_FORMS)
def _permute_of(
    src: Form, order: tuple[int, ...], dst: Form, src_at: int, dst_at: int
) -> PermuteProblem:  # fmt: skip
    """The permutation between two forms of array, which start at bytes of 16-byte units."""
    strides = tuple(src.strides[a] for a in order)
    if src.kind != dst.kind:
        return _cast_problem(dst.shape, src, strides, dst, src_at, dst_at)
    return problem_of(dst.shape, src.itemsize, strides, dst.strides, src_at, dst_at)


@functools.lru_cache(LOADED_PLANS)
def permute_on_gpu(
    src: Form, order: tuple[int, ...], dst: Form, src_at: int, dst_at: int
) -> LoadedSequence:  # fmt: skip
    """Its kernel, on the current GPU."""
    return sequence_on_gpu("permute", _permute_of(src, order, dst, src_at, dst_at), src.device)


# --- running -------------------------------------------------------------------------------------------


def _bits(host: Any) -> Any:
    """A NumPy array as elements that carry bits."""
    return host.view(CARRIER[host.itemsize])


def _relayout_here(p: PermuteProblem, source: View, target: View, *, simulated: bool) -> None:
    """Move between layouts on the CPU: by the definition, or by the kernel in the simulator."""
    of, to = _bits(source.host).reshape(-1), _bits(target.host).reshape(-1)
    to[...] = _run(p, of, to) if simulated else reference(p, of, to)


def _permute_here(source: View, target: View, order: tuple[int, ...], *, simulated: bool) -> None:
    """Permute on the CPU: by NumPy, or by the kernel in the simulator."""
    import numpy

    data, place = _bits(source.host), _bits(target.host)
    kinds = [ELEMENT[v.form.kind] for v in (source, target) if source.form.kind != target.form.kind]
    if not simulated:
        place[...] = (converted(data, *kinds) if kinds else data).transpose(order)
        return
    element, result = kinds or (_DTYPE[data.itemsize], None)
    p = permute_problem(data.shape, order, element, result=result)
    place[...] = _run(p, data.ravel(), numpy.zeros(data.size, place.dtype)).reshape(p.shape)


@functools.lru_cache(LOADED_PLANS)
def _program(x: Moves) -> Kernel:
    """The program that the simulator runs: the same that is printed."""
    return printed(build_permute(x, best_permute(x)))


def _run(p: PermuteProblem, source: Any, old: Any) -> Any:
    """The destination after the plan's best kernel has run in the simulator."""
    import numpy

    x = normalise(p)
    buffers = []
    for array, wide in ((source, x.element_bytes), (old, x.result_bytes)):
        raw = numpy.zeros(-(-array.nbytes // wide) * wide, dtype="u1")
        raw[: array.nbytes] = array.view("u1")
        buffers.append(raw)
    simulate(_program(x), {"src": buffers[0], "dst": buffers[1]}, trace=False)
    return buffers[1][: old.nbytes].view(old.dtype)
