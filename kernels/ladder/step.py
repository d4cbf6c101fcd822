"""A step of a product's ladder at a problem: the work that it executes, and its bottleneck, before it runs.

The idea.  A step is a configuration, and every counter of it is known from two texts:

    the tile program    accesses by instruction, their wavefronts and sectors, multiplications, barriers
    the machine code    instructions of a turn of the main loop by class, registers, and so the occupancy

Divided by the rates of a multiprocessor per cycle, the work of one pass over a tile of k takes at least

    tensor, fma    multiplications / their rate on registers alone
    L1             wavefronts of shared memory, and of loads that pass through the L1
    issue          instructions of all warps / 4
    L2, DRAM       bytes of the tiles / bytes per cycle; DRAM divides by how often the L2 serves a panel again

cycles.  The largest bounds the step.  Where a block has a multiprocessor to itself and copies between two
barriers, hardly anything is multiplied meanwhile: that the cycles of both phases add up is an estimate, and
the bound stays what it is.  What a measurement takes beyond that is latency that nothing covers.  Rates are
those of a machine, see machines.

The work of a launch by wgmma is known in closed form (see counters); divided by the rates of a multiprocessor
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

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, TypeAlias

from layoutalg.arch import find_arch
from layoutalg.codegen.costs import Prediction, compiled
from layoutalg.codegen.expr import Const, index_cost, simplify, substitute
from layoutalg.codegen.gpu import (
    Cubin,
    SassInstruction,
    count_classes,
    prepare,
    read_code,
    shared_accesses,
)
from layoutalg.codegen.program import Do, For, Kernel, MemRef, Unroll, lower, walk
from layoutalg.errors import ShapeError, UnsupportedError, check_choice
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import GemmProblem, SimtConfig, Sm80Config, Sm90Config, mma_of
from layoutalg.kernels.ladder.counters import (
    CHUNK_BYTES,
    SECTOR_BYTES,
    WAVEFRONT_BYTES,
    Work,
    counted,
    work,
)
from layoutalg.kernels.ladder.hgemm import MMA_K, Hgemm
from layoutalg.kernels.ladder.hopper import Hopper
from layoutalg.kernels.ladder.machines import ARCH, TARGET, Machine, find_machine
from layoutalg.kernels.ladder.sgemm import Sgemm
from layoutalg.kernels.ladder.steps import LADDERS, PUBLISHED
from layoutalg.model import Occupancy, l2_locality, occupancy_of, tile_intensity

FRAGMENT = MappingProxyType({True: "ldmatrix", False: "ld.shared"})
LOADS = MappingProxyType({True: "ldsm", False: "lds"})
"""The loads of fragments for an mma, or for multiply-adds, by the name in the analysis and by the class in
machine code."""

Config: TypeAlias = Sgemm | Hgemm | SimtConfig | Sm80Config


@dataclass(frozen=True, slots=True, kw_only=True)
class Step:
    """A step at a problem; counts are of warp instructions of a whole launch unless stated otherwise.

    `loop` comes from the machine code: the instructions of a warp in one pass over a tile of k, by class;
    so do `fragment_loads`, where `written_loads` are the program's, and `idle_loads`, those of shared memory
    under @!PT that stand before asynchronous copies: no lane makes them; `idle_once` of them stand outside
    the main loop, where branches may pass them by.  `accesses` has the instructions, wavefronts and sectors,
    `ways` the cost of an access over its least: 8.0 is an 8-way bank conflict.
    `reuse` is how often the L2 serves a panel.  `index` is the cost of a fragment's load in integer
    instructions for its address, as the program writes it and lowered, by the model of `index_cost`.

    >>> from layoutalg.kernels import find_family
    >>> from layoutalg.kernels.ladder import predict_steps
    >>> (step,) = predict_steps(find_family("gemm-sm80"), 256, ("2 vectors",))
    >>> step.name, step.bound
    ('2 vectors', 'L1')
    """

    family: str
    name: str
    problem: GemmProblem
    config: Config
    cubin: Cubin
    loop: Mapping[str, float]
    multiplies: int
    accesses: Prediction
    occupancy: Occupancy
    reuse: float
    machine: Machine
    executed: int = 0
    written_loads: int = 0
    fragment_loads: int = 0
    idle_loads: int = 0
    idle_once: int = 0
    barriers: int = 0
    index: tuple[float, float] = (0.0, 0.0)

    @property
    def by_mma(self) -> bool:
        """Whether tensor cores multiply."""
        return not isinstance(self.config, Sgemm | SimtConfig)

    @property
    def unit(self) -> str:
        """The resource that multiplies, a key of `cycles`."""
        return "tensor" if self.by_mma else "fma"

    @property
    def blocks(self) -> int:
        """Blocks of the launch."""
        return (self.problem.m // self.config.tile_m) * (self.problem.n // self.config.tile_n)

    @property
    def passes(self) -> int:
        """Tiles of k that all blocks together go through."""
        return self.blocks * (self.problem.k // self.config.tile_k)

    @property
    def ways(self) -> Mapping[str, float]:
        """Cost over least cost of every access, by instruction."""
        return MappingProxyType({op: cost.total / cost.ideal for op, cost in self.accesses.items()})

    @property
    def intensity(self) -> float:
        """Operations for each byte of A and B that a block takes from the L2."""
        return tile_intensity((self.config.tile_m, self.config.tile_n), self.problem.operand)

    @property
    def copies(self) -> int:
        """Asynchronous copies that lanes make."""
        return sum(c.instructions for op, c in self.accesses.items() if op.endswith(":global"))

    @property
    def merged(self) -> float:
        """Loads of fragments in the program for one in the machine code: 1.0 where they are as written."""
        return self.written_loads / self.fragment_loads if self.fragment_loads else 1.0

    @property
    def counts(self) -> Mapping[str, int]:
        """The counts of the launch, under the names of the tables, without those that are 0."""
        shared = [c for op, c in self.accesses.items() if "global" not in op]
        reads = [c for op, c in self.accesses.items() if op.startswith("ld.global") or op.endswith(":global")]
        stores = [c for op, c in self.accesses.items() if op.startswith("st.global")]
        found = {
            "instructions": self.executed,
            "mma" if self.by_mma else "ffma": self.multiplies,
            "ldmatrix" if self.by_mma else "lds": self.fragment_loads,
            "shared wavefronts": sum(c.total for c in shared),
            "global loads": sum(c.instructions for c in reads),
            "sectors loaded": sum(c.total for c in reads),
            "sectors stored": sum(c.total for c in stores),
            "barriers": self.barriers,
        }
        return MappingProxyType({what: n for what, n in found.items() if n})

    @property
    def cycles(self) -> Mapping[str, float]:
        """Cycles that one pass over a tile of k of one block takes of each resource of a multiprocessor."""
        c, chip, machine = self.config, find_arch(self.machine.arch), self.machine
        loaded = (c.tile_m + c.tile_n) * c.tile_k * self.problem.operand.nbytes
        return MappingProxyType(
            {
                self.unit: self._flops / machine.flops_of(self.rate_name),
                "L1": sum(self._l1_cycles),
                "issue": sum(self.loop.values()) * c.threads / chip.lanes / chip.sm_partitions,
                "L2": loaded / machine.l2,
                "DRAM": loaded / self.reuse / machine.dram,
            }
        )

    @property
    def _flops(self) -> float:
        """Operations of a pass."""
        return self.problem.flops / self.passes

    @property
    def _l1_cycles(self) -> tuple[float, float]:
        """The cycles of the L1 for copies and for fragments in a pass."""
        chip = find_arch(self.machine.arch)
        through = [c for op, c in self.accesses.items() if op.startswith("ld.global")]
        all_shared = self.counts.get("shared wavefronts", 0)
        fragments = sum(c.total for op, c in self.accesses.items() if op.startswith(FRAGMENT[self.by_mma]))
        copies = sum(max(x.instructions, x.total * chip.sector_bytes // chip.line_bytes) for x in through)
        stored = all_shared - fragments
        each = self.machine.wavefront_cycles / self.passes
        if isinstance(self.config, Sgemm) and not self.config.shared:  # fragments are loaded from there
            return stored * each, copies * each
        return (stored + copies) * each, fragments * each

    @property
    def overlapped(self) -> bool:
        """Whether tiles are copied while others are multiplied, by the block itself or by its neighbours."""
        match self.config:
            case Sgemm(shared=shared):
                ahead = not shared
            case Hgemm(ahead=ahead):
                pass
            case _:
                ahead = True
        return ahead or self.occupancy.blocks_per_sm > 1

    @property
    def least_cycles(self) -> float:
        """Cycles that a pass takes at least."""
        return self.cycles[self.bound]

    @property
    def alternating_cycles(self) -> float:
        """Cycles of a pass whose copies end before it multiplies."""
        found, (copies, fragments) = self.cycles, self._l1_cycles
        multiplied = max(found[self.unit], fragments)
        return max(found["issue"], max(copies, found["L2"], found["DRAM"]) + multiplied)

    @property
    def share(self) -> float:
        """The most that the step can reach, as a share of the rate on registers alone."""
        return self.cycles[self.unit] / self.least_cycles

    @property
    def estimated_share(self) -> float | None:
        """The share if copying and multiplying never overlap; None for a step that overlaps them."""
        return None if self.overlapped else self.cycles[self.unit] / self.alternating_cycles

    @property
    def rate_name(self) -> str:
        """The key of FLOPS_PER_CYCLE that the step multiplies at."""
        if isinstance(self.config, Sgemm | SimtConfig):
            return "ffma"
        return f"{self.problem.operand}.k{mma_k(self.problem, self.config)}"

    @property
    def published(self) -> float | None:
        """The author's share of cuBLAS with the step, if it was published for this machine."""
        of_it = self.family == "gemm-sm75" and self.machine.arch == "sm_75"
        return PUBLISHED.get(self.name) if of_it else None

    @property
    def bound(self) -> str:
        """The resource that a pass takes most cycles of."""
        return max(self.cycles, key=lambda what: self.cycles[what])

    @property
    def flops_per_cycle(self) -> float:
        """Operations per cycle and multiprocessor at most."""
        return self._flops / self.least_cycles


def require_whole(p: GemmProblem, m: int, n: int, k: int) -> None:
    """Raise ShapeError for sizes that are not multiples of such tiles."""
    for name, extent, tile in (("m", p.m, m), ("n", p.n, n), ("k", p.k, k)):
        if extent % tile:
            raise ShapeError(f"{name} = {extent} is not a multiple of {tile}: whole tiles are predicted")


def panel_reuse(p: GemmProblem, c: Any, held: Occupancy, machine: Machine) -> float:
    """The number of loads of a panel per read from DRAM: blocks of published kernels go along rows of tiles,
    others down panels of tile columns.
    """
    grid = p.n // c.tile_n, p.m // c.tile_m
    panel = grid[0] if isinstance(c, Sgemm | Hgemm | Hopper) else min(c.panel, grid[0])
    together = machine.sms * held.blocks_per_sm
    return l2_locality(grid, in_flight=together, order=panel, tile=(c.tile_n, c.tile_m)).reuse


def held(kernel: Kernel, target: str = TARGET) -> tuple[Cubin, Occupancy]:
    """The machine code of a kernel, with its registers, and its occupancy of a multiprocessor.

    Compiles; needs no GPU.  Raises UnsupportedError without NVRTC.

    >>> from layoutalg.kernels.gemm import Sm90Config
    >>> from layoutalg.kernels.registry import find_family
    >>> family = find_family("gemm-sm90")
    >>> cubin, occupancy = held(family.build(family.problem(4096), Sm90Config(128, 256, 4)))
    >>> cubin.registers, occupancy.blocks_per_sm
    (168, 1)
    """
    cubin = prepare(kernel, target).cubin
    return cubin, occupancy_of(
        find_arch(target), threads=kernel.threads, registers_per_thread=cubin.registers,
        shared_bytes=kernel.shared_bytes,
    )  # fmt: skip


def mma_k(p: GemmProblem, c: Hgemm | Sm80Config) -> int:
    """The k of one mma."""
    return MMA_K if isinstance(c, Hgemm) else mma_of(p, c).k


@dataclass(frozen=True, slots=True, kw_only=True)
class WgmmaStep(Step):
    """A step at a problem: a Step whose `work` is known in closed form.

    `loop` has the instructions of a warp that multiplies in one pass of its loop; `multiplies` are wgmmas.
    Nobody knows how often waits repeat, so all instructions are not counted.
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


def usual_arch(family: str) -> str:
    """Return the default architecture for predictions of a family's steps.

    >>> usual_arch("gemm-sm75"), usual_arch("gemm-sm80")
    ('sm_75', 'sm_90')
    """
    return "sm_75" if family == "gemm-sm75" else ARCH


def predict_steps(family: Family, n: int, names: Sequence[str] = (), arch: str = ARCH) -> Iterator[Step]:
    """The steps of a family's ladder, all or those named, on n x n x n.  Compiles each; needs no GPU.

    Raises UnknownNameError for a step there is not, ShapeError for an `n` that tiles do not divide,
    UnsupportedError without NVRTC or a disassembler, and for an architecture without rates or that lacks an
    instruction.

    >>> from layoutalg.kernels.registry import find_family
    >>> [step.bound for step in predict_steps(find_family("gemm-sm80"), 256, ("2 vectors",))]
    ['L1']
    """
    steps = LADDERS[family.name]
    for name in names or steps:
        check_choice(f"step of {family.name}", name, steps)
        yield predict_step(family, family.problem(n), name, steps[name], arch)


def predict_step(
    family: Family, p: GemmProblem, name: str, config: Config | Sm90Config, arch: str = ARCH
) -> Step:
    """Return the prediction of a configuration, under a name.  Raises what `predict_steps` raises.

    >>> from layoutalg.kernels.registry import find_family
    >>> family = find_family("gemm-simt")
    >>> step = predict_step(family, family.problem(256), "v8", LADDERS["gemm-simt"]["v8"])
    >>> step.multiplies, step.bound, step.occupancy.warps_per_sm
    (524288, 'L1', 16)
    """
    machine, by_mma = find_machine(arch), isinstance(config, Hgemm | Sm80Config)
    if isinstance(config, Sm90Config):
        if machine.arch != ARCH:
            raise UnsupportedError(f"wgmma needs {ARCH}; {machine.arch} does not have it")
        return predict_wgmma(family, p, name, config)
    count = multiplies(p, config)
    sequence = family.launches(p, config, machine.arch)
    kernel, params = sequence.kernels[0], {**dict(sequence.scalars), **family.scalars(p)}
    accesses = counted(kernel, params, machine.arch)
    cubin, occupancy = held(kernel, machine.target)
    blocks, tiles_k = (p.m // config.tile_m) * (p.n // config.tile_n), p.k // config.tile_k
    warps = blocks * kernel.threads // find_arch(machine.arch).lanes
    function, loop = read_code(kernel, cubin)
    in_loop = count_classes(loop)
    turns = (
        count / warps / (in_loop.get("tensor", 0) or in_loop["fma"])
    )  # all multiplications are in the loop

    def turned(i: SassInstruction) -> bool:
        return loop[0].address <= i.address <= loop[-1].address

    def executed(wanted: Callable[[SassInstruction], bool]) -> int:
        """Instructions of the launch that are wanted: those outside the main loop once for each warp."""
        once = (i for i in function.instructions if not turned(i))
        return round(warps * (sum(map(wanted, once)) + turns * sum(map(wanted, loop))))

    loads = executed(lambda i: i.kind == LOADS[by_mma])
    written = sum(x.instructions for op, x in accesses.items() if op.startswith(FRAGMENT[by_mma]))
    if loads < written:
        accesses = counted(compiled(kernel, shared_accesses(function)), params, machine.arch)
    idle = [turned(i) for i in function.padding if i.kind == "lds"]
    return Step(
        family=family.name, name=name, problem=p, config=config, cubin=cubin, multiplies=count,
        loop=MappingProxyType({x: n * turns / tiles_k for x, n in in_loop.items()}),
        accesses=accesses, occupancy=occupancy, reuse=panel_reuse(p, config, occupancy, machine),
        executed=executed(lambda _: True), written_loads=written, fragment_loads=loads,
        idle_loads=round(warps * (idle.count(False) + idle.count(True) * turns)),
        idle_once=warps * idle.count(False), barriers=executed(lambda i: i.opcode.startswith("BAR")),
        index=(index_operations(kernel, by_mma=by_mma), index_operations(lower(kernel), by_mma=by_mma)),
        machine=machine,
    )  # fmt: skip


def multiplies(p: GemmProblem, c: Config) -> int:
    """Instructions of warps that multiply, in a launch on whole tiles.  Raises ShapeError for others.

    >>> from layoutalg.kernels.registry import find_family
    >>> [multiplies(f.problem(512), config) for f in map(find_family, ("gemm-simt", "gemm-sm80"))
    ...  for config in list(LADDERS[f.name].values())[-1:]]
    [4194304, 65536]
    """
    require_whole(p, c.tile_m, c.tile_n, c.tile_k)
    if isinstance(c, Sgemm | SimtConfig):
        return p.m * p.n * p.k // find_arch(ARCH).lanes
    rows = c.mma_m if isinstance(c, Sm80Config) else 16
    return p.m * p.n * p.k * p.packed // (rows * 8 * mma_k(p, c))


def index_operations(kernel: Kernel, *, by_mma: bool) -> float:
    """Integer instructions for the address of a load of a fragment in the main loop, in the mean; a constant
    that is added counts, though the load itself adds it.

    >>> from layoutalg.kernels.registry import find_family
    >>> chosen = find_family("gemm-sm80")
    >>> kernel = chosen.build(chosen.problem(512), LADDERS["gemm-sm80"]["4 copy ahead"])
    >>> index_operations(kernel, by_mma=True), index_operations(lower(kernel), by_mma=True)
    (6.5, 1.375)
    """
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    costs = [
        index_cost(simplify(substitute(arg.index, {unroll.var: Const(value)})))
        for unroll in (s for loop in loops for s in walk(loop.body) if isinstance(s, Unroll))
        for do in unroll.body
        if isinstance(do, Do)
        for operand, arg in zip(do.instr.operands, do.args, strict=True)
        if isinstance(arg, MemRef) and operand.op.startswith(FRAGMENT[by_mma])
        for value in range(unroll.count)
    ]
    return sum(costs) / len(costs) if costs else 0.0


def effects(before: Step, after: Step, least: float = 0.02) -> Mapping[str, float]:
    """The factor by which each count grows or falls from one step to the next, where it is more than `least`.

    What only one of the two does is left out.

    >>> from layoutalg.kernels.registry import find_family
    >>> (v8,) = predict_steps(find_family("gemm-simt"), 512, ("v8",))
    >>> dict(effects(v8, v8))
    {}
    """
    one, two = before.counts, after.counts
    factors = {what: two[what] / one[what] for what in one if what in two}
    return MappingProxyType({what: f for what, f in factors.items() if abs(f - 1) > least})
