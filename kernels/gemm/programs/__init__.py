"""The kernels of a product as programs: one per way of multiplying, and what they have in common.

mainloop    operands by partitions, and the loop over tiles of k
simt        products without tensor cores
sm80        with mma.sync
sm90        with wgmma, fed by TMA
added       the matrix that an epilogue adds, brought by TMA
sm90_tiles  its tiles in shared memory
promotion   sums of 8-bit floats by wgmma, added up in f32
"""

from __future__ import annotations

from layoutalg.kernels.gemm.programs.simt import build as build_simt
from layoutalg.kernels.gemm.programs.simt import tiled_mma
from layoutalg.kernels.gemm.programs.sm80 import build as build_sm80
from layoutalg.kernels.gemm.programs.sm90 import build as build_sm90
