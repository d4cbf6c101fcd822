"""The program that is printed: what passes `check`, lowered."""

from __future__ import annotations

import pytest

from layoutalg.codegen.gpu import to_cuda
from layoutalg.codegen.instr import BAR
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import Unroll, printed, walk
from layoutalg.errors import IRError
from layoutalg.kernels import FAMILIES
from tests.sequences import MATRIX_OPS


@pytest.mark.parametrize("name", MATRIX_OPS)
def test_its_text_is_the_kernels(name: str) -> None:
    family = FAMILIES[name]
    p = family.problem(70, 44, "f16")
    for config in family.configs(p, "sm_90"):
        kernel = family.build(p, config)
        assert print_kernel(printed(kernel)) == to_cuda(kernel)
        assert not any(isinstance(s, Unroll) and s.count == 1 for s in walk(printed(kernel).body))


def test_what_check_refuses_is_not_printed() -> None:
    k = KernelBuilder("divided", threads=64)
    with k.If(k.tid < 7):
        k.do(BAR)
    with pytest.raises(IRError, match="block_sync"):
        printed(k.build())
