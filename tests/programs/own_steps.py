"""Prefix sums of 32 integers by an instruction of its own, which exchanges values between lanes."""

from typing import Any

import numpy

from layoutalg import Layout, make_tiled_copy
from layoutalg import codegen as cg

TEXT = """void add_below(u32& v, u32 lane, u32 distance) {
    const u32 below = __shfl_up_sync(0xffffffffu, v, distance);
    v += lane >= distance ? below : 0u;
}"""


def add_below(machine: Any, group: Any, v: Any, lane: Any, distance: Any) -> Any:
    lanes = numpy.arange(len(v))
    return v + numpy.where(lane >= distance, v[(lanes - distance[:, 0]) % len(v)], 0).astype("u4")


OPERANDS = (cg.updated("v", 1), cg.value("lane"), cg.value("distance"))
ADD_BELOW = cg.Instr("add_below", OPERANDS, TEXT, add_below, cg.Requires(warp_converged=True))
copy = make_tiled_copy("UniversalCopy<uint32_t>", "s32", Layout(64), Layout(1))

k = cg.Kernel("prefix_sum", threads=64)
n = k.extent("n")
x, y = k.tensor("x", "s32", (n,), (1,)), k.tensor("y", "s32", (n,), (1,), writable=True)
block, me = k.grid((n,), (64,)), k.get_slice(copy)
s, d = me.partition_S(cg.local_tile(x, (64,), block)), me.partition_D(cg.local_tile(y, (64,), block))
v = k.load(s, where=s.inside)
for bit in range(5):
    k.do(ADD_BELOW, v, k.tid % 32, 1 << bit)
k.store(v, d, where=d.inside)
kernel = k.build()


def reference(x: Any) -> Any:
    padded = numpy.concatenate([x, numpy.zeros(-len(x) % 32, x.dtype)])
    return padded.reshape(-1, 32).cumsum(1, dtype="i4").reshape(-1)[: len(x)]


cg.verify(kernel, reference, contiguous=("x", "y"))
