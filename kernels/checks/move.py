"""Copies, transposes and permutes: the data on which they are verified, and the problems that are timed.

Elements are bits: moves are verified on random ones, and what is not written has to stay as it was; elements
that a permute converts have to be the definition's to the bit (`codegen.instr.converted`).

Timed are square matrices, five permutes that the literature quotes, and twenty drawn at random with a seed:
dense tensors of 2 to 6 modes, with extents that are powers of two, multiples of eight, or neither.  They are
timed beside the driver's copy of as many bytes, and beside what CuPy and PyTorch do with the same strides.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeAlias

import numpy

from layoutalg.arch import find_board
from layoutalg.codegen.costs import sequence_traffic
from layoutalg.codegen.gpu import array_assign, device_copy, random_bytes, random_normal, to_host
from layoutalg.codegen.instr import converted
from layoutalg.errors import ShapeError
from layoutalg.kernels.checks.baselines import Launch, limits, torch_assign
from layoutalg.kernels.checks.record import (
    Bench,
    Checks,
    Expected,
    Pace,
    memory_notes,
    not_defined,
    square_cases,
)
from layoutalg.kernels.elements import CARRIER, NUMPY_NAME, in_units
from layoutalg.kernels.family import Family
from layoutalg.kernels.matrix import MatrixProblem, reference
from layoutalg.kernels.move import PermuteProblem, normalise, permute_problem
from layoutalg.kernels.move import reference as permuted

Case: TypeAlias = "tuple[tuple[int, ...], tuple[int, ...]]"
"""(shape, axes)."""

CASES: tuple[Case, ...] = (
    ((64, 1024, 16, 128), (0, 2, 1, 3)),
    ((256, 1024, 1024), (2, 0, 1)),
    ((128, 224, 224, 3), (0, 3, 1, 2)),
    ((96, 96, 96, 96), (3, 2, 1, 0)),
    ((31, 63, 127, 255), (3, 1, 0, 2)),
)
"""Heads before tokens, a batched transpose, NHWC to NCHW, all modes reversed, nothing a power of two."""

DTYPES = ("f32", "f16", "u8")
SEED, DRAWN = 2026, 20
ELEMS = 1 << 26
"""The approximate number of elements of a drawn problem."""


def random_cases(seed: int = SEED, count: int = DRAWN) -> tuple[Case, ...]:
    """Dense problems, each of which is not a plain copy, the same for the same seed.

    >>> random_cases() == random_cases(), len(random_cases(seed=1, count=3))
    (True, 3)
    """
    rng = random.Random(seed)
    cases: list[Case] = []
    while len(cases) < count:
        rank = rng.randint(2, 6)
        cuts = sorted(rng.uniform(0, 1) for _ in range(rank - 1))
        shares = [b - a for a, b in zip([0.0, *cuts], [*cuts, 1.0], strict=True)]
        kind = rng.choice(("power", "eight", "any", "mixed"))
        shape = tuple(_extent(rng, ELEMS**share, kind) for share in shares)
        axes = tuple(rng.sample(range(rank), rank))
        case = (shape, axes)
        if normalise(permute_problem(*case, "f32")).rank > 1 and ELEMS // 2 < prod(shape) < 2 * ELEMS:
            cases.append(case)
    return tuple(cases)


def _extent(rng: random.Random, about: float, kind: str) -> int:
    kind = rng.choice(("power", "eight", "any")) if kind == "mixed" else kind
    if kind == "power":
        return 1 << max(0, round(about).bit_length() - 1)
    if kind == "eight":
        return max(1, round(about / 8) * 8)
    return max(1, round(about))


MATRIX_DTYPES, SIDES = ("f32", "f16", "u8"), (4096, 16384)
"""Square matrices that are timed by default."""


VERIFIED_MATRICES = ({"m": 200, "n": 136}, {"m": 67, "n": 259}, {"m": 256, "n": 256})
"""The matrices that are verified, with and without tiles that stick out."""


COMPARED = 1 << 16
"""The most results that are compared before a permute with a conversion is timed."""


VERIFIED_PERMUTES: tuple[Mapping[str, Any], ...] = (
    {"shape": (13, 22, 35), "axes": (2, 0, 1)},
    {"shape": (16, 64, 48), "axes": (0, 2, 1)},
)


Moved: TypeAlias = MatrixProblem | PermuteProblem


def _views(p: Moved, arrays: Mapping[str, Any]) -> tuple[Any, Any]:
    """The destination, and the source as the destination's shape sees it; of dense tensors."""
    if isinstance(p, MatrixProblem):
        (rows, columns), (src, dst) = p.target_shape, _elems(p)
        source = arrays["src"][:src].reshape(p.m, p.lds)[:, : p.n]
        return arrays["dst"][:dst].reshape(rows, p.ldd)[:, :columns], source.T if p.turned else source
    order = sorted(range(len(p.shape)), key=lambda k: -p.src[k])
    source = arrays["src"][: prod(p.shape)].reshape(tuple(p.shape[k] for k in order))
    target = arrays["dst"][: prod(p.shape)].reshape(p.shape)
    return target, source.transpose(tuple(order.index(k) for k in range(len(order))))


def _elems(p: Moved) -> tuple[int, int]:
    """Elements of both arrays, the last row's gap included."""
    if isinstance(p, MatrixProblem):
        return p.m * p.lds, p.target_shape[0] * p.ldd
    return prod(p.shape), prod(p.shape)


def _conversion(p: Moved) -> tuple[str, ...]:
    """The types of a result and of what is converted to it; none where bits are moved."""
    return (p.result.name, p.dtype.name) if isinstance(p, PermuteProblem) and p.result else ()


def _permute_cases(
    dtypes: Sequence[str] | None, sizes: Sequence[int] | None
) -> Iterator[tuple[str, PermuteProblem]]:
    for dtype in dtypes or DTYPES:
        for shape, axes in (*CASES, *random_cases()):
            name = f"{'x'.join(map(str, shape))} -> {','.join(map(str, axes))} {dtype}"
            yield name, permute_problem(shape, axes, dtype)


def _notes(family: Family, p: PermuteProblem, c: Any, arch: str) -> dict[str, Any]:
    (costs,) = sequence_traffic(family.launches(p, c, arch), arch=arch)
    ways = {"in": ("ld.global", ":global"), "out": ("st.global",)}
    sectors = {
        f"sectors {way}": sum(cost.total for op, cost in costs.items() if any(x in op for x in words))
        for way, words in ways.items()
    }
    bound = str(limits(p.moved_bytes, [costs], arch)[0])
    return {**sectors, **memory_notes(family, p, c, arch), "bound": bound, "board": find_board(arch).name}


# --- data, and results by definition -------------------------------------------------------------------


def _buffers(p: Moved, trial: str, seed: int) -> dict[str, Any]:
    """Random bits, of tensors in whole units, as the source and as what the destination held before.

    Of elements that are converted half are numbers of the order of 100, and none is NaN, whose bits a
    conversion leaves open.
    """
    rng, matrix = numpy.random.default_rng(seed), isinstance(p, MatrixProblem)
    sides = {"src": (p.source_elems, _widths(p)[0]), "dst": (p.target_elems, _widths(p)[1])}
    made = {
        name: rng.integers(0, 256, n * width if matrix else in_units(n * width, 1), numpy.uint8).view(
            CARRIER[width]
        )
        for name, (n, width) in sides.items()
    }
    if _conversion(p):
        near = converted((100 * rng.standard_normal(len(made["src"]))).view("u8"), "f64", p.dtype.name)
        wild = numpy.isnan(converted(made["src"], p.dtype.name, "f64").view("f8"))
        made["src"] = numpy.where(wild | (rng.random(len(near)) < 0.5), near, made["src"])
    return made


def _widths(p: Moved) -> tuple[int, int]:
    """Bytes of an element of the source, and of the destination."""
    return p.element_bytes, p.element_bytes if isinstance(p, MatrixProblem) else p.result_bytes


def _expected(p: Moved, c: Any, given: Mapping[str, Any]) -> Expected:
    define: Callable[..., Any] = reference if isinstance(p, MatrixProblem) else permuted
    return Expected("dst", define(p, given["src"], given["dst"]))


def _array_bytes(p: Moved) -> int:
    """Bytes of the arrays.  Raises ShapeError for a tensor with gaps, or an offset."""
    if isinstance(p, MatrixProblem):
        return (p.source_elems + p.target_elems) * p.element_bytes
    if p.src_offset or p.dst_offset or {p.source_elems, p.target_elems} != {prod(p.shape)}:
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")
    return p.source_elems * p.element_bytes + p.target_elems * p.result_bytes


def checks(family: Family) -> Checks:
    """The checks of a family of moves."""
    if family.name == "permute":
        converting = {**VERIFIED_PERMUTES[0], "result": "f16"}
        return Checks(_buffers, _expected, _array_bytes, (*VERIFIED_PERMUTES, converting))
    return Checks(_buffers, _expected, _array_bytes, VERIFIED_MATRICES)


# --- the bench -----------------------------------------------------------------------------------------


def _arrays(p: Moved, n: int) -> dict[str, Any]:
    """Random bits on the GPU, another pair for each n; where floats are converted, numbers of N(0, 1)."""
    widths = _widths(p)
    arrays = {
        name: random_bytes(in_units(elems * width, 1), 2 * n + side).view(CARRIER[width])
        for side, (name, elems, width) in enumerate(zip(("src", "dst"), _elems(p), widths, strict=True))
    }
    if _conversion(p) and p.dtype.name in ("f32", "f16", "bf16"):
        src = random_normal(in_units(_elems(p)[0], widths[0]), n, p.dtype.name)
        arrays["src"] = src.view(CARRIER[widths[0]])
    return arrays


def _copy_of(p: Moved, arrays: Mapping[str, Any]) -> Launch:
    """The driver's copy of as many bytes as are moved."""
    if _conversion(p):
        return device_copy(*(random_bytes(p.moved_bytes // 2, side) for side in range(2)))
    return device_copy(arrays["dst"], arrays["src"])


def _by_torch(p: Moved, arrays: Mapping[str, Any]) -> Launch | None:
    return torch_assign(*_views(p, arrays), *_conversion(p))


def _by_cupy(p: Moved, arrays: Mapping[str, Any]) -> Launch | None:
    """CuPy's assignment, which knows no bf16."""
    sides, kinds = _views(p, arrays), [NUMPY_NAME.get(name) for name in _conversion(p)]
    if None in kinds:
        return None
    return array_assign(*(x.view(kind) for x, kind in zip(sides, kinds, strict=True)) if kinds else sides)


def _check(p: Moved, arrays: Mapping[str, Any], ours: Launch) -> str:
    """CuPy's result has to be ours, gaps included; of a conversion the first ones are the definition's."""
    if kinds := _conversion(p):
        target, source = _views(p, arrays)
        ours()
        got, of = (to_host(x.ravel()[:COMPARED]) for x in (target, source))
        wanted = converted(of, kinds[1], kinds[0])
        nan = [numpy.isnan(converted(x, kinds[0], "f64").view("f8")) for x in (got, wanted)]
        return not_defined((got != wanted) & ~(nan[0] & nan[1]))
    dst = arrays["dst"]
    before = dst.copy()
    array_assign(*_views(p, arrays))()
    expected = dst.copy()
    dst[...] = before
    ours()
    same = bool((dst.view("uint8") == expected.view("uint8")).all())
    return "" if same else "our result differs from CuPy's"


def bench(family: Family) -> Bench:
    """The benchmark of a family of moves."""
    made = partial(
        Bench, _arrays, {"copy": _copy_of, "torch": _by_torch, "cupy": _by_cupy}, _check, limit="copy"
    )
    if family.name == "permute":
        notes = partial(_notes, family)
        return made(cases=_permute_cases, seed=SEED, notes=notes, pace=lambda p: Pace(11, sample_ms=3.0))
    square = square_cases(lambda side, dtype: family.problem(side, side, dtype), MATRIX_DTYPES, SIDES)
    return made(cases=square)
