"""Who is right: 20,000 random operands for every operation, ours and each peer's.

    python tests/bench/bench_peers.py [count]

The judges are those of tests/judges/peer_fuzz.py: tables and brute force.  A peer that is not installed is
left out with a message: `make peers` installs pycute and tensor-layouts; CuTe DSL is nvidia-cutlass-dsl.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.judges.peer_fuzz import VERDICTS, fuzz, report
from tests.judges.peers import DSL, PEERS, present, traced


def main(count: int) -> None:
    """Print the table: one line an operation and library."""
    print(f"{count} operands an operation; {'':15}" + "".join(f"{v:>24}" for v in VERDICTS))
    for who in ("layoutalg", *PEERS, DSL):
        if who != "layoutalg" and not present(who):
            print(f"{who} is not installed")
            continue
        start = time.perf_counter()
        counted = traced(lambda: fuzz(DSL, count)) if who == DSL else fuzz(who, count)
        print("\n".join(report(who, counted)))
        print(f"{who}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
