"""Kernels by the names the command line gives them: matrix families, products with their ladders, tensors."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from layoutalg.errors import ParseError, ResourceError, UnknownNameError, UnsupportedError

if TYPE_CHECKING:
    from layoutalg.codegen.program import Kernel
    from layoutalg.kernels.chains import Problem

SIDE = 4096
"""Extents of a product that are not given."""


def is_product(family: str) -> bool:
    """True for the families of matrix products.

    >>> is_product("gemm-sm80"), is_product("transpose")
    (True, False)
    """
    from layoutalg.kernels.gemm.bench import GEMM_FAMILIES

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
    from layoutalg.kernels.gemm.bench import GEMM_FAMILIES
    from layoutalg.kernels.gemm.problem import gemm_problem

    m, n, k = extents
    if family in FAMILIES:
        for name, given in (("k", k), ("steps", step)):
            if given is not None:
                raise UnsupportedError(f"{family} has no {name}: {', '.join(GEMM_FAMILIES)} do")
        chosen = FAMILIES[family]
        problem = chosen.problem(m=m, n=n, dtype="f32" if dtype is None else dtype)
        return str(problem), chosen.build(problem, chosen.configs(problem, arch)[0])
    if family not in GEMM_FAMILIES:
        raise UnknownNameError("kernel family", family, (*FAMILIES, *GEMM_FAMILIES))
    products = GEMM_FAMILIES[family]
    usual = products.problem(SIDE)
    product = gemm_problem(
        m,
        n,
        SIDE if k is None else k,
        usual.operand if dtype is None else dtype,
        a_major=usual.a_major,
        b_major=usual.b_major,
    )
    if step is None:
        whole = next(c for c in products.configs(product, arch) if c.splits == 1)
        return str(product), products.build(product, whole)
    for name, config in products.steps.items():
        if step in (name, name.split()[0]):
            return f"{product}, step {name}", products.build(product, config)
    raise UnknownNameError(f"step of {family}", step, products.steps)


# --- dense tensors -------------------------------------------------------------------------------------


MOST_DIGITS = 18
"""Of an extent."""


class Part(NamedTuple):
    """A kernel that is number `part`, counted from 1, of `parts` that compute `problem` in this order."""

    problem: str
    kernel: Kernel
    part: int
    parts: int


def is_tensor(family: str) -> bool:
    """True for what is asked of a dense tensor with some axes.

    >>> is_tensor("softmax"), is_tensor("transpose")
    (True, False)
    """
    from layoutalg.kernels.chains import OPERATIONS

    return family in OPERATIONS


def find_part(
    family: str, shape: str | None, axes: str | None, dtype: str | None, part: int, arch: str
) -> Part:  # fmt: skip
    """One kernel of the best plan for dense tensors.

    Raises ResourceError for a part that there is not, and as `find_tensor` does.

    >>> find_part("softmax", "64,1000", "1", "f16", 1, "sm_90").kernel.name
    'softmax_f16'
    """
    from layoutalg.kernels.chains import chain_of

    problem = find_tensor(family, shape, axes, dtype)
    kernels = chain_of(problem, arch).kernels
    if not 1 <= part <= len(kernels):
        raise ResourceError(f"part of {problem}", part, len(kernels))
    return Part(str(problem), kernels[part - 1], part, len(kernels))


def find_tensor(family: str, shape: str | None, axes: str | None, dtype: str | None) -> Problem:
    """The problem of a dense tensor whose shape and axes are texts; the last axis where none is named.

    Raises ParseError for texts that are not ints, UnsupportedError without a shape or, for a permute, without
    axes, and what the problem raises.

    >>> print(find_tensor("softmax", "64,1000", None, "f16"))
    softmax (64,1000) over (1) f16, src (1000,1) -> dst (1000,1)
    """
    from layoutalg.kernels.chains import find_problem

    if shape is None or (axes is None and family == "permute"):
        wanted = "--shape" if shape is None else "--axes"
        raise UnsupportedError(
            f"{family} needs {wanted}, such as {wanted} {'1,0' if wanted == '--axes' else '64,128'}"
        )
    extents = read_ints("shape", shape)
    over = (len(extents) - 1,) if axes is None else read_ints("axes", axes)
    return find_problem(family, extents, over, "f32" if dtype is None else dtype)


def read_ints(name: str, text: str) -> tuple[int, ...]:
    """Ints between commas, in parentheses or not.  Raises ParseError.

    >>> read_ints("axes", "(0, -1)"), read_ints("shape", "64")
    ((0, -1), (64,))
    """
    words = text.removeprefix("(").removesuffix(")").split(",")
    found = []
    for word in words[: -1 if words[-1].strip() == "" else None]:
        digits = word.strip(" \t\r\n").removeprefix("-")
        if not digits.isdecimal() or not digits.isascii() or len(digits) > MOST_DIGITS:
            position = text.index(word)
            raise ParseError(
                f"cannot read the {name} {text[:80]!r}: expected an int at position {position}",
                text=text,
                position=position,
            )
        found.append(int(word))
    return tuple(found)
