"""Laws of `identify`: every affine function comes back, a wrong offset is shown, and three readers agree."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from layoutalg import ComposedLayout, Layout, size
from layoutalg.errors import MismatchError
from layoutalg.indexing import identify
from layoutalg.source import read_kernel
from layoutalg.testing import check_index_function
from tests.sweeps import each


def _shape(rng: random.Random) -> tuple[int, ...]:
    return tuple(rng.choice((1, 2, 3, 4, 5, 6, 8, 12)) for _ in range(rng.randint(1, 4)))


def _affine(rng: random.Random, shape: tuple[int, ...]) -> tuple[np.ndarray, list[int], int]:
    """The table of an affine function, its strides, and its offset at 0, not below 0 anywhere."""
    strides = [rng.choice((0, 1, 2, 3, 7, 16, 33, 100, -1, -5, 1 << 20)) for _ in shape]
    first = -sum(d * (n - 1) for d, n in zip(strides, shape, strict=True) if d < 0) + rng.choice((0, 0, 1, 9))
    axes = np.indices(shape)
    return first + sum(d * axis for d, axis in zip(strides, axes, strict=True)), strides, first


def test_every_affine_function_comes_back() -> None:
    """Strides are the differences along the axes; a layout of one shape is plain or padded, never another."""
    rng = random.Random(31)
    for _ in range(300):
        shape = _shape(rng)
        table, strides, first = _affine(rng, shape)
        found = identify(table)
        assert found.layout is not None and found.kind in ("plain", "padded"), (shape, strides, found.why)
        layout = found.layout
        flat = layout(np.arange(size(layout))) + np.zeros(size(layout), dtype=np.int64)
        assert (flat == table.flatten(order="F")).all(), (shape, strides)
        assert isinstance(layout, ComposedLayout) == (first > 0)
        plain = layout.inner if isinstance(layout, ComposedLayout) else layout
        assert isinstance(plain, Layout)
        if isinstance(plain.shape, tuple) and plain.shape == shape:
            wanted = tuple(d if n > 1 else 0 for d, n in zip(strides, shape, strict=True))
            assert plain.stride == wanted, (shape, strides)


def test_padded_is_a_gap_between_modes() -> None:
    rng = random.Random(32)
    for _ in range(100):
        rows, columns = rng.randint(2, 9), rng.randint(2, 9)
        pitch = columns + rng.choice((0, 0, 1, 3))
        found = identify(np.add.outer(np.arange(rows) * pitch, np.arange(columns)))
        assert found.kind == ("padded" if pitch > columns else "plain"), (rows, columns, pitch)


def test_one_wrong_offset_is_no_affine_function_and_its_witness_breaks_the_law() -> None:
    """f(a) - f(0) is not the sum along the modes, at the coordinates that are shown."""
    rng = random.Random(33)
    shown = 0
    for _ in range(40):
        shape = tuple(rng.choice((3, 5)) for _ in range(rng.randint(2, 3)))
        table, _, _ = _affine(rng, shape)
        place = tuple(rng.randrange(n) for n in shape)
        wrong = table.copy()
        wrong[place] += rng.choice((1, 2, 11, 50))
        found = identify(wrong)
        if found.layout is not None:  # another law may hold: what is found is the table
            flat = found.layout(np.arange(wrong.size)) + np.zeros(wrong.size, dtype=np.int64)
            assert (flat == wrong.flatten(order="F")).all()
            continue
        if found.why.startswith("offsets do not add"):
            shown += 1
            at = [tuple(w) if isinstance(w, tuple) else (w,) for w in found.witness]
            assert wrong[at[0]] - wrong[at[-1]] != sum(wrong[p] - wrong[at[-1]] for p in at[1:-1]), found.why
    assert shown > 25


def test_a_function_and_its_table_are_the_same() -> None:
    """The text of an affine function, in C and in Python, and its numbers."""
    rng = random.Random(34)
    for _ in range(60):
        shape = tuple(rng.randint(2, 9) for _ in range(rng.randint(1, 3)))
        table, strides, first = _affine(rng, shape)
        names = [f"i{m}" for m in range(len(shape))]
        text = " + ".join([f"{n} * ({d})" for n, d in zip(names, strides, strict=True)] + [str(first)])
        given: Any = shape if len(shape) > 1 else shape[0]
        wanted = identify(table).layout
        parameters = ", ".join(f"int {n}" for n in names)
        assert identify(f"int f({parameters}) {{ return {text}; }}", given).layout == wanted
        assert identify(f"def f({', '.join(names)}): return {text}", given).layout == wanted
        assert identify(text, given, expression=True, parameters=names).layout == wanted


F = "FN f(int i, int j) { return i * LD + j; }\n"
MACROS = (
    # a file with f(i, j); its stride of i
    (f"#define LD 64\n{F}#undef LD\n#define LD 128\nFN g(int i, int j) {{ return i * LD + j; }}\n", 64),
    (f"#define LD 64\n#undef LD\n#define LD 96\n{F}", 96),
    (
        "#define ROW(i) ((i) * 40)\nFN f(int i, int j) { return ROW(\n  i) + j; }\n"
        "#undef ROW\n#define ROW(i) 0\n",
        40,
    ),
    (f"#define A 8\n#define LD (A * 4)\n#undef A\n#define A 16\n{F}", 64),
    (f"#ifdef LD\n#else\n#define LD 48\n#endif\n{F}#undef LD\n", 48),
)


@each(("text", "stride"), MACROS, sample=1)
def test_a_macro_is_what_it_is_at_its_line(text: str, stride: int) -> None:
    """identify, check and kernel read one file alike."""
    source = text.replace("FN", "__device__ int")
    layout = Layout((4, 8), (stride, 1))
    assert identify(source, (4, 8), function="f").layout == layout
    check_index_function(source, layout, "f")
    try:
        check_index_function(source, Layout((4, 8), (stride + 1, 1)), "f")
    except MismatchError:
        pass
    else:
        raise AssertionError("another layout is accepted")
    kernel = "__global__ void k() { __shared__ float s[1024]; s[f(threadIdx.x % 4, threadIdx.x / 4)] = 1; }"
    plain = kernel.replace(
        "f(threadIdx.x % 4, threadIdx.x / 4)", f"threadIdx.x % 4 * {stride} + threadIdx.x / 4"
    )
    found, wanted = (read_kernel(given, 32).memory for given in (source + kernel, source + plain))
    assert [(a.instructions, a.total) for a in found] == [(a.instructions, a.total) for a in wanted]
