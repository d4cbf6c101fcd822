"""Write a matrix product from its tile alone: any type, any way of storing, ragged edges, 16-byte stores.

Run it:  python examples/multiply_tiles.py
"""

import re

from layoutalg import codegen as cg
from layoutalg import make_tiled_mma
from layoutalg.errors import LayoutAlgError


def product(tile: tuple[int, int, int], stages: int, arch: str = "sm_86") -> cg.Program:
    """D = max(A B, 0) of bf16 with sums in f32, all stored by rows; extents are multiples of 8."""
    mma = make_tiled_mma("SM80_16x8x16_F32BF16BF16F32_TN", (2, 2, 1), (32, 32, 16))
    k = cg.Kernel("product", threads=mma.threads)
    m, n, depth = (k.extent(name, multiple=8) for name in "mnk")
    a, b = k.tensor("a", "bf16", (m, depth), (depth, 1)), k.tensor("b", "bf16", (depth, n), (n, 1))
    d = k.tensor("d", "bf16", (m, n), (n, 1), writable=True)
    block = k.grid((m, n), tile[:2])
    acc = cg.tile_product(k, mma, a, b.transposed, block, tile, stages=stages, arch=arch)
    cg.tile_epilogue(k, mma, cg.maximum(acc, 0), cg.local_tile(d, tile[:2], block))
    return k.build()


# What fits no block is refused with what does: six stages of this tile are too many for an sm_86.
try:
    product((128, 96, 64), stages=6)
except LayoutAlgError as error:
    print(error)
    found = re.search(r"nearest is stages = (\d+)", str(error))
    assert found is not None
    stages = int(found[1])

# Extents that no tile divides, compared with NumPy, element by element, in the simulator.
kernel = product((128, 96, 64), stages)
sizes = {"m": 136, "n": 88, "k": 72}
print(cg.verify(kernel, lambda a, b: (a @ b).clip(0), sizes=sizes, cases=1))

# The layouts that were found, and what they cost where all tiles are whole: no conflict, whole sectors.
for buffer in kernel.shared:
    print(f"{buffer.name:8} {buffer.layout}, {buffer.stages} stages")
for access, cost in cg.traffic(kernel, {"m": 256, "n": 192, "k": 256}).items():
    print(f"{access:20} {cost.total} of {cost.ideal}")
    assert cost.total == cost.ideal
