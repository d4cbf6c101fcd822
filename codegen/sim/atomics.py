"""Atomics of the simulator: numbers joined to memory by the lanes, one after the other.

Their order is undetermined.  A block at a time performs them lane by lane; warp by warp the last block, warp
and lane come first.  Each pair of lanes so has both orders in `verify`, which runs both and sees where what
was fetched, or a sum of floats, depends on it.  Atomics are unordered with each other, and ordered with every
other access to the same bytes by barriers alone (see hazards).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy

from layoutalg.codegen.sim.hazards import Array
from layoutalg.dtype import DTYPES

if TYPE_CHECKING:
    from layoutalg.codegen.sim.engines import Place
    from layoutalg.codegen.sim.machine import Group, Machine

_JOIN = {"add": numpy.add, "max": numpy.maximum, "min": numpy.minimum}
_SWAP: dict[str, Callable[..., Any]] = {
    "exch": lambda old, new: new, "cas": lambda old, compare, new: new if old == compare else old
}  # fmt: skip


def update(
    machine: Machine, group: Group, place: Place, *values: Array, op: str, element: str, fetch: bool
) -> Array | None:
    """Join the numbers of the active lanes to those in memory; where they `fetch`, the words that were there.

    Raises SimulationError.
    """
    lanes, buffer = group.active, place.buffer
    kind = numpy.dtype(f"u{DTYPES[element].nbytes}" if op in _SWAP else DTYPES[element].numpy_name)
    at, granules, rows = machine.places(group, buffer, place.offsets, kind.itemsize, "updates")
    if buffer.shadow is not None and (race := buffer.shadow.update(granules, lanes.threads)):
        offset = int(at[race.index]) - buffer.base
        raise group.fail(f"updates byte {offset} of {buffer.name}: {race.text}", race.index, offset)
    if buffer.poison is not None and buffer.poison.take(rows, kind.itemsize).any():
        raise group.fail(f"updates bytes of {buffer.name} that nobody has written")
    numbers = [numpy.ascontiguousarray(x[lanes.index]).view(kind)[:, 0] for x in values]
    raw = buffer.memory.raw
    memory = raw[: len(raw) // kind.itemsize * kind.itemsize].view(kind)
    way = slice(None, None, -1 if machine.backwards else 1)
    old = numpy.zeros(len(rows), kind)
    with numpy.errstate(over="ignore"):
        if not fetch:
            _JOIN[op].at(memory, rows[way], numbers[0][way])
            return None
        join = _SWAP.get(op) or _JOIN[op]
        for i in range(len(rows))[way]:
            old[i] = memory[rows[i]]
            memory[rows[i]] = join(old[i], *(x[i] for x in numbers))
    return lanes.spread(old[:, None].view(numpy.uint32))
