"""Index functions there and back: identify(code(layout)) is the layout, over random layouts.

    python tests/bench/bench_index_code.py                        5,000 layouts, seed 20261122
    python tests/bench/bench_index_code.py --cases 100 --seed 3   fewer, others
    python tests/bench/bench_index_code.py --compiled 20          and so many compiled by check_index_function
    python tests/bench/bench_index_code.py --wild                 layouts over layouts and chains of swizzles

Layouts are as kernels have them: plain, nested, padded, broadcast, reversed, and under one swizzle or two;
those of --wild are drawn without such a measure, and what of them is refused or not identified is counted.
"""

from __future__ import annotations

import random
import sys
import time
from collections import Counter
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

import numpy as np

import layoutalg
from layoutalg import AnyLayout, ComposedLayout, Layout, LayoutAlgError, Swizzle, size
from layoutalg.layout import product
from layoutalg.testing import check_index_function
from tests.bench.options import options
from tests.draws import index_functions, random_layouts


def wild(rng: random.Random) -> AnyLayout | None:
    """A layout of any kind, of at most 2^14 coordinates; None where the draw is none."""
    text = rng.choice((random_layouts.layout, random_layouts.swizzled, random_layouts.stacked))(rng)
    names = {"Layout": Layout, "Swizzle": Swizzle, "ComposedLayout": ComposedLayout}
    try:
        drawn: AnyLayout = eval(text, names)  # noqa: S307 - a call that is written here
    except LayoutAlgError:
        return None
    return drawn if size(drawn) <= index_functions.LIMIT else None


def judged(layout: AnyLayout, to: str) -> str:
    """What becomes of one layout: its kind, or why it does not come back."""
    try:
        text = layoutalg.code(layout, to, "at")
    except LayoutAlgError as error:
        return f"code: {type(error).__name__}"
    shape = tuple(map(product, layout.shape)) if isinstance(layout.shape, tuple) else layout.shape
    found = layoutalg.identify(text, shape)
    if found.layout is None:
        return "not identified"
    indices = np.arange(size(layout))
    same = np.array_equal(found.layout(indices) + 0 * indices, layout(indices) + 0 * indices)
    return f"same, {found.kind}" if same else "WRONG"


def main() -> int:
    parser = options(__doc__, seed=20261122, cases=5000)
    parser.add_argument("--compiled", type=int, default=0)
    parser.add_argument("--wild", action="store_true")
    given = parser.parse_args()
    rng = random.Random(given.seed)
    counted: Counter[str] = Counter()
    start, cases = time.perf_counter(), 0
    while cases < given.cases:
        layout = wild(rng) if given.wild else index_functions.tile(rng)
        if layout is None or size(layout) > index_functions.LIMIT:
            continue
        to = rng.choice(("c", "cuda", "python"))
        result = judged(layout, to)
        counted[result] += 1
        if "same" not in result and not given.wild:
            print(f"{result}: {layout}")
        if cases < given.compiled:
            check_index_function(layoutalg.code(layout, to, "at"), layout, "at")
        cases += 1
    for result, count in counted.most_common():
        print(f"{count:6} {result}")
    print(f"{cases} layouts, {time.perf_counter() - start:.0f} s")
    lost = 0 if given.wild else sum(n for result, n in counted.items() if not result.startswith("same"))
    return 1 if counted["WRONG"] or lost else 0


if __name__ == "__main__":
    sys.exit(main())
