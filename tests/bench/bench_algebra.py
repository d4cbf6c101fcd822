"""What an operation costs: microseconds a call, ours, pycute's and tensor-layouts', in one run.

    python tests/bench/bench_algebra.py

Every operation runs over 1,000 operands that were built before and differ in the extent of their slowest
mode; nothing is cached anywhere and the garbage collector is on.  The libraries take turns, and the median
of 7 rounds is printed.  Then the decision procedures by size, from 2^10 to 2^40 elements.

Layouts: a row-major tile, a tile of tiles, rank 4, a padded tile, a nested column-major tile (the kinds that
kernels use most), and one of rank 8.
"""

from __future__ import annotations

import math
import platform
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg import algebra
from layoutalg.errors import UndecidedError
from layoutalg.int_tuple import flatten, unflatten
from layoutalg.layout import Layout
from layoutalg.notation import parse
from layoutalg.swizzle import AnyLayout, ComposedLayout, Swizzle
from tests.peers import OPERATIONS, PEERS, present, to_peer

COUNT, ROUNDS = 1000, 7
LAYOUTS = {
    "row": ("(64,32):(32,1)", 0, 8),
    "tiled": ("((8,8),(4,8)):((32,256),(1,4))", 1, 1),
    "rank 4": ("(8,4,16,4):(4,1,32,512)", 3, 1),
    "padded": ("(64,32):(64,1)", 0, 8),
    "nested": ("((4,16),(2,16)):((1,8),(4,128))", 3, 1),
    "rank 8": ("(4,2,4,2,4,2,4,4):(2,1,16,8,128,64,512,2048)", 7, 1),
}
"""Name -> (layout, leaf that grows, by how much)."""

NAMES = ("layoutalg", *PEERS)


def operands(name: str) -> list[Layout]:
    """The layouts of one row of the table."""
    text, leaf, step = LAYOUTS[name]
    base = parse(text)
    assert isinstance(base, Layout)
    out: list[Layout] = []
    for k in range(COUNT):
        extents = list(flatten(base.shape))
        extents[leaf] += step * k
        out.append(Layout(unflatten(tuple(extents), base.shape), base.stride))
    return out


def second(operation: str) -> Layout:
    """The right operand of a binary operation."""
    if operation == "composition":
        return Layout((8, 4), (4, 1))
    return Layout(4, 2) if operation.endswith("divide") else Layout((4, 2), (2, 1))


Job = tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]


def jobs(name: str) -> dict[str, dict[str, Job]]:
    """Operation -> library -> (function, arguments of each call)."""
    layouts = operands(name)
    sides = {who: layouts if who == "layoutalg" else [to_peer(who, a) for a in layouts] for who in _here()}
    out: dict[str, dict[str, Job]] = {"construct": {}, "call": {}}
    crd = (1,) * algebra.rank(layouts[0])
    for who, mine in sides.items():
        out["construct"][who] = (type(mine[0]), [(a.shape, a.stride) for a in mine])
        out["call"][who] = (lambda a: a(*crd), [(a,) for a in mine])
    for op in OPERATIONS:
        out[op.name] = {}
        for who, mine in sides.items():
            function = op.ours if who == "layoutalg" else op.theirs(who)
            if function is not None:
                b = second(op.name)
                more = (b if who == "layoutalg" else to_peer(who, b),) if op.arity == 2 else ()
                out[op.name][who] = (function, [(a, *more) for a in mine])
    return out


def _here() -> list[str]:
    return [who for who in NAMES if who == "layoutalg" or present(who)]


def microseconds(job: Job) -> float:
    """One round: the mean of all its calls."""
    function, arguments = job
    start = time.perf_counter()
    for call in arguments:
        function(*call)
    return 1e6 * (time.perf_counter() - start) / len(arguments)


def compare() -> None:
    """The table, and what it comes to."""
    ratios: dict[str, list[tuple[float, str]]] = {peer: [] for peer in PEERS}
    print(f"{'operation':18}{'layout':9}" + "".join(f"{who:>16}" for who in NAMES))
    for name in LAYOUTS:
        for operation, sides in jobs(name).items():
            rounds: dict[str, list[float]] = {who: [] for who in sides}
            for _ in range(ROUNDS):
                for who, job in sides.items():
                    rounds[who].append(microseconds(job))
            medians = {who: statistics.median(times) for who, times in rounds.items()}
            cells = "".join(f"{medians[who]:16.2f}" if who in medians else f"{'-':>16}" for who in NAMES)
            print(f"{operation:18}{name:9}{cells}", flush=True)
            for peer in PEERS:
                if peer in medians and operation != "construct":
                    ratios[peer].append((medians[peer] / medians["layoutalg"], f"{operation}, {name}"))
    for peer, found in ratios.items():
        if not found:
            print(f"{peer} is not installed; `make peers` installs it")
            continue
        mean = math.exp(statistics.fmean(math.log(ratio) for ratio, _ in found))
        print(
            f"{peer}: {mean:.2f} times our time (geometric mean of {len(found)} rows, construction aside); "
            f"the least ratio is {min(found)[0]:.2f} ({min(found)[1]})"
        )


def sized(bits: int) -> dict[str, AnyLayout]:
    """Layouts of 2^bits elements or about as many."""
    half, third, d = 1 << bits // 2, 1 << bits // 3, 1 << bits
    row = Layout((half, half), (half, 1))
    return {
        "row": row,
        "padded": Layout((half, half), (half + 8, 1)),
        "swizzled": ComposedLayout(Swizzle(3, 4, 3), 0, row),
        "swizzled, padded": ComposedLayout(Swizzle(3, 4, 3), 0, Layout((half, half), (half + 8, 1))),
        "linear, 9 between": Layout((half, half // 8, 8), (72, 72 * half, 9)),
        "woven, rank 3": Layout((third, third, half * half // third**2), (30011, 40009, 50021)),
        "woven, sparse": Layout((third, third, half * half // third**2), (d // 3, d // 5, d // 7)),
        "rank 4, any": Layout((3, half // 2, 5, half // 4), (half, 3 * half, 1, 7)),
    }


def decide() -> None:
    """The decision procedures, by size."""
    sizes = (10, 20, 30, 40)
    print(f"\n{'question':18}{'layout':20}" + "".join(f"{f'2^{bits}':>12}" for bits in sizes))
    questions: dict[str, Callable[[AnyLayout], object]] = {
        name: getattr(algebra, name)
        for name in (
            *("is_injective", "is_surjective", "is_bijective", "is_contiguous"),
            *("cosize", "image_size", "footprint", "aliasing"),
        )
    }
    questions["same_function"] = lambda a: algebra.same_function(a, a)
    questions["overlap"] = lambda a: algebra.overlap(a, a)
    for question, ask in questions.items():
        for name in sized(10):
            cells = []
            for bits in sizes:
                layout = sized(bits)[name]
                try:
                    ask(layout)
                except UndecidedError:
                    cells.append("undecided")
                    continue
                times = [microseconds((ask, [(layout,)] * 20)) for _ in range(ROUNDS)]
                cells.append(f"{statistics.median(times):.1f}")
            print(f"{question:18}{name:20}" + "".join(f"{cell:>12}" for cell in cells), flush=True)


def _processor() -> str:
    """The model, where the system tells it."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or platform.machine()
    return next((x.partition(": ")[2] for x in lines if x.startswith("model name")), platform.machine())


def main() -> None:
    """Print both tables."""
    print(f"{_processor()}, Python {platform.python_version()}, microseconds a call")
    compare()
    decide()


if __name__ == "__main__":
    main()
