"""Every family of kernels by its name, the one the command line gives it: what there is of each, as data.

    FAMILIES              kernels that move matrices, of any extents
    GEMM_FAMILIES         matrix products (gemm_bench)
    TENSOR_FAMILIES       what is computed of a dense tensor with some axes, as a chain of kernels

`find_family` finds any of them.  Each has a name and makes a checked `problem`; a family of the first two
kinds has `configs`, best first, and `build`, which makes the kernel of one; of the third kind, `chain`, which
makes the kernels of the best plan.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from types import MappingProxyType
from typing import Any, Literal, overload

from layoutalg.arch import Arch
from layoutalg.errors import UnknownNameError, UnsupportedError
from layoutalg.kernels.chains import Chain, Problem, chain_of
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm.bench import GEMM_FAMILIES, GemmFamily
from layoutalg.kernels.matrix import reference
from layoutalg.kernels.move import tiled_copy as copy_family
from layoutalg.kernels.move import transpose as transpose_family
from layoutalg.kernels.move import transpose_plan
from layoutalg.kernels.move.problem import permute_problem
from layoutalg.kernels.rowwise.norm_modes import OPS, norm_problem
from layoutalg.kernels.rowwise.reduce_plan import FOLD, reduce_problem

__all__ = [
    "FAMILIES",
    "GEMM_FAMILIES",
    "TENSOR_FAMILIES",
    "Family",
    "GemmFamily",
    "TensorFamily",
    "find_family",
    "matrix_family",
]


@dataclass(frozen=True, slots=True)
class TensorFamily:
    """What is computed of a tensor with some axes: `problem(shape, axes, dtype=...)`, and its kernels.

    >>> softmax = find_family("softmax")
    >>> chain = softmax.chain(softmax.problem((64, 1000), 1, dtype="f16"), "sm_90")
    >>> [kernel.name for kernel in chain.kernels]
    ['softmax_f16']
    """

    name: str
    summary: str
    problem: Callable[..., Problem]
    chain: Callable[[Problem, str | Arch], Chain]


FAMILIES: Mapping[str, Family] = MappingProxyType(
    {
        f.name: f
        for f in (
            Family(
                "tiled_copy", "dst[m, n] = src[m, n] with leading dimensions", copy_family.problem,
                copy_family.configs, copy_family.build, reference,
            ),
            Family(
                "transpose", "dst[n, m] = src[m, n] with leading dimensions", transpose_family.problem,
                transpose_plan.configs, transpose_family.build, reference,
            ),
        )
    }
)  # fmt: skip
"""The families that move matrices by name, read only."""


def _reduced(op: str, shape: tuple[int, ...], axes: Any, dtype: str = "f32", **rest: Any) -> Problem:
    return reduce_problem(shape, axes, op, dtype, **rest)


def _permuted(shape: tuple[int, ...], axes: Any, dtype: str = "f32", **rest: Any) -> Problem:
    return permute_problem(shape, axes, dtype, **rest)


def _normed(op: str, shape: tuple[int, ...], axes: Any, dtype: str = "f32", **rest: Any) -> Problem:
    return norm_problem(op, shape, axes, dtype, **rest)


TENSOR_FAMILIES: Mapping[str, TensorFamily] = MappingProxyType(
    {
        f.name: f
        for f in (
            TensorFamily("permute", "the axes of a tensor in another order", _permuted, chain_of),
            *(TensorFamily(op, f"the {op} over some axes", partial(_reduced, op), chain_of) for op in FOLD),
            *(TensorFamily(op, f"{op} over some axes", partial(_normed, op), chain_of) for op in OPS),
        )
    }
)
"""What is computed of a dense tensor with some axes, by name, read only."""


@overload
def find_family(name: Literal["tiled_copy", "transpose"]) -> Family: ...
@overload
def find_family(name: Literal["gemm-simt", "gemm-sm80"]) -> GemmFamily: ...
@overload
def find_family(name: Literal["permute", "sum", "max", "mean", "softmax", "layer_norm"]) -> TensorFamily: ...
@overload
def find_family(name: str) -> Family | GemmFamily | TensorFamily: ...
def find_family(name: str) -> Family | GemmFamily | TensorFamily:
    """The family of a name, of any kind.  Raises UnknownNameError.

    >>> find_family("transpose").name, find_family("gemm-sm80").name, find_family("softmax").name
    ('transpose', 'gemm-sm80', 'softmax')
    """
    for known in (FAMILIES, GEMM_FAMILIES, TENSOR_FAMILIES):
        if name in known:
            return known[name]
    raise UnknownNameError("kernel family", str(name), (*FAMILIES, *GEMM_FAMILIES, *TENSOR_FAMILIES))


def matrix_family(name: str) -> Family:
    """The family of a name that moves matrices.  Raises UnknownNameError, UnsupportedError for other ones.

    >>> matrix_family("transpose").name
    'transpose'
    """
    found = find_family(name)
    if not isinstance(found, Family):
        raise UnsupportedError(f"{name} does not move a matrix: {', '.join(FAMILIES)} do")
    return found
