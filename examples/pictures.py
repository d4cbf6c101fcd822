"""Draw a layout, a swizzle before and after, an access by bank and wavefront, and a page of what was found.

Run it:  python examples/pictures.py        writes SVG and HTML files into a temporary folder
"""

import tempfile
from pathlib import Path

from layoutalg import Access, Layout, Swizzle, composition, synthesize
from layoutalg.draw import (
    access_picture,
    as_dot,
    as_html,
    as_svg,
    as_text,
    layout_access_picture,
    layout_picture,
    swizzle_picture,
    tv_picture,
)
from layoutalg.dtype import dtype

# The offsets of a nested layout, as text.
nested = Layout(((2, 4), 8), ((1, 16), 2))
text = as_text(layout_picture(nested))
print(text)
assert "7 │ 49 51 53 55 57 59 61 63" in text

# The accumulator of mma.m16n8k16: which thread holds which element.
accumulator = Layout(((4, 8), (2, 2)), ((32, 1), (16, 8)))
text = as_text(tv_picture(accumulator, (16, 8)))
print(text)
assert "T31V2 T31V3" in text

# 32 lanes that read a column of a 32 x 32 tile of f32: one bank, 32 wavefronts.
column = access_picture("ld.shared.b32", [128 * lane for lane in range(32)])
print(as_text(column).splitlines()[-1])
assert len(column.panels[0].rows) == 32

folder = Path(tempfile.mkdtemp(prefix="layoutalg-"))
swizzled = composition(Swizzle(3, 3, 3), Layout((8, 64), (64, 1)))
# ldmatrix on it, without the swizzle and with it: 8 wavefronts, and 1.
matrix = layout_access_picture(swizzled, Access.of("ldmatrix.x1", swizzled, "f16"))
assert [len(panel.rows) for panel in matrix.panels[2:]] == [8, 1]
for name, picture in (
    ("swizzle", swizzle_picture(swizzled, element=dtype("f16"))),
    ("column", column),
    ("matrix", matrix),
):
    path = folder / f"{name}.svg"
    path.write_text(as_svg(picture), encoding="utf-8")
    print(f"wrote {path}")
    assert path.read_text(encoding="utf-8").startswith("<svg")

# What a notebook displays for a value: here, the accesses of a synthesis and its layout.
found = synthesize((64, 64), ["st.shared.b128", "ldmatrix.x4"], element="f16")
page = folder / "found.html"
page.write_text(as_html(found), encoding="utf-8")
print(f"wrote {page}")
assert "<table>" in as_html(found) and "<svg" in as_html(found)

# A composition as a graph in the DOT language, as `layoutalg draw --graph --format dot` prints it.
graph = as_dot(swizzled)
print(graph)
assert "Sw<3,3,3>" in graph
