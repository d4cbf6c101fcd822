"""Hardware counters of launches that are predicted to the unit, by names of ours."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain, repeat
from types import MappingProxyType

from layoutalg.arch import DEFAULT_ARCH, Arch
from layoutalg.codegen.costs.compiling import UNREAD, Code, compiled
from layoutalg.codegen.costs.cost import total_costs
from layoutalg.codegen.costs.count import copied, traffic
from layoutalg.codegen.program import LaunchSequence
from layoutalg.model import tag_sectors

BYTES_READ = "bytes read"

COUNTERS: Mapping[str, str] = MappingProxyType(
    {
        "sectors loaded": "l1tex__t_sectors_pipe_lsu_mem_global_op_ld.sum",
        "sectors stored": "l1tex__t_sectors_pipe_lsu_mem_global_op_st.sum",
        "wavefronts loaded": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_ld.sum",
        "wavefronts stored": "l1tex__data_pipe_lsu_wavefronts_mem_shared_op_st.sum",
        BYTES_READ: "dram__bytes_read.sum",
    }
)
"""The profiler's metric of each counter; bytes that memory reads are those of a launch on empty caches."""

BESIDE_BYTES = 2304
"""Bytes that memory reads for a launch on empty caches beside its data and its machine code: parameters and
constants; on an H200 2,080 to 3,292 in 28 launches, 7,344 in one of gemm-sm90 (2026-12-01, seed 936000)."""

BYTES_SHARE, BYTES_MORE = 0.02, 6144
"""The most by which bytes that memory reads may differ from the prediction, as a share of it and in bytes:
maps of tensors, and what is read ahead."""

ISSUED: Mapping[str, tuple[str, ...]] = MappingProxyType(
    {
        f"wavefronts {what}": tuple(
            f"smsp__sass_l1tex_data_pipe_lsu_wavefronts_mem_shared_op_{op}.sum" for op in ops
        )
        for what, ops in (("loaded", ("ld", "ldsm")), ("stored", ("st", "stsm")))
    }
)
"""The metrics of wavefronts by the addresses of instructions, to be added: without replays.

A wavefront of a thread's access that meets other traffic, such as data that arrives in shared memory, is done
again, and the pipe counts it again: on an H200 as often as it counted bank conflicts
(`l1tex__data_bank_conflicts_pipe_lsu_mem_shared_op_ld` and `_st`) in 14 of 14 products by gemm-sm90
(2026-12-01, seed 934000)."""

_BEGIN = {
    "sectors loaded": ("ld.global", "cp.async.4:", "cp.async.8:"),
    "sectors stored": ("st.global",),
    "wavefronts loaded": ("ld.shared", "ldmatrix"),
    "wavefronts stored": ("st.shared", "stmatrix"),
}
"""The beginnings of the names of instructions that a counter counts."""


def is_counter(name: str, predicted: int, counted: int, unrun: int = 0) -> bool:
    """True where a count is as predicted: equal, or near for bytes of memory, or less by no more than the
    `unrun` bytes of machine code, of which a launch reads what it runs.

    >>> is_counter("sectors loaded", 128, 129), is_counter(BYTES_READ, 1 << 20, (1 << 20) + 20000)
    (False, True)
    """
    most = BYTES_SHARE * predicted + BYTES_MORE if name == BYTES_READ else 0
    return -(most and most + unrun) <= counted - predicted <= most


def predicted_counters(
    sequence: LaunchSequence,
    scalars: Mapping[str, int],
    arch: str | Arch = DEFAULT_ARCH,
    code: Iterable[Code] = (),
) -> dict[str, int]:
    """The counters of all launches of a sequence together, by the names of COUNTERS; `code` are the
    accesses of each kernel's machine code, see `compiled`: without it those of the program are counted.

    Raises as `traffic` does.

    >>> from layoutalg.codegen.program import launch_sequence
    >>> predicted_counters(launch_sequence([]), {})["sectors loaded"]
    0
    """
    known = {**dict(sequence.scalars), **scalars}
    left = map(compiled, sequence.kernels, chain(code, repeat(UNREAD)))
    costs = total_costs(traffic(kernel, known, arch) for kernel in left)
    sums = {
        name: sum(cost.total for op, cost in costs.items() if op.startswith(begin))
        for name, begin in _BEGIN.items()
    }
    sums["sectors loaded"] += sum(copied(k, known, 16, tag_sectors, arch) for k in sequence.kernels)
    return sums
