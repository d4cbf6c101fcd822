"""Counters of random cases of a family beside what is predicted of them.

    counted = list(count([("transpose", seed) for seed in range(100)], "sm_90a"))
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
from itertools import islice
from typing import Any

from layoutalg.codegen.gpu import Compared, Run, compare, each_in_processes, in_processes, predicted_run
from layoutalg.codegen.program import Global, LaunchSequence
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.checks import check_run, checks_of, given_to
from layoutalg.kernels.family import Family
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.sweep import Drawn, drawn_case, first_configs

CASES = 124
"""The cases that one process of the profiler launches, while the next are compiled."""

MOST_STEPS = 8
"""The most times that a case is made smaller."""


@dataclass(frozen=True, slots=True)
class Counted:
    """A case beside its counters, or why it failed.

    >>> drawn, stored = Drawn({}, "a problem", "a way"), "sectors stored"
    >>> Counted("relu", 3, drawn, Compared({stored: 4}, {stored: 5})).found.apart
    ('sectors stored',)
    """

    family: str
    seed: int
    drawn: Drawn
    found: Compared = field(default_factory=Compared)
    failure: str = ""

    @property
    def name(self) -> str:
        """The problem, the configuration and the seed."""
        return f"{self.drawn.problem}, {self.drawn.config}, seed {self.seed}"


@dataclass(frozen=True, slots=True)
class _Made:
    """A case with its predictions, ready to launch."""

    case: Counted
    run: Run


def count(cases: Iterable[tuple[str, int]], arch: str) -> Iterator[Counted]:
    """Cases of families and seeds beside their counters, in order.

    Raises as `count_launches` does: UnsupportedError without a GPU, ProfilerError, TimeoutError.

    >>> list(count([], "sm_90"))
    []
    """
    made = each_in_processes(partial(_drawn, arch), cases)
    while part := list(islice(made, CASES)):
        yield from _launched(part)


def smallest(cases: Sequence[Counted], arch: str) -> Counted | None:
    """A case made from one of these, as small as was found, whose counters are not as predicted; None where
    all are.  Raises as `count` does."""
    least: Counted | None = None
    for _ in range(MOST_STEPS):
        differ = [c for c in cases if c.found.apart and (least is None or _size(c) < _size(least))]
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
    found = iter(compare([one.run for one in made if isinstance(one, _Made)]))
    return [
        one if isinstance(one, Counted)
        else replace(one.case, failure=out) if isinstance(out := next(found), str)
        else replace(one.case, found=out)
        for one in made
    ]  # fmt: skip


def _drawn(arch: str, item: tuple[str, int]) -> _Made | Counted:
    family, seed = item
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
        data = _read_bytes(chosen, drawn, sequence, given, arch)
        return _Made(Counted(family, seed, drawn), predicted_run(sequence, given, arch, data))
    except LayoutAlgError as error:
        return Counted(family, seed, drawn, failure=f"{type(error).__name__}: {error}")


def _read_bytes(
    family: Family, drawn: Drawn, sequence: LaunchSequence, given: Mapping[str, Any], arch: str
) -> int:
    """The bytes of its data that memory reads for a case: as its family says, or all of what is only read."""
    if family.memory:
        return family.memory(drawn.problem, drawn.config, arch).read
    written = {p.name for k in sequence.kernels for p in k.params if isinstance(p, Global) and p.writable}
    return sum(x.nbytes for name, x in given.items() if not isinstance(x, int) and name not in written)
