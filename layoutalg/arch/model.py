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

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from layoutalg.errors import ShapeError
from layoutalg.f2 import apply, intersection

Space: TypeAlias = Literal["shared", "global"]
Provenance: TypeAlias = Literal["measured", "documented", "assumed"]


@dataclass(frozen=True, slots=True)
class Instruction:
    """The way in which one warp-wide memory instruction is served.

    `lanes` lanes supply addresses (0 .. lanes-1; the addresses of the others are ignored), each for
    `width_bytes` bytes.  `group_lanes` lanes form a phase, and are served together: consecutive lanes, or,
    with `phase_basis`, those that come after one another in `lane_order`.  With `broadcast`, equal words of a
    phase are served once; without, every lane counts.  `merge_xor` lists lane
    distances: when for one of them EVERY active lane n has the address of lane n ^ distance (an inactive
    partner agrees with anything), phases are twice as long.  `counter_bias` is what the hardware counter
    adds to each instruction.  `matrices` counts the 8 x 8 matrices (rows of 16 bytes) that ldmatrix and
    stmatrix move.  Global instructions have one phase: sectors are counted over all lanes.

    `phase_basis` are lane numbers whose sums over F2 are all lanes.  The sums of its first log2(group_lanes)
    are the first phase, and a phase is that space moved by a sum of the others: a permutation of the bits of
    a lane's number, or any other change of basis.  Raises ShapeError for numbers that are not such a basis.

    >>> Instruction("ld.shared.b128", "shared", 16, lanes=32, group_lanes=8).ideal
    4
    >>> read = Instruction("read", "shared", 16, 64, 8, phase_basis=(1, 2, 20, 4, 8, 32))
    >>> [read.lane_order[n : n + 8] for n in (0, 8)]
    [(0, 1, 2, 3, 20, 21, 22, 23), (4, 5, 6, 7, 16, 17, 18, 19)]
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
    phase_basis: tuple[int, ...] = ()

    def __post_init__(self) -> None:
        full = self.lanes.bit_length() - 1
        if self.phase_basis and (1 << full != self.lanes or sorted(self.lane_order) != [*range(self.lanes)]):
            raise ShapeError(
                f"phase_basis {self.phase_basis} of {self.name}: {full} lane numbers whose sums over F2 are "
                f"its {self.lanes} lanes are needed"
            )

    @property
    def lane_order(self) -> tuple[int, ...]:
        """The lanes, those of a phase after one another."""
        if not self.phase_basis:
            return tuple(range(self.lanes))
        return tuple(apply(self.phase_basis, n) for n in range(1 << len(self.phase_basis)))

    def merges(self, columns: Sequence[int]) -> bool:
        """Whether phases are twice as long where lanes 1, 2, 4, ... are `columns` from lane 0, sums over F2
        of lanes are sums of columns, and lanes past them are inactive.

        >>> load = Instruction("ld.shared.b128", "shared", 16, 32, 8, merge_xor=(1, 2))
        >>> load.merges((0, 16, 32, 64, 128)), load.merges((16, 32, 64, 128, 256))
        (True, False)
        """
        return any(x >> len(columns) or columns[x.bit_length() - 1] == 0 for x in self.merge_xor)

    def phase_columns(self, columns: Sequence[int]) -> tuple[int, ...]:
        """A span of the addresses of a phase, of the `columns` of lanes 1, 2, 4, ...: those of active lanes.

        >>> read = Instruction("read", "shared", 16, 64, 8, phase_basis=(1, 2, 20, 4, 8, 32))
        >>> read.phase_columns((1, 2, 4, 8, 16))
        (1, 2, 20)
        """
        columns = columns[: self.lanes.bit_length() - 1]
        bits = self.group_lanes.bit_length() - 1 + self.merges(columns)
        if not self.phase_basis:
            return tuple(columns[:bits])
        active = intersection(self.phase_basis[:bits], [1 << bit for bit in range(len(columns))])
        return tuple(apply(columns, lane) for lane in active)

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
