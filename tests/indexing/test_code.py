"""Printed index functions: what compilers and Python make of them is the layout, or they are refused."""

from __future__ import annotations

import ctypes
import itertools
import random
import re
from collections import Counter
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg import AnyLayout, Layout, errors, make_tiled_copy, size
from layoutalg.analysis import Access
from layoutalg.codegen.expr import Expr, Var, evaluate
from layoutalg.indexing import TARGETS, Side, code, proofs
from layoutalg.indexing.lowering import offset_of
from layoutalg.reading import evaluated, read_c, read_python
from layoutalg.testing import compile_shared
from tests.draws import index_functions
from tests.draws.expressions import expressions
from tests.draws.index_functions import read
from tests.notation.test_cpp_forms import headers
from tests.reading.drawn_functions import Writer
from tests.sweeps import each

TILES = index_functions.tiles(20261122, 60)
SWIZZLED = read("Sw<3,3,3> o 0 o (64,64):(64,1)")


def extents(layout: AnyLayout) -> tuple[int, ...]:
    """Sizes of the parameters."""
    return tuple(map(size, layout.shape)) if isinstance(layout.shape, tuple) else (layout.shape,)


def grid(layout: AnyLayout) -> list[Any]:
    """The parameters at every coordinate, the first fastest."""
    return [axis.flatten(order="F") for axis in np.indices(extents(layout))]


def offsets(layout: AnyLayout) -> Any:
    """The layout at every coordinate."""
    return layout(np.arange(size(layout))) + np.zeros(size(layout), dtype=np.int64)


def ran(text: str, name: str = "f") -> Any:
    """The function of a text in Python, Triton or the DSL."""
    space: dict[str, Any] = {"triton": SimpleNamespace(jit=lambda f: f)}
    exec(compile(text, name, "exec"), space)
    return space[name]


@pytest.mark.parametrize("most", [8, pytest.param(60, marks=pytest.mark.deep)])
def test_functions_in_c_and_cuda_are_their_layouts_when_compiled(most: int) -> None:
    texts, calls = [], []
    for n, layout in enumerate(TILES[:most]):
        texts += [code(layout, "c", f"c{n}"), code(layout, "cuda", f"d{n}").replace("__forceinline__", "")]
        given = ", ".join(f"x[{m}][i]" for m in range(len(extents(layout))))
        for kind in "cd":
            calls.append(
                f"void {kind}{n}_(long long** x, long long n, long long* out) "
                f"{{ for (long long i = 0; i < n; ++i) out[i] = {kind}{n}({given}); }}"
            )
    library = compile_shared("#define __device__\n" + "\n".join((*texts, *calls)), language="c")
    for n, layout in enumerate(TILES[:most]):
        axes = [np.ascontiguousarray(axis) for axis in grid(layout)]
        pointers = (ctypes.c_void_p * len(axes))(*(axis.ctypes.data for axis in axes))
        for kind in "cd":
            out = np.zeros(size(layout), dtype=np.int64)
            library[f"{kind}{n}_"](pointers, ctypes.c_longlong(out.size), ctypes.c_void_p(out.ctypes.data))
            assert (out == offsets(layout)).all(), (layout, texts[2 * n])


@pytest.mark.deep
@each("to", ["python", "triton", "dsl"])
def test_functions_in_python_are_their_layouts(to: str) -> None:
    """With every option: units, a thread-value layout in front, a pointer that a loop carries."""
    rng, seen = random.Random(to), Counter[str]()
    for layout in TILES:
        kind = rng.choice(("f16", "f64", "u8"))
        scale = rng.choice((1, {"f16": 2, "f64": 8, "u8": 1}[kind]))
        unit = "bytes" if scale > 1 or kind == "u8" else "elements"
        domain, front = layout, None
        if rng.random() < 0.4 and size(layout) > 3:
            threads = rng.randint(1, size(layout) // 2)
            front = Layout((threads, 2), rng.choice(((1, threads), (1, 0), (0, 1))))
            domain = front
        wanted = scale * (layout(front(np.arange(size(front)))) if front is not None else offsets(layout))
        names = [f"p{m}" for m in range(len(extents(domain)))]
        options: dict[str, Any] = {"through": front, "element": kind, "unit": unit, "parameters": names}
        axes, carried = grid(domain), rng.randrange(len(names))
        f = ran(code(layout, to, "at", **options), "at")
        assert (f(*axes) + 0 * wanted == wanted).all(), (layout, options)
        table = np.broadcast_to(wanted, size(domain)).reshape(extents(domain), order="F")
        steps = np.diff(table, axis=carried)
        try:
            text = code(layout, to, "at", carry=names[carried], **options)
        except errors.UnsupportedError:
            assert steps.size and (steps != steps.flat[0]).any(), (layout, options)
            seen["not carried"] += 1
            continue
        step = int(steps.flat[0]) if steps.size else 0
        rest = [axis for m, axis in enumerate(axes) if m != carried]
        assert f", adds {step} to the pointer" in text.replace(f"of {extents(domain)[carried]}, ", ", ")
        assert (ran(text, "at")(7, *rest) + axes[carried] * step == 7 + wanted).all(), (layout, text)
        seen["carried"] += 1
    assert min(seen["carried"], seen["not carried"]) > 8, seen


@pytest.mark.deep
def test_functions_in_cute_are_their_layouts_when_compiled() -> None:
    flags = headers()
    chosen = [t for t in TILES if size(t) <= 1 << 11][:24]
    text = "#include <cute/layout_composed.hpp>\n#include <cute/swizzle_layout.hpp>\n"
    for n, layout in enumerate(chosen):
        arguments = ", ".join(f"x[{m}]" for m in range(len(extents(layout))))
        text += code(layout, "cpp", f"f{n}")
        text += f'\nextern "C" long long g{n}(const long long* x) {{ return f{n}({arguments}); }}\n'
    library = compile_shared(text, flags=flags)
    for n, layout in enumerate(chosen):
        call = library[f"g{n}"]
        call.restype = ctypes.c_longlong
        axes = grid(layout)
        for i, offset in enumerate(offsets(layout)):
            assert call((ctypes.c_longlong * len(axes))(*(int(a[i]) for a in axes))) == offset, layout


def test_it_is_one_function_and_nothing_else() -> None:
    for to in TARGETS:
        text = code(SWIZZLED, to, "swz")
        lines = text.splitlines()
        assert lines[0] == "@triton.jit" if to == "triton" else "swz(" in lines[0]
        assert len(re.findall(r"\bswz\(", text)) == 1 and "#include" not in text and "import" not in text
        assert any("row in [0,64), col in [0,64)" in line for line in lines)
        assert text == SWIZZLED.code(to, "swz")


def test_through_a_copy_and_ldmatrix() -> None:
    access = Access.of("ldmatrix.x4", SWIZZLED, "f16")
    options: dict[str, Any] = {"element": "f16", "unit": "bytes"}
    assert code(SWIZZLED, through="ldmatrix.x4", **options) == code(SWIZZLED, through=access, **options)
    assert read_c(code(SWIZZLED, "cuda", through=access, **options), "f").names == ("lane", "fragment")
    f = ran(code(SWIZZLED, "python", through=access, **options))
    for lane, n in np.ndindex(32, size(access.tv[2])):
        assert f(lane, n) == 2 * SWIZZLED(access.tv(lane, 0, n))
    copy = make_tiled_copy("UniversalCopy<uint128_t>", "f16", Layout((16, 8), (8, 1)), Layout((1, 8)))
    sides: dict[Side, Layout] = {"src": copy.get_layoutS_TV(), "dst": copy.get_layoutD_TV()}
    for side, places in sides.items():
        f = ran(code(Layout((16, 64), (72, 1)), "python", through=copy, side=side, element="f16"))
        for tid, u in np.ndindex(128, 8):
            assert f(tid, u) == 72 * (places(int(tid), int(u)) % 16) + places(int(tid), int(u)) // 16
    assert ran(code(SWIZZLED, "python", through="(32,128):(128,1)"))(3, 7) == SWIZZLED(3 * 128 + 7)
    f = ran(code(Layout((64, 64), (64, 1)), "python", through="ld.shared.b128@row", element="f32"))
    assert [f(t, 0) for t in range(4)] == [0, 4, 8, 12]


def test_a_carried_pointer_has_its_type() -> None:
    ring = read("Sw<3,3,3> o 0 o (64,64,8):(64,1,4096)")
    text = code(ring, "cuda", "at", carry="c2")
    assert "template <class T>\n__device__ __forceinline__ T* at(T* p, unsigned c0, unsigned c1)" in text
    text = code(ring, "c", "at", carry="c2", element="f16", unit="bytes")
    assert "char* at(char* p, unsigned c0, unsigned c1)" in text and "adds 8192" in text
    assert "T* p, int c0, int c1" in code(ring, "cpp", carry="c2")
    for to, unit in itertools.product(("cuda", "cpp"), ("elements", "bytes")):
        text = code(ring, to, carry="c2", element="f16", unit=unit)
        assert ("template <class T>\n" in text) == ("T* p" in text) == (unit == "elements")
    with pytest.raises(errors.UnsupportedError, match="the first is 1, and at row=1, col=8"):
        code(SWIZZLED, "cuda", carry="col")


# --- proofs --------------------------------------------------------------------------------------------


@each(("layout", "said"), [
    ("Sw<3,3,3> o 0 o (65536,65536):(65536,1)", "proved over F2"),
    ("(1000,3000):(3001,1)", "proved at 2 coordinates, which stand for all 3,000,000"),
    ("((100,1000),3000):((7,1000),100000)", "proved at 101 coordinates"),
    ("Sw<2,0,3> o 0 o (3000,1200):(1200,1)", "proved at 64 coordinates, which stand for all 3,600,000"),
])  # fmt: skip
def test_large_layouts_are_proved_by_classes(layout: str, said: str) -> None:
    assert said in code(read(layout), "c")


def mistaken(rng: random.Random, text: str) -> str:
    """The text of a function with another number or operator in the last line but one."""
    head, body = text.rsplit("return ", 1)
    places = list(re.finditer(r"\b\d+\b|[-+*/%^&]|>>|<<", body))
    place = rng.choice(places) if places else None
    if place is None:
        return text
    n = int(place[0]) if place[0].isdigit() else None
    other = rng.choice("+*^/%") if n is None else str(rng.choice((n + 1, n * 2, max(1, n - 1), 3)))
    return f"{head}return {body[: place.start()]}{other}{body[place.end() :]}"


@pytest.mark.deep(only=("True",))
@pytest.mark.parametrize("numpy", [True, False])
def test_a_text_that_is_not_the_layout_is_not_proved(numpy: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Right texts and mistaken ones, of which few coordinates may be looked at: what is proved is true."""
    rng, seen = random.Random(3), Counter[str]()
    names = ("p0", "p1", "p2", "p3", "p4")
    layouts = [layout for layout in index_functions.tiles(3, 40) if size(layout) <= 1 << 10]
    texts = [code(layout, "c", parameters=names[: len(extents(layout))]) for layout in layouts]
    monkeypatch.setattr(proofs, "has_numpy", lambda: numpy)
    for layout, right in zip(layouts, texts, strict=True):
        variables = [Var(name, n) for name, n in zip(names, extents(layout), strict=False)]
        raw, less = offset_of(layout, variables)
        for text in (right, *(mistaken(rng, right) for _ in range(6))):
            most = rng.choice((1 << 5, 1 << 20))
            monkeypatch.setattr(proofs, "ENUMERATED" if numpy else "ENUMERATED_WITHOUT_NUMPY", most)
            term = read_c(text).term
            try:
                proofs.proved("f", term, variables, raw, less, _at(layout))
            except (errors.MismatchError, errors.UndecidedError) as error:
                seen[type(error).__name__] += 1
                assert text != right or not isinstance(error, errors.MismatchError), (layout, text)
                continue
            values, bad = evaluated(term, dict(zip(names, grid(layout), strict=False)))
            assert bad is None and (values + 0 * offsets(layout) == offsets(layout)).all(), (layout, text)
            seen["proved"] += 1
    assert min(seen.values()) > 5 and len(seen) == 3, seen


def _at(layout: AnyLayout) -> proofs.Table:
    return lambda at: layout(*at)


INDEX = (Var("i", 48), Var("j", 12), Var("n", 5, "param", 2))


@given(expressions(INDEX, 6), st.sampled_from(INDEX[:2]))
def test_steps_are_those_of_the_values(node: Expr, moved: Var) -> None:
    found = proofs.steps(node, moved)
    if found is None:
        return
    period = int(np.lcm(found.need, found.ratio.denominator))
    axes = np.meshgrid(*(np.arange(v.facts.lo, v.facts.hi + 1) for v in INDEX), indexing="ij")
    env = {v: axis.reshape(-1) for v, axis in zip(INDEX, axes, strict=True)}
    inside = env[moved] + period <= moved.facts.hi
    before = {v: axis[inside] for v, axis in env.items()}
    if inside.any():
        after = before | {moved: before[moved] + period}
        assert (evaluate(node, after) - evaluate(node, before) == int(found.ratio * period)).all(), found


@each(("layout", "options", "error", "said"), [
    ("(4,8):(8,1)", {"to": "rust"}, errors.UnknownNameError, "unknown language 'rust'"),
    ("(4,8):(8,1)", {"unit": "words"}, errors.UnknownNameError, "unknown unit 'words'"),
    ("(4,8):(8,1)", {"side": "left"}, errors.UnknownNameError, "unknown side"),
    ("(4,8):(8,1)", {"carry": "z"}, errors.UnknownNameError, "unknown parameter 'z'"),
    ("(4,8):(8,1)", {"carry": "row"}, errors.UnsupportedError, "counts bytes"),
    ("(4,8):(8,1)", {"name": "f; system(1)"}, errors.IRError, "cannot name something"),
    ("(4,8):(8,1)", {"name": "lambda"}, errors.ArgumentTypeError, "in every language"),
    ("(4,8):(8,1)", {"parameters": ("a",)}, errors.ArgumentTypeError, "2 names are needed"),
    ("(4,8):(8,1)", {"parameters": "ab"}, errors.ArgumentTypeError, "2 names are needed"),
    ("(4,8):(8,1)", {"parameters": ("a", "a")}, errors.ArgumentTypeError, "two have one name"),
    ("(4,8):(8,1)", {"through": "(64,1):(1,0)"}, errors.ShapeError, "reaches index 63"),
    ("(4,8):(8,1)", {"through": "(4,2):(-1,4)"}, errors.ShapeError, "negative stride"),
    ("(4,8):(8,1)", {"through": "(4,2,2):(1,4,8)"}, errors.ShapeError, "has 3 modes"),
    ("(4,8):(8,1)", {"through": 7}, errors.ArgumentTypeError, "a TV layout, a TiledCopy"),
    ("(4,8):(8,1)", {"unit": "bytes", "element": "s4"}, errors.AlignmentError, "has 4 bits"),
    ("(4,8):(4611686018427387904,1)", {}, errors.ResourceError, "bits of an offset"),
    ("Sw<2,3,3> o 0 o (7,6):(-6,1)", {}, errors.UnsupportedError, "a number below 0"),
    ("(4,8):(1@0,1@1)", {}, errors.UnsupportedError, "code"),
    ("():()", {}, errors.ShapeError, "has no mode"),
    ("((5,2843,1109,1188),301):((75930556134,6587460,1,5545),1024)", {}, errors.UndecidedError, "looked at"),
])  # fmt: skip
def test_what_is_refused_is_named(
    layout: str, options: dict[str, Any], error: type[Exception], said: str
) -> None:
    with pytest.raises(error, match=re.escape(said)):
        code(read(layout), **options)


def test_cute_text_is_read_back() -> None:
    with pytest.raises(errors.MismatchError, match="the printed layout is not"):
        proofs.proved_cute("wrong", code(Layout((8, 8)), "cpp"), {"layout": Layout((8, 8), (8, 1))})


def test_a_term_as_an_expression_has_its_numbers_and_does_not_wrap() -> None:
    rng, seen = random.Random(5), 0
    for _ in range(400):
        kinds = [rng.choice(("unsigned", "int", "long long", "unsigned char")) for _ in range(2)]
        python, body = rng.random() < 0.3, Writer(rng).index()
        less = rng.choice(("", " - 3", " + 0", " - i"))
        if python:
            term = read_python(f"def f(i, j): return {body.replace('/', '//')}{less}").term
        else:
            term = read_c(f"{kinds[0]} f({kinds[1]} i, int j) {{ return {body}{less}; }}").term
        i, j = Var("i", 24), Var("j", 9)
        grid = [axis.reshape(-1) for axis in np.indices((24, 9))]
        try:
            made, off = proofs.as_expression("f", term, {"i": i, "j": j})
        except errors.UndecidedError:
            continue
        seen += 1
        values, bad = evaluated(term, {"i": grid[0], "j": grid[1]})
        assert bad is None, (body, less)
        assert (evaluate(made, dict(zip((i, j), grid, strict=True))) - off == values).all(), (body, less)
    assert seen > 150
