"""Sliders for a notebook: what a swizzle and a pad do to an access, as they are moved.

    swizzle_panel(shape, ...)     one setting as a piece of HTML: the layout, its cost, its picture
    swizzle_sliders(shape, ...)   the same with sliders for B, M, S and the pad, and a choice of accesses

The idea.  The panel is a function of its settings and needs no notebook; ipywidgets only calls it again.
A refusal, such as of vectors that a pad misaligns, is shown as its sentence: a slider passes through
such settings.

>>> panel = swizzle_panel((64, 64), "f16", "ldmatrix.x4", bits=3, base=3, shift=3)
>>> "Sw&lt;3,3,3&gt; o 0 o (64,64):(64,1)" in panel, "conflict-free" in panel
(True, True)
"""

from __future__ import annotations

import importlib
from html import escape
from typing import Any

from layoutalg.analysis import Access, SharedReport, analyze, sentence
from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.draw import as_html, layout_access_picture
from layoutalg.errors import LayoutAlgError, ShapeError, UnsupportedError, check_type, printable
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.limits import Most
from layoutalg.optional import import_trouble

MAX_BITS, MAX_BASE, MAX_SHIFT, MAX_PAD = 5, 6, 8, 32
"""The ends of the sliders; the pad counts elements."""

ACCESSES = (
    "ldmatrix.x4",
    "ldmatrix.x4.trans",
    "ld.shared.b128@row",
    "ld.shared.b32@row",
    "ld.shared.b32@col",
)
"""The accesses that `swizzle_sliders` offers beside the one that it was called with."""


def swizzle_panel(
    shape: tuple[int, int],
    element: str = "f16",
    access: str = "ldmatrix.x4",
    *,
    bits: int = 0,
    base: int = 0,
    shift: int = 1,
    pad: int = 0,
    arch: str | Arch = DEFAULT_ARCH,
) -> str:
    """A row-major tile with its rows `pad` elements longer and Sw<bits,base,shift> applied, as HTML.

    It holds the layout, what the access costs on it, and the picture of its worst instruction.  A setting
    that the library refuses gives its sentence instead.  Raises ShapeError for a shape that is not two
    extents, of at most Most.CELLS elements.

    >>> "8-way" in swizzle_panel((64, 64), "f16", "ldmatrix.x4")
    True
    >>> "multiples of 16 bytes" in swizzle_panel((64, 64), "f16", "ldmatrix.x4", pad=1)
    True
    """
    rows, columns = _extents(shape)
    try:
        if pad < 0 or rows * (columns + pad) > Most.CELLS.number:
            raise ShapeError(
                f"swizzle_panel: the pad is {pad}; accepted are 0 to {Most.CELLS.number // rows - columns}"
            )
        plain = Layout((rows, columns), (columns + pad, 1))
        layout: AnyLayout = ComposedLayout(Swizzle(bits, base, shift), 0, plain) if bits else plain
        wanted = Access.of(access, layout, element, arch)
        report = analyze(layout, wanted, arch=arch)
        summary = sentence(access, report)
        drawn = as_html(layout_access_picture(layout, wanted, arch))
        good = not isinstance(report, SharedReport) or report.ways <= 1
    except LayoutAlgError as error:
        return f'<p style="color:#a33">{escape(printable(str(error)))}</p>'
    mark = "#2a7" if good else "#a33"
    return f'<p><code>{escape(str(layout))}</code></p><p style="color:{mark}">{escape(summary)}</p>{drawn}'


def swizzle_sliders(
    shape: tuple[int, int] = (64, 64),
    element: str = "f16",
    access: str = "ldmatrix.x4",
    *,
    arch: str | Arch = DEFAULT_ARCH,
) -> Any:
    """`swizzle_panel` under sliders for B, M, S and the pad, and a list of accesses: an ipywidgets.VBox.

    Its first child holds the controls, the second the panel.  Raises UnsupportedError where ipywidgets is not
    installed, and ShapeError as `swizzle_panel` does.
    """
    _extents(shape)
    if trouble := import_trouble("ipywidgets", "pip install 'layoutalg[notebook]'"):
        raise UnsupportedError(f"swizzle_sliders: {trouble}")
    widgets = importlib.import_module("ipywidgets")

    def slider(label: str, value: int, least: int, most: int) -> Any:
        return widgets.IntSlider(value=value, min=least, max=most, description=label, continuous_update=False)

    settings = {
        "bits": slider("B", 0, 0, MAX_BITS),
        "base": slider("M", 3, 0, MAX_BASE),
        "shift": slider("S", 3, 1, MAX_SHIFT),
        "pad": slider("pad", 0, 0, min(MAX_PAD, Most.CELLS.number // shape[0] - shape[1])),
        "access": widgets.Dropdown(
            options=list(dict.fromkeys((access, *ACCESSES))), value=access, description="access"
        ),
    }
    panel = widgets.HTML()

    def redraw(_change: object = None) -> None:
        values = {name: control.value for name, control in settings.items()}
        panel.value = swizzle_panel(shape, element, **values, arch=arch)

    for control in settings.values():
        control.observe(redraw, names="value")
    redraw()
    return widgets.VBox([widgets.VBox(list(settings.values())), panel])


def _extents(shape: tuple[int, int]) -> tuple[int, int]:
    """Rows and columns of a tile of a size to be drawn."""
    check_type("swizzle_panel", shape, tuple, "a shape of two extents")
    if len(shape) != 2 or any(type(extent) is not int or extent < 1 for extent in shape):
        raise ShapeError(f"swizzle_panel: the shape is {shape}; two positive extents are accepted")
    if shape[0] * shape[1] > Most.CELLS.number:
        raise ShapeError(
            f"swizzle_panel: {shape} has more than {Most.CELLS.number} elements, which is the most"
        )
    return shape
