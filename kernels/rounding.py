"""Rounding: what of a type's numbers it loses, and whether results are where a definition allows them.

The idea.  A family bounds the error of each of its results, element by element; `agrees` compares, and knows
that a result past the largest number of its type is infinite, and that NaN has to be NaN.
"""

from __future__ import annotations

import math
from types import MappingProxyType
from typing import Any

HALF_PLACE = MappingProxyType({"f32": 2.0**-24, "f16": 2.0**-11, "bf16": 2.0**-8})
"""Half of the last place of a type, relative."""

SMALLEST_SUM = MappingProxyType({"f32": 2.0**-149, "f16": 2.0**-24, "bf16": 2.0**-133})
"""The least positive number of a type."""

ROUNDS_TO_INFINITY = MappingProxyType(
    {
        "f64": math.inf, "f32": (2 - 2.0**-24) * 2.0**127, "f16": 65520.0, "bf16": (2 - 2.0**-8) * 2.0**127,
        "s32": math.inf,
    }
)  # fmt: skip
"""From here on a number of each type is infinite."""


def agrees(found: Any, exact: Any, allowed: Any, element: str) -> Any:
    """Where results of a type are what a definition allows, for arrays of float64 of one shape.

    NaN where the definition is NaN, infinite where it is, otherwise within `allowed`; what lies past the
    largest number of the type, or within `allowed` of that, may be infinite.

    >>> import numpy
    >>> exact = numpy.array([1.0, numpy.nan, numpy.inf, -7e4])
    >>> agrees(numpy.array([1.25, 1.0, numpy.inf, -numpy.inf]), exact, numpy.full(4, 0.5), "f16").tolist()
    [True, False, True, True]
    """
    import numpy

    with numpy.errstate(all="ignore"):
        near = numpy.abs(found - exact) <= allowed
        past = numpy.abs(exact) + allowed >= ROUNDS_TO_INFINITY[element]
        over = numpy.isinf(found) & (numpy.sign(found) == numpy.sign(exact)) & past
    special = numpy.where(numpy.isnan(exact), numpy.isnan(found), found == exact)
    return numpy.where(numpy.isfinite(exact), near | over, special)


def largest_share(found: Any, exact: Any, allowed: Any) -> float:
    """The largest error in units of what is allowed, of results that are numbers.

    >>> import numpy
    >>> largest_share(numpy.array([1.25, numpy.nan]), numpy.array([1.0, numpy.nan]), numpy.array([0.5, 0.5]))
    0.5
    """
    import numpy

    with numpy.errstate(all="ignore"):
        shares = numpy.abs(found - exact) / numpy.maximum(allowed, numpy.finfo(float).tiny)
    return float(shares[numpy.isfinite(shares)].max(initial=0.0))
