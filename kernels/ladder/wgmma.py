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
without, loading and multiplying are estimated to add up.  Ping-pong multiplies one tile while the results of
another leave.  What a measurement takes beyond that is latency, and the rounding of tiles to
multiprocessors.

Notes.  4096 is the documented rate; that copies write 128 bytes of shared memory in a cycle, on the pipe that
wgmma reads by, and 64 bytes per cycle from the L2, are assumed.  Sizes are multiples of the tiles.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from layoutalg.codegen.gpu import count_classes, read_code
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import GemmProblem, Sm90Config
from layoutalg.kernels.ladder.machines import ARCH, find_machine
from layoutalg.kernels.ladder.sm90 import CHUNK_BYTES, SECTOR_BYTES, WAVEFRONT_BYTES, Work, work
from layoutalg.kernels.ladder.step import Step, held, panel_reuse, require_whole
from layoutalg.model import tile_intensity


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaStep(Step):
    """A step at a problem: a Step whose `work` is known in closed form.

    `loop` has the instructions of a warp that multiplies in one pass of its loop; `multiplies` are wgmmas.
    The number of times that waits are repeated is not known, so that there is no count of all instructions.
    """

    config: Any
    work: Work

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
        w, c, passes, size = self.work, self.config, self.passes, self.problem.operand.nbytes
        brought = (c.tile_m + c.tile_n) * c.tile_k * size
        read = (c.tile_m / c.cluster_n + c.tile_n / c.cluster_m) * c.tile_k * size
        copied = w.copied_wavefronts and w.copied_wavefronts + self._through_l1("ld")
        results = w.result_wavefronts + self._through_l1("st")
        return MappingProxyType(
            {
                "tensor": self._flops / self.machine.flops_of("wgmma"),
                "L1": (w.operand_wavefronts + copied) / passes + (0 if copied else brought / WAVEFRONT_BYTES),
                "L2": read / self.machine.l2,
                "DRAM": brought / self.reuse / self.machine.dram,
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
        """Cycles that one step of k of one tile takes at least: warps multiply or store results."""
        found = self.cycles
        return found["results"] + max(found[what] for what in ("tensor", "L1", "L2", "DRAM"))

    @property
    def alternating_cycles(self) -> float:
        """Cycles of a step that is loaded before it is multiplied."""
        found = self.cycles
        return found["results"] + max(found["L2"], found["DRAM"]) + max(found["tensor"], found["L1"])


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
    require_whole(p, config.tile_m * config.cluster_m, config.tile_n * config.cluster_n, config.tile_k)
    sequence = family.launches(p, config, ARCH)
    kernel, params = sequence.kernels[0], {**dict(sequence.scalars), **family.numbers(p, config)}
    (cubin, occupancy), machine = held(kernel), find_machine(ARCH)
    loop = {kind: float(n) for kind, n in count_classes(read_code(kernel, cubin)[1]).items()}
    found = work(p, config, kernel, params)
    return WgmmaStep(
        family=family.name, name=name, problem=p, config=config, cubin=cubin, loop=MappingProxyType(loop),
        multiplies=found.wgmma, accesses=found.accesses, occupancy=occupancy, machine=machine,
        reuse=panel_reuse(p, config, occupancy, machine), work=found,
    )  # fmt: skip
