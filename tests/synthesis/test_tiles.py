"""synthesize_tile: rings, buffers and head dims; what is found, offered and refused, by enumeration."""

from __future__ import annotations

import itertools
import random
from typing import Any

import pytest

from layoutalg.analysis import SharedReport, analyze
from layoutalg.arch import ARCHS
from layoutalg.decide import is_injective
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, size
from layoutalg.synthesis import TileSynthesis, check_certificate, read_tile, synthesize_tile
from layoutalg.synthesis.tiles import tma_mode, wgmma_operands
from layoutalg.synthesis.tiles.covers import Cover
from tests.draws.synthesis_cases import is_free
from tests.sweeps import each

SM_90 = ARCHS["sm_90"]


def counted(layout: AnyLayout, covers: tuple[Cover, ...], shape: tuple[int, int]) -> tuple[int, int]:
    """(wavefronts, ideal) of the pieces on a layout of one stage, every instruction counted one by one."""
    total = ideal = 0
    for cover in covers:
        for piece in cover.pieces:
            report = analyze(piece.on(layout, shape), piece.access, method="enumerated")
            assert isinstance(report, SharedReport)
            total, ideal = total + report.total, ideal + report.ideal_total
    return total, ideal


def judge(found: TileSynthesis, max_extra_bytes: int = 0) -> None:
    """Everything that an answer says, by enumeration."""
    tile, nbytes = found.tile, found.synthesis.element.bits // 8
    for _, one in found.tried:
        assert check_certificate(one)
    for choice in found.ranking:
        assert is_injective(choice.layout) and size(choice.layout) == size(found.given)
        assert counted(choice.stage, found.covers, tile.shape) == (choice.total, choice.ideal_total)
        spans = max(choice.layout(i) for i in range(size(found.given))) + 1
        assert spans * nbytes <= tile.span * nbytes + choice.extra_bytes
    if found.found is not None:
        assert found.found.extra_bytes <= max_extra_bytes and found.offers == ()
        for stage in tile.each_stage(found.found.layout):
            total, ideal = counted(stage, found.covers, tile.shape)
            assert total == ideal, "every stage is free of conflicts"
        strides = found.found.layout
        for stage_mode in tile.stages:
            # The given stride of a stage is kept unless the stage no longer fits.
            step = [0] * len(found.given.shape)  # type: ignore[arg-type]
            step[stage_mode.mode] = 1
            moved = strides(*step) - strides(0)
            note = next(note for note in found.notes if note.startswith(f"mode {stage_mode.mode} "))
            assert (moved != stage_mode.stride) == ("no longer fits" in note)
    else:
        assert found.refusal()
    for offer in found.offers:
        assert check_certificate(offer.synthesis)
        again = synthesize_tile(
            found.given, offer.accesses, element=found.synthesis.element,
            max_extra_bytes=max(max_extra_bytes, offer.choice.extra_bytes),
        )  # fmt: skip
        assert again.found is not None and again.found.conflict_free, "an offer can be had"
        assert offer.choice.conflict_free and is_injective(offer.choice.layout)


CASES = [
    ("(128,64,3)", (64, 1, 8192), "f16", ["ldmatrix.x4", "st.shared.b128"],
        "Sw<3,3,3> o 0 o (128,64,3):(64,1,8192)"),
    ("(3,128,64)", (8200, 64, 1), "f16", ["ldmatrix.x4"],
        "(8192,3):(1,8200) o 0 o Sw<3,3,3> o 0 o (3,128,64):(8192,64,1)"),
    ("(4,64,32)", (2048, 32, 1), "f16", ["ldmatrix.x4", "cp.async.16"],
        "Sw<2,3,3> o 0 o (4,64,32):(2048,32,1)"),
    ("(64,72)", (72, 1), "f16", ["ldmatrix.x4", "st.shared.b128"], "(64,72):(72,1)"),
    ("(64,72)", (128, 1), "f16", ["ldmatrix.x4"], "Sw<3,3,4> o 0 o (64,72):(128,1)"),
    ("(64,80)", (80, 1), "f16", ["ldmatrix.x4", "st.shared.b128"], "Sw<1,3,3> o 0 o (64,80):(80,1)"),
    ("(64,96)", (96, 1), "f16", ["ldmatrix.x4", "st.shared.b128"], "Sw<2,3,3> o 0 o (64,96):(96,1)"),
    ("(64,40)", (40, 1), "f16", ["ldmatrix.x4", "st.shared.b128"], "(64,40):(40,1)"),
    ("(64,64)", (128, 1), "f16", ["ldmatrix.x4", "st.shared.b128"], "Sw<3,3,4> o 0 o (64,64):(128,1)"),
    ("(72,64)", (1, 128), "f16", ["ldmatrix.x4.trans"], "Sw<3,3,4> o 0 o (72,64):(1,128)"),
    ("(24,96,2)", (96, 1, 2304), "f16", ["ldmatrix.x4"],
        "Sw<2,3,3> o 0 o (24,96,2):(96,1,2304)"),
]  # fmt: skip


def layout_of(shape: str, stride: tuple[int, ...]) -> Layout:
    return Layout(tuple(int(n) for n in shape.strip("()").split(",")), stride)


@each(("shape", "stride", "element", "accesses", "expected"), CASES, sample=2)
def test_what_is_found(
    shape: str, stride: tuple[int, ...], element: str, accesses: list[str], expected: str
) -> None:
    found = synthesize_tile(layout_of(shape, stride), accesses, element=element)
    assert found.found is not None and str(found.found.layout) == expected
    judge(found)


@pytest.mark.deep
def test_rows_at_one_chunk_are_served_for_every_pitch() -> None:
    """The exponent t of 2 in the chunks of a pitch: Sw<min(t,3),3,max(t,3)> of f16."""
    for chunks in range(2, 25):
        found = synthesize_tile(Layout((24, 16), (8 * chunks, 1)), ["ldmatrix.x4"], element="f16")
        t = (chunks & -chunks).bit_length() - 1
        assert found.found is not None
        rule = ComposedLayout(Swizzle(min(t, 3), 3, max(t, 3)), 0, found.given) if t else found.given
        costs = found.found.total, found.found.ideal_total
        assert counted(rule, found.covers, found.tile.shape) == costs
        assert found.found.kind == ("swizzle" if t else "plain")


@pytest.mark.deep
def test_a_part_of_a_wider_buffer_is_offered_another_order_and_more_memory() -> None:
    """Stores in memory order of 9 chunks in rows of 16: no swizzle; lanes down the rows have one."""
    found = synthesize_tile(Layout((64, 72), (128, 1)), ["ldmatrix.x4", "st.shared.b128"], element="f16")
    judge(found)
    assert found.found is None
    assert "single swizzles" in found.refusal() and "Others were not searched." in found.refusal()
    order, memory = found.offers
    assert order.accesses == ("ldmatrix.x4", "st.shared.b128@((64,9),8):((1,512),64)")
    assert order.change == "lanes down 8 rows first, 16 contiguous bytes of each row per phase"
    assert str(order.choice.layout) == "Sw<3,3,4> o 0 o (64,72):(128,1)" and order.choice.extra_bytes == 0
    assert str(memory.choice.layout) == "(64,72):(136,1)" and memory.choice.extra_bytes == 1024


@pytest.mark.deep
def test_a_swizzle_and_a_padding_together_where_neither_serves_alone() -> None:
    """Rows of 10 chunks in a buffer of 12: not one swizzle, not one padding up to 16 chunks, one of both."""
    given, accesses = Layout((64, 80), (96, 1)), ["ldmatrix.x4", "st.shared.b128"]
    found = synthesize_tile(given, accesses, element="f16", max_extra_bytes=6144)
    judge(found, 6144)
    assert found.found is not None and found.found.kind == "swizzle and padding"
    assert [pitch for pitch, _ in found.tried] == [96, 104, 112, 120, 128, 136, 144]
    for pitch in range(96, 145, 8):
        plain = Layout((64, 80), (pitch, 1))
        total, ideal = counted(plain, found.covers, (64, 80))
        assert total > ideal, "no padding alone"
    for bits, base, shift in itertools.product(range(1, 5), range(3, 8), range(-5, 6)):
        layout = ComposedLayout(Swizzle(bits, base, shift or 6), 0, given)
        assert not is_free(layout, tuple(cover.wanted[0] for cover in found.covers)), "no swizzle alone"


@pytest.mark.deep
def test_what_exists_nowhere_is_said_so_and_only_that() -> None:
    pair = ["st.shared.b128@row", "ld.shared.b32@col"]
    nowhere = synthesize_tile(Layout((32, 32), (32, 1)), pair, element="f32")
    assert "exists for these accesses, wherever" in nowhere.refusal()
    pair = ["ld.shared.b32@row", "ld.shared.b32@col"]
    other = synthesize_tile(Layout((48, 36), (36, 1)), pair, element="f32")
    assert other.found is None and "exists" not in other.refusal() and "were not searched" in other.refusal()
    with pytest.raises(ArgumentTypeError, match="nothing to refuse"):
        synthesize_tile(Layout((64, 64), (64, 1)), ["ldmatrix.x4"], element="f16").refusal()


def test_a_stage_that_no_longer_fits_moves_and_it_is_said() -> None:
    """Padding takes 9216 of a stage's 8192 elements: the stride changes; 10000 leaves room, and stays."""
    for given, extra in (((64, 64, 3), 4096), ((64, 64, 3), 4608)):
        ring = Layout(given, (64, 1, extra))
        found = synthesize_tile(ring, ["ldmatrix.x4"], element="f16", max_extra_bytes=1 << 14)
        padded = next(choice for choice in found.ranking if choice.kind == "padding")
        kept = padded.layout(0, 0, 1) - padded.layout(0)
        assert kept == max(extra, 64 * 72) and padded.extra_bytes == 2 * (64 * 8 + 2 * (kept - extra))


def test_head_dims_that_do_not_tile_name_what_does() -> None:
    found = synthesize_tile(Layout((64, 72), (72, 1)), ["ldmatrix.x4"], element="f16")
    (cover,), (others,) = found.covers, found.others
    assert [piece.op for piece in cover.pieces] == ["ldmatrix.x4", "ldmatrix.x2"]
    assert [str(other) for other in others] == [
        "ldmatrix.x2 on (64,72) at (0,0)",
        "ldmatrix.x1 on (64,72) at (0,0)",
    ]
    assert found.ways(0)[0][1][:2] == (20, 72)


def test_the_ranking_is_by_wavefronts_memory_index_tma_and_wgmma() -> None:
    lengths: dict[str, int] = {}

    def cost(layout: AnyLayout) -> int:
        return lengths.setdefault(str(layout), len(str(layout)))

    found = synthesize_tile(
        Layout((64, 64), (64, 1)), ["ldmatrix.x4"], element="f16", index_instructions=cost
    )
    keys = [
        (c.total, c.extra_bytes, c.index_instructions, c.tma == "no", c.wgmma == "no") for c in found.ranking
    ]
    assert keys == sorted(keys) and all(c.index_instructions == len(str(c.layout)) for c in found.ranking)
    assert found.found in found.ranking and found.found is not None and found.found.index_instructions
    assert len({choice.layout for choice in found.ranking}) == len(found.ranking)


@each(
    ("layout", "element", "tma", "wgmma"),
    [
        (ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1))), "f16", "128B", "A and B"),
        (ComposedLayout(Swizzle(2, 3, 3), 0, Layout((64, 32), (32, 1))), "f16", "64B", "A and B"),
        (Layout((64, 64), (64, 1)), "f16", "none", "no"),
        (Layout((64, 64), (72, 1)), "f16", "no", "no"),
        (ComposedLayout(Swizzle(3, 3, 3), 0, Layout((8, 64), (64, 1))), "f16", "128B", "B"),
        (ComposedLayout(Swizzle(3, 3, 4), 0, Layout((64, 64), (128, 1))), "f16", "no", "no"),
        (Layout((32, 32), (32, 1)), "f32", "none", "no"),
    ],
)
def test_compatibility(layout: AnyLayout, element: str, tma: str, wgmma: str) -> None:
    what = dtype(element)
    assert tma_mode(layout, layout.shape, what, "row", SM_90) == tma
    assert wgmma_operands(layout, what, SM_90) == wgmma
    assert wgmma_operands(layout, what, ARCHS["sm_80"]) == "no"
    assert tma_mode(layout, layout.shape, what, "row", ARCHS["sm_80"]) == "no"


OPS = ("ldmatrix.x4", "ldmatrix.x2", "st.shared.b128", "cp.async.16", "ld.shared.b32", "ld.shared.b64@row",
       "st.shared.b32@col", "ld.shared.b128@col")  # fmt: skip


def kinds_of_random_tiles(seed: int, rounds: int) -> dict[str, int]:
    """Random tiles, each answer judged; how many of each kind."""
    rng = random.Random(seed)
    count: dict[str, int] = {}
    for _ in range(rounds):
        rows, run = 8 * rng.randint(1, 6), 8 * rng.randint(1, 10)
        pitch = run + rng.choice((0, 0, 8, 16, 24))
        modes = [(rows, pitch), (run, 1)]
        if rng.random() < 0.4:
            modes.append((rng.choice((2, 3)), rows * pitch + rng.choice((0, 0, 8, 512))))
        if rng.random() < 0.3:
            rng.shuffle(modes)
        given = Layout(tuple(m[0] for m in modes), tuple(m[1] for m in modes))
        accesses = rng.sample(OPS, rng.randint(1, 2))
        if read_tile(given).order == "col":
            accesses = [op.replace("x4", "x4.trans").replace("x2", "x2.trans") for op in accesses]
        extra = rng.choice((0, 0, 2048))
        try:
            found = synthesize_tile(given, accesses, element="f16", max_extra_bytes=extra)
        except ShapeError:
            continue
        judge(found, extra)
        kind = "none" if found.found is None else found.found.kind
        count[kind] = count.get(kind, 0) + 1
    return count


@pytest.mark.deep
def test_random_tiles_at_length() -> None:
    count = kinds_of_random_tiles(12, 300)
    assert {"swizzle", "plain", "padding", "none"} <= set(count), count


@each(
    ("words", "error", "part"),
    [
        ({"max_extra_bytes": -1}, ShapeError, "max_extra_bytes is -1"),
        ({"given": Layout((8, 8), (16, 2))}, ShapeError, "no contiguous mode"),
        ({"accesses": ["ld.global.b32"]}, LayoutAlgError, "synthesis places shared memory"),
        ({"accesses": []}, LayoutAlgError, "accesses is empty"),
    ],
)
def test_what_is_refused(words: dict[str, Any], error: type[LayoutAlgError], part: str) -> None:
    question: dict[str, Any] = {
        "given": Layout((64, 64), (64, 1)),
        "accesses": ["ldmatrix.x4"],
        "element": "f16",
    } | words
    with pytest.raises(error, match=part):
        synthesize_tile(**question)
