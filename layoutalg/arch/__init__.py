"""Hardware facts, and nothing but facts: one `Arch` value an architecture.

>>> find_arch("sm_90a").name, ARCHS["sm_80"].instructions["cp.async.16"].width_bytes
('sm_90', 16)
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from layoutalg.arch.atoms import COPY_ATOMS, MMA_ATOMS, find_copy_atom, find_mma_atom, require_atom
from layoutalg.arch.descriptor import (
    SmemDescriptor,
    decode_descriptor,
    descriptor_text,
    encode_descriptor,
)
from layoutalg.arch.instructions import INSTRUCTIONS, instruction_table
from layoutalg.arch.model import Arch, Board, Instruction, Provenance, Space
from layoutalg.arch.rates import T4_ACHIEVED, Rates, board_rates
from layoutalg.arch.sm70 import SM70
from layoutalg.arch.sm75 import SM75
from layoutalg.arch.sm80 import SM80
from layoutalg.arch.sm89 import SM89
from layoutalg.arch.sm90 import SM90
from layoutalg.arch.sm100 import SM100
from layoutalg.arch.smem_atoms import SMEM_ATOMS, SmemAtom, atom_layout, find_smem_atom
from layoutalg.arch.swizzle_modes import SWIZZLE_MODES, SwizzleMode, find_swizzle_mode
from layoutalg.arch.tensor_map import TensorMap, tensor_map_arguments, tensor_map_text
from layoutalg.arch.wgmma import WGMMA_TYPES
from layoutalg.errors import ArgumentTypeError, UnknownNameError, UnsupportedError

__all__ = [
    "ARCHS",
    "COPY_ATOMS",
    "INSTRUCTIONS",
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
    "instruction_table",
    "require_atom",
    "tensor_map_arguments",
    "tensor_map_text",
]

ARCHS: Mapping[str, Arch] = MappingProxyType({a.name: a for a in (SM70, SM75, SM80, SM89, SM90, SM100)})
"""Every architecture by name, read only."""

_BY_TARGET: Mapping[str, Arch] = MappingProxyType({t: a for a in ARCHS.values() for t in a.targets})


def find_arch(name: str | Arch) -> Arch:
    """The architecture of a name or compiler target (`sm_90`, `sm_90a`); an Arch is returned as it is.

    Raises UnknownNameError, and ArgumentTypeError for what is neither.

    >>> find_arch("sm_75").max_warps_per_sm
    32
    """
    if isinstance(name, Arch):
        return name
    if not isinstance(name, str):
        raise ArgumentTypeError(
            f"architecture {name!r} is a {type(name).__name__}; a name or an Arch is needed"
        )
    found = _BY_TARGET.get(name)
    if found is None:
        raise UnknownNameError("architecture", name, _BY_TARGET)
    return found


def find_instruction(name: str, machine: Arch) -> Instruction:
    """The rule of instruction `name` on `machine`.

    Raises UnknownNameError for a name nobody knows, UnsupportedError for an instruction that only other
    architectures have.

    >>> find_instruction("ldmatrix.x4", find_arch("sm_80")).group_lanes
    8
    """
    found = machine.instructions.get(name)
    if found is not None:
        return found
    if name in INSTRUCTIONS:
        having = ", ".join(a.name for a in ARCHS.values() if name in a.instructions)
        raise UnsupportedError(f"{machine.name} has no {name}; it exists on {having}")
    raise UnknownNameError("instruction", str(name), machine.instructions)
