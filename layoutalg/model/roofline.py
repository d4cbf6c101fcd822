"""Roofline: how fast a tiled matrix product can be, given what each level of memory delivers.

The idea.  A unit computes tau operations per second, a level delivers beta bytes per second.  A program that
does I operations for each byte it takes from that level runs at most at

    T = min(beta * I, tau)        balance point: I = tau / beta, from where on the level does not limit

A tile of M x N accumulators takes M + N elements for M N multiply-adds, at every step of k, so with 2-byte
elements its intensity is M N / (M + N) operations per byte.  Each level has its own tile:

    DRAM       the block's tile, times how often the L2 serves a panel again (layoutalg.model.l2_order)
    L2         the block's tile: what goes into shared memory
    shared     the warp's tile: what goes into registers
    registers  the instruction's tile

>>> from layoutalg.arch import T4_ACHIEVED
>>> tiles = gemm_intensities(block=(256, 128), warp=(64, 64), instruction=(16, 8), element="f16")
>>> report = roofline_of(T4_ACHIEVED, tiles)
>>> [(b.level, round(b.intensity, 1), round(b.balance, 1)) for b in report.bounds]
[('dram', 85.3, 224.5), ('l2', 85.3, 38.6), ('shared', 32.0, 13.5)]
>>> report.limiting, round(report.flops_per_s / 1e12, 1)
('dram', 18.8)

Notes.  The intensity counts the loads of A and B; the epilogue, which is done once for the whole of k, is
left out, as is latency.  All of it is an upper bound.

Source: Williams, Waterman, Patterson, Roofline: An Insightful Visual Performance Model, CACM 52(4), 2009.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import TypeAlias

from layoutalg.arch import Rates
from layoutalg.dtype import DType, dtype
from layoutalg.errors import ShapeError, UnknownNameError, check_choice, check_type

LEVELS = ("dram", "l2", "shared", "registers")
"""Levels of memory, farthest first."""

TileShape: TypeAlias = "tuple[int, int]"
"""(M, N): rows and columns of accumulators."""


@dataclass(frozen=True, slots=True)
class Bound:
    """The bound of one level: operations per byte done and needed, bytes per second, operations per second.

    >>> Bound("dram", intensity=64.0, balance=128.0, bytes_per_s=1e9, flops_per_s=64e9).limits
    True
    """

    level: str
    intensity: float
    balance: float
    bytes_per_s: float
    flops_per_s: float

    @property
    def limits(self) -> bool:
        """True when the level keeps the unit waiting."""
        return self.intensity < self.balance


@dataclass(frozen=True, slots=True)
class Roofline:
    """The bound of a program on a board: `flops_per_s`, set by `limiting`, a level or the unit itself.

    `bounds` has a row for each level whose rate is known; `unknown` names the others.
    """

    rates: str
    unit: str
    peak_flops_per_s: float
    flops_per_s: float
    limiting: str
    bounds: tuple[Bound, ...]
    unknown: tuple[str, ...]


def tile_intensity(tile: TileShape, element: str | DType) -> float:
    """Operations (a multiply-add is two) for each byte of A and B that a tile of M x N accumulators takes.

    >>> tile_intensity((256, 256), "f16"), tile_intensity((64, 64), "f16"), tile_intensity((128, 128), "f32")
    (128.0, 32.0, 32.0)
    """
    m, n = _tile(tile)
    return 2 * m * n * 8 / ((m + n) * dtype(element).bits)


def gemm_intensities(
    *, block: TileShape, warp: TileShape, instruction: TileShape, element: str | DType, l2_reuse: float = 1.0
) -> Mapping[str, float]:
    """Operations per byte at every level of a matrix product, by the tiles of block, warp and instruction.

    `l2_reuse` is how often a panel that came from DRAM is loaded: `L2Locality.reuse`.  Raises ShapeError
    for tiles that do not fit each other.

    >>> dict(gemm_intensities(block=(256, 256), warp=(64, 64), instruction=(16, 8), element="f16"))
    {'dram': 128.0, 'l2': 128.0, 'shared': 32.0, 'registers': 5.333333333333333}
    """
    if not l2_reuse >= 1:
        raise ShapeError(f"l2_reuse is {l2_reuse}; every panel is loaded at least once")
    for outer, inner in ((block, warp), (warp, instruction)):
        if any(a % b for a, b in zip(_tile(outer), _tile(inner), strict=True)):
            raise ShapeError(f"a tile of {outer} cannot be cut into tiles of {inner}")
    far = tile_intensity(block, element)
    near = (far * l2_reuse, far, tile_intensity(warp, element), tile_intensity(instruction, element))
    return MappingProxyType(dict(zip(LEVELS, near, strict=True)))


def balance_point(rates: Rates, level: str, unit: str = "tensor") -> float:
    """Operations per byte from which on `level` keeps up with `unit`.

    Raises UnknownNameError for a level or unit whose rate is not known.

    >>> from layoutalg.arch import T4_ACHIEVED
    >>> [int(balance_point(T4_ACHIEVED, level)) for level in ("dram", "l2", "shared")]
    [224, 38, 13]
    """
    check_type("balance_point", rates, Rates, "rates")
    return _rate("unit", rates.units, unit) / _rate("level", rates.levels, level)


def roofline_of(rates: Rates, intensities: Mapping[str, float], unit: str = "tensor") -> Roofline:
    """The bound of a program with the given operations per byte at each level: min(beta * I, tau).

    Raises UnknownNameError for a unit without a rate or a level that is none of LEVELS, ShapeError for an
    intensity that is not positive.

    >>> from layoutalg.arch import T4_ACHIEVED
    >>> roofline_of(T4_ACHIEVED, {"dram": 300.0, "l2": 128.0, "registers": 5.3}).limiting
    'tensor'
    """
    check_type("roofline_of", rates, Rates, "rates")
    check_type("roofline_of", intensities, Mapping, "a mapping of levels to intensities")
    peak = _rate("unit", rates.units, unit)
    bounds: list[Bound] = []
    for level, intensity in intensities.items():
        check_choice("level", level, LEVELS)
        if not intensity > 0:
            raise ShapeError(f"the intensity at {level} is {intensity}; it must be positive")
        if level in rates.levels:
            beta = rates.levels[level]
            bounds.append(Bound(level, intensity, peak / beta, beta, min(beta * intensity, peak)))
    slowest = min(bounds, key=lambda bound: bound.flops_per_s, default=None)
    held_back = slowest is not None and slowest.limits
    return Roofline(
        rates.name,
        unit,
        peak,
        slowest.flops_per_s if slowest is not None else peak,
        slowest.level if slowest is not None and held_back else unit,
        tuple(bounds),
        tuple(level for level in intensities if level not in rates.levels),
    )


def mean_rate(hit_rate: float, hit_bytes_per_s: float, miss_bytes_per_s: float) -> float:
    """The mean of two rates, weighted by the share of loads that hit: a rough guess of a cache's effect.

    Roofline proper keeps levels apart: DRAM delivers only the misses, so its intensity grows by
    1 / (1 - hit_rate), and the slower of the two levels decides.  The mean lies above that where the cache
    is much faster.  Raises ShapeError for a share outside [0, 1].

    >>> mean_rate(0.5, 1280e9, 220e9) / 1e9
    750.0
    """
    for number in (hit_rate, hit_bytes_per_s, miss_bytes_per_s):
        check_type("mean_rate", number, (int, float), "a number")
    if not 0 <= hit_rate <= 1:
        raise ShapeError(f"hit_rate is {hit_rate}; a share between 0 and 1 is needed")
    return hit_rate * hit_bytes_per_s + (1 - hit_rate) * miss_bytes_per_s


def _tile(tile: TileShape) -> TileShape:
    if (
        not isinstance(tile, (tuple, list))
        or len(tile) != 2
        or not all(type(side) is int and side > 0 for side in tile)
    ):
        raise ShapeError(f"tile {tile!r}: two positive integers (M, N) are needed")
    return tile


def _rate(kind: str, known: Mapping[str, float], name: str) -> float:
    if name not in known:
        raise UnknownNameError(kind, name, known)
    return known[name]
