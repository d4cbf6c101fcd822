"""Accesses of a product as counters show them, where that differs from what single accesses cost.

The idea.  The traffic of a program adds up what each instruction costs by itself, and so does the simulator's
trace.  Four things differ on the hardware:

    loads of fragments      the compiler makes vectors of them                 `vectorized_loads`
    cp.async of 16 bytes    written line by line of global memory              `copied_lines`
    cp.async of 4 and 8     read from banks and written to banks, both sides   `copied_words`
    cp.async of 16 bytes    sectors are counted where they are written         `tag_sectors` of the model

A program that reads words one by one leaves neighbours of a thread in shared memory side by side: the k of a
row in a tile stored along k, the rows of a run in a tile stored along rows.  Where their loads are in one
unrolled loop and start at multiples of 16 bytes, the compiler loads four at once. That is fewer instructions,
and other wavefronts: a vector is delivered to groups of 8 lanes.

    one word per lane, rows of 128 bytes   32 lanes in one bank          32 wavefronts per word
    four words per lane                    8 lanes in the same 4 banks   32 wavefronts per vector, 8 per word
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from layoutalg.arch import DEFAULT_ARCH, Arch, find_arch
from layoutalg.codegen.costs import Costs, Prediction, copied, traffic, traffic_by_access
from layoutalg.codegen.program import Kernel
from layoutalg.kernels.gemm import GemmProblem
from layoutalg.kernels.ladder.sgemm import Part, Sgemm, parts, reading, tile_layout
from layoutalg.layout import Layout
from layoutalg.model import copied_wavefronts, tag_sectors

LANE_BYTES, LANE_WORDS = 16, 4
"""The most that a lane loads or copies."""


def counted(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH) -> Prediction:
    """The traffic of a launch, with sectors of copies as the L1 counts them, and the most that they take of
    shared memory.

    Raises as `codegen.costs.traffic` does.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> sm80, steps = find_family("gemm-sm80"), find_steps("gemm-sm80")
    >>> one = sm80.launches(sm80.problem(256), steps["7 cp.async ring, mma k16"], "sm_90")
    >>> params = {**dict(one.scalars), "alpha": 1}
    >>> traffic(*one.kernels, params)["cp.async.16"].total, counted(*one.kernels, params)["cp.async.16"].total
    (3072, 6144)
    """
    return _as_copied(traffic(kernel, params, arch), kernel, params, arch)


def _as_copied(found: Prediction, kernel: Kernel, params: Mapping[str, int], arch: str | Arch) -> Prediction:
    totals = {op: most for op, (_, most) in copied_words(kernel, params, arch).items()}
    if "cp.async.16" in found:
        totals["cp.async.16"] = copied_lines(kernel, params, arch)
        totals["cp.async.16:global"] = copied(kernel, params, LANE_BYTES, tag_sectors, arch)
    changed = {op: replace(found[op], total=total) for op, total in totals.items()}
    return MappingProxyType({**found, **changed})


def copied_words(
    kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH
) -> Mapping[str, tuple[int, int]]:
    """The least and the most wavefronts that copies of 4 and 8 bytes take of shared memory, by instruction.

    Only what is executed is listed.  Raises as `codegen.costs.traffic` does.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> simt = find_family("gemm-simt")
    >>> one = simt.launches(simt.problem(256), find_steps("gemm-simt")["wide"], "sm_90")
    >>> copied_words(*one.kernels, {**dict(one.scalars), "alpha": 1})
    {'cp.async.4': (8192, 8192)}
    """

    def total(nbytes: int, which: int) -> int:
        def wavefronts(source: Any, target: Any, active: Any) -> Any:
            return copied_wavefronts(source, target, active, nbytes)[which]

        return copied(kernel, params, nbytes, wavefronts, arch)

    found = {f"cp.async.{nbytes}": (total(nbytes, 0), total(nbytes, 1)) for nbytes in (4, 8)}
    return {op: bounds for op, bounds in found.items() if bounds[1]}


def copied_lines(kernel: Kernel, params: Mapping[str, int], arch: str | Arch = DEFAULT_ARCH) -> int:
    """Wavefronts that copies of 16 bytes past the L1 take of shared memory: they are written line by line.

    Groups of 8 lanes write 128 bytes at once if these come from one line of global memory, and one wavefront
    a line otherwise: rows of 64 bytes cost twice what rows of 128 do.  Counted on an H200 for rows that start
    at sectors, whose neighbouring lanes copy the halves of a sector.  Raises as `codegen.costs.traffic` does.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> sm80, steps = find_family("gemm-sm80"), find_steps("gemm-sm80")
    >>> for step in ("7 cp.async ring, mma k16", "8 two fragments, tile 128x256x64"):
    ...     one = sm80.launches(sm80.problem(256), steps[step], "sm_90")
    ...     print(copied_lines(*one.kernels, {**dict(one.scalars), "alpha": 1}))
    6144
    3072
    """
    line, group = find_arch(arch).line_bytes, find_arch(arch).line_bytes // LANE_BYTES

    def lines(source: Any, target: Any, active: Any) -> Any:
        import numpy as np

        nowhere = np.iinfo(np.int64).max
        at = np.where(active, source // line, nowhere).reshape(len(source), -1, group)
        at.sort(axis=2)
        first = np.ones_like(at, dtype=bool)
        first[:, :, 1:] = at[:, :, 1:] != at[:, :, :-1]
        return (first & (at != nowhere)).sum(axis=(1, 2))

    return copied(kernel, params, LANE_BYTES, lines, arch)


def vectorized_loads(
    p: GemmProblem,
    c: Sgemm,
    kernel: Kernel,
    params: Mapping[str, int],
    arch: str | Arch = DEFAULT_ARCH,
    stored: Kernel | None = None,
) -> Prediction:
    """The same as `counted` for a launch on whole tiles whose fragments are loaded 16 bytes at a time where
    neighbours allow it; tiles are stored as by the kernel `stored`, if it is not None.

    >>> from layoutalg.kernels.registry import find_family, find_steps
    >>> simt = find_family("gemm-simt")
    >>> p, c = simt.problem(32), find_steps("gemm-simt")["v2"]
    >>> one = simt.launches(p, c, "sm_90")
    >>> vectorized_loads(p, c, *one.kernels, {**dict(one.scalars), "alpha": 1})["ld.shared.b128"]
    Cost(instructions=512, total=8704, ideal=1536)
    """
    vectors = {f"tile_{part.name}": _vectors(c, part) for part in parts(p, c)}
    costs = Costs(arch)
    for access in traffic_by_access(kernel, params, arch):
        loaded = access.op.startswith("ld.shared") and vectors.get(access.buffer) is not None
        other = access.op.startswith("st.shared") and stored is not None
        if access.cost.instructions and not loaded and not other:
            costs.add(access.op, access.cost)
    for access in traffic_by_access(stored, params, arch) if stored is not None else ():
        if access.cost.instructions and access.op.startswith("st.shared"):
            costs.add(access.op, access.cost)
    blocks = (p.m // c.tile_m) * (p.n // c.tile_n) * p.products
    for addresses in vectors.values():
        if addresses is not None:
            lanes = addresses.reshape(-1, 32)
            costs.lanes("ld.shared.b128", "shared", lanes, lanes >= 0, p.k // c.tile_k * blocks)
    return _as_copied(costs.prediction(), kernel, params, arch)


def _vectors(c: Sgemm, part: Part) -> Any:
    """Byte addresses of a tile's vectors, threads last; None where the program's own loads stay."""
    import numpy as np

    layout, along_k = tile_layout(c, part), c.order == "k"
    if not c.shared or min(c.fragment, part.own) == LANE_WORDS:
        return None
    if (c.tile_k if along_k else part.own) % LANE_WORDS or max(layout(1, 0), layout(0, 1)) % LANE_WORDS:
        return None
    held = reading(c, part).tidfrg("src", Layout((part.rows, 1)))
    rows = held(np.arange(c.threads), np.arange(0, part.own, 1 if along_k else LANE_WORDS)[:, None])
    steps = np.arange(0, c.tile_k, LANE_WORDS if along_k else 1)
    return layout(rows[None], steps[:, None, None]) * LANE_BYTES // LANE_WORDS
