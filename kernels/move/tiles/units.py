"""The number of sectors, half lines or lines that the runs of a tile touch: the law that tiles are chosen by.

The idea.  Memory moves whole units: requests to the L2 are sectors of 32 bytes, memory fills half lines of
64, a store travels by lines of 128.  A run of n bytes from byte s on touches the units s // u to
(s + n - 1) // u.  Runs that start at all multiples of g alike touch, on average,

    (n + u - g) / u       where g divides u and n is a multiple of g

so a run that starts at units (g = u) touches n / u, one that starts at any element almost one unit more:

    runs of 31 f32, at any element        (124 + 32 - 4) / 32 = 4.75 sectors, 1.23 of what they fill
    runs of 62 f32                        (248 + 32 - 4) / 32 = 8.63 sectors, 1.11

What makes runs longer, or lets them start at units, saves what the first and the last unit share with other
runs.  The law does not cover other accesses to a unit, or whether it is still in the L2 then.
"""

from __future__ import annotations

from fractions import Fraction
from math import gcd, prod

from layoutalg.kernels.move.stage import Stage

SECTOR_BYTES, HALF_LINE_BYTES, LINE_BYTES = 32, 64, 128
"""The units of requests to the L2, of fills from memory, and of stores."""

NEAR_BYTES = 8 << 20
"""The most bytes moved between two tiles that share units for the second to find them in the L2."""


def mean_units(nbytes: int, start_bytes: int, unit_bytes: int) -> Fraction:
    """Units that a run of `nbytes` touches, the mean over starts at all multiples of `start_bytes`.

    >>> mean_units(124, 4, 32), mean_units(256, 32, 32), mean_units(256, 0, 128), mean_units(20, 32, 32)
    (Fraction(19, 4), Fraction(8, 1), Fraction(2, 1), Fraction(1, 1))
    """
    step = gcd(start_bytes, unit_bytes)
    whole = -(-nbytes // step) * step
    return Fraction(whole + unit_bytes - step, unit_bytes)


def mean_units_enumerated(nbytes: int, start_bytes: int, unit_bytes: int) -> Fraction:
    """The definition: the units of every start within a unit, counted.

    >>> mean_units_enumerated(124, 4, 32)
    Fraction(19, 4)
    """
    starts = range(0, unit_bytes, gcd(start_bytes, unit_bytes))
    touched = sum((start + nbytes - 1) // unit_bytes - start // unit_bytes + 1 for start in starts)
    return Fraction(touched, len(starts))


def loaded_units(stage: Stage, unit_bytes: int) -> float:
    """Units of the source that the rows of all tiles touch; one that two rows touch counts twice.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((997, 999), (1, 0), "f32"))
    >>> stage = Stage(x, PermuteConfig("staged", (128, 128), 256, 4, 4))
    >>> round(loaded_units(stage, 32) * 32 / 997 / 999 / 4, 2)
    1.08
    """
    modes, size, run = stage.modes, stage.size, stage.src_run
    halo = [stage.lead * n if stage.halo and k == stage.last else 0 for k, n in enumerate(stage.counts)]
    held = [(m.extent + more, m.src) for m, more in zip(modes, halo, strict=True)]
    rows = prod(stage.counts[k] if k in run else extent for k, (extent, step) in enumerate(held) if step)
    steps = [m.src for m in modes]
    starts = [stage.moves.src_offset, stage.row_lead, *_steps(stage, steps, run)]
    return _touched(prod(n for n, step in held if step) * size, rows, size * gcd(*starts), unit_bytes)


def stored_units(stage: Stage, unit_bytes: int) -> float:
    """Units of the destination that the runs of all tiles touch; one that two runs touch counts twice.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((997, 999), (1, 0), "f32"))
    >>> config = PermuteConfig("staged", (128, 128), 256, 4, 4, align=8)
    >>> round(stored_units(Stage(x, config), 32) * 32 / 997 / 999 / 4, 2)
    1.01
    """
    modes, run = stage.modes, stage.dst_run
    runs = prod(stage.counts[k] if k in run else m.extent for k, m in enumerate(modes))
    steps, size = [m.dst for m in modes], stage.dst_size
    starts = size * gcd(stage.moves.dst_offset, *_steps(stage, steps, run))
    moved = prod(m.extent for m in modes) * size
    if not stage.halo:
        return _touched(moved, runs, starts, unit_bytes)
    whole = prod(1 if k in run else m.extent for k, m in enumerate(modes))  # a unit cuts the others
    owned = max(gcd(starts, unit_bytes), gcd(stage.unit * size, unit_bytes))
    inside = _touched(moved, runs - whole, owned, unit_bytes)
    return inside + _touched(0, whole, starts, unit_bytes)


def filled_units(stage: Stage, unit_bytes: int) -> float:
    """Units that memory fills: what neighbouring tiles touch that follow each other is filled once.

    A row goes on where the tile ends that holds it, in the next tile along that mode; where the mode ends, in
    the first tile again.  Where that one comes soon, or came, within `NEAR_BYTES`, both are one run for the
    memory.

    >>> from layoutalg.kernels.move.problem import normalise, permute_problem
    >>> from layoutalg.kernels.move.stage import PermuteConfig
    >>> x = normalise(permute_problem((500, 600, 700), (2, 1, 0), "f32"))
    >>> for walk in ("target", "tile"):
    ...     stage = Stage(x, PermuteConfig("staged", (64, 1, 16), 256, 4, 4, walk=walk))
    ...     print(walk, round(filled_units(stage, 64) * 64 / (500 * 600 * 700 * 4), 2))
    target 1.75
    tile 1.0
    """
    modes, size, length, whole = stage.modes, stage.size, 1, list[int]()
    tile, back = prod(stage.tile) * size, 0  # from the last tile along the modes before to the first one
    for k in stage.by_source:
        if modes[k].src != length:
            break
        apart = prod(stage.counts[j] for j in stage.walk[: stage.walk.index(k)]) * tile
        step = apart if stage.tile[k] < modes[k].extent else 0
        if abs(step - back) > NEAR_BYTES:
            break
        whole.append(k)
        length *= modes[k].extent
        back += (stage.counts[k] - 1) * apart
    cut = [k for k in stage.src_run if k not in whole][:1]
    held = [k for k, m in enumerate(modes) if m.src]
    runs = prod(stage.counts[k] if k in cut else modes[k].extent for k in held if k not in whole)
    steps = (modes[k].src * (stage.tile[k] if k in cut else 1) for k in held if k not in whole)
    starts = gcd(stage.moves.src_offset, *steps)
    return _touched(prod(modes[k].extent for k in held) * size, runs, starts * size, unit_bytes)


def _steps(stage: Stage, strides: list[int], run: tuple[int, ...]) -> list[int]:
    """The steps between the starts of a side's runs, in elements."""
    return [
        stride * (stage.tile[k] if k in run else 1)
        for k, (stride, m) in enumerate(zip(strides, stage.modes, strict=True))
        if k not in run or stage.tile[k] < m.extent
    ]


def _touched(nbytes: int, runs: int, start_bytes: int, unit_bytes: int) -> float:
    """Units that so many runs touch, `nbytes` long together."""
    return (nbytes + runs * (unit_bytes - gcd(start_bytes, unit_bytes))) / unit_bytes
