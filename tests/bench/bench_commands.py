"""Every command that takes a layout, on random texts: answered or refused by name, never a traceback.

    python tests/bench/bench_commands.py --seed 1 --cases 400

Prints counts by exit code; exits 1 if anything else came out.
"""

from __future__ import annotations

import random
import sys
import traceback
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.explanation import OPERATIONS
from tests.bench.options import options, tallied
from tests.cli.test_refusals import WAYS
from tests.command import run

COMMANDS = {command: [tuple(way.split()[1:]) for way in WAYS if way.split()[0] == command]
            for command in ("analyze", "draw", "solve", "synthesize")}  # fmt: skip
EXTENTS = ("0", "1", "2", "3", "4", "7", "8", "16", "32", "64", "1099511627776", "n", "-1", "_", "")
STRIDES = (
    *("0", "1", "2", "-1", "8", "64", "66", "1@0", "1@1", "2@1@0", "ld", "99999999999999999999", "_", "x"),
)


def number(rng: random.Random, of: tuple[str, ...], plain: bool) -> str:
    """A leaf; plain ones are small numbers."""
    return rng.choice(of[1:10] if of is EXTENTS else of[:7]) if plain else rng.choice(of)


def tree(rng: random.Random, depth: int, plain: bool) -> tuple[str, str]:
    """The texts of a shape and a stride of one form."""
    if depth == 0 or rng.random() < 0.4:
        return number(rng, EXTENTS, plain), number(rng, STRIDES, plain)
    parts = [tree(rng, depth - 1, plain) for _ in range(rng.choice([0, 1, 2, 2, 2, 3]))]
    return tuple(f"({','.join(part[i] for part in parts)})" for i in (0, 1))  # type: ignore[return-value]


def layout(rng: random.Random) -> str:
    """A layout's text, or nearly one."""
    shape, stride = tree(rng, 2, rng.random() < 0.7)
    text = f"{shape}:{stride}" if rng.random() < 0.9 else shape
    for _ in range(rng.choice([0, 0, 0, 1, 1, 2])):
        offset = rng.choice(["0", "0", "3", "99999999999999999999"])
        b, m, s = rng.randrange(4), rng.randrange(6), rng.choice([-3, -1, 0, 1, 2, 3, 60])
        outer = f"Sw<{b},{m},{s}>" if rng.random() < 0.8 else "(4,64):(64,1)"
        text = f"{outer} o {offset} o {text}"
    if rng.random() < 0.05:
        at = rng.randrange(len(text) + 1)
        text = text[:at] + rng.choice("():,o<>@-_ 9x") + text[at:]
    return text


def main() -> int:
    given = options(__doc__, cases=400).parse_args()
    rng, seen, names = random.Random(given.seed), Counter[str](), sorted(OPERATIONS)
    for _ in range(given.cases):
        text = layout(rng)
        calls = [(c, *rng.choice(ways), "--", text) for c, ways in COMMANDS.items()]
        calls.append(("explain", "--", text, str(rng.randrange(9))))
        calls.append(("explain", "--", rng.choice(names), text, *rng.choice([(), ("4:1",), (layout(rng),)])))
        for call in calls:
            try:
                done = run(*call)
            except Exception as error:  # noqa: BLE001 - whatever comes out is what is looked for
                place = traceback.extract_tb(error.__traceback__)[-1]
                seen["WRONG"] += 1
                print(*call, f"{type(error).__name__}: {error}"[:150], f"{place.filename}:{place.lineno}")
                continue
            seen[f"exit code {done.exit_code}"] += 1
            if done.exit_code not in (0, 1, 2) or (done.exit_code == 2 and not done.output.strip()):
                seen["WRONG"] += 1
                print(*call, done.exit_code)
    return tallied(seen)


if __name__ == "__main__":
    sys.exit(main())
