"""The program that is printed: what passes `check`, lowered."""

from __future__ import annotations

import pytest

from layoutalg.codegen.builder import KernelBuilder
from layoutalg.codegen.cuda import print_kernel, to_cuda
from layoutalg.codegen.instr_sm75 import BAR
from layoutalg.codegen.printed import printed
from layoutalg.codegen.tile import Unroll, walk
from layoutalg.errors import IRError
from layoutalg.kernels import FAMILIES


@pytest.mark.parametrize("name", FAMILIES)
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
