"""Kernels by the names of the command line."""

from __future__ import annotations

import re

from layoutalg.cli.kernel_names import find_kernel
from tests.command import answer, run

CUBE = {"m": 512, "n": 512, "k": 512}


def test_the_chosen_kernel_is_found() -> None:
    assert find_kernel("transpose", {"m": 256, "n": 256}, "sm_90").kernel.name == "transpose_f32"
    found = find_kernel("gemm-sm80", {"dtype": "bf16", "m": 256, "n": 512, "k": 128}, "sm_90")
    assert found.problem == "256 x 512 x 128 bf16 TN" and found.kernel.name == "gemm_sm80_bf16"
    assert (found.part, found.parts) == (1, 1)


def test_a_step_of_a_ladder_is_found_by_name_or_number() -> None:
    by_number = find_kernel("gemm-sm80", CUBE, "sm_90", "3")
    assert by_number.problem.endswith("step 3 swizzle")
    assert by_number.kernel == find_kernel("gemm-sm80", CUBE, "sm_90", "3 swizzle").kernel


def test_files_that_are_linked_have_names_of_their_own() -> None:
    """Kernels of one size that differ in an option, and steps of one ladder that print alike."""
    asked: list[tuple[dict[str, object], str | None]] = [
        ({}, None), ({"bias": "n"}, None), ({"bias": "m"}, None), ({"c": True}, None), ({"ldd": 640}, None),
        ({"activation": "relu"}, None), ({"accumulator": "f16"}, None), ({"result": "f32"}, None),
        *(({}, str(number)) for number in (1, 2, 7)),
    ]  # fmt: skip
    names = {
        find_kernel("gemm-sm80", CUBE | options, "sm_90", step, linked=True).kernel.name
        for options, step in asked
    }
    assert len(names) == len(asked)


def test_generate_writes_a_product() -> None:
    text = run("generate", "gemm-sm80", "--m", "256", "--n", "256", "--k", "128").stdout
    assert "mma_m16n8k16_f16_f32(acc[i][j]" in text and re.search(r"\ngemm_sm80_f16_[0-9a-f]{8}\(", text)
    found = answer("generate", "gemm-simt", "--m", "256", "--n", "256", "--k", "128")
    assert (
        re.fullmatch("gemm_simt_f32_[0-9a-f]{8}", found["kernel"])
        and found["problem"] == "256 x 256 x 128 f32 TT"
    )
