"""`layoutalg synthesize`: a layout without conflicts for a set of accesses, or which have none, proved."""

from __future__ import annotations

import shlex
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Literal, NamedTuple

from layoutalg.analysis import Report, report_notes
from layoutalg.answers import Answer, Count, Positive, taken
from layoutalg.arch import DEFAULT_ARCH
from layoutalg.cli.commands.layouts.shared_tiles import for_hardware
from layoutalg.cli.inputs import ORDERS, read_layout, read_tree
from layoutalg.cli.options import ArchOption, DtypeOption, accesses, argument, one_of, option
from layoutalg.cli.output import Table, count, progress, say, say_answer, say_verbatim, size_bytes, wants_json
from layoutalg.cli.refusals import FAILED
from layoutalg.cli.reports import AccessAnswer, access_answers, report_tables
from layoutalg.errors import LayoutAlgError, ShapeError, UndecidedError, check_choice
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, to_text

if TYPE_CHECKING:
    from layoutalg.algebra import Order
    from layoutalg.dtype import DType
    from layoutalg.synthesis import Choice, Form, Offer, Piece, Synthesis, TileSynthesis


_KINDS = {
    "swizzle and padding": "one swizzle of padded rows",
    "plain": "no swizzle is needed",
    "swizzle": "one swizzle",
    "xor": "a chain of swizzles",
    "padding": "padded rows",
    "rotation": "rows turned by their number",
}


@dataclass(frozen=True)
class CertificateAnswer:
    """Why the answer holds; `checked` tells that it was proved again from layout and accesses."""

    conflict_free: bool
    reason: Literal["ranks", "counted", "classes", "repeated-word", "narrow-banks", "exhausted", "forms"]
    classes: tuple[str, ...]
    """The layouts that the claim is about."""
    kernel: tuple[Count, ...]
    """Basis over F2 of the words that share a bank with word 0."""
    footprints: tuple[tuple[Count, ...], ...]
    """A basis of the words of one phase, for each access."""
    clash: tuple[Count, ...]
    """Accesses that cannot be served together."""
    nodes: Count
    """Vectors that the search tried; no part of the claim."""
    period_bits: Count
    """Instructions are told apart modulo 2^period_bits elements; 0 where they are not."""
    reached: tuple[Positive, ...]
    """Classes of instructions that each access has."""
    checked: bool
    proof: str


@dataclass(frozen=True)
class Alternative:
    """Another layout."""

    layout: str
    kind: Literal["plain", "swizzle", "xor", "padding", "rotation", "swizzle and padding"]
    extra_bytes: Count
    total: Count
    ideal_total: Count
    index_instructions: Count | None
    """Integer instructions of the index function."""
    tma: str
    """The mode in which tensor-map copies write it, or no."""
    wgmma: str
    """The operands of wgmma that it is, or no."""


@dataclass(frozen=True)
class OfferAnswer(Alternative):
    """A layout that is free of conflicts with another order of lanes or more memory."""

    change: str
    """The difference from the request."""
    accesses: tuple[str, ...]
    command: str
    """The command that gives it."""


@dataclass(frozen=True)
class SynthesisAnswer(Answer, command="synthesize"):
    """A layout on which accesses have no bank conflicts, with its certificate."""

    shape: str
    order: Literal["row", "col"]
    dtype: str
    arch: str
    form: Literal["any", "single", "tma", "rotation"]
    max_extra_bytes: Count
    layout: str | None
    """null: none was found, exit code 1."""
    kind: Literal["plain", "swizzle", "xor", "padding", "rotation", "swizzle and padding", "none"]
    extra_bytes: Count
    given: tuple[AccessAnswer, ...]
    """The accesses on the layout that was given."""
    accesses: tuple[AccessAnswer, ...]
    """The accesses on the layout that was found."""
    certificate: CertificateAnswer
    ranking: tuple[Alternative, ...]
    """The layout that was found and others, best first."""
    refusal: str | None
    """Among what none was found, or that none exists."""
    notes: tuple[str, ...]
    offers: tuple[OfferAnswer, ...]


def synthesize_command(
    layout: Annotated[
        str,
        argument(
            "A tile: '(64,64):(64,1)', its shape: '(64,64)', rows of a wider buffer: "
            "'(64,72):(128,1)', or a buffer of stages: '(128,64,3):(64,1,8192)'; - reads it from standard "
            "input.",
            stdin="text",
        ),
    ],
    access: Annotated[
        list[str] | None,
        option(
            "OP, OP@row, OP@col or OP@TV layout: all accesses to the tile. May be repeated. "
            "Default: loads of one element, by row and by column.",
            complete=accesses,
        ),
    ] = None,
    dtype: DtypeOption = "f32",
    order: Annotated[
        str | None,
        option(
            "Storage order: row or col. Default: the layout's; row for a shape.",
            complete=one_of("row", "col"),
        ),
    ] = None,
    extra_bytes: Annotated[
        int, option("Bytes beyond the tile that padding may take.", "--max-extra-bytes")
    ] = 0,
    form: Annotated[
        str,
        option(
            "Form of the layout: any, single (one swizzle), tma (a swizzle mode of TMA and wgmma) or "
            "rotation (rows rotated by their number, for sizes that are not a power of two).",
            complete=one_of("any", "single", "tma", "rotation"),
        ),
    ] = "any",
    uses: Annotated[
        str | None,
        option(
            "What TMA writes and wgmma reads: tma, wgmma or wgmma,tma, in place of accesses. Order row is "
            "K-major, col MN-major. Default: none.",
            "--for",
            complete=one_of("wgmma,tma", "tma", "wgmma"),
        ),
    ] = None,
    arch: ArchOption = DEFAULT_ARCH,
) -> int:
    """Find a layout of the same shape on which the accesses have no bank conflicts, with a certificate.

    layoutalg synthesize "(64,64):(64,1)" --dtype f16 --access ldmatrix.x4

    The tile of a Hopper GEMM, with CuTe's atom, the box of the tensor map and the descriptors:

    layoutalg synthesize "(128,64)" --dtype bf16 --for wgmma,tma

    A buffer of stages, a part of a wider buffer, a head dimension that ldmatrix.x4 does not tile:

    layoutalg synthesize "(128,64,3):(64,1,8192)" --dtype f16 --access ldmatrix.x4 --access st.shared.b128

    layoutalg synthesize "(64,72):(128,1)" --dtype f16 --access ldmatrix.x4

    Accesses are of one stage. If no layout is found, the output names the classes that were searched and
    what helps: another order of lanes, or more memory.
    """
    from layoutalg.dtype import dtype as element_type

    element = element_type(dtype)
    if uses is not None:
        return for_hardware(layout, element, uses, order, access or [], arch)
    query = _asked(layout, order, access or [f"ld.shared.b{element.bits}@{way}" for way in ORDERS], element)
    with progress("searching"):
        view = _of_tile(query, extra_bytes, check_choice("form", form, _FORMS), arch)
    if wants_json():
        say_answer(_answer(view))
    else:
        _show(view)
    return 0 if view.best is not None else FAILED


class _Asked(NamedTuple):
    """The question: `given` as it is, `base` what is laid out anew, and whether that is read as a tile."""

    given: AnyLayout
    base: Layout
    order: Order
    specs: list[str]
    element: DType
    as_tile: bool


class _View(NamedTuple):
    """The parts of the answer; an access has its name in the request, or its pieces' if it does not tile."""

    asked: _Asked
    best: Choice | None
    headline: str
    before: Sequence[tuple[str, Report]]
    after: Sequence[tuple[str, Report]]
    proof: str
    checked: bool
    synthesis: Synthesis
    ranking: tuple[Choice, ...]
    tile: TileSynthesis | None


def _of_tile(query: _Asked, extra_bytes: int, form: Form, arch: str) -> _View:
    """The answer for a tile as it is written, or for a shape in storage order."""
    from layoutalg.analysis import Access, analyze
    from layoutalg.synthesis import choices_of, ranked_choices, refusal, synthesize, synthesize_tile

    if not query.as_tile:
        accesses = [Access.of(spec, query.base, query.element, arch) for spec in query.specs]
        synthesis = synthesize(
            query.base.shape, accesses, element=query.element, order=query.order, max_extra_bytes=extra_bytes,
            form=form, arch=arch,
        )  # fmt: skip
        proof, checked = certificate_sentence(synthesis)
        choices = choices_of(synthesis)
        ranking = ranked_choices(choices, index_instructions)
        best = None
        if synthesis.layout is not None:
            best = next(choice for choice in ranking if choice.layout == synthesis.layout)
        before = [(s, analyze(query.given, a, arch)) for s, a in zip(query.specs, accesses, strict=True)]
        after: Sequence[tuple[str, Report]] = list(zip(query.specs, synthesis.reports, strict=False))
        headline = refusal(synthesis) if best is None else ""
        return _View(query, best, headline, before, after, proof, checked, synthesis, ranking, None)
    tile = synthesize_tile(
        query.base, query.specs, element=query.element, max_extra_bytes=extra_bytes, form=form, arch=arch,
        index_instructions=index_instructions,
    )  # fmt: skip
    proof, checked = _proofs(tile)
    shape, pieces = tile.tile.shape, _pieces(tile)
    original = query.given if not tile.tile.stages else tile.tile.tile
    before = [(name, analyze(piece.on(original, shape), piece.access, arch)) for name, piece in pieces]
    after = []
    if tile.found is not None:
        stage = tile.found.stage
        after = [(name, analyze(piece.on(stage, shape), piece.access, arch)) for name, piece in pieces]
    headline = "" if tile.found is not None else tile.refusal()
    for offer in tile.offers:
        certificate_sentence(offer.synthesis)  # an offer whose certificate does not hold is none
    return _View(
        query, tile.found, headline, before, after, proof, checked, tile.synthesis, tile.ranking, tile
    )


def _pieces(tile: TileSynthesis) -> list[tuple[str, Piece]]:
    """The accesses by name: as in the request, or the pieces of those that do not tile."""
    out = []
    for spec, cover in zip(tile.specs, tile.covers, strict=True):
        out += [(spec if cover.asked else str(piece), piece) for piece in cover.pieces]
    return out


def index_instructions(layout: AnyLayout) -> int | None:
    """Integer instructions of the index function of a layout; None where it is not an index expression."""
    from layoutalg.codegen.expr import Var, as_expr, index_cost, simplify
    from layoutalg.layout import coalesce, modes, size

    inner = layout
    while isinstance(inner, ComposedLayout):
        inner = inner.inner
    variables = [Var(f"c{i}", size(coalesce(mode))) for i, mode in enumerate(modes(inner))]
    try:
        return index_cost(simplify(as_expr(layout(*variables))))
    except LayoutAlgError:
        return None


def _proofs(tile: TileSynthesis) -> tuple[str, bool]:
    """The certificate of what was found, or of everything that was tried."""
    if tile.found is not None:
        return certificate_sentence(tile.synthesis)
    sentences = [certificate_sentence(synthesis) for _, synthesis in tile.tried]
    sentence, checked = sentences[0][0], all(ok for _, ok in sentences)
    if len(sentences) > 1:
        pitches = ", ".join(str(pitch) for pitch, _ in tile.tried[1:])
        proved = "also proved again" if checked else "not all proved again"
        sentence += f" The certificates of rows {pitches} elements apart are {proved}."
    return sentence, checked


def certificate_sentence(found: Synthesis) -> tuple[str, bool]:
    """State what is certified, and whether it was proved again, from layout and accesses alone.

    Raises MismatchError when the certificate does not hold.
    """
    from layoutalg.synthesis import check_certificate

    try:
        return f"Certificate, proved again without the search: {check_certificate(found)}.", True
    except UndecidedError as error:
        return f"Certificate ({found.certificate.reason}), not proved again: {error}.", False


def _show(view: _View) -> None:
    best, tile = view.best, view.tile
    parts: list[str | Table] = []
    if best is None:
        parts.append(view.headline)
    else:
        extra = f"{size_bytes(best.extra_bytes)} of extra memory" if best.extra_bytes else "no extra memory"
        parts += [str(best.layout), f"{_KINDS[best.kind]}, {extra}"]
    notes = (
        [] if tile is None else [*_covered(tile), *(f"{note[0].upper()}{note[1:]}." for note in tile.notes)]
    )
    stage = ", one stage" if tile is not None and tile.tile.stages else ""
    parts += [*notes, "", *report_tables(view.before, title=f"As given{stage}")]
    if best is not None:
        parts += report_tables(view.after, title=f"Found{stage}")
    parts += [view.proof, *report_notes([report for _, report in [*view.before, *view.after]])]
    if len(view.ranking) > 1:
        columns = ("layout", "kind", "wavefronts", "ideal", "extra memory", "index", "TMA", "wgmma")
        rows = (
            (
                str(c.layout),
                c.kind,
                count(c.total),
                count(c.ideal_total),
                size_bytes(c.extra_bytes),
                "" if c.index_instructions is None else str(c.index_instructions),
                "unswizzled" if c.tma == "none" else c.tma,
                c.wgmma,
            )
            for c in view.ranking
        )
        parts += ["", Table("Layouts, best first", columns, rows, left=2)]
    say(*parts)
    for offer in () if tile is None else tile.offers:
        say("", f"Free of conflicts with {offer.change}: {offer.choice.layout}")
        say_verbatim(_command(view, offer))


def _command(view: _View, offer: Offer) -> str:
    """The command that gives an offer."""
    words = ["layoutalg", "synthesize", str(view.asked.base), "--dtype", view.synthesis.element.name]
    words += [word for access in offer.accesses for word in ("--access", access)]
    if offer.choice.extra_bytes:
        words += ["--max-extra-bytes", str(offer.choice.extra_bytes)]
    if view.synthesis.form != "any":
        words += ["--form", view.synthesis.form]
    if view.synthesis.arch.name != DEFAULT_ARCH:
        words += ["--arch", view.synthesis.arch.name]
    return shlex.join(words)


def _covered(tile: TileSynthesis) -> Iterator[str]:
    """State which accesses do not tile as requested, which pieces do, and what these cost."""
    for which, (spec, cover) in enumerate(zip(tile.specs, tile.covers, strict=True)):
        if cover.asked:
            continue
        first, *others = (
            " and ".join(map(str, way.pieces))
            + f" ({cost.instructions} instructions, {cost.total} wavefronts)"
            for way, cost in tile.ways(which)
        )
        also = f"; or {'; or '.join(others)}" if others else ""
        yield f"{spec} does not tile {to_text(tile.tile.shape)}. Taken instead: {first}{also}."


def _answer(view: _View) -> SynthesisAnswer:
    """The record of what is shown."""
    synthesis, best, tile = view.synthesis, view.best, view.tile
    offers = () if tile is None else tile.offers
    return taken(
        SynthesisAnswer,
        synthesis,
        shape=to_text(view.asked.base.shape),
        dtype=synthesis.element,
        arch=synthesis.arch.name,
        layout=None if best is None else best.layout,
        kind="none" if best is None else best.kind,
        extra_bytes=0 if best is None else best.extra_bytes,
        given=access_answers(view.before),
        accesses=access_answers(view.after),
        certificate=taken(CertificateAnswer, synthesis.certificate, checked=view.checked, proof=view.proof),
        ranking=view.ranking,
        refusal=view.headline or None,
        notes=() if tile is None else (*_covered(tile), *tile.notes),
        offers=(
            taken(OfferAnswer, o.choice, change=o.change, accesses=o.accesses, command=_command(view, o))
            for o in offers
        ),
    )


def _asked(text: str, order: str | None, specs: list[str], element: DType) -> _Asked:
    """The layout that is asked about: a shape, storage order, swizzles of it, or a tile as it is written."""
    from layoutalg.algebra import storage_layout, storage_order
    from layoutalg.synthesis import read_tile

    wanted = None if order is None else check_choice("order", order, ORDERS)
    if ":" not in text:
        base = storage_layout(read_tree(text), wanted or "row")
        return _Asked(base, base, wanted or "row", specs, element, _is_flat(base))
    layout = read_layout(text)
    chosen = wanted or storage_order(layout)
    if chosen is not None:
        base = storage_layout(layout.shape, chosen)
        return _Asked(layout, base, chosen, specs, element, _is_flat(base))
    if not isinstance(layout, Layout):
        raise ShapeError(
            f"synthesize lays a tile out anew, and {layout} swizzles what is neither row nor column major "
            f"without gaps; give its layout without the swizzle"
        )
    return _Asked(layout, layout, read_tile(layout).order, specs, element, as_tile=True)


def _is_flat(base: Layout) -> bool:
    """Whether a layout in storage order is two modes of more than one element each."""
    shape = base.shape
    return isinstance(shape, tuple) and len(shape) == 2 and all(isinstance(n, int) and n > 1 for n in shape)


_FORMS: tuple[Form, ...] = ("any", "single", "tma", "rotation")
