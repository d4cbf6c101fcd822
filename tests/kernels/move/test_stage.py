"""The tile of a permute: its geometry, that every element is stored once where it belongs, and what its runs
share with others, by law and by counting."""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from functools import lru_cache
from math import gcd, prod
from typing import Any, Literal

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import wavefronts
from layoutalg.codegen.costs import copied, traffic
from layoutalg.codegen.expr import Var, as_expr, evaluate
from layoutalg.codegen.gpu import to_cuda
from layoutalg.kernels.checks.move import CASES, random_cases
from layoutalg.kernels.model import machine_of, time_us
from layoutalg.kernels.move import partition
from layoutalg.kernels.move.partition import Load, Store, block_base, block_origins
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.plan import TILE_BYTES, configs
from layoutalg.kernels.move.problem import move_problem, normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig, Stage, row_distance
from layoutalg.kernels.move.tiles import (
    SUM,
    even_part,
    filled_units,
    loaded_units,
    stored_units,
    tile_bytes,
    tile_work,
    tiles,
    touched_units,
)
from layoutalg.model import copied_sectors, tag_sectors
from layoutalg.synthesis import check_certificate
from tests.draws.permutations import random_problem
from tests.kernels.move.certificate import certify, tile_reads
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
        _, target, exists = partition.direct_element(stage, x, origins)
        yield target[holding(x, exists)]
        return
    for member in range(stage.group):
        here = partition.run_origins(stage, origins, member)
        v = Store(stage, np.arange(stage.stores), here, block_base(stage, origins))
        for e in range(stage.config.vec):
            at = np.broadcast_to(v.target + e, v.x.shape)
            yield at[holding(v.x, (*v.part.exists, *v.ends.exist(e)))]


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


# --- parts by expressions ------------------------------------------------------------------------------


@pytest.mark.deep
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


@each("seed", range(30), sample=3)
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


@given(st.integers(1, 2000), st.integers(0, 300), st.sampled_from((32, 64, 128)))
def test_units_of_a_run_follow_from_where_it_can_start(steps: int, start: int, unit: int) -> None:
    starts = range(0, unit, gcd(start, unit))
    counted = [(at + steps * starts.step - 1) // unit - at // unit + 1 for at in starts]
    assert touched_units(steps * starts.step, 1, start, unit) == sum(counted) / len(starts)


def loads(stage: Stage, block: int) -> tuple[Any, Any]:
    """The rows of a block's chunks, and the bytes of the source where they start."""
    origins = block_origins(stage, block)
    chunk = Load(stage, np.arange(stage.loads), origins, block_base(stage, origins))
    there = holding(chunk.x, chunk.exists)
    return chunk.x[there] // stage.chunks, np.broadcast_to(chunk.source, chunk.x.shape)[there] * stage.size


def counted_units(stage: Stage, unit: int) -> tuple[int, int]:
    """Units that the rows, and the runs, of all tiles touch, one by one."""
    loaded = stored = 0
    for block in range(stage.blocks):
        row, first = loads(stage, block)
        loaded += len({(r, b // unit) for r, b in zip(row.tolist(), first.tolist(), strict=True)})
        origins = block_origins(stage, block)
        vector = Store(stage, np.arange(stage.stores), origins, block_base(stage, origins))
        touched: set[tuple[int, int]] = set()
        for e in range(stage.config.vec):
            there = holding(vector.x, (*vector.part.exists, *vector.ends.exist(e)))
            at = np.broadcast_to(vector.target + e, vector.x.shape)[there] * stage.size // unit
            touched |= set(zip((vector.x[there] // stage.vectors).tolist(), at.tolist(), strict=True))
        stored += len(touched)
    return loaded, stored


@pytest.mark.deep(only=("f32-shape0-axes0-tile0", "f32-shape4-axes4-tile4"))
@each("unit", [32, 128])
@each("align", [0, 32])
@pytest.mark.parametrize(
    ("dtype", "shape", "axes", "tile"),
    [
        ("f32", (499, 501), (1, 0), (128, 128)),
        ("f32", (512, 512), (1, 0), (64, 64)),
        ("u8", (7573, 35), (1, 0), (512, 35)),
        ("f16", (777, 50), (1, 0), (128, 50)),
        ("f32", (31, 63, 11, 41), (3, 2, 1, 0), (31, 8, 1, 16)),
        ("f64", (21, 6, 333), (2, 0, 1), (48, 8)),
    ],
)
def test_units_of_a_tensor_are_nearly_those_that_are_counted(
    dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], tile: tuple[int, ...], align: int, unit: int
) -> None:
    """The law takes every start for as frequent, and counts the chunks at a tensor's edges as whole."""
    x = normalise(permute_problem(shape, axes, dtype))
    wide, at = 16 // x.element_bytes, align // x.element_bytes
    stage = Stage(x, PermuteConfig("staged", tile[: x.rank], 256, wide, wide, align=at))
    wanted = pytest.approx(counted_units(stage, unit), rel=0.06)
    assert (loaded_units(stage, unit), stored_units(stage, unit)) == wanted


@lru_cache(maxsize=4)
def loaded(stage: Stage) -> list[Any]:
    """The bytes at which each block's chunks start."""
    return [loads(stage, block)[1] for block in range(stage.blocks)]


def counted_fills(stage: Stage, unit: int, near: int) -> int:
    """Units that memory fills, one by one, where each stays in the L2 until `near` bytes have passed."""
    nbytes, last, filled = prod(stage.tile) * stage.size, dict[int, int](), 0
    for block, first in enumerate(loaded(stage)):
        for one in np.unique(first // unit).tolist():
            filled += block * nbytes - last.get(one, -near - 1) > near
            last[one] = block * nbytes
    return filled


WALKED = (
    ("f32", (50, 60, 70), (2, 1, 0), (32, 1, 16)), ("f32", (50, 60, 70), (2, 1, 0), (50, 1, 32)),
    ("u8", (26, 12, 6, 47, 5, 80), (4, 0, 2, 5, 1, 3), (47, 9, 80, 1, 1, 1)),
    ("f16", (9, 40, 12, 24), (3, 1, 2, 0), (9, 32, 24)),
)  # fmt: skip


@each("near", [1 << 16, 1 << 18], sample=1)
@pytest.mark.parametrize("walk", ["target", "source", "tile", "rows"])
@each("case", WALKED, sample=1)
def test_memory_fills_what_neighbours_in_time_do_not_share(
    case: tuple[str, tuple[int, ...], tuple[int, ...], tuple[int, ...]],
    walk: Literal["target", "source", "tile", "rows"], near: int, monkeypatch: pytest.MonkeyPatch,
) -> None:  # fmt: skip
    dtype, shape, axes, tile = case
    monkeypatch.setattr("layoutalg.kernels.move.tiles.NEAR_BYTES", near)
    x = normalise(permute_problem(shape, axes, dtype))
    wide = 16 // x.element_bytes
    stage = Stage(x, PermuteConfig("staged", tile, 256, wide, 1, walk=walk))
    for unit in (64, 128):
        assert filled_units(stage, unit) == pytest.approx(counted_fills(stage, unit, near), rel=0.05)


@each("seed", range(40), sample=7)
def test_tiles_fit_their_modes_and_shared_memory(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 100_000))
    found = tiles(x, TILE_BYTES)
    assert found and all(1 <= t <= m.extent for tile in found for t, m in zip(tile, x.modes, strict=True))
    assert max(tile_bytes(x, tile) for tile in found) <= TILE_BYTES or len(found) == 1
    assert Stage(x, configs(x)[0]).tile_bytes <= TILE_BYTES


@pytest.mark.deep
@each(("dtype", "size"), [("f64", 8), ("f32", 4), ("f16", 2), ("u8", 1)], sample=2)
@each("shape", [(9997, 10001), (1000003, 57), (57, 1000003)])
def test_blocks_of_odd_tensors_own_whole_sectors(dtype: str, size: int, shape: tuple[int, int]) -> None:
    """They cost less than the parts of them that neighbours write."""
    x = normalise(permute_problem(shape, (1, 0), dtype))
    assert stored_units(Stage(x, configs(x)[0]), 32) < 1.01 * prod(shape) * size / 32
    tile, wide = (min(512 // size, shape[0]), min(256 // size, shape[1])), 16 // size
    m = machine_of("sm_90")
    works = (
        tile_work(Stage(x, PermuteConfig("staged", tile, 256, wide, wide, align=align)), m)
        for align in (0, 32 // size)
    )
    shared, whole = (time_us(work, m, SUM) for work in works)
    assert whole < shared or 57 in shape


@each("step", [1, 4, 8])
def test_even_parts_cover_the_mode(step: int) -> None:
    for extent in range(1, 300):
        part = even_part(extent, 64, step)
        assert part == extent if extent <= 64 else part % step == 0 and part <= 64


# --- what is claimed of a layout: not to be beaten -----------------------------------------------------

PROBLEMS = [(case, dtype) for case in (*CASES, *random_cases()[:9]) for dtype in ("u8", "f16", "f32")]


@each(("case", "dtype"), PROBLEMS, ids=str, sample=4)
def test_every_tile_of_the_bench_has_a_claim_that_holds(
    case: tuple[tuple[int, ...], tuple[int, ...]], dtype: str
) -> None:
    x = normalise(permute_problem(*case, dtype))
    c = configs(x)[0]
    if c.way == "direct":
        return  # it has no tile in shared memory
    found = certify(x, c)
    for claim in found.claims:
        assert claim.ideal <= claim.least <= claim.wavefronts
    if found.synthesis is not None:
        check_certificate(found.synthesis)
        free = all(claim.wavefronts == claim.ideal for claim in found.claims)
        assert found.synthesis.certificate.conflict_free == free
        assert free or all(claim.wavefronts == claim.least for claim in found.claims)


def test_no_placement_of_whole_chunks_takes_less_than_the_least() -> None:
    """Random placements of the chunks of a tile, its reads counted by the definition."""
    x = normalise(permute_problem((33554432, 2), (1, 0), "u8"))
    c = configs(x)[0]
    read, rng = certify(x, c).claims[1], np.random.default_rng(0)
    assert read.least > read.ideal
    _, (op, places, _) = tile_reads(Stage(x, c))
    warps = places.reshape(-1, 32)[:64]
    chosen = read.wavefronts / (places.size // 32) * len(warps)
    for _ in range(10):
        chunks = rng.permutation(int(places.max()) // 16 + 1)
        total = sum(wavefronts(op, (chunks[w // 16] * 16 + w % 16).tolist()) for w in warps)
        assert total >= chosen


def tags(shape: tuple[int, ...], axes: tuple[int, ...], dtype: str, c: PermuteConfig) -> int:
    """Sectors of the tags of copies of 16 bytes."""
    return copied(build(normalise(permute_problem(shape, axes, dtype)), c), {}, 16, tag_sectors)


@each(("columns", "apart"), [(64, 1), (68, 1.5)])
def test_copies_bring_whole_sectors_once_and_halves_twice(columns: int, apart: float) -> None:
    """Rows of whole sectors cost what loads cost; rows from halves on cost a sector per lane."""
    x = normalise(permute_problem((64, columns), (1, 0), "f32"))
    kernel = build(x, PermuteConfig("staged", (64, 64), 256, 4, 4))
    loads = traffic(kernel, {})["cp.async.16:global"].total
    found, arriving = (copied(kernel, {}, 16, count) for count in (tag_sectors, copied_sectors))
    assert loads <= found <= arriving <= apart * loads
    assert (found == loads) == (arriving == loads) == (columns == 64)


def test_tags_of_rows_that_start_inside_sectors_are_those_counted() -> None:
    """By an H200; the rule of loads gives 1762 and 1837.  Only copies of 16 bytes are counted apart."""
    assert [
        tags((5, 60, 60, 3), (0, 3, 1, 2), "u8", PermuteConfig("staged", (240, 3, 1), 64, 16, 16)),
        tags((5, 3, 60, 60), (0, 2, 3, 1), "u8", PermuteConfig("staged", (3, 240, 1), 64, 16, 16)),
        tags((64, 64), (1, 0), "f32", PermuteConfig("staged", (64, 64), 256, 4, 4, via="registers")),
        tags((64, 64), (1, 0), "f32", PermuteConfig("staged", (64, 64), 256, 1, 4)),
    ] == [1929, 1995, 0, 0]
