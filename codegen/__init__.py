"""The kernel language: tile programs over tensors, simulated, counted, verified, compiled and launched.

    from layoutalg import codegen as cg

    k = cg.Kernel("scale", threads=128)
    n, alpha = k.extent("n", multiple=512), k.scalar("alpha", "f32")
    x, y = k.tensor("x", "f32", (n,), (1,)), k.tensor("y", "f32", (n,), (1,), writable=True)
    block = k.block(0, n // 512)
    copy = k.get_slice(make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout(128), Layout(4)))
    v = k.load(copy.partition_S(cg.local_tile(x, (512,), (block,))))
    k.store(v * alpha, copy.partition_D(cg.local_tile(y, (512,), (block,))))
    kernel = k.build()
    cg.verify(kernel, lambda x, alpha: alpha * x)

The idea.  A kernel is written once; the printer, the simulator, the checks and the analysis of its memory
traffic all read the same program.  Its layouts are those of the algebra, with TiledCopy and TiledMMA.

    expr       index expressions: ranges and alignments of their values, simplification, printing
    terms      formulas of registers, as Python's operators write them
    instr      instructions: their CUDA text and their effect; arithmetic on registers
    program    statements, checks, lowering
    sim        the simulator
    costs      the cost of a program's memory accesses: wavefronts and sectors
    printing   CUDA text and launchers
    gpu        compilation to machine code, launches
    timing     the time of one iteration of a main loop: issue slots, pipes, latency
    language   tensors, fragments, tiled copies, pipelines; simulate, verify, compile and launch
    relayout   conversions of values from one register layout to another
    block_product  tile_product: the matrix product of a thread block, from its tensors to its accumulators
    reduction  maxima and sums along the rows of an accumulator

docs/kernel_language.md teaches it, from a vector add on.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.optional import later

if __name__ != "layoutalg.codegen":
    raise ImportError(f"{__name__!r} is a part of layoutalg: import layoutalg.codegen")

if TYPE_CHECKING:
    from layoutalg.codegen.block_product import Unpack, tile_epilogue, tile_product
    from layoutalg.codegen.costs import traffic
    from layoutalg.codegen.expr import minus
    from layoutalg.codegen.gpu import to_cuda
    from layoutalg.codegen.instr import (
        BAR,
        CP_ASYNC,
        CP_COMMIT,
        CP_WAIT,
        FENCE_PROXY_ASYNC,
        FUNCTIONS,
        LDG,
        LDS,
        LDS_REMOTE,
        NAMED_ARRIVE,
        ST_ASYNC,
        STG,
        STG_WHOLE,
        STS,
        STS_REMOTE,
        WARP_SYNC,
        WGMMA_COMMIT,
        WGMMA_FENCE,
        WGMMA_WAIT,
        Instr,
        Requires,
        ScalarFunction,
        find_wgmma,
        imm,
        into,
        out,
        read,
        updated,
        value,
        write,
    )  # fmt: skip
    from layoutalg.codegen.language import (
        Fragment,
        Tensor,
        TmaRing,
        compile,
        launch,
        local_tile,
        pipeline,
        simulate,
        verify,
    )
    from layoutalg.codegen.language.builder import KernelBuilder as Kernel
    from layoutalg.codegen.program import MemRef
    from layoutalg.codegen.program.tile import Kernel as Program
    from layoutalg.codegen.reduction import AlongRows, reduce_along, reduce_tile
    from layoutalg.codegen.terms import (
        cos,
        erf,
        exp,
        exp2,
        fma,
        log,
        log1p,
        log2,
        maximum,
        minimum,
        normcdf,
        rcp,
        reciprocal,
        rsqrt,
        sin,
        sqrt,
        tanh,
        where,
    )

_PLACES = {
    "block_product": "Unpack tile_epilogue tile_product",
    "costs": "traffic",
    "expr": "minus",
    "gpu": "to_cuda",
    "instr": (
        "BAR CP_ASYNC CP_COMMIT CP_WAIT FENCE_PROXY_ASYNC FUNCTIONS LDG LDS LDS_REMOTE NAMED_ARRIVE STG "
        "STG_WHOLE STS STS_REMOTE ST_ASYNC WARP_SYNC WGMMA_COMMIT WGMMA_FENCE WGMMA_WAIT Instr Requires "
        "ScalarFunction find_wgmma imm into out read updated value write"
    ),
    "language": ("Fragment Kernel Program Tensor TmaRing compile launch local_tile pipeline simulate verify"),
    "program": "MemRef",
    "reduction": "AlongRows reduce_along reduce_tile",
    "terms": (
        "cos erf exp exp2 fma log log1p log2 maximum minimum normcdf rcp reciprocal rsqrt sin sqrt tanh where"
    ),
}

__all__ = [
    "BAR", "CP_ASYNC", "CP_COMMIT", "CP_WAIT", "FENCE_PROXY_ASYNC", "FUNCTIONS", "LDG", "LDS", "LDS_REMOTE",
    "NAMED_ARRIVE", "STG", "STG_WHOLE", "STS", "STS_REMOTE", "ST_ASYNC", "WARP_SYNC", "WGMMA_COMMIT",
    "WGMMA_FENCE", "WGMMA_WAIT", "AlongRows", "Fragment", "Instr", "Kernel", "MemRef", "Program",
    "Requires", "ScalarFunction", "Tensor", "TmaRing", "Unpack", "compile", "cos", "erf", "exp", "exp2",
    "find_wgmma", "fma", "imm", "into", "launch", "local_tile", "log", "log1p", "log2", "maximum",
    "minimum", "minus", "normcdf", "out", "pipeline", "rcp", "read", "reciprocal", "reduce_along",
    "reduce_tile", "rsqrt", "simulate", "sin", "sqrt", "tanh", "tile_epilogue", "tile_product", "to_cuda",
    "traffic", "updated", "value", "verify", "where", "write",
]  # fmt: skip

__getattr__ = later(__name__, _PLACES)
