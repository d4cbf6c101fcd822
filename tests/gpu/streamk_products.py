"""Stream-K and persistent blocks on a GPU: random products, then times where waves are bad.

python -m tests.gpu.streamk_products check 100          random products of both types, to the last bit
python -m tests.gpu.streamk_products time out.json      beside the usual choice and cuBLAS

Checked are products of small integers, whose sums are exact: D is that of cuBLAS bit by bit, by a schedule
and a tile drawn for each; then normal numbers twice, which have to give equal bits.

Timed is what `hopper_products` times, in the same way: in turn, in an order drawn anew for each round, with
nothing of the operands in L2.  For each product and type: the first choice without stream-K, the three
tiles that are expected to be fastest with it, and cuBLAS twice; with the nanoseconds that the model expects.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Iterator
from dataclasses import replace
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import CompiledSequence, random_normal
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.gemm import Config, GemmProblem, gemm_problem
from layoutalg.kernels.gemm.choice import SM80, Choice
from layoutalg.kernels.gemm.launches import way
from layoutalg.kernels.gemm.validate import check_config
from tests.gpu.gemm_launch import Product, launcher, load_all
from tests.gpu.timing import SEED, Run, Turns, one_stream, study

FAMILIES: dict[str, Choice[Any]] = {"f16": SM80, "bf16": SM80}
BAD_WAVES = (
    *((n, n, n) for n in (2112, 2304, 2560, 3000, 4104, 5000)),
    *((m, n, k) for m in (128, 256) for n, k in ((7168, 16384), (2112, 7168), (4096, 7168))),
    (4096, 2112, 7168), (4096, 576, 7168), (1056, 2048, 8192),
)  # fmt: skip
GOOD_WAVES = ((4096, 4096, 4096), (128, 8192, 8192))
"""Where stream-K is not expected to help: the model has to know."""

MOST = 2500
"""Rows, columns and k of a checked product."""


def tiles(p: GemmProblem, choice: Choice[Any]) -> Iterator[tuple[float, Any]]:
    """The tiles of gemm-sm80 by stream-K, with the nanoseconds that are expected of each."""
    for tile in choice.tiles:
        fitted = choice.fitted(p, tile)
        # in a loop over tiles registers do not hold doubles for a k of 8
        config = replace(fitted, schedule="streamk", mma_k=min(fitted.mma_k, 4))
        try:
            check_config(p, config)
        except LayoutAlgError:
            continue
        yield choice.clock(p, find_arch("sm_90"))(config, 1), config


def drawn(number: int) -> tuple[GemmProblem, Any]:
    """A product and a configuration, by stream-K or of gemm-sm80 with persistent blocks."""
    rng = random.Random(SEED + number)
    while True:
        element = rng.choice(list(FAMILIES))
        m, n, k = (8 * rng.randint(1, MOST // 8) for _ in range(3))
        if element == "f16" and rng.random() < 0.3:
            m, n, k = m + rng.randint(0, 7), n + rng.randint(0, 7), k + rng.randint(0, 7)
        orders: dict[str, Any] = {f"{x}_major": rng.choice(["k", "mn"]) for x in "ab"}
        try:
            p = gemm_problem(m, n, k, element, **orders)
            config = rng.choice([config for _, config in tiles(p, FAMILIES[element])])
        except (LayoutAlgError, IndexError):
            continue
        persistent = element == "f16" and rng.random() < 0.2
        return p, replace(config, schedule="persistent") if persistent else config


def integers(elems: int, seed: int, element: str) -> Any:
    """Integers from -2 to 2, as random_normal gives its numbers."""
    import cupy

    some = cupy.random.RandomState(seed).randint(-2, 3, elems).astype(cupy.float32)
    return some.astype("f2") if element == "f16" else (some.view(cupy.uint32) >> 16).astype(cupy.uint16)


def bits(product: Product, compiled: CompiledSequence) -> Any:
    """D of a launch, where nothing was before, as words."""
    import cupy

    product.d.view("u2")[...] = 0xFFFF
    launcher(compiled, product.words)()
    cupy.cuda.Device().synchronize()
    return product.d.view("u2").copy()


def check(count: int) -> None:
    """See the module's text; SystemExit for a result that is wrong."""
    import cupy

    cases = [drawn(number) for number in range(count)]
    for number, ((p, config), one) in enumerate(zip(cases, load_all(cases), strict=True)):
        element, elems = p.operand.name, (p.a_elems, p.b_elems)
        small = Product(p, *(integers(n, 2 * number + i, element) for i, n in enumerate(elems)))
        ours, _ = bits(small, one), small.cublas
        cupy.cuda.Device().synchronize()
        same = (cupy.where(x == 0x8000, 0, x) for x in (ours, small.expected.view("u2")))  # -0 is 0
        if not bool(cupy.equal(*same).all()):
            raise SystemExit(f"case {number}: {p} as {config!r} is wrong")
        normal = Product(p, *(random_normal(n, number + i, element) for i, n in enumerate(elems)))
        if not bool((bits(normal, one) == bits(normal, one)).all()):
            raise SystemExit(f"case {number}: {p} as {config!r} gives other bits a second time")
    shared = sum(config.schedule == "streamk" for _, config in cases)
    print(f"{count} products are right, {shared} by stream-K, and equal a second time")


def measured(
    p: GemmProblem, ways: list[tuple[float, Config, CompiledSequence]], turns: Turns
) -> Iterator[dict[str, Any]]:
    """The medians of one product, a row for each way."""
    on_gpu = Product(p)
    runs: dict[Any, Run] = {"cublas": on_gpu.cublas, "again": on_gpu.cublas}
    us = turns.medians(runs | {n: on_gpu.run(one, config) for n, (_, config, one) in enumerate(ways)})
    for n, (ns, config, _) in enumerate(ways):
        yield {
            "m": p.m, "n": p.n, "k": p.k, "element": p.operand.name, "way": way(config), "us": us[n],
            "expected_us": ns / 1e3, "usual_us": us[0], "cublas_us": us["cublas"], "of_usual": us[0] / us[n],
            "of_cublas": us["cublas"] / us[n], "aa": us["again"] / us["cublas"],
        }  # fmt: skip


def time(out: str) -> None:
    """See the module's text."""
    cases = []
    for element, choice in FAMILIES.items():
        for size in (*BAD_WAVES, *GOOD_WAVES):
            p = gemm_problem(*size, element)
            fastest = sorted(tiles(p, choice), key=lambda pair: pair[0])[:3]
            cases.append((p, [next(choice.timed(p))[:2], *fastest]))
    compiled = iter(load_all([(p, c) for p, ways in cases for _, c in ways]))
    with one_stream():
        turns = Turns(15)
        rows = (
            row for p, ways in cases
            for row in measured(p, [(ns, config, next(compiled)) for ns, config in ways], turns)
        )  # fmt: skip
        study(out, rows, dict)


if __name__ == "__main__":
    check(int(sys.argv[2])) if sys.argv[1] == "check" else time(sys.argv[2])
