"""TMA: one thread starts the copy of a box between a tensor in global memory and shared memory.

The idea.  A tensor map says what the tensor and the box are (see program.TensorMapParam); the copy says where
in the tensor the box starts, innermost coordinate first, and where it lies in shared memory:

    TMA_LOAD[2](tile, map, full[s], k0, m0)   writes the box, then completes its bytes at the barrier
    TMA_STORE[2](map, tile, n0, m0)           reads the box; belongs to a bulk group
    BULK_COMMIT                               closes the group of the stores started since the last one
    BULK_WAIT_READ(n), BULK_WAIT(n)           until at most the n newest groups of this thread have yet to
                                              read shared memory, or to be written

In a load, elements outside the tensor are zeros; the barrier gets the bytes of the whole box all the same.
In a store they are left out.  TMA_LOAD_MULTICAST writes the box at the same place of every block of the
cluster whose bit is set, and completes at the barrier of the same place in each.  A load of
TMA_LOAD_EVICT_FIRST or _EVICT_LAST tells the L2 how long to keep what it reads.

Notes.  Every thread that executes a copy starts one: one thread of a warp does.

Sources: PTX ISA 9.0, 9.7.9.27.1.2 (cp.async.bulk.tensor), 9.7.9.25.5 (cp.async.bulk.commit_group,
wait_group); the policies: CUTLASS, include/cute/arch/copy_sm90_desc.hpp, TMA::CacheHintSm90.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr.record import Instr, Requires, barrier, imm, place, tensor_map, value
from layoutalg.codegen.instr.sm90.mbarrier import ADDRESS, SM_90

RANKS = (1, 2, 3, 4, 5)
"""Dimensions of a tensor map."""

BOX_ALIGN_BYTES = 128
"""The number of bytes that the start of a box in shared memory is a multiple of."""

_POLICY = {"": "", "evict_first": "0x12F0000000000000ull", "evict_last": "0x14F0000000000000ull"}


def _load_effect(machine: Any, group: Any, box: Any, tensor: Any, bar: Any, *rest: Any) -> None:
    machine.tma.load(group, box, tensor, bar, rest)


def _multicast_effect(
    machine: Any, group: Any, box: Any, tensor: Any, bar: Any, mask: Any, *rest: Any
) -> None:
    machine.tma.load(group, box, tensor, bar, rest, mask)


def _store_effect(machine: Any, group: Any, tensor: Any, box: Any, *rest: Any) -> None:
    machine.tma.store(group, box, tensor, rest)


def _load(rank: int, hint: str = "", *, multicast: bool = False) -> Instr:
    name = f"tma_load_{rank}d{'_multicast' if multicast else ''}{f'_{hint}' if hint else ''}"
    crd = [f"c{i}" for i in range(rank)]
    ptx = f"cp.async.bulk.tensor.{rank}d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    inputs = ['"r"(shared_address(box))', '"l"(map)', '"r"(shared_address(bar))']
    inputs += [f'"r"({c})' for c in crd]
    places = f"[%0], [%1, {{{', '.join(f'%{3 + i}' for i in range(rank))}}}], [%2]"
    if multicast:
        ptx += ".multicast::cluster"
        places += f", %{len(inputs)}"
        inputs.append('"h"(static_cast<unsigned short>(blocks))')
    if hint:
        ptx += ".L2::cache_hint"
        places += f", %{len(inputs)}"
        inputs.append(f'"l"({_POLICY[hint]})')
    parameters = ["void* box", "const TensorMap* map", "u64* bar", *(["u32 blocks"] if multicast else [])]
    text = (
        f"void {name}({', '.join([*parameters, *(f'u32 {c}' for c in crd)])}) {{\n"
        f'    asm volatile("{ptx}"\n'
        f'        " {places};"\n'
        f'        :: {", ".join(inputs)} : "memory");\n'
        "}"
    )
    operands = [place("box", BOX_ALIGN_BYTES, "cp.async.bulk.tensor:load"), tensor_map("map"), barrier("bar")]
    if multicast:
        operands.append(value("blocks"))
    effect = _multicast_effect if multicast else _load_effect
    operands += [value(c) for c in crd]
    return Instr(name, tuple(operands), text, effect, SM_90, engine="tma", uses=(ADDRESS,))


def _store(rank: int) -> Instr:
    name, crd = f"tma_store_{rank}d", [f"c{i}" for i in range(rank)]
    places = f"[%0, {{{', '.join(f'%{2 + i}' for i in range(rank))}}}], [%1]"
    inputs = ['"l"(map)', '"r"(shared_address(box))', *(f'"r"({c})' for c in crd)]
    parameters = ["const TensorMap* map", "const void* box", *(f"u32 {c}" for c in crd)]
    text = (
        f"void {name}({', '.join(parameters)}) {{\n"
        f'    asm volatile("cp.async.bulk.tensor.{rank}d.global.shared::cta.tile.bulk_group"\n'
        f'        " {places};"\n'
        f'        :: {", ".join(inputs)} : "memory");\n'
        "}"
    )
    operands = (
        tensor_map("map"),
        place("box", BOX_ALIGN_BYTES, "cp.async.bulk.tensor:store"),
        *(value(c) for c in crd),
    )
    return Instr(name, operands, text, _store_effect, SM_90, engine="bulk", uses=(ADDRESS,))


TMA_LOAD: Mapping[int, Instr] = MappingProxyType({rank: _load(rank) for rank in RANKS})
TMA_LOAD_EVICT_FIRST: Mapping[int, Instr] = MappingProxyType({r: _load(r, "evict_first") for r in RANKS})
TMA_LOAD_EVICT_LAST: Mapping[int, Instr] = MappingProxyType({r: _load(r, "evict_last") for r in RANKS})
TMA_LOAD_MULTICAST: Mapping[int, Instr] = MappingProxyType({r: _load(r, multicast=True) for r in RANKS})
TMA_STORE: Mapping[int, Instr] = MappingProxyType({rank: _store(rank) for rank in RANKS})


def _commit(machine: Any, group: Any) -> None:
    machine.tma.commit(group)


def _wait_read(machine: Any, group: Any, newest: int) -> None:
    machine.tma.wait(group, newest, written=False)


def _wait(machine: Any, group: Any, newest: int) -> None:
    machine.tma.wait(group, newest, written=True)


BULK_COMMIT = Instr(
    "bulk_commit",
    (),
    'void bulk_commit() {\n    asm volatile("cp.async.bulk.commit_group;" ::: "memory");\n}',
    _commit,
    SM_90,
)


def _bulk_wait(name: str, ending: str, effect: Any) -> Instr:
    ptx = f"cp.async.bulk.wait_group{ending} %0;"
    text = f'void {name}() {{\n    asm volatile("{ptx}" :: "n"(newest) : "memory");\n}}'
    return Instr(name, (imm("newest"),), text, effect, Requires(sm=90))


BULK_WAIT = _bulk_wait("bulk_wait", "", _wait)
BULK_WAIT_READ = _bulk_wait("bulk_wait_read", ".read", _wait_read)
