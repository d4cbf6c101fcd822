"""grouped_matmul of arrays on the CPU, in the simulator and by the code of a GPU, and what it refuses."""

from __future__ import annotations

import random
import weakref
from collections.abc import Sequence
from typing import Any
from unittest.mock import patch

import numpy as np
import pytest

import layoutalg
from layoutalg import errors, ops
from layoutalg.kernels import plan_cache
from layoutalg.kernels.calls import grouped_api
from layoutalg.kernels.calls.grouped_api import grouped_matmul, plan_grouped_matmul
from layoutalg.kernels.elements import bits_of, numbers_of
from layoutalg.kernels.gemm import launches as gemm_launches
from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.tiles import Sm90Config
from layoutalg.limits import Most
from tests.stand_ins.hostgpu import HostArray, HostGpu, allocation, simulated_gpu
from tests.sweeps import each

SIZES = (65, 0, 1, 64)


def made(sizes: Sequence[int], k: int, n: int, dtype: str = "f2", *, by_k: bool = False) -> tuple[Any, Any]:
    """a and b of small integers, b's matrices by rows of n or of k."""
    rng = np.random.default_rng([len(sizes), k, n])
    a = rng.integers(-3, 4, (sum(sizes), k)).astype(dtype)
    shape = (len(sizes), n, k) if by_k else (len(sizes), k, n)
    b = rng.integers(-3, 4, shape).astype(dtype)
    return a, b.swapaxes(1, 2) if by_k else b


def definition(a: Any, b: Any, sizes: Sequence[int]) -> Any:
    """The groups one after the other, in float64."""
    ends = np.cumsum(sizes)
    found = np.zeros((len(a), b.shape[2]))
    for g, (size, end) in enumerate(zip(sizes, ends, strict=True)):
        found[end - size : end] = a[end - size : end].astype("f8") @ b[g].astype("f8")
    return found


SHORT = {"float32": "f32", "float16": "f16", "bfloat16": "bf16"}


def on_gpu(gpu: HostGpu, values: Any, kind: str) -> HostArray:
    """An array of numbers on a GPU that is host memory, at the strides of the NumPy one."""
    size = {"float32": 4}.get(kind, 2)
    raw = allocation(values.size * size + 16)
    strides = tuple(d // values.itemsize * size for d in values.strides)
    array = gpu.array(raw, 0, kind, values.shape, strides)
    array.bits[...] = bits_of(values.astype("f8"), SHORT[kind]).reshape(values.shape)
    return array


@pytest.mark.deep
@each("seed", range(64), sample=6)
def test_random_groups_are_their_definition(seed: int) -> None:
    """In NumPy and in the simulator or by the code of a GPU: any sizes, types and storages; no rows, no k, no
    n; in a launch of all groups or one for each."""
    rng = random.Random(f"groups {seed}")
    sizes = tuple(rng.choice((0, 1, 3, 64, 65)) for _ in range(rng.choice((0, 1, 3, 4, 5))))
    k, n = (rng.choice((8, 8, 16, 24, 41, 1, 0)) for _ in "kn")
    dtype, by_k = rng.choice(("f2", "f2", "f4", "i1")), rng.random() < 0.5
    a, b = made(sizes, k, n, dtype, by_k=by_k)
    wanted, activation = definition(a, b, sizes), rng.choice((None, "relu"))
    wanted = wanted.clip(min=0) if activation else wanted
    wide = np.full((len(a), n + 16), 7, "i4" if dtype == "i1" else dtype)
    out = wide[:, 3 : 3 + n] if rng.random() < 0.5 else None
    for simulate in (False, True)[: 1 + seed % 2]:
        got = grouped_matmul(a, b, list(sizes), out, activation=activation, simulate=simulate)
        assert got.dtype == wide.dtype and np.array_equal(got, wanted) and (out is None or got is out)
        assert (wide[:, :3] == 7).all() and (wide[:, 3 + n :] == 7).all()
    if seed % 2 == 0 and dtype != "i1" and k and n and sum(sizes):
        kind = "float32" if dtype == "f4" else rng.choice(("float16", "bfloat16"))
        with simulated_gpu(rng.choice(("sm_90", "sm_90", "sm_80"))) as gpu:
            x, w = on_gpu(gpu, a, kind), on_gpu(gpu, b, kind)
            there = ops.prepare("grouped_matmul", x, b=w, sizes=sizes, activation=activation)()
        assert np.array_equal(
            numbers_of(there.bits, SHORT[kind]), numbers_of(bits_of(wanted, SHORT[kind]), SHORT[kind])
        )


@pytest.mark.deep
def test_more_groups_than_a_launch_has() -> None:
    sizes = [1, 0, 2] * 23
    a, b = made(sizes, 8, 8)
    plan = plan_grouped_matmul(a, b, arch="sm_90")
    assert plan.launches == 2 and plan.problem is not None
    assert np.array_equal(grouped_matmul(a, b, sizes, simulate=True), definition(a, b, sizes))


def test_a_prepared_call_keeps_its_arrays_alive() -> None:
    a, b = made(SIZES, 40, 72, by_k=True)
    with simulated_gpu("sm_90") as gpu:
        matrices = on_gpu(gpu, b, "float16")
        kept = weakref.ref(matrices)
        call = ops.prepare("grouped_matmul", on_gpu(gpu, a, "float16"), b=matrices, sizes=SIZES)
        del matrices
        assert kept() is not None
        del call
        assert kept() is None


@pytest.mark.deep
def test_other_sizes_plan_and_compile_nothing() -> None:
    sizes = (65, 0, 1, 64), (0, 130, 0, 0), (30, 30, 30, 40)
    a, b = made(sizes[0], 40, 72)
    with simulated_gpu("sm_90") as gpu:
        x, w = on_gpu(gpu, a, "float16"), on_gpu(gpu, b, "float16")
        grouped_matmul(x, w, sizes[0])

        def never(*_: Any) -> Any:
            raise AssertionError("planned again")

        with patch.object(gemm_launches, "launches", never), patch.object(grouped_api, "_problem", never):
            for one in sizes:
                got = grouped_matmul(x, w, one)
                assert np.array_equal(numbers_of(got.bits, "f16"), definition(a, b, one))


@each("groups", [3, 70])
def test_more_rows_than_kernels_of_calls_address_in_32_bits(groups: int) -> None:
    sizes = [400] * groups if groups > 3 else [10_000, 0, 7_000]
    a, b = made(sizes, 8, 8)
    with simulated_gpu("sm_90") as gpu:
        x, w = on_gpu(gpu, a, "bfloat16"), on_gpu(gpu, b, "bfloat16")
        assert plan_grouped_matmul(x, w, arch="sm_90").problem is not None
        layoutalg.ops.prepare("grouped_matmul", x, b=w, sizes=sizes)  # planned, not computed


def test_words_are_those_of_the_configuration_that_runs() -> None:
    """What a lock file names, or a GPU whose clusters are small, is another one than the model's first."""
    a, b = made(SIZES, 40, 72)
    other = Sm90Config(128, 64, 4, through="shared", result_vec=8)

    def planned(family: str, p: Any, arch: str, *_: Any) -> Any:
        assert SM90.configs(p)[0].tile_m != other.tile_m
        return gemm_launches.called_launches(p, other, arch)

    with (
        simulated_gpu("sm_90") as gpu,
        patch.object(plan_cache, "ready_sequence", planned),
        patch.object(plan_cache, "choose", lambda *_: (other, "lock file")),
    ):
        got = grouped_matmul(on_gpu(gpu, a, "float16"), on_gpu(gpu, b, "float16"), SIZES)
    assert np.array_equal(numbers_of(got.bits, "f16"), definition(a, b, SIZES))


# --- plans and refusals --------------------------------------------------------------------------------


def test_plans_say_what_is_launched() -> None:
    a, b = np.ones((8192, 1024), "f2"), np.ones((8, 512, 1024), "f2").swapaxes(1, 2)
    plan = plan_grouped_matmul(a, b, arch="sm_90")
    assert (plan.launches, plan.groups, plan.reason) == (1, 8, "")
    assert str(plan).startswith("8192 x 512 x 1024 f16 TN in 8 groups on sm_90: gemm-sm90, ")
    assert plan.config is not None and plan.config.through == "tma" and plan.expected_ns < 1e5
    short = plan_grouped_matmul(a[:504], b, arch="sm_90")  # no box of 64 rows is whole in groups of 63
    assert short.config is not None and short.config.through == "shared"
    for other, why in (
        (plan_grouped_matmul(a, b, arch="sm_80"), "wgmma needs sm_90"),
        (plan_grouped_matmul(a[:, 1:], b[:, 1:], arch="sm_90"), "16 bytes, which TMA needs"),
        (plan_grouped_matmul(a, b[:1], arch="sm_90"), "one group is a product"),
        (plan_grouped_matmul(a, np.asfortranarray(a)[None, :1024, ::2], arch="sm_90"), "one group"),
    ):
        assert other.problem is None and why in other.reason
        assert str(other).startswith(f"{other.groups} groups on {other.arch}: a matmul for each, for ")


A, B = made(SIZES, 16, 24)
SQUARE = np.zeros((130, 16), "f2")
REFUSED: dict[type[errors.LayoutAlgError], list[tuple[str, tuple[Any, ...]]]] = {
    errors.ShapeError: [
        ("129 rows together; a has 130", (A, B, [65, 0, 1, 63])),
        ("of 3 groups; b has 4 matrices", (A, B, [65, 0, 65])), (r"sizes\[1\] = -1", (A, B, [65, -1, 1, 65])),
        (r"\(m, k\) and \(groups, k, n\)", (A, B[0], SIZES)),
        ("16 along a's last mode and 15 along the second of b", (A, B[:, 1:], SIZES)),
    ],
    errors.ArgumentTypeError: [
        ("an integer per group", (A, B, [65, 0.5, 0, 64.5])), ("sizes are 130: an integer", (A, B, 130)),
        ("both must be of one type", (A, B.astype("f4"), SIZES)),
        ("out overlaps a", (SQUARE, np.zeros((4, 16, 16), "f2"), SIZES, SQUARE)),
    ],
    errors.NotInjectiveError: [
        ("one place for two", (A, B, SIZES, np.broadcast_to(np.zeros((1, 24), "f2"), (130, 24))))
    ],
    errors.ResourceError: [
        ("groups of a product", (A, np.broadcast_to(B[:1], (Most.ENTRIES.number + 1, 16, 24)), SIZES))
    ],
}  # fmt: skip


@each(("error", "text", "given"), [(error, *row) for error, rows in REFUSED.items() for row in rows])
def test_sizes_and_arrays_are_refused_by_name(error: Any, text: str, given: Any) -> None:
    with pytest.raises(error, match=text):
        grouped_matmul(*given)


def test_what_no_kernel_reads_is_copied_unless_that_is_refused_and_no_k_has_no_plan() -> None:
    with simulated_gpu("sm_90") as gpu, pytest.raises(errors.UnsupportedError, match="copy=True moves it"):
        x, w = on_gpu(gpu, A, "float16"), on_gpu(gpu, np.repeat(B, 2, 2), "float16")
        apart = HostArray(gpu.device, w.raw, 0, w.dtype, (4, 16, 24), (1536, 96, 4))
        grouped_matmul(x, apart, SIZES, copy=False)
    with pytest.raises(errors.ShapeError, match="has no elements to add up"):
        plan_grouped_matmul(A[:, :0], B[:, :0])
