"""The lanes that supply an address: ldmatrix and stmatrix of one or two matrices take 8 or 16 of the 32.

The idea.  Whatever the other lanes hold is ignored by the instruction, so it must not count anywhere: not in
a rank, not for alignment, not as a place outside the tile.  Here, and only here, those lanes are dropped, by
letting them repeat the addresses of the lanes that count:

    ldmatrix.x1    tv ((8,4),8):((8,64),1)    the same instructions as    ((8,4),8):((8,0),1)

Where a thread mode does not split at those lanes, a Guard leaves them out.

Source: PTX ISA, ldmatrix and stmatrix, "threads 0-7", "threads 0-15" hold the addresses of .x1 and .x2.
"""

from __future__ import annotations

from dataclasses import replace

from layoutalg.analysis.access import Access
from layoutalg.analysis.guard import Guard
from layoutalg.arch import Arch, Instruction
from layoutalg.compose import compose_layouts
from layoutalg.errors import DivisibilityError, UndecidedError
from layoutalg.layout import Layout, leaf_lists, merge, modes, size


def addressing(access: Access, rule: Instruction, machine: Arch) -> Access:
    """The access with the same instructions in which lanes that supply no address say nothing of their own.

    >>> from layoutalg.arch import ARCHS, INSTRUCTIONS
    >>> access = Access("ldmatrix.x1", Layout(((8, 4), 8), ((8, 64), 1)), "f16")
    >>> print(addressing(access, INSTRUCTIONS["ldmatrix.x1"], ARCHS["sm_90"]).tv)
    ((8,4,1),8):((8,0,0),1)
    """
    threads, *others = modes(access.tv)
    if rule.lanes >= machine.lanes or size(threads) <= rule.lanes:
        return access
    warps, rest = divmod(size(threads), machine.lanes)
    if rest == 0 or rest >= rule.lanes:
        # A last warp without some of the lanes that are ignored is as good as a whole one.
        warps += rest > 0
        idle = machine.lanes // rule.lanes
        try:
            kept = compose_layouts(threads, Layout((rule.lanes, idle, warps), (1, 0, machine.lanes)))
        except (DivisibilityError, UndecidedError):
            pass
        else:
            if merge(*leaf_lists(kept)) == merge(*leaf_lists(threads)):
                return access
            parts = (kept, *others)
            tv = Layout(tuple(part.shape for part in parts), tuple(part.stride for part in parts))
            return replace(access, tv=tv)
    guard = Guard() if access.active is None else access.active
    if not isinstance(guard, Guard):
        return access  # enumerated in any case, lane by lane
    lanes = range(machine.lanes) if guard.lanes is None else guard.lanes
    return replace(access, active=replace(guard, lanes=tuple(n for n in lanes if n < rule.lanes)))
