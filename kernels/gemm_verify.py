"""The agreement test of a product: its definition, the simulator and the GPU for D, predictions for accesses.

The idea.  D = alpha A B + beta C + bias is computed in float64 from the operands as they are stored, and a
result may differ from it by what rounding can do, element by element:

    |D - exact| <= 2 (k + 4) u (|alpha| |A| |B| + |beta C| + |bias|) + 2 v |exact| + tiny

with u the roundoff of the sums, v and `tiny` the roundoff and half the least number of the result; the twos
are for tensor cores, which cut sums off.  Integers have to be equal.  D holds NaN (or -1) before.

    >>> from layoutalg.kernels.gemm_bench import find_gemm_family
    >>> report = verify_product(find_gemm_family("gemm-simt"), gemm_problem(32, 64, 16, "f32", b_major="mn"))
    >>> report.passed, report.checks[0].name
    (True, 'result, one block at a time')

Notes.  The simulator runs with all warps of a block in step and with one warp at a time, and refuses what
another schedule could see otherwise: hazards are errors, not results.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from layoutalg.codegen.packing import WORD_ELEMS, decode, encode
from layoutalg.codegen.printed import printed
from layoutalg.codegen.runtime import to_device, to_host
from layoutalg.codegen.simulate import Simulation, simulate
from layoutalg.kernels.family import (
    Check,
    Target,
    VerifyReport,
    access_checks,
    machine_code_checks,
    traced_costs,
)
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, matrices, scalar_words
from layoutalg.kernels.gemm_bench import EPSILON, GemmFamily
from layoutalg.kernels.gemm_launches import WORD, Config, launcher, launches, predictions

ALPHA, BETA = 2, -3
"""The factors that are verified: neither is 1, so that neither can be forgotten."""

LEAST = {"f16": 2.0**-25, "bf16": 2.0**-134, "f32": 2.0**-150, "f64": 0.0, "s32": 0.0}
"""Half of the least positive number of each type of a result; of doubles it is no double."""


def verified_problem(
    family: GemmFamily, extents: tuple[int, int, int], dtype: str | None = None
) -> GemmProblem:
    """A product of the family's usual storage that takes C and a bias as well.

    >>> from layoutalg.kernels.gemm_bench import find_gemm_family
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

    >>> from layoutalg.kernels.gemm_bench import find_gemm_family
    >>> family = find_gemm_family("gemm-sm80")
    >>> verify_product(family, verified_problem(family, (16, 24, 40))).passed
    True
    """
    c: Config = family.configs(p, "sm_90")[0] if config is None else config
    given = operands(p, seed)
    exact, allowed = definition(p, given)
    checks: list[Check] = []
    if target == "gpu":
        on_gpu = {name: to_device(x) if hasattr(x, "dtype") else x for name, x in given.items()}
        launcher(p, c, on_gpu)()
        checks.append(compare("result", p, to_host(on_gpu["d"]), exact, allowed))
    else:
        for group in ("block", "warp"):
            mine = {**given, "d": given["d"].copy()}
            runs = _simulated(p, c, mine, group, seed)
            checks.append(compare(f"result, one {group} at a time", p, mine["d"], exact, allowed))
        checks += [*_accesses(p, c, runs), *machine_code_checks(launches(p, c).kernels)]
    return VerifyReport(family.name, f"{p}, {_way(c)}", target, tuple(checks))


def operands(p: GemmProblem, seed: int) -> dict[str, Any]:
    """What a kernel is given: normal numbers (all integers for integers) as their bits, D poisoned.

    >>> sorted(operands(gemm_problem(2, 3, 4), 0))
    ['a', 'alpha', 'b', 'beta', 'bias', 'c', 'd']
    """
    import numpy as np

    rng = np.random.default_rng(seed)

    def draw(elems: int, name: str) -> Any:
        whole = name.startswith("s")
        values = rng.integers(-128, 128, elems).astype(float) if whole else rng.standard_normal(elems)
        return _packed(values, name)

    old = (p.m - 1) * p.ldd + p.n
    return {
        "a": draw(p.a_elems, p.operand.name), "b": draw(p.b_elems, p.operand.name),
        "c": draw((p.m - 1) * p.ldc + p.n, p.result.name), "bias": draw(p.n, p.result.name),
        "d": ~np.zeros(old, WORD[p.result.nbytes]),
        **scalar_words(p, "alpha", ALPHA), **scalar_words(p, "beta", BETA),
    }  # fmt: skip


def definition(p: GemmProblem, given: Mapping[str, Any]) -> tuple[Any, Any]:
    """D in float64 from the operands' bits, and how far each element may be from it: see the module's text.

    >>> p = gemm_problem(2, 3, 4, "s8")
    >>> definition(p, operands(p, 0))[1].max()
    np.float64(0.0)
    """
    import numpy as np

    a, b = matrices(p, *(_unpacked(given[x], p.operand.name) for x in "ab"))
    exact, size = ALPHA * (a @ b), abs(ALPHA) * (np.abs(a) @ np.abs(b))
    if p.reads_c:
        old = BETA * _rows(_unpacked(given["c"], p.result.name), p, p.ldc)
        exact, size = exact + old, size + np.abs(old)
    if p.bias:
        bias = _unpacked(given["bias"], p.result.name)
        exact, size = exact + bias, size + np.abs(bias)
    if p.activation == "relu":
        exact = np.maximum(exact, 0)
    sums, last = (EPSILON.get(x.name, 0.0) for x in (p.accumulator, p.result))
    return exact, 2 * (p.k + 4) * sums * size + 2 * last * np.abs(exact) + LEAST[p.result.name]


def compare(name: str, p: GemmProblem, bits: Any, exact: Any, allowed: Any) -> Check:
    """Whether every element of D is where the definition allows it.

    >>> p = gemm_problem(2, 3, 4)
    >>> given = operands(p, 0)
    >>> compare("poison", p, given["d"], *definition(p, given)).passed
    False
    """
    import numpy as np

    got = _rows(_unpacked(bits, p.result.name), p, p.ldd)
    error = np.abs(got - exact)
    wrong = np.argwhere(~(error <= allowed))
    if len(wrong):
        i, j = (int(x) for x in wrong[0])
        said = f"D[{i}][{j}] = {got[i, j]:.9g}, by definition {exact[i, j]:.9g} +- {allowed[i, j]:.2g}"
        return Check(name, False, f"{len(wrong)} elements are wrong: {said}")
    share = float((error / np.maximum(allowed, np.finfo(float).tiny)).max())
    return Check(name, True, f"{exact.size} elements, errors up to {share:.2f} of the bound")


def _simulated(p: GemmProblem, c: Config, given: dict[str, Any], group: Any, seed: int) -> list[Simulation]:
    import numpy as np

    one = launches(p, c)
    sums = np.zeros(one.workspace_elems, one.workspace_dtype)
    steps = zip(one.kernels, one.arguments(given, sums), strict=True)
    return [simulate(printed(kernel), args, group=group, seed=seed) for kernel, args in steps]


def _accesses(p: GemmProblem, c: Config, runs: list[Simulation]) -> Iterator[Check]:
    """Predicted and traced costs, kernel by kernel; none where tiles stick out."""
    if p.m % c.tile_m or p.n % c.tile_n or p.k % c.tile_k:
        return
    for prediction, run in zip(predictions(p, c), runs, strict=True):
        yield from access_checks(prediction, traced_costs([run.trace]))


def _way(c: Config) -> str:
    parts = f", {c.splits} parts of k" if c.splits > 1 else ""
    return f"{c.tile_m}x{c.tile_n}x{c.tile_k}{parts}"


def _packed(values: Any, name: str) -> Any:
    """Elements as their bits, in an array of unsigned integers of their width."""
    import numpy as np

    words = encode(np.pad(values, (0, int(-len(values) % max(1, WORD_ELEMS[name]))))[None], name)[0]
    return words.view(WORD[int(4 / WORD_ELEMS[name])])[: len(values)].copy()


def _unpacked(bits: Any, name: str) -> Any:
    """The inverse of `_packed`, as float64."""
    import numpy as np

    words = np.pad(bits.view("u1"), (0, -bits.nbytes % 4)).view(np.uint32)[None]
    return decode(words, name)[0][: len(bits)].astype(float)


def _rows(flat: Any, p: GemmProblem, leading: int) -> Any:
    """The m x n matrix in a flat buffer of float64."""
    from numpy.lib.stride_tricks import as_strided

    return as_strided(flat, (p.m, p.n), (leading * 8, 8))
