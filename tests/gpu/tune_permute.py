"""What a choice of the plan is worth: variants of a configuration, timed in turn on the same buffers.

python -m tests.gpu.tune_permute                        the cases below, as shares of a device copy
python -m tests.gpu.tune_permute 2027 80                random tensors of a seed, the worst first
python -m tests.gpu.tune_permute 2027 80 24 out.json    with as many drawn configurations of each
python -m tests.gpu.tune_permute 2027 80 24 out.json 9  of the nine worst alone

Random tensors are permuted beside the driver's copy of as many bytes, which runs twice: an order drawn anew
for each round, an L2 that holds clean data of others, the host ahead of the GPU; every result is compared
with PyTorch's.  Of each are printed its share of the copy, what the least that memory moves for it allows
(`kernels.move.least_bytes`, as a share of the copy), its share of that, and what sectors the plan asks for
over those of the copy.  The exit status is 1 where one is under 0.60 of the copy and under 0.85 of what the
least allows.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import exp, log, prod
from pathlib import Path
from statistics import mean
from typing import Any, Literal

from layoutalg.codegen.gpu import (
    Prepared,
    device_copy,
    in_processes,
    load,
    load_prepared,
    median_times_ms,
    prepare,
    random_bytes,
    require_gpu,
)
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move import least_bytes
from layoutalg.kernels.move import plan as permute_plan
from layoutalg.kernels.move.cases import CASES, Case, random_cases, timed_cases
from layoutalg.kernels.move.matrix_plan import transpose_configs
from layoutalg.kernels.move.problem import Moves, normalise, permute_problem
from layoutalg.kernels.move.programs.matrix import build_transpose, transpose_problem
from layoutalg.kernels.move.programs.permute import build
from layoutalg.kernels.move.stage import PLAIN, PermuteConfig, Stage
from layoutalg.kernels.move.tiles import loaded_units, moved_bytes, stored_units, tiles
from layoutalg.layout import Swizzle
from tests.gpu.timing import flush_buffer, medians_in_turn

TUNED = (
    ("f32", *CASES[1]), ("f32", (16384, 16384), (1, 0)), ("f32", *CASES[2]), ("f16", *CASES[2]),
    ("f32", *CASES[3]), ("f32", *CASES[4]), ("f16", *CASES[4]), ("u8", *CASES[4]),
    ("f32", (33554432, 2), (1, 0)), ("f32", (10001, 10003), (1, 0)), ("f16", (10001, 10003), (1, 0)),
    ("u8", (10001, 10003), (1, 0)),
    ("f16", *random_cases()[12]), ("u8", *random_cases()[12]), ("f16", *random_cases()[2]),
    ("f32", *random_cases()[11]), ("f16", *random_cases()[11]), ("u8", *random_cases()[19]),
)  # fmt: skip

_WALKS: tuple[Literal["target", "source", "tile", "rows"], ...] = ("target", "source", "tile", "rows")


def variants(x: Moves, arch: str) -> Iterator[tuple[str, PermuteConfig]]:
    """The plan's choice, and what differs from it in one respect."""
    best = permute_plan.configs(x, arch)[0]
    yield "plan", best
    for other in permute_plan.configs(x, arch)[1:]:
        yield f"{other.way} {other.tile}", other
    if best.way == "direct":
        return
    for walk in _WALKS:
        if walk != best.walk:
            yield f"walk {walk}", replace(best, walk=walk)
    yield "sectors" if best.lines else "lines", replace(best, lines=not best.lines)
    yield "registers", replace(best, via="registers", lines=False)
    for lanes in (0, 4, 8):
        if lanes != best.lanes:
            yield f"lanes {lanes}", replace(best, lanes=lanes)
    yield "plain", replace(best, swizzle=PLAIN, pad_bytes=0)
    yield "pad 16", replace(best, swizzle=PLAIN, pad_bytes=16)
    yield "Sw<3,4,5>", replace(best, swizzle=Swizzle(3, 4, 5), pad_bytes=0)
    for threads in (128, 256, 512, 1024):
        if threads != best.threads:
            yield f"{threads} threads", replace(best, threads=threads, loading=0, storing=0)
    yield "all load and store", replace(best, loading=0, storing=0)
    yield "narrow", replace(best, vec=max(1, 4 // x.element_bytes), turned=False, storing=0)
    for factor in (2, 4):
        k = max(range(x.rank), key=lambda k: best.tile[k])
        tile = tuple(
            min(m.extent, t * factor) if n == k else t
            for n, (m, t) in enumerate(zip(x.modes, best.tile, strict=True))
        )
        yield f"tile {tile}", replace(best, tile=tile)
    for factor in (2, 4):
        k = max(range(x.rank), key=lambda k: best.tile[k])
        tile = tuple(-(-t // factor // 16) * 16 if n == k and t > 16 else t for n, t in enumerate(best.tile))
        yield f"tile {tile}", replace(best, tile=tile)


def tune(dtype: str, shape: tuple[int, ...], axes: tuple[int, ...], arch: str) -> None:
    """Print the share of the copy of every variant."""
    p = permute_problem(shape, axes, dtype)
    x = normalise(p)
    nbytes = -(-prod(shape) * p.element_bytes // 16) * 16
    sets = [
        tuple(random_bytes(nbytes, 2 * n + m) for m in range(2)) for n in range(max(1, int(3e8 // nbytes)))
    ]
    wide = CARRIER[x.element_bytes]
    names = ["device copy"]
    launches: list[list[Callable[[], Any]]] = [[device_copy(d, s) for s, d in sets]]
    if (len(shape) == 2 and axes == (1, 0)) or shape == CASES[1][0]:
        q = transpose_problem(prod(shape[:-1]), shape[-1], dtype)
        kernel = load(build_transpose(q, transpose_configs(q, arch)[0]))
        plain = CARRIER[p.element_bytes]
        sizes = {"m": q.m, "n": q.n, "lds": q.lds, "ldd": q.ldd}
        launches.append([kernel.launcher(src=s.view(plain), dst=d.view(plain), **sizes) for s, d in sets])
        names.append("transpose family")
    for name, c in variants(x, arch):
        try:
            kernel = load(build(x, c))
            launches.append([kernel.launcher(src=s.view(wide), dst=d.view(wide)) for s, d in sets])
        except LayoutAlgError as error:
            print(f"    {name}: {error}")
            continue
        names.append(name)
    copy, *times = median_times_ms(launches)
    print(
        f"{dtype} {shape} -> {axes}: copy {p.moved_bytes / copy / 1e6:,.0f} GB/s; "
        f"{permute_plan.configs(x, arch)[0]}"
    )
    print(
        "    " + ", ".join(f"{n} {copy / ms:.2f}" for n, ms in zip(names[1:], times, strict=True)), flush=True
    )


# --- random tensors ------------------------------------------------------------------------------------

COPY_SHARE, LEAST_SHARE = 0.60, 0.85
"""What a random tensor has to reach: either, whichever is lower."""

ROUNDS = 9
MOST_TILE_BYTES = 110 << 10
TORCH = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}


@dataclass(frozen=True, slots=True)
class Variant:
    """A configuration of a case, ready to load."""

    config: PermuteConfig
    element_bytes: int
    ready: Prepared


def drawn(x: Moves, rng: random.Random, count: int, arch: str) -> list[PermuteConfig]:
    """The plan's configuration, and others with tiles, widths, units and walks at random."""
    found, size = [permute_plan.best(x, arch)], x.element_bytes
    if count:
        ranked = permute_plan._ranked(x, arch)[: count // 2]
        found += [permute_plan._stored(x, c, arch)[1] for c in ranked]
    there = tiles(x, MOST_TILE_BYTES)
    for _ in range(20 * count):
        if len(found) > count:
            break
        tile = rng.choice(there)
        stage = Stage(x, PermuteConfig("staged", tile, 32))
        runs = (stage.src_length * bool(stage.src_run), stage.dst_length * bool(stage.dst_run))
        chunk, wide = (permute_plan._widest(n, size, 16) for n in runs)
        vec = max(1, wide // rng.choice((1, 1, 1, 2, 4)))
        align = rng.choice((0, 0, 32, 32, 64, 128)) // size
        c = PermuteConfig(
            "staged", tile, 32, chunk, vec, lines=rng.random() < 0.8, walk=rng.choice(_WALKS),
            via="cp.async" if chunk * size >= 4 else "registers", align=align if align > vec else 0,
        )  # fmt: skip
        c = replace(c, lines=c.lines and c.via == "cp.async")
        c = replace(c, turned=Stage(x, c).can_turn)
        if Stage(x, c).tile_bytes > MOST_TILE_BYTES:
            continue
        c = replace(permute_plan._stored(x, c, arch)[1], walk=c.walk)
        if rng.random() < 0.3:
            threads = max(64, min(1024, int(c.threads * rng.choice((0.5, 2)))))
            c = replace(c, threads=threads)
            stage = Stage(x, c)
            loading, storing = permute_plan._loading(stage, threads), permute_plan._storing(stage, threads)
            c = replace(c, loading=loading, storing=storing)
        if c not in found and Stage(x, c).tile_bytes <= MOST_TILE_BYTES:
            found.append(c)
    return list(dict.fromkeys(found))


def variants_of(what: tuple[str, int, tuple[str, Case]]) -> list[Variant]:
    """The plan of a case and drawn ones, compiled."""
    arch, count, (dtype, (shape, axes)) = what
    x = normalise(permute_problem(shape, axes, dtype))
    found: list[Variant] = []
    for c in drawn(x, random.Random(f"{dtype} {shape} {axes}"), count, arch):
        try:
            found.append(Variant(c, x.element_bytes, prepare(build(x, c), arch)))
        except LayoutAlgError as error:
            print(f"{dtype} {shape} {axes} {c}: {error}", flush=True)
    return found


def measured(
    case: tuple[str, Case], made: Sequence[Variant], flush: Any, rng: random.Random
) -> dict[str, Any]:
    """GB/s of the copy, of the copy again and of every variant of a case; wrong results are printed."""
    import cupy
    import torch

    dtype, (shape, axes) = case
    p = permute_problem(shape, axes, dtype)
    nbytes = -(-prod(shape) * p.element_bytes // 16) * 16
    source, target = random_bytes(nbytes, 1), cupy.empty(nbytes, "uint8")
    used = prod(shape) * p.element_bytes
    kind = getattr(torch, TORCH[p.element_bytes])
    tensor = torch.as_tensor(source, device="cuda")[:used].view(kind).reshape(shape)
    expected = tensor.permute(axes).contiguous().reshape(-1).view(torch.uint8)
    copy = device_copy(target, source)
    runs: list[Callable[[], Any]] = [copy, copy]
    for v in made:
        wide = CARRIER[v.element_bytes]
        run = load_prepared(v.ready).launcher(src=source.view(wide), dst=target.view(wide))
        target.fill(0)
        run()
        if not torch.equal(torch.as_tensor(target, device="cuda")[:used], expected):
            print(f"WRONG {case}: {v.config}", flush=True)
        runs.append(run)
    us = medians_in_turn(dict(enumerate(runs)), ROUNDS if len(runs) < 6 else 5, flush, rng)
    rates = [p.moved_bytes / found / 1e3 for found in us.values()]
    return {
        "dtype": dtype, "shape": shape, "axes": axes, "copy": rates[0], "again": rates[1],
        "configs": [repr(v.config) for v in made], "rates": rates[2:],
    }  # fmt: skip


def asked_share(x: Moves, c: PermuteConfig) -> float:
    """Sectors that the rows and runs of a configuration ask for, over those of a copy."""
    if c.way != "staged":
        return float("nan")
    stage = Stage(x, c)
    return (loaded_units(stage, 32) + stored_units(stage, 32)) * 32 / (2 * moved_bytes(stage))


def line_of(one: dict[str, Any]) -> tuple[float, str, bool]:
    """The share of the copy of a case, what is printed of it, and whether it is under both marks."""
    share, best = one["rates"][0] / one["copy"], max(one["rates"]) / one["copy"]
    p = permute_problem(tuple(one["shape"]), tuple(one["axes"]), one["dtype"])
    allowed = p.moved_bytes / least_bytes(normalise(p)).total
    short = share < min(COPY_SHARE, LEAST_SHARE * allowed)
    where = f"{one['dtype']} {one['shape']} -> {one['axes']}"
    text = (
        f"{share:.3f} (best {best:.3f}, copy {one['copy']:.0f} {one['again']:.0f}; least allows "
        f"{allowed:.3f}, share of it {share / allowed:.3f}, asked {one['asked']:.2f})"
        f"{' SHORT' if short else ''} {where}\n"
        f"      {one['configs'][0]}"
    )
    return share, text, short


def shares(seed: int, count: int, variants: int, out: str | None, worst: int = 0) -> int:
    """Print the share of the copy of every random tensor, the worst first, and the geometric mean.

    Returns how many are under both marks.
    """
    import cupy

    arch, rng = require_gpu().arch, random.Random(seed)
    cases = timed_cases(seed, count)
    if variants and not worst:
        cases = tuple(case for case in cases if len(case[1][0]) > 1)
    flush = flush_buffer()

    def timed(cases: Sequence[tuple[str, Case]], variants: int) -> Iterator[dict[str, Any]]:
        made = in_processes(variants_of, [(arch, variants, case) for case in cases])
        print(f"{sum(map(len, made))} kernels", flush=True)
        for case, of in zip(cases, made, strict=True):
            x = normalise(permute_problem(*case[1], case[0]))
            yield measured(case, of, flush, rng) | {"asked": asked_share(x, of[0].config)}
            cupy.get_default_memory_pool().free_all_blocks()

    found = list[dict[str, Any]]()
    for one in timed(cases, 0 if worst else variants):
        found.append(one)
        if out:
            Path(out).write_text(json.dumps(found))
    lines = sorted(map(line_of, found))
    print(*(text for _, text, _ in lines), sep="\n")
    each, short = [share for share, _, _ in lines], sum(short for _, _, short in lines)
    print(
        f"geometric mean {exp(mean(map(log, each))):.4f}, least {min(each):.3f}, {len(each)} tensors; "
        f"{short} under {COPY_SHARE} of the copy and under {LEAST_SHARE} of what the least bytes allow",
        flush=True,
    )
    if worst:
        ranked = sorted(zip(found, cases, strict=True), key=lambda one: one[0]["rates"][0] / one[0]["copy"])
        for one in timed([case for _, case in ranked[:worst]], variants):
            print(line_of(one)[1])
            rates = sorted(zip(one["rates"], one["configs"], strict=True), reverse=True)
            print(*(f"    {rate / one['copy']:.3f} {config}" for rate, config in rates), sep="\n", flush=True)
            found.append(one)
            if out:
                Path(out).write_text(json.dumps(found))
    return short


def main(args: list[str]) -> int:
    """See the module's text."""
    if args:
        seed, count, variants, *_ = (*map(int, args[:3]), 0, 0)
        out, worst = args[3] if args[3:] else None, int(args[4]) if args[4:] else 0
        return 1 if shares(seed, count, variants, out, worst) else 0
    arch = require_gpu().arch
    for dtype, shape, axes in TUNED:
        tune(dtype, shape, axes, arch)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
