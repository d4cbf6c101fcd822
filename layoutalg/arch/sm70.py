"""sm_70, Volta.  Limits: CUDA C++ Programming Guide, "Compute Capabilities", column 7.0."""

from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board

SM70 = Arch(
    name="sm_70",
    compute_capability=(7, 0),
    targets=("sm_70",),
    max_shared_bytes_per_block=96 * 1024,
    shared_bytes_per_sm=96 * 1024,
    reserved_shared_bytes_per_block=0,
    shared_allocation_unit_bytes=256,
    max_warps_per_sm=64,
    max_blocks_per_sm=32,
    board=Board(
        name="Tesla V100-SXM2",
        sms=80,
        l2_bytes=6 << 20,
        dram_bytes_per_s=900e9,
        f32_flops_per_s=15.7e12,
        f16_tensor_flops_per_s=125e12,
        source="NVIDIA Tesla V100 GPU Architecture white paper, table 1",
    ),
    instructions=instruction_table(),
    source="CUDA C++ Programming Guide, Compute Capability 7.x",
)
