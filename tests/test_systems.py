"""Published reasoning about layouts, conflicts and coalescing, as examples that run.

Each section is a system that people have built and explained; every number its authors give about an access
pattern is counted here through layouts.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
import sympy

from layoutalg.algebra import recast_layout, right_inverse
from layoutalg.analysis import Access, GlobalReport, Guard, SharedReport, analyze, wavefronts
from layoutalg.arch import ARCHS, instruction_table
from layoutalg.compose import composition
from layoutalg.decide import cosize
from layoutalg.dtype import dtype
from layoutalg.f2 import to_f2
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.symbolic import solve_sectors, symbolic_cost
from layoutalg.synthesis import check_certificate, synthesize
from tests.sweeps import each

F16, F32, U8 = dtype("f16"), dtype("f32"), dtype("u8")
TOY = dataclasses.replace(
    ARCHS["sm_90"], name="toy", targets=(), lanes=4, banks=4, instructions=instruction_table(lanes=4, banks=4)
)
"""A GPU of teaching size: 4 lanes, 4 banks."""


def shared(
    layout: AnyLayout, access: Access | str, element: str = "f32", arch: Any = "sm_90"
) -> SharedReport:
    report = analyze(layout, Access.of(access, layout, element), arch)
    assert isinstance(report, SharedReport)
    return report


def moved(layout: AnyLayout, access: Access | str, element: str = "f32") -> GlobalReport:
    report = analyze(layout, Access.of(access, layout, element))
    assert isinstance(report, GlobalReport)
    return report


# --- the tensor-core ladder: a toy, padding, swizzling ---------------------------------------------------


@pytest.mark.parametrize(("stride", "expected"), [(1, 1), (2, 2), (4, 4)])
def test_three_accesses_of_the_toy(stride: int, expected: int) -> None:
    """Four lanes on four banks: side by side, on two banks, all on one."""
    lanes = Access("ld.shared.b32", Layout((4, 1), (1, 0)), F32)
    assert shared(Layout(4, stride), lanes, arch=TOY).total == expected
    assert wavefronts("ld.shared.b32", [4 * stride * lane for lane in range(4)], TOY) == expected


def test_columns_of_the_toy_tile_plain_padded_and_swizzled() -> None:
    column = Access("ld.shared.b32", Layout((4, 1, 4), (1, 0, 4)), F32)
    row = Access("ld.shared.b32", Layout((4, 1, 4), (4, 0, 1)), F32)
    plain, padded = Layout((4, 4), (4, 1)), Layout((4, 4), (5, 1))
    swizzled = ComposedLayout(Swizzle(2, 0, 2), 0, plain)
    columns = [shared(tile, column, arch=TOY).worst for tile in (plain, padded, swizzled)]
    rows = [shared(tile, row, arch=TOY).worst for tile in (plain, padded, swizzled)]
    assert columns == [4, 1, 1] and rows == [1, 1, 1]
    assert [swizzled(row, 0) for row in range(4)] == [0, 5, 10, 15]
    assert [Swizzle(2, 0, 2)(i) for i in range(16)] == [i ^ ((i & 0b1100) >> 2) for i in range(16)]
    found = synthesize((4, 4), [row, column], element="f32", arch=TOY)
    assert found.layout == swizzled and check_certificate(found)


def test_ldmatrix_on_rows_of_64_halves() -> None:
    """Rows of 128 bytes put the eight rows of every 8 x 8 matrix in the same four banks."""
    tile = Layout((256, 64), (64, 1))
    report = shared(tile, "ldmatrix.x4", "f16")
    assert (report.ways, report.worst, report.worst_ideal) == (8, 32, 4)
    assert report.witness is not None and report.witness.bank in range(4)
    assert {tile(row, 0) * 2 // 4 % 32 for row in range(8)} == {0}
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, tile)
    assert shared(swizzled, "ldmatrix.x4", "f16").conflict_free
    assert {swizzled(row, 0) * 2 // 4 % 32 for row in range(8)} == set(range(0, 32, 4))


@each(("columns", "share"), [(32, 0.25), (64, 0.125)])
def test_what_padding_costs(columns: int, share: float) -> None:
    """16 bytes more a row for tiles of 256 and 128 rows: conflict-free, for 6144 bytes however wide rows are.

    Of the published tile, which is 64 wide, that is 12.5 %; the 25 % that its author states is what a tile
    of half the width would pay.
    """
    extra = 0
    for rows in (256, 128):
        plain, padded = Layout((rows, columns), (columns, 1)), Layout((rows, columns), (columns + 8, 1))
        assert not shared(plain, "ldmatrix.x4", "f16").conflict_free
        assert shared(padded, "ldmatrix.x4", "f16").conflict_free
        extra += 2 * (rows * (columns + 8) - size(plain))
        assert cosize(padded) == rows * (columns + 8) - 8
    assert extra == 6144 and extra / (2 * columns * (256 + 128)) == share


def test_pitches_that_padding_can_have() -> None:
    pitch = sympy.Symbol("pitch", positive=True)
    rows16 = Access("ldmatrix.x4", Layout(((16, 2), 8), ((1, 128), 16)), F16)
    cost = symbolic_cost(((16, 16), (pitch, 1)), rows16, pitch)
    assert [cost.at(p) for p in (32, 40, 64, 72)] == [16, 4, 32, 4]


def test_the_epilogue_straight_from_the_accumulators_wastes_half() -> None:
    """m16n8 fragments of halves: a lane holds two columns, so 8 rows of 16 bytes a store."""
    tile = Layout((16, 8), (4096, 1))
    fragment = Access("st.global.b32", Layout(((4, 8), (2, 2)), ((32, 1), (16, 8))), F16)
    report = moved(tile, fragment, "f16")
    assert (report.instructions, report.sectors, report.efficiency) == (2, 16, 0.5)
    through_shared = Access("st.global.b128", Layout((32, 8), (8, 1)), F16)
    assert moved(Layout((64, 4), (1, 4096)), through_shared, "f16").efficiency == 1.0


# --- SGEMM, column-major: eight versions -----------------------------------------------------------------

LD = 4096
COLUMNS = Layout((LD, 64), (1, LD))
"""A piece of a column-major matrix of f32."""


def lanes_of(op: str, row: tuple[Any, Any], column: tuple[Any, Any], vector: int, height: int) -> Access:
    """A warp: `row` and `column` are (shape, stride) of what the thread number adds, fastest first."""
    shape, stride = (row[0], column[0]), (row[1], column[1] * height)
    return Access(op, Layout((shape, vector), (stride, 1 if vector > 1 else 0)), F32)


def test_version_1_one_thread_an_element() -> None:
    """32 x 32 threads: a warp reads 32 rows of one column of A (coalesced) and one element of B."""
    a = moved(COLUMNS, lanes_of("ld.global.b32", (32, 1), (1, 0), 1, LD))
    b = moved(COLUMNS, lanes_of("ld.global.b32", (32, 0), (1, 0), 1, LD))
    assert (a.sectors, a.efficiency) == (4, 1.0)
    assert (b.sectors, b.useful_bytes) == (1, 4)


ROW_MAJOR, COLUMN_MAJOR = Layout((32, 32), (32, 1)), Layout((32, 32), (1, 32))


def test_versions_2_and_3_row_major_tiles_conflict_32_way() -> None:
    """Lanes run down the rows; a new thread numbering (row = t & 31, column = t >> 5) changes nothing."""
    two = Access("ld.shared.b32", Layout(((32, 32), 1), ((1, 32), 0)), F32)
    three = Access("ld.shared.b32", Layout((1024, 1), (1, 0)), F32)
    for access in (two, three):
        for op in ("st.shared.b32", "ld.shared.b32"):
            report = shared(ROW_MAJOR, dataclasses.replace(access, op=op))
            assert (report.ways, report.total, report.ideal_total) == (32, 1024, 32)
    of_b = Access("ld.shared.b32", Layout(((32, 32), 1, 32), ((0, 1), 0, 32)), F32)
    assert shared(ROW_MAJOR, of_b).conflict_free  # one word for the whole warp


def test_version_4_column_major_tiles_are_conflict_free() -> None:
    access = Access("ld.shared.b32", Layout((1024, 1), (1, 0)), F32)
    for op in ("st.shared.b32", "ld.shared.b32"):
        assert shared(COLUMN_MAJOR, dataclasses.replace(access, op=op)).conflict_free
    padded = Layout((32, 32), (33, 1))
    assert shared(padded, access).conflict_free  # the other way out


def test_versions_5_and_6_four_rows_a_thread() -> None:
    """256 threads, 8 down a column of 32 rows: four scalar requests waste what one float4 request uses."""
    scalar = Access("ld.global.b32", Layout(((8, 4), 4), ((4, LD), 1)), F32)
    vector = Access("ld.global.b128", Layout(((8, 4), 4), ((4, LD), 1)), F32)
    five, six = moved(COLUMNS, scalar), moved(COLUMNS, vector)
    assert (five.instructions, five.sectors, five.efficiency) == (4, 64, 0.25)
    assert (six.instructions, six.sectors, six.efficiency) == (1, 16, 1.0)
    tv = Layout(((8, 4), 4), ((4, 32), 1))
    stored = shared(COLUMN_MAJOR, Access("st.shared.b32", tv, F32))
    assert (stored.ways, stored.total, stored.ideal_total) == (4, 16, 4)
    assert shared(COLUMN_MAJOR, Access("st.shared.b128", tv, F32)).conflict_free


def test_version_7_tile_of_64_and_4_by_4_a_thread() -> None:
    tile = Layout((64, 16), (1, 64))
    load = Access("ld.global.b128", Layout(((16, 2), 4), ((4, LD), 1)), F32)
    assert moved(COLUMNS, load).efficiency == 1.0
    of_a = Access("ld.shared.b128", Layout(((16, 16), 4, 16), ((4, 0), 1, 64)), F32)
    of_b = Access("ld.shared.b128", Layout(((16, 16), 4, 16), ((0, 4), 1, 64)), F32)
    a, b = shared(tile, of_a), shared(tile, of_b)
    assert a.conflict_free and a.worst == 4
    assert b.conflict_free and b.worst == 2  # two addresses a warp: its groups merge


def test_version_8_tile_of_128_and_8_by_8_a_thread() -> None:
    """Eight rows a thread are two float4 that lie 32 bytes apart from lane to lane: 2-way conflicts on A."""
    tile = Layout((128, 8), (1, 128))
    of_a = Access("ld.shared.b128", Layout(((16, 16), (4, 2), 8), ((8, 0), (1, 4), 128)), F32)
    report = shared(tile, of_a)
    assert (report.ways, report.worst, report.worst_ideal) == (2, 8, 4)
    split = Access("ld.shared.b128", Layout(((16, 16), (4, 2), 8), ((4, 0), (1, 64), 128)), F32)
    assert shared(tile, split).conflict_free  # rows 4 i and 64 + 4 i instead of 8 i and 8 i + 4
    b = Access("ld.global.b128", Layout(((2, 16), 4), ((4, LD), 1)), F32)
    assert moved(COLUMNS, b).efficiency == 1.0


# --- SGEMM, row-major, with edges ------------------------------------------------------------------------


def test_vector_loads_need_a_leading_dimension_divisible_by_4() -> None:
    ld = sympy.Symbol("ld", positive=True)
    load = Access("ld.global.b128", Layout(((2, 16), 4), ((64, 1), 16)), F32)
    tile = ((16, 8), (ld, 1))
    cost = symbolic_cost(tile, load, ld, least=8)
    assert [cost.at(n) is not None for n in range(8, 16)] == [n % 4 == 0 for n in range(8, 16)]
    assert str(solve_sectors(tile, load, ld, least=8)) == "ld mod 8 = 0"
    scalar = Access("ld.global.b32", Layout(((8, 4), 1, 4), ((16, 1), 0, 4)), F32)
    assert all(symbolic_cost(tile, scalar, ld, least=8).at(n) is not None for n in range(8, 16))


def test_predicated_edges() -> None:
    """The last tile of a matrix with 100 of 128 rows and 6 of 8 columns left."""
    tile = Layout((128, 8), (1024, 1))
    load = Access.of("ld.global.b32@row", tile, "f32")
    edge = dataclasses.replace(load, active=Guard((100, 6)))
    whole, part = moved(tile, load), moved(tile, edge)
    assert (whole.sectors, whole.efficiency) == (128, 1.0)
    assert (part.sectors, part.efficiency, part.method) == (100, 0.75, "digit-classes")


# --- CuTe practice: four swizzles ------------------------------------------------------------------------

FLOAT4_COLUMNS = "ld.shared.b128@((8,4),4,(4,8)):((1,128),32,(8,512))"


@each(
    ("shape", "element", "access", "swizzle", "ways"),
    [
        ((32, 128), "f32", "ld.shared.b32@col", Swizzle(5, 0, 7), 32),
        ((32, 128), "f32", FLOAT4_COLUMNS, Swizzle(3, 2, 5), 8),
        ((16, 16), "f16", "ldmatrix.x4", Swizzle(1, 3, 3), 2),
        ((16, 16), "f16", "ldmatrix.x4", Swizzle(2, 3, 3), 2),
        ((16, 16), "f16", "ldmatrix.x4", Swizzle(3, 3, 3), 2),
        ((16, 32), "f16", "ldmatrix.x4", Swizzle(2, 3, 3), 4),
    ],
)
def test_worked_swizzles(
    shape: tuple[int, int], element: str, access: str, swizzle: Swizzle, ways: int
) -> None:
    plain = Layout(shape, (shape[1], 1))
    swizzled = ComposedLayout(swizzle, 0, plain)
    assert shared(plain, access, element).ways == ways
    assert shared(swizzled, access, element).conflict_free
    # Logical to physical, bit by bit: bit y of the offset also goes to bit y - shift.
    columns = dict(zip(to_f2(plain), to_f2(swizzled), strict=True))
    for bit in range(max(columns).bit_length()):
        low = swizzle.base + swizzle.shift
        moves = low <= bit < low + swizzle.bits
        assert columns[1 << bit] == 1 << bit | (1 << (bit - swizzle.shift) if moves else 0)


def test_the_four_copies_of_a_tile_share_one_swizzle() -> None:
    """CTA tile (128,128,32), three stages: cp.async in, ldmatrix out; the epilogue's (32,32) both ways."""
    for stages in (1, 3):
        operand = Layout((128, 32, stages), (32, 1, 4096))
        tile = ComposedLayout(Swizzle(2, 3, 3), 0, operand)
        copy_in = Access("cp.async.16", Layout(((4, 32), 8, (4, stages)), ((1024, 1), 128, (32, 4096))), F16)
        copy_out = Access.default("ldmatrix.x4", Layout((128, 32), (32, 1)), F16)
        assert shared(operand, copy_in, "f16").conflict_free
        for access in (copy_in, copy_out):
            assert shared(tile, access, "f16").conflict_free
        assert shared(operand, copy_out, "f16").ways == 4
    fragments = Access("st.shared.b32", Layout(((4, 8), (2, 2, 2, 4)), ((64, 1), (32, 8, 16, 256))), F16)
    epilogue = synthesize((32, 32), [fragments, "ld.shared.b128@row"], element="f16", form="single")
    assert epilogue.layout == ComposedLayout(Swizzle(2, 3, 3), 0, Layout((32, 32), (32, 1)))


def test_layout_operations_as_tools() -> None:
    """Composition reads a tile through threads, the right inverse says who holds an offset, recast turns
    halves into the words that banks count."""
    tile, tv = Layout((16, 16), (16, 1)), Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
    through = composition(tile, tv)
    assert all(through(t, v) == tile(tv(t, v)) for t in range(32) for v in range(4))
    compact = Layout((16, 8), (1, 16))
    holder = right_inverse(composition(compact, tv))
    assert size(holder) == 128 and all(tv(holder(offset)) == offset for offset in range(128))
    halves = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((32, 128), (1, 32)))
    words = recast_layout(halves, 16, 32)
    assert all(words(i, j) == halves(2 * i, j) // 2 for i in range(16) for j in range(128))


@each("element", ["u8", "f16", "f32"])
@each("columns", [16, 32, 64, 128, 256])
def test_the_rule_for_choosing_a_swizzle(element: str, columns: int) -> None:
    """M = log2 V, B = log2(1024 / bits) - M, S = log2(max(1024 / bits, X)) - M: 16-byte stores and loads."""
    bits = dtype(element).bits
    base, row = (128 // bits).bit_length() - 1, (1024 // bits).bit_length() - 1
    shift = max(row, columns.bit_length() - 1) - base
    tile = ComposedLayout(Swizzle(row - base, base, shift), 0, Layout((64, columns), (columns, 1)))
    vectors = Access.of("st.shared.b128@row", tile, element)
    assert shared(tile, vectors, element).conflict_free
    if columns * bits >= 256:
        assert shared(tile, "ldmatrix.x4", element).conflict_free


def test_a_phase_is_128_bytes() -> None:
    rules = ARCHS["sm_90"].instructions
    assert [rules[f"ld.shared.b{n}"].group_lanes for n in (32, 64, 128)] == [32, 16, 8]
    assert {rules[f"ld.shared.b{n}"].group_lanes * n // 8 for n in (32, 64, 128)} == {128}


# --- pixels, and swizzling as padding modulo the row -----------------------------------------------------


@pytest.mark.parametrize(("element", "sectors"), [("u8", 3), ("f16", 6), ("f32", 12)])
def test_rgb_one_pixel_a_thread(element: str, sectors: int) -> None:
    """NHWC with three channels: three requests, each spread over the bytes of all three."""
    bits = dtype(element).bits
    image = Layout((3, 640 * 480), (1, 3))
    pixels = Access(f"ld.global.b{bits}", Layout((32, 3), (3, 1)), dtype(element))
    report = moved(image, pixels, element)
    assert (report.instructions, report.sectors) == (3, 3 * sectors)
    assert report.moved_bytes == 3 * 32 * sectors and report.efficiency == pytest.approx(1 / 3)


def test_rgb_the_better_mappings() -> None:
    """The same 96 bytes of u8 by 24 lanes with a word each; or four warps' pixels as 16-byte vectors."""
    image = Layout((3, 640 * 480), (1, 3))
    words = Access("ld.global.b32", Layout((24, 4), (4, 1)), U8)
    vectors = Access("ld.global.b128", Layout((24, 16), (16, 1)), U8)
    for access, sectors in ((words, 3), (vectors, 12)):
        report = moved(image, access, "u8")
        assert (report.instructions, report.sectors, report.efficiency) == (1, sectors, 1.0)
    planes = Layout((3, 640 * 480), (640 * 480, 1))
    one_plane_at_a_time = Access("ld.global.b8", Layout((32, 3), (3, 1)), U8)
    assert moved(planes, one_plane_at_a_time, "u8").efficiency == 1.0


def test_swizzling_is_padding_modulo_the_row() -> None:
    """(m, n) -> m N + (m + n) mod N serves rows and columns like a pitch of N + 1, in place."""
    n = 32
    rotated = [[4 * (row * n + (row + column) % n) for column in range(n)] for row in range(n)]
    for k in range(n):
        assert wavefronts("st.shared.b32", rotated[k]) == 1
        assert wavefronts("ld.shared.b32", [rotated[row][k] for row in range(n)]) == 1
    assert sorted(offset for row in rotated for offset in row) == list(range(0, 4 * n * n, 4))
    xor = ComposedLayout(Swizzle(5, 0, 5), 0, Layout((n, n), (n, 1)))
    assert xor(3, 7) == 3 * n + (3 ^ 7)
    for tile in (xor, Layout((n, n), (n + 1, 1))):
        assert shared(tile, "st.shared.b32@row").conflict_free
        assert shared(tile, "ld.shared.b32@col").conflict_free


def test_sectors_and_lines() -> None:
    aligned = moved(Layout(32), "ld.global.b32")
    strided = moved(Layout(32, 8), Access("ld.global.b32", Layout((32, 1), (1, 0)), F32))
    assert (aligned.sectors, aligned.lines) == (4, 1)
    assert (strided.sectors, strided.lines, strided.efficiency) == (32, 8, 0.125)
