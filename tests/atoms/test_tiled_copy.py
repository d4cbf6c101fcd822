"""TiledCopy against CuTe's text, and against what each instruction does."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.atoms import (
    Tensor,
    TiledCopy,
    make_tiled_copy,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_copy_D,
    make_tiled_copy_S,
    make_tiled_mma,
    places,
    run_copy,
    tile_copy,
)
from layoutalg.atoms.tiled_copy import Side
from layoutalg.atoms.tiling import as_layout
from layoutalg.decide import is_surjective
from layoutalg.errors import (
    ArgumentTypeError,
    DivisibilityError,
    NotInjectiveError,
    ShapeError,
    UnknownNameError,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle, size
from layoutalg.notation import parse
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [
    row
    for line in (Path(__file__).parents[1] / "data" / "cute_cpp.jsonl").open(encoding="utf-8")
    if (row := json.loads(line))["op"] == "tiled_copy"
]
MAKE = {"A": make_tiled_copy_A, "B": make_tiled_copy_B, "C": make_tiled_copy_C}
MMA = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
TF32 = make_tiled_mma("SM80_16x8x8_F32TF32TF32F32_TN", (2, 2, 1), (32, 32, 16))
BYTES = make_tiled_mma("SM80_16x8x32_S32S8S8S32_TN", (2, 2, 1), (32, 32, 32))
FOR_AN_MMA = [
    ("SM75_U32x4_LDSM_N", "A", MMA, "f16"), ("SM75_U32x4_LDSM_N", "B", MMA, "f16"),
    ("SM75_U32x2_LDSM_N", "B", MMA, "f16"), ("SM75_U32x1_LDSM_N", "B", MMA, "f16"),
    ("SM75_U16x8_LDSM_T", "A", MMA, "f16"), ("SM75_U16x4_LDSM_T", "B", MMA, "f16"),
    ("SM90_U32x4_STSM_N", "C", MMA, "f16"), ("SM90_U16x8_STSM_T", "C", MMA, "f16"),
    ("UniversalCopy<uint32_t>", "A", MMA, "f16"), ("st.global.b64", "C", MMA, "f32"),
    ("SM75_U32x4_LDSM_N", "A", TF32, "tf32"), ("SM75_U32x4_LDSM_N", "A", BYTES, "s8"),
    ("SM75_U32x2_LDSM_N", "B", BYTES, "s8"),
]  # fmt: skip
IDS = [f"{atom}-{operand}-{element}" for atom, operand, _, element in FOR_AN_MMA]


def layout_of(text: str) -> Layout:
    found = parse(text)
    assert isinstance(found, Layout)
    return found


@each("row", ROWS, ids=lambda row: str(row["id"]))
def test_what_cute_prints(row: dict[str, Any]) -> None:
    threads, values = (layout_of(text) for text in row["in"])
    asked = row["params"]
    copy = make_tiled_copy(f"UniversalCopy<uint{asked['vec_bits']}_t>", asked["type"], threads, values)
    assert str(getattr(copy, asked["what"])()) == row["out"].replace("_", "")


def test_threads_and_values_lie_as_asked() -> None:
    threads, values = Layout((8, 4), (4, 1)), Layout((2, 4), (4, 1))
    copy = make_tiled_copy("UniversalCopy<uint128_t>", "f32", threads, values)
    assert copy.tile_shape == (16, 16) and copy.threads == 32
    table = places(copy.layout_tv)
    for m, n in np.ndindex(16, 16):
        assert table[threads(m // 2, n // 4), values(m % 2, n % 4)] == m + 16 * n
    for thread in range(32):  # the instructions of a thread, one after another
        part, offset = copy.get_slice(thread).partition_S(Layout((32, 16), (16, 1)))
        m, n = 2 * (thread // 4), 4 * (thread % 4)
        wanted = [16 * (16 * tile + m + row) + n + i for tile in (0, 1) for row in (0, 1) for i in range(4)]
        assert [offset + part(i) for i in range(16)] == wanted


@each(("atom", "operand", "mma", "element"), FOR_AN_MMA, ids=IDS, sample=6)
def test_every_instruction_moves_its_source_to_its_destination(
    atom: str, operand: str, mma: Any, element: str
) -> None:
    """The definition: what the threads read is what the instruction turns into what they hold."""
    copy = MAKE[operand](atom, mma, element)
    source, target = copy.get_layoutS_TV(), copy.get_layoutD_TV()
    assert is_surjective(source, size(Layout(copy.tile_shape)))
    reads, holds = _by_instruction(copy, source, "src"), _by_instruction(copy, target, "dst")
    for warp, instruction in np.ndindex(reads.shape[0], reads.shape[3]):
        moved = run_copy(copy.atom, reads[warp, :, :, instruction])
        assert (moved == holds[warp, :, :, instruction]).all()


def _by_instruction(copy: TiledCopy, layout: Layout, side: Any) -> Any:
    """(warp, thread of the atom, value, instruction) -> index of the tile."""
    table = places(layout)
    values = size(copy.atom.value_layout(side, copy.element)[1])
    return table.reshape(-1, copy.atom.threads, table.shape[1] // values, values).swapaxes(2, 3)


@each(("atom", "operand", "mma", "element"), FOR_AN_MMA, ids=IDS)
def test_registers_are_retiled(atom: str, operand: str, mma: Any, element: str) -> None:
    """What the copy calls register i is what the MMA holds there."""
    copy = MAKE[operand](atom, mma, element)
    m, n = (2 * extent for extent in copy.tile_shape)
    matrix = Layout((m, n), (n, 1))
    side: Side = "dst" if operand != "C" else "src"
    for thread in (0, 37, 127):
        fragment = mma.get_slice(thread).partition_fragment(operand, matrix)
        mine, offset = mma.get_slice(thread).partition(operand, matrix)
        registers = {fragment(i): offset + mine(i) for i in range(size(fragment))}
        part, start = copy.get_slice(thread).partition(side, matrix)
        retiled = copy.get_slice(thread).retile(fragment)
        assert size(retiled) == len(registers)
        assert [registers[retiled(i)] for i in range(len(registers))] == [
            start + part(i) for i in range(len(registers))
        ]


def test_tensors() -> None:
    copy = make_tiled_copy_A("SM75_U32x4_LDSM_N", MMA)
    tile = Tensor(np.arange(64 * 64), ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1))))
    mine = copy.get_slice(21).partition_S(tile)
    assert mine.shape == ((8, 1), 2, 4)
    assert mine[0].item() == Swizzle(3, 3, 3)(64 * 5 + 8)  # lane 21 reads row 5, columns 8 to 15
    fragment = MMA.get_slice(21).partition_fragment_A(Tensor(np.zeros(4096, "f2"), Layout((64, 64))))
    again = copy.get_slice(21).retile(fragment)
    assert again.buffer is fragment.buffer and again.shape == ((8, 1), 2, 4)
    assert copy.get_slice(21).partition_D(tile).shape == (((2, 2, 2), 1), 2, 4)


def test_other_atoms_on_the_same_tile() -> None:
    wide = make_tiled_copy("UniversalCopy<uint128_t>", "f16", Layout((16, 8), (8, 1)), Layout((1, 8)))
    for make in (make_tiled_copy_S, make_tiled_copy_D):
        narrow = make("UniversalCopy<uint32_t>", wide)
        assert (places(narrow.get_layoutS_TV()) == places(wide.get_layoutS_TV())).all()
        assert narrow.tile_shape == wide.tile_shape == (16, 64)


@pytest.mark.parametrize("atom", ["SM90_U32x2_STSM_N", "SM90_U32x4_STSM_N", "UniversalCopy<uint32_t>"])
def test_a_part_of_c(atom: str) -> None:
    """Thread by thread, the part holds the first values of the whole."""
    copy = make_tiled_copy_C_atom(atom, MMA, "f16")
    whole, part = places(MMA.get_layoutC_TV()), places(copy.layout_tv)
    m, n, _ = MMA.tile_shape
    tile = [(i, j) for j in range(n) for i in range(m)]
    rows, columns = (sorted({tile[x][axis] for x in whole[:, : part.shape[1]].ravel()}) for axis in (0, 1))
    assert copy.tile_shape == (len(rows), len(columns))
    row_of, column_of = (as_layout(mode) for mode in copy.tiler)
    place = [row_of(x % len(rows)) + m * column_of(x // len(rows)) for x in range(len(rows) * len(columns))]
    assert [[place[x] for x in line] for line in part] == whole[:, : part.shape[1]].tolist()


WORD = "UniversalCopy<uint32_t>"
COPY = make_tiled_copy(WORD, "f32", Layout((8, 4), (4, 1)))
NARROW = make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN")
SWIZZLED = Tensor(np.zeros(64), ComposedLayout(Swizzle(1, 0, 3), 0, Layout((8, 8))))


@each(
    ("error", "part", "call"),
    [
        (UnknownNameError, "did you mean", lambda: make_tiled_copy_A("SM75_U32x4_LDSM", MMA)),
        (ShapeError, "takes 4; the nearest",
         lambda: make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((8, 4)), Layout((1, 2)))),
        (ShapeError, "takes 32; the nearest multiple is 64",
         lambda: tile_copy("SM75_U32x1_LDSM_N", "f16", Layout((48, 2)), (48, 2))),
        (NotInjectiveError, "does not number 32 threads",
         lambda: make_tiled_copy(WORD, "f32", Layout((8, 4), (8, 1)))),
        (DivisibilityError, "splits them", lambda: make_tiled_copy_B("SM75_U16x4_LDSM_T", TF32)),
        (ShapeError, "takes 8 values", lambda: make_tiled_copy_C_atom("SM90_U32x4_STSM_N", NARROW, "f16")),
        (ShapeError, "takes no part", lambda: COPY.get_slice(-1)),
        (ShapeError, "takes no part", lambda: COPY.get_slice(32)),
        (ArgumentTypeError, "1.0", lambda: COPY.get_slice(1.0)),  # type: ignore[arg-type]
        (ShapeError, "reaches index 39", lambda: tile_copy(WORD, "f32", Layout((8, 5)), (8, 4))),
        (ShapeError, "the two modes", lambda: tile_copy(WORD, "f32", Layout((8, 2, 2)), (8, 4))),
        (ShapeError, "the nearest multiple is 8", lambda: COPY.get_slice(0).partition_D(Layout((8, 6)))),
        (ShapeError, "a plain layout", lambda: COPY.get_slice(0).retile(SWIZZLED)),
    ],
)  # fmt: skip
def test_what_does_not_fit_is_refused(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=part):
        call()
    assert COPY.get_slice(np.int64(3)) == COPY.get_slice(3)  # type: ignore[arg-type]
