"""check_wgmma: descriptors that address exactly the layout they come from, and layouts that are refused."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import (
    HOPPER_MODES,
    SMEM_ATOMS,
    WGMMA_TYPES,
    Major,
    SmemAtom,
    SmemDescriptor,
    atom_layout,
    decode_descriptor,
    encode_descriptor,
)
from layoutalg.decide import same_function
from layoutalg.dtype import dtype
from layoutalg.errors import ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle
from layoutalg.legality import (
    WGMMA_RULES,
    WgmmaOperand,
    check_wgmma,
    check_wgmma_instruction,
    nearest_legal,
    recognize,
)
from layoutalg.legality.canonical import element_address, operand_shape, restrict
from layoutalg.legality.wgmma import SharedOperand
from layoutalg.legality.wgmma_rules import diagnose, nearest_layout
from tests.sweeps import each

READS: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "h200_wgmma_reads.jsonl").open(encoding="utf-8")
]
ATOMS = [atom for atom in SMEM_ATOMS.values() if atom.mode.sm_90_code is not None]


def test_what_an_h200_read() -> None:
    """The address of every 16-byte chunk that wgmma read, found by multiplying with unit vectors."""
    for row in READS:
        mn, k = row["shape"]
        chunk = 16 // dtype(row["element"]).nbytes
        descriptor = SmemDescriptor(
            **{name: row[name] for name in ("start_bytes", "lbo_bytes", "sbo_bytes", "mode")},
            base_offset=row.get("base_offset", 0),
        )
        lines, places = (mn, k) if row["major"] == "K" else (k, mn)
        for line in range(lines):
            for place in range(0, places, chunk):
                crd = (line, place) if row["major"] == "K" else (place, line)
                address = element_address(descriptor, row["major"], row["element"], *crd)
                assert address == row["chunks"][line][place // chunk], (row, crd)
    assert len(READS) == 184
    assert {(row["mode"], row["major"]) for row in READS} == {
        (m.name, j) for m in HOPPER_MODES for j in ("K", "MN")
    }
    assert {row.get("base_offset", 0) for row in READS} == set(range(8))


def check_addresses(operand: WgmmaOperand, layout: AnyLayout, rows: int) -> None:
    """Every element of the tile, through the descriptor of its instruction, is where the layout says."""
    element_bytes = operand.element.nbytes
    for i, line in enumerate(operand.blocks):
        for j, block in enumerate(line):
            descriptor = operand.descriptor(i, j)
            assert decode_descriptor(encode_descriptor(descriptor)) == descriptor
            for row in range(0, rows, 3):
                for k in range(operand.k):
                    place = operand.base_bytes + layout(i * rows + row, j * operand.k + k) * element_bytes
                    assert element_address(descriptor, block.major, operand.element, row, k) == place


@st.composite
def tiles(draw: st.DrawFn) -> tuple[AnyLayout, str, SharedOperand, SmemAtom, int]:
    """A tile of whole atoms and whole instructions, in either order of atoms: legal by construction."""
    atom = draw(st.sampled_from(ATOMS))
    types = [t.name for t in WGMMA_TYPES.values() if t.transposable or atom.major == "K"]
    element = draw(st.sampled_from([t for t in types if t != "b1"]))
    operand: SharedOperand = draw(st.sampled_from(("A", "B")))
    width = 8 * atom.mode.row_bytes // dtype(element).bits
    step = width if atom.major == "MN" else 8
    sizes = [n for n in WGMMA_TYPES[element].n_sizes if n % step == 0 and n <= 128]
    n = 64 if operand == "A" else draw(st.sampled_from(sizes))
    mn = n * draw(st.integers(1, 2))
    k_step = WGMMA_TYPES[element].k if atom.major == "MN" else max(width, WGMMA_TYPES[element].k)
    shape = (mn, k_step * draw(st.integers(1, 2)))
    order = draw(st.sampled_from(((0, 1), (1, 0))))
    return tile_to_shape(atom_layout(atom, element), shape, order), element, operand, atom, n


@given(tiles(), st.integers(0, 20), st.data())
def test_tiles_of_atoms_are_legal(
    drawn: tuple[AnyLayout, str, SharedOperand, SmemAtom, int], block: int, data: st.DataObject
) -> None:
    layout, element, operand, atom, n = drawn
    major: Major | None = data.draw(st.sampled_from((None, atom.major)))
    report = check_wgmma(layout, element, operand, major=major, n=n, base_bytes=1024 * block)
    found = report.require()
    assert (found.canonical.mode, found.canonical.major) == (atom.mode, atom.major)
    assert (found.rows, found.base_offset, report.notes) == (n, 0, ())
    check_addresses(found, layout, n)


@given(tiles(), st.integers(1, 7))
def test_a_pattern_between_two_repetitions_takes_a_base_offset(
    drawn: tuple[AnyLayout, str, SharedOperand, SmemAtom, int], phase: int
) -> None:
    layout, element, operand, atom, n = drawn
    report = check_wgmma(layout, element, operand, n=n, base_bytes=4096 + 128 * phase)
    found = report.require()
    repeats = atom.mode.period_bytes // 128
    assert found.base_offset == (phase % repeats if atom.mode.swizzle.bits else 0)
    assert ("TMA" in "".join(report.notes)) == (found.base_offset > 0)
    check_addresses(found, layout, n)


def test_steps_of_the_low_word() -> None:
    tile = tile_to_shape(atom_layout("Layout_K_SW128_Atom", "bf16"), (128, 128))
    a = check_wgmma(tile, "bf16", "A", base_bytes=2048).require()
    assert a.advance("K") == (0, 2, 4, 6, 1024, 1026, 1028, 1030) and a.advance("MN") == (0, 512)
    first = encode_descriptor(a.descriptor())
    assert [encode_descriptor(a.descriptor(1, j)) - first for j in range(8)] == [
        512 + x for x in a.advance("K")
    ]
    columns = tile_to_shape(atom_layout("Layout_MN_SW128_Atom", "f16"), (256, 64))
    b = check_wgmma(columns, "f16", "B", n=128).require()
    assert str(b) == (
        "B f16 128 x 16, MN-major 128B: LBO 1024, SBO 4096 bytes; low word + (0, 512, 1024, 1536) along K, "
        "+ (0, 128) along N"
    )


def test_n_is_chosen_or_given() -> None:
    tile = tile_to_shape(atom_layout("Layout_K_SW64_Atom", "f16"), (384, 32))
    assert check_wgmma(tile, "f16", "B").require().rows == 192
    assert check_wgmma(tile, "f16", "B", n=128).require().rows == 128
    assert (
        check_wgmma(tile_to_shape(atom_layout("Layout_K_SW32_Atom", "s8"), (80, 32)), "s8", "B")
        .require()
        .rows
        == 80
    )


def test_equivalent_layouts_are_accepted() -> None:
    """The same function, spelled as no template would: chains, nested and flat modes, a useless swizzle."""
    plain = Layout((64, 64), (64, 1))
    spelled: list[AnyLayout] = [
        ComposedLayout(Swizzle(3, 3, 3), 0, plain),
        ComposedLayout(
            (Swizzle(1, 3, 3), Swizzle(2, 4, 3)), 0, Layout(((8, 2, 4), (16, 4)), ((64, 512, 1024), (1, 16)))
        ),
        ComposedLayout(Swizzle(2, 20, 4), 0, ComposedLayout(Swizzle(3, 3, 3), 0, plain)),
        ComposedLayout(Layout((64, 64)), 0, ComposedLayout(Swizzle(3, 3, 3), 0, plain)),
    ]
    results = {str(check_wgmma(layout, "f16", "A").require()) for layout in spelled}
    assert results == {
        "A f16 64 x 16, K-major 128B: LBO 16, SBO 1024 bytes; low word + (0, 2, 4, 6) along K, + (0) along M"
    }


def test_gaps_between_atoms_are_legal() -> None:
    """Groups of eight rows 1280 bytes apart, no multiple of the period: read as written (see the data)."""
    layout = ComposedLayout(Swizzle(3, 3, 3), 0, Layout(((8, 8), 64), ((64, 640), 1)))
    found = check_wgmma(layout, "f16", "A").require()
    assert found.canonical.sbo_bytes == 1280
    check_addresses(found, layout, 64)


SW128 = ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 64), (64, 1)))
BROKEN: list[tuple[str, AnyLayout, dict[str, Any], str, str]] = [
    ("wgmma.type", SW128, {"element": "f32"}, "operands of f32", "tf32"),
    ("wgmma.n", SW128, {"operand": "B", "n": 60}, "N is 60 for f16", "64"),
    ("wgmma.n", SW128, {"operand": "B", "n": 40, "element": "s8"}, "N is 40 for s8", "32"),
    ("wgmma.extent", Layout((100, 64), (64, 1)), {}, "the tile has 100 elements along M", "((8,16),(64,1))"),
    ("wgmma.extent", Layout((64, 24), (24, 1)), {}, "the tile has 24 elements along K", "((8,8),(32,1))"),
    ("wgmma.transpose", Layout((64, 32), (1, 64)), {"element": "e4m3"}, "operand A of e4m3 is MN-major",
        "Sw<1,4,3> o 0 o"),
    ("wgmma.transpose", SW128, {"element": "tf32", "major": "MN"}, "operand A of tf32 is MN-major",
        "Sw<3,2,3>"),
    ("wgmma.major", SW128, {"major": "MN"}, "the layout is K-major of mode 128B", "major K"),
    ("wgmma.major", atom_layout("Layout_MN_SW128_Atom", "f16"), {"major": "K", "cut": (64, 16)},
        "the layout is MN-major of mode 128B", "major MN"),
    ("wgmma.major", Layout((64, 32), (1, 72)), {"major": "K"}, "the layout is contiguous along M or N",
        "Sw<2,3,3>"),
    ("wgmma.chunk", Layout((64, 64), (128, 2)), {}, "8 elements along the major mode are not contiguous",
        "Sw<3,3,3>"),
    ("wgmma.pitch", Layout((64, 64), (72, 1)), {}, "144 bytes apart", "Sw<3,3,3>"),
    ("wgmma.pitch", Layout((64, 256), (256, 1)), {}, "512 bytes apart", "Sw<3,3,3>"),
    ("wgmma.swizzle", Layout((64, 64), (64, 1)), {}, "the swizzle is none", "Sw<3,3,3> o 0 o (64,64):(64,1)"),
    ("wgmma.swizzle", ComposedLayout(Swizzle(2, 3, 3), 0, Layout((64, 64), (64, 1))), {},
        "the swizzle is Sw<2,3,3>", "Sw<3,3,3> o 0 o (64,64):(64,1)"),
    ("wgmma.swizzle", ComposedLayout(Swizzle(3, 3, 3), 0, Layout((64, 32), (32, 1))), {},
        "the swizzle is Sw<3,3,3>", "Sw<2,3,3> o 0 o (64,32):(32,1)"),
    ("wgmma.swizzle", ComposedLayout(Swizzle(3, 3, 3), 0, Layout(((8, 8), (8, 8)), ((8, 512), (1, 64)))), {},
        "the swizzle is Sw<3,3,3>", "((8,8),(8,8)):((8,512),(1,64))"),
    ("wgmma.atom", Layout((96, 16), (1, 64)), {"operand": "B"}, "rows of mode 128B have 64 elements, an "
        "instruction takes 96", "Sw<2,3,3> o 0 o ((32,3),(8,2))"),
    ("wgmma.repeat", ComposedLayout(Swizzle(3, 3, 3), 0, Layout(((8, 4, 2), 64), ((64, 512, 4096), 1))), {},
        "number 4 of the groups of 8 rows is 8192 bytes on", "Sw<3,3,3>"),
    ("wgmma.start", SW128, {"base_bytes": 8}, "the tile of mode 128B starts at byte 8", "byte 1024"),
    ("wgmma.start", Layout(((8, 8), (8, 2)), ((8, 64), (1, 512))), {"base_bytes": 24},
        "the tile of mode none starts at byte 24", "byte 32"),
    ("wgmma.start", ComposedLayout(Swizzle(0, 0, 0), 4, Layout(((8, 8), (8, 2)), ((8, 64), (1, 512)))), {},
        "instruction (0,0) starts 8 bytes into the tile", "Sw<1,3,3>"),
    ("wgmma.offset", Layout(((8, 8), (8, 2)), ((8, 68), (1, 1024))), {}, "has SBO 136 bytes", "Sw<1,3,3>"),
    ("wgmma.offset", ComposedLayout(Swizzle(3, 3, 3), 0, Layout(((8, 8), 64), ((64, 1 << 17), 1))), {},
        "has SBO 262144 bytes", "Sw<3,3,3>"),
    ("wgmma.offset", SW128, {"base_bytes": 1 << 18}, "has start 262144 bytes", "a base of 261120 bytes"),
    ("wgmma.descriptor", SW128, {"descriptor": 0x4000004000010042}, "the descriptor has start_bytes 1056",
        "0x4000004000010000"),
    ("wgmma.descriptor", SW128, {"descriptor": 0x8000002000010000}, "sbo_bytes 512, mode 64B",
        "0x4000004000010000"),
    ("wgmma.descriptor", SW128, {"descriptor": 1 << 15}, "bits 15 belong to no field", "0x4000004000010000"),
]  # fmt: skip
"""Rule, layout, what is asked beside operand A of f16, what the report says, and the nearest change."""


@each(("rule", "layout", "asked", "says", "nearest"), BROKEN)
def test_a_broken_rule(rule: str, layout: AnyLayout, asked: dict[str, Any], says: str, nearest: str) -> None:
    asked = dict(asked)
    cut = asked.pop("cut", None)
    request: dict[str, Any] = {"element": "f16", "operand": "A", "layout": layout, **asked}
    if cut:
        request["layout"] = tile_to_shape(layout, cut)
    report = check_wgmma(**request)
    assert report.broken == (rule,)
    violation = report.violations[0]
    assert says in violation.asked and nearest in violation.change and violation.accepted
    legal = nearest_legal(check_wgmma, request)
    assert legal is not None and check_wgmma(**{**request, **legal.changes}).legal
    with pytest.raises(violation.rule.error, match=rule.replace(".", r"\.")):
        report.require()


MUTATIONS = ("swizzle", "pitch", "transpose", "stride", "base", "cut", "far")
ONE_ATOM = tile_to_shape(atom_layout("Layout_K_SW32_Atom", "f16"), (8, 16))


@example((ONE_ATOM, "f16", "B", SMEM_ATOMS["Layout_K_SW32_Atom"], 8), "swizzle")
@given(tiles(), st.sampled_from(MUTATIONS))
def test_mutated_tiles_are_refused_by_the_right_rule(
    drawn: tuple[AnyLayout, str, SharedOperand, SmemAtom, int], mutation: str
) -> None:
    layout, element, operand, atom, n = drawn
    inner = layout.inner if isinstance(layout, ComposedLayout) else layout
    assert isinstance(inner, Layout)
    bits = dtype(element).bits
    request: dict[str, Any] = {"element": element, "operand": operand, "major": atom.major, "n": n}
    swizzle = atom.mode.in_elements(bits)
    width = 8 * atom.mode.row_bytes // bits
    shape, stride = inner.shape, inner.stride
    assert isinstance(shape, tuple) and isinstance(stride, tuple)
    minor = 0 if atom.major == "K" else 1
    if mutation == "swizzle":
        wrong = Swizzle(swizzle.bits % 3 + 1, swizzle.base, swizzle.shift)
        changed: AnyLayout = ComposedLayout(wrong, 0, inner)
        rules = {"wgmma.swizzle"}
    elif mutation in ("pitch", "stride", "far"):
        old = {"pitch": width, "stride": 1}.get(mutation)
        new = {"pitch": width + 128 // bits, "stride": 2, "far": 1 << 23}[mutation]
        changed = ComposedLayout(swizzle, 0, Layout(shape, tuple(_replaced(s, old, new) for s in stride)))
        rules = {"pitch": {"wgmma.pitch"}, "stride": {"wgmma.chunk"}, "far": {"wgmma.offset"}}[mutation]
        if mutation == "far":
            if not any(isinstance(s, tuple) and s[-1] for s in stride):
                return
            rules = {"wgmma.offset", "wgmma.repeat"}
        elif mutation == "pitch" and atom.mode.name == "none":
            rules = {"wgmma.pitch", "wgmma.swizzle", "wgmma.repeat", "wgmma.atom"}  # 32 bytes is a pitch too
    elif mutation == "transpose":
        changed = layout
        request["major"] = "MN" if atom.major == "K" else "K"
        rules = {"wgmma.major", "wgmma.transpose"}
    elif mutation == "base":
        changed, request["base_bytes"], rules = layout, 1024 + 8, {"wgmma.start"}
    else:
        cut = (n - 4, WGMMA_TYPES[element].k) if minor == 0 else (n, WGMMA_TYPES[element].k - 8)
        changed, rules = Layout(cut), {"wgmma.extent"}
    report = check_wgmma(changed, **request)
    if mutation == "swizzle" and same_function(changed, layout):
        assert report.legal, "a tile too small to tell the swizzles apart"
        return
    assert report.broken and set(report.broken) <= rules, (str(changed), report)
    assert nearest_legal(check_wgmma, {**request, "layout": changed}) is not None


def _replaced(value: Any, old: int | None, new: int) -> Any:
    """Strides with `old` replaced; without `old`, the last stride of a tuple."""
    if isinstance(value, tuple):
        return (
            (*value[:-1], new) if old is None and value[-1] else tuple(_replaced(v, old, new) for v in value)
        )
    return new if value == old else value


@each(
    ("changes", "error", "part"),
    [
        ({"layout": Layout(64)}, ShapeError, "two modes"),
        ({"operand": "C"}, UnknownNameError, "unknown operand 'C'"),
        ({"major": "M"}, UnknownNameError, "major-ness"),
        ({"arch": "sm_80"}, UnsupportedError, "sm_80 has no wgmma"),
        ({"base_bytes": -16}, ShapeError, "base_bytes -16"),
        ({"operand": "B", "n": 0}, ShapeError, "n 0; a positive integer"),
    ],
)
def test_bad_input(changes: dict[str, Any], error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        check_wgmma(**{"layout": SW128, "element": "f16", "operand": "A", **changes})


# --- why, and the nearest ------------------------------------------------------------------------------

F16 = WGMMA_TYPES["f16"]


def test_every_rule_is_broken_by_some_request() -> None:
    by_operands = {rule for rule, *_ in BROKEN}
    by_instructions = {
        *check_wgmma_instruction("f16", "f16", "s32", 64).broken,
        *check_wgmma_instruction("f16", "f16", "f32", 64, a_source="registers", a_major="MN").broken,
    }
    assert by_operands | by_instructions == set(WGMMA_RULES)


@each("element", [name for name in WGMMA_TYPES if name != "b1"])
def test_the_nearest_layout_is_legal(element: str) -> None:
    kind = WGMMA_TYPES[element]
    majors: tuple[Major, ...] = ("K", "MN") if kind.transposable else ("K",)
    for major in majors:
        for rows in (8, 24, 64, 96, 256):
            for k in (1, kind.k, 3 * kind.k, 8 * kind.k):
                tile = nearest_layout(kind, major, (rows, k), rows)
                mn, depth = operand_shape(tile)
                assert mn == rows and k <= depth < k + kind.k
                found = check_wgmma(tile, element, "B", n=rows).require()
                assert found.canonical.major == major
                row_bits = 8 * found.canonical.mode.row_bytes
                along = depth if major == "K" else rows
                assert along * dtype(element).bits % row_bits == 0
                wider = found.canonical.mode.name == "128B" or along * dtype(element).bits % (2 * row_bits)
                assert wider, "the widest atom that fits"


@each(
    ("layout", "rule"),
    [
        (Layout((64, 16), (16, 2)), "wgmma.chunk"),  # and a pitch of 32 bytes, and no swizzle
        (Layout((64, 16), (72, 1)), "wgmma.pitch"),  # and no swizzle
        (Layout((64, 16), (64, 1)), "wgmma.swizzle"),
        (Layout(((8, 2, 4), 16), ((64, 512, 4096), 1)), "wgmma.repeat"),  # and no swizzle
        (ComposedLayout(Swizzle(1, 9, 1), 0, Layout((64, 16), (64, 1))), "wgmma.swizzle"),
        (Layout((64, 16), (1, 64)), "wgmma.major"),
    ],
)
def test_the_innermost_reason_comes_first(layout: AnyLayout, rule: str) -> None:
    assert recognize(layout, "K", "f16") is None
    assert diagnose(layout, F16, "K", layout, 64).rule.name == rule


def test_only_the_sum_of_two_digits_may_be_wrong() -> None:
    """Rows alone and chunks alone are right, together they carry: the last resort names a coordinate."""
    inner = Layout((64, (8, 2)), (8, (1, 768)))
    assert recognize(inner, "K", "f16")
    carries = ComposedLayout(Layout((1024, 2), (1, 1088)), 0, inner)
    violation = diagnose(carries, F16, "K", carries, 64)
    assert violation.rule.name == "wgmma.repeat"
    coordinate = 32 + 64 * 8  # row 32 of the second chunk is at 1024
    assert f"departs from mode none at coordinate {coordinate} of" in violation.asked


def test_later_instructions_are_diagnosed_too() -> None:
    """The first 64 rows are canonical; of the next, the second half is elsewhere than the first half asks."""
    rows = ((8, 8, 2), 16)
    tile = ComposedLayout(Swizzle(1, 3, 3), 0, Layout(rows, ((16, 128, 1 << 12), 1)))
    assert check_wgmma(tile, "f16", "A").legal
    carries = ComposedLayout(Layout((4096 + 512, 2), (1, 1 << 13)), 0, tile)
    first = restrict(carries, 0, Layout((64, 16), (1, 128)))
    assert recognize(first, "K", "f16")
    assert check_wgmma(carries, "f16", "A").broken == ("wgmma.repeat",)
    late = ComposedLayout(Swizzle(1, 3, 3), 0, Layout(rows, ((16, 128, (1 << 12) + 4), 1)))
    assert check_wgmma(late, "f16", "A").broken == ("wgmma.start",)
