"""The agreement test of tensors holds for what the plans make, and fails for what is broken."""

from __future__ import annotations

import random
from dataclasses import replace
from typing import Any

import pytest

from layoutalg.errors import ShapeError
from layoutalg.kernels import chain_verify
from layoutalg.kernels.chain_verify import predicted, verify_chain
from layoutalg.kernels.chains import OPERATIONS, Chain, chain_of, find_problem
from layoutalg.kernels.move.problem import permute_problem
from layoutalg.kernels.rowwise.norm_modes import norm_problem
from layoutalg.kernels.rowwise.reduce_plan import reduce_problem
from layoutalg.kernels.rowwise.trials import TENSOR_TRIALS
from tests import mutate
from tests.sweeps import each


@each("op", OPERATIONS)
def test_random_dense_tensors_agree(op: str) -> None:
    rng = random.Random(op)
    for _ in range(3):
        shape = tuple(rng.choice([1, 3, 8, 17, 40]) for _ in range(rng.randint(1, 3)))
        axes = rng.sample(range(len(shape)), len(shape) if op == "permute" else rng.randint(1, len(shape)))
        dtype = rng.choice(["u8", "f16", "f64"] if op == "permute" else ["f32", "f16", "bf16"])
        report = verify_chain(find_problem(op, shape, tuple(axes), dtype), seed=rng.randrange(9))
        assert report.passed, report
        assert report.family == op and any(c.name.startswith("accesses, ") for c in report.checks)


def test_what_two_kernels_do_is_verified_together() -> None:
    report = verify_chain(find_problem("layer_norm", (1, 1 << 15), (1,), "f32"))
    assert report.passed and len(chain_of(find_problem("layer_norm", (1, 1 << 15), (1,), "f32")).kernels) == 2
    one, two = (predicted(find_problem("sum", (n,), (0,), "f32")) for n in (1 << 10, 1 << 24))
    assert one["st.global.b32"].instructions == 1 < two["st.global.b32"].instructions


def broken(monkeypatch: pytest.MonkeyPatch, change: Any) -> None:
    """Chains whose kernels are changed."""

    def made(p: Any, arch: str = "sm_90") -> Chain:
        chain = chain_of(p, arch)
        return replace(chain, kernels=tuple(map(change, chain.kernels)))

    monkeypatch.setattr(chain_verify, "chain_of", made)


def test_a_missing_store_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    for p, store in (
        (find_problem("permute", (16, 64, 48), (0, 2, 1), "f32"), "stg128_whole"),
        (find_problem("softmax", (8, 64), (1,), "f32"), "stg128_whole"),
    ):
        broken(monkeypatch, lambda kernel, store=store: mutate.without(kernel, store))
        report = verify_chain(p)
        failed = [c.name for c in report.checks if not c.passed]
        assert failed[0] == "result, one block at a time"
        assert f"accesses, st.global.b{128}" in failed


@each("extra", [{"weight": True, "bias": True}, {"bias": True}, {"in_place": True}], ids=str)
@each("axis", [0, 1])
def test_weights_and_norms_in_place_are_verified(extra: dict[str, bool], axis: int) -> None:
    p = norm_problem("layer_norm", (19, 24), axis, "f16", **extra)  # type: ignore[arg-type]
    report = verify_chain(p, seed=3)
    assert report.passed, report
    assert [c.name for c in report.checks if c.name.startswith("result, ")][2:] == [
        f"result, {trial}" for trial in list(TENSOR_TRIALS)[1:]
    ]


@pytest.mark.parametrize(
    ("p", "error"),
    [
        (norm_problem("softmax", (0, 4), 1, "f32"), ShapeError),
        (reduce_problem((4, 4), 1, "sum", "f32", src=(8, 1)), ShapeError),
        (permute_problem((4, 4), (1, 0), "f32", src_offset=1), ShapeError),
    ],
)
def test_what_is_not_verified_is_refused(p: Any, error: type[Exception]) -> None:
    with pytest.raises(error, match="verif"):
        verify_chain(p)
