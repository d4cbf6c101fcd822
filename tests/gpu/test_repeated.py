"""Calls on arrays of a GPU: repeated ones, graphs, streams, threads, devices, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest

from layoutalg import ops
from layoutalg.errors import ArgumentTypeError, ResourceError, UnsupportedError
from tests.gpu.tools import needs_gpu

pytestmark = needs_gpu


def test_addresses_come_and_go() -> None:
    import torch

    held = []
    for n in range(200):
        x = torch.full((64, 256), float(n), device="cuda")
        x[:, 1] += 1
        y = ops.softmax(x)
        held.append((x, y) if n % 3 else None)
        assert torch.allclose(y, torch.softmax(x, -1), atol=1e-6), n
        z = ops.permute(x[:, n % 4 :], (1, 0))
        assert torch.equal(z, x[:, n % 4 :].t()), n
        assert torch.equal(ops.reduce(x, "max", 1), x.amax(1))


def test_a_graph_replays_chains_and_prepared_calls() -> None:
    """A softmax of one long row is two kernels with scratch memory between them."""
    import torch

    x = torch.randn((1, 1 << 24), device="cuda")
    y, short = torch.empty_like(x), torch.randn((64, 256), device="cuda")
    out = torch.empty_like(short)
    ready = ops.prepare("softmax", short, out)
    for _ in range(2):
        ops.softmax(x, out=y), ready()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        ops.softmax(x, out=y)
        made = ops.softmax(x)
        ready()
    for _ in range(3):
        x.normal_()
        short.normal_()
        y.zero_(), out.zero_(), made.zero_()
        graph.replay()
        torch.cuda.synchronize()
        wanted = torch.softmax(x, -1)
        assert torch.allclose(y, wanted, rtol=1e-4, atol=0) and torch.allclose(
            made, wanted, rtol=1e-4, atol=0
        )
        assert torch.allclose(out, torch.softmax(short, -1), atol=1e-6)


def test_streams_are_those_of_the_moment() -> None:
    import torch

    x, y = torch.zeros((2048, 2048), device="cuda"), torch.zeros((2048, 2048), device="cuda")
    streams = [torch.cuda.Stream() for _ in range(3)]
    ready = ops.prepare("transpose", x, y)
    for n in range(30):
        torch.cuda.synchronize()
        with torch.cuda.stream(streams[n % 3]):
            x += 1
            assert ready() is y
            total = ops.reduce(y, "max")
        streams[n % 3].synchronize()
        assert float(total) == n + 1


def test_threads_share_what_is_known() -> None:
    import torch

    def work(number: int) -> bool:
        x = torch.randn((64, 256), device="cuda", generator=torch.Generator("cuda").manual_seed(number))
        wanted = torch.softmax(x, -1)
        return all(torch.allclose(ops.softmax(x), wanted, atol=1e-6) for _ in range(300))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(8)))


def test_a_long_sum_is_exact_in_a_wider_result() -> None:
    import torch

    ones, total = torch.ones(1 << 25, device="cuda", dtype=torch.float16), torch.empty((), device="cuda")
    ops.reduce(ones, "sum", out=total)
    assert float(total) == 1 << 25 and torch.isinf(ops.reduce(ones, "sum"))


@pytest.mark.parametrize(
    ("error", "call"),
    [
        (ArgumentTypeError, lambda x, cupy, torch: ops.transpose(x, out=x)),
        (ArgumentTypeError, lambda x, cupy, torch: ops.transpose(x, out=cupy.zeros((64, 64), "f4"))),
        (ArgumentTypeError, lambda x, cupy, torch: ops.transpose(x, out=torch.zeros((64, 64)))),
        (UnsupportedError, lambda x, cupy, torch: ops.transpose(x.clone().requires_grad_())),
        (ArgumentTypeError, lambda x, cupy, torch: ops.matmul(x, x.cpu())),
        (ArgumentTypeError, lambda x, cupy, torch: ops.matmul(x, cupy.zeros((64, 64), "f4"))),
        (ArgumentTypeError, lambda x, cupy, torch: ops.matmul(x, x, simulate=True)),
        (UnsupportedError, lambda x, cupy, torch: ops.matmul(x, x.clone().requires_grad_())),
        (UnsupportedError, lambda x, cupy, torch: ops.transpose(x.to_sparse())),
        (ResourceError, lambda x, cupy, torch: ops.transpose(x[:1, :1].expand(1 << 20, 1 << 20))),
        (ResourceError, lambda x, cupy, torch: ops.transpose(
            cupy.broadcast_to(cupy.zeros(1), (1 << 20, 1 << 20)))),
    ],
)  # fmt: skip
def test_what_cannot_be_computed_is_refused(error: type[Exception], call: Callable[..., Any]) -> None:
    cupy, torch = (pytest.importorskip(name) for name in ("cupy", "torch"))
    with pytest.raises(error):
        call(torch.zeros((64, 64), device="cuda"), cupy, torch)


def test_gradients_are_refused_after_a_call_without() -> None:
    import torch

    x = torch.randn((64, 256), device="cuda")
    ops.softmax(x), ops.softmax(x)
    with pytest.raises(UnsupportedError, match="records gradients"):
        ops.softmax(x.clone().requires_grad_())
    weight = torch.nn.Parameter(torch.ones(256, device="cuda"))
    with torch.no_grad():
        ops.layer_norm(x, -1, weight), ops.layer_norm(x, -1, weight)
    with pytest.raises(UnsupportedError, match="records gradients"):
        ops.layer_norm(x, -1, weight)
