"""What the choice of a plan is worth: every candidate of some sums, beside the model and PyTorch.

python -m tests.gpu.tune_reduce                        the cases below
python -m tests.gpu.tune_reduce f16 8191,8193 0        one sum
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from math import prod
from typing import Any

from layoutalg.codegen.gpu import Prepared, in_processes, load_prepared, median_times_ms, prepare, require_gpu
from layoutalg.kernels.rowwise import ReducePlan, plans, reduce_problem
from layoutalg.kernels.rowwise.programs.reduce import build
from tests.gpu.counters import ints

CASES = tuple(
    (dtype, shape, axes)
    for shape, axes in (
        ("8192,8192", "1"), ("8192,8192", "0"), ("65536,1024", "1"), ("65536,1024", "0"), ("1024,65536", "1"),
        ("1024,65536", "0"), ("64,256,56,56", "0,2,3"), ("32,1024,1024", "1"), ("67108864", "0"),
        ("8191,8193", "1"), ("8191,8193", "0"), ("1048576,64", "1"), ("16777216,3", "1"), ("256,256", "1"),
    )
    for dtype in ("f32", "f16")
)  # fmt: skip


def compiled(case: tuple[str, str, str, str]) -> list[tuple[ReducePlan, list[Prepared]]]:
    """All plans of a case, and their kernels."""
    dtype, shape, axes, arch = case
    p = reduce_problem(ints(shape), ints(axes), "sum", dtype)
    return [(plan, [prepare(k, arch) for k in build(plan)]) for plan in plans(p, arch)]


def launches(plan: ReducePlan, kernels: list[Prepared], src: Any, dst: Any) -> Callable[[], None]:
    """All passes of a plan on given arrays."""
    import cupy

    work = cupy.zeros(max(1, plan.workspace_elems), "u4")
    chain = [src, work, dst] if len(kernels) > 1 else [src, dst]
    steps = [load_prepared(k).launcher(src=chain[n], dst=chain[n + 1]) for n, k in enumerate(kernels)]

    def run() -> None:
        for step in steps:
            step()

    return run


def measure(case: tuple[str, str, str], found: list[tuple[ReducePlan, list[Prepared]]]) -> str:
    """A line: GB/s read by PyTorch, by the plan, by the best candidate; the model's and the true time."""
    import cupy
    import torch

    dtype, shape, axes = case
    kind = {"f32": torch.float32, "f16": torch.float16, "bf16": torch.bfloat16}[dtype]
    elems, size = prod(ints(shape)), found[0][0].problem.axes.dtype.nbytes
    contenders: list[list[Callable[[], Any]]] = [[] for _ in range(1 + len(found))]
    for _ in range(max(1, min(4, (240 << 20) // (elems * size)))):
        x = torch.randn(elems, device="cuda").to(kind)
        src = cupy.from_dlpack(x.view(torch.int32 if size == 4 else torch.int16)).view(f"u{size}")
        dst = cupy.zeros(found[0][0].problem.axes.outputs, f"u{size}")
        contenders[0].append(functools.partial(torch.sum, x.view(ints(shape)), dim=ints(axes)))
        for own, (plan, kernels) in zip(contenders[1:], found, strict=True):
            own.append(launches(plan, kernels, src, dst))
    by_torch, *ours = median_times_ms(contenders, rounds=7)
    rates = [elems * size / ms / 1e6 for ms in (by_torch, ours[0], min(ours))]
    best = found[ours.index(min(ours))][0]
    return (
        f"{shape} over {axes} {dtype}: PyTorch {rates[0]:.0f}, plan {rates[1]:.0f}, best of {len(ours)} "
        f"{rates[2]:.0f} GB/s; {found[0][0].predicted_us:.1f} us predicted, {1e3 * ours[0]:.1f} measured; "
        f"best {best.passes[0].config}"
    )


def main(args: list[str]) -> None:
    """See the module's text."""
    arch = require_gpu().arch
    cases = [(args[0], args[1], args[2])] if args else list(CASES)
    for case, found in zip(cases, in_processes(compiled, [(*c, arch) for c in cases]), strict=True):
        print(measure(case, found), flush=True)


if __name__ == "__main__":
    main(sys.argv[1:])
