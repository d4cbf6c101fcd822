"""Softmaxes over columns by clusters that keep their slabs: every way that fits, beside a copy.

python -m tests.gpu.column_ways out.json softmax f32,bf16 4096,8192,14336

Slabs of 64 to 512 bytes, clusters of 1 to 16, 1 to 4 blocks of a multiprocessor; the way that is chosen
comes first, then what reads twice.  All ways of a tensor of 256 MB are launched in turn, in an order drawn
per round; see slab_ceiling for how they are timed.
"""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import sys
from collections.abc import Iterator
from concurrent.futures import Executor, ProcessPoolExecutor
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from layoutalg.codegen.gpu import (
    Prepared,
    device_copy,
    device_empty,
    load_prepared,
    prepare,
    random_normal,
    require_gpu,
)
from layoutalg.errors import ResourceError
from layoutalg.kernels.rowwise import NormConfig, arguments, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs
from layoutalg.kernels.rowwise.programs.norm import plan
from tests.gpu.timing import flush_buffer, medians_in_turn

NBYTES, ROUNDS = 256 << 20, 7
CLUSTERS = (1, 2, 4, 8, 16)
BLOCK_BYTES, ROOM_BYTES = 1 << 10, 228 << 10
HELD = 8
"""Vectors of a thread in registers, at most."""

Case = tuple[str, str, int, NormConfig | None]


def exchange_bytes(lanes: int, vec: int, threads: int, cluster: int) -> int:
    """Shared memory beside the slab, about."""
    words = 2 * vec + 4
    return 4 * lanes * words * (threads // 32 + cluster + 2)


def fitting(rows: int, nbytes: int, width: int, cluster: int, blocks: int, threads: int) -> NormConfig | None:
    """The configuration that keeps a slab so, if it has room."""
    vec, lanes = 16 // nbytes, width // 16
    share = -(-rows // cluster)
    each = threads // lanes
    rounds = -(-share // each)
    if each < 4 or share < each:
        return None
    room = ROOM_BYTES // blocks - BLOCK_BYTES - exchange_bytes(lanes, vec, threads, cluster)
    fits = min(rounds, room // (threads * 16))
    if rounds - fits > HELD or fits < 1 or (rounds - fits and blocks > 2):
        return None
    return NormConfig(vec, lanes, each, "shared", 4, 1, fits if fits < rounds else 0, cluster)


def ways(rows: int, nbytes: int) -> Iterator[NormConfig]:
    """The ways that fit: of each width and number of blocks those of the two smallest clusters."""
    for width in (512, 256, 128, 64) if rows > 20000 else (512, 256, 128):
        for blocks, threads in ((1, 512), (2, 128), (2, 256), (2, 512), (3, 128), (3, 256), (4, 128)):
            found = (fitting(rows, nbytes, width, n, blocks, threads) for n in CLUSTERS)
            yield from [c for c in found if c is not None][:2]


def columns_of(rows: int, nbytes: int) -> int:
    """Columns of a tensor of NBYTES, whole lines."""
    return max(1, round(NBYTES / rows / 128)) * 128 // nbytes


def ready(case: Case) -> list[Prepared]:
    """A case, compiled."""
    op, dtype, rows, c = case
    p = norm_problem(op, (rows, columns_of(rows, 4 if dtype == "f32" else 2)), 0, dtype)
    return [prepare(kernel, "sm_90a") for kernel in plan(p, "sm_90a", c).kernels]


def compiled_ways(
    pool: Executor, op: str, dtype: str, rows: int
) -> Iterator[tuple[str, NormConfig, list[Any]]]:
    """All ways of a case, loaded: name, configuration, kernels; then those whose clusters stay."""
    nbytes = 4 if dtype == "f32" else 2
    p = norm_problem(op, (rows, columns_of(rows, nbytes)), 0, dtype)
    known = configs(p, "sm_90a")
    found: list[NormConfig | None] = [None, known[-1], *dict.fromkeys((*known[1:3], *ways(rows, nbytes)))]
    stay: list[NormConfig | None] = []
    for asked in (found, stay):
        made = pool.map(ready, [(op, dtype, rows, c) for c in asked])
        for number, (c, kernels) in enumerate(zip(asked, made, strict=True)):
            try:
                loaded = [load_prepared(k) for k in kernels]
            except ResourceError as error:
                print(dtype, rows, c, error, flush=True)
                continue
            name = "chosen" if c is None else f"{'stay' if c.resident else 'once'} {number}"
            yield name, c or configs(p, "sm_90a")[0], loaded
            if c is not None and not c.resident and c.threads >= 256 and c.cluster > 1:
                stay.append(replace(c, resident=loaded[0].active_clusters))


def timed_case(pool: Executor, op: str, dtype: str, rows: int, flush: Any, rng: random.Random) -> list[Any]:
    """The rows of a case's table, fastest first."""
    import cupy

    nbytes = 4 if dtype == "f32" else 2
    columns = columns_of(rows, nbytes)
    x = random_normal(rows * columns, 1, dtype)
    y, first = device_empty(x.shape, x.dtype), None
    runs: dict[str, Any] = {"copy": device_copy(y, x)}
    shown: dict[str, Any] = {"copy": {}}
    scratch = device_empty((1 << 20,), "f4")
    for name, c, loaded in compiled_ways(pool, op, dtype, rows):
        starts = [k.launcher(**arguments(k.kernel, src=x, dst=y, partial=scratch)) for k in loaded]
        y.fill(0)
        for start in starts:
            start()
        got = y.copy()
        if dtype == "bf16":
            got = (got.astype(cupy.uint32) << 16).view(cupy.float32)
        first = got if first is None else first
        apart = float(cupy.abs(got.astype("f4") - first.astype("f4")).max() / cupy.abs(first).max())
        runs[name] = lambda starts=starts: [start() for start in starts]
        k = loaded[0]
        shown[name] = asdict(c) | {
            "apart": apart, "shared": k.kernel.shared_bytes, "registers": k.cubin.registers,
            "spills": k.cubin.spill_bytes,
            "clusters": k.active_clusters if c.cluster > 1 else 0,
        }  # fmt: skip
    us = medians_in_turn(runs, ROUNDS, flush, rng)
    return [
        {"op": op, "dtype": dtype, "rows": rows, "columns": columns, "name": name, "us": round(us[name], 1),
         "share": round(us["copy"] / us[name], 3), **shown[name]}
        for name in sorted(us, key=us.__getitem__)
    ]  # fmt: skip


def main(args: list[str]) -> int:
    """See the module's text."""
    import cupy
    import torch

    require_gpu()
    out, op, dtypes, sizes = args
    rng, table = random.Random(7), []
    problems = [(dtype, int(rows)) for rows in sizes.split(",") for dtype in dtypes.split(",")]
    skip = ("op", "hold", "vec", "splits", "depth")
    stream, spawn = cupy.cuda.Stream(non_blocking=True), multiprocessing.get_context("spawn")
    with (
        ProcessPoolExecutor(len(os.sched_getaffinity(0)), spawn) as pool,
        stream,
        torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)),
    ):
        flush = flush_buffer()
        for dtype, rows in problems:
            found = timed_case(pool, op, dtype, rows, flush, rng)
            table += found
            for row in found:
                print(" ".join(f"{key}={v}" for key, v in row.items() if key not in skip), flush=True)
            Path(out).write_text(json.dumps(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
