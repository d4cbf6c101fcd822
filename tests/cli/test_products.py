"""Products at the command line: epilogues, storage orders, leading dimensions, types, steps, tiles."""

from __future__ import annotations

import json

import pytest

from tests.command import refusal, run

SMALL = ("--m", "64", "--n", "72", "--k", "40", "--target", "simulator")


@pytest.mark.deep(
    but=(
        "gemm-sm80 --m 64 --n 72 --k 40 --target simulator --tile 64x64x32",
        "gemm-simt --step v7 --target simulator",
    )
)
@pytest.mark.parametrize(
    "words",
    [
        (
            "gemm-simt",
            *SMALL,
            "--a-major",
            "mn",
            "--b-major",
            "k",
            "--lda",
            "68",
            "--ldd",
            "80",
            "--bias",
            "m",
        ),
        ("gemm-simt", *SMALL, "--dtype", "f64", "--no-c", "--bias", "none", "--activation", "silu"),
        (
            "gemm-sm80",
            *SMALL,
            "--b-major",
            "mn",
            "--ldb",
            "80",
            "--ldc",
            "96",
            "--result",
            "f32",
            "--activation",
            "gelu",
        ),
        ("gemm-sm80", *SMALL, "--accumulator", "f16", "--alpha", "0.5", "--beta", "2"),
        ("gemm-sm80", *SMALL, "--dtype", "s8", "--alpha", "-3", "--beta", "0", "--activation", "relu"),
        ("gemm-sm80", *SMALL, "--tile", "64x64x32"),
        ("gemm-simt", "--step", "v7", "--target", "simulator"),
        ("gemm-sm80", *SMALL, "--schedule", "streamk", "--tile", "64x64x64"),
        ("gemm-sm90", "--m", "90", "--n", "64", "--k", "40", "--groups", "4", "--no-c", "--bias", "n"),
    ],
    ids=" ".join,
)
def test_verify_takes_what_a_product_has(words: tuple[str, ...]) -> None:
    done = run("verify", *words)
    assert done.exit_code == 0 and "Passed." in done.stdout, done.output


def test_generate_writes_what_is_asked_for() -> None:
    words = (
        "gemm-sm80",
        "--m",
        "256",
        "--n",
        "256",
        "--k",
        "256",
        "--dtype",
        "bf16",
        "--result",
        "f32",
        "--json",
    )
    asked = (
        "--c",
        "--bias",
        "m",
        "--activation",
        "gelu",
        "--a-major",
        "mn",
        "--lda",
        "264",
        "--tile",
        "64x64x64",
    )
    told = json.loads(run("generate", *words, *asked).stdout)
    assert "D = gelu(alpha A B + beta C + bias[m]): bf16 operands, f32 sums, f32 result" in told["source"]
    assert "makes 64 x 64 of D" in told["source"]
    values = {p["name"]: p for p in told["launch"]["parameters"]}
    assert {"a", "b", "c", "d", "bias", "alpha", "beta"} <= set(values)
    assert values["lda"]["least"] == values["lda"]["most"] == 264 and values["lda"]["built_in"]
    step = run("generate", "gemm-simt", "--step", "v7", "--m", "128", "--n", "128", "--k", "64")
    assert step.exit_code == 0 and "gemm_simt_f32" in step.stdout


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("generate gemm-sm80 --beta 2", "beta is a parameter of the kernel"),
        ("generate transpose --c", "transpose has no c: it takes --m, --n, --lds, --ldd"),
        ("generate softmax --shape 8,8 --a-major k --bias n", "softmax has no a-major and bias"),
        ("generate gemm-sm80 --tile 1x2x3", "unknown tile of gemm-sm80 '1x2x3': accepted are 128x256x64"),
        ("generate gemm-sm80 --dtype s8 --b-major mn", "s8 operands must both be stored along k"),
        ("generate gemm-sm80 --step 8 --tile 64x64x64", "--step or --tile, not both"),
        ("generate gemm-sm80 --step 8 --schedule streamk", "--step or --schedule, not both"),
        ("generate gemm-sm80 --schedule split", "schedule = 'split': 'data_parallel' and 'persistent' and"),
        ("generate gemm-sm90 --schedule data_parallel", "'persistent' and 'streamk' are accepted"),
        ("generate gemm-simt --schedule streamk", "gemm-simt has no schedules: gemm-sm80 and gemm-sm90"),
        ("generate softmax --shape 8,8 --schedule streamk", "softmax has no schedules"),
        (
            "generate transpose --tile 64x64",
            "transpose has no tiles: gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90 do",
        ),
        (
            "verify transpose --step 2",
            "transpose has no steps: gemm-simt, gemm-sm75, gemm-sm80, gemm-sm90 do",
        ),
        ("verify permute --shape 6,4 --axes 1,0 --alpha 2", "permute has no alpha and no beta"),
        ("generate gemm-sm80 --dtype s8 --activation gelu", "gelu of s32"),
        ("generate gemm-sm80 --groups 4", "gemm-sm80 has no groups: it takes --m"),
        ("generate gemm-sm90 --groups 65", "groups of a launch: 65 asked, the limit is 64"),
        ("verify gemm-sm90 --groups 0", "groups = 0: a positive integer is needed"),
        ("generate gemm-simt --result f16", "a result of f16 from f32: f32 is accepted"),
        ("generate gemm-simt --bias q", "bias = 'q': 'none', 'n' and 'm' are accepted"),
        ("generate gemm-simt --m 64 --lda 3", "lda = 3 is less than the row length"),
        ("verify gemm-sm80 --m 64 --dtype s8 --alpha 0.5 --target simulator", "alpha must be an integer"),
        (
            "verify gemm-sm80 --m 16 --dtype s8 --beta 1000000007 --target simulator",
            "integers of C are exact in",
        ),
        (
            "verify gemm-sm80 --m 16 --dtype s8 --alpha 17179869184 --target simulator",
            "sums of 16 products are",
        ),
        ("generate gemm-sm80 --b-major row", "b_major = 'row': 'k' and 'mn' are accepted"),
    ],
)
def test_what_a_kernel_lacks_is_refused_by_name(words: str, said: str) -> None:
    assert said in refusal(*words.split())[1]
