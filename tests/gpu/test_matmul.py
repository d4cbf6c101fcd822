"""Products of arrays on a GPU: large ones beside PyTorch, streams, refusals."""

from __future__ import annotations

from typing import Any

import pytest

import layoutalg
from layoutalg.errors import ArgumentTypeError, UnsupportedError
from tests.gpu.tools import needs_gpu

pytestmark = needs_gpu

KINDS = ("float32", "float16", "bfloat16", "float64")


def close(found: Any, exact: Any, size: Any, k: int, eps: float, roundoff: float) -> bool:
    """|error| <= k eps (|A| |B|) and one rounding, of subnormal numbers too."""
    import torch

    least = torch.finfo(found.dtype).smallest_normal * torch.finfo(found.dtype).eps
    bound = k * eps * size + 2 * roundoff * exact.abs() + least
    return bool(((found.double() - exact).abs() <= bound).all())


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(
    "shape", [((1000, 777), (777, 520)), ((3, 1, 300, 256), (5, 256, 200)), ((4096,), (4096, 9))]
)
def test_larger_products_are_pytorchs_in_float64(kind: str, shape: tuple[tuple[int, ...], ...]) -> None:
    import torch

    dtype = getattr(torch, kind)
    a, b = (torch.randn(x, device="cuda", dtype=torch.float64).to(dtype) for x in shape)
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    found = layoutalg.ops.matmul(a, b)
    assert found.dtype == dtype and found.shape == exact.shape
    eps = 2.0**-52 if kind == "float64" else 2.0**-23
    assert close(found, exact, size, a.shape[-1], eps, torch.finfo(dtype).eps)


def test_more_products_than_a_grid_has_blocks_along_z() -> None:
    import torch

    a = torch.randn((70_000, 3, 8), device="cuda")
    b = torch.randn((8, 5), device="cuda")
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    assert close(layoutalg.ops.matmul(a, b), exact, size, 8, 2.0**-23, 2.0**-24)


def test_float32_is_never_tf32_unless_it_is_asked_for() -> None:
    import torch

    a, b = (torch.randn((512, 512), device="cuda") for _ in range(2))
    exact = a.double() @ b.double()
    plain, fast = (layoutalg.ops.matmul(a, b, tf32=tf32).double() - exact for tf32 in (False, True))
    assert plain.abs().max() < 1e-3 < fast.abs().max() < 1.0


def test_work_is_ordered_by_the_current_stream() -> None:
    import torch

    a, b = (torch.randn((2048, 2048), device="cuda", dtype=torch.float16) for _ in range(2))
    side = torch.cuda.Stream()
    torch.cuda.synchronize()
    with torch.cuda.stream(side):
        late = a * 2
        found = layoutalg.ops.matmul(late, b)
    side.synchronize()
    assert torch.allclose(found.float(), (a * 2).float() @ b.float(), rtol=1e-2, atol=1.0)


def test_what_lies_elsewhere_is_refused() -> None:
    import cupy
    import torch

    x = torch.zeros((8, 8), device="cuda")
    with pytest.raises(
        ArgumentTypeError, match="b is an array of torch on the CPU, a an array of torch on GPU 0"
    ):
        layoutalg.ops.matmul(x, x.cpu())
    with pytest.raises(ArgumentTypeError, match="one library and on one device"):
        layoutalg.ops.matmul(x, cupy.zeros((8, 8), "f4"))
    with pytest.raises(ArgumentTypeError, match="simulate=True is for arrays on the CPU"):
        layoutalg.ops.matmul(x, x, simulate=True)
    with pytest.raises(UnsupportedError, match="records gradients"):
        layoutalg.ops.matmul(x, x.clone().requires_grad_())
