"""Stream-K and persistent blocks on a GPU: random products, then times where waves are bad.

python -m tests.gpu.streamk_products check 100          random products of both families, to the last bit
python -m tests.gpu.streamk_products time out.json      beside the usual choice and cuBLAS

Checked are products of small integers, whose sums are exact: D is that of cuBLAS bit by bit, by a schedule
and a tile drawn for each; then normal numbers twice, which have to give equal bits.

Timed is what `hopper_products` times, in the same way: in turn, in an order drawn anew for each round, with
nothing of the operands in L2.  For each product and family: the first choice without stream-K, the three
tiles that are expected to be fastest with it, and cuBLAS twice; with the nanoseconds that the model expects.
"""

from __future__ import annotations

import json
import random
import sys
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import device_array, random_normal, require_gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm.choice.heuristic import SM80, SM90, Choice
from layoutalg.kernels.gemm.family import differs, way
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.validate import check_config
from tests.gpu.gemm_launch import launcher, load_all
from tests.gpu.timing import flush_buffer, medians_in_turn

SEED = 20261123
FAMILIES: dict[str, tuple[str, Choice[Any]]] = {"gemm-sm80": ("f16", SM80), "gemm-sm90": ("bf16", SM90)}
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
    """The tiles of a family by stream-K, with the nanoseconds that are expected of each."""
    board = find_arch("sm_90").board
    if board is None or choice.shared is None:
        return
    for tile in choice.tiles:
        config = choice.shared(choice.fitted(p, tile.config))
        try:
            check_config(p, config)
        except LayoutAlgError:
            continue
        yield choice.clock(p, board.sms)(config, tile, 1), config


def drawn(number: int) -> tuple[str, GemmProblem, Any]:
    """A product, its element type and a configuration, by stream-K or of gemm-sm80 with persistent blocks."""
    rng = random.Random(SEED + number)
    while True:
        element, choice = FAMILIES[rng.choice(list(FAMILIES))]
        m, n, k = (8 * rng.randint(1, MOST // 8) for _ in range(3))
        if element == "f16" and rng.random() < 0.3:
            m, n, k = m + rng.randint(0, 7), n + rng.randint(0, 7), k + rng.randint(0, 7)
        orders: dict[str, Any] = {f"{x}_major": rng.choice(["k", "mn"]) for x in "ab"}
        try:
            p = gemm_problem(m, n, k, element, **orders)
            found = [config for _, config in tiles(p, choice)]
        except LayoutAlgError:
            continue
        if found:
            config = rng.choice(found)
            if element == "f16" and rng.random() < 0.2:
                config = replace(config, schedule="persistent")
            return element, p, config


def matrices(p: GemmProblem, a: Any, b: Any) -> tuple[Any, Any]:
    """A and B as PyTorch multiplies them."""
    left = a.reshape(p.m, p.k) if p.a_major == "k" else a.reshape(p.k, p.m).T
    return left, b.reshape(p.n, p.k).T if p.b_major == "k" else b.reshape(p.k, p.n)


def integers(elems: int, seed: int, element: str) -> Any:
    """Integers from -2 to 2, as random_normal gives its numbers."""
    import cupy

    some = cupy.random.RandomState(seed).randint(-2, 3, elems).astype(cupy.float32)
    return (
        some.astype(cupy.float16) if element == "f16" else (some.view(cupy.uint32) >> 16).astype(cupy.uint16)
    )


def check(count: int) -> None:
    """See the module's text; SystemExit for a result that is wrong."""
    import cupy

    cases = [drawn(number) for number in range(count)]
    compiled = load_all([(p, config) for _, p, config in cases])
    for number, ((element, p, config), one) in enumerate(zip(cases, compiled, strict=True)):
        a, b = integers(p.a_elems, 2 * number, element), integers(p.b_elems, 2 * number + 1, element)
        d, again, expected = (device_array((p.m, p.n), a.dtype) for _ in range(3))

        def launch(into: Any, x: Any, y: Any, p: GemmProblem = p, one: Any = one) -> None:
            given = {name: v.view(CARRIER[v.itemsize]) for name, v in (("a", x), ("b", y), ("d", into))}
            given["d"][...] = 0xFFFF
            launcher(one, given | scalar_words(p, "alpha", 1.0))()

        cublas = torch_matmul(expected, *matrices(p, a, b), element)
        if cublas is None:
            raise SystemExit("PyTorch is needed for cuBLAS")
        cublas()
        launch(d, a, b)
        cupy.cuda.Device().synchronize()
        ours, theirs = (
            cupy.where(x.view(cupy.uint16) == 0x8000, 0, x.view(cupy.uint16)) for x in (d, expected)
        )
        if not bool((ours == theirs).all()):  # -0 is 0
            raise SystemExit(f"case {number}: {p} as {config!r} is wrong")
        x, y = random_normal(p.a_elems, number, element), random_normal(p.b_elems, number + 1, element)
        for into in (d, again):
            launch(into, x, y)
        cupy.cuda.Device().synchronize()
        if not bool((d.view(cupy.uint16) == again.view(cupy.uint16)).all()):
            raise SystemExit(f"case {number}: {p} as {config!r} gives other bits a second time")
    shared = sum(config.schedule == "streamk" for _, _, config in cases)
    print(f"{count} products are right, {shared} by stream-K, and equal a second time")


def measured(
    p: GemmProblem, element: str, ways: list[tuple[float, Any, Any]], flush: Any, rng: random.Random
) -> list[dict[str, Any]]:
    """The medians of one product, a row for each way."""
    import cupy

    a, b = random_normal(p.a_elems, 1, element), random_normal(p.b_elems, 2, element)
    d, expected = (device_array((p.m, p.n), a.dtype) for _ in range(2))
    given = {x: y.view(CARRIER[y.itemsize]) for x, y in (("a", a), ("b", b), ("d", d))}
    cublas = torch_matmul(expected, *matrices(p, a, b), element)
    if cublas is None:
        raise SystemExit("PyTorch is needed for cuBLAS")
    cublas()
    contenders: dict[str, Callable[[], object]] = {"cublas": cublas, "again": cublas}
    for number, (_, config, one) in enumerate(ways):
        d.fill(0)
        ours = launcher(one, given | scalar_words(p, "alpha", 1.0))
        ours()
        cupy.cuda.Device().synchronize()
        if wrong := differs(d, expected, p):
            raise SystemExit(f"{p} as {config!r}: {wrong}")
        contenders[str(number)] = ours
    us = medians_in_turn(contenders, 15, flush, rng)
    return [
        {
            "m": p.m, "n": p.n, "k": p.k, "element": element, "way": way(config),
            "us": us[str(number)], "expected_us": ns / 1e3, "usual_us": us["0"], "cublas_us": us["cublas"],
            "of_usual": us["0"] / us[str(number)], "of_cublas": us["cublas"] / us[str(number)],
            "aa": us["again"] / us["cublas"],
        }
        for number, (ns, config, _) in enumerate(ways)
    ]  # fmt: skip


def time(out: Path) -> None:
    """See the module's text."""
    import cupy
    import torch

    cases = []
    for element, choice in FAMILIES.values():
        for size in (*BAD_WAVES, *GOOD_WAVES):
            p = gemm_problem(*size, element)
            usual = choice.timed(p)[0][0]
            fastest = sorted(tiles(p, choice), key=lambda pair: pair[0])[:3]
            cases.append((p, element, [usual, *fastest]))
    compiled = iter(load_all([(p, config) for p, _, ways in cases for _, config in ways]))
    flush, rng, rows = flush_buffer(), random.Random(SEED), []
    stream = cupy.cuda.Stream(non_blocking=True)
    with stream, torch.cuda.stream(torch.cuda.ExternalStream(stream.ptr)):
        for p, element, ways in cases:
            loaded = [(ns, config, next(compiled)) for ns, config in ways]
            for row in measured(p, element, loaded, flush, rng):
                rows.append(row)
                print(row, flush=True)
    out.write_text(json.dumps(rows), encoding="utf-8")


def main(args: list[str]) -> int:
    """See the module's text."""
    require_gpu()
    if args[0] == "check":
        check(int(args[1]))
    else:
        time(Path(args[1]))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
