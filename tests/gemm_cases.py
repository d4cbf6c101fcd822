"""Small problems for the matrix products, their operands, and their results by definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from layoutalg.codegen.instr import decode, encode
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, matrices, scalar_words
from layoutalg.kernels.gemm.work.groups import grouped

CARRIER = {"f16": "u2", "bf16": "u2", "tf32": "u4", "f32": "u4", "f64": "u8", "s8": "u1", "s32": "u4"}
ALPHA, BETA = 2, 3


def packed(values: Any, name: str) -> Any:
    """Elements as their bits."""
    per = 4 // np.dtype(CARRIER[name]).itemsize or 1
    padded = np.pad(values, (0, -len(values) % per)).astype(float)
    return encode(padded[None], name).view(CARRIER[name])[0][: len(values)].copy()


def unpacked(bits: Any, name: str) -> Any:
    """The inverse of `packed`, as float64."""
    nbytes = len(bits) * bits.itemsize
    words = np.pad(bits.view("u1"), (0, -nbytes % 4)).view(np.uint32)[None]
    return decode(words, name)[0][: len(bits)].astype(float)


def arguments(p: GemmProblem, seed: int = 0, most: int = 2) -> dict[str, Any]:
    """Every argument a kernel of the problem may take: small integers, on which all sums are exact."""
    rng = np.random.default_rng(seed)

    def draw(elems: int, name: str) -> Any:
        if p.packed > 1 and name == p.operand.name:
            return rng.integers(0, 256, elems, dtype=np.uint8)
        return packed(rng.integers(-most, most + 1, elems), name)

    return {
        "m": p.m, "n": p.n, "k": p.k, "lda": p.lda, "ldb": p.ldb, "ldc": p.ldc, "ldd": p.ldd,
        **scalar_words(p, "alpha", ALPHA), **scalar_words(p, "beta", BETA),
        "a": draw(p.a_elems, p.operand.name), "b": draw(p.b_elems, p.operand.name),
        "c": draw((p.m - 1) * p.ldc + p.n, p.result.name), "bias": draw(p.n, p.result.name),
        "d": draw((p.m - 1) * p.ldd + p.n, p.result.name),
    }  # fmt: skip


def taken(kernel: Any, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a kernel takes, with a copy of D."""
    names = {q.name for q in kernel.params}
    return {name: x.copy() if name == "d" else x for name, x in args.items() if name in names}


def factors(p: GemmProblem, args: dict[str, Any]) -> tuple[Any, Any]:
    """A and B as numbers; of a byte, the first from its low bits."""
    if p.packed == 1:
        return matrices(p, *(unpacked(args[x], p.operand.name) for x in "ab"))
    bits = 8 // p.packed
    shifts = bits * np.arange(p.packed)
    a, b = matrices(p, args["a"], args["b"])
    codes = [(x[:, :, None].astype(int) >> shifts) % (1 << bits) for x in (a, b.T)]
    a, b = (x.reshape(len(x), -1) for x in codes)
    if p.element == "s4":
        a, b = (np.where(x < 8, x, x - 16) for x in (a, b))
    return a.astype(float), b.T.astype(float)


def expected(p: GemmProblem, args: dict[str, Any]) -> Any:
    """The bits of D that result, by definition; gaps between rows keep theirs."""
    a, b = factors(p, args)
    total = ALPHA * (a @ b)
    if p.arithmetic == "xor":
        total = ALPHA * (a[:, :, None] != b[None]).sum(axis=1)
    if p.reads_c:
        total += BETA * _rows(unpacked(args["c"], p.result.name), p.m, p.n, p.ldc)
    if p.bias:
        total += unpacked(args["bias"], p.result.name)
    if p.activation == "relu":
        total = np.maximum(total, 0)
    d = unpacked(args["d"], p.result.name)
    _rows(d, p.m, p.n, p.ldd)[...] = total
    return packed(d, p.result.name)


def _rows(flat: Any, m: int, n: int, leading: int) -> Any:
    return np.lib.stride_tricks.as_strided(flat, (m, n), (leading * 8, 8))


def grouped_problem(sizes: Sequence[int], n: int, k: int, dtype: str = "bf16", **options: Any) -> GemmProblem:
    """Groups of these sizes, whose Bs lie one behind the other."""
    one = gemm_problem(sum(sizes), n, k, dtype, **options)
    return grouped(one, len(sizes), -(-one.b_elems // 8) * 8)


def grouped_arguments(p: GemmProblem) -> dict[str, Any]:
    """Small integers, on which all sums are exact; rows of D have room behind them."""
    return arguments(replace(p, batch=(), grouped=False)) | {
        "b": packed(np.random.default_rng(1).integers(-2, 3, p.b_elems), p.operand.name)
    }


def grouped_expected(p: GemmProblem, sizes: Sequence[int], given: dict[str, Any]) -> Any:
    """D's buffer by definition: NumPy, group by group."""
    a, b = (unpacked(given[x], p.operand.name) for x in "ab")
    step = p.batch[0].b
    d = given["d"].copy()
    rows = np.lib.stride_tricks.as_strided(d, (p.m, p.n), (p.ldd * d.itemsize, d.itemsize))
    left = np.lib.stride_tricks.as_strided(
        a, (p.m, p.k), (8 * p.lda, 8) if p.a_major == "k" else (8, 8 * p.lda)
    )
    end = 0
    for group, size in enumerate(sizes):
        own, end = slice(end, end + size), end + size
        right = np.lib.stride_tricks.as_strided(
            b[group * step :], (p.k, p.n), (8, 8 * p.ldb) if p.b_major == "k" else (8 * p.ldb, 8)
        )
        value = 2 * (left[own] @ right)
        rows[own] = packed(value.ravel(), p.result.name).reshape(value.shape)
    return d
