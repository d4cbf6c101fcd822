"""Hardware facts, each with its source: architectures, instructions, swizzle modes, descriptors.

layoutalg.analysis and layoutalg.legality apply them.  The MMA and copy atoms (MMA_ATOMS, COPY_ATOMS,
find_mma_atom, find_copy_atom), of layoutalg.atoms, can be imported from here too.

    model          Arch, Board, Instruction, Space, Provenance: the records
    instructions   INSTRUCTIONS: every memory instruction that is analysed; ADD A MEMORY INSTRUCTION HERE
    instruction_names  their names in PTX, SASS and CuTe; find_instruction
    architectures  ARCHS: banks, sectors, sizes and limits; ADD AN ARCHITECTURE HERE; find_arch, find_board
    boards         BOARDS: rates, caches and clocks of cards; ADD A BOARD HERE; tensor cores per SM, their
                   shapes; DRAM_RULES: the granularity of DRAM traffic
    swizzle_modes  SWIZZLE_MODES: the four modes of TMA and wgmma, 32, 64, 128 bytes and none;
                   SMEM_ATOMS: the canonical shared memory layouts of wgmma
    tensor_map     TensorMap: the arguments of cuTensorMapEncodeTiled
    descriptor     SmemDescriptor: the fields of a wgmma shared memory descriptor
    mma_kinds      WGMMA_TYPES: the types and extents of wgmma; TCGEN05_KINDS: Blackwell's kinds, shapes,
                   data paths in tensor memory
    block_scales   BLOCK_FORMATS: NVFP4, MXFP8, MXFP6, MXFP4; scale_layout: where their scales lie

>>> find_arch("sm_90a").name, ARCHS["sm_80"].instructions["cp.async.16"].width_bytes
('sm_90', 16)
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from layoutalg.arch.architectures import (
    ARCHS,
    DEFAULT_ARCH,
    TCGEN05_ARCH,
    find_arch,
    find_board,
    find_target,
)
from layoutalg.arch.block_scales import (
    BLOCK_FORMATS,
    SCALE_TILE,
    BlockFormat,
    find_block_format,
    scale_factor_layout,
    scale_layout,
)
from layoutalg.arch.boards import (
    BOARDS,
    DRAM_RULES,
    T4_ACHIEVED,
    TENSOR_CORES,
    Rates,
    TensorCores,
    board_rates,
)
from layoutalg.arch.descriptor import (
    MAX_OFFSET_BYTES,
    DescriptorForm,
    SmemDescriptor,
    decode_descriptor,
    descriptor_text,
    encode_descriptor,
)
from layoutalg.arch.instruction_names import find_instruction, instruction_name
from layoutalg.arch.instructions import INSTRUCTIONS, instruction_table
from layoutalg.arch.mma_kinds import (
    INSTRUCTION_FIELDS,
    TCGEN05_KINDS,
    TMEM_COLUMNS,
    TMEM_LANES,
    WGMMA_M,
    WGMMA_TYPES,
    Tcgen05Kind,
    WgmmaType,
    instruction_descriptor,
    sizes_text,
    tmem_accumulator,
    tmem_columns,
)
from layoutalg.arch.model import Arch, Board, Instruction, Provenance, Space
from layoutalg.arch.swizzle_modes import (
    CHUNK_BYTES,
    HOPPER_MODES,
    SMEM_ATOMS,
    SWIZZLE_MODES,
    Major,
    SmemAtom,
    SwizzleMode,
    atom_layout,
    find_smem_atom,
    find_swizzle_mode,
)
from layoutalg.arch.tensor_map import (
    FLOAT_TYPES,
    MULTICAST_LEAST,
    MULTICAST_ZEROS,
    SOURCE,
    TENSOR_MAP_TYPES,
    Enumerator,
    TensorMap,
    tensor_map_arguments,
)
from layoutalg.optional import later

if TYPE_CHECKING:
    from layoutalg.atoms import COPY_ATOMS, MMA_ATOMS, find_copy_atom, find_mma_atom

__all__ = [
    "ARCHS", "BLOCK_FORMATS", "BOARDS", "CHUNK_BYTES", "COPY_ATOMS", "DEFAULT_ARCH", "DRAM_RULES",
    "FLOAT_TYPES", "HOPPER_MODES", "INSTRUCTIONS", "INSTRUCTION_FIELDS", "MAX_OFFSET_BYTES", "MMA_ATOMS",
    "MULTICAST_LEAST", "MULTICAST_ZEROS", "SCALE_TILE", "SMEM_ATOMS", "SOURCE", "SWIZZLE_MODES",
    "T4_ACHIEVED", "TCGEN05_ARCH", "TCGEN05_KINDS", "TENSOR_CORES", "TENSOR_MAP_TYPES", "TMEM_COLUMNS",
    "TMEM_LANES", "WGMMA_M", "WGMMA_TYPES", "Arch", "BlockFormat", "Board", "DescriptorForm", "Enumerator",
    "Instruction", "Major", "Provenance", "Rates", "SmemAtom", "SmemDescriptor", "Space", "SwizzleMode",
    "Tcgen05Kind", "TensorCores", "TensorMap", "WgmmaType", "atom_layout", "board_rates", "decode_descriptor",
    "descriptor_text", "encode_descriptor", "find_arch", "find_block_format", "find_board", "find_copy_atom",
    "find_instruction", "find_mma_atom", "find_smem_atom", "find_swizzle_mode", "find_target",
    "instruction_descriptor", "instruction_name", "instruction_table", "scale_factor_layout", "scale_layout",
    "sizes_text", "tensor_map_arguments", "tmem_accumulator", "tmem_columns",
]  # fmt: skip

__getattr__ = later(__name__, {"layoutalg.atoms": "COPY_ATOMS MMA_ATOMS find_copy_atom find_mma_atom"})
"""The atoms, which are a room above this one."""
