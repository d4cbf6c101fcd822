r"""A layout as a graph: which digits of the coordinate meet which strides, and what happens to their sum.

The idea.  A layout is a pipeline.  Every leaf mode takes a digit of the coordinate and multiplies it by its
stride; the products are added, the offset joins them, and swizzles or outer layouts act on the sum, from the
inside out.  `graph_diagram` draws that pipeline, and `as_dot` writes it in graphviz's DOT language.

>>> print(as_dot(ComposedLayout(Swizzle(1, 0, 1), 0, Layout((2, 2), (2, 1)))))
digraph layout {
  graph [fontname=monospace label="Sw<1,0,1> o 0 o (2,2):(2,1)" labelloc=t rankdir=LR]
  node [fontname=monospace shape=box]
  edge [fontname=monospace]
  n0 [label="coordinate\n(2,2)" shape=ellipse]
  n1 [label="i0 < 2\n* 2"]
  n2 [label="i1 < 2\n* 1"]
  n3 [label="+"]
  n4 [label="Sw<1,0,1>\nx ^ ((x & 0x2) >> 1)"]
  n5 [label=offset shape=ellipse]
  n0 -> n1
  n0 -> n2
  n1 -> n3
  n2 -> n3
  n3 -> n4
  n4 -> n5
}
"""

from __future__ import annotations

from layoutalg.draw.picture import Cell, Diagram, Picture, grid
from layoutalg.draw.scene import CHUNK_COLORS, Box, Line, Scene, Shape, Words, hex_color, text_width
from layoutalg.draw.svg import MARGIN
from layoutalg.errors import check_type
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree, to_text
from layoutalg.limits import Most

_LINE, _ARROW = 16, 40


def as_dot(layout: AnyLayout) -> str:
    """The pipeline of a layout in the DOT language (graphviz.org/doc/info/lang.html).

    Raises ResourceError past Most.PARTS nodes.

    >>> as_dot(Layout(4)).splitlines()[-2].strip()
    'n2 -> n3'
    """
    labels, edges = _pipeline("as_dot", layout)
    last = len(labels) - 1
    import graphviz

    font = {"fontname": "monospace"}
    graph = graphviz.Digraph(
        "layout",
        graph_attr={"label": _escaped(str(layout)), "labelloc": "t", "rankdir": "LR", **font},
        node_attr={"shape": "box", **font},
        edge_attr=font,
    )
    for i, label in enumerate(labels):
        graph.node(f"n{i}", _escaped(label), **({"shape": "ellipse"} if i in (0, last) else {}))
    graph.edges((f"n{a}", f"n{b}") for a, b in edges)
    source: str = graph.source
    return source.expandtabs(2).rstrip()


def graph_diagram(layout: AnyLayout) -> Diagram:
    """The pipeline of a layout as boxes and arrows; as text a row per box.

    Raises ResourceError past Most.PARTS nodes.

    >>> [row[0].text for row in graph_diagram(Layout((2, 3))).picture.panels[0].cells]
    ['coordinate (2,3)', 'i0 < 2 * 1', 'i1 < 3 * 2', '+', 'offset']
    """
    labels, edges = _pipeline("graph_diagram", layout)
    digits = sum(1 for a, _ in edges if a == 0)
    width = [max(text_width(line) for line in label.split("\n")) + 24 for label in labels]
    height = [_LINE * (1 + label.count("\n")) + 10 for label in labels]
    tall = max(sum(height[1 : digits + 1]) + 10 * (digits - 1), max(height))
    top, middle = MARGIN + 30, MARGIN + 30 + tall // 2
    at: list[tuple[int, int]] = [(MARGIN, middle - height[0] // 2)]
    x, y = MARGIN + width[0] + _ARROW, top + (tall - sum(height[1 : digits + 1]) - 10 * (digits - 1)) // 2
    for n in range(1, digits + 1):
        at.append((x, y))
        y += height[n] + 10
    x += max(width[1 : digits + 1], default=0) + _ARROW
    for n in range(digits + 1, len(labels)):
        at.append((x, middle - height[n] // 2))
        x += width[n] + _ARROW
    boxes: list[Shape] = []
    words: list[Shape] = []
    for n, (a, b) in enumerate(at):
        fill = hex_color(CHUNK_COLORS[2 if n in (0, len(labels) - 1) else 4 if n <= digits else 5])
        boxes.append(Box(a, b, width[n], height[n], fill, "#111"))
        for line, text in enumerate(labels[n].split("\n")):
            words.append(Words(a + width[n] / 2, b + 18 + _LINE * line, text, "middle"))
    arrows = [
        Line(
            ((at[a][0] + width[a], at[a][1] + height[a] / 2), (at[b][0], at[b][1] + height[b] / 2)),
            arrow=True,
        )
        for a, b in edges
    ]
    title = str(layout)
    across = max(x - _ARROW, MARGIN + text_width(title, 8.6)) + MARGIN
    head = Words(MARGIN, MARGIN + 10, title, bold=True, size=14)
    scene = Scene(title, across, top + tall + MARGIN, (head, *arrows, *boxes, *words))

    def cell(n: int, head: str) -> Cell:
        if head == "what":
            return Cell(labels[n].replace("\n", " "))
        return Cell(", ".join(str(b) for a, b in edges if a == n))

    panel = grid("from the coordinate to the offset", range(len(labels)), ("what", "goes to"), cell)
    return Diagram(scene, Picture(title, (panel,)))


def _pipeline(operation: str, layout: AnyLayout) -> tuple[list[str], list[tuple[int, int]]]:
    """The text of each node, and the edges (from, to) between nodes."""
    check_type(operation, layout, (Layout, ComposedLayout), "a layout")
    inner, stages = _stages(layout)
    extents, strides = flatten_tree(inner.shape), flatten_tree(inner.stride)
    count = len(extents) + len(stages) + 3
    Most.PARTS.guard(count, "nodes of the graph", hint="coalesce the layout first")
    digits = [f"i{i} < {s}\n* {d}" for i, (s, d) in enumerate(zip(extents, strides, strict=True))]
    labels = [f"coordinate\n{to_text(inner.shape)}", *digits, "+", *stages, "offset"]
    last, total = len(labels) - 1, len(digits) + 1
    edges = [(0, i) for i in range(1, total)] + [(i, total) for i in range(1, total)]
    return labels, edges + [(i, i + 1) for i in range(total, last)]


def _stages(layout: AnyLayout) -> tuple[Layout, list[str]]:
    """The innermost plain layout, and what is done to its value, first things first."""
    outer: list[list[str]] = []
    while isinstance(layout, ComposedLayout):
        offset = [f"+ {layout.offset}"] if layout.offset else []
        plain = [str(layout.outer)] if isinstance(layout.outer, Layout) else []
        functions = plain or [_formula(s) for s in reversed(layout.swizzles)]
        outer.append(offset + functions)
        layout = layout.inner
    return layout, [stage for stages in reversed(outer) for stage in stages]


def _formula(swizzle: Swizzle) -> str:
    arrow = ">>" if swizzle.shift > 0 else "<<"
    return f"{swizzle}\nx ^ ((x & {swizzle.yyy_mask:#x}) {arrow} {abs(swizzle.shift)})"


def _escaped(text: str) -> str:
    """`text` as a label: backslashes are themselves, and its lines are centred."""
    import graphviz

    return "\\n".join(map(graphviz.escape, text.splitlines()))
