"""Who is right: 20,000 random operands for every operation, ours and each peer's.

    python tests/bench/bench_peers.py [count]

The judges are those of tests/peer_fuzz.py: tables and brute force.  A peer that is not installed is left out
with a message (`make peers` installs both).
"""

from __future__ import annotations

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from tests.peer_fuzz import VERDICTS, fuzz, report
from tests.peers import PEERS, present


def main(count: int) -> None:
    """Print the table: one line an operation and library."""
    print(f"{count} operands an operation; {'':15}" + "".join(f"{v:>24}" for v in VERDICTS))
    for who in ("layoutalg", *PEERS):
        if who in PEERS and not present(who):
            print(f"{who} is not installed; `make peers` installs it")
            continue
        start = time.perf_counter()
        print("\n".join(report(who, fuzz(who, count))))
        print(f"{who}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]) if len(sys.argv) > 1 else 20_000)
