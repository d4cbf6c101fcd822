"""Hardware facts, and nothing but facts: one `Arch` value per architecture.

>>> find_arch("sm_90a").name, ARCHS["sm_80"].instructions["cp.async.16"].width_bytes
('sm_90', 16)
"""

from __future__ import annotations

from layoutalg.arch.architectures import ARCHS, find_arch, find_target
from layoutalg.arch.atoms import COPY_ATOMS, MMA_ATOMS, find_copy_atom, find_mma_atom, require_atom
from layoutalg.arch.descriptor import (
    SmemDescriptor,
    decode_descriptor,
    descriptor_text,
    encode_descriptor,
)
from layoutalg.arch.instruction_names import INSTRUCTION_ALIASES, find_instruction, instruction_name
from layoutalg.arch.instructions import INSTRUCTIONS, instruction_table
from layoutalg.arch.model import Arch, Board, Instruction, Provenance, Space
from layoutalg.arch.rates import T4_ACHIEVED, Rates, board_rates
from layoutalg.arch.smem_atoms import SMEM_ATOMS, SmemAtom, atom_layout, find_smem_atom
from layoutalg.arch.swizzle_modes import SWIZZLE_MODES, SwizzleMode, find_swizzle_mode
from layoutalg.arch.tensor_map import TensorMap, tensor_map_arguments, tensor_map_text
from layoutalg.arch.wgmma import WGMMA_TYPES

__all__ = [
    "ARCHS",
    "COPY_ATOMS",
    "INSTRUCTIONS",
    "INSTRUCTION_ALIASES",
    "MMA_ATOMS",
    "SMEM_ATOMS",
    "SWIZZLE_MODES",
    "T4_ACHIEVED",
    "WGMMA_TYPES",
    "Arch",
    "Board",
    "Instruction",
    "Provenance",
    "Rates",
    "SmemAtom",
    "SmemDescriptor",
    "Space",
    "SwizzleMode",
    "TensorMap",
    "atom_layout",
    "board_rates",
    "decode_descriptor",
    "descriptor_text",
    "encode_descriptor",
    "find_arch",
    "find_copy_atom",
    "find_instruction",
    "find_mma_atom",
    "find_smem_atom",
    "find_swizzle_mode",
    "find_target",
    "instruction_name",
    "instruction_table",
    "require_atom",
    "tensor_map_arguments",
    "tensor_map_text",
]
