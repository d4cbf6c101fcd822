"""What a notebook shows: a picture and a page of every value, valid and escaped, or its text; no errors."""

from __future__ import annotations

import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from typing import Any

import pytest
import sympy
from hypothesis import given

import layoutalg as la
from layoutalg.draw import as_html, as_svg, layout_picture, picture_of
from layoutalg.draw.shown import MAX_SHOWN
from layoutalg.errors import ResourceError, UnsupportedError
from layoutalg.limits import Most
from layoutalg.synthesis import synthesize
from layoutalg.testing import composed_layouts, layouts

M = sympy.Symbol("M", integer=True, positive=True)
TILE = la.Layout((64, 64), (64, 1))
FOUND = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
NONE_FOUND = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
REPORTS = la.analyze(TILE, ["ldmatrix.x4", "ld.global.b32@col"], "f32")

DRAWN: list[Any] = [
    *map(la.parse, ("7:1", "(4,8):(8,1)", "(2,(2,3),4,5):(1,(2,4),12,48)", "(4,4):(1@0,1@1)",
                    "(64,64):(64,1)", "Sw<3,3,3> o 0 o (8,64):(64,1)",
                    "Sw<3,4,3> o 0 o (128,128):(128,1)",
                    "(4,4):(4,1) o 0 o 5:3", "Sw<3,4,3>", "Sw<0,4,3>", "Sw<1,0,2> o Sw<1,2,1> o 0 o 8:1")),
    la.Layout((4, 4), (M, 1)), la.Swizzles(), la.LinearLayout({"lane": []}, {"offset": 1}),
    la.LinearLayout({"register": [16, 64], "lane": [1, 2, 4, 8, 32]}, {"offset": 128}),
    la.find_mma_atom("SM80_16x8x16_F32F16F16F32_TN"), la.find_copy_atom("SM75_U32x4_LDSM_N"),
    layout_picture(TILE), *REPORTS, FOUND, NONE_FOUND,
]  # fmt: skip
TEXTS: list[Any] = [
    *map(la.parse, ("(1048576,1048576):(3,5)", "Sw<3,4,3> o 0 o (1048576,8):(8,1)", "Sw<3,40,20>")),
    la.Layout((M, 4)), la.make_identity_layout((1 << 10, 1 << 10)),
]  # fmt: skip


def page(value: Any) -> ElementTree.Element:
    """The HTML of a value, which is XML, too."""
    return ElementTree.fromstring(f"<body>{value._repr_html_()}</body>")


@pytest.mark.parametrize("value", DRAWN, ids=lambda value: repr(value)[:50])
def test_a_value_shows_a_picture_and_a_page(value: Any) -> None:
    svg = value._repr_svg_()
    root = ElementTree.fromstring(svg)
    assert root.tag == "{http://www.w3.org/2000/svg}svg"
    assert len(svg) < 1_000_000 and svg == as_svg(picture_of(value))  # type: ignore[arg-type]
    assert value._repr_html_() == as_html(value)
    assert "".join(page(value).itertext()).strip()


@pytest.mark.parametrize("value", TEXTS, ids=repr)
def test_what_has_no_picture_shows_its_text(value: Any) -> None:
    assert value._repr_svg_() is None is picture_of(value)
    assert "".join(page(value).itertext()) == str(value)


@given(layouts() | composed_layouts())
def test_every_layout_shows_something_of_limited_size(layout: Any) -> None:
    picture = picture_of(layout)
    "".join(page(layout).itertext())
    if picture is not None:
        assert sum(len(panel.rows) * len(panel.columns) for panel in picture.panels) <= MAX_SHOWN
        assert picture.title == str(layout)
    else:
        assert la.size(layout) > MAX_SHOWN // 2


def test_a_large_layout_is_drawn_in_vectors_under_its_own_name() -> None:
    picture = picture_of(la.parse("Sw<3,4,3> o 0 o (128,128):(128,1)"))
    assert picture is not None and picture.title == "Sw<3,4,3> o 0 o (128,128):(128,1)"
    assert [panel.title for panel in picture.panels] == ["before Sw<3,4,3>", "after Sw<3,4,3>"]
    assert [len(panel.columns) for panel in picture.panels] == [8, 8]
    assert picture.notes[0].startswith("a cell is 16 elements;")


def test_a_report_shows_what_print_shows() -> None:
    for report in REPORTS:
        printed = str(report)
        cells = [node.text for node in page(report).iter() if node.tag in ("th", "td")]
        assert cells and all(text in printed for text in cells if text)
        said = " ".join(node.text or "" for node in page(report).iter("p"))
        assert said in " ".join(printed.split())
        shown = "".join(ElementTree.fromstring(report._repr_svg_() or "").itertext())
        assert all(text in shown for text in cells if text not in (None, "access"))
    assert len(repr(REPORTS[0])) < 120 > len(repr(REPORTS[1]))


def test_a_synthesis_shows_its_layout_and_its_accesses() -> None:
    assert len(repr(FOUND)) < 120 > len(repr(NONE_FOUND))
    assert picture_of(FOUND).title == str(FOUND).splitlines()[0]  # type: ignore[union-attr]
    assert len(page(FOUND).findall("table")) == 1
    assert len(page(FOUND).findall("div/{http://www.w3.org/2000/svg}svg")) == 1
    assert not page(NONE_FOUND).findall("table") + page(NONE_FOUND).findall("div")
    assert NONE_FOUND._repr_svg_() is not None


def test_symbols_for_extents_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedError, match=r"a picture of the shape \(M,4\)"):
        layout_picture(la.Layout((M, 4)))
    with pytest.raises(ResourceError, match="cells of the picture"):
        layout_picture(la.Layout(Most.CELLS.number + 1))


def test_drawing_is_imported_when_a_notebook_asks() -> None:
    code = (
        "import sys, layoutalg as la; a = la.Layout((4, 8)); assert 'layoutalg.draw' not in sys.modules; "
        "a._repr_svg_(); assert 'layoutalg.draw' in sys.modules and 'numpy' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
