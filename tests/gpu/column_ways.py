"""Softmaxes over columns by clusters that keep their slabs: every way that fits, beside a copy.

python -m tests.gpu.column_ways out.json softmax f32,bf16 4096,8192,14336

Slabs of 64 to 512 bytes, clusters of 1 to 16, 1 to 4 blocks of a multiprocessor; the way that is chosen
comes first, then what reads twice, then ways whose clusters stay.  See row_bench for times.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from dataclasses import replace

from layoutalg.kernels.checks.rowwise import Case
from layoutalg.kernels.rowwise import NormConfig
from layoutalg.kernels.rowwise.ways.norm_plan import norm_configs
from tests.gpu import row_bench
from tests.gpu.timing import one_stream

CLUSTERS = (1, 2, 4, 8, 16)
BLOCK_BYTES, ROOM_BYTES = 1 << 10, 228 << 10
HELD = 8
"""Vectors of a thread in registers, at most."""


def exchange_bytes(lanes: int, vec: int, threads: int, cluster: int) -> int:
    """Shared memory beside the slab, about."""
    return 4 * lanes * (2 * vec + 4) * (threads // 32 + cluster + 2)


def fitting(rows: int, nbytes: int, width: int, cluster: int, blocks: int, threads: int) -> NormConfig | None:
    """The configuration that keeps a slab so, if it has room."""
    vec, lanes, share = 16 // nbytes, width // 16, -(-rows // cluster)
    each = threads // lanes
    rounds = -(-share // each)
    if each < 4 or share < each:
        return None
    room = ROOM_BYTES // blocks - BLOCK_BYTES - exchange_bytes(lanes, vec, threads, cluster)
    fits = min(rounds, room // (threads * 16))
    if rounds - fits > HELD or fits < 1 or (rounds - fits and blocks > 2):
        return None
    return NormConfig(vec, lanes, each, "shared", 4, 1, fits if fits < rounds else 0, cluster)


def ways(rows: int, nbytes: int) -> Iterator[NormConfig]:
    """The ways that fit: of each width and number of blocks those of the two smallest clusters."""
    for width in (512, 256, 128, 64) if rows > 20000 else (512, 256, 128):
        for blocks, threads in ((1, 512), (2, 128), (2, 256), (2, 512), (3, 128), (3, 256), (4, 128)):
            found = (fitting(rows, nbytes, width, n, blocks, threads) for n in CLUSTERS)
            yield from [c for c in found if c is not None][:2]


def compiled(case: Case) -> dict[str, row_bench.Way]:
    """All ways of a case, the chosen one first; then those whose clusters stay."""
    p = row_bench.problem_of(case)
    known = norm_configs(p, "sm_90a")
    first = [known[0], known[-1], *known[1:3], *ways(case.shape[0], p.dtype.nbytes)]
    found = row_bench.by_case((case, c) for c in dict.fromkeys(first))[case]
    stay = [
        replace(way.config, resident=clusters) for way in [*found.values()][1:]
        if not way.config.resident and way.config.threads >= 256
        and (clusters := row_bench.active_clusters(way))
    ]  # fmt: skip
    return found | (row_bench.by_case((case, c) for c in stay)[case] if stay else {})


def main(args: list[str]) -> int:
    """See the module's text."""
    out, op, dtypes, sizes = args
    cases = [row_bench.columns_of(op, t, int(rows)) for rows in sizes.split(",") for t in dtypes.split(",")]
    with one_stream():
        swept = ((case, compiled(case)) for case in cases)
        return row_bench.wrong_rows(row_bench.sweep(out, swept, row_bench.bench(7, seed=7)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
