"""Norms and reductions of any shape, timed beside torch.compile, eager PyTorch and a copy of the source.

python -m tests.gpu.ragged_rows out.json                     random cases of the first published seed
python -m tests.gpu.ragged_rows out.json --seed 20261124     those of the second: no choice was made on them
python -m tests.gpu.ragged_rows out.json --short --compiled 8      rows and columns of few elements; of the
                                                             eight slowest torch.compile too

Plans are made on the cases of the first seed, and tried on those of the second.  See row_bench for cases and
times; what takes longer than `SLOW_US` runs once.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Iterable, Iterator
from statistics import geometric_mean
from typing import Any

from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels.rowwise.families import Case
from tests.gpu import row_bench
from tests.gpu.timing import one_stream, write

SHORT = (3, 5, 7, 10, 16, 17, 24, 31, 40, 48, 64, 77, 96, 100)
"""Rows and columns of few elements."""

SHORT_BYTES = 256 << 20


def short() -> Iterator[Case]:
    """Norms and sums of many rows of few elements, sums of few columns, and rows beside others."""
    for n in SHORT:
        for dtype in ("f32", "bf16"):
            many = SHORT_BYTES // find_dtype(dtype).nbytes // n
            yield from (Case(op, (many, n), (1,), dtype) for op in ("softmax", "layer_norm", "sum"))
            yield Case("sum", (many, n), (0,), dtype)
    beside = ((256, 300, 80, 10), (1, 3)), ((999, 40, 33, 50), (1, 3)), ((64, 9, 1000, 113), (1,))
    for shape, axes in beside:
        yield from (Case(op, shape, axes, "f32") for op in ("layer_norm", "sum"))


def row_of(case: Case, way: row_bench.Way, bench: row_bench.Bench, other: str) -> dict[str, Any]:
    """The times of a case."""
    found = bench.timed(case, {"ours": way}, "ours", [other])
    us = found.us
    return {
        "case": str(case), "config": repr(way.config), "share": found.share("ours"),
        "aa": us["again"] / us["ours"],
        **({f"over {other}": us[other] / us["ours"]} if other in us else {}), "us": us, "wrong": found.wrong,
    }  # fmt: skip


def said(row: dict[str, Any]) -> str:
    """A row of the table."""
    over = " ".join(f"{k} {v:5.2f}" for k, v in row.items() if k.startswith("over"))
    return (
        f"{row['share']:5.2f} of copy {over:18} aa {row['aa']:4.2f} {row['us']['ours']:8.1f} us "
        f"{row['case']}  {row['config']} {row['wrong']}"
    )


def summary(rows: Iterable[dict[str, Any]], what: str) -> Iterator[str]:
    """Means and least values of the norms and of the reductions among the rows."""
    found = list(rows)
    for kind, ops in (("norms", row_bench.NORMED), ("reductions", row_bench.REDUCED)):
        for key in ("share", "over eager", "over compile"):
            if values := [r[key] for r in found if key in r and r["case"].split()[0] in ops]:
                yield (
                    f"{what} {kind}, {key}: {len(values)} cases, "
                    f"geometric mean {geometric_mean(values):.3f}, least {min(values):.3f}"
                )


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", help="a JSON file")
    parser.add_argument("--seed", type=int, default=row_bench.FIT)
    parser.add_argument("--short", action="store_true", help="rows and columns of few elements instead")
    parser.add_argument("--compiled", type=int, default=0, help="so many of the slowest by torch.compile too")
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--seconds", type=float, default=600.0, help="no further case is begun after these")
    asked = parser.parse_args(args)
    began, rows = time.monotonic(), dict[tuple[Case, str], dict[str, Any]]()
    ways = dict(
        row_bench.compiled_ways((c, None) for c in (short() if asked.short else row_bench.drawn(asked.seed)))
    )
    print(f"{len(ways)} cases compiled after {time.monotonic() - began:.0f} s", flush=True)
    with one_stream():
        bench = row_bench.bench(asked.rounds, seed=0, once_us=row_bench.SLOW_US)

        def measure(case: Case, other: str) -> None:
            if time.monotonic() - began < asked.seconds:
                rows[case, other] = row_of(case, ways[case], bench, other)
                print(said(rows[case, other]), flush=True)
                write(asked.out, list(rows.values()))

        for case in ways:
            measure(case, "eager")
        print(*summary(rows.values(), "all"), sep="\n", flush=True)
        for case, _ in sorted(rows, key=lambda one: rows[one]["share"])[: asked.compiled]:
            measure(case, "compile")
    print("", "worst first:", *map(said, sorted(rows.values(), key=lambda r: r["share"])), sep="\n")
    print(*summary([r for (_, other), r in rows.items() if other == "compile"], "compiled"), sep="\n")
    print(f"{time.monotonic() - began:.0f} s")
    return 1 if any(r["wrong"] for r in rows.values()) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
