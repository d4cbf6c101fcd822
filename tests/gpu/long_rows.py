"""Long rows: clusters of blocks that keep a row, in every size, beside what is chosen and a copy.

python -m tests.gpu.long_rows correct SEED COUNT             random long rows, compared with NumPy
python -m tests.gpu.long_rows times out.jsonl SET ...        every way of keeping rows
python -m tests.gpu.long_rows chosen out.jsonl SET ...       what is chosen alone, beside torch.compile

A set is OP:SEED, rows of lengths that are drawn; OP:fixed has COLUMNS, OP:short shorter rows, OP:few few
rows.

Ways of a problem are launched in an order drawn anew for each round, each on an L2 that clean data has
filled, the host ahead of the GPU; a copy of as many bytes runs twice, which says what repeats.  A line of the
file is a problem with the medians of its ways, in microseconds, their registers, and the clusters that run at
a time.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any, TypeAlias

from layoutalg.codegen.gpu import (
    Prepared,
    device_array,
    device_copy,
    in_processes,
    load_prepared,
    prepare,
    random_normal,
    require_gpu,
    to_device,
    to_host,
)
from layoutalg.codegen.program import Kernel
from layoutalg.errors import ResourceError
from layoutalg.kernels.rowwise import NormConfig, NormProblem, arguments, norm_problem
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import Schedule, walk_of
from tests.gpu.timing import flush_buffer, medians_in_turn
from tests.norms import check, data, launch_all

COLUMNS = (16384, 32768, 65536, 131072, 262144, 524288, 1048576)
ELEMS = 1 << 27
SHORT, FEW = (2048, 4096, 6144, 8192, 12288), (1, 2, 4, 8, 16, 32, 64)
CLUSTERS, THREADS = (1, 2, 3, 4, 6, 8, 12, 16), (128, 256, 512)
MOST_WORDS, MOST_SHARED = 32, 200 << 10


def problems(name: str) -> list[NormProblem]:
    """The problems of a set; half of the lengths that are drawn are no multiples of a vector."""
    op, _, which = name.partition(":")
    if which == "few":
        return [norm_problem(op, (rows, 262144), 1, t) for rows in FEW for t in ("f32", "bf16")]
    rng = random.Random(which)
    drawn = [round(2 ** rng.uniform(14, 20)) for _ in COLUMNS]
    drawn = [n // 8 * 8 if rng.random() < 0.5 else n for n in drawn]
    found = {"fixed": COLUMNS, "short": SHORT}.get(which, drawn)
    return [norm_problem(op, (ELEMS // n, n), 1, t) for n in found for t in ("f32", "bf16")]


def ways(p: NormProblem, arch: str, *, every: bool) -> list[NormConfig]:
    """What is timed of a problem: the best of its plan, then every cluster that has room."""
    chosen = configs(p, arch)
    if not every:
        return [chosen[0]]
    found = [*chosen[:2], *(c for c in chosen if c.cluster == 1 and (c.hold, c.staged) != ("shared", 0))]
    vec, row = 16 // p.dtype.nbytes, p.axes.count * p.dtype.nbytes
    for cluster in CLUSTERS:
        for threads in THREADS:
            c = NormConfig(vec, 1, threads, "shared", cluster=cluster)
            rounds = Schedule(walk_of(form_of(p), p.dtype, c), c).rounds
            if rounds < 2 or rounds * threads * 16 * cluster > 1.4 * row:
                continue
            for words in (0, 16, MOST_WORDS):
                staged = rounds - words // 4
                if staged > 0 and staged * threads * 16 <= MOST_SHARED:
                    found.append(replace(c, staged=staged if words else 0))
    return list(dict.fromkeys(found))


def compiled(case: tuple[NormProblem, NormConfig, str]) -> list[Prepared]:
    """The kernels of a way."""
    p, c, arch = case
    return [prepare(kernel, arch) for kernel in plan(p, arch, c).kernels]


def _in_turn(steps: list[Callable[[], None]]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            step()

    return run


def timed(
    p: NormProblem, found: list[tuple[NormConfig, list[Prepared]]], rng: random.Random, flush: Any,
    *, others: bool,
) -> Any:  # fmt: skip
    """The medians of the ways of a problem, of copies, and of `others`."""
    import cupy

    kind = f"u{p.dtype.nbytes}"
    elems = p.axes.source_elems
    src = random_normal(-(-elems // 8) * 8, 1, p.dtype.name).view(kind)
    dst = device_array(src.shape, kind)
    runs: dict[str, Any] = {"copy": device_copy(dst, src), "again": device_copy(dst, src)}
    if others:
        runs["torch.compile"] = by_torch(p, src)
    lines: dict[str, Any] = {}
    for c, kernels in found:
        launches = plan(p, require_gpu().arch, c)
        work = device_array((max(4, launches.workspace_elems),), "f4")
        name = str(c)
        try:
            loaded = [load_prepared(one) for one in kernels]
        except ResourceError as error:  # a cluster that the device does not fit
            lines[name] = {**asdict(c), "error": str(error)}
            continue
        steps = [k.launcher(**arguments(k.kernel, src=src, dst=dst, partial=work)) for k in loaded]
        runs[name] = _in_turn(steps)
        clusters = loaded[0].active_clusters if c.cluster > 1 else None
        lines[name] = {
            **asdict(c), "registers": loaded[0].cubin.registers, "clusters": clusters,
            "shared_bytes": loaded[0].kernel.shared_bytes,
        }  # fmt: skip
    for run in runs.values():
        run()
    cupy.cuda.Device().synchronize()
    us = medians_in_turn(runs, 7, flush, rng)
    best = min((us[name], name) for name in lines if name in us)
    first = next(iter(lines))
    moved = p.moved_bytes / 1e3
    print(
        p, f"copy {moved / us['copy']:.0f} aa {us['again'] / us['copy']:.3f}",
        f"torch.compile {moved / us['torch.compile']:.0f}" if others else "",
        f"chosen {moved / us[first]:.0f} ({first})", f"best {moved / best[0]:.0f} ({best[1]})", flush=True,
    )  # fmt: skip
    for name, line in lines.items():
        line["us"] = us.get(name)
    return {
        "dtype": p.dtype.name, "rows": p.axes.shape[0], "columns": p.axes.count, "copy_us": us["copy"],
        "again_us": us["again"], "torch_us": us.get("torch.compile"), "op": p.op,
        "ways": list(lines.values()),
    }  # fmt: skip


def times(path: str, names: list[str], *, every: bool) -> None:
    """Write a line for each problem."""
    import cupy
    import torch

    arch, rng, flush = require_gpu().arch, random.Random(20261123), flush_buffer()
    every_problem = [p for name in names for p in problems(name)]
    asked = [(p, c, arch) for p in every_problem for c in ways(p, arch, every=every)]
    print(len(asked), "ways", flush=True)
    made = in_processes(compiled, asked)
    print("compiled", flush=True)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)), Path(path).open("w") as out:
        for p in every_problem:
            found = [(c, k) for (q, c, _), k in zip(asked, made, strict=True) if q == p]
            out.write(json.dumps(timed(p, found, rng, flush, others=not every)) + "\n")
            out.flush()


def by_torch(p: NormProblem, src: Any) -> Callable[[], object]:
    """torch.compile of the norm, for this shape alone."""
    import torch
    import torch.nn.functional as f

    kind = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[p.dtype.name]
    n = p.axes.count
    x = torch.as_tensor(src.view(f"i{p.dtype.nbytes}"), device="cuda").view(kind).reshape(-1)
    x = x[: p.axes.source_elems].reshape(p.axes.shape)
    makes = {
        "softmax": lambda x: torch.softmax(x, -1),
        "layer_norm": lambda x: f.layer_norm(x, (n,)),
        "rms_norm": lambda x: f.rms_norm(x, (n,), eps=p.eps),
    }
    torch._dynamo.reset()
    made = torch.compile(makes[p.op], dynamic=False)
    made(x)
    return lambda: made(x)


# --- correctness ---------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[NormProblem, NormConfig]:
    """A problem of long rows and a way of keeping them, of a seed."""
    rng = random.Random(seed)
    op, dtype = rng.choice(("softmax", "layer_norm", "rms_norm")), rng.choice(("f32", "bf16", "f16"))
    n, offset = round(2 ** rng.uniform(11, 19)), rng.choice((0, 0, 3, 8))
    n = n if rng.random() < 0.5 else n // 8 * 8
    rows = max(1, min(rng.randint(1, 40), (1 << 21) // n))
    weight, bias = op != "softmax" and rng.random() < 0.5, op == "layer_norm"
    aligned = n % 8 == 0 and offset % 8 == 0
    in_place = aligned and rng.random() < 0.3
    p = norm_problem(
        op, (rows, n), 1, dtype, src_offset=offset, dst_offset=offset, in_place=in_place,
        weight=weight, bias=bias,
    )  # fmt: skip
    vec, row = 16 // p.dtype.nbytes, n * p.dtype.nbytes
    found = []
    for cluster in (2, 3, 4, 5, 7, 8, 11, 16):
        for threads in (*THREADS, 1024):
            rounds = -(-row // (16 * threads * cluster)) + 1
            c = NormConfig(vec, 1, threads, "registers", cluster=cluster)
            found += [c] if rounds <= 12 else []
            found += [replace(c, hold="shared")] if rounds * threads * 16 <= MOST_SHARED else []
            staged = rounds - rng.randint(2, 6)
            if 0 < staged < rounds - 1 and staged * threads * 16 <= MOST_SHARED:
                found.append(replace(c, hold="shared", staged=staged))
    return p, rng.choice(found)


def compiled_seed(case: tuple[int, str]) -> list[Prepared]:
    """The kernels of a seed."""
    seed, arch = case
    p, c = drawn(seed)
    return [prepare(kernel, arch) for kernel in plan(p, arch, c).kernels]


Way: TypeAlias = tuple[NormProblem, NormConfig]


def wrong_of(
    first: int,
    count: int,
    drawn: Callable[[int], Way],
    compiled: Callable[[tuple[int, str]], list[Prepared]],
) -> int:
    """Run so many seeds, whose problems and ways are `drawn`; print those whose result is not within the
    bound of NumPy's, or has other bits the second time, and how many these are."""
    arch, seeds, wrong = require_gpu().arch, range(first, first + count), 0
    for seed, kernels in zip(seeds, in_processes(compiled, [(s, arch) for s in seeds]), strict=True):
        p, c = drawn(seed)
        launches = plan(p, arch, c)
        loaded = {one.kernel.name: load_prepared(one) for one in kernels}
        d = data(p, seed)

        def launch(kernel: Kernel, args: dict[str, Any], loaded: Any = loaded) -> None:
            loaded[kernel.name](**args)

        try:
            got = to_host(launch_all(launches, d, launch, to_device))
            check(p, d, got)
            again = to_host(launch_all(launches, replace(d), launch, to_device))
            assert (got == again).all(), "other bits the second time"
        except AssertionError as error:
            print(f"seed {seed}: {error}, {p}, {c}"[:400], flush=True)
            wrong += 1
    print(f"{wrong} of {count} wrong", flush=True)
    return wrong


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] in ("times", "chosen"):
        times(args[1], args[2:], every=args[0] == "times")
        return 0
    return wrong_of(int(args[1]), int(args[2]), drawn, compiled_seed)


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
