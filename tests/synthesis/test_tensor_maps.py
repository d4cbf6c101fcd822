"""Two opinions on what tensor-map copies write: the search's list, and the proof's placing of elements."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from layoutalg.algebra import Order
from layoutalg.analysis import TmaAccess
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError, MismatchError
from layoutalg.layout import ComposedLayout, IntTuple, Layout, Swizzle, product
from layoutalg.synthesis import Certificate, Synthesis, check_certificate, synthesize, synthesizer
from layoutalg.synthesis.proof.tensor_maps import is_written, places_of, tiles_of_question
from layoutalg.synthesis.tma import TmaTile, tma_layouts

HOPPER = ARCHS["sm_90"]
ANY_BYTES = 1 << 22
EXTENTS = (
    1, 2, 3, 4, 5, 7, 8, 12, 16, 24, 32, 48, 64, 96, 128, 160, 192, 256, 257, 263, 272, 300, 514, 520, 2056,
)  # fmt: skip


def question(shape: IntTuple, element: str, order: Order, copies: tuple[TmaAccess, ...]) -> Synthesis:
    """A question about tensor-map copies alone, as an answer that claims nothing."""
    claim = Certificate(False, "forms", ("tma",))
    return Synthesis(
        None, "none", 0, (), claim, (), shape, copies, dtype(element), order, "tma", ANY_BYTES, HOPPER
    )  # fmt: skip


def drawn(rng: random.Random) -> Synthesis:
    """A tile that fits shared memory, of one to three modes, with a copy of some box or none."""
    while True:
        element = rng.choice(("u8", "f16", "f32", "f64", "s4", "c128"))
        shape: tuple[Any, ...] = tuple(rng.choice(EXTENTS) for _ in range(rng.choice((1, 2, 2, 2, 3))))
        if rng.random() < 0.1:
            shape = (*shape[:-1], (2, shape[-1]))
        bits = product(shape) * dtype(element).bits
        if bits % 8 == 0 and bits // 8 <= HOPPER.max_shared_bytes_per_block:
            break
    copies: tuple[TmaAccess, ...] = ()
    if rng.random() < 0.4:
        sides = [product(side) for side in shape]
        box = tuple(rng.choice([n for n in range(1, 257) if side % n == 0]) for side in sides)
        copies = (TmaAccess(box, rng.choice((0, 32, 64, 128))),)
    return question(shape, element, rng.choice(("row", "col")), copies)


def of_search(asked: Synthesis) -> list[tuple[list[int], int]] | None:
    """(place of every element of the storage order, bytes of gaps), or None where the search refuses."""
    copies = [copy for copy in asked.accesses if isinstance(copy, TmaAccess)]
    question = asked.shape, asked.element, asked.order, copies, asked.arch, asked.max_extra_bytes
    try:
        return sorted(
            (places_of(asked, tile.layout).tolist(), tile.extra_bytes) for tile in tma_layouts(*question)
        )
    except LayoutAlgError:
        return None


def of_proof(asked: Synthesis) -> list[tuple[list[int], int]] | None:
    """The same by the proof's own placing."""
    try:
        return sorted((tile.places.tolist(), tile.extra_bytes) for tile in tiles_of_question(asked))
    except LayoutAlgError:
        return None


@pytest.mark.deep
def test_search_and_proof_list_the_same_tiles() -> None:
    """Also of dense rows that no boxes make up: 257 is a prime beyond the longest side."""
    rng = random.Random(29)
    wrong, listed, refused = [], 0, 0
    prime = [question(shape, "c128", "row", ()) for shape in ((2, 514), (3, 257), (1, 514), (1, 257))]
    assert [bool(of_proof(asked)) for asked in prime] == [False, False, True, True]
    for asked in (*prime, *(drawn(rng) for _ in range(250))):
        ours, theirs = of_proof(asked), of_search(asked)
        listed += bool(ours)
        refused += ours is None
        if ours != theirs:
            wrong.append((asked.shape, asked.element.name, asked.order, asked.accesses))
    assert not wrong
    assert listed > 50 and refused > 50


# --- a wrong list in the search -----------------------------------------------------------------------

Tiles = Iterator[TmaTile]


def _without_128(tiles: Tiles) -> Tiles:
    return (t for t in tiles if "Sw<3," not in str(t.layout))


def _shifted(tiles: Tiles) -> Tiles:
    """The XOR of other address bits: free of conflicts, but no mode of the hardware."""
    for t in tiles:
        if isinstance(t.layout, ComposedLayout):
            one = t.layout.swizzles[0]
            yield TmaTile(
                ComposedLayout(Swizzle(one.bits, one.base, one.shift + 1), 0, t.layout.inner), t.extra_bytes
            )


def _unswizzled(tiles: Tiles) -> Tiles:
    for layout, extra in tiles:
        yield TmaTile(layout if isinstance(layout, Layout) else layout.inner, extra)


def _more_gaps(tiles: Tiles) -> Tiles:
    return (t._replace(extra_bytes=t.extra_bytes + 128) for t in tiles)


def ask() -> Synthesis:
    """Rows of 256 bytes: the 128-byte mode serves, in two column blocks; narrower blocks share banks."""
    accesses = ["st.shared.b128@row", "ld.shared.b128@col"]
    return synthesize((64, 128), accesses, element="f16", form="tma", max_extra_bytes=1024)


def with_copy() -> Synthesis:
    boxes = TmaAccess((64, 64), 128)
    return synthesize((64, 128), ["ldmatrix.x4", boxes], element="f16", max_extra_bytes=1024)


@pytest.mark.parametrize("make", [ask, with_copy])
@pytest.mark.parametrize("corrupt", [_without_128, _shifted, _unswizzled, _more_gaps])
def test_a_wrong_list_is_noticed(
    monkeypatch: pytest.MonkeyPatch, make: Callable[[], Synthesis], corrupt: Callable[[Tiles], Tiles]
) -> None:
    assert check_certificate(make())
    monkeypatch.setattr(synthesizer, "tma_layouts", lambda *args: corrupt(tma_layouts(*args)))
    with pytest.raises(MismatchError):
        check_certificate(make())


@pytest.mark.parametrize("swizzle", [Swizzle(3, 3, 4), Swizzle(2, 3, 3), Swizzle(3, 2, 3)])
def test_an_alternative_that_no_copy_writes_is_noticed(swizzle: Swizzle) -> None:
    found = synthesize((64, 128), ["ldmatrix.x4"], element="f16")
    at = next(i for i, other in enumerate(found.alternatives) if "(64,2)" in str(other.layout))
    other = found.alternatives[at]
    assert isinstance(other.layout, ComposedLayout)
    for wrong in (
        dataclasses.replace(other, extra_bytes=128),
        dataclasses.replace(other, layout=ComposedLayout(swizzle, 0, other.layout.inner)),
    ):
        others = (*found.alternatives[:at], wrong, *found.alternatives[at + 1 :])
        with pytest.raises(MismatchError):
            check_certificate(dataclasses.replace(found, alternatives=others))


def test_gaps_and_blocks_are_told_apart() -> None:
    found = with_copy()
    assert found.layout is not None
    assert is_written(found, found.layout, 0) and not is_written(found, found.layout, 128)
    assert not is_written(found, Layout((64, 128), (1, 64)), 0)
