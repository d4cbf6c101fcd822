"""The atoms, against CuTe's own answers and against the definition of a swizzle atom."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import SMEM_ATOMS, SWIZZLE_MODES, SmemAtom, atom_layout, find_smem_atom, find_swizzle_mode
from layoutalg.arch.swizzle_modes import atom_text
from layoutalg.decide import is_bijective, same_function
from layoutalg.dtype import DTYPES
from layoutalg.errors import ShapeError, UnknownNameError
from layoutalg.layout import Swizzle, size
from layoutalg.notation import parse, parse_int_tuple
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "cute_cpp.jsonl").open(encoding="utf-8")
]
BY_BITS = {1: "b1", 8: "u8", 16: "f16", 32: "tf32"}


def rows(op: str) -> list[Any]:
    found = [row for row in ROWS if row["op"] == op]
    assert found
    return [pytest.param(row, id=str(row["id"])) for row in found]


def name_of(row: dict[str, Any]) -> str:
    return f"Layout_{row['params']['major']}_{row['params']['swizzle']}_Atom"


@each("row", rows("smem_atom") + rows("smem_atom_bits"))
def test_what_cute_prints(row: dict[str, Any]) -> None:
    element = BY_BITS[row["params"].get("bits", 1)]
    assert atom_text(name_of(row), element) == row["out"].replace("_", "").replace("smemptr", "smem_ptr")
    assert same_function(atom_layout(name_of(row), element), _parse(row["out"]))


@each("row", rows("smem_atom_pi"))
def test_position_independent_forms(row: dict[str, Any]) -> None:
    layout = atom_layout(name_of(row), BY_BITS[row["params"]["bits"]])
    assert str(layout) == row["out"].replace("_", "")
    assert [layout(i) for i in range(min(256, size(layout)))] == row["tab"][:256]


@each("row", rows("tile_to_shape_gmma") + rows("tile_to_shape_gmma_pi"))
def test_tiles_of_atoms(row: dict[str, Any]) -> None:
    atom = atom_layout(name_of(row), BY_BITS[row["params"]["bits"]])
    tile = tile_to_shape(atom, parse_int_tuple(row["in"][1]))
    wanted = _parse(row["out"])
    assert tile.shape == wanted.shape and same_function(tile, wanted)


def _parse(text: str) -> Any:
    value = parse(text)
    assert not isinstance(value, Swizzle)
    return value


@each("element", [name for name, t in DTYPES.items() if t.bits <= 64 and t.bits != 6])
@each("atom", SMEM_ATOMS.values(), ids=lambda atom: atom.name)
def test_an_atom_is_whole_rows_permuted_inside_one_period(atom: SmemAtom, element: str) -> None:
    layout = atom_layout(atom, element)
    bits = DTYPES[element].bits
    mode = atom.mode
    assert is_bijective(layout)
    assert size(layout) * bits == 8 * mode.rows * mode.row_bytes
    if mode.swizzle.bits:
        assert size(layout) * bits == 8 * mode.period_bytes
    width = 8 * mode.row_bytes // bits
    for row in range(mode.rows):
        places = [layout(row, i) if atom.major == "K" else layout(i, row) for i in range(width)]
        assert sorted(places) == list(range(row * width, row * width + width)), "a row stays in its row"


def test_the_chunks_of_32_bytes_are_those_of_sm_100() -> None:
    atom = SMEM_ATOMS["Layout_MN_SW128_32B_Atom"]
    assert str(atom_layout(atom, "f32")) == "Sw<2,3,2> o 0 o (32,4):(1,32)"
    assert atom.mode.sm_90_code is None and atom.mode.sm_100_code == 1 and atom.mode.period_bytes == 512


def test_a_mode_in_elements_is_the_mode_on_bytes() -> None:
    for mode in SWIZZLE_MODES.values():
        for bits in (8, 16, 32, 64):
            elements = mode.in_elements(bits)
            width = bits // 8
            for x in range(0, 2048, width):
                assert mode.swizzle(x) == elements(x // width) * width
    assert [find_swizzle_mode(n).in_elements(16) for n in (32, 64, 128)] == [
        Swizzle(b, 3, 3) for b in (1, 2, 3)
    ]


@each(
    ("error", "part", "call"),
    [
        (
            UnknownNameError,
            "did you mean 'Layout_K_SW128_Atom'",
            lambda: find_smem_atom("Layout_K_SW128_atom"),
        ),
        (ShapeError, r"the modes are 0 \(none\), 32, 64 and 128", lambda: find_swizzle_mode(48)),
        (UnknownNameError, "swizzle mode", lambda: find_swizzle_mode("256B")),
        (ShapeError, "a power of two up to 128", lambda: SWIZZLE_MODES["32B"].in_elements(24)),
    ],
)
def test_bad_input(error: type[Exception], part: str, call: Callable[[], object]) -> None:
    with pytest.raises(error, match=part):
        call()
    assert str(atom_layout("Layout_K_SW128_Atom", "c128")) == "Sw<3,0,3> o 0 o (8,8):(8,1)"
