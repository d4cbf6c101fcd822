"""check_tma: what a copy writes, and that the nearest legal change is legal."""

from __future__ import annotations

import json
import math
import random
from itertools import product as grid
from pathlib import Path
from typing import Any

import pytest

from layoutalg.arch import (
    ARCHS,
    HOPPER_MODES,
    SMEM_ATOMS,
    SWIZZLE_MODES,
    TENSOR_MAP_TYPES,
    Enumerator,
    SwizzleMode,
    TensorMap,
    atom_layout,
    find_arch,
    tensor_map_arguments,
)  # fmt: skip
from layoutalg.codegen.gpu import compile_cubin
from layoutalg.decide import is_injective, same_function
from layoutalg.dtype import dtype
from layoutalg.errors import ArgumentTypeError, CompileError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, flatten_tree
from layoutalg.legality import LOAD_MODES, TMA_RULES, check_tensor_map, check_tma, nearest_legal
from layoutalg.legality.tma import dimension_order, make_request
from tests.sweeps import each


def rows_of(name: str) -> list[dict[str, Any]]:
    lines = (Path(__file__).parents[1] / "data" / name).read_text(encoding="utf-8").splitlines()
    return [json.loads(line) for line in lines]


WRITES = rows_of("h200_tma_writes.jsonl")


@each("row", WRITES, ids=lambda r: f"{r['element']}-{r['box']}-{r['mode']}-{r['address']}")
def test_what_an_h200_wrote(row: dict[str, Any]) -> None:
    """Every 16-byte chunk that a copy wrote, and the byte of the tensor that it came from (None: outside).

    The tensor map's order is innermost first, so the layouts here have their modes in that order too.
    """
    element_bytes = dtype(row["element"]).nbytes
    tensor = Layout(tuple(row["dims"]), (1, *(s // element_bytes for s in row["strides_bytes"])))
    report = check_tma(
        tensor, tuple(row["box"]), row["element"], mode=row["mode"],
        element_strides=tuple(row["element_strides"]), shared_alignment_bytes=1024,
    )  # fmt: skip
    copy = report.require()
    assert copy.layout is not None and copy.order[0] == 0
    steps = (1, *row["element_strides"][1:])
    chunk = 16 // element_bytes
    counts = flatten_tree(copy.layout.shape)
    found = set()
    for crd in grid(*(range(0, n, chunk if i == 0 else 1) for i, n in enumerate(counts))):
        place = copy.layout(*crd) * element_bytes
        source = [x * step for x, step in zip(crd, steps, strict=True)]
        inside = all(x < n for x, n in zip(source, row["dims"], strict=True))
        # The XOR reads addresses; the rows were also copied to places where the pattern does not start.
        mode = SWIZZLE_MODES[row["mode"]]
        place = mode.swizzle(mode.swizzle(place) + row["address"])
        found.add((place, tensor(*source) * element_bytes if inside else None))
    assert found == {tuple(pair) for pair in row["chunks"]}


def test_short_rows_take_a_span() -> None:
    """A box of 64 bytes a row in the 128-byte mode leaves gaps; the bytes to expect are those that move."""
    report = check_tma(Layout((64, 64), (64, 1)), (16, 32), "f16", mode="128B")
    copy = report.require()
    assert str(copy.layout) == "Sw<3,3,3> o 0 o (16,32):(64,1)"
    assert (copy.transaction_bytes, copy.shared_bytes) == (1024, 2048)
    assert "rows of 64 bytes are written 128 bytes apart, the span of mode 128B" in report.notes[0]
    assert not check_tma(Layout((64, 64), (64, 1)), (16, 32), "f16").notes


@each("element", ["u8", "f16", "tf32", "f64"])
@each("mode", HOPPER_MODES, ids=str)
def test_atoms_can_be_written(mode: SwizzleMode, element: str) -> None:
    """An atom is what TMA writes of a box as wide as the atom's row, for both directions of the tensor."""
    for atom in SMEM_ATOMS.values():
        if atom.mode == mode:
            tile = atom_layout(atom, element)
            mn, k = (tile.inner if isinstance(tile, ComposedLayout) else tile).shape  # type: ignore[misc]
            tensor = Layout((1024, 2048), (2048, 1) if atom.major == "K" else (1, 1024))
            copy = check_tma(tensor, (mn, k), element, mode=mode, shared=tile).require()
            assert copy.layout is not None and same_function(copy.layout, tile)


def test_modes_are_dimensions_innermost_first() -> None:
    tensor = Layout((64, (32, 8), 1), (1, (64, 4096), 0))
    request = make_request(tensor, (64, (16, 2), 1), "f16", mode="128B", element_strides=(1, (2, 1), 1))
    assert request.map == TensorMap(
        dtype("f16"), (64, 32, 8, 1), (128, 8192, 0), (64, 16, 2, 1), (1, 2, 1, 1), mode=SWIZZLE_MODES["128B"]
    )
    copy = check_tma(tensor, (64, (16, 2), 1), "f16", mode="128B", element_strides=(1, (2, 1), 1)).require()
    assert str(copy.layout) == "Sw<3,3,3> o 0 o (64,(8,2),1):(1,(64,512),0)"
    assert dimension_order(Layout(8, 2)) == (0,)
    assert dimension_order(Layout((4, 4, 4), (16, 1, 4))) == (1, 2, 0)


def test_notes() -> None:
    ignored = check_tma(Layout((64, 64), (64, 1)), (8, 64), "f16", element_strides=(1, 2))
    assert ignored.legal and ignored.notes == ("the element stride 2 of the innermost dimension is ignored",)
    woven = check_tma(Layout((8, 8, 8), (512, 64, 1)), (8, 8, 8), "f16", interleave_bytes=16)
    assert woven.require().layout is None and "not modelled" in woven.notes[0]


FLOATS = ("bf16", "f16", "f32", "f64", "tf32")


def defined(m: TensorMap, at: int, shared: int, arch: str) -> dict[str, list[Any]]:
    """The rules that a map breaks, each by its sentence, with the nearest for every place that does."""
    need, bits, spanned = 32 if m.interleave_bytes == 32 else 16, m.element.bits, m.mode.swizzle.bits > 0
    row, span, chunk = m.box[0] * bits // 8, m.mode.row_bytes if spanned else 0, 128 // bits
    counts = (-(-n // max(1, step)) for n, step in zip(m.box[1:], m.element_strides[1:], strict=True))
    spans = math.prod(counts) * max(row, span)
    widest = 256 if m.interleave_bytes or not spanned else 8 * span // bits
    outside = m.box[0] > 0 and (row % 16 or (spanned and not m.interleave_bytes and row > span))
    slices, period = -(-spans // max((1, *m.box[1:]))) or 1, m.mode.period_bytes
    return {
        "mode": ["128B"] * (arch == "sm_90" and m.mode not in HOPPER_MODES),
        "rank": [None] * (m.rank > 5) or [0] * (m.rank < 3 and m.interleave_bytes > 0),
        "global_base": [need] * (at % need > 0),
        "extent": [None for n in m.dims if n > 1 << 32],
        "stride": [-(-d // need) * need for d in m.strides_bytes if 0 <= d < 1 << 40 and d % need],
        "stride_range": [
            -d if d < 0 else (1 << 40) - need for d in m.strides_bytes if not 0 <= d < 1 << 40
        ],
        "box_side": [min(max(n, 1), 256) for n in m.box if not 1 <= n <= 256],
        "box_inner": [min(-(-m.box[0] // chunk) * chunk, widest, 256)] * bool(outside),
        "element_stride": [min(max(n, 1), 8) for n in m.element_strides if not 1 <= n <= 8],
        "interleave": ["32B"] * (m.interleave_bytes == 32 and m.mode.name != "32B"),
        "nan_fill": [False] * (m.nan_fill and m.element.name not in FLOATS),
        "shared_size": [max(1, 232448 // slices)] * (spans > 232448),
        "shared_base": [max(128, period)] * (shared % 128 > 0),
        "pattern": [period] * (shared % 128 == 0 and shared % period > 0),
    }  # fmt: skip


def changed_to(before: TensorMap, fix: tuple[tuple[str, Any], ...]) -> Any:
    """The value that a fix puts somewhere."""
    ((name, value),) = fix
    if name != "tensor_map":
        return value
    fields = ("strides_bytes", "box", "element_strides", "interleave_bytes", "mode", "nan_fill")
    (field,) = (f for f in fields if getattr(before, f) != getattr(value, f))
    old, new = getattr(before, field), getattr(value, field)
    if not isinstance(new, tuple):
        return new.name if field == "mode" else new
    (place,) = (n for was, n in zip(old, new, strict=True) if was != n)
    return place


def test_each_rule_is_judged_by_its_sentence_and_mended_by_the_nearest() -> None:
    """Maps near the ends of every rule, most of whose parts keep it."""
    rng = random.Random(23)
    seen = dict.fromkeys(TMA_RULES, 0)
    for _ in range(400):
        near, rank, wild = rng.choice((0.0, 0.1, 0.4)), rng.choice((1, 2, 3, 4, 5, 5, 6)), rng.random()

        def drawn(usual: Any, *ends: Any, near: float = near) -> Any:
            return rng.choice(ends) if rng.random() < near else rng.choice(usual)

        bits = dtype(element := rng.choice(sorted(TENSOR_MAP_TYPES))).bits
        m = TensorMap(
            dtype(element), tuple(drawn((1, 64, 1 << 32), (1 << 32) + 1) for _ in range(rank)),
            tuple(drawn((0, 32, 96, 64 << 10), 16, 8, (1 << 40) - 32, 1 << 40, -64) for _ in range(rank - 1)),
            (drawn((128 // bits, 256 // bits), 0, 1, 256, 257, 512 // bits, 1024 // bits, 2048 // bits),
                *(drawn((1, 2, 3), 0, 64, 256, 257, 113, 114) for _ in range(rank - 1))),
            tuple(drawn((1, 2, 8), 0, 9) for _ in range(rank)), drawn((0,), 16, 32),
            SWIZZLE_MODES[drawn(("none", "32B", "128B"), *SWIZZLE_MODES)], nan_fill=wild < near,
        )  # fmt: skip
        at, shared = drawn((32, 256), 1, 8, 16), drawn((1024,), 1, 64, 128, 256, 512)
        arch = rng.choice(("sm_90", "sm_100"))
        report = check_tensor_map(m, global_alignment_bytes=at, shared_alignment_bytes=shared, arch=arch)
        wanted = {f"tma.{name}": places for name, places in defined(m, at, shared, arch).items() if places}
        assert set(report.broken) == set(wanted), (m, str(report))
        for name, places in wanted.items():
            fixes = [v.fix for v in report.violations if v.rule.name == name]
            assert [changed_to(m, fix) if fix else None for fix in fixes] == places, (m, name)
            seen[name] += 1
        left = {"tma.layout", "tma.load_mode", "tma.gather"} | ({"tma.pattern"} if shared % 128 else set())
        left |= {"tma.stride"} if "tma.stride_range" in wanted else set()
        left |= {"tma.box_inner"} if m.box[0] == 0 else set()
        assert {rule.name for rule in report.rules} == set(TMA_RULES) - left
    assert {name for name, count in seen.items() if count < 4} == {
        "tma.element",
        "tma.inner_stride",
        "tma.load_mode",
        "tma.gather",
        "tma.layout",
    }


def test_gather4_brings_four_rows() -> None:
    """Four boxes of a row lie as one box of four rows would, and the barrier expects all of them."""
    asked: dict[str, Any] = {"mode": "128B", "arch": "sm_100"}
    four = check_tma(WIDE, (1, 64), "f16", load_mode="tile::gather4", **asked).require()
    block = check_tma(WIDE, (4, 64), "f16", **asked).require()
    assert (four.layout, four.transaction_bytes) == (block.layout, block.transaction_bytes)
    with pytest.raises(UnsupportedError, match="mode 32B, 64B or 128B"):
        check_tma(WIDE, (1, 64), "f16", load_mode="im2col::w", **asked)


LOADS = {
    "tile": ("2d", 2, ""), "tile::gather4": ("2d", 5, ""), "im2col": ("3d", 3, ", {h}"),
    "im2col::w": ("3d", 3, ", {h, h}"), "im2col::w::128": ("3d", 3, ", {h, h}"),
}  # fmt: skip
"""Dimensions, coordinates and offsets of a load in each mode."""


def assembles(mode: str, target: str, more: str = "") -> bool:
    """Whether ptxas takes a copy of this mode."""
    dimensions, count, offsets = LOADS.get(mode, ("2d", 5, ""))
    at = f"[g, {{{', '.join(['r'] * count)}}}]"
    ptx = f"shared::cta.global.{mode}.mbarrier::complete_tx::bytes{more} [s], {at}, [s]{offsets};"
    if mode == "tile::scatter4":
        ptx = f"global.shared::cta.{mode}.bulk_group {at}, [s];"
    text = f".reg .b32 s, r; .reg .b64 g; .reg .b16 h; cp.async.bulk.tensor.{dimensions}.{ptx}"
    try:
        body = f'extern "C" __global__ void copy() {{ asm volatile("{{ {text} }}" ::: "memory"); }}'
        compile_cubin(body, "copy", target)
    except CompileError:
        return False
    return True


@pytest.mark.deep
@pytest.mark.parametrize("target", ["sm_90a", "sm_100a", "sm_103a", "sm_120a"])
def test_load_modes_are_those_that_ptxas_takes(target: str) -> None:
    major = find_arch(target).compute_capability[0]
    for mode, (_, majors, _) in LOAD_MODES.items():
        assert assembles(mode, target) == (major in majors), mode
    assert assembles("tile", target, ".cta_group::2") == (major == 10)


def test_the_chunk_atoms_of_sm_100_are_a_mode_there() -> None:
    request = check_tma(WIDE, (64, 64), "f16", mode="128B_ATOM_32B", arch="sm_100")
    assert str(request.require().layout) == "Sw<2,4,2> o 0 o (64,64):(64,1)"


def test_tensor_map_arguments() -> None:
    request = make_request(Layout((4096, 1024), (1024, 1)), (64, 64), "e4m3", mode=64)
    arguments = tensor_map_arguments(request.map)
    assert arguments["tensorDataType"] == Enumerator("CU_TENSOR_MAP_DATA_TYPE_UINT8", 0)
    assert arguments["swizzle"] == Enumerator("CU_TENSOR_MAP_SWIZZLE_64B", 2)
    assert (arguments["globalDim"], arguments["globalStrides"]) == ((1024, 4096), (1024,))
    codes = [TENSOR_MAP_TYPES[name].value for name in ("u8", "s32", "f16", "f64", "bf16", "tf32")]
    assert codes == [0, 3, 6, 8, 9, 11]


WIDE = Layout((4096, 1024), (1024, 1))

ALONE: list[tuple[str, dict[str, Any], str, str]] = [
    ("tma.element", {"element": "s4"}, "the element is s4, of 4 bits", "u8, with 2 elements to each"),
    ("tma.element", {"element": "c128"}, "the element is c128, of 128 bits", "f64, 2 for each element"),
    ("tma.mode", {"mode": "128B_ATOM_32B"}, "the mode is 128B_ATOM_32B on sm_90", "128B"),
    ("tma.load_mode", {"box": (1, 64), "load_mode": "tile::scatter4", "arch": "sm_120"},
     "tile::scatter4 on sm_120", "tile"),
    ("tma.load_mode", {"ctas": 2}, ".cta_group::2 on sm_90", "1 CTA"),
    ("tma.gather", {"load_mode": "tile::gather4", "arch": "sm_100"}, "have 64 rows", "1 row"),
    ("tma.rank", {"tensor": Layout((8, 2, 2, 2, 2, 64), (2048, 1024, 512, 256, 128, 1)),
        "box": (8, 1, 1, 1, 1, 64)}, "the tensor has 6 leaves", "one map for each index of the 1 outermost"),
    ("tma.rank", {"interleave_bytes": 16}, "2 leaves and an interleave of 16 bytes", "no interleave"),
    ("tma.inner_stride", {"tensor": Layout((4096, 1024), (2048, 2))}, "the least stride is 2",
        "contiguous along leaf 1"),
    ("tma.global_base", {"global_alignment_bytes": 8}, "aligned to 8 bytes", "16 bytes"),
    ("tma.global_base", {"global_alignment_bytes": 16, "interleave_bytes": 32, "mode": "32B",
        "tensor": Layout((8, 8, 64), (512, 64, 1)), "box": (2, 8, 16)}, "aligned to 16 bytes", "32 bytes"),
    ("tma.extent", {"tensor": Layout(((1 << 32) + 8, 64), (64, 1))}, "an extent is 4294967304",
        "2 tensor maps"),
    ("tma.stride", {"tensor": Layout((64, 100), (100, 1))}, "the stride of leaf 0 is 200 bytes",
        "208 bytes, 8 bytes of padding"),
    ("tma.stride_range", {"tensor": Layout((2, 64), (1 << 39, 1))}, "is 1099511627776 bytes",
        "at most 1099511627760 bytes"),
    ("tma.stride_range", {"tensor": Layout((64, 64), (-64, 1))}, "is -128 bytes",
        "a pointer to the other end of the leaf"),
    ("tma.box_side", {"box": (512, 64)}, "the box side of leaf 0 is 512 elements", "2 boxes of 256"),
    ("tma.box_side", {"box": (0, 64)}, "the box side of leaf 0 is 0 elements", "1"),
    ("tma.box_inner", {"box": (64, 128), "mode": "128B"}, "128 elements = 256 bytes",
        "2 boxes of 64, or mode none"),
    ("tma.box_inner", {"box": (64, 4)}, "4 elements = 8 bytes", "8 elements"),
    ("tma.box_inner", {"box": (64, 20), "mode": 32}, "20 elements = 40 bytes", "2 boxes of 16"),
    ("tma.element_stride", {"element_strides": (9, 1)}, "the element stride of leaf 0 is 9", "8"),
    ("tma.element_stride", {"element_strides": (1, 0)}, "the element stride of leaf 1 is 0", "1"),
    ("tma.interleave", {"interleave_bytes": 32, "mode": "64B", "tensor": Layout((8, 8, 64), (512, 64, 1)),
        "box": (2, 8, 16)}, "an interleave of 32 bytes in mode 64B", "mode 32B"),
    ("tma.nan_fill", {"element": "s16", "nan_fill": True}, "elements of s16 outside", "fill with 0"),
    ("tma.shared_size", {"tensor": Layout((64, 256, 64), (1 << 14, 64, 1)), "box": (16, 256, 64)},
        "the box spans 524288 bytes", "along leaf"),
    ("tma.shared_base", {"shared_alignment_bytes": 64}, "aligned to 64 bytes", "128 bytes"),
    ("tma.pattern", {"mode": 128, "shared_alignment_bytes": 128},
        "at address 128 the XOR of address bits puts its first chunk at 144", "1024 bytes"),
    ("tma.pattern", {"mode": 64, "box": (64, 32), "shared_alignment_bytes": 256},
        "at address 256 the XOR of address bits puts its first chunk at 288", "512 bytes"),
    ("tma.layout", {"mode": 128, "shared": Layout((64, 64), (64, 1))}, "has element 1 of the box at byte 128",
        "Sw<3,3,3> o 0 o (64,64):(64,1)"),
    ("tma.layout", {"shared": Layout((32, 64), (64, 1))}, "has 2048 elements", "(64,64):(64,1)"),
]  # fmt: skip
"""Rule, what is asked beside a legal request, what the report says of it, and its nearest change."""


@each(("rule", "asked", "says", "nearest"), ALONE)
def test_a_rule_broken_alone(rule: str, asked: dict[str, Any], says: str, nearest: str) -> None:
    request: dict[str, Any] = {"tensor": WIDE, "box": (64, 64), "element": "f16", **asked}
    report = check_tma(**request)
    assert report.broken == (rule,)
    (violation,) = report.violations
    assert says in violation.asked and nearest in violation.change and violation.accepted
    legal = nearest_legal(check_tma, request)
    assert (legal is not None) == bool(violation.fix)
    assert violation.fix or rule in ("tma.element", "tma.rank", "tma.extent")
    if legal is not None:
        assert check_tma(**{**request, **legal.changes}).legal
        assert check_tma(**{**request, **dict(violation.fix)}).legal
    with pytest.raises(violation.rule.error, match=rule):
        report.require()


def test_every_rule_is_broken_by_some_request() -> None:
    assert {rule for rule, *_ in ALONE} == set(TMA_RULES)


def test_what_is_legal_by_construction_is_legal() -> None:
    """Boxes of whole chunks within the span, strides of 16 bytes, bases at whole patterns."""
    rng = random.Random(19)
    for _ in range(200):
        element = rng.choice(("u8", "f16", "bf16", "f32", "tf32", "f64"))
        nbytes, mode = dtype(element).nbytes, rng.choice((0, 32, 64, 128))
        chunk = 16 // nbytes
        widest = min(mode // nbytes if mode else 256, 256)
        inner = chunk * rng.randint(1, widest // chunk)
        outer = [rng.randint(1, 256) for _ in range(rng.randint(0, 4))]
        pitch = max(mode, inner * nbytes)
        while outer and math.prod(outer) * pitch > ARCHS["sm_90"].max_shared_bytes_per_block:
            outer[outer.index(max(outer))] //= 2
        box = (*(max(1, side) for side in outer), inner)
        dims = tuple(side * rng.randint(1, 4) + rng.randint(0, 3) for side in box)
        strides, step = [1], -(-dims[-1] // chunk) * chunk
        for extent in reversed(dims[:-1]):
            strides.append(step)
            step = -(-step * extent // chunk) * chunk
        request: dict[str, Any] = {
            "tensor": Layout(dims, tuple(reversed(strides))), "box": box, "element": element, "mode": mode,
            "global_alignment_bytes": rng.choice((16, 256)), "shared_alignment_bytes": max(128, 8 * mode),
        }  # fmt: skip
        report = check_tma(**request)
        assert report.legal and report.broken == (), (request, str(report))
        assert report.holding == tuple(rule.name for rule in report.rules)
        layout = report.require().layout
        assert layout is not None and is_injective(layout) and check_tma(**request, shared=layout).legal


@each(
    ("changes", "error", "part"),
    [
        ({"box": (64,)}, ShapeError, "1 sides, 2 element strides"),
        ({"tensor": Layout(64)}, ShapeError, "one is needed for each"),
        ({"interleave_bytes": 8}, ShapeError, "there are 0, 16, 32"),
        ({"mode": 256}, ShapeError, "the modes are 0"),
        ({"element": "f12"}, UnknownNameError, "unknown dtype"),
        ({"arch": "sm_80"}, UnsupportedError, "sm_80 has no TMA"),
        ({"tensor": "(64,64):(64,1)"}, ArgumentTypeError, "a Layout is needed"),
        ({"shared_alignment_bytes": 96}, ShapeError, "a power of two"),
    ],
)
def test_bad_input(changes: dict[str, Any], error: type[Exception], part: str) -> None:
    with pytest.raises(error, match=part):
        check_tma(**{"tensor": WIDE, "box": (64, 64), "element": "f16", **changes})


def test_tensor_maps_that_are_none() -> None:
    with pytest.raises(ShapeError, match="2 dimensions with 2 strides"):
        TensorMap(dtype("f16"), (64, 64), (128, 1), (64, 64), (1, 1))
    with pytest.raises(UnsupportedError, match="tensor map of s4"):
        tensor_map_arguments(TensorMap(dtype("s4"), (64,), (), (64,), (1,)))


DRIVER = rows_of("h200_tensor_maps.jsonl")


def recorded_map(row: dict[str, Any]) -> TensorMap:
    return TensorMap(
        dtype(row["element"]), tuple(row["dims"]), tuple(row["strides_bytes"]), tuple(row["box"]),
        tuple(row["element_strides"]), row["interleave_bytes"], SWIZZLE_MODES[row["mode"]],
        nan_fill=row["nan_fill"],
    )  # fmt: skip


def test_a_tensor_map_is_judged_as_the_driver_does_and_its_nearest_is_legal() -> None:
    """All answers of an H200: what it refuses breaks a rule; two rules are the manual's alone.

    Fixes are applied until none is left; what cannot be mended says so by having none.
    """
    refused = sizes = mended = 0
    for row in DRIVER:
        alignment = row["address"] & -row["address"] or 256
        request: dict[str, Any] = {"tensor_map": recorded_map(row), "global_alignment_bytes": alignment}
        report = check_tensor_map(**request)
        if row["status"]:
            assert set(report.broken) - {"tma.interleave"}, row
        else:
            assert set(report.broken) <= {"tma.interleave", "tma.shared_size"}, (row, report.broken)
        refused += row["status"] != 0
        sizes += row["status"] == 0 and "tma.shared_size" in report.broken
        for _ in range(12):
            if report.legal or not report.violations[0].fix:
                break
            request |= dict(report.violations[0].fix)
            report = check_tensor_map(**request)
        mended += report.legal and row["status"] != 0
        assert report.legal or not report.violations[0].fix, (row, str(report))
    assert len(DRIVER) == 1256 and refused > 700 and sizes < 15 and mended > 50
    assert {row["element"] for row in DRIVER} == set(TENSOR_MAP_TYPES)
