"""identify: every kind of layout from functions and arrays, and witnesses that hold where there is none."""

from __future__ import annotations

import contextlib
import random
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    MismatchError,
    ParseError,
    ResourceError,
    ShapeError,
)
from layoutalg.indexing import code, identify, parse_array
from layoutalg.layout import product
from layoutalg.source import read_kernel
from layoutalg.testing import check_index_function
from tests.draws import index_functions
from tests.sweeps import each


def offsets(layout: AnyLayout) -> Any:
    """The layout at every flat index."""
    return layout(np.arange(size(layout))) + np.zeros(size(layout), dtype=np.int64)


def extents(layout: AnyLayout) -> tuple[int, ...]:
    """Sizes of the modes."""
    return tuple(map(product, layout.shape)) if isinstance(layout.shape, tuple) else (layout.shape,)


@pytest.mark.deep
def test_what_code_prints_is_identified_as_the_same_function() -> None:
    rng = random.Random(1)
    for layout in index_functions.tiles(7, 120):
        shape = extents(layout) if isinstance(layout.shape, tuple) else layout.shape
        found = identify(code(layout, rng.choice(("c", "cuda", "python")), "at"), shape)
        assert found.layout is not None, (layout, found.why)
        assert (offsets(found.layout) == offsets(layout)).all() and found.layout.shape is not None
        assert identify(offsets(layout), shape).layout == found.layout


@pytest.mark.deep
def test_a_long_sum_is_read_and_a_deep_text_refused() -> None:
    for language in ("c", "python"):
        found = identify(" + ".join(["i"] * 1500), 8, expression=True, language=language)
        assert found.layout == Layout(8, 1500)
    early = "".join(f"if (i == {n}) return i * 3;\n" for n in range(2000))
    deep = "".join(f"if (i < {n}) i += 1; else return 1;\n" for n in range(2000))
    python = "def f(i):\n if i == 0: x = 0\n" + " elif i == 1: x = 1\n" * 800 + " return i"
    assert identify(f"int f(int i) {{ {early} return 0; }}", 8).layout == Layout(8, 3)
    for text in (python, f"int f(int i) {{ {deep} return 0; }}"):
        with pytest.raises(ParseError, match="nested too deep"):
            identify(text, 8)


def affine(rng: random.Random, shape: tuple[int, ...]) -> tuple[np.ndarray, list[int], int]:
    """The table of an affine function, its strides, and its offset at 0, not below 0 anywhere."""
    strides = [rng.choice((0, 1, 2, 3, 7, 16, 33, 100, -1, -5, 1 << 20)) for _ in shape]
    first = -sum(d * (n - 1) for d, n in zip(strides, shape, strict=True) if d < 0) + rng.choice((0, 0, 1, 9))
    return first + sum(d * x for d, x in zip(strides, np.indices(shape), strict=True)), strides, first


def test_every_affine_function_comes_back() -> None:
    """Strides are the differences along the axes; of a text in C or Python and of its table alike."""
    rng = random.Random(31)
    for n in range(300):
        shape = tuple(rng.choice((1, 2, 3, 4, 5, 6, 8, 12)) for _ in range(rng.randint(1, 4)))
        table, strides, first = affine(rng, shape)
        found = identify(table)
        layout = found.layout
        assert layout is not None and found.kind in ("plain", "padded"), (shape, strides, found.why)
        assert (offsets(layout) == table.flatten(order="F")).all(), (shape, strides)
        assert isinstance(layout, ComposedLayout) == (first > 0)
        inner = layout.inner if isinstance(layout, ComposedLayout) else layout
        assert isinstance(inner, Layout)
        if inner.shape == shape:
            assert inner.stride == tuple(d * (n > 1) for d, n in zip(strides, shape, strict=True))
        if n % 5 == 0:
            names = [f"i{m}" for m in range(len(shape))]
            text = " + ".join([f"{n} * ({d})" for n, d in zip(names, strides, strict=True)] + [str(first)])
            given: Any = shape if len(shape) > 1 else shape[0]
            parameters = ", ".join(f"int {n}" for n in names)
            for source in (
                f"int f({parameters}) {{ return {text}; }}",
                f"def f({', '.join(names)}): return {text}",
            ):
                assert identify(source, given).layout == layout
            assert identify(text, given, expression=True, parameters=names).layout == layout


def test_padded_is_a_gap_between_modes() -> None:
    rng = random.Random(32)
    for _ in range(100):
        rows, columns = rng.randint(2, 9), rng.randint(2, 9)
        pitch = columns + rng.choice((0, 0, 1, 3, -1))
        found = identify(np.add.outer(np.arange(rows) * pitch, np.arange(columns)))
        assert found.kind == ("padded" if pitch > columns else "plain"), (rows, columns, pitch)


def of_a_law(rng: random.Random, kind: str) -> Any:
    """The table of a function that has a law beyond the affine ones, by its definition."""
    rows, columns = (rng.choice((4, 6, 8, 12, 16)) for _ in range(2))
    r, c = np.indices((rows, columns))
    bits, base, pitch = rng.randint(1, 3), rng.randint(0, 2), rng.choice((16, 32, 64))
    first = rng.choice((0, 0, 1, 5))
    match kind:
        case "swizzled":
            return np.vectorize(Swizzle(bits, base, rng.choice((bits, bits + 1, -bits))))(
                r * pitch + c + first
            )
        case "pitched":
            c = np.indices((rows, rng.choice((1, 2, 3)) << bits + base))[1]
            r = np.indices(c.shape)[0]
            return r * (c.shape[1] + 32) + (c ^ (r % (1 << bits) << base)) + first
        case "rotation":
            turn, apart = rng.randint(1, 5), rng.choice((1, 2))
            return r * columns * apart + (c + r * turn + first) % columns
        case "affine over F2":
            r, c = np.indices((1 << rng.randint(1, 4), 1 << rng.randint(1, 4)))
            columns_of = [rng.randrange(1 << 9) for _ in range(8)]
            out = np.full(r.shape, rng.randrange(1 << 9))
            for k in range(4):
                out = out ^ (r >> k & 1) * columns_of[k] ^ (c >> k & 1) * columns_of[k + 4]
            return out
    first_swizzle = Swizzle(2, 0, rng.choice((3, 4)))
    second = Swizzle(1, rng.choice((1, 2)), rng.choice((2, 4)))
    return np.vectorize(lambda x: first_swizzle(second(int(x))))(r * pitch + c)


KINDS = {"swizzled": ("swizzled", 12), "pitched": ("swizzled", 12), "rotation": ("rotation", 12),
         "affine over F2": ("F2", 12), "twice": ("F2", 3)}  # fmt: skip
"""Tables by their law, with the kind that so many of them are found to be; others have a simpler law."""


@each("kind", KINDS, sample=3)
def test_tables_of_every_law_come_back(kind: str) -> None:
    rng, seen = random.Random(kind), Counter[str]()
    for _ in range(25):
        table = of_a_law(rng, kind)
        found = identify(table)
        assert found.layout is not None, (kind, table.tolist())
        assert (offsets(found.layout) == table.flatten(order="F")).all(), str(found)
        seen[found.kind] += 1
    name, least = KINDS[kind]
    assert seen[name] >= least, seen


def test_a_witness_breaks_the_law(monkeypatch: pytest.MonkeyPatch) -> None:
    """f(a) - f(0) is not the sum along the modes, or of digits, at the coordinates that are shown."""
    rng, seen = random.Random(33), Counter[str]()
    for law in ("swizzled", "rotated", "pitched", "twice_swizzled"):  # which take longer
        monkeypatch.setattr(f"layoutalg.indexing.laws._{law}", lambda cube: iter(()))
    for _ in range(80):
        shape = tuple(rng.choice((3, 4, 5, 6)) for _ in range(rng.randint(1, 3)))
        wrong, _, _ = affine(rng, shape)
        wrong[tuple(rng.randrange(n) for n in shape)] += rng.choice((1, 2, 11, 50))
        found = identify(wrong)
        if found.layout is not None:
            assert (offsets(found.layout) == wrong.flatten(order="F")).all()
            continue
        at: list[Any] = [w if isinstance(w, tuple) else (w,) for w in found.witness]
        first = int(wrong[(0,) * len(shape)])
        if found.why.startswith("offsets do not add"):
            assert wrong[at[0]] - wrong[at[-1]] != sum(wrong[p] - wrong[at[-1]] for p in at[1:-1]), found.why
            assert f"is {wrong[at[0]] - first}, and its modes alone make" in found.why
        elif len(at) == 3:
            assert sum(at[1]) + sum(at[2]) == sum(at[0]), found.why
            assert wrong[at[0]] - first != wrong[at[1]] + wrong[at[2]] - 2 * first, found.why
        else:  # steps are equal up to a place that no digit ends at
            assert len(at) == 1 and "which no digit divides" in found.why
            (mode,) = (m for m, n in enumerate(at[0]) if n) if any(at[0]) else (0,)
            assert shape[mode] % at[0][mode]
        seen[found.why.split(" ")[0] + str(len(at))] += 1
    assert len(seen) > 2 and sum(seen.values()) > 50, seen
    assert identify("row - 5 + col", (4, 4), expression=True).why.startswith("f(0,0) is -5")


@each(("index", "shape", "text", "kind"), [
    ("row / 2 * 40 + row % 2 + col * 4", (8, 8), "((2,4),8):((1,40),4)", "padded"),
    ("row - row + col", (8, 64), "(8,64):(0,1)", "plain"),
    ("7 - row + 8 * col", (8, 4), "Sw<0,0,0> o 7 o (8,4):(-1,8)", "plain"),
    ("row * 64 + (col ^ row % 8 * 8)", (16, 64), "Sw<3,3,3> o 0 o (16,64):(64,1)", "swizzled"),
    ("row * 60 + ((col * 4) ^ (row * 60 / 16 & 4))", (9, 15), "no layout", ""),
    ("row * 64 + (col ^ row % 3 * 8)", (6, 64), "no layout", ""),
    ("row * 64 + (col + row * 8) % 64", (8, 64), "(64,2,8):(1,0,64) o 0 o (8,64):(136,1)", "rotation"),
    ("(i / 8 * 144 + i % 8 * 16)", (32,), "(8,4):(16,144)", "padded"),
    ("row * col + col", (4, 4), "no layout: offsets do not add", ""),
    ("i * i", (8,), "no layout: mode 0 has no digits: ", ""),
    ("row / (col - 3)", (4, 8), "no layout: at (0,3) there is a division by zero at line 1, column 5", ""),
    ("row * 1000000000 + col", (4, 4), "no layout: at (3,0) there is a result of '*' past the 32 bits", ""),
    ("row // 2 * 4 + col", (4, 4), "((2,2),4):((0,4),1)", "plain"),
])  # fmt: skip
def test_expressions(index: str, shape: Any, text: str, kind: str) -> None:
    found = identify(index, shape if len(shape) > 1 else shape[0], expression=True)
    assert found.kind == kind and str(found).startswith(text)
    assert bool(found.witness) == (kind == "")


def test_arrays_in_every_spelling() -> None:
    for text in ("[[0, 1, 2], [4, 5, 6]]", "{{0, 1, 2}, {4, 5, 6},};", "0 1 2 # first\n0x4, 5, 6\n"):
        assert str(identify(parse_array(text)).layout) == "(2,3):(4,1)"
    for source, shape, wanted in (
        (np.arange(24).reshape(2, 3, 4), None, "(2,3,4):(12,4,1)"), ([0, 8, 1, 9], (2, 2), "(2,2):(8,1)"),
        ([0, 8, 1, 9], None, "(2,2):(8,1)"), ([3], 1, "Sw<0,0,0> o 3 o 1:0"), ([0, 2, 4], (3,), "(3):(2)"),
    ):  # fmt: skip
        assert str(identify(source, shape).layout) == wanted
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
    for large in ([10**26, 0], [2**63, 0], [[0, -(10**30)]]):
        with pytest.raises(ResourceError, match="magnitude of an offset"):
            identify(large)


AT = "__device__ unsigned at(unsigned col, unsigned row) { return row * 64 + col; }"


def test_parameters_follow_their_names_and_leaves() -> None:
    assert str(identify(AT, (8, 64), parameters=("row", "col")).layout) == "(8,64):(64,1)"
    assert str(identify(AT, (8, 64)).layout) == "(8,64):(1,64)"
    leaves = identify("int f(int a, int b, int c) { return a + b * 16 + c * 2; }", ((2, 4), 8))
    assert str(leaves.layout) == "((2,4),8):((1,16),2)"
    assert str(identify("def f(i): return i % 4 * 8 + i // 4", (4, 8)).layout) == "(4,8):(8,1)"


@each(("source", "shape", "options", "error", "said"), [
    (AT, (8, 64), {"parameters": ("r", "c")}, ArgumentTypeError, "takes .col, row., and the modes are"),
    (AT, (8, 8, 8), {}, ShapeError, "takes 2 parameters .col, row.; for the shape .8,8,8."),
    (AT, None, {}, ShapeError, "its shape is needed"), (AT, (8, 0), {}, ShapeError, "must be positive"),
    (AT, (1 << 20, 64), {}, ResourceError, "coordinates of the function"),
    ("int f(unsigned char i) { return i; }", 300, {}, ShapeError, "does not hold 299"),
    ([0, 0.5], None, {}, ArgumentTypeError, "integers are needed"),
    ([0, 1], 3, {}, ShapeError, "are not of 3"),
    ([[0, 1], [2, 3]], (4, 1), {}, ShapeError, "are not of"),
])  # fmt: skip
def test_what_is_no_function_of_a_shape(
    source: Any, shape: Any, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=said):
        identify(source, shape, **options)


def test_nothing_of_a_text_is_run(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    for text in (
        f"def f(i):\n    open({str(mark)!r}, 'w')\n    return i",
        f"import os\nos.system('touch {mark}')\ndef f(i): return i",
        f"f = lambda i: __import__('os').system('touch {mark}') or i",
        f'#include "{mark}"\nint f(int i) {{ system("touch {mark}"); return i; }}',
    ):
        with contextlib.suppress(LayoutAlgError):  # what stands beside f is not read
            assert str(identify(text, 8, function="f").layout) == "8:1"
        assert not mark.exists()


F = "FN f(int i, int j) { return i * LD + j; }\n"


@pytest.mark.deep
@each(("text", "stride"), [
    (f"#define LD 64\n{F}#undef LD\n#define LD 128\nFN g(int i, int j) {{ return i * LD + j; }}\n", 64),
    (f"#define LD 64\n#undef LD\n#define LD 96\n{F}", 96),
    (f"#define A 8\n#define LD (A * 4)\n#undef A\n#define A 16\n{F}", 64),
    (f"#ifdef LD\n#else\n#define LD 48\n#endif\n{F}#undef LD\n", 48),
], sample=1)  # fmt: skip
def test_a_macro_is_what_it_is_at_its_line(text: str, stride: int) -> None:
    """identify, check and kernel read one file alike."""
    source = text.replace("FN", "__device__ int")
    layout = Layout((4, 8), (stride, 1))
    assert identify(source, (4, 8), function="f").layout == layout
    check_index_function(source, layout, "f")
    with pytest.raises(MismatchError):
        check_index_function(source, Layout((4, 8), (stride + 1, 1)), "f")
    kernel = "__global__ void k() {{ __shared__ float s[1024]; "
    kernel += "int r = threadIdx.x % 4, c = threadIdx.x / 4; s[{}] = 1; }}"
    found, wanted = (
        read_kernel(source + kernel.format(at), 32).memory for at in ("f(r, c)", f"r * {stride} + c")
    )
    assert [(a.instructions, a.total) for a in found] == [(a.instructions, a.total) for a in wanted]
