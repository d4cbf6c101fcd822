"""A synthesis in words: what was asked, what each part of the certificate proves, and what stays open.

The idea.  A certificate is a handful of numbers whose meaning is a page of theory.  Here the page is written
with the numbers of the case in hand.  Everything is proved again first, so each sentence holds; where that
takes too long, the last sentence says so.

>>> from layoutalg.synthesis import synthesize
>>> print(*certificate_words(synthesize((64, 64), ["ldmatrix.x4"], element="f16")), sep="\\n")
Asked: a layout of the tile (64,64) of f16, stored by rows, on which this access has no bank conflict:
ldmatrix.x4. It may take the tile's own 8192 bytes.
Found: Sw<3,3,3> o 0 o (64,64):(64,1), one swizzle of the storage order, with no extra memory.
The tile has 2^11 words of 4 bytes. Numbered in storage order, a word is a vector of 11 bits, and the lanes of
a phase move along vectors that are added without carry.
K, the words that share a bank with word 0, has 2^6 elements, spanned by 36, 72, 144, 256, 512 and 1024. Any
two words share a bank exactly if their difference lies in K.
F of access 0 (ldmatrix.x4), the differences of the words of a phase, has 2^5 elements, spanned by 1, 2, 32,
64 and 128. K and F have only 0 in common: rank(K + F) = 6 + 5 = 11. So no two different words of a phase
share a bank.
Open: the proof is about this layout and these accesses. It says nothing of other layouts, and nothing of
other accesses.
Proved again without the search: Sw<3,3,3> o 0 o (64,64):(64,1) is conflict-free for 1 access: K & F = 0 in
F2^11, dim K = 6, dim F = 5.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from layoutalg.analysis import Access, TmaAccess
from layoutalg.errors import UndecidedError
from layoutalg.layout import to_text
from layoutalg.synthesis.proof.checker import check_certificate
from layoutalg.synthesis.proof.evidence import lane_accesses, linear_phases, word_count_bits
from layoutalg.synthesis.proof.forms import class_in_words, every_single, paddings, room_bytes, tile_bytes
from layoutalg.synthesis.proof.refutation import narrow_banks, words_met
from layoutalg.synthesis.proof.tensor_maps import tiles_of_question
from layoutalg.synthesis.result import Synthesis, padding_class

_KINDS = {
    "plain": "which needs no swizzle",
    "swizzle": "one swizzle of the storage order",
    "xor": "a XOR matrix: a chain of swizzles, or permuted strides",
    "padding": "the storage order with longer rows",
    "rotation": "the storage order with rows turned by their number",
}


def certificate_words(synthesis: Synthesis) -> list[str]:
    """Sentences that state a synthesis and its certificate, with the numbers of the case.

    Raises MismatchError, as `check_certificate` does, for a synthesis that is not so.

    >>> from layoutalg.synthesis import synthesize
    >>> found = synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    >>> print(*certificate_words(found)[2:4], sep="\\n")
    Access 0 (st.shared.b128) reads or writes 4 words of a lane together, so the words at one place of its
    vectors lie in 8 of the 32 banks. A phase of access 1 (ld.shared.b32) asks for 32 such words: at least 4
    of them share a bank.
    Open: nothing. Every placement of the tile's words has conflicts on these accesses.
    """
    try:
        proof = check_certificate(synthesis)
        proved = "All of this was proved again without the search."
        if synthesis.layout is not None:
            proved = f"Proved again without the search: {proof}."
    except UndecidedError as error:
        proved = f"Not proved again, since that takes too long: {error}."
    return [
        _question(synthesis),
        *(_of_layout(synthesis) if synthesis.layout is not None else _of_none(synthesis)),
        proved,
    ]


def _question(synthesis: Synthesis) -> str:
    order = "rows" if synthesis.order == "row" else "columns"
    ops = [a.op if isinstance(a, Access) else _copy(a) for a in synthesis.accesses]
    subject = "this access has" if len(ops) == 1 else f"these {len(ops)} accesses have"
    own, room = tile_bytes(synthesis), room_bytes(synthesis)
    more = f", and {room - own} more" if room > own else ""
    form = {
        "any": "",
        "single": " One swizzle was wanted.",
        "tma": " Tensor-map copies have to write it.",
        "rotation": " A rotation of its rows was wanted.",
    }
    return (
        f"Asked: a layout of the tile {to_text(synthesis.shape)} of {synthesis.element}, stored by {order}, "
        f"on which {subject} no bank conflict: {_and(ops)}. It may take the tile's own {own} bytes{more}."
        f"{form[synthesis.form]}"
    )


def _copy(access: TmaAccess) -> str:
    mode = f"swizzled by {access.swizzle_bytes} bytes" if access.swizzle_bytes else "not swizzled"
    return f"a tensor-map copy in boxes {to_text(access.box)}, {mode}"


# --- a layout ------------------------------------------------------------------------------------------


def _of_layout(synthesis: Synthesis) -> Iterator[str]:
    claim = synthesis.certificate
    extra = f"{synthesis.extra_bytes} bytes of" if synthesis.extra_bytes else "no"
    kind = _KINDS[synthesis.kind]
    if claim.classes == ("tma",):
        kind = "as tensor-map copies write it"
    yield f"Found: {synthesis.layout}, {kind}, with {extra} extra memory."
    accesses = lane_accesses(synthesis)
    if claim.reason == "ranks":
        yield from _ranks(synthesis, accesses)
    elif claim.reason == "classes":
        yield (
            f"The bank bits of the swizzle repeat after 2^{claim.period_bits} elements. So instructions cost "
            f"the same when their lanes lie alike relative to the first, and the first lies alike modulo "
            f"2^{claim.period_bits}: they are one class, and one of a class is enough."
        )
        for i, (access, reached, report) in enumerate(
            zip(accesses, claim.reached, synthesis.reports, strict=True)
        ):
            yield (
                f"Access {i} ({access.op}) has {_many(report.instructions, 'instruction')} in "
                f"{_many(reached, 'class', 'classes')}; one of each was counted, and takes its ideal."
            )
    else:
        for i, report in enumerate(synthesis.reports):
            yield (
                f"Access {i} ({report.op}): its {_many(report.instructions, 'instruction')} were counted one "
                f"by one and take {_many(report.total, 'wavefront')}, which is their ideal."
            )
    yield (
        "Open: the proof is about this layout and these accesses. It says nothing of other layouts, and "
        "nothing of other accesses."
    )


def _ranks(synthesis: Synthesis, accesses: Sequence[Access]) -> Iterator[str]:
    claim, bits = synthesis.certificate, word_count_bits(synthesis)
    yield (
        f"The tile has 2^{bits} words of {synthesis.arch.bank_bytes} bytes. Numbered in storage order, a "
        f"word is a vector of {_many(bits, 'bit')}, and the lanes of a phase move along vectors that are "
        f"added without carry."
    )
    yield (
        f"K, the words that share a bank with word 0, has 2^{len(claim.kernel)} elements"
        f"{_span(claim.kernel)}. Any two words share a bank exactly if their difference lies in K."
    )
    for i, (access, footprint) in enumerate(zip(accesses, claim.footprints, strict=True)):
        k, f = len(claim.kernel), len(footprint)
        yield (
            f"F of access {i} ({access.op}), the differences of the words of a phase, has 2^{f} "
            f"elements{_span(footprint)}. K and F have only 0 in common: rank(K + F) = {k} + {f} = {k + f}. "
            f"So no two different words of a phase share a bank."
        )


def _span(vectors: Sequence[int]) -> str:
    return f", spanned by {_and([str(v) for v in vectors])}" if vectors else ""


# --- none ----------------------------------------------------------------------------------------------


def _of_none(synthesis: Synthesis) -> Iterator[str]:
    claim = synthesis.certificate
    yield "None was found. Ruled out, each as a whole: " + "; ".join(
        class_in_words(synthesis, name) for name in claim.classes
    ) + "."  # fmt: skip
    ops = [access.op for access in lane_accesses(synthesis)]
    match claim.reason:
        case "repeated-word":
            (i,) = claim.clash
            yield (
                f"Access {i} ({ops[i]}) asks for a word twice in one phase, and has no broadcast: equal "
                f"words take turns wherever the word lies."
            )
        case "narrow-banks":
            yield _narrow(synthesis, ops)
        case "exhausted":
            yield from _exhausted(synthesis, ops)
        case _:
            pass
    yield from _lists(synthesis)
    if claim.classes == ("any-placement",):
        yield "Open: nothing. Every placement of the tile's words has conflicts on these accesses."
    else:
        yield (
            "Open: every other layout. Outside of what is ruled out there may be one without conflicts; the "
            "certificate says nothing of those."
        )


def _narrow(synthesis: Synthesis, ops: Sequence[str]) -> str:
    many, wide = synthesis.certificate.clash
    phases = linear_phases(synthesis) or []
    words, banks = narrow_banks(synthesis, phases)
    together = f"{1 << phases[wide].vector_bits} words of a lane together"
    if synthesis.certificate.classes == ("any-placement",):
        units = f"{together}, so the words at one place of its vectors"
    else:
        units = f"{together}. Where all such units stay whole, the words at one place of a unit"
    return (
        f"Access {wide} ({ops[wide]}) reads or writes {units} lie in {banks} of the {synthesis.arch.banks} "
        f"banks. A phase of access {many} ({ops[many]}) asks for {words} such words: at least "
        f"{-(-words // banks)} of them share a bank."
    )


def _exhausted(synthesis: Synthesis, ops: Sequence[str]) -> Iterator[str]:
    claim, bits = synthesis.certificate, word_count_bits(synthesis)
    phases = linear_phases(synthesis) or []
    keep = max(phase.vector_bits for phase in phases)
    unit = f"units of {synthesis.arch.bank_bytes << keep} bytes" if keep else "words"
    banks = min(synthesis.arch.banks.bit_length() - 1, bits) - keep
    clash = _and([f"{i} ({ops[i]})" for i in claim.clash])
    yield (
        f"A linear map without conflicts has a kernel K, the {unit} that share a bank with the first, of "
        f"dimension {bits - keep - banks} among {bits - keep}, which has only 0 in common with F, the "
        f"differences within a phase. Accesses {clash} leave no such K: a vector is in K or not, and every "
        f"choice was followed to its end ({_many(claim.nodes, 'vector')}, by the search's own count)."
    )
    if any(name.startswith("any-in-place") for name in claim.classes):
        meeting = words_met(phases)
        yield (
            f"No other permutation of the words helps: word 0 is asked for together with {meeting - 1} "
            f"others, so of {1 << bits} words {(1 << bits) - meeting} could lie in its bank, which has "
            f"{(1 << bits) // synthesis.arch.banks - 1} more to hold."
        )


def _lists(synthesis: Synthesis) -> Iterator[str]:
    """State how many layouts were examined of each class that was listed."""
    classes = synthesis.certificate.classes
    listed = []
    if "single-swizzle" in classes:
        listed.append(_many(sum(1 for _ in every_single(synthesis)), "single swizzle"))
    if padding_class(synthesis.max_extra_bytes) in classes:
        listed.append(_many(sum(1 for _ in paddings(synthesis)), "pitch", "pitches"))
    if "tma" in classes:
        listed.append(
            _many(
                len(tiles_of_question(synthesis)), "tile of tensor-map copies", "tiles of tensor-map copies"
            )
        )
    if listed:
        yield (
            f"Listed one by one: {_and(listed)}. On each of them an instruction takes more than its ideal or "
            f"finds its vectors torn, or the layout leaves the memory."
        )


# --- wording -------------------------------------------------------------------------------------------


def _and(parts: Sequence[str]) -> str:
    return parts[0] if len(parts) == 1 else f"{', '.join(parts[:-1])} and {parts[-1]}"


def _many(count: int, noun: str, plural: str = "") -> str:
    return f"{count} {noun if count == 1 else plural or noun + 's'}"
