"""sm_89, Ada.  Limits: CUDA C++ Programming Guide, "Compute Capabilities", column 8.9."""

from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board

SM89 = Arch(
    name="sm_89",
    compute_capability=(8, 9),
    targets=("sm_89",),
    max_shared_bytes_per_block=99 * 1024,
    shared_bytes_per_sm=100 * 1024,
    max_warps_per_sm=48,
    max_blocks_per_sm=24,
    board=Board(
        name="L40S",
        sms=142,
        l2_bytes=96 << 20,
        dram_bytes_per_s=864e9,
        f32_flops_per_s=91.6e12,
        f16_tensor_flops_per_s=362e12,
        source="NVIDIA L40S data sheet; NVIDIA Ada GPU Architecture white paper",
    ),
    instructions=instruction_table(matrix_loads=True, async_copies=True),
    source="CUDA C++ Programming Guide, Compute Capability 8.x",
)
