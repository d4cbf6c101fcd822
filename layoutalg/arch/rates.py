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

from layoutalg.arch.model import Board
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
