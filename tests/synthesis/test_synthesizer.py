"""synthesize: worked cases, random accesses, constraints, what cannot be done, alternatives, and refusals."""

from __future__ import annotations

import dataclasses
import itertools
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import errors
from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, SharedReport, TmaAccess, analyze
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, MismatchError
from layoutalg.layout import ComposedLayout, IntTuple, Layout, Swizzle, size
from layoutalg.synthesis import Synthesis, check_certificate, synthesize
from layoutalg.synthesis.tma import tma_layouts
from tests.command import run
from tests.draws.synthesis_cases import SPLIT, THREE, TOY, is_free
from tests.sweeps import each

F32 = dtype("f32")


def lanes_of(found: Synthesis) -> tuple[Access, ...]:
    return tuple(access for access in found.accesses if isinstance(access, Access))


def answer(shape: IntTuple, accesses: Any, element: str, **options: Any) -> Synthesis:
    """A synthesis whose certificate is accepted and whose layout is free of conflicts, counted one by one."""
    found = synthesize(shape, accesses, element=element, **options)
    assert check_certificate(found)
    assert found.layout is None or found.arch is TOY or is_free(found.layout, lanes_of(found))
    return found


def words(*strides: int) -> Access:
    """32 lanes on a word each, by the strides of five bits."""
    return Access("ld.shared.b32", Layout(((2,) * len(strides), 1), (strides, 0)), F32)


ROW_COLUMN = ["ld.shared.b32@row", "ld.shared.b32@col"]
MANY = ["cp.async.16", "st.shared.b128", "ldmatrix.x4", "ldmatrix.x4.trans"]
TWO = [words(16, 32, 1, 2, 4), words(12, 16, 32, 1, 2)]
"""Words 2 4 8 16 32, and 33 2 4 8 16: only vectors with bit 0 and without bit 5 are in neither span."""
EIGHT = Access("ld.shared.b32", Layout((8, 1, 4), (1, 0, 8)), F32)
"""Eight lanes down a column: three bits of the bank are enough."""
CASES: list[tuple[Any, str, Any, dict[str, Any], str]] = [
    ((32, 128), "f32", ["ld.shared.b32@col"], {}, "Sw<5,0,7>"),
    ((32, 128), "f32", ["ld.shared.b128@((8,4),4,(4,8)):((1,128),32,(8,512))"], {}, "Sw<3,2,5>"),
    ((16, 16), "f16", ["ldmatrix.x4"], {}, "Sw<1,3,3>"),
    ((16, 32), "f16", ["ldmatrix.x4"], {}, "Sw<2,3,3>"),
    ((16, 64), "f16", ["ldmatrix.x4"], {}, "Sw<3,3,3>"),
    ((64, 64), "f16", ["ldmatrix.x4", "st.shared.b128"], {}, "Sw<3,3,3>"),
    ((64, 64), "f16", ["ldmatrix.x4.trans@col", "st.shared.b128@col"], {"order": "col"},
     "Sw<3,3,3> o 0 o (64,64):(1,64)"),
    ((32, 32), "f32", ["st.shared.b32@row", "ld.shared.b32@col"], {}, "Sw<5,0,5>"),
    ((4, 4), "f32", ROW_COLUMN, {"arch": TOY}, "Sw<2,0,2> o 0 o (4,4):(4,1)"),
    ((8, 8), "f32", TWO, {}, "((4,2),(2,4)):((8,1),(32,2))"),
    # rows of whole chunks, which need no power of two
    ((64, 96), "f16", MANY, {}, "Sw<2,3,3>"),
    ((128, 80), "f16", MANY, {}, "Sw<1,3,3>"),
    ((192, 64), "f16", MANY, {}, "Sw<3,3,3>"),
    ((96, 256), "f16", MANY, {}, "Sw<3,3,5>"),
    ((64, 40), "f16", ["st.shared.b128", "ldmatrix.x2"], {}, "(64,40):(40,1)"),
    ((96, 72), "f32", ["ld.shared.b32@row"], {}, "(96,72):(72,1)"),
    ((33, 32), "f32", ["ld.shared.b128@col"], {"max_extra_bytes": 528}, "(33,32):(36,1)"),
    # vectors that stay whole, asked for or not
    ((32, 32), "f32", ["ld.shared.b32@col"], {"vector_bytes": 4}, "Sw<5,0,5>"),
    ((32, 32), "f32", [EIGHT], {}, "Sw<3,0,5>"),
    ((32, 32), "f32", [EIGHT], {"vector_bytes": 16}, "Sw<3,2,3>"),
    ((1, 1024), "f32", SPLIT, {}, "Sw<4,0,5>"),
    # modes of tensor maps
    ((64, 32), "f16", ["ldmatrix.x4"], {"form": "tma"}, "Sw<2,3,3> o 0 o (64,32):(32,1)"),
    ((64, 128), "f16", ["ldmatrix.x4"], {"form": "tma"}, "Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))"),
    ((64, 96), "f16", ["ldmatrix.x4"], {"form": "tma"}, "Sw<2,3,3> o 0 o (64,(32,3)):(32,(1,2048))"),
    ((64, 64), "f16", ["ldmatrix.x4", TmaAccess((64, 64), 128)], {}, "Sw<3,3,3> o 0 o (64,64):(64,1)"),
    ((40, 64), "f16", ["ldmatrix.x1", TmaAccess((40, 64), 128)], {}, "Sw<3,3,3> o 0 o (40,64):(64,1)"),
    ((64, 16), "f32", ["ld.shared.b128@col", TmaAccess((64, 16), 128)], {"max_extra_bytes": 4096},
     "Sw<3,2,3> o 0 o (64,16):(32,1)"),
]  # fmt: skip


@each(("shape", "element", "accesses", "options", "layout"), CASES, sample=6)
def test_worked_cases(shape: Any, element: str, accesses: Any, options: dict[str, Any], layout: str) -> None:
    """One swizzle of the storage order where only a swizzle is named; no memory that is not allowed."""
    found = answer(shape, accesses, element, **options)
    if layout.endswith(">"):
        layout += f" o 0 o {storage_layout(shape, 'row')}"
    assert str(found.layout) == layout and found.extra_bytes <= options.get("max_extra_bytes", 0)
    kinds = {"Sw": "swizzle", "((": "xor"}
    dense = found.extra_bytes == 0
    assert found.kind == kinds.get(layout[:2], "plain" if dense else "padding")


@each("shape", [(2, 16, 32), (16, (2, 32)), ((4, 8), 32)])
def test_higher_ranks_and_nested_shapes(shape: IntTuple) -> None:
    assert answer(shape, ROW_COLUMN, "f32").layout is not None


@each("rows", [96, 192])
@each("columns", [40, 48, 56, 64, 72, 80, 88, 96, 112, 120, 160, 192, 224], sample=1)
def test_head_dimensions_have_a_layout_without_extra_memory(rows: int, columns: int) -> None:
    matrix = "ldmatrix.x4" if columns % 16 == 0 else "ldmatrix.x2"
    found = answer((rows, columns), ["cp.async.16", "st.shared.b128", matrix], "f16")
    assert found.layout is not None and found.extra_bytes == 0


@pytest.mark.deep
@each("element", ["u8", "f16", "f32"])
@each("columns", [16, 32, 64, 128, 256])
@each("ops", [("ldmatrix.x4",), ("st.shared.b128",), ("ldmatrix.x4", "st.shared.b128")])
def test_the_usual_rule_is_never_better(element: str, columns: int, ops: tuple[str, ...]) -> None:
    """M = log2 V, B = log2(1024/bits) - M, S = log2(max(1024/bits, X)) - M for rows of X elements."""
    width, tile = dtype(element).bits, Layout((64, columns), (columns, 1))
    if "ldmatrix.x4" in ops and columns * width < 256:
        return  # a row holds at least two columns of 16 bytes
    base = (128 // width).bit_length() - 1
    bits = (1024 // width).bit_length() - 1 - base
    shift = max(1024 // width, columns).bit_length() - 1 - base
    accesses = tuple(Access.default(op, tile, dtype(element)) for op in ops)
    assert is_free(ComposedLayout(Swizzle(bits, base, shift), 0, tile), accesses)
    found = answer((64, columns), accesses, element, form="single")
    assert isinstance(found.layout, Layout) or (
        found.layout is not None and found.layout.swizzles[0].bits <= bits
    )


@st.composite
def linear_accesses(draw: st.DrawFn, word_bits: int) -> Access:
    """32 lanes moving by five independent vectors of words, each a sum of one or two coordinates."""
    coordinates = draw(st.permutations(range(word_bits)))
    rest = coordinates[5:]
    pairs = [draw(st.booleans()) and i < len(rest) for i in range(5)]
    return words(*((1 << coordinates[i]) + (1 << rest[i] if pairs[i] else 0) for i in range(5)))


@given(st.data(), st.integers(6, 10), st.integers(1, 4))
def test_random_accesses(data: st.DataObject, word_bits: int, count: int) -> None:
    accesses = [data.draw(linear_accesses(word_bits)) for _ in range(count)]
    rows = data.draw(st.integers(1, word_bits - 1))
    found = answer((1 << rows, 1 << (word_bits - rows)), accesses, "f32")
    assert found.layout is not None or count > 2


# --- what cannot be done -------------------------------------------------------------------------------

WIDE = "st.shared.b128@((8,8),4):((128,1),32)"
IN_PLACE = ("linear-in-place of whole 4-byte units", "any-in-place of whole 4-byte units", "single-swizzle")
BOX = TmaAccess((32, 32), 128)
NONE: list[tuple[Any, Any, dict[str, Any], str, tuple[str, ...]]] = [
    ((8, 8), THREE, {}, "exhausted", IN_PLACE),
    ((8, 8), THREE, {"max_extra_bytes": 512}, "exhausted",
     (*IN_PLACE, "padding up to 512 bytes")),
    ((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], {}, "narrow-banks", ("any-placement",)),
    ((32, 32), ["ld.shared.b32@col"], {"vector_bytes": 16}, "narrow-banks", ("any-placement",)),
    # float4 stores to 8 of the 32 rows leave the others free, if not where vectors stay whole
    ((32, 32), [WIDE, "ld.shared.b32@col"], {"max_extra_bytes": 4096}, "narrow-banks",
     ("linear-in-place of whole 16-byte units", "single-swizzle", "padding up to 4096 bytes")),
    ((32, 32), ["red.shared.u32@((16,2),1):((32,0),0)"], {}, "repeated-word", ()),
    ((48, 20), ["ld.shared.b32@col"], {"max_extra_bytes": 1024}, "forms",
     ("single-swizzle", "padding up to 1024 bytes")),
    ((32, 32), ["ld.shared.b32@col", BOX], {}, "forms", ("tma",)),
    ((40, 32), ["ld.shared.b32@col", TmaAccess((40, 32), 128)], {}, "forms", ("tma",)),
]  # fmt: skip


@each(("shape", "accesses", "options", "reason", "classes"), NONE, sample=6)
def test_what_has_no_layout(
    shape: Any, accesses: Any, options: dict[str, Any], reason: str, classes: tuple[str, ...]
) -> None:
    found = answer(shape, accesses, "f32", **options)
    assert (found.layout, found.kind, found.reports) == (None, "none", ())
    assert found.certificate.reason == reason
    assert found.certificate.classes == (classes or found.certificate.classes)


def test_three_patterns_on_eight_by_eight_have_no_layout() -> None:
    """Half a tile each; any two of them have one."""
    assert answer((8, 8), THREE, "f32").certificate.clash == (0, 1, 2)
    for pair in itertools.combinations(THREE, 2):
        assert answer((8, 8), pair, "f32").layout is not None


def test_wide_vectors_elsewhere_bind_nobody() -> None:
    found = answer((32, 32), [WIDE, "ld.shared.b32@col"], "f32", max_extra_bytes=4096)
    claimed = dataclasses.replace(found.certificate, classes=("any-placement",))
    with pytest.raises(MismatchError, match="8 words at one place of 8 banks"):
        check_certificate(dataclasses.replace(found, certificate=claimed))


def test_a_form_may_have_no_layout_where_others_have() -> None:
    """lane -> words 1, 2, 4 and sums of two high coordinates: one diagonal of XORs is not enough."""
    pair = [words(64, 512, 17, 160, 4), words(8, 256, 2, 64, 513)]
    single, matrix = (answer((32, 32), pair, "f32", form=form) for form in ("single", "any"))
    assert matrix.layout is not None
    assert single.layout is not None or (single.certificate.reason, matrix.kind) == ("forms", "xor")


def test_what_was_not_found_is_not_said_not_to_exist() -> None:
    text = run("synthesize", "(48,20)", "--access", "ld.shared.b32@col").stdout.replace("\n", " ")
    assert "Others were not searched." in text and "exists" not in text


# --- constraints ---------------------------------------------------------------------------------------


def test_vectors_nobody_reads_stay_whole() -> None:
    """As an access that the certificate covers: a layout that tears them is not accepted."""
    loose, kept = (answer((32, 32), [EIGHT], "f32", vector_bytes=n) for n in (0, 16))
    assert kept.layout is not None and loose.layout is not None
    for row, column in itertools.product(range(32), range(0, 32, 4)):
        offsets = [kept.layout(row, column + n) for n in range(4)]
        assert offsets == list(range(offsets[0], offsets[0] + 4)) and offsets[0] % 4 == 0
    assert [access.op for access in lanes_of(kept)] == ["ld.shared.b32", "ld.shared.b128"]
    with pytest.raises(MismatchError):
        check_certificate(dataclasses.replace(kept, layout=loose.layout))
    with pytest.raises(AlignmentError):
        analyze(loose.layout, lanes_of(kept)[-1])


def test_rows_stay_whole_where_that_is_asked() -> None:
    assert answer((8, 8), TWO, "f32").kind == "xor"
    found = answer((8, 8), TWO, "f32", whole_rows=True)
    assert found.layout is None and found.certificate.reason == "exhausted"
    both = answer((32, 32), ["ld.shared.b32@col"], "f32", whole_rows=True)
    assert both.layout is not None
    for row in range(32):
        assert {both.layout(row, column) // 32 for column in range(32)} == {row}
        assert sorted(both.layout(row, column) % 32 for column in range(32)) == list(range(32))


# --- alternatives, and the record ----------------------------------------------------------------------


@each(
    ("shape", "element", "accesses"),
    [
        ((64, 64), "f16", ["ldmatrix.x4"]),
        ((16, 16), "f16", ["ldmatrix.x4"]),
        ((64, 128), "f16", ["ldmatrix.x4", "st.shared.b128"]),
        ((32, 32), "f32", ["st.shared.b32@row", "ld.shared.b32@col"]),
        ((32, 32), "f32", ["st.shared.b128@row", "ld.shared.b32@col"]),
        ((96, 64), "f16", ["ldmatrix.x4"]),
    ],
    sample=3,
)
def test_alternatives_are_ranked_by_their_true_cost_and_none_comes_twice(
    shape: tuple[int, int], element: str, accesses: list[str]
) -> None:
    found = answer(shape, accesses, element, max_extra_bytes=4096)
    layouts = [found.layout, *(other.layout for other in found.alternatives)]
    assert len(set(layouts)) == len(layouts)
    keys = [(other.total, other.extra_bytes) for other in found.alternatives]
    assert keys == sorted(keys)
    for i, other in enumerate(found.alternatives):
        assert size(other.layout) == shape[0] * shape[1]
        reports = [analyze(other.layout, a, method="enumerated") for a in lanes_of(found)]
        sums = [[r.total, r.ideal_total] for r in reports if isinstance(r, SharedReport)]
        assert [other.total, other.ideal_total] == [sum(column) for column in zip(*sums, strict=True)]
        for wrong in ({"extra_bytes": other.extra_bytes + 16}, {"kind": "xor"}, {"total": other.total - 1}):
            others = list(found.alternatives)
            others[i] = dataclasses.replace(other, **wrong)
            with pytest.raises(MismatchError):
                check_certificate(dataclasses.replace(found, alternatives=tuple(others)))
    kinds = {other.kind for other in found.alternatives} | {found.kind}
    assert "plain" in kinds and ("padding" in kinds or found.layout is None)
    assert found.layout is not None or (found.alternatives[0].kind, found.alternatives[0].total) == (
        "swizzle",
        160,
    )


def test_every_tensor_map_mode_that_serves_is_listed() -> None:
    found = synthesize((64, 128), ["ldmatrix.x4"], element="f16")
    listed = {str(other.layout) for other in found.alternatives} | {str(found.layout)}
    for layout, _ in tma_layouts((64, 128), dtype("f16"), "row", (), ARCHS["sm_90"]):
        assert str(layout) in listed or not is_free(layout, lanes_of(found))
    assert "Sw<3,3,3> o 0 o (64,(64,2)):(64,(1,4096))" in listed


def test_what_padding_costs() -> None:
    """16 bytes a row on tiles of 256 and 128 rows of 32 halves: 6144 bytes, a quarter more."""
    rows = [synthesize((n, 32), ["ldmatrix.x4"], element="f16") for n in (256, 128)]
    costs = [[o.extra_bytes for o in found.alternatives if o.kind == "padding"] for found in rows]
    assert costs == [[4096], [2048]] and 4 * (4096 + 2048) == (256 + 128) * 32 * 2


@each(
    ("shape", "order", "pad", "expected"),
    [
        ((4, 8), "row", 0, "(4,8):(8,1)"),
        ((2, 4, 8), "row", 1, "(2,4,8):(36,9,1)"),
        ((2, 4, 8), "col", 1, "(2,4,8):(1,3,12)"),
        (((2, 2), 8), "row", 0, "((2,2),8):((8,16),1)"),
        ((4, (2, 4)), "row", 3, "(4,(2,4)):(11,(1,2))"),
        ((4, 1), "row", 2, "(4,1):(1,0)"),
        ((2, 4, 1), "row", 2, "(2,4,1):(6,1,0)"),
        (16, "row", 0, "16:1"),
    ],
)
def test_storage_order(shape: IntTuple, order: Order, pad: int, expected: str) -> None:
    assert str(storage_layout(shape, order, pad)) == expected


def test_a_synthesis_keeps_its_question_and_prints_as_a_table() -> None:
    found = synthesize((32, 32), ["st.shared.b32@row", "ld.shared.b32@col"], element="f32")
    assert found == synthesize((32, 32), ["st.shared.b32@row", "ld.shared.b32@col"], element="f32")
    assert (found.shape, found.order, found.form, found.arch.name) == ((32, 32), "row", "any", "sm_90")
    lines = str(found).splitlines()
    assert repr(found) == f"<Synthesis {lines[0]}>"
    assert lines[0] == f"{found.layout}, {found.kind}, {found.extra_bytes} bytes of extra memory"
    cells = [line.split()[:3] for line in lines]
    assert all([r.op, str(r.instructions), str(r.total)] in cells for r in found.reports)
    assert sum(line.startswith("Or ") for line in lines) == len(found.alternatives)
    none = synthesize((32, 32), ROW_COLUMN, element="f32", form="tma")
    assert none.layout is None and all(name in str(none) for name in none.certificate.classes)


# --- bad input -----------------------------------------------------------------------------------------

COLUMN = THREE[0]


@each(
    ("changes", "error", "message"),
    [
        ({"shape": (0, 8)}, errors.ShapeError, "extent 0"),
        ({"shape": (8, 6), "accesses": ["ld.shared.b64@((8,3),2):((1,16),8)"], "order": "col"},
         AlignmentError, "contiguous elements"),
        ({"shape": (1024, 1024)}, errors.ResourceError, "the limit is 232448"),
        ({"element": "f33"}, errors.UnknownNameError, "dtype 'f33'"),
        ({"order": "diagonal"}, errors.UnknownNameError, "unknown order"),
        ({"form": "best"}, errors.UnknownNameError, "unknown form"),
        ({"arch": "sm_1"}, errors.UnknownNameError, "unknown architecture"),
        ({"max_extra_bytes": -1}, errors.ShapeError, "max_extra_bytes is -1"),
        ({"max_extra_bytes": 0.5}, errors.ArgumentTypeError, "max_extra_bytes has 0.5"),
        ({"vector_bytes": 32}, errors.UnsupportedError, "vector_bytes is 32"),
        ({"vector_bytes": 4, "element": "f64", "accesses": ["ld.shared.b64@col"]}, errors.UnsupportedError,
         "a lane must hold"),
        ({"vector_bytes": 16, "shape": (32, 2)}, AlignmentError, "not a multiple"),
        ({"accesses": []}, errors.ArgumentTypeError, "accesses is empty"),
        ({"accesses": "ldmatrix.x4"}, errors.ArgumentTypeError, "a list of accesses"),
        ({"accesses": ["ld.global.b32"]}, errors.UnsupportedError, "addresses global memory"),
        ({"accesses": ["ld.shared.b33"]}, errors.UnknownNameError, "unknown instruction"),
        ({"accesses": ["ld.shared.b64@((8,4),2):((1,16),8)", "st.shared.b64@(32,2):(2,1)"]}, AlignmentError,
         "one direction only"),
        ({"accesses": ["st.shared.b64@(32,2):(2,1)"]}, AlignmentError, "contiguous mode"),
        ({"accesses": [dataclasses.replace(COLUMN, active=lambda t, v, i: t < 3)]}, errors.UnsupportedError,
         "lane predicate"),
        ({"accesses": [dataclasses.replace(COLUMN, element=dtype("f16"))]}, errors.ShapeError, "widths"),
        ({"accesses": [dataclasses.replace(COLUMN, base_bytes=2)]}, errors.UnsupportedError, "multiple of 4"),
        ({"accesses": [TmaAccess((8, 8), 128)], "shape": (8, 3)}, AlignmentError, "multiple of 16 bytes"),
        ({"accesses": [TmaAccess((8, 3), 128)]}, errors.ShapeError, "does not divide"),
        ({"accesses": [TmaAccess((8, 4), 32)]}, errors.ResourceError, "256 asked, the limit is 0"),
        ({"form": "tma", "arch": "sm_80"}, errors.UnsupportedError, "sm_80 has no TMA"),
    ],
)  # fmt: skip
def test_bad_input(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    asked: dict[str, Any] = {"shape": (8, 8), "accesses": ["ld.shared.b32@col"], "element": "f32", **changes}
    with pytest.raises(error, match=message):
        synthesize(asked.pop("shape"), asked.pop("accesses"), **asked)
