"""The answer of a synthesis: a layout with its reports, and a certificate that can be checked without it.

The idea.  Number the words of a tile in storage order, as vectors over F2.  One phase of an access (the
lanes served together) reaches a coset of a subspace, its footprint F.  A layout sends words to banks by a
linear map with kernel K.  Two words of a phase clash exactly when they differ by an element of K, so

    degree of the access = 2^dim(K & F)          conflict-free  <=>  K & F = 0

Where K and F are subspaces, K and the footprints certify a layout, and anyone can compute the ranks again.
Elsewhere (extents that are not a power of two, swizzles inside words) a certificate counts: the bank bits of
Sw<B,M,S>(x) depend on x modulo its period 2^k alone, so the instructions fall into classes, which lanes lie
where relative to the first and where that one is modulo 2^k, and one of each class is enough.  That none
exists is certified by the classes of layouts that were ruled out and by a reason of one of four kinds
(see Reason); the certificate states nothing about any other layout.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, TypeAlias

from layoutalg.algebra import Order
from layoutalg.analysis import Access, SharedReport, TmaAccess, report_text
from layoutalg.arch import Arch
from layoutalg.dtype import DType
from layoutalg.layout import AnyLayout, IntTuple, to_text
from layoutalg.notebook import Shown

Form: TypeAlias = Literal["any", "single", "tma", "rotation"]
Kind: TypeAlias = Literal["plain", "swizzle", "xor", "padding", "rotation", "none"]

Reason: TypeAlias = Literal[
    "ranks", "counted", "classes", "repeated-word", "narrow-banks", "exhausted", "forms"
]
"""Why a certificate holds.

Conflict-free: "ranks", K & F = 0 for every access; "counted", every instruction takes its ideal; "classes",
one instruction of every class modulo the swizzle's period takes its ideal.
Infeasible: "repeated-word", an access that is not broadcast asks one word twice; "narrow-banks", vectors
kept whole leave an access fewer banks than it has words; "exhausted", no kernel avoids all footprints;
"forms", none of the layouts of the asked form is conflict-free.
"""


@dataclass(frozen=True, slots=True)
class Certificate:
    """The claim of a synthesis, in the terms that `check_certificate` recomputes.

    `classes` names the layouts that the claim is about: for a conflict-free layout its own class, for an
    infeasible one every class in which none exists, and only those.

        any-placement                            all placements whatsoever
        any-in-place of whole 4-byte units       all permutations of the tile's words
        linear-in-place                          F2-linear maps of the tile onto itself
        linear-in-place of whole 16-byte units   those that keep every such unit of the storage order whole
        single-swizzle                           Sw<B,M,S> of the storage order, any B, M and S, in the tile's
                                                 memory and `max_extra_bytes`
        plain, tma                               storage order; what tensor-map copies write
        rotation                                 rows rotated by multiples of the widest vector, by a further
                                                 step after every group of rows
        padding up to 4096 bytes                 rows longer by multiples of the widest vector, with at most
                                                 4096 bytes more in all

    Layouts that do not fit the shared memory of a block are not part of the claim.
    `kernel` and `footprints` are bases over the word numbers in storage order, of the bank map and of one
    phase of each access; `period_bits` is k where instructions are distinguished modulo 2^k elements, and
    `reached` the number of their classes for each access; `clash` lists accesses that cannot be served
    together.  `nodes` is the length of the search, and is not part of the claim.
    """

    conflict_free: bool
    reason: Reason
    classes: tuple[str, ...]
    kernel: tuple[int, ...] = ()
    footprints: tuple[tuple[int, ...], ...] = ()
    clash: tuple[int, ...] = ()
    nodes: int = 0
    period_bits: int = 0
    reached: tuple[int, ...] = ()


@dataclass(frozen=True, slots=True)
class Alternative:
    """Another layout, with the wavefronts of all accesses together and its cost in memory."""

    layout: AnyLayout
    kind: Kind
    extra_bytes: int
    total: int
    ideal_total: int


@dataclass(frozen=True, slots=True, repr=False)
class Synthesis(Shown):
    """The answer of `synthesize`: a conflict-free layout, or None with what was ruled out, and why.

    `extra_bytes` is the memory beyond the tile's own; `reports` has one report per access that has lanes;
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

    def __repr__(self) -> str:
        return f"<Synthesis {self._headline()}>"

    def __str__(self) -> str:
        """The layout, what its accesses cost, and the other layouts that were found."""
        lanes = [access.op for access in self.accesses if isinstance(access, Access)]
        text = [self._headline(), "", report_text(list(zip(lanes, self.reports, strict=False)))]
        for other in self.alternatives:
            text.append(
                f"Or {other.layout} ({other.kind}, {other.extra_bytes} bytes of extra memory): "
                f"{other.total} wavefronts, ideal {other.ideal_total}."
            )
        return "\n".join(text if self.reports else text[:1])

    def _headline(self) -> str:
        if self.layout is None:
            tile, classes = f"{to_text(self.shape)} {self.element}", self.certificate.classes
            if classes == ("any-placement",):
                return f"no layout of {tile} without conflicts exists, wherever its words are placed"
            among = ", ".join(classes)
            return f"none of {tile} without conflicts was found among {among}; no others were searched"
        return f"{self.layout}, {self.kind}, {self.extra_bytes} bytes of extra memory"


def unit_class(kind: Literal["linear", "any"], unit_bytes: int) -> str:
    """The name of a class of layouts that keep units of the storage order whole.

    >>> unit_class("linear", 16)
    'linear-in-place of whole 16-byte units'
    """
    return f"{kind}-in-place of whole {unit_bytes}-byte units"


def padding_class(max_extra_bytes: int) -> str:
    """The name of the class of padded storage orders within `max_extra_bytes`.

    >>> padding_class(4096)
    'padding up to 4096 bytes'
    """
    return f"padding up to {max_extra_bytes} bytes"
