"""Kernels by the names of the command line."""

from __future__ import annotations

import pytest

from layoutalg.cli.kernel_names import find_kernel, is_product
from layoutalg.errors import UnknownNameError, UnsupportedError
from tests.command import answer, refusal, run


def test_products_and_matrix_families_have_their_own_names() -> None:
    assert is_product("gemm-sm80") and is_product("gemm-simt") and not is_product("transpose")
    assert find_kernel("transpose", None, (256, 256, None), None, "sm_90")[1].name == "transpose_f32"
    problem, kernel = find_kernel("gemm-sm80", "bf16", (256, 512, 128), None, "sm_90")
    assert problem == "256 x 512 x 128 bf16 TN" and kernel.name == "gemm_sm80_bf16"


def test_a_step_of_a_ladder_is_found_by_name_or_number() -> None:
    by_number = find_kernel("gemm-sm80", None, (512, 512, 512), "3", "sm_90")
    assert by_number[0].endswith("step 3 swizzle")
    assert by_number[1] == find_kernel("gemm-sm80", None, (512, 512, 512), "3 swizzle", "sm_90")[1]


@pytest.mark.parametrize(
    ("family", "k", "step", "error", "text"),
    [
        ("transpose", 64, None, UnsupportedError, "transpose has no k"),
        ("transpose", None, "3", UnsupportedError, "transpose has no steps"),
        ("gem", None, None, UnknownNameError, "gem"),
        ("gemm-sm80", None, "99", UnknownNameError, "step of gemm-sm80"),
    ],
)
def test_what_there_is_not_is_refused(
    family: str, k: int | None, step: str | None, error: type[Exception], text: str
) -> None:
    with pytest.raises(error, match=text):
        find_kernel(family, None, (256, 256, k), step, "sm_90")


def test_generate_writes_a_product() -> None:
    text = run("generate", "gemm-sm80", "--m", "256", "--n", "256", "--k", "128").stdout
    assert "mma_m16n8k16_f16_f32(acc[i][j]" in text and "gemm_sm80_f16(" in text
    found = answer("generate", "gemm-simt", "--m", "256", "--n", "256", "--k", "128")
    assert found["kernel"] == "gemm_simt_f32" and found["problem"] == "256 x 256 x 128 f32 TT"


def test_generate_refuses_a_product_with_leading_dimensions_of_a_copy() -> None:
    name, message = refusal("generate", "gemm-sm80", "--lds", "512")
    assert name == "UnsupportedError" and "dense here" in message
