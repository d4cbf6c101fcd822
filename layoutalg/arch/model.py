"""The three records that hold every hardware fact: Instruction, Board and Arch.

The idea.  What a warp's access costs is decided by a handful of numbers: how many lanes, banks and bytes,
which lanes are served together, whether equal words are served once.  They are data here, never branches
in the analysis, so a GPU of teaching size is one more value:

    toy = Arch(name="toy", compute_capability=(0, 0), lanes=4, banks=4, ...)

`provenance` says how far a fact may be trusted: "measured" (counted on hardware; the rows are in
tests/data), "documented" (a manual states it) or "assumed" (taken from a counted rule of another architecture
or another instruction, which `source` names).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from layoutalg.errors import ShapeError

Space: TypeAlias = Literal["shared", "global"]
Provenance: TypeAlias = Literal["measured", "documented", "assumed"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """How one warp-wide memory instruction is served.

    `lanes` lanes supply addresses (0 .. lanes-1; the addresses of the others are ignored), each for
    `width_bytes` bytes.  `group_lanes` consecutive lanes form a phase group, served together.  With
    `broadcast`, equal words of a group are served once; without, every lane counts.  `merge_xor` lists lane
    distances: when for one of them EVERY active lane n has the address of lane n ^ distance (an inactive
    partner agrees with anything), groups are twice as long.  `counter_bias` is what the hardware counter
    adds to each instruction.  `matrices` counts the 8 x 8 matrices (rows of 16 bytes) that ldmatrix and
    stmatrix move.  Global instructions have one group: sectors are counted over all lanes.

    >>> Instruction("ld.shared.b128", "shared", 16, lanes=32, group_lanes=8).ideal
    4
    """

    name: str
    space: Space
    width_bytes: int
    lanes: int
    group_lanes: int
    broadcast: bool = True
    merge_xor: tuple[int, ...] = ()
    counter_bias: int = 0
    matrices: int = 0
    provenance: Provenance = "assumed"
    source: str = ""

    @property
    def stores(self) -> bool:
        """Whether it writes an element of each address: not red, which adds up what shares one."""
        copied = self.name.startswith("cp.async") and self.space == "shared"
        return copied or self.name.startswith(("st.", "stmatrix"))

    @property
    def ideal(self) -> int:
        """Wavefronts of a full warp without conflicts and without merging, bias included."""
        return self.lanes // self.group_lanes + self.counter_bias


@dataclass(frozen=True, slots=True)
class Board:
    """A card that carries the architecture, and its peak rates: what rooflines are drawn with.

    Rates are per second, dense (no structured sparsity).  A number is None where `source`, the data sheet,
    states none; rates of units are those at `boost_hz`, the clock of a multiprocessor, and scale with it.

    >>> from layoutalg.arch import ARCHS
    >>> ARCHS["sm_86"].board.boost_hz / 1e6
    1695.0
    """

    name: str
    sms: int
    l2_bytes: int | None
    dram_bytes_per_s: float
    f32_flops_per_s: float
    f16_tensor_flops_per_s: float | None
    source: str
    boost_hz: float | None = None


@dataclass(frozen=True, slots=True, kw_only=True)
class Arch:
    """The facts of one GPU architecture.  Pure data; `instructions` maps names to their rules.

    `targets` are the compiler's spellings of it.  Per-block and per-SM limits are those of the CUDA C++
    Programming Guide, "Compute Capabilities"; `reserved_shared_bytes_per_block` is what the system keeps
    of every block's share.  A warp's registers are allocated in units of `register_allocation_unit`, out of
    the file of one of the `sm_partitions`; a block's shared memory in units of
    `shared_allocation_unit_bytes` (cuda_occupancy.h of the CUDA toolkit).  Raises ShapeError for counts that
    are not positive powers of two where the hardware model needs them to be.

    >>> from layoutalg.arch import ARCHS
    >>> ARCHS["sm_90"].max_shared_bytes_per_block // 1024
    227
    """

    name: str
    compute_capability: tuple[int, int]
    targets: tuple[str, ...] = ()
    lanes: int = 32
    banks: int = 32
    bank_bytes: int = 4
    sector_bytes: int = 32
    line_bytes: int = 128
    static_shared_bytes_per_block: int = 48 * 1024
    max_shared_bytes_per_block: int
    shared_bytes_per_sm: int
    reserved_shared_bytes_per_block: int = 1024
    shared_allocation_unit_bytes: int = 128
    max_registers_per_thread: int = 255
    registers_per_sm: int = 65536
    register_allocation_unit: int = 256
    sm_partitions: int = 4
    max_threads_per_block: int = 1024
    max_warps_per_sm: int
    max_blocks_per_sm: int
    board: Board | None = None
    instructions: Mapping[str, Instruction] = field(hash=False, repr=False)
    source: str = ""

    def __post_init__(self) -> None:
        for what in ("lanes", "banks", "bank_bytes", "sector_bytes", "line_bytes"):
            n = getattr(self, what)
            if n < 1 or n & (n - 1):
                raise ShapeError(f"{what} of architecture {self.name} is {n}; a power of two is needed")
