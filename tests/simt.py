"""Run a SIMT GEMM in the simulator on small integers, and what it must give by definition."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from layoutalg.codegen.program import Kernel, lower
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.kernels.gemm.problem import GemmProblem, matrices, scalar_words
from layoutalg.kernels.gemm.programs.simt import build
from layoutalg.kernels.gemm.tiles import SimtConfig

NUMPY = {"f32": np.float32, "f64": np.float64}


@dataclass(frozen=True)
class Outcome:
    """`got` is D, `expected` its definition in float64; `around` what lies between D's rows, untouched."""

    run: Simulation
    got: Any
    expected: Any
    around: Any


def strided(flat: Any, p: GemmProblem, leading: int) -> Any:
    """An m x n matrix in a flat buffer."""
    return as_strided(flat, (p.m, p.n), (leading * flat.itemsize, flat.itemsize))


def inputs(p: GemmProblem, seed: int = 0) -> dict[str, Any]:
    """Random small integers for every operand, NaN where D goes."""
    rng, real = np.random.default_rng(seed), NUMPY[p.operand.name]

    def draw(elems: int) -> Any:
        return rng.integers(-4, 5, elems).astype(real)

    return {
        "a": draw(p.a_elems), "b": draw(p.b_elems), "c": draw((p.m - 1) * p.ldc + p.n), "bias": draw(p.n),
        "d": np.full((p.m - 1) * p.ldd + p.n, np.nan, real),
    }  # fmt: skip


def run(
    p: GemmProblem,
    c: SimtConfig,
    *,
    group: Literal["block", "warp"] = "block",
    data: dict[str, Any] | None = None,
    change: Callable[[Kernel], Kernel] | None = None,
    seed: int = 0,
) -> Outcome:
    """Build, check, lower, simulate; alpha = 2, beta = 3."""
    kernel = build(p, c)
    check(kernel)
    kernel = lower(kernel)
    if change is not None:
        kernel = change(kernel)
    x = inputs(p, seed) if data is None else data
    given: dict[str, Any] = {name: getattr(p, name) for name in ("m", "n", "k", "lda", "ldb", "ldc", "ldd")}
    given |= scalar_words(p, "alpha", 2.0) | scalar_words(p, "beta", 3.0) | x
    done = simulate(kernel, {q.name: given[q.name] for q in kernel.params}, group=group, seed=seed)
    a, b = matrices(p, x["a"], x["b"])
    with np.errstate(all="ignore"):
        expected = 2 * (a.astype(np.float64) @ b.astype(np.float64))
        if p.reads_c:
            expected = expected + 3 * strided(x["c"], p, p.ldc)
        if p.bias:
            expected = expected + x["bias"]
        if p.activation == "relu":
            expected = np.where(expected < 0, 0, expected)
    gaps = x["d"][: (p.m - 1) * p.ldd].reshape(-1, p.ldd)[:, p.n :]
    return Outcome(done, strided(x["d"], p, p.ldd), expected, gaps)
