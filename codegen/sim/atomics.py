"""Atomics of the simulator: numbers joined to memory by the lanes, one after the other.

Their order is undetermined.  A block at a time performs them lane by lane, warps one by one from the last
lane on, so that `verify`, which runs both, sees where the order matters.  They are unordered with each other,
and ordered with every other access to the same bytes by barriers alone (see hazards).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy

from layoutalg.codegen.sim.hazards import Array
from layoutalg.dtype import DTYPES

if TYPE_CHECKING:
    from layoutalg.codegen.sim.engines import Place
    from layoutalg.codegen.sim.machine import Group, Machine

_JOIN = {"add": numpy.add, "max": numpy.maximum, "min": numpy.minimum}


def update(machine: Machine, group: Group, place: Place, values: Array, *, op: str, element: str) -> None:
    """Join the numbers of the active lanes to those in memory.  Raises SimulationError."""
    lanes, buffer, kind = group.active, place.buffer, numpy.dtype(DTYPES[element].numpy_name)
    at, granules, rows = machine.places(group, buffer, place.offsets, kind.itemsize, "updates")
    if buffer.shadow is not None and (race := buffer.shadow.update(granules, lanes.threads)):
        offset = int(at[race.index]) - buffer.base
        raise group.fail(f"updates byte {offset} of {buffer.name}: {race.text}", race.index, offset)
    if buffer.poison is not None and buffer.poison.take(rows, kind.itemsize).any():
        raise group.fail(f"updates bytes of {buffer.name} that nobody has written")
    numbers = numpy.ascontiguousarray(values[lanes.index]).view(kind)[:, 0]
    raw = buffer.memory.raw
    memory = raw[: len(raw) // kind.itemsize * kind.itemsize].view(kind)
    way = slice(None, None, -1 if machine.backwards else 1)
    with numpy.errstate(over="ignore"):
        _JOIN[op].at(memory, rows[way], numbers[way])
