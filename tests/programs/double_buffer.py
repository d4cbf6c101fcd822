"""Smoothing: four steps of (left + 2 own + right) / 4 over circles of 64, between two shared tiles."""

from typing import Any

import numpy

from layoutalg import Layout
from layoutalg import codegen as cg

SIZE, STEPS = 64, 4

k = cg.Kernel("double_buffer", threads=SIZE)
n = k.extent("n", multiple=SIZE)
x = k.tensor("x", "f32", (n,), (1,))
y = k.tensor("y", "f32", (n,), (1,), writable=True)
front, back = (k.shared(name, "f32", Layout(SIZE)) for name in ("front", "back"))
left, own, right = (k.fragment(name, "f32", (1,)) for name in ("left", "own", "right"))
i = k.block(0, n // SIZE) * SIZE + k.tid
k.do(cg.LDG[4], own, x.at(i))
k.do(cg.STS[4], front.at(k.tid), own)
for _ in range(STEPS):
    k.do(cg.BAR)
    k.do(cg.LDS[4], left, front.at((k.tid + (SIZE - 1)) % SIZE))
    k.do(cg.LDS[4], right, front.at((k.tid + 1) % SIZE))
    k.map((left + own * 2 + right) * 0.25, into=own)
    k.do(cg.STS[4], back.at(k.tid), own)
    front, back = back, front
k.do(cg.STG[4], y.at(i), own)
kernel = k.build()


def reference(x: Any) -> Any:
    circles = x.reshape(-1, SIZE)
    for _ in range(STEPS):
        circles = (numpy.roll(circles, 1, 1) + 2 * circles + numpy.roll(circles, -1, 1)) / 4
    return circles.reshape(-1)


cg.verify(kernel, reference, contiguous=("x", "y"))
