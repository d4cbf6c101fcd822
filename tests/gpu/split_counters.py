"""Predicted and counted accesses of products in parts, kernel by kernel, from one `ncu` run each.

python -m tests.gpu.split_counters        the table; the exit status is 1 where a prediction is refuted
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence

from layoutalg.codegen.costs import Prediction, traffic
from layoutalg.codegen.gpu import require_gpu
from layoutalg.kernels.gemm import family as gemm_family
from layoutalg.kernels.gemm.launches import launches
from layoutalg.kernels.gemm.problem import GemmProblem, gemm_problem, scalar_words
from layoutalg.kernels.gemm.tiles import Config, SimtConfig
from layoutalg.kernels.ladder.counters import copied_words, counted, vectorized_loads
from tests.gpu.counters import BY_INSTRUCTION, METRICS, Row, copies_of, count_launches, idle_most, table
from tests.gpu.gemm_ladder import COPIES, LDS
from tests.gpu.gemm_launch import CONFIGS, launch_all

CASES = (
    ("gemm_sm80", "f16", 256, 256, 2048, 4), ("gemm_sm80", "s8", 256, 256, 2048, 3),
    ("gemm_simt", "f32", 256, 256, 2048, 4), ("gemm_simt", "f64", 256, 256, 1024, 2),
)  # fmt: skip


def way(name: str, dtype: str, m: int, n: int, k: int, splits: int) -> tuple[GemmProblem, Config]:
    """The product, and its best configuration with so many parts of whole tiles."""
    p = gemm_problem(m, n, k, dtype, b_major="mn" if name == "gemm_simt" else "k")
    found = CONFIGS[name](p, "sm_90")
    return p, next(
        c for c in found
        if c.splits == splits and not (m % c.tile_m or n % c.tile_n or k % c.tile_k)
    )  # fmt: skip


def rows(case: tuple[str, str, int, int, int, int]) -> Iterator[Row]:
    """The counters of both kernels beside what they should say."""
    name, dtype, *rest = case
    m, n, k, splits = rest
    p, c = way(name, dtype, m, n, k, splits)
    metrics = [*(metric for metric, _ in METRICS.values()), BY_INSTRUCTION, COPIES, LDS]
    arguments = (name, dtype, *map(str, rest))
    seen = count_launches("^gemm_", metrics, "tests.gpu.split_counters", *arguments)
    yield from product_rows(f"{p}, {gemm_family.way(c)}", p, c, seen)


def product_rows(
    label: str, p: GemmProblem, c: Config, seen: Sequence[Mapping[str, float]], *, merged: bool = False
) -> Iterator[Row]:
    """What the kernels of a product are predicted to access beside the counters of their launches.

    `merged`: loads of fragments are vectors that the compiler made.
    """
    sequence = launches(p, c)
    params = {**dict(sequence.scalars), **scalar_words(p, "alpha", 1.0), **scalar_words(p, "beta", 1.0)}
    product, *second = sequence.kernels
    fewer = sum(most - least for least, most in copied_words(product, params).values())
    name = f"{label}, parts" if second else label
    if merged and isinstance(c, SimtConfig):
        first = vectorized_loads(p, c, product, params)
    else:
        first = counted(product, params)
    yield from compared(name, first, seen[0], fewer)
    for kernel in second:
        yield from compared(f"{label}, sums", traffic(kernel, params), seen[1])


def compared(label: str, one: Prediction, found: Mapping[str, float], fewer: int = 0) -> Iterator[Row]:
    """What a kernel asks of the L1 and of shared memory beside its counters.

    Three things move the wavefronts by instruction: copies that no lane makes (IDLE_COPY), loads that the
    compiler makes again in a word of its own (each is counted among the loads, and takes one wavefront), and
    both sides of copies that conflict, which may take so many `fewer` wavefronts.
    """
    totals = {"ld.global": 0, "st.global": 0, "shared, by instruction": 0}
    for op, cost in one.items():
        written = "st.global" if op.startswith("st") else "ld.global"
        totals[written if "global" in op else "shared, by instruction"] += cost.total
    for access, predicted in totals.items():
        metric, unit = METRICS.get(access, (BY_INSTRUCTION, "wavefronts"))
        measured, off = round(found[metric]), round(found[COPIES]) - copies_of(one)
        reason = ""
        again = round(found.get(LDS, 0)) - loads_of(one)
        if unit == "wavefronts" and 0 < measured - predicted <= idle_most(one, off):
            reason = f"{off} copies no lane makes"
        elif unit == "wavefronts" and 0 < measured - predicted == again:
            reason = f"{again} words loaded again"
        elif unit == "wavefronts" and 0 < predicted - measured <= fewer:
            reason = "conflicts on both sides"
        yield Row(label, access, unit, predicted, measured, reason)


def loads_of(one: Prediction) -> int:
    """Loads from shared memory."""
    return sum(cost.instructions for op, cost in one.items() if op.startswith("ld.shared"))


def main(args: list[str]) -> int:
    """See the module's text."""
    if args:
        name, dtype, *sizes = args
        launch_all([way(name, dtype, *map(int, sizes))])
        return 0
    require_gpu()
    return table("product", (row for case in CASES for row in rows(case)))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
