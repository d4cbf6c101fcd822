"""Random permutes beside a copy, each as it is chosen, and by other configurations that are drawn.

python -m tests.gpu.tune_permute 2027 80                random tensors of a seed, the worst first
python -m tests.gpu.tune_permute 2027 80 24 out.json    with as many drawn configurations of each

Random tensors are permuted beside the driver's copy of as many bytes, which runs twice: an order drawn anew
for each round, an L2 that holds clean data of others, the host ahead of the GPU; every result is compared
with PyTorch's.  Of each are printed its share of the copy, what the least that memory moves for it allows
(`kernels.move.least_bytes`, as a share of the copy), its share of that, and what sectors the plan asks for
over those of the copy.  The exit status is 1 where one is under 0.60 of the copy and under 0.85 of what the
least allows.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Sequence
from dataclasses import replace
from statistics import geometric_mean
from typing import Any, Literal

from layoutalg.codegen.gpu import in_processes, require_gpu
from layoutalg.kernels.checks.move import Case
from layoutalg.kernels.move import Moves, PermuteConfig, least_bytes, normalise, permute_problem
from layoutalg.kernels.move import plan as permute_plan
from layoutalg.kernels.move.stage import Stage
from layoutalg.kernels.move.tiles import loaded_units, moved_bytes, stored_units, tiles
from tests.gpu.moves import Moved, Variant, timed_cases, variants
from tests.gpu.timing import Turns, free, write

_WALKS: tuple[Literal["target", "source", "tile", "rows"], ...] = ("target", "source", "tile", "rows")

COPY_SHARE, LEAST_SHARE = 0.60, 0.85
"""What a random tensor has to reach: either, whichever is lower."""

ROUNDS = 9
MOST_TILE_BYTES = 110 << 10


def drawn(x: Moves, rng: random.Random, count: int, arch: str) -> list[PermuteConfig]:
    """The plan's configuration, and others with tiles, widths, units and walks at random."""
    found, size = [permute_plan.configs(x, arch)[0]], x.element_bytes
    if count:
        ranked = permute_plan._ranked(x, arch)[: count // 2]
        found += [permute_plan._stored(stage, arch)[1] for stage in ranked]
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
        c = replace(permute_plan._stored(Stage(x, c), arch)[1], walk=c.walk)
        if rng.random() < 0.3:
            threads = max(64, min(1024, int(c.threads * rng.choice((0.5, 2)))))
            c = permute_plan._threaded(Stage(x, c), threads).config
        if c not in found and Stage(x, c).tile_bytes <= MOST_TILE_BYTES:
            found.append(c)
    return list(dict.fromkeys(found))


def variants_of(what: tuple[str, int, tuple[str, Case]]) -> list[Variant]:
    """The plan of a case and drawn ones, compiled."""
    arch, count, (dtype, case) = what
    x, rng = normalise(permute_problem(*case, dtype)), random.Random(f"{dtype} {case[0]} {case[1]}")
    return variants(dtype, case, drawn(x, rng, count, arch), arch)


def measured(case: tuple[str, Case], made: Sequence[Variant], turns: Turns) -> dict[str, Any]:
    """GB/s of the copy, of the copy again and of every variant of a case; wrong results are printed."""
    moved, (dtype, (shape, axes)) = Moved(*case), case
    runs = [moved.copy, moved.copy, *map(moved.run, made)]
    for v, run in zip(made, runs[2:], strict=True):
        if not moved.is_right(run):
            print(f"WRONG {case}: {v.config}", flush=True)
    us = turns.medians(dict(enumerate(runs)), 0 if len(runs) < 6 else 5)
    rates = [moved.p.moved_bytes / found / 1e3 for found in us.values()]
    return {
        "dtype": dtype, "shape": shape, "axes": axes, "copy": rates[0], "again": rates[1],
        "configs": [repr(v.config) for v in made], "rates": rates[2:],
        "asked": asked_share(normalise(moved.p), made[0].config),
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
    allowed = p.moved_bytes / sum(least_bytes(normalise(p)))
    short = share < min(COPY_SHARE, LEAST_SHARE * allowed)
    where = f"{one['dtype']} {one['shape']} -> {one['axes']}"
    text = (
        f"{share:.3f} (best {best:.3f}, copy {one['copy']:.0f} {one['again']:.0f}; least allows "
        f"{allowed:.3f}, share of it {share / allowed:.3f}, asked {one['asked']:.2f})"
        f"{' SHORT' if short else ''} {where}\n"
        f"      {one['configs'][0]}"
    )
    return share, text, short


def shares(seed: int, count: int, drawn: int, out: str) -> int:
    """Print the share of the copy of every random tensor, the worst first, and the geometric mean.

    Returns how many are under both marks.
    """
    arch, turns, found = require_gpu().arch, Turns(ROUNDS, seed), list[dict[str, Any]]()
    cases = [case for case in timed_cases(seed, count) if not drawn or len(case[1][0]) > 1]
    made = in_processes(variants_of, [(arch, drawn, case) for case in cases])
    print(f"{sum(map(len, made))} kernels", flush=True)
    for case, of in zip(cases, made, strict=True):
        found.append(measured(case, of, turns))
        free()
        if out:
            write(out, found)
    lines = sorted(map(line_of, found))
    print(*(text for _, text, _ in lines), sep="\n")
    each, short = [share for share, _, _ in lines], sum(short for _, _, short in lines)
    print(
        f"geometric mean {geometric_mean(each):.4f}, least {min(each):.3f}, {len(each)} tensors; "
        f"{short} under {COPY_SHARE} of the copy and under {LEAST_SHARE} of what the least bytes allow"
    )
    return short


def main(args: list[str]) -> int:
    """See the module's text."""
    seed, count, drawn, *_ = (*map(int, args[:3]), 0)
    return 1 if shares(seed, count, drawn, args[3] if args[3:] else "") else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
