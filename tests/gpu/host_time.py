"""What a call on arrays of the GPU costs the host, beside PyTorch's own: microseconds per call, medians.

python -m tests.gpu.host_time                          the table
python -m tests.gpu.host_time products                 of products alone, of more kinds
python -m tests.gpu.host_time --rounds 60 --calls 50   longer
python -m tests.gpu.host_time first                    milliseconds of the first call of new problems
python -m tests.gpu.host_time shapes                   of matmul for new shapes, compiled: under 5 ms
python -m tests.gpu.host_time kept                     in two processes: the second finds what is kept

All calls are made in turns in one process, in an order that is drawn anew for each round, so that a slow
moment of the machine meets all of them.  A sample is the time in which so many calls return, on arrays so
small that the GPU is never what is waited for; it is synchronised before each sample.  "again" is our call
measured a second time, as another contender: what two samples of the same differ by.
"""

from __future__ import annotations

import argparse
import importlib
import os
import random
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from functools import partial
from typing import Any

Call = Callable[[], Any]
Contenders = dict[str, tuple[Call, ...]]
"""By name: ours, PyTorch's or CuPy's, and ours prepared, or again."""


def tensor(*shape: int, kind: str = "float32") -> Any:
    """Normal random numbers."""
    import torch

    return torch.randn(shape, device="cuda").to(getattr(torch, kind))


def calls() -> Contenders:
    """The calls of all operations."""
    import cupy
    import torch
    import torch.nn.functional as f

    from layoutalg import ops

    x, out, w, b = tensor(64, 256), tensor(64, 256), tensor(256), tensor(256)
    y, turned, row = tensor(96, 80, 17), tensor(17, 96, 80), tensor(64)
    z, to, axes = cupy.zeros((96, 80, 17), "f4"), cupy.empty((17, 96, 80), "f4"), (2, 0, 1)
    p, q, r = (tensor(64, 64, kind="float16") for _ in range(3))
    ready = ops.prepare
    return {
        "softmax 64x256": (lambda: ops.softmax(x), lambda: torch.softmax(x, -1), ready("softmax", x)),
        "softmax 64x256, out": (
            lambda: ops.softmax(x, out=out), lambda: torch.softmax(x, -1, out=out), ready("softmax", x, out),
        ),
        "permute 96x80x17": (
            lambda: ops.permute(y, axes), lambda: y.permute(axes).contiguous(),
            ready("permute", y, axes=axes),
        ),
        "permute 96x80x17, out": (
            lambda: ops.permute(y, axes, turned), lambda: turned.copy_(y.permute(axes)),
            ready("permute", y, turned, axes=axes),
        ),
        "permute 96x80x17, CuPy": (
            lambda: ops.permute(z, axes), lambda: cupy.ascontiguousarray(z.transpose(axes)),
            ready("permute", z, to, axes=axes),
        ),
        "sum 64x256": (lambda: ops.reduce(x, "sum", 1), lambda: torch.sum(x, 1), ready("sum", x, axes=1)),
        "sum 64x256, out": (
            lambda: ops.reduce(x, "sum", 1, out=row), lambda: torch.sum(x, 1, out=row),
            ready("sum", x, row, axes=1),
        ),
        "layer_norm 64x256": (
            lambda: ops.layer_norm(x, -1, w, b), lambda: f.layer_norm(x, (256,), w, b),
            ready("layer_norm", x, weight=w, bias=b),
        ),
        "rms_norm 64x256": (
            lambda: ops.rms_norm(x, -1, w), lambda: f.rms_norm(x, (256,), w), ready("rms_norm", x, weight=w),
        ),
        "matmul 64x64x64 f16": (
            lambda: ops.matmul(p, q), lambda: torch.matmul(p, q), ready("matmul", p, b=q),
        ),
        "matmul 64x64x64 f16, out": (
            lambda: ops.matmul(p, q, r), lambda: torch.matmul(p, q, out=r), ready("matmul", p, r, b=q),
        ),
    }  # fmt: skip


def products() -> Contenders:
    """Products of f16 and f32 that ask for more."""
    import torch

    from layoutalg.ops import matmul

    mul, add, half = torch.matmul, torch.addmm, partial(tensor, kind="float16")
    a, b, c, out = (half(64, 64) for _ in range(4))
    bias, x, y = half(64), tensor(64, 64), tensor(64, 64)
    p, q, r = half(8, 64, 64), half(8, 64, 64), half(64, 128)
    return {
        "f16": (lambda: matmul(a, b), lambda: mul(a, b)),
        "f16, out": (lambda: matmul(a, b, out), lambda: mul(a, b, out=out)),
        "f16, b transposed": (lambda: matmul(a, b.T), lambda: mul(a, b.T)),
        "f16, rows of a sliced": (lambda: matmul(r[:, :64], b), lambda: mul(r[:, :64], b)),
        "f16, bias": (lambda: matmul(a, b, bias=bias), lambda: add(bias, a, b)),
        "f16, c, alpha, beta": (
            lambda: matmul(a, b, out, alpha=0.5, beta=2.0, c=c),
            lambda: add(c, a, b, beta=2.0, alpha=0.5, out=out),
        ),
        "f16, batch of 8": (lambda: matmul(p, q), lambda: mul(p, q)),
        "f32": (lambda: matmul(x, y), lambda: mul(x, y)),
        "f16, a copied first": (lambda: matmul(r[:, ::2], b), lambda: mul(r[:, ::2], b)),
    }


def took(call: Call, count: int = 1, *, waits: bool = False) -> float:
    """Seconds per call; with the GPU's end where it `waits`."""
    import torch

    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(count):
        call()
    if waits:
        torch.cuda.synchronize()
    return (time.perf_counter() - begin) / count


def repeated(table: Contenders, rounds: int, count: int) -> None:
    """The table of calls that repeat another."""
    runs = {(name, n): call for name, own in table.items() for n, call in enumerate((*own, own[0]))}
    seen: dict[tuple[str, int], list[float]] = {turn: [] for turn in runs}
    rng = random.Random(21)
    for call in runs.values():
        call()
    for _ in range(rounds):
        for turn in rng.sample(list(runs), len(runs)):
            seen[turn].append(took(runs[turn], count))
    print(f"{'us per call of the host':26}{'ours':>8}{'torch':>8}{'ratio':>8}{'prepared':>10}{'again':>8}")
    for name in table:
        ours, theirs, *ready, again = (
            1e6 * statistics.median(us) for (of, _), us in seen.items() if of == name
        )
        prepared = f"{ready[0]:.1f}" if ready else ""
        print(f"{name:26}{ours:8.1f}{theirs:8.1f}{ours / theirs:8.2f}{prepared:>10}{again:8.1f}")


def first() -> None:
    """The first call of problems that no cache of this process knows."""
    import torch

    importing = took(lambda: importlib.import_module("layoutalg.kernels"))
    print(f"{'importing layoutalg.kernels':46}{1e3 * importing:8.1f} ms")
    from layoutalg import ops

    new: dict[str, Call] = {
        "the driver's first launch": partial(ops.softmax, torch.zeros((3, 5), device="cuda"))
    }
    p = torch.zeros((2048, 2048), device="cuda", dtype=torch.float16)
    for shape in ((64, 256), (1000, 77), (7, 50_000), (3, 1 << 20), (33, 65, 129)):
        x = torch.zeros(shape, device="cuda")
        new[f"softmax {shape}"] = partial(ops.softmax, x)
        new[f"sum {shape}"] = partial(ops.reduce, x, "sum", 0)
        new[f"layer_norm {shape}"] = partial(ops.layer_norm, x)
        new[f"transpose {shape}"] = partial(ops.transpose, x)
    new["matmul 2048 f16"] = lambda: ops.matmul(p, p)
    new["matmul 200 f16"] = lambda: ops.matmul(p[:200, :200], p[:200, :200])
    for name, call in new.items():
        ms = 1e3 * took(call, waits=True)
        print(f"{name:46}{ms:8.1f} ms{'  over 200' if ms > 200 else ''}", flush=True)


SHAPES: dict[str, Callable[[int], tuple[int, ...]]] = {
    "aligned": lambda i: (4096 + 64 * i, 4096, 4096 + 128 * (i % 7)),
    "odd": lambda i: (4001 + 2 * i, 4095, 4001 + 2 * i),
    "batch": lambda i: (4 + i, 512, 512, 512 + 64 * (i % 7)),
    "m = 1": lambda i: (1, 4096 + 8 * i, 4096 + 8 * i),
    "m = 64": lambda i: (64, 4096 + 8 * i, 4096 + 8 * i),
}

MOST_MS, CALLS, WARM = 5.0, 40, 12


def shapes() -> int:
    """The first call of matmul for a new shape, on the host alone; 1 where a median is MOST_MS or more.

    Per kind some calls compile; each of the others has tensor maps, the loading of nothing new, and a launch.
    """
    import torch

    from layoutalg import ops

    late = False
    for kind, shape in SHAPES.items():
        ms: list[float] = []
        for *batch, m, n, k in map(shape, range(CALLS)):
            a = torch.empty((*batch, m, k), device="cuda", dtype=torch.bfloat16)
            b = torch.empty((*batch, n, k), device="cuda", dtype=torch.bfloat16).mT
            ms.append(1e3 * took(partial(ops.matmul, a, b)))
        rest = [one for one in ms[WARM:] if one <= 50]  # in others another tile was compiled
        middle = statistics.median(rest)
        late |= middle >= MOST_MS
        compiled = len(ms) - WARM - len(rest)
        print(
            f"{kind}: median {middle:.2f} ms, worst {max(ms[WARM:]):.2f} ms, {compiled} compiled", flush=True
        )
    return int(late)


KINDS: dict[str, Callable[[], Contenders]] = {"repeated": calls, "products": products}


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument(
        "what", nargs="?", choices=[*KINDS, "first", "shapes", "kept", "cached"], default="repeated"
    )
    parser.add_argument("--rounds", type=int, default=40)
    parser.add_argument("--calls", type=int, default=40)
    asked = parser.parse_args(args)
    if asked.what in KINDS:
        repeated(KINDS[asked.what](), asked.rounds, asked.calls)
    elif asked.what == "first":
        with tempfile.TemporaryDirectory() as os.environ["LAYOUTALG_CACHE"]:
            first()
    elif asked.what == "cached":
        first()
    elif asked.what == "shapes":
        return shapes()
    else:
        with tempfile.TemporaryDirectory() as folder:
            for what in ("nothing is kept", "all is kept"):
                print(f"a process for which {what}", flush=True)
                command = [sys.executable, "-m", "tests.gpu.host_time", "cached"]
                subprocess.run(command, env={**os.environ, "LAYOUTALG_CACHE": folder}, check=True)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
