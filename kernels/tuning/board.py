"""The numbers of the GPU that is here: the driver's, and those that launches of it fit.

    measured(seconds=300)      the board, and how far its times are off, by family

The idea.  Problems are drawn from all families that a board's file suffices for, from a few thousand to 1e8
elements, so that launches, waiting, issue and memory each bound some of them.  Each is launched as the model
chooses it now, on a cold L2 with the host ahead; what the model expects is then fitted to these times.
"""

from __future__ import annotations

import random
import time
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from itertools import cycle
from math import exp, log, prod
from statistics import median
from typing import Any, NamedTuple

from layoutalg.arch import find_arch, find_board
from layoutalg.codegen import gpu as device
from layoutalg.errors import LayoutAlgError, MismatchError
from layoutalg.kernels.checks import bench_of
from layoutalg.kernels.model import Clock, Machine, Sheet, fitted, machine_of
from layoutalg.kernels.registry import FAMILIES

LAUNCHES, SECONDS, SEED = 300, 300.0, 20261130
"""The launches that are timed, within so many seconds, and the seed that draws them."""

SMALLEST, LARGEST = 1 << 12, 1 << 27
"""Elements of a problem."""

DTYPES = ("f32", "f16", "bf16")


class Case(NamedTuple):
    """A problem of a family, and the configuration that is chosen for it."""

    family: str
    problem: Any
    config: Any


class Timed(NamedTuple):
    """A case, its microseconds, and those that are expected of it."""

    case: Case
    us: float
    expected_us: float


def drawn(seed: int, arch: str) -> Iterator[Case]:
    """Problems of the families in turn, without end.

    >>> cases = drawn(1, "sm_90")
    >>> sorted({next(cases).family for _ in range(60)})[:3]
    ['add', 'add_rms_norm', 'argmax']
    """
    rng = random.Random(seed)
    for name in cycle(name for name, family in FAMILIES.items() if not family.board):
        family, elems = FAMILIES[name], exp(rng.uniform(log(SMALLEST), log(LARGEST)))
        cuts = sorted(rng.uniform(0, 1) for _ in range(rng.randint(0, 2)))
        parts = zip((0.0, *cuts), (*cuts, 1.0), strict=True)
        *outer, inner = (max(1, round(elems ** (b - a))) for a, b in parts)
        shape = (*outer, -(-inner // 8) * 8)
        axes = tuple(rng.sample(range(len(shape)), len(shape)))
        asked: dict[str, Any] = {"shape": shape, "dtype": rng.choice(DTYPES)}
        if "m" in family.asks:
            asked = {"m": shape[0], "n": prod(shape[1:]) or 1, "dtype": asked["dtype"]}
        elif "axes" in family.asks:
            asked["axes"] = axes if name == "permute" else axes[:1]
        try:
            problem = family.problem(**asked)
            yield Case(name, problem, family.choose(problem, arch))
        except LayoutAlgError:  # a shape that a family does not have
            continue


def described() -> Machine:
    """The board of the GPU that is here, by what the driver says; its other numbers are the rule's.

    Raises UnsupportedError without a GPU.
    """
    status, facts = device.require_gpu(), device.board_facts()
    name = status.name.removeprefix("NVIDIA ")
    try:
        board = find_board(status.name).name
    except LayoutAlgError:  # one that no document describes
        board = name
    sms, l2_bytes, known = facts["MultiProcessorCount"], facts["L2CacheSize"], machine_of(status.arch)
    if known.board == board:
        return replace(known, sms=sms, l2_bytes=l2_bytes)
    dram = 2e3 * facts.get("MemoryClockRate", 0) * facts.get("GlobalMemoryBusWidth", 0) / 8
    clock = 1e3 * facts.get("ClockRate", 0) or None
    dram = dram or 1e6 * known.bytes_per_us
    return Sheet(board, find_arch(status.arch).name, "the driver", sms, l2_bytes, dram, clock).machine


def compiled(case: Case) -> Any:
    """The machine code of a case, for the GPU that is here; what refuses it, if something does."""
    family, arch = FAMILIES[case.family], device.require_gpu().arch
    try:
        return device.compile_sequence(family.call_launches(case.problem, case.config, arch), arch)
    except LayoutAlgError as error:
        return error


def timed(cases: Sequence[Case], codes: Sequence[Any], until: float) -> Iterator[tuple[Case, float]]:
    """The microseconds of cases, those of refused ones aside, as many as are timed until then."""
    for case, code in zip(cases, codes, strict=True):
        if isinstance(code, LayoutAlgError):
            continue
        if time.monotonic() > until:
            return
        family = FAMILIES[case.family]
        numbers = family.numbers(case.problem, case.config)
        try:
            loaded = device.load_sequence(code.ready(numbers))
        except LayoutAlgError:  # clusters, or blocks that wait for each other, which this GPU does not hold
            continue
        launch = loaded.on_arrays(bench_of(family).arrays(case.problem, 0))
        yield case, next(device.cold_times_us([launch]))


def _us(clock: Clock, m: Machine) -> float:
    return clock(m).us


def measured(
    launches: int = LAUNCHES, seconds: float = SECONDS, seed: int = SEED
) -> tuple[Machine, list[Timed]]:
    """The numbers of the board that is here, and the times that they were fitted to.

    Raises UnsupportedError without a GPU, MismatchError where too few launches were timed.
    """
    until, start = time.monotonic() + seconds, described()
    cases = [case for case, _ in zip(drawn(seed, device.require_gpu().arch), range(launches), strict=False)]
    times = list(timed(cases, device.in_processes(compiled, cases), until))
    if len(times) < launches // 3:
        raise MismatchError(
            f"{len(times)} of {launches} launches were timed in {seconds:.0f} s: too few to fit"
        )
    clocks = [FAMILIES[case.family].clock_of(case.problem, case.config, start.arch) for case, _ in times]
    found = fitted(start, [partial(_us, clock) for clock in clocks], [us for _, us in times])
    words = f"measured: {len(times)} launches on a cold L2, {time.strftime('%Y-%m-%d')}, layoutalg tune board"
    found = replace(found, source=words)
    own = zip(times, clocks, strict=True)
    return found, [Timed(case, us, clock(found).us) for (case, us), clock in own]


def errors_of(times: Sequence[Timed]) -> dict[str, tuple[int, float, float]]:
    """Launches of each family, and of all, with the median and the ninth tenth of relative errors.

    >>> case = Case("sum", None, None)
    >>> errors_of([Timed(case, 10.0, 11.0), Timed(case, 10.0, 9.5)])["all"]
    (2, 0.075, 0.1)
    """
    by_family: dict[str, list[float]] = {}
    for x in times:
        for name in (x.case.family, "all"):
            by_family.setdefault(name, []).append(abs(x.expected_us / x.us - 1))
    return {
        name: (len(own), round(median(own), 4), round(sorted(own)[9 * len(own) // 10], 4))
        for name, own in sorted(by_family.items())
    }
