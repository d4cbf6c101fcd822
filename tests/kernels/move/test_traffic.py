"""Traffic of permutes: ideal where it should be, and what was counted on an H200."""

from __future__ import annotations

import random

from layoutalg.codegen.costs import copied, traffic
from layoutalg.kernels.move.partition import block_origins
from layoutalg.kernels.move.plan import configs
from layoutalg.kernels.move.problem import normalise, permute_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PermuteConfig, Stage
from layoutalg.model import copied_sectors, tag_sectors
from tests.draws.permutations import random_problem
from tests.gpu.needed_wavefronts import block_classes, needed_wavefronts
from tests.sweeps import each


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


# --- what a compiler may leave out ---------------------------------------------------------------------


@each("seed", range(25), sample=7)
def test_classes_cover_all_blocks(seed: int) -> None:
    x = normalise(random_problem(random.Random(seed), 20000))
    for c in configs(x):
        stage = Stage(x, c)
        classes = block_classes(stage)
        assert sum(k.count for k in classes) == stage.blocks
        every = {tuple(block_origins(stage, b)) for b in range(stage.blocks)}
        assert {k.origins for k in classes} <= every


def test_whole_vectors_are_needed_whole() -> None:
    """An H200 counted 4550 of 4560 for the cut tile: the compiler had moved one load of four."""
    for shape, axes, fewer in (((64, 64), (1, 0), 0), ((5, 60, 60, 3), (0, 3, 1, 2), 40)):
        x = normalise(permute_problem(shape, axes, "f32"))
        config = PermuteConfig("staged", (64, 64) if len(shape) == 2 else (64, 3, 1), 64, 4, 4)
        loads = traffic(build(x, config), {})["ld.shared.b32"].total
        assert loads - needed_wavefronts(x, config) == fewer
    direct = normalise(permute_problem((4, 64, 16, 32), (0, 2, 1, 3), "f32"))
    assert needed_wavefronts(direct, configs(direct)[0]) == 0
