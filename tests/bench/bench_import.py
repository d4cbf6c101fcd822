"""What `import layoutalg` costs over the bare interpreter, beside `import numpy`: medians of 15 runs, in ms.

    python tests/bench/bench_import.py

Each run is a fresh interpreter; the three are run in turns, so that a slow moment of the machine meets all of
them, and each is preceded by one that writes the bytecode.  Beyond the limits the exit code is 1: 20 ms, and
0.3 of numpy.  `python -X importtime -c "import layoutalg"` shows where it goes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = 15
MOST_MS, MOST_OF_NUMPY = 20.0, 0.3


def seconds(code: str) -> float:
    """Wall time of one interpreter that runs `code` at the root of the repository."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the medians and their differences; 1 beyond the limits."""
    codes = ("pass", "import layoutalg", "import numpy")
    for code in codes:
        seconds(code)  # writes the bytecode
    rounds = [[seconds(code) for code in codes] for _ in range(RUNS)]
    bare, ours, numpy = (1e3 * statistics.median(column) for column in zip(*rounds, strict=True))
    ratio = (ours - bare) / (numpy - bare)
    print(f"over a bare interpreter of {bare:.1f} ms (medians of {RUNS}):")
    print(f"import layoutalg {ours - bare:.1f} ms, the limit is {MOST_MS:g} ms")
    print(f"import numpy {numpy - bare:.1f} ms: {ratio:.2f} of it, the limit is {MOST_OF_NUMPY}")
    raise SystemExit(ours - bare > MOST_MS or ratio > MOST_OF_NUMPY)


if __name__ == "__main__":
    main()
