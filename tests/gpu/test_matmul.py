"""Products of arrays on a GPU, of any size, batch and alignment, beside float64; streams, refusals."""

from __future__ import annotations

import random
from math import prod
from typing import Any

import pytest

import layoutalg
from tests.gpu.tools import STATUS, needs_gpu

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


# --- random sizes, by the way that is chosen ---------------------------------------------------------------

CASES = 240
ODD = (1, 2, 3, 5, 7, 8, 9, 15, 16, 17, 31, 33, 63, 64, 65)
LARGE = (257, 512, 1000, 1111, 1536, 2047, 2048, 2055, 3001, 4104)


def laid_out(rng: random.Random, shape: tuple[int, ...], dtype: Any) -> Any:
    """Random numbers of a shape: either of the last two modes stored side by side, rows padded, the start
    moved, the batch dense, broadcast or between the rows."""
    import torch

    *batch, rows, columns = shape
    turned, pad = rng.random() < 0.4, rng.choice([0, 0, 0, 1, 3, 8, 40])
    start = rng.choice([0, 0, 0, 1, 4, 8])
    high, wide = (columns, rows) if turned else (rows, columns)
    if batch and rng.random() < 0.2:  # one for all
        return laid_out(rng, (rows, columns), dtype).expand(shape)
    if len(batch) == 1 and rng.random() < 0.3:  # heads: rows of the batch lie between each other
        room = torch.randn((high, batch[0], wide + pad), device="cuda", dtype=torch.float32).to(dtype)
        found = room[..., :wide].transpose(0, 1)
    else:
        elems = start + (wide + pad) * high * prod(batch)
        room = torch.randn(elems, device="cuda", dtype=torch.float32).to(dtype)[start:]
        found = room.view(*batch, high, wide + pad)[..., :wide]
    return found.transpose(-1, -2) if turned else found


def drawn(seed: int) -> tuple[Any, Any, dict[str, Any]]:
    """Operands and options of a case."""
    import torch

    rng = random.Random(f"any size {seed}")
    torch.manual_seed(seed)
    dtype = rng.choice([torch.bfloat16, torch.bfloat16, torch.float16, torch.float32])
    kind = rng.choice(["few rows", "few columns", "batch", "odd", "any", "large"])
    m, n, k = (rng.randint(1, 700) for _ in range(3))
    batch: tuple[int, ...] = ()
    if kind == "few rows":
        m, n, k = rng.choice((1, 1, 1, 2, 3, 4, 7, 8, 9, 16, 33, 63)), rng.choice(LARGE), rng.choice(LARGE)
    elif kind == "few columns":
        m, n, k = rng.choice(LARGE), rng.choice((1, 1, 2, 5)), rng.choice(LARGE)
    elif kind == "batch":
        batch = tuple(rng.randint(1, 6) for _ in range(rng.randint(1, 3)))
        m, n, k = (rng.choice((*ODD, 128, 200, 256)) for _ in range(3))
    elif kind == "odd":
        m, n, k = (rng.choice(ODD) for _ in range(3))
    elif kind == "large":
        m, n, k = (rng.choice(LARGE) for _ in range(3))
    a, b = laid_out(rng, (*batch, m, k), dtype), laid_out(rng, (*batch, k, n), dtype)
    options: dict[str, Any] = {}
    if rng.random() < 0.3:
        options["bias"] = torch.randn(n, device="cuda", dtype=torch.float32).to(dtype)
    if rng.random() < 0.2:
        options["out"] = laid_out(rng, (*batch, m, n), dtype).contiguous().transpose(-1, -2).contiguous().mT
    return a, b, options


def wrong(seed: int) -> tuple[str, str]:
    """What is wrong with a case, empty where nothing is; and the family that computed it."""
    import torch

    a, b, options = drawn(seed)
    plan = layoutalg.ops.plan_matmul(a, b, **options)
    exact, size = a.double() @ b.double(), a.double().abs() @ b.double().abs()
    if "bias" in options:
        exact, size = exact + options["bias"].double(), size + options["bias"].double().abs()
    found, again = layoutalg.ops.matmul(a, b, **options).clone(), layoutalg.ops.matmul(a, b, **options)
    shown = f"seed {seed}: {tuple(a.shape)}:{a.stride()} {tuple(b.shape)}:{b.stride()} {a.dtype}\n{plan}"
    served = f"{plan.family}{' from copies' if plan.copies else ''}"
    if not torch.equal(found, again):
        return f"{shown}\nequal calls give different bits", served
    right = close(found, exact, size, a.shape[-1] + 2, 2.0**-23, torch.finfo(a.dtype).eps)
    return "" if right else f"{shown}\nis not the product", served


def test_random_products_are_those_of_float64() -> None:
    """All families serve some of them, and padded copies too."""
    found = [wrong(seed) for seed in range(CASES)]
    assert not [why for why, _ in found if why], "\n\n".join(why for why, _ in found if why)
    served = {family for _, family in found}
    if STATUS.arch.startswith("sm_90"):
        assert {"gemv", "gemm-simt", "gemm-sm80", "gemm-sm90", "gemm-sm90 from copies"} <= served, served
