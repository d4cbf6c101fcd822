"""BOARDS: the cards whose rates a document states, by architecture, and what achieved rates are drawn with.

A board's peak rates are those of NVIDIA's data sheets, dense; a number that they do not state is None, and a
card that they do not describe is not here.  Boards of one GPU differ in their memory and their clock: an
H100-SXM5 reads 3.35 TB/s, an H100-PCIe 2.04.  The first board of an architecture is that of its record.

Rates of a board: what a roofline is drawn with, from a data sheet or as somebody achieved them.

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

_MIB = 1 << 20

_A100 = "NVIDIA A100 data sheet; NVIDIA A100 Tensor Core GPU Architecture white paper"
_H100 = "NVIDIA H100 data sheet; NVIDIA H100 Tensor Core GPU Architecture white paper"
_GH200 = "NVIDIA GH200 data sheet, which states no L2 and no clock; SMs: NVIDIA Grace Hopper white paper"


def _a100(name: str, dram_bytes_per_s: float) -> Board:
    """An A100 whose memory alone differs."""
    return Board(name, 108, 40 * _MIB, dram_bytes_per_s, 19.5e12, 312e12, _A100, 1410e6)


def _gh200(name: str, dram_bytes_per_s: float) -> Board:
    """The GPU of a GH200, whose memory alone differs."""
    return Board(name, 132, None, dram_bytes_per_s, 67e12, 990e12, _GH200)


BOARDS: Mapping[str, tuple[Board, ...]] = MappingProxyType(
    {
        # name, multiprocessors, bytes of L2; per second: bytes of DRAM, operations of f32, of f16 by tensor
        # cores; source, clock of a multiprocessor in Hz
        "sm_70": (
            Board(
                "Tesla V100-SXM2", 80, 6 * _MIB, 900e9, 15.7e12, 125e12,
                "NVIDIA Tesla V100 GPU Architecture white paper, table 1", 1530e6,
            ),
        ),
        "sm_75": (
            Board(
                "T4", 40, 4 * _MIB, 320e9, 8.1e12, 65e12,
                "NVIDIA T4 data sheet; NVIDIA Turing GPU Architecture white paper", 1590e6,
            ),
        ),
        "sm_80": (
            _a100("A100-SXM4-80GB", 2039e9),
            _a100("A100-SXM4-40GB", 1555e9),
            _a100("A100-PCIe-80GB", 1935e9),
            _a100("A100-PCIe-40GB", 1555e9),
            Board(
                "A30", 56, None, 933e9, 10.3e12, 165e12,
                "NVIDIA A30 data sheet; clock: NVIDIA A30 product brief", 1440e6,
            ),
        ),
        "sm_86": (
            Board(
                "GeForce RTX 3090", 82, 6 * _MIB, 936e9, 35.6e12, 71e12,
                "NVIDIA Ampere GA102 GPU Architecture white paper, appendix A; tensor: f16 into f32", 1695e6,
            ),
            Board(
                "GeForce RTX 3060 12GB", 28, None, 360e9, 12.7e12, None,
                "NVIDIA GeForce RTX 3060 specifications: 3584 cores, 1.78 GHz, 192 bits of 15 Gbit/s", 1777e6,
            ),
        ),
        "sm_87": (
            Board(
                "Jetson AGX Orin 64GB", 16, 4 * _MIB, 204.8e9, 5.3e12, None,
                "NVIDIA Jetson AGX Orin Series technical brief TB_10749-001, without a rate of f16", 1300e6,
            ),
        ),
        "sm_89": (
            Board(
                "L40S", 142, 96 * _MIB, 864e9, 91.6e12, 362e12,
                "NVIDIA L40S data sheet; NVIDIA Ada GPU Architecture white paper", 2520e6,
            ),
            Board(
                "L4", 58, None, 300e9, 30.3e12, 121e12,
                "NVIDIA L4 data sheet; clock: NVIDIA L4 product brief", 2040e6,
            ),
            Board(
                "GeForce RTX 4090", 128, 72 * _MIB, 1008e9, 82.6e12, 165.2e12,
                "NVIDIA Ada GPU Architecture white paper, appendix A; tensor: f16 into f32", 2520e6,
            ),
        ),
        "sm_90": (
            Board(
                "H200-SXM", 132, 60 * _MIB, 4.8e12, 66.9e12, 989e12,
                "NVIDIA H200 data sheet; L2, SM count and clock as the device reports them", 1980e6,
            ),
            Board(
                "H100-SXM5", 132, 50 * _MIB, 3.35e12, 66.9e12, 989e12,
                f"{_H100}; clock: that of its rate of f32", 1980e6,
            ),
            Board(
                "H100-PCIe", 114, 50 * _MIB, 2.039e12, 51.2e12, 756e12,
                f"{_H100}; memory and clock: NVIDIA H100 PCIe GPU product brief", 1755e6,
            ),
            _gh200("GH200-96GB", 4e12),
            _gh200("GH200-144GB", 4.9e12),
        ),
        "sm_100": (
            Board("B200", 148, 126 * _MIB, 8e12, 75e12, 2250e12, "NVIDIA DGX B200 and HGX B200 data sheets"),
        ),
        "sm_103": (),
        "sm_120": (
            Board(
                "GeForce RTX 5090", 170, 96 * _MIB, 1792e9, 104.8e12, 209.5e12,
                "NVIDIA RTX Blackwell GPU Architecture white paper, appendix A; tensor: f16 into f32", 2407e6,
            ),
            Board(
                "GeForce RTX 5060", 30, None, 448e9, 19.2e12, None,
                "NVIDIA GeForce RTX 5060 specifications: 3840 cores, 2.50 GHz, 128 bits of 28 Gbit/s", 2497e6,
            ),
        ),
    }
)  # fmt: skip
"""By architecture, read only; none of sm_103."""


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
