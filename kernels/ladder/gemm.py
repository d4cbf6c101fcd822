"""What each step of a product's ladder will execute and where it will be held up, before anything runs.

The idea.  A step is a configuration, and everything that a counter will say of it is known from two texts:

    the tile program    accesses by instruction, their wavefronts and sectors, multiplications, barriers
    the machine code    instructions of a turn of the main loop by class, registers, and so the occupancy

Divided by what a multiprocessor does in a cycle, the work of one pass over a tile of k takes at least

    tensor, fma    multiplications / their rate on registers alone
    L1             wavefronts of shared memory, and of loads that pass through the L1
    issue          instructions of all warps / 4
    L2, DRAM       bytes of the tiles / bytes a cycle; DRAM divides by how often the L2 serves a panel again

cycles.  The largest bounds the step.  Where a block has a multiprocessor to itself and copies between two
barriers, nothing is multiplied meanwhile, and the cycles of both phases add up.  What a measurement takes
beyond that is latency that nothing covers.  Rates are those of a machine, see machines.

    >>> from layoutalg.kernels.registry import find_family
    >>> second, third = predict_steps(find_family("gemm-sm80"), 512, ("2 vectors", "3 swizzle"))
    >>> {what: round(factor, 2) for what, factor in effects(second, third).items()}
    {'shared wavefronts': 0.16}
    >>> second.ways["ldmatrix.x4"], third.ways["ldmatrix.x4"]
    (8.0, 1.0)

Notes.  Instructions outside the main loop are taken to run once, whatever branches they stand under: the
sum is within a few per cent at k = 4096.  A compiler may load several words of a thread at once where the
program loads them one by one: `merged` says so.  Accesses are as counters show them (see counters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from layoutalg.arch import find_arch
from layoutalg.codegen.costs import Prediction
from layoutalg.codegen.expr import Const, index_cost, simplify, substitute
from layoutalg.codegen.gpu import (
    Cubin,
    SassFunction,
    SassInstruction,
    count_classes,
    disassemble,
    main_loop,
    parse_sass,
    prepare,
)
from layoutalg.codegen.program import Do, For, Kernel, MemRef, Unroll, lower, walk
from layoutalg.errors import ShapeError, UnknownNameError
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import GemmProblem, SimtConfig, Sm80Config, mma_of
from layoutalg.kernels.ladder.counters import counted, vectorized_loads
from layoutalg.kernels.ladder.machines import Machine, find_machine
from layoutalg.kernels.ladder.steps import PUBLISHED
from layoutalg.model import Occupancy, l2_locality, occupancy_of, tile_intensity

ARCH, TARGET = "sm_90", "sm_90a"
"""What is predicted for unless something else is asked for."""


@dataclass(frozen=True, slots=True)
class Step:
    """One step at one problem; counts are of warp instructions of a whole launch unless said otherwise.

    `loop` comes from the machine code: the instructions of a warp in one pass over a tile of k, by class;
    so do `fragment_loads`, where `written_loads` are the program's, and `idle_loads`, those of shared memory
    under @!PT that stand before asynchronous copies: no lane makes them; `idle_once` of them stand outside
    the main loop, where branches may pass them by.  `accesses` has the instructions, wavefronts and sectors,
    `ways` the cost of an access over its least: 8.0 is an 8-way bank conflict.
    `reuse` is how often the L2 serves a panel.  `index` is what a load of a fragment costs in integer
    instructions for its address, as the program writes it and lowered, by the model of `index_cost`.

    >>> from layoutalg.kernels import find_family
    >>> (step,) = predict_steps(find_family("gemm-sm80"), 256, ("2 vectors",))
    >>> step.name, step.bound
    ('2 vectors', 'L1')
    """

    family: str
    name: str
    problem: GemmProblem
    config: Sm80Config | SimtConfig
    cubin: Cubin
    loop: Mapping[str, float]
    executed: int
    multiplies: int
    written_loads: int
    fragment_loads: int
    idle_loads: int
    idle_once: int
    barriers: int
    accesses: Prediction
    occupancy: Occupancy
    reuse: float
    index: tuple[float, float]
    machine: Machine

    @property
    def by_mma(self) -> bool:
        """Whether tensor cores multiply."""
        return isinstance(self.config, Sm80Config)

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
        """What the launch executes, under the names of the tables; nothing that it does not."""
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
                "tensor" if self.by_mma else "fma": self._flops / machine.flops_of(self.rate_name),
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
        """What copies and what fragments take of the L1 in a pass."""
        chip = find_arch(self.machine.arch)
        through = [c for op, c in self.accesses.items() if op.startswith("ld.global")]
        all_shared = self.counts.get("shared wavefronts", 0)
        fragments = sum(c.total for op, c in self.accesses.items() if op.startswith(_FRAGMENT[self.by_mma]))
        copies = sum(max(x.instructions, x.total * chip.sector_bytes // chip.line_bytes) for x in through)
        stored = all_shared - fragments
        each = self.machine.wavefront_cycles / self.passes
        if self.config.via == "global":  # fragments are loaded from there
            return stored * each, copies * each
        return (stored + copies) * each, fragments * each

    @property
    def overlapped(self) -> bool:
        """Whether tiles are copied while others are multiplied, by the block itself or by its neighbours."""
        c = self.config
        ahead = c.via in ("global", "cp.async") or c.stages > 1 or c.ahead
        return ahead or self.occupancy.blocks_per_sm > 1

    @property
    def least_cycles(self) -> float:
        """Cycles of a pass at least: of the bound, or of copying and multiplying one after another."""
        found = self.cycles
        if self.overlapped:
            return found[self.bound]
        copies, fragments = self._l1_cycles
        multiplied = max(found["tensor" if self.by_mma else "fma"], fragments)
        return max(found["issue"], max(copies, found["L2"], found["DRAM"]) + multiplied)

    @property
    def share(self) -> float:
        """What the step reaches at most of what registers alone allow."""
        return self.cycles["tensor" if self.by_mma else "fma"] / self.least_cycles

    @property
    def rate_name(self) -> str:
        """The key of FLOPS_PER_CYCLE that the step multiplies at."""
        if isinstance(self.config, SimtConfig):
            return "ffma"
        return f"{self.problem.operand}.k{mma_of(self.problem, self.config).k}"

    @property
    def published(self) -> float | None:
        """What the author of the step reached of cuBLAS, if the step was published for this machine."""
        of_it = self.family == "gemm-sm75" and self.machine.arch == "sm_75"
        return PUBLISHED.get(self.name) if of_it else None

    @property
    def bound(self) -> str:
        """The resource that a pass takes most cycles of."""
        return max(self.cycles, key=lambda what: self.cycles[what])

    @property
    def flops_per_cycle(self) -> float:
        """Operations a cycle and multiprocessor that the bound allows."""
        return self.problem.flops / self.passes / self.cycles[self.bound]


_FRAGMENT = MappingProxyType({True: "ldmatrix", False: "ld.shared"})
_LOADS = MappingProxyType({True: "ldsm", False: "lds"})
"""How fragments are loaded for an mma, or for multiply-adds, in the analysis' name and in the machine code's
classes."""


def usual_arch(family: str) -> str:
    """What the steps of a family are predicted for unless something else is asked for.

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
    for name in names or family.steps:
        if name not in family.steps:
            raise UnknownNameError(f"step of {family.name}", name, family.steps)
        yield predict_step(family, family.problem(n), name, family.steps[name], arch)


def predict_step(family: Family, p: GemmProblem, name: str, config: Any, arch: str = ARCH) -> Step:
    """What one configuration will do, under a name.  Raises what `predict_steps` raises.

    >>> from layoutalg.kernels.registry import find_family
    >>> family = find_family("gemm-simt")
    >>> step = predict_step(family, family.problem(256), "v8", family.steps["v8"])
    >>> step.multiplies, step.bound, step.occupancy.warps_per_sm
    (524288, 'L1', 16)
    """
    machine, by_mma = find_machine(arch), isinstance(config, Sm80Config)
    count = multiplies(p, config)
    sequence = family.launches(p, config, machine.arch)
    kernel, params = sequence.kernels[0], {**dict(sequence.scalars), **family.bench.scalars(p)}
    accesses = counted(kernel, params, machine.arch)
    cubin = prepare(kernel, machine.target).cubin
    blocks, tiles_k = (p.m // config.tile_m) * (p.n // config.tile_n), p.k // config.tile_k
    warps = blocks * kernel.threads // find_arch(machine.arch).lanes
    code = _Code.read(cubin, count / warps)
    loads = round(warps * code.executed(lambda i: i.kind == _LOADS[by_mma]))
    written = sum(x.instructions for op, x in accesses.items() if op.startswith(_FRAGMENT[by_mma]))
    if loads < written and isinstance(config, SimtConfig):
        accesses = vectorized_loads(p, config, kernel, params, machine.arch)
    idle, once = code.idle_loads
    held = occupancy_of(
        machine.arch, threads=kernel.threads, registers_per_thread=cubin.registers,
        shared_bytes=kernel.shared_bytes,
    )  # fmt: skip
    return Step(
        family.name, name, p, config, cubin,
        MappingProxyType({x: n * code.turns / tiles_k for x, n in count_classes(code.loop).items()}),
        round(warps * code.executed(lambda _: True)), count, written, loads,
        round(warps * idle), round(warps * once),
        round(warps * code.executed(lambda i: i.opcode.startswith("BAR"))),
        accesses, held, _reuse(p, config, held, machine.sms),
        (index_operations(kernel, by_mma=by_mma), index_operations(lower(kernel), by_mma=by_mma)), machine,
    )  # fmt: skip


def multiplies(p: GemmProblem, c: Sm80Config | SimtConfig) -> int:
    """Instructions of warps that multiply, in a launch on whole tiles.  Raises ShapeError for others.

    >>> from layoutalg.kernels.registry import find_family
    >>> [multiplies(f.problem(512), config) for f in map(find_family, ("gemm-simt", "gemm-sm80"))
    ...  for config in list(f.steps.values())[-1:]]
    [4194304, 65536]
    """
    for name, extent, tile in (("m", p.m, c.tile_m), ("n", p.n, c.tile_n), ("k", p.k, c.tile_k)):
        if extent % tile:
            raise ShapeError(f"{name} = {extent} is not a multiple of {tile}: whole tiles are predicted")
    if isinstance(c, SimtConfig):
        return p.m * p.n * p.k // find_arch(ARCH).lanes
    return p.m * p.n * p.k // (16 * 8 * mma_of(p, c).k)


@dataclass(frozen=True, slots=True)
class _Code:
    """The machine code of a kernel, its main loop, and how many turns of it a warp takes."""

    function: SassFunction
    loop: tuple[SassInstruction, ...]
    turns: float

    @classmethod
    def read(cls, cubin: Cubin, multiplies: float) -> _Code:
        """Disassemble; a warp's multiplications are all in the main loop."""
        (function,) = (f for f in parse_sass(disassemble(cubin.image)) if f.name == cubin.name)
        loop = main_loop(function)
        inner = count_classes(loop)
        return cls(function, loop, multiplies / (inner.get("tensor", 0) or inner["fma"]))

    def executed(self, wanted: Callable[[SassInstruction], bool]) -> float:
        """Instructions of a warp that are wanted: those of the main loop every turn, the others once."""
        every, inner = (sum(map(wanted, x)) for x in (self.function.instructions, self.loop))
        return every + inner * (self.turns - 1)

    @property
    def idle_loads(self) -> tuple[float, float]:
        """Loads of shared memory that a warp goes through and no lane executes: all, outside the loop."""
        idle = [i for i in self.function.padding if i.kind == "lds"]
        inner = [i for i in idle if self.loop[0].address <= i.address <= self.loop[-1].address]
        once = len(idle) - len(inner)
        return once + len(inner) * self.turns, once


def index_operations(kernel: Kernel, *, by_mma: bool) -> float:
    """Integer instructions for the address of a load of a fragment in the main loop, in the mean; a constant
    that is added counts, though the load itself adds it.

    >>> from layoutalg.kernels.registry import find_family
    >>> chosen = find_family("gemm-sm80")
    >>> kernel = chosen.build(chosen.problem(512), chosen.steps["4 copy ahead"])
    >>> index_operations(kernel, by_mma=True), index_operations(lower(kernel), by_mma=True)
    (10.625, 0.75)
    """
    loops = [s for s in walk(kernel.body) if isinstance(s, For)]
    costs = [
        index_cost(simplify(substitute(arg.index, {unroll.var: Const(value)})))
        for unroll in (s for loop in loops for s in walk(loop.body) if isinstance(s, Unroll))
        for do in unroll.body
        if isinstance(do, Do)
        for operand, arg in zip(do.instr.operands, do.args, strict=True)
        if isinstance(arg, MemRef) and operand.op.startswith(_FRAGMENT[by_mma])
        for value in range(unroll.count)
    ]
    return sum(costs) / len(costs) if costs else 0.0


def effects(before: Step, after: Step, least: float = 0.02) -> Mapping[str, float]:
    """By what factor each count grows or falls from one step to the next, where by more than `least`.

    What only one of the two does is left out.

    >>> from layoutalg.kernels.registry import find_family
    >>> v7, v8 = predict_steps(find_family("gemm-simt"), 512, ("v7", "v8"))
    >>> effects(v7, v8)["sectors loaded"]
    0.5
    """
    one, two = before.counts, after.counts
    factors = {what: two[what] / one[what] for what in one if what in two}
    return MappingProxyType({what: f for what, f in factors.items() if abs(f - 1) > least})


def _reuse(p: GemmProblem, config: Any, held: Occupancy, sms: int) -> float:
    """How often a panel is loaded that came from DRAM once: blocks go down panels of tile columns."""
    grid = p.n // config.tile_n, p.m // config.tile_m
    found = l2_locality(
        grid, in_flight=sms * held.blocks_per_sm, order=min(config.panel, grid[0]),
        tile=(config.tile_n, config.tile_m),
    )  # fmt: skip
    return found.reuse
