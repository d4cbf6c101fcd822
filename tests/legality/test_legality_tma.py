"""check_tma: what a copy writes, and that the nearest legal change is legal."""

from __future__ import annotations

import json
from itertools import product as grid
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.analysis import TmaAccess
from layoutalg.arch import (
    HOPPER_MODES,
    SMEM_ATOMS,
    SWIZZLE_MODES,
    TENSOR_MAP_TYPES,
    Enumerator,
    SwizzleMode,
    TensorMap,
    atom_layout,
    tensor_map_arguments,
    tensor_map_text,
)
from layoutalg.decide import is_injective, same_function
from layoutalg.dtype import dtype
from layoutalg.errors import AlignmentError, ArgumentTypeError, ShapeError, UnknownNameError, UnsupportedError
from layoutalg.layout import ComposedLayout, Layout, flatten_tree
from layoutalg.legality import check_tensor_map, check_tma
from layoutalg.legality.tma import dimension_order, make_request
from tests.sweeps import each

WRITES: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "h200_tma_writes.jsonl").open(encoding="utf-8")
]


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


REQUESTS = st.fixed_dictionaries(
    {
        "element": st.sampled_from(sorted(TENSOR_MAP_TYPES)),
        "tensor": st.tuples(st.integers(1, 3000), st.integers(1, 3000), st.integers(0, 2), st.booleans()),
        "box": st.tuples(st.integers(0, 600), st.integers(0, 600)),
        "element_strides": st.tuples(st.integers(0, 10), st.integers(0, 10)),
        "mode": st.sampled_from(list(SWIZZLE_MODES)),
        "interleave_bytes": st.sampled_from((0, 0, 0, 16, 32)),
        "nan_fill": st.booleans(),
        "global_alignment_bytes": st.sampled_from((4, 16, 256)),
        "shared_alignment_bytes": st.sampled_from((16, 128, 256, 512, 1024)),
    }
)


@given(REQUESTS)
def test_the_nearest_changes_lead_to_a_legal_request(drawn: dict[str, Any]) -> None:
    rows, columns, gap, across = drawn["tensor"]
    pitch = columns + gap if not across else rows + gap
    request = {**drawn, "tensor": Layout((rows, columns), (1, pitch) if across else (pitch, 1))}
    for _ in range(12):
        report = check_tma(**request)
        if report.legal:
            break
        for violation in report.violations:
            assert violation.fix, violation
            request.update(dict(violation.fix))
    copy = report.require()
    assert copy.tensor_map.element.name == drawn["element"]
    if copy.layout is not None:
        assert is_injective(copy.layout) and copy.shared_bytes <= 227 * 1024
        assert check_tma(**request, shared=copy.layout).legal


def test_tma_accesses_are_boxes_of_a_legal_copy() -> None:
    access = TmaAccess((64, 64), 128)
    report = check_tma(Layout((256, 256), (256, 1)), access.box, "bf16", mode=access.swizzle_bytes)
    assert report.legal


def test_tensor_map_arguments() -> None:
    request = make_request(Layout((4096, 1024), (1024, 1)), (64, 64), "e4m3", mode=64)
    arguments = tensor_map_arguments(request.map)
    assert arguments["tensorDataType"] == Enumerator("CU_TENSOR_MAP_DATA_TYPE_UINT8", 0)
    assert arguments["swizzle"] == Enumerator("CU_TENSOR_MAP_SWIZZLE_64B", 2)
    assert (arguments["globalDim"], arguments["globalStrides"]) == ((1024, 4096), (1024,))
    text = tensor_map_text(request.map).splitlines()
    assert "swizzle         CU_TENSOR_MAP_SWIZZLE_64B (2)" in text and len(text) == len(arguments)
    codes = [TENSOR_MAP_TYPES[name].value for name in ("u8", "s32", "f16", "f64", "bf16", "tf32")]
    assert codes == [0, 3, 6, 8, 9, 11]


def test_bad_input() -> None:
    wide = Layout((64, 64), (64, 1))
    with pytest.raises(
        ShapeError, match="1 sides, 2 element strides; one is needed for each of the 2 leaves"
    ):
        check_tma(wide, (64,), "f16")
    with pytest.raises(ShapeError, match="interleave of 8 bytes; there are 0, 16, 32"):
        check_tma(wide, (64, 64), "f16", interleave_bytes=8)
    with pytest.raises(ShapeError, match="the modes are 0"):
        check_tma(wide, (64, 64), "f16", mode=256)
    with pytest.raises(UnknownNameError, match="unknown dtype"):
        check_tma(wide, (64, 64), "f12")
    with pytest.raises(UnsupportedError, match="sm_80 has no TMA"):
        check_tma(wide, (64, 64), "f16", arch="sm_80")
    with pytest.raises(ArgumentTypeError, match="a Layout is needed"):
        check_tma("(64,64):(64,1)", (64, 64), "f16")  # type: ignore[arg-type]
    with pytest.raises(ShapeError, match="shared alignment of 96 bytes; a power of two"):
        check_tma(wide, (64, 64), "f16", shared_alignment_bytes=96)
    with pytest.raises(ShapeError, match="tensor map of 2 dimensions with 2 strides"):
        TensorMap(dtype("f16"), (64, 64), (128, 1), (64, 64), (1, 1))
    with pytest.raises(UnsupportedError, match="tensor map of s4"):
        tensor_map_arguments(TensorMap(dtype("s4"), (64,), (), (64,), (1,)))
    with pytest.raises(AlignmentError, match=r"tma\.stride: the stride of leaf 0 is 200 bytes"):
        check_tma(Layout((64, 100), (100, 1)), (64, 64), "f16").require()


DRIVER: list[dict[str, Any]] = [
    json.loads(line)
    for line in (Path(__file__).parents[1] / "data" / "h200_tensor_maps.jsonl").open(encoding="utf-8")
]


def recorded_map(row: dict[str, Any]) -> TensorMap:
    return TensorMap(
        dtype(row["element"]), tuple(row["dims"]), tuple(row["strides_bytes"]), tuple(row["box"]),
        tuple(row["element_strides"]), row["interleave_bytes"], SWIZZLE_MODES[row["mode"]],
        nan_fill=row["nan_fill"],
    )  # fmt: skip


def test_a_tensor_map_is_judged_as_the_driver_does() -> None:
    """All answers of an H200: what it refuses breaks a rule; two rules are the manual's alone."""
    for row in DRIVER:
        alignment = row["address"] & -row["address"] or 256
        report = check_tensor_map(recorded_map(row), global_alignment_bytes=alignment)
        if row["status"]:
            assert report.broken, row
        else:
            assert set(report.broken) <= {"tma.interleave", "tma.shared_size"}, (row, report.broken)


def test_the_nearest_tensor_map_is_legal() -> None:
    """Fixes are applied until none is left; what cannot be mended says so by having none."""
    mended = 0
    for row in DRIVER:
        given: dict[str, Any] = {"tensor_map": recorded_map(row)}
        given["global_alignment_bytes"] = row["address"] & -row["address"] or 256
        for _ in range(12):
            report = check_tensor_map(**given)
            if report.legal or not report.violations[0].fix:
                break
            given |= dict(report.violations[0].fix)
        mended += report.legal and row["status"] != 0
        assert report.legal or not report.violations[0].fix, (row, str(report))
    assert mended > 50
