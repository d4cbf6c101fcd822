"""TiledMMA against CuTe's text, against what each thread owns by definition, and as a whole product."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.atoms import Operand, Tensor, TiledMMA, find_mma_atom, make_tiled_mma, places, run_mma
from layoutalg.atoms.tiling import as_layout
from layoutalg.codegen.expr import Var, evaluate
from layoutalg.compose import Tiler
from layoutalg.decide import cosize
from layoutalg.errors import (
    ArgumentTypeError,
    NotInjectiveError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle, layout_size, modes, product
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [
    row
    for line in (Path(__file__).parents[1] / "data" / "cute_cpp.jsonl").open(encoding="utf-8")
    if (row := json.loads(line))["op"] == "tiled_mma"
]
OF_OPERAND: dict[Operand, tuple[int, int]] = {"A": (0, 2), "B": (1, 2), "C": (0, 1)}


@each("row", ROWS, ids=lambda row: str(row["id"]))
def test_what_cute_prints(row: dict[str, Any]) -> None:
    asked = row["params"]
    permutations = tuple(asked["perm"] or (None, None, None))
    mma = TiledMMA(find_mma_atom(asked["atom"]), Layout(tuple(asked["thr"])), permutations)
    printed = row["out"].replace("_", "")
    assert str(mma.layout_tv(asked["what"])) == printed
    overhangs = asked["thr"] == [4, 1, 1] and asked["perm"] == [32, 32, 16]
    if not overhangs:
        made = make_tiled_mma(asked["atom"], tuple(asked["thr"]), tuple(asked["perm"] or ()))
        assert made == mma and cosize(mma.layout_tv(asked["what"])) == np.prod(tile_of(mma, asked["what"]))
        return
    # CuTe goes on: 4 atoms of 16 rows over a tile of 32, whose last rows are the next columns' first ones
    assert asked["what"] == "B" or cosize(mma.layout_tv(asked["what"])) > np.prod(tile_of(mma, asked["what"]))
    with pytest.raises(
        ShapeError, match="along M the tile has 32 elements, and 4 atoms cover 64; the nearest"
    ):
        make_tiled_mma(asked["atom"], tuple(asked["thr"]), permutations)


def tile_of(mma: TiledMMA, operand: Operand) -> tuple[int, int]:
    first, second = OF_OPERAND[operand]
    return mma.tile_shape[first], mma.tile_shape[second]


# --- what a thread owns ----------------------------------------------------------------------------------


def owned(
    mma: TiledMMA, operand: Operand, thread: int, shape: tuple[int, int]
) -> list[list[tuple[int, int]]]:
    """By definition: (row, column) of every value of a thread, a list for each step, steps of rows first.

    The rows of the permuted tile are dealt out in runs of an atom, run after run to the atoms along M, and
    once all have one, again; row i of the permuted tile is row permutation(i) of the tile.
    """
    vmnk = mma.get_slice(thread).vmnk
    table = places(mma.atom.tv(operand))[vmnk[0]]
    rows, _ = mma.atom.extents(operand)

    def position(axis: int, inside: int, step: int) -> int:
        mode = OF_OPERAND[operand][axis]
        extent = mma.atom.shape_mnk[mode]
        copies = layout_size(mma.thr_layout_vmnk[1 + mode])
        permutation, tile = mma.permutations[mode], mma.tile_shape[mode]
        tiles, run = divmod((step * copies + vmnk[1 + mode]) * extent + inside, tile)
        return tiles * tile + (run if permutation is None else int(as_layout(permutation)(run)))

    steps = [
        shape[axis] // (mma.atom.shape_mnk[mode] * layout_size(mma.thr_layout_vmnk[1 + mode]))
        for axis, mode in enumerate(OF_OPERAND[operand])
    ]
    return [
        [(position(0, int(i) % rows, x), position(1, int(i) // rows, y)) for i in table]
        for y in range(steps[1])
        for x in range(steps[0])
    ]


RAKED = Layout((4, 4, 2), (1, 8, 4))
CONFIGS: list[tuple[str, Any, tuple[Tiler, ...]]] = [
    ("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16)),
    ("SM80_16x8x16_F32F16F16F32_TN", Layout((2, 2, 1), (2, 1, 0)), (RAKED, None, 32)),
    ("SM80_16x8x16_F32F16F16F32_TN", (1, 2, 2), (None, Layout((8, 2), (2, 1)))),
    ("SM80_16x8x32_S32S8S8S32_TN", (2,), ()),
    ("SM70_8x8x4_F32F16F16F32_NT", (2, 2), (32, 16, 8)),
    ("SM90_16x8x16_F64F64F64F64_TN", (1, 2, 1), ()),
    ("UniversalFMA<float>", Layout((4, 2, 1), (2, 1, 0)), (Layout((4, 2), (2, 1)), 4)),
]


@pytest.mark.deep
@each("config", CONFIGS, ids=lambda config: config[0], sample=1)
@each("operand", ["A", "B", "C"])
def test_a_thread_owns_what_it_should(config: tuple[str, Any, tuple[Tiler, ...]], operand: Any) -> None:
    mma = make_tiled_mma(*config)
    tile = tile_of(mma, operand)
    shape = 2 * tile[0], 3 * tile[1]
    index = np.arange(shape[0] * shape[1]).reshape(shape)
    numbered = mma.tidfrg(operand, Layout(shape, (shape[1], 1)))
    for thread in (mma.thr_layout_vmnk(i) for i in range(0, mma.threads, 5)):
        held = mma.get_slice(thread).partition(operand, Tensor.from_array(index))
        wanted = [index[crd] for step in owned(mma, operand, thread, shape) for crd in step]
        assert held.to_array().ravel("F").tolist() == wanted
        layout, offset = mma.get_slice(thread).partition(operand, Layout(shape, (shape[1], 1)))
        assert [offset + layout(i) for i in range(len(wanted))] == wanted
        if config[0] != "SM70_8x8x4_F32F16F16F32_NT":  # threads 4 to 15 of a quad pair's warp are others'
            assert [numbered(thread, i) for i in range(len(wanted))] == wanted


@pytest.mark.deep
@each("config", CONFIGS, ids=lambda config: config[0], sample=3)
def test_the_whole_product(config: tuple[str, Any, tuple[Tiler, ...]]) -> None:
    """D = A B + C, with every atom working on its threads' partitions alone."""
    mma = make_tiled_mma(*config)
    m, n, k = mma.tile_shape[0], mma.tile_shape[1], 2 * mma.tile_shape[2]
    rng = np.random.default_rng(m)
    shapes: dict[Operand, tuple[int, int]] = {"A": (m, k), "B": (n, k), "C": (m, n)}
    matrix = {name: rng.integers(-2, 3, shape[0] * shape[1]).astype(float) for name, shape in shapes.items()}
    a, b, c = (matrix[name].reshape(shape).copy() for name, shape in shapes.items())
    owns = {
        (name, thread): mma.get_slice(thread).partition(name, index).to_array()
        for name, shape in shapes.items()
        for index in [Tensor.from_array(np.arange(shape[0] * shape[1]).reshape(shape))]
        for thread in map(mma.thr_layout_vmnk, range(mma.threads))
    }
    copies = [layout_size(mode) for mode in modes(mma.thr_layout_vmnk)[1:]]
    for copy in np.ndindex(*copies):
        threads = [mma.thr_layout_vmnk(v, *copy) for v in range(mma.atom.threads)]
        left, right, sums = (np.array([owns[name, t] for t in threads]) for name in shapes)
        for i, j, step in np.ndindex(sums.shape[2], sums.shape[3], left.shape[3]):
            held = matrix["A"][left[:, :, i, step]], matrix["B"][right[:, :, j, step]]
            place = sums[:, :, i, j]
            matrix["C"][place] = run_mma(mma.atom, *held, matrix["C"][place])
    assert (matrix["C"].reshape(m, n) == c + a @ b.T).all()


@given(st.data())
def test_every_element_of_c_has_one_owner(data: st.DataObject) -> None:
    name = data.draw(
        st.sampled_from(["SM80_16x8x8_F32TF32TF32F32_TN", "SM75_8x8x16_S32S8S8S32_TN", "SM61_DP4A"])
    )
    copies = data.draw(st.sampled_from([1, 2, 4])), data.draw(st.sampled_from([1, 2, 4]))
    permutations: list[Tiler] = []
    for extent, count in zip(find_mma_atom(name).shape_mnk[:2], copies, strict=True):
        rows = extent * count * data.draw(st.integers(1, 3))
        raked = Layout((count, rows // count), (rows // count, 1))
        permutations.append(data.draw(st.sampled_from([None, rows, raked])))
    mma = make_tiled_mma(name, copies, tuple(permutations))
    m, n, _ = mma.tile_shape
    table = places(mma.get_layoutC_TV())
    assert sorted(table.ravel()) == list(range(m * n))
    thread = data.draw(st.integers(0, mma.threads - 1))
    mine, offset = mma.get_slice(thread).partition_C(Layout((m, n)))
    assert [offset + mine(i) for i in range(table.shape[1])] == table[thread].tolist()


def test_atoms_along_k_hold_the_same_c() -> None:
    """CuTe's layout gives the second atom along K the elements past the tile."""
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (1, 1, 2))
    table = places(mma.get_layoutC_TV())
    assert (table[:32] == table[32:]).all() and sorted(table[:32].ravel()) == list(range(128))


def test_a_swizzle_is_carried_along() -> None:
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    plain = Layout((64, 64), (64, 1))
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, plain)
    for thread in (0, 37, 127):
        layout, offset = mma.get_slice(thread).partition_A(swizzled)
        bare, start = mma.get_slice(thread).partition_A(plain)
        assert offset == 0 and layout.shape == bare.shape
        assert [layout(i) for i in range(64)] == [Swizzle(3, 3, 3)(start + bare(i)) for i in range(64)]
        assert mma.get_slice(thread).partition_fragment_A(swizzled) == mma.get_slice(
            thread
        ).partition_fragment_A(plain)


def test_threads_may_be_arrays_or_index_expressions() -> None:
    """A kernel calls the same layouts: on a swizzled tile, with the step of its loop unrolled."""
    tid, step = Var("tid", 128), Var("step", 4)
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    tile = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
    index = mma.tidfrg("B", tile)(tid, (3, (1, step)))
    plain = mma.tidfrg("A", Layout((64, 64), (64, 1)))
    starts = [mma.get_slice(t).partition_A(Layout((64, 64), (64, 1)))[1] for t in range(128)]
    assert plain(np.arange(128), 0).tolist() == starts
    for thread in range(0, 128, 3):
        part, offset = mma.get_slice(thread).partition_B(tile)
        found = [evaluate(index, {tid: thread, step: k}) for k in range(4)]
        assert found == [offset + part(3, 1, k) for k in range(4)]


@each(("dtype", "operand", "shape"), [("f4", "C", ((2, 2), 2, 2)), ("f2", "A", ((2, 2, 2), 2, 2))])
def test_fragments_hold_the_elements_of_their_matrix(dtype: str, operand: Operand, shape: Any) -> None:
    mma = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
    matrix = Tensor(np.zeros(2048, dtype), Layout((64, 32)))
    mine = mma.get_slice(9).partition_fragment(operand, matrix)
    assert (mine.buffer.dtype, mine.shape, len(mine.buffer)) == (np.dtype(dtype), shape, product(shape))


# --- bad input -------------------------------------------------------------------------------------------


NAME = "SM80_16x8x16_F32F16F16F32_TN"
SLICE = make_tiled_mma(NAME, (2, 2, 1)).get_slice(0)
NIBBLES = make_tiled_mma("SM80_16x8x64_S32S4S4S32_TN").get_slice(0)
FROM_SHARED = make_tiled_mma("SM90_64x64x16_F32F16F16_SS").get_slice(0)


@each(
    ("error", "part", "call"),
    [
        (UnknownNameError, f"did you mean '{NAME}'", lambda: make_tiled_mma(NAME[:-3])),
        (ShapeError, "2 atoms cover 16; .* 32", lambda: make_tiled_mma(NAME, (2, 2, 1), (32, 24))),
        (ArgumentTypeError, "are a tuple", lambda: make_tiled_mma(NAME, (2, 2, 1), "A")),  # type: ignore[arg-type]
        (ArgumentTypeError, "are a tuple", lambda: make_tiled_mma(NAME, (2, 2, 1), [32])),  # type: ignore[arg-type]
        (ArgumentTypeError, "a shape is needed", lambda: make_tiled_mma(NAME, "2,2")),  # type: ignore[arg-type]
        (ShapeError, "4 are given", lambda: make_tiled_mma(NAME, (2, 2, 1, 1))),
        (NotInjectiveError, "same threads", lambda: make_tiled_mma(NAME, Layout((2, 2, 1), (1, 1, 0)))),
        (NotInjectiveError, "not a bijection", lambda: make_tiled_mma(NAME, (2, 2, 1), (Layout(32, 2),))),
        (ResourceError, "2048 asked, the limit is 1024", lambda: make_tiled_mma(NAME, (8, 8, 1))),
        (ShapeError, "has 40 elements and the tile 32", lambda: SLICE.partition_A(Layout((40, 16)))),
        (ShapeError, "thread 128 takes no part", lambda: make_tiled_mma(NAME, (2, 2, 1)).get_slice(128)),
        (ShapeError, "thread 5 takes no part",
         lambda: make_tiled_mma("SM70_8x8x4_F32F16F16F32_NT").get_slice(5)),
        (UnsupportedError, "read from shared memory",
         lambda: FROM_SHARED.partition_fragment_B(Layout((64, 16)))),
        (UnsupportedError, "NumPy has no type of 4 bits",
         lambda: NIBBLES.partition_fragment_A(Tensor(np.zeros(1024, "i1"), Layout((16, 64))))),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=part):
        call()
