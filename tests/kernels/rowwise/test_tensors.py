"""Kernels over rows address memory by coordinates: an index is its coordinate's, and it stays inside."""

from __future__ import annotations

from dataclasses import replace
from typing import Any
from unittest.mock import patch

import pytest

from layoutalg.codegen.language import Tensor
from layoutalg.errors import IRError
from layoutalg.kernels.rowwise import NormProblem, norm_problem, plan_with, plans, reduce_problem
from layoutalg.kernels.rowwise.programs.block import Block
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.programs.reduce import build
from tests.sweeps import each

TOO_LONG = (
    norm_problem("softmax", (64, 1024), 1, "f32"),
    norm_problem("softmax", (2048, 64), 0, "f16"),
    norm_problem("layer_norm", (7, 1000), 1, "f32", weight=True),
    reduce_problem((64, 1024), 1, "sum", "f32"),
    reduce_problem((100, 4096), 0, "max", "f16"),
)


@each("mode", [0, 1])
@each("p", TOO_LONG, ids=str)
def test_a_walk_past_an_extent_is_refused_when_it_is_built(p: Any, mode: int) -> None:
    """As if the tensor were one row, or one vector, shorter than the walk."""
    made = Block.tensor

    def shorter(self: Block, name: str, *args: Any, **asked: Any) -> Tensor:
        found = made(self, name, *args, **asked)
        bounds = [e if k != mode or e is None else e - 1 for k, e in enumerate(found.extents)]
        return replace(found, extents=tuple(bounds)) if name == "src" else found

    def make() -> None:
        if isinstance(p, NormProblem):
            plan(p)
        else:
            build(plan_with(p, replace(plans(p)[0].passes[0].config, splits=1)))

    make()
    with patch.object(Block, "tensor", shorter), pytest.raises(IRError, match="can pass the extent"):
        make()
