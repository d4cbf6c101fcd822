"""Printed index functions: what compilers and Python make of them is the layout, or they are refused."""

from __future__ import annotations

import ctypes
import importlib.util
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg import AnyLayout, Layout, make_tiled_copy, size
from layoutalg.analysis import Access
from layoutalg.codegen.expr import Var, evaluate
from layoutalg.errors import (
    AlignmentError,
    ArgumentTypeError,
    IRError,
    MismatchError,
    ResourceError,
    ShapeError,
    UndecidedError,
    UnknownNameError,
    UnsupportedError,
)
from layoutalg.indexing import TARGETS, Side, code
from layoutalg.indexing.proofs import proved, proved_cute, steps
from layoutalg.indexing.reading import read_c
from layoutalg.testing import check_index_function, compile_shared
from tests.draws import index_functions
from tests.draws.index_functions import read
from tests.sweeps import each

TILES = index_functions.tiles(20261122, 60)


def extents(layout: AnyLayout) -> tuple[int, ...]:
    """Sizes of the parameters."""
    return tuple(map(size, layout.shape)) if isinstance(layout.shape, tuple) else (layout.shape,)


def grid(layout: AnyLayout) -> list[Any]:
    """The parameters at every coordinate, the first fastest."""
    return [axis.flatten(order="F") for axis in np.indices(extents(layout))]


def offsets(layout: AnyLayout) -> Any:
    """The layout at every coordinate."""
    return layout(np.arange(size(layout))) + np.zeros(size(layout), dtype=np.int64)


@pytest.mark.deep
def test_functions_in_c_and_cuda_are_their_layouts_when_compiled() -> None:
    texts, calls = [], []
    for n, layout in enumerate(TILES):
        count = len(extents(layout))
        texts += [code(layout, "c", f"c{n}"), code(layout, "cuda", f"d{n}").replace("__forceinline__", "")]
        given = ", ".join(f"x[{m}][i]" for m in range(count))
        for kind in "cd":
            calls.append(
                f"void {kind}{n}_(long long** x, long long n, long long* out) "
                f"{{ for (long long i = 0; i < n; ++i) out[i] = {kind}{n}({given}); }}"
            )
    library = compile_shared("#define __device__\n" + "\n".join((*texts, *calls)), language="c")
    for n, layout in enumerate(TILES):
        axes = [np.ascontiguousarray(axis) for axis in grid(layout)]
        pointers = (ctypes.c_void_p * len(axes))(*(axis.ctypes.data for axis in axes))
        for kind in "cd":
            out = np.zeros(size(layout), dtype=np.int64)
            library[f"{kind}{n}_"](pointers, ctypes.c_longlong(out.size), ctypes.c_void_p(out.ctypes.data))
            assert (out == offsets(layout)).all(), (layout, texts[2 * n])


@pytest.mark.deep
def test_check_index_function_accepts_what_is_printed() -> None:
    for layout in TILES[:2]:
        for to in ("c", "cuda", "python"):
            check_index_function(code(layout, to, "at"), layout, "at")


@each("to", ["python", "triton", "dsl"])
def test_functions_in_python_are_their_layouts(to: str) -> None:
    for layout in TILES:
        space: dict[str, Any] = {"triton": SimpleNamespace(jit=lambda f: f)}
        exec(compile(code(layout, to, "at"), to, "exec"), space)
        assert (space["at"](*grid(layout)) + 0 * offsets(layout) == offsets(layout)).all(), layout


def cute_headers() -> list[str]:
    """The folders of CuTe's headers and of what they include; none where they are not installed."""
    found = importlib.util.find_spec("cutlass_library")
    cute = Path(found.origin).parent / "source" / "include" if found and found.origin else Path()
    cuda = [
        p for p in sorted(Path("/usr/local").glob("cuda*/include")) if (p / "cccl" / "cuda" / "std").is_dir()
    ]
    if not (cute / "cute" / "layout.hpp").is_file() or not cuda:
        return []
    return ["-I", str(cute), "-I", str(cuda[-1]), "-I", str(cuda[-1] / "cccl")]


@pytest.mark.deep
def test_functions_in_cute_are_their_layouts_when_compiled() -> None:
    flags = cute_headers()
    if not flags:
        pytest.skip("the headers of CuTe and CUDA are not installed")
    chosen = [t for t in TILES if size(t) <= 1 << 11][:24]
    text = "#include <cute/layout_composed.hpp>\n#include <cute/swizzle_layout.hpp>\n"
    for n, layout in enumerate(chosen):
        given = ", ".join(f"x[{m}]" for m in range(len(extents(layout))))
        text += code(layout, "cpp", f"f{n}")
        text += f'\nextern "C" long long g{n}(const long long* x) {{ return f{n}({given}); }}\n'
    library = compile_shared(text, flags=flags)
    for n, layout in enumerate(chosen):
        call = library[f"g{n}"]
        call.restype = ctypes.c_longlong
        axes = grid(layout)
        for i, offset in enumerate(offsets(layout)):
            assert call((ctypes.c_longlong * len(axes))(*(int(a[i]) for a in axes))) == offset, layout


SWIZZLED = read("Sw<3,3,3> o 0 o (64,64):(64,1)")


def test_it_is_one_function_and_nothing_else() -> None:
    for to in TARGETS:
        text = code(SWIZZLED, to, "swz")
        lines = text.splitlines()
        assert lines[0] == "@triton.jit" if to == "triton" else "swz(" in lines[0]
        assert len(re.findall(r"\bswz\(", text)) == 1 and "#include" not in text and "import" not in text
        assert any("row in [0,64), col in [0,64)" in line for line in lines)
        assert text == SWIZZLED.code(to, "swz")


def test_through_a_tv_layout_a_copy_and_ldmatrix() -> None:
    copy = make_tiled_copy("UniversalCopy<uint128_t>", "f16", Layout((16, 8), (8, 1)), Layout((1, 8)))
    access = Access.of("ldmatrix.x4", SWIZZLED, "f16")
    row_of = code(SWIZZLED, "cuda", through="ldmatrix.x4", element="f16", unit="bytes")
    assert "unsigned lane, unsigned fragment" in row_of and "in bytes" in row_of
    assert row_of == code(SWIZZLED, "cuda", through=access, element="f16", unit="bytes")
    found = read_c(row_of, "f")
    assert found.names == ("lane", "fragment")
    space: dict[str, Any] = {}
    exec(code(SWIZZLED, "python", through=access, element="f16", unit="bytes"), space)
    iterations = size(access.tv[2])
    for lane in range(32):
        for n in range(iterations):
            assert space["f"](lane, n) == 2 * SWIZZLED(access.tv(lane, 0, n))
    sides: dict[Side, Layout] = {"src": copy.get_layoutS_TV(), "dst": copy.get_layoutD_TV()}
    for side, places in sides.items():
        exec(code(Layout((16, 64), (72, 1)), "python", through=copy, side=side, element="f16"), space)
        for tid in (0, 5, 127):
            for u in range(8):
                index = places(tid, u)
                assert space["f"](tid, u) == 72 * (index % 16) + index // 16
    exec(code(SWIZZLED, "python", through="(32,128):(128,1)"), space)
    assert space["f"](3, 7) == SWIZZLED(3 * 128 + 7)
    wide = code(Layout((64, 64), (64, 1)), "python", through="ld.shared.b128@row", element="f32")
    exec(wide, space)
    assert [space["f"](t, 0) for t in range(4)] == [0, 4, 8, 12]


def test_a_loops_offset_is_a_carried_pointer() -> None:
    ring = read("Sw<3,3,3> o 0 o (64,64,8):(64,1,4096)")
    text = code(ring, "cuda", "at", carry="k", parameters=("row", "col", "k"))
    assert "template <class T>\n__device__ __forceinline__ T* at(T* p, unsigned row, unsigned col)" in text
    assert "each step of k, of 8, adds 4096 to the pointer" in text
    in_bytes = code(ring, "c", "at", carry="k", parameters=("row", "col", "k"), element="f16", unit="bytes")
    assert "char* at(char* p, unsigned row, unsigned col)" in in_bytes and "adds 8192" in in_bytes
    check_index_function(in_bytes, read("16384:2 o 0 o Sw<3,3,3> o 0 o (64,64):(64,1)"), "at")
    space: dict[str, Any] = {}
    exec(code(read("(4,8):(8,-1)"), "python", carry="col"), space)
    assert [space["f"](100, row) for row in range(4)] == [100, 108, 116, 124]
    with pytest.raises(
        UnsupportedError, match="col does not move by equal steps: the first is 1, and at row=1, col=8"
    ):
        code(SWIZZLED, "cuda", carry="col")
    with pytest.raises(UnsupportedError, match="a carried pointer in C counts bytes"):
        code(ring, "c", carry="c2")
    with pytest.raises(UnknownNameError, match="unknown parameter 'z'"):
        code(ring, "c", carry="z")


@each(
    "layout,said",
    [
        ("Sw<3,3,3> o 0 o (65536,65536):(65536,1)", "proved over F2"),
        ("(1000,3000):(3001,1)", "proved at 2 coordinates, which stand for all 3,000,000"),
        ("((100,1000),3000):((7,1000),100000)", "proved at 101 coordinates"),
        ("Sw<2,0,3> o 0 o (3000,1200):(1200,1)", "proved at 64 coordinates, which stand for all 3,600,000"),
    ],
)
def test_large_layouts_are_proved_by_classes(layout: str, said: str) -> None:
    assert said in code(read(layout), "c")


def test_a_text_that_is_not_the_layout_is_not_proved() -> None:
    row, col = Var("row", 4096), Var("col", 4096)
    layout = Layout((4096, 4096), (4096, 1))
    raw = layout(row, col)

    def table(at: Any) -> Any:
        return layout(*at)

    for wrong in (
        "row * 4096 + col + row / 4095",
        "row * 4096 + (col | row / 4000)",
        "row * 4095 + col",
        "row % 4095 * 4096 + col",
        "(row ^ 1) * 4096 + col",
        "row * 4096 + col + (col == 4095)",
    ):
        term = read_c(f"unsigned f(unsigned row, unsigned col) {{ return {wrong}; }}").term
        with pytest.raises((MismatchError, UndecidedError)):
            proved("wrong", term, (row, col), raw, 0, table)
    narrow = read_c(
        "unsigned f(unsigned row, unsigned col) { return (row * 4194304 + col * 1024) / 1024; }"
    ).term
    with pytest.raises(UndecidedError, match="keeps every bit"):
        proved("wraps", narrow, (row, col), raw, 0, table)
    small = Layout((8, 8), (8, 1))
    term = read_c("int f(int row, int col) { return row * 8 + col + (row == 7 && col == 7); }").term
    with pytest.raises(MismatchError, match="at row=7, col=7"):
        proved("wrong", term, (Var("row", 8), Var("col", 8)), small(row, col), 0, lambda at: small(*at))
    with pytest.raises(MismatchError, match="the printed layout is not"):
        proved_cute("wrong", code(Layout((8, 8)), "cpp"), {"layout": small})


def test_steps_are_those_of_the_values() -> None:
    i, j = Var("i", 96), Var("j", 8)
    for node in (
        i % 12 * 5 + i // 4 * 7, (i ^ j) + i // 32 * 100, ((i * 6 + j) // 8) * 3, (i & 6) * 4 + (i >> 3),
        (i << 2) % 24,
    ):  # fmt: skip
        found = steps(node, i)
        assert found is not None
        period = np.lcm(found.need, found.ratio.denominator)
        a, b = (axis.reshape(-1) for axis in np.indices((96, 8)))
        moved = evaluate(node, {i: a + period, j: b}) - evaluate(node, {i: a, j: b})
        assert (moved == int(found.ratio * int(period))).all(), node
    assert steps(i * j, i) is None and steps((i ^ j * 2) ^ i, i) is None


@each(
    "layout,options,error,said",
    [
        ("(4,8):(8,1)", {"to": "rust"}, UnknownNameError, "unknown language 'rust'"),
        ("(4,8):(8,1)", {"unit": "words"}, UnknownNameError, "unknown unit 'words'"),
        ("(4,8):(8,1)", {"name": "f; system(1)"}, IRError, "cannot name something"),
        ("(4,8):(8,1)", {"name": "lambda"}, ArgumentTypeError, "cannot be a name in every language"),
        ("(4,8):(8,1)", {"parameters": ("a",)}, ArgumentTypeError, "2 names are needed"),
        ("(4,8):(8,1)", {"parameters": ("a", "a")}, ArgumentTypeError, "two have one name"),
        ("(4,8):(8,1)", {"through": "(64,1):(1,0)"}, ShapeError, "reaches index 63"),
        ("(4,8):(8,1)", {"through": "(4,2,2):(1,4,8)"}, ShapeError, "has 3 modes"),
        ("(4,8):(8,1)", {"through": 7}, ArgumentTypeError, "a TV layout, a TiledCopy or an access is needed"),
        ("(4,8):(8,1)", {"unit": "bytes", "element": "s4"}, AlignmentError, "has 4 bits; count elements"),
        ("(4,8):(4611686018427387904,1)", {}, ResourceError, "bits of an offset"),
        ("Sw<2,3,3> o 0 o (7,6):(-6,1)", {}, UnsupportedError, "may be given a number below 0"),
        ("(4,8):(1@0,1@1)", {}, UnsupportedError, "code"),
        ("((5,2843,1109,1188),301):((75930556134,6587460,1,5545),1024)", {}, UndecidedError, "are looked at"),
    ],
)
def test_what_is_refused_is_named(
    layout: str, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        code(read(layout), **options)
