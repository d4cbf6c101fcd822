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

from math import prod
from typing import Any, Literal

from layoutalg.codegen.runtime import require_gpu, to_device, to_host
from layoutalg.codegen.simulate import simulate
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels import norm_family, norm_modes, norm_predict, permute_predict, reduce_predict
from layoutalg.kernels.chains import (
    UNIT_BYTES,
    Chain,
    Problem,
    bits_of,
    chain_of,
    load_chain,
    numbers_of,
    prepare_chain,
    printed_chain,
)
from layoutalg.kernels.family import (
    Check,
    Target,
    VerifyReport,
    access_checks,
    machine_code_checks,
    traced_costs,
)
from layoutalg.kernels.norm_modes import NormProblem
from layoutalg.kernels.permute_modes import CARRIER, PermuteProblem, normalise, reference
from layoutalg.kernels.permute_plan import best
from layoutalg.kernels.predict import Cost
from layoutalg.kernels.reduce_family import reference as reduced
from layoutalg.kernels.reduce_modes import AxesProblem
from layoutalg.kernels.reduce_plan import ReduceProblem, plans
from layoutalg.kernels.rounding import norm_bound, reduction_bound

Costs = dict[str, Cost]
"""By instruction."""


def verify_chain(p: Problem, *, target: Target = "simulator", seed: int = 0) -> VerifyReport:
    """Run the best plan of a dense tensor's problem on random data and compare it with the definition.

    In the simulator traced accesses are compared too, and the kernels are compiled where NVRTC is installed.
    Raises UnsupportedError for target "gpu" without one and for weights, ShapeError for a tensor that is not
    dense and row-major or empty, SimulationError for a hazard, CompileError.

    >>> from layoutalg.kernels.chains import find_problem
    >>> verify_chain(find_problem("permute", (6, 10), (1, 0), "u8")).passed
    True
    """
    _check_dense(p)
    src, size = _source(p, seed), _tensor(p).target_elems
    checks: list[Check] = []
    if target == "gpu":
        checks.append(_compare("result", p, src, _on_gpu(p, src)[:size]))
    else:
        chain = chain_of(p)
        ran = printed_chain(chain)
        for group in ("block", "warp"):
            got, traced = _simulated(ran, p, src, group, seed)
            checks.append(_compare(f"result, one {group} at a time", p, src, got[:size]))
        checks += [*access_checks(predicted(p), traced), *machine_code_checks(chain.kernels)]
    return VerifyReport(_name(p), str(p), target, tuple(checks))


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
    if isinstance(p, NormProblem) and (p.weight or p.bias or p.in_place):
        raise UnsupportedError(f"{p}: norms without weight and bias, not in place, are verified")
    results = p.axes.outputs if isinstance(p, ReduceProblem) else prod(t.shape)
    if t.src_offset or t.dst_offset or (t.source_elems, t.target_elems) != (prod(t.shape), results):
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")


def _source(p: Problem, seed: int) -> Any:
    """Random bits, or normal numbers as their bits, in whole 16-byte units."""
    import numpy

    rng = numpy.random.default_rng(seed)
    if isinstance(p, PermuteProblem):
        nbytes = -(-p.source_elems * p.element_bytes // UNIT_BYTES) * UNIT_BYTES
        return rng.integers(0, 256, nbytes, numpy.uint8).view(CARRIER[p.element_bytes])
    unit = UNIT_BYTES // p.axes.dtype.nbytes
    return bits_of(rng.standard_normal(-(-p.axes.source_elems // unit) * unit), p.axes.dtype.name)


def _poison(nbytes: int, word: Any) -> Any:
    """Words with all bits set, in whole 16-byte units."""
    import numpy

    return numpy.full(-(-max(nbytes, 1) // UNIT_BYTES) * UNIT_BYTES, 255, numpy.uint8).view(word)


def _buffers(p: Problem, src: Any, partial_bytes: int) -> dict[str, Any]:
    result = p.result.nbytes if isinstance(p, ReduceProblem) else src.itemsize
    dst = _poison(_tensor(p).target_elems * result, CARRIER[result])
    return {"src": src, "dst": dst, "partial": _poison(partial_bytes, "u4")}


def _simulated(
    chain: Chain, p: Problem, src: Any, group: Literal["block", "warp"], seed: int
) -> tuple[Any, Costs]:
    """The destination, and what was traced, over all kernels."""
    given, traced = _buffers(p, src, chain.partial_bytes), []
    for kernel, names in zip(chain.kernels, chain.buffers, strict=True):
        pointers = {q.name: given[name].view("u1") for q, name in zip(kernel.params, names, strict=True)}
        traced.append(simulate(kernel, pointers, group=group, seed=seed).trace)
    return given["dst"], traced_costs(traced)


def _on_gpu(p: Problem, src: Any) -> Any:
    arch = require_gpu().arch
    chain = load_chain(prepare_chain(chain_of(p, arch), arch))
    given = {name: to_device(x) for name, x in _buffers(p, src, chain.partial_bytes).items()}
    chain({name: x.data.ptr for name, x in given.items()})
    return to_host(given["dst"])


def _compare(name: str, p: Problem, src: Any, got: Any) -> Check:
    import numpy

    if isinstance(p, PermuteProblem):
        wrong = numpy.flatnonzero(reference(p, src, got).view("u1") != got.view("u1"))
        if len(wrong):
            where = wrong[0] // got.itemsize
            return Check(name, False, f"{len(wrong)} bytes differ, the first in element {where}")
        return Check(name, True, f"{len(got)} elements equal")
    values = numbers_of(src, p.axes.dtype.name)
    if isinstance(p, ReduceProblem):
        exact = reduced(p, values)
        allowed = reduction_bound(p, plans(p)[0].additions, values)
        found = numbers_of(got, p.result.name).reshape(exact.shape)
    else:
        x = values[: prod(p.axes.shape)].reshape(p.axes.shape)
        exact = norm_modes.reference(p, x)
        allowed = norm_bound(p, x, exact)
        found = numbers_of(got, p.axes.dtype.name).reshape(exact.shape)
    error = numpy.abs(found - exact)
    bad = numpy.argwhere(~(error <= allowed))
    if len(bad):
        at = tuple(map(int, bad[0]))
        said = f"{at}: {found[at]:.9g}, by definition {exact[at]:.9g} +- {allowed[at]:.2g}"
        return Check(name, False, f"{len(bad)} elements are wrong: {said}")
    share = float((error / numpy.maximum(allowed, numpy.finfo(float).tiny)).max())
    return Check(name, True, f"{exact.size} elements, errors up to {share:.2f} of the bound")
