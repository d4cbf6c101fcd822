"""The documented programs for Hopper: right in every schedule, compiled, their copies counted and
measured.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.arch import SWIZZLE_MODES, TensorMap
from layoutalg.codegen.program import printed
from layoutalg.codegen.sim.engines import BoundMap
from layoutalg.codegen.sim.machine import Buffer, Memory
from layoutalg.dtype import dtype
from tests.documents import ROOT, blocks
from tests.tiles.clusters import shared_tile

SIZES: dict[str, dict[str, int]] = {
    "tma_copy": {"m": 100, "n": 72},
    "tma_transpose": {"m": 100, "n": 36},
    "sum_of_tiles": {"m": 128, "n": 32 * 9},
    "cluster_sum": {"m": 12, "n": 256},
}


def documented() -> dict[str, tuple[Any, str]]:
    """The programs of the document by name, with their text."""
    found: dict[str, tuple[Any, str]] = {}
    for language, text in blocks(ROOT / "docs" / "hopper.md"):
        if language == "python":
            names: dict[str, Any] = {"__name__": "document"}
            exec(compile(text, "document", "exec"), names)
            found |= {x.name: (x, text) for x in names.values() if isinstance(x, cg.Program)}
    return found


@pytest.fixture(scope="module")
def programs() -> dict[str, Any]:
    return {name: program for name, (program, _) in documented().items()}


def given_for(name: str, sizes: dict[str, int] | None = None) -> tuple[dict[str, Any], Any]:
    """Arguments of a documented program, by name, and the array that it should write last."""
    m, n = (sizes := sizes or SIZES[name]).values()
    x = np.random.default_rng(11).integers(-9, 10, (m, n)).astype("f2" if name == "tma_copy" else "f4")
    wanted = {"tma_copy": x, "tma_transpose": x.T, "cluster_sum": x.sum(0)}.get(name)
    if wanted is None:
        wanted = x.reshape(m, -1, 32).sum(1)
    first, last = ("src", "dst") if name.startswith("tma") else ("x", "y")
    return {**sizes, first: x, last: np.zeros(wanted.shape, x.dtype)}, wanted


@pytest.mark.deep(only=("tma_copy",))
@pytest.mark.parametrize("name", SIZES)
def test_program_is_right_in_every_schedule_and_compiles(programs: dict[str, Any], name: str) -> None:
    for way, seed in (("block", 0), ("warp", 1), ("warp", 2)):
        args, wanted = given_for(name)
        cg.simulate(printed(programs[name]), args, group=way, seed=seed)
        assert np.array_equal(list(args.values())[-1], wanted), (way, seed)
    assert cg.compile(programs[name]).spill_bytes == 0


COUNTED = {
    (65, 304): (81920, 39520), (161, 40): (29728, 15456), (199, 184): (111008, 82752),
    (257, 8): (49184, 8224), (4, 32): (8192, 256), (29, 136): (26400, 9248),
}  # fmt: skip
"""By the sizes of the copy by TMA, the bytes that Nsight Compute counted as read and written by it.

MEASURED on an H200, 2026-11-23, by `python -m tests.gpu.async_counters`, which counts 20 such copies."""


@pytest.mark.parametrize("size", COUNTED, ids=str)
def test_bytes_are_those_of_whole_boxes_and_of_the_sectors_counted(
    programs: dict[str, Any], size: tuple[int, int]
) -> None:
    m, n = size
    args, _ = given_for("tma_copy", {"m": m, "n": n})
    run, boxes = cg.simulate(programs["tma_copy"], args, trace=False), -(-m // 64) * -(-n // 64)
    assert run.moved == dict.fromkeys(("load", "store"), boxes * 64 * 64 * 2)
    assert (run.counted["load"], run.counted["store"]) == COUNTED[size]


def test_each_of_two_clusters_loads_every_tile_once() -> None:
    assert shared_tile().simulated().moved["load"] == 2 * 5 * 16 * 32 * 4


def test_boxes_are_written_where_a_gpu_writes_them() -> None:
    rows = (Path(__file__).parents[2] / "data" / "h200_tma_writes.jsonl").read_text(encoding="utf-8")
    for line in rows.splitlines():
        row = json.loads(line)
        element, dims = dtype(row["element"]), row["dims"]
        last = sum((n - 1) * d for n, d in zip(dims[1:], row["strides_bytes"], strict=True))
        words = np.arange((last + dims[0] * element.nbytes) // 2, dtype=np.uint16)
        tensor_map = TensorMap(
            element, tuple(dims), tuple(row["strides_bytes"]), tuple(row["box"]),
            tuple(row["element_strides"]), mode=SWIZZLE_MODES[row["mode"]],
        )  # fmt: skip
        raw = words.view(np.uint8)
        bound = BoundMap("m", tensor_map, Buffer("x", Memory(raw), 0, len(raw)))
        shared = np.full((16 * 1024 // 16, 8), 0xEEEE, np.uint16)
        chunks = bound.chunks(row["address"]).reshape(-1) // 16
        shared[chunks] = bound.read((0,) * len(dims)).reshape(-1, 16).view(np.uint16)
        written = [
            [16 * i, None if not chunk.any() else 2 * int(chunk[0])]
            for i, chunk in enumerate(shared)
            if (chunk != 0xEEEE).any()
        ]
        assert written == row["chunks"], row
