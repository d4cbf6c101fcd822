"""What `import layoutalg` costs over the bare interpreter: median of 10, in milliseconds.

    python tests/bench/bench_import.py

Each run is a fresh interpreter; the two are run in turns, so that a slow moment of the machine meets both.
The aim is 25 ms.  `python -X importtime -c "import layoutalg"` shows where it goes.
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = 10
AIM_MS = 25.0


def seconds(code: str) -> float:
    """Wall time of one interpreter that runs `code` at the root of the repository."""
    start = time.perf_counter()
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True)
    return time.perf_counter() - start


def main() -> None:
    """Print the two medians and their difference."""
    seconds("import layoutalg")  # writes the bytecode
    pairs = [(seconds("pass"), seconds("import layoutalg")) for _ in range(RUNS)]
    bare, loaded = (1e3 * statistics.median(column) for column in zip(*pairs, strict=True))
    print(f"import layoutalg: {loaded - bare:.1f} ms over a bare interpreter of {bare:.1f} ms")
    print(f"(median of {RUNS}; the aim is {AIM_MS:g} ms)")


if __name__ == "__main__":
    main()
