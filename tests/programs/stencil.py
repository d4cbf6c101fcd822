"""Four neighbours less four times the own element: tiles of 32 x 32 with their rims in shared memory."""

from typing import Any

import numpy

from layoutalg import Layout
from layoutalg import codegen as cg

T = 32
k = cg.Kernel("stencil", threads=256)
m, n = k.extent("m", 1 << 15), k.extent("n", 1 << 15)
x, y = k.tensor("x", "f32", (m, n), (n, 1)), k.tensor("y", "f32", (m, n), (n, 1), writable=True)
bi, bj = k.grid((m, n), (T, T))
W = T + 2
tile = k.shared("tile", "f32", Layout((W, W), (W, 1)))
v = k.fragment("v", "f32", (1,))
with k.Unroll("s", -(-W * W // 256)) as s:
    e = k.let("e", k.tid + s * 256)
    with k.If(e < W * W):
        i, j = bi * T + e // W, bj * T + e % W
        k.clear(v)
        with k.If((i > 0) & (j > 0) & (i < m + 1) & (j < n + 1)):
            k.do(cg.LDG[4], v, x.at(cg.minus(i, 1), cg.minus(j, 1)))
        k.do(cg.STS[4], tile.at(e // W, e % W), v)
k.do(cg.BAR)
c, total = k.fragment("c", "f32", (1,)), k.fragment("total", "f32", (1,))
with k.Unroll("q", T * T // 256) as q:
    i, j = k.let("i", k.tid // T + q * 8), k.tid % T
    k.clear(total)
    for di, dj in ((0, 1), (1, 0), (1, 2), (2, 1)):
        k.do(cg.LDS[4], c, tile.at(i + di, j + dj))
        k.map(total + c, into=total)
    k.do(cg.LDS[4], c, tile.at(i + 1, j + 1))
    k.map(total - c * 4, into=total)
    with k.If((bi * T + i < m) & (bj * T + j < n)):
        k.do(cg.STG[4], y.at(bi * T + i, bj * T + j), total)
kernel = k.build()


def reference(x: Any) -> Any:
    p = numpy.pad(x, 1)
    return p[:-2, 1:-1] + p[2:, 1:-1] + p[1:-1, :-2] + p[1:-1, 2:] - 4 * x


cg.verify(kernel, reference, contiguous=("x", "y"))
