"""The launches that compute a product: what they take, what they cost, and which problems share a kernel."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from layoutalg.codegen import compile as compile_program
from layoutalg.codegen import to_cuda
from layoutalg.codegen.expr import Var, evaluate
from layoutalg.codegen.gpu import compile_sequence
from layoutalg.codegen.program import check_argument
from layoutalg.errors import ResourceError, ShapeError
from layoutalg.kernels import FAMILIES
from layoutalg.kernels.gemm import (
    BatchMode,
    GemvConfig,
    SimtConfig,
    Sm80Config,
    Sm90Config,
    gemm_problem,
    grouped,
    scalar_words,
)
from layoutalg.kernels.gemm.choice import SIMT, SM75, SM80, SM90
from layoutalg.kernels.gemm.groups import MOST_TOGETHER
from layoutalg.kernels.gemm.launches import (
    called_launches,
    called_problem,
    launches,
)
from layoutalg.kernels.gemm.programs.sm80 import build
from layoutalg.kernels.gemm.programs.sm90 import build as build_sm90
from layoutalg.kernels.gemm.times import SM80_TILES, SM90_CROSSED_TILES, SM90_TILES
from layoutalg.kernels.gemm.validate import shared_bytes
from layoutalg.kernels.sizes import buffer_bytes
from tests.sweeps import each

P, SPLIT = gemm_problem(64, 128, 256), Sm80Config(64, 64, 32, 2, 2, 3, splits=3)
TMA = Sm90Config(128, 128, 4, through="shared", result_vec=8)


def test_compiled_launches_keep_what_they_need() -> None:
    compiled = compile_sequence(launches(P, SPLIT, "sm_90a"), "sm_90a")
    assert [x.kernel.name for x in compiled.prepared] == ["gemm_sm80_f16", "gemm_combine_f16"]
    for x, kernel in zip(compiled.prepared, launches(P, SPLIT).kernels, strict=True):
        assert x.kernel.params == kernel.params and x.kernel.grid == kernel.grid
        assert x.cubin.spill_bytes == 0 and kernel.name in x.source
    ready = compiled.ready(scalar_words(P, "alpha", 1.0))
    assert [kernel.dependent for kernel in ready.kernels] == [False, True]
    assert ready.buffers == (("a", "b", "scratch"), ("scratch", "d"))
    assert ready.scratch_bytes == 3 * 4 * 64 * 128
    whole = launches(P, replace(SPLIT, splits=1))
    assert len(whole.kernels) == 1 and whole.scratch_bytes == 0


def test_a_way_that_cannot_work_is_refused_before_anything_is_compiled() -> None:
    with pytest.raises(ResourceError, match="shared memory"):
        launches(P, replace(SPLIT, stages=40))
    with pytest.raises(ResourceError, match="threads per block"):
        launches(gemm_problem(64, 64, 96, "f32"), SimtConfig(64 * 64, 64, 16, 8, 4, 4, splits=4))


def batch(n: int, **steps: int) -> dict[str, Any]:
    return {"batch": [BatchMode(n, **steps)]}


GEMV = GemvConfig(1, 2, 64, 8, 4)
SHARED: dict[str, tuple[Any, list[Any], list[int]]] = {
    "batches": (
        Sm80Config(64, 64, 32, 2, 2, 3, edges=True),
        [gemm_problem(72, 136, 80, **batch(n, a=a, d=136 * 72)) for n, a in ((2, 5760), (65535, 0))], [2],
    ),
    "batches by TMA, but for an operand that is shared": (
        replace(TMA, through="tma"),
        [gemm_problem(m, 256, 512, **batch(x, a=m * 512, b=b, d=m * 256))
         for m, x, b in ((128, 7, 131072), (200, 9999, 262144), (128, 7, 0))], [2, 1],
    ),
    "groups of up to a power of two": (
        TMA, [grouped(gemm_problem(m, 256, 512), groups, 256 * 512) for m, groups in ((512, 5), (4000, 8),
        (512, 9))],
        [2, 1],
    ),
    "few rows": (GEMV, [gemm_problem(1, n, k, "bf16") for n, k in ((4096, 4096), (999, 8000))], [2]),
    **{
        f"fewer rows or columns than a tile has, and more than 16384, {dtype}": (
            replace(choice.configs(gemm_problem(96, 200, 72, dtype))[0], edges=True),
            [gemm_problem(*size, dtype) for size in (
                (96, 200, 72), (104, 8000, 4096), (16384, 256, 8), (20, 200, 72), (96, 20_000, 72))],
            [3, 1, 1],
        )
        for choice, dtype in ((SM80, "f16"), (SIMT, "f32"))
    },
}  # fmt: skip


@pytest.mark.parametrize("name", SHARED)
def test_calls_of_a_class_have_the_same_kernels(name: str) -> None:
    """And those of another class have others; the kernels compile without spills."""
    c, problems, classes = SHARED[name]
    kernels = [called_launches(p, c).kernels for p in problems]
    distinct: list[Any] = []
    for x in kernels:
        distinct += [] if x in distinct else [x]
    assert [kernels.count(x) for x in distinct] == classes
    assert all(dict(called_launches(p, c).scalars)["m"] == p.m for p in problems)
    compiled = compile_program(kernels[0][0])
    assert compiled.spill_bytes == 0 and (c != GEMV or compiled.registers <= 64)  # 32 warps on an SM


@pytest.mark.deep(only=tuple(f"size{i}-choice{j}-{t}-sm_90" for i, j, t in (
    (0, 0, "bf16"), (0, 1, "f32"), (1, 1, "f32"), (2, 0, "bf16"), (2, 1, "f32"))))  # fmt: skip
@pytest.mark.parametrize(
    ("choice", "dtype", "arch"), [(SM80, "bf16", "sm_90"), (SIMT, "f32", "sm_90"), (SM75, "f16", "sm_75")]
)
@pytest.mark.parametrize("size", [(128, 32768, 512), (301, 20003, 511), (40_000, 24, 8_000)])
def test_kernels_of_large_extents_have_indices_that_64_bits_hold(
    choice: Any, dtype: str, arch: str, size: tuple[int, int, int]
) -> None:
    """The first choice and those in parts of k: all are printed."""
    p = gemm_problem(*size, dtype)
    some = choice.configs(p, arch)
    for config in {id(kind): kind for kind in (some[0], *(c for c in some if c.splits > 1))}.values():
        for kernel in called_launches(p, config, arch).kernels:
            assert to_cuda(kernel)


@pytest.mark.deep
@each(
    ("m", "n", "k", "groups"),
    [
        (4 * 8192, 4096, 7168, 4), (4096, 512, 1 << 15, 4), (4096, 1 << 15, 512, 64),
        (1 << 20, 1 << 20, 1 << 20, 64), (1 << 20, 1 << 20, 64, MOST_TOGETHER),
    ],
)  # fmt: skip
def test_groups_that_fit_are_built(m: int, n: int, k: int, groups: int) -> None:
    """Kernels are built for more than what is asked: nothing that is offered may then be refused."""
    p = grouped(gemm_problem(m, n, k), groups, n * k)
    for config in SM90.configs(p):
        sequence, wide = called_launches(p, config), called_problem(p, config)
        assert wide.m >= m and wide.n >= n and wide.k >= k
        assert dict(sequence.scalars)["m"] == m and len(sequence.kernels) == 1


def test_tiles_and_rows_of_many_products_are_numbered_in_32_bits() -> None:
    p = grouped(gemm_problem(1 << 20, 4096, 7168), 64, 4096 * 7168)
    wide = called_problem(p, Sm90Config(64, 64, 2, 1))
    assert (wide.m, wide.n, wide.k) == (1 << 20, 1 << 14, 1 << 14)
    q = gemm_problem(16384, 16384, 16384, **batch(6, a=1 << 28, b=1 << 28, d=1 << 28))
    assert "const u32 count = before + kt" in to_cuda(build_sm90(q, Sm90Config(128, 256, 4)))


def test_buffers_reach_to_the_last_group() -> None:
    family = FAMILIES["gemm-sm90"]
    p = family.problem(256, 64, 72, groups=5)
    sequence = family.launches(p, family.choose(p), "sm_90")
    known, scalars = buffer_bytes(p, sequence), dict(sequence.scalars)
    sizes: Any = {
        v: scalars[v.name] for v in sequence.kernels[0].params if isinstance(v, Var) and v.name in scalars
    }
    assert evaluate(known["b"], sizes) == 2 * p.b_elems and evaluate(known["a"], sizes) == 2 * p.a_elems


def test_a_kernel_says_how_many_rows_it_needs() -> None:
    kernel = build(gemm_problem(512, 56, 512), Sm80Config(64, 64, 32, 2, 2, 3, edges=True))
    m, n = [v for v in kernel.params if isinstance(v, Var)][:2]
    check_argument(m, 64)
    check_argument(n, 8)
    with pytest.raises(ShapeError, match="64 <= m <= 512"):
        check_argument(m, 63)


F32_IN_BOXES = (
    Sm90Config(256, 128, 4, result_vec=4, cluster_n=2), Sm90Config(128, 128, 2, result_vec=4, pingpong=True),
    Sm90Config(128, 32, 2, 1, result_vec=4), Sm90Config(384, 96, 2, 3, result_vec=4),
)  # fmt: skip


@pytest.mark.deep
def test_kernels_compile_without_spills() -> None:
    """F32 results of several row blocks too, which NVRTC refuses where the assembler has serialized them."""
    p, q = (gemm_problem(4104, 4104, 4104, dtype) for dtype in ("f16", "bf16"))
    large: list[tuple[Any, Any]] = [(gemm_problem(4096, 4096, 4096, "bf16", result="f32",
    activation="relu"), c)
                                    for c in F32_IN_BOXES]  # fmt: skip
    large += [(p, SM80.fitted(p, SM80_TILES[0])), (q, SM90.fitted(q, SM90_TILES[0]))]
    for x, c in large:
        for kernel in launches(x, c).kernels:
            assert compile_program(kernel).spill_bytes == 0
    for c in (SM90.fitted(q, tile) for tile in (*SM90_TILES, *SM90_CROSSED_TILES)):
        assert build_sm90(q, c).shared_bytes == shared_bytes(q, c)
