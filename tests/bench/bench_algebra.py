"""What an operation costs: microseconds per call, ours, pycute's and tensor-layouts', in one run.

    python tests/bench/bench_algebra.py
    python tests/bench/bench_algebra.py [--base 5299a5d] [--only TEXT]

Every operation runs over 1,000 operands that were built before and differ in the extent of their slowest
mode; nothing is cached anywhere and the garbage collector is on.  The libraries take turns, and the median
of 7 rounds is printed.  A composition is timed with a tiler of two modes and with one of one mode.  Then
the decision procedures by size, from 2^10 to 2^40 elements.

With --base the same operations, calls of layouts on what they are called on, and decision procedures are
timed beside the tree of a revision, by default of release 0.1.0; beyond the limits of `against.py` the exit
code is 1.

The last table has the geometric means over the layouts, and the least, as docs/measured.md prints them.

Layouts: a row-major tile, a tile of tiles, rank 4, a padded tile, a nested column-major tile (the kinds that
kernels use most), and one of rank 8.
"""

from __future__ import annotations

import argparse
import contextlib
import itertools
import platform
import statistics
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # else the tree that is timed stands there
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

import layoutalg as la
from layoutalg import ComposedLayout, Layout, Swizzle, flatten, parse
from layoutalg.errors import UndecidedError
from layoutalg.layout import unflatten
from tests.judges.exports import PUBLIC

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


def operands(name: str) -> list[Layout]:
    """The layouts of one row of the table."""
    text, leaf, step = LAYOUTS[name]
    base: Any = parse(text)
    out: list[Layout] = []
    for k in range(COUNT):
        extents = list(flatten(base.shape))
        extents[leaf] += step * k
        shape: Any = unflatten(tuple(extents), base.shape)
        out.append(Layout(shape, base.stride))
    return out


def second(operation: str) -> Layout:
    """The right operand of a binary operation."""
    if operation == "composition":
        return Layout((8, 4), (4, 1))
    return Layout(4, 2) if operation.endswith("divide") else Layout((4, 2), (2, 1))


ONE_MODE, TILER = "composition, 8:2", Layout(8, 2)
"""A composition with a tiler of one mode, which costs the other libraries less."""

Job = tuple[Callable[..., Any], Sequence[tuple[Any, ...]]]


def jobs(name: str) -> dict[str, dict[str, Job]]:
    """Operation -> library -> (function, arguments of each call)."""
    from tests.judges.peers import OPERATIONS, PEERS, present, to_peer

    ours = operands(name)
    crd = (1,) * la.rank(ours[0])
    out: dict[str, dict[str, Job]] = {"construct": {}, "call": {}}
    for who in ("layoutalg", *filter(present, PEERS)):
        own = who == "layoutalg"
        mine: list[Any] = ours if own else [to_peer(who, a) for a in ours]
        out["construct"][who] = type(mine[0]), [(a.shape, a.stride) for a in mine]
        out["call"][who] = lambda a: a(*crd), [(a,) for a in mine]
        for op in OPERATIONS:
            function = op.ours if own else op.theirs(who)
            if function is not None:
                tilers = {op.name: second(op.name)} | ({ONE_MODE: TILER} if op.name == "composition" else {})
                for label, b in tilers.items():
                    more = (b if own else to_peer(who, b),) if op.arity == 2 else ()
                    out.setdefault(label, {})[who] = function, [(a, *more) for a in mine]
    return out


def microseconds(job: Job) -> float:
    """One round: the mean of all its calls."""
    function, arguments = job
    start = time.perf_counter()
    for call in arguments:
        function(*call)
    return 1e6 * (time.perf_counter() - start) / len(arguments)


def compare() -> None:
    """The table, and what it comes to."""
    from tests.judges.peers import PEERS

    names = ("layoutalg", *PEERS)
    ratios: dict[str, list[tuple[float, str]]] = {peer: [] for peer in PEERS}
    times: dict[str, dict[str, list[float]]] = {}
    print(f"{'operation':18}{'layout':9}" + "".join(f"{who:>16}" for who in names))
    for name in LAYOUTS:
        for operation, sides in jobs(name).items():
            rounds: dict[str, list[float]] = {who: [] for who in sides}
            for _ in range(ROUNDS):
                for who, job in sides.items():
                    rounds[who].append(microseconds(job))
            medians = {who: statistics.median(timed) for who, timed in rounds.items()}
            for who, median in medians.items():
                times.setdefault(operation, {}).setdefault(who, []).append(median)
            cells = "".join(f"{medians[who]:16.2f}" if who in medians else f"{'-':>16}" for who in names)
            print(f"{operation:18}{name:9}{cells}", flush=True)
            for peer in PEERS:
                if peer in medians and operation != "construct":
                    ratios[peer].append((medians[peer] / medians["layoutalg"], f"{operation}, {name}"))
    for peer, found in ratios.items():
        if not found:
            print(f"{peer} is not installed; `make peers` installs it")
            continue
        mean = statistics.geometric_mean([ratio for ratio, _ in found])
        print(
            f"{peer}: {mean:.2f} times our time (geometric mean of {len(found)} rows, construction aside); "
            f"the least ratio is {min(found)[0]:.2f} ({min(found)[1]})"
        )
    summary(times)


def summary(times: dict[str, dict[str, list[float]]]) -> None:
    """Geometric means over the layouts: our microseconds, and the multiples of them with the least."""
    from tests.judges.peers import PEERS

    for operation, sides in times.items():
        cells = [f"{statistics.geometric_mean(sides['layoutalg']):.1f}"]
        for peer in PEERS:
            found = [b / a for a, b in zip(sides["layoutalg"], sides.get(peer, []), strict=False)]
            cells.append(f"{statistics.geometric_mean(found):.2f} ({min(found):.2f})" if found else "-")
        print(f"| `{operation}` | {' | '.join(cells)} |")


def sized(bits: int) -> dict[str, Any]:
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
    names = "is_injective is_surjective is_bijective is_contiguous cosize image_size footprint aliasing"
    questions: dict[str, Callable[[Any], object]] = {name: getattr(PUBLIC, name) for name in names.split()}
    questions["same_function"] = lambda a: la.same_function(a, a)
    questions["overlap"] = lambda a: la.decide.overlap(a, a)
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


# --- beside an older tree --------------------------------------------------------------------------------

UNARY = (
    *("coalesce", "complement", "right_inverse", "left_inverse", "nullspace", "flatten", "filter", "sort"),
    *("cosize", "size", "rank", "depth", "is_injective", "is_bijective", "image_size", "find_collision"),
)
BINARY = (
    *("composition", "logical_divide", "zipped_divide", "tiled_divide", "flat_divide", "logical_product"),
    *("zipped_product", "tiled_product", "blocked_product", "raked_product", "max_common_vector"),
    *("same_function", "overlap"),
)
PER_CASE = 20

Calls = Sequence[tuple[Any, ...]]


def over(function: Callable[..., object], calls: Calls) -> Callable[[], object]:
    """Work that makes each of the calls once."""

    def work() -> None:
        for call in calls:
            function(*call)

    return work


def cases() -> dict[str, Callable[[], object]]:
    """What is timed beside an older tree: PER_CASE calls each."""
    every = itertools.chain(_of_layouts(), _of_shapes_and_texts(), _decisions())
    return {name: over(function, calls) for name, function, calls in every}


def _of_layouts() -> Iterator[tuple[str, Callable[..., object], Calls]]:
    """Operations on layouts and their calls."""
    import numpy

    lanes = numpy.arange(32)
    for name in LAYOUTS:
        mine = operands(name)[:PER_CASE]
        swizzled = [ComposedLayout(Swizzle(3, 3, 3), 0, a) for a in mine]
        yield f"construct, {name}", Layout, [(a.shape, a.stride) for a in mine]
        few = ("coalesce", "composition", "logical_divide", "image_size", "is_injective")
        for kind, layouts, ops in (("", mine, (*UNARY, *BINARY)), ("swizzled ", swizzled, few)):
            for op in ops:
                more = (second(op),) if op in BINARY else ()
                yield f"{op}, {kind}{name}", getattr(PUBLIC, op), [(a, *more) for a in layouts]
            crd = (1,) * la.rank(mine[0])
            for label, value in (
                ("an int", (137,)), ("a tuple", crd), ("32 int64", (lanes,)), ("a numpy.int64", (lanes[7],)),
                ("32 int32", (lanes.astype("int32"),)), ("4096 int64", (numpy.arange(4096) % 512,)),
                ("a tuple with an array", (lanes, *crd[1:])),
            ):  # fmt: skip
                yield f"call on {label}, {kind}{name}", lambda a, v=value: a(*v), [(a,) for a in layouts]


def _of_shapes_and_texts() -> Iterator[tuple[str, Callable[..., object], Calls]]:
    """Coordinates and shapes, swizzles, parsing and printing."""
    import numpy

    shapes: tuple[tuple[Any, Any], ...] = (((4, 8), (3, 5)), (((2, 4), (8, 16)), ((1, 3), (5, 9))), (64, 37))
    for shape, crd in shapes:
        yield f"crd2idx of {crd}", la.crd2idx, [(crd, shape)] * PER_CASE
        yield f"idx2crd in {shape}", la.idx2crd, [(19, shape)] * PER_CASE
        yield f"product of {shape}", la.layout.product, [(shape,)] * PER_CASE
        yield f"flatten of {shape}", la.flatten, [(shape,)] * PER_CASE
        yield f"compatible with {shape}", la.layout.compatible, [(la.layout.product(shape), shape)] * PER_CASE
    for swizzle in (Swizzle(3, 3, 3), Swizzle(2, 4, -3)):
        for label, value in (
            ("an int", 137),
            ("32 int64", numpy.arange(32)),
            ("a numpy.int64", numpy.int64(9)),
        ):
            yield f"{swizzle} of {label}", swizzle, [(value,)] * PER_CASE
    for text in ("(64,32):(32,1)", "Sw<3,3,3> o 0 o (64,64):(64,1)", "((4,16),(2,16)):((1,8),(4,128))"):
        yield f"parse {text}", parse, [(text,)] * PER_CASE
        yield f"str of {text}", str, [(parse(text),)] * PER_CASE


def _decisions() -> Iterator[tuple[str, Callable[..., object], Calls]]:
    """Questions that are decided of small and large layouts."""
    questions = ("is_injective", "is_surjective", "is_bijective", "cosize", "image_size", "footprint")
    for bits, question in itertools.product((10, 40), questions):
        for name, layout in sized(bits).items():
            with contextlib.suppress(UndecidedError):
                getattr(PUBLIC, question)(layout)
                yield f"{question}, {name}, 2^{bits}", getattr(PUBLIC, question), [(layout,)]


def main() -> None:
    """Print both tables, or the one beside an older tree."""
    from tests.bench import against

    parser = argparse.ArgumentParser(description="what an operation costs")
    against.options(parser)
    asked = parser.parse_args()
    if asked.base:
        raise SystemExit(against.compare("bench_algebra", asked.base, asked.only))
    print(f"{_processor()}, Python {platform.python_version()}, microseconds per call")
    compare()
    decide()


if __name__ == "__main__":
    main()
