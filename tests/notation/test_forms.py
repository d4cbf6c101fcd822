"""Every notation beside CuTe's own: real texts are read, what is written is read again, the rest is named."""

from __future__ import annotations

import json
import random
import subprocess
import sys
from typing import Any

import numpy as np
import pytest
import sympy

from layoutalg import (
    AnyLayout,
    ComposedLayout,
    Layout,
    LinearLayout,
    Swizzle,
    Swizzles,
    convert,
    errors,
    parse,
)
from layoutalg.layout import ScaledBasis
from layoutalg.notation import FORMS, to_object
from tests.draws import notation_cases
from tests.judges.peers import present
from tests.notation.texts import rows
from tests.sweeps import each

SW128 = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))


@pytest.mark.deep
def test_every_form_gives_back_what_it_can_express() -> None:
    """parse(convert(layout, form)) == layout; tests/bench/bench_notation.py tries 5,000."""
    rng = random.Random(20261123)
    seen: dict[str, set[str]] = {}
    for case in range(120):
        value = notation_cases.linear(rng) if case % 5 == 4 else notation_cases.layout(rng)
        element = rng.choice(notation_cases.ELEMENTS)
        for form in notation_cases.forms(value):
            result = notation_cases.judged(value, form, element)
            seen.setdefault(form, set()).add(result)
            assert not result.startswith("WRONG"), (form, value, element)
    assert set(seen) == {name for name, form in FORMS.items() if form.write is not None}
    assert all("same" in results for form, results in seen.items() if form != "gmma"), seen


@each(("text", "wanted"), rows("texts of the field"))
def test_texts_of_the_field(text: str, wanted: str) -> None:
    assert str(parse(text)) == wanted
    assert convert(text, "cute") == wanted


def test_triton_logs_are_read_with_and_without_sizes() -> None:
    text = " - register=1 -> (0, 1)\n   register=2 -> (8, 0)\n - lane=1 -> (1, 0)\n"
    text += " - warp is a size 1 dimension\n"
    found = parse(f"{text}where out dims are: [dim0 (size 16), dim1 (size 2)]")
    assert found == LinearLayout(
        {"register": [(0, 1), (8, 0)], "lane": [(1, 0)], "warp": []}, {"dim0": 16, "dim1": 2}
    )
    assert parse(text) == found == parse(f"{text}where out dims are: [dim0, dim1]\n")
    assert parse(str(found)) == found
    commented = "".join(f"// {line}\n" for line in text.splitlines())
    assert parse(commented) == found
    # getCoreMatrixLinearLayout of swizzlingByteWidth = 128 for f16
    bases = [(0, 1 << j) for j in range(6)] + [(1, 8), (2, 16), (4, 32)]
    lines = "\n".join(f"{' -' if j == 0 else '  '} offset={1 << j} -> {b}" for j, b in enumerate(bases))
    assert parse(lines) == SW128


@each(("text", "wanted"), rows("known at run time"))
def test_what_is_known_at_run_time_alone_is_a_symbol(text: str, wanted: str) -> None:
    found = parse(text)
    assert str(found) == wanted
    back = convert(found, "dsl-print")
    assert parse(back) == found


def test_dynamic_extents_are_positive_and_strides_any_integer() -> None:
    found = parse("(8,?{div=4}):(?,1)")
    assert isinstance(found, Layout) and isinstance(found.shape, tuple) and isinstance(found.stride, tuple)
    assert found.shape[1].is_positive and found.stride[0].is_positive is None  # type: ignore[union-attr]
    typed = parse("Layout<tuple<int, C<64>>, tuple<int, C<1>>>")
    assert isinstance(typed, Layout) and isinstance(typed.stride, tuple)
    assert str(typed) == "(d0,64):(d1,1)" and typed.stride[0].is_positive is None  # type: ignore[union-attr]
    n = sympy.Symbol("n", integer=True, positive=True)
    named = Layout((n, 8), (1, n))
    for form in ("cpp", "dsl", "cute"):
        assert parse(convert(named, form), symbols={"n": n}) == named
    for form in ("numpy", "torch", "pycute", "tensor-layouts", "ttg.shared_linear"):
        with pytest.raises(errors.UnsupportedError):
            convert(named, form, element="f16" if form == "numpy" else None)
    with pytest.raises(errors.UnsupportedError, match="a multiple of one name is needed"):
        convert(Layout((n + 1, 8), (1, 4)), "dsl-print")


def test_a_swizzle_of_bytes_is_read_and_written_in_elements() -> None:
    for element, base in (("u8", 4), ("f16", 3), ("f32", 2), ("f64", 1)):
        text = "S<3,4,3> o 0 o (8,64):(64,1)"
        found = ComposedLayout(Swizzle(3, base, 3), 0, Layout((8, 64), (64, 1)))
        assert parse(text, unit="bytes", element=element) == found
        written = convert(found, "tensor", element=element)
        assert written.startswith("Sw<3,4,3> o smem_ptr[") and parse(written) == found
        shifted = ComposedLayout(Swizzle(3, base, 3), 16, Layout((8, 64), (64, 1)))
        assert parse(convert(shifted, "tensor", element=element)) == shifted
    source = "make_composed_layout(Swizzle<3,4,3>{}, Int<0>{}, Layout<Shape<_8,_64>,Stride<_64,_1>>{})"
    assert parse(source, unit="bytes", element="f16") == SW128
    with pytest.raises(errors.ParseError, match=r"Sw<3,0,3> moves bits below one element of 16 bits"):
        parse("Sw<3,0,3> o 0 o (8,64):(64,1)", unit="bytes", element="f16")
    with pytest.raises(errors.ArgumentTypeError, match="give element"):
        parse("Sw<3,4,3> o 0 o (8,64):(64,1)", unit="bytes")


@each(
    ("value", "form", "why"),
    [
        (SW128, "numpy", r"strides alone, which cannot say Sw<3,3,3>"),
        (Layout((8, (2, 4))), "numpy", "no nested modes"),
        (Layout((8,)), "torch", r"cannot tell \(8\):\(1\) from 8:1"),
        (Layout(8, -1), "torch", "no negative strides"),
        (Layout(8, ScaledBasis(1, 0)), "torch", "strides along modes of a coordinate"),
        (Layout(8, ScaledBasis(1, 0)), "pycute", "no strides along modes"),
        (ComposedLayout(Swizzle(2, 0, 1), 0, Layout(8)), "cpp", "its shift has to be at least its bits"),
        (ComposedLayout(Swizzle(2, 0, 1), 0, Layout(8)), "pycute", "its shift has to be at least its bits"),
        (Layout(8, 1 << 70), "cpp-type", "no integer of 64 bits"),
        (Layout((8, 8), (9, 1)), "gmma", "none of the atoms of shared memory"),
        (ComposedLayout((Swizzle(1, 0, 1), Swizzle(1, 2, 1)), 0, Layout(8)), "tensor", "has one swizzle"),
        (ComposedLayout(Layout(8, 2), 0, Layout(4)), "tensor", "has one swizzle over a layout of strides"),
        (Swizzle(3, 4, 3), "torch", "alone is a swizzle"),
        (Swizzle(3, 4, 3), "linear-layout", "alone has no shape"),
        (LinearLayout({"lane": [(0, 1)]}, {"row": 1, "col": 2}), "ttg.linear", "dimensions are dim0, dim1"),
        (LinearLayout({"lane": [1]}, {"dim0": 4}), "ttg.linear", "held nowhere"),
    ],
)  # fmt: skip
def test_what_a_form_cannot_express_is_refused_with_the_reason(value: Any, form: str, why: str) -> None:
    element = "f16" if "element" in FORMS[form].writes else None
    with pytest.raises(errors.UnsupportedError, match=why):
        convert(value, form, element=element)


@each(("text", "why"), [
    *rows("of a known family, and not read"),
    (" - register=1 -> (0, 1)\n - register=4 -> (0, 2)", "expected register=2, found register=4 at line 2"),
    (" - register=1 -> (0, 1)\n   register=2 -> (1)", "bases of different ranks"),
    (" - register=1 -> (0, 1)\nnonsense", "expected a basis such as .* at line 2, column 1"),
])  # fmt: skip
def test_a_text_of_a_known_family_is_refused_by_its_name_and_place(text: str, why: str) -> None:
    with pytest.raises(errors.ParseError, match=why) as caught:
        parse(text)
    assert len(caught.value.message) < 500


def test_options_that_are_missing_or_of_no_use_are_refused() -> None:
    with pytest.raises(errors.ArgumentTypeError, match="numpy strides count bytes: give element"):
        convert("8:1", "numpy")
    with pytest.raises(
        errors.ArgumentTypeError, match="shape is given, and a text of the form cute does not take it"
    ):
        parse("8:1", shape=8)
    with pytest.raises(errors.ArgumentTypeError, match="element is given, and the form torch"):
        convert(Layout(8), "torch", element="f16")
    with pytest.raises(errors.ArgumentTypeError, match="alone is a chain of swizzles"):
        convert(Swizzles(Swizzle(1, 0, 2), Swizzle(1, 2, 1)), "cute")
    with pytest.raises(errors.UnknownNameError, match="unknown form 'cuda'"):
        convert("8:1", "cuda")
    with pytest.raises(errors.UnknownNameError, match="unknown unit"):
        parse("8:1", unit="bits")
    with pytest.raises(errors.UnsupportedError, match="read, and not written"):
        convert("8:1", "ttg.slice")
    with pytest.raises(errors.ArgumentTypeError, match="is not a text"):
        parse(8)  # type: ignore[arg-type]
    assert str(parse("Layout((8, 64))", form="cpp")) == "(8,64):(1,8)"


HOSTILE = (
    "Layout<" * 200_000, "(" * 1_000_000, "make_layout(" + "(" * 100_000,
    "#ttg.blocked<{" + "a = [" * 100_000,
    "Layout<Shape<" + ",".join(["_8"] * 200_000) + ">>", "make_layout(Int<" + "9" * 90 + ">{})",
    "Int<" + "9" * 1_000_000 + ">", "cute::" * 170_000, "?" * 1_000_000,
    " - offset=1 -> (" + "1, " * 300_000 + ")",
    " - register=1 -> (0, 1)\n" * 40_000, "shape=(" + "1," * 400_000 + ")", "Sw<3,4,3> o " * 80_000,
    "!cute.layout<" * 70_000, "tensor<ptr<" * 90_000, "#a = #ttg.blocked<{}>\n" * 40_000, "\x00" * 1_000_000,
    "é" * 500_000, "const " * 150_000, "Layout(" + "-" * 900_000, "smem_ptr[16b](" + "x" * 900_000,
)  # fmt: skip


@pytest.mark.deep
def test_hostile_texts_end_in_a_named_error_in_bounded_time() -> None:
    """In a process of its own, which is ended where one takes half a minute: no measure of speed."""
    program = (
        "import json, signal, sys\nfrom layoutalg import Layout, parse\n"
        "from layoutalg.errors import LayoutAlgError\n"
        "for text in json.load(sys.stdin):\n    signal.alarm(30)\n    try:\n        found = parse(text)\n"
        "    except LayoutAlgError as error:\n        assert len(error.message) < 1000\n"
        "    else:\n        assert isinstance(found, Layout)\n"
    )
    subprocess.run([sys.executable, "-c", program], input=json.dumps(HOSTILE).encode(), check=True)


def test_a_text_past_the_limit_is_refused() -> None:
    with pytest.raises(errors.ResourceError, match="length of a text in characters"):
        parse("Layout<" + " " * (1 << 20))


def test_arrays_are_objects_that_are_read() -> None:
    array = np.zeros((8, 64), "float16")
    assert parse(array[:, ::2]) == Layout((8, 32), (64, 2))  # type: ignore[arg-type]
    assert convert(array.T, "numpy", element="f16") == "shape=(64, 8), strides=(2, 128), itemsize=2"
    assert convert(array[0], "cute") == "64:1"


@pytest.mark.parametrize("peer", ["pycute", "tensor-layouts"])
def test_objects_of_other_libraries_there_and_back(peer: str) -> None:
    if not present(peer):
        pytest.skip(f"{peer} is not installed: make peers")
    rng, made = random.Random(11), 0
    for _ in range(150):
        layout: AnyLayout = notation_cases.joined(notation_cases.layout(rng))
        try:
            theirs = to_object(layout, peer)
        except (errors.UnsupportedError, AssertionError, ValueError):
            continue  # a swizzle that their constructor refuses
        made += 1
        assert parse(theirs) == layout and parse(repr(theirs)) == layout
        assert convert(theirs, peer) == convert(layout, peer)
        if isinstance(layout, Layout) and peer == "pycute":
            assert parse(str(theirs)) == layout
        if not isinstance(layout, ComposedLayout) or layout.swizzles:
            from layoutalg import size

            for k in {rng.randrange(size(layout)) for _ in range(4)}:
                assert theirs(k) == layout(k), (layout, k)
    assert made > 100
    with pytest.raises(errors.UnsupportedError, match="no objects of cutlass are made"):
        to_object(SW128, "cutlass")
