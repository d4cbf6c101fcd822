"""The lock file: the fastest configuration of each problem, to be committed and used everywhere alike.

    lock = lock_of(store.records().values())
    text = lock_text(lock)                         JSON, the same bytes for the same choices
    lock = read_lock(Path("layoutalg.lock"))
    lock.chosen(FAMILIES["sum"], problem, "sm_90")       its configuration, or None where the lock has none

The idea.  Ranks of a job that choose for themselves may choose different kernels, whose sums differ in the
last bits.  A file that all of them read decides once.  It holds the digest of a problem and of a
configuration, not the configuration itself: the family's own candidate with that digest is used, so that a
file can name nothing that the family would not offer, and the digest of the text of its kernels, so that
kernels that have changed since are refused instead of run.

A lock names the source of its times; times of a GPU hold on GPUs of its name and are refused on others.

    LAYOUTALG_LOCK=layoutalg.lock      the file that this process uses, read once
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from types import MappingProxyType
from typing import Any

from layoutalg.answers import Rate, fields_of
from layoutalg.arch import Arch, find_arch
from layoutalg.errors import MismatchError, ParseError, shown
from layoutalg.kernels.family import Family
from layoutalg.kernels.files import Digest, Format, of_environment, read_as
from layoutalg.kernels.identity import NotDataError, data_digest
from layoutalg.kernels.tuning.store import TIMINGS, VERIFIED, Record, kernel_digest
from layoutalg.limits import Most

FORMAT = Format("layoutalg lock", 1, "the lock", "a lock file of layoutalg", Most.REPORT)

VARIABLE = "LAYOUTALG_LOCK"
"""The environment variable that names the file."""


@dataclass(frozen=True, slots=True)
class Locked:
    """A choice: digests of problem, configuration and kernels, the first two for people, and nanoseconds.

    >>> Locked("sum", "a" * 64, "c" * 64, "d" * 64, ("64 x 64 f32", "tiles of 32 x 32"), 1200.0).ns
    1200.0
    """

    family: str
    problem: Digest
    config: Digest
    kernel: Digest
    shown: tuple[str, str]
    ns: Rate


@dataclass(frozen=True, slots=True)
class Lock:
    """Choices by family and problem, and where their times were taken.

    >>> lock_of([]).choices
    mappingproxy({})
    """

    timing: str
    gpu: str
    choices: Mapping[tuple[str, str], Locked] = field(default_factory=lambda: MappingProxyType({}))
    name: str = "the lock"

    def entry(self, family: str, problem: Any, arch: str | Arch, gpu: str = "") -> Locked | None:
        """Return the lock's entry of a problem, whether or not the family offers it; None without an entry.

        Raises MismatchError for times of another GPU than `gpu`, or of the model for another architecture.
        """
        try:
            entry = self.choices.get((family, data_digest(problem)))
        except NotDataError:
            return None
        here = gpu if self.timing == "gpu" else find_arch(arch).name
        if entry is not None and here and here != self.gpu:
            raise MismatchError(
                f"{self.name} was made for {self.gpu}, this is {here}: tune here, or unset {VARIABLE}"
            )
        return entry

    @property
    def source(self) -> str:
        """The source of its choices, in words."""
        return f"lock file ({self.timing} times on {self.gpu})"

    def chosen(self, family: Family, problem: Any, arch: str | Arch, gpu: str = "") -> Any:
        """The configuration of a problem, None where the lock has none.

        Raises MismatchError for times of another GPU than `gpu`, or of the model for another architecture;
        where the family does not offer the configuration; and where its kernels are not those that were
        timed.
        """
        entry, chip = self.entry(family.name, problem, arch, gpu), find_arch(arch).name
        if entry is None:
            return None
        wrong = ", which the family does not offer"
        for config in family.searched(problem, arch):
            if data_digest(config) == entry.config:
                kernel = kernel_digest(family.call_launches(problem, config, chip), chip)
                if kernel == entry.kernel:
                    return config
                wrong = f" with the kernels {entry.kernel[:12]}, this version makes {kernel[:12]}"
                break
        has = f"{self.name} has {family.name} {entry.shown[0]} as {entry.shown[1]}"
        raise MismatchError(f"{has}{wrong}: tune again, or unset {VARIABLE}")


def lock_of(records: Iterable[Record], gpu: str | None = None) -> Lock:
    """The fastest configuration of each problem; of several, the first candidate among those as fast.

    Raises MismatchError for records of several GPUs, drivers or versions, unless `gpu` names one GPU and its
    records are of the same place.

    >>> from layoutalg.kernels.tuning.store import Key
    >>> key = Key("sum", "a" * 64, "c" * 64, "d" * 64, "model", "sm_90", "", "", "", "0.1.0")
    >>> lock = lock_of([Record(key, "64 x 64", "by rows", 0, (1500.0,))])
    >>> [one.ns for one in lock.choices.values()]
    [1500.0]
    """
    timed = (r for r in records if not r.failure and r.key.timing != VERIFIED)
    given = [r for r in timed if gpu in (None, r.key.gpu)]
    places = sorted({r.key.place for r in given})
    if len(places) > 1:
        listed = "; ".join(", ".join(word for word in words if word) for words in places[:8])
        raise MismatchError(f"records of {len(places)} places do not mix: {listed}")
    choices: dict[tuple[str, str], Locked] = {}
    for r in sorted(
        given, key=lambda r: (r.key.family, r.problem, r.key.problem, r.ns, r.rank, r.key.config)
    ):
        name, digests = (r.key.family, r.key.problem), (r.key.config, r.key.kernel)
        choices.setdefault(name, Locked(*name, *digests, (r.problem, r.config), r.ns))
    timing, where = places[0][:2] if places else ("model", "")
    return Lock(timing, where, MappingProxyType(choices))


def lock_text(lock: Lock) -> str:
    """A lock as JSON, a line for each problem.

    >>> print(lock_text(lock_of([])), end="")
    {"format": "layoutalg lock", "version": 1, "timing": "model", "gpu": "",
     "choices": [
    ]}
    """
    lines = [json.dumps(fields_of(choice)) for choice in lock.choices.values()]
    head = json.dumps({**FORMAT.head, "timing": lock.timing, "gpu": lock.gpu})
    return f'{head[:-1]},\n "choices": [\n' + ",\n".join(lines) + ("\n" if lines else "") + "]}\n"


def read_lock(path: Path) -> Lock:
    """The lock in a file.  Raises OSError, ParseError for what is not a lock or one of another version,
    ResourceError for one past Most.REPORT.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     path = Path(folder, "layoutalg.lock")
    ...     size = path.write_text(lock_text(lock_of([])))
    ...     read_lock(path).timing
    'model'
    """
    match FORMAT.read(path):
        case {"timing": str(timing), "gpu": str(gpu), "choices": [*choices]} if timing in TIMINGS:
            read: dict[tuple[str, str], Locked] = {}
            for number, named in enumerate(choices, 1):
                choice = _choice(path, named)
                if (name := (choice.family, choice.problem)) in read:
                    raise ParseError(
                        f"the lock {path} is damaged: choice {number} is another one of {choice.family} "
                        f"{shown(choice.shown[0])}: one of each problem is accepted"
                    )
                read[name] = choice
            return Lock(timing, gpu, MappingProxyType(read), f"the lock {path}")
    raise ParseError(f"{path} is not {FORMAT.kind}")


def _choice(path: Path, named: object) -> Locked:
    try:
        choice: Locked = read_as(Locked, named)
    except ValueError as error:
        raise ParseError(f"the lock {path} is damaged: {str(named)[:80]!r} is not a choice") from error
    return choice


def current_lock() -> Lock | None:
    """The lock that LAYOUTALG_LOCK names, read once by each process; None where it names none.

    Raises as `read_lock` does: if a requested lock cannot be read, there is no other choice in its place.

    >>> current_lock() is None or VARIABLE in __import__("os").environ
    True
    """
    return of_environment(VARIABLE, read_lock)


def choose(
    family: Family, problem: Any, arch: str | Arch, gpu: str = "",
    among: Callable[[Any], bool] = lambda config: True,
) -> tuple[Any, str]:  # fmt: skip
    """The configuration to use, and where it came from: the current lock's, or the family's best of those
    that satisfy `among`.

    Raises what `Lock.chosen` and `Family.choose` raise.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> choose(f, f.problem((64, 96), (1,), "f16"), "sm_90")[1]
    'cost model'
    """
    lock = current_lock()
    config = None if lock is None else lock.chosen(family, problem, arch, gpu)
    if lock is not None and config is not None:
        return config, lock.source
    return family.choose(problem, arch, among), "cost model"
