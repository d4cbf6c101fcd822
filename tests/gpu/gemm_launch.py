"""Launch matrix products on plain allocations: the process that a profiler or a sanitizer watches.

python -m tests.gpu.gemm_launch gemm_sm80 f16 1024 1024 512      the best configuration
python -m tests.gpu.gemm_launch gemm_simt f32 131 67 1029 3      the best one with k in 3 parts; more products
                                                                 follow behind a /
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any

import numpy as np

from layoutalg.codegen import gpu
from layoutalg.kernels.checks.baselines import torch_matmul
from layoutalg.kernels.checks.gemm import differs
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm import Config, GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.choice import SIMT, SM80
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.ladder.steps import SM80_LADDER as LADDER
from tests.gpu.timing import Run, plainly
from tests.kernels.gemm.cases import arguments, expected

Way = tuple[GemmProblem, Config]

CONFIGS: dict[str, Callable[[GemmProblem, str], Sequence[Any]]] = {
    "gemm_sm80": SM80.configs, "gemm_simt": SIMT.configs
}  # fmt: skip
TYPES = {
    "gemm_sm80": (("f16", None), ("f16", "f16"), ("bf16", None), ("tf32", None), ("s8", None)),
    "gemm_simt": (("f32", None), ("f64", None)),
}
SHAPES = ((256, 256, 128), (1, 1, 1), (127, 257, 61), (200, 72, 136), (64, 8, 1024))


def compiled_way(asked: tuple[Way, str]) -> gpu.CompiledSequence:
    """The launches of one way, compiled for an architecture."""
    (p, config), arch = asked
    return gpu.compile_sequence(launches(p, config, arch), arch)


def load_all(ways: Sequence[Way]) -> list[gpu.CompiledSequence]:
    """The launches of all ways, compiled by all cores."""
    arch = gpu.require_gpu().arch
    return gpu.in_processes(compiled_way, [(way, arch) for way in ways])


def launcher(compiled: gpu.CompiledSequence, given: Mapping[str, Any]) -> Run:
    """A launch on arrays and scalar words, by name."""
    scalars = {name: x for name, x in given.items() if isinstance(x, int)}
    arrays = {name: x for name, x in given.items() if name not in scalars}
    return gpu.load_sequence(compiled.ready(scalars)).on_arrays(arrays)


class Product:
    """Normal random operands and results of a product on the GPU; `words` are what a launch takes."""

    def __init__(self, p: GemmProblem, a: Any = None, b: Any = None) -> None:
        self.p, element = p, p.operand.name
        self.a = gpu.random_normal(p.a_elems, 1, element) if a is None else a
        self.b = gpu.random_normal(p.b_elems, 2, element) if b is None else b
        kind = gpu.random_normal(1, 0, p.result.name).dtype
        self.d, self.expected = (gpu.device_array((p.m, p.n), kind) for _ in range(2))
        arrays = (("a", self.a), ("b", self.b), ("d", self.d))
        self.words: dict[str, Any] = {name: x.view(CARRIER[x.itemsize]) for name, x in arrays}
        self.words |= scalar_words(p, "alpha", 1.0)

    @cached_property
    def cublas(self) -> Run:
        """A launch of cuBLAS into `expected`, made once.  SystemExit without PyTorch."""
        p = self.p
        left = self.a.reshape(p.m, p.k) if p.a_major == "k" else self.a.reshape(p.k, p.m).T
        right = self.b.reshape(p.n, p.k).T if p.b_major == "k" else self.b.reshape(p.k, p.n)
        launch = torch_matmul(self.expected, left, right, p.operand.name)
        if launch is None:
            raise SystemExit("PyTorch is needed for cuBLAS")
        launch()
        return launch

    def run(self, compiled: gpu.CompiledSequence, config: Config) -> Run:
        """The launch of a way, made once and compared with cuBLAS.  SystemExit for a wrong result."""
        import cupy

        launch, _ = launcher(compiled, self.words), self.cublas
        self.d.fill(0)
        launch()
        cupy.cuda.Device().synchronize()
        if wrong := differs(self.d, self.expected, self.p):
            raise SystemExit(f"{self.p} as {config!r}: {wrong}")
        return launch


def small_problems(name: str) -> Iterator[GemmProblem]:
    """Whole tiles, edges, single elements, both storages of both operands, with and without C."""
    for (dtype, sums), (m, n, k), a, b in product(TYPES[name], SHAPES, ("k", "mn"), ("k", "mn")):
        if dtype not in ("tf32", "s8") or "mn" not in (a, b):
            yield gemm_problem(
                m, n, k, dtype, accumulator=sums, a_major=a, b_major=b, ldd=n + n % 2,  # type: ignore[arg-type]
                reads_c=bool(n % 2), bias=m > 200, activation="relu" if k > 1000 else "none",
            )  # fmt: skip


def small_ways(name: str, arch: str) -> Iterator[Way]:
    """Of every small problem the two best ways and the one with the most parts; of the first one all."""
    for number, p in enumerate(small_problems(name)):
        found = CONFIGS[name](p, arch)
        most = max(found, key=lambda c: c.splits)
        yield from ((p, c) for c in (dict.fromkeys((*found[:2], most)) if number else found))


def steps() -> Iterator[Way]:
    """The published steps."""
    yield from ((gemm_problem(512, 256, 256), config) for config in LADDER.values())


def named_way(words: Sequence[str], arch: str) -> Way:
    """The best way of a product by words, with so many parts if a last one says so."""
    name, dtype, *sizes = words
    m, n, k, *splits = map(int, sizes)
    p = gemm_problem(m, n, k, dtype)
    return p, next(c for c in CONFIGS[name](p, arch) if not splits or c.splits == splits[0])


def result(args: dict[str, Any], loaded: gpu.CompiledSequence) -> Any:
    """D after one launch."""
    mine = {name: gpu.to_device(x) if isinstance(x, np.ndarray) else x for name, x in args.items()}
    launcher(loaded, mine)()
    return gpu.to_host(mine["d"])


def launch_all(ways: Sequence[Way], loaded: Sequence[gpu.CompiledSequence] = ()) -> int:
    """One launch of each on small integers, compared with the definition bit by bit; how many."""
    for (p, config), one in zip(ways, loaded or load_all(ways), strict=True):
        args = arguments(p, seed=5)
        if result(args, one).tobytes() != expected(p, args).tobytes():
            raise SystemExit(f"wrong result: {p} with {config!r}")
    return len(ways)


if __name__ == "__main__":
    plainly()
    launch_all(
        [named_way(text.split(), gpu.require_gpu().arch) for text in " ".join(sys.argv[1:]).split("/")]
    )
