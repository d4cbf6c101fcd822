"""Long rows: clusters of blocks that keep a row, in every size, beside what is chosen and a copy.

python -m tests.gpu.long_rows correct SEED COUNT             random long rows, compared with NumPy
python -m tests.gpu.long_rows times out.jsonl SEED [LEVEL]   every way, or, at level 1, what is chosen
                                                             alone, beside torch.compile

Of seed 0 rows have the columns of COLUMNS, of others as many drawn ones.

Ways of a problem are launched in an order drawn anew for each round, each on an L2 that clean data has
filled, the host ahead of the GPU; a copy of as many bytes runs twice, which says what repeats.  A line of the
file is a problem with the medians of its ways, in microseconds, their registers, and the clusters that run at
a time.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import asdict, replace
from pathlib import Path
from statistics import median
from typing import Any

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
from layoutalg.kernels.rowwise.norm import plan
from layoutalg.kernels.rowwise.norm_plan import configs
from tests.gpu.hopper_products import timed_us
from tests.norms import check, data, launch_all

COLUMNS = (16384, 32768, 65536, 131072, 262144, 524288, 1048576)
ELEMS = 1 << 27
CLUSTERS, THREADS = (1, 2, 3, 4, 6, 8, 12, 16), (128, 256, 512, 1024)
MOST_WORDS, MOST_SHARED = 64, 216 << 10
REGISTERS = 1 << 16

Way = tuple[NormConfig, int]
"""A configuration, and the blocks of a multiprocessor that its registers leave room for, at least."""


def problems(seed: int) -> list[NormProblem]:
    """Softmaxes of rows of all lengths, in both types; of seed 0 those of COLUMNS."""
    rng = random.Random(seed)
    drawn = [round(2 ** rng.uniform(14, 20)) for _ in COLUMNS]
    found = COLUMNS if not seed else [n // 8 * 8 if rng.random() < 0.7 else n for n in drawn]
    return [norm_problem("softmax", (ELEMS // n, n), 1, t) for n in found for t in ("f32", "bf16")]


def ways(p: NormProblem, arch: str, level: int) -> list[Way]:
    """What is timed of a problem: the best of its plan, then every cluster that has room."""
    chosen = configs(p, arch)
    if level:
        return [(c, 1) for c in chosen[: 1 if level == 1 else None]]
    found: list[Way] = [(c, 1) for c in chosen[:2]]
    twice = next((c for c in chosen if c.hold == "global"), None)
    found += [(twice, 1)] if twice else []
    vec, row = 16 // p.dtype.nbytes, p.axes.count * p.dtype.nbytes
    for cluster in CLUSTERS:
        for threads in THREADS:
            rounds = -(-row // (16 * threads * cluster))
            if rounds < 2 or rounds * threads * 16 * cluster > 1.3 * row:
                continue
            words, c = rounds * 4, NormConfig(vec, 1, threads, "registers", cluster=cluster)
            if words <= MOST_WORDS:
                found.append((c, 1))
                most = REGISTERS // threads // ((words + 15) // 8 * 8)
                found += [(c, n) for n in {most, most - 1} if n > 1 and n * threads <= 2048]
            if rounds * threads * 16 <= MOST_SHARED:
                found.append((replace(c, hold="shared"), 1))
            for left in (4, 8):
                if words > left * 4 and (rounds - left) * threads * 16 <= MOST_SHARED:
                    found.append((replace(c, hold="shared", staged=rounds - left), 1))
    return list(dict.fromkeys(found))


def compiled(case: tuple[NormProblem, Way, str]) -> list[Prepared]:
    """The kernels of a way."""
    p, (c, blocks), arch = case
    return [prepare(replace(kernel, min_blocks=blocks), arch) for kernel in plan(p, arch, c).kernels]


def _in_turn(steps: list[Callable[[], None]]) -> Callable[[], None]:
    def run() -> None:
        for step in steps:
            step()

    return run


def timed(p: NormProblem, found: list[tuple[Way, list[Prepared]]], rng: random.Random, flush: Any) -> Any:
    """The medians of the ways of a problem, and of copies."""
    import cupy

    kind = f"u{p.dtype.nbytes}"
    elems = p.axes.source_elems
    src = random_normal(-(-elems // 8) * 8, 1, p.dtype.name).view(kind)
    dst = device_array(src.shape, kind)
    runs: dict[str, Any] = {"copy": device_copy(dst, src), "again": device_copy(dst, src)}
    lines: dict[str, Any] = {}
    for (c, blocks), kernels in found:
        launches = plan(p, require_gpu().arch, c)
        work = device_array((max(4, launches.workspace_elems),), "f4")
        name = f"{c} {blocks}"
        try:
            loaded = [load_prepared(one) for one in kernels]
        except ResourceError as error:  # a cluster that the device does not fit
            lines[name] = {**asdict(c), "blocks": blocks, "error": str(error)}
            continue
        steps = [k.launcher(**arguments(k.kernel, src=src, dst=dst, partial=work)) for k in loaded]
        runs[name] = _in_turn(steps)
        clusters = loaded[0].active_clusters if c.cluster > 1 else None
        lines[name] = {
            **asdict(c), "blocks": blocks, "registers": loaded[0].cubin.registers, "clusters": clusters,
            "shared_bytes": loaded[0].kernel.shared_bytes,
        }  # fmt: skip
    times: dict[str, list[float]] = {name: [] for name in runs}
    for run in runs.values():
        run()
    cupy.cuda.Device().synchronize()
    for _ in range(7):
        for name in rng.sample(list(runs), len(runs)):
            times[name].append(timed_us(runs[name], flush))
    us = {name: median(found) for name, found in times.items()}
    best = min((us[name], name) for name in lines if name in us)
    first = next(iter(lines))
    moved = p.moved_bytes / 1e3
    print(
        p, f"copy {moved / us['copy']:.0f} aa {us['again'] / us['copy']:.3f}",
        f"chosen {moved / us[first]:.0f} ({first})", f"best {moved / best[0]:.0f} ({best[1]})", flush=True,
    )  # fmt: skip
    for name, line in lines.items():
        line["us"] = us.get(name)
    return {
        "dtype": p.dtype.name, "rows": p.axes.shape[0], "columns": p.axes.count, "copy_us": us["copy"],
        "again_us": us["again"], "ways": list(lines.values()),
    }  # fmt: skip


def times(path: str, seed: int, level: int) -> None:
    """Write a line for each problem."""
    import cupy
    import torch

    arch, rng, flush = require_gpu().arch, random.Random(20261123), cupy.zeros(64 << 20, "f4")
    asked = [(p, way, arch) for p in problems(seed) for way in ways(p, arch, level)]
    print(len(asked), "ways", flush=True)
    made = in_processes(compiled, asked)
    print("compiled", flush=True)
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)), Path(path).open("w") as out:
        for p in problems(seed):
            found = [(way, k) for (q, way, _), k in zip(asked, made, strict=True) if q == p]
            out.write(json.dumps(timed(p, found, rng, flush)) + "\n")
            out.flush()


# --- correctness ---------------------------------------------------------------------------------------


def drawn(seed: int) -> tuple[NormProblem, NormConfig]:
    """A problem of long rows and a way of keeping them, of a seed."""
    rng = random.Random(seed)
    op, dtype = rng.choice(("softmax", "layer_norm", "rms_norm")), rng.choice(("f32", "bf16", "f16"))
    n, offset = round(2 ** rng.uniform(11, 19)), rng.choice((0, 0, 3, 8))
    n = n if rng.random() < 0.5 else n // 8 * 8
    rows = max(1, min(rng.randint(1, 40), (1 << 21) // n))
    extra = {"weight": op != "softmax" and rng.random() < 0.5, "bias": op == "layer_norm"}
    aligned = n % 8 == 0 and offset % 8 == 0
    in_place = aligned and rng.random() < 0.3
    p = norm_problem(
        op, (rows, n), 1, dtype, src_offset=offset, dst_offset=offset, in_place=in_place, **extra
    )  # fmt: skip
    vec, row = 16 // p.dtype.nbytes, n * p.dtype.nbytes
    found = []
    for cluster in (2, 3, 4, 5, 7, 8, 11, 16):
        for threads in THREADS:
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


def correct(first: int, count: int) -> Iterator[str]:
    """Run so many seeds; describe those whose result is not within the bound of NumPy's."""
    arch, seeds = require_gpu().arch, range(first, first + count)
    for seed, kernels in zip(seeds, in_processes(compiled_seed, [(s, arch) for s in seeds]), strict=True):
        p, c = drawn(seed)
        launches = plan(p, arch, c)
        loaded = {one.kernel.name: load_prepared(one) for one in kernels}
        d = data(p, seed)

        def launch(kernel: Kernel, args: dict[str, Any], loaded: Any = loaded) -> None:
            loaded[kernel.name](**args)

        try:
            got = to_host(launch_all(launches, d, launch, to_device))
            check(p, d, got)
            again = to_host(launch_all(launches, d, launch, to_device))
            assert (got == again).all(), "other bits the second time"
        except AssertionError as error:
            yield f"seed {seed}: {error}, {p}, {c}"


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] == "times":
        times(args[1], int(args[2]), int(args[3]) if len(args) > 3 else 0)
        return 0
    wrong = 0
    for text in correct(int(args[1]), int(args[2])):
        print(text[:400], flush=True)
        wrong += 1
    print(f"{wrong} of {args[2]} wrong", flush=True)
    return wrong


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
