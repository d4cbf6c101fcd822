"""Kernels of an older tree beside this one's, in one process on an H200: is any of them slower?

    python tests/bench/bench_kernels.py                                        both steps, in build/kernels
    python tests/bench/bench_kernels.py --prepare build/kernels --base 5299a5d --draw 60 --seed 7
    python tests/bench/bench_kernels.py --run build/kernels --seconds 420

The first step needs no GPU: both trees compile every case of tests/frozen/kernel_freeze.py and, with --draw,
so many further random ones, into a folder of less than 60 MiB.  The second needs no history and no compiler:
where there is no GPU, only --run says so by its exit status.

How a case is timed.  Equal machine code that is launched alike counts as 1.00.  Otherwise both run on the
same random buffers, whose results have to agree byte by byte, and are then timed in turn for ROUNDS rounds.
Where numbers are added in another order, results of a family with an error bound may differ: this tree's are
then verified against the definition, in every trial of the family, and the row says so.  In a round, a
sample is a few launches on buffers in turn, behind writes of more than the L2 holds, which also lets the host
get ahead of the GPU.  The ratio is the median of the rounds' ratios, base by now: below 1 is slower.  One
under LEAST is timed again for AGAIN rounds; that figure counts, and the first one is printed beside it.  Some
machine code is timed beside a second copy of itself (A/A): ratios mean nothing within the spread of these.

The exit status is 1 where a ratio is under LEAST, their geometric mean under 1 (to three decimals), a result
differs, this tree does not compute a case that the older one did, or the time was not enough.
"""

from __future__ import annotations

import statistics
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg.codegen import gpu
from layoutalg.kernels.checks import checks_of
from layoutalg.kernels.checks.record import verify
from tests.bench.against import RELEASE, base_tree
from tests.bench.kernel_images import Pair, pairs, prepared
from tests.bench.options import options
from tests.frozen import kernel_adapter

ROOT = Path(__file__).resolve().parents[2]
FOLDER = ROOT / "build" / "kernels"

ROUNDS, AGAIN, LEAST = 11, 51, 0.98
"""Rounds of a case, of one that seems to be slower than LEAST of the older tree's rate."""

SAMPLE_MS, MOST_LAUNCHES = 0.6, 24
"""A sample is about so long, of so many launches at most."""

CACHE_BYTES, MOST_SETS = 50 << 20, 8
"""Of an H200's L2; sets of buffers that launches take in turn, four times as large together."""

FLUSH_BYTES = 256 << 20
"""Written before each sample, as often as it takes the host to launch it all."""

ALIKE, PAIRS = 4, 6
"""One timed case in so many is timed beside a copy of itself too, and so many of those with equal code."""

NUMBERS = frozenset({"f64", "f32", "tf32", "f16", "bf16"})
"""Types of numbers that are drawn; what holds others is filled with random bytes."""

Launch = Callable[[], None]


# --- both trees' kernels on the same buffers -------------------------------------------------------------


def sequence(side: Mapping[str, Any], folder: Path) -> gpu.ReadySequence:
    """One tree's launches of a case."""
    kernels, buffers = [], []
    for one in side["kernels"]:
        names = [x for x in one["arguments"] if isinstance(x, str)]
        image = (folder / f"{one['image']}.cubin").read_bytes()
        scalars = tuple((place, x) for place, x in enumerate(one["arguments"]) if not isinstance(x, str))
        (x, y, z), (width, height, depth) = one["grid"], one["cluster"]
        kernels.append(gpu.Launchable(
            one["name"], tuple((name, 1) for name in names), (x, y, z), one["threads"], one["dynamic_bytes"],
            image, one["dependent"], scalars, cluster=(width, height, depth), cooperative=one["cooperative"],
        ))  # fmt: skip
        buffers.append(tuple(names))
    return gpu.ReadySequence(tuple(kernels), tuple(buffers), 0)


def filled(nbytes: int, holds: str, seed: int) -> Any:
    """An array of bytes with random numbers of a type."""
    if holds not in NUMBERS:
        return gpu.random_bytes(nbytes, seed)
    width = {"f64": 8, "f16": 2, "bf16": 2}.get(holds, 4)
    return gpu.random_normal(nbytes // width, seed, holds).view("uint8")


class Buffers:
    """Sets of equal arrays, so many at `most`, that the launches of a case take in turn."""

    def __init__(self, pair: Pair, most: int) -> None:
        first: dict[str, Any] = {}
        for seed, (name, (nbytes, holds, _)) in enumerate(pair.buffers.items()):
            first[name] = filled(max(nbytes, 16), holds, seed)
        self.results = [name for name, (_, _, result) in pair.buffers.items() if result]
        self.before = {name: first[name].copy() for name in self.results}
        total = sum(x.nbytes for x in first.values())
        count = min(most, 1 + 4 * CACHE_BYTES // total)
        self.sets = [first, *({name: x.copy() for name, x in first.items()} for _ in range(count - 1))]

    def launches(self, side: Mapping[str, Any], folder: Path) -> list[Launch]:
        """One tree's launches of a case, on each set; its machine code is loaded anew."""
        loaded, stream = gpu.load_sequence(sequence(side, folder)), gpu.runtime.current_stream()
        addresses = [{name: int(x.data.ptr) for name, x in one.items()} for one in self.sets]
        return [partial(loaded, at, stream) for at in addresses]

    def computed(self, launch: Launch) -> dict[str, Any]:
        """The results of a launch on the first set, as it was at the beginning."""
        for name in self.results:
            self.sets[0][name][...] = self.before[name]
        launch()
        return {name: self.sets[0][name].copy() for name in self.results}

    def differing(self, launches: Sequence[list[Launch]]) -> int:
        """Bytes in which the results of two trees differ."""
        base, now = (self.computed(one[0]) for one in launches)
        return sum(int((base[name] != now[name]).sum()) for name in self.results)


def rounded(case: Mapping[str, Any]) -> bool:
    """Whether results of a case may differ by rounding, and this tree's are within the family's bound."""
    if not case:
        return False
    family, problem, config = kernel_adapter.chosen(case)
    given = checks_of(family).buffers(problem, checks_of(family).trials(problem)[0], 0)
    if checks_of(family).expected(problem, config, given).allowed is None:
        return False
    return verify(family, problem, config, target="gpu").passed


# --- the clock -------------------------------------------------------------------------------------------


class Clock:
    """Times launches between two events, behind writes that empty the L2 and keep the GPU busy meanwhile."""

    def __init__(self) -> None:
        import cupy

        self.start, self.stop = cupy.cuda.Event(), cupy.cuda.Event()
        self.elapsed = cupy.cuda.get_elapsed_time
        self.junk = gpu.device_empty((FLUSH_BYTES,), "uint8")
        self.flush(1)
        self.flush_ms = max(self.between(lambda: self.flush(4)) / 4, 1e-3)

    def flush(self, times: int) -> None:
        """Write the junk so often."""
        for _ in range(times):
            self.junk.data.memset_async(0, FLUSH_BYTES)

    def between(self, work: Callable[[], None], flushes: int = 0) -> float:
        """Milliseconds of the GPU for what is launched."""
        self.flush(flushes)
        self.start.record()
        work()
        self.stop.record()
        self.stop.synchronize()
        return float(self.elapsed(self.start, self.stop))

    def samples(self, contenders: Sequence[list[Launch]], rounds: int) -> list[list[float]]:
        """Milliseconds per launch of each contender, round by round; every other round goes backwards."""

        def several(contender: list[Launch], count: int) -> Launch:
            def launch() -> None:
                for n in range(count):
                    contender[n % len(contender)]()

            return launch

        plan = []
        for contender in contenders:
            self.between(several(contender, len(contender)))
            begun = time.perf_counter()
            several(contender, len(contender))()
            host_ms = 1e3 * (time.perf_counter() - begun) / len(contender)
            ms = max(self.between(several(contender, 1), 1), 1e-3)
            count = max(1, min(MOST_LAUNCHES, round(SAMPLE_MS / ms)))
            plan.append((count, 1 + ceil(host_ms * count / self.flush_ms)))
        found: list[list[float]] = [[] for _ in contenders]
        for number in range(rounds):
            order = range(len(contenders))
            for which in order if number % 2 == 0 else reversed(order):
                count, flushes = plan[which]
                ms = self.between(several(contenders[which], count), flushes)
                found[which].append(ms / count)
        return found


def ratio(base: Sequence[float], now: Sequence[float]) -> float:
    """The median of the rounds' ratios."""
    return statistics.median(a / b for a, b in zip(base, now, strict=True))


# --- the table -------------------------------------------------------------------------------------------


@dataclass
class Table:
    """What was seen of the cases so far."""

    ratios: dict[str, float] = field(default_factory=dict)
    alike: list[float] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    equal: int = 0

    def row(self, pair: Pair, folder: Path, clock: Clock, copies: bool) -> None:
        """Compare and time a case; `copies`: the older tree's machine code beside itself too."""
        held = Buffers(pair, MOST_SETS)
        base, now = held.launches(pair.base, folder), held.launches(pair.now, folder)
        differing = held.differing([base, now])
        if differing and not rounded(pair.asked):
            self.wrong.append(f"{pair.case}: {differing} bytes of the results differ")
            print(f"| {pair.case} | - | - | results differ in {differing} bytes |", flush=True)
            return
        contenders = [base, now] + ([held.launches(pair.base, folder)] if copies else [])
        found = clock.samples(contenders, ROUNDS)
        share, notes = ratio(found[0], found[1]), " other order of sums, verified" if differing else ""
        if copies:
            self.alike.append(ratio(found[0], found[2]))
            notes += f" A/A {self.alike[-1]:.3f}"
        if share < LEAST:
            notes += f" first {share:.3f}"
            found = clock.samples([base, now], AGAIN)
            share = ratio(found[0], found[1])
        self.ratios[pair.case] = share
        us = " | ".join(f"{1e3 * statistics.median(one):.2f}" for one in found[:2])
        print(f"| {pair.case} | {us} | {share:.3f}{notes} |", flush=True)

    def same(self, pair: Pair, folder: Path, clock: Clock) -> None:
        """Time equal machine code beside itself: it counts as 1.00 whatever is seen."""
        held = Buffers(pair, MOST_SETS)
        found = clock.samples([held.launches(side, folder) for _, side in pair.sides], ROUNDS)
        self.alike.append(ratio(*found))
        us = " | ".join(f"{1e3 * statistics.median(one):.2f}" for one in found)
        print(f"| {pair.case} | {us} | equal, A/A {self.alike[-1]:.3f} |", flush=True)

    @property
    def mean(self) -> float:
        """The geometric mean over all cases that both trees compute."""
        return statistics.geometric_mean([*self.ratios.values(), *([1.0] * self.equal)] or [1.0])

    def verdict(self) -> int:
        """Print what it all comes to; the exit status."""
        slow = {case: share for case, share in self.ratios.items() if share < LEAST}
        for case, share in sorted(slow.items(), key=lambda pair: pair[1]):
            print(f"slower: {case}: {share:.3f}")
        print(*self.wrong, sep="\n")
        if self.alike:
            spread = f"{min(self.alike):.3f} to {max(self.alike):.3f}"
            print(f"A/A of {len(self.alike)}: {spread}, mean {statistics.geometric_mean(self.alike):.4f}")
        timed = [*self.ratios.values()]
        if timed:
            print(f"{len(timed)} timed: {min(timed):.3f} to {max(timed):.3f}, {len(slow)} under {LEAST}")
        print(f"{self.equal} with equal machine code; geometric mean of all {self.mean:.4f}")
        return 1 if slow or self.wrong or round(self.mean, 3) < 1 else 0


def run(folder: Path, seconds: float) -> int:
    """Time all cases of a folder, for so many seconds at most.  Raises UnsupportedError without a GPU."""
    status = gpu.require_gpu()
    end, table, clock = time.monotonic() + seconds, Table(), Clock()
    found = pairs(folder)
    print(f"{status.name}, {len(found)} cases\n| case | base us | now us | base / now |\n|---|---:|---:|---|")
    table.wrong += [f"{pair.case}: {pair.raised}" for pair in found if pair.only_before]
    unasked = [pair for pair in found if pair.raised and not pair.only_before]
    equal, timed = [x for x in found if x.equal], [x for x in found if not (x.raised or x.equal)]
    table.equal = len(equal)
    for pair in equal[:: max(1, len(equal) // PAIRS)][:PAIRS]:
        table.same(pair, folder, clock)
        free()
    for number, pair in enumerate(timed):
        if time.monotonic() > end:
            table.wrong.append(f"{len(timed) - number} cases were not timed: {seconds:.0f} s were not enough")
            break
        table.row(pair, folder, clock, number % ALIKE == 0)
        free()
    if unasked:
        names = "; ".join(x.case for x in unasked)
        print(f"{len(unasked)} cases that the older tree does not compute: {names}")
    return table.verdict()


def free() -> None:
    """Give the memory of a case back."""
    import cupy

    cupy.get_default_memory_pool().free_all_blocks()


# --- the program -----------------------------------------------------------------------------------------


def cases_of(count: int, seed: int) -> Iterator[tuple[str, Mapping[str, Any]]]:
    """The frozen cases, and so many random ones."""
    from tests.frozen.kernel_cases import drawn, label
    from tests.frozen.kernel_freeze import stored

    frozen = [one["case"] for one in stored()["cases"]]
    for case in {label(case): case for case in (*frozen, *drawn(seed, count))}.values():
        yield label(case), case


def make(folder: Path, base: str, count: int, seed: int) -> None:
    """The first step; says what has equal machine code."""
    prepared(folder, list(cases_of(count, seed)), base_tree(base), base)
    found = pairs(folder)
    for pair in found:
        if not pair.equal:
            print(f"{pair.case}: {pair.raised or 'other machine code, or launched otherwise'}")
    equal = sum(pair.equal for pair in found)
    both = sum(not pair.raised for pair in found)
    nbytes = sum(path.stat().st_size for path in folder.iterdir())
    size = f"{nbytes / 2**20:.1f} MiB in {folder}"
    print(f"{both} cases of both trees, {equal} with equal machine code; {size}")


def main(words: Sequence[str] | None = None) -> int:
    """See the module's text."""
    parser = options(__doc__, seed=0)
    parser.add_argument("--prepare", type=Path, metavar="DIR", help="the first step alone, into a folder")
    parser.add_argument("--run", type=Path, metavar="DIR", help="the second step alone, from a folder")
    parser.add_argument("--base", default=RELEASE, metavar="REV", help="the older tree")
    parser.add_argument("--draw", type=int, default=0, metavar="N", help="further random cases")
    parser.add_argument("--seconds", type=float, default=420.0, help="for all that is timed")
    given = parser.parse_args(words)
    if given.prepare is not None or given.run is None:
        make(given.prepare or FOLDER, given.base, given.draw, given.seed)
    if given.run is not None:
        if not gpu.gpu_status().available:
            print(f"running kernels needs a GPU: {gpu.gpu_status().reason}", file=sys.stderr)
            return 2
        return run(given.run, given.seconds)
    if given.prepare is None:
        if gpu.gpu_status().available:
            return run(FOLDER, given.seconds)
        print(f"nothing is timed: {gpu.gpu_status().reason}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
