"""The families that move data, as records: tiled_copy, transpose, permute.

The least that memory moves for a permute in any order is the units that both sides touch, each once.  A
tile's rows share units with other rows, which may ask the L2 twice, and memory too.  No order asks memory for
less than the union: every half line that holds an element of the source is read, every sector that holds one
of the destination is written, and one that the destination fills in part is read before.

    100 rows of 24 f32, 100 bytes apart      read 100 to 200 half lines, written 4 sectors of each, 1 in part

The union is in closed form where strides are nested (`analysis.touched_by`), and listed otherwise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import lru_cache, partial
from math import prod
from typing import Any

import numpy as np

from layoutalg.analysis import Units, nested
from layoutalg.arch import DEFAULT_ARCH, DRAM_RULES, Arch, find_arch
from layoutalg.codegen.program import Kernel, LaunchSequence, launch_sequence
from layoutalg.errors import UnsupportedError
from layoutalg.kernels import family
from layoutalg.kernels.matrix import MatrixProblem, matrix_problem
from layoutalg.kernels.model import Clock, accesses_clock
from layoutalg.kernels.move import matrix_plan, plan
from layoutalg.kernels.move.matrix import build_copy, build_transpose
from layoutalg.kernels.move.permute import build as build_permute
from layoutalg.kernels.move.problem import Moves, PermuteProblem, normalise, permute_problem
from layoutalg.limits import Most


def least_bytes(x: Moves, arch: str | Arch = DEFAULT_ARCH, *, listed: bool = False) -> family.Traffic:
    """Return the least bytes that memory moves; with `listed` by the definition, up to Most.LISTED elements.

    Raises UnsupportedError for an architecture whose units of memory were not counted, UndecidedError where
    bytes have to be listed and are too many.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> least_bytes(normalise(permute_problem((997, 999), (1, 0), "f32")))
    Traffic(read=3984096, written=3984032)
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
    return family.Traffic(read + merged, written)


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
    places = np.array([offset])
    for extent, step in digits:
        if step:
            places = (places[:, None] + np.arange(extent) * (step // size)).ravel()
    elements = np.unique(swizzles(places) if swizzles else places)
    found = (elements[:, None] * size + np.arange(size)).ravel() // unit_bytes
    _, counts = np.unique(found, return_counts=True)
    return Units(len(counts), int((counts == unit_bytes).sum()))


LARGEST = 16384
"""The most rows and columns that a generated kernel takes, by default."""

MOST_CALLED = 1 << 14
"""Extents and leading dimensions of the kernels of calls, so that 32 bits address them."""


# --- matrices ------------------------------------------------------------------------------------------


def _matrix_launches(
    build: Callable[..., Any], p: MatrixProblem, c: Any, arch: str | Arch = DEFAULT_ARCH
) -> LaunchSequence:
    return _matrix_sequence(build(p, c), p)


def _matrix_sequence(kernel: Kernel, p: MatrixProblem) -> LaunchSequence:
    return launch_sequence([kernel], scalars={"m": p.m, "n": p.n, "lds": p.lds, "ldd": p.ldd})


def _called_copies(p: MatrixProblem, c: Any, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    """The launches for a call on arrays, by a kernel for all sizes that 32 bits address, or for all."""
    largest = max(p.m, p.n, p.lds, p.ldd)
    most = MOST_CALLED if largest <= MOST_CALLED else MOST_CALLED << 16
    return _matrix_sequence(_called_copy(replace(p, m=most, n=most, lds=most, ldd=most), c), p)


_called_copy = lru_cache(maxsize=64)(build_copy)


def _without_cp_async(p: Any, nbytes: int, arch: str | Arch) -> family.Candidate:
    """Asynchronous copies, dropped, with the reason; a lane loads `nbytes` at once."""
    chip = find_arch(arch)
    if chip.compute_capability < (8, 0):
        why = f"cp.async is not there on {chip.name}: sm_80 and later have it"
    else:
        why = f"cp.async of {nbytes} bytes, the vectors that {p} allows: 4, 8 and 16 are accepted"
    return family.Candidate("cp.async", UnsupportedError(why))


def _copy_candidates(p: MatrixProblem, arch: str | Arch) -> Iterator[family.Candidate]:
    found = matrix_plan.copy_configs(p, arch)
    yield from map(family.Candidate, found)
    if not any(c.via == "cp.async" for c in found):
        yield _without_cp_async(p, found[0].vec * p.element_bytes, arch)


def _transpose_candidates(p: MatrixProblem, arch: str | Arch) -> Iterator[family.Candidate]:
    yield from map(family.Candidate, matrix_plan.transpose_configs(p, arch))
    yield from (
        family.Candidate(f"{m} x {n}", why) for (m, n), why in matrix_plan.transpose_refusals(p, arch)
    )


# --- tensors -------------------------------------------------------------------------------------------


def _permute_candidates(p: PermuteProblem, arch: str | Arch) -> Iterator[family.Candidate]:
    x = normalise(p)
    yield family.Candidate(plan.first(x, arch))
    found = plan.configs(x, arch)
    yield from map(family.Candidate, found[1:])
    yield from (family.Candidate(c, why) for c, why in plan.refusals(x, arch).items())
    staged = [c for c in found if c.way == "staged"]
    if staged and not any(c.via == "cp.async" for c in staged):
        yield _without_cp_async(p, staged[0].chunk * x.element_bytes, arch)


def _permute_launches(p: PermuteProblem, c: Any, arch: str | Arch = DEFAULT_ARCH) -> LaunchSequence:
    return launch_sequence([build_permute(normalise(p), c)])


def _permute_clock(p: PermuteProblem, c: Any, arch: str | Arch) -> Clock:
    if c.way == "staged":
        return plan.clock_of(normalise(p), c, arch)
    return accesses_clock(_permute_launches(p, c), {}, arch)


# --- the records ---------------------------------------------------------------------------------------


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
    return family.Family(
        name,
        summary,
        partial(matrix_problem, turned=turned),
        candidates,
        launches=partial(_matrix_launches, build),
        asks={"m": LARGEST, "n": LARGEST, "lds": None, "ldd": None},
        called=called,
        further=further,
    )


MOVE_FAMILIES = (
    _matrix_family(
        "tiled_copy", "dst[m, n] = src[m, n] with leading dimensions",
        build_copy, _copy_candidates, matrix_plan.further_copies, _called_copies, turned=False,
    ),
    _matrix_family(
        "transpose", "dst[n, m] = src[m, n] with leading dimensions",
        build_transpose, _transpose_candidates, matrix_plan.further_transposes, turned=True,
    ),
    family.Family(
        "permute",
        "the axes of a tensor in another order",
        permute_problem,
        _permute_candidates,
        launches=_permute_launches,
        asks={"shape": family.NEEDED, "axes": family.NEEDED, "result": None},
        memory=lambda p, c, arch: least_bytes(normalise(p), arch),
        clock=_permute_clock,
        further=lambda p, arch: plan.further(normalise(p), arch),
    ),
)  # fmt: skip
"""The families of this room."""
