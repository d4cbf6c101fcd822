"""Readers of text and command lines under fuzzing: how many runs, how many answered, and what is wrong.

    python tests/bench/bench_readers.py --engine random --cases 100000 --seed 1
    python tests/bench/bench_readers.py --engine hypothesis --cases 5000 --seed 1
    python tests/bench/bench_readers.py --engine atheris --seconds 60 --seed 1
    python tests/bench/bench_readers.py --engine options --cases 500 --seed 1

`random` draws bytes for every reader (tests/draws/readers.py), `hypothesis` and `atheris` look for them:
atheris by the lines that they reach.  `options` draws command lines and runs them in this process.  atheris
is not a dependency: pip install atheris==3.0.0 (CPython 3.11 to 3.13 on Linux).  Exits with 1 when anything
is wrong; atheris stops at the first and exits with 77, its input in a file crash-... of the current folder.
"""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

try:
    import atheris  # type: ignore[import-untyped, import-not-found, unused-ignore]
except ImportError:
    atheris = None

# What atheris is to see has to be loaded under it.
with (
    atheris.instrument_imports(include=["layoutalg"])
    if atheris and any(word.endswith("atheris") for word in sys.argv)
    else nullcontext()
):
    from tests.bench.options import options
    from tests.draws.option_fuzz import draw_words, outcome
    from tests.draws.readers import READERS, check, draw_bytes

RARE = {"mma atom": 100}
"""Readers that are asked less often, by how much: an unknown name is compared with a long table."""


def by_random(names: Sequence[str], cases: int, seed: int) -> int:
    """Bytes drawn evenly; returns the number of wrong outcomes."""
    wrong = 0
    for name in names:
        draw, answered, runs = random.Random(f"{name} {seed}"), 0, cases // RARE.get(name, 1)
        for _ in range(runs):
            raw = draw_bytes(draw)
            try:
                answered += check(name, raw)
            except Exception as error:  # noqa: BLE001  whatever it is, it is what is looked for
                wrong += 1
                print(f"WRONG {name} {raw!r}: {type(error).__name__}: {str(error)[:200]}")
        print(f"{name}: {runs} runs, {answered} answered")
    return wrong


def asked_of(name: str) -> Callable[[bytes], None]:
    """What hypothesis calls: it takes no function with a default, nor one without a name."""

    def run(raw: bytes) -> None:
        check(name, raw)

    return run


def by_hypothesis(names: Sequence[str], cases: int, seed: int) -> int:
    """Bytes that hypothesis looks for, and makes small."""
    import hypothesis
    from hypothesis import strategies as st

    wrong = 0
    for name in names:
        runs = max(1, cases // RARE.get(name, 1))
        quiet, drawn = list(hypothesis.HealthCheck), hypothesis.given(st.binary(max_size=60))
        settings = hypothesis.settings(
            max_examples=runs, deadline=None, database=None, suppress_health_check=quiet
        )
        found = settings(hypothesis.seed(seed)(drawn(asked_of(name))))
        try:
            found()
        except Exception as error:  # noqa: BLE001
            wrong += 1
            print(f"WRONG {name}: {type(error).__name__}: {str(error)[:400]}")
        print(f"{name}: {runs} runs")
    return wrong


def by_atheris(names: Sequence[str], seconds: int, cases: int, seed: int) -> int:
    """Bytes that reach new lines; the first byte chooses the reader.  Ends the process itself."""
    if atheris is None:
        raise SystemExit("atheris is not installed: pip install atheris==3.0.0")
    chosen = [name for name in names if name not in RARE]

    def run(raw: bytes) -> None:
        if raw:
            check(chosen[raw[0] % len(chosen)], raw[1:])

    limits = [f"-max_total_time={seconds}"] if seconds else [f"-runs={cases}"]
    atheris.Setup([sys.argv[0], f"-seed={seed}", "-max_len=80", *limits], run)
    atheris.Fuzz()
    return 0


def by_options(cases: int, seed: int) -> int:
    """Command lines."""
    draw, wrong = random.Random(seed), 0
    for _ in range(cases):
        words = draw_words(draw)
        said = outcome(words)
        if said is not None:
            wrong += 1
            print(f"WRONG {[word[:60] for word in words]}: {said}", flush=True)
    print(f"command lines: {cases} runs")
    return wrong


def main() -> int:
    """Fuzz as asked; 1 when anything is wrong."""
    parser = options(__doc__, seed=0)
    parser.add_argument("--engine", choices=("random", "hypothesis", "atheris", "options"), default="random")
    parser.add_argument("--cases", type=int, default=2000, help="runs per reader, or command lines")
    parser.add_argument("--seconds", type=int, default=0, help="time of atheris, instead of --cases")
    parser.add_argument("--reader", action="append", choices=tuple(READERS), help="repeats; default: all")
    asked = parser.parse_args()
    names = asked.reader or list(READERS)
    if asked.engine == "random":
        wrong = by_random(names, asked.cases, asked.seed)
    elif asked.engine == "hypothesis":
        wrong = by_hypothesis(names, asked.cases, asked.seed)
    elif asked.engine == "atheris":
        wrong = by_atheris(names, asked.seconds, asked.cases, asked.seed)
    else:
        wrong = by_options(min(asked.cases, 100_000), asked.seed)
    print(f"{wrong} wrong")
    return int(wrong > 0)


if __name__ == "__main__":
    raise SystemExit(main())
