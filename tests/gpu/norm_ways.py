"""Norms over columns: every way that fits, beside a copy of the source.

python -m tests.gpu.norm_ways out.json                     the norms over columns of the first published seed
python -m tests.gpu.norm_ways out.json --seconds 60        no further case is begun after so many

Cases are those of ragged_rows that columns have, and columns of 10 to 2000 rows that are drawn.  Ways are
slabs that a block holds, of each width and number of threads, and streams; the way that is chosen comes
first.  All ways of a case are launched in turn, in an order drawn per round; see ragged_rows for how they are
timed.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
import time
from collections.abc import Iterator
from dataclasses import asdict, replace
from itertools import product
from math import exp, gcd, log, prod
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
from layoutalg.dtype import dtype as find_dtype
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels import find_family
from layoutalg.kernels.rowwise import NormConfig, NormProblem
from layoutalg.kernels.rowwise.columns import held_columns, streamed
from layoutalg.kernels.rowwise.families import Case
from layoutalg.kernels.rowwise.norm_plan import configs, form_of
from layoutalg.kernels.rowwise.unaligned import can_skew, can_vector
from tests.gpu.ragged_rows import AHEAD_CYCLES, DTYPES, FIT, MOST_BYTES, NORMED, drawn
from tests.gpu.timing import flush_buffer, medians_in_turn

SMS = 132
LEAST_COUNT, COLUMN_BYTES = 10, 256 << 20
MOST_HELD, MOST_STREAMS = 36, 14
"""Held slabs and streams of a case, drawn among all."""

TOGETHER = 9
"""Cases that are compiled before they are timed."""


def cases_of(seed: int, count: int) -> list[Case]:
    """The norms over columns of a seed, and `count` over columns of few rows; in an order that is drawn."""
    rng = random.Random(f"{seed} columns")
    found = []
    for case in drawn(seed, 40, 0):
        p: Any = find_family(case.op).problem(*case[1:])
        kinds = {m.reduced for m in form_of(p).modes}
        if (
            kinds == {True, False}
            and form_of(p).count > LEAST_COUNT
            and (list(held(p)) or list(skewed(p)) or list(streams(p)))
        ):
            found.append(case)
    for n in range(count):
        rows = round(exp(rng.uniform(log(10), log(2000))))
        grain = 8 if n % 3 else 2
        columns = max(1, round(COLUMN_BYTES / 4 / rows / grain)) * grain
        found.append(Case(rng.choice(NORMED), (rows, columns), (0,), rng.choice(DTYPES)))
    for _ in range(count // 4):
        rows, columns = round(exp(rng.uniform(log(20), log(200)))), rng.randrange(501, 3001, 2)
        outer = max(1, round(COLUMN_BYTES / 4 / rows / columns))
        found.append(Case(rng.choice(NORMED), (outer, rows, columns), (1,), rng.choice(DTYPES)))
    rng.shuffle(found)
    return found


def held(p: NormProblem) -> Iterator[NormConfig]:
    """Slabs that one block holds."""
    form = form_of(p)
    vec = 16 // p.dtype.nbytes
    while not can_vector(form, vec):
        vec //= 2
    if form.lead.reduced or form.count > 2048:
        return
    for s in held_columns(form.count, form.outputs // vec, vec, vec * p.dtype.nbytes):
        hold: Any = "shared" if s.shared else "registers"
        tiles = -(-form.outputs // vec // s.side)
        if not (s.by_one and tiles < 2):
            yield NormConfig(vec, s.side, s.share, hold, resident=tiles if s.by_one else 0)


def skewed(p: NormProblem) -> Iterator[NormConfig]:
    """Whole vectors across columns whose rows start at different places of vectors."""
    form, vec = form_of(p), 16 // p.dtype.nbytes
    if can_vector(form, vec) or not can_skew(form, vec):
        return
    (rows,) = form.reduced
    period = vec // gcd(rows.src, vec)
    for side, share in product((8, 16, 32), (1, 2, 4, 8, 16, 32, 64)):
        rounds = -(-form.count // share)
        alike = period * max(1, 32 // side) if period > 1 else 1
        if share % alike or not 64 <= side * share <= 512 or share > form.count:
            continue
        if rounds <= 16:
            yield NormConfig(vec, side, share, "registers")
        elif rounds * side * share * 16 <= 100 << 10:
            yield NormConfig(vec, side, share, "shared")


def streams(p: NormProblem) -> Iterator[NormConfig]:
    """Streams, the cheapest width of each number of threads and blocks."""
    seen = set()
    for s in streamed(form_of(p), p.dtype, 2, SMS):
        key = s.side, s.share, s.splits
        if key in seen or s.cost > 4.2:
            continue
        seen.add(key)
        c = NormConfig(s.vec, s.side, s.share, "global", 4, s.splits, width=s.width)
        if c.threads == 256:
            yield c
            yield replace(c, depth=8)
            if s.side in (16, 64):
                yield replace(c, staged=12)
        elif s.side == 64:
            yield c


def ways(case: Case, arch: str, beside: NormConfig | None = None) -> list[NormConfig]:
    """The ways of a case, the chosen one first; or that and another one."""
    family = find_family(case.op)
    p: Any = family.problem(*case[1:])
    if beside is not None:
        return list(dict.fromkeys((configs(p, arch)[0], beside)))
    rng = random.Random(str(case))
    found = list(held(p))
    found = rng.sample(found, min(MOST_HELD, len(found)))
    found += skewed(p)
    some = list(streams(p))
    return list(
        dict.fromkeys((*configs(p, arch)[:2], *found, *rng.sample(some, min(len(some), MOST_STREAMS))))
    )


def compiled(asked: tuple[Case, NormConfig, str]) -> CompiledSequence | str:
    """A way, compiled; or why not."""
    case, c, arch = asked
    family = find_family(case.op)
    try:
        return compile_sequence(family.launches(family.problem(*case[1:]), c, arch), arch)
    except LayoutAlgError as error:
        return str(error)


def main() -> int:
    """See the module's text."""
    import cupy
    import torch

    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out")
    parser.add_argument("--seed", type=int, default=FIT)
    parser.add_argument("--columns", type=int, default=8)
    parser.add_argument(
        "--beside", default="", help="a JSON file of cases, each with a configuration, instead"
    )
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=600.0)
    asked = parser.parse_args()
    began, arch = time.monotonic(), require_gpu().arch
    beside: dict[Case, NormConfig] = {}
    if asked.beside:
        for op, shape, axes, dtype, config in json.loads(Path(asked.beside).read_text(encoding="utf-8")):
            beside[Case(op, tuple(shape), tuple(axes), dtype)] = NormConfig(**config)
    cases = list(beside) or cases_of(asked.seed, asked.columns)
    rng = random.Random(0)
    table: list[dict[str, Any]] = []
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        most = MOST_BYTES + 4096
        sources = {d: random_normal(most // find_dtype(d).nbytes, 1, d) for d in DTYPES}
        target, flush = device_empty((most,), "u1"), flush_buffer()
        for first in range(0, len(cases), TOGETHER):
            some = cases[first : first + TOGETHER]
            if time.monotonic() - began > asked.seconds:
                break
            every = [(c, way, arch) for c in some for way in ways(c, arch, beside.get(c))]
            made = dict(zip(every, in_processes(compiled, every), strict=True))
            print(f"{len(made)} ways compiled after {time.monotonic() - began:.0f} s", flush=True)
            for case in some:
                mine = {c: m for (one, c, _), m in made.items() if one == case}
                table += timed(case, mine, sources, target, flush, rng, asked.rounds)
                Path(asked.out).write_text(json.dumps(table), encoding="utf-8")
    print(f"{time.monotonic() - began:.0f} s")
    return 0


def timed(
    case: Case,
    made: dict[NormConfig, Any],
    sources: Any,
    target: Any,
    flush: Any,
    rng: random.Random,
    rounds: int,
) -> list[dict[str, Any]]:
    """The rows of a case's table, fastest first."""
    import cupy

    family = find_family(case.op)
    p: Any = family.problem(*case[1:])
    elems = prod(case.shape)
    nbytes = elems * p.dtype.nbytes
    whole = -(-nbytes // 16) * 16
    src = sources[case.dtype][: whole // p.dtype.nbytes]
    dst = target[:whole].view(src.dtype)
    runs: dict[Any, Any] = {"copy": device_copy(target[:nbytes], src.view("u1")[:nbytes])}
    shown: dict[Any, Any] = {"copy": {}}
    first = None
    for c, compiled_ in made.items():
        if isinstance(compiled_, str):
            print(case, c, compiled_, flush=True)
            continue
        try:
            ready = compiled_.ready()
            run = load_sequence(ready).on_arrays({"src": src, "dst": dst})
        except LayoutAlgError as error:
            print(case, c, error, flush=True)
            continue
        dst.fill(0)
        run()
        got = dst[:elems]
        if case.dtype == "bf16":
            got = (got.astype(cupy.uint32) << 16).view(cupy.float32)
        got = got.astype("f4")
        if first is None:
            first, largest = got, float(cupy.abs(got).max())
        apart = float(cupy.abs(got - first).max()) / largest
        runs[c] = run
        registers = compiled_.registers
        shown[c] = {"config": asdict(c), "apart": apart, "registers": registers}
    us = medians_in_turn(runs, rounds, flush, rng, AHEAD_CYCLES)
    chosen = next(iter(made))
    rows = []
    for name in sorted(us, key=us.__getitem__):
        share = p.moved_bytes / us[name] / (2 * nbytes / us["copy"])
        rows.append(
            {"case": str(case), "chosen": name == chosen, "us": us[name], "share": share, **shown[name]}
        )
    for row in [*rows[:6], *(r for r in rows if r["chosen"])]:
        print(
            f"{row['share']:.3f} {row['us']:.1f} us {'chosen' if row['chosen'] else ''} {row['case']} "
            f"{row.get('config')} apart {row.get('apart')} {row.get('registers')}",
            flush=True,
        )
    bad = [r for r in rows if r.get("apart", 0) > 0.02]
    for row in bad:
        print("WRONG", row, flush=True)
    return rows


if __name__ == "__main__":
    sys.exit(main())
