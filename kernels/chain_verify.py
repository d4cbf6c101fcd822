"""The agreement test of permutes, reductions and norms of dense tensors: definition, result, accesses.

The idea.  As in kernels.family, for what is computed by a chain of kernels.  A permute's result equals its
definition; numbers may differ from it by what `kernels.rounding` allows, element by element.  The destination
holds NaN (all bits set) before, and so does the memory between two kernels.

    >>> from layoutalg.kernels.chains import find_problem
    >>> report = verify_chain(find_problem("softmax", (8, 40), (0,), "f16"))
    >>> report.passed, report.checks[0].name
    (True, 'result, one block at a time')

Notes.  In the simulator all accesses of all kernels together are compared with their prediction.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from math import prod
from typing import Any, Literal

from layoutalg.codegen.gpu import require_gpu, to_device, to_host
from layoutalg.codegen.sim import simulate
from layoutalg.codegen.traffic import Cost
from layoutalg.errors import ShapeError
from layoutalg.kernels.chains import (
    UNIT_BYTES,
    Chain,
    LoadedChain,
    Problem,
    chain_of,
    load_chain,
    prepare_chain,
    printed_chain,
)
from layoutalg.kernels.elements import CARRIER, bits_of, numbers_of
from layoutalg.kernels.family import (
    Check,
    Target,
    VerifyReport,
    access_checks,
    check_run,
    machine_code_checks,
    traced_costs,
)
from layoutalg.kernels.move import permute_predict
from layoutalg.kernels.move.plan import best
from layoutalg.kernels.move.problem import PermuteProblem, normalise, reference
from layoutalg.kernels.rounding import agrees, largest_share
from layoutalg.kernels.rowwise import norm as norm_family
from layoutalg.kernels.rowwise import norm_modes, norm_predict, reduce_predict
from layoutalg.kernels.rowwise.bounds import norm_bound, reduction_bound
from layoutalg.kernels.rowwise.norm_modes import NormProblem
from layoutalg.kernels.rowwise.reduce import reference as reduced
from layoutalg.kernels.rowwise.reduce_modes import AxesProblem
from layoutalg.kernels.rowwise.reduce_plan import ReduceProblem, plans
from layoutalg.kernels.rowwise.trials import TENSOR_TRIALS, tensor_numbers

Costs = dict[str, Cost]
"""By instruction."""

_GROUPS: tuple[Literal["block", "warp"], ...] = ("block", "warp")


def verify_chain(p: Problem, *, target: Target = "simulator", seed: int = 0) -> VerifyReport:
    """Run the best plan of a dense tensor's problem on every trial's data and compare it with the definition.

    In the simulator traced accesses are compared too, and the kernels are compiled where NVRTC is installed.
    Raises UnsupportedError for target "gpu" without one, ShapeError for a tensor that is not dense and
    row-major or empty, SimulationError for a hazard, CompileError.

    >>> from layoutalg.kernels.chains import find_problem
    >>> verify_chain(find_problem("permute", (6, 10), (1, 0), "u8")).passed
    True
    """
    return VerifyReport(_name(p), str(p), target, tuple(chain_checks(p, target=target, seed=seed)))


def chain_checks(p: Problem, *, target: Target = "simulator", seed: int = 0) -> Iterator[Check]:
    """The checks of `verify_chain`, one after the other as they are made.

    >>> from layoutalg.kernels.chains import find_problem
    >>> next(chain_checks(find_problem("sum", (6, 10), (1,), "f16"))).name
    'result, one block at a time'
    """
    _check_dense(p)
    elem_bytes = p.element_bytes if isinstance(p, PermuteProblem) else 8
    check_run(p, (_tensor(p).source_elems + _tensor(p).target_elems) * elem_bytes, target, seed)
    first, *others = ("bits",) if isinstance(p, PermuteProblem) else TENSOR_TRIALS
    if target == "gpu":
        arch = require_gpu().arch
        loaded = load_chain(prepare_chain(chain_of(p, arch), arch))
        yield _compare("result", p, given := _given(p, first, seed), _on_gpu(loaded, p, given))
        for trial in others:
            yield _compare(f"result, {trial}", p, given := _given(p, trial, seed), _on_gpu(loaded, p, given))
        return
    chain = chain_of(p)
    ran, given, traced = printed_chain(chain), _given(p, first, seed), Costs()
    for group in _GROUPS:
        got, traced = _simulated(ran, p, given, group, seed)
        yield _compare(f"result, one {group} at a time", p, given, got)
    yield from access_checks(predicted(p), traced)
    for trial in others:
        got, _ = _simulated(ran, p, given := _given(p, trial, seed), "block", seed)
        yield _compare(f"result, {trial}", p, given, got)
    yield from machine_code_checks(chain.kernels)


def predicted(p: Problem, arch: str = "sm_90") -> Costs:
    """What all accesses of the best plan cost, by instruction, over all kernels.

    >>> from layoutalg.kernels.chains import find_problem
    >>> predicted(find_problem("sum", (64, 64), (1,), "f32"))["ld.global.b128"].total
    512
    """
    if isinstance(p, PermuteProblem):
        x = normalise(p)
        return dict(permute_predict.predict(x, best(x, arch), arch))
    if isinstance(p, NormProblem):
        return dict(norm_predict.predict(norm_family.plan(p, arch), arch))
    total: Costs = {}
    for one in reduce_predict.predict(plans(p, arch)[0], arch):
        for op, cost in one.items():
            total[op] = total.get(op, Cost(0, 0, 0)) + cost
    return total


def _name(p: Problem) -> str:
    return "permute" if isinstance(p, PermuteProblem) else p.op


def _tensor(p: Problem) -> PermuteProblem | AxesProblem:
    """What says where the elements are."""
    return p if isinstance(p, PermuteProblem) else p.axes


def _check_dense(p: Problem) -> None:
    t = _tensor(p)
    if not prod(t.shape):
        raise ShapeError(f"{p} has no elements: there is nothing to verify")
    results = p.axes.outputs if isinstance(p, ReduceProblem) else prod(t.shape)
    if t.src_offset or t.dst_offset or (t.source_elems, t.target_elems) != (prod(t.shape), results):
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")


def _given(p: Problem, trial: str, seed: int) -> dict[str, Any]:
    """The sources of a trial: random bits, or numbers as their bits, in whole 16-byte units."""
    import numpy

    if isinstance(p, PermuteProblem):
        nbytes = -(-p.source_elems * p.element_bytes // UNIT_BYTES) * UNIT_BYTES
        bits = numpy.random.default_rng(seed).integers(0, 256, nbytes, numpy.uint8)
        return {"src": bits.view(CARRIER[p.element_bytes])}
    element, x = p.axes.dtype.name, p.axes
    given = {"src": tensor_numbers(trial, p.op, x.shape, x.axes, element, seed)}
    rng = numpy.random.default_rng([seed, len(TENSOR_TRIALS)])
    if isinstance(p, NormProblem):
        given |= {name: rng.standard_normal(x.count) for name in ("weight", "bias") if getattr(p, name)}
    unit = UNIT_BYTES // x.dtype.nbytes
    return {name: bits_of(numpy.pad(v, (0, -v.size % unit)), element) for name, v in given.items()}


def _poison(nbytes: int, word: Any) -> Any:
    """Words with all bits set, in whole 16-byte units."""
    import numpy

    return numpy.full(-(-max(nbytes, 1) // UNIT_BYTES) * UNIT_BYTES, 255, numpy.uint8).view(word)


def _buffers(p: Problem, given: Mapping[str, Any], partial_bytes: int) -> dict[str, Any]:
    """All buffers of a chain; in place the destination holds the source."""
    if isinstance(p, NormProblem) and p.in_place:
        dst = given["src"].copy()
    else:
        result = p.result.nbytes if isinstance(p, ReduceProblem) else given["src"].itemsize
        dst = _poison(_tensor(p).target_elems * result, CARRIER[result])
    return {**given, "dst": dst, "partial": _poison(partial_bytes, "u4")}


def _simulated(
    chain: Chain, p: Problem, given: Mapping[str, Any], group: Literal["block", "warp"], seed: int
) -> tuple[Any, Costs]:
    """The destination, and what was traced, over all kernels."""
    mine, traced = _buffers(p, given, chain.partial_bytes), []
    for kernel, names in zip(chain.kernels, chain.buffers, strict=True):
        pointers = {q.name: mine[name].view("u1") for q, name in zip(kernel.params, names, strict=True)}
        traced.append(simulate(kernel, pointers, group=group, seed=seed).trace)
    return mine["dst"][: _tensor(p).target_elems], traced_costs(traced)


def _on_gpu(chain: LoadedChain, p: Problem, given: Mapping[str, Any]) -> Any:
    mine = {name: to_device(x) for name, x in _buffers(p, given, chain.partial_bytes).items()}
    chain({name: x.data.ptr for name, x in mine.items()})
    return to_host(mine["dst"])[: _tensor(p).target_elems]


def _compare(name: str, p: Problem, given: Mapping[str, Any], got: Any) -> Check:
    import numpy

    src = given["src"]
    if isinstance(p, PermuteProblem):
        wrong = numpy.flatnonzero(reference(p, src, got).view("u1") != got.view("u1"))
        if len(wrong):
            where = wrong[0] // got.itemsize
            return Check(name, False, f"{len(wrong)} bytes differ, the first in element {where}")
        return Check(name, True, f"{len(got)} elements equal")
    numbers = {x: numbers_of(bits, p.axes.dtype.name) for x, bits in given.items()}
    element = p.result.name if isinstance(p, ReduceProblem) else p.axes.dtype.name
    if isinstance(p, ReduceProblem):
        exact = reduced(p, numbers["src"])
        with numpy.errstate(all="ignore"):
            allowed = reduction_bound(p, plans(p)[0].additions, numbers["src"])
    else:
        x = numbers["src"][: prod(p.axes.shape)].reshape(p.axes.shape)
        extra = [numbers[y][: p.axes.count] if y in numbers else None for y in ("weight", "bias")]
        exact = norm_modes.reference(p, x, *extra)
        allowed = norm_bound(p, x, exact, *extra)
    found = numbers_of(got, element).reshape(exact.shape)
    bad = numpy.argwhere(~agrees(found, exact, allowed, element))
    if len(bad):
        at = tuple(map(int, bad[0]))
        said = f"{at}: {found[at]:.9g}, by definition {exact[at]:.9g} +- {allowed[at]:.2g}"
        return Check(name, False, f"{len(bad)} elements are wrong: {said}")
    share = largest_share(found, exact, allowed)
    return Check(name, True, f"{exact.size} elements, errors up to {share:.2f} of the bound")
