"""Where classes are defined is in the digests of stored timings and locks: those that are, stay."""

from __future__ import annotations

from collections.abc import Iterator
from types import FunctionType
from typing import Any

import pytest

from layoutalg.codegen.instr import functions
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.identity import data_of
from layoutalg.kernels.rowwise import reduce_problem
from layoutalg.notation import parse_cute

KINDS = (
    "codegen.instr.functions codegen.instr.functions.Argument codegen.instr.functions.ScalarFunction",
    "codegen.terms.Value",
    "dtype.DType",
    "kernels.attention.problem.AttentionProblem kernels.attention.program.AttentionConfig",
    "kernels.elementwise.MapProblem kernels.elementwise.MapConfig",
    "kernels.gemm.epilogue.AddMatrix kernels.gemm.epilogue.AddVector kernels.gemm.epilogue.Epilogue",
    "kernels.gemm.epilogue.Map kernels.gemm.epilogue.Scale",
    "kernels.gemm.gemv.GemvConfig kernels.gemm.problem.GemmProblem",
    "kernels.gemm.tiles.SimtConfig kernels.gemm.tiles.Sm75Config",
    "kernels.gemm.tiles.Sm80Config kernels.gemm.tiles.Sm90Config",
    "kernels.matrix.MatrixProblem",
    "kernels.move.matrix_plan.CopyConfig kernels.move.matrix_plan.TransposeConfig",
    "kernels.move.problem.PermuteProblem kernels.move.stage.PermuteConfig",
    "arch.block_scales.BlockFormat kernels.quantize.problem.QuantizeProblem",
    "kernels.quantize.program.QuantizeConfig",
    "kernels.rowwise.forms.Beside",
    "kernels.rowwise.entropy.CrossEntropyProblem",
    "kernels.rowwise.norms.NormProblem kernels.rowwise.reductions.ReduceProblem",
    "kernels.rowwise.tensors.AxesProblem",
    "kernels.rowwise.ways.reduce_plan.ReduceConfig kernels.rowwise.ways.schedule.NormConfig",
    "layout.composed.ComposedLayout layout.layout.Layout layout.swizzle.Swizzle layout.swizzle.Swizzles",
)
"""Paths behind `layoutalg.`; whoever moves one of these loses what users have stored."""


def kinds(data: Any) -> Iterator[str]:
    """The paths of classes and functions in a value's data."""
    if isinstance(data, list):
        for part in data:
            yield from kinds(part)
    elif isinstance(data, str) and data.startswith("layoutalg."):
        yield data


def stored() -> Iterator[Any]:
    """Problems and configurations of every family, as searches record them."""
    for family in FAMILIES.values():
        for asked in checks_of(family).verified:
            p = family.problem(**asked)
            yield from (p, family.choose(p))
    yield gemm_problem(256, 256, 128, "f16", bias=True, reads_c=True, activation="gelu")
    yield from FAMILIES["mean"].configs(reduce_problem((1630482, 86), 0, "mean", "bf16"))  # rows side by side
    yield parse_cute("Sw<3,4,3> o 0 o (4,8):(8,1)")


def test_an_edit_above_a_function_with_a_name_changes_no_digest() -> None:
    """Of those without one the line says which is meant."""
    named = functions._gelu_tanh
    moved = FunctionType(named.__code__.replace(co_firstlineno=7), vars(functions), "_gelu_tanh")
    assert moved.__code__ != named.__code__ and data_of(moved) == data_of(named)
    nameless = [named.__code__.replace(co_firstlineno=n, co_qualname="<lambda>") for n in (7, 8)]
    one, other = (FunctionType(code, vars(functions)) for code in nameless)
    assert data_of(one) != data_of(other)


@pytest.mark.deep
def test_classes_in_digests_stay_where_they_are() -> None:
    found = {kind for value in stored() for kind in kinds(data_of(value))}
    assert found == {f"layoutalg.{kind}" for line in KINDS for kind in line.split()}
