"""Syntheses with one statement changed: each must be rejected by the checker, or still be true.

`mutants(found, rng)` changes every field of a synthesis, of its certificate, and of each report and
alternative, one at a time.  `is_true` judges what is accepted by enumeration: the layout, its memory and its
kind, the reports, the alternatives, and for a claim of none all single swizzles and paddings and some others.
"""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.arch import ARCHS, INSTRUCTIONS
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError, MismatchError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree, product
from layoutalg.synthesis import Synthesis, check_certificate
from tests.draws.synthesis_cases import Question, ask, drawn, is_free, missed

Mutant = tuple[str, Synthesis]

CLASSES = (
    "any-placement", "any-in-place of whole 4-byte units", "any-in-place", "linear-in-place",
    "linear-in-place of whole 4-byte units", "linear-in-place of whole 16-byte units",
    "linear-in-place of whole 1-byte units", "single-swizzle", "plain", "tma", "padding up to 64 bytes",
    "padding up to 1000000 bytes", "",
)  # fmt: skip


WORDS: dict[str, tuple[Any, ...]] = {
    "kind": ("plain", "swizzle", "xor", "padding", "none"), "order": ("row", "col"),
    "form": ("any", "single", "tma", "best"), "element": tuple(map(dtype, ("u8", "f16", "f32", "f64", "s4"))),
    "arch": tuple(ARCHS[name] for name in ("sm_75", "sm_80", "sm_100") if name in ARCHS),
    "reason": ("ranks", "counted", "classes", "repeated-word", "narrow-banks", "exhausted", "forms"),
}  # fmt: skip
"""Fields of few values."""

RECORDS = ("reports", "alternatives", "accesses", "footprints")
"""Tuples of no numbers."""

UNJUDGED = ("witness", "notes", "method")
"""Fields of reports that may be others."""


def mutants(found: Synthesis, rng: random.Random) -> Iterator[Mutant]:
    """(what was changed, the synthesis) for each field, with a few values each."""
    yield "layout", replace(found, layout=None)
    yield from _fields(found, rng)


def _fields(record: Any, rng: random.Random) -> Iterator[tuple[str, Any]]:
    """The records that differ from one in a field, of records in it too, and the field's name."""
    for field in (field for field in dataclasses.fields(record) if field.name not in UNJUDGED):
        for what, value in _values(field.name, getattr(record, field.name), rng):
            try:
                yield what, replace(record, **{field.name: value})
            except LayoutAlgError:  # a record that cannot be made
                continue


def _values(name: str, value: Any, rng: random.Random) -> Iterator[tuple[str, Any]]:
    """Other values of a field, by their type."""
    if name in WORDS:
        yield from ((name, word) for word in WORDS[name] if word != value)
    elif name == "classes":
        one = rng.choice(CLASSES)
        for classes in ((), value[1:], (*value, one), (one, *value), *((each,) for each in CLASSES)):
            yield name, classes
    elif isinstance(value, bool):
        yield name, not value
    elif isinstance(value, int):
        yield name, rng.choice((value + 1, value - 1, 2 * value + 1, 0, -value - 1, value + 64))
    elif isinstance(value, Layout | ComposedLayout) or name == "layout":
        yield from ((name, other) for other in _layouts(value or Layout(8), rng))
    elif isinstance(value, Access):
        yield from ((name, other) for other in _accesses(value, rng))
    elif isinstance(value, tuple):
        numbers = () if name in RECORDS else ((3,), (0, 1), (1, *value))
        for other in (value[1:], value[::-1], (*value, *value[:1]), (), *numbers):
            yield name, other
        for i, part in enumerate(value):
            for what, other in _values(name.removesuffix("s"), part, rng):
                yield what, (*value[:i], other, *value[i + 1 :])
    elif dataclasses.is_dataclass(value):
        yield from ((f"{name}.{what}", other) for what, other in _fields(value, rng))


def _layouts(layout: AnyLayout, rng: random.Random) -> Iterator[AnyLayout]:
    """Layouts near one."""
    inner = layout if isinstance(layout, Layout) else layout.inner
    swizzles = () if isinstance(layout, Layout) else layout.swizzles
    strides = [stride * rng.choice((1, 2)) + rng.choice((0, 1)) for stride in flatten_tree(inner.stride)]  # type: ignore[union-attr]
    if isinstance(inner, Layout):
        yield inner
        if isinstance(inner.shape, tuple) and len(strides) == len(inner.shape):
            yield Layout(inner.shape, tuple(strides))
    for _ in range(3):
        swizzle = Swizzle(rng.randint(1, 4), rng.randrange(5), rng.choice((-4, -3, -1, 1, 2, 3, 4, 5)))
        yield ComposedLayout(swizzle, 0, inner)
        yield ComposedLayout((swizzle, *swizzles), 0, inner)
    if swizzles:
        one = swizzles[0]
        for bits, base, shift in ((1, 0, 0), (0, 1, 0), (0, 0, 1), (0, 0, -1)):
            if one.shift + shift:
                yield ComposedLayout(Swizzle(one.bits + bits, one.base + base, one.shift + shift), 0, inner)
        yield ComposedLayout(swizzles, 1, inner)


def _accesses(access: Access, rng: random.Random) -> Iterator[Access]:
    """Accesses near one."""
    others = [
        op for op in INSTRUCTIONS if INSTRUCTIONS[op].width_bytes == INSTRUCTIONS[access.op].width_bytes
    ]
    yield replace(access, op=rng.choice(others))
    yield replace(access, op="ld.global.b128")
    yield replace(access, base_bytes=rng.choice((1, 2, 4, 16, 128)))
    yield replace(access, base_alignment_bytes=rng.choice((1, 2, 16)))
    yield replace(access, element=dtype("u8") if access.element.bits != 8 else dtype("f16"))
    yield replace(access, active=_never)
    strides = list(flatten_tree(access.tv.stride))
    at = rng.randrange(len(strides))
    strides[at] = rng.choice((0, strides[at] + 1, 2 * strides[at], 32))
    flat = iter(strides)

    def filled(shape: Any) -> Any:
        return tuple(map(filled, shape)) if isinstance(shape, tuple) else next(flat)

    yield replace(access, tv=Layout(access.tv.shape, filled(access.tv.shape)))


def _never(thread: int, value: int, iteration: int) -> bool:
    return False


def is_true(claim: Synthesis, rng: random.Random) -> str | None:
    """What is not so about an accepted synthesis, or None."""
    accesses = tuple(a for a in claim.accesses if isinstance(a, Access))
    shape: Any = claim.shape
    elements, bits = product(shape), claim.element.bits
    if claim.max_extra_bytes < 0 or any(a.element.bits != bits or a.active is not None for a in accesses):
        return "the question is none"
    tile_bytes = -(-elements * bits // 8)
    if claim.layout is None:
        question = Question(
            shape,
            accesses,
            claim.element.name,
            claim.order,
            claim.form,
            claim.max_extra_bytes,
        )
        return missed(question, claim, rng)
    told: list[Any] = [claim, *claim.alternatives]
    for one in told:
        layout, inner = one.layout, one.layout if isinstance(one.layout, Layout) else one.layout.inner
        offsets = [layout(i) for i in range(elements)]
        if len(set(offsets)) < elements or min(offsets) < 0:
            return f"{layout} is no place for a tile"
        past = -(-(max(offsets) + 1) * bits // 8) - tile_bytes
        if one.kind in ("plain", "swizzle", "xor") and max(0, past) > one.extra_bytes:
            return f"{layout} takes {past} extra bytes"
        swizzles = () if isinstance(layout, Layout) else layout.swizzles
        base = storage_layout(shape, claim.order)
        kinds = {"plain": inner == base and not swizzles, "swizzle": inner == base and len(swizzles) == 1}
        if one is claim and not kinds.get(one.kind, True) and "tma" not in claim.certificate.classes:
            return f"{layout} is not of kind {one.kind}"
        if one.kind == "padding" and (swizzles or inner == base or one.extra_bytes < past):
            return f"{layout} is no padding of {one.extra_bytes} bytes"
        if one.kind == "none":
            return "a layout of no kind"
    if not is_free(claim.layout, accesses) or claim.extra_bytes > claim.max_extra_bytes:
        return f"{claim.layout} has conflicts, or takes more than is allowed"
    for access, report in zip(accesses, claim.reports, strict=True):
        counted = analyze(claim.layout, access, claim.arch, method="enumerated")
        assert isinstance(counted, SharedReport)
        if replace(report, method=counted.method, witness=counted.witness) != counted:
            return f"the report of {access.op} is not so"
    for other in claim.alternatives:
        reports = [analyze(other.layout, a, claim.arch, method="enumerated") for a in accesses]
        totals = [(r.total, r.ideal_total) for r in reports if isinstance(r, SharedReport)]
        if (other.total, other.ideal_total) != tuple(map(sum, zip(*totals, strict=True))):
            return f"{other.layout} does not take {other.total}"
    return None


def mistakes(seed: int, questions: int, each: int = 20) -> tuple[dict[str, int], list[str]]:
    """(outcomes, accepted mutants that are not so) of a sample of the mutants of drawn questions."""
    rng, outcomes, wrong = random.Random(seed), {"rejected": 0, "true": 0, "undecided": 0}, list[str]()
    for number in range(questions):
        try:
            found = ask(drawn(rng, 256))
        except LayoutAlgError:
            continue
        for what, said, mutant in sampled(found, rng, each):
            if said in outcomes:
                outcomes[said] += 1
            else:
                wrong.append(f"question {number}, {what}: {said}: {mutant}")
    return outcomes, wrong


def sampled(found: Synthesis, rng: random.Random, count: int) -> Iterator[tuple[str, str, Synthesis]]:
    """(what was changed, outcome, mutant) of a sample of the mutants; a third of them are changed twice."""
    every = list(mutants(found, rng))
    for what, mutant in rng.sample(every, min(count, len(every))):
        if rng.random() < 0.35 and mutant.accesses:
            also, mutant = rng.choice(list(mutants(mutant, rng)))
            what += f" and {also}"
        if mutant != found:
            yield what, outcome(mutant, rng), mutant


def outcome(mutant: Synthesis, rng: random.Random) -> str:
    """ "rejected", "undecided" or "true"; otherwise what is not so, though it was accepted."""
    try:
        check_certificate(mutant)
    except MismatchError:
        return "rejected"
    except UndecidedError:
        return "undecided"
    return is_true(mutant, rng) or "true"
