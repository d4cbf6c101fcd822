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
from collections.abc import Iterable, Iterator, Mapping
from statistics import geometric_mean
from typing import Any

from layoutalg.dtype import dtype as find_dtype
from layoutalg.kernels.checks.rowwise import Case
from tests.gpu import row_bench
from tests.gpu.timing import one_stream

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


def summary(rows: Iterable[Mapping[str, Any]], what: str) -> Iterator[str]:
    """Means and least values of the norms and of the reductions: shares, and times of others over ours."""
    found = list(rows)
    for kind, ops in (("norms", row_bench.NORMED), ("reductions", row_bench.REDUCED)):
        for name in ("copy", "eager", "compile"):
            mine = [row["us"] | {"copy": row["share"]["ours"]} for row in found if row["op"] in ops]
            if values := [us[name] / (1 if name == "copy" else us["ours"]) for us in mine if name in us]:
                mean = f"geometric mean {geometric_mean(values):.3f}, least {min(values):.3f}"
                yield f"{what} {kind}, {name} over ours: {len(values)} cases, {mean}"


def main(args: list[str]) -> int:
    """See the module's text."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("out", help="a JSON file")
    parser.add_argument("--seed", type=int, default=row_bench.FIT)
    parser.add_argument("--short", action="store_true", help="rows and columns of few elements instead")
    parser.add_argument("--compiled", type=int, default=0, help="so many of the slowest by torch.compile too")
    asked = parser.parse_args(args)
    cases = short() if asked.short else row_bench.drawn(asked.seed)
    ways = {case: {"ours": way} for case, way in row_bench.compiled_ways((case, None) for case in cases)}
    with one_stream():
        bench = row_bench.bench(7, seed=0, once_us=row_bench.SLOW_US)
        rows = row_bench.sweep(asked.out, ways.items(), bench, ["eager"], again="ours")
        share = {case: row["share"]["ours"] for case, row in zip(ways, rows, strict=True)}
        slowest = sorted(ways, key=share.__getitem__)[: asked.compiled]
        more = row_bench.sweep(asked.out, ((c, ways[c]) for c in slowest), bench, ["compile"], rows, "ours")
    worst = (
        f"{share[case]:.3f} {case} {ways[case]['ours'].config!r}"
        for case in sorted(ways, key=share.__getitem__)
    )
    print("\nworst first:", *worst, *summary(rows, "all"), *summary(more, "compiled"), sep="\n")
    return row_bench.wrong_rows([*rows, *more])


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
