"""Sums of columns over slices of 32 rows, one per block: two warps share a slice, whose edges are ragged."""

from typing import Any

import numpy

from layoutalg import Layout, make_tiled_copy
from layoutalg import codegen as cg

SLICE, COLUMNS, WARPS = 32, 128, 2
copy = make_tiled_copy("UniversalCopy<uint128_t>", "f32", Layout((1, 32)), Layout((1, 4)))

k = cg.Kernel("split_sum", threads=32 * WARPS)
m, n = k.extent("m"), k.extent("n", multiple=4)
slices = (m + (SLICE - 1)) // SLICE
x = k.tensor("x", "f32", (m, n), (n, 1))
sums = k.tensor("sums", "f32", (slices, n), (n, 1), writable=True)
column, part = k.grid((n, m), (COLUMNS, SLICE))
lane, warp = k.tid % 32, k.tid // 32
me = k.get_slice(copy, lane)
partials = k.shared("partials", "f32", Layout((1, COLUMNS)))
total, other = k.fragment("total", "f32", (4,)), k.fragment("other", "f32", (4,))
k.clear(total)
with k.For("r", SLICE // WARPS) as r:
    s = me.partition_S(cg.local_tile(x, (1, COLUMNS), (part * SLICE + r * WARPS + warp, column)))
    v = k.load(s, where=s.inside)
    k.map(total + v, into=total)
with k.If(warp > 0):
    k.store(total, me.partition_D(partials))
k.do(cg.BAR)
with k.If(warp.eq(0)):
    k.load(me.partition_S(partials), into=other)
    d = me.partition_D(cg.local_tile(sums, (1, COLUMNS), (part, column)))
    k.store(total + other, d, where=d.inside)
kernel = k.build()


def reference(x: Any) -> Any:
    return numpy.add.reduceat(x, numpy.arange(0, len(x), SLICE), axis=0)


cg.verify(kernel, reference, contiguous=("x", "sums"))
