"""What a call of `layoutalg.ops.matmul` costs the host, beside `torch.matmul`: microseconds, medians.

    python tests/bench/bench_matmul_host.py
    python tests/bench/bench_matmul_host.py --rounds 50 --calls 40

Products of PyTorch tensors on one GPU, in one process: the calls are made in turns, round by round, so that a
slow moment of the machine meets all of them.  A sample is the time in which so many calls return, of products
so small that the GPU is never what is waited for; it is synchronised before each sample.  The first two
columns are of the same call; the last is their ratio.
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any

Call = Callable[[], Any]


def calls(torch: Any) -> dict[str, tuple[Call, Call]]:
    """By name: ours, and PyTorch's."""
    from layoutalg.ops import matmul

    def tensor(*shape: int, kind: Any = torch.float16) -> Any:
        return torch.randn(shape, device="cuda", dtype=torch.float32).to(kind)

    a, b, c, out = (tensor(64, 64) for _ in range(4))
    bias, x, y = tensor(64), tensor(64, 64, kind=torch.float32), tensor(64, 64, kind=torch.float32)
    p, q, r = tensor(8, 64, 64), tensor(8, 64, 64), tensor(64, 128)
    return {
        "f16": (lambda: matmul(a, b), lambda: torch.matmul(a, b)),
        "f16, out": (lambda: matmul(a, b, out), lambda: torch.matmul(a, b, out=out)),
        "f16, b transposed": (lambda: matmul(a, b.T), lambda: torch.matmul(a, b.T)),
        "f16, rows of a sliced": (lambda: matmul(r[:, :64], b), lambda: torch.matmul(r[:, :64], b)),
        "f16, bias": (lambda: matmul(a, b, bias=bias), lambda: torch.addmm(bias, a, b)),
        "f16, c, alpha, beta": (
            lambda: matmul(a, b, out, alpha=0.5, beta=2.0, c=c),
            lambda: torch.addmm(c, a, b, beta=2.0, alpha=0.5, out=out),
        ),
        "f16, batch of 8": (lambda: matmul(p, q), lambda: torch.matmul(p, q)),
        "f32": (lambda: matmul(x, y), lambda: torch.matmul(x, y)),
        "f16, a copied first": (lambda: matmul(r[:, ::2], b), lambda: torch.matmul(r[:, ::2], b)),
    }


def sample(torch: Any, call: Call, count: int) -> float:
    """Microseconds per call."""
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    return 1e6 * (time.perf_counter() - begin) / count


def main() -> int:
    """Print the table; 1 without a GPU or PyTorch."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=30)
    parser.add_argument("--calls", type=int, default=20)
    asked = parser.parse_args()
    from layoutalg.codegen.gpu import gpu_status

    status = gpu_status()
    if not status.available:
        print(f"not run: {status.reason}")
        return 1
    import torch

    table = calls(torch)
    for ours, theirs in table.values():
        ours(), theirs()
    seen: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in table}
    for _ in range(asked.rounds):
        for name, pair in table.items():
            for call, samples in zip(pair, seen[name], strict=True):
                samples.append(sample(torch, call, asked.calls))
    print(f"{status.name}, PyTorch {torch.__version__}: us per call of the host")
    print(f"{'':24}{'ours':>8}{'torch':>8}{'ratio':>8}")
    for name, (ours_us, theirs_us) in seen.items():
        one, other = statistics.median(ours_us), statistics.median(theirs_us)
        print(f"{name:24}{one:8.1f}{other:8.1f}{one / other:8.2f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
