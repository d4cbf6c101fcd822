"""Norms and reductions of any shape, timed beside torch.compile, eager PyTorch and a copy of the source.

python -m tests.gpu.ragged_rows out.json                     random cases of the first published seed
python -m tests.gpu.ragged_rows out.json --seed 20261124     those of the second: no choice was made on them
python -m tests.gpu.ragged_rows out.json --short --compiled 8      rows and columns of few elements; of the
                                                             eight slowest torch.compile too

Cases.  Case n of a seed has 1 to 6 modes, 64 to 512 MB and f32, f16 or bf16 elements; its last extent is a
multiple of 8 if n is even, and only then.  Plans are made on the cases of the first seed, and tried on those
of the second.

Times.  Launches are timed in turn, in an order that is drawn for every round, on normal numbers; before each
of them a buffer of 256 MB that is not written is read, and the host is ahead of the GPU.  Ours runs twice per
round, which says what repeats; what takes longer than `SLOW_US` runs once.  A share is the rate of bytes that
must be moved over that of the copy.
"""

from __future__ import annotations

import argparse
import json
import random
import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import pairwise
from math import exp, log, prod
from pathlib import Path
from statistics import geometric_mean
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
from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels import find_family
from layoutalg.kernels.baselines import torch_reduction
from layoutalg.kernels.rowwise.families import Case
from tests.gpu.counters import verdict
from tests.gpu.timing import flush_buffer, medians_in_turn

FIT, FRESH = 20261123, 20261124
"""The seeds: of cases that choices are made on, and of cases that they are tried on."""

LEAST_BYTES, MOST_BYTES = 64 << 20, 512 << 20
NORMED, REDUCED = ("softmax", "layer_norm", "rms_norm"), ("sum", "mean", "max")
DTYPES = ("f32", "f16", "bf16")
SHORT = (3, 5, 7, 10, 16, 17, 24, 31, 40, 48, 64, 77, 96, 100)
"""Rows and columns of few elements."""

SHORT_BYTES = 256 << 20
AHEAD_CYCLES = 200_000
"""What the GPU waits for before a launch, so that the host is ahead of it."""

SLOW_US = 5000.0


# --- cases ---------------------------------------------------------------------------------------------


def drawn(seed: int, norms: int = 40, reductions: int = 60) -> tuple[Case, ...]:
    """The cases of a seed: norms, then reductions.

    >>> drawn(FIT) == drawn(FIT), len(drawn(FIT, 3, 2))
    (True, 5)
    """
    return (*_drawn(f"{seed} norms", NORMED, norms), *_drawn(f"{seed} reductions", REDUCED, reductions))


def _drawn(seed: str, ops: tuple[str, ...], count: int) -> Iterator[Case]:
    rng, n = random.Random(seed), 0
    while n < count:
        dtype = rng.choice(DTYPES)
        size = find_dtype(dtype).nbytes
        elems = exp(rng.uniform(log(LEAST_BYTES), log(MOST_BYTES))) / size
        rank, grain = rng.randint(1, 6), 1 if n % 2 else 8
        cuts = [0.0, *sorted(rng.random() for _ in range(rank - 1)), 1.0]
        extents = [elems ** (b - a) for a, b in pairwise(cuts)]
        last = max(grain, round(extents[-1] / grain) * grain)
        shape = (*(max(1, round(x)) for x in extents[:-1]), last)
        axes = tuple(sorted(rng.sample(range(rank), rng.randint(1, max(1, rank - 1)))))
        if LEAST_BYTES <= prod(shape) * size <= MOST_BYTES and (grain == 8) == (last % 8 == 0):
            yield Case(rng.choice(ops), shape, axes, dtype)
            n += 1


def short() -> Iterator[Case]:
    """Norms and sums of many rows of few elements, sums of few columns, and rows beside others."""
    for n in SHORT:
        for dtype in ("f32", "bf16"):
            many = SHORT_BYTES // find_dtype(dtype).nbytes // n
            yield from (Case(op, (many, n), (1,), dtype) for op in ("softmax", "layer_norm", "sum"))
            yield Case("sum", (many, n), (0,), dtype)
    beside = ((256, 300, 80, 10), (1, 3)), ((999, 40, 33, 50), (1, 3)), ((64, 9, 1000, 113), (1,))
    for shape, axes in beside:
        yield from (Case(op, shape, axes, "f32") for op in ("layer_norm", "sum"))


# --- contenders ----------------------------------------------------------------------------------------


def compiled_case(asked: tuple[Case, str]) -> tuple[str, CompiledSequence]:
    """The configuration of a case and its launches, compiled for an architecture."""
    (op, shape, axes, dtype), arch = asked
    family = find_family(op)
    p = family.problem(shape, axes, dtype)
    config = family.choose(p, arch)
    return repr(config), compile_sequence(family.launches(p, config, arch), arch)


def formula(case: Case) -> Callable[[Any], Any]:
    """A case as a function of a tensor of its shape, for torch.compile."""
    import torch

    op, axes = case.op, case.axes
    if op in REDUCED:
        reduction = getattr(torch, "amax" if op == "max" else op)
        return lambda x: reduction(x, axes)
    if op == "softmax" and len(axes) == 1:
        return lambda x: torch.softmax(x, axes[0])

    def norm(x: Any) -> Any:
        y = x.float()
        if op == "softmax":
            e = (y - y.amax(axes, keepdim=True)).exp()
            return (e / e.sum(axes, keepdim=True)).to(x.dtype)
        if op == "rms_norm":
            return (y * torch.rsqrt(y.square().mean(axes, keepdim=True) + 1e-5)).to(x.dtype)
        variance, mean = torch.var_mean(y, axes, correction=0, keepdim=True)
        return ((y - mean) * torch.rsqrt(variance + 1e-5)).to(x.dtype)

    return norm


def compiled_by_torch(case: Case, x: Any) -> Callable[[], Any]:
    """The launch of what torch.compile makes of a case, tuned."""
    import torch

    torch._dynamo.reset()
    best = torch.compile(formula(case), mode="max-autotune-no-cudagraphs", dynamic=False)
    kind = getattr(torch, {"f32": "float32", "f16": "float16", "bf16": "bfloat16"}[case.dtype])
    y = torch.as_tensor(x.view("int16") if case.dtype == "bf16" else x, device="cuda").view(kind)
    best(y)
    best(y)
    return lambda: best(y)


def medians(contenders: dict[str, Callable[[], object]], rounds: int, flush: Any) -> dict[str, float]:
    """The median time of each, launched in turn."""
    for run in contenders.values():
        run()
    return medians_in_turn(contenders, rounds, flush, random.Random(0), AHEAD_CYCLES, SLOW_US)


class Bench:
    """Sources, a destination and a buffer to flush with, once for all cases."""

    def __init__(self, rounds: int) -> None:

        self.rounds = rounds
        most = MOST_BYTES + 4096
        self.sources = {d: random_normal(most // find_dtype(d).nbytes, 1, d) for d in DTYPES}
        self.target, self.flush = device_empty((most,), "u1"), flush_buffer()

    def row(self, case: Case, config: str, compiled: CompiledSequence, *, by_torch: bool) -> dict[str, Any]:
        """The times of a case."""
        family = find_family(case.op)
        p = family.problem(*case[1:])
        elems, nbytes = prod(case.shape), prod(case.shape) * p.dtype.nbytes
        src = self.sources[case.dtype][: -(-elems * p.dtype.nbytes // 16) * 16 // p.dtype.nbytes]
        dst = self.target[: max(16, -(-p.axes.target_elems * p.result.nbytes // 16) * 16)]
        dst = dst.view(src.dtype)
        ours = load_sequence(compiled.ready()).on_arrays({"src": src, "dst": dst})
        wrong = family.bench.check(p, {"src": src, "dst": dst}, ours) if family.bench else ""
        x = src[:elems].reshape(case.shape)
        contenders: dict[str, Callable[[], object]] = {"ours": ours, "again": ours}
        contenders["copy"] = device_copy(self.target[:nbytes], src.view("u1")[:nbytes])
        if by_torch:
            contenders["compile"] = compiled_by_torch(case, x)
        elif eager := torch_reduction(case.op, x, case.axes, case.dtype):
            contenders["eager"] = eager
        us = medians(contenders, self.rounds, self.flush)
        share = p.moved_bytes / us["ours"] / (2 * nbytes / us["copy"])
        over = {f"over {name}": us[name] / us["ours"] for name in ("compile", "eager") if name in us}
        return {
            "case": str(case), "config": config, "share": share, "aa": us["again"] / us["ours"], **over,
            "us": us, "wrong": wrong,
        }  # fmt: skip


def said(row: dict[str, Any]) -> str:
    """A row of the table."""
    over = " ".join(f"{k} {v:5.2f}" for k, v in row.items() if k.startswith("over"))
    return (
        f"{row['share']:5.2f} of copy {over:18} aa {row['aa']:4.2f} {row['us']['ours']:8.1f} us "
        f"{row['case']}  {row['config']} {row['wrong']}"
    )


def summary(rows: Iterable[dict[str, Any]], what: str) -> Iterator[str]:
    """Means and least values of the norms and of the reductions among the rows."""
    found = list(rows)
    for kind, ops in (("norms", NORMED), ("reductions", REDUCED)):
        mine = [r for r in found if r["case"].split()[0] in ops]
        for key in ("share", "over eager", "over compile"):
            if values := [r[key] for r in mine if key in r]:
                yield (
                    f"{what} {kind}, {key}: {len(values)} cases, "
                    f"geometric mean {geometric_mean(values):.3f}, least {min(values):.3f}"
                )


def main() -> int:
    """See the module's text."""
    import cupy
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", help="a JSON file")
    parser.add_argument("--seed", type=int, default=FIT)
    parser.add_argument("--norms", type=int, default=40)
    parser.add_argument("--reductions", type=int, default=60)
    parser.add_argument("--short", action="store_true", help="rows and columns of few elements instead")
    parser.add_argument("--compiled", type=int, default=0, help="so many of the slowest by torch.compile too")
    parser.add_argument("--among", default="", help="a pattern of those, in the configuration's text")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=600.0, help="no further case is begun after these")
    asked = parser.parse_args()
    began, arch = time.monotonic(), require_gpu().arch
    cases = tuple(short()) if asked.short else drawn(asked.seed, asked.norms, asked.reductions)
    made = dict(zip(cases, in_processes(compiled_case, [(c, arch) for c in cases]), strict=True))
    print(f"{len(made)} cases compiled after {time.monotonic() - began:.0f} s", flush=True)
    stream, rows = cupy.cuda.Stream(non_blocking=True), {}
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        bench = Bench(asked.rounds)

        def measure(case: Case, *, by_torch: bool) -> None:
            if time.monotonic() - began < asked.seconds:
                rows[case, by_torch] = bench.row(case, *made[case], by_torch=by_torch)
                print(said(rows[case, by_torch]), flush=True)
                Path(asked.out).write_text(json.dumps(list(rows.values())), encoding="utf-8")

        for case in cases:
            measure(case, by_torch=False)
        print(*summary(rows.values(), "all"), sep="\n", flush=True)
        slowest = sorted(rows, key=lambda one: rows[one]["share"])
        slowest = [one for one in slowest if re.search(asked.among, rows[one]["config"])]
        for case, _ in slowest[: asked.compiled]:
            measure(case, by_torch=True)
    print("", "worst first:", *map(said, sorted(rows.values(), key=lambda r: r["share"])), sep="\n")
    print(*summary([r for (_, one), r in rows.items() if one], "compiled"), sep="\n")
    print(f"{time.monotonic() - began:.0f} s")
    return verdict(sum(bool(r["wrong"]) for r in rows.values()), len(rows), "results")


if __name__ == "__main__":
    sys.exit(main())
