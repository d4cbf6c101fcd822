"""What a product's loads of fragments cost when the compiler makes vectors of them.

The idea.  A program that reads words one by one leaves neighbours of a thread in shared memory side by side:
the k of a row in a tile stored along k, the rows of a run in a tile stored along rows.  Where their loads
stand in one unrolled loop and start at multiples of 16 bytes, the compiler loads four at once. That is fewer
instructions, and other wavefronts: a vector is served in groups of 8 lanes.

    one word a lane, rows of 128 bytes     32 lanes in one bank          32 wavefronts a word
    four words a lane                      8 lanes in the same 4 banks   32 wavefronts a vector, 8 a word

>>> from layoutalg.kernels.gemm.problem import gemm_problem
>>> from layoutalg.kernels.gemm.simt_plan import LADDER
>>> p = gemm_problem(32, 32, 32, "f32", b_major="mn")
>>> merged_accesses(p, LADDER["v2"][1])["ld.shared.b128"]
Cost(instructions=256, total=8192, ideal=1024)
"""

from __future__ import annotations

from typing import Any

from layoutalg.arch import Arch
from layoutalg.codegen.traffic import Costs, Prediction
from layoutalg.kernels.gemm.problem import GemmProblem
from layoutalg.kernels.gemm.simt_plan import Half, SimtConfig, half, thread_row
from layoutalg.kernels.gemm.simt_predict import accesses

VECTOR_BYTES = 16
"""The widest load of a lane."""


def merged_accesses(p: GemmProblem, c: SimtConfig, arch: str | Arch = "sm_90") -> Prediction:
    """Cost by instruction of a launch that loads fragments 16 bytes at a time where neighbours allow it.

    Raises what `gemm_simt_predict.accesses` raises.

    >>> from layoutalg.kernels.gemm.problem import gemm_problem
    >>> from layoutalg.kernels.gemm.simt_predict import predict
    >>> p, c = gemm_problem(128, 128, 8, "f32", b_major="mn"), SimtConfig(128, 128, 8, 8, 8, 4)
    >>> merged_accesses(p, c) == predict(p, c)
    True
    """
    import numpy as np

    costs = Costs(arch)
    blocks, size = (p.m // c.tile_m) * (p.n // c.tile_n), p.operand.nbytes
    tid = np.arange(c.threads)
    merged = {}
    for name, own in zip(("a", "b"), c.owner(tid), strict=True):
        h = half(p, c, "a" if name == "a" else "b")
        if (found := _vectors(h, own + 0 * tid, size)) is not None:
            merged[name] = found
    for (buffer, op), cost in accesses(p, c, arch).items():
        if buffer not in merged or not op.startswith("ld.shared"):
            costs.add(op, cost)
    for addresses in merged.values():
        one = Costs(arch)
        lanes = addresses.reshape(-1, 32)
        one.lanes("ld.shared.b128", "shared", lanes, lanes >= 0)
        one.times(p.k // c.tile_k * blocks)
        costs.include(one)
    return costs.prediction()


def _vectors(h: Half, own: Any, size: int) -> Any:
    """Byte addresses of a tile's vectors, threads last; None where the program's own loads stay."""
    import numpy as np

    words = VECTOR_BYTES // size
    if h.via == "global" or h.fragment * size == VECTOR_BYTES:
        return None
    along_k = h.order == "k"
    extent = h.deep if along_k else h.run
    if extent % words or h.pitch * size % VECTOR_BYTES:
        return None
    rows = own + thread_row(h, np.arange(0, h.thread, 1 if along_k else words))[:, None]
    steps = np.arange(0, h.deep, words if along_k else 1)
    return h.layout(rows[None], steps[:, None, None]) * size
