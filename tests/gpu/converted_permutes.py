"""Permutes that convert their elements, beside PyTorch and the driver's copy of as many bytes.

python -m tests.gpu.converted_permutes          a table: GB/s of bytes read and written, shares of the copy

PyTorch is timed as x.permute(axes).to(type).contiguous(), and as out.copy_(x.permute(axes)), which is one
kernel.  An order drawn anew for each round, an L2 that holds clean data of others, the host ahead of the GPU;
results equal PyTorch's where it states them: but for floats past the ends of an integer and for what it
rounds twice.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from math import prod
from statistics import geometric_mean
from typing import Any

from layoutalg.codegen.gpu import Prepared, device_copy, in_processes, load_prepared, prepare, require_gpu
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move.cases import CASES
from layoutalg.kernels.move.plan import best
from layoutalg.kernels.move.problem import PermuteProblem, normalise, permute_problem
from layoutalg.kernels.move.programs.permute import build
from tests.gpu.timing import flush_buffer, medians_in_turn

IMAGES = (128, 224, 224, 3), (0, 3, 1, 2)
SQUARE, ODD = ((8192, 8192), (1, 0)), ((9997, 9999), (1, 0))
PLAIN = (1 << 27,), (0,)
TIMED = (
    ("u8", "f16", *IMAGES), ("u8", "f32", *IMAGES), ("f32", "f16", *CASES[0]), ("f32", "bf16", *CASES[0]),
    ("f32", "f16", *SQUARE), ("f16", "f32", *SQUARE), ("bf16", "f32", *ODD), ("f32", "bf16", *ODD),
    ("f64", "f32", *SQUARE), ("f32", "f64", *ODD), ("s64", "s32", *SQUARE), ("s32", "f32", *CASES[3]),
    ("f32", "s8", *CASES[3]), ("f32", "u8", *ODD), ("s16", "f16", *CASES[4]), ("u8", "f32", *CASES[4]),
    ("f64", "f16", *CASES[4]), ("f32", "f16", *PLAIN), ("u8", "f32", *PLAIN), ("f32", "bf16", *PLAIN),
)  # fmt: skip
"""(source, result, shape, axes)."""

TORCH = {
    "f64": "float64", "f32": "float32", "f16": "float16", "bf16": "bfloat16", "u8": "uint8", "s8": "int8",
    "s16": "int16", "s32": "int32", "s64": "int64",
}  # fmt: skip
ROUNDS = 9


@dataclass(frozen=True, slots=True)
class Made:
    """A problem and its kernel, ready to load."""

    problem: PermuteProblem
    axes: tuple[int, ...]
    shape: tuple[int, ...]
    ready: Prepared


def made(what: tuple[str, tuple[str, str, tuple[int, ...], tuple[int, ...]]]) -> Made:
    """The plan of a case, compiled."""
    arch, (source, result, shape, axes) = what
    p = permute_problem(shape, axes, source, result=result)
    x = normalise(p)
    return Made(p, axes, shape, prepare(build(x, best(x, arch)), arch))


def measured(one: Made, flush: Any, rng: random.Random) -> list[float]:
    """GB/s of ours, of PyTorch's two ways, and of the copy; a wrong result is printed."""
    import cupy
    import torch

    p = one.problem
    source, result = p.dtype.name, (p.result or p.dtype).name
    kinds = [getattr(torch, TORCH[name]) for name in (source, result)]
    numbers = torch.randn(prod(one.shape), device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    x = (50 + 20 * numbers).clamp(0, 100).to(kinds[0]).reshape(one.shape)
    out = torch.empty([one.shape[a] for a in one.axes], dtype=kinds[1], device="cuda")
    words = [cupy.asarray(t.reshape(-1).view(torch.uint8)).view(CARRIER[t.element_size()]) for t in (x, out)]
    ours = load_prepared(one.ready).launcher(src=words[0], dst=words[1])
    ours()
    if not torch.equal(out, x.permute(one.axes).to(kinds[1])):
        print(f"WRONG {p}", flush=True)
    half = p.moved_bytes // 2
    copy = device_copy(*(cupy.zeros(half, "uint8") for _ in range(2)))
    runs: list[Callable[[], Any]] = [
        ours,
        lambda: x.permute(one.axes).to(kinds[1]).contiguous(),
        lambda: out.copy_(x.permute(one.axes)),
        copy,
    ]
    for run in runs:
        run()
    us = medians_in_turn(dict(enumerate(runs)), ROUNDS, flush, rng)
    return [p.moved_bytes / found / 1e3 for found in us.values()]


def main(args: Sequence[str]) -> int:
    """Print the table."""
    import cupy
    import torch

    arch, rng, shares = require_gpu().arch, random.Random(2031), list[list[float]]()
    flush = flush_buffer()
    print("| permute | ours GB/s | of the copy | over to().contiguous() | over copy_() |")
    print("|---|---:|---:|---:|---:|")
    for one in in_processes(made, [(arch, case) for case in TIMED]):
        ours, twice, once, copy = measured(one, flush, rng)
        shares.append([ours / copy, ours / twice, ours / once])
        p = one.problem
        where = f"{'x'.join(map(str, one.shape))} -> {','.join(map(str, one.axes))} {p.dtype} to {p.result}"
        print(f"| {where} | {ours:.0f} | " + " | ".join(f"{x:.2f}" for x in shares[-1]) + " |", flush=True)
        cupy.get_default_memory_pool().free_all_blocks()
        torch.cuda.empty_cache()
    means = (geometric_mean(column) for column in zip(*shares, strict=True))
    print("geometric means: " + ", ".join(f"{x:.3f}" for x in means), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
