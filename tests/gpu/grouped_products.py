"""Groups of rows by `ops.grouped_matmul`: right beside PyTorch, and timed beside what PyTorch has.

python -m tests.gpu.grouped_products out.json

Right: random groups, some empty, some of one row, of a tile and a row more, in both orders of b and as many
types as one launch takes; a result whose rows have room behind them keeps it.  Each group is compared with
torch.matmul.

Timed with a cold L2, in turn, in an order drawn anew for each round, as tests.gpu.timing does:
`ours` twice, prepared and called; `threads`, the same tile whose results all leave by threads, where ours
leave by TMA; a loop of torch.matmul, one for each group; torch._grouped_mm where PyTorch has it.  Sizes are
equal, or drawn so that groups differ by a factor of ten.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from statistics import median
from typing import Any

import layoutalg
from layoutalg.codegen.gpu import compile_sequence, in_processes
from layoutalg.kernels.gemm import drawn_sizes, gemm_problem, group_words, grouped, scalar_words
from layoutalg.kernels.gemm.choice import SM90
from layoutalg.kernels.gemm.launches import called_launches
from tests.gpu.gemm_launch import launcher
from tests.gpu.timing import CALL_CYCLES, SEED, Run, Turns, study

Case = tuple[int, int, int, int, bool]
CASES = tuple(
    (groups, rows, n, k, ragged)
    for groups, rows in ((4, 8192), (8, 4096), (32, 512), (64, 128), (64, 4))
    for n, k in ((4096, 7168), (7168, 2048))
    for ragged in (False, True)
)
"""Groups, their mean rows, n, k, whether sizes differ: https://github.com/deepseek-ai/DeepGEMM, m-grouped."""

RIGHT = 44

LARGE = (
    ([5000, 0, 15000], 264, 72), ([300, 1, 0, 77], 20008, 136), ([300, 1, 0, 77], 264, 20008),
    ([1 << 19, 8, 1 << 19], 72, 72),
)  # fmt: skip
"""Rows of each group, n and k past what kernels address in 32 bits, and past what one launch has."""


def operands(m: int, groups: int, n: int, k: int, kind: str = "bfloat16") -> tuple[Any, Any]:
    """a, and b along k."""
    import torch

    torch.manual_seed(m + groups + n + k)
    dtype = getattr(torch, kind)
    a = torch.randn(m, k, device="cuda", dtype=dtype)
    return a, torch.randn(groups, n, k, device="cuda", dtype=dtype).transpose(1, 2)


def one_by_one(a: Any, b: Any, sizes: Sequence[int], out: Any) -> None:
    """A product of each group by PyTorch."""
    import torch

    end = 0
    for g, size in enumerate(sizes):
        begin, end = end, end + size
        if size:
            torch.matmul(a[begin:end], b[g], out=out[begin:end])


def differs(got: Any, expected: Any) -> float:
    """The largest difference, of the largest number."""
    if not expected.numel():
        return 0.0
    return float((got.float() - expected.float()).abs().max() / expected.float().abs().max().clamp(min=1e-6))


def right(number: int) -> str:
    """What is wrong with a random product, or with one of LARGE, "" for nothing."""
    import torch

    rng = random.Random(SEED + number)
    if number < len(LARGE):
        sizes, n, k = LARGE[number]
    else:
        groups = rng.randint(2, 70)
        sizes = [rng.choice([0, 1, 7, 64, 128, 129, 256, 257, rng.randint(1, 600)]) for _ in range(groups)]
        n, k = 8 * rng.randint(1, 90), 8 * rng.randint(1, 90)
    m, kind = sum(sizes), rng.choice(["bfloat16", "float16"])
    a, b = operands(m, len(sizes), n, k, kind)
    if rng.random() < 0.5:
        b = b.contiguous()
    room = torch.full((m + 1, n + 8), 7.0, device="cuda", dtype=a.dtype)
    expected = torch.empty(m, n, device="cuda", dtype=a.dtype)
    one_by_one(a, b, sizes, expected)
    layoutalg.ops.grouped_matmul(a, b, sizes, room[:m, :n])
    what = f"{number}: {kind} {n} x {k}, {sizes}: {layoutalg.ops.plan_grouped_matmul(a, b)}"
    if not differs(room[:m, :n], expected) < 0.02:
        return f"{what}: differs by {differs(room[:m, :n], expected)}"
    if not bool((room[m] == 7).all()) or not bool((room[:, n:] == 7).all()):
        return f"{what}: writes past the result"
    return ""


def by_threads(case: Case, sizes: Sequence[int], a: Any, b: Any, out: Any) -> Run | None:
    """The first choice with results by threads alone; None where it has them so."""
    import cupy
    import torch

    groups, rows, n, k, _ = case
    p = grouped(gemm_problem(groups * rows, n, k, "bf16"), groups, n * k)
    if (config := SM90.configs(p)[0]).through != "tma":
        return None
    config = replace(config, through="shared")
    given: dict[str, Any] = {
        name: cupy.asarray(x.view(torch.int16)).reshape(-1).view("u2")
        for name, x in (("a", a), ("b", b.transpose(1, 2)), ("d", out))
    }
    given |= group_words(sizes, config.tile_m * config.cluster_m) | scalar_words(p, "alpha", 1.0)
    return launcher(compile_sequence(called_launches(p, config), "sm_90"), given)


def measured(turns: Turns, case: Case) -> dict[str, Any]:
    """The medians of one case."""
    import torch

    groups, rows, n, k, ragged = case
    sizes = drawn_sizes(groups * rows, groups, turns.rng) if ragged else [rows] * groups
    a, b = operands(groups * rows, groups, n, k)
    out, expected, other = (torch.empty(groups * rows, n, device="cuda", dtype=a.dtype) for _ in range(3))
    prepared = layoutalg.ops.prepare("grouped_matmul", a, out, b=b, sizes=sizes)
    runs: dict[str, Run] = {
        "ours": prepared, "again": prepared,
        "called": lambda: layoutalg.ops.grouped_matmul(a, b, sizes, out),
        "loop": lambda: one_by_one(a, b, sizes, expected),
    }  # fmt: skip
    if (threads := by_threads(case, sizes, a, b, other)) is not None:
        runs["threads"] = threads
    if hasattr(torch, "_grouped_mm"):
        ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
        try:
            torch._grouped_mm(a, b, offs=ends)
            runs["grouped_mm"] = lambda: torch._grouped_mm(a, b, offs=ends)
        except RuntimeError as error:  # it is not public, and takes what it takes
            print(f"torch._grouped_mm of {case}: {error}", flush=True)
    for run in runs.values():
        run()
    torch.cuda.synchronize()
    for got in (out, *([other] if "threads" in runs else [])):
        if not (off := differs(got, expected)) < 0.02:
            raise SystemExit(f"{case}: differs from PyTorch by {off} of its largest number")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(turns.rounds):
        for name in turns.rng.sample(list(runs), len(runs)):
            times[name].append(turns.us(runs[name], CALL_CYCLES * (4 if name == "loop" else 1)))
    us = {f"{name}_us": median(found) for name, found in times.items()}
    least = min(us.get("grouped_mm_us", us["loop_us"]), us["loop_us"])
    return {
        "groups": groups, "rows": rows, "n": n, "k": k, "ragged": ragged, **us,
        "of_faster": least / us["ours_us"], "aa": us["again_us"] / us["ours_us"],
        "tflops": 2 * groups * rows * n * k / us["ours_us"] / 1e6,
        "plan": str(layoutalg.ops.plan_grouped_matmul(a, b)),
    }  # fmt: skip


def warmed(case: Case) -> None:
    """Compile what a case needs into the cache."""
    groups, rows, n, k, _ = case
    layoutalg.ops.grouped_matmul(*operands(groups * rows, groups, n, k), [rows] * groups)


def main(args: list[str]) -> int:
    """See the module's text."""
    wrong = [text for text in map(right, range(RIGHT)) if text]
    print(*wrong or [f"{RIGHT} products are right"], sep="\n", flush=True)
    if wrong:
        return 1
    in_processes(warmed, sorted({(*case[:4], False) for case in CASES}))
    study(args[0], CASES, partial(measured, Turns(11)))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
