"""Occupancy agrees with the toolkit's own calculator on every architecture, and names what limits it."""

from __future__ import annotations

import ctypes
import dataclasses
import functools
import site
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from layoutalg.arch import ARCHS, Arch, instruction_table
from layoutalg.errors import ResourceError, ShapeError, UnknownNameError
from layoutalg.model import occupancy_of
from layoutalg.testing import compile_shared
from tests.sweeps import each

SOURCE = """
#include <cstddef>
#include <cstring>
#include <climits>
#include "cuda_occupancy.h"

extern "C" int blocks(const int *arch, int threads, int registers, int shared, int *limits) {
    cudaOccDeviceProp prop;
    prop.computeMajor = arch[0];
    prop.computeMinor = arch[1];
    prop.maxThreadsPerBlock = arch[2];
    prop.maxThreadsPerMultiprocessor = arch[3];
    prop.regsPerBlock = prop.regsPerMultiprocessor = arch[4];
    prop.warpSize = 32;
    prop.sharedMemPerBlock = 48 * 1024;
    prop.sharedMemPerMultiprocessor = arch[5];
    prop.sharedMemPerBlockOptin = arch[6];
    prop.reservedSharedMemPerBlock = arch[7];
    prop.numSms = 1;
    cudaOccFuncAttributes kernel;
    kernel.maxThreadsPerBlock = arch[2];
    kernel.numRegs = registers;
    kernel.sharedSizeBytes = 0;
    kernel.partitionedGCConfig = PARTITIONED_GC_OFF;
    kernel.shmemLimitConfig = FUNC_SHMEM_LIMIT_OPTIN;
    kernel.maxDynamicSharedSizeBytes = arch[6];
    kernel.numBlockBarriers = 1;
    cudaOccDeviceState state;
    state.carveoutConfig = SHAREDMEM_CARVEOUT_MAX_SHARED;
    cudaOccResult found;
    if (cudaOccMaxActiveBlocksPerMultiprocessor(&found, &prop, &kernel, &state, threads, shared))
        return -1;
    limits[0] = found.blockLimitWarps;
    limits[1] = found.blockLimitRegs;
    limits[2] = found.blockLimitBlocks;
    limits[3] = found.blockLimitSharedMem;
    return found.activeBlocksPerMultiprocessor;
}
"""
RESOURCES = ("warps", "registers", "blocks", "shared")


def _header_folder() -> Path | None:
    """Where cuda_occupancy.h lies: in NVIDIA's runtime wheel, or in an installed toolkit."""
    for base in (*map(Path, site.getsitepackages()), Path("/usr/local/cuda/include")):
        for found in (base / "cuda_occupancy.h", *base.glob("nvidia/*/include/cuda_occupancy.h")):
            if found.is_file():
                return found.parent
    return None


@functools.cache
def _calculator() -> ctypes.CDLL:
    folder = _header_folder()
    if folder is None:
        pytest.skip("there is no cuda_occupancy.h; the wheel nvidia-cuda-runtime has it")
    return compile_shared(SOURCE, flags=[f"-I{folder}"])


def _calculated(machine: Arch, threads: int, registers: int, shared: int) -> tuple[int, dict[str, int]]:
    facts = (
        *machine.compute_capability,
        machine.max_threads_per_block,
        machine.max_warps_per_sm * machine.lanes,
        machine.registers_per_sm,
        machine.shared_bytes_per_sm,
        machine.max_shared_bytes_per_block,
        machine.reserved_shared_bytes_per_block,
    )
    limits = (ctypes.c_int * 4)()
    blocks = _calculator().blocks((ctypes.c_int * 8)(*facts), threads, registers, shared, limits)
    return blocks, dict(zip(RESOURCES, limits, strict=True))


ASKED = st.tuples(
    st.sampled_from(list(ARCHS.values())),
    st.integers(1, 1024) | st.sampled_from((32, 64, 96, 128, 256, 288, 384, 512, 1024)),
    st.integers(1, 255),
    st.integers(0, 228 * 1024) | st.integers(0, 64 * 1024),
)


@given(ASKED)
def test_the_toolkits_calculator_agrees(asked: tuple[Arch, int, int, int]) -> None:
    machine, threads, registers, shared = asked
    if shared > machine.max_shared_bytes_per_block:
        with pytest.raises(ResourceError, match="shared memory a block in bytes"):
            occupancy_of(machine, threads=threads, registers_per_thread=registers, shared_bytes=shared)
        return
    blocks, limits = _calculated(machine, threads, registers, shared)
    if blocks == 0:
        with pytest.raises(ResourceError, match="registers per block"):
            occupancy_of(machine, threads=threads, registers_per_thread=registers, shared_bytes=shared)
        return
    report = occupancy_of(machine, threads=threads, registers_per_thread=registers, shared_bytes=shared)
    assert report.blocks_per_sm == blocks
    assert {limit.resource: limit.blocks for limit in report.limits}.items() <= limits.items()
    assert set(limits) - {limit.resource for limit in report.limits} <= {"shared"}
    assert report.warps_per_sm == blocks * -(-threads // 32)
    for limit in report.limits:
        assert limit.idle >= 0
        assert (limit.resource in report.limiting) == (limit.blocks == blocks)


@each(
    ("arch", "asked", "blocks", "limiting"),
    [
        ("sm_90", (32, 32, 0), 32, ("blocks",)),
        ("sm_90", (1024, 32, 0), 2, ("warps", "registers")),
        ("sm_90", (128, 200, 0), 2, ("registers",)),
        ("sm_90", (128, 32, 0), 16, ("warps", "registers")),
        ("sm_90", (128, 32, 113 * 1024), 2, ("shared",)),
        ("sm_90", (128, 32, 113 * 1024 + 1), 1, ("shared",)),
        ("sm_70", (128, 32, 0), 16, ("warps", "registers")),
        ("sm_75", (64, 64, 0), 16, ("warps", "registers", "blocks")),
        # registers are free while shared memory decides
        ("sm_75", (256, 128, 48 * 1024), 1, ("shared",)),
        ("sm_75", (256, 129, 48 * 1024), 1, ("registers", "shared")),
        # a warp lives in one partition: ten of 200 registers would fit 65,536, two fit each of the four files
        ("sm_80", (32, 200, 0), 8, ("registers",)),
    ],
)
def test_what_limits(arch: str, asked: tuple[int, int, int], blocks: int, limiting: tuple[str, ...]) -> None:
    threads, registers, shared = asked
    report = occupancy_of(arch, threads=threads, registers_per_thread=registers, shared_bytes=shared)
    assert (report.blocks_per_sm, report.limiting) == (blocks, limiting)


@each(
    ("asked", "error", "message"),
    [
        ((1025, 32, 0), ResourceError, "threads per block on sm_90: 1025 asked, the limit is 1024"),
        ((128, 256, 0), ResourceError, "registers per thread on sm_90: 256 asked, the limit is 255"),
        ((128, 32, 227 * 1024 + 1), ResourceError, "shared memory a block in bytes on sm_90: 232449"),
        ((512, 200, 0), ResourceError, "registers per block on sm_90: 102400 asked"),
        ((0, 32, 0), ShapeError, "threads is 0"),
        ((32, 32, -1), ShapeError, "shared_bytes is -1"),
    ],
)
def test_what_cannot_launch_is_refused(
    asked: tuple[int, int, int], error: type[Exception], message: str
) -> None:
    threads, registers, shared = asked
    with pytest.raises(error, match=message):
        occupancy_of("sm_90", threads=threads, registers_per_thread=registers, shared_bytes=shared)
    with pytest.raises(UnknownNameError, match="sm_91"):
        occupancy_of("sm_91", threads=32, registers_per_thread=32)


def test_a_toy_gpu_is_one_value() -> None:
    toy = dataclasses.replace(
        ARCHS["sm_90"], name="toy", lanes=4, banks=4, instructions=instruction_table(lanes=4, banks=4),
        registers_per_sm=256, register_allocation_unit=16, sm_partitions=2, max_warps_per_sm=8,
    )  # fmt: skip
    report = occupancy_of(toy, threads=8, registers_per_thread=7)
    assert (report.blocks_per_sm, report.limiting) == (4, ("warps", "registers"))
    small = dataclasses.replace(toy, max_warps_per_sm=1)
    with pytest.raises(ResourceError, match=r"warps of an SM of toy: 2 asked, the limit is 1"):
        occupancy_of(small, threads=8, registers_per_thread=7)
