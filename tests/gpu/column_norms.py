"""Norms over columns, as chosen, beside a copy and torch.compile: 1024 to 55296 rows.

python -m tests.gpu.column_norms out.json softmax,layer_norm f32,bf16,f16 1024,4096,8192

Tensors of 256 MB are reduced over their rows.  torch.compile is asked for mode="max-autotune-no-cudagraphs",
dynamic=False, and takes the definition of the norm in floats.  See row_bench for times and checks.
"""

from __future__ import annotations

import sys

from tests.gpu import row_bench
from tests.gpu.timing import one_stream


def main(args: list[str]) -> int:
    """See the module's text."""
    out, (ops, dtypes, sizes) = args[0], (word.split(",") for word in args[1:])
    cases = (row_bench.columns_of(op, t, int(rows)) for rows in sizes for op in ops for t in dtypes)
    with one_stream():
        made = row_bench.by_case((case, None) for case in cases)
        return row_bench.wrong_rows(row_bench.sweep(out, made.items(), row_bench.bench(15), ["compile"]))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
