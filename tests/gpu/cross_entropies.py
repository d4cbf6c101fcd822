"""Cross entropies beside PyTorch's: random calls compared, and times.

python -m tests.gpu.cross_entropies right 400       so many random calls, against PyTorch's of float64
python -m tests.gpu.cross_entropies times OUT.json  ours, PyTorch's, torch.compile's and the driver's copy

Timed in turn, in an order drawn anew for each round, on normal random data; before each launch a buffer of
256 MB that is not written is read; the host is ahead of the GPU.  Ours runs twice, which says what repeats.
GB/s are of the bytes that must be read.
"""

from __future__ import annotations

import random
import sys
from itertools import product
from typing import Any

from layoutalg import ops
from tests.gpu.counters import verdict
from tests.gpu.timing import Run, Turns, one_stream, write

SHAPES = (
    (8192, 8192), (4096, 32000), (4096, 50257), (2048, 128256), (1024, 262144), (65536, 1024), (262144, 100)
)  # fmt: skip


def right(count: int, seed: int = 2026) -> int:
    """Calls that differ from PyTorch's."""
    import torch

    rng, wrong = random.Random(seed), 0
    torch.manual_seed(seed)
    for n in range(count):
        kind = rng.choice((torch.float32, torch.bfloat16, torch.float16))
        rank = rng.randint(1, 4)
        shape = [rng.choice((1, 2, 3, 7, 16, 33, 65)) for _ in range(rank)]
        axis = rng.randrange(rank)
        shape[axis] = rng.choice((1, 2, 5, 64, 100, 1000, 4097, 32003))
        x = torch.randn(shape, device="cuda").mul(rng.choice((1, 8))).to(kind)
        if rng.random() < 0.3:  # another order of the modes, or every other element
            x = x.transpose(0, rank - 1).contiguous().transpose(0, rank - 1)
        if rng.random() < 0.2:
            x = torch.cat([x, x])[: shape[0]] if rng.random() < 0.5 else x.repeat_interleave(2, 0)[::2]
        reduction, ignored = rng.choice(("none", "sum", "mean")), rng.choice((-100, 0, 3))
        kept = [m for k, m in enumerate(shape) if k != axis]
        at = torch.randint(0, shape[axis], kept, device="cuda")
        at = torch.where(torch.rand(kept, device="cuda") < 0.1, torch.full_like(at, ignored), at)
        at = at.int() if rng.random() < 0.5 else at
        rows = x.double().movedim(axis, -1).reshape(-1, shape[axis])
        wanted = torch.nn.functional.cross_entropy(
            rows, at.long().reshape(-1), ignore_index=ignored, reduction=reduction
        )
        got = ops.cross_entropy(x, at, axis, ignored, reduction)
        again = ops.cross_entropy(x, at, axis, ignored, reduction)
        place = {torch.float32: 2e-6, torch.bfloat16: 2**-8, torch.float16: 2**-10}[kind]
        close = torch.allclose(got.double().reshape(wanted.shape), wanted, place * 4, 4e-5, equal_nan=True)
        if not close or got.dtype != kind or not torch.equal(got.nan_to_num(), again.nan_to_num()):
            wrong += 1
            off = (got.double().reshape(wanted.shape) - wanted).abs().max()
            call = f"{shape} {x.stride()} axis {axis} {kind} {reduction} {ignored}"
            print(f"{n}: {call}: off by {off}", flush=True)
    print(f"{count} calls, {wrong} other than PyTorch's")
    return wrong


def times(out: str) -> None:
    """Write and print the medians of every shape and type."""
    import torch

    rows, eager = list[dict[str, Any]](), torch.nn.functional.cross_entropy
    with one_stream():
        turns = Turns(11)
        for shape, kind in product(SHAPES, (torch.bfloat16, torch.float32)):
            x = torch.randn(shape, device="cuda").to(kind)
            at = torch.randint(0, shape[1], shape[:1], device="cuda")
            half = x.view(-1)[: x.numel() // 2]
            goal = torch.empty_like(half)
            torch._dynamo.reset()
            compiled = torch.compile(eager, dynamic=False)
            ours = ops.prepare("cross_entropy", x, target=at)
            runs: dict[str, Run] = {
                "ours": ours, "again": ours, "eager": lambda x=x, at=at: eager(x, at),  # type: ignore[misc]
                "compiled": lambda x=x, at=at, run=compiled: run(x, at),  # type: ignore[misc]
                "copy of half": lambda a=goal, b=half: a.copy_(b),  # type: ignore[misc]
            }  # fmt: skip
            for run in runs.values():
                run()
            us = turns.medians(runs)
            rate = x.numel() * x.element_size() / us["ours"] / 1e3
            rows.append({"shape": shape, "type": str(kind), **us, "GB/s": rate})
            over = ", ".join(f"{name} {us[name] / us['ours']:.3f}" for name in runs if name != "ours")
            print(f"{shape} {kind}: ours {us['ours']:.1f} us {rate:.0f} GB/s, {over}", flush=True)
            write(out, rows)


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] == "right":
        return verdict(right(int(args[1])), int(args[1]), "calls")
    times(args[1])
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
