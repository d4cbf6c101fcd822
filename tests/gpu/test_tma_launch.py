"""Copies by TMA and launches of clusters on a Hopper GPU, through the way that every kernel is launched.

python3 -m pytest tests/gpu/test_tma_launch.py
"""

from __future__ import annotations

from dataclasses import replace
from math import prod
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from layoutalg.arch import HOPPER_MODES
from layoutalg.codegen import gpu
from layoutalg.codegen.program import Kernel, launch_sequence
from layoutalg.dtype import dtype
from layoutalg.errors import ResourceError, ShapeError
from tests.gpu.tools import STATUS, needs_hopper
from tests.tiles.boxes import Boxes, copy_program, ring_program

pytestmark = needs_hopper

SEED = 20261123

RANKS = [
    Boxes((1000,), (256,), "u8"), Boxes((1,), (16,), "u8"), Boxes((1023,), (64,), "f32"),
    Boxes((130, 67), (64, 32), "f16"), Boxes((7, 3), (8, 8), "f16"), Boxes((257, 129), (16, 128), "f64"),
    Boxes((72, 9, 3), (64, 4, 1), "bf16"), Boxes((65, 33, 17), (32, 8, 4), "u16"),
    Boxes((40, 5, 7, 3), (16, 2, 4, 2), "u32"), Boxes((33, 3, 5, 2, 4), (16, 2, 2, 2, 2), "f16"),
    Boxes((64, 64, 40), (64, 64, 1), "f16"),
]  # fmt: skip
"""From 1 to 5 dimensions, of odd sizes, batched: the last has 40 matrices."""


def numbers(boxes: Boxes) -> NDArray[Any]:
    """Random bits of a tensor's elements, padding included."""
    nbytes = dtype(boxes.element).nbytes
    raw = np.random.default_rng(SEED).integers(0, 256, prod(boxes.shape) * nbytes, dtype=np.uint8)
    found: NDArray[Any] = raw.view(f"u{nbytes}").reshape(boxes.shape)
    return found


def copied(boxes: Boxes, cluster: int = 1) -> None:
    """Copy a tensor and compare: what lies in rows moves; the padding behind them, up to the next multiple of
    16 bytes, is written with the zeros that the load has put there."""
    src = numbers(boxes)
    before = np.full_like(src, 7)
    dst = gpu.to_device(before)
    gpu.load(copy_program(boxes, cluster))(src=gpu.to_device(src), dst=dst)
    found, inner = gpu.to_host(dst), boxes.dims[0]
    assert np.array_equal(found[..., :inner], src[..., :inner])
    assert not found[..., inner:].any()


@pytest.mark.parametrize("boxes", RANKS, ids=lambda b: "x".join(map(str, b.dims)) + b.element)
def test_copies_of_any_rank_and_size(boxes: Boxes) -> None:
    copied(boxes)


@pytest.mark.parametrize("rank", [2, 3, 4, 5])
@pytest.mark.parametrize("mode", HOPPER_MODES, ids=str)
def test_copies_in_every_swizzle_mode(mode: Any, rank: int) -> None:
    inner = max(16, mode.row_bytes if mode.swizzle.bits else 128) // 2
    for box in (inner, max(8, inner // 2)):
        copied(Boxes((150, 9, 5, 3, 2)[:rank], (box, 8, 2, 2, 1)[:rank], "f16", mode.name))


@pytest.mark.parametrize("stages", [1, 2, 3, 5])
@pytest.mark.parametrize("rows", [8, 64])
def test_a_ring_of_a_producer_and_consumers(rows: int, stages: int) -> None:
    kernel = ring_program(rows, stages)
    for m in (rows, 5 * rows, 37 * rows):
        src = np.random.default_rng(SEED).standard_normal((m, 64)).astype(np.float32)
        dst = gpu.to_device(np.zeros_like(src))
        gpu.load(kernel)(m=m, src=gpu.to_device(src), dst=dst)
        assert np.array_equal(gpu.to_host(dst), src)


@pytest.mark.parametrize("blocks", [1, 2, 4, 8, 16])
def test_clusters_of_every_size_are_launched(blocks: int) -> None:
    """The device is asked how many it runs at a time, and runs them."""
    boxes = Boxes((512, 300), (64, 32), "f16", "128B")
    kernel = gpu.load(copy_program(boxes, blocks))
    assert 1 <= kernel.active_clusters <= 132 * 32 // blocks
    copied(boxes, blocks)


def with_shared_memory(kernel: Kernel, nbytes: int) -> Kernel:
    """The kernel with a buffer that nobody touches."""
    (tile,) = kernel.shared
    more = replace(tile, name="more", offset_bytes=1 << 12, size_bytes=nbytes - (1 << 12))
    return replace(kernel, shared=(tile, more))


def test_a_cluster_that_does_not_fit_is_refused_with_the_largest_that_does() -> None:
    """Whole multiprocessors, 16 at a time: the device has them, or says how many it has."""
    boxes = Boxes((512, 300), (8, 32), "f16")
    for blocks in (8, 16):
        kernel = with_shared_memory(copy_program(boxes, blocks), 220 << 10)
        try:
            found = gpu.load(kernel)
        except ResourceError as error:
            assert error.asked == blocks and 1 <= error.limit < blocks
            smaller = gpu.load(
                with_shared_memory(copy_program(boxes, 1 << error.limit.bit_length() - 1), 220 << 10)
            )
            assert smaller.active_clusters >= 1
        else:
            assert found.active_clusters >= 1


def test_a_refusal_of_the_driver_names_the_largest_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a device that says that none fits, the text without clusters is asked and answers."""
    from layoutalg.codegen.gpu import runtime

    monkeypatch.setattr(runtime, "active_clusters", lambda *_: 0)
    with pytest.raises(ResourceError, match=r"cluster of tma_copy on .*: 4 asked, the limit is (8|16)"):
        gpu.load(copy_program(Boxes((512, 300), (64, 32), "f16"), 4))


def test_a_map_of_integers_follows_each_launch() -> None:
    kernel = gpu.load(ring_program())
    for m in (8, 64, 16):
        src = np.random.default_rng(m).standard_normal((m, 64)).astype(np.float32)
        dst = gpu.to_device(np.zeros_like(src))
        kernel(m=m, src=gpu.to_device(src), dst=dst)
        assert np.array_equal(gpu.to_host(dst), src)
    with pytest.raises(ShapeError, match="m = 12"):
        kernel(m=12, src=gpu.to_device(src), dst=dst)


def test_launches_by_address_encode_what_they_have_not_seen() -> None:
    boxes = Boxes((130, 67), (64, 32), "f16", "128B")
    run = gpu.load_sequence(gpu.compile_sequence(launch_sequence([copy_program(boxes)]), STATUS.arch).ready())
    src = [gpu.to_device(numbers(boxes) + n) for n in range(3)]
    dst = [gpu.device_empty(boxes.shape, "uint16") for _ in range(3)]
    for n in (0, 1, 2, 0, 1):
        dst[n].fill(0)
        run({"src": src[n].data.ptr, "dst": dst[n].data.ptr})
        assert np.array_equal(gpu.to_host(dst[n])[:, :130], gpu.to_host(src[n])[:, :130])
