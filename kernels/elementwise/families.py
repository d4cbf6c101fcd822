"""The families of maps, as records: the functions of one number that have a name, and add.

They are verified on numbers of N(0, 1), on wide ones and on those that are not ordinary (NaN, infinities,
zeros, the largest and the least), and timed beside the driver's copy of as many bytes and PyTorch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from math import prod
from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.gpu import device_copy, device_empty, random_normal, to_host
from layoutalg.codegen.program import LaunchSequence, launch_sequence
from layoutalg.kernels import elements
from layoutalg.kernels.baselines import Launch, torch_map
from layoutalg.kernels.elementwise.problem import FORMULAS, OUT, MapProblem, map_problem, places
from layoutalg.kernels.elementwise.program import MapConfig, build, candidates
from layoutalg.kernels.family import NEEDED, Bench, Candidate, Checks, Expected, Family, Pace, square_cases

TRIALS = ("normal", "wide", "special")
COMPARED = 1 << 16
"""The number of results that are compared before a map is timed."""

DTYPES, SIDES = ("f32", "f16"), (4096, 16384)
"""Square matrices that are timed by default."""

VERIFIED = ((37, 131), (64, 64), (5, 3, 8))


def _buffers(p: MapProblem, trial: str, seed: int) -> dict[str, Any]:
    import numpy

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
    import numpy

    element = p.dtype.name
    inputs = [
        elements.numbers_of(given[name], element)[places(p, k)] for k, name in enumerate(p.formula.inputs)
    ]
    with numpy.errstate(all="ignore"):
        exact = p.formula.numbers(*inputs)
        final = 0.0 if element == "f32" else elements.HALF_PLACE[element]
        lost = p.formula.bound(exact, *inputs)
        rounded = lost * (1 + final) + final * abs(exact) + elements.SMALLEST_SUM[element]
        allowed = numpy.where(lost > 0, rounded, 0.0)
    return Expected(OUT, exact, numpy.nan_to_num(allowed), element, places(p, len(inputs)))


def _candidates(p: MapProblem, arch: str | Arch) -> Iterator[Candidate]:
    yield from (Candidate(c, why) for c, why in candidates(p, arch))


def _launches(p: MapProblem, c: MapConfig, arch: str | Arch = "sm_90") -> LaunchSequence:
    return launch_sequence([build(p, c)])


CHECKS = Checks(
    _buffers,
    _expected,
    array_bytes=lambda p: 8 * sum(p.elems),
    verified=tuple({"shape": shape} for shape in VERIFIED),
    trials=lambda p: TRIALS,
)

# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: MapProblem, n: int) -> dict[str, Any]:
    *sizes, out = (elements.in_units(elems, p.dtype.nbytes) for elems in p.elems)
    inputs = enumerate(zip(p.formula.inputs, sizes, strict=True))
    found = {name: random_normal(size, 2 * n + k, p.dtype.name) for k, (name, size) in inputs}
    return {**found, OUT: device_empty((out,), found["x"].dtype)}


def _by_torch(p: MapProblem, arrays: Mapping[str, Any]) -> Launch | None:
    *sources, to = (arrays[name][: prod(p.shape)] for name in p.sides)
    return torch_map(str(p.op), to, sources, p.dtype.name)


def _check(p: MapProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """The first results have to be those of the definition."""
    import numpy

    ours()
    count, word = min(COMPARED, prod(p.shape)), elements.CARRIER[p.dtype.nbytes]
    some = map_problem(p.op, (count,), p.dtype)
    given = {name: to_host(arrays[name][:count]).view(word) for name in p.sides}
    wanted = _expected(some, None, given)
    off = numpy.abs(elements.numbers_of(given[OUT], p.dtype.name) - wanted.values) > wanted.allowed
    return f"{int(off.sum())} of {count} results are not those of the definition" if off.any() else ""


def _family(op: str) -> Family:
    names = FORMULAS[op].inputs
    return Family(
        op,
        f"dst = {op}({', '.join(names)}), element by element",
        partial(map_problem, op),
        _candidates,
        launches=_launches,
        checks=CHECKS,
        asks={"shape": NEEDED},
        bench=Bench(
            arrays=_arrays,
            contenders={
                "copy": lambda p, arrays: device_copy(arrays[OUT], arrays["x"]),
                "torch": _by_torch,
                "cupy": lambda p, arrays: None,
            },
            check=_check,
            cases=square_cases(lambda n, dtype: map_problem(op, (n, n), dtype), DTYPES, SIDES),
            limit="copy",
            pace=lambda p: Pace(11, sample_ms=3.0),
        ),
    )


ELEMENTWISE_FAMILIES = tuple(_family(op) for op in FORMULAS)
"""The families of this room."""
