"""Many instructions counted at once cost what the definition counts one by one."""

from __future__ import annotations

import random
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import instruction_costs
from layoutalg.analysis.enumerated import costs_by_definition
from layoutalg.arch import ARCHS, INSTRUCTIONS


@given(st.sampled_from(sorted(INSTRUCTIONS)), st.integers(0, 1 << 32))
def test_many_instructions_at_once_cost_what_each_costs(op: str, seed: int) -> None:
    rule, rng = INSTRUCTIONS[op], random.Random(seed)
    rows: list[Any] = []
    for _ in range(3):
        places = rng.choice((4, 40, 400))
        row = [rule.width_bytes * rng.randrange(places) for _ in range(32)]
        rows.append([address if rng.random() < 0.9 else None for address in row])
    assert instruction_costs(rule, ARCHS["sm_90"], rows) == costs_by_definition(rule, ARCHS["sm_90"], rows)
