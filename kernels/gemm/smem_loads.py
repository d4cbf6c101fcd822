"""Accesses of a product as counters show them, where that differs from what single accesses cost.

The idea.  A prediction adds up what each instruction costs by itself, and so does the simulator's trace.
Three things differ on the hardware:

    loads of fragments      the compiler makes vectors of them                 `vectorized_loads`
    cp.async of 16 bytes    written line by line of global memory              `copied_lines`
    cp.async of 4 and 8     read from banks and written to banks, both sides   `copied_words`

A program that reads words one by one leaves neighbours of a thread in shared memory side by side: the k of a
row in a tile stored along k, the rows of a run in a tile stored along rows.  Where their loads stand in one
unrolled loop and start at multiples of 16 bytes, the compiler loads four at once. That is fewer instructions,
and other wavefronts: a vector is delivered to groups of 8 lanes.

    one word a lane, rows of 128 bytes     32 lanes in one bank          32 wavefronts a word
    four words a lane                      8 lanes in the same 4 banks   32 wavefronts a vector, 8 a word
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any, Literal

from layoutalg.arch import Arch, find_arch
from layoutalg.codegen.costs import Costs, Prediction
from layoutalg.kernels.gemm import simt, sm80
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_predict import accesses, word_copies
from layoutalg.kernels.gemm.tiles import SimtConfig, Sm80Config, half
from layoutalg.layout import Layout
from layoutalg.model import copied_wavefronts

LANE_BYTES = 16
"""What a lane loads or copies at most."""


def counted(
    p: GemmProblem,
    c: Sm80Config | SimtConfig,
    found: Prediction,
    arch: str | Arch = "sm_90",
    *,
    vectorized: bool = False,
) -> Prediction:
    """A family's prediction with the costs that counters show; `vectorized` where the compiler made vectors.

    Of `copied_words` it has the most.  Raises what the family's prediction raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.sm80_predict import predict
    >>> p, c = gemm_problem(128, 128, 64), Sm80Config(128, 128, 32, 2, 2, 2)
    >>> predict(p, c)["cp.async.16"].total, counted(p, c, predict(p, c))["cp.async.16"].total
    (256, 512)
    """
    totals: Mapping[str, int]
    if isinstance(c, SimtConfig):
        found = vectorized_loads(p, c, arch) if vectorized else found
        totals = {op: most for op, (_, most) in copied_words(p, c).items()}
    else:
        totals = {"cp.async.16": copied_lines(p, c, arch)} if "cp.async.16" in found else {}
    changed = {op: replace(found[op], total=total) for op, total in totals.items()}
    return MappingProxyType({**found, **changed})


def vectorized_loads(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> Prediction:
    """Cost by instruction of a launch that loads fragments 16 bytes at a time where neighbours allow it.

    Raises what `simt_predict.accesses` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.tiles import SIMT_LADDER
    >>> p = gemm_problem(32, 32, 32, "f32", b_major="mn")
    >>> vectorized_loads(p, SIMT_LADDER["v2"][1])["ld.shared.b128"]
    Cost(instructions=256, total=8192, ideal=1024)
    """
    costs, blocks = Costs(arch), (p.m // c.tile_m) * (p.n // c.tile_n)
    vectors = {}
    for name in ("a", "b"):
        found = _vectors(p, c, "a" if name == "a" else "b")
        if found is not None:
            vectors[name] = found
    for (buffer, op), cost in accesses(p, c, arch).items():
        if buffer not in vectors or not op.startswith("ld.shared"):
            costs.add(op, cost)
    for addresses in vectors.values():
        one = Costs(arch)
        lanes = addresses.reshape(-1, 32)
        one.lanes("ld.shared.b128", "shared", lanes, lanes >= 0)
        one.times(p.k // c.tile_k * blocks)
        costs.include(one)
    return costs.prediction()


def _vectors(p: GemmProblem, c: SimtConfig, side: Literal["a", "b"]) -> Any:
    """Byte addresses of a tile's vectors, threads last; None where the program's own loads stay."""
    import numpy as np

    h, size = half(p, c, side), p.operand.nbytes
    words = LANE_BYTES // size
    if h.via == "global" or h.fragment * size == LANE_BYTES:
        return None
    along_k = h.order == "k"
    extent = h.deep if along_k else h.run
    if extent % words or h.pitch * size % LANE_BYTES:
        return None
    held = simt.tiled_mma(p.operand, c).tidfrg("A" if side == "a" else "B", Layout((h.rows, 1)))
    rows = held(np.arange(c.threads), np.arange(0, h.thread, 1 if along_k else words)[:, None])
    steps = np.arange(0, h.deep, words if along_k else 1)
    return h.layout(rows[None], steps[:, None, None]) * size


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
    for side, leading in (("a", p.lda), ("b", p.ldb)):
        plan = sm80.operand_plan(p, c, "a" if side == "a" else "b")
        passes, threads = np.indices((plan.passes, c.threads))
        at = plan.copy.tidfrg("dst", Layout((plan.rows, plan.deep)))(threads, passes * plan.vector)
        row, deep = at % plan.rows, at // plan.rows
        place = row * leading + deep if plan.major == "k" else deep * leading + row
        lines = np.sort(place.reshape(-1, 8) * size // find_arch(arch).line_bytes, axis=1)
        found += int((lines[:, 1:] != lines[:, :-1]).sum()) + len(lines)
    return found * (p.m // c.tile_m) * (p.n // c.tile_n) * (p.k // c.tile_k)
