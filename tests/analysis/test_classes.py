"""Classes of instructions that cost the same: footprints, digits, guards, loops past the ends of modes."""

from __future__ import annotations

import itertools
import random
from collections import Counter

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from layoutalg.analysis import (
    Access,
    Guard,
    Place,
    Residues,
    analyze,
    classes,
    instruction_offsets,
    sectors,
    wavefronts,
)
from layoutalg.analysis.classes import ClassTable, class_table, count_classes, guarded_table
from layoutalg.analysis.enumerated import access_extent, count_all
from layoutalg.analysis.footprint import AccessStrides, find_footprint, find_straddling
from layoutalg.analysis.residues import ResidueDigit, ResidueFamily, between
from layoutalg.arch import ARCHS
from layoutalg.errors import AlignmentError, ShapeError, UndecidedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.testing import accesses, swizzles
from tests.analysis.test_enumerated import shared
from tests.draws.guards import active_lanes, draw_case
from tests.judges.reports import numbers
from tests.sweeps import each

SM90, WIDE = ARCHS["sm_90"], ARCHS["sm_100"]
"""The second has accesses of 32 bytes, too."""

Pair = tuple[AnyLayout, Access]
HERE = (0, 0, 0)


def footprint(layout: AnyLayout, access: Access) -> AccessStrides | None:
    return find_footprint(layout, access, WIDE.instructions[access.op], WIDE)


def table_of(layout: AnyLayout, access: Access) -> ClassTable | None:
    """The classes of an access, those of its guard too; None where steps do not compose."""
    strides = footprint(layout, access)
    if strides is None:
        return None
    return guarded_table(layout, access, strides) if access.active is not None else class_table(strides)


# --- footprints ----------------------------------------------------------------------------------------


@given(accesses(max_size=128))
def test_lane_offsets_are_the_definition(pair: Pair) -> None:
    strides = footprint(*pair)
    assume(strides is not None and pair[1].active is None)
    assert strides is not None
    extent = access_extent(*pair, strides.rule, SM90)
    for place in (Place(*HERE), Place(extent.warps - 1, extent.registers - 1, extent.iterations - 1)):
        assert strides.lane_offsets(place) == instruction_offsets(*pair, place)


@each(
    ("layout", "bits", "tv", "base"),
    [
        (Layout((2, 32), (32, 1)), 64, Layout((32, 2), (2, 1)), 0),
        (Layout((6, 8), (1, 8)), 128, Layout((1, 12), (0, 1)), 0),
        (Layout(64), 64, Layout((8, 2), (3, 1)), 0),
        (Layout((4, 8), (1, 5)), 128, Layout((8, 4), (4, 1)), 0),
        (Layout((4, 8)), 128, Layout((8, 4), (4, 1)), 4),
        (Layout((4, 8, 2), (1, 4, 33)), 128, Layout((8, 4, 2), (4, 1, 32)), 0),
        (ComposedLayout(Swizzle(1, 0, -1), 0, Layout(64)), 64, Layout((32, 2), (2, 1)), 0),
        (ComposedLayout(Swizzle(1, 0, 5), 0, Layout(64)), 64, Layout((32, 2), (2, 1)), 0),
        (ComposedLayout(Swizzle(1, 1, 5), 1, Layout(64)), 64, Layout((32, 2), (2, 1)), 0),
        (ComposedLayout(Swizzle(1, 0, 5), 0, Layout((6, 8), (1, 6))), 64, Layout((24, 2), (2, 1)), 0),
    ],
)
def test_split_vectors_are_refused_as_the_definition_refuses(
    layout: AnyLayout, bits: int, tv: Layout, base: int
) -> None:
    """By columns, by alignment, or, where nothing is linear, by enumerating."""
    access = shared(bits, tv, base_bytes=base)
    for method in ("auto", "enumerated"):
        with pytest.raises(AlignmentError):
            analyze(layout, access, method=method)


def test_footprints_at_the_edges() -> None:
    """A base makes up for an offset, a swizzle need not reach into vectors, and strides may fall to 0."""
    vector, lane = shared(64, Layout((32, 2), (2, 1))), shared(32, Layout((32, 1), (1, 0)))
    shifted = ComposedLayout(Layout(64), 2, Layout((4, 8), (1, 4)))
    cases: list[tuple[AnyLayout, Access, list[int]]] = [
        (shifted, shared(128, Layout((8, 4), (4, 1)), base_bytes=8), [16, 32, 48]),
        (ComposedLayout(Swizzle(1, 0, 6), 0, Layout(64)), vector, [0, 8, 16]),
        (ComposedLayout(Swizzle(1, 1, 5), 2, Layout(64)), vector, [8, 16, 24]),
        (Layout(32, -1), shared(32, lane.tv, base_bytes=124), [124, 120, 116]),
    ]
    for layout, access, expected in cases:
        strides = footprint(layout, access)
        assert strides is not None and strides.lane_offsets(Place(*HERE))[:3] == expected
    assert footprint(Layout((4, 8), (8, 1)), shared(32, Layout((8, 1), (3, 0)))) is None
    for layout, part in (
        (Layout(32, -1), "negative byte offset -124"),
        (Layout((32, 2), (1 << 56, 1)), r"2\^62"),
    ):
        with pytest.raises(ShapeError, match=part):
            footprint(layout, lane)


@given(accesses(kind="plain", max_size=64), swizzles(max_bits=2, max_base=3))
def test_low_swizzles_are_decided_as_the_definition_decides(pair: Pair, swizzle: Swizzle) -> None:
    swizzled = ComposedLayout(swizzle, 0, pair[0])
    try:
        defined = analyze(swizzled, pair[1], method="enumerated")
    except AlignmentError:
        with pytest.raises(AlignmentError):
            analyze(swizzled, pair[1])
    else:
        assert numbers(analyze(swizzled, pair[1])) == numbers(defined)


# --- digits --------------------------------------------------------------------------------------------


@each(
    ("extents", "full", "partial"),
    [((1003, 8), 8, 1), ((127, 255, 4), 35, 1), ((64, 64), 1, 0), ((33, 32), 32, 0), ((3, 64), 3, 0)],
)
def test_how_many_classes(extents: tuple[int, ...], full: int, partial: int) -> None:
    strides, current = [], 1
    for extent in extents:
        strides.append(current)
        current = 2048 * extent + current
    tile = Layout(extents, tuple(strides))
    table = table_of(tile, Access.default("ld.shared.b32", tile, "f32"))
    assert table is not None
    lengths = Counter(len(c.relative) == 32 for c in table.classes)
    assert (lengths[True], lengths[False]) == (full, partial)


@given(accesses(arch=WIDE))
def test_classes_cost_what_the_definition_counts(pair: Pair) -> None:
    table = table_of(*pair)
    assume(table is not None and pair[1].active is None)
    assert table is not None
    defined = {k.cost: k.instructions for k in count_all(*pair, table.found.rule, WIDE)}
    for by_stride in (False, True) if table.is_progression else (False,):
        counted: Counter[tuple[int, ...]] = Counter()
        for kind in count_classes(table, by_stride=by_stride):
            counted[kind.cost] += kind.instructions
        assert counted == defined


@given(accesses(space="global", max_size=512, arch=WIDE))
def test_the_worst_alignment_is_the_worst_of_all_bases(pair: Pair) -> None:
    table = table_of(*pair)
    assume(table is not None and pair[1].active is None)
    assert table is not None
    rule = table.found.rule
    totals = [
        sum(k.instructions * k.cost[0] for k in count_all(*pair, rule, WIDE, shift))
        for shift in range(0, 32, rule.width_bytes)
    ]
    assert classes.worst_alignment(table) == max(totals)


def test_a_period_too_long_has_no_classes() -> None:
    """Bits of a swizzle that no offset has are not part of its period."""
    far = classes.MAX_RESIDUES.bit_length()
    for stride, has_classes in ((1, True), (1 << far, False)):
        tile = ComposedLayout(Swizzle(1, far, 1), 0, Layout((32, 33), (33, stride)))
        assert (table_of(tile, shared(32, Layout((32, 1, 33), (1, 0, 32)))) is not None) == has_classes


# --- guards --------------------------------------------------------------------------------------------


@given(accesses() | accesses(kind="partial"))
def test_every_instruction_is_in_one_class(pair: Pair) -> None:
    """Of a guarded access, the active lanes of a class are those of its instructions."""
    layout, access = pair
    assume(isinstance(access.active, Guard | None))
    table, strides = table_of(layout, access), footprint(layout, access)
    assume(table is not None and strides is not None)
    assert table is not None and strides is not None
    assert sum(sum(table.residues.starts(f)) for c in table.classes for f in c.families) == (
        strides.extent.instructions
    )
    for one in table.classes if access.active is not None else ():
        for family in one.families:
            residue = next(n for n, count in enumerate(table.residues.starts(family)) if count)
            thread, register, iteration = table.residues.member(family, residue)
            offsets = instruction_offsets(layout, access, Place(thread // SM90.lanes, register, iteration))
            assert tuple(o is not None for o in offsets)[: len(one.relative)] == one.active


def test_accesses_that_guarded_classes_leave_alone() -> None:
    """Those that leave the tile; coordinates that fall are counted."""
    outside = shared(32, Layout((64, 1), (1, 0)), active=Guard(threads=32))
    falling = shared(32, Layout((32, 1, 8), (8, 0, 1)), active=Guard((3, 9)))
    assert footprint(Layout((8, 4), (4, 1)), outside) is not None
    assert table_of(Layout((8, 4), (4, 1)), outside) is None
    assert table_of(Layout((8, 64), (64, 1)), falling) is not None


def test_active_lanes_are_counted_whatever_the_number_of_threads() -> None:
    """Up to 2^66 threads, with bounds about the powers of two at which words end."""
    rng, decided = random.Random("threads past words"), 0
    for _ in range(60):
        layout, guard, wanted = draw_case(rng)
        counted = active_lanes(layout, guard)
        assert counted in {wanted, None}, f"{layout} under {guard}"
        decided += counted is not None
    assert decided > 50


# --- loops past the ends of modes ----------------------------------------------------------------------


@given(accesses(kind="loops", max_size=512))
def test_every_kind_is_an_instruction_of_the_access_and_costs_that(pair: Pair) -> None:
    """Named as the access names it, the instruction of every kind costs by the definition what is claimed."""
    layout, access = pair
    rule = SM90.instructions[access.op]
    over = find_straddling(layout, access, rule, SM90)
    table = (
        None if over is None else guarded_table(layout, over.access, over.strides, over.counts, over.every)
    )
    assume(table is not None)
    assert over is not None and table is not None
    extent = access_extent(layout, access, rule, SM90)
    kinds = [over.renamed(kind) for kind in count_classes(table)]
    assert sum(kind.instructions for kind in kinds) == extent.instructions
    for kind in kinds:
        assert kind.place.warp < extent.warps
        assert kind.place.register < extent.registers and kind.place.iteration < extent.iterations
        count = wavefronts if rule.space == "shared" else sectors
        assert count(access.op, instruction_offsets(layout, access, kind.place)) == kind.cost[0]


RAGGED = Layout((48, 100), (101, 1))


@each(
    ("layout", "tv"),
    [
        (RAGGED, ((256, 1, 18), (1, 0, 256))),
        (RAGGED, ((256, 1, 5), (1, 0, 256))),
        (RAGGED, ((128, (1, 3), 12), (1, (0, 128), 384))),
        (Layout((100, 60), (61, 1)), ((200, 1), (1, 0))),
        (Layout((100, 60), (1, 104)), ((32, (1, 7), 11), (1, (0, 32), 224))),
        (Layout((3, 640), (1, 3)), ((64, 3, 5), (1, 64, 192))),
        (ComposedLayout(Swizzle(3, 2, 3), 0, Layout((60, 34), (34, 1))), ((96, 1, 21), (1, 0, 96))),
        (Layout((7, 9, 11), (1, 7, 64)), ((32, 1, 21), (1, 0, 32))),
        (Layout((6, 50), (50, 1)), ((1, 1, 70), (0, 0, 1))),
        (Layout((7, 9, 4), (1, 7, 64)), ((20, 1, 12), (1, 0, 20))),  # every round starts a warp, within a row
        (Layout((7, 9, 4), (1, 7, 64)), ((48, (1, 2), 2), (1, (0, 48), 96))),
    ],
    sample=4,
)
@each("op", ["ld.shared.b32", "ld.global.b32"])
@each("guard", [None, Guard((40,)), Guard(lanes=range(0, 32, 3))])
def test_loops_over_ragged_tiles(
    layout: AnyLayout, tv: tuple[tuple[int, ...], ...], op: str, guard: Guard
) -> None:
    access = Access(op, Layout(*tv), "f32", active=guard)  # type: ignore[arg-type]
    report, defined = analyze(layout, access), analyze(layout, access, method="enumerated")
    assert report.method != "enumerated" and numbers(report) == numbers(defined)


def test_size_does_not_matter() -> None:
    """2^40 elements in rows of 1000, by 256 threads that go on: 18 million million instructions."""
    rows = (1 << 40) // 1000
    loop = Access("ld.global.b32", Layout((256, 1, 1000 * rows // 256), (1, 0, 256)), "f32")  # type: ignore[arg-type]
    report = analyze(Layout((1000, rows), (1, 1024)), loop)
    assert report.method == "digit-classes" and report.instructions == 8 * (1000 * rows // 256)
    loop = Access("ld.global.b32", Layout((48, 1, 1000 * rows // 48), (1, 0, 48)), "f32")  # type: ignore[arg-type]
    report = analyze(Layout((1000, rows), (1, 1024)), loop)
    assert report.method == "digit-classes" and report.instructions == 2 * (1000 * rows // 48)


@each(
    ("tv", "active"),
    [
        (((64, 1, 7), (3, 0, 5)), None),  # steps that no mode is a multiple of
        (((64, 1, 20), (1, 0, 64)), Guard(threads=50)),  # threads that go on are no longer numbered alike
        (((64, 1, 20), (1, 0, 64)), lambda t, v, i: t < 9),
    ],
)
def test_what_is_left_to_the_definition(tv: tuple[tuple[int, ...], ...], active: object) -> None:
    access = shared(32, Layout(*tv), active=active)
    assert find_straddling(RAGGED, access, SM90.instructions[access.op], SM90) is None
    assert analyze(RAGGED, access).method == "enumerated"


# --- families of digits --------------------------------------------------------------------------------


@given(
    st.lists(st.tuples(st.integers(0, 3), st.integers(1, 6), st.integers(0, 12)), max_size=4),
    st.integers(-5, 60),
    st.integers(0, 40),
)
def test_every_choice_of_an_interval_is_in_one_family(
    parts: list[tuple[int, int, int]], low: int, length: int
) -> None:
    digits = tuple(ResidueDigit(first, extent, 1, HERE) for first, extent, _ in parts)
    weights = [weight for _, _, weight in parts]
    seen: Counter[tuple[int, ...]] = Counter()
    for family in between(digits, weights, low, low + length):
        seen.update(itertools.product(*(range(d.first, d.first + d.extent) for d in family)))
    every = itertools.product(*(range(first, first + extent) for first, extent, _ in parts))
    values = {c: sum(v * w for v, w in zip(c, weights, strict=True)) for c in every}
    assert seen == Counter(c for c, value in values.items() if low <= value < low + length)


def test_large_digits_are_not_walked() -> None:
    def digits(*extents: int) -> tuple[ResidueDigit, ...]:
        return tuple(ResidueDigit(0, extent, 1, HERE) for extent in extents)

    families = list(between(digits(1 << 30, 1 << 30), (1, 1 << 30), 12345, (1 << 59) + 7))
    assert sum(a.extent * b.extent for a, b in families) == (1 << 59) + 7 - 12345 and len(families) <= 3
    ((only,),) = between(digits(1 << 80), (1,), 5, 1 << 70)
    assert only.extent == (1 << 70) - 5
    with pytest.raises(UndecidedError, match="more than 64 values"):
        list(between(digits(1000, 1000), (1, 1), 500, 900))


@st.composite
def families(draw: st.DrawFn) -> ResidueFamily:
    digits, place = [], 1
    for _ in range(draw(st.integers(0, 3))):
        extent, kind = draw(st.integers(1, 12)), draw(st.integers(0, 2))
        moves = (place * (kind == 0), place * (kind == 1), place * (kind == 2))
        digits.append(ResidueDigit(draw(st.integers(0, 2)), extent, draw(st.integers(-9, 9)), moves))
        place *= extent + 2
    return ResidueFamily(draw(st.integers(-9, 9)), (draw(st.integers(-7, 7)), 0, 0), tuple(digits))


@given(families(), st.sampled_from((1, 2, 8, 16)), st.sampled_from((1, 4, 8)))
def test_starts_and_members(family: ResidueFamily, modulus: int, lanes: int) -> None:
    """Convolution counts what a walk over all digits counts."""
    places: list[list[tuple[int, ...]]] = [[] for _ in range(modulus)]
    for values in itertools.product(*(range(d.first, d.first + d.extent) for d in family.digits)):
        moved = list(zip(values, family.digits, strict=True))
        place = tuple(at + sum(v * d.moves[i] for v, d in moved) for i, at in enumerate(family.place))
        if place[0] % lanes == 0:
            places[(family.offset + sum(v * d.stride for v, d in moved)) % modulus].append(place)
    table = Residues(modulus, lanes)
    assert table.starts(family) == [len(some) for some in places]
    assert all(table.member(family, residue) in some for residue, some in enumerate(places) if some)


def test_counts_past_machine_words_are_exact() -> None:
    """Long digits cost no more than short ones."""
    digits = (ResidueDigit(0, 1 << 50, 3, (0, 1, 0)), ResidueDigit(0, 1 << 10, 1, (1, 0, 0)))
    assert [Residues(64, 32).column(digits, lane) for lane in range(32)] == [[1 << 49] * 64] * 32
    halves = (ResidueDigit(0, 1 << 40, 1, HERE), ResidueDigit(0, 1 << 41, 2, HERE))
    for some, total in (((ResidueDigit(0, 1 << 70, 1, HERE),), 1 << 68), (halves, 1 << 79)):
        assert Residues(4, 1).column(some, 0) == [total] * 4
    table, few = Residues(3, 4), (ResidueDigit(0, 5, 1, (1, 0, 0)), ResidueDigit(1, 7, 2, (3, 0, 0)))
    many = (ResidueDigit(0, 3 << 70, 0, (0, 1, 0)), *few)
    for lane in range(4):
        assert table.column(many, lane) == [n * (3 << 70) for n in table.column(few, lane)]
    assert table.threads(many) == table.threads(few) == [0, 1, 2, 3]
