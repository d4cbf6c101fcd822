"""`layoutalg generate` and `verify` of products, permutes, reductions and norms, and the names of kernels."""

from __future__ import annotations

import json
import re
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from layoutalg.cli.kernel_names import find_config, find_kernel, read_ints
from layoutalg.codegen.gpu import to_cuda
from layoutalg.errors import LayoutAlgError, ParseError
from layoutalg.kernels import checks as kernel_checks
from layoutalg.kernels import find_family
from layoutalg.kernels.checks.gemm import VERIFIED as VERIFIED_PRODUCTS
from layoutalg.kernels.checks.record import Check, VerifyReport
from layoutalg.kernels.gemm.choice import check_or_suggest
from tests.command import answer, refusal, run
from tests.draws.sequences import TENSOR_OPS, launches_of, problem_of
from tests.sweeps import each, first

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
        find_kernel("gemm-sm80", CUBE | options, "sm_90", step, linked="").kernel.name
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


SMALL = "--m 64 --n 72 --k 40 --target simulator"
PRODUCTS = (
    "gemm-sm80 {} --tile 64x64x32",
    "gemm-simt --step v7 --target simulator",
    "gemm-simt {} --a-major mn --b-major k --lda 68 --ldd 80 --bias m",
    "gemm-simt {} --dtype f64 --no-c --bias none --activation silu",
    "gemm-sm80 {} --b-major mn --ldb 80 --ldc 96 --result f32 --activation gelu",
    "gemm-sm80 {} --accumulator f16 --alpha 0.5 --beta 2",
    "gemm-sm80 {} --dtype s8 --alpha -3 --beta 0 --activation relu",
    "gemm-sm90 --m 90 --n 64 --k 40 --groups 4 --no-c --bias n",
)


@pytest.mark.deep
@pytest.mark.parametrize("words", first(1, PRODUCTS))
def test_verify_takes_what_a_product_has(words: str) -> None:
    done = run("verify", *words.format(SMALL).split())
    assert done.exit_code == 0 and "Passed." in done.stdout, done.output


@each(
    ("family", "shape", "found"),
    [
        ("gemm-sm80", {"tile": "16x16x32"}, "16x16x32, 3 stages"),
        ("gemm-sm80", {"tile": "128x128x32", "stages": 3, "warps": "4x1"}, "128x128x32, 3 stages"),
        ("gemm-sm80", {"stages": 9}, "64x128x64, 9 stages"),
        ("gemm-sm80", {"tile": "100x128x64"}, "tile_m = 100 is not a multiple of 32"),
        ("gemm-sm80", {"tile": "256x256x64"}, "registers per thread of 256x256x64"),
        ("gemm-sm80", {"stages": 40}, "limit is 232448; .* with stages="),
        ("gemm-sm80", {"tile": "128x128"}, "three positive sides"),
        ("gemm-sm80", {"step": "7", "warps": "2x2"}, "--step or --warps, not both"),
        ("gemm-sm90", {"tile": "128x192x64", "stages": 3}, "128x192x64, 3 stages"),
        ("gemm-sm90", {"tile": "128x128x32"}, "tile_k = 32 of bf16: rows of 128 bytes are 64"),
        ("gemm-sm90", {"warps": "2x2"}, "warps_m = 2: gemm-sm90 has none"),
        ("gemv", {"stages": 2}, "gemv has no stages"),
    ],
)
def test_any_shape_is_taken_or_refused_by_what_it_needs(
    family: str, shape: dict[str, Any], found: str
) -> None:
    chosen = find_family(family)
    problem = chosen.problem(1024, 1024, 512)
    try:
        config = find_config(chosen, problem, "sm_90a", **shape)[1]
        check_or_suggest(problem, config, "sm_90a")
    except LayoutAlgError as error:
        assert re.search(found, str(error)), error
    else:
        assert str(config) == found
        assert "warps" not in shape or f"{config.warps_m}x{config.warps_n}" == shape["warps"]


def test_generate_writes_what_is_asked_for() -> None:
    words = "generate gemm-sm80 --m 256 --n 256 --k 256 --dtype bf16 --result f32 --json --c --bias m"
    words += " --activation gelu --a-major mn --lda 264 --tile 64x64x64"
    told = json.loads(run(*words.split()).stdout)
    assert "D = gelu(alpha A B + beta C + bias[m]): bf16 operands, f32 sums, f32 result" in told["source"]
    assert "makes 64 x 64 of D" in told["source"]
    values = {p["name"]: p for p in told["launch"]["parameters"]}
    assert {"a", "b", "c", "d", "bias", "alpha", "beta"} <= set(values)
    assert (values["lda"]["least"], values["lda"]["most"], values["lda"]["multiple"]) == (8, 1 << 14, 8)
    told = json.loads(run(*words.split(), "--static").stdout)
    (lda,) = (p for p in told["launch"]["parameters"] if p["name"] == "lda")
    assert lda["least"] == lda["most"] == 264 and lda["built_in"]
    step = run("generate", "gemm-simt", "--step", "v7", "--m", "128", "--n", "128", "--k", "64")
    assert step.exit_code == 0 and "sgemm_f32" in step.stdout


@pytest.mark.deep
def test_a_product_is_verified() -> None:
    words = ("verify", "gemm-simt", "--m", "32", "--n", "64", "--k", "16", "--target", "simulator")
    payload = answer(*words)
    assert payload["passed"] and payload["dtype"] == "f32" and len(payload["reports"]) == 1
    names = [check["name"] for check in payload["reports"][0]["checks"]]
    assert names[:2] == ["result, one block at a time", "result, one warp at a time"]
    text = run(*words)
    assert text.exit_code == 0 and text.stdout.endswith("Passed.\n") and "FAILS" not in text.stdout


def test_sizes_and_types_reach_the_problem(monkeypatch: pytest.MonkeyPatch) -> None:
    seen: list[str] = []

    def noted(family: Any, p: Any, config: Any, *, target: Any, seed: int, checks: Any) -> VerifyReport:
        assert config is None
        seen.append(f"{p}, {target}, {seed}")
        return VerifyReport(family.name, str(p), target, (Check("result", "45" not in str(p), "-"),))

    monkeypatch.setattr(kernel_checks, "verify", noted)
    all_of = "TN, alpha A B + beta C + bias, simulator"
    only = ("--target", "simulator")
    assert answer("verify", "gemm-sm80", "--m", "40", "--dtype", "bf16", "--seed", "7", *only)["passed"]
    assert answer("verify", "gemm-sm80", *only, exit_code=1)["passed"] is False
    assert seen == [
        f"40 x 40 x 40 bf16 {all_of}, 7",
        *(f"{m} x {n} x {k} f16 {all_of}, 0" for m, n, k in VERIFIED_PRODUCTS),
    ]


@each("family", TENSOR_OPS, sample=2)
def test_generate_prints_the_kernel_of_a_tensor(family: str) -> None:
    axes, over = ("2,0,1", (2, 0, 1)) if family == "permute" else ("0,2", (0, 2))
    words = ("generate", family, "--shape", "24,40,36", "--axes", axes, "--dtype", "f16")
    printed = run(*words).stdout
    (kernel,) = launches_of(problem_of(family, (24, 40, 36), over, "f16")).kernels
    payload = answer(*words)
    name = payload["kernel"]
    assert (
        to_cuda(replace(kernel, name=name), "sm_90") in f"// {printed.partition('//' + chr(10) + '// ')[2]}"
    )
    assert payload["source"] == printed and (payload["part"], payload["parts"]) == (1, 1)
    assert re.fullmatch(rf"{kernel.name}_[0-9a-f]{{8}}", name)


def test_a_tensor_compiles_and_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "nchw.cu"
    words = ("--shape", "(8,28,28,3)", "--axes", "(0,3,1,2)", "--compile", "sm_90a", "-o", str(path))
    text = run("generate", "permute", *words).stdout
    assert text.startswith(f"wrote {path}: ") and "and less" not in text and "registers per thread" in text
    assert path.read_text(encoding="utf-8").startswith("//")


def test_kernels_that_are_launched_in_order_are_printed_one_by_one() -> None:
    words = ("generate", "sum", "--shape", "67108864")
    first, second = (answer(*words, "--part", part) for part in "12")
    assert (first["part"], second["part"], first["parts"]) == (1, 2, 2)
    assert first["source"] != second["source"]
    assert run(*words, "--part", "1").stderr == "kernel 1 of 2, to be launched in order: --part chooses\n"
    said = run(*words)
    assert said.stderr == "2 kernels, to be launched in order: --part chooses\n"
    both = answer(*words)
    assert (both["source"], both["part"]) == (said.stdout, None)
    assert all(one["kernel"] in both["source"] for one in (first, second))
    assert refusal(*words, "--part", "3") == (
        "ResourceError", f"part of {first['problem']}: 3 asked, the limit is 2"
    )  # fmt: skip


def test_ints_are_read_with_and_without_parentheses() -> None:
    assert read_ints("shape", "(4,)") == read_ints("shape", "4") == (4,)
    assert read_ints("axes", " 0 , -1 ") == (0, -1) and read_ints("axes", "()") == ()
    for text in ("4,,8", "4 8", "0x4", "4.0", "--4", "², 1", "four", "9" * 5000):
        with pytest.raises(ParseError, match="expected an int at position"):
            read_ints("shape", text)


@each("family", TENSOR_OPS, sample=1)
def test_verify_compares_tensors_with_their_definition(family: str) -> None:
    axes = "1,0" if family == "permute" else "0"
    words = ("verify", family, "--shape", "21,35", "--axes", axes, "--dtype", "f16", "--target", "simulator")
    payload = answer(*words)
    assert payload["passed"] and payload["dtype"] == "f16" and len(payload["reports"]) == 1
    checks = {c["name"]: c for c in payload["reports"][0]["checks"]}
    assert {"result, one block at a time", "result, one warp at a time", "no other accesses"} <= set(checks)
    assert payload["reports"][0]["problem"].startswith(family)


@pytest.mark.deep
def test_verify_takes_tensors_of_its_own_where_no_shape_is_given() -> None:
    said = run("verify", "permute", "--target", "simulator").stdout
    assert said.endswith("Passed.\n") and said.count("permute (") >= 2


def test_verify_fails_where_the_definition_is_another(monkeypatch: pytest.MonkeyPatch) -> None:
    from layoutalg.kernels import rowwise

    monkeypatch.setattr(rowwise, "normed", lambda p, x, *extra: x)
    done = run("verify", "softmax", "--shape", "4,40", "--target", "simulator")
    assert done.exit_code == 1 and done.stdout.endswith("FAILED.\n") and "by definition" in done.stdout
