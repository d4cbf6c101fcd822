"""Family: what every family of kernels offers, as data; and the two questions asked of all of them.

    problem(m=..., n=..., dtype=...)     what is to be computed, checked
    configs(problem, arch)               the ways to compute it, best first
    build(problem, config)               the tile program of one
    reference(problem, source, old)      the destination that results, by definition
    predict(problem, config)             what its memory accesses cost, before anything runs

`verify` runs the agreement test on one configuration: reference == simulator (or GPU) for the result, and
prediction == simulator trace for the accesses.  `kernels.bench` times it beside the vendor libraries.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal, TypeAlias

from layoutalg.arch import Arch
from layoutalg.codegen.gpu import load, prepare, to_device, to_host, version
from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import MemTrace, simulate
from layoutalg.codegen.traffic import Cost, Prediction
from layoutalg.errors import MismatchError, ResourceError, ShapeError, UnsupportedError
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.layout import whole_number

Target: TypeAlias = Literal["simulator", "gpu"]

_GROUPS: tuple[Literal["block", "warp"], ...] = ("block", "warp")


@dataclass(frozen=True, slots=True)
class Family:
    """A family of kernels; each field is a function, see the module's text."""

    name: str
    summary: str
    problem: Callable[..., MatrixProblem]
    configs: Callable[[MatrixProblem, str | Arch], tuple[Any, ...]]
    build: Callable[[MatrixProblem, Any], Kernel]
    reference: Callable[[MatrixProblem, Any, Any], Any]
    predict: Callable[..., Prediction]


@dataclass(frozen=True, slots=True)
class Check:
    """One property that was checked: its name, whether it holds, and what was seen."""

    name: str
    passed: bool
    detail: str


@dataclass(frozen=True, slots=True)
class VerifyReport:
    """The agreement test of one configuration."""

    family: str
    problem: str
    target: Target
    checks: tuple[Check, ...]

    @property
    def passed(self) -> bool:
        """True when every check holds."""
        return all(c.passed for c in self.checks)

    def require(self) -> None:
        """Raise MismatchError with the first check that fails."""
        for c in self.checks:
            if not c.passed:
                where = f"{self.family} of {self.problem} on the {self.target}"
                raise MismatchError(f"{where}: {c.name}: {c.detail}")


def verify(
    family: Family, problem: MatrixProblem, config: Any = None, *, target: Target = "simulator", seed: int = 0
) -> VerifyReport:
    """Run one configuration (the best when None) on random data and compare with the definitions.

    In the simulator both the result and the traced accesses are compared, with all warps of a block in
    lockstep and with one warp at a time; on the GPU the result.  The gaps that leading dimensions leave
    must keep their old contents.  Raises UnsupportedError for target "gpu" without one.

    >>> from layoutalg.kernels import FAMILIES
    >>> verify(FAMILIES["transpose"], FAMILIES["transpose"].problem(8, 24, "f32")).passed
    True
    """
    chosen = family.configs(problem, "sm_90")[0] if config is None else config
    checks = tuple(matrix_checks(family, problem, chosen, target=target, seed=seed))
    return VerifyReport(family.name, str(problem), target, checks)


def matrix_checks(
    family: Family, problem: MatrixProblem, config: Any, *, target: Target = "simulator", seed: int = 0
) -> Iterator[Check]:
    """The checks of `verify`, one after the other as they are made.

    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> next(matrix_checks(family, p, family.configs(p, "sm_90")[0])).name
    'result, one block at a time'
    """
    check_run(problem, (problem.source_elems + problem.target_elems) * problem.element_bytes, target, seed)
    kernel = family.build(problem, config)
    src, old = buffers(problem, seed)
    expected = family.reference(problem, src, old)
    if target == "gpu":
        yield _compare("result", expected, run_on_gpu(kernel, problem, src, old))
        return
    ran, traces = printed(kernel), list[MemTrace]()
    for group in _GROUPS:
        dst = old.copy()
        traces = [simulate(ran, arguments(problem, src, dst), group=group, seed=seed).trace]
        yield _compare(f"result, one {group} at a time", expected, dst)
    yield from access_checks(family.predict(problem, config), traced_costs(traces))


MOST_BYTES: Mapping[Target, int] = MappingProxyType({"simulator": 1 << 30, "gpu": 1 << 34})
"""Bytes of the arrays of a problem that is verified, at most, by target: they are made on the host."""


def check_run(problem: object, nbytes: int, target: Target, seed: int) -> None:
    """Refuse what cannot be verified before any array is made: too many bytes, or a seed below 0.

    Raises ResourceError or ShapeError.

    >>> check_run("a copy", 1 << 20, "simulator", 0)
    """
    if whole_number(seed, "seed") < 0:
        raise ShapeError(f"the seed is {seed}; seeds count from 0")
    if nbytes > MOST_BYTES[target]:
        raise ResourceError(
            f"bytes of arrays of {problem}, verified on the {target}", nbytes, MOST_BYTES[target]
        )


def run_on_gpu(kernel: Kernel, problem: MatrixProblem, src: Any, old: Any) -> Any:
    """The destination buffer after one launch on the GPU.  Raises UnsupportedError without one.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> from layoutalg.kernels import FAMILIES
    >>> family = FAMILIES["transpose"]
    >>> p = family.problem(8, 24, "f32")
    >>> src, old = buffers(p, 0)
    >>> if gpu_status().available:
    ...     new = run_on_gpu(family.build(p, family.configs(p, "sm_90")[0]), p, src, old)
    """
    loaded = load(kernel)
    dst = to_device(old)
    loaded(**arguments(problem, to_device(src), dst))
    return to_host(dst)


def _compare(name: str, expected: Any, got: Any) -> Check:
    import numpy

    wrong = numpy.flatnonzero(expected.view("uint8") != got.view("uint8"))
    if not len(wrong):
        return Check(name, True, f"{len(expected)} elements equal")
    return Check(name, False, f"{len(wrong)} bytes differ, the first in element {wrong[0] // got.itemsize}")


def traced_costs(traces: Iterable[MemTrace]) -> dict[str, Cost]:
    """What all accesses of some launches cost together, by instruction; only what was executed.

    >>> traced_costs([])
    {}
    """
    total: dict[str, Cost] = {}
    for trace in traces:
        for op in {site.op for site in trace.sites if trace.total(site.op)[0]}:
            total[op] = total.get(op, Cost(0, 0, 0)) + Cost(*trace.total(op))
    return total


def access_checks(prediction: Prediction, traced: Mapping[str, Cost]) -> Iterator[Check]:
    """Each predicted cost beside the traced one, and whether anything else was executed.

    >>> [c.passed for c in access_checks({"ld.global.b32": Cost(1, 4, 4)}, {"ld.global.b32": Cost(1, 5, 4)})]
    [False, True]
    """
    for op, cost in prediction.items():
        ran = traced.get(op, Cost(0, 0, 0))
        seen = f"predicted {cost.total}, traced {ran.total} ({cost.instructions} instructions)"
        yield Check(f"accesses, {op}", ran == cost, seen)
    yield Check("no other accesses", set(traced) <= set(prediction), f"executed: {', '.join(sorted(traced))}")


def machine_code_checks(kernels: Iterable[Kernel]) -> Iterator[Check]:
    """That kernels compile for the H100 and H200, with registers and spills; none where NVRTC is missing.

    Raises CompileError.

    >>> list(machine_code_checks([]))
    []
    """
    try:
        version()
    except UnsupportedError:
        return
    for kernel in kernels:
        cubin = prepare(kernel, "sm_90a").cubin
        spills = f"{cubin.spill_bytes} bytes of spills" if cubin.spill_bytes else "no spills"
        yield Check(f"machine code, {cubin.name}", True, f"{cubin.registers} registers a thread, {spills}")


def buffers(problem: MatrixProblem, seed: int) -> tuple[Any, Any]:
    """A random source and a random old destination, as flat arrays that carry the elements' bits.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> [len(a) for a in buffers(matrix_problem(3, 5, "f16", turned=True), 0)]
    [15, 15]
    """
    import numpy

    rng = numpy.random.default_rng(seed)

    def draw(elems: int) -> Any:
        raw = rng.integers(0, 256, elems * problem.element_bytes, dtype=numpy.uint8)
        return raw.view(CARRIER[problem.element_bytes])

    return draw(problem.source_elems), draw(problem.target_elems)


def arguments(problem: MatrixProblem, src: Any, dst: Any) -> dict[str, Any]:
    """The launch arguments of a matrix kernel by name.

    >>> from layoutalg.kernels.matrix import matrix_problem
    >>> arguments(matrix_problem(3, 5, "f16", turned=True), None, None)["ldd"]
    3
    """
    return {"m": problem.m, "n": problem.n, "lds": problem.lds, "ldd": problem.ldd, "src": src, "dst": dst}
