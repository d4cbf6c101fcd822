"""The command line of a bench: its text, and the options that most of them have."""

from __future__ import annotations

import argparse
from collections import Counter


def options(text: str | None, *, seed: int | None = 1, cases: int | None = None) -> argparse.ArgumentParser:
    """A parser that shows the text as it is, with --seed and --cases where they have a value."""
    parser = argparse.ArgumentParser(description=text, formatter_class=argparse.RawTextHelpFormatter)
    for name, value in (("--seed", seed), ("--cases", cases)):
        if value is not None:
            parser.add_argument(name, type=int, default=value)
    return parser


def tallied(seen: Counter[str]) -> int:
    """Print counts by name; 1 where one whose name begins with WRONG is not 0."""
    for what, count in sorted(seen.items()):
        print(f"{count:8d}  {what}")
    return int(any(count for what, count in seen.items() if what.startswith("WRONG")))
