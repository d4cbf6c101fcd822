"""Published reasoning about layouts, conflicts and coalescing, as examples that run.

Each row is an access of a system that people have built and explained, with what its authors say of it; what
pages of docs/systems show is run there.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import sympy

from layoutalg import model
from layoutalg.algebra import tile_to_shape
from layoutalg.analysis import Access, Guard, analyze, wavefronts
from layoutalg.arch import (
    ARCHS,
    HOPPER_MODES,
    SMEM_ATOMS,
    T4_ACHIEVED,
    Major,
    SmemAtom,
    SwizzleMode,
    atom_layout,
    board_rates,
    instruction_table,
)
from layoutalg.codegen.expr import Var, evaluate, index_cost, simplify
from layoutalg.decide import cosize
from layoutalg.dtype import dtype
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.legality import check_tma, check_wgmma
from layoutalg.notation import parse_cute
from layoutalg.symbolic import solve_sectors, symbolic_cost
from layoutalg.synthesis import check_certificate, synthesize
from tests.sweeps import each

F16, F32 = dtype("f16"), dtype("f32")


def report(layout: AnyLayout, access: Access | str, element: str = "f32", arch: Any = "sm_90") -> Any:
    return analyze(layout, Access.of(access, layout, element), arch)


# --- accesses of published kernels -----------------------------------------------------------------------

FREE = {"conflict_free": True}
ALL_ROWS = "@(1024,1):(1,0)"
"""A thread per element of a tile of 32 x 32, down the columns."""

ROWS, COLUMNS = "(32,32):(32,1)", "(4096,64):(1,4096)"
"""A shared tile by rows, and a piece of a column-major matrix."""

FOUR = "@((8,4),4):((4,32),1)"
"""256 threads with four rows each, 8 of them down a column of 32 rows."""

COUNTED: tuple[tuple[str, str, str, dict[str, Any]], ...] = (
    # a tensor-core kernel: rows of 128 bytes put the rows of every 8 x 8 matrix in the same four banks
    ("(256,64):(64,1)", "f16", "ldmatrix.x4", {"ways": 8, "worst": 32, "worst_ideal": 4}),
    ("Sw<3,3,3> o 0 o (256,64):(64,1)", "f16", "ldmatrix.x4", FREE),
    # its epilogue straight from the accumulators, eight rows of 16 bytes a store, and through shared memory
    ("(16,8):(4096,1)", "f16", "st.global.b32@((4,8),(2,2)):((32,1),(16,8))",
     {"instructions": 2, "sectors": 16, "efficiency": 0.5}),
    ("(64,4):(1,4096)", "f16", "st.global.b128@(32,8):(8,1)", {"efficiency": 1.0}),
    # eight versions of a column-major SGEMM: (1) coalesced A and one element of B per warp
    (COLUMNS, "f32", "ld.global.b32@(32,1):(1,0)", {"sectors": 4, "efficiency": 1.0}),
    (COLUMNS, "f32", "ld.global.b32@(32,1):(0,0)", {"sectors": 1, "useful_bytes": 4}),
    # (2, 3) a row-major tile, whatever the threads' numbers, and one word of B for the whole warp
    *((ROWS, "f32", f"{op}.shared.b32{tv}", {"ways": 32, "total": 1024, "ideal_total": 32})
      for op in ("st", "ld") for tv in ("@((32,32),1):((1,32),0)", ALL_ROWS)),
    (ROWS, "f32", "ld.shared.b32@((32,32),1,32):((0,1),0,32)", FREE),
    # (4) a column-major tile, or a padded one
    ("(32,32):(1,32)", "f32", f"st.shared.b32{ALL_ROWS}", FREE),
    ("(32,32):(1,32)", "f32", f"ld.shared.b32{ALL_ROWS}", FREE),
    ("(32,32):(33,1)", "f32", f"ld.shared.b32{ALL_ROWS}", FREE),
    # (5, 6) four scalar requests waste what one float4 request uses
    (COLUMNS, "f32", "ld.global.b32@((8,4),4):((4,4096),1)",
     {"instructions": 4, "sectors": 64, "efficiency": 0.25}),
    (COLUMNS, "f32", "ld.global.b128@((8,4),4):((4,4096),1)",
     {"instructions": 1, "sectors": 16, "efficiency": 1.0}),
    ("(32,32):(1,32)", "f32", f"st.shared.b32{FOUR}", {"ways": 4, "total": 16, "ideal_total": 4}),
    ("(32,32):(1,32)", "f32", f"st.shared.b128{FOUR}", FREE),
    # (7) 4 x 4 a thread: of B two addresses a warp, whose groups merge
    (COLUMNS, "f32", "ld.global.b128@((16,2),4):((4,4096),1)", {"efficiency": 1.0}),
    ("(64,16):(1,64)", "f32", "ld.shared.b128@((16,16),4,16):((4,0),1,64)", {**FREE, "worst": 4}),
    ("(64,16):(1,64)", "f32", "ld.shared.b128@((16,16),4,16):((0,4),1,64)", {**FREE, "worst": 2}),
    # (8) 8 x 8 a thread: two float4 lie 32 bytes apart from lane to lane; rows 4 i and 64 + 4 i do not
    ("(128,8):(1,128)", "f32", "ld.shared.b128@((16,16),(4,2),8):((8,0),(1,4),128)",
     {"ways": 2, "worst": 8, "worst_ideal": 4}),
    ("(128,8):(1,128)", "f32", "ld.shared.b128@((16,16),(4,2),8):((4,0),(1,64),128)", FREE),
    (COLUMNS, "f32", "ld.global.b128@((2,16),4):((4,4096),1)", {"efficiency": 1.0}),
    # swizzles of a course on CuTe: columns by words and by float4, ldmatrix on short rows
    ("(32,128):(128,1)", "f32", "ld.shared.b32@col", {"ways": 32}),
    ("Sw<5,0,7> o 0 o (32,128):(128,1)", "f32", "ld.shared.b32@col", FREE),
    ("(32,128):(128,1)", "f32", "ld.shared.b128@((8,4),4,(4,8)):((1,128),32,(8,512))", {"ways": 8}),
    ("Sw<3,2,5> o 0 o (32,128):(128,1)", "f32", "ld.shared.b128@((8,4),4,(4,8)):((1,128),32,(8,512))", FREE),
    ("(16,16):(16,1)", "f16", "ldmatrix.x4", {"ways": 2}),
    *((f"Sw<{bits},3,3> o 0 o (16,16):(16,1)", "f16", "ldmatrix.x4", FREE) for bits in (1, 2, 3)),
    ("(16,32):(32,1)", "f16", "ldmatrix.x4", {"ways": 4}),
    ("Sw<2,3,3> o 0 o (16,32):(32,1)", "f16", "ldmatrix.x4", FREE),
    # pixels of three channels, one a thread: three requests, each spread over the bytes of all three
    *(("(3,307200):(1,3)", f"u{8 * n}" if n == 1 else f"f{8 * n}", f"ld.global.b{8 * n}@(32,3):(3,1)",
       {"instructions": 3, "sectors": 9 * n, "moved_bytes": 288 * n, "efficiency": pytest.approx(1 / 3)})
      for n in (1, 2, 4)),
    # the same bytes by 24 lanes with a word or a vector each, or one plane at a time
    ("(3,307200):(1,3)", "u8", "ld.global.b32@(24,4):(4,1)", {"sectors": 3, "efficiency": 1.0}),
    ("(3,307200):(1,3)", "u8", "ld.global.b128@(24,16):(16,1)", {"sectors": 12, "efficiency": 1.0}),
    ("(3,307200):(307200,1)", "u8", "ld.global.b8@(32,3):(3,1)", {"efficiency": 1.0}),
    ("32:1", "f32", "ld.global.b32", {"sectors": 4, "lines": 1}),
    ("32:8", "f32", "ld.global.b32@(32,1):(1,0)", {"sectors": 32, "lines": 8, "efficiency": 0.125}),
)  # fmt: skip


@each(("text", "element", "access", "said"), COUNTED)
def test_what_authors_say_is_counted(text: str, element: str, access: str, said: dict[str, Any]) -> None:
    layout: Any = parse_cute(text)
    found = report(layout, access, element)
    assert {name: getattr(found, name) for name in said} == said


def test_columns_of_a_toy_tile_plain_padded_and_swizzled() -> None:
    """A GPU of teaching size: 4 lanes, 4 banks."""
    toy = dataclasses.replace(
        ARCHS["sm_90"], name="toy", targets=(), lanes=4, banks=4,
        instructions=instruction_table(lanes=4, banks=4),
    )  # fmt: skip
    column = Access("ld.shared.b32", Layout((4, 1, 4), (1, 0, 4)), F32)
    row = Access("ld.shared.b32", Layout((4, 1, 4), (4, 0, 1)), F32)
    plain, padded = Layout((4, 4), (4, 1)), Layout((4, 4), (5, 1))
    swizzled = ComposedLayout(Swizzle(2, 0, 2), 0, plain)
    tiles = plain, padded, swizzled
    assert [[report(tile, way, arch=toy).worst for tile in tiles] for way in (column, row)] == [
        [4, 1, 1],
        [1] * 3,
    ]
    found = synthesize((4, 4), [row, column], element="f32", arch=toy)
    assert found.layout == swizzled and check_certificate(found)


@each(("columns", "share"), [(32, 0.25), (64, 0.125)])
def test_what_padding_costs(columns: int, share: float) -> None:
    """16 bytes more a row for tiles of 256 and 128 rows: conflict-free, for 6144 bytes however wide rows are.

    Of the published tile, which is 64 wide, that is 12.5 %; the 25 % that its author states is what a tile
    of half the width would pay.
    """
    extra = 0
    for rows in (256, 128):
        plain, padded = Layout((rows, columns), (columns, 1)), Layout((rows, columns), (columns + 8, 1))
        assert not report(plain, "ldmatrix.x4", "f16").conflict_free
        assert report(padded, "ldmatrix.x4", "f16").conflict_free
        extra += 2 * (rows * (columns + 8) - size(plain))
        assert cosize(padded) == rows * (columns + 8) - 8
    assert extra == 6144 and extra / (2 * columns * (256 + 128)) == share


def test_pitches_and_leading_dimensions() -> None:
    """Padding that ldmatrix can have, and vector loads, which need a leading dimension divisible by 4."""
    ld = sympy.Symbol("ld", positive=True)
    rows16 = Access("ldmatrix.x4", Layout(((16, 2), 8), ((1, 128), 16)), F16)
    cost = symbolic_cost(((16, 16), (ld, 1)), rows16, ld)
    assert [cost.at(p) for p in (32, 40, 64, 72)] == [16, 4, 32, 4]
    load = Access("ld.global.b128", Layout(((2, 16), 4), ((64, 1), 16)), F32)
    tile = ((16, 8), (ld, 1))
    vectors = symbolic_cost(tile, load, ld, least=8)
    assert [vectors.at(n) is not None for n in range(8, 16)] == [n % 4 == 0 for n in range(8, 16)]
    assert str(solve_sectors(tile, load, ld, least=8)) == "ld mod 8 = 0"


def test_predicated_edges() -> None:
    """The last tile of a matrix with 100 of 128 rows and 6 of 8 columns left."""
    tile = Layout((128, 8), (1024, 1))
    edge = dataclasses.replace(Access.of("ld.global.b32@row", tile, "f32"), active=Guard((100, 6)))
    part = report(tile, edge)
    assert (part.sectors, part.efficiency, part.method) == (100, 0.75, "digit-classes")


def test_the_four_copies_of_a_tile_share_one_swizzle() -> None:
    """CTA tile (128,128,32), three stages: cp.async in, ldmatrix out; the epilogue's (32,32) both ways."""
    operand = Layout((128, 32, 3), (32, 1, 4096))
    copy_in = Access("cp.async.16", Layout(((4, 32), 8, (4, 3)), ((1024, 1), 128, (32, 4096))), F16)
    copy_out = Access.default("ldmatrix.x4", Layout((128, 32), (32, 1)), F16)
    for access in (copy_in, copy_out):
        assert report(ComposedLayout(Swizzle(2, 3, 3), 0, operand), access, "f16").conflict_free
    assert report(operand, copy_in, "f16").conflict_free and report(operand, copy_out, "f16").ways == 4
    fragments = Access("st.shared.b32", Layout(((4, 8), (2, 2, 2, 4)), ((64, 1), (32, 8, 16, 256))), F16)
    epilogue = synthesize((32, 32), [fragments, "ld.shared.b128@row"], element="f16", form="single")
    assert epilogue.layout == ComposedLayout(Swizzle(2, 3, 3), 0, Layout((32, 32), (32, 1)))


@each("element", ["u8", "f16", "f32"])
@each("columns", [16, 32, 64, 128, 256])
def test_the_rule_for_choosing_a_swizzle(element: str, columns: int) -> None:
    """M = log2 V, B = log2(1024 / bits) - M, S = log2(max(1024 / bits, X)) - M: 16-byte stores and loads."""
    bits = dtype(element).bits
    base, row = (128 // bits).bit_length() - 1, (1024 // bits).bit_length() - 1
    shift = max(row, columns.bit_length() - 1) - base
    tile = ComposedLayout(Swizzle(row - base, base, shift), 0, Layout((64, columns), (columns, 1)))
    assert report(tile, "st.shared.b128@row", element).conflict_free
    if columns * bits >= 256:
        assert report(tile, "ldmatrix.x4", element).conflict_free


# --- Hopper's shared memory ------------------------------------------------------------------------------

ATOMS = [atom for atom in SMEM_ATOMS.values() if atom.mode.sm_90_code is not None]
MODES = pytest.mark.parametrize("mode", HOPPER_MODES, ids=str)
BANK_GROUPS = 8
"""32 banks of 4 bytes, four to 16 bytes."""


def core_matrices(tile: AnyLayout, shape: tuple[int, int], major: Major, element: str) -> Iterator[list[int]]:
    """The byte addresses of the rows of every core matrix, 8 rows of 16 bytes, of a tile (M or N, K)."""
    nbytes = dtype(element).nbytes
    rows, columns = shape if major == "K" else shape[::-1]
    for row in range(0, rows, 8):
        for column in range(0, columns, 16 // nbytes):
            crds = [(row + i, column) if major == "K" else (column, row + i) for i in range(8)]
            yield [tile(*crd) * nbytes for crd in crds]


@each("element", ["u8", "f16", "tf32"])
@each("atom", ATOMS, ids=lambda atom: atom.name)
def test_eight_rows_lie_in_eight_bank_groups(atom: SmemAtom, element: str) -> None:
    """Without the XOR, rows of 16, 32, 64 and 128 bytes start in 8, 4, 2 and 1 of them."""
    width = 8 * atom.mode.row_bytes // dtype(element).bits
    shape = (16, 2 * width) if atom.major == "K" else (2 * width, 16)
    tile = tile_to_shape(atom_layout(atom, element), shape)
    plain = tile.inner if isinstance(tile, ComposedLayout) else tile
    for layout, ways in ((tile, 1), (plain, atom.mode.row_bytes // 16)):
        matrices = list(core_matrices(layout, shape, atom.major, element))
        assert len(matrices) == 4 * atom.mode.row_bytes // 16
        for rows in matrices:
            assert len({address // 16 % BANK_GROUPS for address in rows}) == BANK_GROUPS // ways
            assert wavefronts("ldmatrix.x1", rows + [None] * 24) == ways


@MODES
def test_a_mode_is_a_xor_of_addresses_that_ldmatrix_reads_without_conflicts(mode: SwizzleMode) -> None:
    """S(base + x) = base + S(x) for all x exactly when the base is a multiple of the period: this is why
    tiles for TMA and wgmma start at multiples of 256, 512 and 1024 bytes."""
    swizzle, period = mode.swizzle, mode.period_bytes
    assert swizzle == Swizzle(swizzle.bits, 4, 3) and mode.in_elements(16) == Swizzle(swizzle.bits, 3, 3)
    assert period == {"none": 16, "32B": 256, "64B": 512, "128B": 1024}[mode.name]
    for base in range(0, 4096, 128):
        moves = any(swizzle(base + x) != base + swizzle(x) for x in range(0, 2048, 16))
        assert moves == (base % period != 0 and swizzle.bits > 0)
    width = mode.row_bytes // 2
    tile = tile_to_shape(atom_layout(f"Layout_K_{mode.atom}_Atom", "f16"), (64, max(16, width)))
    found = report(tile, "ldmatrix.x4", "f16")
    assert found.conflict_free and found.method == "f2"


@MODES
def test_what_tma_writes_wgmma_reads(mode: SwizzleMode) -> None:
    """A (64, row) box of a row-major f16 tensor, straight from the copy into the descriptor."""
    width = max(16, mode.row_bytes // 2)
    copy = check_tma(Layout((1024, 1024), (1024, 1)), (64, width), "f16", mode=mode).require()
    assert copy.layout is not None
    said = check_wgmma(copy.layout, "f16", "A", base_bytes=4096)
    if mode.name == "none":  # rows of 32 bytes without a swizzle are no canonical layout
        assert said.broken == ("wgmma.swizzle",)
        return
    operand = said.require()
    assert operand.canonical.mode == mode and operand.advance("K") == tuple(range(0, width // 8, 2))


# --- a tensor-core HGEMM for a T4 ------------------------------------------------------------------------


def limiting(block: tuple[int, int], unit: str = "tensor", **how: Any) -> str:
    """What limits a kernel with so large tiles by the measured rates."""
    given: dict[str, Any] = {"warp": (64, 64), "instruction": (16, 8), "element": "f16"} | how
    return model.roofline_of(T4_ACHIEVED, model.gemm_intensities(block=block, **given), unit).limiting


def test_the_published_roofline() -> None:
    """About half the loads hit the L2 cache, which moves the balance point to 87, between the tiles of the
    fourth kernel and the fifth; in bands of blocks the fifth is past DRAM."""
    balances = [int(model.balance_point(T4_ACHIEVED, level)) for level in ("dram", "l2", "shared")]
    assert balances == [224, 38, 13] and int(model.balance_point(T4_ACHIEVED, "dram", "f32")) == 33
    tiles = (64, 64), (256, 128), (256, 256)
    intensities = [round(model.tile_intensity(tile, "f16"), 1) for tile in tiles]
    assert intensities == [32, 85.3, 128] == [round(m * n / (m + n), 1) for m, n in tiles]
    board = ARCHS["sm_75"].board
    assert board is not None
    peak = board_rates(board)
    assert all(rate < peak.units[name] for name, rate in T4_ACHIEVED.units.items())
    rate = model.mean_rate(0.5, T4_ACHIEVED.levels["l2"], T4_ACHIEVED.levels["dram"])
    assert round(peak.units["tensor"] / rate) == 87
    hits = [model.l2_locality((32, 64), in_flight=40, order=order, tile=(256, 128)).hit_rate
            for order in ("col", "row", 4)]  # fmt: skip
    assert [round(hit, 2) for hit in hits[:2]] == [0.45, 0.64] and hits == sorted(hits)
    bands = model.l2_locality((32, 32), in_flight=40, order=8, tile=(256, 256))
    assert limiting((256, 128)) == limiting((256, 256)) == "dram"
    assert limiting((256, 256), l2_reuse=bands.reuse) == "tensor"
    assert limiting((256, 128), "f32", instruction=(8, 8), element="f32") == "f32"


def test_between_two_ldmatrix_one_xor_is_enough() -> None:
    """About a dozen integer operations an address written out; one XOR, and an immediate, from the address
    that a thread computes once: S(a + b) = S(a) ^ S(b) where a and b share no bits."""
    lane, row, step = Var("lane", 32), Var("row", 4), Var("step", 2)
    tile = ComposedLayout(Swizzle(2, 3, 3), 0, Layout((256, 32), (32, 1)))
    address = 2 * tile(row * 16 + lane % 16, step * 16 + lane // 16 * 8)
    assert index_cost(address) >= 10 and index_cost(simplify(address)) <= index_cost(address)
    first = 2 * tile(lane % 16, lane // 16 * 8)
    for values in np.ndindex(32, 4, 2):
        at = dict(zip((lane, row, step), values, strict=True))
        assert evaluate(address, at) == (evaluate(first, at) ^ 32 * at[step]) + 1024 * at[row]
