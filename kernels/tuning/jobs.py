"""The timing of a configuration: kernels are made without a GPU, then timed in a child process with a limit.

    built = build(job)                 plan, print, predict, compile; by any process
    record = take_times(job, built)    by a process that has a GPU, or by the model

The idea.  A configuration that hangs, crashes its process or computes something else must cost its own
attempt and nothing more.  So it runs in a child of the worker, which is kept from job to job while all goes
well, and ended at the first failure.  The worker itself writes the record, before it reports the result: the
process that requested it may be gone.

`timing` is "gpu", or "model": the nanoseconds of `Family.expected`, never measured nor labelled so.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, TypeAlias, TypeVar

from layoutalg import __version__
from layoutalg.arch import find_arch
from layoutalg.codegen import gpu as device
from layoutalg.codegen.costs import is_shared, sequence_traffic, total_costs, uncounted
from layoutalg.codegen.program import LaunchSequence
from layoutalg.errors import LayoutAlgError, MismatchError, UnsupportedError
from layoutalg.kernels.checks import Launch, Pace, bench_of
from layoutalg.kernels.identity import data_digest
from layoutalg.kernels.registry import find_family
from layoutalg.kernels.tuning.store import MOST_TEXT, Key, Record, Store, kernel_digest, text_digest
from layoutalg.tools import Processes, end_with_parent

Place: TypeAlias = "tuple[str, str, str, str, str, str]"
"""The kind of timing, GPU, display driver, CUDA of the driver and of the runtime, version of the library:
`Key.place`."""

CALIBRATION = "calibration GB/s"
"""The counter that says how fast the board copied beside."""

HELD_BACK = "clocks held back"
"""The counter that says in which share of the readings something held clocks back, idle apart."""

SLOW = 0.95
"""The share of the usual copy's rate below which a copy is slow."""

RETAKES, REST_S = 3, 1.0
"""The retakes of a sample beside a slow copy, and the seconds of rest before each, in which a board cools."""

CALIBRATION_BYTES = 256 << 20
"""The bytes of the copy that is timed beside each configuration, so that a slow board is seen."""

START_S = 120
"""The seconds that a child may take to start, which count for no configuration."""

SAMPLES = 3
"""The number of medians of rounds that are kept of each configuration."""

FAULTS = (
    LayoutAlgError, RuntimeError, MemoryError, ValueError, TypeError, OSError, LookupError, ArithmeticError,
    AttributeError,
)  # fmt: skip
"""The errors of a configuration that are its own fault; CuPy's errors of CUDA are RuntimeErrors."""


class UnfitWorkerError(UnsupportedError):
    """The error of a worker that cannot do a job: it has no GPU, or not the GPU of the search.

    >>> raise UnfitWorkerError("no GPU")
    Traceback (most recent call last):
    ...
    layoutalg.kernels.tuning.jobs.UnfitWorkerError: no GPU
    """


@dataclass(frozen=True, slots=True)
class Built:
    """The kernels of a job: the digest of their text, the machine code, and the predictions; or a failure.

    `compiled` is None for the model, and where the digest is among those that are known already.

    >>> Built("k" * 64).failure
    ''
    """

    kernel: str
    compiled: device.CompiledSequence | None = None
    counters: Mapping[str, float] = field(default_factory=dict)
    failure: str = ""


Times: TypeAlias = "tuple[tuple[float, ...], dict[str, float]]"
"""The nanoseconds of launches, and counters by name."""


@dataclass(frozen=True, slots=True)
class Job:
    """A configuration of a problem that is to be timed, number `rank` of the family's candidates.

    `take` takes the times in the child process and `make` builds the kernels before, if these are not the
    usual functions; `place` is the place where times have to be taken; `seed` is that of the data of a
    verified case.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((64, 96), (1,), "f16")
    >>> job = Job("sum", p, f.choose(p), 0, "sm_90", model_place("sm_90"))
    >>> take_times(job, build(job)).key.timing
    'model'
    """

    family: str
    problem: Any
    config: Any
    rank: int
    arch: str
    place: Place
    store: Path | None = None
    limit_s: float = 60.0
    take: Callable[[Job, Built], Times] | None = None
    seed: int | None = None
    make: Callable[[Job], Built] | None = None

    @property
    def name(self) -> tuple[str, str, str]:
        """The name that distinguishes the job from the others of a search."""
        config = data_digest(self.config)
        if self.seed is not None:
            config = text_digest([config, str(self.seed)])
        return self.family, data_digest(self.problem), config

    def record(self, kernel: str, **known: Any) -> Record:
        """A record of it."""
        key = Key(*self.name, kernel, *self.place)
        seed = "" if self.seed is None else f", seed {self.seed}"
        return Record(key, str(self.problem), f"{self.config}{seed}", self.rank, **known)


def model_place(arch: str) -> Place:
    """Return the place of times that the model takes.

    >>> model_place("H100")[:2]
    ('model', 'sm_90')
    """
    return "model", find_arch(arch).name, "", "", "", __version__


def gpu_place(arch: str | None = None) -> tuple[Place, str]:
    """Return the place of times that the current GPU takes, and its architecture.

    Raises UnsupportedError without a GPU, and for a GPU of another architecture than `arch`.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> place = gpu_place() if gpu_status().available else None
    """
    status = device.require_gpu()
    if arch is not None and find_arch(status.arch).name != find_arch(arch).name:
        raise UnsupportedError(
            f"this GPU, {status.name}, is {status.arch}: the search is for {find_arch(arch).name}"
        )
    return ("gpu", status.name, device.display_driver(), *device.cuda_versions(), __version__), status.arch


def check_worker(job: Job) -> None:
    """Raise UnfitWorkerError on a worker without a GPU, or with another one, driver or CUDA than the job's.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     place, arch = gpu_place()
    ...     check_worker(Job("sum", None, None, 0, arch, place))
    """
    try:
        own, _ = gpu_place(job.arch)
    except UnsupportedError as error:
        raise UnfitWorkerError(str(error)) from error
    if own[1:] != job.place[1:]:
        here, there = (", ".join(each[1:]) for each in (own, job.place))
        raise UnfitWorkerError(f"it has {here}: the search is on {there}")


def build(job: Job, known: frozenset[str] = frozenset()) -> Built:
    """Plan, print, predict and, for a GPU, compile; not for a kernel that is among those `known`.

    What fails is in the text `failure`: a configuration that cannot be compiled is a result.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((64, 96), (1,), "f16")
    >>> made = build(Job("sum", p, f.choose(p), 0, "sm_90", model_place("sm_90")))
    >>> dict(made.counters)
    {'launches': 1.0, 'sectors': 392.0, 'wavefronts': 0.0}
    """
    kernel = ""
    try:
        if job.make is not None:
            return job.make(job)
        family = find_family(job.family)
        sequence = family.call_launches(job.problem, job.config, job.arch)
        kernel = kernel_digest(sequence, job.arch)
        if kernel in known:
            return Built(kernel)
        on_gpu = job.place[0] == "gpu"
        counters = counters_of(sequence, family.numbers(job.problem, job.config), job.arch)
        return Built(kernel, device.compile_sequence(sequence, job.arch) if on_gpu else None, counters)
    except FAULTS as error:
        return Built(kernel, failure=_text(error))


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


def by_model(job: Job, built: Built) -> Times:
    """Nanoseconds that are expected, as if they were times.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((64, 96), (1,), "f16")
    >>> job = Job("sum", p, f.choose(p), 0, "sm_90", model_place("sm_90"))
    >>> len(by_model(job, build(job))[0])
    1
    """
    expected = find_family(job.family).expected(job.problem, job.config, job.arch)
    return (1e3 * expected.us,), dict(built.counters)


def on_gpu(job: Job, built: Built) -> Times:
    """Compare the result with the libraries', then take times beside them, on cold buffers in turn; again
    after a rest where the copy beside them was slow.

    Raises UnfitWorkerError as `check_worker` does, MismatchError for another result.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> from layoutalg.kernels.registry import FAMILIES
    >>> if gpu_status().available:
    ...     f, (place, arch) = FAMILIES["sum"], gpu_place()
    ...     p = f.problem((64, 96), (1,), "f16")
    ...     job = Job("sum", p, f.choose(p, arch), 0, arch, place)
    ...     times, counters = on_gpu(job, build(job))
    """
    check_worker(job)
    if built.compiled is None:
        raise UnsupportedError("no machine code was made for a GPU")
    family, p = find_family(job.family), job.problem
    bench, numbers = bench_of(family), family.numbers(p, job.config)
    loaded = device.load_sequence(built.compiled.ready(numbers))
    sets = bench.sets(p, job.arch)
    if reason := bench.check(p, {**sets[0], **numbers}, loaded.on_arrays(sets[0])):
        raise MismatchError(f"the result is not the libraries': {reason}")
    source, target = (device.device_empty((CALIBRATION_BYTES // 2,), "uint8") for _ in range(2))
    launches: dict[str, list[Launch]] = {
        "ours": [loaded.on_arrays(arrays) for arrays in sets],
        "calibration": [device.device_copy(target, source)],
        **{f"{name} ns": own for name, own in bench.others(p, sets, numbers).items() if own},
    }
    (times, beside), again = unslowed(
        lambda: _sampled(launches, bench.pace(p)),
        lambda found: found[1][CALIBRATION],
        _FASTEST,
        lambda: time.sleep(REST_S),
    )
    return times, {**built.counters, **beside, "taken again": float(again)}


def _sampled(launches: Mapping[str, list[Launch]], pace: Pace) -> Times:
    """Times of the first contender, and what was seen beside: the others' medians, the copy, the clock."""
    readings: list[device.Reading] = []
    with device.watching() as monitor:

        def look(number: int) -> None:
            if number == 0:
                readings.append(monitor.read())

        pace = pace._replace(rounds=max(3, pace.rounds // SAMPLES))
        taken = [pace.times_ms([*launches.values()], look) for _ in range(SAMPLES)]
    seen = device.conditions(readings)
    middle = {
        name: sorted(own)[SAMPLES // 2] for name, own in zip(launches, zip(*taken, strict=True), strict=True)
    }
    beside = {name: ms * 1e6 for name, ms in middle.items() if name.endswith(" ns")}
    beside[CALIBRATION] = CALIBRATION_BYTES / middle["calibration"] / 1e6
    if seen.sm_mhz is not None:
        beside["SM MHz"] = float(seen.sm_mhz.median)
    if seen.reasons is not None:
        beside[HELD_BACK] = seen.held_back / seen.readings
    return tuple(sample[0] * 1e6 for sample in taken), beside


_FASTEST: list[float] = []
"""The fastest copy that this process has seen, if any."""

Sampled = TypeVar("Sampled")


def unslowed(
    sample: Callable[[], Sampled],
    rate: Callable[[Sampled], float],
    fastest: list[float],
    rest: Callable[[], object],
) -> tuple[Sampled, int]:
    """A sample whose rate is at least SLOW of the `fastest` until now, of at most RETAKES + 1 with rests
    between them; where none is, that of the highest rate.  How often it was taken again stands beside.

    >>> rates = iter([4000.0, 3000.0, 3900.0])
    >>> fastest, rested = [], []
    >>> [unslowed(lambda: next(rates), float, fastest, lambda: rested.append(1)) for _ in range(2)], rested
    ([(4000.0, 0), (3900.0, 1)], [1])
    """
    best, again = sample(), 0
    fastest[:] = [max([rate(best), *fastest])]
    while rate(best) < SLOW * fastest[0] and again < RETAKES:
        rest()
        best, again = max(best, sample(), key=rate), again + 1
        fastest[:] = [max([rate(best), *fastest])]
    return best, again


def take_times(job: Job, built: Built, last: bool = True) -> Record:
    """The record of a job, by a child process with the job's limit; what succeeds is in the store then, and
    what fails where this is the `last` attempt.

    A record that is in the store already is not timed again.  Raises UnfitWorkerError, which is not a result
    of the job's.  See `Job`.

    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["sum"]
    >>> p = f.problem((64, 96), (1,), "f16")
    >>> job = Job("sum", p, f.choose(p), 0, "sm_90", model_place("sm_90"))
    >>> take_times(job, Built("k" * 64, failure="it cannot be compiled")).failure
    'it cannot be compiled'
    """
    store = None if job.store is None else _store(job.store)
    if store is not None and (there := store.records().get(job.record(built.kernel).key.digest)):
        return there
    taken: _Taken | str = built.failure
    if not built.failure:
        taken = _in_child(job, replace(built, counters=dict(built.counters)))
    if isinstance(taken, str):
        record = job.record(built.kernel, counters=built.counters, failure=taken[:MOST_TEXT])
    else:
        record = job.record(built.kernel, times_ns=taken[0], counters=taken[1], board=taken[2])
    if store is not None and (last or not record.failure):
        with contextlib.suppress(OSError):  # who asked for it writes it too, and says what is wrong
            store.add(record)
    return record


@lru_cache(maxsize=4)
def _store(path: Path) -> Store:
    """A store of this process; each of its lines is read once."""
    return Store(path)


_CHILDREN: list[tuple[Any, Connection]] = []
"""The child of this process, if there is one."""


_Taken: TypeAlias = "tuple[tuple[float, ...], dict[str, float], str]"
"""Times, counters and the board."""


def _in_child(job: Job, built: Built) -> _Taken | str:
    """Times, or how the child failed; it is ended then.  Raises UnfitWorkerError."""
    if multiprocessing.current_process().daemon:
        raise UnfitWorkerError(
            "it may not start processes: start Dask's with DASK_DISTRIBUTED__WORKER__DAEMON=False"
        )
    if not _CHILDREN:
        spawn = Processes()
        ours, theirs = spawn.Pipe()
        work = (f"{__name__}:_serve", theirs)
        process = spawn.Process(target=end_with_parent, args=work, daemon=True)
        process.start()
        theirs.close()
        _CHILDREN.append((process, ours))
    process, pipe = _CHILDREN[0]
    answer: _Taken | str | UnfitWorkerError = f"no answer within {job.limit_s:g} s"
    try:
        if not pipe.poll(START_S):
            raise EOFError
        pipe.recv()
        pipe.send((job, built))
        if pipe.poll(job.limit_s):
            answer = pipe.recv()
    except (EOFError, OSError):
        process.join(5)
        answer = f"its process ended with {process.exitcode}"
    if isinstance(answer, UnfitWorkerError):
        raise answer
    if isinstance(answer, str):
        _CHILDREN.clear()
        process.kill()
        process.join()
        pipe.close()
    return answer


def _serve(pipe: Connection) -> None:
    """Take times, one job after another, until the worker is gone."""
    with contextlib.suppress(EOFError, OSError):
        while True:
            pipe.send("ready")
            job, built = pipe.recv()
            take = job.take or (on_gpu if job.place[0] == "gpu" else by_model)
            try:
                times, counters = take(job, built)
                pipe.send((times, counters, device.board_name() if take is on_gpu else ""))
            except UnfitWorkerError as error:
                pipe.send(error)
            except FAULTS as error:
                pipe.send(_text(error))


def _text(error: BaseException) -> str:
    return f"{type(error).__name__}: {error}"[:MOST_TEXT]
