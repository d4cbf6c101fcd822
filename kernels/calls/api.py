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
from collections.abc import Callable, Iterable, Mapping
from math import gcd
from typing import Any, SupportsIndex

from layoutalg.codegen.instr import converted
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UnsupportedError, shown
from layoutalg.kernels import move
from layoutalg.kernels.calls.arrays import KEPT_FORMS, UNIT_BYTES, Form, View, in_elements, ints_of
from layoutalg.kernels.calls.operation import Call, Operation, nothing, words_in
from layoutalg.kernels.elements import ELEMENT, kind_of
from layoutalg.kernels.plan_cache import LOADED_PLANS
from layoutalg.layout import AnyLayout, ComposedLayout, Layout


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
    return PERMUTE.compute((axes, dtype), (x, out), simulate)


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
    return TRANSPOSE.compute((axes, dtype), (x, out), simulate)


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
    return RELAYOUT.compute((src, dst, dtype), (x, out), simulate)


# --- calls that are worked out -------------------------------------------------------------------------


def _permuted(
    call: Call, axes: Iterable[SupportsIndex] | None, dtype: Any, *, turned: bool = False
) -> Callable[[], object]:
    source = call.first
    form = source.form
    axes_asked: Any = range(len(form.shape))[::-1] if axes is None and turned else axes
    order, shape = _axes(axes_asked, form.shape)
    target = call.result(shape, (_kind(form.kind, dtype),))
    if not form.elems:
        return nothing
    kinds = [ELEMENT[v.form.kind] for v in (source, target) if form.kind != target.form.kind]

    def problem(starts: Mapping[str, int] | None) -> move.PermuteProblem:
        if starts is not None:
            return permute_of(form, order, target.form, starts["x"], starts["out"])
        element, result = kinds or (move.MOVED[form.itemsize], None)
        return move.permute_problem(form.shape, order, element, result=result)

    def define() -> None:
        data = words_in(source)
        words_in(target)[...] = (converted(data, *kinds) if kinds else data).transpose(order)

    return call.planned("permute", problem, define)


PERMUTE = Operation("permute", ("x", "out"), ("axes", "dtype"), _permuted)
TRANSPOSE = Operation("transpose", ("x", "out"), ("axes", "dtype"), functools.partial(_permuted, turned=True))


def _laid_out(call: Call, src: AnyLayout, dst: AnyLayout, dtype: Any) -> Callable[[], object]:
    for name, layout in (("src", src), ("dst", dst)):
        if not isinstance(layout, Layout | ComposedLayout):
            raise ArgumentTypeError(f"{name} is {shown(layout)}: a layout is needed")
    form = call.first.form
    kind = _kind(form.kind, dtype)
    element, result = move.MOVED[form.itemsize], None
    if kind != form.kind:
        element, result = ELEMENT[form.kind], ELEMENT[kind]
    out = call.views.get("out")
    length = _relayout(src, dst, element, None, result).target_elems
    call.result((length,) if out is None else out.shape, (kind,), zeros=True)
    source, target = (_flat(call.views[name], name) for name in ("x", "out"))
    p = _relayout(src, dst, element, (source.form.elems, target.form.elems), result)
    for v, swizzles in ((source, p.src_swizzle), (target, p.dst_swizzle)):
        required = UNIT_BYTES if swizzles else v.form.itemsize
        if v.address % required and v.form.device is not None:
            name = "x" if v is source else "out"
            raise AlignmentError(
                f"{name} starts at {v.address:#x}: relayout takes it at multiples of {required} bytes",
                offset=v.address,
                required_bytes=required,
            )

    def problem(starts: Mapping[str, int] | None) -> move.PermuteProblem:
        """The moves in buffers that start so many bytes earlier; of sides that are moved, no swizzles."""
        if starts is None or form.device is None:
            return p
        before, ahead = starts["x"] // p.element_bytes, starts["out"] // p.result_bytes
        return dataclasses.replace(
            p,
            src_offset=p.src_offset + before,
            dst_offset=p.dst_offset + ahead,
            source_elems=p.source_elems + before,
            target_elems=p.target_elems + ahead,
        )

    def define() -> None:
        of, to = (words_in(v).reshape(-1) for v in (source, target))
        to[...] = move.reference(p, of, to)

    return call.planned("permute", problem, define, zeros=True)


RELAYOUT = Operation("relayout", ("x", "out"), ("src", "dst", "dtype"), _laid_out)


# --- arguments -----------------------------------------------------------------------------------------


def _axes(axes: Iterable[SupportsIndex], shape: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[int, ...]]:
    """Axes from 0 on, and the shape of the result."""
    numbers = ints_of(axes, "a sequence of ints is")
    rank = len(shape)
    order = tuple(a + rank if -rank <= a < 0 else a for a in numbers)
    if sorted(order) != list(range(rank)):
        raise ShapeError(
            f"axes {shown(numbers)} are not a permutation of 0..{rank - 1}, the modes of {shape}"
        )
    return order, tuple(shape[a] for a in order)


def _flat(v: View, name: str) -> View:
    """A contiguous array as one mode."""
    form = v.form
    step = form.itemsize
    for n, d in zip(reversed(form.shape), reversed(form.strides), strict=True):
        if n > 1 and d != step:
            raise ShapeError(f"{name} has strides {form.strides}: relayout takes a contiguous buffer")
        step *= n
    return v._replace(form=form.laid((form.elems,), (form.itemsize,)))


def _kind(kind: str, dtype: Any) -> str:
    """NumPy's name of the type of a result.  Raises UnsupportedError for types that are not converted."""
    result = kind if dtype is None else kind_of(dtype)
    for each in (kind, result) if result != kind else ():
        if each not in ELEMENT:
            raise UnsupportedError(f"{kind} converted to {result}: {', '.join(ELEMENT)} are accepted")
    return result


# --- problems --------------------------------------------------------------------------------------


def problem_of(
    shape: tuple[int, ...], itemsize: int, src: tuple[int, ...], dst: tuple[int, ...],
    src_at: int, dst_at: int,
) -> move.PermuteProblem:  # fmt: skip
    """dst[i] = src[i] with strides and starts in bytes, in the widest pieces that all of them allow.

    >>> print(problem_of((4, 6), 4, (4, 16), (24, 4), 6, 0))
    permute (4,6,2) u16, src (2,8,1) -> dst (12,2,1) at 3 -> 0
    """
    unit = gcd(itemsize, src_at, dst_at, *(d for side in (src, dst) for d in in_elements(shape, side, 1)))
    of, to = ((*in_elements(shape, side, unit), 1) for side in (src, dst))
    return move.move_problem(
        (*shape, itemsize // unit), move.MOVED[unit], of, to, src_at // unit, dst_at // unit
    )


_relayout = functools.lru_cache(LOADED_PLANS)(move.relayout_problem)


@functools.lru_cache(KEPT_FORMS)
def permute_of(
    src: Form, order: tuple[int, ...], dst: Form, src_at: int, dst_at: int
) -> move.PermuteProblem:  # fmt: skip
    """The permutation between two forms of array, which start at bytes of 16-byte units.

    >>> from layoutalg.kernels.calls.arrays import form_of
    >>> f, g = (form_of("cupy", 0, "float32", 4, shape, (4 * shape[1], 4)) for shape in ((2, 3), (3, 2)))
    >>> print(permute_of(f, (1, 0), g, 4, 0))
    permute (3,2,1) u32, src (1,3,1) -> dst (2,1,1) at 1 -> 0
    """
    strides, shape = tuple(src.strides[a] for a in order), dst.shape
    if src.kind == dst.kind:
        return problem_of(shape, src.itemsize, strides, dst.strides, src_at, dst_at)
    for name, form, steps, at in (("x", src, strides, src_at), ("out", dst, dst.strides, dst_at)):
        for offset in (at, *in_elements(shape, steps, 1)):
            if offset % form.itemsize:
                raise AlignmentError(
                    f"{name} has an offset or a stride of {offset} bytes: elements of {form.kind} are "
                    f"converted at multiples of {form.itemsize}",
                    offset=offset,
                    required_bytes=form.itemsize,
                )
    of, to = in_elements(shape, strides, src.itemsize), in_elements(shape, dst.strides, dst.itemsize)
    starts = src_at // src.itemsize, dst_at // dst.itemsize
    return move.move_problem(shape, ELEMENT[src.kind], of, to, *starts, result=ELEMENT[dst.kind])
