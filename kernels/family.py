"""Family: the interface of every family of kernels, as data; verify, bench and the command use nothing else.

    problem(...)                          the problem, checked
    candidates(problem, arch)             the ways to compute it, best first, and those dropped, with reasons
    launches(problem, config, arch)       the launch sequence of one of them

The cost of the memory accesses of each launch is read off the programs, see `costs`.  A configuration is
legal if it comes out of `candidates`: there is no other list of rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, NamedTuple

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.costs import Prediction, sequence_traffic, total_costs
from layoutalg.codegen.program import Kernel, LaunchSequence
from layoutalg.errors import LayoutAlgError, UnsupportedError
from layoutalg.kernels.model import Clock, Expected, Machine, accesses_clock, stated_machine


@dataclass(frozen=True, slots=True)
class Candidate:
    """A way to compute a problem: its configuration, or what was tried and the refusal that dropped it."""

    config: Any
    dropped: LayoutAlgError | None = None

    @property
    def why(self) -> str:
        """The reason why it was dropped; empty for one that fits."""
        return "" if self.dropped is None else str(self.dropped)


NEEDED = object()
"""The default of an argument that is required."""


class Traffic(NamedTuple):
    """Bytes that memory reads and writes."""

    read: int
    written: int


@dataclass(frozen=True, slots=True)
class Family:
    """A family of kernels: each field is data or a function, see the module's text.

    `asks` are the arguments of `problem` that the command has options for, with their defaults, NEEDED for a
    required one.  `called` makes the launches of a call on arrays, by kernels that as many problems as
    possible share, where the family has such; `any_sizes` are those whose numbers of rows or leading
    dimensions a launch gives; `way` is a short name of the way a configuration works; `written` selects
    the configurations among which `layoutalg generate` writes the best.  `scalars` are the numbers of a
    call that is timed or counted, `words` those of a configuration's launch that depend on the buffers
    too; `memory` are the bytes that memory is predicted to read and to write for a configuration, None
    without a prediction.  `further` are configurations behind those of `candidates`, best first, that a
    search of measured times may try and a lock file may name; a problem that is planned without either
    never makes them.  `clock` is that of a problem's configuration, by its accesses where a family has no
    other; of one that needs numbers beside those of a board's file they are those of `board`.
    """

    name: str
    summary: str
    problem: Callable[..., Any]
    candidates: Callable[[Any, str | Arch], Iterable[Candidate]]
    launches: Callable[[Any, Any, str | Arch], LaunchSequence]
    asks: Mapping[str, Any]
    called: Callable[[Any, Any, str | Arch], LaunchSequence] | None = None
    any_sizes: Callable[[Any, Any, str | Arch], LaunchSequence] | None = None
    way: Callable[[Any], str] = lambda config: ""
    written: Callable[[Any], bool] = lambda config: True
    scalars: Callable[[Any], Mapping[str, int]] = lambda problem: {}
    words: Callable[[Any, Any, Mapping[str, Any]], Mapping[str, int]] = lambda problem, config, given: {}
    memory: Callable[[Any, Any, str | Arch], Traffic] | None = None
    further: Callable[[Any, str | Arch], Iterable[Any]] = lambda problem, arch: ()
    clock: Callable[[Any, Any, str | Arch], Clock] | None = None
    board: str = ""

    def choose(
        self,
        problem: Any,
        arch: str | Arch = DEFAULT_ARCH,
        among: Callable[[Any], bool] = lambda config: True,
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

    def configs(self, problem: Any, arch: str | Arch = DEFAULT_ARCH) -> tuple[Any, ...]:
        """The configurations that fit, best first.  Raises as `choose` does."""
        configs = tuple(c.config for c in self.candidates(problem, arch) if c.dropped is None)
        return configs or (self.choose(problem, arch),)

    def searched(self, problem: Any, arch: str | Arch = DEFAULT_ARCH) -> Iterator[Any]:
        """Yield the configurations that fit, best first, and then the `further` ones, each once and made on
        demand.  Raises as `choose` does where none fits."""
        seen: set[Any] = set()
        for candidate in self.candidates(problem, arch):
            if candidate.dropped is None and candidate.config not in seen:
                seen.add(candidate.config)
                yield candidate.config
        if not seen:
            self.choose(problem, arch)
        for config in self.further(problem, arch):
            if config not in seen:
                seen.add(config)
                yield config

    def build(self, problem: Any, config: Any, arch: str | Arch = DEFAULT_ARCH) -> Kernel:
        """The kernel of a configuration, the first if there are several."""
        return self.launches(problem, config, arch).kernels[0]

    def call_launches(self, problem: Any, config: Any, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
        """The launches that a call on arrays makes."""
        return (self.called or self.any_sizes or self.launches)(problem, config, arch)

    def numbers(
        self, problem: Any, config: Any, given: Mapping[str, int] = MappingProxyType({})
    ) -> dict[str, int]:
        """The numbers of a call that is timed or counted: those of the bench, or those `given` in their
        place, and what depends on the configuration too."""
        scalars = {**self.scalars(problem), **given}
        return scalars | dict(self.words(problem, config, scalars))

    def machine_on(self, arch: str | Arch) -> Machine:
        """The numbers of the board that a name means.  Raises UnsupportedError where times are not known."""
        machine = stated_machine(arch)
        if self.board != machine.board and (self.board or not machine.is_measured):
            known = f"those of {self.board}" if self.board else f"{machine.source}; tune board measures them"
            where = f"no times of {self.name} are known on {machine.board}"
            raise UnsupportedError(f"{where}: its numbers are {known}")
        return machine

    def expected(self, problem: Any, config: Any, arch: str | Arch = DEFAULT_ARCH) -> Expected:
        """The time that is expected of a configuration.  Raises as `machine_on` and `clock_of` do."""
        machine = self.machine_on(arch)
        return self.clock_of(problem, config, arch)(machine)

    def clock_of(self, problem: Any, config: Any, arch: str | Arch) -> Clock:
        """The clock of a configuration.  Raises UnsupportedError where it is not offered, or has no law."""
        if self.clock is not None:
            return self.clock(problem, config, arch)
        return accesses_clock(self.call_launches(problem, config, arch), self.numbers(problem, config), arch)

    def predict(self, problem: Any, config: Any, arch: str | Arch = DEFAULT_ARCH) -> Prediction:
        """Return the cost of all accesses of all launches, by instruction."""
        return total_costs(self.costs(problem, config, arch))

    def costs(self, problem: Any, config: Any, arch: str | Arch = DEFAULT_ARCH) -> tuple[Prediction, ...]:
        """Return the cost of the memory accesses of each launch: the traffic of its program."""
        return sequence_traffic(self.launches(problem, config, arch), self.numbers(problem, config), arch)
