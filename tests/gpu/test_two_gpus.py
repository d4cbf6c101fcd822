"""Two GPUs of one host in one process: arrays on the second, calls in turn, and arrays of both in one call.

python -m pytest tests/gpu/test_two_gpus.py        on a host with two GPUs; skipped elsewhere
"""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg import ops
from layoutalg.codegen.gpu import gpu_status, on_device
from layoutalg.errors import LayoutAlgError

cupy = pytest.importorskip("cupy")


def _devices() -> int:
    return int(cupy.cuda.runtime.getDeviceCount()) if gpu_status().available else 0


pytestmark = pytest.mark.skipif(_devices() < 2, reason="a host with two GPUs is needed")


def matrix(device: int, seed: int, side: int = 384) -> Any:
    """Random f16 on a GPU."""
    with on_device(device):
        return cupy.random.RandomState(seed).standard_normal((side, side)).astype("f2")


@pytest.mark.parametrize("current", [0, 1])
@pytest.mark.parametrize("device", [0, 1])
def test_a_call_runs_where_its_arrays_are_whatever_device_is_current(current: int, device: int) -> None:
    x, w = matrix(device, 1), matrix(device, 2)
    with on_device(current):
        product, turned, soft = ops.matmul(x, w), ops.transpose(x), ops.softmax(x)
        assert cupy.cuda.runtime.getDevice() == current
    for result in (product, turned, soft):
        assert result.device.id == device
    with on_device(device):
        cupy.cuda.runtime.deviceSynchronize()
        assert bool((turned == x.T).all())
        assert float(abs(product - x @ w).max()) < 0.5
        assert float(abs(soft.sum(axis=1) - 1).max()) < 0.01


def test_calls_in_turn_on_both_give_what_each_gives_alone() -> None:
    pairs = [(matrix(d, 3 + d), matrix(d, 5 + d)) for d in (0, 1)]
    alone = [cupy.asnumpy(ops.matmul(*pair)) for pair in pairs]
    for _ in range(20):
        results = [ops.matmul(*pair) for pair in pairs]
        for result, expected in zip(results, alone, strict=True):
            assert (cupy.asnumpy(result) == expected).all()


def test_calls_on_streams_of_both_are_in_the_order_of_each_stream() -> None:
    streams = []
    for device in (0, 1):
        with on_device(device):
            streams.append(cupy.cuda.Stream(non_blocking=True))
    arrays = [matrix(d, 9 + d) for d in (0, 1)]
    for device in (0, 1):
        with on_device(device):
            cupy.cuda.runtime.deviceSynchronize()
    results = []
    for device, stream in enumerate(streams):
        with on_device(device), stream:
            results.append(ops.transpose(ops.transpose(arrays[device])))
    for device, stream in enumerate(streams):
        with on_device(device):
            stream.synchronize()
            assert bool((results[device] == arrays[device]).all())


@pytest.mark.parametrize("call", ["matmul", "transpose"])
def test_arrays_of_both_in_one_call_are_refused_by_name(call: str) -> None:
    here, there = matrix(0, 7), matrix(1, 8)
    with pytest.raises(LayoutAlgError, match=r"device|GPU"):
        if call == "matmul":
            ops.matmul(here, there)
        else:
            ops.transpose(here, out=there)
