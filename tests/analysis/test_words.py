"""Conflict counts in words: every number in every sentence is that of the lanes, spelled out here anew."""

from __future__ import annotations

import random
import re
from itertools import pairwise
from typing import NamedTuple

import pytest

from layoutalg.algebra import storage_layout
from layoutalg.analysis import Access, SharedReport, analyze, conflict_words
from layoutalg.arch import ARCHS
from layoutalg.dtype import dtype
from layoutalg.errors import LayoutAlgError, MismatchError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, flatten_tree, product
from tests.draws.synthesis_cases import drawn

MACHINE = ARCHS["sm_90"]


def expanded(text: str) -> list[int]:
    """The numbers that a list in words stands for."""
    if found := re.fullmatch(r"(\d+) to (\d+)", text):
        return list(range(int(found[1]), int(found[2]) + 1))
    if found := re.fullmatch(r"(\d+), (\d+), (\d+), \.\.\., (\d+)", text):
        first, second, third, last = map(int, found.groups())
        assert third - second == second - first
        step = second - first
        return list(range(first, last + (1 if step > 0 else -1), step))
    return [int(part) for part in text.split(", ")]


class Lane(NamedTuple):
    """One lane of an instruction: flat index, offset before any swizzle, byte address."""

    at: int
    plain: int
    address: int


def lanes_of(layout: AnyLayout, access: Access, place: tuple[int, int, int]) -> dict[int, Lane]:
    """The lanes of one instruction, from the meaning of an access."""
    rule = MACHINE.instructions[access.op]
    warp, value, iteration = place
    rank = len(access.tv.shape) if isinstance(access.tv.shape, tuple) else 1
    threads = product(access.tv.shape[0]) if isinstance(access.tv.shape, tuple) else 1
    out: dict[int, Lane] = {}
    for lane in range(rule.lanes):
        thread = 32 * warp + lane
        if thread < threads:
            index = access.tv((thread, value, iteration)[:rank])
            inner = layout.inner if isinstance(layout, ComposedLayout) else layout
            address = layout(index) * access.element.bits // 8 + access.base_bytes
            start = layout.offset if isinstance(layout, ComposedLayout) else 0
            out[lane] = Lane(index, start + inner(index), address)
    return out


def words_of(access: Access, lane: Lane) -> list[int]:
    width = MACHINE.instructions[access.op].width_bytes
    return [lane.address // 4 + i for i in range(max(1, width // 4))]


def check(layout: AnyLayout, access: Access, report: SharedReport, said: list[str]) -> None:
    """Parse the sentences, and compare every number."""
    rule = MACHINE.instructions[access.op]
    first = re.fullmatch(
        r"The instruction of warp (\d+), value (\d+), iteration (\d+): (\d+) lanes? address(?:es)? "
        r"(\d+) bytes? each, in (\d+) phases?: lanes (.+)\.",
        said[0],
    )
    assert first
    warp, value, iteration, count, width, phases = map(int, first.groups()[:-1])
    lanes = lanes_of(layout, access, (warp, value, iteration))
    groups = [expanded(part) for part in first[7].split("; ")]
    assert (count, width, phases) == (len(lanes), rule.width_bytes, len(groups))
    assert sorted(lane for group in groups for lane in group) == sorted(lanes)
    ways = []
    for group in groups:
        words = [word for lane in group for word in words_of(access, lanes[lane])]
        words = list(set(words)) if rule.broadcast else words
        ways.append(max(sum(word % 32 == bank for word in words) for bank in range(32)))
    assert sum(ways) + rule.counter_bias == report.worst

    busiest = re.fullmatch(
        r"The busiest phase is that of lanes? ([\d, to.]+?)"
        r"(?:, at (rows?|columns?) (.+) of (row|column) (\d+))?\.",
        said[1],
    )
    assert busiest
    group = expanded(busiest[1])
    assert group in groups and ways[groups.index(group)] == max(ways)
    height = flatten_tree(layout.shape)[0]
    if busiest[2]:
        rows = [lanes[lane].at % height for lane in group]
        columns = [lanes[lane].at // height for lane in group]
        moving, fixed = (rows, columns) if busiest[2].startswith("row") else (columns, rows)
        assert expanded(busiest[3]) == moving and {int(busiest[5])} == set(fixed)

    bits = access.element.bits
    chain = list(reversed(layout.swizzles)) if isinstance(layout, ComposedLayout) else []
    offsets = [lanes[lane].plain for lane in group]
    seen = {"start": 0, "adds": 0, "clash": 0}
    for line in said[2:]:
        if line.startswith(("All ", "The phases take", "The phase takes")):
            numbers = [int(n) for n in re.findall(r"\d+", line)]
            if line.startswith("All"):
                assert numbers == [report.instructions, report.total, report.ideal_total]
            else:
                bias = [rule.counter_bias] if rule.counter_bias else []
                assert numbers == [*ways, *bias, report.worst, report.worst_ideal]
        elif found := re.fullmatch(
            r"(Sw<.+>) adds bits? ([\d to]+) of an element's offset, without carry, to bits? ([\d to]+): "
            r"it adds (?:r there for row r, (.+)|(.+) there for .+), "
            r"counted in (\d+) elements?(?: = (\d+) bytes?)?\.",
            line,
        ):
            swizzle = chain.pop(0)
            read, low = expanded(found[2]), expanded(found[3])
            assert str(swizzle) == found[1] and sum(1 << bit for bit in read) == swizzle.yyy_mask
            assert sum(1 << bit for bit in low) == swizzle.zzz_mask
            added = expanded(found[4] or found[5])
            unit = int(found[6])
            assert unit == 1 << low[0] and (not found[7] or int(found[7]) == unit * bits // 8)
            moved = [swizzle(x) for x in offsets]
            assert [x ^ n * unit for x, n in zip(offsets, added, strict=True)] == moved
            if found[4]:
                assert added == [lanes[lane].at % height for lane in group]
            offsets = moved
            seen["adds"] += 1
        elif found := re.fullmatch(r".+ in banks? ([\d, to.]+)\.", line):
            before = line.startswith("Before")
            starts = [
                lanes[lane].plain * bits // 8 + access.base_bytes if before else lanes[lane].address
                for lane in group
            ]
            banks = expanded(found[1])
            assert (banks if len(banks) > 1 else banks * len(group)) == [at // 4 % 32 for at in starts]
            if apart := re.search(r"start (\d+) bytes? apart", line):
                assert {abs(b - a) for a, b in pairwise(starts)} == {int(apart[1])}
            if turn := re.search(r"and (\d+) bytes are (?:(\d+) times )?all 32 banks", line):
                assert int(turn[1]) == 128 * int(turn[2] or 1)
            if step := re.search(r"start (\d+) bytes apart, which is (\d+) banks?", line):
                assert int(step[1]) == 4 * int(step[2])
            seen["start"] += 1
        elif found := re.fullmatch(
            r"Lanes? ([\d, to.]+) asks? for (\d+) different words of bank (\d+): "
            r"(\d+) wavefronts where 1 is ideal\.",
            line,
        ):
            asked, bank = int(found[2]), int(found[3])
            users = {lane for lane in group for w in words_of(access, lanes[lane]) if w % 32 == bank}
            words_ = {w for lane in group for w in words_of(access, lanes[lane]) if w % 32 == bank}
            assert set(expanded(found[1])) == users and asked == len(words_) == int(found[4]) == max(ways)
            seen["clash"] += 1
        elif line == "No bank is asked for more than 1 word in this phase: 1 wavefront where 1 is ideal.":
            assert max(ways) == 1
            seen["clash"] += 1
        elif found := re.fullmatch(
            r"Lanes? ([\d, to.]+) asks? bank (\d+) for (\d+) words?, equal ones one after another: "
            r"(\d+) wavefronts? where (\d+) (?:is|are) ideal\.",
            line,
        ):
            bank = int(found[2])
            every = [(lane, w) for lane in group for w in words_of(access, lanes[lane]) if w % 32 == bank]
            assert not rule.broadcast and {lane for lane, _ in every} == set(expanded(found[1]))
            assert len(every) == int(found[3]) == int(found[4]) == max(ways)
            all_words = sum(len(words_of(access, lanes[lane])) for lane in group)
            assert int(found[5]) == -(-all_words // 32)
            seen["clash"] += 1
        else:
            raise AssertionError(f"a sentence that nobody understands: {line}")
    assert seen["clash"] == 1 and seen["start"] and not [s for s in chain if s.bits]


@pytest.mark.deep
def test_every_number_is_that_of_the_lanes() -> None:
    rng = random.Random(3)
    told = conflicts = 0
    while told < 300:
        question = drawn(rng, 2048)
        base = storage_layout(question.shape, question.order, rng.choice((0, 0, 1, 8)))
        layout: AnyLayout = base
        if rng.random() < 0.6:
            chain = tuple(
                Swizzle(rng.randint(1, 3), rng.randint(0, 4), rng.choice((1, 2, 3, 4, 5, -2, -3)))
                for _ in range(rng.choice((1, 1, 2)))
            )
            layout = ComposedLayout(chain, rng.choice((0, 0, 64)), base)
        for access in question.accesses:
            try:
                report = analyze(layout, access)
            except LayoutAlgError:
                continue
            assert isinstance(report, SharedReport)
            check(layout, access, report, conflict_words(layout, access, report))
            told += 1
            conflicts += not report.conflict_free
    assert 100 < conflicts < 290


def test_lanes_that_ask_for_words_of_one_bank() -> None:
    tile = Layout((32, 64), (64, 1))
    access = Access("ld.shared.b64", Layout((32, 2), (1, 32)), dtype("f32"))
    said = conflict_words(tile, access, analyze(tile, access))
    turn = "256 bytes are 2 times all 32 banks"
    assert said[1:4] == [
        "The busiest phase is that of lanes 0 to 15, at rows 0 to 15 of column 0.",
        f"Rows 0 to 15 start 256 bytes apart, and {turn}, so they start in bank 0.",
        "Lanes 0 to 15 ask for 16 different words of bank 0: 16 wavefronts where 1 is ideal.",
    ]


def test_nothing_is_said_of_lanes_that_are_not_active() -> None:
    tile = Layout((32, 1))
    access = Access("ld.shared.b32", Layout((32, 1), (1, 0)), dtype("f32"), active=lambda t, v, i: False)
    assert conflict_words(tile, access, analyze(tile, access)) == [
        "No lane of ld.shared.b32 is active, so no bank is accessed."
    ]


def test_the_report_of_something_else_is_refused() -> None:
    tile, padded = Layout((32, 32), (32, 1)), Layout((32, 32), (33, 1))
    access = Access.along("ld.shared.b32", tile, "f32", "col")
    with pytest.raises(MismatchError, match="it is the report of something else"):
        conflict_words(padded, access, analyze(tile, access))
