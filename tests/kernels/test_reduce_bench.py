"""The bench's cases and rows; its timings need a GPU."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from math import prod
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from layoutalg.codegen.gpu import gpu_status, in_processes
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.errors import MismatchError, UnsupportedError
from layoutalg.kernels import reduce_bench
from layoutalg.kernels.chains import Chain, find_problem, simulate_chain
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.kernels.reduce_bench import (
    CASES,
    DTYPES,
    ELEMS,
    REDUCED,
    Case,
    ReduceRow,
    benchmark_reductions,
    make_ready,
    mean_of,
    random_cases,
)
from layoutalg.kernels.rowwise import norm_modes
from layoutalg.kernels.rowwise.norm_modes import OPS


def test_the_drawn_cases_are_the_same_for_the_same_seed() -> None:
    assert random_cases() == random_cases() != random_cases(1)
    assert [case.op in OPS for case in random_cases()] == [False] * 12 + [True] * 8


def test_the_drawn_cases_are_large_and_reduce_some_modes_of_many() -> None:
    for case in random_cases():
        assert ELEMS / 2 < prod(case.shape) < 2 * ELEMS and 0 < len(case.axes) < len(case.shape)


def test_the_quoted_cases_are_there() -> None:
    assert len(CASES) == len(set(CASES)) and len([c for c in CASES if c.op == "sum"]) == 3 * len(REDUCED)
    assert Case("softmax", (65536, 1024), (0,), "bf16") in CASES
    assert {c.dtype for c in CASES} == set(DTYPES)


def test_kernels_of_cases_are_made_by_several_processes() -> None:
    asked = [
        (Case(op, (48, 64), axes, "bf16"), "sm_90a")
        for op, axes in (("mean", (0,)), ("softmax", (1,)), ("layer_norm", (0,)))
    ]
    there = in_processes(make_ready, asked)
    assert [r.case for r in there] == [case for case, _ in asked]
    assert [r.read is None for r in there] == [False, True, True]
    assert [r.moved_bytes for r in there] == [2 * (48 * 64 + 64), 4 * 48 * 64, 4 * 48 * 64]
    assert all(r.memory_bytes == r.moved_bytes for r in there)


def test_rows_compare() -> None:
    row = ReduceRow("sum", 3000.0, "read", 4000.0, 1500.0, None, 10, 10)
    assert (row.share, row.ratio) == (0.75, 2.0)
    assert ReduceRow("sum", 3000.0, "read", 4000.0, None, None, 10, 10).ratio is None
    assert mean_of([4.0, 9.0]) == pytest.approx(6.0) and mean_of([None]) is None


@pytest.mark.skipif(gpu_status().available, reason="this is about a machine without a GPU")
def test_without_a_gpu_the_bench_says_so() -> None:
    with pytest.raises(UnsupportedError, match="needs a GPU"):
        list(benchmark_reductions(CASES[:1]))


class OnGpu(np.ndarray[Any, Any]):
    """A NumPy array that tells its address as CuPy's do."""

    @property
    def data(self) -> Any:
        return SimpleNamespace(ptr=self.ctypes.data)


@dataclass
class Simulated:
    """A chain that the simulator runs on arrays found by their addresses."""

    gpu: Standin
    chain: Chain
    partial_bytes: int

    def __call__(self, addresses: dict[str, int]) -> None:
        self.gpu.ran += [kernel.name for kernel in self.chain.kernels]
        named = {name: self.gpu.arrays[at] for name, at in addresses.items() if name != "partial"}
        simulate_chain(self.chain, {k: np.asarray(v).view("u1") for k, v in named.items()})


class Standin:
    """A GPU's part of the bench: the simulator runs the chains, every launch takes a millisecond."""

    def __init__(self) -> None:
        self.arrays: dict[int, OnGpu] = {}
        self.ran: list[str] = []

    def empty(self, shape: tuple[int, ...], dtype: Any) -> OnGpu:
        array = np.zeros(shape, dtype).view(OnGpu)
        self.arrays[array.ctypes.data] = array
        return array

    def normal(self, elems: int, seed: int, element: str) -> OnGpu:
        numbers = np.random.default_rng(seed).standard_normal(elems)
        kinds = {"f32": "f4", "f16": "f2", "bf16": "u2"}
        array = self.empty((elems,), kinds[element])
        array[...] = bits_of(numbers, element).view(kinds[element])
        return array

    def load(self, chain: Chain) -> Simulated:
        return Simulated(self, chain, chain.partial_bytes)

    def difference(
        self, op: str, x: Any, axes: tuple[int, ...], element: str, ours: Any
    ) -> tuple[float, float]:
        """What `torch_difference` says, by NumPy."""
        x, ours = (numbers_of(np.asarray(v).view(f"u{v.itemsize}"), element) for v in (x, ours))
        p = find_problem(op, x.shape, axes, element)
        wanted = norm_modes.reference(p, x) if op in OPS else getattr(np, op)(x, axis=axes)  # type: ignore[arg-type]
        return float(np.abs(ours.reshape(wanted.shape) - wanted).max()), float(np.abs(wanted).max())

    def times(self, contenders: list[list[Callable[[], Any]]], **_: Any) -> list[float]:
        for launches in contenders:
            launches[0]()
        return [1.0 + n for n in range(len(contenders))]


@pytest.fixture
def standin(monkeypatch: pytest.MonkeyPatch) -> Standin:
    gpu = Standin()
    replaced: dict[str, Any] = {
        "require_gpu": lambda: GpuStatus(True, "a stand-in", "sm_90a"),
        "prepare_chain": lambda chain, arch: chain, "load_chain": gpu.load, "random_normal": gpu.normal,
        "device_empty": gpu.empty, "median_times_ms": gpu.times, "torch_difference": gpu.difference,
        "device_copy": lambda dst, src: lambda: gpu.ran.append("copy"),
        "torch_reduction": lambda *_: lambda: gpu.ran.append("torch"),
    }  # fmt: skip
    for name, value in replaced.items():
        monkeypatch.setattr(f"layoutalg.kernels.reduce_bench.{name}", value)
    monkeypatch.setattr(reduce_bench, "find_arch", lambda arch: SimpleNamespace(board=None))
    return gpu


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("op", "axes"), [("sum", (1,)), ("max", (0,)), ("mean", (0, 1)), ("sum", (0,))])
def test_a_reduction_is_compared_and_timed(standin: Standin, op: str, axes: Any, dtype: str) -> None:
    (row,) = benchmark_reductions([Case(op, (24, 65), axes, dtype)])
    mine, long = f"reduce_{op}_{dtype}_{dtype}", "reduce_sum_f32_f32"
    assert [n for n in standin.ran if n != "torch"] == [mine, mine, long] and "torch" in standin.ran
    assert (row.limit, row.cupy is None) == ("read", dtype == "bf16")
    assert row.ratio == pytest.approx(3.0) and row.share == pytest.approx(2.0)
    assert row.ours == pytest.approx(row.moved_bytes / 1e6)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("op", OPS)
def test_a_norm_is_compared_and_timed_beside_a_copy(standin: Standin, op: str, dtype: str) -> None:
    (row,) = benchmark_reductions([Case(op, (24, 65), (0,), dtype)])
    assert standin.ran == [f"{op}_{dtype}"] * 2 + ["copy", "torch"]
    assert (row.limit, row.cupy) == ("copy", None) and row.ratio == pytest.approx(3.0)


def test_a_wrong_result_is_no_row(standin: Standin, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reduce_bench, "load_chain", lambda chain: lambda addresses: None)
    with pytest.raises(
        MismatchError, match=r"softmax 24x65 over 0 f32: .* from the definition, more than the"
    ):
        list(benchmark_reductions([Case("softmax", (24, 65), (0,), "f32")]))
