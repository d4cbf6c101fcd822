"""Clusters: barriers of all their blocks, and the shared memory of the others.

The idea.  Blocks of a cluster run at the same time and reach each other's shared memory: a place of one's
own, and the rank of the block that is meant.

    CLUSTER_ARRIVE, CLUSTER_WAIT       every thread of every block arrives, then waits; work may be in between
    LDS_REMOTE[n], STS_REMOTE[n]       n bytes per lane at the same place in the block of a rank
    ST_ASYNC[n]                        a store that completes its bytes at a barrier of that block

Nobody may touch the memory of a block that has not started or has left: a cluster barrier is before the
first access to a peer, and one behind the last, unless the peer itself waits for it.  CLUSTER_ARRIVE_RELAXED
says that the block has started and carries fenced initialisations of mbarriers, nothing else.

Sources: PTX ISA 9.0, 9.7.13.3 (barrier.cluster), 9.7.9.23 (mapa), 9.7.9.8 (ld), 9.7.9.12 (st), 9.7.9.13
(st.async).
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.instr.record import Instr, Requires, barrier, into, out, place, value
from layoutalg.codegen.instr.sm90.mbarrier import ADDRESS, PEER, SM_90, passed

REMOTE_BYTES = (4, 8, 16)
"""Bytes that a lane reads or writes of a peer at once."""

_WARP = Requires(sm=90, warp_converged=True)


def _arrive(machine: Any, group: Any) -> None:
    machine.cluster.arrive(group, relaxed=False)


def _arrive_relaxed(machine: Any, group: Any) -> None:
    machine.cluster.arrive(group, relaxed=True)


def _wait(machine: Any, group: Any) -> None:
    machine.cluster.wait(group)


def _cluster(name: str, ptx: str, effect: Any, ready: Any = None) -> Instr:
    text = f'void {name}() {{\n    asm volatile("barrier.cluster.{ptx}.aligned;" ::: "memory");\n}}'
    return Instr(name, (), text, effect, _WARP, ready=ready)


CLUSTER_ARRIVE = _cluster("cluster_arrive", "arrive.release", _arrive)
CLUSTER_ARRIVE_RELAXED = _cluster("cluster_arrive_relaxed", "arrive.relaxed", _arrive_relaxed)
CLUSTER_WAIT = _cluster("cluster_wait", "wait.acquire", _wait, passed)


def _load(nbytes: int) -> Instr:
    name, words = f"lds{8 * nbytes}_remote", nbytes // 4
    places = "{" + ", ".join(f"%{i}" for i in range(words)) + "}" if words > 1 else "%0"
    kind = f"v{words}.b32" if words > 1 else "b32"
    outs = ", ".join(f'"=r"(d{f"[{i}]" if words > 1 else ""})' for i in range(words))

    def effect(machine: Any, group: Any, at: Any, rank: Any) -> Any:
        return machine.cluster.load(group, at, rank, nbytes)

    text = (
        f"void {name}(u32{'*' if words > 1 else '&'} d, const void* p, u32 rank) {{\n"
        f'    asm volatile("ld.shared::cluster.{kind} {places}, [%{words}];"\n'
        f'        : {outs} : "r"(peer_address(p, rank)) : "memory");\n'
        "}"
    )
    operands = (out("d", words), place("p", nbytes, f"ld.shared::cluster.b{8 * nbytes}"), value("rank"))
    return Instr(name, operands, text, effect, SM_90, uses=(ADDRESS, PEER))


def _values(words: int) -> str:
    return ", ".join(f'"r"(v{f"[{i}]" if words > 1 else ""})' for i in range(words))


def _store(nbytes: int) -> Instr:
    name, words = f"sts{8 * nbytes}_remote", nbytes // 4
    places = "{" + ", ".join(f"%{i + 1}" for i in range(words)) + "}" if words > 1 else "%1"
    kind = f"v{words}.b32" if words > 1 else "b32"

    def effect(machine: Any, group: Any, at: Any, rank: Any, v: Any) -> None:
        machine.cluster.store(group, at, rank, nbytes, v)

    text = (
        f"void {name}(void* p, u32 rank, const u32{'*' if words > 1 else '&'} v) {{\n"
        f'    asm volatile("st.shared::cluster.{kind} [%0], {places};"\n'
        f'        :: "r"(peer_address(p, rank)), {_values(words)} : "memory");\n'
        "}"
    )
    operands = (place("p", nbytes, f"st.shared::cluster.b{8 * nbytes}"), value("rank"), into("v", words))
    return Instr(name, operands, text, effect, SM_90, uses=(ADDRESS, PEER))


def _store_async(nbytes: int) -> Instr:
    name, words = f"st_async{8 * nbytes}", nbytes // 4
    places = "{" + ", ".join(f"%{i + 2}" for i in range(words)) + "}" if words > 1 else "%2"
    kind = f"v{words}.b32" if words > 1 else "b32"

    def effect(machine: Any, group: Any, at: Any, bar: Any, rank: Any, v: Any) -> None:
        machine.cluster.store_async(group, at, bar, rank, nbytes, v)

    text = (
        f"void {name}(void* p, u64* bar, u32 rank, const u32{'*' if words > 1 else '&'} v) {{\n"
        f'    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{kind}"\n'
        f'        " [%0], {places}, [%1];"\n'
        '        :: "r"(peer_address(p, rank)), "r"(peer_address(bar, rank)), '
        f'{_values(words)} : "memory");\n'
        "}"
    )
    operands = (
        place("p", nbytes, f"st.async.b{8 * nbytes}"), barrier("bar"), value("rank"), into("v", words)
    )  # fmt: skip
    return Instr(name, operands, text, effect, SM_90, engine="tma", uses=(ADDRESS, PEER))


LDS_REMOTE: Mapping[int, Instr] = MappingProxyType({n: _load(n) for n in REMOTE_BYTES})
STS_REMOTE: Mapping[int, Instr] = MappingProxyType({n: _store(n) for n in REMOTE_BYTES})
ST_ASYNC: Mapping[int, Instr] = MappingProxyType({n: _store_async(n) for n in REMOTE_BYTES})
