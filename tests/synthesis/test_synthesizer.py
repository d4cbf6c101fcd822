"""synthesize: the worked cases, pairs of patterns, what cannot be done, and what is refused."""

from __future__ import annotations

import dataclasses
import itertools
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import Access, SharedReport, TmaAccess, analyze
from layoutalg.arch import ARCHS, instruction_table
from layoutalg.dtype import dtype
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    MismatchError,
    ResourceError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.synthesis import Synthesis, check_certificate, synthesize
from tests.sweeps import each, first

F32 = dtype("f32")
TOY = dataclasses.replace(
    ARCHS["sm_90"], name="toy", targets=(), lanes=4, banks=4, instructions=instruction_table(lanes=4, banks=4)
)

EVEN_ROWS = Access("ld.shared.b32", Layout(((8, 4), 1), ((8, 2), 0)), F32)
EVEN_COLUMNS = Access("ld.shared.b32", Layout(((8, 4), 1), ((1, 16), 0)), F32)
RED_CELLS = Access("ld.shared.b32", Layout(((2, 4, 4), 1), ((9, 16, 2), 0)), F32)
"""Half an 8 x 8 tile each: rows 0 2 4 6, columns 0 2 4 6, and the cells with row + column even."""


def free_of_conflicts(found: Synthesis) -> bool:
    """Counted one by one, on the layout that was found."""
    assert found.layout is not None
    reports = [
        analyze(found.layout, a, found.arch, method="enumerated")
        for a in found.accesses
        if isinstance(a, Access)
    ]
    return all(isinstance(r, SharedReport) and r.conflict_free for r in reports)


@each(
    ("shape", "element", "accesses", "swizzle", "ways_before"),
    [
        ((32, 128), "f32", ["ld.shared.b32@col"], "Sw<5,0,7>", 32),
        ((32, 128), "f32", ["ld.shared.b128@((8,4),4,(4,8)):((1,128),32,(8,512))"], "Sw<3,2,5>", 8),
        ((16, 16), "f16", ["ldmatrix.x4"], "Sw<1,3,3>", 2),
        ((16, 32), "f16", ["ldmatrix.x4"], "Sw<2,3,3>", 4),
        ((16, 64), "f16", ["ldmatrix.x4"], "Sw<3,3,3>", 8),
        ((64, 64), "f16", ["ldmatrix.x4", "st.shared.b128"], "Sw<3,3,3>", 8),
        ((32, 32), "f32", ["st.shared.b32@row", "ld.shared.b32@col"], "Sw<5,0,5>", 32),
    ],
)
def test_worked_cases(
    shape: tuple[int, int], element: str, accesses: list[str], swizzle: str, ways_before: int
) -> None:
    found = synthesize(shape, accesses, element=element)
    assert isinstance(found.layout, ComposedLayout) and str(found.layout.swizzles[0]) == swizzle
    assert found.kind == "swizzle" and len(found.layout.swizzles) == 1 and found.extra_bytes == 0
    assert free_of_conflicts(found) and check_certificate(found)
    before = [analyze(Layout(shape, (shape[1], 1)), a) for a in found.accesses if isinstance(a, Access)]
    assert max(r.ways for r in before if isinstance(r, SharedReport)) == ways_before


@pytest.mark.parametrize("bits", [1, 2, 3])
def test_three_swizzles_serve_a_small_matrix(bits: int) -> None:
    """For f16 (16,16) and ldmatrix, Sw<1,3,3>, Sw<2,3,3> and Sw<3,3,3> are all conflict-free."""
    tile = ComposedLayout(Swizzle(bits, 3, 3), 0, Layout((16, 16), (16, 1)))
    report = analyze(tile, Access.default("ldmatrix.x4", tile, dtype("f16")))
    assert isinstance(report, SharedReport) and report.conflict_free


def test_the_toy_of_four_banks() -> None:
    found = synthesize((4, 4), ["ld.shared.b32@row", "ld.shared.b32@col"], element="f32", arch=TOY)
    assert str(found.layout) == "Sw<2,0,2> o 0 o (4,4):(4,1)"
    assert check_certificate(found)


USUAL = [
    (element, columns, op)
    for element in ("u8", "f16", "f32")
    for columns in (16, 32, 64, 128, 256)
    for op in ("ldmatrix.x4", "st.shared.b128")
    if op != "ldmatrix.x4" or columns * dtype(element).bits >= 256
]
"""Rows of ldmatrix.x4 hold at least its two 16-byte columns."""


@each(("element", "columns", "op"), USUAL)
def test_the_usual_rule_is_never_better(element: str, columns: int, op: str) -> None:
    """M = log2 V, B = log2(1024/bits) - M, S = log2(max(1024/bits, X)) - M for rows of X elements."""
    width = dtype(element).bits
    base = (128 // width).bit_length() - 1
    bits = (1024 // width).bit_length() - 1 - base
    shift = max(1024 // width, columns).bit_length() - 1 - base
    tile = Layout((64, columns), (columns, 1))
    usual = ComposedLayout(Swizzle(bits, base, shift), 0, tile)
    access = Access.default(op, tile, dtype(element))
    report = analyze(usual, access)
    assert isinstance(report, SharedReport) and report.conflict_free
    found = synthesize((64, columns), [access], element=element, form="single")
    assert free_of_conflicts(found)
    swizzle_bits = found.layout.swizzles[0].bits if isinstance(found.layout, ComposedLayout) else 0
    assert swizzle_bits <= bits


# --- pairs of patterns ---------------------------------------------------------------------------------


def patterns_of(shape: tuple[int, int], element: str, order: str) -> Iterator[tuple[str, int, Access]]:
    """(name, vector in bytes, access): rows, columns, ldmatrix, accumulator fragments, transposed columns."""
    rows, columns = shape
    size = dtype(element).nbytes
    base = Layout(shape, (columns, 1) if order == "row" else (1, rows))
    for width in (size, 16):
        for mapping in ("row", "col"):
            if width // size <= min(shape):
                access = Access.along(f"ld.shared.b{8 * width}", base, dtype(element), mapping)
                yield f"{mapping} b{8 * width}", width, access
    if min(shape) * size >= 32 and min(shape) >= 16 and size <= 2:
        yield "ldmatrix.x4", 16, Access.default("ldmatrix.x4", base, dtype(element))
    if size in (2, 4) and columns >= 8 and rows >= 8 and order == "row":
        fragment = Layout(((4, 8), 2), ((2 * rows, 1), rows))
        yield "C fragment", 2 * size, Access(f"st.shared.b{16 * size}", fragment, dtype(element))


SIDES = (8, 16, 64, 256)


TILES = [
    ((m, n), element)
    for m in SIDES
    for n in SIDES
    for element in ("u8", "f16", "f32", "f64", "c128")
    if m * n <= 16384 and m * n * dtype(element).nbytes <= ARCHS["sm_90"].max_shared_bytes_per_block
]


@pytest.mark.deep
@pytest.mark.parametrize("tiles", first(1, [TILES[::6], TILES]), ids=len)
def test_every_pair_of_equal_vectors_has_a_layout(tiles: list[tuple[tuple[int, int], str]]) -> None:
    """Two accesses with vectors of equal width always have one; pairs of unequal width may be refuted."""
    for shape, element in tiles:
        _every_pair(shape, element)


def _every_pair(shape: tuple[int, int], element: str) -> None:
    known = list(patterns_of(shape, element, "row"))
    for (one, width, a), (other, breadth, b) in itertools.combinations_with_replacement(known, 2):
        found = synthesize(shape, [a, b], element=element)
        assert check_certificate(found)
        if max(width, 4) == max(breadth, 4):
            assert found.layout is not None, (one, other)
        if found.layout is None:
            assert found.certificate.reason == "narrow-banks", (one, other)
        else:
            assert all(report.conflict_free for report in found.reports)


@st.composite
def linear_accesses(draw: st.DrawFn, word_bits: int) -> Access:
    """32 lanes moving by five independent vectors of words, each a sum of one or two coordinates."""
    coordinates = draw(st.permutations(range(word_bits)))
    strides = []
    for i in range(5):
        rest = coordinates[5:]
        pair = draw(st.booleans()) and i < len(rest)
        strides.append((1 << coordinates[i]) + (1 << rest[i] if pair else 0))
    return Access("ld.shared.b32", Layout(((2,) * 5, 1), (tuple(strides), 0)), F32)


@given(st.data(), st.integers(6, 10), st.integers(1, 4))
def test_random_accesses(data: st.DataObject, word_bits: int, count: int) -> None:
    accesses = [data.draw(linear_accesses(word_bits)) for _ in range(count)]
    rows = data.draw(st.integers(1, word_bits - 1))
    found = synthesize((1 << rows, 1 << (word_bits - rows)), accesses, element="f32")
    assert check_certificate(found)
    assert found.layout is not None or count > 2
    if found.layout is not None:
        assert free_of_conflicts(found)


def test_where_rows_cannot_stay_whole_strides_change() -> None:
    """Words 2 4 8 16 32, and 33 2 4 8 16: only vectors with bit 0 and without bit 5 are in neither span."""
    one = Access("ld.shared.b32", Layout(((2,) * 5, 1), ((16, 32, 1, 2, 4), 0)), F32)
    two = Access("ld.shared.b32", Layout(((2,) * 5, 1), ((12, 16, 32, 1, 2), 0)), F32)
    found = synthesize((8, 8), [one, two], element="f32")
    assert found.kind == "xor" and free_of_conflicts(found) and check_certificate(found)
    assert found.certificate.kernel == (1,)
    assert str(found.layout) == "((4,2),(2,4)):((8,1),(32,2))"


# --- what cannot be done -------------------------------------------------------------------------------


def test_three_patterns_on_eight_by_eight_have_no_layout() -> None:
    found = synthesize((8, 8), [EVEN_ROWS, EVEN_COLUMNS, RED_CELLS], element="f32")
    assert found.layout is None and found.kind == "none" and found.reports == ()
    assert found.certificate.reason == "exhausted" and found.certificate.clash == (0, 1, 2)
    assert found.certificate.classes == (
        "linear-in-place of whole 4-byte units", "any-in-place of whole 4-byte units", "single-swizzle",
    )  # fmt: skip
    assert check_certificate(found)


@pytest.mark.parametrize("pair", list(itertools.combinations((EVEN_ROWS, EVEN_COLUMNS, RED_CELLS), 2)))
def test_any_two_of_the_three_have_one(pair: tuple[Access, Access]) -> None:
    found = synthesize((8, 8), pair, element="f32")
    assert free_of_conflicts(found) and check_certificate(found)


def test_padding_does_not_help_the_three_either() -> None:
    found = synthesize((8, 8), [EVEN_ROWS, EVEN_COLUMNS, RED_CELLS], element="f32", max_extra_bytes=512)
    assert found.certificate.classes[-1] == "padding up to 512 bytes"
    assert check_certificate(found)


def test_no_placement_serves_narrow_columns_beside_wide_rows() -> None:
    found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    assert (found.certificate.reason, found.certificate.clash) == ("narrow-banks", (1, 0))
    assert found.certificate.classes == ("any-placement",)
    assert "32 words of 8 banks" in check_certificate(found)
    best = found.alternatives[0]
    assert best.kind == "swizzle" and best.total == 32 * 4 + 8 * 4


def test_wide_vectors_elsewhere_bind_nobody() -> None:
    """float4 stores to 8 of the 32 rows leave the others free, if not where vectors stay whole."""
    wide = "st.shared.b128@((8,8),4):((128,1),32)"
    found = synthesize((32, 32), [wide, "ld.shared.b32@col"], element="f32", max_extra_bytes=4096)
    assert found.certificate.reason == "narrow-banks"
    assert found.certificate.classes == (
        "linear-in-place of whole 16-byte units", "single-swizzle", "padding up to 4096 bytes",
    )  # fmt: skip
    assert check_certificate(found)
    claimed = dataclasses.replace(found.certificate, classes=("any-placement",))
    with pytest.raises(MismatchError, match="8 words at one place of 8 banks"):
        check_certificate(dataclasses.replace(found, certificate=claimed))


def test_lanes_that_repeat_a_word_without_broadcast() -> None:
    found = synthesize((32, 32), ["red.shared.u32@((16,2),1):((32,0),0)"], element="f32")
    assert found.certificate.reason == "repeated-word" and check_certificate(found)


def test_a_form_may_have_no_layout_where_others_have() -> None:
    """lane -> words 1, 2, 4 and sums of two high coordinates: one diagonal of XORs is not enough."""
    one = Access("ld.shared.b32", Layout(((2,) * 5, 1), ((64, 512, 17, 160, 4), 0)), F32)
    two = Access("ld.shared.b32", Layout(((2,) * 5, 1), ((8, 256, 2, 64, 513), 0)), F32)
    shape = (32, 32)
    single = synthesize(shape, [one, two], element="f32", form="single")
    matrix = synthesize(shape, [one, two], element="f32")
    assert check_certificate(single) and check_certificate(matrix)
    assert matrix.layout is not None
    if single.layout is None:
        assert single.certificate.reason == "forms" and matrix.kind == "xor"


# --- padding, TMA --------------------------------------------------------------------------------------


def test_padding_where_sizes_are_no_powers_of_two() -> None:
    plain = synthesize((96, 72), ["ld.shared.b32@row"], element="f32")
    assert (plain.kind, plain.certificate.reason) == ("plain", "counted") and check_certificate(plain)
    found = synthesize((33, 32), ["ld.shared.b128@col"], element="f32", max_extra_bytes=33 * 16)
    assert (str(found.layout), found.extra_bytes) == ("(33,32):(36,1)", 528)
    assert found.kind == "padding" and free_of_conflicts(found) and check_certificate(found)
    none = synthesize((48, 20), ["ld.shared.b32@col"], element="f32", max_extra_bytes=1024)
    assert none.layout is None
    assert none.certificate.classes == ("single-swizzle", "padding up to 1024 bytes")
    assert check_certificate(none)


def test_odd_rows_of_chunks_need_no_swizzle() -> None:
    found = synthesize((64, 40), ["st.shared.b128", "ldmatrix.x2"], element="f16")
    assert (found.kind, found.extra_bytes) == ("plain", 0) and check_certificate(found)


@each(
    ("shape", "swizzle"),
    [
        ((64, 96), "Sw<2,3,3>"),
        ((128, 80), "Sw<1,3,3>"),
        ((64, 160), "Sw<2,3,3>"),
        ((192, 32), "Sw<2,3,3>"),
        ((96, 64), "Sw<3,3,3>"),
        ((192, 64), "Sw<3,3,3>"),
        ((96, 128), "Sw<3,3,4>"),
        ((96, 256), "Sw<3,3,5>"),
        ((64, 48), "Sw<1,3,3>"),
    ],
    sample=2,
)
def test_rows_of_whole_chunks_need_no_power_of_two(shape: tuple[int, int], swizzle: str) -> None:
    accesses = ["cp.async.16", "st.shared.b128", "ldmatrix.x4", "ldmatrix.x4.trans"]
    found = synthesize(shape, accesses, element="f16")
    assert found.extra_bytes == 0 and free_of_conflicts(found) and check_certificate(found)
    assert isinstance(found.layout, ComposedLayout) and str(found.layout.swizzles[0]) == swizzle


def test_what_padding_costs() -> None:
    """16 bytes a row on tiles of 256 and 128 rows of 32 halves: 6144 bytes, a quarter more."""
    rows = [synthesize((n, 32), ["ldmatrix.x4"], element="f16") for n in (256, 128)]
    costs = [[o.extra_bytes for o in found.alternatives if o.kind == "padding"] for found in rows]
    assert costs == [[4096], [2048]] and 4 * (4096 + 2048) == (256 + 128) * 32 * 2


def test_tma_modes() -> None:
    narrow = synthesize((64, 32), ["ldmatrix.x4"], element="f16", form="tma")
    wide = synthesize((64, 64), ["ldmatrix.x4", TmaAccess((64, 64), 128)], element="f16")
    split = synthesize((64, 128), ["ldmatrix.x4"], element="f16", form="tma")
    assert str(narrow.layout) == "Sw<2,3,3> o 0 o (64,32):(32,1)"
    assert str(wide.layout) == "Sw<3,3,3> o 0 o (64,64):(64,1)"
    assert str(split.layout) == "Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))"
    for found in (narrow, wide, split):
        assert free_of_conflicts(found) and check_certificate(found)


def test_tma_modes_of_extents_that_are_no_powers_of_two() -> None:
    """96 halves a row are three boxes of the 64-byte mode; 40 rows of 64 are one of the 128-byte mode."""
    split = synthesize((64, 96), ["ldmatrix.x4"], element="f16", form="tma")
    asked = synthesize((40, 64), ["ldmatrix.x1", TmaAccess((40, 64), 128)], element="f16")
    assert str(split.layout) == "Sw<2,3,3> o 0 o (64,(32,3)):(32,(1,2048))"
    assert str(asked.layout) == "Sw<3,3,3> o 0 o (40,64):(64,1)"
    for found in (split, asked):
        assert found.certificate.reason == "counted" and found.certificate.classes == ("tma",)
        assert free_of_conflicts(found) and check_certificate(found)
    none = synthesize((40, 32), ["ld.shared.b32@col", TmaAccess((40, 32), 128)], element="f32")
    assert none.layout is None and none.certificate.classes == ("tma",) and check_certificate(none)


def test_a_tma_mode_that_does_not_serve_is_refuted() -> None:
    found = synthesize((32, 32), ["ld.shared.b32@col", TmaAccess((32, 32), 128)], element="f32")
    assert found.layout is None and found.certificate.reason == "forms"
    assert found.certificate.classes == ("tma",) and check_certificate(found)


def test_column_major_storage() -> None:
    found = synthesize((64, 64), ["ldmatrix.x4.trans@col", "st.shared.b128@col"], element="f16", order="col")
    assert str(found.layout) == "Sw<3,3,3> o 0 o (64,64):(1,64)" and check_certificate(found)


def test_higher_ranks_and_nested_shapes() -> None:
    for shape in ((2, 16, 32), (16, (2, 32)), ((4, 8), 32)):
        found = synthesize(shape, ["ld.shared.b32@row", "ld.shared.b32@col"], element="f32")
        assert free_of_conflicts(found) and check_certificate(found)


# --- bad input -----------------------------------------------------------------------------------------


@each(
    ("changes", "error", "message"),
    [
        ({"shape": (0, 8)}, ShapeError, "extent 0"),
        ({"shape": (8, 6), "accesses": ["ld.shared.b64@((8,3),2):((1,16),8)"], "order": "col"},
         AlignmentError, "contiguous elements"),
        ({"shape": (1024, 1024)}, ResourceError, "4194304 asked, the limit is 232448"),
        ({"element": "f33"}, UnknownNameError, "unknown dtype 'f33'"),
        ({"order": "diagonal"}, UnknownNameError, "unknown order"),
        ({"form": "best"}, UnknownNameError, "unknown form"),
        ({"arch": "sm_1"}, UnknownNameError, "unknown architecture"),
        ({"max_extra_bytes": -1}, ShapeError, "max_extra_bytes is -1"),
        ({"max_extra_bytes": 0.5}, ArgumentTypeError, "max_extra_bytes has 0.5"),
        ({"accesses": []}, ArgumentTypeError, "accesses is empty"),
        ({"accesses": "ldmatrix.x4"}, ArgumentTypeError, "a list of accesses is needed"),
        ({"accesses": ["ld.global.b32"]}, UnsupportedError, "addresses global memory"),
        ({"accesses": ["ld.shared.b33"]}, UnknownNameError, "unknown instruction"),
        ({"accesses": ["ld.shared.b64@((8,4),2):((1,16),8)", "st.shared.b64@(32,2):(2,1)"]}, AlignmentError,
         r"as those of ld\.shared\.b64 .*one direction only"),
        ({"accesses": ["st.shared.b64@(32,2):(2,1)"]}, AlignmentError, "contiguous mode"),
        ({"accesses": [dataclasses.replace(EVEN_ROWS, active=lambda t, v, i: t < 3)]}, UnsupportedError,
         "lane predicate"),
        ({"accesses": [dataclasses.replace(EVEN_ROWS, element=dtype("f16"))]}, ShapeError, "widths differ"),
        ({"accesses": [dataclasses.replace(EVEN_ROWS, base_bytes=2)]}, UnsupportedError, "a multiple of 4"),
        ({"accesses": [TmaAccess((8, 8), 128)], "shape": (8, 3)}, AlignmentError, "a multiple of 16 bytes"),
        ({"accesses": [TmaAccess((8, 8), 128)], "shape": (8, 2)}, AlignmentError, "a multiple of 16 bytes"),
        ({"accesses": [TmaAccess((8, 3), 128)]}, ShapeError, "does not divide"),
        ({"accesses": [TmaAccess((8, 4), 32)]}, ResourceError, "256 asked, the limit is 0"),
    ],
)  # fmt: skip
def test_bad_input(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    asked: dict[str, Any] = {"shape": (8, 8), "accesses": ["ld.shared.b32@col"], "element": "f32", **changes}
    with pytest.raises(error, match=message):
        synthesize(asked.pop("shape"), asked.pop("accesses"), **asked)
