"""Every pair of usual patterns on tiles from 8 x 8 to 256 x 256: a layout with proof, or refused by a rule.

Rows, columns, ldmatrix (and .trans), accumulator fragments, and vectors down the columns, in elements of 1 to
16 bytes.  Which pairs have no layout is not recorded but derived, and both directions are asserted:

    two directions   a vector along the rows and one along the columns cannot both be contiguous
    narrow banks     wide vectors kept whole leave a scalar column fewer banks than it has words
"""

from __future__ import annotations

import itertools
import time
from collections import Counter
from collections.abc import Iterator

import pytest
from hypothesis import settings

from layoutalg.analysis import Access, SharedReport, analyze
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError
from layoutalg.layout import Layout
from layoutalg.swizzle import ComposedLayout, Swizzle
from layoutalg.synthesis import check_certificate, synthesize

DEEP = bool(settings.default and settings.default.max_examples > 1000)
SIDES = (8, 16, 32, 64, 128, 256) if DEEP else (8, 64)
ELEMENTS = ("u8", "f16", "f32", "f64", "c128")
TILES = [
    ((m, n), element)
    for element in ELEMENTS
    for m in SIDES
    for n in SIDES
    if m * n * dtype(element).nbytes <= ARCHS["sm_90"].max_shared_bytes_per_block
]

WORST_MS = 50.0
"""What one synthesis may take, in processor time."""


def patterns(shape: tuple[int, int], element: str) -> Iterator[tuple[str, Access]]:
    """(name, access) of the usual patterns on a row-major tile."""
    rows, columns = shape
    what, nbytes = dtype(element), dtype(element).nbytes
    base, turned = Layout(shape, (columns, 1)), Layout(shape, (1, rows))
    yield "row", Access.along(f"st.shared.b{8 * nbytes}", base, what, "row")
    yield "column", Access.along(f"ld.shared.b{8 * nbytes}", base, what, "col")
    if 16 // nbytes <= columns and nbytes < 16:
        yield "vector row", Access.along("st.shared.b128", base, what, "row")
        yield "vector column", Access.along("ld.shared.b128", base, what, "col")
    if 16 // nbytes <= rows and nbytes < 16:
        yield "transposed", Access.along("st.shared.b128", turned, what, "col")
    if nbytes <= 2 and rows >= 16 and columns * nbytes >= 32:
        yield "ldmatrix", Access.default("ldmatrix.x4", base, what)
        yield "ldmatrix.trans", Access.default("ldmatrix.x4.trans", base, what)
    if nbytes in (2, 4):
        fragment = Layout(((4, 8), 2), ((2 * rows, 1), rows))
        yield "C fragment", Access(f"st.shared.b{16 * nbytes}", fragment, what)


WIDE = ("vector row", "vector column", "ldmatrix", "ldmatrix.trans")
"""Patterns with vectors of 16 bytes along a row."""


def refusal(pair: tuple[str, str], shape: tuple[int, int], element: str) -> str | None:
    """Why a pair has no layout, or None."""
    if "transposed" in pair:
        return "two directions"
    nbytes = dtype(element).nbytes
    other = pair[1] if pair[0] == "column" else pair[0]
    width = 16 if other in WIDE else 2 * nbytes if other == "C fragment" else nbytes
    if "column" not in pair or width <= max(4, nbytes):
        return None
    words, banks = min(shape[0], 128 // max(4, nbytes)), 128 // width
    return "narrow banks" if words > banks else None


def cpu_ms(shape: tuple[int, int], pair: list[Access], element: str) -> float:
    """Processor time of a synthesis, the least of three."""
    times = []
    for _ in range(3):
        start = time.process_time()
        synthesize(shape, pair, element=element)
        times.append(1e3 * (time.process_time() - start))
    return min(times)


@pytest.mark.parametrize("element", ELEMENTS)
def test_every_pair_has_a_layout_or_a_proof_of_none(element: str) -> None:
    outcomes: Counter[str] = Counter()
    slowest = 0.0
    for shape, _ in (tile for tile in TILES if tile[1] == element):
        pairs = itertools.combinations_with_replacement(list(patterns(shape, element)), 2)
        for (one, a), (other, b) in pairs:
            where, expected = f"{shape} {element}: {one}, {other}", refusal((one, other), shape, element)
            outcomes[expected or "solved"] += 1
            if expected == "two directions":
                with pytest.raises(AlignmentError, match="do not lie along the contiguous mode"):
                    synthesize(shape, [a, b], element=element)
                continue
            found = synthesize(shape, [a, b], element=element)
            assert check_certificate(found), where
            if expected == "narrow banks":
                assert found.layout is None and found.certificate.reason == "narrow-banks", where
            else:
                assert found.layout is not None, where
                for access in (a, b):
                    report = analyze(found.layout, access)
                    assert isinstance(report, SharedReport) and report.conflict_free, where
            if shape[0] in (8, 64, 256):
                slowest = max(slowest, cpu_ms(shape, [a, b], element))
    print(f"{element}: {dict(outcomes)}, slowest {slowest:.1f} ms")
    assert slowest < WORST_MS


@pytest.mark.parametrize(("shape", "element"), [t for t in TILES if t[1] in ("u8", "f16", "f32")])
def test_the_usual_rule_serves_the_pairs_it_is_meant_for(shape: tuple[int, int], element: str) -> None:
    """16-byte rows and ldmatrix together: what the formula gives, the synthesis gives with no more bits."""
    bits, columns = dtype(element).bits, shape[1]
    known = dict(patterns(shape, element))
    if "ldmatrix" not in known or columns * bits < 128:
        return
    base, row = (128 // bits).bit_length() - 1, (1024 // bits).bit_length() - 1
    usual = Swizzle(row - base, base, max(row, columns.bit_length() - 1) - base)
    tile = ComposedLayout(usual, 0, Layout(shape, (columns, 1)))
    pair = [known["vector row"], known["ldmatrix"]]
    for access in pair:
        report = analyze(tile, access)
        assert isinstance(report, SharedReport) and report.conflict_free
    found = synthesize(shape, pair, element=element, form="single")
    assert found.layout is not None and check_certificate(found)
    used = found.layout.swizzles[0].bits if isinstance(found.layout, ComposedLayout) else 0
    assert used <= usual.bits
