"""Fitted rates: nanoseconds of a launch, a sector and a wavefront, in a file that ranks candidates.

    rates = rates_of(records, "transpose")       fitted to a store's times, with their error
    text = rates_text(rates)                     JSON
    rates = read_rates(Path("rates.json"))
    rates.ranked(family, problem, "sm_90")       the candidates of a problem, the fastest by these rates first

The idea.  A family ranks its candidates by constants that were chosen on one GPU.  On another one, a store of
timings says what a launch, a sector and a wavefront take there, and the same candidates are ranked by the sum
of what their programs cost.  Nothing is added to what the family offers.  The rates know nothing of tensor
cores or of memory that is waited for: the error that the file states says how much they are worth.

Rates are least squares of relative errors: (sum of counters * rate - time) / time is made small over all
records, no rate under 0.  The error that is stated comes from problems that the fit has not seen
(cross-validation by problem), never from those that it has.

They are used where the environment names them, never otherwise, after a lock file and before the constants:

    LAYOUTALG_RATES=rates.json      the file that this process uses, read once

Source: Lawson and Hanson, "Solving Least Squares Problems" (1974), chapter 23, for squares with bounds.
"""

from __future__ import annotations

import contextlib
import hashlib
import json
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, islice
from pathlib import Path
from statistics import median
from types import MappingProxyType
from typing import Any

from layoutalg import __version__
from layoutalg.answers import Amount, Count, fields_of
from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.costs import is_shared, sequence_traffic, total_costs, uncounted
from layoutalg.codegen.program import LaunchSequence
from layoutalg.errors import MismatchError, ParseError, ResourceError, UnsupportedError
from layoutalg.kernels.family import Family
from layoutalg.kernels.files import Format, of_environment, read_as
from layoutalg.kernels.tuning.store import TIMINGS, Record, by_problem
from layoutalg.limits import Most

FORMAT = Format("layoutalg rates", 1, "the rates", "a file of fitted rates", Most.FILE)

VARIABLE = "LAYOUTALG_RATES"
"""The environment variable that names the file."""

RATES: Mapping[str, float] = MappingProxyType({"launches": 2000.0, "sectors": 0.0, "wavefronts": 0.0})
"""Counters that have rates; nanoseconds of a launch, those of a sector and a wavefront are the board's."""

FOLDS = 5
"""The number of parts of the problems, each of which is left out once."""

MOST_RANKED = 64
"""The number of candidates of a problem that are ranked, the first of the family's order."""


def counters_of(sequence: LaunchSequence, scalars: Mapping[str, int], arch: str) -> dict[str, float]:
    """Launches, and sectors and wavefronts of all memory accesses, read off the programs; launches alone
    where TMA, wgmma or the like move what no lane's address says.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["transpose"]
    >>> p = f.problem(64, 64, "f32")
    >>> counters_of(f.call_launches(p, f.choose(p), "sm_90"), {}, "sm_90")
    {'launches': 1.0, 'sectors': 1024.0, 'wavefronts': 256.0}
    """
    launches = {"launches": float(len(sequence.kernels))}
    if uncounted(sequence.kernels):
        return launches
    traffic = total_costs(sequence_traffic(sequence, scalars, arch))
    shared = sum(cost.total for op, cost in traffic.items() if is_shared(op))
    return {
        **launches,
        "sectors": float(sum(cost.total for cost in traffic.values()) - shared),
        "wavefronts": float(shared),
    }


def check_counted(counters: Mapping[str, float]) -> None:
    """Raise UnsupportedError where a counter that has a rate is not known."""
    if missing := RATES.keys() - counters.keys():
        raise UnsupportedError(
            f"{' and '.join(sorted(missing))} are not known of programs that TMA or wgmma move memory for"
        )


@dataclass(frozen=True, slots=True)
class Rates:
    """Nanoseconds by counter of one family on one GPU, and the relative errors on problems left out.

    >>> Rates("sum", "model", "sm_90", "0.1.0", {"launches": 9.0, "sectors": 2.0, "wavefronts": 0.0}).ns(
    ...     {"launches": 1.0, "sectors": 3.0, "wavefronts": 0.0}
    ... )
    15.0
    """

    family: str
    timing: str
    gpu: str
    library: str
    rates_ns: Mapping[str, Amount]
    median_error: Amount = 0.0
    worst_error: Amount = 0.0
    records: Count = 0
    problems: Count = 0
    name: str = "the rates"

    @property
    def source(self) -> str:
        """The source of its choices, in words."""
        return f"fitted rates ({self.timing} times on {self.gpu}, median error {self.median_error:.1%})"

    @property
    def digest(self) -> str:
        """64 hex digits of its text."""
        return hashlib.sha256(rates_text(self).encode()).hexdigest()

    def ns(self, counters: Mapping[str, float]) -> float:
        """The time that counters take together.  Raises UnsupportedError where one is not known."""
        check_counted(counters)
        return sum(counters[name] * rate for name, rate in self.rates_ns.items())

    def check(self, arch: str | Arch, gpu: str = "") -> None:
        """Raise MismatchError for rates of another GPU than `gpu`, of the model of another architecture, or
        of another version of this package.

        >>> Rates("sum", "gpu", "A40", __version__, {}).check("sm_90", "T4")
        Traceback (most recent call last):
        ...
        layoutalg.errors.MismatchError: the rates are of A40, this is T4: fit here, or unset LAYOUTALG_RATES
        """
        here = gpu if self.timing == "gpu" else find_arch(arch).name
        if here and here != self.gpu:
            raise MismatchError(
                f"{self.name} are of {self.gpu}, this is {here}: fit here, or unset {VARIABLE}"
            )
        if self.library != __version__:
            raise MismatchError(
                f"{self.name} were fitted with layoutalg {self.library}, this is {__version__}: fit "
                f"again, or unset {VARIABLE}"
            )

    def ranked(
        self,
        family: Family,
        problem: Any,
        arch: str | Arch,
        gpu: str = "",
        among: Callable[[Any], bool] = lambda config: True,
        asked: Iterable[Any] | None = None,
    ) -> list[Any]:
        """Rank configurations by these rates: the first MOST_RANKED that satisfy `among`, from `asked` or by
        default the family's candidates; equally fast ones stay in their order.

        Raises as `check` does, and what making the programs raises.

        >>> from layoutalg.kernels.registry import FAMILIES
        >>> f, rates = FAMILIES["transpose"], Rates("transpose", "model", "sm_90", __version__, RATES)
        >>> p = f.problem(64, 64, "f32")
        >>> rates.ranked(f, p, "sm_90") == list(f.configs(p))
        True
        """
        self.check(arch, gpu)
        chip = find_arch(arch).name
        if asked is None:
            asked = (c.config for c in family.candidates(problem, arch) if c.dropped is None)
        stand = filter(among, asked)

        def ns(config: Any) -> float:
            sequence = family.call_launches(problem, config, chip)
            return self.ns(counters_of(sequence, family.numbers(problem, config), chip))

        return sorted(islice(stand, MOST_RANKED), key=ns)


def rates_of(records: Iterable[Record], family: str) -> Rates:
    """The rates that fit the times of a family best, and how far they are off where they were not fitted.

    Raises MismatchError for records of several places, ResourceError for fewer problems than FOLDS,
    UnsupportedError for records whose counters are not known.

    >>> from layoutalg.kernels.tuning.store import Key
    >>> def timed(n):
    ...     key = Key("sum", f"{n:064}", "c" * 64, "d" * 64, "model", "sm_90", "", "", "", "0.1.0")
    ...     counters = {"launches": 1.0, "sectors": 100.0 * n * n, "wavefronts": 0.0}
    ...     return Record(key, "64 x 64", "by rows", 0, (1000.0 + 50.0 * n * n,), counters)
    >>> fit = rates_of([timed(n) for n in range(1, 11)], "sum")
    >>> {name: round(rate, 3) for name, rate in fit.rates_ns.items()}, round(fit.worst_error, 6)
    ({'launches': 1000.0, 'sectors': 0.5, 'wavefronts': 0.0}, 0.0)
    """
    problems = by_problem(r for r in records if r.key.family == family)
    places = {name[2:] for name in problems}
    if len(places) > 1:
        raise MismatchError(f"records of {len(places)} places do not mix: choose a GPU")
    if len(problems) < FOLDS:
        raise ResourceError("parts of the problems of a fit", FOLDS, len(problems))
    groups = [problems[name] for name in sorted(problems)]
    every = [r for own in groups for r in own]
    for r in every:
        check_counted(r.counters)
    errors = []
    for fold in range(FOLDS):
        rates = _least_squares([r for n, own in enumerate(groups) if n % FOLDS != fold for r in own])
        for r in (r for own in groups[fold::FOLDS] for r in own):
            expected = sum(r.counters[name] * rate for name, rate in rates.items())
            errors.append(abs(expected / r.ns - 1))
    key = every[0].key
    return Rates(
        family, key.timing, key.gpu, key.library, MappingProxyType(_least_squares(every)),
        median(errors), max(errors), len(every), len(groups),
    )  # fmt: skip


def _least_squares(records: Sequence[Record]) -> dict[str, float]:
    """The best rates that are 0 or more: the best of all choices of those that are not 0."""
    import numpy as np

    names = tuple(RATES)
    rows = np.array([[r.counters[name] / r.ns for name in names] for r in records])
    best, least = dict.fromkeys(names, 0.0), float(len(records))
    for count in range(1, len(names) + 1):
        for free in combinations(range(len(names)), count):
            rates = np.linalg.lstsq(rows[:, free], np.ones(len(records)), rcond=None)[0]
            left = float(((rows[:, free] @ rates - 1) ** 2).sum())
            if (rates >= 0).all() and left < least - 1e-12:
                least = left
                best = dict.fromkeys(names, 0.0) | {
                    names[column]: float(rate) for column, rate in zip(free, rates, strict=True)
                }
    return best


def rates_text(rates: Rates) -> str:
    """Rates as JSON.

    >>> rates_text(Rates("sum", "model", "sm_90", "0.1.0", {})).count("layoutalg rates")
    1
    """
    named = {name: x for name, x in fields_of(rates).items() if name != "name"}
    return json.dumps({**FORMAT.head, **named}, indent=1) + "\n"


def read_rates(path: Path) -> Rates:
    """The rates in a file.  Raises OSError, ParseError for what holds none or is of another version,
    ResourceError for a file past Most.FILE.

    >>> import tempfile
    >>> given = Rates("sum", "model", "sm_90", "0.1.0", dict(RATES))
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "rates.json")
    ...     size = path.write_text(rates_text(given))
    ...     read_rates(path).rates_ns == given.rates_ns
    True
    """
    named = FORMAT.read(path) | {"name": f"the rates {path}"}
    with contextlib.suppress(ValueError):
        rates: Rates = read_as(Rates, named)
        if rates.timing in TIMINGS and rates.rates_ns.keys() == RATES.keys() and any(rates.rates_ns.values()):
            return rates
    raise ParseError(f"{path} is not {FORMAT.kind}")


def current_rates(family: str) -> Rates | None:
    """The rates that LAYOUTALG_RATES names, read once by each process; None where it names none, or those of
    another family.

    Raises as `read_rates` does: if requested rates cannot be read, there is no other ranking in their place.

    >>> current_rates("sum") is None or VARIABLE in __import__("os").environ
    True
    """
    rates = of_environment(VARIABLE, read_rates)
    return rates if rates is not None and rates.family == family else None
