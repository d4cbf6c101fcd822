"""Cases of a bench timed on two trees in turns: this one and an older one, each in a process of its own.

The idea.  A bench gives its cases as functions of no arguments, made of names that both trees have.  Two
processes import the same bench, one with this tree first on its path and one with the older tree; only one
of them works at a time, and both on the same core, so that whatever else the machine does meets both.  A case
is run often enough to take ROUND_MS, in turns for ROUNDS rounds; the ratio is the median of those of the
rounds, in processor time.  A case over its limit is timed once more, for three times as many rounds: that
figure counts, and the first one is printed beside it, since cases below the limit have no second chance.

The older tree is taken from the history into build/base-REV, which git ignores.

    python tests/bench/against.py bench_algebra TREE      one of the two processes; benches start it
"""

from __future__ import annotations

import gc
import importlib.util
import json
import math
import os
import statistics
import subprocess
import sys
import tarfile
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from io import BytesIO
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
RELEASE = "5299a5d"
"""The commit of release 0.1.0."""

ROUND_MS, ROUNDS, AGAIN = 2.0, 9, 3
MOST_MEAN, MOST_OF_ONE = 1.05, 1.15
"""Limits of the geometric mean of all ratios and of each: this tree's time by the older one's."""

Cases = Mapping[str, Callable[[], object]]


def base_tree(revision: str = RELEASE) -> Path:
    """The folder with the library as it was at a revision; SystemExit(2) where the history lacks it."""
    git = ["git", "-C", str(ROOT)]
    words = [*git, "rev-parse", "--short", f"{revision}^{{commit}}"]
    named = subprocess.run(words, capture_output=True, text=True, check=False)
    if named.returncode:
        said = f"revision {revision} is not in the history here; fetch it, or name another with --base"
        print(said, file=sys.stderr)
        raise SystemExit(2)
    folder = ROOT / "build" / f"base-{named.stdout.strip()}"
    if not folder.exists():
        words = [*git, "archive", revision, "layoutalg", "codegen", "kernels"]
        packed = subprocess.run(words, capture_output=True, check=True)
        with tarfile.open(fileobj=BytesIO(packed.stdout)) as archive:
            archive.extractall(folder, filter="data")
    return folder


# --- one of the two processes ----------------------------------------------------------------------------


def seconds(work: Callable[[], object], times: int) -> float:
    """Processor time of so many calls."""
    start = time.process_time()
    for _ in range(times):
        work()
    return time.process_time() - start


def serve(bench: str, tree: str) -> None:
    """Answer `[case, times]` on standard input by the seconds it took; the first line is the cases."""
    sys.path[:0] = [tree, str(ROOT)]  # the tree's library, and what benches ask of the tests
    specification = importlib.util.spec_from_file_location(bench, Path(__file__).with_name(f"{bench}.py"))
    if specification is None or specification.loader is None:
        raise SystemExit(f"there is no {bench}.py")
    module = importlib.util.module_from_spec(specification)
    specification.loader.exec_module(module)
    cases: Cases = module.cases()
    import layoutalg

    if not Path(layoutalg.__file__).is_relative_to(tree):
        raise SystemExit(f"layoutalg is imported from {layoutalg.__file__}, not from {tree}")
    gc.collect()
    gc.freeze()
    print(json.dumps(list(cases)), flush=True)
    for line in sys.stdin:
        case, times = json.loads(line)
        print(seconds(cases[case], times), flush=True)


class Side:
    """A process that times cases on one tree."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self.process = process
        self.cases: list[str] = json.loads(self._read())

    def _read(self) -> str:
        line = self.process.stdout.readline() if self.process.stdout else ""
        if not line:
            raise SystemExit(f"the process of {self.process.args!r} ended")
        return line

    def seconds(self, case: str, times: int) -> float:
        """Processor time of so many calls of a case."""
        if self.process.stdin:
            self.process.stdin.write(json.dumps([case, times]) + "\n")
            self.process.stdin.flush()
        return float(self._read())


@contextmanager
def side(bench: str, tree: Path) -> Iterator[Side]:
    """A process for a tree, ended when the block ends."""
    words = [sys.executable, str(Path(__file__)), bench, str(tree)]
    pipe = subprocess.PIPE
    with subprocess.Popen(words, stdin=pipe, stdout=pipe, text=True, cwd=tree) as process:
        if hasattr(os, "sched_setaffinity"):
            os.sched_setaffinity(process.pid, {max(os.sched_getaffinity(0))})
        try:
            yield Side(process)
        finally:
            process.kill()


# --- the comparison --------------------------------------------------------------------------------------


def medians(now: Side, then: Side, case: str, times: int, rounds: int) -> tuple[float, float, float]:
    """Seconds of a round on both trees, timed in turns, and their ratio: the medians of each."""
    pairs = [(now.seconds(case, times), then.seconds(case, times)) for _ in range(rounds)]
    rows = [(here, there, here / there) for here, there in pairs]
    here, there, ratio = (statistics.median(column) for column in zip(*rows, strict=True))
    return here, there, ratio


def compare(bench: str, revision: str, only: str = "") -> int:
    """Print the table of a bench's cases on both trees; 0 within the limits, 1 beyond them."""
    tree = base_tree(revision)
    with side(bench, ROOT) as now, side(bench, tree) as then:
        names = [name for name in then.cases if name in now.cases and only in name]
        if lost := [name for name in then.cases if name not in now.cases]:
            raise SystemExit(f"cases without a counterpart: {lost}")
        ratios, retimed = dict[str, float](), 0
        print(f"{'microseconds':56}{'now':>12}{tree.name:>14}{'ratio':>8}")
        for name in names:
            times = max(1, round(1e-3 * ROUND_MS / max(then.seconds(name, 1), 1e-9)))
            times = max(1, round(times * 1e-3 * ROUND_MS / max(then.seconds(name, times), 1e-9)))
            now.seconds(name, times)
            here, there, ratio = medians(now, then, name, times, ROUNDS)
            first = ratio
            if first > MOST_OF_ONE:
                here, there, ratio = medians(now, then, name, times, AGAIN * ROUNDS)
            ratios[name] = ratio
            mark = "  over the limit" if ratio > MOST_OF_ONE else ""
            if first > MOST_OF_ONE:
                mark += f"  (timed again; first {first:.2f})"
                retimed += 1
            per = 1e6 / times
            print(f"{name:56}{per * here:12.2f}{per * there:14.2f}{ratio:8.2f}{mark}", flush=True)
    print(f"{retimed} cases were over the limit at first and timed again")
    return judge(ratios)


def judge(ratios: Mapping[str, float]) -> int:
    """Print what the ratios come to; 0 within the limits, 1 beyond them, 2 where there is none."""
    if not ratios:
        print("no case has that name", file=sys.stderr)
        return 2
    mean = math.exp(statistics.fmean(math.log(ratio) for ratio in ratios.values()))
    worst = max(ratios, key=ratios.__getitem__)
    over = [name for name, ratio in ratios.items() if ratio > MOST_OF_ONE]
    print(f"geometric mean of {len(ratios)} cases: {mean:.3f}, the limit is {MOST_MEAN}")
    print(f"the worst is {ratios[worst]:.2f} ({worst}), the limit is {MOST_OF_ONE}; {len(over)} over it")
    return int(mean > MOST_MEAN or bool(over))


def options(parser: Any) -> None:
    """The options of a bench that can be compared."""
    text = "compare with an older tree: release 0.1.0"
    parser.add_argument("--base", nargs="?", const=RELEASE, metavar="REV", help=text)
    parser.add_argument("--only", default="", metavar="TEXT", help="cases with this in their name")


if __name__ == "__main__":
    serve(*sys.argv[1:3])
