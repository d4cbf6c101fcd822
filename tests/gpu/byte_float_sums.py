"""Bits that tensor cores keep of sums of 8-bit floats, by wgmma, fast and promoted.

python -m tests.gpu.byte_float_sums

Two products of powers of two are added up, 2^e and 1, in one instruction and in two that follow each other:
the largest e whose sum is exact is a bit less than what a sum keeps.  2^13 and 1.75 tell whether the rest is
rounded.  Then sums of k products of normal numbers: the largest error as a share of |A| |B|.
"""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from layoutalg.codegen import gpu
from layoutalg.kernels.gemm import gemm_problem, scalar_words
from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.launches import called_launches

ROWS, DEPTHS = 128, (128, 512, 2048, 8192)
"""Rows and columns; the k of random products."""


def product(a: Any, b: Any, *, fast: bool) -> Any:
    """A B^T in f32 by gemm-sm90, of tensors on the GPU that hold 8-bit floats."""
    import cupy
    import torch

    (m, k), n, of = a.shape, len(b), str(a.dtype).removeprefix("torch.")
    p = gemm_problem(m, n, k, of, result="f32", arithmetic="fast" if fast else "")
    sequence = called_launches(p, replace(SM90.configs(p)[0], splits=1))
    d = torch.zeros(m, n, device="cuda")
    views = {"a": a.view(torch.uint8), "b": b.view(torch.uint8), "d": d.view(torch.int32)}
    arrays = {name: cupy.asarray(x).ravel() for name, x in views.items()}
    ready = gpu.compile_sequence(sequence, "sm_90").ready(scalar_words(p, "alpha", 1.0))
    gpu.load_sequence(ready).on_arrays(arrays)()
    torch.cuda.synchronize()
    return d


def sum_of(first: float, second: float, at: int) -> float:
    """The first number, a product of two, and the second, added up with it `at` a later k."""
    import torch

    a, b = (torch.zeros(ROWS, 64, device="cuda") for _ in "ab")
    a[0, 0], b[0, 0], a[0, at], b[0, at] = 2.0 ** (first // 2), 2.0 ** (first - first // 2), second, 1.0
    kind = torch.float8_e5m2
    return float(product(a.to(kind), b.to(kind), fast=True)[0, 0])


def main() -> None:
    """See the module's text."""
    import torch

    gpu.require_gpu()
    for at, text in ((1, "in one instruction"), (33, "in two")):
        kept = max(e for e in range(6, 20) if sum_of(e, 1.0, at) == 2.0**e + 1)
        print(f"2^{kept} + 1 is exact {text}; 2^13 + 1.75 is 2^13 + {sum_of(13, 1.75, at) - 2**13}")
    for k in DEPTHS:
        torch.manual_seed(3)
        a, b = (torch.randn(256, k, device="cuda").to(torch.float8_e4m3fn) for _ in "ab")
        exact, size = a.double() @ b.double().T, a.double().abs() @ b.double().abs().T
        shares = [
            float(((product(a, b, fast=fast) - exact).abs() / size).max()) for fast in (True, False)
        ]  # fmt: skip
        print(f"k = {k}: off by {shares[0]:.2g} of |A| |B|, promoted {shares[1]:.2g}")


if __name__ == "__main__":
    main()
