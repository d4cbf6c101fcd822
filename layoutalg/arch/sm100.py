"""sm_100, Blackwell data centre: analysis only, no code is generated for it.

Limits: CUDA C++ Programming Guide, "Compute Capabilities", column 10.0.
"""

from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board

SM100 = Arch(
    name="sm_100",
    compute_capability=(10, 0),
    targets=("sm_100", "sm_100a"),
    max_shared_bytes_per_block=227 * 1024,
    shared_bytes_per_sm=228 * 1024,
    max_warps_per_sm=64,
    max_blocks_per_sm=32,
    analysis_only=True,
    board=Board(
        name="B200",
        sms=148,
        l2_bytes=126 << 20,
        dram_bytes_per_s=8e12,
        f32_flops_per_s=75e12,
        f16_tensor_flops_per_s=2250e12,
        source="NVIDIA DGX B200 and HGX B200 data sheets",
    ),
    instructions=instruction_table(matrix_loads=True, matrix_stores=True, async_copies=True),
    source="CUDA C++ Programming Guide, Compute Capability 10.0",
)
