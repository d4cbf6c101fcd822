"""Convert an mma accumulator by warp shuffles to rows that 16-byte stores can write.

Run it:  python examples/store_a_fragment.py
"""

import numpy

from layoutalg.analysis import Access, GlobalReport, analyze
from layoutalg.codegen.instr import LDG, STG
from layoutalg.codegen.language import KernelBuilder
from layoutalg.codegen.program import Kernel, lower
from layoutalg.codegen.relayout import relayout
from layoutalg.codegen.sim import simulate
from layoutalg.dtype import dtype
from layoutalg.layout import Layout
from layoutalg.registers import convert_layout, register_layout

ROWS, COLUMNS, PITCH = 16, 64, 1024

# A warp holds a tile of 16 x 64 halves: eight m16n8 accumulators side by side, two neighbours per register.
ACCUMULATORS = Layout(((4, 8), (2, 2, 8)), ((32, 1), (16, 8, 128)))

# A coalesced 16-byte store needs eight neighbours of a row in each lane, and eight lanes side by side.
VECTORS = Layout(((8, 4), (8, 4)), ((128, 1), (16, 4)))

found = convert_layout(
    register_layout(ACCUMULATORS, (ROWS, COLUMNS)), register_layout(VECTORS, (ROWS, COLUMNS)), "f16"
)
print(f"from accumulators to vectors by {found}")
print(f"  or by {found.alternatives[0]}")


def kernel(tv: Layout, vector_bytes: int, *, relaid: bool) -> Kernel:
    """Load the accumulators, convert them to another register layout if given, and store the tile by rows."""
    k = KernelBuilder("store_rows", 32)
    src = k.pointer("src", 4, (16, 1))
    dst = k.pointer("dst", 2, (PITCH, 1), writable=True)
    acc = k.reg("acc", 16)
    for word in range(16):
        k.do(LDG[4], acc[word], k.at(src, k.tid, word))
    out = relayout(k, found, acc, "out") if relaid else acc
    for v in range(0, 32, vector_bytes // 2):
        index = tv(k.tid, v)
        at = k.at(dst, index % ROWS, index // ROWS)
        k.do(STG[vector_bytes], at, out.slice(v // 2, count=vector_bytes // 4))
    return k.build()


halves = numpy.arange(ROWS * COLUMNS, dtype=numpy.uint16).reshape(ROWS, COLUMNS)
lane, value = numpy.meshgrid(numpy.arange(32), numpy.arange(32), indexing="ij")
index = ACCUMULATORS(lane, value)
words = numpy.ascontiguousarray(halves[index % ROWS, index // ROWS]).view(numpy.uint32)

for name, tv, width, relaid in (("as they are", ACCUMULATORS, 4, False), ("relaid", VECTORS, 16, True)):
    access = Access(f"st.global.b{8 * width}", tv, dtype("f16"))
    predicted = analyze(Layout((ROWS, COLUMNS), (PITCH, 1)), access)
    assert isinstance(predicted, GlobalReport)
    dst = numpy.zeros((ROWS, PITCH), numpy.uint16)
    run = simulate(lower(kernel(tv, width, relaid=relaid)), {"src": words, "dst": dst})
    assert (dst[:, :COLUMNS] == halves).all()
    stores, sectors, ideal = run.trace.total(access.op)
    print(f"{name}: {stores} stores of {width} bytes, {sectors} sectors, {ideal} would do")
    assert predicted.sectors == sectors

assert found.plan.cost.cycles <= found.alternatives[0].cost.cycles
