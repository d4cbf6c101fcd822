"""The engines that work beside the warps of a block, and what they wait for.

knowledge       AgentClocks: vector clocks of warps, engines and blocks; what threads release and acquire
mbarriers       mbarriers, their phases and bytes; named barriers
tensor_copies   TMA: boxes in flight, bulk groups
matrix_engine   wgmma: products that own registers and bytes until they are waited for
cluster         barriers of the blocks of a cluster or a launch, the shared memory of other blocks
"""

from __future__ import annotations

from layoutalg.codegen.sim.engines.cluster import Cluster, Grid, connected
from layoutalg.codegen.sim.engines.knowledge import Knowledge
from layoutalg.codegen.sim.engines.matrix_engine import MatrixEngine, RegisterPlace
from layoutalg.codegen.sim.engines.mbarriers import BarrierPlace, Mbarriers
from layoutalg.codegen.sim.engines.tensor_copies import BoundMap, Place, TensorCopies
