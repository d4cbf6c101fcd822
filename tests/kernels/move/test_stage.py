"""The geometry of a tile: rows that keep their alignment and do not meet, halos, folded modes."""

from __future__ import annotations

import math
import random
from typing import Literal

import numpy as np
import pytest

from layoutalg.codegen.sim import simulate
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.stage import PermuteConfig, Stage, row_distance
from tests.permutations import random_problem
from tests.sweeps import each


@each("chunk", [4, 8, 16])
@each("size", [1, 2, 4])
def test_rows_do_not_meet_and_no_shorter_distance_would_do(size: int, chunk: int) -> None:
    def apart(span: int, distance: int) -> bool:
        touched = [
            (
                {b // chunk for b in range(a, a + span)},
                {b // chunk for b in range(a + distance, a + distance + span)},
            )
            for a in range(0, chunk, size)
        ]
        return not any(one & other for one, other in touched)

    for span in range(size, 50, size):
        for residue in range(0, chunk, size):
            found = row_distance(span, residue, chunk, size)
            assert found % chunk == residue and apart(span, found)
            assert not any(apart(span, d) for d in range(residue, found, chunk) if d >= span)


@each("seed", range(40), sample=14)
def test_rows_keep_their_distance_modulo_a_chunk(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 5000))
    for c in configs(x):
        stage = Stage(x, c)
        for m, step in zip(x.modes, stage.coefficients, strict=True):
            assert not step or (step - m.src * stage.size) % stage.chunk_bytes == 0 or c.way == "direct"


def test_blocks_that_share_a_row_own_whole_vectors() -> None:
    x = normalise(permute_problem((1000, 999), (1, 0), "u8", src=(1008, 1), dst=(1001, 1)))
    stage = Stage(x, PermuteConfig("staged", (256, 128), 256, 16, 16))
    assert stage.halo and stage.lead == 15
    assert stage.held == (271, 128)
    assert stage.vectors == 16 and stage.counts == (4, 8)


@pytest.mark.parametrize(("rows", "halo"), [(2, False), (4, True)])
def test_a_lead_that_is_a_whole_run_is_staged_by_tiles_of_many(rows: int, halo: bool) -> None:
    x = normalise(permute_problem((31, 63, 127, 255), (3, 1, 0, 2), "f16"))
    stage = Stage(x, PermuteConfig("staged", (127, rows, 1, 32), 256, 8, 4))
    assert stage.lead == 1 and stage.halo == halo and stage.held[1] == rows + halo


@pytest.mark.parametrize(
    ("walk", "order"),
    [("target", (0, 1, 2, 3)), ("source", (3, 0, 2, 1)), ("tile", (3, 1, 0, 2)), ("rows", (3, 1, 0, 2))],
)
def test_blocks_walk_along_the_modes_of_a_side_or_of_the_tile(
    walk: Literal["target", "source", "tile", "rows"], order: tuple[int, ...]
) -> None:
    x = normalise(permute_problem((31, 63, 127, 255), (3, 1, 0, 2), "f16"))
    assert Stage(x, PermuteConfig("staged", (127, 4, 1, 32), 256, 8, 4, walk=walk)).walk == order


def test_a_run_that_a_block_owns_whole_needs_no_halo() -> None:
    x = normalise(permute_problem((127, 999), (1, 0), "f16", dst=(131, 1)))
    stage = Stage(x, PermuteConfig("staged", (127, 128), 256, 8, 8))
    assert stage.lead == 7 and not stage.halo and stage.held[0] == 127
    assert stage.vectors == 17


def test_aligned_tiles_have_no_lead() -> None:
    x = normalise(permute_problem((4096, 4096), (1, 0), "u8"))
    stage = Stage(x, configs(x)[0])
    assert stage.lead == 0 and stage.src_aligned and stage.dst_aligned
    assert stage.tile_bytes == stage.elements


def test_channels_fold_into_the_row() -> None:
    x = normalise(permute_problem((128, 224, 224, 3), (0, 3, 1, 2), "f32"))
    stage = Stage(x, PermuteConfig("staged", (256, 3, 1), 256, 4, 4))
    assert stage.src_run == (1, 0) and stage.dst_run == (0,)
    assert stage.src_length == 768 and stage.coefficients == (12, 4, 0)


@pytest.mark.deep
@each("shape", [(), (1,), (1, 1), (3,), (4, 1), (1, 4), (2, 3, 1)], sample=1)
@each("dtype", ["u8", "u16", "f32", "f64"], sample=1)
def test_few_elements_that_start_anywhere_are_moved(dtype: str, shape: tuple[int, ...]) -> None:
    """A lead moves positions past the end of a run, of one element too."""
    family = FAMILIES["permute"]
    for n in range(2 * 16 // (family.problem((1,), (0,), dtype).element_bytes)):
        axes = tuple(reversed(range(len(shape))))
        p = permute_problem(shape, axes, dtype, src_offset=n, dst_offset=n)
        kernel = family.build(p, family.choose(p))
        source = np.random.default_rng(n).integers(0, 256, 256, dtype=np.uint8)
        found = np.zeros(256, np.uint8)
        simulate(kernel, {"src": source, "dst": found}, trace=False)
        carrier = CARRIER[p.element_bytes]
        expected = np.zeros(256, np.uint8).view(carrier)
        moved = source.view(carrier)[n : n + math.prod(shape)].reshape(shape).transpose(axes).reshape(-1)
        expected[n : n + math.prod(shape)] = moved
        assert np.array_equal(found.view(carrier), expected), (shape, dtype, n)
