"""Conversions through shared memory: a store and a load without bank conflicts, for any two layouts.

The idea.  Every value is stored at an index of a flat tile, and loaded from there.  Which index is free to
choose, and so is the tile's swizzle.  Two things are wanted of the indices:

    vectors      values that both sides hold in registers of one lane get neighbouring indices, so that both
                 move up to 16 bytes at once: V, in the registers of both and of no lane's or warp's making
    footprints   the other index bits are taken along what the lanes of a phase reach on either side, so that
                 both accesses are plain thread-value layouts, and `synthesize` finds the swizzle

Two accesses with vectors of one width always have a conflict-free layout (layoutalg.synthesis.search).

>>> from layoutalg.arch import ARCHS
>>> rows = LinearLayout({"register": [1, 2], "lane": [4, 8, 16, 32, 64]}, {"n": 128})
>>> columns = LinearLayout({"register": [32, 64], "lane": [1, 2, 4, 8, 16]}, {"n": 128})
>>> store, load = exchange_plan(rows, columns, 0, 32, ARCHS["sm_90"])
>>> print(store.tile, store.transfer.wavefronts, load.transfer.wavefronts)
Sw<2,3,2> o 0 o (128):(1) 4 4

Source: Linear Layouts, arXiv 2505.23819, chooses vector, bank and segment among the bits of the layouts; here
they are subspaces, and the swizzle is that of `layoutalg.synthesis.synthesizer`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from layoutalg.analysis import Access, linear_wavefronts, wavefronts
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.dtype import dtype
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.f2 import (
    Columns,
    Echelon,
    LinearLayout,
    apply,
    basis,
    complement,
    identity,
    intersection,
)
from layoutalg.layout import AnyLayout, Layout
from layoutalg.registers.fragments import PLACE, over_places
from layoutalg.registers.steps import Load, PlanStep, Rename, Store, Transfer
from layoutalg.synthesis import synthesize

CARRIERS = {8: "u8", 16: "u16", 32: "u32", 64: "u64", 128: "c128"}
"""Element types that carry units of so many bits."""

VECTOR_BITS = 128
"""The widest access of a lane."""


def exchange_plan(
    src: LinearLayout, dst: LinearLayout, packed: int, unit_bits: int, machine: Arch
) -> tuple[PlanStep, ...]:
    """Store, load, and names for what is loaded, in units of 2^packed registers, `unit_bits` wide.

    Raises ResourceError when the tensor does not fit shared memory, ShapeError for more lanes than a warp
    has, and UnsupportedError where the machine lacks an access of that width.

    >>> from layoutalg.arch import ARCHS
    >>> one = LinearLayout({"register": [2], "warp": [1]}, {"n": 4})
    >>> two = LinearLayout({"register": [1], "warp": [2]}, {"n": 4})
    >>> [type(step).__name__ for step in exchange_plan(one, two, 0, 32, ARCHS["sm_90"])]
    ['Store', 'Load']
    """
    if unit_bits not in CARRIERS:
        raise UnsupportedError(
            f"units of {unit_bits} bits: accesses of shared memory are 8 to {VECTOR_BITS} bits wide"
        )
    held, wanted = _units(src, packed), _units(dst, packed)
    lanes = 1 << held.in_bits["lane"]
    if lanes > machine.lanes:
        raise ShapeError(f"the layouts have {lanes} lanes, a warp of {machine.name} {machine.lanes}")
    vector = _vector(held, wanted, VECTOR_BITS // unit_bits)
    width = unit_bits << len(vector)
    rules = [find_instruction(f"{op}.shared.b{width}", machine) for op in ("st", "ld")]
    sides = list(zip((held, wanted), rules, strict=True))
    # How the lanes that are served together move.
    phases = [basis(rule.phase_columns(side.columns_of("lane"))) for side, rule in sides]
    index = _index(held, wanted, vector, phases)
    size = 1 << index.in_bits["index"]
    carrier = dtype(CARRIERS[unit_bits])
    accesses = [
        Access(rule.name, _surrogate(index, len(vector), phase, machine), carrier)
        for rule, phase in zip(rules, phases, strict=True)
    ]
    synthesis = synthesize((size,), accesses, element=carrier, arch=machine)
    tile: AnyLayout = Layout((size,)) if synthesis.layout is None else synthesis.layout
    # Places with one of these bits set hold what another one holds; for a load, all are served.
    spare = LinearLayout({"vector": vector}, held.outs).concat_ins(held.transpose_ins(PLACE[1:] + PLACE[:1]))
    silent = spare.free_variable_masks()
    transfers: list[Transfer] = []
    for (side, rule), unused in zip(sides, (silent, dict.fromkeys(PLACE, 0)), strict=True):
        stored = side.invert_and_compose(index)
        moved = [tile(column) * unit_bits // 8 for column in stored.columns_of("lane")]
        vectors, bases = _vectors(stored.columns_of("register"), len(vector), unused["register"])
        each = _each(rule, machine, moved, unused["lane"])
        threads = stored.columns_of("lane"), stored.columns_of("warp")
        transfers.append(Transfer(rule.name, vectors, bases, *threads, each * len(vectors)))
    store, load = transfers
    # What is loaded is numbered in the order of the vectors; registers that hold the same share a number.
    length = 1 << len(vector)
    numbers = {base ^ k: n * length + k for n, base in enumerate(load.bases) for k in range(length)}
    loaded = tuple(tuple(range(n * length, (n + 1) * length)) for n in range(len(load.bases)))
    registers = wanted.invert_and_compose(index).columns_of("register")
    names = tuple(numbers[apply(registers, r)] for r in range(1 << len(registers)))
    steps: tuple[PlanStep, ...] = (
        Store(tile, size, store, silent["lane"], silent["warp"]),
        Load(tile, replace(load, vectors=loaded)),
    )
    return steps if names == tuple(range(len(numbers))) else (*steps, Rename(names))


def _units(layout: LinearLayout, packed: int) -> LinearLayout:
    """The units of 2^packed registers, as (register, lane, warp) -> the flat index of the tensor."""
    placed = over_places(layout).flatten_outs()
    bits = placed.in_bits
    units = placed.reshape_ins({"packed": packed, **bits, "register": bits["register"] - packed})
    return units.sublayout(PLACE, ["offset"])


def _moving(held: LinearLayout, wanted: LinearLayout) -> Columns:
    """The columns along which some lane or warp of either side moves."""
    return basis(held.columns_of("lane", "warp") + wanted.columns_of("lane", "warp"))


def _vector(held: LinearLayout, wanted: LinearLayout, longest: int) -> Columns:
    """Elements that both sides have in registers, and that no lane or warp of either moves along."""
    common = intersection(held.columns_of("register"), wanted.columns_of("register"))
    free = complement(intersection(common, _moving(held, wanted)), common)
    return free[: longest.bit_length() - 1]


def _each(rule: Instruction, machine: Arch, moved: Sequence[int], silent: int) -> int:
    """Wavefronts of one access: lanes move by `moved` bytes per bit; those with a `silent` bit are off."""
    if not silent:
        return linear_wavefronts(rule, machine, moved).wavefronts
    lanes = [None if lane & silent else apply(moved, lane) for lane in range(1 << len(moved))]
    return wavefronts(rule.name, [*lanes, *[None] * (machine.lanes - len(lanes))], machine)


def _index(
    held: LinearLayout, wanted: LinearLayout, vector: Columns, phases: Sequence[Columns]
) -> LinearLayout:
    """index -> element.  Its bits: the vector, what both phases move along, what either does, the rest.

    Lanes and warps have 0 in the vector's bits, so that vectors start at multiples of their length.
    """
    moving = _moving(held, wanted)
    rest = moving + complement(vector + moving, basis(held.columns))
    order = intersection(*phases)
    for space in (*phases, rest):
        order += complement(order, space)
    return LinearLayout({"index": vector + order}, held.outs)


def _surrogate(index: LinearLayout, vector: int, phase: Columns, machine: Arch) -> Layout:
    """A thread-value layout of plain strides whose phases reach what `phase` spans."""
    reached = Echelon(phase)
    strides = [1 << j for j, along in enumerate(index.columns) if reached.contains(along)]
    lane_bits = machine.lanes.bit_length() - 1
    strides += [0] * (lane_bits - len(strides))
    return Layout(((2,) * lane_bits, 1 << vector), (tuple(strides), 1))


def _vectors(
    registers: Columns, vector: int, spare: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The registers of each access, and the index where it starts; equal values once.

    `registers` are columns of indices, whose low `vector` bits are those of a vector; registers with a bit of
    `spare` start none.
    """
    echelon = Echelon.of_columns(registers)
    lifts = [echelon.solve(unit) or 0 for unit in identity(vector)]
    low = (1 << vector) - 1
    starts: dict[int, int] = {}
    for r in range(1 << len(registers)):
        index = apply(registers, r)
        if not r & spare:
            starts.setdefault(index & ~low, r ^ apply(lifts, index & low))
    vectors = tuple(tuple(r ^ apply(lifts, k) for k in range(low + 1)) for r in starts.values())
    return vectors, tuple(starts)
