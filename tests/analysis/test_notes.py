"""What a count says beside its numbers, for every rule of every architecture and every element type."""

from __future__ import annotations

import re

from layoutalg.analysis import Access, access_notes, analyze, swizzle_notes
from layoutalg.arch import ARCHS, INSTRUCTIONS, Arch
from layoutalg.atoms import find_copy_atom
from layoutalg.dtype import DTYPES, DType
from layoutalg.layout import ComposedLayout, Layout, Swizzle, size
from tests.sweeps import each

NAME = re.compile(r"\b(?:ld|st|red|cp)\w*\.[\w.]*\w")


@each("machine", ARCHS.values(), ids=str)
def test_an_assumed_rule_names_a_counted_one_that_it_has_not_assumed_itself(machine: Arch) -> None:
    """The rule that the note names was counted, where the note says so, and is not the rule itself."""
    for name, rule in machine.instructions.items():
        notes = access_notes(rule, machine)
        assert len(notes) == (rule.provenance == "assumed"), name
        for note in notes:
            head = f"The rule of {name} on {machine.name} is assumed: "
            assert note.startswith(head) and note.endswith(".")
            reason = note.removeprefix(head)
            named = NAME.findall(reason)
            counted_on = re.findall(r"counted on (sm_\d+)", reason)
            assert len(counted_on) == 1, note
            for basis in named or [name]:
                assert (basis, counted_on[0]) != (name, machine.name), f"circular: {note}"
                taken = ARCHS[counted_on[0]].instructions[basis]
                assert taken.provenance == "measured", note
                for field in ("lanes", "group_lanes", "broadcast", "merge_xor", "counter_bias"):
                    assert getattr(rule, field) == getattr(taken, field), note


@each("element", DTYPES.values(), ids=str, sample=7)
@each("op", [name for name in INSTRUCTIONS if name.endswith(".trans")])
def test_the_lanes_of_an_element_under_trans(op: str, element: DType) -> None:
    """Counted in the copy atom of the instruction: who holds the 16-bit units of one element."""
    notes = access_notes(ARCHS["sm_90"].instructions[op], ARCHS["sm_90"], element)
    said = [note for note in notes if "transposes" in note]
    assert len(said) == (element.bits != 16)
    number = op.split(".")[1].removeprefix("x")
    kind = "LDSM" if op.startswith("ld") else "STSM"
    atom = find_copy_atom(f"SM{75 if kind == 'LDSM' else 90}_U16x{int(number) * 2}_{kind}_T")
    registers, memory = (atom.dst_tv, atom.src_tv) if kind == "LDSM" else (atom.src_tv, atom.dst_tv)
    values = range(size(registers) // atom.threads)
    holder = {registers(t, v): t for t in range(atom.threads) for v in values}
    units = max(1, element.bits // 16)
    # bits of the memory side lie in lane 0's row of 16 bytes; its first element's units, and who holds them
    held = {holder[memory(0, 0) + 16 * unit] for unit in range(units)}
    for note in said:
        if element.bits > 16:
            assert f"each {element} element" in note and f"{len(held)} lanes" in note
        else:
            assert f"the {16 // element.bits} {element} elements of a unit stay together" in note
    if element.bits >= 16:
        assert len(held) == units


@each("shift", [-4, -3, -2, -1, 1, 2, 3, 4])
@each("bits", [0, 1, 2, 3])
def test_a_swizzle_that_overlaps_is_said_to_and_no_other(bits: int, shift: int) -> None:
    swizzle = Swizzle(bits, 1, shift)
    image = [swizzle(x) for x in range(swizzle.period)]
    notes = list(swizzle_notes(swizzle))
    assert bool(notes) == any(image[y] != x for x, y in enumerate(image))
    assert sorted(image) == list(range(swizzle.period))
    tile = ComposedLayout((swizzle, Swizzle(1, 0, 9)), 0, Layout((8, 32), (32, 1)))
    report = analyze(tile, Access.default("ld.shared.b32", tile.inner, "f32"))
    assert list(report.notes) == notes
