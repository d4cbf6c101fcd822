"""Index functions of layouts with symbols: what compilers make of them is the layout at any values."""

from __future__ import annotations

import ctypes
import random
from collections import Counter
from typing import Any

import pytest
import sympy

from layoutalg import Layout, errors
from layoutalg.codegen.expr import Const, Var
from layoutalg.indexing import code, identify
from layoutalg.indexing.open_layouts import opened, prove_polynomial
from layoutalg.layout import flatten_tree, product, substituted
from layoutalg.symbolic import SymbolicLayout
from layoutalg.testing import compile_shared
from tests.draws.open_layouts import Open, drawn

LD, N = (sympy.Symbol(name, integer=True) for name in ("ld", "n"))
POINTS = 12


def at(layout: Layout | SymbolicLayout, values: dict[str, int], crd: tuple[int, ...]) -> int:
    """The layout at numbers in place of its symbols, by definition."""
    if isinstance(layout, SymbolicLayout):
        symbols = {s: values[s.name] for s in _symbols(layout.stride, layout.offset)}
        return int(layout.at(symbols)(*crd))
    symbols = {s: values[s.name] for s in _symbols(layout.shape, layout.stride)}
    return int(Layout(substituted(layout.shape, symbols), substituted(layout.stride, symbols))(*crd))


def _symbols(*trees: Any) -> set[Any]:
    return {s for tree in trees for leaf in flatten_tree(tree) for s in getattr(leaf, "free_symbols", ())}


def sizes(layout: Layout | SymbolicLayout, values: dict[str, int]) -> list[int]:
    """The extents of the parameters at these values."""
    shape = substituted(layout.shape, {s: values[s.name] for s in _symbols(layout.shape)})
    return [int(product(part)) for part in (shape if isinstance(shape, tuple) else (shape,))]


@pytest.mark.parametrize(("seed", "count"), [(46001, 60), pytest.param(46002, 2000, marks=pytest.mark.deep)])
def test_functions_that_take_symbols_are_their_layouts_when_compiled(seed: int, count: int) -> None:
    rng = random.Random(seed)
    cases: list[Open] = [drawn(rng) for _ in range(count)]
    texts, made, refused = [], [], Counter[str]()
    for k, case in enumerate(cases):
        known = {
            s.name for s in _symbols(case.layout.shape, case.layout.stride, getattr(case.layout, "offset", 0))
        }
        if not known:
            continue
        try:
            text = code(case.layout, "c", f"f{k}", where={n: v for n, v in case.values.items() if n in known})
        except errors.UnsupportedError as error:
            assert "may be below 0" in str(error)
            refused["below 0"] += 1
            continue
        texts.append(text.replace(f" f{k}(", f" f{k}_(", 1))
        names = [part.split()[-1] for part in text.partition("(")[2].partition(")")[0].split(", ")]
        arguments = ", ".join(f"p[{j}]" for j in range(len(names)))
        texts.append(f"long long f{k}(const long long *p) {{ return (long long)f{k}_({arguments}); }}")
        made.append((k, case, names))
    assert len(made) > count * 0.6, refused
    library = compile_shared("\n".join(texts), language="c", flags=("-O0",))
    for k, case, names in made:
        function = getattr(library, f"f{k}")
        function.restype = ctypes.c_longlong
        for _ in range(POINTS):
            values = case.point(rng)
            extents = sizes(case.layout, values)
            crd = tuple(rng.choice((0, n - 1, rng.randrange(n))) for n in extents)
            given = [*crd, *(values[name] for name in names[len(crd) :])]
            found = function((ctypes.c_longlong * len(given))(*given))
            assert found == at(case.layout, values, crd), (str(case.layout), values, crd)


def test_a_wrong_text_is_no_polynomial_of_the_layout() -> None:
    made = opened((), 0, Layout((8, 4), (LD, 1)), {"ld": Var("ld", 64, "param", 4)}, ("row", "col"))
    row, ld = made.parameters[0], Var("ld", 64, "param", 4)
    prove_polynomial("code", made.at, 0, made)
    for wrong in (made.at + 1, row * ld, made.at + row, row * ld * ld + made.parameters[1], Const(3)):
        with pytest.raises(errors.MismatchError):
            prove_polynomial("code", wrong, 0, made)
    with pytest.raises(errors.UndecidedError):
        prove_polynomial("code", made.at % 7, 0, made)


@pytest.mark.parametrize(
    ("layout", "options", "error", "said"),
    [
        (Layout(8, sympy.Symbol("int", integer=True)), {}, errors.IRError, "int"),
        (Layout(8, LD), {"where": "ld in 9..2"}, errors.ShapeError, "ld has no value"),
        (Layout(8, LD), {"where": "m in 1..2"}, errors.UnknownNameError, "symbol 'm'"),
        (Layout(8, LD), {"where": "ld > x"}, errors.ParseError, "ld in 32..4096"),
        (Layout(8, 2 * N - 8), {"where": "n in 3..9"}, errors.UnsupportedError, "n in 3..9"),
        (Layout((8, 8), (LD, 1)), {"parameters": ("ld", "c")}, errors.ArgumentTypeError, "'ld'"),
        (Layout((8, 8), (LD, LD**4)), {}, errors.ResourceError, "ld up to"),
        (Layout(8, 1), {"where": "n in 3..9"}, errors.ArgumentTypeError, "no symbol"),
    ],
)
def test_what_is_missing_is_named(layout: Any, options: Any, error: type[Exception], said: str) -> None:
    with pytest.raises(error, match=said.replace(".", r"\.")):
        code(layout, "c", **options)


@pytest.mark.parametrize(("seed", "count"), [(46003, 25), pytest.param(46004, 400, marks=pytest.mark.deep)])
def test_layouts_with_symbols_come_back_from_their_functions(seed: int, count: int) -> None:
    rng, met = random.Random(seed), 0
    for _ in range(count):
        layout, values = drawn(rng, known_extents=True, swizzles=False)
        names = sorted(s.name for s in _symbols(layout.shape, layout.stride, getattr(layout, "offset", 0)))
        if not names:
            continue
        where = {n: values[n] for n in names}
        try:
            text = code(layout, rng.choice(("c", "python")), where=where)
        except errors.UnsupportedError:
            continue
        found = identify(text, layout.shape, where=where)
        assert found.symbolic is not None, (str(layout), found.why)
        met += 1
        for _ in range(POINTS):
            point = {n: rng.choice(values[n].range()) for n in names}
            crd = tuple(rng.randrange(n) for n in sizes(layout, point))
            assert at(found.symbolic, point, crd) == at(layout, point, crd), (str(layout), str(found))
    assert met > count // 4


def test_what_is_no_layout_for_all_values_is_refused_with_a_witness() -> None:
    found = identify("def f(row, col, ld): return row * ld + (col ^ row % 8)", (32, 32), where="ld in 1..64")
    assert found.layout is None and found.symbolic is None and found.witness
    with pytest.raises(errors.UndecidedError, match="not a polynomial in ld"):
        identify("def f(row, col, ld): return row * (ld // 8) + col", (32, 32), where="ld in 1..4096")
    found = identify("int f(int i, int n) { return i * n; }", 8, where="n in 0..1000")
    assert str(found) == "8:n"
    with pytest.raises(errors.UndecidedError, match="intervals do not show"):
        identify("int f(int i, int n) { return i * n; }", 8, where="n in 0..2000000000")
