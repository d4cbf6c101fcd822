"""Conversions inside a warp: any linear exchange as selects, one round of shuffles, and selects.

The idea.  A shuffle takes register i of every lane to register i of another lane: lanes can be permuted for
each register, but a lane cannot choose which register to send.  Selects choose, before and after:

    out[r]  @ lane  =  b[slot = r ^ G lane]  @ lane           selects, by bits of the lane that wants
    b[slot] @ lane  =  a[slot]               @ D lane ^ E slot    shuffles
    a[slot] @ lane  =  in[A slot ^ B lane]   @ lane           selects, by bits of the lane that gives

Together they are the product ((A, B), (0, 1)) ((1, 0), (E, D)) ((1, G), (0, 1)), an LU factorisation of C by
blocks, and there always is one: choose G such that D = C_ll + C_lr G is invertible; the rest follows.
For an exchange of m register bits with m lane bits, D = 1, G and B have rank m, and

    selects 2 m R        shuffles (1 - 2^-m) R        (the slots with E slot = 0 stay where they are)

>>> from layoutalg.linear import LinearLayout
>>> from layoutalg.synthesis.conversion_map import place_map
>>> from layoutalg.synthesis.conversion_steps import cost_of
>>> rows = LinearLayout({"register": [1, 2], "lane": [4, 8]}, {"n": 16})
>>> columns = LinearLayout({"register": [4, 8], "lane": [1, 2]}, {"n": 16})
>>> min((cost_of(steps) for steps in shuffle_plans(place_map(rows, columns))), key=lambda cost: cost.cycles)
Cost(selects=16, permutes=0, shuffles=3, wavefronts=0, barriers=0)

Notes.  D need not be invertible where lanes of the destination hold the same: they may ask one lane.  Where
the destination's lanes want more than one register each from few lanes, slots are added until every lane
can be asked for its own.  The bits of the warp may choose lanes and registers too; they never move.

Source: Linear Layouts, arXiv 2505.23819, which treats permutations of bits; blocks make it any matrix.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

from layoutalg.f2 import apply, basis, complement, contains, identity, kernel, solve
from layoutalg.synthesis.conversion_map import PlaceMap
from layoutalg.synthesis.conversion_steps import Rename, Select, Shuffle, Step


class _Problem(NamedTuple):
    """C inside a warp, by blocks; columns are those of slots, lanes and warps.

    Slots number the different values that one lane of the destination holds: register r is slot
    `slot_of[r]`.  `slot_registers` and so on are the parts of C that pick source registers and lanes.
    """

    slot_of: tuple[int, ...]
    slot_registers: list[int]
    slot_lanes: list[int]
    lane_registers: list[int]
    lane_lanes: list[int]
    warp_registers: list[int]
    warp_lanes: list[int]
    from_registers: int


def shuffle_plans(places: PlaceMap) -> tuple[tuple[Step, ...], ...]:
    """Plans that carry out a conversion which keeps every value in its warp; the cheapest is for the caller.

    One by `shfl.bfly`, if D can be the identity, and one with the least rank of G; where lanes depend on
    the warp, also those in which registers depend on it instead.

    >>> from layoutalg.linear import LinearLayout
    >>> from layoutalg.synthesis.conversion_map import place_map
    >>> rotated = place_map(
    ...     LinearLayout({"lane": [1, 2]}, {"n": 4}), LinearLayout({"lane": [2, 1]}, {"n": 4}))
    >>> shuffle_plans(rotated)
    ((Shuffle(lane_columns=(2, 1), warp_columns=(), offsets=(0,)),),)
    """
    given = _problem(places)
    plans: list[tuple[Step, ...]] = []
    for choice in (_paired(given), _fewest_selects(given)):
        if choice is not None:
            problem, lane_slots = choice
            plans.append(_steps(problem, lane_slots, [0] * len(problem.warp_lanes)))
            if any(problem.warp_lanes):
                found = [solve(problem.slot_lanes, lane) for lane in problem.warp_lanes]
                warp_slots = [slot for slot in found if slot is not None]
                if len(warp_slots) == len(found):
                    plans.append(_steps(problem, lane_slots, warp_slots))
    return tuple(dict.fromkeys(plans))


def _problem(places: PlaceMap) -> _Problem:
    """C taken apart, with one slot for registers of a lane that hold the same."""
    register_part, lane_part, warp_part = places.parts
    repeated = kernel(register_part)
    kept = complement(repeated, places.registers)
    whole = kept + repeated
    low = (1 << len(kept)) - 1
    coordinates = [solve(whole, 1 << j) or 0 for j in range(places.registers)]
    slot_of = tuple(apply(coordinates, r) & low for r in range(1 << places.registers))
    slots = [apply(register_part, unit) for unit in kept]
    parts = [[places.split(c)[:2] for c in part] for part in (slots, lane_part, warp_part)]
    registers, lanes = ([[place[n] for place in part] for part in parts] for n in (0, 1))
    return _Problem(
        slot_of, registers[0], lanes[0], registers[1], lanes[1], registers[2], lanes[2], places.from_registers
    )


def _paired(problem: _Problem) -> tuple[_Problem, list[int]] | None:
    """G with D = 1, if there is one."""
    wanted = [lane ^ (1 << j) for j, lane in enumerate(problem.lane_lanes)]
    found = [solve(problem.slot_lanes, lane) for lane in wanted]
    lane_slots = [slot for slot in found if slot is not None]
    return (problem, lane_slots) if len(lane_slots) == len(found) else None


def _fewest_selects(problem: _Problem) -> tuple[_Problem, list[int]]:
    """G of least rank such that lanes that want different values ask different lanes; slots may be added."""
    slots, lanes = len(problem.slot_lanes), len(problem.lane_lanes)
    wanted = [*zip(problem.slot_registers, problem.slot_lanes, strict=True)]
    wanted += zip(problem.lane_registers, problem.lane_lanes, strict=True)
    # Lanes that hold the same values as lane 0, and the slots in which they do.
    same = kernel([register | lane << problem.from_registers for register, lane in wanted])
    alike = [(vector >> slots, vector & ((1 << slots) - 1)) for vector in same]
    moves: dict[int, int] = dict(alike)
    asked: list[int] = []
    waiting: list[int] = []
    for unit in complement(list(moves), lanes):
        lane = apply(problem.lane_lanes, unit)
        if contains(asked, lane):
            waiting.append(unit)
        else:
            asked.append(lane)
            moves[unit] = 0
    slot_registers, slot_lanes = list(problem.slot_registers), list(problem.slot_lanes)
    for unit in waiting:
        lane = apply(problem.lane_lanes, unit)
        for slot in [solve(slot_lanes, lane ^ unit), *identity(len(slot_lanes))]:
            if slot is not None and not contains(asked, lane ^ apply(slot_lanes, slot)):
                break
        else:
            slot = 1 << len(slot_lanes)
            slot_registers.append(0)
            slot_lanes.append(complement(asked, lanes)[0])
        asked.append(lane ^ apply(slot_lanes, slot))
        moves[unit] = slot
    chosen = list(moves)
    lane_slots: list[int] = []
    for j in range(lanes):
        parts = solve(chosen, 1 << j) or 0
        lane_slots.append(apply([moves[unit] for unit in chosen], parts))
    return problem._replace(slot_registers=slot_registers, slot_lanes=slot_lanes), lane_slots


def _steps(problem: _Problem, lane_slots: list[int], warp_slots: list[int]) -> tuple[Step, ...]:
    """The steps that follow from G (`lane_slots`), and from the same for warps."""
    p = problem
    d = [lane ^ apply(p.slot_lanes, g) for lane, g in zip(p.lane_lanes, lane_slots, strict=True)]
    k = [lane ^ apply(p.slot_lanes, h) for lane, h in zip(p.warp_lanes, warp_slots, strict=True)]
    # B D = C_rl + C_rr G; where D leaves B free it is 0.
    given = [r ^ apply(p.slot_registers, g) for r, g in zip(p.lane_registers, lane_slots, strict=True)]
    independent = [j for j in range(len(d)) if not contains(d[:j], d[j])]
    spanning = [d[j] for j in independent] + list(complement(d, len(d)))
    goes = [given[j] for j in independent] + [0] * (len(d) - len(independent))
    b = [apply(goes, solve(spanning, 1 << j) or 0) for j in range(len(d))]
    a = [r ^ apply(b, lane) for r, lane in zip(p.slot_registers, p.slot_lanes, strict=True)]
    j = [
        r ^ apply(a, h) ^ apply(b, lane)
        for r, h, lane in zip(p.warp_registers, warp_slots, p.warp_lanes, strict=True)
    ]
    after, slots = _selects(sorted(set(p.slot_of)), lane_slots, warp_slots)
    shuffle = Shuffle(tuple(d), tuple(k), tuple(apply(p.slot_lanes, slot) for slot in slots))
    sources = [apply(a, slot) for slot in slots]
    before, registers = _selects(sorted(set(sources)), b, j)
    places = {slot: i for i, slot in enumerate(sorted(set(p.slot_of)))}
    found: list[Step] = [
        *_rename(registers, 1 << p.from_registers),
        *before,
        *_rename([sorted(set(sources)).index(source) for source in sources], len(set(sources))),
    ]
    if shuffle.moving:
        found.append(shuffle)
    found += [*after, *_rename([places[slot] for slot in p.slot_of], len(places))]
    return tuple(found)


def _selects(
    wanted: list[int], lane_columns: Sequence[int], warp_columns: Sequence[int]
) -> tuple[list[Select], list[int]]:
    """Selects after which value i is that of `wanted[i]` ^ (columns of the lane's and the warp's bits).

    The other result lists which values they start from.  Built backwards, so that only what is wanted is
    selected: one step for every dimension of the columns' span.
    """
    columns = [*lane_columns, *warp_columns]
    steps: list[Select] = []
    for move in basis(columns):
        pivot = move.bit_length() - 1
        mask = sum((column >> pivot & 1) << j for j, column in enumerate(columns))
        sources = sorted({*wanted, *(value ^ move for value in wanted)})
        place = {value: i for i, value in enumerate(sources)}
        steps.append(
            Select(
                mask & ((1 << len(lane_columns)) - 1),
                mask >> len(lane_columns),
                tuple(place[value] for value in wanted),
                tuple(place[value ^ move] for value in wanted),
            )
        )
        wanted = sources
    return steps[::-1], wanted


def _rename(sources: list[int], count: int) -> list[Rename]:
    """The step that puts values in another order; none where they stay as they are."""
    return [] if sources == list(range(count)) else [Rename(tuple(sources))]
