"""check_certificate: a synthesis verified from its layout and accesses alone.

The idea.  Nothing of the search is used here, not even its view of an access.  Phases and bank map are
computed again (evidence), and the certificate's claim is one of a few facts that ranks, counts or a plain
exhaustion decide.  A layout is conflict-free because of

    ranks      rank(K + F) = rank K + rank F for every footprint F, K the kernel of the layout's bank map
    counted    every instruction, counted one by one, takes its ideal

and that there is none is shown in `refutation`.  The reports and the alternatives are checked as well.

>>> from dataclasses import replace
>>> from layoutalg.synthesis.synthesizer import synthesize
>>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
>>> check_certificate(replace(found, layout=Layout((64, 64), (64, 1)), kind="plain"))
Traceback (most recent call last):
...
layoutalg.errors.MismatchError: the bank map of (64,64):(64,1) has the kernel (32, 64, 128, 256, 512, 1024),
not (36, 72, 144, 256, 512, 1024)
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutalg.analysis.access import Access, TmaAccess
from layoutalg.analysis.analyzer import analyze
from layoutalg.analysis.report import SharedReport
from layoutalg.arch import find_instruction
from layoutalg.errors import (
    AlignmentError,
    MismatchError,
    NotLinearError,
    ResourceError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.f2 import affine_f2, apply, basis, rank
from layoutalg.int_tuple import product
from layoutalg.layout import Layout
from layoutalg.measure import size
from layoutalg.swizzle import AnyLayout, ComposedLayout
from layoutalg.synthesis.evidence import (
    Phase,
    bank_map_kernel,
    lane_accesses,
    log2,
    paddings,
    phase_of,
    tma_tiles,
    word_count_bits,
)
from layoutalg.synthesis.refutation import check_refutation
from layoutalg.synthesis.result import Synthesis, storage_layout
from layoutalg.synthesis.tma import TmaTile


def check_certificate(synthesis: Synthesis) -> str:
    """What the certificate proves, as a sentence, after proving it again.

    Raises MismatchError naming the first part of the synthesis that is not so, and UndecidedError when an
    exhaustive search is too long to be repeated.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> check_certificate(synthesize((64, 64), ["ldmatrix.x4"], element="f16"))
    'Sw<3,3,3> o 0 o (64,64):(64,1) is conflict-free for 1 access: K & F = 0 in F2^11, dim K = 6, dim F = 5'
    """
    try:
        return _proved(synthesis)
    except (NotLinearError, ShapeError, AlignmentError, ResourceError, UnsupportedError) as error:
        raise MismatchError(f"layout, accesses and tile do not fit each other: {error.message}") from error


def _proved(synthesis: Synthesis) -> str:
    """The sentence, after proving it."""
    certificate, layout = synthesis.certificate, synthesis.layout
    if certificate.conflict_free != (layout is not None):
        raise MismatchError("the claim is conflict-free and there is no layout, or the other way round")
    if certificate.conflict_free and certificate.clash:
        raise MismatchError(f"accesses {certificate.clash} are said to clash on a conflict-free layout")
    if layout is None:
        sentence = check_refutation(synthesis)
    elif certificate.reason == "ranks":
        sentence = _check_ranks(synthesis, layout)
    elif certificate.reason == "counted":
        sentence = _check_counted(synthesis, layout)
    else:
        raise MismatchError(f"the reason {certificate.reason!r} proves no layout conflict-free")
    _check_alternatives(synthesis)
    return sentence


def _check_ranks(synthesis: Synthesis, layout: AnyLayout) -> str:
    """K & F = 0 for every access, on a layout that permutes the tile and keeps vectors whole."""
    certificate = synthesis.certificate
    is_tma = synthesis.form == "tma" or any(isinstance(a, TmaAccess) for a in synthesis.accesses)
    if certificate.classes != (("tma",) if is_tma else ("linear-in-place",)):
        raise MismatchError(f"a rank certificate of this form does not speak of {certificate.classes}")
    if is_tma and TmaTile(layout, synthesis.extra_bytes) not in tma_tiles(synthesis):
        raise MismatchError(f"no tensor-map copy writes {layout} with {synthesis.extra_bytes} extra bytes")
    _check_kind(synthesis, layout, is_tma)
    columns = _check_place(synthesis, layout, synthesis.extra_bytes if is_tma else 0)
    phases = _check_footprints(synthesis)
    for i, access in enumerate(lane_accesses(synthesis)):
        _check_vectors(i, access, synthesis, columns)
    sharing = bank_map_kernel(synthesis, columns)
    if basis(certificate.kernel) != sharing:
        raise MismatchError(f"the bank map of {layout} has the kernel {sharing}, not {certificate.kernel}")
    for i, phase in enumerate(phases):
        if rank(sharing + phase.footprint) != len(sharing) + len(phase.footprint):
            raise MismatchError(f"access {i} has bank conflicts on {layout}: K & F is not 0", index=i)
        if phase.repeats:
            raise MismatchError(f"access {i} asks for a word twice and has no broadcast", index=i)
    _check_reports(synthesis, layout)
    wide = max((len(p.footprint) for p in phases), default=0)
    return (
        f"{layout} is conflict-free for {_accesses(phases)}: K & F = 0 in F2^{word_count_bits(synthesis)}, "
        f"dim K = {len(sharing)}, dim F = {wide}"
    )


def _accesses(phases: Sequence[object]) -> str:
    return f"{len(phases)} access" + ("" if len(phases) == 1 else "es")


def _check_kind(synthesis: Synthesis, layout: AnyLayout, is_tma: bool) -> None:
    """The layout must be what `kind` says, and no more than the form allows."""
    base = storage_layout(synthesis.shape, synthesis.order)
    single = isinstance(layout, ComposedLayout) and len(layout.swizzles) == 1
    if isinstance(layout, Layout) and (is_tma or layout == base):
        kind = "plain"
    elif single and isinstance(layout, ComposedLayout) and (is_tma or layout.inner == base):
        kind = "swizzle"
    else:
        kind = "xor"
    if synthesis.kind != kind:
        raise MismatchError(f"{layout} is of kind {kind!r}, not {synthesis.kind!r}")
    if synthesis.form == "single" and kind == "xor":
        raise MismatchError(f"{layout} is no single swizzle, which was asked for")


def _check_place(synthesis: Synthesis, layout: AnyLayout, gaps_bytes: int) -> tuple[int, ...]:
    """The columns of the layout over flat indices; offsets differ, and lie in the tile's memory with gaps."""
    elements = product(synthesis.shape)
    room = elements + 8 * gaps_bytes // synthesis.element.bits  # a power of two, as the spans of rows are
    try:
        constant, columns = affine_f2(layout)
    except NotLinearError as error:
        raise MismatchError(f"ranks prove nothing of a layout that is not linear: {error.message}") from None
    if size(layout) != elements or constant or rank(columns) != log2(elements):
        raise MismatchError(f"{layout} does not give the {elements} elements of the tile a place each")
    if max(columns, default=0) >= room or synthesis.extra_bytes != gaps_bytes:
        raise MismatchError(
            f"{layout} with {synthesis.extra_bytes} extra bytes does not lie in the tile's own memory"
        )
    return columns


def _check_footprints(synthesis: Synthesis) -> list[Phase]:
    """The phases of all accesses, whose footprints must be those of the certificate."""
    phases = [phase_of(synthesis, access) for access in lane_accesses(synthesis)]
    claimed = synthesis.certificate.footprints
    if len(claimed) != len(phases):
        raise MismatchError(f"{len(claimed)} footprints are claimed for {_accesses(phases)}")
    for i, (phase, footprint) in enumerate(zip(phases, claimed, strict=True)):
        if basis(footprint) != phase.footprint:
            raise MismatchError(
                f"access {i} reaches the span of the words {phase.footprint}, not of {footprint}", index=i
            )
    return phases


def _check_vectors(i: int, access: Access, synthesis: Synthesis, columns: Sequence[int]) -> None:
    """A lane's elements must be contiguous and aligned under the layout."""
    elems = 8 * find_instruction(access.op, synthesis.arch).width_bytes // access.element.bits
    _, moves = affine_f2(access.tv)
    moved = [apply(columns, move) for move in moves]
    first = log2(size(access.tv[0]))
    last = first + log2(elems)
    aligned = all(move % elems == 0 for move in moved[:first] + moved[last:])
    if not aligned or moved[first:last] != [1 << j for j in range(log2(elems))]:
        raise MismatchError(f"access {i} does not find its vectors whole", index=i)


def _check_reports(synthesis: Synthesis, layout: AnyLayout, *, one_by_one: bool = False) -> None:
    """The reports must be those of a fresh analysis, and free of conflicts."""
    accesses = lane_accesses(synthesis)
    if len(synthesis.reports) != len(accesses):
        raise MismatchError(f"{len(synthesis.reports)} reports are given for {_accesses(accesses)}")
    for i, (access, given) in enumerate(zip(accesses, synthesis.reports, strict=True)):
        fresh = analyze(layout, access, synthesis.arch, "enumerated" if one_by_one else "auto")
        if not isinstance(fresh, SharedReport) or not fresh.conflict_free:
            raise MismatchError(f"access {i} has bank conflicts on {layout}", index=i)
        if replace(given, method=fresh.method, witness=fresh.witness) != fresh:
            raise MismatchError(f"the report of access {i} is not that of a fresh analysis", index=i)


def _check_counted(synthesis: Synthesis, layout: AnyLayout) -> str:
    """Storage order, plain or padded, on which every instruction is counted."""
    extra = synthesis.extra_bytes
    padded = f"padding up to {synthesis.max_extra_bytes} bytes"
    kind, classes, expected = "plain", ("plain",), storage_layout(synthesis.shape, synthesis.order)
    if extra:
        found = dict(paddings(synthesis)).get(extra)
        if found is None:
            raise MismatchError(f"no padding of {synthesis.shape} takes {extra} extra bytes")
        kind, classes, expected = "padding", (padded,), found
    if layout != expected or synthesis.kind != kind or synthesis.certificate.classes != classes:
        raise MismatchError(f"{layout}, of kind {synthesis.kind!r}, is not {expected}, of kind {kind!r}")
    _check_reports(synthesis, layout, one_by_one=True)
    return f"{layout} is conflict-free for {_accesses(synthesis.reports)}, counted one by one"


def _check_alternatives(synthesis: Synthesis) -> None:
    """Alternatives must cost what they say."""
    for other in synthesis.alternatives:
        reports = [analyze(other.layout, a, synthesis.arch) for a in lane_accesses(synthesis)]
        shared = [report for report in reports if isinstance(report, SharedReport)]
        if (other.total, other.ideal_total) != (
            sum(report.total for report in shared),
            sum(report.ideal_total for report in shared),
        ):
            raise MismatchError(f"the alternative {other.layout} does not take {other.total} wavefronts")
