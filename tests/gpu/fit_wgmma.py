"""Fit the numbers of gemm-sm90's tiles, of kernels/gemm/choice/tables, to times of its choices; needs no GPU.

python -m tests.gpu.fit_wgmma tests/data/gemm_choice_sm90.json          the rows of the table, fitted
python -m tests.gpu.fit_wgmma tests/data/gemm_choice_sm90.json judged   they and the table's beside each other

The file is what tests.gpu.tune_wgmma writes, times by name of a choice; its problems under "fresh" are not
fitted to.  Of each tile `step`, `block` and `start` are fitted, to the sum of the squares of log(expected /
measured) of its times, by Gauss and Newton's steps, halved until they help, within LEAST.  Times past NEAR of
the fastest of a problem are left out: nobody chooses there.  Rates that all tiles share, L2_BYTES_PER_NS to
TOGETHER and SM90_SUMS, are taken as they are.  Parts of k are times of the same tile.  A tile with fewer than
ENOUGH times keeps its row.

"judged" has the fastest of all choices over the first by either table, in the geometric mean and at least.

What a file cannot say: with how many stages a tile was timed.  Those of STAGES were timed with others than
the table's, and their rows are kept and named; new times of all tiles are taken by

    python -m tests.gpu.tune_wgmma second times.json      on an H200; then this on times.json
"""

from __future__ import annotations

import json
import sys
from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from layoutalg.kernels.gemm.choice.heuristic import SM90, Choice, offered_splits
from layoutalg.kernels.gemm.choice.sm90_time import TOGETHER, Parts, sm90_parts
from layoutalg.kernels.gemm.choice.tables import SM90_SUMS, SM90_TILES, Tile
from layoutalg.kernels.gemm.family import way
from layoutalg.kernels.gemm.problem import gemm_problem
from layoutalg.kernels.gemm.tiles import Sm90Config
from tests.gpu.tune_wgmma import judged

SMS, ENOUGH, ROUNDS, NEAR = 132, 12, 60, 1.5
"""Multiprocessors of an H200; times that a tile needs; steps of the fit at most; times that are
fitted to, by the fastest one's: chosen among 1.15 to 2 on the problems of the file, fresh ones included."""

LEAST = np.array([1.0, 100.0, 1500.0])
"""What a step, a block and a start take at least, in nanoseconds."""

STAGES: Mapping[str, int] = {"192x192x64": 3, "192x192x64 in 2x1x1": 3}
"""The stages that tiles had in tests/data/gemm_choice_sm90.json, where the table has others."""

Numbers = tuple[float, float, float]


class Timed(NamedTuple):
    """A time of a tile, and what the model makes of it."""

    parts: Parts
    ns: float


def timed(rows: Sequence[Mapping[str, Any]]) -> dict[str, list[Timed]]:
    """The times of each tile, by its name."""
    found: dict[str, list[Timed]] = defaultdict(list)
    for row in rows:
        p = gemm_problem(row["m"], row["n"], row["k"], "bf16")
        parts, most = sm90_parts(p, SM90_SUMS, SMS), NEAR * min(row["choices"].values())
        for tile in SM90_TILES:
            config = SM90.fitted(p, tile.config)
            for splits in offered_splits(p, config, SMS):
                one = config if splits == 1 else SM90.parted(p, replace(config, splits=splits))
                us = row["choices"].get(way(one))
                if us is not None and us <= most:
                    found[way(tile.config)].append(Timed(parts(config, splits), 1e3 * us))
    return found


def numbers_of(tile: Tile[Sm90Config]) -> Numbers:
    """A tile's step, block and start."""
    return tile.step[0], tile.block[0], tile.start


def errors(times: Sequence[Timed], numbers: Any) -> Any:
    """log(expected / measured) of each time."""
    return np.array([np.log(one.parts.ns(*numbers) / one.ns) for one in times])


def fitted(times: Sequence[Timed], first: Numbers) -> Numbers:
    """The numbers that fit some times best, from the first ones on."""
    found = np.maximum(np.array(first, float), LEAST)
    error = errors(times, found)
    for _ in range(ROUNDS):
        by = np.maximum(1e-3 * found, 1e-3)
        slopes = np.stack(
            [(errors(times, found + by * unit) - error) / by[i] for i, unit in enumerate(np.eye(3))]
        )
        free = (found > LEAST) | (slopes @ error < 0)  # what is at its least goes up alone
        step = np.zeros(3)
        step[free] = np.linalg.lstsq(slopes[free].T, -error, rcond=None)[0]
        for halved in range(20):
            next_found = np.maximum(found + step / 2**halved, LEAST)
            next_error = errors(times, next_found)
            if (next_error**2).sum() < (error**2).sum() * (1 - 1e-9):
                break
        else:
            break
        found, error = next_found, next_error
    step_ns, block_ns, start_ns = map(float, found)
    return step_ns, block_ns, start_ns


def table(rows: Sequence[Mapping[str, Any]]) -> dict[str, tuple[Numbers, str]]:
    """Each tile's numbers as fitted, whole; and why a row is the table's, empty where it is not."""
    found, times = {}, timed(rows)
    for tile in SM90_TILES:
        name, own = way(tile.config), times.get(way(tile.config), [])
        why = f"timed with {STAGES[name]} stages" if name in STAGES else ""
        if len(own) < ENOUGH:
            why = f"{len(own)} times"
        a, b, c = numbers_of(tile) if why else map(round, fitted(own, numbers_of(tile)))
        found[name] = (a, b, c), why
    return found


def with_numbers(found: Mapping[str, tuple[Numbers, str]]) -> Choice[Sm90Config]:
    """The choice of gemm-sm90 by other numbers of its tiles."""
    tiles = []
    for tile in SM90_TILES:
        step, block, start = found[way(tile.config)][0]
        tiles.append(replace(tile, step=(step,), block=(block,), start=start))
    return replace(SM90, tiles=tuple(tiles))


def text_of(config: Sm90Config, numbers: Numbers, why: str) -> str:
    """A row of the table."""
    fields = [str(x) for x in (config.tile_m, config.tile_n, config.stages)]
    fields += [str(config.consumers)] * (config.consumers != 2)
    fields += [f"{x}={getattr(config, x)}" for x in ("cluster_m", "cluster_n", "cluster_k")
               if getattr(config, x) > 1]  # fmt: skip
    fields += ["pingpong=True"] * config.pingpong
    step, block, start = (f"{x:.0f}" for x in numbers)
    note = f"  # kept: {why}" if why else ""
    return f"    Tile(Sm90Config({', '.join(fields)}), ({step},), ({block},), start={start}),{note}"


def main(args: list[str]) -> int:
    """See the module's text."""
    file = json.loads(Path(args[0]).read_text(encoding="utf-8"))
    parts = {name: rows for name, rows in file.items() if isinstance(rows, list)}
    fit = table([row for name, rows in parts.items() if name != "fresh" for row in rows])
    if args[1:] == ["judged"]:
        judged({f"{name}, the table's": rows for name, rows in parts.items()})
        judged({f"{name}, as fitted": rows for name, rows in parts.items()}, with_numbers(fit))
        return 0
    print(f"# q = {TOGETHER}; {sum(not why for _, why in fit.values())} of {len(fit)} rows are fitted")
    print(*(text_of(tile.config, *fit[way(tile.config)]) for tile in SM90_TILES), sep="\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
