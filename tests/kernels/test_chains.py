"""Chains: one kernel or two, with the buffers they name."""

from __future__ import annotations

import pickle

import numpy as np
import pytest

from layoutalg.kernels.chains import ReadyChain, chain_of, chain_of_passes, prepare_chain, simulate_chain
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.kernels.rowwise.norm_modes import norm_problem
from layoutalg.kernels.rowwise.reduce_plan import plan_with, reduce_problem
from layoutalg.kernels.rowwise.reduce_walk import ReduceConfig
from tests.sweeps import each


def test_a_long_sum_has_two_kernels_with_floats_between() -> None:
    chain = chain_of(reduce_problem((1 << 26,), 0, "sum", "f16"))
    assert chain.buffers == (("src", "partial"), ("partial", "dst"))
    assert chain.partial_bytes > 0 and chain.partial_bytes % 4 == 0


@pytest.mark.parametrize("op", ["sum", "max", "mean"])
def test_a_chain_of_two_kernels_runs_in_the_simulator(op: str) -> None:
    x = np.arange(6000, dtype="f4").reshape(1, 6000) % 64
    plan = plan_with(reduce_problem(x.shape, 1, op, "f32"), ReduceConfig(4, 32, 1, 2, 4, splits=3))
    chain = chain_of_passes(plan)
    dst = np.zeros(4, "u4")
    simulate_chain(chain, {"src": x.view("u4").ravel(), "dst": dst})
    wanted = {"sum": x.sum(dtype="f8"), "max": 63, "mean": x.mean(dtype="f8")}[op]
    assert len(chain.kernels) == 2 and dst.view("f4")[0] == pytest.approx(wanted, rel=2**-23, abs=0)


def test_a_split_norm_reads_what_its_first_kernel_wrote() -> None:
    chain = chain_of(norm_problem("softmax", (1, 1 << 24), 1, "f32"))
    assert len(chain.kernels) == 2 and chain.partial_bytes > 0
    assert "partial" in chain.buffers[0] and "partial" in chain.buffers[1] and "dst" in chain.buffers[1]


def test_a_prepared_chain_is_data() -> None:
    chain = chain_of(norm_problem("layer_norm", (4, 64), 1, "f16", weight=True, bias=True))
    ready = prepare_chain(chain, "sm_90a")
    assert isinstance(ready, ReadyChain) and ready.buffers == chain.buffers
    assert set(ready.buffers[0]) == {"src", "dst", "weight", "bias"}
    assert pickle.loads(pickle.dumps(ready)) == ready


@each("element", ["f32", "f16", "bf16"])
@each("shape", [(1,), (7,), (3, 5), (2, 0), ()])
def test_numbers_come_back_from_their_bits(element: str, shape: tuple[int, ...]) -> None:
    numbers = np.random.default_rng(0).integers(-100, 100, shape) / 4
    bits = bits_of(numbers, element)
    assert bits.shape == shape and bits.itemsize == (4 if element == "f32" else 2)
    assert np.array_equal(numbers_of(bits, element), numbers)


def test_numbers_too_large_become_infinite() -> None:
    assert numbers_of(bits_of(np.array([1e6, -1e6]), "f16"), "f16").tolist() == [np.inf, -np.inf]
