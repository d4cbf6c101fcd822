"""What the checker computes agrees with what the search computed, though neither uses the other."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from layoutalg.analysis import Access, Place, access_extent, instruction_offsets
from layoutalg.arch import ARCHS
from layoutalg.f2 import to_f2
from layoutalg.layout import Layout
from layoutalg.synthesis import storage_layout, synthesize
from layoutalg.synthesis.maps import kernel_of
from layoutalg.synthesis.patterns import make_patterns, make_tile
from layoutalg.synthesis.proof.evidence import (
    bank_map_kernel,
    instructions_of,
    lane_accesses,
    phase_of,
    word_count_bits,
)
from layoutalg.synthesis.singles import visits_of
from tests.sweeps import each

QUESTIONS = [
    ((64, 64), "f16", ["ldmatrix.x4", "st.shared.b128"], "row"),
    ((32, 32), "f32", ["ld.shared.b32@row", "ld.shared.b32@col"], "row"),
    ((32, 32), "f64", ["ld.shared.b64@row", "ld.shared.b64@col"], "row"),
    ((64, 64), "u8", ["st.shared.b32@row", "ld.shared.b8@col"], "row"),
    ((32, 64), "c128", ["st.shared.b128@row", "ld.shared.b128@col"], "col"),
    ((8, 64), "f32", ["ld.shared.b64@((2,32),2):((0,16),8)"], "row"),
    ((16, 64), "s4", ["st.shared.b32@row", "ld.shared.b8@col"], "row"),
]


@each(("shape", "element", "specs", "order"), QUESTIONS)
def test_two_views_of_one_question(
    shape: tuple[int, int], element: str, specs: list[str], order: str
) -> None:
    found = synthesize(shape, specs, element=element, order=order)  # type: ignore[arg-type]
    tile = make_tile(shape, found.element.bits, found.order, found.arch)
    assert word_count_bits(found) == tile.word_bits
    accesses = lane_accesses(found)
    patterns = make_patterns(tile, accesses, found.element, found.arch)
    for access, pattern in zip(accesses, patterns, strict=True):
        phase = phase_of(found, access)
        assert (phase.footprint, phase.reach, phase.vector_bits, phase.repeats) == (
            pattern.footprint, pattern.reach, pattern.vector_bits, pattern.repeats,
        )  # fmt: skip
    for layout in (found.layout, tile.base):
        assert layout is not None
        assert bank_map_kernel(found, to_f2(layout)) == kernel_of(tile, layout)


@each(
    ("shape", "element", "specs", "order"),
    [
        *QUESTIONS,
        ((64, 96), "f16", ["ldmatrix.x4", "cp.async.16", "ldmatrix.x1@((8,4),8):((1,7),64)"], "row"),
        ((48, 20), "f32", ["ld.shared.b32@col", "ld.shared.b32@(50,1,(3,2)):(1,0,(50,0))"], "col"),
    ],
)
def test_two_lists_of_instructions(
    shape: tuple[int, int], element: str, specs: list[str], order: str
) -> None:
    found = synthesize(shape, specs, element=element, order=order)  # type: ignore[arg-type]
    base = storage_layout(shape, found.order)
    for access in lane_accesses(found):
        listed, visits = instructions_of(found, access), visits_of(base, access, found.arch)
        assert set(visits.offsets) == {
            tuple(int(x) if on else None for x, on in zip(row, mask, strict=True))
            for row, mask in zip(listed.offsets, listed.mask, strict=True)
        }
        assert (listed.elems, listed.bits) == (visits.elems, visits.bits)
        places = [Place(warp, register, iteration) for warp, register, iteration in every_place(base, access)]
        rows = {tuple(instruction_offsets(base, access, place)) for place in places}
        assert rows == {
            tuple(int(x) * listed.bits // 8 if on else None for x, on in zip(row, mask, strict=True))
            for row, mask in zip(listed.offsets, listed.mask, strict=True)
        }


def every_place(base: Layout, access: Access) -> Iterator[tuple[int, ...]]:
    """Warp, register and iteration of every instruction."""
    machine = ARCHS["sm_90"]
    extent = access_extent(base, access, machine.instructions[access.op], machine)
    return product(range(extent.warps), range(extent.registers), range(extent.iterations))
