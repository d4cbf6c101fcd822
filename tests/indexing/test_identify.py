"""identify: every kind of layout from functions and arrays, and witnesses that hold where there is none."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg import AnyLayout, size
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ParseError, ResourceError, ShapeError
from layoutalg.indexing import code, identify, parse_array
from layoutalg.indexing.laws import found_layout, kind_of
from layoutalg.layout import product
from tests.draws import index_functions
from tests.draws.index_functions import read
from tests.sweeps import each


def offsets(layout: AnyLayout) -> Any:
    """The layout at every flat index."""
    return layout(np.arange(size(layout))) + np.zeros(size(layout), dtype=np.int64)


def test_what_code_prints_is_identified_as_the_same_function() -> None:
    rng = random.Random(1)
    for layout in index_functions.tiles(7, 120):
        shape = tuple(map(product, layout.shape)) if isinstance(layout.shape, tuple) else layout.shape
        found = identify(code(layout, rng.choice(("c", "cuda", "python")), "at"), shape)
        assert found.layout is not None, (layout, found.why)
        assert (offsets(found.layout) == offsets(layout)).all() and found.layout.shape is not None
        again = identify(offsets(layout), shape).layout
        assert again == found.layout


@each(
    "index,shape,text,kind",
    [
        ("row * 64 + col", (8, 64), "(8,64):(64,1)", "plain"),
        ("row * 72 + col", (8, 64), "(8,64):(72,1)", "padded"),
        ("row / 2 * 40 + row % 2 + col * 4", (8, 8), "((2,4),8):((1,40),4)", "padded"),
        ("row - row + col", (8, 64), "(8,64):(0,1)", "plain"),
        ("7 - row + 8 * col", (8, 4), "Sw<0,0,0> o 7 o (8,4):(-1,8)", "plain"),
        ("row * 64 + (col ^ row % 8 * 8)", (16, 64), "Sw<3,3,3> o 0 o (16,64):(64,1)", "swizzled"),
        ("row * 60 + ((col * 4) ^ (row * 60 / 16 & 4))", (9, 15), None, ""),
        ("row * 64 + (col ^ row % 3 * 8)", (6, 64), None, ""),
        ("row * 48 + (col ^ row % 8)", (12, 48), "", "swizzled"),
        ("col ^ 5", (8,), "", "F2"),
        ("row * 64 + (col + row * 8) % 64", (8, 64), "(64,2,8):(1,0,64) o 0 o (8,64):(136,1)", "rotation"),
        ("row * 65 + (col + row * 7 + 3) % 65", (12, 65), "", "rotation"),
        ("(i / 8 * 144 + i % 8 * 16)", (32,), "(8,4):(16,144)", "padded"),
    ],
)
def test_kinds(index: str, shape: Any, text: str | None, kind: str) -> None:
    found = identify(index, shape if len(shape) > 1 else shape[0], expression=True)
    assert found.kind in (kind, "plain" if kind == "F2" else kind)
    if text:
        assert str(found.layout) == text
    if found.layout is None:
        assert text is None
        return
    names = ("row", "col") if len(shape) > 1 else ("i" if "i" in index else "col",)
    axes = [axis.flatten(order="F") for axis in np.indices(shape)]
    space: dict[str, Any] = {}
    exec(f"def f({', '.join(names)}): return {index.replace('/', '//')}", space)
    expected = space["f"](*axes)
    assert (offsets(found.layout) == expected).all()


def test_tables_of_every_law_come_back() -> None:
    rng = random.Random(5)
    for text, kind in (
        ("Sw<2,1,-3> o Sw<1,0,4> o 0 o (8,8,4):(1,32,8)", "F2"),
        ("Sw<3,2,3> o 17 o (12,10):(20,1)", "swizzled"),
        ("Sw<2,1,-3> o Sw<1,0,4> o 9 o (8,8,4):(1,32,8)", "F2"),
        ("(10,7,90):(3,0,1) o 5 o (4,(3,5)):(70,(1,210))", "rotation"),
    ):
        layout = read(text)
        table = offsets(layout)
        assert isinstance(layout.shape, tuple)
        shape = tuple(map(product, layout.shape))
        found, _, _ = found_layout(table.reshape(shape, order="F"))
        assert found is not None and (offsets(found) == table).all(), text
        assert kind_of(found) in (kind, "plain", "padded"), (text, str(found))
    drawn = np.array([rng.randrange(1000) for _ in range(64)])
    assert found_layout(drawn.reshape(8, 8))[0] is None


def test_a_witness_shows_that_there_is_no_plain_layout() -> None:
    found = identify("row * col + col", (4, 4), expression=True)
    assert (
        found.layout is None and found.kind == "" and str(found).startswith("no layout: offsets do not add")
    )
    at, row, col, zero = found.witness

    def f(place: Any) -> int:
        return int(place[0] * place[1] + place[1])

    assert f(at) != f(row) + f(col) - f(zero) and at[0] == row[0] and at[1] == col[1]  # type: ignore[index]
    digits = identify("i * i", 8, expression=True)
    assert digits.why.startswith("mode 0 has no digits: ")
    assert digits.witness and digits.layout is None
    divided = identify("__device__ int f(int row, int col) { return row / (col - 3); }", (4, 8))
    assert divided.why == "at (0,3) there is a division by zero at line 1, column 49" and divided.witness == (
        (0, 3),
    )
    wide = identify("row * 1000000000 + col", (4, 4), expression=True)
    assert wide.witness == ((3, 0),) and "past the 32 bits of C's int" in wide.why
    assert identify("row - 5 + col", (4, 4), expression=True).why.startswith("f(0,0) is -5")


def test_arrays_in_every_spelling() -> None:
    for text in ("[[0, 1, 2], [4, 5, 6]]", "{{0, 1, 2}, {4, 5, 6},};", "0 1 2 # first\n0x4, 5, 6\n"):
        assert str(identify(parse_array(text)).layout) == "(2,3):(4,1)"
    assert str(identify(np.arange(24).reshape(2, 3, 4)).layout) == "(2,3,4):(12,4,1)"
    assert str(identify([0, 8, 1, 9], (2, 2)).layout) == "(2,2):(8,1)"
    assert str(identify([0, 8, 1, 9]).layout) == "(2,2):(8,1)"
    assert str(identify([3], 1).layout) == "Sw<0,0,0> o 3 o 1:0"
    for wrong in (
        "[1, 2",
        "0 1 x",
        "[[1, 2], [3]]",
        "[1.5, 2]",
        "[]",
        "[" * 3000,
        "[1e400]",
        "{1: 2}",
        '["a"]',
    ):
        with pytest.raises((ParseError, ShapeError, ArgumentTypeError)):
            identify(parse_array(wrong))


def test_parameters_follow_their_names_and_leaves() -> None:
    text = "__device__ unsigned at(unsigned col, unsigned row) { return row * 64 + col; }"
    assert str(identify(text, (8, 64), parameters=("row", "col")).layout) == "(8,64):(64,1)"
    assert str(identify(text, (8, 64)).layout) == "(8,64):(1,64)"
    assert str(identify("int f(int a, int b, int c) { return a + b * 16 + c * 2; }", ((2, 4), 8)).layout) == (
        "((2,4),8):((1,16),2)"
    )
    assert str(identify("def f(i): return i % 4 * 8 + i // 4", (4, 8)).layout) == "(4,8):(8,1)"
    assert str(identify("row // 2 * 4 + col", (4, 4), expression=True).layout) == "((2,2),4):((0,4),1)"
    with pytest.raises(ArgumentTypeError, match="takes \\(col, row\\), and the modes are"):
        identify(text, (8, 64), parameters=("r", "c"))
    with pytest.raises(ShapeError, match="takes 2 parameters \\(col, row\\); for the shape \\(8,8,8\\)"):
        identify(text, (8, 8, 8))
    with pytest.raises(ShapeError, match="its shape is needed"):
        identify(text)
    with pytest.raises(ResourceError, match="coordinates of the function"):
        identify(text, (1 << 20, 64))
    with pytest.raises(ShapeError, match="does not hold 299"):
        identify("int f(unsigned char i) { return i; }", 300)


def test_nothing_of_a_text_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for text in (
        f"def f(i):\n    open({str(mark)!r}, 'w')\n    return i",
        f"import os\nos.system('touch {mark}')\ndef f(i): return i",
        f"f = lambda i: __import__('os').system('touch {mark}') or i",
        f'#include "{mark}"\nint f(int i) {{ system("touch {mark}"); return i; }}',
    ):
        try:
            found = identify(text, 8, function="f")
            assert str(found.layout) == "8:1"  # what stands beside the function is not read
        except LayoutAlgError:
            pass
        assert not mark.exists()


@each("offsets", [[10**26, 0], [2**63, 0], [[0, -(10**30)]]])
def test_offsets_past_64_bits_are_named_as_too_large(offsets: Any) -> None:
    with pytest.raises(ResourceError, match="magnitude of an offset"):
        identify(offsets)
    with pytest.raises(ArgumentTypeError, match="integers are needed"):
        identify([0, 0.5])
