"""What the hardware counted, and the numbers any implementation of its rules must reproduce."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg.analysis import (
    Access,
    GlobalReport,
    SharedReport,
    analyze,
    batch_lanes,
    ideal_wavefronts,
    sectors,
    served_batch,
    traffic_batch,
    warp_rule,
    wavefronts,
)
from layoutalg.errors import AlignmentError
from layoutalg.layout import Layout, Swizzle
from layoutalg.notation import parse_cute as parse
from tests.sweeps import each


def rows_of(name: str) -> list[dict[str, Any]]:
    text = (Path(__file__).parents[1] / "data" / name).read_text(encoding="utf-8")
    return [{**row, "name": instruction_of(row["op"])} for row in map(json.loads, text.splitlines())]


def instruction_of(op: str) -> str:
    """The instruction name of a data row: LDSM4T is ldmatrix.x4.trans, CPA8 is cp.async.8."""
    if found := re.fullmatch(r"(LD|ST)SM(\d)(T?)", op):
        return f"{found[1].lower()}matrix.x{found[2]}{'.trans' if found[3] else ''}"
    if found := re.fullmatch(r"CPA(\d)", op):
        return f"cp.async.{found[1]}"
    if found := re.fullmatch(r"(LD|ST)([SG])(\d+)", op):
        return f"{found[1].lower()}.{'shared' if found[2] == 'S' else 'global'}.b{found[3]}"
    assert op == "REDS32"
    return "red.shared.u32"


ROWS = rows_of("h200_wavefronts.jsonl")


def test_every_measured_row() -> None:
    """One by one and in batches; none beats its ideal."""
    for row in ROWS:
        count, counted = (sectors, row["sectors"]) if "sectors" in row else (wavefronts, row["wavefronts"])
        assert count(row["name"], row["offsets"]) == counted, (row["op"], row["pattern"])
        assert "sectors" in row or ideal_wavefronts(row["name"], row["offsets"]) <= counted
    for name in {row["name"] for row in ROWS}:
        rows = [row for row in ROWS if row["name"] == name]
        kind = "sectors" if "sectors" in rows[0] else "wavefronts"
        offsets = np.array([[o or 0 for o in row["offsets"]] for row in rows])
        active = np.array([[o is not None for o in row["offsets"]] for row in rows])
        rule, machine = warp_rule(name, "global" if kind == "sectors" else "shared", "sm_90")
        checked = batch_lanes(rule, machine, offsets, active)
        if kind == "sectors":
            counts = traffic_batch(rule, machine, *checked)[:, 0]
        else:
            counts = served_batch(rule, machine, *checked)[0]
        assert counts.tolist() == [row[kind] for row in rows], name
    assert len(ROWS) == 600


def test_every_measured_access_by_a_part_of_a_warp() -> None:
    """The pipe's count; what the tool attributes to the instruction is another number for some loads."""
    rows = rows_of("h200_partial_warps.jsonl")
    assert len(rows) == 212
    assert not [row for row in rows if wavefronts(row["name"], row["offsets"]) != row["wavefronts"]]
    other = [r for r in rows if r["by_instruction"] != r["wavefronts"]]
    equal = [r for r in other if len({at for at in r["offsets"] if at is not None}) == 1]
    assert len(other) == 31 and all(r["by_instruction"] == 1 < r["wavefronts"] == 2 for r in equal)


FACTS: list[tuple[str, str, str, dict[Any, int | None]]] = [
    ("(32,32):({},1)", "ld.shared.b32@col", "f32", {32: 32, 33: 1}),
    ("(32,32):({},1)", "ld.shared.b64@col", "f64", {32: 32, 33: 2, 34: 4}),
    ("(32,32):({},1)", "ld.shared.b128@col", "f32", {32: 32, 33: None, 36: 4}),
    ("(32,64):({},1)", "ld.shared.b16@col", "f16", {64: 32, 65: 2, 66: 1, 72: 4}),
    ("{}(16,32):(32,1)", "ld.shared.b32@((16,2),1,16):((1,16),0,32)", "f32",
     {"": 16, "Sw<4,0,5> o 0 o ": 2, "Sw<4,1,4> o 0 o ": 1}),
    ("{}", "ld.shared.b64@(32,8):(1,0)", "u8", {"32:8": None}),
    ("(8,32):(1,{})", "ld.shared.b64@(32,8):(8,1)", "u8", {8: 2, 16: 4, 24: 2}),
    ("32:{}", "ld.shared.b8", "u8", {4: 1, 33: 1, 128: 32, 129: 4, 132: 1}),
    ("(8,8):({},1)", "ldmatrix.x1", "f16",
     {8: 1, 16: 2, 24: 1, 32: 4, 40: 1, 64: 8, 72: 1, 80: 2, 96: 4, 128: 8, 136: 1, 68: None}),
    # lane l holds two f32 of row l // 4, columns 2 (l % 4), of an accumulator of mma
    ("(8,8):({},1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32",
     {8: 2, 16: 4, 32: 8, 36: 4, 40: 2, 64: 8, 68: 4, 72: 2, 136: 2}),
    # fragments of tf32: A, and B stored by rows of k
    ("(8,4):({},1)", "ld.shared.b32@((4,8),1):((8,1),0)", "f32", {32: 8, 36: 1}),
    ("(4,8):({},1)", "ld.shared.b32@((4,8),1):((1,4),0)", "f32", {32: 4, 36: 2, 40: 1}),
    # a hardware swizzle and padding, at eight bases before the swizzle
    ("Sw<3,3,3> o {} o (16,16):(72,1)", "ldmatrix.x4", "f16",
     dict(zip(range(0, 64, 8), (23, 18, 12, 11, 14, 17, 16, 15), strict=True))),
    ("2:{}", "ld.shared.b16", "f16", {65: 2}),
    ("{}", "ld.global.b32", "f32", {"32:1": 4}),
    ("{}", "ld.global.b128", "u8", {"512:1": 16}),
]  # fmt: skip
"""A layout with a hole, an access, an element, and what fills the hole -> the count of the worst instruction.

None where the vectors do not lie as the instruction needs.
"""


@each(("layout", "spec", "element", "counts"), FACTS)
def test_through_layouts(layout: str, spec: str, element: str, counts: dict[Any, int | None]) -> None:
    """In closed form, and by the definition."""
    for hole, expected in counts.items():
        tile = parse(layout.format(hole))
        assert not isinstance(tile, Swizzle)
        access = Access.of(spec, tile, element)
        if expected is None:
            with pytest.raises(AlignmentError):
                analyze(tile, access)
            continue
        report, defined = analyze(tile, access), analyze(tile, access, method="enumerated")
        for one in (report, defined):
            assert (one.worst if isinstance(one, SharedReport) else one.sectors) == expected, hole
        assert report.method != "enumerated"


@each(("factor", "expected"), [(0, 16), (1, 2), (2, 1)])
@each("step", range(16))
def test_f32_two_columns_of_sixteen_rows(factor: int, expected: int, step: int) -> None:
    lanes = [(lane % 16, 2 * step + lane // 16) for lane in range(32)]
    offsets = [4 * (32 * row + (column ^ (factor * row))) for row, column in lanes]
    assert wavefronts("ld.shared.b32", offsets) == expected


def test_a_base_added_before_a_swizzle_is_no_translation() -> None:
    swizzle, bases = Swizzle(3, 4, 3), range(0, 128, 16)
    inside = [wavefronts("ld.shared.b128", [swizzle(base + 16 * n) for n in range(32)]) for base in bases]
    outside = [wavefronts("ld.shared.b128", [base + swizzle(16 * n) for n in range(32)]) for base in bases]
    assert inside == [4, 8, 6, 8, 5, 8, 6, 8] and outside == [4] * 8


@each(("width", "base", "expected"), [(4, 0, 4), (4, 4, 5), (4, 28, 5), (16, 0, 16), (16, 16, 17)])
def test_misaligned_rows_cost_a_sector(width: int, base: int, expected: int) -> None:
    access = Access(f"ld.global.b{8 * width}", Layout((32, width), (width, 1)), "u8", base_bytes=base)  # type: ignore[arg-type]
    for method in ("auto", "enumerated"):
        report = analyze(Layout(32 * width), access, method=method)
        assert isinstance(report, GlobalReport)
        assert (report.sectors, report.worst_alignment) == (expected, width + 1)


@each(("base", "expected"), [(0, 2), (2, 1)])
def test_narrow_lanes_feel_the_base_modulo_four(base: int, expected: int) -> None:
    access = Access("ld.shared.b16", Layout((2, 1), (1, 0)), "f16", base_bytes=base)  # type: ignore[arg-type]
    for method in ("auto", "enumerated"):
        report = analyze(Layout(2, 65), access, method=method)
        assert isinstance(report, SharedReport) and report.worst == expected
        assert report.method != "enumerated" or method == "enumerated"
