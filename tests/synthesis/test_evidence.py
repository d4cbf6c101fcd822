"""What the checker computes agrees with what the search computed, though neither uses the other."""

from __future__ import annotations

from itertools import product
from typing import Any

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Place, access_extent, instruction_offsets
from layoutalg.f2 import to_f2
from layoutalg.synthesis import synthesize
from layoutalg.synthesis.patterns import make_patterns, make_tile
from layoutalg.synthesis.proof import evidence
from layoutalg.synthesis.search import kernel_of
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


COUNTED = [
    ((64, 96), "f16", ["ldmatrix.x4", "cp.async.16", "ldmatrix.x1@((8,4),8):((1,7),64)"], "row"),
    ((48, 20), "f32", ["ld.shared.b32@col", "ld.shared.b32@(50,1,(3,2)):(1,0,(50,0))"], "col"),
]


@each(("shape", "element", "specs", "order"), [*QUESTIONS, *COUNTED])
def test_two_views_of_one_question(
    shape: tuple[int, int], element: str, specs: list[str], order: Any
) -> None:
    """Words, phases and bank maps of what is linear; the instructions of everything."""
    found = synthesize(shape, specs, element=element, order=order)
    base, machine, accesses = storage_layout(shape, found.order), found.arch, evidence.lane_accesses(found)
    for access in accesses:
        listed, visits = evidence.instructions_of(found, access), visits_of(base, access, machine)
        rows = {
            tuple(int(x) if on else None for x, on in zip(row, mask, strict=True))
            for row, mask in zip(listed.offsets, listed.mask, strict=True)
        }
        assert (set(visits.offsets), visits.elems, visits.bits) == (rows, listed.elems, listed.bits)
        extent = access_extent(base, access, machine.instructions[access.op], machine)
        places = product(*(range(n) for n in (extent.warps, extent.registers, extent.iterations)))
        defined = {tuple(instruction_offsets(base, access, Place(*place))) for place in places}
        assert defined == {tuple(x if x is None else x * listed.bits // 8 for x in row) for row in rows}
    if (shape, element, specs, order) in COUNTED:
        return
    tile = make_tile(shape, found.element.bits, found.order, machine)
    assert evidence.word_count_bits(found) == tile.word_bits
    patterns = make_patterns(tile, accesses, found.element, machine)
    for access, pattern in zip(accesses, patterns, strict=True):
        phase = evidence.phase_of(found, access)
        for field in ("footprint", "reach", "vector_bits", "repeats"):
            assert getattr(phase, field) == getattr(pattern, field)
    for layout in (found.layout, tile.base):
        assert layout is not None
        assert evidence.bank_map_kernel(found, to_f2(layout)) == kernel_of(tile, layout)
