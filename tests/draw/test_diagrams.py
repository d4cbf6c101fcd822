"""Bits, walks, tables, chunks and plans: each cell is what the layout says, and all text is escaped."""

from __future__ import annotations

import re
import xml.etree.ElementTree as ElementTree
from typing import Any

import graphviz
import pytest
from hypothesis import assume, example, given
from hypothesis import strategies as st

from layoutalg import draw
from layoutalg.analysis import Access
from layoutalg.draw.bits import _read, pointer_walk
from layoutalg.draw.files import MAX_SIDE, scene_image, scene_tex
from layoutalg.draw.graph import _escaped
from layoutalg.draw.picture import Diagram, extents
from layoutalg.draw.scene import Box, Dot, Line, Scene, Words, scene_svg
from layoutalg.dtype import dtype
from layoutalg.errors import NotLinearError, ResourceError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle

TILE = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
SVG = "{http://www.w3.org/2000/svg}"


@st.composite
def tiles(draw: st.DrawFn) -> ComposedLayout:
    """Swizzled tiles of power-of-two sides, rows or columns first."""
    rows, columns = draw(st.integers(1, 4)), draw(st.integers(3, 6))
    swizzle = Swizzle(draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(st.integers(3, 4)))
    stride = (1 << columns, 1) if draw(st.booleans()) else (1, 1 << rows)
    return ComposedLayout(swizzle, 0, Layout((1 << rows, 1 << columns), stride))


# --- bits ----------------------------------------------------------------------------------------------


@given(tiles(), st.sampled_from([None, "u8", "f16", "f32", "f64"]))
@example(TILE, "f16")
def test_the_bits_of_an_index_are_those_of_the_layout(layout: ComposedLayout, element: str | None) -> None:
    """The definition: every offset, from the formulas of its bits."""
    what = None if element is None else dtype(element)
    names, outputs = _read(layout, what)
    rows, columns = extents(layout.shape)
    scale = 1 if what is None else what.bits // 8
    for row in range(0, rows, max(1, rows // 4)):
        for column in range(columns):
            value = {name: (row if name[0] == "r" else column) >> int(name[1:]) & 1 for name in names}
            made = 0
            for n, bit in enumerate(outputs):
                made |= sum(value[name] for name in (*bit.place, *bit.adds)) % 2 << n
            assert made == layout(row, column) * scale


def test_the_wires_of_a_swizzle_are_dashed_and_end_in_an_xor() -> None:
    drawn = draw.bits_diagram(TILE, "f16")
    wires = [shape for shape in drawn.scene.shapes if isinstance(shape, Line) and shape.dash]
    assert len(wires) == 3
    cells = drawn.picture.panels[0].cells
    assert [cell.text for cell in cells[2]] == ["", "", "", "r2", "r1", "r0", "", "", "", ""]
    fields = [cell.text for cell in cells[0]]
    assert fields == ["line"] * 3 + ["chunk"] * 3 + ["bank"] * 2 + ["byte"] * 2
    assert not [s for s in draw.bits_diagram(Layout((8, 8))).scene.shapes if isinstance(s, Line) and s.dash]


def test_bits_that_are_none_are_refused() -> None:
    with pytest.raises(NotLinearError, match=re.escape("bits_diagram of (3,5):(5,1)")):
        draw.bits_diagram(Layout((3, 5), (5, 1)))
    with pytest.raises(UnsupportedError, match="1, 2, 4, 8 or 16 bytes"):
        draw.bits_diagram(Layout((8, 8)), "u4")
    with pytest.raises(ResourceError, match="cells of the picture"):
        draw.bits_diagram(Layout((1 << 80, 1 << 80)))


# --- walks ---------------------------------------------------------------------------------------------


@given(tiles(), st.data())
def test_a_step_is_one_xor_where_no_bit_is_shared(layout: ComposedLayout, data: st.DataObject) -> None:
    rows, columns = extents(layout.shape)
    start = (data.draw(st.integers(0, rows - 1)), data.draw(st.integers(0, columns // 2)))
    along = data.draw(st.integers(0, 3))
    count = 1 + (columns - 1 - start[1]) // max(1, along) if along else 3
    for n, step in enumerate(pointer_walk(layout, start, (0, along), min(count, 64))):
        assert step.coordinate == (start[0], start[1] + n * along)
        assert step.offset == layout(*step.coordinate) == layout.outer(step.a + step.b)
        if not step.carries:
            assert step.by_xor == step.offset, "S(a + b) = S(a) ^ S(b)"


def test_a_walk_that_carries_is_framed() -> None:
    picture = draw.walk_picture(TILE, (0, 24), (0, 8), 4)
    framed = [row[4].marked for row in picture.panels[0].cells]
    assert framed == [step.by_xor != step.offset for step in pointer_walk(TILE, (0, 24), (0, 8), 4)]
    assert "share a bit with a" in picture.notes[1]
    back = pointer_walk(TILE, (3, 32), (0, -16), 3)
    assert [step.b for step in back] == [0, -16, -32] and "(!)" in draw.walk_picture(
        TILE, (3, 32), (0, -16), 3
    ).notes[1]


# --- tables, chunks, plans -----------------------------------------------------------------------------


@given(tiles())
def test_the_tables_of_indices_say_one_thing_three_times(layout: ComposedLayout) -> None:
    unit = 1 << min(swizzle.base for swizzle in layout.swizzles)
    assume(layout.inner(0, 1) == 1)
    pairs, linear, binary, bits = draw.index_picture(layout).panels
    for r, row in enumerate(linear.cells):
        for c, cell in enumerate(row):
            assert int(cell.text) == int(binary.cells[r][c].text, 2) == layout(r, c * unit) // unit
            assert pairs.cells[r][c].text == f"{r},{c}"
    width = (len(bits.columns) - 2) // 2
    for row in bits.cells:
        before, after = row[: width + 1], row[width + 1 :]
        for half in (before, after):
            assert int(half[0].text) == int("".join(cell.text for cell in half[1:]), 2)
        changed = [a.text != b.text for a, b in zip(before[1:], after[1:], strict=True)]
        assert [cell.marked for cell in after[1:]] == changed


@pytest.mark.parametrize("element", ["u8", "f16", "f32"])
def test_a_digit_per_16_bytes_is_its_chunk_of_a_line(element: str) -> None:
    length = 128 // dtype(element).bits
    layout = ComposedLayout(
        Swizzle(3, 7 - dtype(element).bits.bit_length() + 1, 3), 0, Layout((8, 64), (64, 1))
    )
    before, after = draw.chunk_picture(layout, element).panels
    for r, (plain, moved) in enumerate(zip(before.cells, after.cells, strict=True)):
        for c, cell in enumerate(moved):
            assert int(cell.text) == layout(r, c * length) // length % 8 and cell.hue == int(cell.text) * 4
            assert int(plain[c].text) == layout.inner(r, c * length) // length % 8
    part = draw.chunk_picture(layout, element, view=draw.View(range(2, 4), range(1, 3))).panels[1]
    assert part.cells[0][0] == after.cells[2][1] and part.rows == ("2", "3")
    with pytest.raises(ShapeError, match="by 16 bytes: runs of"):
        draw.chunk_picture(Layout((64, 6), (7, 1)), "f16")


@pytest.mark.parametrize("op", ["cp.async.16", "st.shared.b128@row", "ld.shared.b32@col", "ldmatrix.x4"])
def test_a_plan_says_who_takes_what(op: str) -> None:
    layout = Layout((32, 64), (64, 1))
    access = Access.of(op, layout, "f16" if "." in op else "f32")
    (panel,) = draw.plan_picture(layout, access).panels
    high, wide = 32 // len(panel.rows), 64 // len(panel.columns)
    modes = [access.tv.shape] if isinstance(access.tv.shape, int) else list(access.tv.shape)
    assert len(modes) >= 2
    for thread in (0, 1, 31):
        index = access.tv(thread, 0) if len(modes) == 2 else access.tv(thread, 0, 0)
        cell = panel.cells[index % 32 // high][index // 32 // wide]
        assert re.fullmatch(rf"T{thread}(\.0)?\+?", cell.text), cell.text
    assert all(cell.text for row in panel.cells for cell in row), "the access covers the tile"


def test_a_view_draws_a_part_and_says_so() -> None:
    layout = Layout((1 << 20, 1 << 20), (1 << 20, 1))
    picture = draw.layout_picture(layout, view=draw.View(range(5, 7), range(9, 12)))
    assert [[cell.text for cell in row] for row in picture.panels[0].cells] == [
        [str(layout(r, c)) for c in range(9, 12)] for r in (5, 6)
    ]
    assert any("drawn are rows 5 to 6 of 1048576" in note for note in picture.notes)
    assert not any("drawn are" in note for note in draw.swizzle_picture(TILE, view=draw.View(range(8))).notes)
    for view in (draw.View(range(8, 9)), draw.View(None, range(0)), draw.View(range(0, 8, 2))):
        with pytest.raises(ShapeError, match="of a picture: a part of the"):
            draw.layout_picture(Layout((8, 8)), view=view)


# --- files and text from users -------------------------------------------------------------------------

KINDS: dict[str, Any] = {
    "picture": draw.layout_picture(Layout((4, 8), (8, 1)), element=dtype("f32")),
    "bits": draw.bits_diagram(TILE, "f16"),
    "graph": draw.graph_diagram(TILE),
    "chart": draw.Chart(
        "c", "x", "y", (draw.Series("a", ((1.0, 2.0), (2.0, 3.0))), draw.Series("b", ((1.0, 1.0),)))
    ),
}


@pytest.mark.deep(
    but=(*(f"{form}-{kind}" for kind in KINDS for form in ("svg", "tex")), "png-chart", "pdf-graph")
)
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("form", draw.FILE_FORMATS)
def test_a_drawing_gives_the_same_file_again(kind: str, form: str) -> None:
    if form in ("png", "pdf"):
        pytest.importorskip("matplotlib")
    one = draw.as_file(KINDS[kind], form)
    assert one.startswith(
        {"svg": b"<svg", "tex": b"\\documentclass", "png": b"\x89PNG\r\n", "pdf": b"%PDF-"}[form]
    )
    assert one == draw.as_file(KINDS[kind], form)


def test_latex_draws_every_shape_and_escapes_every_text() -> None:
    text = "#$%&_{}~^\\x"
    shapes = (Box(0, 0, 4, 4, "#fff"), Words(1, 3, text), Line(((0, 0), (4, 4)), arrow=True), Dot(2, 2, 1))
    lines = scene_tex(Scene("t", 4, 4, shapes)).splitlines()[4:-2]
    assert [line.partition("[")[0] for line in lines] == ["\\path", "\\node", "\\path", "\\path", "\\path"]
    escaped = r"{\#\$\%\&\_\{\}\textasciitilde{}\textasciicircum{}\textbackslash{}x};"
    assert lines[1].endswith(escaped)


def test_a_file_that_cannot_be_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="accepted are svg, tex, png, pdf"):
        draw.as_file(KINDS["picture"], "gif")
    with pytest.raises(ResourceError, match="side of a png"):
        scene_image(Scene("wide", MAX_SIDE + 1, 10, ()), "png")


def test_all_shapes_of_a_picture_lie_on_its_page() -> None:
    for drawn in (KINDS["bits"].scene, KINDS["graph"].scene):
        for shape in drawn.shapes:
            if isinstance(shape, Box):
                assert 0 <= shape.x <= shape.x + shape.width <= drawn.width
                assert 0 <= shape.y <= shape.y + shape.height <= drawn.height
            if isinstance(shape, Words) and shape.anchor == "start":
                assert shape.x + 7.25 * len(shape.text) * shape.size / 12 <= drawn.width + 1


OURS = {"svg", "g", "title", "rect", "text", "path", "circle"}
HOSTILE = st.text(st.characters(codec="utf-8") | st.sampled_from("<>&\"'\\\n\x00\x1b\u202e]]>"), max_size=30)


@given(HOSTILE)
@example("\"><script>alert('x')</script>&\x1b[2J\x00\u202e]]>")
@example('"]; evil [label="\\')
@example("--><!--")
def test_text_from_users_stays_text(text: str) -> None:
    """In SVG every element is one of ours and the text comes back; in DOT a label cannot end early."""
    panel = draw.Panel(text, (text,), (text,), ((draw.Cell(text, 3, marked=True),),))
    picture = draw.Picture(text, (panel,), (text,), legend=((0, text),))
    scene = Scene(text, 9, 9, (Words(0, 9, text),))
    chart = draw.Chart(text, text, text, (draw.Series(text, ((1.0, 1.0),)),), notes=(text,))
    drawn = (
        draw.as_svg(picture),
        scene_svg(scene),
        draw.chart_svg(chart),
        draw.as_svg(Diagram(scene, picture).picture),
    )
    for svg in drawn:
        nodes = [*ElementTree.fromstring(svg).iter()]
        assert {n.tag.removeprefix(SVG) for n in nodes} <= {
            "svg",
            "g",
            "title",
            "rect",
            "text",
            "path",
            "circle",
        }
        assert not [name for n in nodes for name in n.attrib if name.startswith("on") or "href" in name]
    assert not set(draw.as_text(picture)) & set("\x00\x1b\u202e")
    graph = graphviz.Digraph()
    graph.node("n", _escaped(text))
    label = r'(?:\w+|"(?:[^"\\]|\\.)*")'
    assert re.fullmatch(rf"digraph {{\n\tn \[label={label}\]\n}}\n", graph.source, re.DOTALL), graph.source


def test_the_graph_and_its_text_have_one_node_per_stage() -> None:
    drawn = draw.graph_diagram(TILE)
    boxes = [shape for shape in drawn.scene.shapes if isinstance(shape, Box)]
    assert len(boxes) == len(drawn.picture.panels[0].rows) == draw.as_dot(TILE).count("[label=")
    with pytest.raises(ResourceError, match="nodes of the graph"):
        draw.graph_diagram(Layout(tuple([2] * 300)))
