"""Products at the command line: epilogues, storage orders, leading dimensions, types, steps, tiles."""

from __future__ import annotations

import json

import pytest

from tests.command import run
from tests.sweeps import first

SMALL = "--m 64 --n 72 --k 40 --target simulator"
PRODUCTS = (
    "gemm-sm80 {} --tile 64x64x32",
    "gemm-simt --step v7 --target simulator",
    "gemm-simt {} --a-major mn --b-major k --lda 68 --ldd 80 --bias m",
    "gemm-simt {} --dtype f64 --no-c --bias none --activation silu",
    "gemm-sm80 {} --b-major mn --ldb 80 --ldc 96 --result f32 --activation gelu",
    "gemm-sm80 {} --accumulator f16 --alpha 0.5 --beta 2",
    "gemm-sm80 {} --dtype s8 --alpha -3 --beta 0 --activation relu",
    "gemm-sm80 {} --schedule streamk --tile 64x64x64",
    "gemm-sm90 --m 90 --n 64 --k 40 --groups 4 --no-c --bias n",
)


@pytest.mark.parametrize("words", first(2, PRODUCTS))
def test_verify_takes_what_a_product_has(words: str) -> None:
    done = run("verify", *words.format(SMALL).split())
    assert done.exit_code == 0 and "Passed." in done.stdout, done.output


def test_generate_writes_what_is_asked_for() -> None:
    words = "generate gemm-sm80 --m 256 --n 256 --k 256 --dtype bf16 --result f32 --json --c --bias m"
    words += " --activation gelu --a-major mn --lda 264 --tile 64x64x64"
    told = json.loads(run(*words.split()).stdout)
    assert "D = gelu(alpha A B + beta C + bias[m]): bf16 operands, f32 sums, f32 result" in told["source"]
    assert "makes 64 x 64 of D" in told["source"]
    values = {p["name"]: p for p in told["launch"]["parameters"]}
    assert {"a", "b", "c", "d", "bias", "alpha", "beta"} <= set(values)
    assert values["lda"]["least"] == values["lda"]["most"] == 264 and values["lda"]["built_in"]
    step = run("generate", "gemm-simt", "--step", "v7", "--m", "128", "--n", "128", "--k", "64")
    assert step.exit_code == 0 and "gemm_simt_f32" in step.stdout
