"""Pictures of layouts, swizzles, accesses and atoms: SVG, coloured text, graphs.

    picture   Picture, Panel, Cell; layout_picture, swizzle_picture, tv_picture
    access    access_picture: the lanes, banks and phases of an access
    atoms     copy_picture, mma_picture
    svg, text as_svg, as_text
    graph     as_dot, render: the tree of a layout, with graphviz
    palette   the colours

>>> from layoutalg.layout import Layout
>>> print(as_text(layout_picture(Layout((2, 2))), unicode=False).splitlines()[-3])
1 | 1 3
"""

from __future__ import annotations

from layoutalg.draw.access import Service, access_picture, layout_access_picture, schedule, tile_panel
from layoutalg.draw.atoms import copy_picture, mma_picture
from layoutalg.draw.graph import as_dot, render
from layoutalg.draw.picture import Cell, Panel, Picture, layout_picture, swizzle_picture, tv_picture
from layoutalg.draw.svg import as_svg
from layoutalg.draw.text import as_text

__all__ = [
    "Cell",
    "Panel",
    "Picture",
    "Service",
    "access_picture",
    "as_dot",
    "as_svg",
    "as_text",
    "copy_picture",
    "layout_access_picture",
    "layout_picture",
    "mma_picture",
    "render",
    "schedule",
    "swizzle_picture",
    "tile_panel",
    "tv_picture",
]
