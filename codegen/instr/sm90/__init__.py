"""Instructions that Hopper adds: asynchronous copies, barriers in shared memory, clusters.

mbarrier   init, arrive, expect_tx, wait; named barriers
tma        copies of boxes by tensor maps, bulk groups
fence      fence.proxy.async, fence.mbarrier_init; setmaxnreg
cluster    cluster barriers, the shared memory of other blocks, st.async
wgmma      products of a warpgroup, asynchronous, and what orders them
stmatrix   matrices from registers to shared memory
tiles      operands in shared memory, as their descriptors describe them
"""

from __future__ import annotations

from layoutalg.codegen.instr.sm90.cluster import (
    CLUSTER_ARRIVE,
    CLUSTER_ARRIVE_RELAXED,
    CLUSTER_WAIT,
    LDS_REMOTE,
    ST_ASYNC,
    STS_REMOTE,
)
from layoutalg.codegen.instr.sm90.fence import (
    FENCE_BARRIER_INIT,
    FENCE_PROXY_ASYNC,
    FENCE_PROXY_ASYNC_CTA,
    SETMAXNREG_DEC,
    SETMAXNREG_INC,
)
from layoutalg.codegen.instr.sm90.mbarrier import (
    ARRIVE,
    ARRIVE_EXPECT_TX,
    ARRIVE_REMOTE,
    ARRIVE_REMOTE_RELEASE,
    MBARRIER_INIT,
    NAMED_ARRIVE,
    NAMED_BARRIER,
    TRY_WAIT,
    TRY_WAIT_CLUSTER,
)
from layoutalg.codegen.instr.sm90.stmatrix import STMATRIX, STMATRIX_TRANS
from layoutalg.codegen.instr.sm90.tiles import SharedTile
from layoutalg.codegen.instr.sm90.tma import (
    BULK_COMMIT,
    BULK_WAIT,
    BULK_WAIT_READ,
    TMA_LOAD,
    TMA_LOAD_EVICT_FIRST,
    TMA_LOAD_EVICT_LAST,
    TMA_LOAD_MULTICAST,
    TMA_STORE,
)
from layoutalg.codegen.instr.sm90.wgmma import (
    WARPGROUP,
    WGMMA_COMMIT,
    WGMMA_FENCE,
    WGMMA_WAIT,
    Product,
    find_wgmma,
    hold,
)

__all__ = [
    "ARRIVE",
    "ARRIVE_EXPECT_TX",
    "ARRIVE_REMOTE",
    "ARRIVE_REMOTE_RELEASE",
    "ASYNCHRONOUS",
    "BULK_COMMIT",
    "BULK_WAIT",
    "BULK_WAIT_READ",
    "CLUSTER_ARRIVE",
    "CLUSTER_ARRIVE_RELAXED",
    "CLUSTER_WAIT",
    "FENCE_BARRIER_INIT",
    "FENCE_PROXY_ASYNC",
    "FENCE_PROXY_ASYNC_CTA",
    "LDS_REMOTE",
    "MBARRIER_INIT",
    "NAMED_ARRIVE",
    "NAMED_BARRIER",
    "SETMAXNREG_DEC",
    "SETMAXNREG_INC",
    "STMATRIX",
    "STMATRIX_TRANS",
    "STS_REMOTE",
    "ST_ASYNC",
    "TMA_LOAD",
    "TMA_LOAD_EVICT_FIRST",
    "TMA_LOAD_EVICT_LAST",
    "TMA_LOAD_MULTICAST",
    "TMA_STORE",
    "TRY_WAIT",
    "TRY_WAIT_CLUSTER",
    "WARPGROUP",
    "WGMMA_COMMIT",
    "WGMMA_FENCE",
    "WGMMA_WAIT",
    "Product",
    "SharedTile",
    "find_wgmma",
    "hold",
]


ASYNCHRONOUS: frozenset[str] = frozenset(
    instr.name
    for instr in (
        ARRIVE, ARRIVE_EXPECT_TX, ARRIVE_REMOTE, ARRIVE_REMOTE_RELEASE, BULK_COMMIT, BULK_WAIT,
        BULK_WAIT_READ, CLUSTER_ARRIVE, CLUSTER_ARRIVE_RELAXED, CLUSTER_WAIT, FENCE_BARRIER_INIT,
        FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_CTA, MBARRIER_INIT, NAMED_ARRIVE, NAMED_BARRIER, TRY_WAIT,
        TRY_WAIT_CLUSTER,
        *LDS_REMOTE.values(), *STS_REMOTE.values(), *ST_ASYNC.values(), *TMA_LOAD.values(),
        *TMA_STORE.values(),
    )
)  # fmt: skip
"""The names of instructions for which the simulator keeps clocks of more than the block's warps."""
