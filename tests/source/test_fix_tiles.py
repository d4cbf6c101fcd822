"""Patches of drawn kernels with tiles: what they compute stays, at other sizes too, and counts hold.

python -m tests.source.test_fix_tiles 500 SEED
"""

from __future__ import annotations

import random
import sys
from collections import Counter

import pytest

from layoutalg.errors import LayoutAlgError
from layoutalg.source import fixes_of, read_kernel
from layoutalg.source.fixes import patched_fixes
from layoutalg.source.fixes.sites import Texts
from tests.source.fix_kernels import BLOCK, results
from tests.source.tile_kernels import TileKernel, drawn, host

SIZES = (32, 31, 24, 40, 48)
"""Values of n for which a kernel and its patched text must agree."""


def patched(kernel: TileKernel, counts: Counter[str]) -> str:
    """The text with the patch of its fixes."""
    try:
        reading = read_kernel(kernel.whole, BLOCK, sets={"n": 32})
    except LayoutAlgError as error:
        counts[f"refused: {error.message[:60]}"] += 1
        return kernel.whole
    fixes, _ = fixes_of(reading)
    edits = patched_fixes(fixes)
    parts = {(fix.array, fix.line, fix.start) for fix in fixes}
    counts.update(
        kernels=1, conflicts=len(parts), patched=len(edits), partial=sum(bool(f.left) for f in edits)
    )
    text = Texts(reading).changed([edit for fix in edits for edit in fix.edits])[0].decode()
    if edits:
        again = read_kernel(text, BLOCK, sets={"n": 32})
        moved = {(fix.array, fix.line) for fix in edits}
        for name, _ in moved:
            own = [fix for fix in fixes if fix.array == name]
            before, after = (sum(a.total or 0 for a in r.memory if a.array == name) for r in (reading, again))
            assert before - after == sum(f.before - f.after for f in edits if f.array == name), (own, text)
    return text


def judged(seed: int, count: int) -> Counter[str]:
    """How many parts have conflicts, and for how many there is a patch; an error where one is wrong."""
    rng = random.Random(seed)
    kernels = [drawn(rng, number) for number in range(count)]
    counts: Counter[str] = Counter()
    after = [patched(kernel, counts) for kernel in kernels]
    spaces = [
        "".join(f"namespace s{k.number} {{ {host(text)} }} using s{k.number}::k{k.number};\n"
                for k, text in zip(kernels, texts, strict=True))
        for texts in ([k.whole for k in kernels], after)
    ]  # fmt: skip
    for n, (one, other) in zip(SIZES, results(spaces, kernels, SIZES), strict=True):
        for kernel, text, differs in zip(kernels, after, (one != other).any(axis=1), strict=True):
            assert not differs, (seed, n, kernel.text, text)
    return counts


@pytest.mark.deep
def test_a_patch_keeps_what_a_kernel_computes() -> None:
    counts = judged(43, 2)
    assert counts["patched"] >= 2, counts


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(4))
def test_many_patches_keep_what_kernels_compute(seed: int) -> None:
    judged(seed, 9)


if __name__ == "__main__":
    kernels, begin = map(int, sys.argv[1:])
    print(sum((judged(begin + n, 10) for n in range(kernels // 10)), Counter[str]()))
