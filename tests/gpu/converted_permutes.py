"""Permutes that convert their elements, beside PyTorch and the driver's copy of as many bytes.

python -m tests.gpu.converted_permutes          a table: GB/s of bytes read and written, shares of the copy

PyTorch is timed as x.permute(axes).to(type).contiguous(), and as out.copy_(x.permute(axes)), which is one
kernel.  An order drawn anew for each round, an L2 that holds clean data of others, the host ahead of the GPU;
results equal PyTorch's where it states them: but for floats past the ends of an integer and for what it
rounds twice.
"""

from __future__ import annotations

from math import prod
from statistics import geometric_mean
from typing import Any

from layoutalg.codegen import gpu
from layoutalg.kernels.checks.move import CASES
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move import build_permute, normalise, permute_configs, permute_problem
from tests.gpu.timing import Turns, free, torch_type

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

Case = tuple[str, str, tuple[int, ...], tuple[int, ...]]


def prepared(asked: tuple[str, Case]) -> gpu.Prepared:
    """The plan of a case, compiled."""
    arch, (source, result, shape, axes) = asked
    x = normalise(permute_problem(shape, axes, source, result=result))
    return gpu.prepare(build_permute(x, permute_configs(x, arch)[0]), arch)


def measured(case: Case, ready: gpu.Prepared, turns: Turns) -> list[float]:
    """GB/s of ours, of PyTorch's two ways, and of the copy; a wrong result is printed."""
    import cupy
    import torch

    source, result, shape, axes = case
    p, kinds = permute_problem(shape, axes, source, result=result), [torch_type(source), torch_type(result)]
    numbers = torch.randn(prod(shape), device="cuda", generator=torch.Generator("cuda").manual_seed(1))
    x = (50 + 20 * numbers).clamp(0, 100).to(kinds[0]).reshape(shape)
    out = torch.empty([shape[a] for a in axes], dtype=kinds[1], device="cuda")
    words = [cupy.asarray(t.reshape(-1).view(torch.uint8)).view(CARRIER[t.element_size()]) for t in (x, out)]
    ours = gpu.load_prepared(ready).launcher(src=words[0], dst=words[1])
    ours()
    if not torch.equal(out, x.permute(axes).to(kinds[1])):
        print(f"WRONG {p}", flush=True)
    copy = gpu.device_copy(*(cupy.zeros(p.moved_bytes // 2, "u1") for _ in range(2)))
    runs: list[Any] = [
        ours, lambda: x.permute(axes).to(kinds[1]).contiguous(), lambda: out.copy_(x.permute(axes)), copy
    ]  # fmt: skip
    for run in runs:
        run()
    return [p.moved_bytes / us / 1e3 for us in turns.medians(dict(enumerate(runs))).values()]


def main() -> None:
    """Print the table."""
    arch, turns, shares = gpu.require_gpu().arch, Turns(9, 2031), list[list[float]]()
    print("| permute | ours GB/s | of the copy | over to().contiguous() | over copy_() |")
    print("|---|---:|---:|---:|---:|")
    ready = gpu.in_processes(prepared, [(arch, case) for case in TIMED])
    for case, one in zip(TIMED, ready, strict=True):
        ours, twice, once, copy = measured(case, one, turns)
        shares.append([ours / copy, ours / twice, ours / once])
        source, result, shape, axes = case
        where = f"{'x'.join(map(str, shape))} -> {','.join(map(str, axes))} {source} to {result}"
        print(f"| {where} | {ours:.0f} | " + " | ".join(f"{x:.2f}" for x in shares[-1]) + " |", flush=True)
        free()
    means = (geometric_mean(column) for column in zip(*shares, strict=True))
    print("geometric means: " + ", ".join(f"{x:.3f}" for x in means), flush=True)


if __name__ == "__main__":
    main()
