"""check_certificate: a synthesis verified from its layout and accesses alone.

The idea.  Nothing of the search is used here, not even its view of an access.  Phases and bank map are
computed again (evidence), and the certificate's claim is one of a few facts that ranks, counts or a plain
exhaustion decide.  A layout is conflict-free because of

    ranks      rank(K + F) = rank K + rank F for every footprint F, K the kernel of the layout's bank map
    counted    every instruction, counted one by one, takes its ideal
    classes    one instruction of every class modulo the swizzle's period does

and that there is none is shown in `refutation`.  What else a synthesis states is checked as well: the
question, what the layout is and takes, the reports, and all of it for the alternatives.

>>> from dataclasses import replace
>>> from layoutalg.synthesis import synthesize
>>> found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
>>> check_certificate(replace(found, layout=Layout((64, 64), (64, 1)), kind="plain"))
Traceback (most recent call last):
...
layoutalg.errors.MismatchError: the bank map of (64,64):(64,1) has the kernel (32, 64, 128, 256, 512, 1024),
not (36, 72, 144, 256, 512, 1024)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import get_args

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, SharedReport, analyze_access
from layoutalg.arch import find_instruction
from layoutalg.errors import (
    AlignmentError,
    MismatchError,
    NotLinearError,
    ResourceError,
    ShapeError,
    UnsupportedError,
    check_type,
)
from layoutalg.f2 import affine_f2, apply, basis, rank
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, modes, product, size, to_text
from layoutalg.synthesis.proof.evidence import (
    Phase,
    bank_map_kernel,
    instructions_of,
    lane_accesses,
    linear_phases,
    log2,
    word_count_bits,
)
from layoutalg.synthesis.proof.forms import bytes_past, is_tma, paddings, room_bytes, rotations, tile_bytes
from layoutalg.synthesis.proof.refutation import check_refutation
from layoutalg.synthesis.proof.tensor_maps import is_written, tiles_of_question
from layoutalg.synthesis.result import Form, Kind, Synthesis, padding_class


def check_certificate(synthesis: Synthesis) -> str:
    """State in a sentence what the certificate proves, after proving it again.

    Raises MismatchError naming the first part of the synthesis that is wrong, and UndecidedError when an
    exhaustive search is too long to be repeated.

    >>> from layoutalg.synthesis import synthesize
    >>> check_certificate(synthesize((64, 64), ["ldmatrix.x4"], element="f16"))
    'Sw<3,3,3> o 0 o (64,64):(64,1) is conflict-free for 1 access: K & F = 0 in F2^11, dim K = 6, dim F = 5'
    """
    check_type("check_certificate", synthesis, Synthesis, "what synthesize returned")
    try:
        return _proved(synthesis)
    except (NotLinearError, ShapeError, AlignmentError, ResourceError, UnsupportedError) as error:
        raise MismatchError(f"layout, accesses and tile do not fit each other: {error.message}") from error


def _proved(synthesis: Synthesis) -> str:
    """The sentence, after proving it."""
    certificate, layout = synthesis.certificate, synthesis.layout
    _check_question(synthesis)
    if certificate.conflict_free != (layout is not None):
        raise MismatchError("the claim is conflict-free and there is no layout, or the other way round")
    if certificate.conflict_free and (certificate.clash or certificate.nodes):
        raise MismatchError(f"accesses {certificate.clash} are said to clash on a conflict-free layout")
    if certificate.reason != "ranks" and certificate.kernel:
        raise MismatchError(f"the reason {certificate.reason!r} has no kernel; {certificate.kernel} is given")
    if certificate.reason != "classes" and (certificate.period_bits or certificate.reached):
        raise MismatchError(f"the reason {certificate.reason!r} knows no classes of instructions")
    if certificate.reason in ("counted", "classes") and certificate.footprints:
        raise MismatchError(f"the reason {certificate.reason!r} rests on no footprints")
    if layout is None:
        sentence = check_refutation(synthesis)
    else:
        _check_layout(synthesis, layout)
        if certificate.reason == "ranks":
            sentence = _check_ranks(synthesis, layout)
        elif certificate.reason == "counted":
            sentence = _check_counted(synthesis, layout)
        elif certificate.reason == "classes":
            sentence = _check_classes(synthesis, layout)
        else:
            raise MismatchError(f"the reason {certificate.reason!r} proves no layout conflict-free")
    _check_alternatives(synthesis)
    return sentence


def _check_question(synthesis: Synthesis) -> None:
    """The question must be one that synthesis takes: whole warps on shared memory, elements of the tile."""
    machine = synthesis.arch
    if not synthesis.accesses or synthesis.max_extra_bytes < 0 or synthesis.extra_bytes < 0:
        raise MismatchError("accesses must be named, and memory must not be negative")
    if synthesis.order not in get_args(Order) or synthesis.form not in get_args(Form):
        raise MismatchError(f"order {synthesis.order!r} and form {synthesis.form!r} are not both known")
    if tile_bytes(synthesis) > machine.max_shared_bytes_per_block:
        raise MismatchError(f"{tile_bytes(synthesis)} bytes are more than the shared memory of a block")
    for i, access in enumerate(a for a in synthesis.accesses if isinstance(a, Access)):
        rule = find_instruction(access.op, machine)
        unit_bytes = max(rule.width_bytes, machine.bank_bytes)
        if rule.space != "shared" or access.active is not None or access.base_bytes % unit_bytes:
            raise MismatchError(f"access {i} is not one of whole warps to an aligned place in shared memory")
        if access.element.bits != synthesis.element.bits:
            raise MismatchError(
                f"access {i} reads {access.element}, the tile holds {synthesis.element}", index=i
            )
        if access.base_alignment_bytes % unit_bytes:
            raise MismatchError(f"access {i} does not know its base to {unit_bytes} bytes", index=i)


def _check_layout(synthesis: Synthesis, layout: AnyLayout) -> None:
    """The layout must be what `kind` and `extra_bytes` say, of the requested form, and within the memory."""
    _check_kind(synthesis, layout, synthesis.kind, synthesis.extra_bytes, is_tma(synthesis))
    if tile_bytes(synthesis) + synthesis.extra_bytes > room_bytes(synthesis):
        raise MismatchError(f"{layout} takes {synthesis.extra_bytes} extra bytes, which is more than allowed")
    if synthesis.form == "single" and synthesis.kind == "xor":
        raise MismatchError(f"{layout} is not a single swizzle, which was asked for")
    if synthesis.form == "rotation" and synthesis.kind not in ("plain", "rotation"):
        raise MismatchError(f"{layout} is not a rotation, which was asked for")
    if is_tma(synthesis) and not any(
        tile.extra_bytes == synthesis.extra_bytes and tile.is_layout(synthesis, layout)
        for tile in tiles_of_question(synthesis)
    ):
        raise MismatchError(f"no tensor-map copy writes {layout} with {synthesis.extra_bytes} extra bytes")


def _check_kind(synthesis: Synthesis, layout: AnyLayout, kind: Kind, extra_bytes: int, tma: bool) -> None:
    """The layout must be one of the tile, of this kind, and take `extra_bytes` more than the tile."""
    base = storage_layout(synthesis.shape, synthesis.order)
    swizzles = layout.swizzles if isinstance(layout, ComposedLayout) else ()
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    if kind == "rotation":
        _check_rotation(synthesis, layout, extra_bytes)
        return
    if isinstance(layout, ComposedLayout) and (layout.offset or not swizzles):
        raise MismatchError(f"{layout} is not a chain of swizzles of a tile that starts at 0")
    actual: tuple[Kind, int]
    if inner == base and len(swizzles) < 2:
        actual = ("swizzle", bytes_past(synthesis, swizzles[0])) if swizzles else ("plain", 0)
    elif extra_bytes and any(
        layout == padded for extra, padded in paddings(synthesis, extra_bytes) if extra == extra_bytes
    ):
        actual = "padding", extra_bytes
    elif tma and _sides(inner) == _sides(base) and is_written(synthesis, layout, extra_bytes):
        actual = "swizzle" if swizzles else "plain", extra_bytes
    elif _sides(inner) == _sides(base):
        actual = "xor", 0
        _check_place(synthesis, layout, 0)
    else:
        raise MismatchError(f"{layout} is not a layout of a tile {to_text(synthesis.shape)}")
    if actual != (kind, extra_bytes):
        raise MismatchError(
            f"{layout} is of kind {actual[0]!r} with {actual[1]} extra bytes, not {kind!r} with {extra_bytes}"
        )


def _check_rotation(synthesis: Synthesis, layout: AnyLayout, extra_bytes: int) -> None:
    """The layout must be one of the rotations of the question, in the tile's own memory."""
    base = storage_layout(synthesis.shape, synthesis.order)
    import numpy as np

    flat = np.arange(product(synthesis.shape))
    offsets = layout(flat) if size(layout) == flat.size else -flat
    storage = base(flat)
    if extra_bytes or not any((turned(storage) == offsets).all() for turned in rotations(synthesis)):
        raise MismatchError(f"{layout} is not a rotation of {base} that keeps vectors whole")


def _sides(layout: AnyLayout) -> list[int]:
    """The sizes of the modes of a plain layout."""
    return [size(mode) for mode in modes(layout)] if isinstance(layout, Layout) else []


def _check_ranks(synthesis: Synthesis, layout: AnyLayout) -> str:
    """K & F = 0 for every access, on a layout that permutes the tile and keeps vectors whole."""
    certificate = synthesis.certificate
    if certificate.classes != (("tma",) if is_tma(synthesis) else ("linear-in-place",)):
        raise MismatchError(f"a rank certificate of this form does not speak of {certificate.classes}")
    columns = _check_place(synthesis, layout, synthesis.extra_bytes)
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


def _check_place(synthesis: Synthesis, layout: AnyLayout, gaps_bytes: int) -> tuple[int, ...]:
    """The columns of the layout over flat indices; offsets differ, and lie in the tile's memory with gaps."""
    elements = product(synthesis.shape)
    if elements & (elements - 1):
        raise MismatchError(f"ranks prove nothing of {elements} elements, which is not a power of two")
    room = elements + 8 * gaps_bytes // synthesis.element.bits  # a power of two, as the spans of rows are
    try:
        constant, columns = affine_f2(layout)
    except NotLinearError as error:
        raise MismatchError(f"ranks prove nothing of a layout that is not linear: {error.message}") from None
    if size(layout) != elements or constant or rank(columns) != log2(elements):
        raise MismatchError(f"{layout} does not give the {elements} elements of the tile a place each")
    if max(columns, default=0) >= room:
        raise MismatchError(f"{layout} with {gaps_bytes} extra bytes does not lie in the tile's memory")
    return columns


def _check_footprints(synthesis: Synthesis) -> list[Phase]:
    """The phases of all accesses, whose footprints must be those of the certificate."""
    phases = linear_phases(synthesis)
    if phases is None:
        raise MismatchError("ranks prove nothing of accesses that are not linear over F2")
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


def _check_reports(synthesis: Synthesis, layout: AnyLayout) -> None:
    """The reports must be those of a fresh analysis, and free of conflicts."""
    accesses = lane_accesses(synthesis)
    if len(synthesis.reports) != len(accesses):
        raise MismatchError(f"{len(synthesis.reports)} reports are given for {_accesses(accesses)}")
    for i, (access, report) in enumerate(zip(accesses, synthesis.reports, strict=True)):
        fresh = analyze_access(layout, access, synthesis.arch)
        if not isinstance(fresh, SharedReport) or not fresh.conflict_free:
            raise MismatchError(f"access {i} has bank conflicts on {layout}", index=i)
        if report != fresh:
            raise MismatchError(f"the report of access {i} is not that of a fresh analysis", index=i)


def _check_counted(synthesis: Synthesis, layout: AnyLayout) -> str:
    """Storage order, plain or padded, or what a tensor map writes, on which every instruction is counted."""
    classes = {"plain": "plain", "padding": padding_class(synthesis.max_extra_bytes), "rotation": "rotation"}
    expected = "tma" if is_tma(synthesis) else classes.get(synthesis.kind)
    if synthesis.certificate.classes != (expected,):
        raise MismatchError(
            f"{layout}, of kind {synthesis.kind!r}, is counted in none of {synthesis.certificate.classes}"
        )
    for i, access in enumerate(lane_accesses(synthesis)):
        counted = analyze_access(layout, access, synthesis.arch, "enumerated")
        if not isinstance(counted, SharedReport) or not counted.conflict_free:
            raise MismatchError(f"access {i} has bank conflicts on {layout}", index=i)
    _check_reports(synthesis, layout)
    return f"{layout} is conflict-free for {_accesses(synthesis.reports)}, counted one by one"


def _check_classes(synthesis: Synthesis, layout: AnyLayout) -> str:
    """Check a single swizzle of storage order, on which an instruction of every class is counted."""
    certificate = synthesis.certificate
    single = synthesis.kind == "swizzle" and certificate.classes == ("single-swizzle",)
    if not single or not isinstance(layout, ComposedLayout) or is_tma(synthesis):
        raise MismatchError(f"{layout} is not a single swizzle, of which alone classes of instructions speak")
    (swizzle,) = layout.swizzles
    accesses = [instructions_of(synthesis, access) for access in lane_accesses(synthesis)]
    words = (8 * synthesis.arch.bank_bytes // each.bits for each in accesses)
    period = max([1, swizzle.period, *words, *(each.elems for each in accesses)])
    classes = [each.classes(period) for each in accesses]
    bits, there = certificate.period_bits, tuple(len(rows) for rows, _ in classes)
    if bits != period.bit_length() - 1 or period & (period - 1) or there != certificate.reached:
        raise MismatchError(
            f"modulo {period} elements the accesses have {list(there)} classes of instructions; "
            f"{list(certificate.reached)} are claimed, modulo 2^{bits}"
        )
    for i, (each, rows) in enumerate(zip(accesses, classes, strict=True)):
        if not each.served(swizzle, *rows, synthesis.arch).all():
            raise MismatchError(f"access {i} has bank conflicts on {layout}, or vectors torn", index=i)
    _check_reports(synthesis, layout)
    return (
        f"{layout} is conflict-free for {_accesses(accesses)}: {_some(sum(certificate.reached))} modulo "
        f"{period} elements, after which its bank bits repeat, counted one by one"
    )


def _some(count: int) -> str:
    return f"{count} class{'' if count == 1 else 'es'} of instructions"


def _check_alternatives(synthesis: Synthesis) -> None:
    """Alternatives must be what they say, cost what they say, and come best first, each once."""
    for other in synthesis.alternatives:
        _check_kind(synthesis, other.layout, other.kind, other.extra_bytes, True)
        reports = [analyze_access(other.layout, a, synthesis.arch) for a in lane_accesses(synthesis)]
        shared = [report for report in reports if isinstance(report, SharedReport)]
        if (other.total, other.ideal_total) != (
            sum(report.total for report in shared),
            sum(report.ideal_total for report in shared),
        ):
            raise MismatchError(f"the alternative {other.layout} does not take {other.total} wavefronts")
    keys = [(other.total, other.extra_bytes) for other in synthesis.alternatives]
    layouts = [synthesis.layout, *(other.layout for other in synthesis.alternatives)]
    if keys != sorted(keys) or len(set(layouts)) != len(layouts):
        raise MismatchError("the alternatives are not in order, or one comes twice")
