"""From a tensor-core instruction to its tile in shared memory: TV layouts, and one swizzle for all accesses.

Run it:  python examples/tile_a_gemm.py
"""

import numpy as np

from layoutalg import Layout, Tensor, make_tiled_copy, make_tiled_copy_A, make_tiled_copy_B, make_tiled_mma
from layoutalg.analysis import Access
from layoutalg.atoms import collect, find_mma_atom, hold, run_mma
from layoutalg.synthesis import synthesize

# One instruction: its matrices, spread over a warp.
atom = find_mma_atom("SM80_16x8x16_F32F16F16F32_TN")
print(f"{atom.ptx}\n  A {atom.a_tv}\n  B {atom.b_tv}\n  C {atom.c_tv}")
rng = np.random.default_rng(1)
a, b = rng.integers(-3, 4, (16, 16)).astype("f2"), rng.integers(-3, 4, (8, 16)).astype("f2")
d = run_mma(atom, hold(atom.a_tv, a), hold(atom.b_tv, b), np.zeros((32, 4), "f4"))
assert (collect(atom.c_tv, (16, 8), d) == a.astype("f4") @ b.T.astype("f4")).all()

# Four warps of it, over a tile of 32 x 32 x 16.
tile = Layout((64, 64))
mma = make_tiled_mma(atom, (2, 2, 1), (32, 32, 16))
mine = mma.get_slice(37)
index = Tensor.from_array(np.arange(64 * 64).reshape(64, 64))
owned = mine.partition_A(index)
print(f"thread 37 owns {owned.shape} elements of a 64 x 64 A, the first at {divmod(int(owned[0, 0, 0]), 64)}")
assert owned.shape == ((2, 2, 2), 2, 4) and divmod(int(owned[0, 0, 0]), 64) == (17, 2)
registers = mine.partition_fragment_A(tile), mine.partition_fragment_C(tile)
print(f"  its registers: A {registers[0]}, C {registers[1]}")

# The tile is written by asynchronous copies of 16 bytes and read by ldmatrix, for A and for B.
write = make_tiled_copy(
    "SM80_CP_ASYNC_CACHEGLOBAL<uint128_t>", "f16", Layout((16, 8), (8, 1)), Layout((1, 8))
)
loads = [make_tiled_copy_A("SM75_U32x4_LDSM_N", mma), make_tiled_copy_B("SM75_U32x4_LDSM_N", mma)]
accesses = [
    Access(write.atom.dst_op, write.tidfrg("dst", tile), write.element),
    *(Access(load.atom.src_op, load.tidfrg("src", tile), load.element) for load in loads),
]
found = synthesize((64, 64), accesses, element="f16")
print(f"one layout for {len(accesses)} accesses: {found.layout}")
assert str(found.layout) == "Sw<3,3,3> o 0 o (64,64):(64,1)"
assert all(report.conflict_free for report in found.reports)
