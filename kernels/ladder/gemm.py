"""The prediction of each step of a product's ladder: what it executes, and its bottleneck, before it runs.

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

    >>> from layoutalg.kernels.registry import find_family
    >>> (second,) = predict_steps(find_family("gemm-sm80"), 512, ("2 vectors",))
    >>> second.bound, second.ways["ldmatrix.x4"]
    ('L1', 8.0)

Notes.  Instructions outside the main loop are assumed to run once, even those under branches: the
sum is within a few per cent at k = 4096.  A compiler may load several words of a thread at once where the
program loads them one by one: `merged` says so.  Accesses are as counters show them (see counters).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from layoutalg.arch import find_arch
from layoutalg.codegen.expr import Const, index_cost, simplify, substitute
from layoutalg.codegen.gpu import SassInstruction, count_classes, read_code
from layoutalg.codegen.program import Do, For, Kernel, MemRef, Unroll, lower, walk
from layoutalg.errors import UnsupportedError, check_choice
from layoutalg.kernels.family import Family
from layoutalg.kernels.gemm import GemmProblem, SimtConfig, Sm80Config, Sm90Config
from layoutalg.kernels.ladder import step
from layoutalg.kernels.ladder.counters import counted, vectorized_loads
from layoutalg.kernels.ladder.hgemm import Hgemm
from layoutalg.kernels.ladder.machines import ARCH, find_machine
from layoutalg.kernels.ladder.sgemm import Sgemm
from layoutalg.kernels.ladder.steps import LADDERS


def usual_arch(family: str) -> str:
    """Return the default architecture for predictions of a family's steps.

    >>> usual_arch("gemm-sm75"), usual_arch("gemm-sm80")
    ('sm_75', 'sm_90')
    """
    return "sm_75" if family == "gemm-sm75" else ARCH


def predict_steps(family: Family, n: int, names: Sequence[str] = (), arch: str = ARCH) -> Iterator[step.Step]:
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
    family: Family, p: GemmProblem, name: str, config: step.Config | Sm90Config, arch: str = ARCH
) -> step.Step:
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
        return step.predict_wgmma(family, p, name, config)
    count = multiplies(p, config)
    sequence = family.launches(p, config, machine.arch)
    kernel, params = sequence.kernels[0], {**dict(sequence.scalars), **family.scalars(p)}
    accesses = counted(kernel, params, machine.arch)
    cubin, occupancy = step.held(kernel, machine.target)
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

    loads = executed(lambda i: i.kind == step.LOADS[by_mma])
    written = sum(x.instructions for op, x in accesses.items() if op.startswith(step.FRAGMENT[by_mma]))
    if loads < written and isinstance(config, Sgemm):
        stores = executed(lambda i: i.opcode.startswith("STS"))
        alone = sum(x.instructions for op, x in accesses.items() if op.startswith("st.shared"))
        stored = kernel
        if stores < alone:  # the compiler joins them
            stored = replace(config, single=False).build(p)
        accesses = vectorized_loads(p, config, kernel, params, machine.arch, stored)
    idle = [turned(i) for i in function.padding if i.kind == "lds"]
    return step.Step(
        family=family.name, name=name, problem=p, config=config, cubin=cubin, multiplies=count,
        loop=MappingProxyType({x: n * turns / tiles_k for x, n in in_loop.items()}),
        accesses=accesses, occupancy=occupancy, reuse=step.panel_reuse(p, config, occupancy, machine),
        executed=executed(lambda _: True), written_loads=written, fragment_loads=loads,
        idle_loads=round(warps * (idle.count(False) + idle.count(True) * turns)),
        idle_once=warps * idle.count(False), barriers=executed(lambda i: i.opcode.startswith("BAR")),
        index=(index_operations(kernel, by_mma=by_mma), index_operations(lower(kernel), by_mma=by_mma)),
        machine=machine,
    )  # fmt: skip


def multiplies(p: GemmProblem, c: step.Config) -> int:
    """Instructions of warps that multiply, in a launch on whole tiles.  Raises ShapeError for others.

    >>> from layoutalg.kernels.registry import find_family
    >>> [multiplies(f.problem(512), config) for f in map(find_family, ("gemm-simt", "gemm-sm80"))
    ...  for config in list(LADDERS[f.name].values())[-1:]]
    [4194304, 65536]
    """
    step.require_whole(p, c.tile_m, c.tile_n, c.tile_k)
    if isinstance(c, Sgemm | SimtConfig):
        return p.m * p.n * p.k // find_arch(ARCH).lanes
    rows = c.mma_m if isinstance(c, Sm80Config) else 16
    return p.m * p.n * p.k * p.packed // (rows * 8 * step.mma_k(p, c))


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
        if isinstance(arg, MemRef) and operand.op.startswith(step.FRAGMENT[by_mma])
        for value in range(unroll.count)
    ]
    return sum(costs) / len(costs) if costs else 0.0


def effects(before: step.Step, after: step.Step, least: float = 0.02) -> Mapping[str, float]:
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
