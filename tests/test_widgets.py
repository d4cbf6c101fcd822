"""Sliders and what a notebook shows: panels are functions of their settings, every value has a display."""

from __future__ import annotations

import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import layoutalg as la
from layoutalg import codegen as cg
from layoutalg import widgets
from layoutalg.analysis import SharedReport
from layoutalg.errors import ArgumentTypeError, ShapeError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.widgets import swizzle_panel, swizzle_sliders


def texts(html: str) -> list[str]:
    """The paragraphs of a piece of HTML, which is XML, too."""
    return ["".join(node.itertext()) for node in ElementTree.fromstring(f"<body>{html}</body>").iter("p")]


@pytest.mark.parametrize(
    ("how", "layout", "cost"),
    [
        ({"bits": 3, "base": 3, "shift": 3}, "Sw<3,3,3> o 0 o (64,64):(64,1)", "conflict-free"),
        ({}, "(64,64):(64,1)", "8-way"),
        ({"pad": 8}, "(64,64):(72,1)", "conflict-free"),
    ],
)
def test_a_panel_says_the_layout_and_its_cost(how: dict[str, Any], layout: str, cost: str) -> None:
    said = texts(swizzle_panel((64, 64), "f16", "ldmatrix.x4", **how))
    assert said[0] == layout and cost in said[1]


@given(
    st.integers(0, widgets.MAX_BITS), st.integers(0, widgets.MAX_BASE), st.integers(1, widgets.MAX_SHIFT),
    st.integers(0, widgets.MAX_PAD), st.sampled_from(widgets.ACCESSES), st.sampled_from(("f16", "f32", "u8")),
)  # fmt: skip
def test_a_panel_of_any_setting_agrees_with_the_analysis(
    bits: int, base: int, shift: int, pad: int, access: str, element: str
) -> None:
    """Either the sentence of the report on the very layout, or that of the refusal."""
    tile: Any = la.Layout((16, 32), (32 + pad, 1))
    if bits:
        tile = la.ComposedLayout(la.Swizzle(bits, base, shift), 0, tile)
    said = texts(swizzle_panel((16, 32), element, access, bits=bits, base=base, shift=shift, pad=pad))
    try:
        report = la.analyze(tile, access, element)
    except la.LayoutAlgError:
        assert len(said) == 1
    else:
        assert isinstance(report, SharedReport)
        assert said[0] == str(tile) and ("conflict-free" in said[1]) == (report.ways == 1)


def test_what_is_refused_is_a_sentence() -> None:
    assert texts(swizzle_panel((64, 64), "f16", "<script>"))[0].count("<script>") == 1
    assert "<script>" not in swizzle_panel((64, 64), "f16", "<script>")
    assert "accepted are 0 to" in texts(swizzle_panel((64, 64), pad=-1))[0]
    with pytest.raises(ShapeError, match="two positive extents"):
        swizzle_panel((64, 64, 2))  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match=str(Most.CELLS.number)):
        swizzle_panel((1 << 20, 64))
    with pytest.raises(ArgumentTypeError):
        swizzle_panel(64)  # type: ignore[arg-type]


def test_sliders_without_their_library_name_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ipywidgets", None)
    with pytest.raises(UnsupportedError, match=r"pip install 'layoutalg\[notebook\]'"):
        swizzle_sliders()


def test_sliders_redraw() -> None:
    pytest.importorskip("ipywidgets", reason="pip install 'layoutalg[notebook]'")
    controls, panel = swizzle_sliders((64, 64), "f16", "ldmatrix.x4").children
    by_name = {control.description: control for control in controls.children}
    assert set(by_name) == {"B", "M", "S", "pad", "access"} and "8-way" in panel.value
    by_name["B"].value = 3
    assert panel.value == swizzle_panel((64, 64), "f16", "ldmatrix.x4", bits=3, base=3, shift=3)
    by_name["access"].value = "ld.shared.b32@col"
    assert panel.value == swizzle_panel((64, 64), "f16", "ld.shared.b32@col", bits=3, base=3, shift=3)


def a_kernel() -> Any:
    """A kernel that does next to nothing."""
    k = cg.Kernel("copy", threads=32)
    x, y = k.tensor("x", "f32", (32,), (1,)), k.tensor("y", "f32", (32,), (1,), writable=True)
    me = k.get_slice(la.make_tiled_copy("UniversalCopy<uint32_t>", "f32", la.Layout(32), la.Layout(1)))
    k.store(k.load(me.partition_S(x)), me.partition_D(y))
    return k.build()


MMA = la.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (2, 2, 1), (32, 32, 16))
WIDE = la.make_tiled_mma("SM80_16x8x16_F32F16F16F32_TN", (4, 4, 1), (128, 128, 16))
TENSOR = la.Layout((4096, 1024), (1024, 1))


@pytest.mark.parametrize(
    ("value", "is_drawn"),
    [
        (MMA, True),
        (la.make_tiled_copy_A("SM75_U32x4_LDSM_N", MMA), True),
        (WIDE, False),
        (la.explain("composition", la.Layout((6, 2), (8, 2)), la.Layout((4, 3), (3, 1))), False),
        (la.legality.check_tma(TENSOR, (64, 128), "f16", mode="128B"), False),
        (la.legality.check_wgmma(la.Layout((64, 64), (64, 1)), "bf16", "A"), False),
        (a_kernel(), False),
    ],
    ids=lambda value: type(value).__name__,
)
def test_values_show_a_picture_or_their_text(value: Any, is_drawn: bool) -> None:
    page = ElementTree.fromstring(f"<body>{value._repr_html_()}</body>")
    assert (value._repr_svg_() is not None) == is_drawn
    if is_drawn:
        assert value._repr_svg_() in value._repr_html_()
    else:
        assert "".join(page.itertext()) == str(value)
