"""matmul of arrays: on the CPU, in the simulator, and on a GPU that is host memory; on a GPU see tests/gpu/test_matmul.py."""

from __future__ import annotations

import numpy as np
import pytest

from tests import products
from tests.hostgpu import simulated_gpu


def run_numpy(case, simulate=False):
    import layoutalg
    made = products.make(case)
    now = {x: raw.copy() for x, raw in made.items()}
    if case.c_is_out:
        now["c"] = now["out"]
    arrays = {x: np.ndarray(p.shape, p.kind, now[x].data, p.start_bytes, tuple(d * products.NBYTES[p.kind] for d in p.strides)) for x, p in case.arrays.items()}
    if case.c_is_out:
        arrays["c"] = arrays["out"]
    a, b = arrays.pop("a"), arrays.pop("b")
    from layoutalg.kernels.product_api import matmul
    result = matmul(a, b, **arrays, **case.options, simulate=simulate)
    return products.judge(case, made, result.view(f"u{result.itemsize}"), now)

HERE = tuple(k for k in products.KINDS if k != "bfloat16")
@pytest.mark.parametrize("seed", range(300))
def test_numpy(seed):
    case = products.draw(seed, kinds=HERE)
    assert not run_numpy(case), str(case)

@pytest.mark.parametrize("seed", range(100))
def test_sim(seed):
    case = products.draw(seed, kinds=HERE, most=40, most_elems=20000)
    assert not run_numpy(case, True), str(case)


@pytest.mark.parametrize("seed", range(100))
def test_host_gpu(seed):
    from layoutalg.kernels.product_api import matmul
    from tests.hostgpu import allocation
    case = products.draw(seed, most=40, most_elems=20000)
    made = products.make(case)
    with simulated_gpu("sm_90") as gpu:
        now, arrays = {}, {}
        for name, p in case.arrays.items():
            if name == "c" and case.c_is_out:
                continue
            now[name] = allocation(p.nbytes)
            now[name][:] = made[name]
            size = products.NBYTES[p.kind]
            arrays[name] = gpu.array(now[name], p.start_bytes, p.kind, p.shape, tuple(d * size for d in p.strides))
        if case.c_is_out:
            arrays["c"], now["c"] = arrays["out"], now["out"]
        a, b = arrays.pop("a"), arrays.pop("b")
        result = matmul(a, b, **arrays, **case.options)
        assert result.dtype.name == case.result
        wrong = products.judge(case, made, result.bits, now)
        assert not wrong, f"{case}: {wrong}"
