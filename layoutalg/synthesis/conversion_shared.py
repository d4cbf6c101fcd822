"""Conversions through shared memory: a store and a load without bank conflicts, for any two layouts.

The idea.  Every value is stored at an index of a flat tile, and loaded from there.  Which index is free to
choose, and so is the tile's swizzle.  Two things are wanted of the indices:

    vectors      values that both sides hold in registers of one lane get neighbouring indices, so that both
                 move up to 16 bytes at once: V, in the registers of both and of no lane's or warp's making
    footprints   the other index bits are taken along what the lanes of a phase reach on either side, so that
                 both accesses are plain thread-value layouts, and `synthesize` finds the swizzle

Two accesses with vectors of one width always have a conflict-free layout (layoutalg.synthesis.search).

>>> from layoutalg.arch import ARCHS
>>> from layoutalg.linear import LinearLayout
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
from typing import NamedTuple

from layoutalg.analysis.access import Access
from layoutalg.analysis.bank_forms import linear_wavefronts
from layoutalg.analysis.banks import wavefronts
from layoutalg.arch import Arch, Instruction, find_instruction
from layoutalg.dtype import dtype
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.f2 import Columns, apply, basis, complement, contains, intersection, kernel, solve
from layoutalg.layout import Layout
from layoutalg.linear import LinearLayout
from layoutalg.swizzle import AnyLayout
from layoutalg.synthesis.conversion_map import register_columns
from layoutalg.synthesis.conversion_steps import Load, Rename, Step, Store, Transfer
from layoutalg.synthesis.synthesizer import synthesize

CARRIERS = {8: "u8", 16: "u16", 32: "u32", 64: "u64", 128: "c128"}
"""Element types that carry units of so many bits."""

VECTOR_BITS = 128
"""The widest access of a lane."""


class _Side(NamedTuple):
    """What the bits of register (in units), lane and warp move along, in packed tensor indices."""

    registers: list[int]
    lanes: list[int]
    warps: list[int]


class _Spare(NamedTuple):
    """Bits of register, lane and warp: a place with one of them set holds what another one holds."""

    registers: int
    lanes: int
    warps: int


class _Indices(NamedTuple):
    """A basis of the stored elements: index bit j is along `along[j]`; the low `vector` bits are vectors."""

    along: Columns
    vector: int

    def of(self, element: int) -> int:
        return solve(self.along, element) or 0


def exchange_plan(
    src: LinearLayout, dst: LinearLayout, packed: int, unit_bits: int, machine: Arch
) -> tuple[Step, ...]:
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
    if 1 << len(held.lanes) > machine.lanes:
        raise ShapeError(
            f"the layouts have {1 << len(held.lanes)} lanes, a warp of {machine.name} {machine.lanes}"
        )
    vector = _vector(held, wanted, VECTOR_BITS // unit_bits)
    width = unit_bits << len(vector)
    rules = [find_instruction(f"{op}.shared.b{width}", machine) for op in ("st", "ld")]
    phases = [_phase(side.lanes, rule) for side, rule in zip((held, wanted), rules, strict=True)]
    indices = _indices(held, wanted, vector, phases)
    size = 1 << len(indices.along)
    carrier = dtype(CARRIERS[unit_bits])
    accesses = [
        Access(rule.name, _surrogate(indices, phase, machine), carrier)
        for rule, phase in zip(rules, phases, strict=True)
    ]
    found = synthesize((size,), accesses, element=carrier, arch=machine)
    tile: AnyLayout = Layout((size,)) if found.layout is None else found.layout
    spare = _spare(held, vector)
    transfers: list[Transfer] = []
    for side, rule, unused in zip((held, wanted), rules, (spare, _Spare(0, 0, 0)), strict=True):
        lanes = [indices.of(column) for column in side.lanes]
        moved = [tile(column) * unit_bits // 8 for column in lanes]
        vectors, bases = _vectors(side.registers, indices, unused.registers)
        each = _each(rule, machine, moved, unused.lanes)
        warps = tuple(indices.of(column) for column in side.warps)
        transfers.append(Transfer(rule.name, vectors, bases, tuple(lanes), warps, each * len(vectors)))
    store, load = transfers
    # What is loaded is numbered in the order of the vectors; registers that hold the same share a number.
    length = 1 << indices.vector
    numbers = {base ^ k: n * length + k for n, base in enumerate(load.bases) for k in range(length)}
    loaded = tuple(tuple(range(n * length, (n + 1) * length)) for n in range(len(load.bases)))
    names = tuple(numbers[indices.of(apply(wanted.registers, r))] for r in range(1 << len(wanted.registers)))
    steps: tuple[Step, ...] = (
        Store(tile, size, store, spare.lanes, spare.warps),
        Load(tile, replace(load, vectors=loaded)),
    )
    return steps if names == tuple(range(len(numbers))) else (*steps, Rename(names))


def _units(layout: LinearLayout, packed: int) -> _Side:
    registers, lanes, warps = register_columns(layout)
    return _Side(registers[packed:], lanes, warps)


def _vector(held: _Side, wanted: _Side, longest: int) -> Columns:
    """Elements that both sides have in registers, and that no lane or warp of either moves along."""
    common = intersection(held.registers, wanted.registers)
    moving = basis([*held.lanes, *held.warps, *wanted.lanes, *wanted.warps])
    free = complement(intersection(common, moving), common)
    return free[: longest.bit_length() - 1]


def _spare(side: _Side, vector: Columns) -> _Spare:
    """Bits such that the places in which all are 0 hold every vector once, in as few registers as can be."""
    lane_bits, warp_bits = len(side.lanes), len(side.warps)
    columns = [*side.lanes, *side.warps, *side.registers, *vector]
    # The highest bit of each vector of the kernel's basis is one that is not needed; registers are high.
    low = (1 << len(columns) - len(vector)) - 1
    tops = sum(1 << v.bit_length() - 1 for v in basis(v & low for v in kernel(columns)))
    return _Spare(
        tops >> (lane_bits + warp_bits),
        tops & ((1 << lane_bits) - 1),
        tops >> lane_bits & ((1 << warp_bits) - 1),
    )


def _each(rule: Instruction, machine: Arch, moved: Sequence[int], silent: int) -> int:
    """Wavefronts of one access whose lanes move by `moved` bytes a bit; lanes with a `silent` bit do not."""
    if not silent:
        return linear_wavefronts(rule, machine, moved).wavefronts
    lanes = [None if lane & silent else apply(moved, lane) for lane in range(1 << len(moved))]
    return wavefronts(rule.name, [*lanes, *[None] * (machine.lanes - len(lanes))], machine)


def _phase(lanes: Sequence[int], rule: Instruction) -> Columns:
    """What the lanes that are served together move along."""
    bits = rule.group_lanes.bit_length() - 1
    if any(x >> len(lanes) or lanes[x.bit_length() - 1] == 0 for x in rule.merge_xor):
        bits += 1
    return basis(lanes[:bits])


def _indices(held: _Side, wanted: _Side, vector: Columns, phases: Sequence[Columns]) -> _Indices:
    """Index bits: the vector, what both phases move along, what either does, the rest.

    Lanes and warps have 0 in the vector's bits, so that vectors start at multiples of their length.
    """
    moving = basis([*held.lanes, *held.warps, *wanted.lanes, *wanted.warps])
    everything = basis([*held.registers, *held.lanes, *held.warps])
    rest = moving + complement(vector + moving, everything)
    order = intersection(*phases)
    for space in (*phases, rest):
        order += complement(order, space)
    return _Indices(vector + order, len(vector))


def _surrogate(indices: _Indices, phase: Columns, machine: Arch) -> Layout:
    """A thread-value layout of plain strides whose phases reach what `phase` spans."""
    strides = [1 << j for j, along in enumerate(indices.along) if contains(phase, along)]
    lane_bits = machine.lanes.bit_length() - 1
    strides += [0] * (lane_bits - len(strides))
    return Layout(((2,) * lane_bits, 1 << indices.vector), (tuple(strides), 1))


def _vectors(
    registers: Sequence[int], indices: _Indices, spare: int
) -> tuple[tuple[tuple[int, ...], ...], tuple[int, ...]]:
    """The registers of each access, and the index where it starts; equal values once.

    Registers with a bit of `spare` start none.
    """
    lifts = [solve(registers, element) or 0 for element in indices.along[: indices.vector]]
    low = (1 << indices.vector) - 1
    starts: dict[int, int] = {}
    for r in range(1 << len(registers)):
        index = indices.of(apply(registers, r))
        if not r & spare:
            starts.setdefault(index & ~low, r ^ apply(lifts, index & low))
    vectors = tuple(tuple(r ^ apply(lifts, k) for k in range(1 << indices.vector)) for r in starts.values())
    return vectors, tuple(starts)
