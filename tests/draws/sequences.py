"""Launch sequences of problems, whatever family they are of, as tests ask for them."""

from __future__ import annotations

from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.costs import Prediction
from layoutalg.codegen.program import LaunchSequence
from layoutalg.kernels import FAMILIES, Family, VerifyReport, verify
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.move.problem import PermuteProblem

MATRIX_OPS = ("tiled_copy", "transpose")
"""Families of a matrix with leading dimensions."""

TENSOR_OPS = ("permute", "sum", "mean", "max", "softmax", "layer_norm")
"""Families of a dense tensor with some axes."""


def problem_of(op: str, shape: tuple[int, ...], axes: tuple[int, ...], dtype: str) -> Any:
    """What is asked of a dense tensor with some axes."""
    return FAMILIES[op].problem(shape, axes, dtype)


def family_of(p: Any) -> Family:
    """The family of a problem that moves or reduces."""
    if isinstance(p, MatrixProblem):
        return FAMILIES["transpose" if p.turned else "tiled_copy"]
    return FAMILIES["permute" if isinstance(p, PermuteProblem) else p.op]


def launches_of(p: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    """The launches of the best configuration."""
    family = family_of(p)
    return family.launches(p, family.choose(p, arch), arch)


def called_of(family: str, p: Any, arch: str) -> LaunchSequence:
    """The launches of a call on arrays."""
    found = FAMILIES[family]
    return (found.called or found.launches)(p, found.choose(p, arch), arch)


def predicted(p: Any, arch: str | Arch = "sm_90") -> Prediction:
    """What all accesses of the best configuration cost."""
    family = family_of(p)
    return family.predict(p, family.choose(p, arch), arch)


def verified(p: Any, config: Any = None, *, seed: int = 0) -> VerifyReport:
    """What `verify` says of a problem in the simulator."""
    return verify(family_of(p), p, config, seed=seed)
