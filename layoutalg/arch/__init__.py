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
from layoutalg.arch.instruction_names import INSTRUCTION_ALIASES, instruction_name, unknown_instruction
from layoutalg.arch.instructions import INSTRUCTIONS, instruction_table
from layoutalg.arch.model import Arch, Board, Instruction, Provenance, Space
from layoutalg.arch.rates import T4_ACHIEVED, Rates, board_rates
from layoutalg.arch.smem_atoms import SMEM_ATOMS, SmemAtom, atom_layout, find_smem_atom
from layoutalg.arch.swizzle_modes import SWIZZLE_MODES, SwizzleMode, find_swizzle_mode
from layoutalg.arch.tensor_map import TensorMap, tensor_map_arguments, tensor_map_text
from layoutalg.arch.wgmma import WGMMA_TYPES
from layoutalg.errors import ArgumentTypeError, UnsupportedError

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


def find_instruction(name: str, machine: Arch | None = None) -> Instruction:
    """The rule of an instruction on `machine`, or without a machine as every 32-lane, 32-bank one has it.

    `name` is one of INSTRUCTIONS or any of its other spellings (layoutalg.arch.instruction_names).  Raises
    UnknownNameError for other names, UnsupportedError for an instruction that only other architectures have,
    ArgumentTypeError for what is not a text.

    >>> find_instruction("ldmatrix.x4", find_arch("sm_80")).group_lanes, find_instruction("LDS.64").name
    (8, 'ld.shared.b64')
    """
    table = INSTRUCTIONS if machine is None else machine.instructions
    if not isinstance(name, str):
        raise ArgumentTypeError(f"instruction {name!r} is a {type(name).__name__}; a name is needed")
    found = table.get(name) or table.get(known := instruction_name(name))
    if found is not None:
        return found
    if known in INSTRUCTIONS and machine is not None:
        having = ", ".join(a.name for a in ARCHS.values() if known in a.instructions)
        raise UnsupportedError(f"{machine.name} has no {known}; it exists on {having}")
    raise unknown_instruction(name, table)
