"""Maps: the data on which they are verified, and the problems that are timed.

They are verified on numbers of N(0, 1), on wide ones and on those that are not ordinary (NaN, infinities,
zeros, the largest and the least), and timed beside the driver's copy of as many bytes and PyTorch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from math import prod
from typing import Any

import numpy

from layoutalg.codegen.gpu import device_copy, device_empty, random_normal, to_host
from layoutalg.kernels import elements
from layoutalg.kernels.checks.baselines import Launch, torch_map
from layoutalg.kernels.checks.record import Bench, Checks, Expected, Pace, not_defined, square_cases
from layoutalg.kernels.elementwise import OUT, MapProblem, map_problem
from layoutalg.kernels.family import Family
from layoutalg.kernels.modes import places

TRIALS = ("normal", "wide", "special")


COMPARED = 1 << 16
"""The number of results that are compared before a map is timed."""


DTYPES, SIDES = ("f32", "f16"), (4096, 16384)
"""Square matrices that are timed by default."""


VERIFIED = ({"shape": (37, 131)}, {"shape": (64, 64)}, {"shape": (5, 3, 8)})


def _buffers(p: MapProblem, trial: str, seed: int) -> dict[str, Any]:
    rng, element = numpy.random.default_rng([seed, TRIALS.index(trial)]), p.dtype.name
    largest = elements.ROUNDS_TO_INFINITY[element] * (1 - elements.HALF_PLACE[element])
    ends = numpy.array([numpy.nan, numpy.inf, 0.0, largest, elements.SMALLEST_SUM[element]])

    def drawn(n: int) -> Any:
        if trial == "special":
            return ends[rng.integers(0, len(ends), n)] * rng.choice([-1.0, 1.0], n)
        return rng.standard_normal(n) * (1.0 if trial == "normal" else 30.0)

    *sizes, out = (elements.in_units(n, p.dtype.nbytes) for n in p.elems)
    given = {x: elements.bits_of(drawn(n), element) for x, n in zip(p.formula.inputs, sizes, strict=True)}
    return {**given, OUT: elements.set_bits(out, p.dtype.nbytes)}


def _expected(p: MapProblem, c: Any, given: Mapping[str, Any]) -> Expected:
    element = p.dtype.name
    inputs = [
        elements.numbers_of(given[name], element)[places(p.shape, p.strides[k])]
        for k, name in enumerate(p.formula.inputs)
    ]
    with numpy.errstate(all="ignore"):
        exact = p.formula.numbers(*inputs)
        final = 0.0 if element == "f32" else elements.HALF_PLACE[element]
        lost = p.formula.bound(exact, *inputs)
        rounded = lost * (1 + final) + final * abs(exact) + elements.SMALLEST_SUM[element]
        allowed = numpy.where(lost > 0, rounded, 0.0)
    return Expected(OUT, exact, numpy.nan_to_num(allowed), element, places(p.shape, p.strides[-1]))


# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: MapProblem, n: int) -> dict[str, Any]:
    *sizes, out = (elements.in_units(elems, p.dtype.nbytes) for elems in p.elems)
    inputs = enumerate(zip(p.formula.inputs, sizes, strict=True))
    sources = {name: random_normal(size, 2 * n + k, p.dtype.name) for k, (name, size) in inputs}
    return {**sources, OUT: device_empty((out,), sources["x"].dtype)}


def _by_torch(p: MapProblem, arrays: Mapping[str, Any]) -> Launch | None:
    *sources, to = (arrays[name][: prod(p.shape)] for name in p.sides)
    return torch_map(str(p.op), to, sources, p.dtype.name)


def _check(p: MapProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """The first results have to be those of the definition."""
    ours()
    count, word = min(COMPARED, prod(p.shape)), elements.CARRIER[p.dtype.nbytes]
    some = map_problem(p.op, (count,), p.dtype)
    given = {name: to_host(arrays[name][:count]).view(word) for name in p.sides}
    wanted = _expected(some, None, given)
    off = numpy.abs(elements.numbers_of(given[OUT], p.dtype.name) - wanted.values) > wanted.allowed
    return not_defined(off)


def checks(family: Family) -> Checks:
    """The checks of a family of maps."""

    def with_extent(p: MapProblem, n: int) -> tuple[MapProblem, int]:
        return replace(p, shape=(*p.shape[: p.outermost], n, *p.shape[p.outermost + 1 :])), n

    return Checks(_buffers, _expected, lambda p: 8 * sum(p.elems), VERIFIED, lambda p: TRIALS, with_extent)


def bench(family: Family) -> Bench:
    """The benchmark of a family of maps."""
    contenders = {
        "copy": lambda p, arrays: device_copy(arrays[OUT], arrays["x"]),
        "torch": _by_torch,
        "cupy": lambda p, arrays: None,
    }
    square = square_cases(lambda n, dtype: family.problem((n, n), dtype), DTYPES, SIDES)
    pace = Pace(11, sample_ms=3.0)
    return Bench(_arrays, contenders, _check, square, limit="copy", pace=lambda p: pace)
