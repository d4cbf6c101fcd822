"""Pictures: what a cell shows is what the layout says, and every rendering keeps it."""

from __future__ import annotations

import itertools
import re
import shutil
import subprocess
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg import draw
from layoutalg.analysis import Access, GlobalReport, analyze, traffic, wavefronts
from layoutalg.arch import ARCHS
from layoutalg.draw.picture import EMPTY, bank_of, linear_picture
from layoutalg.draw.tile import tile_panel
from layoutalg.dtype import DTYPES, dtype
from layoutalg.errors import ArgumentTypeError, ResourceError, ShapeError
from layoutalg.f2 import LinearLayout
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, Swizzles
from layoutalg.testing import composed_layouts
from tests.sweeps import each

SWIZZLED = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1)))
NESTED = Layout(((2, 4), (3, 2)), ((1, 16), (2, 100)))


def texts(panel: draw.Panel) -> list[list[str]]:
    return [[cell.text for cell in row] for row in panel.cells]


@st.composite
def layouts(draw: st.DrawFn) -> Layout:
    rank = draw(st.integers(1, 3))
    shape = tuple(draw(st.integers(1, 5)) for _ in range(rank))
    return Layout(shape, tuple(draw(st.integers(0, 40)) for _ in range(rank)))


# --- what the cells say --------------------------------------------------------------------------------


@given(layouts(), st.sampled_from([None, *DTYPES.values()]))
def test_a_cell_holds_the_offset_of_its_coordinate(layout: Layout, element: object) -> None:
    element_ = element if element is None else dtype(str(element))
    panels = draw.layout_picture(layout, element=element_).panels
    shape = layout.shape if isinstance(layout.shape, tuple) else (layout.shape,)
    rows, columns, count = [1, *shape, 1][-3:] if len(shape) < 2 else [*shape, 1][:3]
    assert len(panels) == count
    for n, panel in enumerate(panels):
        assert len(panel.rows) == len(panel.cells) == rows and len(panel.columns) == columns
        for row, cells in enumerate(panel.cells):
            assert len(cells) == len(panel.columns)
            for column, cell in enumerate(cells):
                offset = layout(row + rows * (column + columns * n))
                assert cell.text == str(offset)
                byte = offset if element_ is None else offset * element_.bits // 8
                assert cell.hue == (offset % 8 * 4 if element_ is None else byte // 4 % 32)


def test_modes_past_the_second_are_panels_or_where_they_are_many_columns() -> None:
    few, many = draw.layout_picture(Layout((2, 3, (2, 2)))), draw.layout_picture(Layout((2, 3, 17)))
    titles = ["offsets at (_,_,(0,0))", "offsets at (_,_,(1,0))"]
    assert [panel.title for panel in few.panels][:2] == titles
    assert texts(few.panels[1]) == [["6", "8", "10"], ["7", "9", "11"]]
    assert [len(panel.columns) for panel in many.panels] == [51]
    assert many.notes[0].startswith("rows run through mode 0, 2, columns through (3,17);")


CHAIN = Swizzles(Swizzle(1, 2, 2), Swizzle(1, 4, 1))


@pytest.mark.parametrize(
    "swizzle", [Swizzle(3, 4, 3), Swizzle(2, 0, -3), Swizzle(2, 3, 1), Swizzle(0, 4, 3), CHAIN]
)
def test_a_swizzle_alone_is_drawn_on_its_units(swizzle: Swizzle | Swizzles) -> None:
    before, after = draw.swizzle_picture(swizzle).panels
    unit = 4 if isinstance(swizzle, Swizzles) else 1 << swizzle.base if swizzle.bits else 1
    for put, moved in zip(before.cells, after.cells, strict=True):
        for a, b in zip(put, moved, strict=True):
            assert int(b.text) * unit == swizzle(int(a.text) * unit)
    cells = [cell.text for row in before.cells for cell in row]
    assert sorted(map(int, cells)) == list(range(len(cells)))
    if isinstance(swizzle, Swizzle):
        assert len(cells) == (1 << swizzle.bits + abs(swizzle.shift) if swizzle.bits else 1)


@given(composed_layouts(max_size=64, max_swizzles=2))
@example(SWIZZLED)
def test_before_and_after_a_swizzle_are_the_layouts_offsets(layout: ComposedLayout) -> None:
    before, after = draw.swizzle_picture(layout).panels[:2]
    rows, columns = len(after.rows), len(after.columns)
    if (
        len(draw.swizzle_picture(layout).panels) == 2
        and isinstance(layout.shape, tuple)
        and len(layout.shape) == 2
    ):
        for r, c in itertools.product(range(rows), range(columns)):
            assert after.cells[r][c].text == str(layout(r, c))
            assert before.cells[r][c].text == str(layout.offset + layout.inner(r, c))
            assert not layout.swizzles or after.cells[r][c].hue is not None


def test_a_linear_layout_is_the_matrix_of_its_bits() -> None:
    linear = LinearLayout({"lane": [(1, 0), (1, 2)], "warp": [(0, 1)]}, {"row": 2, "column": 4})
    picture = linear_picture(linear)
    (panel,) = picture.panels
    assert picture.title == "lane (4), warp (2) -> row (2), column (4)"
    assert (panel.rows, panel.columns) == (("row 1", "column 1", "column 2"), ("lane 1", "lane 2", "warp 1"))
    assert texts(panel) == [["1", "1", "."], [".", ".", "1"], [".", "1", "."]]
    assert {cell.hue for row in panel.cells for cell in row} == {None, 0, 4}


@pytest.mark.parametrize("layout", [NESTED, ComposedLayout(Layout(8, 2), 0, Layout(4))])
def test_a_layout_without_swizzle_has_no_before(layout: AnyLayout) -> None:
    with pytest.raises(ArgumentTypeError, match="has no swizzle, so there is no before and after"):
        draw.swizzle_picture(layout)


def test_cells_held_twice_or_never() -> None:
    picture = draw.tv_picture(Layout((2, 2), (0, 2)), (2, 2))
    assert texts(picture.panels[0]) == [["T0V0+", "T0V1+"], ["", ""]]
    assert picture.panels[0].cells[1][0] == EMPTY
    assert any("several" in note for note in picture.notes)


@pytest.mark.parametrize(
    ("tv", "tile", "part"),
    [
        (Layout(32), (8, 4), "does not have two modes"),
        (Layout((2, 2, 2)), (2, 4), "does not have two modes"),
        (Layout((32, 2), (2, 1)), (8, 4), "thread 16, value 0 to 32, outside the 32 cells of the tile (8,4)"),
        (Layout((2, 2), (-1, 1)), (2, 2), "thread 1, value 0 to -1"),
        (Layout((2, 2)), (0, 4), "extents must be positive"),
    ],
)
def test_a_tv_layout_that_does_not_fit_its_tile(tv: Layout, tile: tuple[int, int], part: str) -> None:
    with pytest.raises(ShapeError, match=re.escape(part)):
        draw.tv_picture(tv, tile)


def test_pictures_have_a_limit_that_is_named() -> None:
    assert draw.layout_picture(Layout((128, 128))).panels[0].cells[127][127].text == str(128 * 128 - 1)
    with pytest.raises(ResourceError, match=r"cells of the picture: 1048576 asked, the limit is 20000"):
        draw.layout_picture(Layout((1 << 10, 1 << 10)))
    with pytest.raises(ResourceError, match="cells of the picture"):
        draw.tv_picture(Layout((1 << 30, 1), (0, 0)), (1, 1))
    with pytest.raises(ResourceError, match=r"nodes of the graph"):
        draw.as_dot(Layout(tuple([2] * 300)))


@each("name", sorted(DTYPES))
def test_the_bank_of_an_element(name: str) -> None:
    element = DTYPES[name]
    for offset in range(300):
        assert bank_of(offset, element) == (offset * element.bits // 8 // 4) % 32


# --- accesses ------------------------------------------------------------------------------------------


@st.composite
def warps(draw: st.DrawFn, space: str) -> tuple[str, list[int | None]]:
    rules = [rule for rule in ARCHS["sm_90"].instructions.values() if rule.space == space]
    rule = draw(st.sampled_from(rules))
    slots = draw(st.integers(1, 300))
    slot = st.none() | st.integers(0, slots).map(lambda n: n * rule.width_bytes)
    return rule.name, draw(st.lists(slot, min_size=32, max_size=32))


@given(warps("shared"))
@example(("ld.shared.b64", [8 * (lane // 2) for lane in range(32)]))
@example(("red.shared.u32", [0] * 32))
@example(("cp.async.8", [None] * 32))
def test_the_schedule_is_one_the_hardware_could_run(warp: tuple[str, list[int | None]]) -> None:
    instruction, offsets = warp
    rule = ARCHS["sm_90"].instructions[instruction]
    services = draw.schedule(instruction, offsets)
    wanted = {
        (lane, word)
        for lane, offset in enumerate(offsets[: rule.lanes])
        if offset is not None
        for word in {byte // 4 for byte in range(offset, offset + rule.width_bytes)}
    }
    assert {(s.lane, s.word) for s in services} == wanted and len(services) == len(wanted)
    delivered: dict[tuple[int, int, int], set[object]] = {}
    for s in services:
        assert s.bank == s.word % 32
        what = s.word if rule.broadcast else (s.word, s.lane)
        delivered.setdefault((s.group, s.wavefront, s.bank), set()).add(what)
    assert all(len(words) == 1 for words in delivered.values()), "a bank delivers one word a wavefront"
    rows = {(s.group, s.wavefront) for s in services}
    bias = rule.counter_bias if services else 0
    assert len(rows) + bias == wavefronts(instruction, offsets)
    (panel,) = draw.access_picture(instruction, offsets).panels
    assert len(panel.rows) == len(panel.cells) == len(rows) == len(set(panel.rows))
    shown = {int(cell.text) for row in panel.cells for cell in row if cell.text}
    assert shown <= {lane for lane, _ in wanted}


@given(warps("global"))
def test_a_global_access_shows_its_sectors_and_lines(warp: tuple[str, list[int | None]]) -> None:
    (panel,) = draw.access_picture(*warp).panels
    moved = traffic(*warp)
    assert len(panel.rows) == moved.lines
    coloured = sum(cell.hue is not None for row in panel.cells for cell in row)
    assert coloured == moved.sectors * 8
    assert {bool(cell.text) for row in panel.cells for cell in row if cell.hue is not None} <= {True}


def test_an_eight_way_conflict_is_eight_rows_high() -> None:
    picture = draw.access_picture(
        "ldmatrix.x4", [128 * (lane % 16) + 16 * (lane // 16) for lane in range(32)]
    )
    (panel,) = picture.panels
    assert panel.rows[:9] == ("a0", "a1", "a2", "a3", "a4", "a5", "a6", "a7", "b0") and len(panel.rows) == 32
    assert panel.columns[:2] == ("0-3", "4-7") and texts(panel)[8] == ["8"] + [""] * 7
    assert picture.notes[0].startswith("32 wavefronts;")
    (narrow,) = draw.access_picture("ld.shared.b32", [128 * lane for lane in range(32)]).panels
    assert len(narrow.columns) == 32 and texts(narrow)[8] == ["8"] + [""] * 31


def test_notes_say_what_the_cells_cannot() -> None:
    notes = draw.access_picture("cp.async.4", [0] * 32).notes
    assert "the hardware counter adds 3 to this instruction" in notes
    assert "1 lane shares its word with a lower lane, which is shown" in draw.access_picture(
        "ld.shared.b32", [0, 0] + [None] * 30
    ).notes  # fmt: skip
    assert draw.access_picture("ld.shared.b32", [None] * 32).panels[0].rows == ()


def test_the_touched_part_of_a_tile() -> None:
    panel = tile_panel("tile", {(3, 5): (0, 1), (4, 7): (9, 33)})
    assert (panel.rows, panel.columns) == (("3", "4"), ("5", "6", "7"))
    assert panel.cells == ((draw.Cell("0", 1), EMPTY, EMPTY), (EMPTY, EMPTY, draw.Cell("9", 1)))
    with pytest.raises(ResourceError, match="cells of the picture"):
        tile_panel("tile", {(0, 0): (0, 0), (1000, 1000): (1, 0)})


def test_an_access_on_a_swizzled_tile_is_drawn_before_and_after() -> None:
    picture = draw.layout_access_picture(SWIZZLED, Access.of("ldmatrix.x1", SWIZZLED, "f16"))
    before, after, slow, fast = picture.panels
    assert picture.across == 2 and before.columns[:2] == ("0-7", "8-15")
    assert [row[0] for row in before.cells] == [draw.Cell(str(n), 0, marked=True) for n in range(8)]
    assert [row[0] for row in after.cells] == [draw.Cell(str(n), 4 * n, marked=True) for n in range(8)]
    assert not any(cell.marked or cell.text for row in after.cells for cell in row[1:])
    assert (len(slow.rows), len(fast.rows)) == (8, 1)
    assert picture.notes[0].startswith("8 wavefronts, 1 wavefront after the swizzle:")


@pytest.mark.parametrize(
    ("text", "panels"),
    [
        ("ld.shared.b32@col", [(32, 32), (32, 32)]),
        ("ld.shared.b128", [(32, 8), (4, 8)]),
        ("ld.shared.b128@col", [(32, 8), (32, 8)]),
        ("ld.global.b32@col", [(32, 1), (32, 32)]),
    ],
)
def test_an_access_on_a_plain_tile(text: str, panels: list[tuple[int, int]]) -> None:
    tile = Layout((32, 32), (32, 1))
    picture = draw.layout_access_picture(tile, Access.of(text, tile, "f32"))
    assert [(len(panel.rows), len(panel.columns)) for panel in picture.panels] == panels
    report = analyze(tile, text, "f32")
    if not isinstance(report, GlobalReport):
        assert len(picture.panels[-1].rows) == report.worst
    lanes = {int(cell.text) for row in picture.panels[0].cells for cell in row if cell.text}
    assert lanes == set(range(32))


# --- renderings ----------------------------------------------------------------------------------------


def test_text_of_a_small_layout() -> None:
    assert draw.as_text(draw.layout_picture(Layout((2, 3), (3, 1)))) == (
        "(2,3):(3,1)\n\noffsets\n  │ 0 1 2\n──┼──────\n0 │ 0 1 2\n1 │ 3 4 5\n\n"
        "rows run through mode 0, 2, columns through 3; the colour is the offset mod 8"
    )


@given(layouts(), st.integers(40, 120), st.booleans())
def test_text_fits_its_page_and_shows_every_cell_once(layout: Layout, width: int, unicode: bool) -> None:
    whole = draw.layout_picture(layout)
    assert max(map(len, draw.as_text(whole, width=width, unicode=unicode).splitlines())) <= width
    bar = "│" if unicode else "|"
    for panel in whole.panels:
        lines = draw.as_text(replace(whole, panels=(panel,)), width=width, unicode=unicode).splitlines()
        shown = sorted(t for line in lines if bar in line for t in line.partition(bar)[2].split())
        heads = list(panel.columns)
        assert shown == sorted([t for row in texts(panel) for t in row] + heads)


def test_wide_panels_fold_into_even_blocks_and_narrow_ones_stand_side_by_side() -> None:
    wide = draw.as_text(draw.layout_picture(Layout((2, 64), (64, 1))), width=100)
    assert re.findall(r"columns (\d+ to \d+)", wide) == ["0 to 23", "24 to 47", "48 to 63"]
    small = ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1)))
    lines = draw.as_text(draw.swizzle_picture(small)).splitlines()
    assert "before Sw<1,0,1>    after Sw<1,0,1>" in lines
    assert (
        max(map(len, draw.as_text(draw.layout_picture(Layout((1, 9), (0, 10**30))), width=20).splitlines()))
        > 20
    )


def test_colour_is_optional_and_takes_no_room() -> None:
    picture = draw.swizzle_picture(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1))))
    plain, painted = draw.as_text(picture), draw.as_text(picture, color=True)
    assert "\x1b" not in plain
    assert "\x1b[30;48;2;162;131;130m" in painted
    assert re.sub(r"\x1b\[[0-9;]*m", "", painted) == plain


@each(
    "picture",
    [
        draw.layout_picture(NESTED),
        draw.swizzle_picture(SWIZZLED, element=dtype("f16")),
        draw.tv_picture(Layout((2, 2), (0, 2)), (2, 2)),
        draw.access_picture("ld.global.b32", [4 * lane + 28 for lane in range(32)]),
        draw.access_picture("ld.shared.b32", [None] * 32),
        draw.Picture("empty", ()),
        draw.Picture("empty", (), across=2),
        draw.swizzle_picture(Swizzle(3, 4, 3)),
        draw.layout_access_picture(SWIZZLED, Access.of("ldmatrix.x1", SWIZZLED, "f16")),
    ],
)
def test_svg_is_valid_self_contained_and_shows_every_cell(picture: draw.Picture) -> None:
    svg = draw.as_svg(picture)
    root = ElementTree.fromstring(svg)
    shown = [node.text for node in root.iter("{http://www.w3.org/2000/svg}text")]
    for panel in picture.panels:
        assert panel.title in shown
        for row in texts(panel):
            assert all(text in shown for text in row if text)
    assert not re.search(r"href|url\(|<script|<image|@import", svg)
    width, height = float(root.attrib["width"]), float(root.attrib["height"])
    assert not list(root.iter("{http://www.w3.org/2000/svg}style")), "a page would take it for its own"
    for node in root.iter("{http://www.w3.org/2000/svg}rect"):
        x, y = float(node.get("x", 0)), float(node.get("y", 0))
        assert 0 <= x <= x + float(node.attrib["width"]) <= width
        assert 0 <= y <= y + float(node.attrib["height"]) <= height


# --- graphs --------------------------------------------------------------------------------------------

GRAPHS: list[AnyLayout] = [
    Layout(7),
    NESTED,
    SWIZZLED,
    ComposedLayout(
        (Swizzle(3, 2, 3), Swizzle(1, 0, -5)), 16, ComposedLayout(Layout((4, 8), (8, 1)), 2, NESTED)
    ),
]


@pytest.mark.parametrize("layout", GRAPHS, ids=str)
def test_the_graph_names_every_stage_in_order(layout: AnyLayout) -> None:
    dot = draw.as_dot(layout)
    labels = [
        quoted or plain
        for quoted, plain in re.findall(r'^  n\d+ \[label=(?:"((?:[^"\\]|\\.)*)"|(\w+))', dot, re.M)
    ]
    assert labels[0].startswith("coordinate") and labels[-1] == "offset"
    inner = layout
    stages: list[str] = []
    while isinstance(inner, ComposedLayout):
        parts = (
            [str(inner.outer)] if isinstance(inner.outer, Layout) else [str(s) for s in inner.swizzles[::-1]]
        )
        stages = ([f"+ {inner.offset}"] if inner.offset else []) + parts + stages
        inner = inner.inner
    assert [label.split("\\n")[0] for label in labels[labels.index("+") + 1 : -1]] == stages
    edges = [(int(a), int(b)) for a, b in re.findall(r"n(\d+) -> n(\d+)", dot)]
    assert all(a < b < len(labels) for a, b in edges)
    assert {b for _, b in edges} == set(range(1, len(labels)))


@pytest.mark.skipif(shutil.which("dot") is None, reason="graphviz's program dot is not installed")
@each("layout", GRAPHS, ids=str)
def test_graphviz_draws_every_graph(layout: AnyLayout) -> None:
    drawn = subprocess.run(
        ["dot", "-Tsvg"], input=draw.as_dot(layout).encode(), capture_output=True, check=True
    )
    assert drawn.stdout.lstrip().startswith(b"<?xml")


def test_a_tile_in_the_order_of_memory() -> None:
    """Rows of 128 bytes: core matrices stand over each other as they are, side by side under the swizzle."""
    plain = Layout((8, 64), (64, 1))
    swizzled = ComposedLayout(Swizzle(3, 3, 3), 0, plain)
    for tile, columns_of_matrix in ((plain, 1), (swizzled, 8)):
        (panel,) = draw.memory_picture(tile, "f16").panels
        of_zero = {c for cells in panel.cells for c, cell in enumerate(cells) if cell.hue == 0}
        assert (len(panel.rows), len(panel.columns), len(of_zero)) == (8, 8, columns_of_matrix)
    gaps = draw.memory_picture(Layout((4, 8), (64, 1)), "f16").panels[0].cells
    assert [cell.text for cell in gaps[1]] == ["1,0", *["."] * 7]
    with pytest.raises(ShapeError, match="two modes"):
        draw.memory_picture(Layout(64), "f16")
