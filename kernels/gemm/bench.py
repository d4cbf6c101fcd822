"""Time matrix products beside cuBLAS (through PyTorch): one interleaved run a table, on normal random data.

Two tables a family: `steps` are ways to compute one problem, timed in turn round by round with cuBLAS among
them; `sizes` are square problems, each computed the way that the family's `configs` put first.  Rates are in
TFLOP/s, 2 m n k a product.  GEMM rates depend on power and so on the data and on what ran before: only the
ratios within a table mean anything.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import geometric_mean
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.gpu import (
    Loaded,
    device_array,
    largest_difference,
    median_times_ms,
    random_normal,
    require_gpu,
)
from layoutalg.codegen.program import Kernel
from layoutalg.errors import MismatchError, UnknownNameError
from layoutalg.kernels.baselines import torch_matmul
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm import (
    simt as gemm_simt,
)
from layoutalg.kernels.gemm import (
    sm80 as gemm_sm80,
)
from layoutalg.kernels.gemm.heuristic import SIMT, SM80
from layoutalg.kernels.gemm.launches import Config, launcher, load_all
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import SIMT_LADDER, SM80_LADDER

SAMPLE_FLOPS = 3e11
"""A timed sample repeats the product until it is about this long: some milliseconds."""

ROUND_FLOPS = 6e12
"""A contender's samples, 5 to 15 of them, are about this long together."""


@dataclass(frozen=True, slots=True)
class GemmFamily:
    """What the bench needs of a family: the problem of a size, its ways best first, and steps to compare."""

    name: str
    problem: Callable[[int], GemmProblem]
    configs: Callable[[GemmProblem, str], Sequence[Any]]
    build: Callable[[GemmProblem, Any], Kernel]
    steps: Mapping[str, Any]


GEMM_FAMILIES: Mapping[str, GemmFamily] = MappingProxyType(
    {
        f.name: f
        for f in (
            GemmFamily(
                "gemm-simt", lambda n: gemm_problem(n, n, n, "f32", b_major="mn"), SIMT.configs,
                gemm_simt.build, {name: config for name, (_, config) in SIMT_LADDER.items()},
            ),
            GemmFamily(
                "gemm-sm80", lambda n: gemm_problem(n, n, n, "f16"), SM80.configs,
                gemm_sm80.build, SM80_LADDER,
            ),
        )
    }
)  # fmt: skip
"""The families of products, by the name the command line gives them."""

SIZES = (1024, 2048, 3072, 4096, 6144, 8192)
"""What is timed when nothing else is asked for."""

STEPS_SIZE = 4096
"""The problem on which steps are compared."""


@dataclass(frozen=True, slots=True)
class GemmRow:
    """One way to compute one problem: TFLOP/s of ours and of cuBLAS, None without PyTorch; what was used."""

    problem: str
    way: str
    ours: float
    cublas: float | None
    registers: int

    @property
    def ratio(self) -> float | None:
        """Our rate over cuBLAS's."""
        return None if self.cublas is None else self.ours / self.cublas


def mean_ratio(rows: Sequence[GemmRow]) -> float | None:
    """The geometric mean of the ratios; None without any.

    >>> round(mean_ratio([GemmRow("p", "w", 50.0, 25.0, 1), GemmRow("p", "w", 50.0, 100.0, 1)]), 6)
    1.0
    """
    ratios = [row.ratio for row in rows if row.ratio is not None]
    return geometric_mean(ratios) if ratios else None


def find_gemm_family(name: str) -> GemmFamily:
    """The family of a name.  Raises UnknownNameError.

    >>> find_gemm_family("gemm-simt").problem(64).operand.name
    'f32'
    """
    found = GEMM_FAMILIES.get(name)
    if found is None:
        raise UnknownNameError("family of products", str(name), GEMM_FAMILIES)
    return found


def benchmark_sizes(family: GemmFamily, problems: Sequence[GemmProblem]) -> Iterator[GemmRow]:
    """Each problem as `configs` would have it computed.

    Raises UnsupportedError without a GPU, MismatchError where our result is not cuBLAS's up to rounding.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     row = next(benchmark_sizes(find_gemm_family("gemm-simt"), [gemm_problem(256, 256, 256, "f32")]))
    """
    chip = require_gpu()
    best = [(p, family.configs(p, chip.arch)[0]) for p in problems]
    for (p, config), loaded in zip(best, load_all(best), strict=True):
        yield from _timed(p, {choice_name(config): (config, loaded)})


def benchmark_ways(family: GemmFamily, p: GemmProblem, ways: Mapping[str, Any]) -> list[GemmRow]:
    """Several ways to compute one problem of dense matrices, all in turn with cuBLAS.

    Raises what `benchmark_sizes` raises.

    >>> from layoutalg.codegen.gpu import gpu_status
    >>> if gpu_status().available:
    ...     rows = benchmark_ways(find_gemm_family("gemm-simt"), gemm_problem(256, 256, 256, "f32"), {})
    """
    require_gpu()
    loaded = load_all([(p, config) for config in ways.values()])
    return _timed(p, {name: (ways[name], one) for name, one in zip(ways, loaded, strict=True)})


def _timed(p: GemmProblem, ways: Mapping[str, tuple[Config, Sequence[Loaded]]]) -> list[GemmRow]:
    element, to = p.operand.name, p.result.name
    a, b = random_normal(p.a_elems, 1, element), random_normal(p.b_elems, 2, element)
    left = a.reshape(p.m, p.k) if p.a_major == "k" else a.reshape(p.k, p.m).T
    right = b.reshape(p.n, p.k).T if p.b_major == "k" else b.reshape(p.k, p.n)
    d, expected = (device_array((p.m, p.n), random_normal(1, 0, to).dtype) for _ in range(2))
    by_torch = torch_matmul(expected, left, right, element)
    given: dict[str, Any] = {name: x.view(CARRIER[x.itemsize]) for name, x in (("a", a), ("b", b), ("d", d))}
    given |= scalar_words(p, "alpha", 1.0)
    launches = {name: launcher(p, config, given, loaded) for name, (config, loaded) in ways.items()}
    if by_torch is not None:
        by_torch()
        for name, launch in launches.items():
            d[...] = 0
            launch()
            _compare(f"{p} as {name}", d, expected, p)
    contenders: list[list[Callable[[], object]]] = [[launch] for launch in launches.values()]
    if by_torch is not None:
        contenders.append([by_torch])
    inner = max(1, min(50, round(SAMPLE_FLOPS / p.flops)))
    rounds = max(5, min(15, round(ROUND_FLOPS / (p.flops * inner))))
    rates = [p.flops / ms / 1e9 for ms in median_times_ms(contenders, rounds=rounds, inner=inner)]
    cublas = rates[-1] if by_torch is not None else None
    return [
        GemmRow(str(p), name, rate, cublas, max(x.cubin.registers for x in loaded))
        for (name, (_, loaded)), rate in zip(ways.items(), rates, strict=False)
    ]


EPSILON = MappingProxyType(
    {"f64": 2.0**-53, "f32": 2.0**-24, "tf32": 2.0**-11, "f16": 2.0**-11, "bf16": 2.0**-8}
)
"""Half the distance of neighbouring numbers near 1."""


def differs(got: Any, expected: Any, p: GemmProblem) -> str:
    """How a result differs from cuBLAS's by more than rounding; empty where it does not.

    Sums of k products of normal numbers lie within 8 sqrt(k), and are rounded k times, in both results.

    >>> from layoutalg.codegen.gpu import device_array, gpu_status
    >>> if gpu_status().available:
    ...     x = device_array((4, 4), "float32")
    ...     assert not differs(x, x, gemm_problem(4, 4, 4, "f32"))
    """
    sums = EPSILON["f64" if p.accumulator.name == "f64" else "tf32" if p.operand.name == "tf32" else "f32"]
    allowed = 2 * 8 * p.k**0.5 * (p.k**0.5 * sums + EPSILON[p.result.name])
    seen = largest_difference(got, expected, p.result.name)
    return "" if seen <= allowed else f"differs from cuBLAS by {seen}, more than the {allowed} of rounding"


def _compare(what: str, got: Any, expected: Any, p: GemmProblem) -> None:
    if reason := differs(got, expected, p):
        raise MismatchError(f"{what}: {reason}")


def choice_name(config: Config) -> str:
    """A configuration among those a selector offers: its tile, and its parts where there are some.

    >>> from layoutalg.kernels.gemm.tiles import SimtConfig
    >>> choice_name(SimtConfig(128, 256, 8, 16, 8, 4)), choice_name(SimtConfig(64, 64, 16, 8, 4, 4, splits=3))
    ('128x256x8', '64x64x16 by 3')
    """
    tile = f"{config.tile_m}x{config.tile_n}x{config.tile_k}"
    return tile if config.splits == 1 else f"{tile} by {config.splits}"
