"""Rows that no cluster holds, by two launches and by one whose blocks are resident together, beside a copy.

python -m tests.gpu.whole_rows correct SEED COUNT            random rows and ways, compared with NumPy
python -m tests.gpu.whole_rows times out.json SEED ...       every way of the cases of `ragged_rows.drawn`;
python -m tests.gpu.whole_rows chosen out.json SEED ...      what is chosen, beside two launches; of the five
                                                             slowest torch.compile too

Ways of a case are launched in an order drawn anew for each round, on an L2 that clean data has filled, the
host ahead of the GPU; a copy of as many bytes runs twice, which says what repeats.  Every way is checked
against PyTorch, and its second launch against the bits of its first.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections.abc import Callable
from itertools import product
from math import prod
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from layoutalg.codegen.gpu import (
    CompiledSequence,
    Prepared,
    compile_sequence,
    device_copy,
    device_empty,
    in_processes,
    load_sequence,
    prepare,
    random_normal,
    require_gpu,
)
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import find_family
from layoutalg.kernels.rowwise import NormConfig, NormProblem, norm_problem
from layoutalg.kernels.rowwise.families import Case
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.programs.norm import plan
from layoutalg.kernels.rowwise.schedule import walk_of
from tests.gpu.long_rows import wrong_of
from tests.gpu.ragged_rows import AHEAD_CYCLES, DTYPES, MOST_BYTES, compiled_by_torch, drawn
from tests.gpu.timing import flush_buffer, medians_in_turn

SMS = 132
RINGS = ((512, 2, 12), (512, 4, 12), (1024, 2, 12))
"""Threads of a block, vectors at a time, and vectors in shared memory."""

TIMED = ("times", "chosen")
"""All of them beside what is chosen and two launches, or these alone."""

AT_ONCE = (1, 2, 4, 8)
"""Rows that are read at once, beside all of them."""


def of_rows(seed: int) -> list[Case]:
    """The cases of a seed whose rows are split, or kept by clusters of more than 8 blocks."""
    return [case for case in drawn(seed, 40, 0) if _long(case)]


def _long(case: Case) -> bool:
    family = find_family(case.op)
    p = family.problem(*case[1:])
    return form_of(p).lead.reduced and any(
        (c.splits > 1 or c.cluster > 8) and not c.width for c in configs(p)[:1]
    )


def ways(p: NormProblem, which: str) -> list[NormConfig]:
    """What is chosen, two launches, and rings of resident blocks."""
    chosen = configs(p)
    apart = [c for c in chosen if c.splits > 1 and not c.together]
    kept = [c for c in chosen if c.cluster > 1]
    found = [*chosen[:1], *apart[:1], *kept[:1]]
    if which == "chosen":
        return list(dict.fromkeys(found))
    rows, vec = walk_of(form_of(p), p.dtype, chosen[0]).places, chosen[0].vec
    several = {rows, *(n for n in AT_ONCE if n < rows)}
    for (threads, depth, staged), at_once in product(RINGS, sorted(several)):
        splits = SMS * (1024 // threads) // at_once
        if splits > 1:
            parts = {"splits": splits, "staged": staged, "resident": splits * at_once}
            found.append(NormConfig(vec, 1, threads, "global", depth, **parts))
    return list(dict.fromkeys(found))


def compiled(asked: tuple[Case, NormConfig, str]) -> CompiledSequence | str:
    """The launches of a way, or why there are none."""
    (op, shape, axes, dtype), c, arch = asked
    family = find_family(op)
    try:
        return compile_sequence(family.launches(family.problem(shape, axes, dtype), c, arch), arch)
    except LayoutAlgError as error:
        return str(error)


def times(path: str, seeds: list[int], which: str) -> int:
    """Write the medians of all ways."""
    import cupy
    import torch

    began, arch, rng = time.monotonic(), require_gpu().arch, random.Random(20261123)
    cases = [case for seed in seeds for case in of_rows(seed)]
    asked = [(case, c, arch) for case in cases for c in ways(find_family(case.op).problem(*case[1:]), which)]
    made = dict(zip([(a, str(c)) for a, c, _ in asked], in_processes(compiled, asked), strict=True))
    print(
        f"{len(cases)} cases, {len(asked)} ways compiled after {time.monotonic() - began:.0f} s", flush=True
    )
    sources = {d: random_normal((MOST_BYTES + 4096) // find_dtype(d).nbytes, 1, d) for d in DTYPES}
    target, flush = device_empty((MOST_BYTES + 4096,), "u1"), flush_buffer()
    stream, lines, wrong = cupy.cuda.Stream(non_blocking=True), [], 0

    def line(case: Case, *, by_torch: bool = False) -> dict[str, Any]:
        family = find_family(case.op)
        p = family.problem(*case[1:])
        nbytes = prod(case.shape) * p.dtype.nbytes
        src = sources[case.dtype][: -(-nbytes // 16) * 16 // p.dtype.nbytes]
        dst = target[: -(-nbytes // 16) * 16].view(src.dtype)
        runs: dict[str, Callable[[], object]] = {
            name: device_copy(target[:nbytes], src.view("u1")[:nbytes]) for name in ("copy", "again")
        }
        said, registers = "", {}
        for a, c, _ in asked:
            one = made[a, str(c)]
            if a != case:
                continue
            if isinstance(one, str):
                print("   refused", c, one, flush=True)
                continue
            run = load_sequence(one.ready()).on_arrays({"src": src, "dst": dst})
            dst.fill(0)
            if not runs.keys() - {"copy", "again"} and family.bench:
                said += family.bench.check(p, {"src": src, "dst": dst}, run)
                right = dst.copy()
            run()
            said += "" if _near(dst, right, case.dtype) else f"another result by {c}"
            first = dst.view("u4").copy()
            run()
            said += "" if bool((first == dst.view("u4")).all()) else f"other bits by {c}"
            runs[str(c)], registers[str(c)] = run, one.registers
        if by_torch:
            runs["torch.compile"] = compiled_by_torch(case, src[: prod(case.shape)].reshape(case.shape))
        for each in runs.values():
            each()
        us = medians_in_turn(runs, 7, flush, rng, AHEAD_CYCLES)
        shares = {name: us["copy"] / found for name, found in us.items()}
        print(f"\n{case} {nbytes / 1e6:.0f} MB, copy {us['copy']:.1f} us, again {shares['again']:.3f} {said}")
        for name in sorted(registers, key=lambda n: us[n]):
            print(f"   {shares[name]:.3f} {us[name]:7.1f} us  {registers[name]:3d} registers  {name}")
        if by_torch:
            print(f"   {shares['torch.compile']:.3f} {us['torch.compile']:7.1f} us  torch.compile")
        sys.stdout.flush()
        return {"case": str(case), "bytes": nbytes, "us": us, "shares": shares, "wrong": said}

    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for case in cases:
            lines.append(line(case))
            wrong += bool(lines[-1]["wrong"])
            Path(path).write_text(json.dumps(lines), encoding="utf-8")
        chosen = {case: next(str(c) for a, c, _ in asked if a == case) for case in cases}
        of = {case: found["shares"][chosen[case]] for case, found in zip(cases, lines, strict=True)}
        best = [max(s for n, s in found["shares"].items() if n.startswith("Norm")) for found in lines]
        print(f"\nchosen {geometric_mean(of.values()):.3f}, best {geometric_mean(best):.3f}, {wrong} wrong")
        if which == "chosen":
            for case in sorted(cases, key=of.__getitem__)[: int(os.environ.get("COMPILED", "5"))]:
                lines.append(line(case, by_torch=True))
                Path(path).write_text(json.dumps(lines), encoding="utf-8")
    print(f"{time.monotonic() - began:.0f} s")
    return wrong


def _near(found: Any, right: Any, dtype: str) -> bool:
    """Whether two results differ by a few last places of the largest number, in all elements."""
    import torch

    kind = {"f32": torch.float32, "bf16": torch.bfloat16, "f16": torch.float16}[dtype]
    a, b = (torch.as_tensor(x.view(f"i{x.itemsize}"), device="cuda").view(kind) for x in (found, right))
    allowed = float(b.abs().max()) * (2.0**-18 if dtype == "f32" else 2.0**-7)
    return bool(((a.float() if dtype != "f32" else a) - b).abs().max() <= allowed)


# --- correctness ---------------------------------------------------------------------------------------


def of_seed(seed: int) -> tuple[NormProblem, NormConfig]:
    """A problem of long rows and resident blocks that read parts of them."""
    rng = random.Random(seed)
    op, dtype = rng.choice(("softmax", "layer_norm", "rms_norm")), rng.choice(DTYPES)
    n, offset = round(2 ** rng.uniform(13, 21)), rng.choice((0, 0, 3, 8))
    n = n if rng.random() < 0.5 else n // 8 * 8
    rows = max(1, min(rng.choice((1, 1, 2, 3, 7, 12)), (1 << 21) // n))
    weight, bias = op != "softmax" and rng.random() < 0.5, op == "layer_norm"
    in_place = n % 8 == 0 and offset % 8 == 0 and rng.random() < 0.3
    p = norm_problem(
        op, (rows, n), 1, dtype, src_offset=offset, dst_offset=offset, in_place=in_place,
        weight=weight, bias=bias,
    )  # fmt: skip
    threads, depth, staged = rng.choice(RINGS)
    at_once = rng.choice((rows, rng.randint(1, rows)))
    most = SMS * (1024 // threads) // at_once
    splits = rng.choice((most, rng.randint(2, most)))
    parts = {"splits": splits, "staged": staged, "resident": splits * at_once}
    return p, NormConfig(16 // p.dtype.nbytes, 1, threads, "global", depth, **parts)


def compiled_seed(case: tuple[int, str]) -> list[Prepared]:
    """The kernels of a seed."""
    p, c = of_seed(case[0])
    return [prepare(kernel, case[1]) for kernel in plan(p, case[1], c).kernels]


def main(args: list[str]) -> int:
    """See the module's text."""
    if args[0] in TIMED:
        return times(args[1], [int(seed) for seed in args[2:]], args[0])
    return wrong_of(int(args[1]), int(args[2]), of_seed, compiled_seed)


if __name__ == "__main__":
    sys.exit(min(1, main(sys.argv[1:])))
