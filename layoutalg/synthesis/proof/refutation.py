"""check_refutation: the claim that none of some classes of layouts is conflict-free, proved again.

The idea.  Four kinds of proof, each by counting or by looking at everything:

    repeated-word  A phase of an instruction without broadcast asks for a word twice.  No layout helps.
    narrow-banks   Vectors of 2^c words stay whole, so the words at one place of a vector lie in 2^(m - c) of
                   the 2^m banks; a phase asks for more of them than that.  No layout helps where the access
                   with the vectors reads all those words; otherwise none does that keeps vectors whole
                   wherever they lie.
    exhausted      Every subspace K of the right dimension meets one of the clashing footprints: a vector x is
                   in K or not; if it is, look at the quotient by x, if not, strike it out.
    forms          Every layout of the form has a conflict: all of them are listed and counted.

"any-in-place" adds to an exhausted search: word 0 shares phases with so many others that too few are left to
fill its bank, so no permutation of the tile's words helps either, linear or not.  Single swizzles and
paddings that are claimed besides are listed and counted in every case.
"""

from __future__ import annotations

from collections.abc import Sequence

from layoutalg.algebra import storage_layout
from layoutalg.analysis import SharedReport, analyze_access
from layoutalg.errors import MismatchError, UndecidedError
from layoutalg.f2 import basis, intersection
from layoutalg.layout import AnyLayout, to_text
from layoutalg.limits import Most
from layoutalg.synthesis.proof.evidence import (
    Phase,
    instructions_of,
    lane_accesses,
    linear_phases,
    log2,
    word_count_bits,
)
from layoutalg.synthesis.proof.forms import (
    bytes_past,
    every_single,
    is_tma,
    paddings,
    room_bytes,
    rotations,
    ruled_out,
    tile_bytes,
)
from layoutalg.synthesis.proof.tensor_maps import tiles_of_question
from layoutalg.synthesis.result import Synthesis, padding_class, unit_class

ADDRESSES = 1 << 26
"""Addresses that are swizzled, at most, to count single swizzles again."""


def check_refutation(synthesis: Synthesis) -> str:
    """State in a sentence what a certificate of infeasibility proves, after proving it again.

    Raises MismatchError naming what is wrong, UndecidedError when a search is too long to be repeated.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    >>> check_refutation(found)
    'none is conflict-free of all placements: access 1 asks 32 words of 8 banks, since access 0 keeps 4 words
    together'
    """
    certificate = synthesis.certificate
    if synthesis.kind != "none" or synthesis.extra_bytes or synthesis.reports or certificate.kernel:
        raise MismatchError("a synthesis without a layout has kind 'none', no reports and no kernel")
    accesses = lane_accesses(synthesis)
    if any(not 0 <= i < len(accesses) for i in certificate.clash):
        raise MismatchError(f"the clashing accesses {certificate.clash} are not among {len(accesses)}")
    phases = linear_phases(synthesis) or []
    if [phase.footprint for phase in phases] != [basis(f) for f in certificate.footprints]:
        raise MismatchError("the footprints of the certificate are not those of the accesses")
    if certificate.reason != "forms" and not phases:
        raise MismatchError(f"{certificate.reason!r} is about subspaces; tile and accesses are not linear")
    if certificate.nodes and certificate.reason != "exhausted":
        raise MismatchError(f"{certificate.nodes} vectors are said to be tried where none are")
    _check_complete(synthesis, bool(phases))
    match certificate.reason:
        case "repeated-word":
            sentence = _check_repeated_word(synthesis, phases)
        case "narrow-banks":
            sentence = _check_narrow_banks(synthesis, phases)
        case "exhausted":
            sentence = _check_exhausted(synthesis, phases)
        case "forms":
            sentence = _check_forms(synthesis)
        case _:
            raise MismatchError(f"the reason {certificate.reason!r} refutes nothing")
    if "single-swizzle" in certificate.classes:
        _check_singles(synthesis)
    if padding_class(synthesis.max_extra_bytes) in certificate.classes:
        for _, longer in paddings(synthesis):
            _check_conflict(synthesis, longer)
    return sentence


def _check_complete(synthesis: Synthesis, linear: bool) -> None:
    """Nothing may be left out that the form has: a claim of less would not be an answer to the question."""
    classes, extra = synthesis.certificate.classes, synthesis.max_extra_bytes
    if classes == ("any-placement",):
        return
    if is_tma(synthesis):
        complete = classes == ("tma",)
    elif synthesis.form == "rotation":
        complete = classes == ("rotation",)
    else:
        listed = ("single-swizzle", padding_class(extra)) if extra else ("single-swizzle",)
        maps = classes[: -len(listed)]
        complete = classes[-len(listed) :] == listed and bool(maps) == (linear and synthesis.form == "any")
    if not complete:
        raise MismatchError(f"{classes} are not what is to be ruled out of the form {synthesis.form!r}")


def _proper_classes(synthesis: Synthesis) -> tuple[str, ...]:
    """The classes that the reason itself is about; those that are listed and counted come after them."""
    listed = ("single-swizzle", padding_class(synthesis.max_extra_bytes))
    return tuple(name for name in synthesis.certificate.classes if name not in listed)


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
    if len(certificate.clash) != 2:
        raise MismatchError(f"of two accesses one keeps banks from the other; {certificate.clash} are no two")
    many, wide = certificate.clash
    keep = phases[wide].vector_bits
    linear = (unit_class("linear", synthesis.arch.bank_bytes << keep),)
    if certificate.classes != ("any-placement",) and _proper_classes(synthesis) != linear:
        raise MismatchError(
            f"access {wide} keeps banks from access {many}, which does not speak of {certificate.classes}"
        )
    words, banks = narrow_banks(synthesis, phases)
    if words <= banks:
        raise MismatchError(f"access {many} asks for {words} words at one place of {banks} banks", index=many)
    return (
        f"none is conflict-free of {ruled_out(synthesis)}: access {many} asks {words} words of {banks} "
        f"banks, since access {wide} keeps {1 << keep} words together"
    )


def narrow_banks(synthesis: Synthesis, phases: Sequence[Phase]) -> tuple[int, int]:
    """(words, banks) that the two accesses of the clash leave to each other.

    The words are those that a phase of the first asks for at one place of the vectors of the second; the
    banks are those in which that place of a vector can lie.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    >>> narrow_banks(found, linear_phases(found))
    (32, 8)
    """
    many, wide = synthesis.certificate.clash
    keep = phases[wide].vector_bits
    wanted = intersection(phases[many].footprint, [1 << j for j in range(keep, word_count_bits(synthesis))])
    if synthesis.certificate.classes == ("any-placement",):
        wanted = intersection(wanted, phases[wide].reach)
    return 1 << len(wanted), synthesis.arch.banks >> keep


def _check_exhausted(synthesis: Synthesis, phases: Sequence[Phase]) -> str:
    certificate = synthesis.certificate
    bits = word_count_bits(synthesis)
    keep = max((phase.vector_bits for phase in phases), default=0)
    linear = unit_class("linear", synthesis.arch.bank_bytes << keep)
    anything = unit_class("any", synthesis.arch.bank_bytes)
    classes = _proper_classes(synthesis)
    if not phases or classes not in ((linear,), (linear, anything)):
        raise MismatchError(f"an exhausted search of bank maps does not speak of {certificate.classes}")
    rows = [1 << j for j in range(keep, bits)]
    spaces = [intersection(phases[i].footprint, rows) for i in certificate.clash]
    banks = min(log2(synthesis.arch.banks), bits) - keep
    if _has_kernel(spaces, banks):
        raise MismatchError(f"a bank map serves the accesses {certificate.clash} without conflicts")
    if anything in classes:
        meeting = words_met(phases)
        if (1 << bits) - meeting >= (1 << bits) // synthesis.arch.banks - 1:
            raise MismatchError(f"word 0 meets {meeting - 1} others; its bank can be filled without them")
    return f"none is free of conflicts for {certificate.clash} of {ruled_out(synthesis)}"


def words_met(phases: Sequence[Phase]) -> int:
    """The number of words that share a phase with word 0, word 0 included.

    >>> words_met([Phase((1, 2), (1, 2), 0, True), Phase((2, 4), (2, 4), 0, True)])
    6
    """
    return len({point for phase in phases for point in _points(phase.footprint)})


def _points(space: Sequence[int]) -> list[int]:
    """All vectors of a space."""
    points = [0]
    for vector in space:
        points += [point ^ vector for point in points]
    return points


def _has_kernel(spaces: Sequence[Sequence[int]], codimension: int) -> bool:
    """True when a subspace of this codimension in the span of `spaces` meets each of them in 0 alone."""
    joint = basis(vector for space in spaces for vector in space)
    points = frozenset(point for space in spaces for point in _points(space)) - {0}
    tried = 0

    def exists(taken: frozenset[int], axes: tuple[int, ...], need: int) -> bool:
        """`taken`: vectors that are not candidates; `axes`: a basis of what is left of the span."""
        nonlocal tried
        if need <= 0:
            return True
        candidates = [x for x in _points(axes) if x and x not in taken]
        struck: set[int] = set()
        for x in candidates:
            tried += 1
            Most.ONE_BY_ONE.decide(tried, "vectors of the search that are tried again")
            top = 1 << (x.bit_length() - 1)
            quotient = frozenset(v ^ x if v & top else v for v in taken | struck) - {0}
            if exists(quotient, basis(v ^ x if v & top else v for v in axes), need - 1):
                return True
            struck.add(x)
        return False

    return exists(points, joint, len(joint) - codimension)


def _check_forms(synthesis: Synthesis) -> str:
    """Every layout of the form is counted."""
    certificate = synthesis.certificate
    if certificate.clash:
        raise MismatchError(f"a list of layouts says nothing of a clash of the accesses {certificate.clash}")
    proper = _proper_classes(synthesis)
    if proper not in ((), ("tma",), ("rotation",)):
        raise MismatchError(f"no list of layouts is known for {certificate.classes}")
    accesses = [instructions_of(synthesis, access) for access in lane_accesses(synthesis)] if proper else []
    if proper == ("rotation",):
        _check_conflict(synthesis, storage_layout(synthesis.shape, synthesis.order))
        for turned in rotations(synthesis):
            if all(each.served(turned, each.offsets, each.mask, synthesis.arch).all() for each in accesses):
                raise MismatchError(f"a rotation of {to_text(synthesis.shape)} is free of conflicts")
    if proper == ("tma",):
        for tile in tiles_of_question(synthesis):
            if all(each.served(tile.at, each.offsets, each.mask, synthesis.arch).all() for each in accesses):
                raise MismatchError(f"what tensor-map copies write in mode {tile.mode} is free of conflicts")
    return f"none is free of conflicts of {ruled_out(synthesis)}"


def _check_singles(synthesis: Synthesis) -> None:
    """On storage order and under every swizzle within the memory, an instruction conflicts or is torn."""
    _check_conflict(synthesis, storage_layout(synthesis.shape, synthesis.order))
    accesses = [instructions_of(synthesis, access) for access in lane_accesses(synthesis)]
    looked_at = 0
    for swizzle in every_single(synthesis):
        free = True
        # A few instructions are mostly enough; if not, all of them are looked at.
        for few in (8, None):
            for each in accesses:
                step = max(1, len(each.offsets) // few) if few else 1
                offsets, mask = each.offsets[::step], each.mask[::step]
                if free:
                    looked_at += offsets.size
                    free = bool(each.served(swizzle, offsets, mask, synthesis.arch).all())
        if looked_at > ADDRESSES:
            raise UndecidedError(f"the swizzles move more than {ADDRESSES} addresses", budget=ADDRESSES)
        if free and tile_bytes(synthesis) + bytes_past(synthesis, swizzle) <= room_bytes(synthesis):
            raise MismatchError(f"{swizzle} of the storage order is free of conflicts")


def _check_conflict(synthesis: Synthesis, layout: AnyLayout) -> None:
    """At least one access must have a conflict on the layout."""
    for access in lane_accesses(synthesis):
        report = analyze_access(layout, access, synthesis.arch)
        if not isinstance(report, SharedReport) or not report.conflict_free:
            return
    raise MismatchError(f"{layout} is free of conflicts")
