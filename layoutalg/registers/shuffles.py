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

>>> from layoutalg.registers.place_map import place_map
>>> from layoutalg.registers.steps import cost_of
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

from layoutalg.f2 import Columns, Echelon, LinearLayout, apply, basis, complement, identity, kernel, solve
from layoutalg.registers.place_map import threads
from layoutalg.registers.steps import PlanStep, Rename, Select, Shuffle


def shuffle_plans(places: LinearLayout) -> tuple[tuple[PlanStep, ...], ...]:
    """Plans that carry out a conversion which keeps every value in its warp; the cheapest is for the caller.

    One by `shfl.bfly`, if D can be the identity, and one with the least rank of G; where lanes depend on
    the warp, also those in which registers depend on it instead.

    >>> from layoutalg.registers.place_map import place_map
    >>> rotated = place_map(
    ...     LinearLayout({"lane": [1, 2]}, {"n": 4}), LinearLayout({"lane": [2, 1]}, {"n": 4}))
    >>> shuffle_plans(rotated)
    ((Shuffle(lane_columns=(2, 1), warp_columns=(), offsets=(0,)),),)
    """
    slot_of, wanted = _slots(places)
    plans: list[tuple[PlanStep, ...]] = []
    warp_lanes = _block(wanted, "warp", "lane")
    for choice in (_paired(wanted), _fewest_selects(wanted)):
        if choice is not None:
            chosen, lane_slots = choice
            plans.append(_steps(slot_of, chosen, lane_slots, [0] * len(warp_lanes)))
            if any(warp_lanes):
                warp_slots = _solved(_block(chosen, "slot", "lane"), warp_lanes)
                if warp_slots is not None:
                    plans.append(_steps(slot_of, chosen, lane_slots, warp_slots))
    return tuple(dict.fromkeys(plans))


def _slots(places: LinearLayout) -> tuple[tuple[int, ...], LinearLayout]:
    """C inside a warp, from (slot, lane, warp) to (register, lane), and the slot of each register.

    Slots number the different values that one lane of the destination holds.
    """
    bits = places.in_bits["register"]
    repeated = kernel(places.columns_of("register"))
    distinct = complement(repeated, bits)
    registers = LinearLayout({"slot": distinct, "repeated": repeated}, {"register": 1 << bits})
    numbers = _block(registers.invert(), "register", "slot")
    slots = registers.sublayout(["slot"], ["register"]) * threads(places)
    wanted = slots.compose(places).sublayout(["slot", "lane", "warp"], ["register", "lane"])
    return tuple(apply(numbers, r) for r in range(1 << bits)), wanted


def _block(layout: LinearLayout, name: str, out: str) -> Columns:
    return layout.sublayout([name], [out]).columns


def _paired(wanted: LinearLayout) -> tuple[LinearLayout, Sequence[int]] | None:
    """G with D = 1, if there is one."""
    changed = [lane ^ 1 << j for j, lane in enumerate(_block(wanted, "lane", "lane"))]
    lane_slots = _solved(_block(wanted, "slot", "lane"), changed)
    return None if lane_slots is None else (wanted, lane_slots)


def _solved(columns: Columns, wanted: Sequence[int]) -> list[int] | None:
    """An x with columns * x = y for every y of `wanted`, or None."""
    echelon = Echelon.of_columns(columns)
    solutions = [x for y in wanted if (x := echelon.solve(y)) is not None]
    return solutions if len(solutions) == len(wanted) else None


def _fewest_selects(wanted: LinearLayout) -> tuple[LinearLayout, Sequence[int]]:
    """G of least rank such that lanes that want different values ask different lanes; slots may be added."""
    slots, lanes = wanted.in_bits["slot"], wanted.in_bits["lane"]
    lane_lanes, slot_lanes = _block(wanted, "lane", "lane"), list(_block(wanted, "slot", "lane"))
    # Lanes that hold the same values as lane 0, and the slots in which they do.
    same = kernel(wanted.columns_of("slot", "lane"))
    moves = {vector >> slots: vector & ((1 << slots) - 1) for vector in same}
    sources = Echelon()
    waiting: list[int] = []
    for unit in complement(list(moves), lanes):
        if sources.insert(apply(lane_lanes, unit)):
            moves[unit] = 0
        else:
            waiting.append(unit)
    for unit in waiting:
        lane = apply(lane_lanes, unit)
        for slot in [solve(slot_lanes, lane ^ unit), *identity(len(slot_lanes))]:
            if slot is not None and not sources.contains(lane ^ apply(slot_lanes, slot)):
                break
        else:
            slot = 1 << len(slot_lanes)
            slot_lanes.append(complement(sources.basis(), lanes)[0])
        sources.insert(lane ^ apply(slot_lanes, slot))
        moves[unit] = slot
    units = LinearLayout({"unit": list(moves)}, {"lane": 1 << lanes}).invert()
    chosen = units.compose(LinearLayout({"unit": list(moves.values())}, {"slot": 1 << len(slot_lanes)}))
    ins = dict(wanted.ins)
    ins["slot"] += tuple((0, lane) for lane in slot_lanes[slots:])
    return LinearLayout(ins, wanted.outs), chosen.columns


def _steps(
    slot_of: Sequence[int], wanted: LinearLayout, lane_slots: Sequence[int], warp_slots: Sequence[int]
) -> tuple[PlanStep, ...]:
    """The steps that follow from G (`lane_slots`), and from the same for warps."""
    chosen = LinearLayout({"lane": lane_slots, "warp": warp_slots}, {"slot": 1 << wanted.in_bits["slot"]})
    moved = chosen.concat_outs(threads(wanted)).compose(wanted)
    # B D = what lanes ask of registers; where D leaves B free it is 0.
    d = moved.sublayout(["lane"], ["lane"])
    b = d.pseudoinvert().compose(moved.sublayout(["lane"], ["register"])).columns
    a, j = (
        [r ^ apply(b, lane) for r, lane in zip(_block(x, n, "register"), _block(x, n, "lane"), strict=True)]
        for x, n in ((wanted, "slot"), (moved, "warp"))
    )
    after, slots = _selects(sorted(set(slot_of)), lane_slots, warp_slots)
    slot_lanes = _block(wanted, "slot", "lane")
    offsets = tuple(apply(slot_lanes, slot) for slot in slots)
    shuffle = Shuffle(d.columns, _block(moved, "warp", "lane"), offsets)
    sources = [apply(a, slot) for slot in slots]
    before, registers = _selects(sorted(set(sources)), b, j)
    places = {slot: i for i, slot in enumerate(sorted(set(slot_of)))}
    steps: list[PlanStep] = [
        *_rename(registers, 1 << wanted.out_bits["register"]),
        *before,
        *_rename([sorted(set(sources)).index(source) for source in sources], len(set(sources))),
    ]
    if shuffle.moving:
        steps.append(shuffle)
    steps += [*after, *_rename([places[slot] for slot in slot_of], len(places))]
    return tuple(steps)


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
        position = {value: i for i, value in enumerate(sources)}
        steps.append(
            Select(
                mask & ((1 << len(lane_columns)) - 1),
                mask >> len(lane_columns),
                tuple(position[value] for value in wanted),
                tuple(position[value ^ move] for value in wanted),
            )
        )
        wanted = sources
    return steps[::-1], wanted


def _rename(sources: list[int], count: int) -> list[Rename]:
    """The step that puts values in another order; none where they stay as they are."""
    return [] if sources == list(range(count)) else [Rename(tuple(sources))]
