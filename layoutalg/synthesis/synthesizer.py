"""synthesize: a layout of a tile without bank conflicts for all its accesses, or which have none, proved.

The idea.  A tile is written by one pattern and read by others.  The simplest layout that serves all of
them is taken, in this order, each step only if the one before has nothing:

    plain      storage order as it is
    swizzle    storage order under one Sw<B,M,S>, fewest bits first
    xor        under a XOR matrix: a chain of swizzles, and permuted strides where rows cannot stay whole
    padding    rows set apart, if the caller allows memory for it

and where the caller asks for it, a rotation: rows turned by their number.

>>> tile = synthesize((32, 128), ["st.shared.b32@row", "ld.shared.b32@col"], element="f32")
>>> print(tile.layout, tile.certificate.reason)
Sw<5,0,7> o 0 o (32,128):(128,1) ranks

Notes.  Any two accesses whose vectors are equally wide are served by some linear map (see search).  A
narrow access beside wide vectors may not be: a column of 32 floats and float4 rows have no layout at all,
since only the 8 banks at multiples of 16 bytes hold the first words of vectors.

Comparison with CuTe.  CuTe leaves the choice of B, M, S to its user; the usual rule (M = log2 V,
B = log2(1024 / bits) - M, S = log2(max(1024 / bits, X)) - M for rows of X elements) is one answer for one
pattern.  Here the patterns are the input, and the answer is proved.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice
from typing import NamedTuple, get_args

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, SharedReport, TmaAccess, addressing
from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch, find_instruction
from layoutalg.dtype import DType, dtype
from layoutalg.errors import (
    ArgumentTypeError,
    MismatchError,
    NotLinearError,
    ResourceError,
    ShapeError,
    UndecidedError,
    UnsupportedError,
    check_choice,
)
from layoutalg.f2 import intersection
from layoutalg.layout import (
    AnyLayout,
    ComposedLayout,
    IntTuple,
    Layout,
    flatten_tree,
    normalize,
    product,
    to_text,
    whole_number,
)
from layoutalg.synthesis.alternatives import OTHERS, Other, free_swizzles, other_swizzles, ranked, serves
from layoutalg.synthesis.padding import padded_tiles, pads_of, reports_if_free, rotated_tiles
from layoutalg.synthesis.patterns import (
    BitTile,
    Pattern,
    check_access,
    make_patterns,
    make_tile,
    with_constraints,
)
from layoutalg.synthesis.result import Certificate, Form, Kind, Synthesis, padding_class, unit_class
from layoutalg.synthesis.search import (
    find_graph,
    find_kernel,
    in_rows,
    kernel_of,
    layout_of_kernel,
    swizzled_tile,
    union_of,
)
from layoutalg.synthesis.singles import Single, free_singles, visits_of
from layoutalg.synthesis.tma import tma_layouts


@dataclass(frozen=True, slots=True)
class _Question:
    """The question, checked: `given` are the accesses that have lanes, `copies` those of TMA.

    `base` is storage order; `lanes` are the accesses `given` with only the lanes that supply addresses;
    `room_bytes` is the memory that a layout may take in all.
    """

    shape: IntTuple
    base: Layout
    given: tuple[Access, ...]
    lanes: tuple[Access, ...]
    copies: tuple[TmaAccess, ...]
    element: DType
    order: Order
    form: Form
    max_extra_bytes: int
    machine: Arch

    @property
    def room_bytes(self) -> int:
        """The memory that a layout may take."""
        wanted = -(-product(self.shape) * self.element.bits // 8) + self.max_extra_bytes
        return min(wanted, self.machine.max_shared_bytes_per_block)


class _Answer(NamedTuple):
    layout: AnyLayout | None
    kind: Kind
    extra_bytes: int
    reports: tuple[SharedReport, ...]
    certificate: Certificate


def synthesize(
    shape: IntTuple,
    accesses: Iterable[Access | TmaAccess | str],
    *,
    element: str | DType,
    order: Order = "row",
    max_extra_bytes: int = 0,
    vector_bytes: int = 0,
    whole_rows: bool = False,
    form: Form = "any",
    arch: str | Arch = DEFAULT_ARCH,
) -> Synthesis:
    """A shared-memory layout of a tile of `shape` without bank conflicts for all `accesses`, with proof.

    An access is an Access on the flat index of `shape`, a TmaAccess, or a text OP[@row|col|TV] as of
    `Access.of`.  `order` is the storage order that is swizzled ("row": last mode contiguous).  `form`
    restricts the layout: "single" to one Sw<B,M,S>, "tma" to what TMA can write (implied by a TmaAccess),
    "rotation" to rows rotated by their number, "any" to all but rotations.  `max_extra_bytes` allows padding.
    Words, and the vectors of all accesses, stay contiguous.  Two more constraints count as further accesses:
    `vector_bytes` keeps vectors of that size contiguous although no access reads them, and `whole_rows`
    keeps every 128 contiguous bytes in different banks, so that rows are only permuted, bank ^= N row.

    `layout` is None when none was found; the certificate then proves which classes of layouts contain none
    (`layoutalg.synthesis.proof.ruled_out` in words), and says nothing about any other.

    Raises AlignmentError when vectors do not lie along the contiguous mode, UnsupportedError for an access
    with a predicate or a misaligned base, ResourceError when the tile does not fit shared memory,
    UndecidedError when the search ends without an answer, and what Access raises.

    Source: see `layoutalg.synthesis.search`; for pairs of patterns also Linear Layouts, arXiv 2505.23819.

    >>> found = synthesize((64, 64), ["ldmatrix.x4", "st.shared.b128"], element="f16")
    >>> print(found.layout, found.reports[0].conflict_free)
    Sw<3,3,3> o 0 o (64,64):(64,1) True
    >>> synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32").certificate.reason
    'narrow-banks'
    """
    machine, what = find_arch(arch), dtype(element)
    wanted = with_constraints(shape, accesses, what, order, vector_bytes, whole_rows, machine)
    question = _question(shape, wanted, what, order, max_extra_bytes, form, machine)
    others: list[Other] = []
    padding: _Answer | None = None
    if question.copies or form == "tma":
        answer = _among_tma(question)
    elif form == "rotation":
        padding = _cheapest_padding(question)
        answer = _among_rotations(question)
    else:
        try:
            tile = make_tile(question.shape, question.element.bits, order, machine)
            patterns = make_patterns(tile, question.given, question.element, machine)
        except NotLinearError:
            padding = _cheapest_padding(question)
            plain = _counted(question, [(question.base, "plain", 0)], "plain")
            failed = Certificate(False, "forms", ())
            answer, singles = (plain, iter(())) if plain else _by_swizzle(question, padding, failed)
            others += islice(singles, OTHERS)
        else:
            padding = _cheapest_padding(question)
            answer = _linear(question, tile, patterns, padding)
            others += other_swizzles(tile, patterns, question.lanes, question.element, order, machine)
    if not question.copies and form != "tma":
        others.append((question.base, "plain", 0))
        if padding is not None and padding.layout is not None:
            others.append((padding.layout, "padding", padding.extra_bytes))
    return Synthesis(
        *answer,
        ranked(answer.layout, others, question.lanes, machine),
        question.shape,
        question.given + question.copies,
        question.element,
        order,
        form,
        max_extra_bytes,
        question.machine,
    )


def _question(
    shape: IntTuple,
    accesses: Iterable[Access | TmaAccess | str],
    element: DType,
    order: Order,
    max_extra_bytes: int,
    form: Form,
    machine: Arch,
) -> _Question:
    """The parts of a question, each checked."""
    shape = normalize(shape, "shape")
    check_choice("order", order, get_args(Order))
    check_choice("form", form, get_args(Form))
    extra = whole_number(max_extra_bytes, "max_extra_bytes")
    if extra < 0:
        raise ShapeError(f"max_extra_bytes is {max_extra_bytes!r}; a non-negative integer is needed")
    base = storage_layout(shape, order)
    lanes: list[Access] = []
    copies: list[TmaAccess] = []
    for access in accesses:
        if isinstance(access, TmaAccess):
            copies.append(access)
        else:
            lanes.append(Access.of(access, base, element, machine))
            check_access(lanes[-1], element, machine)
    if not lanes and not copies:
        raise ArgumentTypeError("accesses is empty; what the layout is for must be said")
    size_bytes = -(-product(shape) * element.bits // 8)
    if size_bytes > machine.max_shared_bytes_per_block:
        raise ResourceError(
            f"shared memory of a tile {to_text(shape)} of {element} in bytes",
            size_bytes,
            machine.max_shared_bytes_per_block,
        )
    counted = tuple(addressing(access, find_instruction(access.op, machine), machine) for access in lanes)
    return _Question(shape, base, tuple(lanes), counted, tuple(copies), element, order, form, extra, machine)


def _linear(
    question: _Question, tile: BitTile, patterns: tuple[Pattern, ...], padding: _Answer | None
) -> _Answer:
    """The answer for a tile and accesses that are linear over F2."""
    footprints = tuple(p.footprint for p in patterns)
    impossible = _impossible(tile, patterns)
    if impossible is not None:
        return _Answer(None, "none", 0, (), impossible)
    for swizzle in free_swizzles(tile, patterns):  # the first, if there is one; None is storage order
        layout = tile.base if swizzle is None else swizzled_tile(tile, swizzle)
        return _proved(question, tile, layout, "plain" if swizzle is None else "swizzle", footprints)
    # A bank map that is not found in budget is not an answer, but a single swizzle of more memory, or a
    # padding, may still be one: so the error waits until those are looked at.
    undecided: UndecidedError | None = None
    failed = Certificate(False, "forms", (), footprints=footprints)
    if question.form == "any":
        try:
            made = _bank_map(tile, patterns)
        except UndecidedError as error:
            undecided = error
        else:
            if not isinstance(made, Certificate):
                return _proved(question, tile, made, "xor", footprints)
            failed = made
    answer, _ = _by_swizzle(question, padding, failed)
    if undecided is not None and answer.layout is None:
        raise undecided
    return answer


def _by_swizzle(
    question: _Question, padding: _Answer | None, failed: Certificate
) -> tuple[_Answer, Iterator[Other]]:
    """The answer among all single swizzles and paddings, and further swizzles; `failed` is extended."""
    q = question
    elements = product(q.shape)
    visits = [visits_of(q.base, access, q.machine) for access in q.lanes]
    room = 8 * q.room_bytes // q.element.bits
    singles = free_singles(visits, elements, room, q.machine)
    best = next(singles, None)

    def placed(single: Single) -> Other:
        extra_bytes = -(-single.extra * q.element.bits // 8)
        return ComposedLayout(single.swizzle, 0, q.base), "swizzle", extra_bytes

    others = map(placed, (single for single in singles if single.swizzle.is_involution))
    padded = padding if padding is not None and padding.extra_bytes <= q.max_extra_bytes else None
    # A swizzle before a padding, unless it takes more memory.
    if best is not None and (padded is None or placed(best)[2] <= padded.extra_bytes):
        layout, kind, extra = placed(best)
        reports = reports_if_free(layout, q.lanes, q.machine)
        if reports is None:
            raise MismatchError(f"{layout} is conflict-free by classes, and the analysis counts conflicts")
        certificate = Certificate(
            True, "classes", ("single-swizzle",), period_bits=best.period_bits, reached=best.reached
        )
        return _Answer(layout, kind, extra, reports, certificate), others
    if padded is not None:
        return padded, others
    classes = (*failed.classes, "single-swizzle")
    if q.max_extra_bytes:
        classes += (padding_class(q.max_extra_bytes),)
    return _Answer(None, "none", 0, (), replace(failed, classes=classes)), others


def _impossible(tile: BitTile, patterns: tuple[Pattern, ...]) -> Certificate | None:
    """The proof that no placement at all serves the patterns, by counting banks, where that applies."""
    footprints = tuple(p.footprint for p in patterns)
    everywhere = ("any-placement",)
    for i, pattern in enumerate(patterns):
        if pattern.repeats:
            return Certificate(False, "repeated-word", everywhere, footprints=footprints, clash=(i,))
        for j, wide in enumerate(patterns):
            # Vectors of `wide` tie together only the words that it reads: those of them that lie at the
            # first place of a vector have 2^(bank bits - keep) banks to be in, wherever vectors lie.
            keep = wide.vector_bits
            placed = in_rows(intersection(pattern.footprint, wide.reach), tile.word_bits, keep)
            if len(placed) > tile.bank_bits - keep:
                return Certificate(False, "narrow-banks", everywhere, footprints=footprints, clash=(i, j))
    return None


def _bank_map(tile: BitTile, patterns: tuple[Pattern, ...]) -> AnyLayout | Certificate:
    """A layout by a linear bank map, or the proof that there is none."""
    widest = max(range(len(patterns)), key=lambda i: patterns[i].vector_bits)
    keep = patterns[widest].vector_bits
    dim, banks = tile.word_bits - keep, min(tile.bank_bits, tile.word_bits) - keep
    spaces = [in_rows(p.footprint, tile.word_bits, keep) for p in patterns]
    footprints = tuple(p.footprint for p in patterns)
    word_bytes = 1 << tile.log_bank >> 3
    linear = unit_class("linear", word_bytes << keep)
    for i, space in enumerate(spaces):
        if len(space) > banks:  # a kernel of this codimension meets every larger space
            return Certificate(False, "narrow-banks", (linear,), footprints=footprints, clash=(i, widest))
    # Rows that stay whole are preferred; where that has none, or takes too long, any kernel will do.
    graph = find_graph(spaces, dim, banks)
    search = graph if graph is not None and graph.kernel is not None else find_kernel(spaces, dim, banks)
    if search.kernel is not None:
        return layout_of_kernel(tile, search.kernel, keep)
    # What clashes is told as few accesses as possible: one after another is left out, if none exists still.
    clash = list(range(len(patterns)))
    for i in range(len(patterns)):
        rest = [n for n in clash if n != i]
        if find_kernel([spaces[n] for n in rest], dim, banks).kernel is None:
            clash = rest
    classes = (linear, unit_class("any", word_bytes)) if _is_crowded(tile, footprints) else (linear,)
    return Certificate(
        False, "exhausted", classes, footprints=footprints, clash=tuple(clash), nodes=search.nodes
    )


def _is_crowded(tile: BitTile, footprints: tuple[tuple[int, ...], ...]) -> bool:
    """True when word 0 meets so many others that its bank cannot be filled from the rest of the tile.

    A permutation of the words gives every bank equally many, and a phase of every access starts at word 0, so
    then none of them helps.
    """
    words = 1 << tile.word_bits
    return words - union_of(footprints).bit_count() < (words >> tile.bank_bits) - 1


def _proved(
    question: _Question,
    tile: BitTile,
    layout: AnyLayout,
    kind: Kind,
    footprints: tuple[tuple[int, ...], ...],
    name: str = "linear-in-place",
) -> _Answer:
    """The answer with a layout that ranks prove conflict-free; the analysis is asked as well."""
    reports = reports_if_free(layout, question.lanes, question.machine)
    if reports is None:
        raise MismatchError(f"the ranks prove {layout} conflict-free, and the analysis counts conflicts")
    return _Answer(
        layout, kind, 0, reports, Certificate(True, "ranks", (name,), kernel_of(tile, layout), footprints)
    )


def _counted(question: _Question, tiles: Iterable[Other], name: str) -> _Answer | None:
    """The first layout without conflicts among those of a class, whose instructions are counted."""
    for layout, kind, extra_bytes in tiles:
        reports = reports_if_free(layout, question.lanes, question.machine)
        if reports is not None:
            return _Answer(layout, kind, extra_bytes, reports, Certificate(True, "counted", (name,)))
    return None


def _cheapest_padding(question: _Question) -> _Answer | None:
    """The padded storage order of least cost that is conflict-free, as far as shared memory reaches."""
    q = question
    # Whatever the caller allows: a padding that costs more is still worth telling, as an alternative.
    room = q.machine.max_shared_bytes_per_block - -(-product(q.shape) * q.element.bits // 8)
    pads = list(pads_of(q.shape, q.lanes, q.element, q.order, room, q.machine))
    tiles = padded_tiles(q.shape, q.lanes, q.order, pads, q.machine)
    padded: Iterable[Other] = ((layout, "padding", extra_bytes) for layout, extra_bytes in tiles)
    return _counted(q, padded, padding_class(q.max_extra_bytes))


def _among_tma(question: _Question) -> _Answer:
    """The first layout of a TMA mode that serves every access with lanes."""
    q = question
    tiles = tma_layouts(q.shape, q.element, q.order, q.copies, q.machine, q.max_extra_bytes)
    footprints: tuple[tuple[int, ...], ...] = ()
    try:
        tile = make_tile(q.shape, q.element.bits, q.order, q.machine)
        patterns = make_patterns(tile, q.given, q.element, q.machine)
    except NotLinearError:
        answer = _counted(q, ((layout, _kind(layout), extra) for layout, extra in tiles), "tma")
        if answer is not None:
            return answer
    else:
        footprints = tuple(p.footprint for p in patterns)
        for layout, extra_bytes in tiles:
            if serves(kernel_of(tile, layout), patterns):
                proved = _proved(q, tile, layout, _kind(layout), footprints, "tma")
                return proved._replace(extra_bytes=extra_bytes)
    return _Answer(None, "none", 0, (), Certificate(False, "forms", ("tma",), footprints=footprints))


def _among_rotations(question: _Question) -> _Answer:
    """The first rotation that serves every access; storage order where that does."""
    q, base = question, question.base
    if q.order != "row" or not (isinstance(q.shape, tuple) and list(map(type, q.shape)) == [int, int]):
        raise UnsupportedError(
            f"a rotation turns the rows of a tile (M,N) that is stored by rows, not of {base}: swap its modes"
        )
    rows, columns = (int(n) for n in flatten_tree(q.shape))
    turned = rotated_tiles((rows, columns), q.lanes, q.element, q.machine)
    rotations: Iterable[Other] = ((layout, "rotation", 0) for layout in turned)
    return (
        _counted(q, [(base, "plain", 0)], "plain")
        or _counted(q, rotations, "rotation")
        or _Answer(None, "none", 0, (), Certificate(False, "forms", ("rotation",)))
    )


def _kind(layout: AnyLayout) -> Kind:
    return "plain" if isinstance(layout, Layout) else "swizzle"
