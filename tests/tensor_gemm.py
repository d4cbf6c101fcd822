"""Run a tensor-core GEMM on small integers: by definition, in the simulator, and as text on the host."""

from __future__ import annotations

import struct
from collections.abc import Mapping
from typing import Any, Literal

import numpy as np
from numpy.lib.stride_tricks import as_strided

from layoutalg.codegen.cuda import is_dynamic, print_kernel
from layoutalg.codegen.packing import decode, encode
from layoutalg.codegen.runtime import launch_grid
from layoutalg.codegen.simulate import simulate
from layoutalg.codegen.tile import Kernel
from layoutalg.kernels.gemm import GemmProblem, matrices
from tests.hostshim import run_cuda_text

Arrays = dict[str, Any]

ALPHA, BETA = 2, 3
PATTERN = {1: np.uint8, 2: np.uint16, 4: np.uint32}


def to_bits(values: Any, element: str) -> Any:
    """The patterns of a flat array of numbers."""
    size = {"s8": 1, "f16": 2, "bf16": 2}.get(element, 4)
    padded = np.zeros(-(-len(values) // 4) * 4, dtype=np.int64 if element.startswith("s") else np.float64)
    padded[: len(values)] = values
    return encode(padded[None], element).view(PATTERN[size])[0, : len(values)].copy()


def to_numbers(bits: Any, element: str) -> Any:
    """Inverse of `to_bits`."""
    padded = np.zeros(-(-len(bits) // 4) * 4, dtype=bits.dtype)
    padded[: len(bits)] = bits
    return decode(padded[None].view(np.uint32), element)[0, : len(bits)]


def inputs(p: GemmProblem, seed: int = 0) -> Arrays:
    """Small integers for every operand; all bits set where D goes."""
    rng = np.random.default_rng(seed)

    def drawn(elems: int, element: str) -> Any:
        return to_bits(rng.integers(-2, 3, elems), element)

    d = np.full((p.m - 1) * p.ldd + p.n, -1, dtype=np.int64).astype(PATTERN[p.result.nbytes])
    return {
        "a": drawn(p.a_elems, p.operand.name),
        "b": drawn(p.b_elems, p.operand.name),
        "c": drawn((p.m - 1) * p.ldc + p.n, p.result.name),
        "bias": drawn(p.n, p.result.name),
        "d": d,
    }


def reference(p: GemmProblem, x: Mapping[str, Any]) -> Any:
    """The bits of D's buffer by definition; all sums are exact, the result is rounded once."""
    a, b = (to_numbers(x[name], p.operand.name) for name in "ab")
    left, right = matrices(p, a, b)
    total = ALPHA * (left @ right)
    if p.reads_c:
        total = total + BETA * _rows(to_numbers(x["c"], p.result.name), p, p.ldc)
    if p.bias:
        total = total + to_numbers(x["bias"], p.result.name)
    if p.activation == "relu":
        total = np.maximum(total, 0)
    out = x["d"].copy()
    _rows(out, p, p.ldd)[:] = to_bits(total.reshape(-1), p.result.name).reshape(p.m, p.n)
    return out


def _rows(flat: Any, p: GemmProblem, leading: int) -> Any:
    return as_strided(flat, (p.m, p.n), (leading * flat.itemsize, flat.itemsize))


def arguments(kernel: Kernel, p: GemmProblem, x: Mapping[str, Any]) -> dict[str, Any]:
    """What the kernel's parameters are given, in their order."""
    given: dict[str, Any] = {n: getattr(p, n) for n in ("m", "n", "k", "lda", "ldb", "ldc", "ldd")}
    for name, number in (("alpha", ALPHA), ("beta", BETA)):
        given[name] = number if p.operand.name == "s8" else struct.unpack("<I", struct.pack("<f", number))[0]
    given |= x
    return {q.name: given[q.name] for q in kernel.params}


def simulated(
    kernel: Kernel, p: GemmProblem, x: Mapping[str, Any], *, group: Literal["block", "warp"] = "block",
    seed: int = 0,
) -> Any:  # fmt: skip
    """The bits of D after the simulator has run the kernel."""
    fresh = {**x, "d": x["d"].copy()}
    simulate(kernel, arguments(kernel, p, fresh), group=group, seed=seed, trace=False)
    return fresh["d"]


def host_run(
    lowered: Kernel, p: GemmProblem, x: Mapping[str, Any], *, order: Literal["forward", "reverse"] = "forward"
) -> Any:
    """The bits of D after the host has run the kernel's text."""
    fresh = {**x, "d": x["d"].copy()}
    args = arguments(lowered, p, fresh)
    grid = launch_grid(lowered, {k: v for k, v in args.items() if isinstance(v, int)})
    shared = lowered.shared_bytes if is_dynamic(lowered) else 0
    run_cuda_text(
        print_kernel(lowered),
        lowered.name,
        grid,
        (lowered.threads,),
        list(args.values()),
        shared,
        order=order,
    )
    return fresh["d"]
