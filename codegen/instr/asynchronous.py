"""Engines beside the threads: mbarriers, copies by TMA, fences between proxies, clusters and grids.

The idea.  An mbarrier counts arrivals and bytes, phase by phase.  A phase is complete when all have arrived
and the bytes that were announced have been written; the next one begins at once:

    MBARRIER_INIT        one thread, once; then FENCE_BARRIER_INIT, and a barrier of the block or the cluster
    ARRIVE               every thread that executes it is one arrival
    ARRIVE_EXPECT_TX     the same, and announces bytes that copies will write
    TRY_WAIT             until the phase of a parity is complete: 0 for the first, 1 for the second, 0 ...
    ARRIVE_REMOTE        an arrival at the barrier of the same place in another block of the cluster

A wait for the parity of the phase before the first, 1, goes on at once: that is how a producer finds the
stages of a ring empty in the first round.  A block waits at its own barriers only.  NAMED_BARRIER and
NAMED_ARRIVE are bar.sync and bar.arrive with a number, 1 to 15, and the threads that take part.

TMA.  A tensor map says what the tensor and the box are (see program.TensorMapParam); a copy says where in the
tensor the box starts, innermost coordinate first, and where it lies in shared memory.  Every thread that
executes a copy starts one.

    TMA_LOAD[2](tile, map, full[s], k0, m0)   writes the box, then completes its bytes at the barrier
    TMA_STORE[2](map, tile, n0, m0)           reads the box; belongs to a bulk group
    BULK_COMMIT                               closes the group of the stores started since the last one
    BULK_WAIT_READ(n), BULK_WAIT(n)           until at most the n newest groups of this thread have yet to
                                              read shared memory, or to be written

In a load, elements outside the tensor are zeros; the barrier gets the bytes of the whole box all the same.
In a store they are left out.  TMA_LOAD_MULTICAST writes the box at the same place of every block of the
cluster whose bit is set, and completes at the barrier of the same place in each.

Proxies.  What threads have written to shared memory by ordinary stores, TMA and wgmma may read only behind
FENCE_PROXY_ASYNC_CTA; the threads that wrote execute it, then a barrier, then the copy starts.
FENCE_PROXY_ASYNC is for global memory and the shared memory of other blocks too: ptxas puts a MEMBAR of the
GPU in front of it.  What TMA has written needs no fence: whoever has waited at its mbarrier sees it.

Clusters.  Blocks run at the same time and reach each other's shared memory: a place of one's own, and the
rank of the block that is meant.  Nobody may touch the memory of a block that has not started or has left: a
cluster barrier is before the first access to a peer, and one behind the last, unless the peer itself waits
for it.  CLUSTER_ARRIVE_RELAXED says that the block has started and carries fenced initialisations of
mbarriers, nothing else.

Grids.  GRID_SYNC(count, arrivals) is a barrier of blocks of a launch, which has to be a cooperative one: a
counter in global memory is 0 before it, one thread of each block adds 1 and waits for as many arrivals as it
says, the blocks that meet there times the number of this barrier.  Whoever launches again clears the counter.

Sources: PTX ISA 9.0, 9.7.13.1 (barrier), 9.7.13.3 (barrier.cluster), 9.7.13.4 (membar, fence.proxy.async,
fence.mbarrier_init), 9.7.13.15 (mbarrier), 9.7.9.27.1.2 (cp.async.bulk.tensor), 9.7.9.25.5
(cp.async.bulk.commit_group, wait_group), 9.7.9.23 (mapa), 9.7.9.13 (st.async), 9.7.20.5 (setmaxnreg), 8.7 and
8.8 (memory consistency: proxies, release and acquire patterns); CUDA Driver API 13.0,
CU_LAUNCH_ATTRIBUTE_COOPERATIVE.
"""

from __future__ import annotations

from functools import partial

from layoutalg.codegen.instr.record import (
    Asked,
    Effect,
    Instr,
    Operand,
    Requires,
    barrier,
    imm,
    in_ptx,
    into,
    nothing,
    out,
    place,
    table,
    tensor_map,
    value,
)
from layoutalg.codegen.instr.words import ADDRESS, at, holes, ref

SM_90 = Requires(sm=90)
_WHOLE_WARP = Requires(sm=90, warp_converged=True)

PEER = """u32 peer_address(const void* p, u32 rank) {
    u32 at;
    asm volatile("mapa.shared::cluster.u32 %0, %1, %2;" : "=r"(at) : "r"(shared_address(p)), "r"(rank));
    return at;
}"""
"""The same place in the shared memory of another block of the cluster."""


PASSED = Asked("mbarriers.passed")
"""Whether all that a group waits for has happened, at whatever barrier."""

# --- mbarriers and named barriers --------------------------------------------------------------------------

MBARRIER_INIT = in_ptx(
    "mbarrier_init", "mbarrier.init.shared::cta.b64 [%0], %1;",
    Asked("mbarriers.init"),
    barrier("bar"), imm("count"), requires=SM_90,
)  # fmt: skip
"""Phase 0 of a barrier begins, to be completed by `count` arrivals."""

ARRIVE = in_ptx(
    "mbarrier_arrive", "mbarrier.arrive.shared::cta.b64 _, [%0];",
    Asked("mbarriers.arrive"), barrier("bar"), requires=SM_90,
)  # fmt: skip

ARRIVE_EXPECT_TX = in_ptx(
    "mbarrier_arrive_expect_tx", "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%0], %1;",
    Asked("mbarriers.arrive"),
    barrier("bar"), value("nbytes"), requires=SM_90,
)  # fmt: skip
"""An arrival that announces bytes: the phase is complete when they are written too."""


def _remote(*, release: bool) -> Instr:
    name, scope = ("_release", ".release.cluster") if release else ("", "")
    return Instr(
        f"mbarrier_arrive_remote{name}", (barrier("bar"), value("rank")),
        f"void mbarrier_arrive_remote{name}(u64* bar, u32 rank) {{\n"
        f'    asm volatile("mbarrier.arrive{scope}.shared::cluster.b64 _, [%0];"\n'
        '        :: "r"(peer_address(bar, rank)) : "memory");\n'
        "}",
        Asked("mbarriers.arrive_remote", (("release", release),)),
        SM_90, uses=(ADDRESS, PEER),
    )  # fmt: skip


ARRIVE_REMOTE = _remote(release=False)
"""An arrival at the barrier in the block of a rank of the cluster, released to the own block alone: it hands
back what was read, and shows nobody what was written."""

ARRIVE_REMOTE_RELEASE = _remote(release=True)
"""The same, and whoever waits there by TRY_WAIT_CLUSTER sees what was written.  A barrier of all memory
is in front of it: a product that handed back its stages so ran at two thirds of its speed on an H200."""


def _try_wait(*, cluster: bool) -> Instr:
    name, acquire = ("_cluster", ".acquire.cluster") if cluster else ("", "")
    return Instr(
        f"mbarrier_wait{name}", (barrier("bar"), value("parity")),
        f"void mbarrier_wait{name}(u64* bar, u32 parity) {{\n"
        '    asm volatile("{\\n"\n'
        '                 ".reg .pred done;\\n"\n'
        '                 "WAIT:\\n"\n'
        f'                 "mbarrier.try_wait.parity{acquire}.shared::cta.b64 done, [%0], %1;\\n"\n'
        '                 "@done bra DONE;\\n"\n'
        '                 "bra WAIT;\\n"\n'
        '                 "DONE:\\n"\n'
        '                 "}" :: "r"(shared_address(bar)), "r"(parity) : "memory");\n'
        "}",
        Asked("mbarriers.wait", (("cluster", cluster),)),
        SM_90, ready=PASSED, uses=(ADDRESS,),
    )  # fmt: skip


TRY_WAIT = _try_wait(cluster=False)
"""mbarrier.try_wait.parity, repeated until the phase is complete; acquires at the scope of the block."""

TRY_WAIT_CLUSTER = _try_wait(cluster=True)
"""The same, and sees what threads of other blocks have done before they arrived."""

NAMED_BARRIER = in_ptx(
    "named_barrier", "bar.sync %0, %1;",
    Asked("mbarriers.sync_named"),
    imm("number"), imm("threads"), requires=Requires(warp_converged=True), ready=PASSED,
)  # fmt: skip
"""`threads` threads of a block, a multiple of 32, arrive at barrier `number`; those that wait go on."""

NAMED_ARRIVE = in_ptx(
    "named_arrive", "bar.arrive %0, %1;",
    Asked("mbarriers.arrive_named"),
    imm("number"), imm("threads"), requires=Requires(warp_converged=True),
)  # fmt: skip
"""An arrival at a named barrier without waiting for the others."""


# --- TMA ---------------------------------------------------------------------------------------------------

RANKS = (1, 2, 3, 4, 5)
"""Dimensions of a tensor map."""

BOX_ALIGN_BYTES = 128
"""The number of bytes that the start of a box in shared memory is a multiple of."""


def _tma(
    name: str, rank: int, ptx: str, places: str, inputs: list[str], parameters: list[str],
    operands: list[Operand], effect: Effect, engine: str,
) -> Instr:  # fmt: skip
    """A copy of a box, whose coordinates come last: as parameters, inputs and operands."""
    crd = [f"c{i}" for i in range(rank)]
    text = (
        f"void {name}({', '.join([*parameters, *(f'u32 {c}' for c in crd)])}) {{\n"
        f'    asm volatile("cp.async.bulk.tensor.{rank}d.{ptx}"\n'
        f'        " {places};"\n'
        f'        :: {", ".join(inputs)} : "memory");\n'
        "}"
    )
    return Instr(name, (*operands, *map(value, crd)), text, effect, SM_90, engine=engine, uses=(ADDRESS,))


def _load(rank: int, *, multicast: bool = False) -> Instr:
    inputs = ['"r"(shared_address(box))', '"l"(map)', '"r"(shared_address(bar))']
    inputs += [f'"r"(c{i})' for i in range(rank)]
    parameters = ["void* box", "const TensorMap* map", "u64* bar"]
    operands = [place("box", BOX_ALIGN_BYTES, "cp.async.bulk.tensor:load"), tensor_map("map"), barrier("bar")]
    ptx = "shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    places = f"[%0], [%1, {holes(3, rank)}], [%2]"
    name = f"tma_load_{rank}d"
    if multicast:
        name, ptx, places = f"{name}_multicast", f"{ptx}.multicast::cluster", f"{places}, %{len(inputs)}"
        inputs.append('"h"(static_cast<unsigned short>(blocks))')
        parameters.append("u32 blocks")
        operands.append(value("blocks"))
    effect = Asked("tma.load", (("multicast", multicast),))
    return _tma(name, rank, ptx, places, inputs, parameters, operands, effect, "tma")


def _store(rank: int) -> Instr:
    return _tma(
        f"tma_store_{rank}d", rank, "global.shared::cta.tile.bulk_group", f"[%0, {holes(2, rank)}], [%1]",
        ['"l"(map)', '"r"(shared_address(box))', *(f'"r"(c{i})' for i in range(rank))],
        ["const TensorMap* map", "const void* box"],
        [tensor_map("map"), place("box", BOX_ALIGN_BYTES, "cp.async.bulk.tensor:store")],
        Asked("tma.store"), "bulk",
    )  # fmt: skip


TMA_LOAD = table(_load, RANKS)
TMA_LOAD_MULTICAST = table(partial(_load, multicast=True), RANKS)
TMA_STORE = table(_store, RANKS)

BULK_COMMIT = in_ptx(
    "bulk_commit", "cp.async.bulk.commit_group;", Asked("tma.commit"),
    requires=SM_90,
)  # fmt: skip
BULK_WAIT, BULK_WAIT_READ = (
    in_ptx(
        f"bulk_wait{name}", f"cp.async.bulk.wait_group{modifier} %0;",
        Asked("tma.wait", (("written", not name),)), imm("newest"), requires=SM_90,
    )
    for name, modifier in (("", ""), ("_read", ".read"))
)  # fmt: skip


# --- fences, and the registers of a warpgroup --------------------------------------------------------------

FENCE_PROXY_ASYNC = in_ptx(
    "fence_proxy_async", "fence.proxy.async;", Asked("mbarriers.fence_proxy"),
    requires=SM_90,
)  # fmt: skip
"""Writes before it are visible to the asynchronous proxy after it; it waits as a fence of the GPU does."""

FENCE_PROXY_ASYNC_CTA = in_ptx(
    "fence_proxy_async_cta", "fence.proxy.async.shared::cta;",
    Asked("mbarriers.fence_proxy", (("cta", True),)), requires=SM_90,
)  # fmt: skip
"""The same of what threads of the block wrote to its own shared memory, which takes no fence of the GPU."""

FENCE_BARRIER_INIT = in_ptx(
    "fence_barrier_init", "fence.mbarrier_init.release.cluster;",
    Asked("mbarriers.fence_inits"), requires=SM_90,
)  # fmt: skip
"""The initialisations of mbarriers before it become visible to TMA and to the blocks of the cluster."""


SETMAXNREG_INC, SETMAXNREG_DEC = (
    in_ptx(
        f"setmaxnreg_{way}", f"setmaxnreg.{way}.sync.aligned.u32 %0;",
        nothing,  # the number of registers of a thread is the compiler's business
        imm("count"),
        requires=Requires(sm=90, warp_converged=True, warpgroup_converged=True, arch_specific=True),
    )
    for way in ("inc", "dec")
)  # fmt: skip
"""Registers of each thread of a warpgroup taken and given back: 24 to 256 of them, a multiple of 8.  A kernel
with them is compiled for the one block per multiprocessor that its threads fill."""


# --- clusters and grids ------------------------------------------------------------------------------------

CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED = (
    in_ptx(
        f"cluster_arrive{name}", f"barrier.cluster.arrive.{order}.aligned;",
        Asked("cluster.arrive", (("relaxed", bool(name)),)), requires=_WHOLE_WARP,
    )
    for name, order in (("", "release"), ("_relaxed", "relaxed"))
)  # fmt: skip
CLUSTER_WAIT = in_ptx(
    "cluster_wait", "barrier.cluster.wait.acquire.aligned;",
    Asked("cluster.wait"), requires=_WHOLE_WARP, ready=PASSED,
)  # fmt: skip
"""Every thread of every block of a cluster arrives, then waits; work may be in between."""

REMOTE_BYTES = (4, 8, 16)
"""Bytes that a lane reads or writes of a peer at once."""


def _of_peer(nbytes: int, name: str, first: int) -> tuple[str, int, str, str, list[str]]:
    """The name of an access, its words, their type, their holes from number `first` on, and the registers."""
    words = nbytes // 4
    places = holes(first, words) if words > 1 else f"%{first}"
    kind = f"v{words}.b32" if words > 1 else "b32"
    register = "d" if first == 0 else "v"
    return name.format(8 * nbytes), words, kind, places, [at(register, i, words) for i in range(words)]


def _at_peer(way: str, nbytes: int) -> Asked:
    return Asked(f"cluster.{way}", (("nbytes", nbytes),))


def _load_remote(nbytes: int) -> Instr:
    name, words, kind, places, registers = _of_peer(nbytes, "lds{}_remote", 0)
    text = (
        f"void {name}({ref('d', words)}, const void* p, u32 rank) {{\n"
        f'    asm volatile("ld.shared::cluster.{kind} {places}, [%{words}];"\n'
        f'        : {_listed("=r", registers)} : "r"(peer_address(p, rank)) : "memory");\n'
        "}"
    )
    return Instr(
        name, (out("d", words), place("p", nbytes, f"ld.shared::cluster.b{8 * nbytes}"), value("rank")), text,
        _at_peer("load", nbytes), SM_90, uses=(ADDRESS, PEER),
    )  # fmt: skip


def _store_remote(nbytes: int) -> Instr:
    name, words, kind, places, registers = _of_peer(nbytes, "sts{}_remote", 1)
    text = (
        f"void {name}(void* p, u32 rank, {ref('v', words, const=True)}) {{\n"
        f'    asm volatile("st.shared::cluster.{kind} [%0], {places};"\n'
        f'        :: "r"(peer_address(p, rank)), {_listed("r", registers)} : "memory");\n'
        "}"
    )
    return Instr(
        name,
        (place("p", nbytes, f"st.shared::cluster.b{8 * nbytes}"), value("rank"), into("v", words)), text,
        _at_peer("store", nbytes), SM_90, uses=(ADDRESS, PEER),
    )  # fmt: skip


def _store_async(nbytes: int) -> Instr:
    name, words, kind, places, registers = _of_peer(nbytes, "st_async{}", 2)
    text = (
        f"void {name}(void* p, u64* bar, u32 rank, {ref('v', words, const=True)}) {{\n"
        f'    asm volatile("st.async.weak.shared::cluster.mbarrier::complete_tx::bytes.{kind}"\n'
        f'        " [%0], {places}, [%1];"\n'
        '        :: "r"(peer_address(p, rank)), "r"(peer_address(bar, rank)), '
        f'{_listed("r", registers)} : "memory");\n'
        "}"
    )
    return Instr(
        name,
        (place("p", nbytes, f"st.async.b{8 * nbytes}"), barrier("bar"), value("rank"), into("v", words)),
        text, _at_peer("store_async", nbytes), SM_90, engine="tma", uses=(ADDRESS, PEER),
    )  # fmt: skip


def _listed(constraint: str, registers: list[str]) -> str:
    return ", ".join(f'"{constraint}"({x})' for x in registers)


LDS_REMOTE = table(_load_remote, REMOTE_BYTES)
STS_REMOTE = table(_store_remote, REMOTE_BYTES)
"""n bytes per lane at the same place in the block of a rank."""

ST_ASYNC = table(_store_async, REMOTE_BYTES)
"""A store that completes its bytes at a barrier of that block."""

GRID_SYNC = Instr(
    "grid_sync",
    (Operand("count", "place", space="global", bytes=4), value("arrivals")),
    "void grid_sync(void* count, u32 arrivals) {\n"
    "    __syncthreads();\n"
    "    if (threadIdx.x == 0) {\n"
    "        u32 found;\n"
    '        asm volatile("red.release.gpu.global.add.u32 [%0], 1;" :: "l"(count) : "memory");\n'
    "        do {\n"
    '            asm volatile("ld.acquire.gpu.global.u32 %0, [%1];"\n'
    '                : "=r"(found) : "l"(count) : "memory");\n'
    "        } while (found < arrivals);\n"
    "    }\n"
    "    __syncthreads();\n"
    "}",
    Asked("grid.meet"),
    Requires(block_converged=True, all_blocks=True),
    ready=PASSED,
)
"""All threads of the blocks that count there arrive, then all go on."""
