"""Accesses of a product as the hardware serves them, where that differs from what single accesses cost.

The idea.  A prediction adds up what each instruction costs by itself, and so does the simulator's trace.
Three things are served otherwise, and counters show it:

    loads of fragments      the compiler makes vectors of them                 gemm_merged
    cp.async of 16 bytes    written line by line of global memory              `copied_lines`
    cp.async of 4 and 8     read from banks and written to banks, both sides   `copied_words`

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.simt_predict import predict
    >>> p, c = gemm_problem(128, 256, 64, "f32", b_major="mn"), SimtConfig(128, 256, 8, 16, 8, 4)
    >>> predict(p, c)["cp.async.4"], served(p, c, predict(p, c))["cp.async.4"]
    (Cost(instructions=256, total=1024, ideal=1024), Cost(instructions=256, total=1024, ideal=1024))
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.traffic import Prediction
from layoutalg.kernels.gemm.merged import merged_accesses
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_plan import SimtConfig
from layoutalg.kernels.gemm.simt_predict import word_copies
from layoutalg.kernels.gemm.sm80_plan import Sm80Config, copy_tv
from layoutalg.model import copied_wavefronts

LANE_BYTES = 16
"""What a lane copies at most."""


def served(
    p: GemmProblem,
    c: Sm80Config | SimtConfig,
    accesses: Prediction,
    arch: str | Arch = "sm_90",
    *,
    merged: bool = False,
) -> Prediction:
    """A family's prediction with the costs that counters show; `merged` where the compiler made vectors.

    Of `copied_words` it has the most.  Raises what the family's prediction raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.sm80_predict import predict
    >>> p, c = gemm_problem(128, 128, 64), Sm80Config(128, 128, 32, 2, 2, 2)
    >>> predict(p, c)["cp.async.16"].total, served(p, c, predict(p, c))["cp.async.16"].total
    (256, 512)
    """
    totals: Mapping[str, int]
    if isinstance(c, SimtConfig):
        accesses = merged_accesses(p, c, arch) if merged else accesses
        totals = {op: most for op, (_, most) in copied_words(p, c).items()}
    else:
        totals = {"cp.async.16": copied_lines(p, c, arch)} if "cp.async.16" in accesses else {}
    changed = {op: replace(accesses[op], total=total) for op, total in totals.items()}
    return MappingProxyType({**accesses, **changed})


def copied_words(p: GemmProblem, c: SimtConfig) -> Mapping[str, tuple[int, int]]:
    """The least and the most wavefronts that copies of 4 and 8 bytes take of shared memory, by instruction.

    Eight k of four rows are copied at once; rows lie lines apart, so that their words share banks four ways.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> copied_words(gemm_problem(128, 256, 64, "f32", b_major="mn"), SimtConfig(128, 256, 8, 16, 8, 4))
    {'cp.async.4': (1024, 1024)}
    """
    found: dict[str, tuple[int, int]] = {}
    for nbytes, source, target, times in word_copies(p, c):
        least, most = copied_wavefronts(source, target, target >= 0, nbytes)
        before = found.get(f"cp.async.{nbytes}", (0, 0))
        found[f"cp.async.{nbytes}"] = (
            before[0] + int(least.sum()) * times,
            before[1] + int(most.sum()) * times,
        )
    return found


def copied_lines(p: GemmProblem, c: Sm80Config, arch: str | Arch = "sm_90") -> int:
    """Wavefronts that copies of 16 bytes past the L1 take of shared memory: they are written line by line.

    Groups of 8 lanes write 128 bytes at once if these come from one line of global memory, and one wavefront
    a line otherwise: rows of 64 bytes cost twice what rows of 128 do.  Counted on an H200 for rows that start
    at sectors, whose neighbouring lanes copy the halves of a sector.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> p = gemm_problem(128, 128, 64)
    >>> [copied_lines(p, Sm80Config(128, 128, k, 2, 2, 2)) for k in (32, 64)]
    [512, 256]
    """
    import numpy as np

    size, found = p.operand.nbytes, 0
    for rows, major, leading in ((c.tile_m, p.a_major, p.lda), (c.tile_n, p.b_major, p.ldb)):
        tv = copy_tv(rows, c.tile_k, major, LANE_BYTES // size, c.threads)
        passes, threads = np.indices((rows * c.tile_k * size // (LANE_BYTES * c.threads), c.threads))
        at = tv(threads, 0, passes)
        row, deep = at % rows, at // rows
        place = row * leading + deep if major == "k" else deep * leading + row
        lines = np.sort(place.reshape(-1, 8) * size // find_arch(arch).line_bytes, axis=1)
        found += int((lines[:, 1:] != lines[:, :-1]).sum()) + len(lines)
    return found * (p.m // c.tile_m) * (p.n // c.tile_n) * (p.k // c.tile_k)
