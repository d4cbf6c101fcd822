"""Random matrices in memory, and the arguments by which their kernels are launched."""

from __future__ import annotations

from typing import Any

from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.matrix import MatrixProblem
from layoutalg.kernels.registry import FAMILIES


def buffers(problem: MatrixProblem, seed: int) -> tuple[Any, Any]:
    """A random source and a random old destination, as flat arrays that carry the elements' bits."""
    drawn = checks_of(FAMILIES["transpose"]).buffers(problem, "bits", seed)
    return drawn["src"], drawn["dst"]


def arguments(problem: MatrixProblem, src: Any, dst: Any) -> dict[str, Any]:
    """The launch arguments of a matrix kernel by name."""
    return {"m": problem.m, "n": problem.n, "lds": problem.lds, "ldd": problem.ldd, "src": src, "dst": dst}
