"""Every pair of usual patterns on tiles from 8 x 8 to 256 x 256: a layout with proof, or refused by a rule.

Rows, columns, ldmatrix (and .trans), accumulator fragments, and vectors down the columns, in elements of 1 to
16 bytes; tiles are stored by rows, or by columns where vectors lie along those.  Which pairs have no layout
is not recorded but derived, and both directions are asserted:

    two directions   a vector along the rows and one along the columns cannot both be contiguous
    narrow banks     wide vectors kept whole leave scalars across them fewer banks than they have words

On small tiles every linear bank map is tried, for pairs and for threes.
"""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Collection, Iterator
from typing import get_args

import pytest
from hypothesis import settings

from layoutalg.algebra import Order, storage_layout
from layoutalg.analysis import Access, Place, SharedReport, analyze, instruction_offsets
from layoutalg.arch import ARCHS, INSTRUCTIONS
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError
from layoutalg.layout import Layout, modes, size
from layoutalg.synthesis import check_certificate, synthesize
from tests.sweeps import each
from tests.work import counted

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

COUNTED = SIDES if DEEP else (64,)
"""Tiles with so many rows have the steps of their syntheses counted."""

MOST_STEPS = 1_500_000
"""Steps of one synthesis: three times what the costliest took."""


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


ALONG_ROWS = ("vector row", "vector column", "ldmatrix", "ldmatrix.trans", "C fragment")
"""Patterns with vectors along a row; "transposed" has them along a column."""


def order_of(names: Collection[str]) -> Order:
    return "col" if "transposed" in names else "row"


def refusal(names: Collection[str], shape: tuple[int, int], element: str) -> str | None:
    """Why patterns have no layout, or None."""
    order = order_of(names)
    if order == "col" and any(name in ALONG_ROWS for name in names):
        return "two directions"
    nbytes = dtype(element).nbytes
    width = max(
        (2 * nbytes if n == "C fragment" else 16 for n in names if n not in {"row", "column"}), default=nbytes
    )
    across, lanes = ("row", shape[1]) if order == "col" else ("column", shape[0])
    if across not in names or width <= max(4, nbytes):
        return None
    words, banks = min(lanes, 128 // max(4, nbytes)), 128 // width
    return "narrow banks" if words > banks else None


def work_of(shape: tuple[int, int], pair: list[Access], element: str, order: Order) -> int:
    """Steps of a synthesis."""
    return counted(lambda: synthesize(shape, pair, element=element, order=order))[1]


@pytest.mark.deep(only=("u8", "f16", "f32", "f64"))
@pytest.mark.parametrize("element", ELEMENTS)
def test_every_pair_has_a_layout_or_a_proof_of_none(element: str) -> None:
    outcomes: Counter[str] = Counter()
    works: list[tuple[int, str]] = []
    for shape, _ in (tile for tile in TILES if tile[1] == element):
        pairs = itertools.combinations_with_replacement(list(patterns(shape, element)), 2)
        for (one, a), (other, b) in pairs:
            where, expected = f"{shape} {element}: {one}, {other}", refusal((one, other), shape, element)
            order = order_of((one, other))
            outcomes[expected or "solved"] += 1
            if expected == "two directions":
                with pytest.raises(AlignmentError, match="do not lie along the contiguous mode"):
                    synthesize(shape, [a, b], element=element, order=order)
                continue
            found = synthesize(shape, [a, b], element=element, order=order)
            assert check_certificate(found), where
            if expected == "narrow banks":
                assert found.layout is None and found.certificate.reason == "narrow-banks", where
            else:
                assert found.layout is not None, where
                for access in (a, b):
                    report = analyze(found.layout, access)
                    assert isinstance(report, SharedReport) and report.conflict_free, where
            if shape[0] in COUNTED:
                works.append((work_of(shape, [a, b], element, order), where))
    most, where = max(works)
    print(f"{element}: {dict(outcomes)}, most steps {most} ({where})")
    assert most < MOST_STEPS


SMALL = [
    ((8, 8), "f32"),
    ((8, 16), "f16"),
    ((16, 16), "u8"),
    ((16, 8), "f32"),
    ((8, 8), "f64"),
    ((8, 32), "f16"),
]
"""Tiles of 64 and 128 words: 63 and 2667 kernels."""


def clashes(shape: tuple[int, int], order: Order, access: Access) -> set[int]:
    """Differences of the words that one phase asks for, by the definition of the access."""
    base, rule = storage_layout(shape, order), INSTRUCTIONS[access.op]
    warps = -(-size(modes(access.tv)[0]) // 32)
    registers = size(modes(access.tv)[1]) * access.element.bits // (8 * rule.width_bytes)
    out: set[int] = set()
    for warp in range(warps):
        for register in range(registers):
            offsets = instruction_offsets(base, access, Place(warp, register, 0))
            for first in range(0, rule.lanes, rule.group_lanes):
                words = {
                    (byte + n) // 4
                    for byte in offsets[first : first + rule.group_lanes]
                    if byte is not None
                    for n in range(rule.width_bytes)
                }
                out |= {a ^ b for a, b in itertools.combinations(words, 2)}
    return out


def some_map_serves(words: int, keep: int, differences: set[int]) -> bool:
    """Whether a linear map to 32 banks, which leaves the `keep` low bits alone, parts all the differences."""
    free = [x for x in range(1, words) if x % (1 << keep) == 0 and x not in differences]
    if words == 64:
        return bool(free)
    return any(a ^ b in free for a, b in itertools.combinations(free, 2))


@each(("shape", "element"), SMALL, ids=str, sample=1)
def test_exhaustive_search_agrees(shape: tuple[int, int], element: str) -> None:
    words = shape[0] * shape[1] * dtype(element).nbytes // 4
    known = dict(patterns(shape, element))
    differences = {(n, order): clashes(shape, order, a) for n, a in known.items() for order in get_args(Order)
                   if order == order_of((n,)) or n in {"row", "column"}}  # fmt: skip
    outcomes: Counter[bool] = Counter()
    for count in (1, 2, 3):
        for names in itertools.combinations(known, count):
            if refusal(names, shape, element) == "two directions":
                continue
            order = order_of(names)
            found = synthesize(shape, [known[n] for n in names], element=element, order=order)
            widths = [INSTRUCTIONS[known[n].op].width_bytes for n in names]
            keep = max(0, max(widths).bit_length() - 3)
            asked = set().union(*(differences[n, order] for n in names))
            outcomes[found.layout is not None] += 1
            assert (found.layout is not None) == some_map_serves(words, keep, asked), names
            assert check_certificate(found)
    print(f"{shape} {element}: {outcomes[True]} solved, {outcomes[False]} refuted")
