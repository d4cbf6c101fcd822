"""Split-K: parts and their sum, against the definition."""

from __future__ import annotations

import numpy as np
import pytest

from layoutalg.codegen.lower import lower
from layoutalg.codegen.simulate import simulate
from layoutalg.errors import DivisibilityError
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm_sm80_plan import Sm80Config
from layoutalg.kernels.gemm_split import build_combine, build_parts, workspace_elems
from tests.gemm_cases import arguments, expected

CASES: dict[str, tuple[GemmProblem, Sm80Config]] = {
    "whole tiles": (gemm_problem(64, 64, 256), Sm80Config(64, 64, 32, 2, 2, 3, splits=4)),
    "edges, C, bias, relu": (
        gemm_problem(56, 72, 200, reads_c=True, bias=True, activation="relu", ldd=80, ldc=76),
        Sm80Config(64, 64, 32, 2, 2, 3, edges=True, splits=3),
    ),
    "more parts than tiles": (
        gemm_problem(64, 64, 64),
        Sm80Config(64, 64, 32, 2, 2, 2, edges=True, splits=5),
    ),
    "integers": (gemm_problem(64, 64, 256, "s8"), Sm80Config(64, 64, 64, 2, 2, 2, splits=2)),
    "rows of one": (gemm_problem(64, 65, 64), Sm80Config(64, 64, 32, 2, 2, 3, edges=True, splits=2)),
}


@pytest.mark.parametrize("name", CASES)
def test_the_parts_add_up_to_the_definition(name: str) -> None:
    p, c = CASES[name]
    args = arguments(p)
    sums = np.full(workspace_elems(p, c), 0xFFFFFFFF, dtype=np.uint32)
    parts = lower(build_parts(p, c))
    given = {**args, **scalar_words(p, "alpha", 1), "d": sums, "ldd": p.n}
    simulate(parts, {q.name: given[q.name] for q in parts.params}, group="warp")
    combine = lower(build_combine(p, c.splits))
    mine = {**args, "sums": sums, "d": args["d"].copy()}
    simulate(combine, {q.name: mine[q.name] for q in combine.params})
    np.testing.assert_array_equal(mine["d"], expected(p, args))


def test_ragged_parts_need_predicates() -> None:
    with pytest.raises(DivisibilityError, match="8 tiles of k in 3 parts: take edges=True, or 1 parts"):
        build_parts(gemm_problem(64, 64, 256), Sm80Config(64, 64, 32, 2, 2, 3, splits=3))
