"""Checks and Bench: the data that a family is verified on, and timed on beside other libraries, as records.

    checks_of(family)       its trials, and what results the definition requires
    bench_of(family)        its problems that are timed, its contenders, how results are compared

A family states its problem and its ways alone; a module of this room has the records of each of its rooms.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Literal, NamedTuple

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import median_times_ms
from layoutalg.kernels.checks.baselines import Launch
from layoutalg.kernels.family import Family
from layoutalg.kernels.registry import room_of


def _module(room: str) -> Any:
    """The module of this room that has the records of another one's families."""
    return import_module(f"layoutalg.kernels.checks.{room}")


def checks_of(family: Family, alpha: float | None = None, beta: float | None = None) -> Checks:
    """The data that a family is verified on; of products with these factors, where they are given.

    Raises UnsupportedError for factors of a family that has none, and as `scalar_words` does.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> checks_of(FAMILIES["transpose"]).verified[0]
    {'m': 200, 'n': 136}
    """
    checks: Checks
    if alpha is None and beta is None:
        checks = _module(room_of(family.name)).checks(family)
    else:
        checks = _module("gemm").with_factors(family, alpha, beta)
    return checks


def bench_of(family: Family) -> Bench:
    """The benchmark of a family.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> [*bench_of(FAMILIES["softmax"]).contenders]
    ['copy', 'torch', 'cupy']
    """
    bench: Bench = _module(room_of(family.name)).bench(family)
    return bench


def rowwise_cases(dtypes: Sequence[str] | None = None) -> Iterator[tuple[str, str, Any]]:
    """The family, name and problem of every reduction and norm that is timed, in the order of a table.

    Raises UnknownNameError for another element type than those of reductions.

    >>> next(rowwise_cases(["f16"]))[:2]
    ('sum', 'sum 8192x8192 over 1 f16')
    """
    cases: Iterator[tuple[str, str, Any]] = _module("rowwise").every_case(dtypes)
    return cases


@dataclass(frozen=True, slots=True)
class Expected:
    """The required contents of a buffer after the launches; outside of `places` it has to be unchanged.

    `values` are the bits of elements where `allowed` is None, and have to be equal; otherwise numbers of type
    `element`, of which each may be off by what is `allowed` for it.  `places` are their flat places in the
    buffer, the whole buffer where it is None.  `beside` is another buffer that is written.
    """

    buffer: str
    values: Any
    allowed: Any = None
    element: str = ""
    places: Any = None
    beside: Expected | None = None


@dataclass(frozen=True, slots=True)
class Checks:
    """The data that a family is verified on, and the results that the definition requires.

    `trials` names the sets of data that a problem is computed for.  `array_bytes` is the size of the arrays
    of a problem that is verified; it raises ShapeError for one that cannot be.  `verified` are arguments of
    the family's `problem`, checked by default.  `with_extent` is the problem with another extent of its
    outermost mode, and the number of rows that a launch gives then.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["relu"]
    >>> checks_of(family).trials(family.problem((4, 4)))
    ('normal', 'wide', 'special')
    """

    buffers: Callable[[Any, str, int], dict[str, Any]]
    expected: Callable[[Any, Any, Mapping[str, Any]], Expected]
    array_bytes: Callable[[Any], int]
    verified: tuple[Mapping[str, Any], ...]
    trials: Callable[[Any], tuple[str, ...]] = lambda problem: ("bits",)
    with_extent: Callable[[Any, int], tuple[Any, int]] | None = None


class Pace(NamedTuple):
    """The pace of timing: rounds, launches of a sample and about how long it takes, sets of buffers.

    >>> Pace(9, sample_ms=3.0).inner
    8
    """

    rounds: int = 15
    inner: int = 8
    sample_ms: float = math.inf
    sets: int = 64

    def times_ms(self, launches: Sequence[Sequence[Launch]], look: Callable[[int], object]) -> list[float]:
        """The median time of each contender, all in turn; `look` is called with a number meanwhile."""
        return median_times_ms(
            launches, rounds=self.rounds, inner=self.inner, sample_ms=self.sample_ms, meanwhile=look
        )


@dataclass(frozen=True, slots=True)
class Bench:
    """The benchmark of a family beside the libraries that its users would call otherwise.

    `arrays` makes set number n of buffers on the GPU, by the names of the family's buffers.  A contender
    makes a launch on such a set, with the call's numbers beside the arrays, or None where its library is
    missing or cannot; `limit` names the one that says what memory can do.  `check` runs ours, as a launch, on
    a set, and says how the result differs from another one, empty where it does not.  `work` is what a rate
    counts: bytes that have to be moved, or operations, 1e9 or 1e12 of them per second in the `unit` GB/s or
    TFLOP/s.  `cases` are the problems of a table with their names, for element types and sizes or by default,
    for products with further options, some drawn with a `seed`; `notes` are the predictions beside; `record`
    is the record of a row in the schema of the command's JSON; `steps_size` is the size of the problem on
    which steps are compared.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> bench_of(FAMILIES["gemm-sm80"]).unit
    'TFLOP/s'
    """

    arrays: Callable[[Any, int], dict[str, Any]]
    contenders: Mapping[str, Callable[[Any, Mapping[str, Any]], Launch | None]]
    check: Callable[[Any, Mapping[str, Any], Launch], str]
    cases: Callable[..., Iterator[tuple[str, Any]]]
    unit: str = "GB/s"
    work: Callable[[Any], int] = lambda problem: problem.moved_bytes
    limit: str = ""
    seed: int = 0
    record: Literal["rate", "reduced_rate", "product_rate"] = "rate"
    steps_size: int = 0
    pace: Callable[[Any], Pace] = lambda problem: Pace()
    notes: Callable[[Any, Any, str], Mapping[str, Any]] = lambda problem, config, arch: {}

    def sets(self, problem: Any, arch: str, *, cold: bool = False) -> list[dict[str, Any]]:
        """The sets of buffers that launches rotate over, see `set_count`."""
        first = self.arrays(problem, 0)
        count = set_count(self, problem, sum(x.nbytes for x in first.values()), arch, cold=cold)
        return [first, *(self.arrays(problem, n) for n in range(1, count))]

    def others(
        self, problem: Any, sets: Iterable[Mapping[str, Any]], numbers: Mapping[str, int]
    ) -> dict[str, list[Launch]]:
        """The launches of each contender on sets of buffers, none where it cannot."""
        given = [{**arrays, **numbers} for arrays in sets]
        return {
            name: [launch for arguments in given if (launch := contender(problem, arguments)) is not None]
            for name, contender in self.contenders.items()
        }


def square_cases(
    problem: Callable[..., Any], dtypes: Sequence[str | None], sizes: Sequence[int]
) -> Callable[..., Iterator[tuple[str, Any]]]:
    """The cases of a table of square problems, of a side and a type of elements, by default those given."""

    def cases(
        asked: Sequence[str] | None, sides: Sequence[int] | None, **more: Any
    ) -> Iterator[tuple[str, Any]]:
        for dtype in asked or dtypes:
            for side in sides or sizes:
                p = problem(side, dtype, **more)
                yield str(p), p

    return cases


MOST_SETS = 64
"""The most sets of buffers that cold data is spread over; if each is less than a sixteenth of the L2, they
are not cold, and are not labelled so."""


def set_count(bench: Bench, problem: Any, nbytes: int, arch: str, *, cold: bool = False) -> int:
    """Sets of buffers to rotate over: four times the L2 cache together, as many as the family's pace allows,
    or MOST_SETS for `cold` data.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(1024, 1024, "f32")
    >>> set_count(bench_of(family), p, p.moved_bytes, "sm_90")
    30
    """
    return min(MOST_SETS if cold else bench.pace(problem).sets, 1 + 4 * l2_bytes(arch) // (nbytes + 1))


def l2_bytes(arch: str) -> int:
    """Bytes of the L2 cache of the board of an architecture, 0 where none is known.

    >>> l2_bytes("sm_90") >> 20
    60
    """
    board = find_arch(arch).board
    return (board.l2_bytes or 0) if board else 0


def memory_notes(family: Family, p: Any, c: Any, arch: str) -> dict[str, Any]:
    """Bytes that have to be moved, and bytes that memory is expected to move."""
    expected = p.moved_bytes if family.memory is None else sum(family.memory(p, c, arch))
    return {"moved bytes": p.moved_bytes, "memory bytes": expected}


def not_defined(off: Any) -> str:
    """A sentence about the results that are `off`; empty where there are none."""
    return f"{int(off.sum())} of {off.size} results are not those of the definition" if off.any() else ""
