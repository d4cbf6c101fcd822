"""The time that the memory accesses of a launch take, read off its programs: the law of ways without another.

Memory moves the sectors of all accesses, shared memory passes their wavefronts, and each turn of the places
for blocks waits for its loads.  What else a program does is not in it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from math import prod
from typing import NamedTuple, TypeAlias

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.costs import bound, is_shared, sequence_traffic, uncounted, unstated
from layoutalg.codegen.program import LaunchSequence
from layoutalg.errors import UnsupportedError
from layoutalg.kernels.model.boards import Machine
from layoutalg.kernels.model.work import Work, time_us
from layoutalg.model import occupancy_of


class Expected(NamedTuple):
    """Microseconds of a launch by the numbers of a board, and what they leave out; empty where nothing is.

    >>> Expected(3.5), Expected(3.5, "what exp takes").without
    (Expected(us=3.5, without=''), 'what exp takes')
    """

    us: float
    without: str = ""


Clock: TypeAlias = Callable[[Machine], Expected]
"""The time that a problem's configuration takes by the numbers of any board of its architecture."""


def accesses_clock(sequence: LaunchSequence, numbers: Mapping[str, int], arch: str | Arch) -> Clock:
    """The Clock of some launches by their accesses.

    Raises UnsupportedError where TMA or wgmma move memory, and as `traffic` does.

    >>> from layoutalg.kernels.model import machine_of
    >>> from layoutalg.kernels.registry import FAMILIES
    >>> f = FAMILIES["transpose"]
    >>> p = f.problem(4096, 4096, "f32")
    >>> time = accesses_clock(f.launches(p, f.choose(p), "sm_90"), {}, "sm_90")
    >>> 32 < time(machine_of("sm_90")).us < 34
    True
    """
    if names := uncounted(sequence.kernels):
        raise UnsupportedError(f"no cost is known of {', '.join(names)}, which move memory")
    names = unstated(sequence.kernels)
    without = f"what {', '.join(names)} take" if names else ""
    chip, known, works = find_arch(arch), dict(sequence.scalars) | dict(numbers), []
    for kernel, costs in zip(sequence.kernels, sequence_traffic(sequence, numbers, chip), strict=True):
        shared = sum(cost.total for op, cost in costs.items() if is_shared(op))
        nbytes = chip.sector_bytes * (sum(cost.total for cost in costs.values()) - shared)
        held = occupancy_of(
            chip, threads=kernel.threads, registers_per_thread=1, shared_bytes=kernel.shared_bytes
        )
        blocks = prod(kernel.blocks(bound(kernel, known)))
        works.append((Work(nbytes, 0.0, shared, blocks), held.blocks_per_sm))

    def time(m: Machine) -> Expected:
        each = (replace(w, at_once=m.sms * held, block_us=m.load_us) for w, held in works)
        us = sum(time_us(w, m) for w in each) - (len(works) - 1) * (m.launch_us - m.next_launch_us)
        return Expected(us, without)

    return time
