"""What a synthesis answers: a layout with its reports, and a certificate that can be checked without it.

The idea.  Number the words of a tile in storage order, as vectors over F2.  One phase of an access (the
lanes served together) reaches a coset of a subspace, its footprint F.  A layout sends words to banks by a
linear map with kernel K.  Two words of a phase clash exactly when they differ by an element of K, so

    degree of the access = 2^dim(K & F)          conflict-free  <=>  K & F = 0

A conflict-free layout is certified by K and the footprints; anyone can compute the ranks again.  That none
exists is certified by the claim and the accesses that clash, of which there are five kinds (see Reason).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.analysis.access import Access, TmaAccess
from layoutalg.analysis.report import SharedReport
from layoutalg.arch import Arch
from layoutalg.dtype import DType
from layoutalg.int_tuple import IntTuple, flatten
from layoutalg.layout import Layout
from layoutalg.swizzle import AnyLayout

Order: TypeAlias = Literal["row", "col"]
Form: TypeAlias = Literal["any", "single", "tma"]
Kind: TypeAlias = Literal["plain", "swizzle", "xor", "padding", "none"]

Reason: TypeAlias = Literal["ranks", "counted", "repeated-word", "narrow-banks", "exhausted", "forms"]
"""Why a certificate holds.

Conflict-free: "ranks", K & F = 0 for every access; "counted", every instruction takes its ideal.
Infeasible: "repeated-word", an access that is not broadcast asks one word twice; "narrow-banks", vectors
kept whole leave an access fewer banks than it has words; "exhausted", no kernel avoids all footprints;
"forms", none of the layouts of the asked form is conflict-free.
"""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The claim of a synthesis, in the terms that `check_certificate` recomputes.

    `classes` names the layouts that the claim is about: for a conflict-free layout its own class, for an
    infeasible one every class in which none exists.  "linear-in-place": F2-linear maps of the tile onto
    itself that keep words, and in storage order the vectors of the widest access, whole; "any-in-place":
    all permutations of its words; "any-placement": all placements whatsoever; "single-swizzle" and "tma":
    the forms of that name; "padding up to N bytes": longer rows.

    `kernel` and `footprints` are bases over the word numbers in storage order, of the bank map and of one
    phase of each access; `clash` lists accesses that cannot be served together; `nodes` is the size of
    the search.
    """

    conflict_free: bool
    reason: Reason
    classes: tuple[str, ...]
    kernel: tuple[int, ...] = ()
    footprints: tuple[tuple[int, ...], ...] = ()
    clash: tuple[int, ...] = ()
    nodes: int = 0


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another layout, with the wavefronts of all accesses together and its cost in memory."""

    layout: AnyLayout
    kind: Kind
    extra_bytes: int
    total: int
    ideal_total: int


@dataclass(frozen=True, slots=True)
class Synthesis:
    """The answer of `synthesize`: a conflict-free layout, or None with the proof that there is none.

    `extra_bytes` is the memory beyond the tile's own; `reports` has one report an access that has lanes;
    `alternatives` are other layouts, best first.  The question is kept with the answer: `shape`,
    `accesses`, `element`, `order`, `form`, `max_extra_bytes`, `arch`.
    """

    layout: AnyLayout | None
    kind: Kind
    extra_bytes: int
    reports: tuple[SharedReport, ...]
    certificate: Certificate
    alternatives: tuple[Alternative, ...]
    shape: IntTuple
    accesses: tuple[Access | TmaAccess, ...]
    element: DType
    order: Order
    form: Form
    max_extra_bytes: int
    arch: Arch


def storage_layout(shape: IntTuple, order: Order, pad_elems: int = 0) -> Layout:
    """The plain layout of a tile: "row" stores the last mode contiguously, "col" the first.

    A mode that is itself a tuple is stored as one, leftmost fastest.  `pad_elems` are left free after each
    run of the contiguous mode.

    >>> print(storage_layout((4, 8), "row"), storage_layout((4, (2, 4)), "row", 2))
    (4,8):(8,1) (4,(2,4)):(10,(1,2))
    """
    modes = shape if isinstance(shape, tuple) else (shape,)
    strides: list[IntTuple] = [0] * len(modes)
    current, pad = 1, pad_elems
    for i in reversed(range(len(modes))) if order == "row" else range(len(modes)):
        mode = modes[i]
        inner: list[int] = []
        for extent in flatten(mode):
            inner.append(0 if extent == 1 else current)
            current *= extent
        strides[i] = _nested(mode, inner)
        if current > 1 and pad:
            current, pad = current + pad, 0
    if isinstance(shape, tuple):
        return Layout(shape, tuple(strides))
    return Layout(shape, strides[0])


def _nested(mode: IntTuple, leaves: list[int]) -> IntTuple:
    """The leaves, consumed from the front, in the form of `mode`."""
    if isinstance(mode, tuple):
        return tuple(_nested(m, leaves) for m in mode)
    return leaves.pop(0)
