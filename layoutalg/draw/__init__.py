"""Pictures of layouts, swizzles, accesses, atoms and machines: SVG, PNG, PDF, coloured text, HTML, graphs.

    picture   Picture, Panel, Cell, View; layout_picture, swizzle_picture, tv_picture
    access    access_picture: the lanes, banks and phases of one warp instruction
    tile      layout_access_picture: the worst instruction of an access on a tile, before and after a swizzle;
              memory_picture, chunk_picture: a tile in the order of memory, by bank and by 16 bytes;
              plan_picture: which thread copies which vector
    atoms     copy_picture, mma_picture
    bits      bits_diagram: the bits of an index by field, with the XOR wires of a swizzle; index_picture: all
              indices of a tile in three forms; walk_picture: S(a + b) = S(a) ^ S(b), step by step
    graph     graph_diagram, as_dot: the composition as a graph
    svg, text, files   as_svg, as_text, as_file
    scene     what is drawn, as shapes, and as SVG; PALETTE, CHUNK_COLORS, LINE_COLORS: colours that readers
              with colour blindness can tell apart
    chart     chart_svg: lines and points over two axes; roofline_chart
    shown     picture_of, as_html: what a notebook displays for a value

>>> from layoutalg.layout import Layout
>>> print(as_text(layout_picture(Layout((2, 2))), unicode=False).splitlines()[-3])
1 | 1 3

In a notebook, layouts, swizzles, linear layouts, reports, syntheses, atoms and pictures display as pictures.
"""

from __future__ import annotations

from layoutalg.draw.access import access_picture, schedule
from layoutalg.draw.atoms import copy_picture, mma_picture
from layoutalg.draw.bits import bits_diagram, index_picture, walk_picture
from layoutalg.draw.chart import Chart, Series, chart_svg, rising, roofline_chart
from layoutalg.draw.files import FILE_FORMATS, as_file
from layoutalg.draw.graph import as_dot, graph_diagram
from layoutalg.draw.picture import (
    Cell,
    Diagram,
    Panel,
    Picture,
    View,
    layout_picture,
    swizzle_picture,
    tv_picture,
)
from layoutalg.draw.scene import PALETTE
from layoutalg.draw.shown import as_html, picture_of
from layoutalg.draw.svg import as_svg
from layoutalg.draw.text import as_text
from layoutalg.draw.tile import chunk_picture, layout_access_picture, memory_picture, plan_picture

__all__ = [
    "FILE_FORMATS", "PALETTE", "Cell", "Chart", "Diagram", "Panel", "Picture", "Series", "View",
    "access_picture", "as_dot", "as_file", "as_html", "as_svg", "as_text", "bits_diagram", "chart_svg",
    "chunk_picture", "copy_picture", "graph_diagram", "index_picture", "layout_access_picture",
    "layout_picture", "memory_picture", "mma_picture", "picture_of", "plan_picture", "rising",
    "roofline_chart", "schedule", "swizzle_picture", "tv_picture", "walk_picture",
]  # fmt: skip
