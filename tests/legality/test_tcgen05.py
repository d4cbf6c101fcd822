"""tcgen05: products beside CUTLASS's instruction descriptors, operands, loads, and repaired requests."""

from __future__ import annotations

import re
from collections.abc import Callable
from itertools import product
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.algebra import tile_to_shape
from layoutalg.arch import SMEM_ATOMS, TCGEN05_KINDS, atom_layout, decode_descriptor, tmem_accumulator
from layoutalg.atoms import TMEM_SHAPES, find_mma_atom, tmem_load_tv
from layoutalg.errors import LayoutAlgError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from layoutalg.legality import (
    Legality,
    Tcgen05Instruction,
    check_tcgen05,
    check_tcgen05_access,
    check_tcgen05_operand,
    check_wgmma,
    nearest_legal,
)
from tests.atoms.test_blackwell import ROWS
from tests.sweeps import each

TYPES = sorted({name for kind in TCGEN05_KINDS.values() for name in kind.operands} | {"f32", "s4"})


def judged(row: dict[str, Any]) -> Legality[Tcgen05Instruction]:
    """The verdict on a row of CUTLASS's."""
    atom = find_mma_atom(row["atom"])
    majors = re.findall(r"Major::(\w+)", row["atom"])
    scale = None if atom.scales is None else f"{atom.scales.dtype},{atom.scales.block}"
    return check_tcgen05(
        atom.dtypes.a, atom.dtypes.b, atom.dtypes.d, *atom.shape_mnk[:2], scale=scale, ctas=atom.threads,
        kind=atom.ptx.partition("kind::")[2].partition(".")[0], a_major=majors[0], b_major=majors[1],
        a_source=atom.a_in, descriptor=row["idesc"],
    )  # fmt: skip


WIDE_CHUNKS = ComposedLayout(Swizzle(2, 4, 2), 0, Layout((64, 64), (64, 1)))
"""A K-major tile of f16 in chunks of 32 bytes."""

UMMA = [row for row in ROWS if "idesc" in row and "SPARSE" not in row["atom"]]
"""The rows of dense products: a request cannot say that A is sparse."""


@each("row", UMMA[::150])
def test_the_descriptor_is_cutlasss(row: dict[str, Any]) -> None:
    found = judged(row).require()
    assert found.descriptor == row["idesc"]
    assert found.ptx.startswith(find_mma_atom(row["atom"]).ptx)


@pytest.mark.deep
def test_every_descriptor_is_cutlasss() -> None:
    """But for what PTX rules out of M- and N-major operands and CUTLASS does not assert."""
    refused = set()
    for row in UMMA:
        report = judged(row)
        if report.legal:
            assert report.require().descriptor == row["idesc"], row["atom"]
        else:
            assert "Major::MN" in row["atom"], row["atom"]
            refused.add((re.sub("(_2x1SM)?_SS<.*", "", row["atom"]), *report.broken))
    assert refused == {("SM100_MMA_MXF8F6F4", "tcgen05.n"), ("SM100_MMA_MXF4", "tcgen05.transpose")}


@given(st.data())
def test_what_is_refused_has_a_legal_neighbour(data: st.DataObject) -> None:
    """The nearest request is legal, and a legal one is left as it is."""
    draw = data.draw
    asked: dict[str, object] = {
        "a": draw(st.sampled_from(TYPES)), "b": draw(st.sampled_from(TYPES)),
        "accumulator": draw(st.sampled_from(["f16", "f32", "s32"])), "m": draw(st.integers(1, 300)),
        "n": draw(st.integers(1, 300)), "ctas": draw(st.sampled_from([1, 2])), "ws": draw(st.booleans()),
        "scale": draw(st.sampled_from([None, "ue8m0,32", "ue4m3,16", "ue8m0,16"])),
        "a_major": draw(st.sampled_from(["K", "MN"])), "b_major": draw(st.sampled_from(["K", "MN"])),
        "a_source": draw(st.sampled_from(["shared", "tensor"])), "column": draw(st.integers(0, 600)),
        "arch": draw(st.sampled_from(["sm_100", "sm_103"])),
    }  # fmt: skip
    report, found = check_tcgen05(**asked), nearest_legal(check_tcgen05, asked)  # type: ignore[arg-type]
    assert found is not None and found.report.legal
    assert report.legal == (not found.changes)
    if report.legal:
        assert report.result is not None and report.result.shape[:2] == (asked["m"], asked["n"])


def test_products_are_those_of_the_kinds() -> None:
    """Every M and N of every kind, by one CTA and by two."""
    for kind, ctas in product(TCGEN05_KINDS.values(), (1, 2)):
        a, d = kind.operands[0], kind.accumulators[-1]
        scale = ",".join(map(str, kind.blocks[-1])) if kind.blocks else None
        for m, n in product((32, 64, 128, 256), range(8, 265, 56)):
            report = check_tcgen05(a, a, d, m, n, kind=kind.name, scale=scale, ctas=ctas)
            assert report.legal == (m in kind.rows(ctas) and n in kind.columns(ctas)), report


@each(
    ("arguments", "rule", "fix"),
    [
        (("f16", "bf16", "f16", 128, 64), "tcgen05.accumulator", {"accumulator": "f32"}),
        (("f16", "tf32", "f32", 128, 64), "tcgen05.type", {"b": "f16"}),
        (("s8", "s8", "s32", 128, 64, {"arch": "sm_103"}), "tcgen05.kind", {"arch": "sm_100"}),
        (("f64", "f64", "f64", 128, 64), "tcgen05.type", {"a": "f16", "b": "f16"}),
        (("e4m3", "e4m3", "f32", 128, 64, {"scale": "ue4m3,16"}), "tcgen05.scale", {"scale": "ue8m0,32"}),
        (("tf32", "tf32", "f32", 128, 64, {"scale": "ue8m0,32"}), "tcgen05.scale", {"scale": None}),
        (("e2m1", "e2m1", "f32", 128, 64, {"scale": "ue8m0,32", "a_major": "MN"}), "tcgen05.transpose",
         {"a_major": "K"}),
        (("f16", "f16", "f32", 128, 64, {"a_major": "MN", "a_source": "tensor"}), "tcgen05.source",
         {"a_major": "K"}),
        (("f16", "f16", "f32", 128, 64, {"ws": True, "ctas": 2}), "tcgen05.ws", {"ws": False}),
        (("e5m2", "e5m2", "f32", 128, 24, {"b_major": "MN"}), "tcgen05.n", {"n": 16}),
        (("s8", "u8", "s32", 64, 40), "tcgen05.n", {"n": 32}),
        (("f16", "f16", "f32", 128, 256, {"column": 384}), "tcgen05.columns", {"column": 256}),
        (("f16", "f16", "f32", 128, 256, {"descriptor": 0x8400090}), "tcgen05.instruction",
         {"descriptor": 0x8400010}),
    ],
)  # fmt: skip
def test_a_broken_rule_names_its_neighbour(
    arguments: tuple[Any, ...], rule: str, fix: dict[str, Any]
) -> None:
    *given_, last = arguments
    options = last if isinstance(last, dict) else {}
    report = check_tcgen05(*(given_ if options else arguments), **options)
    assert report.broken == (rule,) and dict(report.violations[0].fix) == fix


@each("element", ["f16", "bf16", "e4m3", "s8"])
def test_operands_of_16_and_8_bits_are_wgmmas_with_the_descriptor_of_sm_100(element: str) -> None:
    for name, atom in SMEM_ATOMS.items():
        if atom.mode.sm_90_code is None or (atom.major == "MN" and element != "f16"):
            continue
        tile = tile_to_shape(atom_layout(name, element), (128, 128))
        ours = check_tcgen05_operand(tile, element, "B", n=128).require()
        theirs = check_wgmma(tile, element, "B", n=128).require()
        assert ours.blocks == theirs.blocks
        value = ours.descriptor(0, 1)
        assert (value.form, value.start_bytes) == ("sm_100", theirs.descriptor(0, 1).start_bytes)


def test_bytes_may_be_m_major_and_tf32_in_chunks_of_32_bytes() -> None:
    bytes_ = tile_to_shape(atom_layout("Layout_MN_SW128_Atom", "e4m3"), (128, 64))
    assert check_tcgen05_operand(bytes_, "e4m3", "A").require().canonical.major == "MN"
    for name, legal in (("Layout_MN_SW128_32B_Atom", True), ("Layout_MN_SW128_Atom", False)):
        words = tile_to_shape(atom_layout(name, "tf32"), (128, 64))
        report = check_tcgen05_operand(words, "tf32", "A")
        assert report.legal == legal
        if not legal:
            found = nearest_legal(check_tcgen05_operand, {"layout": words, "element": "tf32", "operand": "A"})
            assert found is not None and found.report.legal
    packed = tile_to_shape(atom_layout("Layout_MN_SW128_Atom", "e2m1"), (256, 64))
    assert check_tcgen05_operand(packed, "e2m1", "B", n=256).broken == ("tcgen05.transpose",)
    narrow = tile_to_shape(atom_layout("Layout_K_SW128_Atom", "u8"), (128, 128))
    found_ = check_tcgen05_operand(narrow, "e3m2", "A", kind="mxf8f6f4").require()
    assert found_.k == 32 and found_.element.name == "u8"


def test_a_cta_of_two_reads_half_of_the_rows() -> None:
    tile = tile_to_shape(atom_layout("Layout_K_SW128_Atom", "f16"), (128, 64))
    assert check_tcgen05_operand(tile, "f16", "A", m=256, ctas=2).require().rows == 128
    assert dict(check_tcgen05_operand(tile, "f16", "A", m=96).violations[0].fix) == {"m": 64}
    found = check_tcgen05_operand(tile, "f16", "A").require().descriptor()
    assert decode_descriptor(0x4000404000010000, "sm_100") == found


@each("shape", list(TMEM_SHAPES))
def test_loads_reach_the_lanes_of_their_warp(shape: str) -> None:
    """Four warps move every cell that tmem_load_tv gives to their threads, and no other."""
    height, bits, _ = TMEM_SHAPES[shape]
    columns = bits // 32
    cells = set()
    for warp in range(4):
        for lane in range(32 * warp, 32 * warp + 32, height):
            found = check_tcgen05_access(f"tcgen05.ld.{shape}.x1", warp=warp, lane=lane).require()
            cells |= {(x, y) for x in found.lanes for y in found.columns}
    tv = tmem_load_tv(128, columns, shape)
    assert cells == {(tv(i) % 128, tv(i) // 128) for i in range(128 * columns)}
    for warp, lane in product(range(4), range(0, 128, 8)):
        own = lane // 32 == warp and lane % height == 0
        assert check_tcgen05_access(f"tcgen05.st.{shape}.x1", warp=warp, lane=lane).legal == own


def test_a_load_says_how_much_of_an_accumulator_it_moves() -> None:
    place = tmem_accumulator(64, 96)[1]
    report = check_tcgen05_access("tcgen05.ld.sync.aligned.16x256b.x2.b32", place, warp=5, lane=32)
    assert report.notes == ("256 of the 256 cells that are moved hold elements of ((16,4),96):((1,32),128)",)
    upper = check_tcgen05_access("tcgen05.ld.16x256b.x2", place, warp=1, lane=48)
    assert upper.notes[0].startswith("0 of the 256")


@each(
    ("error", "part", "call"),
    [
        (UnsupportedError, "sm_90 has no tcgen05; sm_100a has",
         lambda: check_tcgen05("f16", "f16", "f32", 64, 64, arch="sm_90")),
        (UnsupportedError, "mma.sync of narrow types",
         lambda: check_tcgen05_access("tcgen05.ld.32x32b.x1", arch="sm_120")),
        (UnknownNameError, "kind of tcgen05.mma",
         lambda: check_tcgen05("f16", "f16", "f32", 64, 64, kind="fp4")),
        (UnknownNameError, "number of CTAs", lambda: check_tcgen05("f16", "f16", "f32", 64, 64, ctas=3)),
        (ShapeError, "such as ue8m0,32", lambda: check_tcgen05("e4m3", "e4m3", "f32", 128, 64, scale="32")),
        (UnsupportedError, "are not described", lambda: check_tcgen05_access("tcgen05.ld.16x32bx2.x1")),
        (UnknownNameError, "load or store", lambda: check_tcgen05_access("tcgen05.ld.8x8b.x1")),
        (ShapeError, "at least 0", lambda: check_tcgen05_access("tcgen05.ld.32x32b.x1", warp=-1)),
        (LayoutAlgError, "a plain layout",
         lambda: check_tcgen05_access("tcgen05.ld.32x32b.x1", 8)),  # type: ignore[arg-type]
        (UnsupportedError, "K-major tile in mode 128B_ATOM_32B",
         lambda: check_tcgen05_operand(WIDE_CHUNKS, "f16", "A")),
        (UnknownNameError, "kind", lambda: check_tcgen05_operand(Layout((128, 64)), "f16", "A", kind="x")),
    ],
)  # fmt: skip
def test_what_is_not_understood_is_refused(
    error: type[Exception], part: str, call: Callable[[], object]
) -> None:
    with pytest.raises(error, match=re.escape(part)):
        call()
