"""The exchange of partial statistics in a cluster: every block gets all, and each of its steps is needed."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np

from layoutalg import codegen as cg
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.program import Kernel, printed
from layoutalg.codegen.sim import simulate
from layoutalg.errors import LayoutAlgError, SimulationError
from layoutalg.kernels.rowwise.cluster import Exchange
from tests.mutants.ordering import mutants
from tests.sweeps import each

SHAPES = [(2, 1, 4, 2), (3, 3), (8, 5), (16, 2, 1)]
"""Blocks of a cluster, words of a sender; warps of a block and clusters where they are not 2 and 1."""

Way = tuple[Literal["block", "warp"], int]
WAYS: tuple[Way, ...] = (("block", 0), ("warp", 1))


def gathered(blocks: int, words: int, warps: int = 2, clusters: int = 1) -> Kernel:
    """dst[block] = src of all senders of its cluster: the first `words` of each warp's 32 numbers."""
    k = cg.Kernel("gathered", threads=32 * warps)
    src = k.tensor("src", "f32", (clusters * blocks, warps, words), (warps * words, words, 1))
    slots = blocks * warps
    dst = k.tensor(
        "dst", "f32", (clusters * blocks, slots, words), (slots * words, words, 1), writable=True
    )  # fmt: skip
    block = k.block(0, clusters * blocks)
    k.cluster(blocks)
    x, d = Exchange(k, warps, words), k.reg("d", words)
    x.open()
    warp, lane = k.tid // 32, k.tid % 32
    for i in range(words):
        k.do(LDG[4], d[i], src.at(block, warp, i))
    x.meet()
    with k.If(lane < blocks):
        x.send(warp, lane, d)
    x.wait()
    with k.If(k.tid < slots):
        slot = k.let("slot", k.tid % slots)
        x.take(slot, d)
        for i in range(words):
            k.do(STG[4], dst.at(block, slot, i), d[i])
    return k.build()


def arrays(blocks: int, words: int, warps: int = 2, clusters: int = 1) -> tuple[Any, Any]:
    """The source, and what the destination has to become."""
    src = np.random.default_rng(3).integers(-99, 99, (clusters * blocks, warps, words)).astype("f4")
    every = src.reshape(clusters, 1, blocks * warps, words)
    return src, np.broadcast_to(every, (clusters, blocks, blocks * warps, words)).reshape(-1)


def verdict(kernel: Kernel, shape: tuple[int, ...], group: Literal["block", "warp"], seed: int) -> str:
    """What is wrong with the kernel: "checked", "hazard", "result", or "" for nothing."""
    src, wanted = arrays(*shape)
    dst = np.full(wanted.size, np.nan, "f4")
    try:
        simulate(printed(kernel), {"src": src.reshape(-1), "dst": dst}, group=group, seed=seed, trace=False)
    except SimulationError:
        return "hazard"
    except LayoutAlgError:
        return "checked"
    return "" if np.array_equal(dst, wanted) else "result"


@each("shape", SHAPES)
def test_every_block_gets_what_all_have(shape: tuple[int, ...]) -> None:
    for way in WAYS:
        assert verdict(gathered(*shape), shape, *way) == ""


EQUAL = (
    "mbarrier_init came[0] by the last thread",  # any one thread initialises, and announces the bytes
    "mbarrier_arrive_expect_tx came[0] before fence_barrier_init",  # the fence is for the initialisation
    "no warp_sync",  # lanes of a warp meet again behind a branch in the simulator
    "warp_sync before mbarrier_init came[0]",
    "cluster_arrive_relaxed before warp_sync",
)
"""Mutants that are no mistakes."""


def test_each_step_that_orders_is_needed() -> None:
    kernel, missed = gathered(2, 2), set()
    every = list(mutants(kernel))
    for mutant in every:
        found = [verdict(mutant.kernel, (2, 2), *way) for way in WAYS]
        if "" in found:
            missed.add(mutant.label)
    assert missed == set(EQUAL) and len(every) > 20
