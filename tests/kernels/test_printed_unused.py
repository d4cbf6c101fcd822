"""Printed texts declare nothing that they do not read: compilers warn of it, and -Werror refuses them."""

from __future__ import annotations

import random
import re
from collections.abc import Iterator
from itertools import product
from pathlib import Path

import pytest

from layoutalg.codegen.instr.arithmetic import fma_outer
from layoutalg.codegen.printing import print_kernels, to_cuda
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.checks import bench_of, checks_of
from tests.stand_ins.nvcc import needs_nvcc, nvcc

DECLARED = re.compile(
    r"^(\s*)(?:const )?(?:int|unsigned|float|double|bool|auto|[us]\d+|b?f16(?:x2)?|uint[24]|[\w:]+\*)"
    r"(?: const)?\s+(\w+)(?:\[[^\]]*\])*(?:\s*=[^=].*)?;$"
)


def unread(text: str) -> Iterator[str]:
    """Declarations of a line each whose name stands nowhere behind them in their block."""
    lines = text.splitlines()
    for number, line in enumerate(lines):
        if (found := DECLARED.match(line)) is None:
            continue
        block = []
        for other in lines[number + 1 :]:
            shallower = len(other) - len(other.lstrip()) < len(found[1])
            if shallower and other.strip() and not other.startswith("#"):
                break
            block.append(other)
        if not re.search(rf"\b{found[2]}\b", "\n".join(block)):
            yield line.strip()


def target(family: str) -> str:
    return {"gemm-sm75": "sm_75", "gemm-sm90": "sm_90a"}.get(family, "sm_90")


def test_the_judge_sees_a_name_that_is_not_read() -> None:
    assert list(unread("f() {\n    const int i = 0;\n    const u32 j = 1;\n    g(j);\n}\nint i;")) == [
        "const int i = 0;",
        "int i;",
    ]


def test_a_product_of_one_row_or_column_declares_what_it_reads() -> None:
    for m, n, element in product((1, 2, 3), (1, 2, 3), ("f32", "f64")):
        assert not list(unread(fma_outer(m, n, element).text)), (m, n, element)


@pytest.mark.parametrize("name", FAMILIES)
def test_a_text_of_any_family_reads_what_it_declares(name: str) -> None:
    family, arch = FAMILIES[name], target(name)
    cases = [p for _, p in bench_of(family).cases(None, None)]
    for p in [*random.Random(name).sample(cases, 1), family.problem(**checks_of(family).verified[0])]:
        for kernel in family.launches(p, family.choose(p, arch), arch).kernels:
            assert not list(unread(to_cuda(kernel))), (str(p), kernel.name)


@needs_nvcc
@pytest.mark.deep(but=("(2, 512, 1024)",))
@pytest.mark.parametrize("shape", [(1, 1024, 1024), (2, 512, 1024)], ids=str)
def test_a_gemv_compiles_without_warnings(shape: tuple[int, int, int], tmp_path: Path) -> None:
    family, source = FAMILIES["gemv"], tmp_path / "gemv.cu"
    p = family.problem(*shape)
    kernels = family.launches(p, family.choose(p, "sm_90"), "sm_90").kernels
    source.write_text(print_kernels(list(kernels)), encoding="utf-8")
    nvcc(["-arch=sm_90", "-c", "-o", "/dev/null", source])
