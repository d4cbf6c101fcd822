"""Small problems for the matrix products, their operands, and their results by definition."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from layoutalg.codegen.gpu.arguments import launch_grid
from layoutalg.codegen.instr import decode, encode
from layoutalg.codegen.printing.cuda import print_kernel
from layoutalg.codegen.program import SCRATCH, Kernel, LaunchSequence, is_dynamic, lower
from layoutalg.codegen.sim import Simulation, simulate
from layoutalg.kernels.gemm import GemmProblem, gemm_problem, grouped, matrices, scalar_words
from tests.hostshim import run_cuda_text

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
    """Every argument a kernel of the problem may take: small integers, on which all sums are exact; all bits
    of D are set."""
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
        "d": np.full(((p.m - 1) * p.ldd + p.n) * p.result.nbytes, 255, "u1").view(CARRIER[p.result.name]),
    }  # fmt: skip


def taken(kernel: Any, args: dict[str, Any]) -> dict[str, Any]:
    """The arguments that a kernel takes, with a copy of D."""
    names = {q.name for q in kernel.params}
    return {name: x.copy() if name == "d" else x for name, x in args.items() if name in names}


def simulated(
    one: LaunchSequence, args: dict[str, Any], *, group: Literal["block", "warp"] = "block", seed: int = 0,
    trace: bool = False, change: Any = lower,
) -> tuple[Any, list[Simulation]]:  # fmt: skip
    """The bits of D behind launches that are simulated as they are lowered, and the simulations; the
    workspace has all bits set."""
    given = {**args, "d": args["d"].copy(), SCRATCH: np.full(one.scratch_bytes, 255, "u1")}
    runs = [
        simulate(change(kernel), mine, group=group, seed=seed, trace=trace)
        for kernel, mine in zip(one.kernels, one.arguments(given), strict=True)
    ]
    return given["d"], runs


def host_run(
    lowered: Kernel, args: dict[str, Any], *, order: Literal["forward", "reverse"] = "forward"
) -> Any:
    """The bits of D after the host has run a kernel's text."""
    fresh = taken(lowered, args)
    grid = launch_grid(lowered, {k: v for k, v in fresh.items() if isinstance(v, int)})
    shared, given = (
        lowered.shared_bytes if is_dynamic(lowered) else 0,
        [fresh[q.name] for q in lowered.params],
    )
    run_cuda_text(print_kernel(lowered), lowered.name, grid, (lowered.threads,), given, shared, order=order)
    return fresh["d"]


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
    d = args["d"].copy()
    _rows(d, p.m, p.n, p.ldd)[...] = packed(total.ravel(), p.result.name).reshape(p.m, p.n)
    return d


def _rows(flat: Any, m: int, n: int, leading: int) -> Any:
    return np.lib.stride_tricks.as_strided(flat, (m, n), (leading * flat.itemsize, flat.itemsize))


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
