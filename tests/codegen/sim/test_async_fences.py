"""What fence.proxy.async shows the asynchronous proxy, and what .shared::cta does not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from layoutalg import codegen as cg
from layoutalg.codegen.instr import FENCE_PROXY_ASYNC, FENCE_PROXY_ASYNC_CTA, STG, STS_REMOTE
from layoutalg.codegen.program import printed
from layoutalg.errors import SimulationError
from layoutalg.layout import Layout
from tests.async_programs import BOX, BYTES, Program, integers


def loads_what_stores_wrote(*fences: Any) -> Program:
    """To global memory, and fences behind it."""
    k = cg.Kernel("stored", threads=32)
    x, y = (k.tensor(name, "f32", BOX, (32, 1), writable=True) for name in "xy")
    load, save = k.tensor_map("load", x, BOX), k.tensor_map("save", y, BOX)
    tile = k.shared("t", "f32", Layout(BOX, (32, 1)), align_bytes=128)
    full, a = k.mbarrier("full"), k.fragment("a", "f32", 4)
    k.clear(a)
    k.init(full)
    with k.If(k.thread.eq(0)):
        k.do(STG[16], x.at(0, 0), a)
        for fence in fences:
            k.do(fence)
        k.expect(full[0], BYTES)
        k.tma_load(load, cg.local_tile(x, BOX, (0, 0)), tile, full[0])
        k.wait(full[0], 0)
        k.tma_store(save, tile, cg.local_tile(y, BOX, (0, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
    X = integers(*BOX)
    Y = X.copy()
    Y[0, :4] = 0
    return Program(k.build(), {"x": X}, Y)


def a_peer_wrote(*fences: Any) -> Program:
    """What TMA stores, and then fences."""
    k = cg.Kernel("peers", threads=32)
    y = k.tensor("y", "f32", (2, 32), (32, 1), writable=True)
    b = k.block(0, 2)
    k.cluster(2)
    save = k.tensor_map("save", y, (1, 32))
    box = k.shared("box", "f32", Layout((1, 32), (32, 1)), align_bytes=128)
    v = k.fragment("v", "f32", 1)
    k.clear(v)
    k.cluster_sync()
    k.do(STS_REMOTE[4], k.at(box.buffer, 0, k.thread), (k.rank + 1) % 2, v)
    for fence in fences:
        k.do(fence)
    k.cluster_sync()
    for fence in fences:
        k.do(fence)
    with k.If(k.thread.eq(0)):
        k.tma_store(save, box, cg.local_tile(y, (1, 32), (b, 0)))
        k.bulk_commit()
        k.bulk_wait(read=True)
    return Program(k.build(), {}, np.zeros((2, 32), "f4"))


BUILT = {
    loads_what_stores_wrote: "loads byte 0 of x: thread 0 wrote it, with no fence.proxy.async",
    a_peer_wrote: "no fence.proxy.async behind the write",
}


def run(program: Program, group: str = "warp", seed: int = 0) -> Any:
    """What the kernel writes to y."""
    arrays = {"y": np.full(program.y.shape, np.nan, "f4"), **program.given}
    arrays = {key: value.copy() for key, value in arrays.items()}
    cg.simulate(printed(program.kernel), arrays, group=group, seed=seed)
    return arrays["y"]


@pytest.mark.parametrize("build", BUILT)
@pytest.mark.parametrize("fences", [(), (FENCE_PROXY_ASYNC_CTA,)])
def test_a_fence_of_the_own_shared_memory_shows_nothing_else(
    build: Callable[..., Program], fences: tuple[Any, ...]
) -> None:
    for group, seed in (("block", 0), ("warp", 0), ("warp", 1)):
        with pytest.raises(SimulationError, match=BUILT[build]):
            run(build(*fences), group, seed)


@pytest.mark.parametrize("build", BUILT)
def test_a_fence_of_all_memory_is_enough(build: Callable[..., Program]) -> None:
    program = build(FENCE_PROXY_ASYNC)
    assert np.array_equal(run(program), program.y)
