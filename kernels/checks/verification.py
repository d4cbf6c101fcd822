"""verify: one configuration of any family, run on data that makes every instruction of it matter.

The idea.  A family gives the arguments of a problem in each of its trials, and the results required by the
definition, to the bit or within a bound for each element.  Nothing outside of the results may change: gaps
between rows, units past the end.  Checked are

    result           in the simulator with all warps of a block in step, then with one warp at a time, of the
                     first trial; in step of the others.  On the GPU of every trial.
    accesses         what each launch's accesses cost, traced, beside the traffic read off its program
    machine code     that every kernel compiles for the H100 and H200, with its registers and spills

The simulator refuses what another schedule could see otherwise: hazards are errors, not results.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from layoutalg.arch import DEFAULT_ARCH
from layoutalg.codegen import gpu as device
from layoutalg.codegen.costs import Cost, Prediction, sequence_traffic, total_costs
from layoutalg.codegen.program import Kernel, LaunchSequence, printed_sequence
from layoutalg.codegen.sim import MemTrace, simulate_sequence
from layoutalg.errors import MismatchError, ShapeError, UnsupportedError
from layoutalg.kernels.checks.record import Checks, Expected, checks_of
from layoutalg.kernels.elements import agrees, largest_share, numbers_of
from layoutalg.kernels.family import Family
from layoutalg.layout import whole_number
from layoutalg.limits import Most

Target: TypeAlias = Literal["simulator", "gpu"]

GROUPS: tuple[Literal["block", "warp"], ...] = ("block", "warp")
"""The groups of threads that the simulator advances together: all warps of a block, or a warp."""


@dataclass(frozen=True, slots=True)
class Check:
    """A property that was checked: its name, whether it holds, and what was observed."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The checks of a configuration.

    >>> VerifyReport("transpose", "8 x 24 f32", "simulator", ()).passed
    False
    """

    family: str
    problem: str
    target: Target
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True when there are checks and every one of them holds."""
        from layoutalg.testing import all_pass  # not with the kernels: a call needs no gate

        return all_pass("checks", (c.passed for c in self.checks))

    def require(self) -> None:
        """Raise MismatchError with the first check that fails, and where nothing was checked."""
        for c in self.checks:
            if not c.passed:
                where = f"{self.family} of {self.problem} on the {self.target}"
                raise MismatchError(f"{where}: {c.name}: {c.detail}")
        if not self.passed:
            raise MismatchError(f"{self.family} of {self.problem} on the {self.target}: nothing was checked")


def verify(
    family: Family, problem: Any, config: Any = None, *, target: Target = "simulator", seed: int = 0,
    checks: Checks | None = None,
) -> VerifyReport:  # fmt: skip
    """Run one configuration (the best when None) on every trial's data and compare with the definition.

    `checks` take the place of the family's own.

    Raises UnsupportedError for target "gpu" without one, ShapeError for a problem that cannot be verified and
    for a seed below 0, ResourceError for arrays past Most.BULK, on a GPU Most.ARRAYS, SimulationError for a
    hazard, CompileError.

    >>> from layoutalg.kernels import FAMILIES
    >>> verify(FAMILIES["transpose"], FAMILIES["transpose"].problem(8, 24, "f32")).passed
    True
    """
    check_run(family, problem, target, seed)
    arch = device.require_gpu().arch if target == "gpu" else DEFAULT_ARCH
    chosen = family.choose(problem, arch) if config is None else config
    way = family.way(chosen)
    shown = f"{problem}, {way}" if way else str(problem)
    results = tuple(each_check(family, problem, chosen, target=target, seed=seed, checks=checks))
    return VerifyReport(family.name, shown, target, results)


def each_check(
    family: Family, problem: Any, config: Any, *, target: Target = "simulator", seed: int = 0,
    checks: Checks | None = None,
) -> Iterator[Check]:  # fmt: skip
    """The checks of `verify`, one after the other as they are made.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> next(each_check(family, p, family.choose(p))).name
    'result, one block at a time'
    """
    checks = checks or checks_of(family)
    first, *others = checks.trials(problem)
    if target == "gpu":
        yield from _checks_on_gpu(family, checks, problem, config, seed)
        return
    sequence = family.launches(problem, config, "sm_90")
    ran, given = printed_sequence(sequence), given_to(family, problem, config, first, seed, checks)
    expected, traces = checks.expected(problem, config, given), list[MemTrace]()
    for group in GROUPS:
        mine = copied(given)
        traces = [run.trace for run in simulate_sequence(ran, mine, group=group, seed=seed)]
        yield compare(f"result, one {group} at a time", given, expected, mine)
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    yield from access_checks(sequence_traffic(sequence, scalars), traces)
    for trial in others:
        given = given_to(family, problem, config, trial, seed, checks)
        simulate_sequence(ran, mine := copied(given), seed=seed, trace=False)
        yield compare(f"result, {trial}", given, checks.expected(problem, config, given), mine)
    free = family.any_sizes(problem, config, "sm_90") if family.any_sizes and checks.with_extent else sequence
    for n in _other_extents(problem, free, checks):
        other, count = checks.with_extent(problem, n) if checks.with_extent else (problem, n)
        given = given_to(family, other, config, first, seed, checks)
        mine = copied(given) | {"rows": count}
        simulate_sequence(printed_sequence(free), mine, seed=seed, trace=False)
        yield compare(f"result, {count} rows", given, checks.expected(other, None, given), mine)
    yield from machine_code_checks(free.kernels)


def _other_extents(problem: Any, free: LaunchSequence, checks: Checks) -> tuple[int, ...]:
    """Some extents of the outermost mode, few and half as many; none where a launch gives no rows."""
    rows = dict(free.scalars).get("rows")
    if rows is None or checks.with_extent is None:
        return ()
    by = free.kernels[0].integers[0].multiple
    whole = rows * by // checks.with_extent(problem, by)[1]
    return 2 * by, (whole // (2 * by) + 1) * by


def given_to(
    family: Family, problem: Any, config: Any, trial: str, seed: int, checks: Checks | None = None
) -> dict[str, Any]:
    """Return the arguments of a configuration in a trial: buffers, and the numbers that depend on both.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> sorted(given_to(family, p, family.choose(p), *checks_of(family).trials(p), 0))
    ['dst', 'src']
    """
    given = (checks or checks_of(family)).buffers(problem, trial, seed)
    return given | dict(family.words(problem, config, given))


def _checks_on_gpu(family: Family, checks: Checks, problem: Any, config: Any, seed: int) -> Iterator[Check]:
    arch = device.require_gpu().arch
    launches = family.shared or family.any_sizes or family.launches
    compiled = device.compile_sequence(launches(problem, config, arch), arch)
    for n, trial in enumerate(checks.trials(problem)):
        given = given_to(family, problem, config, trial, seed, checks)
        mine = run_on_gpu(compiled, given)
        expected = checks.expected(problem, config, given)
        written = (expected.buffer, *(x.buffer for x in (expected.beside,) if x is not None))
        got = {buffer: device.to_host(mine[buffer]) for buffer in written}
        yield compare(f"result, {trial}" if n else "result", given, expected, got)


def run_on_gpu(compiled: device.CompiledSequence, given: Mapping[str, Any]) -> dict[str, Any]:
    """Launch a sequence once on the GPU; its buffers afterwards.  Raises UnsupportedError without one.

    >>> from layoutalg.codegen.gpu import compile_sequence, gpu_status
    >>> from layoutalg.kernels.registry import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> if gpu_status().available:
    ...     sequence = family.launches(p, family.choose(p), "sm_90")
    ...     got = run_on_gpu(compile_sequence(sequence, "sm_90"), checks_of(family).buffers(p, "bits", 0))
    """
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    arrays = {name: device.to_device(x) for name, x in given.items() if name not in scalars}
    device.load_sequence(compiled.ready(scalars)).on_arrays(arrays)()
    return arrays


def check_run(family: Family, problem: Any, target: Target, seed: int) -> None:
    """Refuse what cannot be verified before any array is made.  Raises ResourceError or ShapeError.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> check_run(family, family.problem(8, 24, "f32"), "simulator", 0)
    """
    if whole_number(seed, "seed") < 0:
        raise ShapeError(f"the seed is {seed}; seeds count from 0")
    limit = Most.BULK if target == "simulator" else Most.ARRAYS
    limit.guard(
        checks_of(family).array_bytes(problem), f"bytes of arrays of {problem}, verified on the {target}"
    )


def copied(given: Mapping[str, Any]) -> dict[str, Any]:
    """Buffers that a launch may write, and scalars.

    >>> copied({"alpha": 1})
    {'alpha': 1}
    """
    return {name: x if isinstance(x, int) else x.copy() for name, x in given.items()}


def compare(name: str, given: Mapping[str, Any], expected: Expected, got: Mapping[str, Any]) -> Check:
    """Whether a buffer holds the expected values, and elsewhere its values from before the launches.

    >>> import numpy
    >>> before, after = numpy.zeros(3, "u1"), numpy.array([0, 7, 0], "u1")
    >>> compare("result", {"dst": before}, Expected("dst", after), {"dst": before}).detail
    '1 bytes differ, the first in element 1'
    """
    import numpy

    if expected.beside is not None and not (other := compare(name, given, expected.beside, got)).passed:
        return other
    old, new = given[expected.buffer], got[expected.buffer]
    if expected.allowed is None:
        return _same_bits(name, expected.values, new, "bytes differ")
    places, untouched = expected.places, numpy.ones(len(new), bool)
    untouched[places.ravel()] = False
    rest = _same_bits(name, old[untouched], new[untouched], "bytes outside of the result were written")
    if not rest.passed:
        return rest
    numbers = numbers_of(new, expected.element)[places]
    bad = numpy.argwhere(~agrees(numbers, expected.values, expected.allowed, expected.element))
    if len(bad):
        at = tuple(map(int, bad[0]))
        exact, bound = expected.values[at], expected.allowed[at]
        seen = f"{expected.buffer}{list(at)} = {numbers[at]:.9g}, by definition {exact:.9g} +- {bound:.2g}"
        return Check(name, False, f"{len(bad)} elements are wrong: {seen}")
    share = largest_share(numbers, expected.values, expected.allowed)
    return Check(name, True, f"{numbers.size} elements, errors up to {share:.2f} of the bound")


def _same_bits(name: str, expected: Any, got: Any, wrong: str) -> Check:
    import numpy

    different = numpy.flatnonzero(expected.view("u1") != got.view("u1"))
    if not len(different):
        return Check(name, True, f"{len(got)} elements equal")
    at = different[0] // got.itemsize
    return Check(name, False, f"{len(different)} {wrong}, the first in element {at}")


def access_checks(predictions: tuple[Prediction, ...], traces: Iterable[MemTrace]) -> Iterator[Check]:
    """Each predicted cost beside the traced one, and whether anything else was executed, launch by launch.

    >>> list(access_checks((), []))
    []
    """
    for prediction, trace in zip(predictions, traces, strict=True):
        ran = traced_costs([trace])
        for op, cost in prediction.items():
            traced = ran.get(op, Cost(0, 0, 0))
            seen = f"predicted {cost.total}, traced {traced.total} ({cost.instructions} instructions)"
            yield Check(f"accesses, {op}", traced == cost, seen)
        yield Check("no other accesses", set(ran) <= set(prediction), f"executed: {', '.join(sorted(ran))}")


def traced_costs(traces: Iterable[MemTrace]) -> dict[str, Cost]:
    """Return the total cost of all accesses of some launches, by instruction; only those executed.

    >>> traced_costs([])
    {}
    """
    return dict(
        total_costs(
            {op: Cost(*trace.total(op)) for op in {site.op for site in trace.sites} if trace.total(op)[0]}
            for trace in traces
        )
    )


def machine_code_checks(kernels: Iterable[Kernel]) -> Iterator[Check]:
    """Check that kernels compile for the H100 and H200, with registers and spills; no checks without NVRTC.

    Raises CompileError.

    >>> list(machine_code_checks([]))
    []
    """
    try:
        device.version()
    except UnsupportedError:
        return
    for kernel in kernels:
        cubin = device.prepare(kernel, "sm_90a").cubin
        spills = f"{cubin.spill_bytes} bytes of spills" if cubin.spill_bytes else "no spills"
        yield Check(f"machine code, {cubin.name}", True, f"{cubin.registers} registers per thread, {spills}")
