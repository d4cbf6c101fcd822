"""Arrays of CuPy and PyTorch through the Python calls, their streams, threads and refusals.

python -m tests.gpu.array_cases            print what is wrong
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import layoutalg
from layoutalg.errors import ArgumentTypeError, ResourceError, UnsupportedError


def wrong_permutes() -> Iterator[str]:
    """Slices of arrays of every width, from every start, in both libraries."""
    import cupy
    import torch

    for start in range(3):
        for dtype in ("u1", "f2", "f4", "f8", "c16"):
            x = cupy.random.randint(0, 100, 6_000 + start).astype(dtype)[start:].reshape(10, 20, 30)
            for axes in ((2, 1, 0), (0, 2, 1)):
                for part in (x, x[:, ::2, 1:]):
                    if not bool((layoutalg.permute(part, axes) == part.transpose(axes)).all()):
                        yield f"cupy {dtype} from {start}, {part.shape}, {axes}"
    for kind in (torch.bool, torch.bfloat16, torch.float16, torch.int64, torch.complex64):
        y = torch.randint(0, 2, (7, 9, 11), device="cuda").to(kind)
        out = torch.empty((11, 7, 9), device="cuda", dtype=kind)
        for got in (layoutalg.permute(y, (2, 0, 1)), layoutalg.permute(y, (2, 0, 1), out)):
            if type(got) is not torch.Tensor or got.dtype != kind or not torch.equal(got, y.permute(2, 0, 1)):
                yield f"torch {kind}"
    on_cpu = torch.arange(24, dtype=torch.bfloat16).reshape(4, 6)
    if not torch.equal(layoutalg.transpose(on_cpu), on_cpu.t()):
        yield "torch on the CPU"
    empty = torch.empty((3, 0, 2), device="cuda")
    if layoutalg.permute(empty, (2, 0, 1)).shape != (2, 3, 0):
        yield "torch without elements"


def wrong_reductions() -> Iterator[str]:
    """reduce, softmax and layer_norm of slices, in place, with parameters, beside PyTorch in float64."""
    import torch

    for kind, near in ((torch.float32, 1e-5), (torch.float16, 2e-3), (torch.bfloat16, 1.6e-2)):
        whole = torch.randn((40, 70, 96), device="cuda").to(kind)
        weight, bias = (torch.randn(96, device="cuda").to(kind) for _ in range(2))
        for part in (whole[1:, ::2], whole.permute(2, 0, 1), whole[:, 3:, 5:37]):
            x = part.double()
            for axes in (0, -1, (0, 2), (0, 1, 2)):
                over = (axes,) if isinstance(axes, int) else axes
                results = {
                    "sum": (layoutalg.reduce(part, "sum", axes), x.sum(over)),
                    "mean": (layoutalg.reduce(part, "mean", axes, True), x.mean(over, keepdim=True)),
                    "max": (layoutalg.reduce(part, "max", axes), x.amax(over)),
                    "softmax": (layoutalg.softmax(part, axes), _softmax(x, over)),
                    "layer_norm": (layoutalg.layer_norm(part, axes), _layer_norm(x, over)),
                    "softmax in place": (_in_place(layoutalg.softmax, part, axes), _softmax(x, over)),
                }
                for name, (got, wanted) in results.items():
                    near_to = max(1.0, float(wanted.abs().max()))
                    if name == "sum":  # one near 0 is as far off as others of as many elements
                        near_to = max(near_to, (x.numel() / wanted.numel()) ** 0.5)
                    apart = float((got.double() - wanted).abs().max()) / near_to
                    if got.dtype != kind or got.shape != wanted.shape or not apart <= near:
                        yield f"{name} of {kind} {tuple(part.shape)} over {axes}: {apart}"
        got = layoutalg.layer_norm(whole, -1, weight, bias, 1e-3)
        wanted = _layer_norm(whole.double(), (2,), 1e-3) * weight.double() + bias.double()
        if not torch.allclose(got.double(), wanted, atol=4 * near, rtol=near):
            yield f"weighted layer norm of {kind}"
    on_cpu = torch.tensor([[1.0, 1.0], [-3.0, -3.0]], dtype=torch.bfloat16)
    if layoutalg.softmax(on_cpu).tolist() != [[0.5, 0.5]] * 2 or layoutalg.reduce(on_cpu, "max").item() != 1:
        yield "bfloat16 on the CPU"
    long = torch.ones(1 << 25, device="cuda", dtype=torch.float16)
    total = torch.empty((), device="cuda", dtype=torch.float32)
    layoutalg.reduce(long, "sum", out=total)
    if float(total) != 1 << 25 or not torch.isinf(layoutalg.reduce(long, "sum")):
        yield "a long sum, or one past float16"
    stream = torch.cuda.Stream()
    with torch.cuda.stream(stream):
        y = long.reshape(4096, -1).float()
        for _ in range(20):
            y = layoutalg.softmax(y * 2, 0)
        ok = layoutalg.reduce(y, "sum")
    stream.synchronize()
    if abs(float(ok) - 8192) > 1e-2:
        yield f"a chain of softmaxes on a stream: {float(ok)}"


def _softmax(x: Any, axes: tuple[int, ...]) -> Any:
    powers = (x - x.amax(axes, keepdim=True)).exp()
    return powers / powers.sum(axes, keepdim=True)


def _layer_norm(x: Any, axes: tuple[int, ...], eps: float = 1e-5) -> Any:
    centred = x - x.mean(axes, keepdim=True)
    return centred / (centred.square().mean(axes, keepdim=True) + eps).sqrt()


def _in_place(call: Callable[..., Any], x: Any, axes: Any) -> Any:
    y = x.clone()
    return call(y, axes, out=y)


def wrong_streams() -> Iterator[str]:
    """A long chain on a stream of PyTorch's: each link must see the one before."""
    import torch

    stream = torch.cuda.Stream()
    x = torch.arange(1 << 24, device="cuda", dtype=torch.int32).reshape(4096, 4096)
    torch.cuda.synchronize()
    for repeat in range(5):
        with torch.cuda.stream(stream):
            y = x * 3
            for _ in range(10):
                y = layoutalg.transpose(y + 1)
            y = y - 10
        stream.synchronize()
        if not torch.equal(y, x * 3):
            yield f"a chain on PyTorch's stream, repeat {repeat}"
    graph = torch.cuda.CUDAGraph()
    layoutalg.transpose(x)
    with torch.cuda.graph(graph):
        y = layoutalg.transpose(x)
    x += 1
    graph.replay()
    torch.cuda.synchronize()
    if not torch.equal(y, x.t()):
        yield "a call recorded in a CUDA graph"


def wrong_threads() -> Iterator[str]:
    """Threads that share a kernel, none of which has called the driver before."""
    with ThreadPoolExecutor(4) as pool:
        yield from filter(None, pool.map(_on_a_thread, range(4)))


def _on_a_thread(number: int) -> str:
    import torch

    x = torch.arange(64 * 80, device="cuda").reshape(64, 80) * (number + 1)
    wanted, sums = x.t().contiguous(), x.float().sum(1)
    for repeat in range(200):
        if not torch.equal(layoutalg.transpose(x), wanted):
            return f"a transpose on thread {number}, repeat {repeat}"
        if not torch.equal(layoutalg.reduce(x.float(), "sum", 1), sums):
            return f"a sum on thread {number}, repeat {repeat}"
    return ""


def wrong_refusals() -> Iterator[str]:
    """What has to be refused by name."""
    import cupy
    import numpy
    import torch

    x = torch.zeros((64, 64), device="cuda")
    theirs = cupy.zeros((64, 64), "f4")
    wide = torch.zeros((1, 1), device="cuda").expand(1 << 20, 1 << 20)
    cases: list[tuple[str, type[Exception], Callable[[], Any]]] = [
        ("in place", ArgumentTypeError, lambda: layoutalg.transpose(x, out=x)),
        ("of two libraries", ArgumentTypeError, lambda: layoutalg.transpose(x, out=theirs)),
        ("on two devices", ArgumentTypeError, lambda: layoutalg.transpose(x, out=torch.zeros((64, 64)))),
        ("with gradients", UnsupportedError, lambda: layoutalg.transpose(x.clone().requires_grad_())),
        ("sparse", UnsupportedError, lambda: layoutalg.transpose(x.to_sparse())),
        ("too large for PyTorch", ResourceError, lambda: layoutalg.transpose(wide)),
        (
            "too large for CuPy", ResourceError,
            lambda: layoutalg.transpose(cupy.broadcast_to(cupy.zeros(1), (1 << 20, 1 << 20))),
        ),
        ("of foreign elements", UnsupportedError, lambda: layoutalg.permute(numpy.zeros(3, "S3"), (0,))),
    ]  # fmt: skip
    for name, kind, call in cases:
        try:
            call()
        except kind as error:
            print(f"  {name}: {error}")
        else:
            yield f"an array {name} was not refused"


def main(args: Sequence[str] = ()) -> int:
    """See the module's text."""
    checks = (wrong_permutes, wrong_reductions, wrong_streams, wrong_threads, wrong_refusals)
    wrong = [w for find in checks for w in find()]
    print(*wrong, f"{len(wrong)} faults", sep="\n")
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
