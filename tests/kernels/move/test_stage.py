"""The geometry of a tile and its parts: rows do not meet, every element is stored once where it belongs, and
numbers and expressions say the same."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np

from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.codegen.gpu import to_cuda
from layoutalg.kernels.move.misaligned import block_base
from layoutalg.kernels.move.partition import Store, block_origins, direct_element, run_origins
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import move_problem, normalise, permute_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage, row_distance
from tests.draws.permutations import random_problem
from tests.sweeps import each


def stages(seed: int, most: int = 2000, way: str = "") -> Iterator[Stage]:
    """Every tile that the plan has for a random problem, those of a way."""
    x = normalise(random_problem(random.Random(seed), most))
    yield from (Stage(x, c) for c in configs(x) if c.way in (way or c.way))


def holding(x: Any, predicates: Any) -> Any:
    """Where all predicates hold."""
    return np.all([np.broadcast_to(p, x.shape) for p in (True, *predicates)], axis=0)


def stores(stage: Stage, block: int) -> Iterator[Any]:
    """The places in the destination that a block writes, those of one element of its vectors at a time."""
    origins = block_origins(stage, block)
    if stage.config.way == "direct":
        x = np.arange(stage.elements)
        _, target, exists = direct_element(stage, x, origins)
        yield target[holding(x, exists)]
        return
    for member in range(stage.group):
        here = run_origins(stage, origins, member)
        v = Store(stage, np.arange(stage.stores), here, block_base(stage, origins))
        for e in range(stage.config.vec):
            at = np.broadcast_to(v.target + e, v.x.shape)
            yield at[holding(v.x, (*v.part.exists, *v.ends.exists(e)))]


def written(stage: Stage) -> Any:
    """How often each element of the destination is stored, over all blocks."""
    count = np.zeros(stage.moves.dst_elems, dtype=int)
    for block in range(stage.blocks):
        for at in stores(stage, block):
            np.add.at(count, at, 1)
    return count


# --- geometry ------------------------------------------------------------------------------------------


@each("chunk", [4, 8, 16])
@each("size", [1, 2, 4])
def test_rows_do_not_meet_and_no_shorter_distance_would_do(size: int, chunk: int) -> None:
    def chunks(start: int, span: int) -> set[int]:
        return {b // chunk for b in range(start, start + span)}

    def apart(span: int, distance: int) -> bool:
        return all(chunks(a, span).isdisjoint(chunks(a + distance, span)) for a in range(0, chunk, size))

    for span in range(size, 50, size):
        for residue in range(0, chunk, size):
            found = row_distance(span, residue, chunk, size)
            assert found % chunk == residue and apart(span, found)
            assert not any(apart(span, d) for d in range(residue, found, chunk) if d >= span)


ODD = permute_problem((31, 63, 127, 255), (3, 1, 0, 2), "f16")


def staged(*tile: int, **more: Any) -> PermuteConfig:
    return PermuteConfig("staged", tile, **{"threads": 256, "chunk": 8, "vec": 4, **more})


@each(
    ("p", "c", "wanted"),
    [
        (permute_problem((1000, 999), (1, 0), "u8", src=(1008, 1), dst=(1001, 1)),  # runs that blocks share
         staged(256, 128, chunk=16, vec=16),
         {"halo": True, "lead": 15, "held": (271, 128), "vectors": 16, "counts": (4, 8)}),
        (ODD, staged(127, 2, 1, 32), {"lead": 1, "halo": False, "held": (127, 2, 1, 32)}),
        (ODD, staged(127, 4, 1, 32), {"lead": 1, "halo": True, "held": (127, 5, 1, 32)}),
        (permute_problem((127, 999), (1, 0), "f16", dst=(131, 1)), staged(127, 128, vec=8),  # owned whole
         {"lead": 7, "halo": False, "held": (127, 128), "vectors": 17}),
        (permute_problem((4096, 4096), (1, 0), "u8"), None,
         {"lead": 0, "src_aligned": True, "dst_aligned": True}),
        (permute_problem((128, 224, 224, 3), (0, 3, 1, 2), "f32"), staged(256, 3, 1, chunk=4),
         {"src_run": (1, 0), "dst_run": (0,), "src_length": 768, "coefficients": (12, 4, 0)}),
        *((ODD, staged(127, 4, 1, 32, walk=walk), {"walk": order}) for walk, order in {
            "target": (0, 1, 2, 3), "source": (3, 0, 2, 1), "tile": (3, 1, 0, 2), "rows": (3, 1, 0, 2),
        }.items()),
    ],
)  # fmt: skip
def test_the_geometry_of_a_tile(p: Any, c: PermuteConfig | None, wanted: dict[str, Any]) -> None:
    x = normalise(p)
    stage = Stage(x, c or configs(x)[0])
    assert {name: getattr(stage, name) for name in wanted} == wanted
    assert c or stage.tile_bytes == stage.elements


# --- parts by expressions ------------------------------------------------------------------------------


@each("shape", [(70000, 70000), (3, 40000, 40000)])
def test_more_than_2_to_31_elements_are_addressed_in_64_bits(shape: tuple[int, ...]) -> None:
    x = normalise(permute_problem(shape, tuple(reversed(range(len(shape)))), "u8"))
    c = configs(x)[0]
    assert "(u64)" in to_cuda(build(x, c))
    stage = Stage(x, c)
    block, at = Var("b", stage.blocks), Var("x", stage.stores)
    node = as_expr(Store(stage, at, block_origins(stage, block), 0).target)
    last = block_origins(stage, stage.blocks - 1)
    targets = np.broadcast_to(Store(stage, np.arange(stage.stores), last, 0).target, (stage.stores,))
    assert int(targets.max()) > 1 << 31
    for n in (0, stage.stores - 1):
        assert evaluate(node, {at: n, block: stage.blocks - 1}) == int(targets[n])


# --- elements ------------------------------------------------------------------------------------------


@each("seed", range(30), sample=6)
def test_every_element_is_stored_once(seed: int) -> None:
    for stage in stages(seed):
        total = np.prod([m.extent for m in stage.modes])
        for lanes in (0, 8):
            count = written(Stage(stage.moves, replace(stage.config, lanes=lanes)))
            assert count.max() == 1 and count.sum() == total


@each("nbytes", [32, 128])
@each("seed", range(20))
def test_blocks_that_share_a_run_own_whole_units(seed: int, nbytes: int) -> None:
    """Of the sectors, or lines, of a run each is written by one block, and every element once."""
    rng = random.Random(seed)
    rows, columns, size = rng.randrange(151, 400, 2), rng.randint(2, 30), rng.choice((1, 2, 4))
    pitch, at, unit = rows + 2 * rng.randrange(3), rng.randrange(16), nbytes // size
    dtype, wide = {1: "u8", 2: "f16", 4: "f32"}[size], 16 // size
    x = normalise(move_problem((columns, rows), dtype, (1, columns), (pitch, 1), 0, at))
    stage = Stage(x, PermuteConfig("staged", (128, columns), 128, wide, wide, align=unit))
    assert stage.halo and stage.row_lead == stage.lead * columns
    count = written(stage)
    assert count.max() == 1 and count.sum() == rows * columns
    owner = np.full(columns * pitch + at, -1)
    for block in range(stage.blocks):
        for places in stores(stage, block):
            owner[places] = block
    for first in range(at, at + columns * pitch, pitch):
        units, run = np.arange(first, first + rows) // unit, owner[first : first + rows]
        assert all(len(set(run[units == u].tolist())) == 1 for u in set(units.tolist()))


def test_gathers_of_odd_rows_have_constant_strides() -> None:
    """No element of a vector costs an instruction but its load: places differ by constants."""
    x = normalise(permute_problem((1001, 999), (1, 0), "u8"))
    stage = Stage(x, replace(configs(x)[0], lanes=0))
    v = Store(stage, np.arange(stage.stores), (0, 0), block_base(stage, (0, 0)))
    steps = {int(d) for e in range(15) for d in np.unique(v.place(e + 1) - v.place(e))}
    assert steps == {stage.coefficients[0]}
