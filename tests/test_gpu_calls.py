"""Calls on GPU arrays, without a GPU: what is launched where, and what a repeated call asks for."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from itertools import cycle, repeat
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

from layoutalg.codegen.gpu import ReadySequence, compile_sequence
from layoutalg.errors import AlignmentError, ArgumentTypeError
from layoutalg.kernels import FAMILIES, plan_cache
from layoutalg.kernels.calls import api, product_api, reduce_api, repeated
from layoutalg.kernels.gemm.problem import BatchMode, gemm_problem
from layoutalg.kernels.rowwise import norm_problem
from layoutalg.layout import ComposedLayout, Layout, Swizzle
from tests.draws.sequences import launches_of
from tests.stand_ins.cuda_driver import STREAM, Array, Driver, standing_in


@pytest.fixture
def driver(monkeypatch: pytest.MonkeyPatch) -> Iterator[Driver]:
    """A driver in CuPy's place; no kernel is kept from another test, nor for one."""
    yield from standing_in(monkeypatch)


@pytest.fixture
def planned(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Problems that were planned."""
    seen: list[str] = []

    def counted(
        family: str, p: Any, arch: str, folder: Path | None, scalars: object, gpu: str
    ) -> ReadySequence:
        seen.append(str(p))
        return compile_sequence(launches_of(p, arch), arch).ready()

    monkeypatch.setattr(plan_cache, "ready_sequence", counted)
    return seen


def addresses(driver: Driver) -> list[list[int]]:
    return [values for _, _, values in driver.launched]


def test_a_permute_is_planned_once_for_arrays_that_look_alike(driver: Driver, planned: list[str]) -> None:
    first, second = Array(0x4000, (6, 40)), Array(0x8000, (6, 40))
    for x in (first, second, first):
        y = api.permute(x, (1, 0))
        assert type(y) is Array and y.shape == (40, 6) and y.dtype == "f4"
    made = [(1 << 20) + n * (1 << 20) for n in range(3)]
    assert addresses(driver) == [[0x4000, made[0]], [0x8000, made[1]], [0x4000, made[2]]]
    assert len(planned) == len(driver.loaded) == 1 and driver.taken_up == [0]


def test_the_start_within_a_unit_is_part_of_the_problem(driver: Driver, planned: list[str]) -> None:
    out = Array(0x9000, (40, 6))
    for start in (0x4000, 0x4004, 0x8004, 0x4008):
        assert api.permute(Array(start, (6, 40)), (1, 0), out) is out
    assert addresses(driver) == [[start, 0x9000] for start in (0x4000, 0x4000, 0x8000, 0x4000)]
    assert len(planned) == 3 and "at 1 -> 0" in planned[1]


def test_a_relayout_is_one_launch(driver: Driver, planned: list[str]) -> None:
    rows, columns = Layout((6, 40), (40, 1)), Layout((6, 40))
    for address in (0x4000, 0x8000):
        assert api.relayout(Array(address, (240,)), rows, columns, Array(0x9000, (240,))).shape == (240,)
    assert addresses(driver) == [[0x4000, 0x9000], [0x8000, 0x9000]] and len(planned) == 1
    api.relayout(Array(0x4004, (240,)), rows, columns, Array(0x9000, (240,)))
    assert addresses(driver)[2] == [0x4000, 0x9000] and "at 1 -> 0" in planned[1]
    swizzled = ComposedLayout(Swizzle(1, 0, 2), 0, rows)
    for address, layout, multiple in ((0x4004, swizzled, 16), (0x4002, rows, 4)):
        with pytest.raises(AlignmentError, match=f"relayout takes it at multiples of {multiple} bytes"):
            api.relayout(Array(address, (240,)), layout, columns, Array(0x9000, (240,)))


def test_a_transpose_is_a_permute_of_all_modes(driver: Driver, planned: list[str]) -> None:
    assert api.transpose(Array(0x4000, (6, 5, 40))).shape == (40, 5, 6)
    api.permute(Array(0x4000, (6, 5, 40)), (2, 1, 0))
    assert len(driver.launched) == 2 and len(planned) == 1


def test_types_of_one_width_share_a_kernel(driver: Driver, planned: list[str]) -> None:
    for dtype in ("f4", "i4", "u4"):
        assert api.permute(Array(0x4000, (6, 40), dtype), (1, 0)).dtype == dtype
    assert len(driver.launched) == 3 and len(planned) == 1


def test_a_call_runs_on_the_device_of_its_array(driver: Driver, planned: list[str]) -> None:
    for device in (0, 1, 0, 1):
        y = api.permute(Array(0x4000, (6, 40), device=device), (1, 0))
        assert y.data.device_id == device
    assert driver.devices == [0, 1, 0, 1] and driver.current == 0
    assert len(driver.loaded) == 2
    with pytest.raises(
        ArgumentTypeError, match="out is an array of cupy on GPU 1, x an array of cupy on GPU"
    ):
        api.permute(Array(0x4000, (6, 40)), (1, 0), Array(0x9000, (40, 6), device=1))


def test_overlap_is_seen_at_every_call(driver: Driver, planned: list[str]) -> None:
    x = Array(0x4000, (6, 40))
    api.permute(x, (1, 0), Array(0x4000 + 960, (40, 6)))
    with pytest.raises(ArgumentTypeError, match="x and out overlap"):
        api.permute(x, (1, 0), Array(0x4000 + 944, (40, 6)))
    assert len(driver.launched) == 1


def test_a_split_softmax_has_scratch_memory_of_its_own(driver: Driver, planned: list[str]) -> None:
    first, second = launches_of(norm_problem("softmax", (1, 1 << 24), 1, "f32", in_place=True)).buffers
    driver.arguments = cycle((len(first), len(second)))
    x = Array(1 << 40, (1, 1 << 24))
    for scratch in (1 << 20, 2 << 20):
        reduce_api.softmax(x, out=x)
        where = {"src": 1 << 40, "dst": 1 << 40, "scratch": scratch}
        assert addresses(driver)[-2:] == [[where[name] for name in names] for names in (first, second)]
    assert len(planned) == 1 and driver.together == [1, 3] and not driver.early


def test_a_norm_in_place_takes_one_buffer(driver: Driver, planned: list[str]) -> None:
    driver.arguments = repeat(1)
    x = Array(0x10000, (64, 96))
    assert reduce_api.softmax(x, 1, out=x) is x
    assert addresses(driver) == [[0x10000]] and len(planned) == 1


@pytest.mark.parametrize("eps", [1e-5, 1, 1.0])
def test_another_eps_is_another_kernel(driver: Driver, planned: list[str], eps: float) -> None:
    driver.arguments = repeat(3)
    x, weight = Array(0x4000, (6, 40)), Array(0x8000, (40,))
    reduce_api.layer_norm(x, -1, weight, eps=0.5)
    reduce_api.layer_norm(x, 1, weight, eps=eps)
    reduce_api.layer_norm(x, (1,), weight, eps=eps)
    assert len(planned) == 2
    assert addresses(driver)[2] == [0x4000, 3 << 20, 0x8000]
    for wrong in (True, "1", [1]):
        with pytest.raises(ArgumentTypeError, match="a number is needed"):
            reduce_api.layer_norm(x, -1, weight, eps=wrong)  # type: ignore[arg-type]


@pytest.mark.parametrize("turned", [False, True])
def test_a_product_is_loaded_once_for_all_factors(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, turned: bool
) -> None:
    """Every parameter has its value, at its place; a result in columns is the product of b and a."""
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    a, b, c, d = (n << 16 for n in (1, 2, 3, 4))
    x, y, out = Array(a, (3, 64, 40)), Array(b, (40, 24)), Array(d, (3, 64, 24))
    old = Array(c, (64, 24))
    wanted = {
        "m": 64, "n": 24, "k": 40, "lda": 40, "ldb": 24, "ldc": 24, "ldd": 24, "batch0": 3, "a": a, "b": b,
        "c": c, "d": d, "stride_a0": 2560, "stride_b0": 0, "stride_c0": 0, "stride_d0": 1536,
    }  # fmt: skip
    if turned:
        out.strides, old = (6144, 4, 256), out
        wanted |= {"m": 24, "n": 64, "lda": 24, "ldb": 40, "ldc": 64, "ldd": 64, "a": b, "b": a, "c": d}
        wanted |= {"stride_a0": 0, "stride_b0": 2560, "stride_c0": 1536}
    modes = [BatchMode(3, *(wanted[f"stride_{name}0"] for name in "abcd"))]
    p = gemm_problem(
        wanted["m"], wanted["n"], 40, "f32", a_major="mn" if turned else "k", b_major="k" if turned else "mn",
        reads_c=True, batch=modes,
    )  # fmt: skip
    family = FAMILIES["gemm-simt"]
    assert family.called is not None
    (kernel,) = family.called(p, family.choose(p, "sm_90a"), "sm_90a").kernels
    names = [q.name for q in kernel.params]
    driver.arguments = repeat(len(names))
    for alpha, word in ((2, 0x40000000), (0.5, 0x3F000000)):
        assert product_api.matmul(x, y, out, alpha=alpha, beta=1, c=old) is out
        factors = {"alpha": word, "beta": 0x3F800000}
        assert dict(zip(names, addresses(driver)[-1], strict=True)) == wanted | factors
    assert len(driver.loaded) == 1


def test_elements_that_start_between_elements_are_refused_by_their_address(driver: Driver) -> None:
    with pytest.raises(AlignmentError, match=r"x starts at 0x4002 with strides \(160, 4\) in bytes"):
        reduce_api.reduce(Array(0x4002, (6, 40)), "sum", 1)


def test_the_cache_on_disk_is_asked_by_the_problem(
    driver: Driver, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("LAYOUTALG_CACHE", str(tmp_path))
    for _ in range(2):
        reduce_api.softmax(Array(0x4000, (6, 40)))
        api.transpose(Array(0x4000, (6, 40)))
        repeated.forget()
        plan_cache.sequence_on_gpu.cache_clear()
        reduce_api._loaded.cache_clear()
        api.permute_on_gpu.cache_clear()
        monkeypatch.setattr(plan_cache, "compile_sequence", None)  # nothing is planned any more
    assert driver.loaded[:2] == driver.loaded[2:]
    p = norm_problem("softmax", (6, 40), 1, "f32")
    key = plan_cache.plan_key("softmax", p, "sm_90a")
    assert key is not None and (tmp_path / key).exists()


def test_tensors_are_ordered_by_pytorchs_stream(
    driver: Driver, planned: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    class Tensor:
        dtype = type(
            "dtype", (), {"itemsize": 4, "is_complex": False, "__str__": lambda self: "torch.float32"}
        )()
        device = type("device", (), {"type": "cuda", "index": 0})()
        layout, is_quantized, requires_grad = "strided", False, False
        is_conj = is_neg = staticmethod(lambda: False)

        def __init__(self, address: int, shape: tuple[int, ...]) -> None:
            self.address, self.shape = address, shape

        def data_ptr(self) -> int:
            return self.address

        def stride(self) -> tuple[int, ...]:
            return Array(0, self.shape, "u1").strides

        def new_empty(self, shape: tuple[int, ...]) -> Tensor:
            return Tensor(0x9000, shape)

    torch = ModuleType("torch")
    streams = {0: 11}
    torch.__dict__.update(
        Tensor=Tensor, strided="strided", cuda=SimpleNamespace(OutOfMemoryError=MemoryError),
        _C=SimpleNamespace(_cuda_getCurrentRawStream=streams.__getitem__),
        empty_strided=lambda shape, strides, **options: Tensor(0x9000, shape),
    )  # fmt: skip
    monkeypatch.setitem(sys.modules, "torch", torch)
    x = Tensor(0x4000, (6, 40))
    api.permute(x, (1, 0))
    streams[0] = 12
    reduce_api.softmax(x)
    api.permute(Array(0x4000, (6, 40)), (1, 0))
    assert [stream for _, stream, _ in driver.launched] == [11, 12, STREAM]
    assert addresses(driver)[:2] == [[0x4000, 0x9000]] * 2 and len(planned) == 2
