"""Partitions, fragments and tiled copies, against what CuTe's C++ headers answer (CUTLASS 4.2.0).

A row of tests/data/cute_tiled.jsonl names a TiledMMA and what was asked of it: a thread's partition of a
matrix whose elements count from 0, the registers for it, the layouts of a tiled copy of an operand, the
registers retiled for that copy.  `offset` is the first element of a partition.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from layoutalg.atoms import (
    TiledCopy,
    TiledMMA,
    make_tiled_copy_A,
    make_tiled_copy_B,
    make_tiled_copy_C,
    make_tiled_copy_C_atom,
    make_tiled_mma,
)
from layoutalg.layout import Layout
from layoutalg.notation import parse
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "cute_tiled.jsonl").open(encoding="utf-8")
]
MAKE = {"A": make_tiled_copy_A, "B": make_tiled_copy_B, "C": make_tiled_copy_C}


def layout_of(text: str) -> Layout:
    found = parse(text)
    assert isinstance(found, Layout)
    return found


def tiled_mma(row: dict[str, Any]) -> TiledMMA:
    permutations = tuple(
        None if text is None else layout_of(text) if ":" in text else int(text)
        for text in row["permutations"]
    )
    return make_tiled_mma(row["atom"], layout_of(row["atom_layout"]), permutations)


def tiled_copy(row: dict[str, Any], mma: TiledMMA) -> TiledCopy:
    make = make_tiled_copy_C_atom if row["what"].startswith("C_atom") else MAKE[row["operand"]]
    return make(row["copy"], mma, row["element"])


def answer(row: dict[str, Any]) -> tuple[str, int]:
    """(text, offset) as the row has them."""
    mma, what = tiled_mma(row), row["what"]
    if what == "layout_tv":
        return str(mma.layout_tv(row["operand"])), 0
    if what in ("partition", "partition_fragment"):
        found = getattr(mma.get_slice(row["thread"]), what)(row["operand"], layout_of(row["matrix"]))
        return (str(found[0]), found[1]) if what == "partition" else (str(found), 0)
    copy = tiled_copy(row, mma)
    if what in ("partition_S", "partition_D"):
        part, offset = getattr(copy.get_slice(row["thread"]), what)(layout_of(row["matrix"]))
        return str(part), offset
    if what == "retile":
        return str(copy.retile(layout_of(row["matrix"]))), 0
    if what == "C_atom":
        return str(copy.layout_tv), 0
    if what == "C_atom_tiler":
        return f"({','.join(map(str, copy.tiler))})", 0
    return str(getattr(copy, what)()), 0


def test_everything_is_asked() -> None:
    asked = {row["what"] for row in ROWS}
    assert asked == {
        *("layout_tv", "partition", "partition_fragment", "get_layoutS_TV", "get_layoutD_TV"),
        *("partition_S", "partition_D", "retile", "C_atom", "C_atom_tiler"),
    }
    assert len({row["atom"] for row in ROWS}) >= 4


@each("row", ROWS, ids=lambda row: f"{row['what']}-{row['operand']}-{row.get('copy', '')}")
def test_what_cute_prints(row: dict[str, Any]) -> None:
    assert answer(row) == (row["out"], row["offset"])
