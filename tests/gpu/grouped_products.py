"""Groups of rows by `ops.grouped_matmul`: right beside PyTorch, and timed beside what PyTorch has.

python -m tests.gpu.grouped_products out.json           results, then times
python -m tests.gpu.grouped_products out.json --right   results alone

Right: random groups, some empty, some of one row, of a tile and a row more, in both orders of b and as many
types as one launch takes; a result whose rows have room behind them keeps it.  Each group is compared with
torch.matmul.

Timed with a cold L2, in turn, in an order drawn anew for each round, as tests.gpu.timing does:
`ours` twice, prepared and called; a loop of torch.matmul, one for each group; torch._grouped_mm where
PyTorch has it.  Sizes are equal, or drawn so that groups differ by a factor of ten.
"""

from __future__ import annotations

import json
import random
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import layoutalg
from layoutalg.codegen.gpu import in_processes, require_gpu
from tests.gpu.hopper_products import CALL_CYCLES
from tests.gpu.timing import timed_us

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

Run = Callable[[], object]


def drawn(rng: random.Random, groups: int, rows: int, *, ragged: bool) -> list[int]:
    """Rows of each group, `groups * rows` together."""
    if not ragged:
        return [rows] * groups
    weights = [10 ** rng.random() for _ in range(groups)]
    sizes = [int(groups * rows * weight / sum(weights)) for weight in weights]
    sizes[-1] += groups * rows - sum(sizes)
    return sizes


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

    rng = random.Random(20261123 + number)
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


def measured(case: tuple[int, int, int, int, bool], flush: Any, rng: random.Random) -> dict[str, Any]:
    """The medians of one case."""
    import torch

    groups, rows, n, k, ragged = case
    sizes = drawn(rng, groups, rows, ragged=ragged)
    a, b = operands(groups * rows, groups, n, k)
    out, expected = (torch.empty(groups * rows, n, device="cuda", dtype=a.dtype) for _ in range(2))
    prepared = layoutalg.ops.prepare("grouped_matmul", a, out, b=b, sizes=sizes)
    runs: dict[str, Run] = {
        "ours": prepared, "again": prepared,
        "called": lambda: layoutalg.ops.grouped_matmul(a, b, sizes, out),
        "loop": lambda: one_by_one(a, b, sizes, expected),
    }  # fmt: skip
    if hasattr(torch, "_grouped_mm"):
        ends = torch.tensor(sizes, device="cuda").cumsum(0).to(torch.int32)
        runs["grouped_mm"] = lambda: torch._grouped_mm(a, b, offs=ends)
        try:
            runs["grouped_mm"]()
        except RuntimeError as error:  # it is not public, and takes what it takes
            print(f"torch._grouped_mm of {case}: {error}", flush=True)
            del runs["grouped_mm"]
    for run in runs.values():
        run()
    torch.cuda.synchronize()
    if not differs(out, expected) < 0.02:
        raise SystemExit(f"{case}: differs from PyTorch by {differs(out, expected)} of its largest number")
    times: dict[str, list[float]] = {name: [] for name in runs}
    for _ in range(11):
        for name in rng.sample(list(runs), len(runs)):
            times[name].append(timed_us(runs[name], flush, CALL_CYCLES * (4 if name == "loop" else 1)))
    us = {f"{name}_us": median(found) for name, found in times.items()}
    least = min(us.get("grouped_mm_us", us["loop_us"]), us["loop_us"])
    return {
        "groups": groups, "rows": rows, "n": n, "k": k, "ragged": ragged, **us,
        "of_faster": least / us["ours_us"], "aa": us["again_us"] / us["ours_us"],
        "tflops": 2 * groups * rows * n * k / us["ours_us"] / 1e6,
        "plan": str(layoutalg.ops.plan_grouped_matmul(a, b)),
    }  # fmt: skip


def warmed(case: tuple[int, int, int, int, bool]) -> None:
    """Compile what a case needs into the cache."""
    groups, rows, n, k, _ = case
    a, b = operands(groups * rows, groups, n, k)
    layoutalg.ops.grouped_matmul(a, b, [rows] * groups)


def write(path: Path, device: str, wrong: list[str], rows: list[dict[str, Any]]) -> None:
    """Put what is known so far into a file, a line per case."""
    text = json.dumps({"device": device, "date": time.strftime("%Y-%m-%d"), "wrong": wrong, "rows": rows})
    path.write_text(text.replace('{"groups"', '\n{"groups"') + "\n", encoding="utf-8")


def main(args: list[str]) -> int:
    """See the module's text."""
    import torch

    status, rng = require_gpu(), random.Random(20261123)
    wrong = [text for text in map(right, range(RIGHT)) if text]
    print(*wrong or [f"{RIGHT} products are right"], sep="\n", flush=True)
    rows: list[dict[str, Any]] = []
    if not wrong and "--right" not in args:
        in_processes(warmed, sorted({(*case[:4], False) for case in CASES}))
        flush = torch.zeros(64 << 20, device="cuda")
        for case in CASES:
            rows.append(measured(case, flush, rng))
            print(*(f"{x}={y:.4g}" if isinstance(y, float) else y for x, y in rows[-1].items()), flush=True)
            write(Path(args[0]), status.name, wrong, rows)
    write(Path(args[0]), status.name, wrong, rows)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
