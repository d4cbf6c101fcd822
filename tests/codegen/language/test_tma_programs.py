"""The copies that a Hopper GPU is asked for, checked, simulated in both schedules and compiled."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from layoutalg.arch import HOPPER_MODES
from layoutalg.codegen.gpu import prepare
from layoutalg.codegen.program import printed
from layoutalg.codegen.sim import simulate
from tests.gpu.test_tma_launch import RANKS, numbers
from tests.sweeps import each
from tests.tiles.boxes import Boxes, copy_program, ring_program


def copied(boxes: Boxes, cluster: int, group: Any) -> None:
    kernel = printed(copy_program(boxes, cluster))
    src = numbers(boxes)
    dst = np.full_like(src, 7)
    run = simulate(kernel, {"src": src, "dst": dst}, group=group, trace=False)
    inner = boxes.dims[0]
    assert np.array_equal(dst[..., :inner], src[..., :inner])
    assert (dst[..., inner:] == 0).all()  # a row is stored in whole chunks, with what was loaded behind it
    blocks = run.blocks
    assert run.moved == {"load": boxes.box_bytes * blocks, "store": boxes.box_bytes * blocks}


@each("boxes", RANKS, ids=lambda b: "x".join(map(str, b.dims)) + b.element, sample=4)
def test_copies_of_any_rank_and_size(boxes: Boxes) -> None:
    copied(boxes, 1, "block")


@pytest.mark.parametrize("mode", HOPPER_MODES, ids=str)
def test_copies_in_every_swizzle_mode(mode: Any) -> None:
    inner = max(16, mode.row_bytes if mode.swizzle.bits else 128) // 2
    for n, box in enumerate((inner, max(8, inner // 2))):
        copied(Boxes((150, 9, 5)[: n + 2], (box, 8, 2)[: n + 2], "f16", mode.name), 1 + n, "warp")


def test_blocks_that_fill_a_cluster_copy_nothing() -> None:
    for cluster in (2, 4, 8):
        copied(Boxes((40,), (16,), "u16"), cluster, "warp")
        copied(Boxes((72, 9, 3), (64, 4, 1), "bf16"), cluster, "block")


@pytest.mark.parametrize("stages", [1, 2, 5])
def test_a_ring_of_a_producer_and_consumers(stages: int) -> None:
    kernel = printed(ring_program(8, stages))
    src = np.arange(37 * 8 * 64, dtype=np.float32).reshape(-1, 64)
    for group in ("block", "warp"):
        dst = np.zeros_like(src)
        simulate(kernel, {"m": len(src), "src": src, "dst": dst}, group=group, seed=stages, trace=False)
        assert np.array_equal(dst, src)


def test_they_compile_for_any_name_of_the_architecture() -> None:
    for kernel in (copy_program(RANKS[6], 2), ring_program()):
        assert [prepare(kernel, arch).cubin.spill_bytes for arch in ("H100", "sm_90a")] == [0, 0]
