"""Copies, barriers, roles and clusters: no right program is refused, every mistake is, in every schedule."""

from __future__ import annotations

import pytest

from layoutalg import codegen as cg
from layoutalg.errors import LayoutAlgError
from tests.sweeps import first, spread
from tests.tiers import first_tier
from tests.tiles.clusters import RIGHT
from tests.tiles.frame import SCHEDULES
from tests.tiles.mistakes import MISTAKES, made


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_program_is_right_in_every_schedule(name: str) -> None:
    program = RIGHT[name]()
    for group, seed in spread([*SCHEDULES], 2) if first_tier() else SCHEDULES:
        program.simulated(group, seed)


@pytest.mark.parametrize("name", first(8, list(RIGHT)[::4] + list(RIGHT)))
def test_a_right_program_compiles(name: str) -> None:
    assert cg.compile(RIGHT[name]().kernel).spill_bytes == 0


CASES = [(program, mistake) for program, mistakes in MISTAKES.items() for mistake in mistakes]


@pytest.mark.parametrize(("program", "mistake"), CASES, ids=lambda x: x.replace(" ", "-"))
def test_a_wrong_program_is_refused_in_every_schedule(program: str, mistake: str) -> None:
    said = MISTAKES[program][mistake][0]
    schedules = [*SCHEDULES, *(("warp", n) for n in (3, 4, 5))]
    for group, seed in spread(schedules, 2) if first_tier() else schedules:
        with pytest.raises(LayoutAlgError, match=said):  # type: ignore[arg-type]
            made(program, mistake).simulated(group, seed)
