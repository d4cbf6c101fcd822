"""How far results may be from their definition: bounds on what rounding does to reductions and norms.

The idea.  A sum whose elements pass through at most `d` additions differs from the true one by at most

    |s - exact| <= gamma sum |x|,    gamma = d u / (1 - d u)        (Higham 2002, section 4.2)

with u = 2^-24, since all sums are of floats.  A mean is a sum, a maximum is exact, and a result that is
narrower than a float is rounded once more.  A softmax is off by the rounding of its exponents, which grows
with their size; a layer norm by that of the centred elements, which grows with the largest of a row.

Source: N. J. Higham, Accuracy and Stability of Numerical Algorithms, 2nd edition, SIAM 2002.
"""

from __future__ import annotations

from types import MappingProxyType
from typing import Any

from layoutalg.kernels.rounding import HALF_PLACE, SMALLEST_SUM
from layoutalg.kernels.rowwise.problems import NormProblem, ReduceProblem, reduced

SMALLEST_NORM = MappingProxyType({"f32": 2.0**-126, "f16": 2.0**-24, "bf16": 2.0**-126})
"""What may be lost of a norm near 0: f16 keeps subnormal numbers, the exponential does not."""

VANISHES = 110.0
"""e^-110 is less than 2^-158: it counts for nothing beside 1, nor do 2^30 of them."""

NORM_ADDITIONS = 40
"""Bound on the roundings in a row of a norm's statistics: rounds, a vector's tree, butterflies, warps."""


def reduction_bound(p: ReduceProblem, additions: int, values: Any) -> Any:
    """How far each output may be from the true one; `values` are the source's numbers, flat, as float64.

    >>> import numpy
    >>> from layoutalg.kernels.rowwise.problems import reduce_problem
    >>> p = reduce_problem((2, 4), 1, "sum", "f32")
    >>> bool((reduction_bound(p, 2, numpy.ones(8)) < 1e-6).all())
    True
    """
    import numpy

    u = HALF_PLACE["f32"]
    lost, exact = additions * u / (1 - additions * u), reduced(p, values)
    if p.op == "max":
        return numpy.zeros(exact.shape)
    sizes = numpy.abs(reduced(p, numpy.abs(values)))
    final = HALF_PLACE[p.result.name] if p.result.name != "f32" else 0.0
    return lost * sizes * (1 + final) + final * numpy.abs(exact) + SMALLEST_SUM[p.result.name]


def norm_bound(p: NormProblem, x: Any, wanted: Any, weight: Any = None, bias: Any = None) -> Any:
    """How far each result may be from the definition `wanted`; x has the problem's shape, in float64.

    Weight and bias have the shape of the reduced modes.

    >>> import numpy
    >>> from layoutalg.kernels.rowwise.problems import norm_problem, normed
    >>> p, x = norm_problem("softmax", (2, 4), 1, "f32"), numpy.zeros((2, 4))
    >>> bool((norm_bound(p, x, normed(p, x)) < 1e-5).all())
    True
    """
    import numpy

    axes, element = p.axes.axes, str(p.dtype)
    place, half = 2 * HALF_PLACE["f32"], HALF_PLACE[element]
    with numpy.errstate(all="ignore"):
        if p.op == "softmax":
            most = x.max(axis=axes, keepdims=True, initial=-numpy.inf)
            apart = numpy.where(most - x < VANISHES, most - x, 0).max(axis=axes, keepdims=True, initial=0)
            relative = place * (NORM_ADDITIONS + 4 * apart) + half
            return numpy.abs(wanted) * relative + SMALLEST_NORM[element]
        centred = x - x.mean(axis=axes, keepdims=True) if p.op == "layer_norm" else x
        variance = (centred**2).mean(axis=axes, keepdims=True)
        largest = numpy.abs(x).max(axis=axes, keepdims=True) / numpy.sqrt(variance + p.eps)
        largest = numpy.where(numpy.isinf(variance), 0.0, largest)  # x / infinity is 0, or NaN
        wide = tuple(n if k in axes else 1 for k, n in enumerate(p.axes.shape))
        w = numpy.abs(weight).reshape(wide) if p.weight else 1.0
        b = numpy.abs(bias).reshape(wide) if p.bias else 0.0
        error = place * NORM_ADDITIONS * (largest * w + numpy.abs(wanted) + b)
        return error + half * numpy.abs(wanted) + SMALLEST_NORM[element]
