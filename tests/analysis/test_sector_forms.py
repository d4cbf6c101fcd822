"""The rank and stride forms of the sector count equal the definition."""

from __future__ import annotations

from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.analysis import traffic
from layoutalg.analysis.coalescing import linear_traffic, stride_traffic
from layoutalg.arch import ARCHS

SM90 = ARCHS["sm_90"]
GLOBAL = st.sampled_from(sorted(n for n, rule in SM90.instructions.items() if rule.space == "global"))


@given(GLOBAL, st.lists(st.integers(0, 255), max_size=5), st.integers(0, 15))
def test_linear(name: str, chunks: list[int], lines: int) -> None:
    rule = SM90.instructions[name]
    columns = [rule.width_bytes * chunk for chunk in chunks]
    offsets: list[int | None] = []
    for lane in range(32):
        address = 128 * lines
        for bit, column in enumerate(columns):
            address ^= column if lane >> bit & 1 else 0
        offsets.append(address if lane < 1 << len(columns) else None)
    assert linear_traffic(rule, SM90, columns) == traffic(name, offsets)


@given(GLOBAL, st.integers(-200, 200), st.integers(0, 32), st.integers(0, 200))
@example("ld.global.b32", 1, 32, 7)
def test_stride(name: str, step: int, active: int, start: int) -> None:
    rule = SM90.instructions[name]
    stride, first = rule.width_bytes * step, rule.width_bytes * start + 128 * 1024
    offsets = [first + stride * lane if lane < active else None for lane in range(32)]
    assert stride_traffic(rule, SM90, stride, active, first) == traffic(name, offsets)
