"""Tiles of shared memory that TMA writes and wgmma reads: an atom of a swizzle mode, repeated.

The idea.  A tile that both accept is one of CuTe's atoms repeated by tile_to_shape, the boxes of TMA as wide
as the atom.  Each candidate is judged by `check_wgmma` and, box by box, by `check_tma`; nothing is trusted.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection
from dataclasses import dataclass

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import (
    DEFAULT_ARCH,
    HOPPER_MODES,
    Arch,
    Major,
    SmemAtom,
    SwizzleMode,
    atom_layout,
    find_smem_atom,
)
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, check_choice
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, coalesce, to_text
from layoutalg.legality.canonical import check_major, operand_shape, restrict
from layoutalg.legality.rules import Legality
from layoutalg.legality.tma import TmaCopy, check_tma
from layoutalg.legality.tma_rules import MAX_BOX_ELEMS
from layoutalg.legality.wgmma import SharedOperand, WgmmaOperand, check_wgmma

USES = ("tma", "wgmma")
"""Uses of a tile."""


@dataclass(frozen=True, slots=True)
class SharedTile:
    """A tile: its layout (M or N, K) -> offset in elements, its atom, and what the hardware takes of it.

    `box` has the sides of a TMA box in the modes of the tile, of which `boxes` fill it, `copy` is that of the
    first one; `operands` are those of wgmma that it is.  Where they were not asked for there are none.
    """

    layout: AnyLayout
    element: DType
    atom: SmemAtom
    boxes: int
    copy: TmaCopy | None
    operands: tuple[WgmmaOperand, ...]

    @property
    def mode(self) -> SwizzleMode:
        """The swizzle mode."""
        return self.atom.mode

    @property
    def box(self) -> tuple[int, int] | None:
        """The sides of a box, (M or N, K)."""
        return None if self.copy is None else operand_shape(self.copy.layout or self.layout)


def shared_tiles(
    shape: tuple[int, int],
    element: str | DType,
    uses: Collection[str] = USES,
    *,
    major: Major = "K",
    arch: str | Arch = DEFAULT_ARCH,
) -> tuple[SharedTile, ...]:
    """The tiles of a shape, (M or N, K), for all of `uses`, the widest swizzle first.

    `major` is the mode that is contiguous in memory.  Raises ShapeError, with what the modes need, where no
    mode serves the shape, UnknownNameError, and as `check_wgmma` and `check_tma` do.

    >>> best = shared_tiles((128, 64), "bf16")[0]
    >>> print(best.layout, best.atom.name, best.box, best.boxes)
    Sw<3,3,3> o 0 o (128,64):(64,1) Layout_K_SW128_Atom (128, 64) 1
    """
    kind, found, needs = dtype(element), list[SharedTile](), list[str]()
    check_major(major)
    for use in uses:
        check_choice("use of a tile", use, USES)
    for mode in reversed(HOPPER_MODES):
        atom = find_smem_atom(f"Layout_{major}_{mode.atom}_Atom")
        sides = operand_shape(atom_layout(atom, kind))
        if any(extent % side for extent, side in zip(shape, sides, strict=True)):
            needs.append(f"{mode.name} multiples of {to_text(sides)}")
            continue
        # atoms follow each other along the other mode first, so that a box is one run of them
        order = (0, 1) if major == "K" else (1, 0)
        layout = _by_mode(tile_to_shape(atom_layout(atom, kind), shape, order))
        read = _operands(layout, kind, major, arch) if "wgmma" in uses else []
        written = _copies(layout, kind, sides, atom, arch) if "tma" in uses else []
        answers: list[Legality[TmaCopy] | Legality[WgmmaOperand]] = [*written, *read]
        refusals = [answer.violations[0] for answer in answers if not answer.legal]
        operands = tuple(answer.result for answer in read if answer.result is not None and answer.legal)
        copies = [answer.result for answer in written if answer.result is not None and answer.legal]
        if ("wgmma" in uses and not operands) or len(copies) < len(written):
            needs.append(f"{mode.name} is refused: {refusals[-1].asked}")  # B is held to fewer rules than A
            continue
        found.append(SharedTile(layout, kind, atom, len(copies), next(iter(copies), None), operands))
    if not found:
        raise ShapeError(
            f"no swizzle mode serves a tile {to_text(shape)} of {kind}, {major}-major, for "
            f"{' and '.join(uses)}: {'; '.join(needs)}"
        )
    return tuple(found)


def _by_mode(layout: AnyLayout) -> AnyLayout:
    """The layout with each of its two modes as simple as it can be."""
    if isinstance(layout, ComposedLayout) and isinstance(layout.inner, Layout):
        return ComposedLayout(layout.outer, layout.offset, coalesce(layout.inner, (1, 1)))
    return coalesce(layout, (1, 1)) if isinstance(layout, Layout) else layout


def _operands(
    layout: AnyLayout, element: DType, major: Major, arch: str | Arch
) -> list[Legality[WgmmaOperand]]:
    """The answers for A and for B."""
    sides: tuple[SharedOperand, ...] = ("A", "B")
    return [check_wgmma(layout, element, side, major=major, arch=arch) for side in sides]


def _copies(
    layout: AnyLayout, element: DType, atom_sides: tuple[int, int], atom: SmemAtom, arch: str | Arch
) -> list[Legality[TmaCopy]]:
    """The answers for each box that fills the tile."""
    shape = operand_shape(layout)
    tensor = Layout(shape, (shape[1], 1) if atom.major == "K" else (1, shape[0]))
    inner = 1 if atom.major == "K" else 0
    box = tuple(
        side if mode == inner else max(n for n in range(side, MAX_BOX_ELEMS + 1, side) if extent % n == 0)
        for mode, (extent, side) in enumerate(zip(shape, atom_sides, strict=True))
    )
    answers = list[Legality[TmaCopy]]()
    for place in itertools.product(
        *(range(0, extent, side) for extent, side in zip(shape, box, strict=True))
    ):
        part = restrict(layout, place[0] + shape[0] * place[1], Layout(box, (1, shape[0])))
        written = _from_its_start(part)
        answers.append(check_tma(tensor, box, element, mode=atom.mode, shared=written, arch=arch))
    return answers


def _from_its_start(part: AnyLayout) -> AnyLayout:
    """A box's layout from where it begins, which is a multiple of the swizzle's period."""
    if isinstance(part, ComposedLayout) and isinstance(part.inner, Layout):
        return ComposedLayout(part.outer, 0, part.inner)
    return part
