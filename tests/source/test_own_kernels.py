"""Kernels of this library, read from the CUDA text that is printed of them, cost what was predicted."""

from __future__ import annotations

from typing import Any

import pytest

from layoutalg.codegen.gpu.preparation import launch_grid
from layoutalg.codegen.printing import to_cuda
from layoutalg.codegen.program import Global
from layoutalg.source import read_kernel
from tests.frozen.kernel_adapter import plan

CASES: tuple[dict[str, Any], ...] = (
    {"family": "transpose", "m": 200, "n": 256, "dtype": "f32"},
    {"family": "gemm-simt", "m": 128, "n": 128, "k": 64, "dtype": "f32"},
    {"family": "gemm-sm80", "m": 128, "n": 128, "k": 128, "dtype": "f16"},
    {"family": "softmax", "shape": [64, 1000], "axes": [1], "dtype": "f16"},
)


@pytest.mark.deep(only=("gemm-simt", "gemm-sm80"))
@pytest.mark.parametrize("case", CASES, ids=lambda case: str(case["family"]))
def test_a_printed_kernel_costs_what_is_predicted(case: dict[str, Any]) -> None:
    """Instructions, wavefronts or sectors and the fewest, of each instruction, over the whole grid."""
    planned = plan(case)
    assert not isinstance(planned.predicted, str)
    for launch, predicted in zip(planned.launches, planned.predicted, strict=True):
        kernel = launch.kernel
        scalars = {
            q.name: value
            for q, value in zip(kernel.params, launch.arguments, strict=True)
            if not isinstance(q, Global) and isinstance(value, int)
        }
        grid = launch_grid(kernel, scalars)
        reading = read_kernel(to_cuda(kernel), kernel.threads, grid=grid, sets=scalars, kernel=kernel.name)
        unread = [a for a in reading.memory if not a.read]  # forms for other GPUs alone
        assert all(a.why == "it is never reached" for a in unread), unread
        found: dict[str, list[int]] = {}
        for access in reading.memory:
            own = found.setdefault(access.op, [0, 0, 0])
            counts = (access.instructions or 0, access.total or 0, access.ideal_total or 0)
            found[access.op] = [a + b for a, b in zip(own, counts, strict=True)]
        assert {op: counts for op, counts in found.items() if counts[0]} == predicted
