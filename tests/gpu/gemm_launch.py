"""Launch matrix products on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.gemm_launch gemm_sm80 f16 1024 1024 512      the best configuration
python -m tests.gpu.gemm_launch gemm_simt f32 131 67 1029 3      the best one with k in 3 parts; more products
                                                                 follow behind a /
python -m tests.gpu.gemm_launch all                              every type, storage, tile, step, and parts
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from layoutalg.codegen.gpu import (
    CompiledSequence,
    compile_sequence,
    in_processes,
    load_sequence,
    require_gpu,
    to_device,
    to_host,
)
from layoutalg.kernels.gemm.choice.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.launches import shared_launches
from layoutalg.kernels.gemm.problem import GemmProblem, Major, gemm_problem
from layoutalg.kernels.gemm.tiles import Config
from layoutalg.kernels.ladder.steps import SM80_LADDER as LADDER
from tests.gemm_cases import arguments, expected

Way = tuple[GemmProblem, Config]

CONFIGS: dict[str, Callable[[GemmProblem, str], Sequence[Any]]] = {
    "gemm_sm80": SM80.configs, "gemm_simt": SIMT.configs
}  # fmt: skip
TYPES = {
    "gemm_sm80": (("f16", None), ("f16", "f16"), ("bf16", None), ("tf32", None), ("s8", None)),
    "gemm_simt": (("f32", None), ("f64", None)),
}
SHAPES = ((256, 256, 128), (1, 1, 1), (127, 257, 61), (200, 72, 136), (64, 8, 1024))


def compiled_way(asked: tuple[Way, str]) -> CompiledSequence:
    """The launches of one way, compiled for an architecture."""
    (p, config), arch = asked
    return compile_sequence(shared_launches(p, config, arch), arch)


def load_all(ways: Sequence[Way]) -> list[CompiledSequence]:
    """The launches of all ways, compiled by all cores."""
    arch = require_gpu().arch
    return in_processes(compiled_way, [(way, arch) for way in ways])


def launcher(compiled: CompiledSequence, given: Mapping[str, Any]) -> Callable[[], None]:
    """A launch on arrays and scalar words, by name."""
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    arrays = {name: x for name, x in given.items() if name not in scalars}
    return load_sequence(compiled.ready(scalars)).on_arrays(arrays)


def small_problems(name: str) -> Iterator[GemmProblem]:
    """Whole tiles, edges, single elements, both storages of both operands, with and without C."""
    majors: tuple[Major, Major] = ("k", "mn")
    for dtype, sums in TYPES[name]:
        for m, n, k in SHAPES:
            for a_major in majors:
                for b_major in majors:
                    if dtype in ("tf32", "s8") and "mn" in (a_major, b_major):
                        continue
                    extra = n % 2
                    yield gemm_problem(
                        m, n, k, dtype, accumulator=sums, a_major=a_major, b_major=b_major, ldd=n + extra,
                        reads_c=bool(extra), bias=m > 200, activation="relu" if k > 1000 else "none",
                    )  # fmt: skip


def small_ways(name: str, arch: str) -> Iterator[Way]:
    """Of every small problem the two best ways and the one with the most parts; of the first one all."""
    for number, p in enumerate(small_problems(name)):
        found = CONFIGS[name](p, arch)
        most = max(found, key=lambda c: c.splits)
        chosen = found if number == 0 else dict.fromkeys((*found[:2], most))
        yield from ((p, config) for config in chosen)


def steps() -> Iterator[Way]:
    """The published steps."""
    yield from ((gemm_problem(512, 256, 256), config) for config in LADDER.values())


def named_way(words: Sequence[str], arch: str) -> Way:
    """The best way of a product by words, with so many parts if a last one says so."""
    name, dtype, *sizes = words
    m, n, k, *splits = map(int, sizes)
    p = gemm_problem(m, n, k, dtype)
    return p, next(c for c in CONFIGS[name](p, arch) if not splits or c.splits == splits[0])


def result(p: GemmProblem, config: Config, args: dict[str, Any], loaded: CompiledSequence) -> Any:
    """D after one launch."""
    mine = {name: to_device(x) if isinstance(x, np.ndarray) else x for name, x in args.items()}
    launcher(loaded, mine)()
    return to_host(mine["d"])


def launch_all(ways: Sequence[Way]) -> None:
    """One launch of each on small integers, compared with the definition bit by bit."""
    for (p, config), loaded in zip(ways, load_all(ways), strict=True):
        args = arguments(p, seed=5)
        if result(p, config, args, loaded).tobytes() != expected(p, args).tobytes():
            raise SystemExit(f"wrong result: {p} with {config!r}")


def main(args: list[str]) -> None:
    """See the module's text."""
    import cupy

    cupy.cuda.set_allocator(None)  # one allocation an array, so that a sanitizer sees its ends
    arch = require_gpu().arch
    if args == ["all"]:
        ways = [*(way for name in CONFIGS for way in small_ways(name, arch)), *steps()]
        launch_all(ways)
        print(f"{len(ways)} ways correct, {sum(c.splits > 1 for _, c in ways)} of them with parts")
        return
    launch_all([named_way(words.split(), arch) for words in " ".join(args).split("/")])


if __name__ == "__main__":
    main(sys.argv[1:])
