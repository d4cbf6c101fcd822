"""Statements beside a count, and doors of the library and the command, each by the case that showed it."""

from __future__ import annotations

import json

from layoutalg.codegen.cuda import to_cuda
from layoutalg.kernels import gemm_sm80
from layoutalg.kernels.gemm import gemm_problem
from layoutalg.kernels.gemm_sm80_plan import Sm80Config
from tests.command import run


def test_an_assumed_rule_of_sm_90_is_not_carried_over_from_itself() -> None:
    text = run("analyze", "(64,64):(64,1)", "--dtype", "f16", "--access", "ldmatrix.x2.trans").stdout
    assert "rule of ldmatrix.x2.trans on sm_90 is assumed: its row addresses are served as those of" in text
    assert "carried over" not in text


def test_trans_of_wide_elements_is_counted_with_a_word() -> None:
    for element, lanes in (("f32", 2), ("f64", 4)):
        words = ("analyze", "(64,64):(64,1)", "--dtype", element, "--access", "ldmatrix.x4.trans")
        note = f"ldmatrix.x4.trans transposes units of 16 bits: each {element} element is split over {lanes}"
        assert note in " ".join(run(*words).stdout.split())
        assert any(note in said for said in json.loads(run(*words, "--json").stdout)["accesses"][0]["notes"])


def test_a_swizzle_that_is_no_involution_is_said_to_be_none() -> None:
    note = "Sw<3,3,2> is not an involution (|S| < B: its fields overlap), and CuTe refuses it"
    layout = "Sw<3,3,2> o 0 o (64,64):(64,1)"
    for words in (
        ("analyze", layout, "--dtype", "f16", "--access", "ldmatrix.x4"),
        ("draw", layout),
        ("draw", layout, "--access", "ld.shared.b32"),
    ):
        assert note in " ".join(run(*words).stdout.split()), words
    assert "Sw<3,3,2> is not its own inverse" in run("explain", "Sw<3,3,2>", "72").stdout


def test_the_kernel_of_relu_says_relu() -> None:
    p = gemm_problem(256, 256, 64, bias=True, activation="relu")
    head = to_cuda(gemm_sm80.build(p, Sm80Config(64, 64, 32, 2, 2, 2))).partition("using")[0]
    assert "D = relu(alpha A B + bias)" in head
