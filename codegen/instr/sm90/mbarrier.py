"""mbarriers: barriers in shared memory that count arrivals and bytes, phase by phase.

The idea.  A barrier is initialised with the arrivals that complete one of its phases.  A phase is complete
when all have arrived and the bytes that were announced have been written; the next one begins at once:

    MBARRIER_INIT        one thread, once; then FENCE_BARRIER_INIT, and a barrier of the block or the cluster
    ARRIVE               every thread that executes it is one arrival
    ARRIVE_EXPECT_TX     the same, and announces bytes that copies will write
    TRY_WAIT             until the phase of a parity is complete: 0 for the first, 1 for the second, 0 ...
    ARRIVE_REMOTE        an arrival at the barrier of the same place in another block of the cluster

A wait for the parity of the phase before the first, 1, goes on at once: that is how a producer finds the
stages of a ring empty in the first round.  A block waits at its own barriers only.

NAMED_BARRIER and NAMED_ARRIVE are bar.sync and bar.arrive with a number, 1 to 15, and the threads that take
part: barriers of some warps of a block.

Sources: PTX ISA 9.0, 9.7.13.15.9 (mbarrier.init), 9.7.13.15.13 (mbarrier.arrive), 9.7.13.15.16
(mbarrier.try_wait), 9.7.13.1 (barrier).
"""

from __future__ import annotations

from typing import Any

from layoutalg.codegen.instr.record import Instr, Requires, barrier, imm, value

SM_90 = Requires(sm=90)

ADDRESS = """u32 shared_address(const void* p) {
    return static_cast<u32>(__cvta_generic_to_shared(p));
}"""
"""An address in shared memory as PTX takes it."""

PEER = """u32 peer_address(const void* p, u32 rank) {
    u32 at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(p)), "r"(rank));
    return at;
}"""
"""The same place in the shared memory of another block of the cluster."""


def _init(machine: Any, group: Any, bar: Any, count: int) -> None:
    machine.mbarriers.init(group, bar, count)


def _arrive(machine: Any, group: Any, bar: Any) -> None:
    machine.mbarriers.arrive(group, bar)


def _expect(machine: Any, group: Any, bar: Any, nbytes: Any) -> None:
    machine.mbarriers.arrive(group, bar, nbytes)


def _arrive_remote(machine: Any, group: Any, bar: Any, rank: Any) -> None:
    machine.mbarriers.arrive_remote(group, bar, rank, release=False)


def _arrive_remote_release(machine: Any, group: Any, bar: Any, rank: Any) -> None:
    machine.mbarriers.arrive_remote(group, bar, rank, release=True)


def _wait(machine: Any, group: Any, bar: Any, parity: Any) -> None:
    machine.mbarriers.wait(group, bar, parity, cluster=False)


def _wait_cluster(machine: Any, group: Any, bar: Any, parity: Any) -> None:
    machine.mbarriers.wait(group, bar, parity, cluster=True)


def passed(machine: Any, group: Any) -> bool:
    """Whether what a group waits for has happened."""
    return bool(machine.mbarriers.passed(group))


MBARRIER_INIT = Instr(
    "mbarrier_init",
    (barrier("bar"), imm("count")),
    "void mbarrier_init(u64* bar) {\n"
    '    asm volatile("mbarrier.init.shared::cta.b64 [%0], %1;"\n'
    '        :: "r"(shared_address(bar)), "n"(count) : "memory");\n'
    "}",
    _init,
    SM_90,
    uses=(ADDRESS,),
)
"""Phase 0 of a barrier begins, to be completed by `count` arrivals."""

ARRIVE = Instr(
    "mbarrier_arrive",
    (barrier("bar"),),
    "void mbarrier_arrive(u64* bar) {\n"
    '    asm volatile("mbarrier.arrive.shared::cta.b64 _, [%0];"\n'
    '        :: "r"(shared_address(bar)) : "memory");\n'
    "}",
    _arrive,
    SM_90,
    uses=(ADDRESS,),
)

ARRIVE_EXPECT_TX = Instr(
    "mbarrier_arrive_expect_tx",
    (barrier("bar"), value("nbytes")),
    "void mbarrier_arrive_expect_tx(u64* bar, u32 nbytes) {\n"
    '    asm volatile("mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;"\n'
    '        :: "r"(shared_address(bar)), "r"(nbytes) : "memory");\n'
    "}",
    _expect,
    SM_90,
    uses=(ADDRESS,),
)
"""An arrival that announces bytes: the phase is complete when they are written too."""


def _remote(name: str, scope: str, effect: Any) -> Instr:
    return Instr(
        name,
        (barrier("bar"), value("rank")),
        f"void {name}(u64* bar, u32 rank) {{\n"
        f'    asm volatile("mbarrier.arrive{scope}.shared::cluster.b64 _, [%0];"\n'
        '        :: "r"(peer_address(bar, rank)) : "memory");\n'
        "}",
        effect,
        SM_90,
        uses=(ADDRESS, PEER),
    )


ARRIVE_REMOTE = _remote("mbarrier_arrive_remote", "", _arrive_remote)
"""An arrival at the barrier in the block of a rank of the cluster, released to the own block alone: it hands
back what was read, and shows nobody what was written."""

ARRIVE_REMOTE_RELEASE = _remote("mbarrier_arrive_remote_release", ".release.cluster", _arrive_remote_release)
"""The same, and whoever waits there by TRY_WAIT_CLUSTER sees what was written.  A barrier of all memory
is in front of it: a product that handed back its stages so ran at two thirds of its speed on an H200."""


def _try_wait(scope: str) -> Instr:
    name = f"mbarrier_wait{'_cluster' if scope else ''}"
    acquire = f".acquire.{scope}" if scope else ""
    return Instr(
        name,
        (barrier("bar"), value("parity")),
        f"void {name}(u64* bar, u32 parity) {{\n"
        '    asm volatile("{\\n"\n'
        '                 ".reg .pred done;\\n"\n'
        '                 "WAIT:\\n"\n'
        f'                 "mbarrier.try_wait.parity{acquire}.shared::cta.b64 done, [%0], %1;\\n"\n'
        '                 "@done bra DONE;\\n"\n'
        '                 "bra WAIT;\\n"\n'
        '                 "DONE:\\n"\n'
        '                 "}" :: "r"(shared_address(bar)), "r"(parity) : "memory");\n'
        "}",
        _wait_cluster if scope else _wait,
        SM_90,
        ready=passed,
        uses=(ADDRESS,),
    )


TRY_WAIT = _try_wait("")
"""mbarrier.try_wait.parity, repeated until the phase is complete; acquires at the scope of the block."""

TRY_WAIT_CLUSTER = _try_wait("cluster")
"""The same, and sees what threads of other blocks have done before they arrived."""


# --- named barriers ----------------------------------------------------------------------------------------


def _sync_named(machine: Any, group: Any, number: int, threads: int) -> None:
    machine.mbarriers.sync_named(group, number, threads)


def _arrive_named(machine: Any, group: Any, number: int, threads: int) -> None:
    machine.mbarriers.arrive_named(group, number, threads)


_WARP = Requires(warp_converged=True)

NAMED_BARRIER = Instr(
    "named_barrier",
    (imm("number"), imm("threads")),
    "void named_barrier() {\n"
    '    asm volatile("bar.sync %0, %1;" :: "n"(number), "n"(threads) : "memory");\n'
    "}",
    _sync_named,
    _WARP,
    ready=passed,
)
"""`threads` threads of a block, a multiple of 32, arrive at barrier `number`; those that wait go on."""

NAMED_ARRIVE = Instr(
    "named_arrive",
    (imm("number"), imm("threads")),
    "void named_arrive() {\n"
    '    asm volatile("bar.arrive %0, %1;" :: "n"(number), "n"(threads) : "memory");\n'
    "}",
    _arrive_named,
    _WARP,
)
"""An arrival at a named barrier without waiting for the others."""
