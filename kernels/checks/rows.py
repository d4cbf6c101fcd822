"""Rows: the data on which reductions and norms are verified, and the bounds of results' errors.

Data.  A softmax of normal numbers is right to the last bit with any maximum.  So the elements that
share a statistic (a group of n) are drawn in several ways, and each is a launch of its own:

    normal        N(0, 1)
    ties          all elements of a group are equal: an element left out, or counted twice, changes n
    negative      all are far below 0: the neutral value must not be 0
    spikes        one element decides: the first, the last, or another one of each group.  For a maximum it is
                  256 above the others, so that e^x overflows without it; for a sum all others are 0
    NaN           one element of a group is NaN
    infinities    -infinity for one element, for all; +infinity; both
    extremes      largest and least numbers of the type and signed zeros; for sums, powers of two that cancel

The required result is that of the definition in IEEE 754: a maximum, a sum or a norm of a group with NaN
is NaN; a sum with one infinity is that infinity, with both NaN; a softmax of a group with +infinity, or with
-infinity alone, is NaN, and 0 where an element is -infinity otherwise; a layer norm of a group with any
infinity is NaN.  A result past the largest number of its type is infinite.

Bounds.  A sum whose elements pass through at most `d` additions differs from the true one by at most

    |s - exact| <= gamma sum |x|,    gamma = d u / (1 - d u)        (Higham 2002, section 4.2)

with u = 2^-24, since all sums are of floats.  A mean is a sum, a maximum is exact, and a result that is
narrower than a float is rounded once more.  A product of n numbers is rounded n - 1 times, whatever the
order.  A variance has the error of the mean: at each join u of the largest element, in d of them.  A
logsumexp has the error of its rounded exponents, which grows with their size, and of the logarithm.
Integers and indices are exact.  A softmax has the error of its rounded exponents, which grows with
their size; a layer norm that of the centred elements, which grows with the largest of a row.

Notes.  Offsets of 8192 lie under the spikes of every third group.  Partial sums stay far from overflow.

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from functools import partial
from math import prod
from types import MappingProxyType
from typing import Any

import numpy

from layoutalg.codegen.gpu import device_empty, random_normal
from layoutalg.dtype import DType
from layoutalg.errors import ShapeError
from layoutalg.kernels.elements import CARRIER, HALF_PLACE, INTEGERS, SMALLEST_SUM, in_units
from layoutalg.kernels.modes import places
from layoutalg.kernels.rowwise import AxesProblem, NormProblem, ReduceProblem, reduced, share_of

LARGEST = MappingProxyType(
    {"f32": (2 - 2.0**-23) * 2.0**127, "f16": 65504.0, "bf16": (2 - 2.0**-7) * 2.0**127}
)
"""The largest finite number of each type."""

OFFSETS, ABOVE = (0.0, 8192.0, -8192.0), 256.0
"""The levels below spikes, and their height above: e^256 is infinite in f32."""

_COMPARES = ("max", "min", "argmax", "argmin", "logsumexp", "softmax")
"""Operations in which the largest element decides."""


def _normal(rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    return rng.standard_normal((groups, n))


def _ties(rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    values = numpy.array([1.0, -2.0, 0.5, 3.0])[numpy.arange(groups) % 4]
    return numpy.repeat(values[:, None], n, axis=1)


def _negative(rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    return -8192.0 - 64.0 * rng.integers(0, 64, (groups, n))


def _spikes(where: str, rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    every = numpy.arange(groups)
    at = {"first": every * 0, "last": every * 0 + n - 1, "other": _places(rng, groups, n)}[where]
    if op in _COMPARES:
        x = rng.standard_normal((groups, n)) + numpy.array(OFFSETS)[every % 3][:, None]
        x[every, at] = x.max(axis=1) + ABOVE
        return x
    x = numpy.zeros((groups, n))
    x[every, at] = 1.0 + every % 5
    return x


def _nan(rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    x, every = rng.standard_normal((groups, n)), numpy.arange(groups)
    struck = every % 3 != 1
    x[every[struck], _places(rng, groups, n)[struck]] = numpy.nan
    return x


def _infinities(rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    x, every = rng.standard_normal((groups, n)), numpy.arange(groups)
    for word, of in ((-numpy.inf, 0), (numpy.inf, 1), (-numpy.inf, 3), (numpy.inf, 3)):
        struck = every[every % 4 == of]
        x[struck, _places(rng, groups, n)[struck]] = word
    x[every % 4 == 2] = -numpy.inf
    return x


def _extremes(rng: Any, groups: int, n: int, op: str, element: str) -> Any:
    if op in _COMPARES:
        big, small = LARGEST[element], SMALLEST_SUM[element]
        return numpy.array([big, -big, small, -small, 0.0, -0.0, 1.0])[rng.integers(0, 7, (groups, n))]
    return 2.0 ** rng.integers(-8, 8, (groups, n)) * rng.choice([-1.0, 1.0], (groups, n))


def _places(rng: Any, groups: int, n: int) -> Any:
    """A place for each group: all there are, in a random order, before one comes again."""
    return rng.permutation(n)[numpy.arange(groups) % n]


TENSOR_TRIALS: Mapping[str, Callable[[Any, int, int, str, str], Any]] = MappingProxyType(
    {
        "normal": _normal, "ties": _ties, "negative": _negative, "first spikes": partial(_spikes, "first"),
        "last spikes": partial(_spikes, "last"), "other spikes": partial(_spikes, "other"),
        "more spikes": partial(_spikes, "other"),
        "NaN": _nan, "infinities": _infinities, "extremes": _extremes,
    }
)  # fmt: skip
"""The functions that draw the elements of a tensor's groups, by name."""


def _factors(rng: Any, x: Any) -> Any:
    """The same as factors: numbers near 1, so that products stay far from overflow, but for what is none."""
    near = 2.0 ** rng.integers(-1, 2, x.shape) * rng.choice([-1.0, 1.0], x.shape)
    plain = numpy.where(rng.random(x.shape) < 8 / max(x.shape[1], 1), near, 1 + numpy.tanh(x) / 64)
    return numpy.where(numpy.isfinite(x), plain, x)


def _whole(rng: Any, x: Any, element: str) -> Any:
    """The same as integers of a type: large numbers become an end of its range."""
    ends = numpy.iinfo(INTEGERS[element])
    if not numpy.isfinite(x).all() or numpy.abs(x).max(initial=0) > 1e4:
        return rng.integers(ends.min, ends.max, x.shape, INTEGERS[element], endpoint=True).astype("i8")
    return (4 * x).clip(max(ends.min, -(2**31)), min(ends.max, 2**31)).astype("i8")


def tensor_numbers(
    trial: str, op: str, shape: tuple[int, ...], axes: tuple[int, ...], element: str, seed: int
) -> Any:
    """The elements of a dense tensor, flat, as float64 not yet rounded to `element`, or as int64.

    >>> tensor_numbers("ties", "sum", (2, 3), (1,), "f32", 0).tolist()
    [1.0, 1.0, 1.0, -2.0, -2.0, -2.0]
    """
    kept = tuple(k for k in range(len(shape)) if k not in axes)
    groups, n = prod(shape[k] for k in kept), prod(shape[k] for k in axes)
    rng = numpy.random.default_rng([seed, list(TENSOR_TRIALS).index(trial)])
    x = TENSOR_TRIALS[trial](rng, groups, n, op, "f32" if element in INTEGERS else element)
    if element in INTEGERS:
        x = _whole(rng, x, element)
    elif op == "prod":
        x = _factors(rng, x)
    order = (*kept, *axes)
    turned = x.reshape(tuple(shape[k] for k in order))
    return numpy.ascontiguousarray(turned.transpose(numpy.argsort(order))).reshape(-1)


def placed_numbers(trial: str, op: str, x: AxesProblem, seed: int) -> Any:
    """The same as a flat buffer of a tensor without gaps, its modes in the order of its strides.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem
    >>> placed_numbers("ties", "sum", axes_problem((2, 3), 1, "f32", (1, 2)), 0).tolist()
    [1.0, -2.0, 1.0, -2.0, 1.0, -2.0]
    """
    numbers = tensor_numbers(trial, op, x.shape, x.axes, x.dtype.name, seed)
    buffer = numbers.copy()
    buffer[places(x.shape, x.src).ravel()] = numbers
    return buffer


def check_dense(p: object, x: AxesProblem, dense_results: bool) -> None:
    """Raise ShapeError for what cannot be verified: no elements, or gaps in the source or the results."""
    if not prod(x.shape):
        raise ShapeError(f"{p} has no elements: there is nothing to verify")
    if x.src_offset or x.dst_offset or x.source_elems != prod(x.shape) or not dense_results:
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")


def device_tensors(x: AxesProblem, results: int, result: DType, n: int) -> dict[str, Any]:
    """A source on the GPU, numbers of N(0, 1), others for each n, and room for so many results."""
    src = random_normal(in_units(prod(x.shape), x.dtype.nbytes), n, x.dtype.name)
    kind = src.dtype if result == x.dtype else CARRIER[result.nbytes]
    return {"src": src, "dst": device_empty((in_units(results, result.nbytes),), kind)}


def result_places(x: AxesProblem) -> Any:
    """Return the places of results in the destination's buffer, an array of their shape.

    >>> from layoutalg.kernels.rowwise.tensors import axes_problem
    >>> result_places(axes_problem((2, 3, 2), 1, "f32", dst=(1, 0, 2))).tolist()
    [[0, 2], [1, 3]]
    """
    kept = [k for k in range(len(x.shape)) if x.keeps or k not in x.axes]
    return places([x.shape[k] for k in kept], [x.dst[k] for k in kept])


# --- bounds -------------------------------------------------------------------------------------------

SMALLEST_NORM = MappingProxyType({"f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126})
"""The error allowed for a norm near 0: f16 keeps subnormal numbers, the exponential does not."""

VANISHES = 110.0
"""e^-110 is less than 2^-158: it counts for nothing beside 1, nor do 2^30 of them."""

NORM_ADDITIONS = 40
"""Bound on the roundings in a row of a norm's statistics: rounds, a vector's tree, butterflies, warps."""


def reduction_bound(p: ReduceProblem, additions: int, values: Any) -> Any:
    """Return the error bound of each output; `values` are the source's numbers, flat, as float64."""
    u = HALF_PLACE["f32"]
    lost, exact = additions * u / (1 - additions * u), reduced(p, values)
    if p.is_exact:
        return numpy.zeros(exact.shape)
    final = HALF_PLACE[p.result.name] if p.result.name != "f32" else 0.0
    with numpy.errstate(all="ignore"):
        if p.op == "prod":
            every = p.axes.count * u
            allowed = every / (1 - every) * numpy.abs(exact)
        elif p.op in ("var", "logsumexp"):
            allowed = _of_joined(p, lost, exact, values)
        else:
            allowed = lost * numpy.abs(reduced(p, numpy.abs(values)))
        return allowed * (1 + final) + final * numpy.abs(exact) + SMALLEST_SUM[p.result.name]


def _of_joined(p: ReduceProblem, lost: float, exact: Any, values: Any) -> Any:
    """The same for values that are joined: variances, and logarithms of sums."""
    place = 2 * HALF_PLACE["f32"]
    most = reduced(replace(p, op="max"), values)
    if p.op == "logsumexp":
        least = reduced(replace(p, op="min"), values)
        apart = numpy.clip(numpy.nan_to_num(most - least, nan=VANISHES), 0, VANISHES)
        return 8 * lost + place * (8 * apart + 8 + 4 * numpy.abs(numpy.nan_to_num(exact, posinf=0, neginf=0)))
    largest = reduced(replace(p, op="max"), numpy.abs(values))
    mean = 8 * lost * largest + place * largest
    scale = p.axes.count * share_of(p)
    return 8 * lost * exact + scale * (2 * mean * numpy.sqrt(exact / scale) + mean**2)


def norm_bound(p: NormProblem, x: Any, wanted: Any, weight: Any = None, bias: Any = None) -> Any:
    """Return the error bound of each result against `wanted`; x has the problem's shape, in float64.

    Weight and bias have the shape of the reduced modes.
    """
    axes, element = p.axes.axes, str(p.result)
    place, half = 2 * HALF_PLACE["f32"], HALF_PLACE[element]
    with numpy.errstate(all="ignore"):
        if p.formula == "softmax":
            most = x.max(axis=axes, keepdims=True, initial=-numpy.inf)
            apart = numpy.where(most - x < VANISHES, most - x, 0).max(axis=axes, keepdims=True, initial=0)
            relative = place * (NORM_ADDITIONS + 4 * apart) + half
            return numpy.abs(wanted) * relative + SMALLEST_NORM[element]
        centred = x - x.mean(axis=axes, keepdims=True) if p.formula == "layer_norm" else x
        variance = (centred**2).mean(axis=axes, keepdims=True)
        largest = numpy.abs(x).max(axis=axes, keepdims=True) / numpy.sqrt(variance + p.eps)
        largest = numpy.where(numpy.isinf(variance), 0.0, largest)  # x / infinity is 0, or NaN
        wide = tuple(n if k in axes else 1 for k, n in enumerate(p.axes.shape))
        w = numpy.abs(weight).reshape(wide) if p.weight else 1.0
        b = numpy.abs(bias).reshape(wide) if p.bias else 0.0
        error = place * NORM_ADDITIONS * (largest * w + numpy.abs(wanted) + b)
        return error + half * numpy.abs(wanted) + SMALLEST_NORM[element]
