"""The families that move data, as records: tiled_copy, transpose, permute.

Elements are bits: they are verified on random ones, and what is not written has to stay as it was; those
that a permute converts have to be the definition's to the bit (`codegen.instr.converted`).  They are timed
beside the driver's copy of as many bytes, and beside what CuPy and PyTorch do with the same strides.

The least that memory moves for a permute in any order is the units that both sides touch, each once.  A
tile's rows share units with other rows, which may ask the L2 twice, and memory too.  No order asks memory for
less than the union: every half line that holds an element of the source is read, every sector that holds one
of the destination is written, and one that the destination fills in part is read before.

    100 rows of 24 f32, 100 bytes apart      read 100 to 200 half lines, written 4 sectors of each, 1 in part

The union is in closed form where strides are nested (`analysis.touched_by`), and listed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any, NamedTuple

from layoutalg.analysis import Units, nested
from layoutalg.arch import DRAM_RULES, Arch, find_arch, find_board
from layoutalg.codegen.costs import sequence_traffic
from layoutalg.codegen.gpu import array_assign, device_copy, random_bytes, random_normal, to_host
from layoutalg.codegen.instr import converted
from layoutalg.codegen.program import Kernel, LaunchSequence, launch_sequence
from layoutalg.dtype import DType
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels import family
from layoutalg.kernels.baselines import Launch, limits, torch_assign
from layoutalg.kernels.elements import CARRIER, NUMPY_NAME, in_units
from layoutalg.kernels.matrix import MatrixProblem, buffers, matrix_problem, reference
from layoutalg.kernels.move import plan
from layoutalg.kernels.move.cases import CASES, DTYPES, random_cases
from layoutalg.kernels.move.matrix_plan import (
    copy_configs,
    further_copies,
    further_transposes,
    transpose_configs,
    transpose_refusals,
)
from layoutalg.kernels.move.problem import Moves, PermuteProblem, normalise, permute_problem
from layoutalg.kernels.move.problem import reference as permuted
from layoutalg.kernels.move.programs import build_copy, build_permute, build_transpose
from layoutalg.limits import Most


class LeastBytes(NamedTuple):
    """Bytes that memory reads and writes at least.

    >>> LeastBytes(96, 64).total
    160
    """

    read: int
    written: int

    @property
    def total(self) -> int:
        """Both."""
        return self.read + self.written


def least_bytes(x: Moves, arch: str | Arch = "sm_90", *, listed: bool = False) -> LeastBytes:
    """Return the least bytes that memory moves; with `listed` by the definition, up to Most.LISTED elements.

    Raises UnsupportedError for an architecture whose units of memory were not counted, UndecidedError where
    bytes have to be listed and are too many.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> least_bytes(normalise(permute_problem((997, 999), (1, 0), "f32")))
    LeastBytes(read=3984096, written=3984032)
    """
    machine = find_arch(arch)
    if machine.name not in DRAM_RULES:
        raise UnsupportedError(
            f"what the memory of {machine.name} moves at once was not counted; {', '.join(DRAM_RULES)} was"
        )
    rules = DRAM_RULES[machine.name]
    read = _touched(x, "src", rules.fill_bytes, listed=listed).touched * rules.fill_bytes
    merged = _touched(x, "dst", machine.sector_bytes, listed=listed).partial * rules.merge_bytes
    written = _touched(x, "dst", rules.written_bytes, listed=listed).touched * rules.written_bytes
    return LeastBytes(read + merged, written)


def _touched(x: Moves, side: str, unit_bytes: int, *, listed: bool) -> Units:
    """The units of one side."""
    source = side == "src"
    size, offset = (x.element_bytes, x.src_offset) if source else (x.result_bytes, x.dst_offset)
    swizzles = x.src_swizzle if source else x.dst_swizzle
    digits = [(m.extent, abs(m.src if source else m.dst) * size) for m in x.modes]
    runs = None if listed or swizzles else nested(offset * size, size, digits)
    if runs is not None:
        return runs.units(unit_bytes)
    Most.LISTED.decide(prod(n for n, step in digits if step), f"elements whose bytes are listed, of {x}")
    return _listed(swizzles, offset, size, digits, unit_bytes)


def _listed(
    swizzles: Any, offset: int, size: int, digits: Sequence[tuple[int, int]], unit_bytes: int
) -> Units:
    """The definition: every byte once, and the bytes of every unit."""
    import numpy as np

    places = np.array([offset])
    for extent, step in digits:
        if step:
            places = (places[:, None] + np.arange(extent) * (step // size)).ravel()
    elements = np.unique(swizzles(places) if swizzles else places)
    found = (elements[:, None] * size + np.arange(size)).ravel() // unit_bytes
    _, counts = np.unique(found, return_counts=True)
    return Units(len(counts), int((counts == unit_bytes).sum()))


MATRIX_DTYPES, SIDES = ("f32", "f16", "u8"), (4096, 16384)
"""Square matrices that are timed by default."""

VERIFIED_MATRICES = ((200, 136), (67, 259), (256, 256))
"""The matrices that are verified, with and without tiles that stick out."""

LARGEST = 16384
"""The most rows and columns that a generated kernel takes, by default."""

MOST_CALLED = 1 << 14
"""Extents and leading dimensions of the kernels of calls, so that 32 bits address them."""

COMPARED = 1 << 16
"""The number of results that are compared before a permute with a conversion is timed."""

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


def _without_cp_async(p: Any, nbytes: int, arch: str | Arch) -> family.Candidate:
    """Asynchronous copies, dropped, with the reason; a lane loads `nbytes` at once."""
    chip = find_arch(arch)
    if chip.compute_capability < (8, 0):
        why = f"cp.async is not there on {chip.name}: sm_80 and later have it"
    else:
        why = f"cp.async of {nbytes} bytes, the vectors that {p} allows: 4, 8 and 16 are accepted"
    return family.Candidate("cp.async", UnsupportedError(why))


def _copy_candidates(p: MatrixProblem, arch: str | Arch) -> Iterator[family.Candidate]:
    found = copy_configs(p, arch)
    yield from map(family.Candidate, found)
    if not any(c.via == "cp.async" for c in found):
        yield _without_cp_async(p, found[0].vec * p.element_bytes, arch)


def _transpose_candidates(p: MatrixProblem, arch: str | Arch) -> Iterator[family.Candidate]:
    yield from map(family.Candidate, transpose_configs(p, arch))
    yield from (family.Candidate(f"{m} x {n}", why) for (m, n), why in transpose_refusals(p, arch))


# --- tensors -------------------------------------------------------------------------------------------


def _permuted(
    shape: tuple[int, ...], axes: Any, dtype: str | DType = "f32", **further: Any
) -> PermuteProblem:
    return permute_problem(shape, axes, dtype, **further)


def _permute_candidates(p: PermuteProblem, arch: str | Arch) -> Iterator[family.Candidate]:
    x = normalise(p)
    yield family.Candidate(plan.best(x, arch))
    found = plan.configs(x, arch)
    yield from map(family.Candidate, found[1:])
    yield from (family.Candidate(c, why) for c, why in plan.refusals(x, arch).items())
    staged = [c for c in found if c.way == "staged"]
    if staged and not any(c.via == "cp.async" for c in staged):
        yield _without_cp_async(p, staged[0].chunk * x.element_bytes, arch)


def _further_permutes(p: PermuteProblem, arch: str | Arch) -> Iterator[Any]:
    return plan.further(normalise(p), arch)


def _permute_launches(p: PermuteProblem, c: Any, arch: str | Arch = "sm_90") -> LaunchSequence:
    return launch_sequence([build_permute(normalise(p), c)])


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


def _permute_memory(p: PermuteProblem, c: Any, arch: str | Arch = "sm_90") -> family.Traffic:
    return family.Traffic(*least_bytes(normalise(p), arch))


def _permute_notes(p: PermuteProblem, c: Any, arch: str) -> dict[str, Any]:
    (found,) = sequence_traffic(_permute_launches(p, c, arch), arch=arch)
    ways = {"in": ("ld.global", ":global"), "out": ("st.global",)}
    sectors = {
        f"sectors {way}": sum(cost.total for op, cost in found.items() if any(x in op for x in words))
        for way, words in ways.items()
    }
    moved = {"moved bytes": p.moved_bytes, "memory bytes": sum(_permute_memory(p, c, arch))}
    return {
        **sectors,
        **moved,
        "bound": str(limits(p.moved_bytes, [found], arch)[0]),
        "board": find_board(arch).name,
    }


# --- both ----------------------------------------------------------------------------------------------

Views = Callable[[Any, Mapping[str, Any]], tuple[Any, Any]]


def _tensor_buffers(p: PermuteProblem, trial: str, seed: int) -> dict[str, Any]:
    """Random bits in whole units, as the source and as what the destination held before.

    Of elements that are converted half are numbers of the order of 100, and none is NaN, whose bits a
    conversion leaves open.
    """
    import numpy

    rng = numpy.random.default_rng(seed)
    sides = {"src": (p.source_elems, p.element_bytes), "dst": (p.target_elems, p.result_bytes)}
    made = {
        name: rng.integers(0, 256, in_units(n * width, 1), numpy.uint8).view(CARRIER[width])
        for name, (n, width) in sides.items()
    }
    if p.result:
        near = converted(100 * rng.standard_normal(len(made["src"])).view("u8"), "f64", p.dtype.name)
        wild = numpy.isnan(converted(made["src"], p.dtype.name, "f64").view("f8"))
        made["src"] = numpy.where(wild | (rng.random(len(near)) < 0.5), near, made["src"])
    return made


def _expected(reference: Callable[..., Any], p: Any, c: Any, given: Mapping[str, Any]) -> family.Expected:
    return family.Expected("dst", reference(p, given["src"], given["dst"]))


def _arrays(elems: Callable[[Any], tuple[int, int]], p: Any, n: int) -> dict[str, Any]:
    """Random bits on the GPU, another pair for each n."""
    width = p.element_bytes
    return {
        name: random_bytes(in_units(count * width, 1), 2 * n + side).view(CARRIER[width])
        for side, (name, count) in enumerate(zip(("src", "dst"), elems(p), strict=True))
    }


def _permute_arrays(p: PermuteProblem, n: int) -> dict[str, Any]:
    """The buffers of a dense tensor on the GPU, another pair for each n; numbers of N(0, 1) to convert."""
    elems = prod(p.shape)
    if p.result is None:
        return _arrays(lambda p: (elems, elems), p, n)
    if p.dtype.name in ("f32", "f16", "bf16"):
        src = random_normal(in_units(elems, p.element_bytes), n, p.dtype.name)
    else:
        src = random_bytes(in_units(elems * p.element_bytes, 1), n)
    dst = random_bytes(in_units(elems * p.result_bytes, 1), n)
    return {"src": src.view(CARRIER[p.element_bytes]), "dst": dst.view(CARRIER[p.result_bytes])}


def _copy_of(p: PermuteProblem, arrays: Mapping[str, Any]) -> Launch:
    """The driver's copy of as many bytes as are moved."""
    if p.result is None:
        return device_copy(arrays["dst"], arrays["src"])
    return device_copy(*(random_bytes(p.moved_bytes // 2, side) for side in range(2)))


def _by_torch(p: PermuteProblem, arrays: Mapping[str, Any]) -> Launch | None:
    return torch_assign(*_permute_views(p, arrays), *((p.result.name, p.dtype.name) if p.result else ()))


def _by_cupy(p: PermuteProblem, arrays: Mapping[str, Any]) -> Launch | None:
    """CuPy's assignment, which knows no bf16."""
    if p.result is None:
        return array_assign(*_permute_views(p, arrays))
    target, source = _permute_views(p, arrays)
    kinds = [NUMPY_NAME.get(element.name) for element in (p.result, p.dtype)]
    return None if None in kinds else array_assign(target.view(kinds[0]), source.view(kinds[1]))


def _check_permute(p: PermuteProblem, arrays: Mapping[str, Any], ours: Launch) -> str:
    """Check as `_check` does, but the first converted elements against the definition, NaN aside."""
    if p.result is None:
        return _check(_permute_views, p, arrays, ours)
    import numpy

    target, source = _permute_views(p, arrays)
    ours()
    count = min(COMPARED, prod(p.shape))
    got = to_host(target.ravel()[:count])
    wanted = converted(to_host(source.ravel()[:count]), p.dtype.name, p.result.name)
    nan = [numpy.isnan(converted(x, p.result.name, "f64").view("f8")) for x in (got, wanted)]
    off = (got != wanted) & ~(nan[0] & nan[1])
    return f"{int(off.sum())} of {count} results are not those of the definition" if off.any() else ""


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


def _bench(views: Views, **rest: Any) -> family.Bench:
    return family.Bench(
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
    name: str,
    summary: str,
    build: Any,
    candidates: Any,
    further: Any,
    called: Any = None,
    *,
    turned: bool,
) -> family.Family:
    problem = partial(_matrix, turned=turned)

    cases = family.square_cases(lambda side, dtype: problem(side, side, dtype), MATRIX_DTYPES, SIDES)
    return family.Family(
        name,
        summary,
        problem,
        candidates,
        launches=partial(_matrix_launches, build),
        checks=family.Checks(
            buffers=lambda p, trial, seed: dict(zip(("src", "dst"), buffers(p, seed), strict=True)),
            expected=partial(_expected, reference),
            array_bytes=lambda p: (p.source_elems + p.target_elems) * p.element_bytes,
            verified=tuple({"m": m, "n": n} for m, n in VERIFIED_MATRICES),
        ),
        asks={"m": LARGEST, "n": LARGEST, "lds": None, "ldd": None},
        bench=_bench(_matrix_views, arrays=partial(_arrays, _matrix_elems), cases=cases),
        called=called,
        further=further,
    )


def _dense_bytes(p: PermuteProblem) -> int:
    """Bytes of the arrays.  Raises ShapeError for a tensor with gaps, or an offset."""
    if p.src_offset or p.dst_offset or {p.source_elems, p.target_elems} != {prod(p.shape)}:
        raise ShapeError(f"{p}: tensors without gaps, from the start of their buffers on, are verified")
    return p.source_elems * p.element_bytes + p.target_elems * p.result_bytes


MOVE_FAMILIES = (
    _matrix_family(
        "tiled_copy", "dst[m, n] = src[m, n] with leading dimensions",
        build_copy, _copy_candidates, further_copies, _called_copies, turned=False,
    ),
    _matrix_family(
        "transpose", "dst[n, m] = src[m, n] with leading dimensions",
        build_transpose, _transpose_candidates, further_transposes, turned=True,
    ),
    family.Family(
        "permute",
        "the axes of a tensor in another order",
        _permuted,
        _permute_candidates,
        launches=_permute_launches,
        checks=family.Checks(
            _tensor_buffers,
            partial(_expected, permuted),
            _dense_bytes,
            verified=(
                *({"shape": shape, "axes": axes} for shape, axes in VERIFIED_PERMUTES),
                {"shape": VERIFIED_PERMUTES[0][0], "axes": VERIFIED_PERMUTES[0][1], "result": "f16"},
            ),
        ),
        asks={"shape": family.NEEDED, "axes": family.NEEDED, "result": None},
        bench=family.Bench(
            arrays=_permute_arrays,
            contenders={"copy": _copy_of, "torch": _by_torch, "cupy": _by_cupy},
            check=_check_permute,
            cases=_permute_cases,
            limit="copy",
            notes=_permute_notes,
            pace=lambda p: family.Pace(11, sample_ms=3.0),
        ),
        memory=_permute_memory,
        further=_further_permutes,
    ),
)  # fmt: skip
"""The families of this room."""
