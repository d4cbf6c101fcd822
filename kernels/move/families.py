"""The families that move data, as records: tiled_copy, transpose, permute.

Elements are bits: they are verified on random ones, and what is not written has to stay as it was.  They are
timed beside the driver's copy of as many bytes, and beside what CuPy and PyTorch do with the same strides.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.costs import sequence_traffic
from layoutalg.codegen.gpu import array_assign, device_copy, random_bytes
from layoutalg.codegen.program import Kernel, LaunchSequence, launch_sequence
from layoutalg.dtype import DType
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.baselines import Launch, limits, torch_assign
from layoutalg.kernels.elements import CARRIER
from layoutalg.kernels.family import NEEDED, Bench, Candidate, Expected, Family, Pace
from layoutalg.kernels.matrix import MatrixProblem, buffers, matrix_problem, reference
from layoutalg.kernels.move import (
    permute,
    plan,
)
from layoutalg.kernels.move.cases import CASES, DTYPES, random_cases
from layoutalg.kernels.move.matrix import build_copy, build_transpose
from layoutalg.kernels.move.matrix_plan import copy_configs, transpose_configs, transpose_refusals
from layoutalg.kernels.move.problem import PermuteProblem, normalise, permute_problem
from layoutalg.kernels.move.problem import reference as permuted

UNIT_BYTES = 16
"""Buffers of a tensor are whole units."""

MATRIX_DTYPES, SIDES = ("f32", "f16", "u8"), (4096, 16384)
"""Square matrices that are timed by default."""

VERIFIED_MATRICES = ((200, 136), (67, 259), (256, 256))
"""With and without tiles that stick out."""

LARGEST = 16384
"""The most rows and columns that a generated kernel takes, by default."""

MOST_CALLED = 1 << 14
"""Extents and leading dimensions of the kernels of calls, so that 32 bits address them."""

VERIFIED_PERMUTES = (((13, 22, 35), (2, 0, 1)), ((16, 64, 48), (0, 2, 1)))


# --- matrices ------------------------------------------------------------------------------------------


def _matrix(
    m: int,
    n: int,
    dtype: str | DType = "f32",
    lds: int | None = None,
    ldd: int | None = None,
    align_bytes: int = 16,
    *,
    turned: bool,
) -> MatrixProblem:
    return matrix_problem(m, n, dtype, lds, ldd, turned=turned, align_bytes=align_bytes)


def _matrix_launches(
    build: Callable[..., Any], p: MatrixProblem, c: Any, arch: str | Arch = "sm_90"
) -> LaunchSequence:
    return _matrix_sequence(build(p, c), p)


def _matrix_sequence(kernel: Kernel, p: MatrixProblem) -> LaunchSequence:
    return launch_sequence([kernel], scalars={"m": p.m, "n": p.n, "lds": p.lds, "ldd": p.ldd})


def _called_copies(p: MatrixProblem, c: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    """The launches for a call on arrays, by a kernel for all sizes that 32 bits address, or for all."""
    largest = max(p.m, p.n, p.lds, p.ldd)
    most = MOST_CALLED if largest <= MOST_CALLED else MOST_CALLED << 16
    return _matrix_sequence(_called_copy(replace(p, m=most, n=most, lds=most, ldd=most), c), p)


_called_copy = lru_cache(maxsize=64)(build_copy)


def _matrix_views(p: MatrixProblem, arrays: Mapping[str, Any]) -> tuple[Any, Any]:
    """The destination, and the source as the destination's shape sees it."""
    (rows, columns), (src, dst) = p.target_shape, _matrix_elems(p)
    source = arrays["src"][:src].reshape(p.m, p.lds)[:, : p.n]
    return arrays["dst"][:dst].reshape(rows, p.ldd)[:, :columns], source.T if p.turned else source


def _matrix_elems(p: MatrixProblem) -> tuple[int, int]:
    """Elements of both arrays, the last row's gap included."""
    return p.m * p.lds, p.target_shape[0] * p.ldd


def _without_cp_async(p: Any, nbytes: int, arch: str | Arch) -> Candidate:
    """Asynchronous copies, dropped, and why; `nbytes` are what a lane loads at once."""
    chip = find_arch(arch)
    if chip.compute_capability < (8, 0):
        why = f"cp.async is not there on {chip.name}: sm_80 and later have it"
    else:
        why = f"cp.async of {nbytes} bytes, the vectors that {p} allows: 4, 8 and 16 are accepted"
    return Candidate("cp.async", UnsupportedError(why))


def _copy_candidates(p: MatrixProblem, arch: str | Arch) -> Iterator[Candidate]:
    found = copy_configs(p, arch)
    yield from map(Candidate, found)
    if not any(c.via == "cp.async" for c in found):
        yield _without_cp_async(p, found[0].vec * p.element_bytes, arch)


def _transpose_candidates(p: MatrixProblem, arch: str | Arch) -> Iterator[Candidate]:
    yield from map(Candidate, transpose_configs(p, arch))
    yield from (Candidate(f"{m} x {n}", why) for (m, n), why in transpose_refusals(p, arch))


# --- tensors -------------------------------------------------------------------------------------------


def _permuted(
    shape: tuple[int, ...], axes: Any, dtype: str | DType = "f32", **strides: Any
) -> PermuteProblem:
    return permute_problem(shape, axes, dtype, **strides)


def _permute_candidates(p: PermuteProblem, arch: str | Arch) -> Iterator[Candidate]:
    x = normalise(p)
    yield Candidate(plan.best(x, arch))
    found = plan.configs(x, arch)
    yield from map(Candidate, found[1:])
    yield from (Candidate(c, why) for c, why in plan.refusals(x, arch).items())
    staged = [c for c in found if c.way == "staged"]
    if staged and not any(c.via == "cp.async" for c in staged):
        yield _without_cp_async(p, staged[0].chunk * x.element_bytes, arch)


def _permute_launches(p: PermuteProblem, c: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    return launch_sequence([permute.build(normalise(p), c)])


def _permute_views(p: PermuteProblem, arrays: Mapping[str, Any]) -> tuple[Any, Any]:
    """The destination, and the source as the destination's shape sees it, of dense tensors."""
    order = sorted(range(len(p.shape)), key=lambda k: -p.src[k])
    source = arrays["src"][: prod(p.shape)].reshape(tuple(p.shape[k] for k in order))
    target = arrays["dst"][: prod(p.shape)].reshape(p.shape)
    return target, source.transpose(tuple(order.index(k) for k in range(len(order))))


def _permute_cases(
    dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, PermuteProblem]]:
    for dtype in dtypes or DTYPES:
        for shape, axes in (*CASES, *random_cases()):
            name = f"{'x'.join(map(str, shape))} -> {','.join(map(str, axes))} {dtype}"
            yield name, permute_problem(shape, axes, dtype)


def _permute_notes(p: PermuteProblem, c: Any, arch: str) -> dict[str, Any]:
    (found,) = sequence_traffic(_permute_launches(p, c, arch), arch=arch)
    ways = {"in": ("ld.global", ":global"), "out": ("st.global",)}
    sectors = {
        f"sectors {way}": sum(cost.total for op, cost in found.items() if any(x in op for x in words))
        for way, words in ways.items()
    }
    return {**sectors, "bound": str(limits(p.moved_bytes, [found], arch)[0])}


# --- both ----------------------------------------------------------------------------------------------

Views = Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]


def _tensor_buffers(p: PermuteProblem, trial: str, seed: int) -> dict[str, Any]:
    """Random bits in whole units, as the source and as what the destination held before."""
    import numpy

    rng, width = numpy.random.default_rng(seed), p.element_bytes
    elems = {"src": p.source_elems, "dst": p.target_elems}
    return {
        name: rng.integers(0, 256, -(-n * width // UNIT_BYTES) * UNIT_BYTES, numpy.uint8).view(CARRIER[width])
        for name, n in elems.items()
    }


def _expected(reference: Callable[..., Any], p: Any, c: Any, given: Mapping[str, Any]) -> Expected:
    return Expected("dst", reference(p, given["src"], given["dst"]))


def _arrays(elems: Callable[[Any], tuple[int, int]], p: Any, n: int) -> dict[str, Any]:
    """Random bits on the GPU, another pair for each n."""
    width = p.element_bytes
    return {
        name: random_bytes(-(-count * width // UNIT_BYTES) * UNIT_BYTES, 2 * n + side).view(CARRIER[width])
        for side, (name, count) in enumerate(zip(("src", "dst"), elems(p), strict=True))
    }


def _check(views: Views, p: Any, arrays: Mapping[str, Any], ours: Launch) -> str:
    """CuPy's result has to be ours, gaps included."""
    dst = arrays["dst"]
    before = dst.copy()
    array_assign(*views(p, arrays))()
    expected = dst.copy()
    dst[...] = before
    ours()
    same = bool((dst.view("uint8") == expected.view("uint8")).all())
    return "" if same else "our result differs from CuPy's"


def _bench(views: Views, **rest: Any) -> Bench:
    return Bench(
        unit="GB/s",
        work=lambda p: p.moved_bytes,
        contenders={
            "copy": lambda p, arrays: device_copy(arrays["dst"], arrays["src"]),
            "torch": lambda p, arrays: torch_assign(*views(p, arrays)),
            "cupy": lambda p, arrays: array_assign(*views(p, arrays)),
        },
        check=partial(_check, views),
        limit="copy",
        **rest,
    )


def _matrix_family(
    name: str, summary: str, build: Any, candidates: Any, called: Any = None, *, turned: bool
) -> Family:
    problem = partial(_matrix, turned=turned)

    def cases(
        dtypes: Sequence[str] | None, sizes: Sequence[int] | None
    ) -> Iterator[tuple[str, MatrixProblem]]:
        for dtype in dtypes or MATRIX_DTYPES:
            for side in sizes or SIDES:
                p = problem(side, side, dtype)
                yield str(p), p

    return Family(
        name,
        summary,
        problem,
        candidates,
        launches=partial(_matrix_launches, build),
        trials=lambda p: ("bits",),
        buffers=lambda p, trial, seed: dict(zip(("src", "dst"), buffers(p, seed), strict=True)),
        expected=partial(_expected, reference),
        array_bytes=lambda p: (p.source_elems + p.target_elems) * p.element_bytes,
        verified=tuple({"m": m, "n": n} for m, n in VERIFIED_MATRICES),
        asks={"m": LARGEST, "n": LARGEST, "lds": None, "ldd": None},
        bench=_bench(_matrix_views, arrays=partial(_arrays, _matrix_elems), cases=cases),
        called=called,
    )


def _dense_bytes(p: PermuteProblem) -> int:
    """Bytes of the arrays.  Raises ShapeError for a tensor with gaps, or an offset."""
    if p.src_offset or p.dst_offset or {p.source_elems, p.target_elems} != {prod(p.shape)}:
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")
    return (p.source_elems + p.target_elems) * p.element_bytes


MOVE_FAMILIES = (
    _matrix_family(
        "tiled_copy", "dst[m, n] = src[m, n] with leading dimensions",
        build_copy, _copy_candidates, _called_copies, turned=False,
    ),
    _matrix_family(
        "transpose", "dst[n, m] = src[m, n] with leading dimensions",
        build_transpose, _transpose_candidates, turned=True,
    ),
    Family(
        "permute",
        "the axes of a tensor in another order",
        _permuted,
        _permute_candidates,
        launches=_permute_launches,
        trials=lambda p: ("bits",),
        buffers=_tensor_buffers,
        expected=partial(_expected, permuted),
        array_bytes=_dense_bytes,
        verified=tuple({"shape": shape, "axes": axes} for shape, axes in VERIFIED_PERMUTES),
        asks={"shape": NEEDED, "axes": NEEDED},
        bench=_bench(
            _permute_views, arrays=partial(_arrays, lambda p: (prod(p.shape),) * 2), cases=_permute_cases,
            notes=_permute_notes, pace=lambda p: Pace(11, sample_ms=3.0),
        ),
    ),
)  # fmt: skip
"""The families of this room."""
