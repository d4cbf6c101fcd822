"""Family: the interface of every family of kernels, as data; verify, bench and the command use nothing else.

    problem(...)                          the problem, checked
    candidates(problem, arch)             the ways to compute it, best first, and those dropped, with reasons
    launches(problem, config, arch)       the launch sequence of one of them
    checks.buffers(problem, trial, seed)      every buffer before a launch, and the scalars of a call
    checks.expected(problem, config, given)   the required contents of buffers afterwards, by definition

The cost of the memory accesses of each launch is read off the programs, see `costs`.  A configuration is
legal if it comes out of `candidates`: there is no other list of rules.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, NamedTuple

from layoutalg.arch import Arch, find_arch, find_board
from layoutalg.codegen.costs import Prediction, sequence_traffic, total_costs
from layoutalg.codegen.gpu import median_times_ms
from layoutalg.codegen.program import Kernel, LaunchSequence
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels.baselines import Launch


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to compute a problem: its configuration, or what was tried and the refusal that dropped it."""

    config: Any
    dropped: LayoutAlgError | None = None

    @property
    def why(self) -> str:
        """The reason why it was dropped; empty for one that fits."""
        return "" if self.dropped is None else str(self.dropped)


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
    the family's `problem`, checked by default.
    """

    buffers: Callable[[Any, str, int], dict[str, Any]]
    expected: Callable[[Any, Any, Mapping[str, Any]], Expected]
    array_bytes: Callable[[Any], int]
    verified: tuple[Mapping[str, Any], ...]
    trials: Callable[[Any], tuple[str, ...]] = lambda problem: ("bits",)


NEEDED = object()
"""The default of an argument that is required."""


class Pace(NamedTuple):
    """The pace of timing: rounds, launches of a sample and about how long it takes, sets of buffers."""

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

    `arrays` makes set number n of buffers on the GPU, by the names of the family's buffers; `scalars` are
    those of the call.  A contender makes a launch on such a set, with the call's numbers beside the arrays,
    or None where its library is missing or cannot; `limit` names the one that says what memory can do.
    `check` runs ours, as a launch, on a set, and says how the result differs from another one, empty where it
    does not.  `work` is what a rate counts: bytes that have to be moved, or operations, 1e9 or 1e12 of them
    per second in the `unit` GB/s or TFLOP/s.  `cases` are the problems of a table with their names, for
    element types and sizes or by default, for products with further options; `notes` are the predictions
    beside; `record` is the record of a row in the schema of the command's JSON; `steps_size` is the size of
    the problem on which steps are compared.
    """

    arrays: Callable[[Any, int], dict[str, Any]]
    contenders: Mapping[str, Callable[[Any, Mapping[str, Any]], Launch | None]]
    check: Callable[[Any, Mapping[str, Any], Launch], str]
    cases: Callable[..., Iterator[tuple[str, Any]]]
    unit: str = "GB/s"
    work: Callable[[Any], int] = lambda problem: problem.moved_bytes
    limit: str = ""
    scalars: Callable[[Any], Mapping[str, int]] = lambda problem: {}
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
            name: [launch for one in given if (launch := contender(problem, one)) is not None]
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


@dataclass(frozen=True, slots=True)
class Law:
    """The time by which a family's planner ranks its candidates, as nanoseconds of a cold launch.

    `ns` is of a problem, one of its configurations and an architecture; its numbers are those of `board`, on
    which they were fitted, and of no other.
    """

    board: str
    ns: Callable[[Any, Any, str | Arch], float]


class Traffic(NamedTuple):
    """Bytes that memory reads and writes."""

    read: int
    written: int


MOST_SETS = 64
"""The most sets of buffers that cold data is spread over; if each is less than a sixteenth of the L2, they
are not cold, and are not labelled so."""


def set_count(bench: Bench, problem: Any, nbytes: int, arch: str, *, cold: bool = False) -> int:
    """Sets of buffers to rotate over: four times the L2 cache together, as many as the family's pace allows,
    or MOST_SETS for `cold` data.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(1024, 1024, "f32")
    >>> set_count(family.bench, p, p.moved_bytes, "sm_90")
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


@dataclass(frozen=True, slots=True)
class Family:
    """A family of kernels: each field is data or a function, see the module's text.

    `checks` is what it is verified on; `asks` are the arguments of `problem` that the command has options
    for, with their defaults, NEEDED for a required one.  `shared` makes the launches by kernels that
    neighbouring problems share, and `called` those of a call on arrays, by kernels that as many problems as
    possible share, where the family has such; `way` is a short name of the way a configuration works;
    `written` selects the configurations among which `layoutalg generate` writes the best.  `words` are
    numbers of a configuration's launch that depend on both the configuration and the buffers; `memory` are
    the bytes that memory is predicted to read and to write for a configuration, None without a prediction.
    `further` are configurations behind those of `candidates`, best first, that a search of measured times may
    try and a lock file may name; a problem that is planned without either never makes them.  `law` is the law
    of times by which the planner orders, None if it orders otherwise.
    """

    name: str
    summary: str
    problem: Callable[..., Any]
    candidates: Callable[[Any, str | Arch], Iterable[Candidate]]
    launches: Callable[[Any, Any, str | Arch], LaunchSequence]
    checks: Checks
    asks: Mapping[str, Any]
    bench: Bench
    shared: Callable[[Any, Any, str | Arch], LaunchSequence] | None = None
    called: Callable[[Any, Any, str | Arch], LaunchSequence] | None = None
    way: Callable[[Any], str] = lambda config: ""
    written: Callable[[Any], bool] = lambda config: True
    words: Callable[[Any, Any, Mapping[str, Any]], Mapping[str, int]] = lambda problem, config, given: {}
    memory: Callable[[Any, Any, str | Arch], Traffic] | None = None
    further: Callable[[Any, str | Arch], Iterable[Any]] = lambda problem, arch: ()
    law: Law | None = None

    def choose(
        self, problem: Any, arch: str | Arch = "sm_90", among: Callable[[Any], bool] = lambda config: True
    ) -> Any:
        """The best configuration that satisfies `among`, without making the others.

        Raises the last refusal where none fits.
        """
        refusal: LayoutAlgError = UnsupportedError(f"{self.name} has no configuration for {problem}")
        for candidate in self.candidates(problem, arch):
            if candidate.dropped is not None:
                refusal = candidate.dropped
            elif among(candidate.config):
                return candidate.config
        raise refusal

    def configs(self, problem: Any, arch: str | Arch = "sm_90") -> tuple[Any, ...]:
        """The configurations that fit, best first.  Raises as `choose` does."""
        found = tuple(c.config for c in self.candidates(problem, arch) if c.dropped is None)
        return found or (self.choose(problem, arch),)

    def searched(self, problem: Any, arch: str | Arch = "sm_90") -> Iterator[Any]:
        """Yield the configurations that fit, best first, and then the `further` ones, each once and made on
        demand.  Raises as `choose` does where none fits."""
        found: set[Any] = set()
        for candidate in self.candidates(problem, arch):
            if candidate.dropped is None and candidate.config not in found:
                found.add(candidate.config)
                yield candidate.config
        if not found:
            self.choose(problem, arch)
        for config in self.further(problem, arch):
            if config not in found:
                found.add(config)
                yield config

    def build(self, problem: Any, config: Any, arch: str | Arch = "sm_90") -> Kernel:
        """The kernel of a configuration, the first if there are several."""
        return self.launches(problem, config, arch).kernels[0]

    def call_launches(self, problem: Any, config: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
        """The launches that a call on arrays makes."""
        return (self.called or self.shared or self.launches)(problem, config, arch)

    def numbers(
        self, problem: Any, config: Any, given: Mapping[str, int] = MappingProxyType({})
    ) -> dict[str, int]:
        """The numbers of a call that is timed or counted: those of the bench, or those `given` in their
        place, and what depends on the configuration too."""
        found = {**self.bench.scalars(problem), **given}
        return found | dict(self.words(problem, config, found))

    def law_on(self, arch: str | Arch) -> Law:
        """The law of times, whose numbers are those of the board with a name, see `find_board`.

        Raises UnsupportedError for a family whose planner has no law, and for another board than the law's,
        and as `find_board` does.
        """
        if self.law is None:
            raise UnsupportedError(f"{self.name} has no law of times: its planner orders without one")
        board = find_board(arch)
        if board.name != self.law.board:
            raise UnsupportedError(
                f"no times of {self.name} are known on {board.name}: the numbers of its law are those of "
                f"{self.law.board}"
            )
        return self.law

    def expected_ns(self, problem: Any, config: Any, arch: str | Arch = "sm_90") -> float:
        """The nanoseconds that the planner expects for a configuration.

        Raises as `law_on` does, UnsupportedError for a configuration that the planner does not offer.
        """
        return self.law_on(arch).ns(problem, config, find_arch(arch))

    def predict(self, problem: Any, config: Any, arch: str | Arch = "sm_90") -> Prediction:
        """Return the cost of all accesses of all launches, by instruction."""
        return total_costs(self.costs(problem, config, arch))

    def costs(self, problem: Any, config: Any, arch: str | Arch = "sm_90") -> tuple[Prediction, ...]:
        """Return the cost of the memory accesses of each launch: the traffic of its program."""
        return sequence_traffic(self.launches(problem, config, arch), self.numbers(problem, config), arch)
