"""The launches that compute a product: one kernel; or the parts of k, and the kernel that adds them up.

    one = launches(p, c)                    the kernels, and the workspace between them
    one.arguments(given, sums)              what each of them takes, by name
    run = launcher(p, c, given)             compiled and loaded, the workspace allocated: run() computes D

A kernel is built for the extents and leading dimensions of a problem and below, so that one kernel serves
many problems: `covering` widens a problem to the next sizes that its neighbours share, and `load_all`
compiles what is needed once, on all cores.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd
from typing import Any, TypeAlias

from layoutalg.arch import Arch
from layoutalg.codegen.gpu import Cubin, Loaded, compile_cubin, device_array, load_cubin, require_gpu, to_cuda
from layoutalg.codegen.program import Kernel, dependent
from layoutalg.codegen.traffic import Prediction
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.gemm import (
    simt as gemm_simt,
)
from layoutalg.kernels.gemm import (
    simt_predict as gemm_simt_predict,
)
from layoutalg.kernels.gemm import (
    sm80 as gemm_sm80,
)
from layoutalg.kernels.gemm import (
    sm80_predict as gemm_sm80_predict,
)
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.splitk import build_combine, part_problem, predict_combine
from layoutalg.kernels.gemm.tiles import SimtConfig, Sm80Config
from layoutalg.kernels.gemm.validate import check_config

Config: TypeAlias = SimtConfig | Sm80Config
"""A way to compute a product, of either family."""


@dataclass(frozen=True, slots=True)
class Launches:
    """The kernels that compute a problem, in the order of their launches."""

    problem: GemmProblem
    splits: int
    kernels: tuple[Kernel, ...]

    @property
    def workspace_elems(self) -> int:
        """Sums that lie between the kernels; 0 without parts."""
        return self.splits * self.problem.m * self.problem.n if self.splits > 1 else 0

    @property
    def workspace_dtype(self) -> str:
        """NumPy type that carries a sum."""
        return CARRIER[part_problem(self.problem).result.nbytes]

    def arguments(self, given: Mapping[str, Any], sums: Any = None) -> tuple[dict[str, Any], ...]:
        """What each kernel takes: of the operands and scalars that are `given`, the problem's, and `sums`.

        >>> from layoutalg.kernels.gemm.problem import gemm_problem
        >>> one = launches(gemm_problem(64, 64, 512), Sm80Config(64, 64, 32, 2, 2, 3, splits=4))
        >>> one.arguments({"a": "A", "b": "B", "d": "D", "alpha": 1}, "S")[1]["splits"]
        4
        """
        p = self.problem
        mine: dict[str, Any] = {x: getattr(p, x) for x in ("m", "n", "k", "lda", "ldb", "ldc", "ldd")}
        mine |= {**given, "splits": self.splits, "sums": sums}
        return tuple({q.name: mine[q.name] for q in kernel.params} for kernel in self.kernels)


def launches(p: GemmProblem, c: Config, arch: str | Arch = "sm_90") -> Launches:
    """The launches of a configuration; what adds parts up starts early, where `arch` can.

    Raises what the family's `build` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> one = launches(gemm_problem(64, 64, 512), Sm80Config(64, 64, 32, 2, 2, 3, splits=4))
    >>> [kernel.name for kernel in one.kernels], one.workspace_elems
    (['gemm_sm80_f16', 'gemm_combine_f16'], 16384)
    """
    product = gemm_simt.build(p, c) if isinstance(c, SimtConfig) else gemm_sm80.build(p, c)
    combine = () if c.splits == 1 else (dependent(build_combine(p), ["sums"], arch),)
    return Launches(p, c.splits, (product, *combine))


def predictions(p: GemmProblem, c: Config, arch: str | Arch = "sm_90") -> tuple[Prediction, ...]:
    """What every access costs, by instruction, kernel by kernel.

    Raises what the family's `predict` and `predict_combine` raise.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> c = Sm80Config(64, 64, 32, 2, 2, 3, splits=4, result_vec=4)
    >>> [sorted(x)[-1] for x in predictions(gemm_problem(64, 64, 512), c)]
    ['st.shared.b64', 'st.global.b64']
    """
    if isinstance(c, SimtConfig):
        product = gemm_simt_predict.predict(p, c, arch)
    else:
        product = gemm_sm80_predict.predict(p, c, arch)
    return (product,) if c.splits == 1 else (product, predict_combine(p, c.splits, arch))


def covering(p: GemmProblem, c: Config) -> GemmProblem:
    """A problem whose kernels compute this one too, the same for many of its neighbours.

    Extents grow to a power of two times the tile, those under a tile to almost one; leading dimensions to a
    power of two, unless the configuration makes them constants.  What their vectors of up to 16 elements
    divide stays as it is.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> wide = covering(gemm_problem(3000, 2000, 4097, "f32"), SimtConfig(128, 256, 8, 16, 8, 4, edges=True))
    >>> wide.m, wide.n, wide.k, wide.lda
    (4104, 2048, 8193, 16385)
    """
    m, n, k = (_grown(x, x, tile) for x, tile in ((p.m, c.tile_m), (p.n, c.tile_n), (p.k, c.tile_k)))
    wide = replace(p, m=m, n=n, k=k)
    if c.static_ld:
        return wide
    rows = {
        "lda": k if p.a_major == "k" else m, "ldb": k if p.b_major == "k" else n, "ldc": n, "ldd": n
    }  # fmt: skip
    lda, ldb, ldc, ldd = (_grown(getattr(p, x), max(getattr(p, x), row), 1) for x, row in rows.items())
    return replace(wide, lda=lda, ldb=ldb, ldc=ldc, ldd=ldd)


def _grown(value: int, least: int, tile: int) -> int:
    """A power of two times the tile, `least` or more, and a little, to keep `value`'s divisors up to 16."""
    if least < tile:
        return tile - gcd(value, 16)
    return (tile << (-(-least // tile) - 1).bit_length()) + gcd(value, 16) % 16


@dataclass(frozen=True, slots=True)
class Compiled:
    """A kernel's machine code, its text, and its declaration: all of it but the statements."""

    declaration: Kernel
    cubin: Cubin
    source: str


def compile_launches(p: GemmProblem, c: Config, arch: str) -> tuple[Compiled, ...]:
    """Compile the kernels of a configuration.  Raises what `launches` and `compile_cubin` raise.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> one = compile_launches(gemm_problem(64, 64, 64), Sm80Config(64, 64, 32, 2, 2, 2), "sm_90a")
    >>> one[0].cubin.spill_bytes, one[0].declaration.body
    (0, ())
    """
    texts = [(kernel, to_cuda(kernel, arch)) for kernel in launches(p, c, arch).kernels]
    return tuple(
        Compiled(replace(kernel, body=()), compile_cubin(text, kernel.name, arch), text)
        for kernel, text in texts
    )


def load_all(ways: Sequence[tuple[GemmProblem, Config]]) -> list[tuple[Loaded, ...]]:
    """Load the kernels of ways to compute problems, each kernel compiled once, in processes of their own.

    Every way is checked before the first is compiled.  Raises what `check_config` of its family raises,
    UnsupportedError without a GPU, and CompileError.

    >>> load_all([])
    []
    """
    from concurrent.futures import ProcessPoolExecutor
    from multiprocessing import get_context

    if not ways:
        return []
    for p, c in ways:
        check_config(p, c)
    arch = require_gpu().arch
    keys = [(covering(p, c), replace(c, splits=min(c.splits, 2))) for p, c in ways]
    different = list(dict.fromkeys(keys))
    if len(different) == 1:
        done = [compile_launches(*different[0], arch)]
    else:
        with ProcessPoolExecutor(mp_context=get_context("spawn")) as pool:
            done = list(pool.map(compile_launches, *zip(*different, strict=True), [arch] * len(different)))
    loaded = {
        key: tuple(load_cubin(x.declaration, x.cubin, x.source) for x in one)
        for key, one in zip(different, done, strict=True)
    }
    return [loaded[key] for key in keys]


def launcher(
    p: GemmProblem, c: Config, given: Mapping[str, Any], loaded: Sequence[Loaded] | None = None
) -> Callable[[], None]:
    """A function that computes D on the GPU; `given` are the operands' arrays and scalar words by name.

    Arguments are checked and the workspace is allocated here, once.  Raises UnsupportedError without a GPU
    and what `Loaded.launcher` raises.

    >>> from layoutalg.codegen.gpu import gpu_status, random_normal
    >>> from layoutalg.kernels.gemm.problem import gemm_problem, scalar_words
    >>> p = gemm_problem(64, 64, 512, "f32", b_major="mn")
    >>> if gpu_status().available:
    ...     a, b, d = (random_normal(n, 0, "f32").view("uint32") for n in (64 * 512, 512 * 64, 64 * 64))
    ...     run = launcher(p, SimtConfig(64, 64, 16, 8, 4, 4, edges=True, splits=4),
    ...                    {"a": a, "b": b, "d": d, **scalar_words(p, "alpha", 1.0)})
    ...     run()
    """
    loaded = load_all([(p, c)])[0] if loaded is None else loaded
    one = Launches(p, c.splits, tuple(x.kernel for x in loaded))
    sums = device_array((one.workspace_elems,), one.workspace_dtype) if one.workspace_elems else None
    steps = tuple(x.launcher(**args) for x, args in zip(loaded, one.arguments(given, sums), strict=True))
    return steps[0] if len(steps) == 1 else _Run(steps, sums)


@dataclass(frozen=True, slots=True)
class _Run:
    """Launches one after the other; it keeps the workspace between them alive, which they know by address."""

    steps: tuple[Callable[[], None], ...]
    workspace: Any

    def __call__(self) -> None:
        for step in self.steps:
            step()
