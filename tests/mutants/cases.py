"""Problems whose programs are mutated: every family, in the ways it works, as small as they may be.

A case is one text and the problems that it serves: for products several sizes, so that a ring of tiles ends
in each of its places.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

import pytest

from layoutalg.codegen.program import Kernel, LaunchSequence, lower
from layoutalg.kernels import FAMILIES, Family
from layoutalg.kernels.checks import record
from layoutalg.kernels.gemm.launches import launches, sequence_of
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.gemm.tiles import Config, SimtConfig, Sm80Config
from layoutalg.kernels.rowwise import NormConfig, ReduceProblem, norm_problem, plans, reduce_problem
from tests.draws.sequences import TENSOR_OPS, problem_of
from tests.mutants.statements import Checks, Mutant, mutants_of, verdict


@dataclass(frozen=True)
class Case:
    """Kernels, and the problems that they serve; `fixed`: they serve no other."""

    name: str
    kernels: tuple[Kernel, ...]
    problems: tuple[Checks, ...]
    fixed: bool = False

    def mutants(self) -> list[Mutant]:
        """All of them."""
        return [m for n, kernel in enumerate(self.kernels) for m in mutants_of(n, lower(kernel))]

    @contextmanager
    def ready(self) -> Iterator[None]:
        """Within, the problems are computed by the case's kernels, and nothing is compiled."""
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(record, "machine_code_checks", lambda kernels: iter(()))
            yield

    def verdict(self, mutant: Mutant | None) -> str:
        """What catches a mutant; nothing may fail without one."""
        with self.ready():
            return verdict(self.problems, mutant)


def _matrix(family_name: str, dtype: str, config: int, *sizes: tuple[int, int]) -> Case:
    """A copy or transpose: the kernel of the largest size, which comes first."""
    family = FAMILIES[family_name]
    first, *_ = problems = [family.problem(m, n, dtype) for m, n in sizes]
    c = family.configs(first, "sm_90")[config]
    kernels = family.launches(first, c, "sm_90").kernels

    def of(p: Any, c: Any, arch: Any) -> LaunchSequence:
        return replace(family.launches(p, c, arch), kernels=kernels)

    return _case(
        f"{family_name} {dtype} {getattr(c, 'via', '')}", replace(family, launches=of), kernels, c, *problems
    )


def _case(name: str, family: Family, kernels: tuple[Kernel, ...], c: Any, *problems: Any) -> Case:
    runs = tuple(functools.partial(record.each_check, family, p, c) for p in problems)
    return Case(name, kernels, runs, fixed=len(problems) == 1 and family.name in TENSOR_OPS)


def _tensor(name: str, op: str, p: Any, c: Any = None) -> Case:
    """A dense tensor's problem, by its best configuration or another one."""
    family = FAMILIES[op]
    c = family.choose(p) if c is None else c
    return _case(name, family, family.launches(p, c, "sm_90").kernels, c, p)


def _best(name: str, op: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> Case:
    return _tensor(name, op, problem_of(op, shape, axes, dtype))


def _in_two(name: str, p: ReduceProblem) -> Case:
    """A reduction in two passes, where all groups of threads of the second have something to add."""
    plan = next(
        x
        for x in plans(p)
        if len(x.passes) == 2 and x.passes[1].walk.steps > x.passes[1].config.groups_per_row // 2
    )
    return _tensor(name, p.op, p, plan.passes[0].config)


def _norm(op: str, shape: tuple[int, ...], axes: int, dtype: str, c: NormConfig, **extra: bool) -> Case:
    p = norm_problem(op, shape, axes, dtype, **extra)  # type: ignore[arg-type]
    how = " ".join([c.hold, *(["ring"] if c.hold == "global" and c.staged else []), *extra])
    kind = "split" if c.splits > 1 else "rows" if axes == len(shape) - 1 else "columns"
    return _tensor(f"{op} {dtype} {kind} {how}", op, p, c)


def _product(name: str, c: Config, *problems: GemmProblem) -> Case:
    """A product: the kernels of the first problem, which serve the others too."""
    family = FAMILIES["gemm-simt" if isinstance(c, SimtConfig) else "gemm-sm80"]
    kernels = launches(problems[0], c).kernels

    def of(p: GemmProblem, c: Config, arch: Any) -> LaunchSequence:
        return sequence_of(p, c, kernels)

    return _case(name, replace(family, launches=of), kernels, c, *problems)


def _sizes(ks: tuple[int, ...], m: int, n: int, dtype: str, **how: Any) -> list[GemmProblem]:
    """Problems of several k, the largest first, with leading dimensions of the largest where k is one."""
    most = max(ks)
    lead = {x: most for x, major in (("lda", "a_major"), ("ldb", "b_major")) if how.get(major, "k") == "k"}
    return [gemm_problem(m, n, k, dtype, **{**how, **lead}) for k in sorted(ks, reverse=True)]


CASES: dict[str, Callable[[], Case]] = {
    "copy registers": lambda: _matrix("tiled_copy", "f32", 0, (40, 200)),
    "copy cp.async": lambda: _matrix("tiled_copy", "f16", 1, (40, 300)),
    "transpose f32": lambda: _matrix("transpose", "f32", 0, (72, 140)),
    "transpose f16": lambda: _matrix("transpose", "f16", 0, (72, 140)),
    "transpose u8": lambda: _matrix("transpose", "u8", 0, (140, 150)),
    "permute f32": lambda: _best("permute f32", "permute", (13, 22, 35), (2, 0, 1), "f32"),
    "permute f16": lambda: _best("permute f16", "permute", (16, 64, 48), (0, 2, 1), "f16"),
    "permute u8": lambda: _best("permute u8", "permute", (3, 11, 34), (2, 1, 0), "u8"),
    "sum rows": lambda: _best("sum f32 rows", "sum", (5, 3001), (1,), "f32"),
    "max columns": lambda: _best("max f16 columns", "max", (300, 37), (0,), "f16"),
    "mean box": lambda: _best("mean bf16", "mean", (4, 33, 20), (0, 2), "bf16"),
    "sum in two": lambda: _in_two("sum two passes", reduce_problem((1000, 32), 0, "sum", "f32")),
    "softmax rows": lambda: _norm("softmax", (9, 301), 1, "f32", NormConfig(4, 2, 64, "registers")),
    "softmax shared": lambda: _norm("softmax", (3, 1200), 1, "f16", NormConfig(8, 1, 64, "shared", staged=2)),
    "softmax twice": lambda: _norm("softmax", (3, 1500), 1, "f32", NormConfig(4, 1, 64, "global", 2)),
    "softmax ring": lambda: _norm(
        "softmax", (500, 24), 0, "f32", NormConfig(4, 2, 32, "global", 2, staged=4)
    ),
    "softmax columns": lambda: _norm("softmax", (150, 21), 0, "bf16", NormConfig(8, 8, 64, "registers")),
    "softmax split": lambda: _norm("softmax", (300, 32), 0, "f32", NormConfig(4, 8, 4, "global", 2, 8)),
    "layer_norm rows": lambda: _norm(
        "layer_norm", (5, 301), 1, "f32", NormConfig(4, 1, 64, "registers"), weight=True, bias=True
    ),
    "layer_norm twice": lambda: _norm("layer_norm", (3, 1500), 1, "f16", NormConfig(8, 1, 64, "global", 2)),
    "layer_norm columns": lambda: _norm(
        "layer_norm", (150, 21), 0, "f32", NormConfig(4, 8, 16, "registers"), weight=True, bias=True
    ),
    "layer_norm split": lambda: _norm(
        "layer_norm", (300, 32), 0, "f32", NormConfig(4, 8, 4, "global", 2, 8), in_place=True
    ),
    "sm80 ring": lambda: _product(
        "gemm_sm80 f16 ring", Sm80Config(64, 32, 32, 2, 1, 3, edges=True, result_vec=4),
        *_sizes((200, 16, 64, 96, 128), 40, 72, "f16", reads_c=True, bias=True, activation="relu"),
    ),
    "sm80 ring of two": lambda: _product(
        "gemm_sm80 bf16 ring", Sm80Config(32, 32, 32, 1, 2, 2, result_vec=8),
        *_sizes((128, 32, 64, 96), 32, 64, "bf16", b_major="mn", bias=True),
    ),
    "sm80 registers": lambda: _product(
        "gemm_sm80 s8 registers", Sm80Config(64, 32, 64, 2, 1, 2, via="registers", edges=True, result_vec=4),
        *_sizes((208, 16, 64, 128), 40, 40, "s8", reads_c=True),
    ),
    "sm80 one buffer": lambda: _product(
        "gemm_sm80 tf32 one buffer",
        Sm80Config(32, 32, 16, 2, 1, 1, via="registers", edges=True, result_vec=2),
        *_sizes((72, 12, 32), 36, 36, "tf32"),
    ),
    "sm80 parts": lambda: _product(
        "gemm_sm80 f16 parts of k", Sm80Config(64, 32, 32, 2, 1, 3, edges=True, splits=3, result_vec=4),
        *_sizes((328, 24, 64), 40, 40, "f16", reads_c=True, bias=True),
    ),
    "simt ring": lambda: _product(
        "gemm_simt f32 ring",
        SimtConfig(16, 64, 8, 4, 4, 4, via="cp.async", stages=3, edges=True, result_vec=4),
        *_sizes((44, 4, 8, 16, 24), 20, 72, "f32", b_major="mn", reads_c=True, bias=True),
    ),
    "simt registers": lambda: _product(
        "gemm_simt f64 registers",
        SimtConfig(
            8, 32, 8, 2, 2, 4, run_m=2, via="registers", stages=2, edges=True, a_vector=1, b_vector=1,
            result_vec=2,
        ),
        *_sizes((25, 3, 8, 16), 11, 40, "f64", b_major="mn", activation="relu"),
    ),
    "simt parts": lambda: _product(
        "gemm_simt f32 parts of k",
        SimtConfig(16, 32, 8, 4, 4, 4, via="cp.async", stages=2, edges=True, splits=3),
        *_sizes((60, 4, 32), 20, 40, "f32", b_major="mn"),
    ),
}  # fmt: skip
"""By name; each is made when it is asked for."""
