"""sm_80, Ampere.  Limits: CUDA C++ Programming Guide, "Compute Capabilities", column 8.0."""

from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board

SM80 = Arch(
    name="sm_80",
    compute_capability=(8, 0),
    targets=("sm_80",),
    max_shared_bytes_per_block=163 * 1024,
    shared_bytes_per_sm=164 * 1024,
    max_warps_per_sm=64,
    max_blocks_per_sm=32,
    board=Board(
        name="A100-SXM4-80GB",
        sms=108,
        l2_bytes=40 << 20,
        dram_bytes_per_s=2039e9,
        f32_flops_per_s=19.5e12,
        f16_tensor_flops_per_s=312e12,
        source="NVIDIA A100 data sheet; NVIDIA A100 Tensor Core GPU Architecture white paper",
    ),
    instructions=instruction_table(matrix_loads=True, async_copies=True),
    source="CUDA C++ Programming Guide, Compute Capability 8.x",
)
