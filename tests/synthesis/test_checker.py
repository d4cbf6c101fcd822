"""check_certificate: accepts what synthesize found, and rejects every corruption of it."""

from __future__ import annotations

import dataclasses
import itertools
import random
from collections.abc import Callable
from typing import Any

import pytest

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, TmaAccess
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, MismatchError, UndecidedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.limits import Most
from layoutalg.synthesis import Certificate, Synthesis, check_certificate, padding, synthesize, synthesizer
from layoutalg.synthesis.proof import forms, refutation
from layoutalg.synthesis.proof.evidence import lane_accesses, phase_of
from tests.draws.synthesis_cases import SPLIT, THREE
from tests.mutants.syntheses import mistakes, sampled
from tests.sweeps import each

F32 = dtype("f32")
ROWS = Layout((64, 64), (64, 1))
WRITTEN = Swizzle(3, 3, 3)


def swizzled() -> Synthesis:
    return synthesize((64, 64), ["ldmatrix.x4", "st.shared.b128"], element="f16")


def padded() -> Synthesis:
    return synthesize((33, 32), ["ld.shared.b128@col"], element="f32", max_extra_bytes=1536)


def counted() -> Synthesis:
    return synthesize((64, 96), ["cp.async.16", "ldmatrix.x4"], element="f16")


def refuted() -> Synthesis:
    return synthesize((8, 8), THREE, element="f32", max_extra_bytes=512)


def narrow() -> Synthesis:
    return synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")


def single() -> Synthesis:
    return synthesize((8, 8), THREE, element="f32", form="single")


def tma() -> Synthesis:
    return synthesize((32, 32), ["ld.shared.b32@col", TmaAccess((32, 32), 128)], element="f32")


def gaps() -> Synthesis:
    copy = TmaAccess((64, 16), 128)
    return synthesize((64, 16), ["ld.shared.b128@col", copy], element="f32", max_extra_bytes=4096)


def with_certificate(**changes: Any) -> Callable[[Synthesis], Synthesis]:
    return lambda s: dataclasses.replace(s, certificate=dataclasses.replace(s.certificate, **changes))


def with_synthesis(**changes: Any) -> Callable[[Synthesis], Synthesis]:
    return lambda s: dataclasses.replace(s, **changes)


def with_report(**changes: Any) -> Callable[[Synthesis], Synthesis]:
    return lambda s: dataclasses.replace(
        s, reports=(dataclasses.replace(s.reports[0], **changes), *s.reports[1:])
    )


def under(swizzle: Swizzle, inner: Layout = ROWS) -> ComposedLayout:
    return ComposedLayout(swizzle, 0, inner)


CORRUPTIONS: list[tuple[str, Callable[[], Synthesis], Callable[[Synthesis], Synthesis]]] = [
    ("another swizzle that conflicts", swizzled, with_synthesis(layout=under(Swizzle(2, 3, 3)))),
    ("a swizzle that splits vectors", swizzled, with_synthesis(layout=under(Swizzle(3, 2, 4)))),
    ("a layout that leaves the tile", swizzled, with_synthesis(layout=under(Swizzle(3, 3, 9)))),
    ("offsets that repeat", swizzled, with_synthesis(layout=under(WRITTEN, Layout((64, 64), (32, 1))))),
    ("another size", swizzled, with_synthesis(layout=under(WRITTEN, Layout((32, 64), (64, 1))))),
    ("a layout with an offset", swizzled, with_synthesis(layout=ComposedLayout(Swizzle(3, 3, 3), 64, ROWS))),
    ("no layout for the claim", swizzled, with_synthesis(layout=None)),
    ("a plain layout called a swizzle", swizzled, with_synthesis(layout=ROWS)),
    ("a kind that is not so", swizzled, with_synthesis(kind="xor")),
    ("memory that is not used", swizzled, with_synthesis(extra_bytes=16)),
    ("a kernel too small", swizzled, with_certificate(kernel=(36, 72, 144, 256, 512))),
    ("another kernel", swizzled, with_certificate(kernel=(32, 64, 128, 256, 512, 1024))),
    ("a footprint changed", swizzled, with_certificate(footprints=((1, 2, 32, 64, 256), (1, 2, 4, 8, 16)))),
    ("a footprint left out", swizzled, with_certificate(footprints=((1, 2, 32, 64, 128),))),
    ("another class", swizzled, with_certificate(classes=("any-placement",))),
    ("another reason", swizzled, with_certificate(reason="exhausted")),
    ("counted, but not so", swizzled, with_certificate(reason="counted")),
    ("a report with fewer wavefronts", swizzled, with_report(total=60)),
    ("a report of another access", swizzled, with_report(op="ldmatrix.x2")),
    ("a report left out", swizzled, lambda s: dataclasses.replace(s, reports=s.reports[:1])),
    ("an access added", swizzled, lambda s: dataclasses.replace(s, accesses=(*s.accesses, s.accesses[0]))),
    ("an access exchanged", swizzled, lambda s: dataclasses.replace(s, accesses=s.accesses[:1] * 2)),
    ("another order", swizzled, with_synthesis(order="col")),
    ("padding that conflicts", padded, with_synthesis(layout=Layout((33, 32), (40, 1)), extra_bytes=1056)),
    ("padding beyond what is allowed", padded, with_synthesis(max_extra_bytes=527)),
    ("padding that costs more", padded, with_synthesis(extra_bytes=768)),
    ("padding claimed by ranks", padded, with_certificate(reason="ranks")),
    ("padding of another kind", padded, with_synthesis(kind="plain")),
    ("a clash of two that get along", refuted, with_certificate(clash=(0, 1))),
    ("a clash with nobody", refuted, with_certificate(clash=(0, 1, 7))),
    ("a class that was not searched", refuted, with_certificate(classes=("any-placement",))),
    ("more padding than was tried", refuted, with_certificate(
        classes=("linear-in-place", "padding up to 9 bytes"))),
    ("a layout beside the claim of none", refuted, with_synthesis(layout=Layout((8, 8), (8, 1)))),
    ("a report beside the claim of none", refuted, with_synthesis(reports=swizzled().reports)),
    ("a repeated word that is none", refuted, with_certificate(
        reason="repeated-word", clash=(0,), classes=("any-placement",))),
    ("enough banks called too few", refuted, with_certificate(
        reason="narrow-banks", clash=(0, 1), classes=("any-placement",))),
    ("a claim of ranks without a layout", refuted, with_certificate(reason="ranks")),
    ("too few banks the other way round", narrow, with_certificate(clash=(0, 1))),
    ("any placement after a search", single, with_certificate(classes=("any-placement",))),
    ("a form that has a layout", single, lambda s: dataclasses.replace(
        with_certificate(footprints=s.certificate.footprints[:2])(s), accesses=s.accesses[:2])),
    ("a clash on a layout without conflicts", swizzled, with_certificate(clash=(0,))),
    ("a clash in a list of forms", tma, with_certificate(clash=(0,))),
    ("gaps that are not there", gaps, with_synthesis(extra_bytes=0)),
    ("gaps beyond what is allowed", gaps, with_synthesis(max_extra_bytes=4095)),
    ("a box without its gaps", gaps, with_synthesis(
        layout=under(Swizzle(3, 2, 3), Layout((64, 16), (16, 1))))),
    ("boxes of another tile", gaps, with_synthesis(shape=(64, 24))),
    ("a mode that serves", tma, lambda s: dataclasses.replace(s, accesses=(
        Access("ld.shared.b32", Layout((32, 1), (32, 0)), F32), s.accesses[1]),
        certificate=dataclasses.replace(s.certificate, footprints=((1, 2, 4, 8, 16),)))),
]  # fmt: skip


@each("make", [swizzled, counted, padded, refuted, narrow, single, tma, gaps])
def test_what_was_found_is_accepted(make: Callable[[], Synthesis]) -> None:
    assert check_certificate(make())


@each(("what", "make", "corrupt"), CORRUPTIONS, ids=[what for what, _, _ in CORRUPTIONS], sample=15)
def test_a_corruption_is_rejected(
    what: str, make: Callable[[], Synthesis], corrupt: Callable[[Synthesis], Synthesis]
) -> None:
    bad = corrupt(make())
    assert bad != make(), what
    with pytest.raises(MismatchError):
        check_certificate(bad)


@pytest.mark.deep
def test_a_mutant_of_a_random_answer_is_rejected_or_true() -> None:
    outcomes, wrong = mistakes(83, 14, 14)
    assert wrong == [] and outcomes["rejected"] > 100, outcomes


@each("make", [swizzled, counted, padded, refuted, narrow, single], sample=1)
def test_a_mutant_is_rejected_or_true(make: Callable[[], Synthesis]) -> None:
    rng = random.Random(7)
    outcomes = [(what, said) for what, said, _ in sampled(make(), rng, 40)]
    assert {said for _, said in outcomes} <= {"rejected", "true", "undecided"}, outcomes


@each("swizzle", [Swizzle(0, 3, 5), Swizzle(1, 3, 4)])
def test_a_swizzle_of_the_same_period_is_counted_itself(swizzle: Swizzle) -> None:
    found = synthesize((64, 96), ["ldmatrix.x4"], element="f16")
    assert found.certificate.reason == "classes" and isinstance(found.layout, ComposedLayout)
    layout = ComposedLayout(swizzle, 0, found.layout.inner)
    with pytest.raises(MismatchError, match="has bank conflicts"):
        check_certificate(with_synthesis(layout=layout)(found))


def test_two_of_the_three_do_not_clash() -> None:
    fewer = dataclasses.replace(
        with_certificate(footprints=refuted().certificate.footprints[:2], clash=(0, 1))(refuted()),
        accesses=THREE[:2],
    )
    with pytest.raises(MismatchError, match="a bank map serves"):
        check_certificate(fewer)


def test_a_search_with_candidates_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """All 5 of 7 word coordinates: a kernel of dimension 2 would be a code of length 7 and distance 6."""
    accesses = [
        Access("ld.shared.b32", Layout(((2,) * 5, 1), (tuple(1 << c for c in five), 0)), F32)
        for five in itertools.combinations(range(7), 5)
    ]
    found, linear = synthesize((16, 8), accesses, element="f32"), "linear-in-place of whole 4-byte units"
    assert found.certificate.classes[0] == linear and found.certificate.nodes > 0
    assert check_certificate(found)
    classes = (linear, "any-in-place of whole 4-byte units", "single-swizzle")
    with pytest.raises(MismatchError, match="word 0 meets 119 others"):
        check_certificate(with_certificate(classes=classes)(found))
    monkeypatch.setattr(Most.ONE_BY_ONE, "number", 3)
    with pytest.raises(UndecidedError, match="the limit is 3"):
        check_certificate(found)


def test_a_proof_about_whole_vectors_speaks_of_whole_vectors() -> None:
    found = synthesize((1, 1024), SPLIT, element="f32")
    footprints = tuple(phase_of(found, access).footprint for access in lane_accesses(found))
    claim = Certificate(False, "narrow-banks", ("linear-in-place",), (), footprints, (1, 0))
    none = {"layout": None, "kind": "none", "reports": (), "certificate": claim, "alternatives": ()}
    with pytest.raises(MismatchError):
        check_certificate(with_synthesis(**none)(found))


@each(("shape", "mapping"), [((96, 72), "row"), ((33, 32), "col")])
def test_what_is_counted_is_bound_to_its_element(shape: tuple[int, int], mapping: str) -> None:
    found = synthesize(shape, [f"ld.shared.b128@{mapping}"], element="f32", max_extra_bytes=1536)
    assert found.certificate.reason == "counted" and check_certificate(found)
    for element in ("u8", "f16", "f64"):
        with pytest.raises(MismatchError):
            check_certificate(dataclasses.replace(found, element=dtype(element)))


# --- what the proof shares with the search: nothing ----------------------------------------------------


@each("shape", [(48, 20), (1, 64), (64, 1), (2, 3, 8), (4, (2, 4)), ((3, 2), (2, 4)), 24])
@each("order", ["row", "col"])
@each("op", ["ld.shared.b32@row", "ld.shared.b128@row"])
def test_search_and_proof_list_the_same_paddings(shape: Any, order: Order, op: str) -> None:
    try:
        found = synthesize(shape, [op], element="f32", order=order, max_extra_bytes=2048)
    except AlignmentError:
        return  # rows that hold no whole vector
    accesses = [a for a in found.accesses if isinstance(a, Access)]
    tried = padding.pads_of(found.shape, accesses, found.element, found.order, 2048, found.arch)
    longer = [(extra, storage_layout(found.shape, order, pad)) for pad, extra in tried]
    assert list(forms.paddings(found)) == longer


@each(
    ("make", "where", "name", "wrong"),
    [
        (lambda: synthesize((64, 96), ["ldmatrix.x4"], element="f16"), synthesizer, "free_singles",
         lambda *args: iter(())),
        (padded, padding, "_step", lambda *args: 8),
        (padded, synthesizer, "pads_of", lambda *args: iter(())),
        (padded, synthesizer, "padded_tiles", lambda *args: iter(())),
    ],
sample=2)  # fmt: skip
def test_a_wrong_list_is_noticed(
    make: Callable[[], Synthesis], where: object, name: str, wrong: Callable[..., object]
) -> None:
    right = make()
    assert right.layout is not None and check_certificate(right)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(where, name, wrong)
        found = make()
    assert found.layout is None
    with pytest.raises(MismatchError, match="is free of conflicts"):
        check_certificate(found)


def test_classes_in_words() -> None:
    """And the sentences of a refutation, which name them."""
    found = padded()
    said = {
        "plain": "the storage order (33,32):(32,1)",
        "single-swizzle": "single swizzles Sw<B,M,S> of (33,32):(32,1) in its memory and 1536 bytes more",
        "padding up to 1536 bytes": "(33,32):(32,1) with longer rows, by multiples of 16 bytes, "
        "up to 1536 bytes in all",
        "linear-in-place of whole 16-byte units": "F2-linear maps of (33,32):(32,1) onto itself "
        "that keep 16-byte units whole",
        "linear-in-place": "F2-linear maps of (33,32):(32,1) onto itself",
        "any-in-place of whole 4-byte units": "permutations of (33,32):(32,1) that keep 4-byte units whole",
        "tma": "what tensor-map copies write of (33,32) in its memory and 1536 bytes more",
        "any-placement": "all placements",
    }
    assert {name: forms.class_in_words(found, name) for name in said} == said
    for none, clash in ((refuted(), " for (0, 1, 2)"), (single(), "")):
        listed = "; ".join(forms.class_in_words(none, name) for name in none.certificate.classes)
        assert refutation.check_refutation(none) == f"none is free of conflicts{clash} of {listed}"
