"""Parts of a tile: the elements of tensors are where arrays of numbers say, and exist where these say."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import numpy as np

from layoutalg.codegen.expr import Expr, Var, as_expr, evaluate
from layoutalg.codegen.language import KernelBuilder, Tensor, whole
from layoutalg.kernels.move import normalise, permute_configs
from layoutalg.kernels.move.misaligned import block_base, to_chunk
from layoutalg.kernels.move.partition import (
    Load,
    Store,
    Way,
    block_origins,
    inner,
    part_of,
    run_origins,
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


def agree(stage: Stage, tensor: Tensor, numbers: Any, origins: Any, way: Way) -> None:
    node, part = part_of(stage, X, origins, way), part_of(stage, numbers, origins, way)
    ref = node.of(tensor)
    assert (values(ref.index, numbers) == part.place).all()
    for c, want in zip(ref.coordinate, part.coordinate, strict=True):
        assert (values(c, numbers) == want).all()
    predicates = [p if isinstance(p, bool) else values(p, numbers) == 1 for p in node.exists]
    assert (all_of(predicates, numbers) == all_of(part.exists, numbers)).all()


def stages(seed: int) -> list[tuple[Stage, Tensor, Tensor, KernelBuilder]]:
    x = normalise(random_problem(random.Random(seed), 2000))
    found = []
    for c in permute_configs(x):
        stage, k = Stage(x, c), KernelBuilder("k", c.threads)
        src = tensor_of(k, stage, "src")
        found.append((stage, src, tensor_of(k, stage, "dst"), k))
    return found


@each("seed", range(40))
def test_elements(seed: int) -> None:
    for stage, src, dst, _ in stages(seed):
        if stage.config.way == "staged" or any(m.src < 0 for m in stage.modes):
            continue
        numbers = np.arange(stage.elements)
        for block in {0, stage.blocks - 1}:
            origins = block_origins(stage, block)
            agree(stage, src, numbers, origins, "read")
            agree(stage, dst, numbers, origins, "write")


@each("seed", range(40))
def test_chunks(seed: int) -> None:
    for stage, src, _, k in stages(seed):
        if stage.config.way == "direct" or not stage.is_straight:
            continue
        tile = whole(k.shared_buffer("tile", 1, stage.layout, stage.tile_bytes, 1024))
        numbers = np.arange(stage.loads)
        for block in {0, stage.blocks - 1}:
            origins = block_origins(stage, block)
            base = block_base(stage, origins)
            agree(stage, src, numbers, origins, "load")
            (place,) = Load(stage, X, origins, base).tile.of(tile).coordinate
            want = Load(stage, numbers, origins, base).place
            assert (values(place, numbers) == want).all()


@each("seed", range(40))
def test_vectors(seed: int) -> None:
    for stage, _, dst, _ in stages(seed):
        if stage.config.way == "direct" or not stage.dst_aligned:
            continue
        numbers = np.arange(stage.stores)
        for block in {0, stage.blocks - 1}:
            for member in range(stage.group):
                origins = run_origins(stage, block_origins(stage, block), member)
                agree(stage, dst, numbers, origins, "store")
                want = Store(stage, numbers, origins, block_base(stage, origins))
                assert np.equal(want.target, want.part.place).all()


@each("seed", range(40))
def test_what_is_straight_is_what_skewed_rows_say(seed: int) -> None:
    """The arithmetic of rows that start anywhere adds nothing where none does."""
    for stage, *_ in stages(seed):
        if stage.config.way == "direct" or not stage.is_straight:
            continue
        numbers, origins = np.arange(stage.loads), block_origins(stage, stage.blocks - 1)
        base = block_base(stage, origins)
        found, want = Load(stage, numbers, origins, base), Load(replace(stage), numbers, origins, base)
        vars(want.stage)["is_straight"] = False
        *row, along = found.part.steps
        start = base * stage.size + stage.lead_bytes + inner(row, stage.coefficients)
        place = to_chunk(start, stage.chunk_bytes) + along * stage.size
        assert np.equal(found.source, want.source).all() and np.equal(found.place, place).all()
        assert (all_of(found.exists, numbers) == all_of(want.exists, numbers)).all() and want.inside is None
