"""What `--fix` offers is pasted into drawn kernels: results stay, and counts are those that are promised.

python -m tests.source.test_fix_law 500 SEED
"""

from __future__ import annotations

import random
import re
import sys
from collections import Counter
from collections.abc import Sequence

import pytest

from layoutalg.arch import find_arch
from layoutalg.source import Fix, KernelReading, fixes_of, read_kernel
from layoutalg.source.costs import Launch, cost_of
from layoutalg.source.fixes import patched_fixes
from tests.source.fix_kernels import BLOCK, Drawn, Moved, drawn, results, whole_text


def pasted(text: str, fixes: Sequence[Fix]) -> str:
    """The text with the edits of some fixes."""
    lines = text.encode().split(b"\n")
    for edit in sorted({edit for fix in fixes for edit in fix.edits}, reverse=True):
        row, at, before = lines[edit.line - 1], edit.column - 1, edit.before.encode()
        assert row[at : at + len(before)] == before, edit
        lines[edit.line - 1] = row[:at] + edit.after.encode() + row[at + len(before) :]
    return b"\n".join(lines).decode()


def counted(reading: KernelReading, name: str, line: int) -> int:
    """Wavefronts of all accesses to the array that is declared in a line, those of helpers for it alone."""
    own = (t for t in reading.touches if t.declared and (t.declared.name, t.declared.line) == (name, line))
    machine = find_arch(reading.arch)
    return sum(cost_of(touch, Launch(touch.block, reading.grid), machine).total for touch in own)


def number_of(text: str, line: int) -> int:
    """The number of the kernel in which a line is."""
    above = "\n".join(text.split("\n")[:line])
    return int(re.findall(r"__global__ void k(\d+)\(", above)[-1])


def judged(seed: int, count: int) -> Counter[str]:
    """How many edits and rewritten kernels there were; an error where one of them is wrong."""
    rng = random.Random(seed)
    kernels = [drawn(rng, number) for number in range(count)]
    text = whole_text(kernels)
    fixes, _ = fixes_of(read_kernel(text, BLOCK, sets={"n": 1000}))
    edits = patched_fixes(fixes)
    after = pasted(text, edits)
    promised = {number_of(text, fix.line): fix for fix in fixes if may_be_rewritten(fix, kernels, text)}
    other = whole_text(kernels, {n: rewritten(fix, n) for n, fix in promised.items()})
    ((right, pasted_results, rewritten_results),) = results([text, after, other], kernels)
    for changed, out in ((after, pasted_results), (other, rewritten_results)):
        wrong = [
            k.rendered() for k, differs in zip(kernels, (out != right).any(axis=1), strict=True) if differs
        ]
        assert not wrong, (seed, wrong, changed)
    again = read_kernel(after, BLOCK, sets={"n": 1000})
    for fix in edits:
        assert counted(again, fix.array, fix.line) == fix.after, (seed, fix)
    again = read_kernel(other, BLOCK, sets={"n": 1000})
    for number, fix in promised.items():
        (declared,) = (d for d in again.shared if number_of(other, d.line) == number)
        assert counted(again, declared.name, declared.line) == fix.after, (seed, fix)
    return Counter(fixes=len(fixes), edits=len(edits), rewritten=len(promised))


def may_be_rewritten(fix: Fix, kernels: Sequence[Drawn], text: str) -> bool:
    """Whether the generator can write the accesses of a fix as it says: none but elements, of one array."""
    number = number_of(text, fix.line)
    arrays = kernels[number].text.count("__shared__")
    resized = fix.rewrite and "declare" in fix.rewrite[0] and kernels[number].kind != "line"
    return not fix.edits and len(fix.rewrite) == arrays == 1 and kernels[number].clean and not resized


def rewritten(fix: Fix, number: int) -> Moved:
    """What the generator writes for a fix."""
    name = f"index_{number}"
    size = re.match(r"declare it as s\[(\d+)\]", fix.rewrite[0])
    pitch = re.search(r"i / (\d+)", fix.rewrite[0])
    function = fix.code.replace(f"{fix.array}_index", name)
    return Moved(function, name, int(pitch[1]) if pitch is not None else 0, size[1] if size else "")


@pytest.mark.deep
def test_a_fix_keeps_results_and_counts() -> None:
    found = judged(18, 8)
    assert found["edits"] >= 4 and found["rewritten"] >= 1, found


@pytest.mark.deep
@pytest.mark.parametrize("seed", range(3))
def test_many_fixes_keep_results_and_counts(seed: int) -> None:
    judged(seed, 25)


if __name__ == "__main__":
    kernels, begin = map(int, sys.argv[1:])
    print(sum((judged(begin + n, 25) for n in range(kernels // 25)), Counter[str]()))
