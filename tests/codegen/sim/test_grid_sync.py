"""The barrier of all blocks of a launch: what it orders, what it refuses, what a launch has to say."""

from __future__ import annotations

from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy
import pytest

from layoutalg.codegen.gpu import Launchable, launch
from layoutalg.codegen.gpu.driver import resident_blocks
from layoutalg.codegen.gpu.runtime import GpuStatus
from layoutalg.codegen.instr import BAR, GRID_SYNC, LDG_FRESH, STG, fill, fold
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.printing import to_cuda
from layoutalg.codegen.program import COOPERATIVE, Kernel, contract, launch_sequence
from layoutalg.codegen.program.checks import check
from layoutalg.codegen.sim import simulate
from layoutalg.errors import IRError, ResourceError, SimulationError, UnsupportedError

BLOCKS, THREADS = 3, 64


def program(
    *, synced: bool = True, arrivals: int = BLOCKS, blocks: int = BLOCKS, missing: bool = False
) -> Kernel:
    """Each block writes a number, and every thread adds those of all; one block may be missing."""
    k = KernelBuilder("sums", THREADS)
    block = k.block(0, blocks)
    part, out = k.pointer("part", 4, writable=True), k.pointer("out", 4, writable=True)
    count = k.pointer("count", 4, writable=True)
    v, total = k.reg("v", 1), k.reg("total", 1)
    with k.If(k.tid.eq(0)):
        k.do(LDG_FRESH[4], v, k.at(part, block))
        k.do(STG[4], k.at(part, block + blocks), v)
    with k.If(block < blocks - missing):
        if synced:
            k.do(GRID_SYNC, k.at(count, 0), arrivals)
        else:
            k.do(BAR)
        k.do(fill(1), total, 0)
        with k.Unroll("b", blocks) as b:
            k.do(LDG_FRESH[4], v, k.at(part, blocks + b))
            k.do(fold("sum", 1, 1), total, v)
        k.do(STG[4], k.at(out, block * THREADS + k.tid), total)
    return k.build()


def arguments(count: int = 0) -> dict[str, Any]:
    part = numpy.zeros(2 * BLOCKS, "f4")
    part[:BLOCKS] = (1.0, 2.0, 4.0)
    return {
        "part": part, "out": numpy.zeros(BLOCKS * THREADS, "f4"), "count": numpy.full(1, count, numpy.uint32)
    }  # fmt: skip


@pytest.mark.parametrize("group", ["block", "warp"])
def test_all_blocks_see_what_all_have_written(group: Any) -> None:
    kernel, args = program(), arguments()
    check(kernel)
    run = simulate(kernel, args, group=group, seed=3)
    assert run.blocks == BLOCKS and (args["out"] == 7.0).all() and args["count"][0] == BLOCKS
    assert simulate(kernel, arguments(), blocks=[(1, 0, 0)]).blocks == BLOCKS


@pytest.mark.parametrize(
    ("kernel", "count", "said"),
    [
        (program(synced=False), 0, "and blocks are not ordered"),
        (program(), 1, "finds 1 in the counter of its barrier, where 0 blocks have arrived"),
        (program(arrivals=2), 0, "with no barrier in between"),
        (program(arrivals=4), 0, "deadlock in block .* for 4 blocks at a barrier where 3 have arrived"),
        (program(missing=True), 0, "deadlock in block .* for 3 blocks at a barrier where 2 have arrived"),
    ],
)
def test_what_would_hang_or_is_not_ordered_is_refused(kernel: Kernel, count: int, said: str) -> None:
    with pytest.raises(SimulationError, match=said):
        simulate(kernel, arguments(count))


def test_what_a_launch_has_to_say() -> None:
    kernel = program()
    assert kernel.cooperative and contract(kernel).attributes == {COOPERATIVE: 1}
    assert not program(synced=False).cooperative
    text = to_cuda(kernel)
    assert f"All blocks are resident together: launch with {COOPERATIVE}." in text
    assert "red.release.gpu" in text and "ld.acquire.gpu" in text


def test_a_launch_is_refused_where_its_blocks_do_not_fit(monkeypatch: pytest.MonkeyPatch) -> None:
    """A launch that fits goes through the launch of the attribute."""
    started: list[tuple[Any, ...]] = []

    def launcher(*given: Any, cooperative: bool) -> Any:
        assert cooperative

        def start(stream: int) -> int:
            started.append((*given[:4], stream))
            return 0

        return start

    def start() -> Any:
        kernel = Launchable("sums", (), (BLOCKS, 1, 1), THREADS, 0, b"", cooperative=True)
        return launch.Launch(kernel, SimpleNamespace(ptr=7))

    for name, value in {
        "require_gpu": lambda: GpuStatus(True, "a stand-in", "sm_90a"), "take_up": lambda: None,
        "attribute_launcher": launcher, "resident_blocks": lambda *_: BLOCKS,
    }.items():  # fmt: skip
        monkeypatch.setattr(launch, name, value)
    start()((), 9)
    assert started == [(7, (BLOCKS, 1, 1), THREADS, 0, 9)]
    monkeypatch.setattr(launch, "resident_blocks", lambda *_: BLOCKS - 1)
    with pytest.raises(ResourceError, match="blocks of sums that are resident on a stand-in: 3 asked"):
        start()


@pytest.mark.parametrize("status", [0, 1])
def test_resident_blocks_are_those_of_all_multiprocessors(status: int) -> None:
    def each(found: Any, function: Any, threads: int, shared: Any) -> int:
        found._obj.value = 2048 // threads
        return status

    def sms(found: Any, attribute: int, device: Any) -> int:
        found._obj.value = {16: 132}[attribute]
        return 0

    def name(status: int, found: Any) -> int:
        found._obj.value = b"CUDA_ERROR_INVALID_VALUE"
        return 0

    driver = SimpleNamespace(
        cuOccupancyMaxActiveBlocksPerMultiprocessor=each, cuCtxGetDevice=lambda device: 0,
        cuDeviceGetAttribute=sms, cuGetErrorName=name,
    )  # fmt: skip
    if status:
        with pytest.raises(UnsupportedError, match=r"resident blocks: CUDA_ERROR_INVALID_VALUE \(1\)"):
            resident_blocks(7, 512, 0, driver)
    else:
        assert resident_blocks(7, 512, 0, driver) == 528


def test_a_cooperative_kernel_has_no_clusters_and_does_not_start_early() -> None:
    with pytest.raises(IRError, match="is not cooperative"):
        check(replace(program(), cooperative=False))
    with pytest.raises(UnsupportedError, match="one of both is accepted"):
        check(replace(program(), cluster=(3, 1, 1)))
    k = KernelBuilder("clear", 32)
    count, zero = k.pointer("count", 4, writable=True), k.reg("zero", 1)
    with k.If(k.tid.eq(0)):
        k.do(LDG_FRESH[4], zero, k.at(count, 0))
        k.do(STG[4], k.at(count, 0), zero)
    found = launch_sequence([k.build(), program()], arch="sm_90")
    assert [kernel.dependent for kernel in found.kernels] == [False, False]
    with pytest.raises(UnsupportedError, match="one of both is accepted"):
        replace(found.kernels[1], awaited=("count",))  # a launch has one attribute, and launchers write one
