"""check_memory: every rule broken alone, its witness and its fix; and what is legal by construction."""

from __future__ import annotations

import random
from typing import Any

import pytest

from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, LayoutAlgError, ShapeError, UnknownNameError
from layoutalg.layout import AnyLayout, ComposedLayout, Layout, Swizzle, crd2idx
from layoutalg.legality import MEMORY_RULES, check_memory, nearest_legal
from layoutalg.legality.memory_rules import read_memory_op
from tests.sweeps import each

TILE = Layout((64, 64), (64, 1))
TORN = ComposedLayout(Swizzle(3, 2, 3), 0, TILE)

ALONE: list[tuple[str, str, dict[str, Any], str, str]] = [
    ("vector.width", "ld.shared.b24", {"element": "u8"}, "a register has 24 bits", "ld.shared.b16"),
    ("vector.width", "ld.shared.b256", {}, "a register has 256 bits", "ld.shared.v4.b32"),
    ("vector.count", "ld.shared.v3.f32", {"element": "f32"}, "has 3 registers", "ld.shared.v2.b32"),
    ("vector.count", "st.shared.v8.f16", {}, "the vector has 8 registers", "st.shared.v4.b32"),
    ("vector.count", "ld.global.v8.f32", {"element": "f32"}, "has 8 registers", "ld.global.v4.b32"),
    ("vector.bytes", "ld.global.v4.f64", {"element": "f64"}, "a lane moves 32 bytes", "ld.global.v4.b32"),
    ("vector.bytes", "ld.shared.v4.f64", {"element": "f64", "arch": "sm_100"}, "32 bytes",
        "ld.shared.v4.b32"),
    ("vector.element", "ld.shared.b32", {"element": "f64"}, "a lane moves 4 bytes", "ld.shared.v2.b32"),
    ("vector.divides", "ld.shared.b128", {"element": "f32", "layout": Layout((32, 33), (33, 1))},
        "at (0,32) 1 is left", "ld.shared.b32"),
    ("vector.contiguous", "ld.shared.b128", {"layout": TORN}, "element 4 of a lane", "ld.shared.v2.b32"),
    ("vector.contiguous", "ld.shared.b64", {"layout": Layout((8, 8), (16, 2))}, "no leaf", "ld.shared.b16"),
    ("vector.contiguous", "ld.shared.b64", {"tv": Layout((8, 4), (1, 8)), "layout": Layout((8, 64))},
        "at (0,0) of the layout element 1 of a lane is at offset 8, not 1", "ld.shared.b16"),
    ("vector.aligned", "ld.shared.b128", {"layout": Layout((64, 64), (66, 1))}, "byte 132", "ld.shared.b32"),
    ("vector.aligned", "LDS.128", {"layout": ComposedLayout(Swizzle(3, 3, 3), 4, TILE)}, "is byte 8",
        "ld.shared.v2.b32"),
    ("vector.aligned", "LDG.E.ENL2.256", {"layout": Layout((64, 64), (72, 1)), "arch": "sm_100"},
        "byte 144", "ld.global.v4.b32"),
    ("vector.base", "ld.global.b128", {"alignment_bytes": 4}, "a multiple of 4 bytes", "16 bytes"),
    ("matrix.exists", "stmatrix.x4", {"arch": "sm_80"}, "sm_80 has no stmatrix", "sm_90"),
    ("matrix.exists", "ldmatrix.x4", {"arch": "sm_70"}, "sm_70 has no ldmatrix", "sm_75"),
    ("matrix.count", "ldmatrix.x3", {}, "moves 3 matrices", "ldmatrix.x2"),
    ("matrix.trans", "ldmatrix.x4.trans", {"element": "f32"}, "each of its 2 halves", "ldmatrix.x4"),
    ("matrix.trans", "stmatrix.x2.trans", {"element": "u8"}, "2 elements as one", "stmatrix.x2"),
    ("matrix.tile", "ldmatrix.x4", {"layout": Layout((60, 64), (64, 1))}, "the tile has 60 rows",
        "(64,64):(64,1)"),
    ("matrix.tile", "ldmatrix.x4", {"layout": Layout((16, 72), (72, 1))}, "18 matrices", "ldmatrix.x2"),
    ("matrix.tile", "ldmatrix.x4", {"layout": Layout((8, 72), (72, 1))}, "9 matrices", "ldmatrix.x1"),
    ("matrix.divides", "ldmatrix.x4", {"layout": Layout((64, 36), (36, 1))}, "at (0,32) 4 are left",
        "(64,40):(40,1)"),
    ("matrix.contiguous", "ldmatrix.x4", {"layout": TORN}, "at (0,32)", "Sw<3,3,3> o 0 o (64,64):(64,1)"),
    ("matrix.contiguous", "ldmatrix.x4", {"layout": Layout((64, 64), (128, 2))}, "no leaf", "(64,64):(64,1)"),
    ("matrix.aligned", "ldmatrix.x4", {"layout": Layout((64, 64), (68, 1))}, "at (1,0) of the layout",
        "(64,64):(72,1)"),
    ("matrix.aligned", "stmatrix.x4.trans", {"layout": Layout((64, 64), (1, 68))}, "at (0,1)",
        "(64,64):(1,72)"),
    ("matrix.base", "ldmatrix.x4", {"alignment_bytes": 8}, "a multiple of 8 bytes", "16 bytes"),
    ("copy.exists", "cp.async.16", {"arch": "sm_75"}, "sm_75 has no cp.async", "sm_80"),
    ("copy.bytes", "cp.async.ca.12", {}, "a lane copies 12 bytes", "cp.async.ca.8"),
    ("copy.bytes", "cp.async.2", {}, "a lane copies 2 bytes", "cp.async.4"),
    ("copy.bytes", "cp.async.cg.32", {}, "a lane copies 32 bytes", "cp.async.cg.16"),
    ("copy.cache", "cp.async.cg.8", {}, ".cg copies 8 bytes", "cp.async.ca.8"),
    ("copy.source_bytes", "cp.async.8", {"source_bytes": 9}, "9 bytes are read for 8", "8 bytes"),
    ("copy.element", "cp.async.4", {"element": "f64"}, "a lane moves 4 bytes", "cp.async.8"),
    ("copy.divides", "cp.async.cg.16", {"layout": Layout((64, 60), (60, 1))}, "at (0,56)", "cp.async.ca.8"),
    ("copy.contiguous", "cp.async.16", {"layout": TORN}, "at (0,32)", "cp.async.8"),
    ("copy.aligned", "cp.async.16", {"layout": Layout((64, 64), (68, 1))}, "is byte 136", "cp.async.8"),
    ("copy.aligned", "cp.async.16", {"layout": Layout((64, 64), (65, 1))}, "is byte 130", "(64,64):(72,1)"),
    ("copy.base", "cp.async.16", {"alignment_bytes": 8}, "the layout starts", "16 bytes"),
    ("copy.source_contiguous", "cp.async.16", {"source": Layout((64, 64), (1, 64))},
        "at (0,0) of the source element 1 of a lane is at offset 64, not 1", "a layout that keeps"),
    ("copy.source_aligned", "cp.async.16", {"source": Layout((64, 64), (100, 1))}, "byte 200", "cp.async.8"),
    ("copy.source_aligned", "cp.async.16", {"source": Layout((64, 64), (101, 1))}, "is byte 202",
        "source (64,64):(104,1)"),
    ("copy.source_base", "cp.async.16", {"source": TILE, "source_alignment_bytes": 4}, "the source starts",
        "16 bytes"),
]  # fmt: skip
"""Rule, instruction, what is asked beside a tile (64,64):(64,1) of f16, what is said, the nearest."""


@each(("rule", "op", "asked", "says", "nearest"), ALONE)
def test_a_rule_broken_alone(rule: str, op: str, asked: dict[str, Any], says: str, nearest: str) -> None:
    request: dict[str, Any] = {"op": op, "layout": TILE, "element": "f16", **asked}
    report = check_memory(**request)
    assert report.broken == (rule,) and report.result is None
    (violation,) = report.violations
    assert says in violation.asked and nearest in violation.change and violation.accepted
    assert rule not in report.holding and rule in [r.name for r in report.rules]
    if violation.fix:
        assert check_memory(**{**request, **dict(violation.fix)}).legal, "the fix is legal, asked again"
        found = nearest_legal(check_memory, request)
        assert found is not None and found.report.legal and found.changes == dict(violation.fix)
    else:
        assert rule == "copy.source_contiguous" and nearest_legal(check_memory, request) is None
    with pytest.raises(violation.rule.error, match=rule.replace(".", r"\.")):
        report.require()


def test_every_rule_is_broken_by_some_request() -> None:
    # A matrix row and a copy of 16 bytes hold whole elements of every type of at most 16 bytes.
    assert {rule for rule, *_ in ALONE} == set(MEMORY_RULES) - {"matrix.element"}


@each(("rule", "op", "asked", "says", "nearest"), [case for case in ALONE if " of the " in case[3]])
def test_the_witness_is_where_it_fails(
    rule: str, op: str, asked: dict[str, Any], says: str, nearest: str
) -> None:
    """The address at the witness, by the layout itself, is torn or misaligned."""
    request: dict[str, Any] = {"op": op, "layout": TILE, "element": "f16", **asked}
    (violation,) = check_memory(**request).violations
    layout: AnyLayout = request["source" if "source" in rule else "layout"]
    elems = 8 * read_memory_op(op).lane_bytes // dtype(request["element"]).bits
    index = crd2idx(violation.witness, layout.shape)
    step = request["tv"].stride[1] if "tv" in request else (64 if layout(64) - layout(0) == 1 else 1)
    if "source" in rule:
        step = 64
    start = layout(index)
    torn = any(layout(index + i * step) != start + i for i in range(elems))
    assert torn == rule.endswith("contiguous") and (torn or start % elems)


WIDTHS = {"vector": (1, 2, 4, 8, 16), "copy": (4, 8, 16)}


def legal_request(rng: random.Random) -> dict[str, Any]:
    """A request that keeps every rule by construction: whole vectors, strides of whole vectors."""
    element = rng.choice(("u8", "f16", "f32", "f64"))
    family = rng.choice(("vector", "matrix", "copy"))
    nbytes = dtype(element).nbytes
    if family == "matrix":
        lane_bytes, count = 16, rng.choice((1, 2, 4))
        trans = ".trans" if element == "f16" and rng.random() < 0.5 else ""
        op = f"{rng.choice(('ldmatrix', 'stmatrix'))}.x{count}{trans}"
        rows, vectors = 8 * rng.randint(1, 6), count * rng.randint(1, 6)
    else:
        lane_bytes = rng.choice([n for n in WIDTHS[family] if n >= nbytes])
        op = f"{rng.choice(('ld', 'st'))}.{rng.choice(('shared', 'global'))}.b{8 * lane_bytes}"
        if family == "copy":
            op = f"cp.async{rng.choice(('', '.ca', '.cg' if lane_bytes == 16 else ''))}.{lane_bytes}"
        rows, vectors = rng.randint(1, 50), rng.randint(1, 12)
    elems = lane_bytes // nbytes
    run = elems * vectors
    pitch = run + elems * rng.randint(0, 5)
    shape, stride = (rows, run), (pitch, 1)
    if rng.random() < 0.3:
        shape, stride = (run, rows), (1, pitch)
    layout: AnyLayout = Layout(shape, stride)
    if rng.random() < 0.5:
        low = elems.bit_length() - 1
        layout = ComposedLayout(
            Swizzle(rng.randint(1, 3), low + rng.randint(0, 2), rng.choice((1, -1)) * rng.randint(3, 5)),
            elems * rng.randint(0, 3),
            layout,
        )
    request = {
        "op": op,
        "layout": layout,
        "element": element,
        "alignment_bytes": lane_bytes * rng.choice((1, 4)),
    }
    if family == "copy" and rng.random() < 0.5:
        wide = pitch + elems * rng.randint(0, 9)
        request["source"] = Layout(shape, (wide, 1) if stride[1] == 1 else (1, wide))
    return request


def test_what_is_legal_by_construction_is_legal() -> None:
    rng = random.Random(17)
    for _ in range(400):
        request = legal_request(rng)
        report = check_memory(**request)
        assert report.legal, f"{request}: {report}"
        family = read_memory_op(request["op"]).family
        asked = {name for name in MEMORY_RULES if name.startswith(family)}
        beside = {name for name in asked if ".source" in name} - {"copy.source_bytes"}
        assert set(report.holding) == asked - (set() if "source" in request else beside)


def test_what_is_mutated_is_repaired_or_said_to_be_none() -> None:
    """A repaired request is legal when it is asked again; each change that is named changes the verdict."""
    rng = random.Random(18)
    repaired = 0
    for _ in range(300):
        request = legal_request(rng)
        inner: Any = request["layout"]
        inner = inner.inner if isinstance(inner, ComposedLayout) else inner
        shape, stride = list(inner.shape), list(inner.stride)
        which = stride.index(max(stride))
        match rng.choice(("pitch", "extent", "scale", "base", "op")):
            case "pitch":
                stride[which] += 1
            case "extent":
                shape[1 - which] += 1
                stride[which] += 16
            case "scale":
                stride = [2 * s for s in stride]
            case "base":
                request["alignment_bytes"] = 1
            case "op":
                request["op"] = request["op"].replace("b16", "v3.b32").replace("x4", "x7").replace("ca", "cg")
        request["layout"] = Layout(tuple(shape), tuple(stride))
        request.pop("source", None)
        report = check_memory(**request)
        found = nearest_legal(check_memory, request)
        assert (found is not None and found.changes == {}) == report.legal
        if found is not None:
            assert check_memory(**{**request, **found.changes}).legal
            repaired += not report.legal
    assert repaired > 100


@each(
    ("asked", "error", "part"),
    [
        ({"op": "mov.b32"}, UnknownNameError, "unknown instruction 'mov.b32'"),
        ({"alignment_bytes": 3}, ShapeError, "alignment_bytes is 3"),
        ({"source_bytes": -1}, ShapeError, "source_bytes is -1"),
        ({"source": TILE}, ArgumentTypeError, "has no source beside its layout"),
        ({"op": "cp.async.16", "source": Layout(64)}, ShapeError, "has 64 elements"),
        ({"layout": 5}, ArgumentTypeError, "a layout is needed"),
        ({"tv": Layout((32, 4), (4, 1))}, ShapeError, "has 4 values, ldmatrix.x4 moves 8"),
        ({"tv": Layout((1024, 8), (8, 1))}, ShapeError, "give those of one warp"),
        ({"tv": Layout((32, 8), (512, 1))}, ShapeError, "reaches the flat indices 0 to 15879"),
        ({"tv": Layout(32)}, ShapeError, "is needed"),
    ],
)
def test_what_is_not_understood(asked: dict[str, Any], error: type[LayoutAlgError], part: str) -> None:
    with pytest.raises(error, match=part):
        check_memory(**{"op": "ldmatrix.x4", "layout": TILE, "element": "f16", **asked})


def test_lanes_that_supply_no_address_do_not_count() -> None:
    """ldmatrix.x1 takes the addresses of lanes 0 to 7; what lane 8 and on hold is ignored."""
    tv = Layout(((8, 4), 8), ((1, 5), 64))
    assert check_memory("ldmatrix.x1", Layout((64, 64), (72, 1)), "f16", tv=tv).legal
    assert check_memory("ldmatrix.x2", Layout((64, 65), (72, 1)), "f16", tv=tv).legal
    assert not check_memory("ldmatrix.x1", Layout((64, 64), (68, 1)), "f16", tv=tv).legal


@each(
    ("text", "name"),
    [
        ("ld.shared.v4.f32", "ld.shared.b128"), ("ld.shared::cta.v2.b64", "ld.shared.b128"),
        ("STG.E.64", "st.global.b64"), ("ldmatrix", "ldmatrix.x4"), ("LDSM.16.MT88.4", "ldmatrix.x4.trans"),
        ("stmatrix.sync.aligned.m8n8.x2.shared.b16", "stmatrix.x2"),
        ("cp.async.cg.shared.global.16", "cp.async.cg.16"),
        ("cp.async.ca.4", "cp.async.ca.4"), ("LDGSTS.E.64", "cp.async.8"),
        ("ld.shared.v5.u8", "ld.shared.v5.b8"),
        ("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "cp.async.16"),
    ],
)  # fmt: skip
def test_names(text: str, name: str) -> None:
    assert str(read_memory_op(text)) == name
