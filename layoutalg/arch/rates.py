"""Rates of a board: what a roofline is drawn with, from a data sheet or as somebody achieved them.

The idea.  A board has units that compute (tensor cores, FFMA) and levels that deliver (DRAM, L2, shared
memory).  A data sheet states the peaks of some of them; what programs achieve is less, and is measured.

>>> T4_ACHIEVED.units["tensor"] / 1e12, T4_ACHIEVED.levels["dram"] / 1e9
(49.4, 220.0)
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from types import MappingProxyType

from layoutalg.arch.model import Board, Provenance
from layoutalg.errors import check_type


@dataclass(frozen=True, slots=True)
class Rates:
    """Operations per second of each unit, and bytes per second of each level.

    Units are "tensor" (f16) and "f32", levels "dram", "l2", "shared" and "registers", as far as known;
    both mappings become read only.

    >>> Rates("toy", {"f32": 1e9}, {"dram": 1e8}, "made up").units
    mappingproxy({'f32': 1000000000.0})
    """

    name: str
    units: Mapping[str, float] = field(hash=False)
    levels: Mapping[str, float] = field(hash=False)
    source: str

    def __post_init__(self) -> None:
        object.__setattr__(self, "units", MappingProxyType(dict(self.units)))
        object.__setattr__(self, "levels", MappingProxyType(dict(self.levels)))


@dataclass(frozen=True, slots=True)
class TensorCores:
    """The tensor cores of an architecture: `per_sm` of them, each `shape` (m,n,k) of f16 per cycle, dense.

    >>> TENSOR_CORES["sm_80"].fmas_per_cycle
    1024
    """

    arch: str
    generation: int
    per_sm: int
    shape: tuple[int, int, int]
    source: str
    provenance: Provenance = "documented"

    @property
    def fmas_per_cycle(self) -> int:
        """Products of f16 that an SM adds per cycle."""
        m, n, k = self.shape
        return self.per_sm * m * n * k

    def clock_hz(self, board: Board) -> float | None:
        """The clock at which the board's stated rate of f16 is reached; None where it states none.

        >>> from layoutalg.arch import ARCHS
        >>> round(TENSOR_CORES["sm_70"].clock_hz(ARCHS["sm_70"].board) / 1e6)
        1526
        """
        rate = board.f16_tensor_flops_per_s
        return None if rate is None else rate / (2 * board.sms * self.fmas_per_cycle)


TENSOR_CORES: Mapping[str, TensorCores] = MappingProxyType(
    {
        cores.arch: cores
        for cores in (
            TensorCores(
                "sm_70", 1, 8, (4, 4, 4), "NVIDIA Tesla V100 GPU Architecture white paper, Tensor Cores"
            ),
            TensorCores(
                "sm_75", 2, 8, (4, 4, 4), "NVIDIA Turing GPU Architecture white paper, table 1: 64 FMA"
            ),
            TensorCores(
                "sm_80", 3, 4, (8, 4, 8), "NVIDIA A100 GPU Architecture white paper, table 1: 256 FMA"
            ),
            TensorCores(
                "sm_89", 4, 4, (8, 4, 4), "NVIDIA Ada GPU Architecture white paper, appendix A: 128 FMA"
            ),
            TensorCores("sm_90", 4, 4, (8, 4, 16), "NVIDIA H100 GPU Architecture white paper: 512 FMA"),
            TensorCores(
                "sm_100", 5, 4, (8, 4, 32), "NVIDIA DGX B200 data sheet: 1024 FMA at its rate and clock"
            ),
        )
    }
)
"""By architecture, read only.  The product of a shape is documented, and its split where a white paper draws
it (4 x 4 x 4 of Volta, 8 x 4 x 8 of Ampere); the others keep 8 x 4, or 4 x 4, and say K."""


@dataclass(frozen=True, slots=True)
class DramRules:
    """The bytes that memory moves where the L2 misses.

    A load brings the `fill_bytes` that hold what it needs.  Of stored data, `written_bytes` at a time
    are written back, and a sector that stores have not filled is read first, `merge_bytes` at once.

    >>> DRAM_RULES["sm_90"].fill_bytes
    64
    """

    arch: str
    fill_bytes: int
    written_bytes: int
    merge_bytes: int
    source: str
    provenance: Provenance = "measured"


DRAM_RULES: Mapping[str, DramRules] = MappingProxyType(
    {
        rules.arch: rules
        for rules in (
            DramRules(
                "sm_90", 64, 32, 32,
                "dram__bytes_read.sum and dram__bytes_write.sum of the patterns of tests/gpu/dram_probe.py "
                "on an H200; tests/data/h200_dram.jsonl",
            ),
        )
    }
)  # fmt: skip
"""By architecture, read only: those that were counted."""

T4_ACHIEVED = Rates(
    "T4, achieved",
    units={"tensor": 49.4e12, "f32": 7.455e12},
    levels={"dram": 220e9, "l2": 1280e9, "shared": 3662e9},
    source="How To Write A Fast Matrix Multiplication From Scratch With Tensor Cores, alexarmbr.github.io, "
    "2024: microbenchmarks",
)
"""A T4 as microbenchmarks found it: HMMA 49.4 of 65 TFLOP/s, DRAM 220 of 320 GB/s."""


def board_rates(board: Board) -> Rates:
    """The peaks that the data sheet of a board states: f16 tensor cores (if it does), f32, and DRAM.

    >>> from layoutalg.arch import ARCHS
    >>> board_rates(ARCHS["sm_75"].board).levels["dram"] / 1e9
    320.0
    """
    check_type("board_rates", board, Board, "a board")
    tensor = board.f16_tensor_flops_per_s
    return Rates(
        f"{board.name}, data sheet",
        units=({} if tensor is None else {"tensor": tensor}) | {"f32": board.f32_flops_per_s},
        levels={"dram": board.dram_bytes_per_s},
        source=board.source,
    )
