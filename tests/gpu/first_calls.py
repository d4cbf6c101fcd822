"""Host time of the first call of matmul for a new shape, whose configuration is compiled: under 5 ms.

python -m tests.gpu.first_calls [out.json]

Per kind of product some calls compile; then each of the others has sizes that were not seen before, and is
timed on the host alone, with tensor maps, the loading of nothing new, and the launch.  Exit status 1 where a
median is 5 ms or more.
"""

from __future__ import annotations

import sys
import time
from statistics import median
from typing import Any

import layoutalg
from tests.gpu.timing import write

MOST_MS, CALLS, WARM = 5.0, 40, 12

KINDS: dict[str, Any] = {
    "aligned": lambda i: (4096 + 64 * i, 4096, 4096 + 128 * (i % 7)),
    "odd": lambda i: (4001 + 2 * i, 4095, 4001 + 2 * i),
    "batch": lambda i: (4 + i, 512, 512, 512 + 64 * (i % 7)),
    "m = 1": lambda i: (1, 4096 + 8 * i, 4096 + 8 * i),
    "m = 64": lambda i: (64, 4096 + 8 * i, 4096 + 8 * i),
}


def timed_ms(shape: tuple[int, ...]) -> float:
    """Milliseconds of a call on new arrays, on the host."""
    import torch

    *batch, m, n, k = shape
    a = torch.empty((*batch, m, k), device="cuda", dtype=torch.bfloat16)
    b = torch.empty((*batch, n, k), device="cuda", dtype=torch.bfloat16).mT
    torch.cuda.synchronize()
    begin = time.perf_counter()
    layoutalg.ops.matmul(a, b)
    return (time.perf_counter() - begin) * 1e3


def main(args: list[str]) -> int:
    """See the module's text."""
    rows: list[dict[str, Any]] = []
    for kind, shape in KINDS.items():
        found = [timed_ms(shape(i)) for i in range(CALLS)][WARM:]
        compiled = sum(ms > 50 for ms in found)  # another tile was compiled
        rest = [ms for ms in found if ms <= 50]
        rows.append({"kind": kind, "median_ms": median(rest), "worst_ms": max(rest), "compiled": compiled})
        print(rows[-1], flush=True)
    if args:
        write(args[0], rows)
    return int(any(row["median_ms"] >= MOST_MS for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
