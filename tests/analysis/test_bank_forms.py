"""The rank and gcd forms of the wavefront count equal the definition."""

from __future__ import annotations

import dataclasses

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.analysis import ideal_wavefronts, linear_wavefronts, wavefronts
from layoutalg.analysis.banks import Served, stride_wavefronts
from layoutalg.arch import ARCHS, Arch, instruction_table

SM90 = ARCHS["sm_90"]
SHARED = sorted(name for name, rule in SM90.instructions.items() if rule.space == "shared")
TOY = dataclasses.replace(
    SM90, name="toy", targets=(), lanes=4, banks=4, instructions=instruction_table(lanes=4, banks=4)
)
CASES = st.one_of(
    st.tuples(st.just(SM90), st.sampled_from(SHARED)),
    st.tuples(st.just(TOY), st.sampled_from([n for n in SHARED if n in TOY.instructions])),
)


def defined(machine: Arch, name: str, offsets: list[int | None]) -> Served:
    return Served(wavefronts(name, offsets, machine), ideal_wavefronts(name, offsets, machine))


@given(CASES, st.lists(st.integers(0, 255), max_size=5), st.integers(0, 255))
@example((SM90, "ld.shared.b64"), [0, 1, 2, 4, 8], 0)
@example((SM90, "ld.shared.b128"), [1], 0)
def test_linear(case: tuple[Arch, str], chunks: list[int], base: int) -> None:
    machine, name = case
    rule = machine.instructions[name]
    columns = [rule.width_bytes * chunk for chunk in chunks[: machine.lanes.bit_length() - 1]]
    offsets: list[int | None] = []
    for lane in range(machine.lanes):
        address = rule.width_bytes * base
        for bit, column in enumerate(columns):
            address ^= column if lane >> bit & 1 else 0
        offsets.append(address if lane < 1 << len(columns) else None)
    assert linear_wavefronts(rule, machine, columns) == defined(machine, name, offsets)


@given(CASES, st.integers(-300, 300), st.integers(0, 32), st.integers(0, 64))
@example((SM90, "ld.shared.b8"), 33, 32, 0)
@example((SM90, "ld.shared.b16"), 65, 2, 1)
@example((SM90, "ld.shared.b64"), 0, 32, 0)
@example((TOY, "ld.shared.b128"), 1, 2, 0)
def test_stride(case: tuple[Arch, str], step: int, active: int, base: int) -> None:
    machine, name = case
    rule = machine.instructions[name]
    stride, start = rule.width_bytes * step, rule.width_bytes * base
    shift = 128 * 100 if stride < 0 else 0
    offsets = [start + 10 * shift + stride * lane if lane < active else None for lane in range(machine.lanes)]
    assert stride_wavefronts(rule, machine, stride, active, start) == defined(machine, name, offsets)
