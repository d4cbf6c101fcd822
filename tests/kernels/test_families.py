"""The registry of families: complete, read only, and every entry keeps the protocol."""

from __future__ import annotations

import re

import pytest

from layoutalg.codegen.program.checks import check
from layoutalg.codegen.traffic import traffic
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.kernels.families import (
    FAMILIES,
    GEMM_FAMILIES,
    TENSOR_FAMILIES,
    GemmFamily,
    TensorFamily,
    find_family,
    matrix_family,
)
from layoutalg.kernels.family import sizes
from tests.command import run


@pytest.mark.parametrize("name", FAMILIES)
def test_an_entry_keeps_the_protocol(name: str) -> None:
    family = FAMILIES[name]
    assert family.name == name
    assert family.summary
    p = family.problem(m=100, n=200, dtype="f16")
    for config in family.configs(p, "sm_90"):
        kernel = family.build(p, config)
        check(kernel)
        assert {v.name for v in kernel.params} == {"m", "n", "lds", "ldd", "src", "dst"}
        assert traffic(kernel, sizes(p))


def test_every_family_that_the_command_knows_is_found_and_makes_kernels() -> None:
    """The names in the help of `generate` are all there are."""
    named = set(re.findall(r"[a-z][\w-]+", run("generate", "--help").stdout))
    every = [*FAMILIES, *GEMM_FAMILIES, *TENSOR_FAMILIES]
    assert set(every) <= named and len(every) == 10
    for name in every:
        family = find_family(name)
        assert family.name == name
        if isinstance(family, TensorFamily):
            axes = (1, 0) if name == "permute" else 1
            kernels = family.chain(family.problem((8, 64), axes, dtype="f16"), "sm_90").kernels
        elif isinstance(family, GemmFamily):
            product = family.problem(256)
            kernels = (family.build(product, family.configs(product, "sm_90")[0]),)
        else:
            p = family.problem(m=8, n=24, dtype="f32")
            kernels = (family.build(p, family.configs(p, "sm_90")[0]),)
        for kernel in kernels:
            check(kernel)


def test_a_family_of_another_kind_does_not_move_matrices() -> None:
    with pytest.raises(UnsupportedError, match="softmax does not move a matrix: tiled_copy, transpose do"):
        matrix_family("softmax")


def test_an_unknown_family_is_refused() -> None:
    with pytest.raises(UnknownNameError, match="tiled_copy, transpose, gemm-simt, gemm-sm80, permute, sum"):
        find_family("gemm")
