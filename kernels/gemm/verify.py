"""The agreement test of a product: its definition, the simulator and the GPU for D, predictions for accesses.

The idea.  D = alpha A B + beta C + bias is computed in float64 from the operands as they are stored, and a
result may differ from it by what rounding can do, element by element:

    |D - exact| <= 2 (k + 4) u (|alpha| |A| |B| + |beta C| + |bias|) + 2 v |exact| + tiny

with u the roundoff of the sums, v and `tiny` the roundoff and half the least number of the result; the twos
are for tensor cores, which cut sums off.  Integers have to be equal, modulo 2^32.  D holds NaN (or -1)
before.

Every problem is computed for several sets of data, its trials:

    normal         numbers of N(0, 1); integers of all values
    not numbers    some of A, B, C and the bias are NaN or infinite: what has to come out is what IEEE 754
                   makes of the definition, where a result past the largest number of its type is infinite
    extremes       integers at the ends of their range, so that results wrap
    beta = 0       C is NaN (or any integer), and must not be read into the result

    >>> from layoutalg.kernels.gemm.bench import find_gemm_family
    >>> report = verify_product(find_gemm_family("gemm-simt"), gemm_problem(32, 64, 16, "f32", b_major="mn"))
    >>> report.passed, report.checks[0].name
    (True, 'result, one block at a time')

Notes.  The simulator runs with all warps of a block in step and with one warp at a time, and refuses what
another schedule could see otherwise: hazards are errors, not results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, Literal

from layoutalg.codegen.gpu import to_device, to_host
from layoutalg.codegen.program import printed
from layoutalg.codegen.sim import Simulation, simulate
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
from layoutalg.kernels.gemm.bench import EPSILON, GemmFamily
from layoutalg.kernels.gemm.launches import Config, Launches, launcher, launches, load_all, predictions
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, matrices, scalar_words
from layoutalg.kernels.rounding import agrees, largest_share

ALPHA, BETA = 2, -3
"""The factors that are verified: neither is 1, so that neither can be forgotten.  See `_factors`."""

_GROUPS: tuple[Literal["block", "warp"], ...] = ("block", "warp")

LEAST = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150, "f64": 0.0, "s32": 0.0}
"""Half of the least positive number of each type of a result; of doubles it is no double."""


def verified_problem(
    family: GemmFamily, extents: tuple[int, int, int], dtype: str | None = None
) -> GemmProblem:
    """A product of the family's usual storage that takes C and a bias as well.

    >>> from layoutalg.kernels.gemm.bench import find_gemm_family
    >>> print(verified_problem(find_gemm_family("gemm-sm80"), (64, 32, 16)))
    64 x 32 x 16 f16 TN
    """
    usual = family.problem(1)
    return gemm_problem(
        *extents,
        dtype or usual.operand,
        a_major=usual.a_major,
        b_major=usual.b_major,
        reads_c=True,
        bias=True,
    )


def verify_product(
    family: GemmFamily, p: GemmProblem, config: Config | None = None, *, target: Target = "simulator",
    seed: int = 0,
) -> VerifyReport:  # fmt: skip
    """Run one configuration (the first choice when None) on random numbers and compare with the definition.

    In the simulator traced accesses are compared too, where tiles are whole and so predicted, and the kernels
    are compiled where NVRTC is installed.  Raises UnsupportedError for target "gpu" without one,
    SimulationError for a hazard, CompileError.

    >>> from layoutalg.kernels.gemm.bench import find_gemm_family
    >>> family = find_gemm_family("gemm-sm80")
    >>> verify_product(family, verified_problem(family, (16, 24, 40))).passed
    True
    """
    check_run(p, 8 * (p.a_elems + p.b_elems + 4 * p.m * p.n), target, seed)
    c: Config = family.configs(p, "sm_90")[0] if config is None else config
    checks = tuple(product_checks(p, c, target=target, seed=seed))
    return VerifyReport(family.name, f"{p}, {_way(c)}", target, checks)


def product_checks(
    p: GemmProblem, c: Config, *, target: Target = "simulator", seed: int = 0
) -> Iterator[Check]:
    """The checks of `verify_product`, one after the other as they are made.

    >>> from layoutalg.kernels.gemm.bench import find_gemm_family
    >>> p = gemm_problem(8, 8, 8, "f32")
    >>> next(product_checks(p, find_gemm_family("gemm-simt").configs(p, "sm_90")[0])).name
    'result, one block at a time'
    """
    if target == "gpu":
        loaded = load_all([(p, c)])[0]
        for trial in trials(p):
            given = operands(p, seed, trial)
            on_gpu = {name: to_device(x) if hasattr(x, "dtype") else x for name, x in given.items()}
            launcher(p, c, on_gpu, loaded)()
            name = "result" if trial == "normal" else f"result, {trial}"
            yield compare(name, p, to_host(on_gpu["d"]), *definition(p, given))
        return
    one = launches(p, c)
    kernels = tuple(printed(kernel) for kernel in one.kernels)
    ran, runs = replace(one, kernels=kernels), list[Simulation]()
    for group in _GROUPS:
        given = operands(p, seed)
        runs = _simulated(ran, given, group, seed)
        yield compare(f"result, one {group} at a time", p, given["d"], *definition(p, given))
    yield from _accesses(p, c, runs)
    for trial in trials(p)[1:]:
        given = operands(p, seed, trial)
        _simulated(ran, given, "block", seed)
        yield compare(f"result, {trial}", p, given["d"], *definition(p, given))
    yield from machine_code_checks(one.kernels)


def trials(p: GemmProblem) -> tuple[str, ...]:
    """The sets of data that a problem is computed for.

    >>> trials(gemm_problem(2, 3, 4)), trials(gemm_problem(2, 3, 4, "s8", reads_c=True))
    (('normal', 'not numbers'), ('normal', 'extremes', 'beta = 0'))
    """
    special = "extremes" if p.accumulator.name == "s32" else "not numbers"
    return ("normal", special, "beta = 0") if p.reads_c else ("normal", special)


def operands(p: GemmProblem, seed: int, trial: str = "normal") -> dict[str, Any]:
    """What a kernel is given in a trial: numbers as their bits, D poisoned.

    >>> sorted(operands(gemm_problem(2, 3, 4), 0))
    ['a', 'alpha', 'b', 'beta', 'bias', 'c', 'd']
    """
    import numpy as np

    rng = np.random.default_rng(seed)

    def draw(elems: int, name: str) -> Any:
        if name.startswith("s"):
            low, high = -(1 << int(name[1:]) - 1), (1 << int(name[1:]) - 1) - 1
            some = rng.integers(low, high + 1, elems)
            return bits_of(np.array([low, high])[some % 2] if trial == "extremes" else some, name)
        values = rng.standard_normal(elems)
        if trial == "not numbers":
            values[rng.permutation(elems)[: 1 + elems // 500]] = np.inf
            values[rng.integers(elems)], values[rng.integers(elems)] = -np.inf, np.nan
        return bits_of(values, name)

    old, (alpha, beta) = (p.m - 1) * p.ldd + p.n, _factors(p)
    beta = 0 if trial == "beta = 0" else beta
    given = {
        "a": draw(p.a_elems, p.operand.name), "b": draw(p.b_elems, p.operand.name),
        "c": draw((p.m - 1) * p.ldc + p.n, p.result.name), "bias": draw(p.n, p.result.name),
        "d": ~np.zeros(old, CARRIER[p.result.nbytes]),
        **scalar_words(p, "alpha", alpha), **scalar_words(p, "beta", beta),
    }  # fmt: skip
    if beta == 0:
        given["c"] = ~np.zeros_like(given["c"])
    return given


def _factors(p: GemmProblem) -> tuple[float, float]:
    """alpha and beta; of doubles all words have bits."""
    return (1.05 * ALPHA, 1.05 * BETA) if p.accumulator.name == "f64" else (ALPHA, BETA)


def definition(p: GemmProblem, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """D in float64 from the operands' bits, and how far each element may be from it: see the module's text.

    C counts where the words of beta that are `given` are not 0.

    >>> p = gemm_problem(2, 3, 4, "s8")
    >>> definition(p, operands(p, 0))[1].max()
    np.float64(0.0)
    """
    import numpy as np

    a, b = matrices(p, *(numbers_of(given[x], p.operand.name) for x in "ab"))
    alpha, beta = _factors(p)
    with np.errstate(all="ignore"):
        exact, size = alpha * (a @ b), abs(alpha) * (np.abs(a) @ np.abs(b))
        if p.reads_c and any(given[word] for word in scalar_words(p, "beta", beta)):
            old = beta * _rows(numbers_of(given["c"], p.result.name), p, p.ldc)
            exact, size = exact + old, size + np.abs(old)
        if p.bias:
            bias = numbers_of(given["bias"], p.result.name)
            exact, size = exact + bias, size + np.abs(bias)
        if p.accumulator.name == "s32":
            exact = (exact + 2.0**31) % 2.0**32 - 2.0**31
        if p.activation == "relu":
            exact = np.maximum(exact, 0)
        sums, last = (EPSILON.get(x.name, 0.0) for x in (p.accumulator, p.result))
        return exact, 2 * (p.k + 4) * sums * size + 2 * last * np.abs(exact) + LEAST[p.result.name]


def compare(name: str, p: GemmProblem, bits: Any, exact: Any, allowed: Any) -> Check:
    """Whether every element of D is where the definition allows it, NaN and infinite where it is.

    >>> p = gemm_problem(2, 3, 4)
    >>> given = operands(p, 0)
    >>> compare("poison", p, given["d"], *definition(p, given)).passed
    False
    """
    import numpy as np

    got = _rows(numbers_of(bits, p.result.name), p, p.ldd)
    wrong = np.argwhere(~agrees(got, exact, allowed, p.result.name))
    if len(wrong):
        i, j = (int(x) for x in wrong[0])
        said = f"D[{i}][{j}] = {got[i, j]:.9g}, by definition {exact[i, j]:.9g} +- {allowed[i, j]:.2g}"
        return Check(name, False, f"{len(wrong)} elements are wrong: {said}")
    share = largest_share(got, exact, allowed)
    return Check(name, True, f"{exact.size} elements, errors up to {share:.2f} of the bound")


def _simulated(one: Launches, given: Mapping[str, Any], group: Any, seed: int) -> list[Simulation]:
    import numpy as np

    sums = ~np.zeros(one.workspace_elems, one.workspace_dtype)
    steps = zip(one.kernels, one.arguments(given, sums), strict=True)
    return [simulate(kernel, args, group=group, seed=seed) for kernel, args in steps]


def _accesses(p: GemmProblem, c: Config, runs: list[Simulation]) -> Iterator[Check]:
    """Predicted and traced costs, kernel by kernel; none where tiles stick out."""
    if p.m % c.tile_m or p.n % c.tile_n or p.k % c.tile_k:
        return
    for prediction, run in zip(predictions(p, c), runs, strict=True):
        yield from access_checks(prediction, traced_costs([run.trace]))


def _way(c: Config) -> str:
    parts = f", {c.splits} parts of k" if c.splits > 1 else ""
    return f"{c.tile_m}x{c.tile_n}x{c.tile_k}{parts}"


def _rows(flat: Any, p: GemmProblem, leading: int) -> Any:
    """The m x n matrix in a flat buffer of float64."""
    from numpy.lib.stride_tricks import as_strided

    return as_strided(flat, (p.m, p.n), (leading * 8, 8))
