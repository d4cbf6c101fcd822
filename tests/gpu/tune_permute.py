"""What a choice of the plan is worth: variants of a configuration, timed in turn on the same buffers.

python -m tests.gpu.tune_permute          the cases below, as shares of a device copy
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from math import prod
from typing import Any, Literal

from layoutalg.codegen.gpu import device_copy, load, median_times_ms, random_bytes, require_gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.move import plan as permute_plan
from layoutalg.kernels.move.cases import CASES, random_cases
from layoutalg.kernels.move.matrix import build_transpose, transpose_problem
from layoutalg.kernels.move.matrix_plan import transpose_configs
from layoutalg.kernels.move.permute import build
from layoutalg.kernels.move.problem import Moves, normalise, permute_problem
from layoutalg.kernels.move.stage import PLAIN, PermuteConfig
from layoutalg.layout import Swizzle

TUNED = (
    ("f32", *CASES[1]), ("f32", (16384, 16384), (1, 0)), ("f32", *CASES[2]), ("f16", *CASES[2]),
    ("f32", *CASES[3]), ("f32", *CASES[4]), ("f16", *CASES[4]), ("u8", *CASES[4]),
    ("f32", (33554432, 2), (1, 0)), ("f32", (10001, 10003), (1, 0)), ("f16", (10001, 10003), (1, 0)),
    ("u8", (10001, 10003), (1, 0)),
    ("f16", *random_cases()[12]), ("u8", *random_cases()[12]), ("f16", *random_cases()[2]),
    ("f32", *random_cases()[11]), ("f16", *random_cases()[11]), ("u8", *random_cases()[19]),
)  # fmt: skip

_WALKS: tuple[Literal["target", "source", "tile"], ...] = ("target", "source", "tile")


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


def main() -> int:
    """See the module's text."""
    arch = require_gpu().arch
    for dtype, shape, axes in TUNED:
        tune(dtype, shape, axes, arch)
    return 0


if __name__ == "__main__":
    sys.exit(main())
