"""Choices: layouts of a tile with all that one chooses by, in the order in which one would.

The idea.  Among layouts one asks, in this order, for

    wavefronts    fewest first
    extra bytes   the memory beyond that of the layout as it was given
    index         integer instructions of the index function, as whoever prints it counts them
    TMA           the mode in which tensor-map copies write the layout, if there is one
    wgmma         the operands that the layout is, if it is one

>>> from layoutalg.synthesis.tiles.answer import synthesize_tile
>>> found = synthesize_tile(Layout((64, 64), (64, 1)), ["ldmatrix.x4"], element="f16")
>>> for choice in found.ranking[:2]:
...     print(choice.layout, choice.total, choice.extra_bytes, choice.tma, choice.wgmma)
Sw<3,3,3> o 0 o (64,64):(64,1) 64 0 128B A and B
Sw<2,3,3> o 0 o (64,(32,2)):(32,(1,2048)) 64 0 64B A and B
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from typing import Literal

from layoutalg.algebra import Order
from layoutalg.arch import HOPPER_MODES, WGMMA_TYPES, Arch
from layoutalg.decide import same_function
from layoutalg.dtype import DType
from layoutalg.errors import AlignmentError, ShapeError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, IntTuple, Layout, product
from layoutalg.legality import check_wgmma
from layoutalg.synthesis.result import Synthesis
from layoutalg.synthesis.tma import tma_layouts

NONE = "no"
"""The entry of a layout that TMA does not write, or that is not an operand of wgmma."""


@dataclass(frozen=True, slots=True)
class Choice:
    """A layout on the shape as given, and what it costs.

    `stage` is the layout of one stage; `total` and `ideal_total` are wavefronts of all accesses of one stage,
    `extra_bytes` memory beyond that of the layout as given, `index_instructions` integer instructions of the
    index function (None where they were not counted), `tma` a swizzle mode or "no", `wgmma` operands or "no".
    """

    layout: AnyLayout
    stage: AnyLayout
    kind: str
    extra_bytes: int
    total: int
    ideal_total: int
    tma: str
    wgmma: str
    index_instructions: int | None = None

    @property
    def conflict_free(self) -> bool:
        """Whether all accesses take their ideal."""
        return self.total == self.ideal_total


def ranked_choices(
    choices: Iterable[Choice], index_instructions: Callable[[AnyLayout], int | None] | None
) -> tuple[Choice, ...]:
    """The choices, each layout once, in the order of the module's text.

    >>> ranked_choices([], None)
    ()
    """
    once: dict[AnyLayout, Choice] = {}
    for choice in choices:
        once.setdefault(choice.layout, choice)
    counted = [
        replace(choice, index_instructions=None if index_instructions is None else index_instructions(layout))
        for layout, choice in once.items()
    ]

    def key(choice: Choice) -> tuple[int, int, int, bool, bool]:
        index = choice.index_instructions or 0
        return choice.total, choice.extra_bytes, index, choice.tma == NONE, choice.wgmma == NONE

    return tuple(sorted(counted, key=key))


def choices_of(found: Synthesis) -> list[Choice]:
    """The layout of a synthesis, if it has one, and its alternatives, as choices.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> [choice.kind for choice in choices_of(synthesize((16, 16), ["ldmatrix.x4"], element="f16"))]
    ['swizzle', 'swizzle', 'padding', 'plain']
    """
    layouts: list[tuple[AnyLayout, str, int, int, int]] = []
    if found.layout is not None:
        total, ideal = (sum(getattr(r, name) for r in found.reports) for name in ("total", "ideal_total"))
        layouts.append((found.layout, found.kind, found.extra_bytes, total, ideal))
    layouts += [(o.layout, o.kind, o.extra_bytes, o.total, o.ideal_total) for o in found.alternatives]
    out = []
    for layout, kind, extra_bytes, total, ideal in layouts:
        tma = tma_mode(layout, found.shape, found.element, found.order, found.arch)
        wgmma = wgmma_operands(layout, found.element, found.arch)
        out.append(Choice(layout, layout, kind, extra_bytes, total, ideal, tma, wgmma))
    return out


def tma_mode(stage: AnyLayout, shape: IntTuple, element: DType, order: Order, machine: Arch) -> str:
    """The swizzle mode in which tensor-map copies write a tile as this layout has it, or "no".

    A swizzle has to repeat in the address where it does in the layout, so the tile starts at a whole period.

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> tma_mode(Layout((64, 64), (64, 1)), (64, 64), dtype("f16"), "row", ARCHS["sm_90"])
    'none'
    """
    try:
        written = [tile.layout for tile in tma_layouts(shape, element, order, (), machine, 1 << 30)]
    except (AlignmentError, ShapeError, UnsupportedError):
        return NONE
    for layout in written:
        if same_function(layout, stage):
            swizzles = layout.swizzles if isinstance(layout, ComposedLayout) else ()
            bits = swizzles[0].bits if swizzles else 0
            return next(mode.name for mode in HOPPER_MODES if mode.swizzle.bits == bits)
    return NONE


def wgmma_operands(stage: AnyLayout, element: DType, machine: Arch) -> str:
    """The operands of wgmma that the layout can be: "A", "B", "A and B" or "no".

    >>> from layoutalg.arch import ARCHS
    >>> from layoutalg.dtype import dtype
    >>> wgmma_operands(Layout((64, 64), (64, 1)), dtype("f16"), ARCHS["sm_90"])
    'no'
    """
    if machine.compute_capability[0] != 9 or element.name not in WGMMA_TYPES:
        return NONE
    if product(stage.shape) == 0 or not isinstance(stage.shape, tuple) or len(stage.shape) != 2:
        return NONE
    operands: tuple[Literal["A", "B"], ...] = ("A", "B")
    are = [name for name in operands if check_wgmma(stage, element, name).legal]
    return " and ".join(are) or NONE


def plain_layout(layout: AnyLayout) -> bool:
    """Whether nothing is swizzled.

    >>> plain_layout(Layout(4))
    True
    """
    return isinstance(layout, Layout) or not layout.swizzles
