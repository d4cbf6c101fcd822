"""Norms over columns, as chosen, beside a copy and torch.compile: 1024 to 55296 rows.

python -m tests.gpu.column_norms out.json softmax,layer_norm f32,bf16,f16 1024,4096,8192

Tensors of 256 MB are reduced over their rows.  torch.compile is asked for mode="max-autotune-no-cudagraphs",
dynamic=False, and takes the definition of the norm in floats.  All are launched in turn, in an order drawn
per round, after 256 MB of clean data have been read, the host ahead of the GPU; the copy runs twice, which
says what repeats.  Results are compared with the definition in double precision once.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import (
    CompiledSequence,
    compile_sequence,
    device_copy,
    device_empty,
    in_processes,
    load_sequence,
    random_normal,
    require_gpu,
)
from layoutalg.kernels import find_family
from layoutalg.kernels.baselines import torch_difference
from tests.gpu.counters import verdict
from tests.gpu.timing import flush_buffer, medians_in_turn

NBYTES, ROUNDS, LINE_BYTES, EPS = 256 << 20, 15, 128, 1e-5
TORCH = {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}
BOUND = {"f32": 2.0**-16, "f16": 2.0**-10, "bf16": 2.0**-7}
"""How far results may be apart, of the largest."""

Case = tuple[str, str, int]


def problem(case: Case) -> tuple[Any, Any]:
    """The family of a case, and its problem."""
    op, dtype, rows = case
    nbytes = 4 if dtype == "f32" else 2
    columns = max(1, round(NBYTES / rows / LINE_BYTES)) * LINE_BYTES // nbytes
    family = find_family(op)
    return family, family.problem((rows, columns), 0, dtype)


def compiled(case: Case) -> tuple[Any, CompiledSequence]:
    """The configuration that is chosen, and its launches."""
    family, p = problem(case)
    c = family.choose(p, "sm_90a")
    return c, compile_sequence(family.launches(p, c, "sm_90a"), "sm_90a")


def by_torch(op: str, x: Any) -> Callable[[], Any]:
    """torch.compile's launch of a norm of the rows of x."""
    import torch

    def norm(x: Any) -> Any:
        if op == "softmax":
            return torch.softmax(x, 0)
        y = x.float()
        y = y - y.mean(0, keepdim=True) if op == "layer_norm" else y
        return (y * torch.rsqrt(y.square().mean(0, keepdim=True) + EPS)).to(x.dtype)

    torch._dynamo.reset()
    made = torch.compile(norm, mode="max-autotune-no-cudagraphs", dynamic=False)
    made(x)
    return lambda: made(x)


def measured(
    case: Case, c: Any, sequence: CompiledSequence, flush: Any, rng: random.Random
) -> dict[str, Any]:
    """The medians of one case."""
    import torch

    op, dtype, rows = case
    _, p = problem(case)
    x = random_normal(p.axes.source_elems, 1, dtype)
    y = device_empty(x.shape, x.dtype)
    ours = load_sequence(sequence.ready()).on_arrays({"src": x, "dst": y})
    ours()
    apart, largest = torch_difference(op, x.reshape(p.axes.shape), (0,), dtype, y)
    given = torch.as_tensor(x, device="cuda").view(getattr(torch, TORCH[dtype])).reshape(p.axes.shape)
    copy = device_copy(y, x)
    runs = {"copy": copy, "again": copy, "ours": ours, "torch": by_torch(op, given)}
    us = medians_in_turn(runs, ROUNDS, flush, rng)
    return {
        "op": op, "dtype": dtype, "rows": rows, "columns": p.axes.shape[1],
        **{f"{name}_us": round(found, 1) for name, found in us.items()},
        "share": round(us["copy"] / us["ours"], 3), "torch_share": round(us["copy"] / us["torch"], 3),
        "over_torch": round(us["torch"] / us["ours"], 3), "aa": round(us["again"] / us["copy"], 3),
        "right": bool(apart <= BOUND[dtype] * largest), "config": str(c),
    }  # fmt: skip


def main(args: list[str]) -> int:
    """See the module's text."""
    import cupy
    import torch

    require_gpu()
    out, ops, dtypes, sizes = args
    cases = [
        (op, dtype, int(rows))
        for rows in sizes.split(",")
        for op in ops.split(",")
        for dtype in dtypes.split(",")
    ]
    made = in_processes(compiled, cases)
    rng, table = random.Random(20261123), []
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        flush = flush_buffer()
        for case, (c, sequence) in zip(cases, made, strict=True):
            table.append(measured(case, c, sequence, flush, rng))
            print(" ".join(f"{name}={found}" for name, found in table[-1].items()), flush=True)
            Path(out).write_text(json.dumps(table), encoding="utf-8")
            cupy.get_default_memory_pool().free_all_blocks()
    return verdict(sum(not row["right"] for row in table), len(table), "results")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
