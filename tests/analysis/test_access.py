"""Access: what it is made of, its defaults, its text form, and what is refused."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest

from layoutalg.analysis import Access, TmaAccess
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    ParseError,
    ShapeError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.notation import parse_cute as parse
from tests.sweeps import each

ROWS = Layout((64, 64), (64, 1))


def test_an_access_is_a_value() -> None:
    one, other = (Access("ld.shared.b32", Layout((32, 1), (1, 0)), "f32") for _ in range(2))  # type: ignore[arg-type]
    assert one == other and hash(one) == hash(other) and one.element.name == "f32"
    with pytest.raises(dataclasses.FrozenInstanceError):
        one.op = "st.shared.b32"  # type: ignore[misc]


@each(
    ("changes", "error", "message"),
    [
        ({"tv": Layout(32)}, ShapeError, r"two modes \(thread, value\) or three"),
        ({"tv": Layout((2, 2, 2, 2))}, ShapeError, "two modes"),
        ({"tv": "(32,1):(1,0)"}, ArgumentTypeError, "a Layout of"),
        ({"element": "f33"}, UnknownNameError, "unknown dtype 'f33'"),
        ({"base_bytes": -4}, ShapeError, "base_bytes is -4"),
        ({"base_bytes": 1.5}, ArgumentTypeError, "base_bytes has 1.5"),
        ({"active": 16}, ArgumentTypeError, "a predicate of"),
        ({"base_alignment_bytes": 48}, ShapeError, "a power of two"),
        ({"base_alignment_bytes": 0}, ShapeError, "a power of two"),
    ],
)
def test_parts_that_do_not_fit(changes: dict[str, Any], error: type[Exception], message: str) -> None:
    parts: dict[str, Any] = {"op": "ld.shared.b32", "tv": Layout((32, 1), (1, 0)), "element": "f32"}
    with pytest.raises(error, match=message):
        Access(**{**parts, **changes})


@each(
    ("op", "element", "layout", "tv"),
    [
        ("ldmatrix.x4", "f16", "(64,64):(64,1)", "((16,2),8,(4,4)):((1,512),64,(1024,16))"),
        ("ldmatrix.x2", "f16", "(64,64):(64,1)", "((16,2),8,(8,4)):((1,0),64,(512,16))"),
        ("ldmatrix.x1", "f16", "(64,64):(64,1)", "((8,4),8,(8,8)):((1,0),64,(512,8))"),
        ("ldmatrix.x4.trans", "f16", "(64,64):(1,64)", "((16,2),8,(4,4)):((64,8),1,(16,1024))"),
        ("ldmatrix.x4", "f16", "((8,2),(8,2)):((8,128),(1,64))", "((8,2,2),8):((1,8,128),16)"),
        ("ld.shared.b32", "f32", "(32,128):(128,1)", "((128,32),1):((32,1),0)"),
        ("ld.shared.b128", "f32", "(32,128):(128,1)", "((32,32),4):((128,1),32)"),
        ("st.global.b64", "u8", "(64,3):(1,64)", "(24,8):(8,1)"),
        ("ld.shared.b32", "f32", "(32,33):(2,64)", "(1056,1):(1,0)"),
    ],
)
def test_defaults(op: str, element: str, layout: str, tv: str) -> None:
    tile = parse(layout)
    assert not isinstance(tile, Swizzle)
    access = Access.default(op, tile, element)
    flat = Access.of(f"{op}@{tv}", tile, element).tv
    assert _table(access.tv) == _table(flat)


def _table(tv: Layout) -> list[int]:
    """The indices that a tv visits, in order: thread fastest, then value, then iteration."""
    return [tv(i) for i in range(size(tv))]


def test_a_default_looks_through_swizzles_and_layouts() -> None:
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, ROWS)
    stacked = ComposedLayout(Layout((64, 64), (1, 64)), 0, ROWS)
    assert Access.default("ldmatrix.x4", swizzled, "f16") == Access.default("ldmatrix.x4", ROWS, "f16")
    assert Access.default("ldmatrix.x4", stacked, "f16") == Access.default("ldmatrix.x4", ROWS, "f16")


@each(("mapping", "tv"), [("row", "((8,4),1):((4,1),0)"), ("col", "((4,8),1):((1,4),0)")])
def test_lanes_along_a_mode(mapping: str, tv: str) -> None:
    for tile in (Layout((4, 8), (8, 1)), Layout((4, 8))):
        assert _table(Access.along("ld.shared.b32", tile, "f32", mapping).tv) == _table(
            Access.of(f"ld.shared.b32@{tv}", tile, "f32").tv
        )


def test_matrix_rows_lie_along_the_named_mode() -> None:
    assert Access.along("ldmatrix.x4", ROWS, "f16", "row") == Access.default("ldmatrix.x4", ROWS, "f16")
    with pytest.raises(AlignmentError, match="no stride-1 mode in mode 0"):
        Access.along("ldmatrix.x4", ROWS, "f16", "col")


def test_a_text_names_an_access() -> None:
    assert Access.of("ld.shared.b32 @ col", ROWS, "f32") == Access.along("ld.shared.b32", ROWS, "f32", "col")
    assert Access.of("ld.shared.b32", ROWS, "f32") == Access.default("ld.shared.b32", ROWS, "f32")
    made = Access.default("ld.shared.b32", ROWS, "f32")
    assert Access.of(made, ROWS, "f16") is made
    refused: list[tuple[Any, type[Exception], str]] = [
        ("ld.shared.b32@diagonal", ParseError, "diagonal"),
        ("ld.shared.b32@Sw<3,4,3>", ShapeError, "thread-value"),
        (3, ArgumentTypeError, "access of 3"),
        ("ldmatrix.4", UnknownNameError, r"did you mean 'ldmatrix\.x4'"),
    ]
    for text, error, part in refused:
        with pytest.raises(error, match=part):
            Access.of(text, ROWS, "f16")
    with pytest.raises(UnknownNameError, match="mapping 'diagonal'"):
        Access.along("ld.shared.b32", ROWS, "f32", "diagonal")


HIDDEN = ComposedLayout(Layout((4, 4), (4, 1)), 0, ComposedLayout(Swizzle(1, 1, 1), 0, Layout(8, 2)))


@each(
    ("op", "element", "layout", "error", "message"),
    [
        ("ldmatrix.x4", "f16", Layout((64, 64), (128, 2)), AlignmentError, "no stride-1 mode"),
        ("ld.shared.b128", "f32", Layout((32, 33), (33, 1)), AlignmentError, "not a multiple"),
        ("ldmatrix.x4", "f16", Layout((8, 64), (64, 1)), ShapeError, "16 rows by 32 bytes"),
        ("ldmatrix.x4", "f16", Layout((16, 8), (8, 1)), ShapeError, "16 rows by 32 bytes"),
        ("ldmatrix.x4", "f16", Layout((24, 16), (16, 1)), ShapeError, "does not split"),
        ("stmatrix.x4", "u8", Layout((16, 32)), ShapeError, "16 rows by 32 bytes"),
        ("ld.shared.b32", "f64", Layout((64, 64)), UnsupportedError, "whole number of elements"),
        (
            "ld.shared.b64",
            "f32",
            ComposedLayout(Layout((3, 5), (7, 2)), 0, HIDDEN),
            UnsupportedError,
            "outer",
        ),
    ],
)
def test_tiles_without_a_default(
    op: str, element: str, layout: AnyLayout, error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        Access.default(op, layout, element)


@each(
    ("box", "mode"), [((), 128), ((0, 4), 128), ((257, 4), 128), ((64, 64), 16), (64, 128), (((4, 4), 4), 64)]
)
def test_tma_boxes_are_checked(box: Any, mode: int) -> None:
    with pytest.raises(ShapeError, match="TMA"):
        TmaAccess(box, mode)
