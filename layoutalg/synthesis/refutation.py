"""check_refutation: the claim that no layout is conflict-free, proved again.

The idea.  Four kinds of proof, each by counting or by looking at everything:

    repeated-word  A phase of an instruction without broadcast asks for a word twice.  No layout helps.
    narrow-banks   Vectors of 2^c words stay whole, so the words at one place of a vector lie in 2^(m - c) of
                   the 2^m banks; a phase asks for more of them than that.  No layout helps where the access
                   with the vectors reads all those words; otherwise none does that keeps vectors whole.
    exhausted      Every subspace K of the right dimension meets one of the clashing footprints: a vector x is
                   in K or not; if it is, look at the quotient by x, if not, strike it out.
    forms          Every layout of the form has a conflict: all of them are listed and analysed.

"any-in-place" adds to an exhausted search: word 0 shares phases with so many others that too few are left to
fill its bank, so no permutation of the tile's words helps either, linear or not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.analysis.access import TmaAccess
from layoutalg.analysis.analyzer import analyze
from layoutalg.analysis.report import SharedReport
from layoutalg.errors import MismatchError, UndecidedError
from layoutalg.f2 import basis, intersection, rank
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle
from layoutalg.synthesis.evidence import (
    Phase,
    lane_accesses,
    log2,
    paddings,
    phase_of,
    tma_tiles,
    word_count_bits,
)
from layoutalg.synthesis.result import Synthesis, storage_layout

LIMIT = 1 << 16
"""Vectors tried, at most, to repeat an exhaustive search; beyond it an UndecidedError."""


def check_refutation(synthesis: Synthesis) -> str:
    """What a certificate of infeasibility proves, as a sentence, after proving it again.

    Raises MismatchError naming what is not so, UndecidedError when a search is too long to be repeated.

    >>> from layoutalg.synthesis.synthesizer import synthesize
    >>> found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    >>> check_refutation(found)
    'no layout (any-placement) is conflict-free: access 1 asks 32 words of 8 banks, since access 0 keeps 4
    words together'
    """
    certificate = synthesis.certificate
    if synthesis.kind != "none" or synthesis.extra_bytes or synthesis.reports or certificate.kernel:
        raise MismatchError("a synthesis without a layout has kind 'none', no reports and no kernel")
    accesses = lane_accesses(synthesis)
    if any(not 0 <= i < len(accesses) for i in certificate.clash):
        raise MismatchError(f"the clashing accesses {certificate.clash} are not among {len(accesses)}")
    linear = certificate.reason != "forms" or certificate.classes[:1] != (_padding_class(synthesis),)
    phases = [phase_of(synthesis, access) for access in accesses] if linear else []
    if [phase.footprint for phase in phases] != [basis(f) for f in certificate.footprints]:
        raise MismatchError("the footprints of the certificate are not those of the accesses")
    match certificate.reason:
        case "repeated-word":
            return _check_repeated_word(synthesis, phases)
        case "narrow-banks":
            return _check_narrow_banks(synthesis, phases)
        case "exhausted":
            return _check_exhausted(synthesis, phases)
        case "forms":
            return _check_forms(synthesis)
        case _:
            raise MismatchError(f"the reason {certificate.reason!r} refutes nothing")


def _padding_class(synthesis: Synthesis) -> str:
    return f"padding up to {synthesis.max_extra_bytes} bytes"


def _check_repeated_word(synthesis: Synthesis, phases: Sequence[Phase]) -> str:
    clash = synthesis.certificate.clash
    if synthesis.certificate.classes != ("any-placement",) or len(clash) != 1:
        raise MismatchError("a repeated word is asked for by one access, on any placement")
    if not phases[clash[0]].repeats:
        raise MismatchError(f"access {clash[0]} asks for no word twice, or broadcasts it", index=clash[0])
    return f"no layout is conflict-free: access {clash[0]} asks for a word twice and has no broadcast"


def _check_narrow_banks(synthesis: Synthesis, phases: Sequence[Phase]) -> str:
    """Access `many` asks for too many words at one place of the vectors of access `wide`.

    For any placement the words must be ones that `wide` reads, since only those are tied together by it.
    """
    certificate = synthesis.certificate
    classes = [c for c in certificate.classes if c != _padding_class(synthesis)]
    if classes not in (["any-placement"], ["linear-in-place"]) or len(certificate.clash) != 2:
        raise MismatchError(f"two accesses of which one keeps banks from the other do not refute {classes}")
    many, wide = certificate.clash
    keep = phases[wide].vector_bits
    asked = intersection(phases[many].footprint, [1 << j for j in range(keep, word_count_bits(synthesis))])
    if classes == ["any-placement"]:
        asked = intersection(asked, phases[wide].reach)
    words, banks = 1 << len(asked), synthesis.arch.banks >> keep
    if words <= banks:
        raise MismatchError(f"access {many} asks for {words} words at one place of {banks} banks", index=many)
    if len(classes) < len(certificate.classes):
        _check_paddings(synthesis)
    return (
        f"no layout ({' or '.join(certificate.classes)}) is conflict-free: access {many} asks {words} words "
        f"of {banks} banks, since access {wide} keeps {1 << keep} words together"
    )


def _check_exhausted(synthesis: Synthesis, phases: Sequence[Phase]) -> str:
    certificate = synthesis.certificate
    classes = [c for c in certificate.classes if c != _padding_class(synthesis)]
    if classes not in (["linear-in-place"], ["linear-in-place", "any-in-place"]):
        raise MismatchError(f"an exhausted search of bank maps does not speak of {certificate.classes}")
    bits = word_count_bits(synthesis)
    keep = max(phase.vector_bits for phase in phases)
    rows = [1 << j for j in range(keep, bits)]
    spaces = [intersection(phases[i].footprint, rows) for i in certificate.clash]
    banks = min(log2(synthesis.arch.banks), bits) - keep
    if _has_kernel(spaces, banks):
        raise MismatchError(f"a bank map serves the accesses {certificate.clash} without conflicts")
    if "any-in-place" in classes:
        met = {point for phase in phases for point in _points(phase.footprint)}
        if (1 << bits) - len(met) >= (1 << bits) // synthesis.arch.banks - 1:
            raise MismatchError(f"word 0 meets {len(met) - 1} others; its bank can be filled without them")
    if len(classes) < len(certificate.classes):
        _check_paddings(synthesis)
    return f"no layout is {' or '.join(certificate.classes)} and free of conflicts for {certificate.clash}"


def _points(space: Sequence[int]) -> list[int]:
    """All vectors of a space."""
    points = [0]
    for vector in space:
        points += [point ^ vector for point in points]
    return points


def _has_kernel(spaces: Sequence[Sequence[int]], codimension: int) -> bool:
    """True when a subspace of this codimension in the span of `spaces` meets each of them in 0 alone."""
    whole = basis(vector for space in spaces for vector in space)
    points = frozenset(point for space in spaces for point in _points(space)) - {0}
    left = LIMIT

    def exists(taken: frozenset[int], axes: tuple[int, ...], need: int) -> bool:
        """`taken`: vectors that are no candidates; `axes`: a basis of what is left of the span."""
        nonlocal left
        if need <= 0:
            return True
        candidates = [x for x in _points(axes) if x and x not in taken]
        struck: set[int] = set()
        for x in candidates:
            left -= 1
            if left < 0:
                raise UndecidedError(f"the search takes more than {LIMIT} vectors to repeat", budget=LIMIT)
            top = 1 << (x.bit_length() - 1)
            quotient = frozenset(v ^ x if v & top else v for v in taken | struck) - {0}
            if exists(quotient, basis(v ^ x if v & top else v for v in axes), need - 1):
                return True
            struck.add(x)
        return False

    return exists(points, whole, len(whole) - codimension)


def _check_forms(synthesis: Synthesis) -> str:
    """Every layout of the form is analysed."""
    certificate = synthesis.certificate
    classes = [c for c in certificate.classes if c != _padding_class(synthesis)]
    copies = [a for a in synthesis.accesses if isinstance(a, TmaAccess)]
    layouts: Iterator[AnyLayout]
    if certificate.clash:
        raise MismatchError(f"a list of layouts says nothing of a clash of the accesses {certificate.clash}")
    if classes == ["single-swizzle"] and not copies:
        layouts = _single_swizzles(synthesis)
    elif classes == ["tma"] and (copies or synthesis.form == "tma"):
        layouts = (tile.layout for tile in tma_tiles(synthesis))
    elif not classes and certificate.classes and not copies:
        layouts = iter([storage_layout(synthesis.shape, synthesis.order)])
    else:
        raise MismatchError(f"no list of layouts is known for {certificate.classes}")
    for layout in layouts:
        _check_conflict(synthesis, layout)
    if len(classes) < len(certificate.classes):
        _check_paddings(synthesis)
    return f"no layout of {' or '.join(certificate.classes)} is free of conflicts"


def _single_swizzles(synthesis: Synthesis) -> Iterator[AnyLayout]:
    """Storage order, and every swizzle in the tile that keeps words and vectors whole and K & F = 0."""
    base = storage_layout(synthesis.shape, synthesis.order)
    yield base
    phases = [phase_of(synthesis, access) for access in lane_accesses(synthesis)]
    machine, bits = synthesis.arch, word_count_bits(synthesis)
    keep = max(phase.vector_bits for phase in phases)
    shift = log2(8 * machine.bank_bytes) - log2(synthesis.element.bits)
    banks = machine.banks - 1
    for width in range(1, bits):
        for low in range(keep, bits - width):
            for distance in range(1, bits - width - low + 1):
                for step in (distance, -distance):
                    swizzle = Swizzle(width, low, step)
                    free = all(
                        rank(swizzle(word) & banks for word in phase.footprint) == len(phase.footprint)
                        for phase in phases
                    )
                    if free:
                        yield ComposedLayout(Swizzle(width, low + shift, step), 0, base)


def _check_conflict(synthesis: Synthesis, layout: AnyLayout) -> None:
    """At least one access must have a conflict on the layout."""
    for access in lane_accesses(synthesis):
        report = analyze(layout, access, synthesis.arch)
        if not isinstance(report, SharedReport) or not report.conflict_free:
            return
    raise MismatchError(f"{layout} is free of conflicts")


def _check_paddings(synthesis: Synthesis) -> None:
    for _, layout in paddings(synthesis):
        _check_conflict(synthesis, layout)
