"""The ways to compute a product: from where operands lie, or from padded copies, and the times expected."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.calls import plan_matmul, product_choice
from layoutalg.kernels.calls.product_choice import copy_ns, ways
from layoutalg.kernels.calls.product_plan import Copy, find_product, paddable, plan_of
from layoutalg.kernels.gemm import choice as choices
from layoutalg.kernels.gemm.problem import BatchMode
from tests.draws import products
from tests.judges.view_judge import Host
from tests.kernels.calls.test_product_api import arrays
from tests.kernels.calls.test_product_plan import form
from tests.stand_ins.hostgpu import simulated_gpu
from tests.sweeps import each


def best(m: int, n: int, k: int, arch: str = "sm_90", **options: Any) -> tuple[str, list[str]]:
    """The family and what is copied, for dense operands stored along k."""
    a, b = form((m, k), kind="float16"), form((k, n), (1, k), "float16")
    way = ways(find_product(a, b, **options), (), arch)[0]
    return way.family, sorted(way.plan.copies)


@each(
    ("size", "family", "copies"),
    [
        *(((n, n, n), "gemm-sm90", ["a", "b"]) for n in (2047, 3001, 4095, 5003, 8191)),
        # rows at odd multiples of 16 bytes, which TMA reads
        *(((n, n, n), "gemm-sm90", []) for n in (3000, 4104, 5000, 7000)),
        ((4096, 4095, 4096), "gemm-sm90", []),  # only the result is odd
        ((4096, 4096, 4096), "gemm-sm90", []),
        ((100, 100, 101), "gemm-sm80", []),  # copying takes longer than the product
    ],
)
def test_large_products_of_odd_operands_are_computed_from_padded_copies(
    size: tuple[int, int, int], family: str, copies: list[str]
) -> None:
    assert best(*size) == (family, copies)
    assert best(4095, 4095, 4095, copy=False) == ("gemm-sm80", [])


def test_a_new_size_makes_no_configuration_anew() -> None:
    def planned(i: int) -> None:
        best(4096 + 64 * i, 4096, 4096)
        best(4097 + 64 * i, 4095, 4095)

    planned(0)
    made = choices._with.cache_info()
    for i in range(1, 9):
        planned(i)
    now = choices._with.cache_info()
    assert now.misses <= made.misses + 1 and now.hits > 8 * 45, "but for a tile that divides a size exactly"


def test_ways_are_sorted_by_time_and_say_what_is_copied() -> None:
    a, b = form((3001, 3001), kind="float16"), form((3001, 3001), (1, 3001), "float16")
    found = ways(find_product(a, b), (), "sm_90")
    assert [way.ns for way in found] == sorted(way.ns for way in found) and len(found) == 2
    copied = found[0].plan.copies["a"]
    assert copied == Copy((3001, 3001), (6002, 2), 3008) and copied.room == (3001, 3008)
    assert found[0].plan.p.lda == found[0].plan.p.ldb == 3008
    assert found[0].copies_ns == 2 * copy_ns(copied, 2, "sm_90")


def test_copies_keep_the_order_of_an_operand_and_broadcast_products_only_once() -> None:
    a = form((5, 65, 33), (0, 33, 1), "float16")
    b = form((5, 33, 71), (33 * 71, 71, 1), "float16")
    product = find_product(a, b)
    assert paddable(product, {}) == ("a", "b")
    plan = plan_of(product, {}, ("a", "b"))
    assert plan.copies == {
        "a": Copy((1, 65, 33), (0, 66, 2), 64),
        "b": Copy((5, 33, 71), (4686, 142, 2), 128),
    }
    assert (plan.p.a_major, plan.p.lda, plan.p.b_major, plan.p.ldb) == ("k", 64, "mn", 128)
    assert plan.p.batch == (BatchMode(5, 0, 33 * 128, 0, 65 * 71),)
    assert plan.copies["b"].rows == (165, 142) and plan.copies["a"].rows == (65, 66)
    assert Copy((5, 33, 71), (9000, 142, 2), 128).rows is None


def test_starts_and_steps_between_vectors_are_odd_too() -> None:
    a, b = form((64, 64), kind="float16"), form((64, 64), kind="float16")
    assert paddable(find_product(a, b), {}) == () and paddable(find_product(a, b), {"b": 2}) == ("b",)
    stepped = find_product(form((3, 64, 64), (4100, 64, 1), "float16"), form((3, 64, 64), kind="float16"))
    assert paddable(stepped, {}) == ("a",)
    assert paddable(find_product(form((64, 63)), form((63, 64))), {}) == ()  # float32: no tensor cores


def wrong_of_copies(seed: int, *kinds: str) -> str:
    """Judge a drawn product whose copies cost nothing, so that they are made; "" where nothing is wrong."""
    case = products.draw(1000 + seed, kinds=kinds, most=20, most_elems=4000)
    with pytest.MonkeyPatch.context() as patched, simulated_gpu("sm_90") as gpu:
        patched.setattr(product_choice, "copy_ns", lambda *_: -1e6)
        product_choice.ways.cache_clear()
        wrong = products.run(case, Host(gpu))
        product_choice.ways.cache_clear()
    return wrong and f"{case}: {wrong}"


@pytest.mark.deep
@each("seed", range(40), sample=3)
def test_random_products_of_padded_copies_are_their_definition(seed: int) -> None:
    """The times are those of a GPU."""
    assert not wrong_of_copies(seed, "float16", "bfloat16")


@pytest.mark.deep
@each("seed", range(20))
def test_random_products_of_turned_copies_are_their_definition(seed: int) -> None:
    assert not wrong_of_copies(seed, "float32")


def test_plan_matmul_says_how_a_product_is_computed() -> None:
    x = np.zeros((3001, 3002), "f2")
    plan = plan_matmul(x[:, :3001], x.T[:3001], arch="sm_90")
    assert (plan.family, plan.copies, plan.problem.lda) == ("gemm-sm90", ("a", "b"), 3008)
    shown = re.sub(
        r"\d+x\d+x64, \d+ stages(, clusters of \dx\dx\d)?(, ping-pong)?(, crossed)?|\b\d+ us",
        "...",
        str(plan),
    ).splitlines()
    assert shown[:3] == [
        "3001 x 3001 x 3001 f16 TN, lda 3008, ldb 3008 on sm_90: gemm-sm90, ..., ... expected on H200-SXM, "
        "... of it copies",
        "  a is copied into rows of 3008 elements (3001 x 3001)",
        "  b is copied into rows of 3008 elements (3001 x 3001)",
    ]
    assert shown[3:] == ["otherwise gemm-sm80, 64x64x32, 2 stages, ... expected on H200-SXM"]
    assert plan_matmul(x, x.T, arch="sm_80").family == "gemm-sm80"
    with pytest.raises(ShapeError, match="has no elements to add up"):
        plan_matmul(x[:0], x.T)
    with pytest.raises(UnsupportedError, match="copy=True moves it first"):
        plan_matmul(x[:, ::-1], x.T, copy=False)
    assert "has no configuration" in str(plan_matmul(x, x.T, arch="sm_70"))


def test_another_odd_size_compiles_nothing() -> None:
    """The kernel that copies takes sizes and pitches when it is launched."""
    from layoutalg.kernels.calls.product_api import matmul
    from tests.stand_ins.hostgpu import compiled_names, planning_gpu

    with planning_gpu("sm_90") as gpu, compiled_names() as ran:
        for n in (1111, 1113):
            matmul(*arrays(gpu, (n, n), (n, n), kind="float16"))
    assert len(ran) == 2
