"""Sums of rows: tiles of 16 x 32 through a ring of three stages that cp.async fills, written out."""

from typing import Any

from layoutalg import Layout, make_tiled_copy
from layoutalg import codegen as cg

ROWS, COLUMNS, STAGES, GROUPS = 16, 32, 3, 8
by_row, by_column = Layout((ROWS, GROUPS), (GROUPS, 1)), Layout((ROWS, GROUPS), (1, ROWS))
fill = make_tiled_copy("SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "f32", by_row, Layout((1, 4)))
take = make_tiled_copy("UniversalCopy<uint128_t>", "f32", by_column, Layout((1, 4)))

k = cg.Kernel("row_sum", threads=ROWS * GROUPS)
m, n = k.extent("m"), k.extent("n", multiple=4)
x = k.tensor("x", "f32", (m, n), (n, 1))
y = k.tensor("y", "f32", (m,), (1,), writable=True)
ring = k.shared("ring", "f32", Layout((ROWS, COLUMNS), (COLUMNS + 4, 1)), stages=STAGES)
partials = k.shared("partials", "f32", Layout((ROWS, GROUPS), (GROUPS + 1, 1)))
(block,) = k.grid((m,), (ROWS,))
source = k.get_slice(fill).partition_S(cg.local_tile(x, (ROWS, COLUMNS), (block, None)))
put, get = k.get_slice(fill).partition_D(ring), k.get_slice(take).partition_S(ring)
tiles = k.let("tiles", (n + (COLUMNS - 1)) // COLUMNS)


def start(tile: Any, stage: Any) -> None:
    """Start the copies of a tile, if there is one, and close their group."""
    with k.If(tile < tiles):
        part = source[None, None, None, tile]
        k.copy(part, put[None, None, None, stage], where=part.inside)
    k.do(cg.CP_COMMIT)


total = k.fragment("total", "f32", (1,))
k.clear(total)
for s in range(STAGES - 1):
    start(s, s)
with k.For("t", tiles) as t:
    k.do(cg.CP_WAIT, STAGES - 2)
    k.do(cg.BAR)
    v = k.load(get[None, None, None, t % STAGES])
    k.map(total + k.reduce("sum", v, lanes=1), into=total)
    start(t + (STAGES - 1), (t + (STAGES - 1)) % STAGES)
k.do(cg.CP_WAIT, 0)
k.do(cg.STS[4], partials.at(k.tid % ROWS, k.tid // ROWS), total)
k.do(cg.BAR)
row = block * ROWS + k.tid
with k.If(k.tid < ROWS), k.If(row < m):
    one = k.fragment("one", "f32", (1,))
    k.clear(total)
    for group in range(GROUPS):
        k.do(cg.LDS[4], one, partials.at(k.tid, group))
        k.map(total + one, into=total)
    k.do(cg.STG[4], y.at(row), total)
kernel = k.build()

cg.verify(kernel, lambda x: x.sum(1), contiguous=("x", "y"))
