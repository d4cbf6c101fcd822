"""sm_90, Hopper.  Limits: CUDA C++ Programming Guide, "Compute Capabilities", column 9.0.

The only architecture whose access rules were counted on hardware so far.  `sm_90a` is the compiler's
target for the instructions that exist on this architecture alone (wgmma, setmaxnreg); the facts are the same.
"""

from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board

SM90 = Arch(
    name="sm_90",
    compute_capability=(9, 0),
    targets=("sm_90", "sm_90a"),
    max_shared_bytes_per_block=227 * 1024,
    shared_bytes_per_sm=228 * 1024,
    max_warps_per_sm=64,
    max_blocks_per_sm=32,
    board=Board(
        name="H200-SXM",
        sms=132,
        l2_bytes=60 << 20,
        dram_bytes_per_s=4.8e12,
        f32_flops_per_s=66.9e12,
        f16_tensor_flops_per_s=989e12,
        source="NVIDIA H200 data sheet; L2 and SM count as the device reports them",
    ),
    instructions=instruction_table(matrix_loads=True, matrix_stores=True, async_copies=True, measured=True),
    source="CUDA C++ Programming Guide, Compute Capability 9.0",
)
