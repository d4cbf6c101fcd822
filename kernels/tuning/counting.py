"""Counters of random cases of a family beside what is predicted of them.

    counted = count(drawn_cases("transpose", range(100)), "sm_90a")
    smallest(counted, "sm_90a")          the smallest problem found whose counters are not those predicted

The idea.  Cases are drawn, planned, predicted and compiled by all cores, and launched once each, on the data
of their first trial, in one process that the profiler watches.  Predictions are `codegen.costs.counters`: of
the program as it is printed, to the unit.  A case whose counters differ is made smaller, one extent at a
time, as long as they do.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

from layoutalg.codegen.costs import COUNTERS, is_counter, is_replayed, predicted_counters
from layoutalg.codegen.gpu import Run, compile_sequence, count_launches, in_processes, loads_of
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.checks import check_run, checks_of, given_to
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.sweep import Drawn, drawn_case, first_configs

LIMIT_S = 600.0
"""The seconds that the profiler may take for the cases of one call."""

MOST_STEPS = 8
"""The most times that a case is made smaller."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A case beside its counters: what is predicted, and what the profiler counted, each by name; or why it
    failed.  Wavefronts may be `replayed`, see `is_counter`.

    >>> drawn, stored = Drawn({}, "a problem", "a way"), "sectors stored"
    >>> case = Counted("relu", 3, drawn, {stored: 4}, {stored: 5})
    >>> case.apart, case.missing
    (('sectors stored',), ())
    """

    family: str
    seed: int
    drawn: Drawn
    predicted: Mapping[str, int] = field(default_factory=dict)
    counted: Mapping[str, int] = field(default_factory=dict)
    failure: str = ""
    replayed: bool = False

    @property
    def apart(self) -> tuple[str, ...]:
        """The names of counters that are not as predicted."""
        return tuple(
            name
            for name, n in self.predicted.items()
            if name in self.counted and not is_counter(name, n, self.counted[name], replayed=self.replayed)
        )

    @property
    def missing(self) -> tuple[str, ...]:
        """The names of predictions without a counter."""
        return tuple(name for name in self.predicted if name not in self.counted)

    @property
    def name(self) -> str:
        """The problem, the configuration and the seed."""
        return f"{self.drawn.problem}, {self.drawn.config}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class _Made:
    """A case with its predictions, ready to launch."""

    case: Counted
    run: Run


def count(family: str, seeds: Iterable[int], arch: str) -> list[Counted]:
    """The cases of some seeds beside their counters.

    Raises as `count_launches` does: UnsupportedError without a GPU, ProfilerError, TimeoutError.
    """
    return _launched(in_processes(partial(_drawn, family, arch), list(seeds)))


def smallest(cases: Sequence[Counted], arch: str) -> Counted | None:
    """A case made from one of these, as small as was found, whose counters are not as predicted; None where
    all are.  Raises as `count` does."""
    least: Counted | None = None
    for _ in range(MOST_STEPS):
        differ = [c for c in cases if c.apart and (least is None or _size(c) < _size(least))]
        if not differ:
            break
        least = min(differ, key=_size)
        items = [(least.drawn.config, arguments) for arguments in smaller(least.drawn.arguments)]
        cases = _launched(in_processes(partial(_reduced, least.family, arch, least.seed), items))
    return least


def smaller(arguments: Mapping[str, Any]) -> Iterator[dict[str, Any]]:
    """Arguments of a problem with one extent halved, or less by one.

    >>> [tuple(x.values()) for x in smaller({"m": 5, "dtype": "f32"})]
    [(2, 'f32'), (4, 'f32')]
    """
    for name, value in arguments.items():
        if name in ("m", "n", "k"):
            yield from ({**arguments, name: less} for less in _less(value))
        elif name == "shape":
            for at, extent in enumerate(value):
                for less in _less(extent):
                    yield {**arguments, name: (*value[:at], less, *value[at + 1 :])}


def _less(extent: int) -> list[int]:
    return sorted({extent // 2, extent - 1} - {0})


def _size(case: Counted) -> int:
    """The product of a case's extents."""
    given = case.drawn.arguments
    return math.prod((*(given[name] for name in ("m", "n", "k") if name in given), *given.get("shape", ())))


def _launched(made: Sequence[_Made | Counted]) -> list[Counted]:
    """The cases with their counters, in order."""
    runs = [one.run for one in made if isinstance(one, _Made)]
    found = iter(count_launches(runs, tuple(COUNTERS.values()), timeout_s=LIMIT_S) if runs else ())
    out = []
    for one in made:
        if isinstance(one, Counted):
            out.append(one)
            continue
        case, launches = one.case, next(found)
        if isinstance(launches, str):
            out.append(replace(case, predicted={}, failure=launches))
            continue
        sums = {
            name: round(sum(launch[metric] for launch in launches))
            for name, metric in COUNTERS.items()
            if all(metric in launch for launch in launches)
        }
        out.append(replace(case, counted=sums))
    return out


def _drawn(family: str, arch: str, seed: int) -> _Made | Counted:
    try:
        drawn = drawn_case(find_family(family), seed)
    except LayoutAlgError as error:
        return Counted(
            family, seed, Drawn({}, family, "not drawn"), failure=f"{type(error).__name__}: {error}"
        )
    return _made(family, arch, seed, drawn)


def _reduced(family: str, arch: str, seed: int, item: tuple[Any, Mapping[str, Any]]) -> _Made | Counted:
    """A case of other arguments, of the same configuration where that is one of the first."""
    config, arguments = item
    try:
        problem = find_family(family).problem(**arguments)
        configs = first_configs(find_family(family), problem)
        drawn = Drawn(arguments, problem, config if config in configs else configs[0])
    except (LayoutAlgError, IndexError) as error:
        return Counted(
            family, seed, Drawn(arguments, family, config), failure=f"{type(error).__name__}: {error}"
        )
    return _made(family, arch, seed, drawn)


def _made(family: str, arch: str, seed: int, drawn: Drawn) -> _Made | Counted:
    chosen = find_family(family)
    try:
        check_run(chosen, drawn.problem, "gpu", seed)
        sequence = chosen.launches(drawn.problem, drawn.config, arch)
        trial = checks_of(chosen).trials(drawn.problem)[0]
        given = given_to(chosen, drawn.problem, drawn.config, trial, seed)
        scalars = {name: x for name, x in given.items() if isinstance(x, int)}
        run = Run(compile_sequence(sequence, arch), given)
        predicted = predicted_counters(sequence, scalars, arch, map(loads_of, run.compiled.prepared))
    except LayoutAlgError as error:
        return Counted(family, seed, drawn, failure=f"{type(error).__name__}: {error}")
    return _Made(Counted(family, seed, drawn, predicted, replayed=is_replayed(sequence)), run)
