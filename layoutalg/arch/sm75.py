"""sm_75, Turing.  Limits: CUDA C++ Programming Guide, "Compute Capabilities", column 7.5."""

from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board

SM75 = Arch(
    name="sm_75",
    compute_capability=(7, 5),
    targets=("sm_75",),
    max_shared_bytes_per_block=64 * 1024,
    shared_bytes_per_sm=64 * 1024,
    reserved_shared_bytes_per_block=0,
    shared_allocation_unit_bytes=256,
    max_warps_per_sm=32,
    max_blocks_per_sm=16,
    board=Board(
        name="T4",
        sms=40,
        l2_bytes=4 << 20,
        dram_bytes_per_s=320e9,
        f32_flops_per_s=8.1e12,
        f16_tensor_flops_per_s=65e12,
        source="NVIDIA T4 data sheet; NVIDIA Turing GPU Architecture white paper",
    ),
    instructions=instruction_table(matrix_loads=True),
    source="CUDA C++ Programming Guide, Compute Capability 7.x",
)
