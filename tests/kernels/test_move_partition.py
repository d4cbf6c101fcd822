"""Partitions as tensors are what the functions of numbers say, place by place and predicate by predicate."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from layoutalg.codegen.expr import Expr, Var, as_expr, evaluate
from layoutalg.codegen.language import KernelBuilder, Tensor
from layoutalg.kernels.move import normalise, permute_configs
from layoutalg.kernels.move.misaligned import block_base
from layoutalg.kernels.move.partition import (
    Store,
    Way,
    block_origins,
    direct_element,
    load_chunk,
    partition_of,
    run_origins,
    staged_chunks,
    tensor_of,
)
from layoutalg.kernels.move.stage import Stage
from tests.permutations import random_problem
from tests.sweeps import each

X = Var("x", 1 << 20)


def values(e: Expr, numbers: Any) -> Any:
    return np.broadcast_to(evaluate(as_expr(e), {X: numbers}), numbers.shape)


def all_of(predicates: Any, numbers: Any) -> Any:
    return np.all([np.broadcast_to(p, numbers.shape) for p in (True, *predicates)], axis=0)


def stages(seed: int) -> list[tuple[Stage, Tensor, Tensor, KernelBuilder]]:
    x = normalise(random_problem(random.Random(seed), 2000))
    found = []
    for c in permute_configs(x):
        stage, k = Stage(x, c), KernelBuilder("k", c.threads)
        src = tensor_of(k, stage, "src", [m.src for m in stage.modes])
        found.append((stage, src, tensor_of(k, stage, "dst", stage.dst_strides), k))
    return found


@each("seed", range(40))
def test_elements(seed: int) -> None:
    for stage, src, dst, _ in stages(seed):
        if stage.config.way == "staged" or any(m.src < 0 for m in stage.modes):
            continue
        numbers = np.arange(stage.elements)
        for block in {0, stage.blocks - 1}:
            origins = block_origins(stage, block)
            source, target, exists = direct_element(stage, numbers, origins)
            here, there = (partition_of(stage, *side) for side in sides(src, dst, origins))
            assert (values(here.at(X).index, numbers) == source).all()
            assert (values(there.at(X).index, numbers) == target).all()
            assert (values(here.inside(X), numbers) == all_of(exists, numbers)).all()


def sides(src: Tensor, dst: Tensor, origins: Any) -> list[tuple[Tensor, Any, Way]]:
    return [(src, origins, "read"), (dst, origins, "write")]


@each("seed", range(40))
def test_chunks(seed: int) -> None:
    for stage, src, _, k in stages(seed):
        if stage.config.way == "direct" or not stage.is_straight:
            continue
        tile, numbers = (
            k.shared_buffer("tile", 1, stage.layout, stage.tile_bytes, 1024),
            np.arange(stage.loads),
        )
        for block in {0, stage.blocks - 1}:
            origins = block_origins(stage, block)
            base = block_base(stage, origins)
            want, here = load_chunk(stage, numbers, origins, base), partition_of(stage, src, origins, "load")
            assert (values(here.at(X).index, numbers) == want.source).all() and want.inside is None
            assert (values(here.inside(X), numbers) == all_of(want.exists, numbers)).all()
            (place,) = staged_chunks(stage, tile, base).coordinate(X)
            assert (values(place, numbers) == want.place).all()


@each("seed", range(40))
def test_vectors(seed: int) -> None:
    for stage, _, dst, _ in stages(seed):
        if stage.config.way == "direct" or not stage.dst_aligned:
            continue
        numbers = np.arange(stage.stores)
        for block in {0, stage.blocks - 1}:
            origins = block_origins(stage, block)
            for member in range(stage.group):
                want = Store(stage, numbers, origins, block_base(stage, origins), member)
                there = partition_of(stage, dst, run_origins(stage, origins, member), "store")
                assert (values(there.at(X).index, numbers) == want.target).all()
                assert (values(there.inside(X), numbers) == all_of(want.row, numbers)).all()
