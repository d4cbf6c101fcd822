"""What an access costs: wavefronts in shared memory, sectors in global memory.

>>> wavefronts("ld.shared.b32", [128 * lane for lane in range(32)])
32
>>> sectors("ld.global.b32", [4 * lane for lane in range(32)])
4
"""

from layoutalg.analysis.banks import ideal_wavefronts, wavefronts, wavefronts_batch
from layoutalg.analysis.coalescing import sectors, sectors_batch

__all__ = [
    "ideal_wavefronts",
    "sectors",
    "sectors_batch",
    "wavefronts",
    "wavefronts_batch",
]
