"""The prediction of each step of gemm-sm90's ladder: what it executes, and its bottleneck, before it runs.

The idea.  The work of a launch is known in closed form (see sm90); divided by the rates of a multiprocessor
per cycle, a step of k of a tile takes at least

    tensor     operations / 4096: a wgmma of 64 x N x 16 takes N / 2 cycles
    L1         wavefronts of 128 bytes: what wgmma reads of shared memory, what is written there for it, and
               what threads that copy load through the L1
    L2, DRAM   bytes of the tiles, of a cluster once / bytes per cycle; DRAM divides by how often the L2
               serves a panel again
    results    the L1 cycles that write the tile's results, divided by its steps, while no warp multiplies

cycles.  Steps of k that are loaded while others are multiplied take the largest of these, and the results;
without, loading and multiplying add up.  Ping-pong multiplies one tile while the results of another leave.
What a measurement takes beyond that is latency, and the rounding of tiles to multiprocessors.

Notes.  4096 is the documented rate; that copies write 128 bytes of shared memory in a cycle, on the pipe that
wgmma reads by, and 64 bytes per cycle from the L2, are assumed.  Sizes are multiples of the tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.gpu import count_classes, read_code
from layoutalg.errors import ShapeError, UnsupportedError
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import GemmProblem, Sm90Config
from layoutalg.kernels.ladder.hopper import Hopper
from layoutalg.kernels.ladder.machines import find_machine
from layoutalg.kernels.ladder.sm90 import ARCH, CHUNK_BYTES, SECTOR_BYTES, WAVEFRONT_BYTES, Work, held, work
from layoutalg.kernels.ladder.step import Step
from layoutalg.model import Occupancy, l2_locality, tile_intensity

FLOPS_PER_CYCLE = 4096.0
"""Dense operations of f16 and bf16 of a multiprocessor.  Source: NVIDIA H100 Tensor Core GPU Architecture."""

L2_BYTES_PER_CYCLE = 64.0
"""The bytes per cycle of the port of a multiprocessor to the L2: two sectors.  Assumed."""


@dataclass(frozen=True, slots=True)
class WgmmaStep(Step):
    """A step at a problem: a Step whose `work` is known in closed form.

    `loop` has the instructions of a warp that multiplies in one pass of its loop; `multiplies` are wgmmas.
    The number of times that waits are repeated is not known, so that there is no count of all instructions.
    """

    config: Any
    work: Work

    @property
    def blocks(self) -> int:
        """Tiles of D: blocks, or what blocks compute one after the other."""
        return self.work.tiles

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of the launch, under the names of the tables, without those that are 0."""
        loaded = sum(c.total for op, c in self.work.accesses.items() if op.startswith("ld.global"))
        return MappingProxyType({**self.work.counts, **({"sectors loaded": loaded} if loaded else {})})

    @property
    def intensity(self) -> float:
        """Operations for each byte of A and B that the L2 is read for."""
        c = self.config
        return tile_intensity((c.tile_m * c.cluster_m, c.tile_n * c.cluster_n), self.problem.operand)

    @property
    def cycles(self) -> Mapping[str, float]:
        """Cycles that one step of k of one tile takes of each resource of a multiprocessor."""
        w, c, board = self.work, self.config, find_arch(ARCH).board
        if board is None:
            raise UnsupportedError(f"the rates of a board with {ARCH} are not known")
        chip, size = find_arch(ARCH), self.problem.operand.nbytes
        passes = w.tiles * w.steps
        brought = (c.tile_m + c.tile_n) * c.tile_k * size
        read = (c.tile_m / c.cluster_n + c.tile_n / c.cluster_m) * c.tile_k * size
        clock = board.f32_flops_per_s / (board.sms * 2 * chip.lanes * chip.sm_partitions)
        copied = w.copied_wavefronts and w.copied_wavefronts + self._through_l1("ld")
        results = w.result_wavefronts + self._through_l1("st")
        return MappingProxyType(
            {
                "tensor": 2.0 * c.tile_m * c.tile_n * c.tile_k / FLOPS_PER_CYCLE,
                "L1": (w.operand_wavefronts + copied) / passes + (0 if copied else brought / WAVEFRONT_BYTES),
                "L2": read / L2_BYTES_PER_CYCLE,
                "DRAM": brought / self.reuse / (board.dram_bytes_per_s / board.sms / clock),
                "results": 0.0 if c.pingpong else results / passes,
            }
        )

    def _through_l1(self, way: str) -> int:
        """Cycles that loads or stores of global memory take of the L1."""
        found = [x for op, x in self.work.accesses.items() if op.startswith(f"{way}.global")]
        return sum(max(x.instructions, x.total * SECTOR_BYTES // CHUNK_BYTES) for x in found)

    @property
    def overlapped(self) -> bool:
        """Whether steps of k are loaded while others are multiplied, by the block itself or by neighbours."""
        return self.config.stages > 1 or self.occupancy.blocks_per_sm > 1

    @property
    def least_cycles(self) -> float:
        """Cycles that one step of k of one tile takes at least."""
        found = self.cycles
        load, multiply = max(found["L2"], found["DRAM"]), max(found["tensor"], found["L1"])
        return found["results"] + (max(load, multiply) if self.overlapped else load + multiply)

    @property
    def share(self) -> float:
        """The most that the step can reach, as a share of the tensor cores' rate."""
        return self.cycles["tensor"] / self.least_cycles

    @property
    def flops_per_cycle(self) -> float:
        """Operations per cycle and multiprocessor that are reached at most."""
        return FLOPS_PER_CYCLE * self.share


def predict_wgmma(family: Family, p: GemmProblem, name: str, config: Sm90Config) -> WgmmaStep:
    """Return the prediction of a configuration, under a name.

    Raises ShapeError for sizes that are not multiples of the tiles, UnsupportedError without NVRTC or a
    disassembler.

    >>> from layoutalg.kernels.registry import find_family
    >>> family = find_family("gemm-sm90")
    >>> from layoutalg.kernels.registry import find_steps
    >>> step = predict_wgmma(family, family.problem(1024), "5", find_steps("gemm-sm90")["5 tile 128x256"])
    >>> step.bound, step.cycles["tensor"]
    ('tensor', 1024.0)
    """
    for what, extent, tile in (
        ("m", p.m, config.tile_m * config.cluster_m), ("n", p.n, config.tile_n * config.cluster_n),
        ("k", p.k, config.tile_k),
    ):  # fmt: skip
        if extent % tile:
            raise ShapeError(f"{what} = {extent} is not a multiple of {tile}: whole tiles are predicted")
    sequence = family.launches(p, config, ARCH)
    kernel, params = sequence.kernels[0], {**dict(sequence.scalars), **family.numbers(p, config)}
    cubin, occupancy = held(kernel)
    loop = {kind: float(n) for kind, n in count_classes(read_code(kernel, cubin)[1]).items()}
    found = work(p, config, kernel, params)
    return WgmmaStep(
        family=family.name, name=name, problem=p, config=config, cubin=cubin, loop=MappingProxyType(loop),
        executed=0, multiplies=found.wgmma, written_loads=0, fragment_loads=0, idle_loads=0, idle_once=0,
        barriers=0, accesses=found.accesses, occupancy=occupancy, reuse=_reuse(found, occupancy),
        index=(0.0, 0.0), machine=find_machine(ARCH), work=found,
    )  # fmt: skip


def _reuse(found: Work, held: Occupancy) -> float:
    """The number of loads of a panel per read from DRAM, by the blocks that run at the same time."""
    p, c, board = found.problem, found.config, find_arch(ARCH).board
    grid = p.n // c.tile_n, p.m // c.tile_m
    together = (board.sms if board else 1) * held.blocks_per_sm
    panel = grid[0] if isinstance(c, Hopper) else min(c.panel, grid[0])
    return l2_locality(grid, in_flight=together, order=panel, tile=(c.tile_n, c.tile_m)).reuse
