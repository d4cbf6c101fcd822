"""Operands of matrix products, their results by definition, and the judge of launches that compute them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from layoutalg.codegen.costs import sequence_traffic
from layoutalg.codegen.expr import Expr, Var, evaluate
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Kernel, LaunchSequence, Let, dynamic_bytes, printed_sequence
from layoutalg.codegen.sim import simulate_sequence
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.checks.gemm import definition, type_of
from layoutalg.kernels.checks.record import access_checks, compare, copied
from layoutalg.kernels.elements import CARRIER, bits_of, numbers_of
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, group_begins, grouped, scalar_words
from layoutalg.kernels.gemm.epilogue import epilogue_operands
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import operand_view, scale_elems
from tests.hostshim import run_cuda_text

packed, unpacked = bits_of, numbers_of
ALPHA, BETA, GAMMA = 2, 3, -1
Data = Literal["integers", "normal", "not numbers"]
"""Small integers, on which all sums are exact; numbers of N(0, 1); the same, some NaN or infinite."""


def arguments(p: GemmProblem, seed: int = 0, data: Data = "integers") -> dict[str, Any]:
    """Every argument a kernel of the problem may take, and what named epilogues do; all bits of D are set."""
    rng = np.random.default_rng(seed)

    def draw(elems: int, name: str) -> Any:
        if p.packed > 1 and name == p.operand.name:
            return rng.integers(0, 256, elems, dtype=np.uint8)
        if data == "integers" or p.accumulator.name == "s32":
            return bits_of(rng.integers(-2, 3, elems).astype(float), name)
        numbers = rng.standard_normal(elems)
        if data == "not numbers":
            numbers[rng.integers(elems, size=3)] = np.nan, np.inf, -np.inf
        return bits_of(numbers, name)

    extents = {x: getattr(p, x) for x in ("m", "n", "k", "lda", "ldb", "ldc", "ldd")}
    factors = {"alpha": ALPHA, "beta": BETA, "gamma": GAMMA}
    others = {"c": (p.m - 1) * p.ldc + p.n, "bias": p.n} | epilogue_operands(p.epilogue, p)
    others |= {name: scale_elems(p, name) for name in p.block_scales}
    return {
        **extents, **{word: x for name in factors for word, x in scalar_words(p, name,
        factors[name]).items()},
        **{x: draw(elems, of.name) for x, elems, of in
           zip("ab", (p.a_elems, p.b_elems), p.operands, strict=True)},
        **{name: draw(elems, type_of(p, name)) for name, elems in others.items()},
        "d": ~np.zeros(p.d_elems, CARRIER[p.result.nbytes]),
    }  # fmt: skip


def expected(p: GemmProblem, args: Mapping[str, Any]) -> Any:
    """The bits of D that result, by definition; gaps between rows keep theirs."""
    value, _ = definition(p, args)
    d = args["d"].copy()
    view = operand_view(p, "d", d, (p.m, p.n), (p.ldd, 1))
    (view[0] if p.grouped else view)[...] = bits_of(value, p.result.name)
    return d


def launched(
    p: GemmProblem, c: Any, of: Callable[..., LaunchSequence] = launches, *, blocks: int = 0,
    arch: str = "sm_90",
) -> LaunchSequence:  # fmt: skip
    """The launches as they are printed; by so many blocks where they take tiles in turn, for all if 0."""
    one = of(p, c, arch)
    scalars = dict(one.scalars)
    if blocks and "blocks" in scalars and getattr(c, "cluster_k", 1) == 1:
        cluster = getattr(c, "cluster", 1)
        scalars["blocks"] = max(1, blocks // cluster) * cluster
    return printed_sequence(replace(one, scalars=tuple(scalars.items())), arch)


def wrong(
    p: GemmProblem, ran: LaunchSequence, given: Mapping[str, Any], *, group: Any = "warp", seed: int = 0,
    traffic: bool = False, changed: Mapping[str, Any] | None = None,
) -> str:  # fmt: skip
    """What is wrong with D, or with predicted accesses, where launches are simulated; empty if nothing is.

    The launches are given what is `changed`; the definition is not.
    """
    runs = simulate_sequence(
        ran, mine := copied({**given, **(changed or {})}), group=group, seed=seed, trace=traffic
    )
    made = [compare("result", given, checks_of(FAMILIES["gemm-simt"]).expected(p, None, given), mine)]
    if traffic:
        numbers = {name: x for name, x in given.items() if isinstance(x, int)}
        made += access_checks(sequence_traffic(ran, numbers), [run.trace for run in runs])
    return "; ".join(f"{check.name}: {check.detail}" for check in made if not check.passed)


def host_run(
    lowered: Kernel, args: dict[str, Any], *, order: Literal["forward", "reverse"] = "forward"
) -> Any:
    """The bits of D after the host has run a kernel's text."""
    given = {q.name: args[q.name].copy() if q.name == "d" else args[q.name] for q in lowered.params}
    grid = launch_grid(lowered, {name: x for name, x in given.items() if isinstance(x, int)})
    dynamic = dynamic_bytes(lowered)
    run_cuda_text(
        print_kernel(lowered), lowered.name, grid, (lowered.threads,), list(given.values()), dynamic,
        order=order
    )  # fmt: skip
    return given["d"]


def assigned(body: Sequence[Any], env: dict[Var, Any]) -> dict[Var, Any]:
    """The values of variables behind statements that do nothing but name values."""
    for s in body:
        assert isinstance(s, Let) and isinstance(s.value, Expr)
        env[s.var] = evaluate(s.value, env)
    return env


def grouped_problem(sizes: Sequence[int], n: int, k: int, dtype: str = "bf16", **options: Any) -> GemmProblem:
    """Groups of these sizes, whose Bs lie one behind the other."""
    one = gemm_problem(sum(sizes), n, k, dtype, **options)
    return grouped(one, len(sizes), -(-one.b_elems // 8) * 8)


def grouped_arguments(p: GemmProblem) -> dict[str, Any]:
    """Small integers, on which all sums are exact."""
    return arguments(p)


def grouped_expected(p: GemmProblem, sizes: Sequence[int], given: dict[str, Any]) -> Any:
    """D's buffer by definition, group by group."""
    return expected(p, given | group_begins(list(sizes)))
