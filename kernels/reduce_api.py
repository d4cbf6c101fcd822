"""What users call to reduce data: reduce, softmax and layer_norm of arrays, over any axes, wherever they are.

The idea.  As in kernels.api: an array is an address, a shape and strides, and a problem's kernels are planned
for it, compiled once and kept.

    layoutalg.reduce(x, "sum", (0, 2, 3))                     a value a channel of NCHW
    layoutalg.softmax(x, 0)                                   over columns as fast as over rows
    layoutalg.layer_norm(x, -1, weight, bias)

Elements are float32, float16 or bfloat16, results of the same type; what is computed between is float32 on a
GPU and in the simulator, which small arrays on the CPU go through, and float64 in NumPy, for larger ones.

Notes.  Sums are made in a fixed order: equal calls give equal bits.  A maximum, a softmax and a layer norm of
NaN are NaN.  A sum of nothing is 0, a mean of nothing NaN, a maximum of nothing is refused.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from math import prod
from typing import Any, SupportsIndex, TypeAlias

from layoutalg.codegen.runtime import require_gpu
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.kernels import norm_modes, reduce_family
from layoutalg.kernels.api import KEPT_KERNELS, SIMULATED_ELEMS
from layoutalg.kernels.arrays import (
    View,
    check_fellows,
    destination,
    fill,
    launching,
    new_array,
    of_library,
    overlapping,
    unit_base,
    view,
)
from layoutalg.kernels.chains import (
    UNIT_BYTES,
    LoadedChain,
    bits_of,
    chain_of,
    load_chain,
    numbers_of,
    prepare_chain,
    simulate_chain,
)
from layoutalg.kernels.norm_modes import OPS, NormProblem, norm_problem
from layoutalg.kernels.reduce_modes import find_axes
from layoutalg.kernels.reduce_plan import FOLD, ReduceProblem, reduce_problem

Axes: TypeAlias = "SupportsIndex | Iterable[SupportsIndex] | None"
"""One axis, several, or None for all; negative ones count from the last."""

Place: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...], int, int] | tuple[()]"
"""Strides of source and destination, and their offsets, in elements; (): dense arrays."""

ELEMENT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}
"""Element types that can be computed with, by NumPy's names."""


def reduce(x: Any, op: str, axes: Axes = None, keepdims: bool = False, out: Any = None) -> Any:
    """The "sum", "max" or "mean" of x over some axes, all by default.

    With `keepdims` these stay, of extent 1.  The result has x's type, or that of `out`, which may be float32.
    Raises UnknownNameError for another operation, ShapeError for axes that x has not, another shape of `out`
    and a maximum of nothing, UnsupportedError for other elements, NotInjectiveError for an `out` that
    aliases, ArgumentTypeError for what is no array and where x and `out` overlap, AlignmentError for elements
    that do not start at multiples of their width, ResourceError where the result does not fit into memory.

    >>> import numpy
    >>> reduce(numpy.arange(6, dtype="f4").reshape(2, 3), "sum", 1).tolist()
    [3.0, 12.0]
    """
    if op not in FOLD:
        raise UnknownNameError("reduction", str(op), FOLD)
    source = view(x)
    element, reduced = _element(source, op), _axes(axes, len(source.shape))
    kept = tuple(1 if k in reduced else n for k, n in enumerate(source.shape))
    shape = kept if keepdims else tuple(n for k, n in enumerate(source.shape) if k not in reduced)
    target = destination(source, shape, out, kinds=(source.kind, "float32"))
    ask = _Ask(op, source.shape, reduced, element, _element(target, op))
    if prod(source.shape):
        if out is not None:
            _check_apart(source, target)
        steps = iter(target.strides)
        strides = tuple(next(steps) if keepdims or k not in reduced else 0 for k in range(len(kept)))
        _compute(ask, source, replace(target, shape=kept, strides=strides), {})
    else:
        p = _dense(ask)
        if isinstance(p, ReduceProblem) and p.of_nothing is not None:
            fill(target, p.of_nothing)
    return of_library(x, target) if out is None else out


def softmax(x: Any, axes: Axes = -1, out: Any = None) -> Any:
    """e^x over its sum along some axes, the last by default; safe for any magnitude.  `out` may be x itself.

    Raises as `reduce` does.

    >>> import numpy
    >>> softmax(numpy.zeros((2, 4), "f4")).tolist()
    [[0.25, 0.25, 0.25, 0.25], [0.25, 0.25, 0.25, 0.25]]
    """
    return _norm("softmax", x, axes, out, {}, 0.0)


def layer_norm(
    x: Any, axes: Axes = -1, weight: Any = None, bias: Any = None, eps: float = 1e-5, out: Any = None
) -> Any:
    """(x - mean) / sqrt(variance + eps) * weight + bias, the mean and variance over some axes.

    Weight and bias, if given, are contiguous arrays of the shape of these axes, in their order, and of x's
    type.  `out` may be x itself.  Raises as `reduce` does, ShapeError for an eps that is negative.

    >>> import numpy
    >>> layer_norm(numpy.array([[1, 3], [2, 2]], "f4"), eps=3.0).tolist()
    [[-0.5, 0.5], [0.0, 0.0]]
    """
    given = {name: view(v) for name, v in (("weight", weight), ("bias", bias)) if v is not None}
    return _norm("layer_norm", x, axes, out, given, eps)


def _norm(op: str, x: Any, axes: Axes, out: Any, given: Mapping[str, View], eps: float) -> Any:
    source = view(x)
    element, reduced = _element(source, op), _axes(axes, len(source.shape))
    for name, v in given.items():
        _check_parameter(source, tuple(source.shape[k] for k in reduced), name, v)
    target = destination(source, source.shape, out, kinds=(source.kind,))
    in_place = (source.address, source.strides) == (target.address, target.strides)
    if out is not None:
        for v in (*given.values(), *(() if in_place else (source,))):
            _check_apart(v, target)
    ask = _Ask(
        op, source.shape, reduced, element, element, eps, "weight" in given, "bias" in given, in_place
    )  # fmt: skip
    if prod(source.shape):
        _compute(ask, source, target, given)
    else:
        _dense(ask)  # raises what has to be refused of arrays without elements too
    return of_library(x, target) if out is None else out


# --- arguments -----------------------------------------------------------------------------------------


def _element(v: View, op: str) -> str:
    if v.kind not in ELEMENT:
        raise UnsupportedError(f"{op} of {v.kind} elements: {', '.join(ELEMENT)} are accepted")
    return ELEMENT[v.kind]


def _axes(axes: Axes, rank: int) -> tuple[int, ...]:
    several: Any = (axes,) if hasattr(axes, "__index__") else axes
    try:
        asked = None if axes is None else tuple(map(operator.index, several))
    except TypeError as error:
        raise ArgumentTypeError(f"axes {axes!r}: an int, several, or None for all are needed") from error
    return _find_axes(asked, rank)


_find_axes = functools.lru_cache(KEPT_KERNELS)(find_axes)


def _check_apart(source: View, target: View) -> None:
    if overlapping(source, target):
        raise ArgumentTypeError("an input and out overlap: results would be written over what is still read")


def _check_parameter(x: View, shape: tuple[int, ...], name: str, v: View) -> None:
    """Raise unless a weight or bias is contiguous, of a shape, and of x's type, library and device."""
    check_fellows(x, v, name)
    if v.kind != x.kind:
        raise ArgumentTypeError(f"{name} holds {v.kind}, x {x.kind}: both must be of one type")
    if v.shape != shape:
        raise ShapeError(f"{name} has shape {v.shape}; the axes have {shape}")
    row_major = tuple(v.itemsize * prod(shape[k + 1 :]) for k in range(len(shape)))
    if any(n > 1 and d != s for n, d, s in zip(shape, v.strides, row_major, strict=True)):
        raise ShapeError(f"{name} has strides {v.strides} in bytes; it must be contiguous")


# --- computing -----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Ask:
    """What is asked of a tensor, wherever it lies."""

    op: str
    shape: tuple[int, ...]
    axes: tuple[int, ...]
    element: str
    result: str
    eps: float = 0.0
    weight: bool = False
    bias: bool = False
    in_place: bool = False

    def problem(self, place: Place = ()) -> ReduceProblem | NormProblem:
        """The problem of tensors at a place; dense ones by default."""
        if self.op not in OPS:
            src, dst, at, to = place or (None, None, 0, 0)
            return reduce_problem(
                self.shape, self.axes, self.op, self.element, src, dst, at, to, self.result
            )  # fmt: skip
        return norm_problem(
            self.op, self.shape, self.axes, self.element, *place,
            eps=self.eps, weight=self.weight, bias=self.bias, in_place=self.in_place,
        )  # fmt: skip


@functools.lru_cache(KEPT_KERNELS)
def _dense(ask: _Ask) -> ReduceProblem | NormProblem:
    """What is asked, of dense tensors."""
    return ask.problem()


def _compute(ask: _Ask, source: View, target: View, given: Mapping[str, View]) -> None:
    """Compute what is asked; `target` has every mode of the source."""
    (src, of, src_at), (dst, to, dst_at) = _elements(source, "x"), _elements(target, "out")
    place = of, to, src_at, dst_at
    if source.device is None:
        ask.problem(place)  # raises where `out` aliases
        _compute_here(replace(ask, in_place=False), source, target, given)
        return
    with launching(source):
        chain = _loaded(ask, place, source.device)
        named = {"src": src, "dst": dst} | {name: v.address for name, v in given.items()}
        if chain.partial_bytes:
            scratch = new_array(source, (-(-chain.partial_bytes // source.itemsize),))
            named["partial"] = scratch.address
        chain(named)


@functools.lru_cache(KEPT_KERNELS)
def _loaded(ask: _Ask, place: Place, device: int) -> LoadedChain:
    """The chain of a problem, loaded on the current GPU, whose number is `device`."""
    arch = require_gpu().arch
    return load_chain(prepare_chain(chain_of(ask.problem(place), arch), arch))


def _elements(v: View, name: str) -> tuple[int, tuple[int, ...], int]:
    """The boundary before an array, its strides and where it starts from there, in elements."""
    size = v.itemsize
    steps = _steps(v.shape, v.strides, size)
    if v.address % size or steps is None:
        raise AlignmentError(
            f"{name} starts at {v.address:#x} with strides {v.strides} in bytes: its elements must start at "
            f"multiples of {size}",
            offset=v.address,
            required_bytes=size,
        )
    base, at = unit_base(v)
    return base, steps, at // size


@functools.lru_cache(KEPT_KERNELS)
def _steps(shape: tuple[int, ...], strides: tuple[int, ...], size: int) -> tuple[int, ...] | None:
    """Strides in elements, of modes that have more than one; None where bytes are no whole elements."""
    steps = [d if n > 1 else 0 for n, d in zip(shape, strides, strict=True)]
    return None if any(d % size for d in steps) else tuple(d // size for d in steps)


WORDS = {"f32": "u4", "f16": "u2", "bf16": "u2"}
"""NumPy types that carry elements."""


def _compute_here(ask: _Ask, source: View, target: View, given: Mapping[str, View]) -> None:
    """The same on the CPU, of dense copies: small ones in the simulator, others by the definition."""
    import numpy

    p, word, result = _dense(ask), WORDS[ask.element], WORDS[ask.result]
    dense = {name: v.host.view(word).ravel() for name, v in {"src": source, **given}.items()}
    bits = target.host.view(result)
    if prod(ask.shape) <= SIMULATED_ELEMS:
        dst = numpy.zeros(bits.size, result)
        buffers = {name: _whole_units(array) for name, array in {**dense, "dst": dst}.items()}
        simulate_chain(_chain(p), buffers)
        bits[...] = buffers["dst"][: bits.size].reshape(bits.shape)
        return
    numbers = {name: numbers_of(array, ask.element) for name, array in dense.items()}
    if isinstance(p, ReduceProblem):
        exact = reduce_family.reference(p, numbers["src"])
    else:
        x = numbers["src"].reshape(ask.shape)
        exact = norm_modes.reference(p, x, numbers.get("weight"), numbers.get("bias"))
    bits[...] = bits_of(exact, ask.result).reshape(bits.shape)


_chain = functools.lru_cache(KEPT_KERNELS)(chain_of)


def _whole_units(array: Any) -> Any:
    """A copy that is whole 16-byte units long."""
    import numpy

    units = numpy.zeros(-(-array.nbytes // UNIT_BYTES) * UNIT_BYTES // array.itemsize, array.dtype)
    units[: array.size] = array
    return units
