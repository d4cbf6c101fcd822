"""The instruction table: for every memory instruction its width, its phase groups and its merge rules.

The idea.  One pass over the banks serves at most banks * bank_bytes bytes (128 on every NVIDIA GPU), so a
warp of wide lanes is served in groups: 32 lanes of up to 4 bytes, 16 of 8, 8 of 16.  The rest of the rules
are exceptions to that, each a column of the table:

    loads of 8 and 16 bytes   neighbours that read the same address merge two groups into one
    ldmatrix, stmatrix        8 row addresses of 16 bytes per matrix; .xN takes them from 8 N lanes
    red.shared                no broadcast: lanes on one word take turns
    cp.async 4 and 8 bytes    no broadcast on the shared side, and the counter adds 3

Names are PTX's with the parts that do not matter left out: `ld.shared.b128` is any 16-byte load a lane,
`ld.shared.v4.f32` included.  `cp.async.16` is the shared side of that instruction, `cp.async.16:global`
the other one.

Sources.  Shared memory on sm_90: counted on an H200 with Nsight Compute 2025.3
(l1tex__data_pipe_lsu_wavefronts_mem_shared_op_{ld,st}.sum, one warp and one instruction per launch);
tests/data/h200_wavefronts.jsonl holds the rows that carry the mark "measured" here.  Sectors: the same
counts, and CUDA C++ Best Practices Guide, "Coalesced Access to Global Memory".  Which instruction exists
where: PTX ISA, sections ldmatrix (sm_75), cp.async (sm_80), stmatrix (sm_90), ld and st of 32 bytes per lane
(sm_100, PTX ISA 8.8: .v8 of 32 bits and .v4 of 64, in global memory alone).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType

from layoutalg.arch.model import Instruction, Provenance, Space

_H200 = "counted on an H200, Nsight Compute 2025.3; tests/data/h200_wavefronts.jsonl"
_ASSUMED = "carried over from the rule counted on sm_90"
_BEST_PRACTICES = "CUDA C++ Best Practices Guide, Coalesced Access to Global Memory"
_CP_ASYNC_16 = "the LSU wavefront counters do not see it; it is taken as st.shared.b128, counted on sm_90"
_TRANSPOSED = "its row addresses are served as those of {}, counted on sm_90; .trans acts in registers"

_WIDTHS_BYTES = {"b8": 1, "b16": 2, "b32": 4, "b64": 8, "b128": 16}


def instruction_table(
    *,
    lanes: int = 32,
    banks: int = 32,
    bank_bytes: int = 4,
    matrix_loads: bool = False,
    matrix_stores: bool = False,
    async_copies: bool = False,
    wide_vectors: bool = False,
    measured: bool = False,
) -> Mapping[str, Instruction]:
    """Every instruction of a machine with `lanes` lanes and `banks` banks of `bank_bytes` bytes.

    The flags add ldmatrix, stmatrix, cp.async, and vectors of 32 bytes in global memory; a lane wider than
    all banks together has no instruction.
    `measured` marks the rules that the repository's own measurements cover; otherwise shared rules are
    "assumed", each with the counted rule that it is taken from as its source, and global ones "documented".
    A read-only mapping by name.

    >>> toy = instruction_table(lanes=4, banks=4)
    >>> toy["ld.shared.b32"].group_lanes, toy["ld.shared.b64"].group_lanes
    (4, 2)
    """
    table: dict[str, Instruction] = {}

    def add(name: str, space: Space, width_bytes: int, **rules: object) -> None:
        provenance: Provenance = "documented" if space == "global" else "assumed"
        source = _BEST_PRACTICES if space == "global" else _ASSUMED
        if measured:
            provenance, source = "measured", _H200
        group_lanes = lanes
        if space == "shared":
            group_lanes = max(1, min(lanes, banks * bank_bytes // max(width_bytes, bank_bytes)))
        plain = Instruction(
            name, space, width_bytes, lanes, group_lanes, provenance=provenance, source=source
        )
        table[name] = replace(plain, **rules)  # type: ignore[arg-type]

    for suffix, width_bytes in _WIDTHS_BYTES.items():
        if width_bytes > banks * bank_bytes:
            continue
        merge_xor = (1, 2) if width_bytes > bank_bytes else ()
        add(f"ld.shared.{suffix}", "shared", width_bytes, merge_xor=merge_xor)
        add(f"st.shared.{suffix}", "shared", width_bytes)
        add(f"ld.global.{suffix}", "global", width_bytes)
        add(f"st.global.{suffix}", "global", width_bytes)
    for kind in ("ld", "st") if wide_vectors else ():
        add(f"{kind}.global.b256", "global", 32)
    add("red.shared.u32", "shared", 4, broadcast=False)
    for mnemonic, present in (("ldmatrix", matrix_loads), ("stmatrix", matrix_stores)):
        for count in (1, 2, 4) if present else ():
            name = f"{mnemonic}.x{count}"
            add(name, "shared", 16, lanes=8 * count, matrices=count)
            mark = {"provenance": "assumed", "source": _TRANSPOSED.format(name)}
            if name == "ldmatrix.x4":  # counted in this form too
                mark = {}
            add(f"{name}.trans", "shared", 16, lanes=8 * count, matrices=count, **mark)
    if async_copies:
        for width_bytes in (4, 8):
            add(f"cp.async.{width_bytes}", "shared", width_bytes, broadcast=False, counter_bias=3)
        add("cp.async.16", "shared", 16, provenance="assumed", source=_CP_ASYNC_16)
        for width_bytes in (4, 8, 16):
            mark = {"provenance": "documented", "source": _BEST_PRACTICES}
            add(f"cp.async.{width_bytes}:global", "global", width_bytes, **mark)
    return MappingProxyType(table)


INSTRUCTIONS: Mapping[str, Instruction] = instruction_table(
    matrix_loads=True, matrix_stores=True, async_copies=True, wide_vectors=True
)
"""Every instruction name the library knows, with the rules of a 32-lane, 32-bank machine; read only."""
