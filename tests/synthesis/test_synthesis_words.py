"""A synthesis in words: the numbers are those of the tile, enumerated word by word and lane by lane."""

from __future__ import annotations

import dataclasses
import random
import re

import pytest

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, Place, TmaAccess, instruction_offsets
from layoutalg.errors import LayoutAlgError, MismatchError
from layoutalg.f2 import basis
from layoutalg.layout import product
from layoutalg.synthesis import Synthesis, certificate_words, synthesize
from layoutalg.synthesis.proof.forms import every_single, paddings
from tests.draws.synthesis_cases import THREE, ask, drawn


def numbers(text: str) -> list[int]:
    return [int(n) for n in re.findall(r"\d+", text)]


def span(vectors: list[int]) -> set[int]:
    points = {0}
    for vector in vectors:
        points |= {point ^ vector for point in points}
    return points


def check_ranks(found: Synthesis, said: list[str]) -> None:
    """K by asking the layout for the bank of every word, F by the lanes of one instruction."""
    base, bits = storage_layout(found.shape, found.order), found.element.bits
    assert found.layout is not None
    elements = range(product(found.shape))
    byte_of = {base(i) * bits // 8: found.layout(i) * bits // 8 for i in elements if base(i) * bits % 8 == 0}
    words = {at // 4: moved // 4 for at, moved in byte_of.items() if at % 4 == 0}
    if bits > 32:
        words = {w + n: moved + n for w, moved in words.items() for n in range(bits // 32)}
    sharing = {word for word, moved in words.items() if moved % 32 == words[0] % 32}
    tile = numbers(said[2])
    assert (2 ** tile[1], tile[2]) == (len(words), 4)
    kernel = re.match(
        r"K, the words that share a bank with word 0, has 2\^(\d+) elements(.*?)\. Any", said[3]
    )
    assert kernel and 2 ** int(kernel[1]) == len(sharing) and span(numbers(kernel[2])) == sharing
    for access, line in zip((a for a in found.accesses if isinstance(a, Access)), said[4:], strict=False):
        rule = found.arch.instructions[access.op]
        told = re.match(r"F of access \d+ \((.+)\), .+ has 2\^(\d+) elements(.*?)\. K and F", line)
        assert told and told[1] == access.op
        reach = span(numbers(told[3]))
        assert len(reach) == 2 ** int(told[2]) and reach & sharing == {0}
        places = instruction_offsets(base, access, Place(0, 0, 0), found.arch)
        lanes = [at for at in places[: rule.group_lanes] if at is not None]
        touched = {at // 4 + n for at in lanes for n in range(max(1, rule.width_bytes // 4))}
        first = min(touched)
        assert {word ^ first for word in touched} <= reach
        if not rule.merge_xor:
            assert span(list(basis(word ^ first for word in touched))) == reach
        assert numbers(line.partition("rank(K + F) =")[2])[:3] == [
            int(kernel[1]), int(told[2]), int(kernel[1]) + int(told[2]),
        ]  # fmt: skip


@pytest.mark.deep
def test_numbers_are_those_of_the_case() -> None:
    rng = random.Random(5)
    seen = dict.fromkeys(("ranks", "classes", "counted", "none"), 0)
    for _ in range(120):
        try:
            found = ask(drawn(rng, 512))
        except LayoutAlgError:
            continue
        said = certificate_words(found)
        assert said[0].startswith("Asked: ") and "proved again" in said[-1].lower()
        reason = found.certificate.reason if found.layout is not None else "none"
        seen[reason] += 1
        if reason == "ranks":
            check_ranks(found, said)
        elif reason in ("classes", "counted"):
            for i, report in enumerate(found.reports):
                line = next(line for line in said if line.startswith(f"Access {i} ({report.op})"))
                told = numbers(line.partition(")")[2])
                second = report.total if reason == "counted" else found.certificate.reached[i]
                assert told[:2] == [report.instructions, second]
        elif "single-swizzle" in found.certificate.classes:
            line = next(line for line in said if line.startswith("Listed one by one: "))
            told = numbers(line)
            assert told[0] == len(list(every_single(found)))
            if found.max_extra_bytes:
                assert told[1] == len(list(paddings(found)))
    assert all(count > 5 for count in seen.values()), seen


def test_what_is_open() -> None:
    nowhere = certificate_words(
        synthesize((32, 32), ["st.shared.b128@row", "ld.shared.b32@col"], element="f32")
    )
    assert nowhere[-2].startswith("Open: nothing. Every placement of the tile's words has conflicts")
    some = certificate_words(synthesize((8, 8), THREE, element="f32", form="single"))
    assert (
        some[-2].startswith("Open: every other layout.")
        and "Listed one by one: 70 single swizzles." in some[2]
    )
    found = certificate_words(synthesize((64, 64), ["ldmatrix.x4", TmaAccess((64, 64), 128)], element="f16"))
    assert "a tensor-map copy in boxes (64,64), swizzled by 128 bytes" in found[0]
    assert found[-2].startswith("Open: the proof is about this layout and these accesses.")


def test_three_that_clash() -> None:
    said = certificate_words(synthesize((8, 8), THREE, element="f32"))
    assert "of dimension 1 among 6" in said[2] and "leave no such K" in said[2]
    assert said[3] == (
        "No other permutation of the words helps: word 0 is asked for together with 63 others, so of 64 "
        "words 0 could lie in its bank, which has 1 more to hold."
    )


def test_a_claim_that_is_not_so_is_not_stated() -> None:
    found = synthesize((64, 64), ["ldmatrix.x4"], element="f16")
    with pytest.raises(MismatchError):
        certificate_words(dataclasses.replace(found, kind="plain"))
