"""ARCHS: what the documents state of each architecture from Volta to Blackwell; find_arch and find_board.

    sm_70 Volta   sm_75 Turing   sm_80, sm_86, sm_87 Ampere   sm_89 Ada   sm_90 Hopper
    sm_100, sm_103, sm_120 Blackwell

Sources of the limits.  CUDA C++ Programming Guide, "Compute Capabilities"; from release 13 on it is CUDA
Programming Guide, 5.1.3 "Features and Technical Specifications": table 30 has warps and blocks per SM, table
31 registers and shared memory per SM and per block, one column per compute capability.  What the system
keeps of each block: the same guide, "Shared Memory" of 8.x ("the 1 KB of shared memory not made available to
a thread block is reserved for system use").  Allocation units: cuda_occupancy.h of the CUDA toolkit.  Which
instructions exist: PTX ISA, target notes of ldmatrix (sm_75), cp.async (sm_80), stmatrix (sm_90) and vectors
of 256 bits (sm_100).  The access rules were counted on hardware for sm_90 alone and are assumed elsewhere:
layoutalg.arch.instructions.

Where two documents disagree: the Blackwell tuning guide gives compute capability 12.0 a shared memory of 128
KB and 32 blocks per SM; tables 30 to 32 of the programming guide and cuda_occupancy.h give 100 KB (128 KB is
the unified data cache that it is a part of) and 24 blocks, which are listed here.

An architecture's board is the first of its BOARDS; sm_103, of which no document describes a card, has none.
Architectures are found by the name of any GPU, rates only by that of a board: see find_board.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from types import MappingProxyType
from typing import Any

from layoutalg.arch.boards import BOARDS
from layoutalg.arch.instructions import instruction_table
from layoutalg.arch.model import Arch, Board, Instruction
from layoutalg.errors import UnknownNameError, UnsupportedError, check_type

_KIB = 1 << 10
_GUIDE = "CUDA C++ Programming Guide, Compute Capability {}"
_GUIDE_13 = "CUDA Programming Guide 13, 5.1.3, tables 30 and 31, compute capability {}"

_TURING = instruction_table(matrix_loads=True)
_AMPERE = instruction_table(matrix_loads=True, async_copies=True)
_BLACKWELL = instruction_table(matrix_loads=True, matrix_stores=True, async_copies=True, wide_vectors=True)
_HOPPER = instruction_table(matrix_loads=True, matrix_stores=True, async_copies=True, measured=True)


def _arch(
    name: str,
    shared_kib: tuple[int, int],
    warps: int,
    blocks: int,
    instructions: Mapping[str, Instruction],
    source: str,
    *,
    forms: str = "",
    **more: Any,
) -> Arch:
    """An architecture by its KiB of shared memory per block and per SM, its warps and blocks per SM, and the
    letters of its targets beside its own."""
    return Arch(
        name=name,
        compute_capability=divmod(int(name.removeprefix("sm_")), 10),
        targets=(name, *(f"{name}{letter}" for letter in forms)),
        max_shared_bytes_per_block=shared_kib[0] * _KIB,
        shared_bytes_per_sm=shared_kib[1] * _KIB,
        max_warps_per_sm=warps,
        max_blocks_per_sm=blocks,
        board=next(iter(BOARDS[name]), None),
        instructions=instructions,
        source=source,
        **more,
    )


_OLDER: Mapping[str, Any] = {"reserved_shared_bytes_per_block": 0, "shared_allocation_unit_bytes": 256}

_TABLE = (
    _arch("sm_70", (96, 96), 64, 32, instruction_table(), _GUIDE.format("7.x"), **_OLDER),
    _arch("sm_75", (64, 64), 32, 16, _TURING, _GUIDE.format("7.x"), **_OLDER),
    _arch("sm_80", (163, 164), 64, 32, _AMPERE, _GUIDE.format("8.x")),
    _arch("sm_86", (99, 100), 48, 16, _AMPERE, _GUIDE_13.format("8.6")),
    _arch("sm_87", (163, 164), 48, 16, _AMPERE, _GUIDE_13.format("8.7")),
    _arch("sm_89", (99, 100), 48, 24, _AMPERE, _GUIDE.format("8.x")),
    _arch("sm_90", (227, 228), 64, 32, _HOPPER, _GUIDE.format("9.0"), forms="a"),
    _arch("sm_100", (227, 228), 64, 32, _BLACKWELL, _GUIDE.format("10.0"), forms="af"),
    _arch("sm_103", (227, 228), 64, 32, _BLACKWELL, _GUIDE_13.format("10.3"), forms="af"),
    _arch("sm_120", (99, 100), 48, 24, _BLACKWELL, _GUIDE_13.format("12.x"), forms="af"),
)

ARCHS: Mapping[str, Arch] = MappingProxyType({machine.name: machine for machine in _TABLE})
"""Every architecture by name, read only."""

DEFAULT_ARCH = "sm_90"
"""The architecture of whoever names none."""

TCGEN05_ARCH = "sm_100"
"""The architecture of whoever asks for tcgen05 and names none."""

_GPUS = {
    "sm_70": "V100, Titan V",
    "sm_75": "T4, Titan RTX, RTX 2060, RTX 2070, RTX 2080, RTX 2080 Ti, Turing",
    "sm_80": "A100, A30",
    "sm_86": "A40, A16, A10, A2, A6000, RTX A6000, RTX 3050, RTX 3060, RTX 3060 Ti, RTX 3070, RTX 3070 Ti, "
    "RTX 3080, RTX 3080 Ti, RTX 3090, RTX 3090 Ti",
    "sm_87": "Orin, AGX Orin, Orin NX, Orin Nano",
    "sm_89": "L4, L40, L40S, RTX 6000 Ada, RTX 4060, RTX 4060 Ti, RTX 4070, RTX 4070 Ti, RTX 4080, RTX 4090, "
    "Ada, Ada Lovelace",
    "sm_90": "H100, H200, GH200, Hopper",
    "sm_100": "B200, GB200",
    "sm_103": "B300, GB300",
    "sm_120": "RTX PRO 6000 Blackwell, RTX 5060, RTX 5060 Ti, RTX 5070, RTX 5070 Ti, RTX 5080, RTX 5090",
}
"""GPUs of each architecture, and families that have one compute capability alone.

Source: NVIDIA, "CUDA GPU Compute Capability"."""

_FAMILIES = {
    "volta": ("sm_70",),
    "ampere": ("sm_80", "sm_86", "sm_87"),
    "blackwell": ("sm_100", "sm_103", "sm_120"),
}
"""Families of several compute capabilities (Volta has 7.2 too), which name no architecture."""

_ARCH_FAMILIES = frozenset({"turing", "ada", "adalovelace", "hopper"})
"""Names in _GPUS that are those of an architecture, not of a GPU."""

_MAKERS = ("nvidia", "geforce", "tesla", "jetson")


def _key(name: str) -> str:
    """Reduce a spelling to what counts: RTX 4090, rtx-4090 and NVIDIA GeForce RTX 4090 are rtx4090."""
    key = name.lower().translate({ord(c): None for c in " -_"})
    for maker in _MAKERS:
        key = key.removeprefix(maker)
    return key


def _gpus(machine: Arch) -> list[str]:
    """The names of GPUs of an architecture, and of families that have it alone."""
    return _GPUS[machine.name].split(", ")


def _spellings() -> dict[str, Arch]:
    spellings: dict[str, Arch] = {}
    for machine in _TABLE:
        major, minor = machine.compute_capability
        names = [*machine.targets, *(t.removeprefix("sm_") for t in machine.targets), f"{major}.{minor}"]
        spellings |= {_key(name): machine for name in (*names, *_gpus(machine))}
        for board in BOARDS[machine.name]:
            own = machine if board == machine.board else replace(machine, board=board)
            spellings[_key(board.name)] = own
    return spellings


_BY_TARGET: Mapping[str, Arch] = MappingProxyType({t: a for a in _TABLE for t in a.targets})
_BY_SPELLING: Mapping[str, Arch] = MappingProxyType(_spellings())


def find_arch(name: str | Arch) -> Arch:
    """The architecture of a name; an Arch is returned as it is.

    A name is a compiler target (sm_90, sm_90a), its short forms (sm90, 90a, 9.0), a GPU (H100, RTX 4090), or
    a family that has one compute capability alone (Turing, Ada, Hopper); case, blanks, "-", "_" and NVIDIA,
    GeForce, Tesla or Jetson in front do not count.  A board stands for its architecture with that board, and
    a GPU of which several boards or none are recorded for its architecture: see `find_board`.  Raises
    UnknownNameError, for families of several architectures too, and ArgumentTypeError for what is neither
    name nor Arch.

    >>> find_arch("sm_75").max_warps_per_sm, find_arch("RTX 4090").name, find_arch("9.0").name
    (32, 'sm_89', 'sm_90')
    """
    if isinstance(name, Arch):
        return name
    check_type("find_arch", name, str, "a name or an Arch")
    arch = _BY_TARGET.get(name) or _BY_SPELLING.get(_key(name))
    if arch is None:
        members = _FAMILIES.get(_key(name))
        if members is not None:
            raise UnknownNameError("architecture", name, members, hint="it is a family of several; ")
        gpus = (gpu for names in _GPUS.values() for gpu in names.split(", "))
        raise UnknownNameError("architecture", name, _BY_TARGET, also=gpus)
    return arch


def find_board(name: str | Arch) -> Board:
    """The board whose rates a name means: never those of another GPU of the same architecture.

    An architecture, by its target or as an Arch, stands for the board of its record; a GPU for its board, if
    just one of it is recorded; a board, such as A100-PCIe-40GB, for itself.  Raises UnsupportedError for a
    GPU of which no board is recorded, or several, and for an architecture without a board, and as `find_arch`
    does.

    >>> find_board("L4").dram_bytes_per_s / 1e9, find_board("H100-PCIe").sms, find_board("sm_90").name
    (300.0, 114, 'H200-SXM')
    """
    machine = find_arch(name)
    key, boards = "" if isinstance(name, Arch) else _key(str(name)), BOARDS.get(machine.name, ())
    for board in boards:
        if _key(board.name) == key:
            return board
    gpus = {_key(gpu): gpu for gpu in _gpus(machine)} if machine.name in _GPUS else {}
    if key not in gpus or key in _ARCH_FAMILIES:
        if machine.board is None:
            raise UnsupportedError(f"no document describes a board of {machine.name} in full")
        return machine.board
    own = [board for board in boards if _gpu_of(board, gpus) == key]
    if len(own) == 1:
        return own[0]
    if own:
        names = " or ".join(board.name for board in own)
        raise UnsupportedError(f"the rates of {gpus[key]} depend on the board: name {names}")
    others = " or ".join(board.name for board in boards)
    hint = f": name another board whose rates to take, {others}" if others else ""
    raise UnsupportedError(f"no rates of {gpus[key]} are recorded{hint}")


def _gpu_of(board: Board, gpus: Mapping[str, str]) -> str:
    """The spelling of the GPU that a board carries: the longest that its name begins with."""
    return max((gpu for gpu in gpus if _key(board.name).startswith(gpu)), key=len, default="")


def find_target(name: str | Arch) -> str:
    """The compiler's name of an architecture: a target as it is, the base target for any other name.

    Raises as `find_arch` does.

    >>> find_target("sm_90a"), find_target("H100")
    ('sm_90a', 'sm_90')
    """
    machine = find_arch(name)
    return name if isinstance(name, str) and name in machine.targets else machine.name
