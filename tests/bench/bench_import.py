"""What `import layoutalg` costs over the bare interpreter, beside `import numpy`: medians, ms of one core.

    python tests/bench/bench_import.py

Each run is a fresh interpreter; the three are run in turns, so that a slow moment of the machine meets all of
them, and each is preceded by one that writes the bytecode.  Beyond the limits the exit code is 1: 20 ms, and
0.3 of numpy.  `python -X importtime -c "import layoutalg"` shows where it goes.
"""

from __future__ import annotations

import os
import resource
import statistics
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
RUNS = 25
MOST_MS, MOST_OF_NUMPY = 20.0, 0.3


def seconds(code: str) -> float:
    """Processor time of one interpreter that runs `code` at the root of the repository."""
    environment = {k: v for k, v in os.environ.items() if k != "PYTHONDONTWRITEBYTECODE"}
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    subprocess.run([sys.executable, "-c", code], cwd=ROOT, check=True, env=environment)
    after = resource.getrusage(resource.RUSAGE_CHILDREN)
    return after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime


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
