"""matmul of arrays on the CPU, in the simulator, and on a GPU that is host memory; on one: tests/gpu/test_matmul.py."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import (
    ArgumentTypeError,
    LayoutAlgError,
    NotInjectiveError,
    ResourceError,
    ShapeError,
    UnsupportedError,
)
from layoutalg.kernels import FAMILIES, plan_cache
from layoutalg.kernels.product_api import MOST_SIMULATED, matmul
from tests import products
from tests.hostgpu import HostArray, HostGpu, allocation, planning_gpu, simulated_gpu
from tests.sweeps import each
from tests.view_judge import Host, Numpy

NUMPY = tuple(kind for kind in products.KINDS if kind != "bfloat16")


@each("seed", range(300))
def test_random_products_are_their_definition(seed: int) -> None:
    case = products.draw(seed, kinds=NUMPY)
    wrong = products.run(case, Numpy())
    assert not wrong, f"{case}: {wrong}"


@each("seed", range(100))
def test_random_products_are_their_definition_in_the_simulator(seed: int) -> None:
    case = products.draw(seed, kinds=NUMPY, most=40, most_elems=20_000)
    wrong = products.run(case, Numpy(), simulate=True)
    assert not wrong, f"{case}: {wrong}"


@each("seed", range(50))
def test_random_products_are_their_definition_by_the_code_of_a_gpu(seed: int) -> None:
    case = products.draw(seed, most=40, most_elems=20_000)
    with simulated_gpu("sm_90") as gpu:
        wrong = products.run(case, Host(gpu))
    assert not wrong, f"{case}: {wrong}"


def test_the_judge_sees_what_is_wrong() -> None:
    """A result that is off, and a byte beside one that is written."""
    case = next(c for c in map(products.draw, range(100)) if "out" in c.arrays and 0 not in c.shape)
    made = products.make(case)
    exact, _ = products.expected(case, made)
    right = products.bits(exact, case.result)
    assert not products.judge(case, made, right, made)
    off = right.copy()
    off.flat[0] ^= np.array(1 << 8 * off.itemsize - 3, off.dtype)
    assert "are wrong" in products.judge(case, made, off, made)
    touched = {name: raw.copy() for name, raw in made.items()}
    touched["out"][3] ^= 1
    assert "were written" in products.judge(case, made, right, touched)


def arrays(gpu: HostGpu, *shapes: tuple[int, ...], kind: str = "float32") -> list[HostArray]:
    """Dense arrays of ones on a GPU that is host memory."""
    found = []
    for shape in shapes:
        found.append(gpu.array(allocation(8 * int(np.prod(shape, dtype=int)) + 16), 0, kind, shape, dense(shape, kind)))
        found[-1].fill(1)
    return found


def dense(shape: tuple[int, ...], kind: str) -> tuple[int, ...]:
    size = products.NBYTES[kind]
    return tuple(size * int(np.prod(shape[i + 1 :], dtype=int)) for i in range(len(shape)))


# --- numpy.matmul's shapes -----------------------------------------------------------------------------


@each(
    ("a", "b"),
    [
        ((3, 4), (4, 5)), ((4,), (4, 5)), ((3, 4), (4,)), ((4,), (4,)), ((2, 3, 4), (4, 5)), ((3, 4), (2, 4, 5)),
        ((2, 1, 3, 4), (7, 4, 5)), ((2, 3, 4), (4,)), ((4,), (2, 4, 5)), ((1, 3, 4), (2, 4, 5)), ((0, 3, 4), (4, 5)),
        ((3, 0), (0, 5)), ((0,), (0,)), ((0, 4), (4, 5)), ((2, 0, 3, 4), (1, 4, 5)),
    ],
)
def test_shapes_are_numpys(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = np.ones(a, "f4"), np.ones(b, "f4")
    wanted = np.matmul(x, y)
    for options in ({}, {"simulate": True}):
        found = matmul(x, y, **options)
        assert found.shape == wanted.shape and found.dtype == wanted.dtype and np.array_equal(found, wanted)
    with simulated_gpu("sm_90") as gpu:
        left, right = arrays(gpu, a, b)
        given = matmul(left, right)
        assert given.shape == wanted.shape and np.array_equal(given.bits.view("f4"), wanted)


@each(
    ("a", "b"),
    [((3, 4), (3, 5)), ((4,), (5,)), ((2, 3, 4), (3, 4, 5)), ((), (4,)), ((3, 4), ()), ((3, 4), (5,)), ((1,), (2, 2))],
)
def test_what_numpy_refuses_is_refused(a: tuple[int, ...], b: tuple[int, ...]) -> None:
    x, y = np.ones(a, "f4"), np.ones(b, "f4")
    with pytest.raises(ValueError):
        np.matmul(x, y)
    with pytest.raises(ShapeError) as raised:
        matmul(x, y)
    if a and b:
        assert f"a has shape {a}, b {b}: " in str(raised.value)


# --- one kernel for many -------------------------------------------------------------------------------


def test_another_size_and_other_factors_compile_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    from layoutalg.codegen.gpu import preparation

    ran: list[str] = []
    compiled = preparation.cached_cubin

    def counted(text: str, name: str, *rest: Any) -> Any:
        ran.append(name)
        return compiled(text, name, *rest)

    monkeypatch.setenv("LAYOUTALG_CACHE", "off")
    monkeypatch.setattr(preparation, "cached_cubin", counted)
    plan_cache._compiled.cache_clear()
    family, sizes = FAMILIES["gemm-sm80"], ((200, 136, 72), (201, 400, 80), (130, 1000, 64), (999, 200, 640))
    configs = {}
    with planning_gpu("sm_80") as gpu:
        for alpha, (m, n, k) in enumerate(sizes):
            a, b = arrays(gpu, (m, k), (k, n), kind="float16")
            matmul(a, b, alpha=alpha)
            config = family.choose(family.problem(m, n, k, b_major="mn"), "sm_80")
            configs[replace(config, splits=min(config.splits, 2))] = config.splits > 1
    assert len(ran) == len(configs) + sum(configs.values()) < len(sizes)
