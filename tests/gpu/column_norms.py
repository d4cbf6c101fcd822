"""Norms over columns, as chosen, beside a copy and torch.compile: 1024 to 55296 rows.

python -m tests.gpu.column_norms out.json softmax,layer_norm f32,bf16,f16 1024,4096,8192

Tensors of 256 MB are reduced over their rows.  torch.compile is asked for mode="max-autotune-no-cudagraphs",
dynamic=False, and takes the definition of the norm in floats.  See row_bench for times and checks.
"""

from __future__ import annotations

import sys
from typing import Any

from tests.gpu import row_bench
from tests.gpu.counters import verdict
from tests.gpu.timing import one_stream, shown, write


def main(args: list[str]) -> int:
    """See the module's text."""
    out, ops, dtypes, sizes = args[0], *(word.split(",") for word in args[1:])
    cases = [row_bench.columns_of(op, t, int(rows)) for rows in sizes for op in ops for t in dtypes]
    made, table = row_bench.compiled_ways((case, None) for case in cases), list[dict[str, Any]]()
    with one_stream():
        bench = row_bench.bench(15)
        for case, way in made:
            found = bench.timed(case, {"ours": way}, others=["compile"])
            us = found.us
            table.append({
                "op": case.op, "dtype": case.dtype, "rows": case.shape[0], "columns": case.shape[1],
                **{f"{name}_us": us[name] for name in us}, "share": found.share("ours"),
                "torch_share": found.share("compile"), "over_torch": us["compile"] / us["ours"],
                "aa": us["again"] / us["copy"], "right": not found.wrong, "config": str(way.config),
            })  # fmt: skip
            shown(table[-1])
            write(out, table)
    return verdict(sum(not row["right"] for row in table), len(table), "results")


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
