"""Which cluster is chosen for a row: laws beside what was measured."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from statistics import geometric_mean

from hypothesis import given
from hypothesis import strategies as st

from layoutalg.kernels.rowwise import norm_problem
from layoutalg.kernels.rowwise.cluster import Kept, kept_us, split_us
from layoutalg.kernels.rowwise.norm_plan import configs
from tests.sweeps import each


@given(st.integers(1, 4096), st.integers(15, 22), st.sampled_from([2, 4, 8, 16]), st.booleans())
def test_what_costs_more_takes_longer(rows: int, log: int, cluster: int, narrow: bool) -> None:
    """More rows, more rounds, larger blocks; nothing is faster than its bytes."""
    one = Kept(rows, 1 << log, narrow, cluster, 8, (1 << log) // cluster, 0, 2)
    us = kept_us(one, 132)
    assert us > 2 * rows * one.row_bytes / 4.28e6
    larger = replace(one, block_bytes=2 * one.block_bytes)
    for more in (replace(one, rows=2 * rows), replace(one, rounds=16), larger, replace(one, each=1)):
        assert kept_us(more, 132) >= us
    assert kept_us(one, 1) == float("inf")
    assert split_us(rows, one.row_bytes) < split_us(2 * rows, one.row_bytes)


@each(
    ("columns", "dtype", "least", "most"),
    [(16384, "bf16", 1, 6), (65536, "f32", 4, 16), (262144, "f32", 12, 16), (1 << 20, "bf16", 16, 16)],
)
def test_longer_rows_have_larger_clusters(columns: int, dtype: str, least: int, most: int) -> None:
    c = configs(norm_problem("softmax", ((1 << 27) // columns, columns), 1, dtype))[0]
    assert least <= c.cluster <= most and c.hold == "shared"


def test_without_clusters_rows_are_read_as_before() -> None:
    """sm_80 has none; rows past sixteen blocks are read twice."""
    p = norm_problem("softmax", (512, 262144), 1, "f32")
    assert all(c.cluster == 1 for c in configs(p, "sm_80")) and configs(p, "sm_80")[0].hold == "global"
    assert configs(norm_problem("softmax", (128, 1 << 21), 1, "f32"))[0].hold == "global"


MEASURED = json.loads((Path(__file__).parents[2] / "data" / "long_rows.json").read_text(encoding="utf-8"))
"""Every way of keeping long rows, timed: those of which the model's numbers are, drawn ones, and few rows."""


def shares(name: str) -> list[float]:
    """The best time of each problem of a set, over that of the way that is chosen."""
    found = []
    for case in MEASURED[name]:
        p = norm_problem(case["op"], (case["rows"], case["columns"]), 1, case["dtype"])
        c = configs(p)[0]
        kept = case["ways"].get(f"{c.cluster} {c.threads_per_row} {c.staged}")
        if c.hold == "registers":  # shorter rows, of which no way of the model's is chosen
            continue
        us = case["other_us"] if c.splits > 1 else kept
        found.append(min(*case["ways"].values(), case["other_us"]) / us)
    return found


@each(
    ("name", "least", "mean"), [("fixed", 0.95, 0.985), ("drawn", 0.94, 0.975), ("few", 0.84, 0.93)]
)  # fmt: skip
def test_what_is_chosen_is_near_the_best_of_all_that_was_measured(
    name: str, least: float, mean: float
) -> None:
    found = shares(name)
    assert min(found) >= least and geometric_mean(found) >= mean


def test_few_long_rows_are_kept_where_that_is_sooner() -> None:
    """By one launch in place of two, and one reading of two."""
    for rows, split in ((1, True), (7, False), (65, False)):
        c = configs(norm_problem("softmax", (rows, 1 << 18), 1, "f32"))[0]
        assert (c.splits > 1, c.cluster > 1) == (split, not split)
