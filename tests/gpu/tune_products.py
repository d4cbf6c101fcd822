"""Time the ways that products have in all families, on drawn products with a cold L2, cuBLAS among them.

python -m tests.gpu.tune_products SEED OUT.json [COUNT] [SECONDSs] [CLASS ...]     draw, compile, time, write

A product is of a class of DRAWS in turn, of those named or of TURN.  Of each family that may compute it the
NEAREST ways by the law of its time are timed, and OTHERS that are drawn of those that fit.  They run in
turn, in an order drawn anew for each round; two rounds of all find those within LATE of the fastest, which
run in further rounds.  `again` has the times of others of these rounds: of medians that are near each other
the least is less than any way takes.  Each result is compared with cuBLAS once.  Kernels take extents and
strides when they are launched, so that one compile serves many products.  tests.gpu.fit_tiles and fit_wgmma
fit the laws to what this writes.
"""

from __future__ import annotations

import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import cycle, islice
from statistics import median
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import CompiledSequence, compile_sequence, in_processes, require_gpu
from layoutalg.errors import LayoutAlgError
from layoutalg.kernels.checks.gemm import differs
from layoutalg.kernels.gemm import GemmProblem, Sm90Config, gemm_problem
from layoutalg.kernels.gemm.choice import CHOICES, GEMV, SIMT, SM80, SM90, Choice
from layoutalg.kernels.gemm.gemv import MMA_ROWS
from layoutalg.kernels.gemm.launches import called_class, called_launches, sequence_of, way
from tests.gpu.gemm_launch import Product, launcher
from tests.gpu.timing import CALL_CYCLES, Run, Turns, free, one_stream, seconds_of, write

COUNT, SECONDS = 250, 110.0
NEAREST, OTHERS, LATE, ROUNDS = 24, 6, 1.25, 4
"""Ways of a family that are timed, by its law and drawn; what goes on, by the fastest's; how often, and how
often once more."""

LONG_US = 2000.0
"""Ways that take longer are timed once."""

CHIP = find_arch("sm_90")

Row = Mapping[str, Any]


def _log(rng: random.Random, least: float, most: float, line: int = 8) -> int:
    """A multiple of `line`, its logarithm uniform."""
    share: float = (most / least) ** rng.random()
    return line * max(1, round(least * share / line))


def _waves(rng: random.Random) -> Row:
    return {"m": _log(rng, 48, 448), "n": _log(rng, 512, 8192), "k": _log(rng, 1024, 12288)}


def _any(rng: random.Random) -> Row:
    return {"m": _log(rng, 32, 8192), "n": _log(rng, 128, 8192), "k": _log(rng, 128, 8192)}


def _short(rng: random.Random) -> Row:
    return {"m": _log(rng, 64, 8192), "n": _log(rng, 64, 8192), "k": _log(rng, 8, 128)}


def _few(rng: random.Random) -> Row:
    line = rng.choice((1, 8, 8, 8))
    n, k = (_log(rng, 512, 16384, line) for _ in range(2))
    rows = rng.choice((1, 1, 2, 3, 4, 6, 8, 8, 12, 16, 24, 48))
    return {"m": rows, "n": n, "k": k, "dtype": rng.choice(("bf16", "bf16", "f32"))}


def _odd(rng: random.Random) -> Row:
    return {x: _log(rng, least, 4096, 1) for x, least in (("m", 16), ("n", 64), ("k", 16))}


def _single(rng: random.Random) -> Row:
    return {**rng.choice((_any, _any, _waves, _short))(rng), "dtype": "f32"}


def _double(rng: random.Random) -> Row:
    return {**{x: _log(rng, 256, 4096) for x in "mnk"}, "dtype": "f64"}


def _integer(rng: random.Random) -> Row:
    return {**{x: _log(rng, 256, 8192, 16) for x in "mnk"}, "dtype": "s8", "a_major": "k", "b_major": "k"}


DRAWS: Mapping[str, Callable[[random.Random], Row]] = {
    "waves": _waves, "any": _any, "short": _short, "single": _single, "few": _few, "odd": _odd,
    "double": _double, "integer": _integer,
}  # fmt: skip
TURN = ("waves", "any", "single", "short", "waves", "few", "any", "few", "waves", "short", "odd")
"""The classes of products, and those of eleven that follow each other."""

SLOW = {"single": 8, "double": 8}
"""The shares of MOST_OPERATIONS that classes may have, as parts."""

MOST_OPERATIONS = 3e11


def drawn(seed: int, count: int, turn: Sequence[str] = TURN) -> list[dict[str, Any]]:
    """Products with their classes, the same for the same seed.

    >>> [row["class"] for row in drawn(1, 3)], drawn(1, 3) == drawn(1, 4)[:3]
    (['waves', 'any', 'single'], True)
    """
    rng, rows = random.Random(f"products {seed}"), list[dict[str, Any]]()
    for name in islice(cycle(turn), count):
        row: dict[str, Any] = {"m": MOST_OPERATIONS, "n": 1, "k": 1}
        most = MOST_OPERATIONS / SLOW.get(name, 1)
        while 2 * row["m"] * row["n"] * row["k"] > most:
            row = {"class": name, "dtype": "bf16", **DRAWS[name](rng)}
        a, b = rng.choice((("k", "k"), ("k", "k"), ("k", "mn"), ("k", "mn"), ("mn", "mn")))
        rows.append({"a_major": "k" if name == "few" else a, "b_major": b} | row)
    return rows


def problem_of(row: Row) -> GemmProblem:
    """The product of a row."""
    return gemm_problem(*(row[x] for x in "mnk"), **{x: row[x] for x in ("dtype", "a_major", "b_major")})


def choices_of(p: GemmProblem) -> list[Choice[Any]]:
    """The families that may compute a product on an H200."""
    few: tuple[Choice[Any], ...] = (GEMV,) if p.m <= MMA_ROWS else ()
    return [SIMT, *few] if p.operand.name == "f32" else [SM80, SM90, *few]


def tried(row: Row) -> list[Any]:
    """The ways of a product that are timed, those of a family by its law."""
    p, rng, found = problem_of(row), random.Random(str(row)), list[Any]()
    for choice in choices_of(p):
        ways = [c for _, c, why in choice.timed(p, CHIP) if why is None]
        near, others = ways[:NEAREST], ways[NEAREST:]
        found += [*near, *rng.sample(others, min(OTHERS, len(others)))]
    return found


def name_of(c: Any) -> str:
    """A way by its family and in a word, of wgmma in full.

    >>> name_of(Sm90Config(128, 256, 4))
    'gemm-sm90 128x256x64, 4 stages'
    """
    return f"{(CHOICES.get(type(c)) or GEMV).family} {c if isinstance(c, Sm90Config) else way(c)}"


def compiled(asked: tuple[GemmProblem, Any]) -> CompiledSequence | str:
    """The machine code of a way; what refused it, where something did."""
    try:
        return compile_sequence(called_launches(*asked), CHIP.name)
    except LayoutAlgError as error:
        return f"{asked[1]}: {error}"


def measured(p: GemmProblem, ways: Iterable[tuple[Any, CompiledSequence]], turns: Turns) -> dict[str, Any]:
    """The medians of cuBLAS and of the ways, in microseconds; those with a wrong result are named."""
    import cupy

    on_gpu, runs, wrong = Product(p), dict[str, Run](), list[str]()
    for config, code in ways:
        run, _ = launcher(code, on_gpu.words), on_gpu.cublas
        on_gpu.d.fill(0)
        run()
        cupy.cuda.Device().synchronize()
        if why := differs(on_gpu.d, on_gpu.expected, p):
            wrong.append(f"{name_of(config)}: {why}")
        else:
            runs[name_of(config)] = run
    runs["cublas"] = on_gpu.cublas
    times = turns.times(runs, 2)
    least = {name: min(found) for name, found in times.items()}
    best = min(us for name, us in least.items() if name != "cublas")
    near = {name: run for name, run in runs.items() if least[name] <= LATE * best or name == "cublas"}
    for name, found in turns.times(near).items():
        times[name] += found
    us, again = (
        {name: float(f"{median(found):.4g}") for name, found in own.items()}
        for own in (times, turns.times(near))
    )
    del again["cublas"]
    row = {"cublas_us": us.pop("cublas"), "choices": us, "again": again}
    return row | ({"wrong": wrong} if wrong else {})


def main(args: Sequence[str]) -> int:
    """See the module's text."""
    seed, path, began = int(args[0]), args[1], time.perf_counter()
    count = next((int(word) for word in args[2:] if word.isdigit()), COUNT)
    turn = [word for word in args[2:] if word in DRAWS] or TURN
    enough, rows = seconds_of(args[2:], SECONDS), drawn(seed, count, turn)
    require_gpu()
    ways = in_processes(tried, rows)
    asked = [(problem_of(row), c) for row, own in zip(rows, ways, strict=True) for c in own]
    kinds = {called_class(*one): one for one in asked}
    codes = dict(zip(kinds, in_processes(compiled, list(kinds.values())), strict=True))
    print(*(code for code in codes.values() if isinstance(code, str)), sep="\n")
    print(f"{len(codes)} kernels, {time.perf_counter() - began:.0f} s", flush=True)
    found = list[dict[str, Any]]()
    with one_stream():
        turns = Turns(ROUNDS, seed, CALL_CYCLES, LONG_US)
        for row, own in zip(rows, ways, strict=True):
            if time.perf_counter() - began > enough:
                break
            p, ready = problem_of(row), list[tuple[Any, CompiledSequence]]()
            for c in own:
                if not isinstance(code := codes[called_class(p, c)], str):
                    ready.append((c, replace(code, sequence=sequence_of(p, c, code.sequence.kernels))))
            found.append(row | measured(p, ready, turns))
            free()
            us = found[-1]["choices"]
            best = min(us, key=us.__getitem__)
            print(
                f"{row['class']:6s} {p}: {us[best]:.1f} by {best}, cuBLAS {found[-1]['cublas_us']}",
                flush=True,
            )
            print(*found[-1].get("wrong", ()), sep="\n", end="")
            if len(found) % 20 == 0:
                write(path, found, seed=seed)
    write(path, found, seed=seed)
    print(f"{len(found)} of {count} products, {time.perf_counter() - began:.0f} s")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
