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
    ideal_wavefronts,
    sectors,
    sectors_batch,
    wavefronts,
    wavefronts_batch,
)
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError
from layoutalg.layout import Layout, Swizzle
from layoutalg.notation import parse_cute as parse
from tests.sweeps import each

ROWS: list[dict[str, Any]] = [
    json.loads(row)
    for row in (Path(__file__).parents[1] / "data" / "h200_wavefronts.jsonl").read_text().splitlines()
]
LANE = range(32)


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


def test_every_measured_row() -> None:
    wrong = []
    for row in ROWS:
        count, counted = (sectors, row["sectors"]) if "sectors" in row else (wavefronts, row["wavefronts"])
        if count(instruction_of(row["op"]), row["offsets"]) != counted:
            wrong.append((row["op"], row["pattern"], counted))
    assert len(ROWS) == 600 and not wrong


def test_every_measured_access_by_a_part_of_a_warp() -> None:
    """The pipe's count; what the tool attributes to the instruction is another number for some loads."""
    path = Path(__file__).parents[1] / "data" / "h200_partial_warps.jsonl"
    rows = [json.loads(row) for row in path.read_text().splitlines()]
    wrong = [r for r in rows if wavefronts(instruction_of(r["op"]), r["offsets"]) != r["wavefronts"]]
    assert len(rows) == 212 and not wrong
    other = [r for r in rows if r["by_instruction"] != r["wavefronts"]]
    equal = [r for r in other if len({at for at in r["offsets"] if at is not None}) == 1]
    assert len(other) == 31 and all(r["by_instruction"] == 1 < r["wavefronts"] == 2 for r in equal)


def test_every_measured_row_in_batches() -> None:
    for op in sorted({row["op"] for row in ROWS}):
        rows = [row for row in ROWS if row["op"] == op]
        offsets = np.array([[o or 0 for o in row["offsets"]] for row in rows])
        active = np.array([[o is not None for o in row["offsets"]] for row in rows])
        if "sectors" in rows[0]:
            counted = sectors_batch(instruction_of(op), offsets, active)
            assert counted.tolist() == [row["sectors"] for row in rows], op
        else:
            counted = wavefronts_batch(instruction_of(op), offsets, active)
            assert counted.tolist() == [row["wavefronts"] for row in rows], op


def test_no_measured_row_beats_its_ideal() -> None:
    for row in ROWS:
        if "wavefronts" in row:
            assert ideal_wavefronts(instruction_of(row["op"]), row["offsets"]) <= row["wavefronts"]


def column(width_bytes: int, pitch_bytes: int) -> list[int]:
    """Lane l reads the first bytes of row l."""
    return [pitch_bytes * lane for lane in LANE]


@pytest.mark.parametrize(("pitch_floats", "expected"), [(32, 32), (33, 1)])
def test_f32_column(pitch_floats: int, expected: int) -> None:
    assert wavefronts("ld.shared.b32", column(4, 4 * pitch_floats)) == expected


@each(("factor", "expected"), [(0, 16), (1, 2), (2, 1)])
@each("step", range(16))
def test_f32_two_columns_of_sixteen_rows(factor: int, expected: int, step: int) -> None:
    offsets = []
    for lane in LANE:
        row, col = lane % 16, 2 * step + lane // 16
        offsets.append(4 * (32 * row + (col ^ (factor * row))))
    assert wavefronts("ld.shared.b32", offsets) == expected


@pytest.mark.parametrize(("pitch_halves", "expected"), [(64, 32), (65, 2), (66, 1), (72, 4)])
def test_f16_scalar_column(pitch_halves: int, expected: int) -> None:
    assert wavefronts("ld.shared.b16", column(2, 2 * pitch_halves)) == expected


@pytest.mark.parametrize(("pitch_doubles", "expected"), [(32, 32), (33, 2), (34, 4)])
def test_f64_column(pitch_doubles: int, expected: int) -> None:
    assert wavefronts("ld.shared.b64", column(8, 8 * pitch_doubles)) == expected


@pytest.mark.parametrize(("pitch_floats", "expected"), [(32, 32), (36, 4)])
def test_float4_column(pitch_floats: int, expected: int) -> None:
    assert wavefronts("ld.shared.b128", column(16, 4 * pitch_floats)) == expected


def test_float4_column_on_a_pitch_of_33_floats_is_misaligned() -> None:
    with pytest.raises(AlignmentError):
        wavefronts("ld.shared.b128", column(16, 4 * 33))


@pytest.mark.parametrize(("stride", "expected"), [(8, 2), (16, 4), (24, 2)])
def test_eight_byte_lanes(stride: int, expected: int) -> None:
    assert wavefronts("ld.shared.b64", [stride * lane for lane in LANE]) == expected


@pytest.mark.parametrize(("stride", "expected"), [(4, 1), (33, 1), (128, 32), (129, 4), (132, 1)])
def test_bytes(stride: int, expected: int) -> None:
    assert wavefronts("ld.shared.b8", [stride * lane for lane in LANE]) == expected


@each(
    ("pitch", "expected"),
    list(
        zip(
            (16, 32, 48, 64, 80, 128, 144, 160, 192, 256, 272), (1, 2, 1, 4, 1, 8, 1, 2, 4, 8, 1), strict=True
        )
    ),
)
def test_ldmatrix_rows(pitch: int, expected: int) -> None:
    assert wavefronts("ldmatrix.x1", [pitch * (lane % 8) for lane in LANE]) == expected


def test_ldmatrix_on_a_pitch_of_136_bytes_is_misaligned() -> None:
    with pytest.raises(AlignmentError):
        wavefronts("ldmatrix.x1", [136 * (lane % 8) for lane in LANE])


@each(
    ("pitch", "expected"),
    list(zip((8, 16, 32, 36, 40, 64, 68, 72, 136), (2, 4, 8, 4, 2, 8, 4, 2, 2), strict=True)),
)
def test_store_of_an_mma_accumulator(pitch: int, expected: int) -> None:
    """Lane l holds two f32 of row l // 4, columns 2 (l % 4); `pitch` in words."""
    offsets = [4 * (pitch * (lane // 4) + 2 * (lane % 4)) for lane in LANE]
    assert wavefronts("st.shared.b64", offsets) == expected


@pytest.mark.parametrize(("pitch", "expected"), [(32, 8), (36, 1)])
def test_tf32_a_fragment(pitch: int, expected: int) -> None:
    assert wavefronts("ld.shared.b32", [4 * (pitch * (lane // 4) + lane % 4) for lane in LANE]) == expected


@pytest.mark.parametrize(("pitch", "expected"), [(32, 4), (36, 2), (40, 1)])
def test_tf32_b_fragment_stored_by_rows_of_k(pitch: int, expected: int) -> None:
    assert wavefronts("ld.shared.b32", [4 * (pitch * (lane % 4) + lane // 4) for lane in LANE]) == expected


def test_a_hardware_swizzle_combined_with_padding() -> None:
    swizzle = Swizzle(3, 4, 3)
    counted = [
        wavefronts("ldmatrix.x4", [swizzle(base + 144 * (n % 16) + 16 * (n // 16)) for n in LANE])
        for base in range(0, 128, 16)
    ]
    assert counted == [23, 18, 12, 11, 14, 17, 16, 15]


def test_a_base_added_before_a_swizzle_is_no_translation() -> None:
    swizzle = Swizzle(3, 4, 3)
    bases = range(0, 128, 16)
    inside = [wavefronts("ld.shared.b128", [swizzle(base + 16 * n) for n in LANE]) for base in bases]
    outside = [wavefronts("ld.shared.b128", [base + swizzle(16 * n) for n in LANE]) for base in bases]
    assert inside == [4, 8, 6, 8, 5, 8, 6, 8]
    assert outside == [4] * 8


@pytest.mark.parametrize(("base", "expected"), [(0, 2), (2, 1)])
def test_narrow_lanes_feel_the_base_modulo_four(base: int, expected: int) -> None:
    offsets: list[int | None] = [base + 2 * half for half in (0, 65)]
    assert wavefronts("ld.shared.b16", offsets + [None] * 30) == expected


@pytest.mark.parametrize(
    ("width", "start", "expected"), [(4, 0, 4), (4, 4, 5), (4, 28, 5), (16, 0, 16), (16, 16, 17)]
)
def test_misaligned_rows_cost_a_sector(width: int, start: int, expected: int) -> None:
    assert sectors(f"ld.global.b{8 * width}", [start + width * lane for lane in LANE]) == expected


# --- the same numbers through layouts ------------------------------------------------------------------


@each(
    ("layout", "spec", "element", "expected"),
    [
        ("(32,32):(32,1)", "ld.shared.b32@col", "f32", 32),
        ("(32,32):(33,1)", "ld.shared.b32@col", "f32", 1),
        ("(16,32):(32,1)", "ld.shared.b32@((16,2),1,16):((1,16),0,32)", "f32", 16),
        ("Sw<4,0,5> o 0 o (16,32):(32,1)", "ld.shared.b32@((16,2),1,16):((1,16),0,32)", "f32", 2),
        ("Sw<4,1,4> o 0 o (16,32):(32,1)", "ld.shared.b32@((16,2),1,16):((1,16),0,32)", "f32", 1),
        ("(32,64):(64,1)", "ld.shared.b16@col", "f16", 32),
        ("(32,64):(65,1)", "ld.shared.b16@col", "f16", 2),
        ("(32,64):(66,1)", "ld.shared.b16@col", "f16", 1),
        ("(32,64):(72,1)", "ld.shared.b16@col", "f16", 4),
        ("(32,32):(32,1)", "ld.shared.b64@col", "f64", 32),
        ("(32,32):(33,1)", "ld.shared.b64@col", "f64", 2),
        ("(32,32):(34,1)", "ld.shared.b64@col", "f64", 4),
        ("(32,32):(32,1)", "ld.shared.b128@col", "f32", 32),
        ("(32,32):(36,1)", "ld.shared.b128@col", "f32", 4),
        ("32:8", "ld.shared.b64@(32,8):(1,0)", "u8", None),
        ("(8,32):(1,8)", "ld.shared.b64@(32,8):(8,1)", "u8", 2),
        ("(8,32):(1,16)", "ld.shared.b64@(32,8):(8,1)", "u8", 4),
        ("(8,32):(1,24)", "ld.shared.b64@(32,8):(8,1)", "u8", 2),
        ("32:4", "ld.shared.b8", "u8", 1),
        ("32:33", "ld.shared.b8", "u8", 1),
        ("32:128", "ld.shared.b8", "u8", 32),
        ("32:129", "ld.shared.b8", "u8", 4),
        ("32:132", "ld.shared.b8", "u8", 1),
        ("(8,8):(8,1)", "ldmatrix.x1", "f16", 1),
        ("(8,8):(16,1)", "ldmatrix.x1", "f16", 2),
        ("(8,8):(24,1)", "ldmatrix.x1", "f16", 1),
        ("(8,8):(32,1)", "ldmatrix.x1", "f16", 4),
        ("(8,8):(40,1)", "ldmatrix.x1", "f16", 1),
        ("(8,8):(64,1)", "ldmatrix.x1", "f16", 8),
        ("(8,8):(72,1)", "ldmatrix.x1", "f16", 1),
        ("(8,8):(80,1)", "ldmatrix.x1", "f16", 2),
        ("(8,8):(96,1)", "ldmatrix.x1", "f16", 4),
        ("(8,8):(128,1)", "ldmatrix.x1", "f16", 8),
        ("(8,8):(136,1)", "ldmatrix.x1", "f16", 1),
        ("(8,8):(68,1)", "ldmatrix.x1", "f16", None),
        ("(32,32):(33,1)", "ld.shared.b128@col", "f32", None),
        ("(8,8):(8,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 2),
        ("(8,8):(16,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 4),
        ("(8,8):(32,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 8),
        ("(8,8):(36,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 4),
        ("(8,8):(40,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 2),
        ("(8,8):(64,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 8),
        ("(8,8):(68,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 4),
        ("(8,8):(72,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 2),
        ("(8,8):(136,1)", "st.shared.b64@((4,8),2):((16,1),8)", "f32", 2),
        ("(8,4):(32,1)", "ld.shared.b32@((4,8),1):((8,1),0)", "f32", 8),
        ("(8,4):(36,1)", "ld.shared.b32@((4,8),1):((8,1),0)", "f32", 1),
        ("(4,8):(32,1)", "ld.shared.b32@((4,8),1):((1,4),0)", "f32", 4),
        ("(4,8):(36,1)", "ld.shared.b32@((4,8),1):((1,4),0)", "f32", 2),
        ("(4,8):(40,1)", "ld.shared.b32@((4,8),1):((1,4),0)", "f32", 1),
        ("Sw<3,3,3> o 0 o (16,16):(72,1)", "ldmatrix.x4", "f16", 23),
        ("Sw<3,3,3> o 8 o (16,16):(72,1)", "ldmatrix.x4", "f16", 18),
        ("Sw<3,3,3> o 16 o (16,16):(72,1)", "ldmatrix.x4", "f16", 12),
        ("Sw<3,3,3> o 24 o (16,16):(72,1)", "ldmatrix.x4", "f16", 11),
        ("Sw<3,3,3> o 32 o (16,16):(72,1)", "ldmatrix.x4", "f16", 14),
        ("Sw<3,3,3> o 40 o (16,16):(72,1)", "ldmatrix.x4", "f16", 17),
        ("Sw<3,3,3> o 48 o (16,16):(72,1)", "ldmatrix.x4", "f16", 16),
        ("Sw<3,3,3> o 56 o (16,16):(72,1)", "ldmatrix.x4", "f16", 15),
        ("2:65", "ld.shared.b16", "f16", 2),
        ("32:1", "ld.global.b32", "f32", 4),
        ("512:1", "ld.global.b128", "u8", 16),
    ],
)
def test_through_layouts(layout: str, spec: str, element: str, expected: int | None) -> None:
    """The worst instruction of the access; None where the vectors do not lie as the instruction needs."""
    tile = parse(layout)
    assert not isinstance(tile, Swizzle)
    if expected is None:
        with pytest.raises(AlignmentError):
            analyze(tile, Access.of(spec, tile, dtype(element)))
        return
    report = analyze(tile, Access.of(spec, tile, dtype(element)))
    assert (report.worst if isinstance(report, SharedReport) else report.sectors) == expected
    assert report.method != "enumerated"


@pytest.mark.parametrize(
    ("width", "base", "expected"), [(4, 0, 4), (4, 4, 5), (4, 28, 5), (16, 0, 16), (16, 16, 17)]
)
def test_misalignment_through_layouts(width: int, base: int, expected: int) -> None:
    lanes = Layout((32, width), (width, 1))
    access = Access(f"ld.global.b{8 * width}", lanes, dtype("u8"), base_bytes=base)
    report = analyze(Layout(32 * width), access)
    worst = {4: 5, 16: 17}[width]
    assert isinstance(report, GlobalReport) and (report.sectors, report.worst_alignment) == (expected, worst)


@pytest.mark.parametrize(("base", "expected"), [(0, 2), (2, 1)])
def test_narrow_lanes_feel_the_base_through_layouts(base: int, expected: int) -> None:
    access = Access("ld.shared.b16", Layout((2, 1), (1, 0)), dtype("f16"), base_bytes=base)
    report = analyze(Layout(2, 65), access)
    assert isinstance(report, SharedReport) and report.worst == expected and report.method != "enumerated"
