"""The kernels over rows as programs: the block that is being written, and who writes into it.

block           its threads, their registers, its tensors, and visits to all vectors
vectors         weights and biases of a vector, and the stores of one that a row cuts
runs            the copies of runs to shared memory, and back
block_reduce    what threads exchange: in a warp, in a block, from one kernel to the next
cluster         what blocks of a cluster exchange, and the columns that they keep
reduce          reductions, a kernel per pass
recipes         the steps of softmax and of norms
norm            the programs that take them, and their launches
streams         columns that are read twice as a stream of whole rows
"""

from __future__ import annotations

from layoutalg.kernels.rowwise.programs.norm import NormLaunches
from layoutalg.kernels.rowwise.programs.norm import plan as norm_launches
from layoutalg.kernels.rowwise.programs.reduce import build as build_reduction
