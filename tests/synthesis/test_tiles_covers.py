"""Accesses that tile a tile: every element once, and the phases that synthesis is asked about."""

from __future__ import annotations

import pytest

from layoutalg.analysis import Access
from layoutalg.arch import ARCHS, INSTRUCTIONS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, LayoutAlgError, ShapeError
from layoutalg.layout import Layout, size
from layoutalg.synthesis import covers_of
from layoutalg.synthesis.tiles.covers import Cover, cost_of
from tests.sweeps import each

SM_90 = ARCHS["sm_90"]


def phases(
    access: Access, shape: tuple[int, int], start: tuple[int, int], extent: tuple[int, int]
) -> set[frozenset[int]]:
    """The rows of 16 bytes that each matrix of an access takes, as flat indices of the tile."""
    rule = INSTRUCTIONS[access.op]
    parts = [access.tv[i] for i in range(len(access.tv.shape))]  # type: ignore[arg-type]
    loops = [parts[2](i) for i in range(size(parts[2]))] if len(parts) > 2 else [0]
    out = set()
    for loop in loops:
        for matrix in range(rule.matrices):
            flat = [parts[0](8 * matrix + lane) + loop for lane in range(8)]
            places = [(index % extent[0] + start[0], index // extent[0] + start[1]) for index in flat]
            out.add(frozenset(first + second * shape[0] for first, second in places))
    return out


def touched(cover: Cover, shape: tuple[int, int]) -> list[int]:
    """Every element that the pieces move, as flat indices of the tile, with repetition."""
    out = []
    for piece in cover.pieces:
        rule, tv = INSTRUCTIONS[piece.op], piece.access.tv
        parts = [tv[i] for i in range(len(tv.shape))]  # type: ignore[arg-type]
        loops = [parts[2](i) for i in range(size(parts[2]))] if len(parts) > 2 else [0]
        threads = 8 * rule.matrices if rule.matrices else size(parts[0])
        for loop in loops:
            for thread in range(threads):
                for value in range(size(parts[1])):
                    index = parts[0](thread) + parts[1](value) + loop
                    first, second = index % piece.extent[0], index // piece.extent[0]
                    out.append(first + piece.start[0] + (second + piece.start[1]) * shape[0])
    return out


@each("run", [8, 24, 40, 72, 80, 88, 96, 104, 128], sample=4)
def test_matrices_tile_every_head_dim(run: int) -> None:
    """Each element once, by every cover; the first has the fewest instructions; no phase is left out."""
    for rows in (8, 16, 24, 40, 64):
        for tile in (Layout((rows, run), (run, 1)), Layout((run, rows), (1, run))):
            shape = (rows, run) if tile.stride == (run, 1) else (run, rows)
            op = "ldmatrix.x4" if tile.stride == (run, 1) else "ldmatrix.x4.trans"
            covers = covers_of(op, tile, "f16")
            for cover in covers:
                assert sorted(touched(cover, shape)) == list(range(rows * run)), (shape, str(cover))
                assert cover.asked == (len(covers) == 1 and cover.pieces[0].op == op)
                in_pieces = set.union(*(phases(p.access, shape, p.start, p.extent) for p in cover.pieces))
                in_wanted = set.union(*(phases(a, shape, (0, 0), shape) for a in cover.wanted))
                assert in_wanted <= in_pieces and len(in_pieces) == rows * run // 64
            costs = [cost_of(cover, tile, shape, SM_90) for cover in covers]
            assert costs[0].instructions == min(cost.instructions for cost in costs)
            assert len({(cost.total, cost.ideal_total) for cost in costs}) == 1, "a matrix costs the same"


@each(
    ("op", "tile", "element", "ops"),
    [
        ("ld.shared.b128", Layout((32, 36), (36, 1)), "f16", ["b64", "b32", "b16"]),
        ("st.shared.v4.f32@row", Layout((32, 33), (33, 1)), "f32", ["b32"]),
        ("cp.async.16", Layout((32, 36), (36, 1)), "f16", ["8", "4"]),
        ("ld.shared.b64@col", Layout((32, 34), (34, 1)), "f16", ["b32", "b16"]),
    ],
)
def test_vectors_become_narrower(op: str, tile: Layout, element: str, ops: list[str]) -> None:
    covers = covers_of(op, tile, element)
    assert [cover.pieces[0].op.rpartition(".")[2] for cover in covers] == ops
    assert not any(cover.asked for cover in covers)
    for cover in covers:
        assert sorted(touched(cover, tile.shape)) == list(range(size(tile)))  # type: ignore[arg-type]


@each(
    ("op", "tile", "error"),
    [
        ("ldmatrix.x4", Layout((60, 64), (64, 1)), ShapeError),
        ("ldmatrix.x4", Layout((64, 36), (36, 1)), AlignmentError),
        ("ldmatrix.x4@col", Layout((64, 64), (64, 1)), AlignmentError),
        ("cp.async.4", Layout((4, 3), (3, 1)), AlignmentError),
    ],
)
def test_what_nothing_tiles_is_refused_as_asked(op: str, tile: Layout, error: type[LayoutAlgError]) -> None:
    with pytest.raises(error):
        covers_of(op, tile, "f16")


def test_an_access_that_is_given_is_taken() -> None:
    access = Access("ld.shared.b32", Layout((32, 1), (1, 0)), dtype("f32"))
    (cover,) = covers_of(access, Layout((32, 32), (32, 1)), "f32")
    assert cover.asked and cover.wanted == (access,)
