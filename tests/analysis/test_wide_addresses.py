"""Addresses past 32 bits: what the printed text computes, at the far end of buffers that nobody could hold.

Every value that a kernel names or adds to a pointer is compiled as it is printed and compared with the
expression, evaluated in integers of any size.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.expr import Expr, Var, ctype, evaluate, summands, to_c, variables
from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.program import Do, For, Global, If, Kernel, Let, MemRef, Stmt, Unroll, lower
from layoutalg.kernels.gemm.choice import SIMT, SM80
from layoutalg.kernels.gemm.problem import Major, gemm_problem
from layoutalg.kernels.gemm.programs import simt as gemm_simt
from layoutalg.kernels.gemm.programs import sm80 as gemm_sm80
from layoutalg.kernels.matrix import matrix_problem
from layoutalg.kernels.move.matrix import build_transpose
from layoutalg.kernels.move.matrix_plan import transpose_configs
from layoutalg.kernels.move.permute import build as build_permute
from layoutalg.kernels.move.plan import configs as permute_configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.rowwise import norm_problem, plans, reduce_problem
from layoutalg.kernels.rowwise.programs.norm import plan as plan_norm
from layoutalg.kernels.rowwise.programs.reduce import build as build_reduction
from layoutalg.testing import compile_shared
from tests.draws.ctext_cases import TYPES
from tests.sweeps import each

FAR = 1 << 31


@dataclass(frozen=True)
class Use:
    """A printed expression, the type it is assigned to (None: added to a pointer), and one point."""

    node: Expr
    kind: str | None
    values: Mapping[Var, int]


Pick = Callable[[int], int]
"""A number below another one."""


def uses(kernel: Kernel, scalars: Mapping[str, int], pick: Pick) -> Iterator[Use]:
    """Every value that the kernel names, and every place in global memory, where `pick` chooses."""
    env: dict[Var, int] = {p: scalars[p.name] for p in kernel.params if isinstance(p, Var)}
    grid = launch_grid(kernel, scalars)
    for var, n in zip(kernel.block_vars, grid, strict=True):
        env[var] = pick(n)
    env[kernel.tid] = pick(kernel.threads)
    yield from _uses(kernel.body, env, pick)


def _uses(body: tuple[Stmt, ...], env: dict[Var, int], pick: Pick) -> Iterator[Use]:
    for s in body:
        match s:
            case Let(var, value) if isinstance(value, Expr):
                yield Use(value, ctype(var), dict(env))
                env[var] = evaluate(value, env)
            case For(var, count, inner, _, carry):
                yield Use(count, ctype(count), dict(env))
                turns = evaluate(count, env)
                if turns:
                    at = pick(turns)
                    for c in carry:
                        yield Use(c.first, None, dict(env))
                        yield Use(c.step, ctype(c.step), dict(env))
                    moved = {c.var: evaluate(c.first, env) + at * evaluate(c.step, env) for c in carry}
                    yield from _uses(inner, {**env, var: at, **moved}, pick)
            case Unroll(var, count, inner):
                for at in {0, count - 1, pick(count)}:
                    yield from _uses(inner, {**env, var: at}, pick)
            case If(condition, inner, orelse):
                yield Use(condition, "u32", dict(env))
                yield from _uses(inner if evaluate(condition, env) else orelse, dict(env), pick)
            case Do(_, args):
                for arg in args:
                    if isinstance(arg, MemRef) and isinstance(arg.buffer, Global):
                        yield Use(arg.index, None, dict(env))


def disagreements(found: list[Use]) -> list[Use]:
    """The uses that C computes otherwise."""
    lines = []
    for n, use in enumerate(found):
        names = sorted(variables(use.node), key=lambda v: v.name)
        kinds = ["u64" if v.kind == "place" else ctype(v) for v in names]
        given = "".join(
            f"const {t} {v.name} = {use.values[v]}ull; " for t, v in zip(kinds, names, strict=True)
        )
        text = f"({use.kind})({to_c(use.node)})" if use.kind else f"0ull + {summands(use.node)}"
        lines.append(f"{{ {given}out[{n}] = {text}; }}")
    source = f"{TYPES}void all(u64* out) {{\n" + "\n".join(lines) + "\n}\n"
    out = np.zeros(len(found), dtype=np.uint64)
    compile_shared(source, language="c").all(out.ctypes)
    return [u for u, x in zip(found, out, strict=True) if int(x) != evaluate(u.node, u.values)]


PRODUCTS: dict[str, tuple[tuple[int, int, int], Major, Major, int, int]] = {
    "many rows and columns": ((1 << 20, 1 << 20, 64), "k", "k", 0, 0),
    "many, turned": ((1 << 20, 1 << 20, 40), "mn", "mn", 0, 0),
    "rows past 32 bits": (((1 << 33) + 5, 8, 16), "k", "mn", 0, 0),
    "columns past 32 bits": ((3, 1 << 33, 16), "k", "k", 0, 0),
    "k past 32 bits": ((64, 64, 1 << 33), "k", "mn", 0, 0),
    "k that cuts tiles": ((67, 72, FAR + 40), "k", "k", 0, 0),
    "far rows": ((67, 72, 40), "k", "mn", FAR, 0),
    "far rows, single elements": ((67, 71, 40), "k", "k", FAR + 3, -1),
}
"""Extents, majors, what is added to leading dimensions, and which of the configurations."""

FAMILIES: dict[str, tuple[str, Any, Any]] = {
    "sm80": ("f16", SM80.configs, gemm_sm80.build),
    "simt": ("f32", SIMT.configs, gemm_simt.build),
}


def agree(kernel: Kernel, scalars: dict[str, int]) -> None:
    """At the last of everything, and at three random points."""
    lowered, rng = lower(kernel), random.Random(kernel.name)
    picks: tuple[Pick, ...] = (lambda n: n - 1, rng.randrange, rng.randrange, rng.randrange)
    found = [use for pick in picks for use in uses(lowered, scalars, pick)]
    assert any(evaluate(u.node, u.values) >> 31 for u in found)
    assert not disagreements(found)


@each("family", FAMILIES)
@each("name", PRODUCTS, sample=1)
def test_products(name: str, family: str) -> None:
    (dtype, configs, build), ((m, n, k), a_major, b_major, extra, way) = FAMILIES[family], PRODUCTS[name]
    p = gemm_problem(m, n, k, dtype, a_major=a_major, b_major=b_major)
    p = replace(p, lda=p.lda + extra, ldd=p.ldd + extra)
    c = configs(p)[way]
    scalars = {x: getattr(p, x) for x in ("m", "n", "k", "lda", "ldb", "ldd")}
    agree(build(p, c), {**scalars, "alpha": 1, "splits": c.splits})


@each(("m", "n", "dtype"), [(1 << 20, 1 << 20, "u8"), (1 << 17, (1 << 17) + 1, "f32"), (3, 1 << 33, "u16")])
def test_transposes(m: int, n: int, dtype: str) -> None:
    p = matrix_problem(m, n, dtype, turned=True)
    agree(build_transpose(p, next(transpose_configs(p))), {"m": m, "n": n, "lds": p.lds, "ldd": p.ldd})


@each(
    ("shape", "axes"), [((1 << 17, 3, 1 << 16), (2, 1, 0)), ((5, 1 << 31, 7), (1, 0, 2)), ((1 << 36,), (0,))]
)
def test_permutes(shape: tuple[int, ...], axes: tuple[int, ...]) -> None:
    x = normalise(permute_problem(shape, axes, "u8"))
    agree(build_permute(x, permute_configs(x)[0]), {})


REDUCTIONS: tuple[tuple[tuple[int, ...], tuple[int, ...], str], ...] = (
    ((1 << 33,), (0,), "f16"),
    ((1 << 17, 1 << 16), (1,), "f32"),
    ((1 << 17, (1 << 16) + 1), (0,), "f32"),
    ((3, 1 << 32), (0,), "bf16"),
    ((1 << 12, 7, 1 << 19), (0, 2), "f16"),
)
"""Shapes, the axes that are reduced, and elements."""


@pytest.mark.parametrize(("shape", "axes", "dtype"), REDUCTIONS)
def test_reductions_and_norms(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> None:
    first, *_ = build_reduction(plans(reduce_problem(shape, axes, "sum", dtype))[0])
    norms = plan_norm(norm_problem("softmax", shape, axes, dtype)).kernels
    for kernel in (first, *norms):
        if not kernel.name.endswith(("_joined", "_clear")):  # they touch partials and counters, which are few
            agree(kernel, {})


def test_a_sum_that_wraps_is_noticed() -> None:
    """The fault that is looked for: a wide sum of narrow values in 32 bits."""
    a, b = Var("a", 1 << 32), Var("b", 1 << 32)
    narrow = Use(a + b, "u32", {a: 1 << 31, b: 1 << 31})
    assert disagreements([narrow]) and not disagreements([Use(a + b, "u64", narrow.values)])
