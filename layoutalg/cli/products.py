"""Kernels by the names the command line gives them: matrix families, and products with their ladders."""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.errors import UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.tile import Kernel

SIDE = 4096
"""Extents of a product that are not given."""


def is_product(family: str) -> bool:
    """True for the families of matrix products.

    >>> is_product("gemm-sm80"), is_product("transpose")
    (True, False)
    """
    from layoutalg.kernels.gemm_bench import GEMM_FAMILIES

    return family in GEMM_FAMILIES


def find_kernel(
    family: str, dtype: str | None, extents: tuple[int, int, int | None], step: str | None, arch: str
) -> tuple[str, Kernel]:
    """The problem in words and the kernel: the one that the family chooses, or a step of its ladder.

    Raises UnknownNameError for a family or a step there is not, UnsupportedError for a k or a step of a
    family that has none, and what the family's `problem` and `build` raise.

    >>> find_kernel("gemm-simt", None, (256, 256, 256), "wide", "sm_90")[1].name
    'gemm_simt_f32'
    """
    from layoutalg.kernels.families import FAMILIES
    from layoutalg.kernels.gemm import gemm_problem
    from layoutalg.kernels.gemm_bench import GEMM_FAMILIES

    m, n, k = extents
    if family in FAMILIES:
        for name, given in (("k", k), ("steps", step)):
            if given is not None:
                raise UnsupportedError(f"{family} has no {name}: {', '.join(GEMM_FAMILIES)} do")
        chosen = FAMILIES[family]
        problem = chosen.problem(m=m, n=n, dtype=dtype or "f32")
        return str(problem), chosen.build(problem, chosen.configs(problem, arch)[0])
    if family not in GEMM_FAMILIES:
        raise UnknownNameError("kernel family", family, (*FAMILIES, *GEMM_FAMILIES))
    products = GEMM_FAMILIES[family]
    usual = products.problem(SIDE)
    product = gemm_problem(
        m, n, SIDE if k is None else k, dtype or usual.operand, a_major=usual.a_major, b_major=usual.b_major
    )
    if step is None:
        whole = next(c for c in products.configs(product, arch) if c.splits == 1)
        return str(product), products.build(product, whole)
    for name, config in products.steps.items():
        if step in (name, name.split()[0]):
            return f"{product}, step {name}", products.build(product, config)
    raise UnknownNameError(f"step of {family}", step, products.steps)
