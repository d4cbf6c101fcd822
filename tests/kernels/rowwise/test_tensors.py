"""Kernels over rows address memory by coordinates: an index is its coordinate's, and it stays inside."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.language import Tensor
from layoutalg.codegen.program import Do, For, Global, If, Kernel, Let, MemRef, Unroll
from layoutalg.errors import IRError
from layoutalg.kernels.rowwise import norm_problem, plan_with, reduce_problem
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.block import Block
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.programs.reduce import build
from tests.draws.norms import random_problem
from tests.draws.reductions import random_plan, random_reduction
from tests.sweeps import each


def places(kernel: Kernel, rng: random.Random) -> Iterator[tuple[MemRef, int, int]]:
    """Every access through a tensor: its index, and the inner product of its coordinate and the strides, for
    random threads, blocks and turns of loops."""
    (blocks, _, _) = kernel.grid
    start: dict[Var, Any] = {}

    def value(e: Any, known: dict[Var, Any]) -> int:
        return int(evaluate(e, known))

    def body(statements: Any, known: dict[Var, Any]) -> Iterator[tuple[MemRef, int, int]]:
        for s in statements:
            match s:
                case Let(var, e):
                    known = {**known, var: value(e, known)}
                case For(var, count, inner) | Unroll(var, count, inner):
                    count = count if isinstance(count, int) else value(count, known)
                    for _ in range(2 if count else 0):
                        yield from body(inner, {**known, var: rng.randrange(count)})
                case If(_, inner, orelse):
                    yield from body(inner, known)
                    yield from body(orelse, known)
                case Do(_, args):
                    for ref in args:
                        if isinstance(ref, MemRef) and ref.tensor and isinstance(ref.buffer, Global):
                            pairs = zip(ref.coordinate, ref.buffer.strides, strict=True)
                            yield ref, value(ref.index, known), sum(value(c * d, known) for c, d in pairs)

    for _ in range(4):
        start = {
            Var("tid", kernel.threads, "thread"): rng.randrange(kernel.threads),
            Var("block_x", blocks, "block"): rng.randrange(value(blocks, {})),
        }
        yield from body(kernel.body, start)


def kernels(seed: int) -> tuple[Kernel, ...]:
    """Those of a random norm, or of a random reduction."""
    rng = random.Random(seed)
    if seed % 2:
        p = random_problem(rng, 3000)
        return plan(p, config=rng.choice(configs(p))).kernels
    return build(random_plan(rng, random_reduction(rng, 3000)))


@each("seed", range(60), sample=20)
def test_an_index_is_that_of_its_coordinate(seed: int) -> None:
    for kernel in kernels(seed):
        for ref, index, wanted in places(kernel, random.Random(seed)):
            assert index == wanted, f"{kernel.name}: {ref} at {ref.coordinate}"


def test_most_accesses_of_rows_that_start_at_vectors_are_proven() -> None:
    for op, axis in (("softmax", 1), ("softmax", 0), ("layer_norm", 1)):
        p = norm_problem(op, (4096, 1024), axis, "f16", weight=op == "layer_norm", bias=op == "layer_norm")
        for config in configs(p)[:3]:
            for kernel in plan(p, config=config).kernels:
                seen = {ref.buffer.name: ref for ref, *_ in places(kernel, random.Random(0))}
                assert {"src"} <= set(seen) <= {"src", "dst", "weight", "bias"}
                for ref in seen.values():
                    assert ref.tensor is not None and None not in ref.tensor.extents[:-1]


TOO_LONG = (
    norm_problem("softmax", (64, 1024), 1, "f32"),
    norm_problem("softmax", (2048, 64), 0, "f16"),
    norm_problem("layer_norm", (7, 1000), 1, "f32", weight=True),
    reduce_problem((64, 1024), 1, "sum", "f32"),
    reduce_problem((100, 4096), 0, "max", "f16"),
)


@each("mode", [0, 1])
@each("p", TOO_LONG, ids=str)
def test_a_walk_past_an_extent_is_refused_when_it_is_built(p: Any, mode: int) -> None:
    """As if the tensor were one row, or one vector, shorter than the walk."""
    made = Block.tensor

    def shorter(self: Block, name: str, *args: Any, **asked: Any) -> Tensor:
        found = made(self, name, *args, **asked)
        if name != "src":
            return found
        bounds = [e if k != mode or e is None else e - 1 for k, e in enumerate(found.extents)]
        return replace(found, extents=tuple(bounds))

    def make() -> None:
        plan(p) if hasattr(p, "eps") else build(plan_with(p, c))

    if not hasattr(p, "eps"):
        from layoutalg.kernels.rowwise import plans

        c = replace(plans(p)[0].passes[0].config, splits=1)
    make()
    with patch.object(Block, "tensor", shorter), pytest.raises(IRError, match="can pass the extent"):
        make()
