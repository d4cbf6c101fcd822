"""Pictures of layouts, swizzles, accesses and atoms: SVG, coloured text, HTML, graphs.

    picture   Picture, Panel, Cell; layout_picture, swizzle_picture, linear_picture, tv_picture
    access    access_picture: the lanes, banks and phases of one warp instruction
    tile      layout_access_picture: the worst instruction of an access on a tile, before and after a swizzle;
              memory_picture: a tile in the order of memory, by bank
    atoms     copy_picture, mma_picture
    svg, text, page   as_svg, as_text, as_html
    chart     chart_svg: lines and points over two axes; roofline_chart
    shown     picture_of: what a notebook shows of any value
    graph     as_dot, render: the tree of a layout, with graphviz
    palette   PALETTE, CHUNK_COLORS, LINE_COLORS: colours that readers who see colours differently tell apart

>>> from layoutalg.layout import Layout
>>> print(as_text(layout_picture(Layout((2, 2))), unicode=False).splitlines()[-3])
1 | 1 3

In a notebook, layouts, swizzles, linear layouts, reports, syntheses, atoms and pictures show themselves.
"""

from __future__ import annotations

from layoutalg.draw.access import Service, access_picture, schedule
from layoutalg.draw.atoms import copy_picture, mma_picture
from layoutalg.draw.chart import MOST_POINTS, Chart, Series, chart_svg, rising, roofline_chart
from layoutalg.draw.graph import as_dot, render
from layoutalg.draw.page import as_html
from layoutalg.draw.palette import CHUNK_COLORS, LINE_COLORS, PALETTE, hex_color
from layoutalg.draw.picture import (
    Cell,
    Panel,
    Picture,
    layout_picture,
    linear_picture,
    swizzle_picture,
    tv_picture,
)
from layoutalg.draw.shown import picture_of
from layoutalg.draw.svg import as_svg
from layoutalg.draw.text import as_text
from layoutalg.draw.tile import layout_access_picture, memory_picture, tile_panel

__all__ = [
    "CHUNK_COLORS",
    "LINE_COLORS",
    "MOST_POINTS",
    "PALETTE",
    "Cell",
    "Chart",
    "Panel",
    "Picture",
    "Series",
    "Service",
    "access_picture",
    "as_dot",
    "as_html",
    "as_svg",
    "as_text",
    "chart_svg",
    "copy_picture",
    "hex_color",
    "layout_access_picture",
    "layout_picture",
    "linear_picture",
    "memory_picture",
    "mma_picture",
    "picture_of",
    "render",
    "rising",
    "roofline_chart",
    "schedule",
    "swizzle_picture",
    "tile_panel",
    "tv_picture",
]
