"""What a call on PyTorch tensors costs the host, beside PyTorch's own: microseconds per call, medians.

python -m tests.gpu.host_time                          the table
python -m tests.gpu.host_time --rounds 60 --calls 50   longer
python -m tests.gpu.host_time first                    milliseconds of the first call of new problems

All calls are made in turns in one process, in an order that is drawn anew for each round, so that a slow
moment of the machine meets all of them.  A sample is the time in which so many calls return, on arrays so
small that the GPU is never what is waited for; it is synchronised before each sample.  "again" is our call
measured a second time, as another contender: what two samples of the same differ by.
"""

from __future__ import annotations

import argparse
import os
import random
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

Call = Callable[[], Any]


def calls(torch: Any) -> dict[str, tuple[Call, Call, Call]]:
    """By name: ours, PyTorch's, and ours prepared."""
    from layoutalg import ops

    F = torch.nn.functional

    def tensor(*shape: int, kind: Any = torch.float32) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float32).to(kind)

    x, out, w, b = tensor(64, 256), tensor(64, 256), tensor(256), tensor(256)
    y, turned, row = tensor(96, 80, 17), tensor(17, 96, 80), tensor(64)
    p, q, r = (tensor(64, 64, kind=torch.float16) for _ in range(3))
    return {
        "softmax 64x256": (
            lambda: ops.softmax(x), lambda: torch.softmax(x, -1), ops.prepare("softmax", x),
        ),
        "softmax 64x256, out": (
            lambda: ops.softmax(x, out=out), lambda: torch.softmax(x, -1, out=out),
            ops.prepare("softmax", x, out),
        ),
        "permute 96x80x17": (
            lambda: ops.permute(y, (2, 0, 1)), lambda: y.permute(2, 0, 1).contiguous(),
            ops.prepare("permute", y, axes=(2, 0, 1)),
        ),
        "permute 96x80x17, out": (
            lambda: ops.permute(y, (2, 0, 1), turned), lambda: turned.copy_(y.permute(2, 0, 1)),
            ops.prepare("permute", y, turned, axes=(2, 0, 1)),
        ),
        "sum 64x256": (
            lambda: ops.reduce(x, "sum", 1), lambda: torch.sum(x, 1), ops.prepare("sum", x, axes=1),
        ),
        "sum 64x256, out": (
            lambda: ops.reduce(x, "sum", 1, out=row), lambda: torch.sum(x, 1, out=row),
            ops.prepare("sum", x, row, axes=1),
        ),
        "layer_norm 64x256": (
            lambda: ops.layer_norm(x, -1, w, b), lambda: F.layer_norm(x, (256,), w, b),
            ops.prepare("layer_norm", x, weight=w, bias=b),
        ),
        "rms_norm 64x256": (
            lambda: ops.rms_norm(x, -1, w), lambda: F.rms_norm(x, (256,), w),
            ops.prepare("rms_norm", x, weight=w),
        ),
        "matmul 64x64x64 f16": (
            lambda: ops.matmul(p, q), lambda: torch.matmul(p, q), ops.prepare("matmul", p, b=q),
        ),
        "matmul 64x64x64 f16, out": (
            lambda: ops.matmul(p, q, r), lambda: torch.matmul(p, q, out=r),
            ops.prepare("matmul", p, r, b=q),
        ),
    }  # fmt: skip


def sample(torch: Any, call: Call, count: int) -> float:
    """Microseconds per call."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return 1e6 * (time.perf_counter() - begin) / count


def repeated(torch: Any, rounds: int, count: int) -> None:
    """The table of calls that repeat another."""
    table = {name: (ours, theirs, ready, ours) for name, (ours, theirs, ready) in calls(torch).items()}
    turns = [(name, n) for name, contenders in table.items() for n in range(len(contenders))]
    seen: dict[tuple[str, int], list[float]] = {turn: [] for turn in turns}
    rng = random.Random(21)
    for name, n in turns:
        table[name][n]()
    for _ in range(rounds):
        rng.shuffle(turns)
        for name, n in turns:
            seen[name, n].append(sample(torch, table[name][n], count))
    print(f"{'us per call of the host':26}{'ours':>8}{'torch':>8}{'ratio':>8}{'prepared':>10}{'again':>8}")
    for name in table:
        ours, theirs, ready, again = (statistics.median(seen[name, n]) for n in range(4))
        print(f"{name:26}{ours:8.1f}{theirs:8.1f}{ours / theirs:8.2f}{ready:10.1f}{again:8.1f}")


def first(torch: Any) -> None:
    """The first call of problems that no cache knows."""
    from layoutalg import ops

    ops.softmax(torch.zeros((3, 5), device="cuda"))  # imports, and the driver's first launch
    p = torch.zeros((2048, 2048), device="cuda", dtype=torch.float16)
    new: dict[str, Call] = {}
    for shape in ((64, 256), (1000, 77), (7, 50_000), (3, 1 << 20), (33, 65, 129)):
        x = torch.zeros(shape, device="cuda")
        new[f"softmax {shape}"] = partial(ops.softmax, x)
        new[f"sum {shape}"] = partial(ops.reduce, x, "sum", 0)
        new[f"layer_norm {shape}"] = partial(ops.layer_norm, x)
        new[f"transpose {shape}"] = partial(ops.transpose, x)
    new["matmul 2048 f16"] = lambda: ops.matmul(p, p)
    new["matmul 200 f16"] = lambda: ops.matmul(p[:200, :200], p[:200, :200])
    for name, call in new.items():
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        torch.cuda.synchronize()
        took = 1e3 * (time.perf_counter() - begin)
        print(f"{name:32}{took:8.1f} ms{'  over 200' if took > 200 else ''}")


def main(args: list[str]) -> int:
    """Print a table; 1 without a GPU or PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("what", nargs="?", choices=["repeated", "first"], default="repeated")
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=40)
    asked = parser.parse_args(args)
    from layoutalg.codegen.gpu import gpu_status

    status = gpu_status()
    if not status.available:
        print(f"not run: {status.reason}")
        return 1
    import torch

    print(f"{status.name}, PyTorch {torch.__version__}")
    if asked.what == "repeated":
        repeated(torch, asked.rounds, asked.calls)
        return 0
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LAYOUTALG_CACHE"] = folder
        first(torch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
