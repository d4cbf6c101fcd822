"""The cost of the memory accesses of a launch: instructions, wavefronts or sectors, and the least possible.

Costs are counted by the definitions of `analysis`: of one full tile in closed form on its layout (`analyze`),
or of instructions given by the byte addresses of their lanes.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, TypeAlias

import numpy as np

from layoutalg.analysis import (
    Access,
    SharedReport,
    analyze,
    batch_lanes,
    served_batch,
    traffic_batch,
    warp_rule,
)
from layoutalg.arch import DEFAULT_ARCH, Arch, Space, find_arch, find_instruction
from layoutalg.layout import AnyLayout


@dataclass(frozen=True, slots=True)
class Cost:
    """The cost of one kind of access in a launch: wavefronts for shared memory, sectors for global.

    `ideal` is the least that any layout could cost.  Costs add up field by field.

    >>> Cost(2, 8, 8) + Cost(1, 5, 4)
    Cost(instructions=3, total=13, ideal=12)
    """

    instructions: int
    total: int
    ideal: int

    def __add__(self, other: Cost) -> Cost:
        return Cost(
            self.instructions + other.instructions, self.total + other.total, self.ideal + other.ideal
        )

    def __mul__(self, times: int) -> Cost:
        return Cost(self.instructions * times, self.total * times, self.ideal * times)


Prediction: TypeAlias = Mapping[str, Cost]
"""Cost by the instruction's analysis name, such as "st.shared.b32"; only what is executed is listed."""


def warp_costs(op: str, space: Space, arch: str | Arch, addresses: Any, active: Any) -> tuple[Any, Any]:
    """(cost, ideal) of warp instructions given by byte addresses and active lanes, both (count, lanes).

    Every instruction needs an active lane.

    >>> import numpy
    >>> lane = numpy.arange(32)[None, :]
    >>> [c.tolist() for c in warp_costs("ld.shared.b32", "shared", "sm_90", lane * 128, lane >= 0)]
    [[32], [1]]
    """
    rule, machine = warp_rule(op, space, arch)
    checked = batch_lanes(rule, machine, addresses * active, active)
    if space == "shared":
        return served_batch(rule, machine, *checked)[:2]
    sectors, _, useful = traffic_batch(rule, machine, *checked).T
    return sectors, -(-useful // machine.sector_bytes)


@dataclass(slots=True)
class Costs:
    """Adds up the costs of a launch by instruction."""

    arch: str | Arch = DEFAULT_ARCH
    found: dict[str, Cost] = field(default_factory=dict)

    def add(self, op: str, cost: Cost) -> None:
        """Add a cost to an instruction's sum."""
        self.found[op] = self.found.get(op, Cost(0, 0, 0)) + cost

    def tile(self, layout: AnyLayout, access: Access) -> None:
        """Add an access of one full tile, in closed form."""
        report = analyze(layout, access, arch=self.arch)
        if isinstance(report, SharedReport):
            cost = Cost(report.instructions, report.total, report.ideal_total)
        else:
            cost = Cost(report.instructions, report.sectors, report.ideal)
        self.add(access.op, cost)

    def times(self, n: int) -> None:
        """Multiply everything so far by a number of tiles."""
        self.found = {op: cost * n for op, cost in self.found.items()} if n else {}

    def lanes(self, op: str, space: Space, addresses: Any, active: Any, times: Any = 1) -> None:
        """Add instructions given by their byte addresses and active lanes, both (count, lanes).

        Each is executed `times`, an int or an int64 array (count,).
        """
        ran = active.any(axis=1)
        if not ran.any():
            return
        weight = np.broadcast_to(times, ran.shape)[ran]
        cost, ideal = warp_costs(op, space, self.arch, addresses[ran], active[ran])
        self.add(op, Cost(int(weight.sum()), int(cost @ weight), int(ideal @ weight)))

    def prediction(self) -> Prediction:
        """The sums, by instruction."""
        return MappingProxyType(dict(sorted(self.found.items())))


def total_costs(predictions: Iterable[Prediction]) -> Prediction:
    """The costs of several kernels together.

    >>> total_costs([{"ld.shared.b32": Cost(1, 2, 1)}, {"ld.shared.b32": Cost(1, 1, 1)}])["ld.shared.b32"]
    Cost(instructions=2, total=3, ideal=2)
    """
    total = Costs()
    for prediction in predictions:
        for op, cost in prediction.items():
            total.add(op, cost)
    return total.prediction()


def describe(prediction: Prediction) -> list[str]:
    """The prediction as lines of text for a header comment.

    >>> describe({"st.shared.b32": Cost(128, 128, 128)})
    ['  st.shared.b32     128 instructions    128 wavefronts (ideal 128)']
    """
    return [
        f"  {op:15}{cost.instructions:6} instructions {cost.total:6} "
        f"{'wavefronts' if is_shared(op) else 'sectors'} (ideal {cost.ideal})"
        for op, cost in prediction.items()
    ]


def is_shared(op: str) -> bool:
    """Whether an access costs wavefronts of shared memory, by the analysis' name of it.

    >>> is_shared("cp.async.16"), is_shared("cp.async.16:global")
    (True, False)
    """
    return find_instruction(op, find_arch(DEFAULT_ARCH)).space == "shared"
