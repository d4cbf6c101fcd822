"""Predicted and counted work of products as they are chosen, side by side, from one `ncu` run each.

python -m tests.gpu.gemm_counters                              the table of docs/measured.md
python -m tests.gpu.gemm_counters gemm-simt 1024 1024 512      one product
"""

from __future__ import annotations

import sys
from typing import Any

from layoutalg.kernels import Family, find_family
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem
from layoutalg.kernels.ladder.gemm import TARGET, predict_step
from tests.gpu.counters import verdict
from tests.gpu.gemm_ladder import counters_table, held_table, launch_all, measure

CASES = (
    *(("gemm-sm80", sizes) for sizes in ((512, 512, 512), (1024, 1024, 1024), (4096, 4096, 1024))),
    *(("gemm-simt", sizes) for sizes in ((1024, 1024, 1024), (4096, 4096, 1024))),
)  # fmt: skip


def chosen_way(family: Family, m: int, n: int, k: int) -> tuple[GemmProblem, Any]:
    """The product in the family's usual storage, and its first configuration of one kernel."""
    usual = family.problem(m)
    p = gemm_problem(m, n, k, usual.operand, a_major=usual.a_major, b_major=usual.b_major)
    return p, next(c for c in family.configs(p, TARGET) if c.splits == 1)


def main(args: list[str]) -> int:
    """Print the table; the exit status is 1 when a prediction is refuted."""
    if args[:1] == ["launch"]:
        family = find_family(args[1])
        p, config = chosen_way(family, *map(int, args[2:]))
        launch_all(family, p, [config])
        return 0
    steps, counters = [], []
    given = ((args[0], tuple(map(int, args[1:]))),) if args else CASES
    for name, sizes in given:
        family = find_family(name)
        p, config = chosen_way(family, *sizes)
        steps.append(predict_step(family, p, f"{p}, {config.tile_m}x{config.tile_n}x{config.tile_k}", config))
        counters += measure("tests.gpu.gemm_counters", "launch", name, *map(str, sizes))
    tables = (counters_table(steps, counters), held_table(steps, counters))
    return verdict(sum(wrong for wrong, _ in tables), sum(of for _, of in tables))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
