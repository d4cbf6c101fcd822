"""What the analysis of a whole tile costs, by size, and what a synthesis costs: ms, the least of 30 runs.

    python tests/bench/bench_analysis.py
    python tests/bench/bench_analysis.py [--base 5299a5d] [--only TEXT]

Tiles of 2^13 to 2^40 elements: closed forms do the same work for all of them.  Where tensor-layouts is
installed (`pip install tensor-layouts`), its per-warp bank conflicts and coalescing are timed in the same
run on the first tile with the same threads and values; it counts thread by thread, so not on larger ones.
The aims: 1 ms per analysis whatever the size, 50 times less than tensor-layouts, 50 ms per synthesis.

With --base the same analyses and syntheses and single instructions are timed beside the
tree of a revision, by default of release 0.1.0; beyond the limits of `against.py` the exit code is 1.
"""

from __future__ import annotations

import argparse
import importlib
import importlib.util
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

if __name__ == "__main__":  # else the tree that is timed stands there
    sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from layoutalg import ComposedLayout, Layout, Swizzle
from layoutalg.analysis import Access, analyze, sectors, wavefronts
from layoutalg.dtype import DTYPES
from layoutalg.synthesis import check_certificate, synthesize

RUNS = 30
SIZES = ((128, 64), (1 << 10, 1 << 10), (1 << 15, 1 << 15), (1 << 20, 1 << 20))
CASES = (
    *(("ldmatrix.x4", "f16", pad, swizzle) for pad in (0, 8) for swizzle in (None, Swizzle(3, 3, 3))),
    ("ld.shared.b32@col", "f32", 1, None), ("ld.global.b128", "f16", 0, None),
    ("ld.global.b16@col", "f16", 0, None),
)  # fmt: skip
"""(access, element, padding in elements, swizzle)."""

SYNTHESES = (
    ((64, 64), "f16", ("ldmatrix.x4", "st.shared.b128")),
    ((32, 128), "f32", ("st.shared.b32@row", "ld.shared.b32@col")),
    ((128, 128), "u8", ("st.shared.b32@row", "ld.shared.b128@col")),
)


def least_ms(work: Callable[[], object]) -> float:
    """The least of RUNS calls after one to warm up: the work alone, not what else the machine does."""
    work()
    times = []
    for _ in range(RUNS):
        start = time.perf_counter()
        work()
        times.append(1e3 * (time.perf_counter() - start))
    return min(times)


def tile_of(shape: tuple[int, int], padding: int, swizzle: Swizzle | None) -> Any:
    """Row-major, padded and swizzled."""
    plain = Layout(shape, (shape[1] + padding, 1))
    return plain if swizzle is None else ComposedLayout(swizzle, 0, plain)


def compare() -> None:
    """Ours and tensor-layouts' on 128 x 64 halves, 256 threads of 32 values: thread t reads row t / 2."""
    if importlib.util.find_spec("tensor_layouts") is None:
        print("tensor-layouts is not installed; nothing to compare with")
        return
    theirs = importlib.import_module("tensor_layouts")
    tile, tv = Layout((128, 64), (64, 1)), Layout(((2, 128), 32), ((4096, 1), 128))
    composed = theirs.Layout(((2, 128), 32), ((32, 64), 1))
    for op, name in (("shared", "per_group_bank_conflicts"), ("global", "per_group_coalescing")):
        count, op = getattr(importlib.import_module("tensor_layouts.analysis"), name), f"ld.{op}.b16"
        ours = least_ms(partial(analyze, tile, Access(op, tv, DTYPES["f16"])))
        other = least_ms(partial(count, composed, element_bytes=2))
        print(f"{name:26} {other:8.2f}   {op:16} {ours:6.2f}   {other / ours:6.0f} times")


def cases() -> dict[str, Callable[[], object]]:
    """All that is timed beside an older tree."""
    out: dict[str, Callable[[], object]] = {}
    for spec, element, padding, swizzle in CASES:
        for shape in SIZES:
            tile = tile_of(shape, padding, swizzle)
            access = Access.of(spec, tile, DTYPES[element])
            what = f"{spec} {element}, {shape[0]} rows, padded {padding}, {swizzle or 'plain'}"
            out[f"analyze {what}"] = partial(analyze, tile, access)
        name = f"Access.of {spec} {element}, padded {padding}, {swizzle or 'plain'}"
        out[name] = partial(Access.of, spec, tile, DTYPES[element])
    for stride in (16, 144, 128):
        offsets = [stride * lane for lane in range(32)]
        for op in ("ld.shared.b32", "ld.shared.b128", "ldmatrix.x4"):
            out[f"wavefronts {op}, {stride} bytes apart"] = partial(wavefronts, op, offsets)
        for op in ("ld.global.b32", "ld.global.b128") if stride != 128 else ():
            out[f"sectors {op}, {stride} bytes apart"] = partial(sectors, op, offsets)
    for shape, element, accesses in SYNTHESES:
        what = f"{shape} {element}, {', '.join(accesses)}"
        out[f"synthesize {what}"] = partial(synthesize, shape, accesses, element=element)
        out[f"check_certificate {what}"] = partial(
            check_certificate, synthesize(shape, accesses, element=element)
        )
    return out


def main() -> None:
    """Print three tables, or the one beside an older tree."""
    from tests.bench import against

    parser = argparse.ArgumentParser(description="what an analysis costs")
    against.options(parser)
    asked = parser.parse_args()
    if asked.base:
        raise SystemExit(against.compare("bench_analysis", asked.base, asked.only))
    print("analyze".ljust(52), *(f"2^{(m * n).bit_length() - 1}".rjust(7) for m, n in SIZES), "  method")
    for spec, element, padding, swizzle in CASES:
        row, method = [], ""
        for shape in SIZES:
            tile = tile_of(shape, padding, swizzle)
            run = partial(analyze, tile, Access.of(spec, tile, DTYPES[element]))
            method = run().method
            row.append(least_ms(run))
        what = f"{spec} {element}, padded {padding}, {swizzle or 'no swizzle'}"
        print(what.ljust(52), *(f"{ms:7.2f}" for ms in row), f"  {method}")
    print()
    compare()
    print()
    for shape, element, accesses in SYNTHESES:
        search = partial(synthesize, shape, accesses, element=element)
        searching, checking = least_ms(search), least_ms(partial(check_certificate, search()))
        what = f"synthesize {shape} {element}, {', '.join(accesses)}"
        print(what.ljust(64), f"{searching:7.2f}   check {checking:6.2f}")


if __name__ == "__main__":
    main()
