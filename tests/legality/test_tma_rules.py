"""Every rule of a TMA copy, broken alone; and the driver's own answers."""

from __future__ import annotations

import json
import math
import random
from pathlib import Path
from typing import Any

import pytest

from layoutalg.arch import ARCHS, SWIZZLE_MODES, TENSOR_MAP_TYPES, TensorMap
from layoutalg.dtype import dtype
from layoutalg.layout import Layout
from layoutalg.legality import check_tma
from layoutalg.legality.tma_rules import TMA_RULES, TmaRequest, broken_rules
from tests.sweeps import each

DATA = Path(__file__).parents[1] / "data"
DRIVER: list[dict[str, Any]] = [
    json.loads(line) for line in (DATA / "h200_tensor_maps.jsonl").open(encoding="utf-8")
]
WIDE = Layout((4096, 1024), (1024, 1))

ALONE: list[tuple[str, dict[str, Any], str, str]] = [
    ("tma.element", {"element": "s4"}, "the element is s4, of 4 bits", "u8, with 2 elements to each"),
    ("tma.element", {"element": "c128"}, "the element is c128, of 128 bits", "f64, 2 for each element"),
    ("tma.mode", {"mode": "128B_ATOM_32B"}, "the mode is 128B_ATOM_32B on sm_90", "128B"),
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
        "the box spans 524288 bytes", "7 along leaf 0|113 along leaf 1"),
    ("tma.shared_base", {"shared_alignment_bytes": 64}, "aligned to 64 bytes", "128 bytes"),
    ("tma.pattern", {"mode": 128, "shared_alignment_bytes": 128},
        "at address 128 the XOR of address bits puts its first chunk at 144", "1024 bytes"),
    ("tma.pattern", {"mode": 64, "box": (64, 32), "shared_alignment_bytes": 256},
        "at address 256 the XOR of address bits puts its first chunk at 288", "512 bytes"),
    ("tma.layout", {"mode": 128, "shared": Layout((64, 64), (64, 1))}, "has element 1 of the box at byte 128",
        r"Sw<3,3,3> o 0 o \(64,64\):\(64,1\)"),
    ("tma.layout", {"shared": Layout((32, 64), (64, 1))}, "has 2048 elements", r"\(64,64\):\(64,1\)"),
]  # fmt: skip
"""Rule, what is asked beside a legal request, what the report says of it, and its nearest change."""


@each(("rule", "asked", "says", "nearest"), ALONE)
def test_a_rule_broken_alone(rule: str, asked: dict[str, Any], says: str, nearest: str) -> None:
    import re

    request: dict[str, Any] = {"tensor": WIDE, "box": (64, 64), "element": "f16"}
    assert check_tma(**request).legal
    report = check_tma(**{**request, **asked})
    assert report.broken == (rule,)
    (violation,) = report.violations
    assert says in violation.asked and re.search(nearest, violation.change) and violation.accepted
    if violation.fix:
        assert check_tma(**{**request, **asked, **dict(violation.fix)}).legal
    else:
        assert rule in ("tma.element", "tma.rank", "tma.extent")
    with pytest.raises(violation.rule.error, match=re.escape(rule)):
        report.require()


def test_every_rule_is_broken_by_some_request() -> None:
    assert {rule for rule, *_ in ALONE} == set(TMA_RULES)


def test_the_chunk_atoms_of_sm_100_are_a_mode_there() -> None:
    request = check_tma(WIDE, (64, 64), "f16", mode="128B_ATOM_32B", arch="sm_100")
    assert str(request.require().layout) == "Sw<2,4,2> o 0 o (64,64):(64,1)"


def request_of(row: dict[str, Any]) -> TmaRequest:
    element = dtype(row["element"])
    strides = tuple(s // element.nbytes for s in row["strides_bytes"])
    assert tuple(s * element.nbytes for s in strides) == tuple(row["strides_bytes"])
    tensor_map = TensorMap(
        element, tuple(row["dims"]), tuple(row["strides_bytes"]), tuple(row["box"]),
        tuple(row["element_strides"]), row["interleave_bytes"], SWIZZLE_MODES[row["mode"]],
        nan_fill=row["nan_fill"],
    )  # fmt: skip
    address = row["address"] or 256
    tensor = Layout(tuple(row["dims"]), (1, *strides))
    return TmaRequest(
        tensor, tensor_map, tuple(range(tensor_map.rank)), address & -address, 1024, ARCHS["sm_90"]
    )


MANUAL_ALONE = {"tma.interleave"}
"""Rules of the manual that the driver does not enforce."""


def test_the_driver_refuses_what_breaks_a_rule() -> None:
    """status 0: cuTensorMapEncodeTiled took it; 1: it did not.  Asked on an H200, driver 580."""
    refused, sizes = 0, 0
    for row in DRIVER:
        broken = {violation.rule.name for violation in broken_rules(request_of(row))}
        if row["status"] == 0:
            assert broken <= MANUAL_ALONE | {"tma.shared_size"}, row
            sizes += "tma.shared_size" in broken
        else:
            refused += 1
            assert broken - MANUAL_ALONE, row
    assert len(DRIVER) == 1256 and refused > 700 and sizes < 15
    assert {row["element"] for row in DRIVER} == set(TENSOR_MAP_TYPES)


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
